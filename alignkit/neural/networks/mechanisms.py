"""The names of attention mechanisms: a score function and a normalizer, such as ``additive+sparsemax``.

To add a score function or a normalizer, write its class
(:class:`alignkit.neural.networks.score_functions.ScoreFunction`,
:class:`alignkit.neural.networks.normalizers.Normalizer`) and a line in :data:`SCORE_FUNCTIONS` or
:data:`NORMALIZERS`. Importing this module loads no torch.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from alignkit.errors import AlignkitError
from alignkit.support.records import shown

UNIFORM = "uniform"  #: the mechanism without scores
SOFTMAX = "softmax"  #: the normalizer of a mechanism that names none


class NormalizerEntry(NamedTuple):
    """A normalizer.

    Attributes:
        place: ``module:class``, imported when it is needed.
        parameter: the number after a colon (``entmax:1.3``) if none is given; None if it takes no number.
        lowest, highest: the range of that number, both inclusive.
    """

    place: str
    parameter: float | None = None
    lowest: float = 0.0
    highest: float = math.inf


_SCORES = "alignkit.neural.networks.score_functions"
_NORMALIZERS = "alignkit.neural.networks.normalizers"
#: name -> ``module:class``, imported when it is needed
SCORE_FUNCTIONS = {
    "general": f"{_SCORES}:GeneralScore",
    "dot": f"{_SCORES}:DotScore",
    "scaled-dot": f"{_SCORES}:ScaledDotScore",
    "additive": f"{_SCORES}:AdditiveScore",
    "feed-forward": f"{_SCORES}:FeedForwardScore",
    "convolution": f"{_SCORES}:ConvolutionScore",
}
NORMALIZERS = {
    SOFTMAX: NormalizerEntry(f"{_NORMALIZERS}:Softmax"),
    "sparsemax": NormalizerEntry(f"{_NORMALIZERS}:Sparsemax"),
    "entmax15": NormalizerEntry(f"{_NORMALIZERS}:Entmax15"),
    "entmax": NormalizerEntry(f"{_NORMALIZERS}:Entmax", 1.5, 1.01, 4.0),
    "learned-entmax": NormalizerEntry(f"{_NORMALIZERS}:LearnedEntmax"),
    "sigmoid": NormalizerEntry(f"{_NORMALIZERS}:Sigmoid"),
    "straight-through": NormalizerEntry(f"{_NORMALIZERS}:StraightThrough"),
    "reinforce": NormalizerEntry(f"{_NORMALIZERS}:Reinforce"),
    "gumbel": NormalizerEntry(f"{_NORMALIZERS}:Gumbel", 1.0, 0.01),
}


class Mechanism(NamedTuple):
    """An attention mechanism, apart from its sizes.

    Attributes:
        score: a name in :data:`SCORE_FUNCTIONS`.
        normalizer: a name in :data:`NORMALIZERS`.
        parameter: the normalizer's number, if it takes one.
    """

    score: str
    normalizer: str = SOFTMAX
    parameter: float | None = None


def parse_mechanism(name: str, owner: str = "network") -> Mechanism:
    """The mechanism that a name such as ``dot``, ``additive+sparsemax`` or ``general+entmax:1.3`` stands for.

    Raises:
        AlignkitError: ``owner`` is told that there is no such score function or normalizer, or that the
            normalizer takes no number or not this one.
    """
    score, plus, rest = name.partition("+") if isinstance(name, str) else ("", "", "")
    normalizer, colon, number = rest.partition(":")
    if score not in SCORE_FUNCTIONS or (plus and normalizer not in NORMALIZERS):
        raise AlignkitError(
            f"{owner}: attention must be {UNIFORM}, or a score function ({', '.join(SCORE_FUNCTIONS)}), alone or "
            f"with a normalizer ({', '.join(NORMALIZERS)}), such as additive+sparsemax, not {shown(name)}"
        )
    if not plus:
        return Mechanism(score)
    entry = NORMALIZERS[normalizer]
    if not colon:
        return Mechanism(score, normalizer, entry.parameter)
    if entry.parameter is None:
        raise AlignkitError(f"{owner}: {normalizer} takes no number, so {name!r} is no attention")
    try:
        parameter = float(number)
    except ValueError:
        parameter = math.nan
    if not entry.lowest <= parameter <= entry.highest or math.isinf(parameter):
        most = "" if math.isinf(entry.highest) else f" and at most {entry.highest:g}"
        raise AlignkitError(
            f"{owner}: the number of {normalizer} must be at least {entry.lowest:g}{most}, not {number!r}"
        )
    return Mechanism(score, normalizer, parameter)


def check_attention(owner: str, name: str) -> None:
    """Raise AlignkitError, on behalf of ``owner``, if there is no attention of that name."""
    if name != UNIFORM:
        parse_mechanism(name, owner)
