"""Settings of an alignment: how to read a text, what to fit on it, how to link it. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

from alignkit.classical.hmm.settings import (
    JOINT_SETTINGS,
    LINK_CHOICES,
    QUALITIES,
    HMMSettings,
    LinkChoice,
    Quality,
)
from alignkit.classical.settings import PRIOR_WEIGHT, DiagonalSettings, IBM1Settings
from alignkit.errors import AlignkitError, check_known, check_type
from alignkit.links.heuristics import Symmetrization, find_heuristic
from alignkit.support.settings import with_options
from alignkit.types import EncodingErrors, PathLike

if TYPE_CHECKING:
    from alignkit.aligner import Aligner
    from alignkit.classical.priors import LexiconPrior
    from alignkit.embeddings.levels import Embeddings
    from alignkit.links.links import GoldLinks

Estimation = IBM1Settings | DiagonalSettings | HMMSettings


@dataclass(frozen=True)
class Method:
    """A kind of aligner that can be fitted.

    Attributes:
        fit: the place of its function, ``module:function``, called as ``fit(bitext, estimation, threads=...)``.
        estimation: its default settings.
        models: the names of the fitted aligners.
        saved_by: the command and option that save it.
        takes: what else the function takes: ``prior``, ``embeddings`` (as a prior), ``start``.
        is_joint: True if it fits both directions by itself.
    """

    fit: str
    estimation: Estimation
    models: tuple[str, ...]
    saved_by: str
    takes: frozenset[str] = frozenset()
    is_joint: bool = False


#: The names of :data:`METHODS`, for type checkers.
MethodName = Literal["joint", "ibm1", "diagonal", "hmm"]
KNOWLEDGE = frozenset({"prior", "start"})
#: So many pairs at most are read by the encoder e5 unless something else is given that a text can learn from: in
#: texts of up to :data:`READ_TEXT` pairs those whose links are most doubtful without it. They give most of what
#: all give (benchmarks/doubtful.py), and all take longer than one waits for what one did not ask for.
READ_PAIRS, READ_TEXT = 2000, 20_000
METHODS = {
    "joint": Method(
        "alignkit.classical.hmm.joint:fit_joint",
        JOINT_SETTINGS,
        ("hmm-joint", "hmm-views"),
        "align --save-model",
        KNOWLEDGE | {"embeddings"},
        is_joint=True,
    ),
    "ibm1": Method("alignkit.classical.ibm1:fit_ibm1", IBM1Settings(), ("ibm1",), "ibm1 --save-model", KNOWLEDGE),
    "diagonal": Method(
        "alignkit.classical.diagonal:fit_diagonal", DiagonalSettings(), ("diagonal",), "diagonal --save-model"
    ),
    "hmm": Method("alignkit.classical.hmm.hmm:fit_hmm", HMMSettings(), ("hmm",), "hmm --save-model", KNOWLEDGE),
}


@dataclass(frozen=True)
class ReadSettings:
    """How to read a text.

    Attributes:
        encoding_errors: ``strict``, or ``replace`` to read invalid UTF-8 as U+FFFD.
        lowercase: read both sides in lower case; a joint model ignores case anyway, unless it has ``keep_case``.
        tokenize: split raw text into words (:mod:`alignkit.text.raw_text`) instead of splitting at spaces; None:
            as the model's own text was read, or no without a model.
    """

    encoding_errors: str = "strict"
    lowercase: bool = False
    tokenize: bool | None = None


class ReadOptions(TypedDict, total=False):
    """The fields of :class:`ReadSettings`, as options of a function."""

    encoding_errors: EncodingErrors
    lowercase: bool
    tokenize: bool | None


@dataclass(frozen=True)
class FitSettings:
    """What to fit on a text.

    Attributes:
        method: ``joint``, ``ibm1``, ``diagonal`` or ``hmm``, a name in :data:`METHODS`.
        estimation: settings of the method; its defaults if None.
        iterations: number of EM iterations, instead of that of the estimation.
        quality: of the joint method, a name in :data:`QUALITIES`. ``normal`` also aligns parts of the words of
            small texts. ``fast`` uses words only; it takes five sixths of normal's time, less than half on small
            texts. ``best`` takes about eight times as long, two to three times on small texts, and equals
            ``normal`` on the smallest.
        keep_case: treat words that differ only in case as different words in a joint model.
        reverse: fit the target-to-source direction. Links still have the source first.
        prior: a lexicon, or its file (a dictionary, or a lexicon of `alignkit lexicon`, Moses or eflomal), as
            pseudo-counts.
        prior_weight: the number of occurrences of each word that a lexicon from a file counts for.
        embeddings: vectors whose similarity is evidence for links (:mod:`alignkit.embeddings`): ``e5`` for the
            encoder of the extra ``embeddings``; a folder with an encoder of transformers; or a file of word
            vectors, or two files with a comma between them; ``none``. None: as :attr:`adds_embeddings` says.
        start: a fitted model, or its file, from which EM starts instead of uniform parameters.

    Raises:
        AlignkitError: there is no such method or quality, or settings exclude each other.
    """

    method: str = "joint"
    estimation: Estimation | None = None
    iterations: int | None = None
    quality: str = "normal"
    keep_case: bool = False
    reverse: bool = False
    prior: LexiconPrior | PathLike | None = None
    prior_weight: float = PRIOR_WEIGHT
    embeddings: Embeddings | str | None = None
    start: Aligner | PathLike | None = None

    def __post_init__(self) -> None:
        check_known(self.method, METHODS, "method")
        check_known(self.quality, QUALITIES, "quality")
        if self.quality != "normal" and self.method != "joint":
            raise AlignkitError(f"{self.method} has no quality {self.quality}; joint has")
        method = METHODS[self.method]
        wanted = type(method.estimation)
        if self.estimation is not None and not isinstance(self.estimation, wanted):
            given = type(self.estimation).__name__
            raise AlignkitError(f"the estimation of {self.method} needs {wanted.__name__}, not {given}")
        if method.is_joint and self.reverse:
            raise AlignkitError(f"{self.method} is a model of both directions; there is no reverse one")
        if self.quality == "best" and self.keep_case:
            raise AlignkitError("quality best ignores case; leave out --keep-case or --quality best")
        if self.quality == "best" and self.start is not None:
            raise AlignkitError("start does not go with quality best; leave out --start or --quality best")
        for name in ("prior", "embeddings", "start"):
            if getattr(self, name) is not None and name not in method.takes:
                means = ", ".join(other for other, its in METHODS.items() if name in its.takes)
                raise AlignkitError(f"{name} does not go with {self.method}, only with {means}")
        if self.prior is None and self.prior_weight != PRIOR_WEIGHT:
            raise AlignkitError("prior_weight goes only with prior")

    @property
    def adds_embeddings(self) -> bool:
        """True if a text of up to :data:`READ_TEXT` pairs gets embeddings that were not asked for."""
        knows_nothing = self.embeddings is None and self.start is None
        return METHODS[self.method].is_joint and self.quality != "fast" and knows_nothing

    @property
    def folds_case(self) -> bool:
        """True if what is fitted takes words that differ in case only as one."""
        estimation = self.estimation or METHODS[self.method].estimation
        return isinstance(estimation, HMMSettings) and estimation.fold_case and not self.keep_case


class FitOptions(TypedDict, total=False):
    """The fields of :class:`FitSettings`, as options of a function."""

    method: MethodName
    estimation: Estimation | None
    iterations: int | None
    quality: Quality
    keep_case: bool
    reverse: bool
    prior: LexiconPrior | PathLike | None
    prior_weight: float
    embeddings: Embeddings | str | None
    start: Aligner | PathLike | None


@dataclass(frozen=True)
class LinkSettings:
    """How to link a text with a fitted aligner.

    Attributes:
        symmetrization: combine two directions with this heuristic of :data:`alignkit.links.heuristics.HEURISTICS`;
            both are fitted, or given as two models. None: one direction, or a joint model.
        threshold: link words where the probability is at least this, for the joint model or a heuristic that needs
            scores; None: the model's, or the default.
        links: of the joint model, which links it shall find, one of
            :data:`alignkit.classical.hmm.settings.LINK_CHOICES`: ``sure`` ones, or ``all`` that are likely; None:
            what suits most annotators best.
        adapt: adapt a fitted joint model to each block of the text that it links
            (:mod:`alignkit.classical.hmm.adaptation`).
        gold: gold links of the first pairs, or their file, to learn the annotators' conventions from
            (:func:`alignkit.supervised.fit_supervised`). A pair without links, a blank line, counts as not
            annotated. Annotated pairs keep their sure links, so they do not show how good other links are; the AER
            in cross-validation, which is logged, does.
        gold_base: the number of the first word in a file of gold links, as of :func:`alignkit.read_gold`.

    Raises:
        AlignkitError: gold is given with threshold, links or adapt, or links with threshold; the threshold is
            outside [0, 1], or there is no such choice of links.
    """

    symmetrization: str | None = None
    threshold: float | None = None
    links: LinkChoice | None = None
    adapt: bool = False
    gold: GoldLinks | PathLike | None = None
    gold_base: str | int = "auto"

    def __post_init__(self) -> None:
        if self.gold is not None and self.threshold is not None:
            raise AlignkitError("gold links decide the threshold; leave out --gold or --threshold")
        if self.links is not None:
            check_known(self.links, LINK_CHOICES, "choice of links")
            if self.gold is not None:
                raise AlignkitError("gold links decide which links to find; leave out --gold or --links")
            if self.threshold is not None:
                raise AlignkitError("links decides the threshold; leave out --links or --threshold")
        if self.gold is not None and self.adapt:
            raise AlignkitError("a model of gold links cannot be adapted; leave out --gold or --adapt")
        if self.threshold is not None and not 0 <= self.threshold <= 1:  # found before a fit
            raise AlignkitError(f"the threshold must lie in [0, 1], not {self.threshold}")


class LinkOptions(TypedDict, total=False):
    """The fields of :class:`LinkSettings`, as options of a function."""

    symmetrization: Symmetrization | None
    threshold: float | None
    links: LinkChoice | None
    adapt: bool
    gold: GoldLinks | PathLike | None
    gold_base: str | int


class AlignOptions(ReadOptions, FitOptions, LinkOptions, total=False):
    """The fields of all parts of :class:`AlignSettings`, as options of a function."""


class StreamOptions(ReadOptions, LinkOptions, total=False):
    """The same without those of a fit, for a model that is there."""


@dataclass(frozen=True)
class AlignSettings:
    """Settings of :func:`alignkit.align`: how to read a text, what to fit on it, how to link it."""

    reading: ReadSettings = ReadSettings()
    fitting: FitSettings = FitSettings()
    linking: LinkSettings = LinkSettings()

    @classmethod
    def of(cls, settings: AlignSettings | None = None, /, **options: Unpack[AlignOptions]) -> AlignSettings:
        """The settings (by default the defaults) with fields of any of the three parts replaced.

        Raises:
            AlignkitError: no part has such a field, or a part refuses its value.

        >>> AlignSettings.of(lowercase=True, method="ibm1", symmetrization="union").fitting.method
        'ibm1'
        """
        settings, parts, left = cls() if settings is None else settings, {}, dict(options)
        check_type(settings, cls, "settings must be AlignSettings")
        for part in fields(cls):
            own = getattr(settings, part.name)
            values = {each.name: left.pop(each.name) for each in fields(own) if each.name in left}
            parts[part.name] = with_options(type(own), own, values)
        if left:
            known = ", ".join(each.name for part in parts.values() for each in fields(part))
            raise AlignkitError(f"there is no setting {next(iter(left))!r}; choose from {known}")
        return cls(**parts)

    def check_fit(self) -> None:
        """Check that the linking goes with what is fitted; raises AlignkitError if it does not."""
        linking, fitting = self.linking, self.fitting
        if linking.adapt:
            raise AlignkitError("adapt is for a fitted model; a new fit already learns from its text")
        by_scores = False
        if linking.symmetrization is not None:
            by_scores = find_heuristic(linking.symmetrization).needs_scores
            if METHODS[fitting.method].is_joint or fitting.reverse:
                other = "reverse" if fitting.reverse else f"{fitting.method}, which does so by itself"
                raise AlignkitError(f"symmetrization fits both directions; it does not go with {other}")
        if linking.threshold is not None and not (METHODS[fitting.method].is_joint or by_scores):
            raise AlignkitError("only a joint model, or both directions combined by product, has a threshold")
        if linking.links is not None and not METHODS[fitting.method].is_joint:
            raise AlignkitError(f"links is for a joint model, not for {fitting.method}")

    def check_model(self) -> None:
        """Check that nothing is to be fitted, as there is a fitted model; raises AlignkitError otherwise."""
        default = FitSettings()
        given = [f.name for f in fields(default) if getattr(self.fitting, f.name) != getattr(default, f.name)]
        if given:
            names = ", ".join(given)
            raise AlignkitError(f"a fitted model is not fitted again; {names} cannot be given with it")
