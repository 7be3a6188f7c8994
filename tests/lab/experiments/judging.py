"""Where the verdict on a claim changes."""

from __future__ import annotations

from alignkit.lab.experiments import Verdict


def bound(verdict_at, holds, fails):
    """The value at which a claim begins to fail, between one for which it holds and one for which it does not."""
    assert (verdict_at(holds), verdict_at(fails)) == (Verdict.HOLDS, Verdict.FAILS)
    for _ in range(22):
        middle = (holds + fails) / 2
        if verdict_at(middle) is Verdict.HOLDS:
            holds = middle
        else:
            fails = middle
    return fails
