"""The lines of a bitext, a pair of which is a sentence pair; validation text held out from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from alignkit.errors import AlignkitError

#: Without a validation text, the last pairs of the training text become one: at most this many, and at most one
#: in HELD_OUT_SHARE.
MOST_HELD_OUT, HELD_OUT_SHARE = 1000, 20


class LinePairs(NamedTuple):
    """Raw text: line m of ``source`` and line m of ``target`` are a sentence pair."""

    source: Sequence[str]
    target: Sequence[str]


def hold_out_pairs(lines: LinePairs) -> tuple[LinePairs, LinePairs]:
    """Split off the last 1,000 pairs, but at most one in twenty and at least one: (text, validation text)."""
    source, target = lines
    size = max(1, min(MOST_HELD_OUT, len(source) // HELD_OUT_SHARE))
    return LinePairs(source[:-size], target[:-size]), LinePairs(source[-size:], target[-size:])


def check_has_words(lines: LinePairs, purpose: str) -> None:
    """Raise AlignkitError if no pair has words on both sides; a network of blanks would still have a loss."""
    if not any(x.strip() and y.strip() for x, y in zip(*lines, strict=True)):
        raise AlignkitError(f"no pair with words on both sides to {purpose}; give another text")
