"""The names of attention mechanisms: a score function and a normalizer, such as ``additive+sparsemax``.

To add a score function or a normalizer, write its class
(:class:`alignkit.neural.networks.score_functions.ScoreFunction`,
:class:`alignkit.neural.networks.normalizers.Normalizer`) and a line in :data:`SCORE_FUNCTIONS` or
:data:`NORMALIZERS`. Importing this module loads no torch.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from alignkit.errors import AlignkitError
from alignkit.packages import imported
from alignkit.records import shown

UNIFORM = "uniform"  #: the mechanism without scores
SOFTMAX = "softmax"  #: the normalizer of a mechanism that names none


class ScoreFunctionEntry(NamedTuple):
    """A score function.

    Attributes:
        score: ``module:class``, imported when it is needed, or the class.
        equation: the score a of an encoder state h for a decoder state s.
        source: the paper it comes from.
    """

    score: str | type[Any]
    equation: str
    source: str


class NormalizerEntry(NamedTuple):
    """A normalizer.

    Attributes:
        normalizer: ``module:class``, imported when it is needed, or the class.
        equation: the weights of scores a.
        source: the paper it comes from.
        parameter: the number after a colon (``entmax:1.3``) if none is given; None if it takes no number.
        lowest, highest: the range of that number, both inclusive.
        sums_to_one: whether weights of a row sum to 1.
    """

    normalizer: str | type[Any]
    equation: str
    source: str
    parameter: float | None = None
    lowest: float = 0.0
    highest: float = math.inf
    sums_to_one: bool = True


_SCORES = "alignkit.neural.networks.score_functions"
_NORMALIZERS = "alignkit.neural.networks.normalizers"
SCORE_FUNCTIONS: dict[str, ScoreFunctionEntry] = {
    "general": ScoreFunctionEntry(
        f"{_SCORES}:GeneralScore", "h · (W s + b)", "Luong et al. 2015; Snell et al. 2021"
    ),
    "dot": ScoreFunctionEntry(f"{_SCORES}:DotScore", "h · s", "Luong et al. 2015"),
    "scaled-dot": ScoreFunctionEntry(f"{_SCORES}:ScaledDotScore", "h · s / sqrt(D)", "Vaswani et al. 2017"),
    "additive": ScoreFunctionEntry(f"{_SCORES}:AdditiveScore", "v · tanh(W s + U h + b)", "Bahdanau et al. 2015"),
    "feed-forward": ScoreFunctionEntry(
        f"{_SCORES}:FeedForwardScore", "v · ReLU(W s + Q h + b) + c", "Snell et al. 2021, section 2.4"
    ),
    "convolution": ScoreFunctionEntry(
        f"{_SCORES}:ConvolutionScore", "s · (K * h)_l, K a convolution over 3 keys", "Allamanis et al. 2016"
    ),
}
NORMALIZERS: dict[str, NormalizerEntry] = {
    SOFTMAX: NormalizerEntry(
        f"{_NORMALIZERS}:Softmax", "exp(a_l) / sum over k of exp(a_k)", "Bahdanau et al. 2015"
    ),
    "sparsemax": NormalizerEntry(
        f"{_NORMALIZERS}:Sparsemax",
        "argmin over p in the simplex of |p - a|^2",
        "Martins and Astudillo 2016",
    ),
    "entmax15": NormalizerEntry(
        f"{_NORMALIZERS}:Entmax15", "entmax with alpha = 1.5, by sorting", "Peters et al. 2019"
    ),
    "entmax": NormalizerEntry(
        f"{_NORMALIZERS}:Entmax",
        "[(alpha - 1) a_l - tau]_+ ^ (1 / (alpha - 1)), tau such that they sum to 1",
        "Peters et al. 2019",
        1.5,
        1.01,
        4.0,
    ),
    "learned-entmax": NormalizerEntry(
        f"{_NORMALIZERS}:LearnedEntmax",
        "entmax with alpha = 1.01 + 0.99 sigmoid(r), r learned by each head",
        "Correia et al. 2019",
    ),
    "fusedmax": NormalizerEntry(
        f"{_NORMALIZERS}:Fusedmax",
        "argmin over p in the simplex of |p - a|^2 / 2 + lambda sum |p_(l+1) - p_l|",
        "Niculae and Blondel 2017",
        0.1,
    ),
    "sigmoid": NormalizerEntry(
        f"{_NORMALIZERS}:Sigmoid", "1 / (1 + exp(-a_l))", "Ramapuram et al. 2024", sums_to_one=False
    ),
    "straight-through": NormalizerEntry(
        f"{_NORMALIZERS}:StraightThrough",
        "1 at the largest a_l, else 0; trained with the gradient of softmax",
        "Bengio et al. 2013",
    ),
    "reinforce": NormalizerEntry(
        f"{_NORMALIZERS}:Reinforce",
        "1 at the largest a_l, else 0; trained with samples of softmax and (loss - baseline) grad log p",
        "Xu et al. 2015",
    ),
    "gumbel": NormalizerEntry(
        f"{_NORMALIZERS}:Gumbel",
        "1 at the largest a_l, else 0; trained with Gumbel noise on a_l and the gradient of softmax",
        "Jang et al. 2017; Corro and Titov 2019",
        1.0,
        0.01,
    ),
    "crf": NormalizerEntry(
        f"{_NORMALIZERS}:ChainMarginals",
        "p(z_l = 1) under p(z) ~ exp(sum a_l z_l + w sum [z_l = z_(l+1)]), z binary",
        "Kim et al. 2017",
        sums_to_one=False,
    ),
    "sparsemap": NormalizerEntry(
        f"{_NORMALIZERS}:ChainSparseMap",
        "mean of the z under argmax over q of E_q[sum a_l z_l + w sum [z_l = z_(l+1)]] - |E_q[z]|^2 / 2",
        "Niculae et al. 2018",
        sums_to_one=False,
    ),
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
    if not isinstance(name, str):
        raise AlignkitError(f"{owner}: the attention must be a name, not {shown(name)}")
    score, plus, rest = name.partition("+")
    if score not in SCORE_FUNCTIONS:
        raise AlignkitError(
            f"{owner}: the score function must be one of {', '.join(SCORE_FUNCTIONS)}, not {score!r}"
        )
    normalizer, colon, number = rest.partition(":")
    if not plus:
        return Mechanism(score)
    if normalizer not in NORMALIZERS:
        known = ", ".join(NORMALIZERS)
        raise AlignkitError(f"{owner}: the normalizer of attention must be one of {known}, not {normalizer!r}")
    entry = NORMALIZERS[normalizer]
    if not colon:
        return Mechanism(score, normalizer, entry.parameter)
    try:
        parameter = float(number)
    except ValueError:
        parameter = math.nan
    if entry.parameter is None:
        raise AlignkitError(f"{owner}: {normalizer} takes no number, so {name!r} is no attention")
    if not (entry.lowest <= parameter <= entry.highest and math.isfinite(parameter)):
        bounds = (
            f"from {entry.lowest:g} to {entry.highest:g}"
            if math.isfinite(entry.highest)
            else f"of at least {entry.lowest:g}"
        )
        raise AlignkitError(f"{owner}: the number of {normalizer} must be one {bounds}, not {number!r}")
    return Mechanism(score, normalizer, parameter)


def class_of(entry: str | type[Any]) -> Any:
    """The class that ``module:class`` names, or the class itself."""
    return imported(entry) if isinstance(entry, str) else entry


ATTENTIONS: dict[str, str | type[Any]] = {
    UNIFORM: "alignkit.neural.networks.attention:UniformAttention",
}


def check_attention(owner: str, name: object) -> None:
    """Raise AlignkitError, on behalf of ``owner``, if there is no attention of that name."""
    if isinstance(name, str) and name in ATTENTIONS:
        return
    if not isinstance(name, str) or name.partition("+")[0] not in SCORE_FUNCTIONS:
        known = ", ".join([*ATTENTIONS, *SCORE_FUNCTIONS])
        raise AlignkitError(
            f"{owner}: attention must be one of {known}, or a score function of these and a normalizer, such as "
            f"additive+sparsemax, not {shown(name)}"
        )
    parse_mechanism(name, owner)
