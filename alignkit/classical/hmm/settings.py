"""Settings of the hidden Markov aligners' estimation."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import isfinite
from typing import Literal, TypedDict, get_args

from alignkit.errors import AlignkitError

#: What the joint aligner takes time for: ``fast`` looks at words only; ``normal`` at small texts as subwords, too;
#: ``best`` at any text as first letters, as subwords of several sizes and as collocations.
Quality = Literal["fast", "normal", "best"]
QUALITIES: tuple[Quality, ...] = get_args(Quality)
#: The least probability of a link of the joint aligner, by default.
JOINT_THRESHOLD = 0.5
#: Which links the joint aligner shall find, and their least probability: ``sure`` leaves function words that only
#: one language has without links, and ``all`` takes links that are more likely wrong than right.
LinkChoice = Literal["sure", "all"]
LINK_CHOICES: dict[LinkChoice, float] = {"sure": 0.7, "all": 0.4}
#: The settings with which the estimate is not that of maximum likelihood, unless they are 0.
PRIORS = "dirichlet", "null_prior", "transition_prior", "back_off", "fertility", "spelling"


@dataclass(frozen=True)
class HMMSettings:
    """Settings of an HMM's estimation. The defaults are plain maximum likelihood by EM.

    Attributes:
        lexical_iterations: iterations with all positions equally likely (IBM Model 1); the others come after them.
        iterations: with transitions; the most there are, if there is a tolerance.
        tolerance: iterations with transitions end once the expected links change by less than this, summed over
            all and divided by the number of tokens of both sides; 0: never before ``iterations``. Below some 1e-5
            that may never be, for links are rounded between iterations (:mod:`alignkit.kernels.expected_links`).
        null_probability: p0, that a target word is NULL's.
        dirichlet: concentration of a symmetric Dirichlet prior over the words that a word meets: a pseudo-count of
            each pair; 0: none.
        null_prior: pseudo-count of each target word under NULL.
        transition_prior: pseudo-count of each jump and each first position.
        reach: the distance in positions over which the initial weights of jumps and first positions fall by a
            factor of e; 0: they are equal. A small text cannot show by itself that neighbours go together.
        back_off: the most pseudo-counts that a row gets in all from the classes of its words; 0: none.
        affixes: lengths of the first and last letters that make classes.
        fertility: exponent of the fertility factor; 0: there is none, 1: the factor as it is estimated.
        fertility_prior: pseudo-count of each word's fertilities, distributed as those of all words.
        leave_one_out: judge a link by the evidence of other places (kernels.hmm_e_step.emissions), as far as
            the text repeats its words (:func:`alignkit.classical.hmm.hmm.leave_one_out_share`); copies of its
            sentence pair do not count as other places.
        least_own: in the last E-step, at least this much is subtracted from the counts that judge a link, but
            never more than was counted. For whole words only, and not where a small text has several views.
        spelling: pseudo-count of a pair of identical words; pairs that are spelled alike get a part of it
            (:func:`alignkit.classical.hmm.spelling.spelling_counts`). 0: none.
        punctuation: factor of the evidence for each pair of a word that has a letter or digit with one that has
            none; 1: such pairs are like any other.
        fold_case: take words that differ in case only, or in marks of sentences, as one word.
        ends: weigh last positions by their distance from the end, as first ones from the start. The likelihood,
            which leaves that out, need not rise.
        likeness: exponent of the evidence from embeddings, if there is any, where they know all words
            (:class:`alignkit.classical.hmm.pseudo_counts.LevelRatios`).
        co_training: exponent of the evidence that the views of a small text give each other
            (:func:`alignkit.classical.hmm.joint.fit_joint`); 0: each is fitted by itself.
    """

    lexical_iterations: int = 5
    iterations: int = 5
    null_probability: float = 0.2
    dirichlet: float = 0.0
    null_prior: float = 0.0
    transition_prior: float = 0.0
    back_off: float = 0.0
    affixes: tuple[int, ...] = (3, 5)
    fertility: float = 0.0
    fertility_prior: float = 2.0
    leave_one_out: bool = False
    least_own: float = 0.0
    spelling: float = 0.0
    punctuation: float = 1.0
    tolerance: float = 0.0
    reach: float = 0.0
    fold_case: bool = False
    ends: bool = False
    likeness: float = 1.2
    co_training: float = 0.0

    @property
    def affix_slices(self) -> list[slice]:
        """The places of the letters that make classes of words: first ones and last ones, of each length."""
        return [part for letters in self.affixes for part in (slice(letters), slice(-letters, None))]

    @property
    def is_maximum_likelihood(self) -> bool:
        """True for plain EM, whose likelihood rises."""
        has_prior = any(getattr(self, name) > 0 for name in PRIORS)
        return not (has_prior or self.leave_one_out or self.ends) and self.punctuation == 1

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if isinstance(value, float) and not isfinite(value):
                raise AlignkitError(f"{each.name} must be a finite number, not {value}")
        if self.iterations < 1 or self.lexical_iterations < 0:
            raise AlignkitError("an HMM needs at least 1 iteration, and not fewer than 0 lexical ones")
        if not 0 < self.null_probability < 1:
            raise AlignkitError(f"the NULL probability must lie between 0 and 1, not {self.null_probability}")
        least = min(getattr(self, name) for name in (*PRIORS, "tolerance", "reach"))
        if not (least >= 0 and self.fertility_prior > 0):
            raise AlignkitError("priors, the tolerance and the reach cannot be negative")
        if self.fertility > 1:
            raise AlignkitError(f"the exponent of fertility must lie in [0, 1], not {self.fertility}")
        if any(letters < 1 for letters in self.affixes):
            raise AlignkitError(f"affixes must have at least 1 letter, not {min(self.affixes)}")
        for exponent in (self.likeness, self.co_training):
            if not 0 <= exponent <= 2:
                raise AlignkitError(f"exponents of evidence for single links must lie in [0, 2], not {exponent}")
        if not 0 <= self.least_own <= 1:
            raise AlignkitError(f"the least link that is taken out must lie in [0, 1], not {self.least_own}")
        if not 0 < self.punctuation <= 1:
            raise AlignkitError(f"the factor for punctuation must lie in (0, 1], not {self.punctuation}")


class HMMOptions(TypedDict, total=False):
    """The fields of :class:`HMMSettings`, as options of a function."""

    lexical_iterations: int
    iterations: int
    null_probability: float
    dirichlet: float
    null_prior: float
    transition_prior: float
    back_off: float
    affixes: tuple[int, ...]
    fertility: float
    fertility_prior: float
    leave_one_out: bool
    least_own: float
    spelling: float
    punctuation: float
    tolerance: float
    reach: float
    fold_case: bool
    ends: bool
    likeness: float
    co_training: float


#: Of the joint aligner (:mod:`alignkit.classical.hmm.joint`).
JOINT_SETTINGS = HMMSettings(
    lexical_iterations=3,
    iterations=10,
    tolerance=0.04,
    null_probability=0.05,
    dirichlet=3e-3,
    null_prior=1e-3,
    transition_prior=0.5,
    reach=4.0,
    back_off=12.0,
    affixes=(3, 5),
    fertility=0.8,
    leave_one_out=True,
    least_own=1.0,
    spelling=1.0,
    punctuation=0.05,
    fold_case=True,
    ends=True,
    co_training=0.6,
)
#: Of quality ``fast``, but for small texts (:func:`alignkit.classical.hmm.joint.fit_joint`).
FAST_SETTINGS = replace(JOINT_SETTINGS, lexical_iterations=2, iterations=3)
