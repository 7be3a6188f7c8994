"""Contextualised agreement xi (Snell et al. 2021, section 3.1).

xi is the performance of a second network, of another seed, when its attention first agrees with the final
attention of the first network better than another score does. A(alpha, beta) = 0.5 says little by itself. If the
second network exceeds it only once its accuracy is 0.55 of a possible 0.6, then 0.5 is much: xi = 0.55, xi* = 0.6.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from alignkit.errors import AlignkitError


def contextualised(performance: Sequence[float], agreements: Sequence[float], level: float) -> float | None:
    """xi(u, v): the performance at the first logged step whose attention agrees with alpha more than ``level``.

    Args:
        performance: p(tau) of another seed's run at its logged steps, rising; NaN where it was not measured.
        agreements: A(alpha, alpha(tau)) at the same steps (or another metric of the two).
        level: A(u, v), in the same measure.

    Returns:
        xi; None if no step's agreement exceeds the level ("not reached"), if the level is NaN, or if the
        performance of the step found was not measured.

    Raises:
        AlignkitError: the numbers of steps differ.
    """
    if len(performance) != len(agreements):
        raise AlignkitError(
            f"xi needs a performance per agreement: {len(performance)} and {len(agreements)} were given"
        )
    for value, agreement in zip(performance, agreements, strict=True):
        if agreement > level:
            return None if math.isnan(value) else value
    return None
