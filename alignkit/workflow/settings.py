"""Settings of an alignment, and the registry of methods that can be fitted. Imports nothing heavy."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from alignkit.classical.hmm.settings import FAST_SETTINGS, JOINT_SETTINGS, HMMSettings
from alignkit.classical.settings import PRIOR_WEIGHT, DiagonalSettings, IBM1Settings
from alignkit.errors import AlignkitError
from alignkit.links.heuristics import find_heuristic
from alignkit.types import PathLike

if TYPE_CHECKING:
    from alignkit.aligner import Aligner
    from alignkit.classical.priors import LexiconPrior
    from alignkit.embeddings.levels import Embeddings

#: What :func:`alignkit.workflow.align.align_stream` does at a malformed line.
ON_ERROR = ("stop", "skip")
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
        is_joint: whether it fits both directions by itself.
    """

    fit: str
    estimation: Estimation
    models: tuple[str, ...]
    saved_by: str
    takes: frozenset[str] = frozenset()
    is_joint: bool = False


KNOWLEDGE = frozenset({"prior", "start"})
METHODS = {
    "joint": Method(
        "alignkit.classical.hmm.joint_views:fit_aligner",
        JOINT_SETTINGS,
        ("hmm-joint", "hmm-views"),
        "align --save-model",
        KNOWLEDGE | {"memory", "embeddings"},
        is_joint=True,
    ),
    "views": Method(
        "alignkit.classical.hmm.joint_views:fit_views",
        JOINT_SETTINGS,
        ("hmm-views",),
        "align --quality best --save-model",
        frozenset({"prior", "memory", "embeddings"}),
        is_joint=True,
    ),
    "ibm1": Method(
        "alignkit.classical.ibm1:fit_ibm1",
        IBM1Settings(),
        ("ibm1",),
        "ibm1 --save-model",
        KNOWLEDGE,
    ),
    "diagonal": Method(
        "alignkit.classical.diagonal:fit_diagonal",
        DiagonalSettings(),
        ("diagonal",),
        "diagonal --save-model",
    ),
    "hmm": Method(
        "alignkit.classical.hmm.model:fit_hmm", HMMSettings(), ("hmm",), "hmm --save-model", KNOWLEDGE | {"memory"}
    ),
}


#: What to fit where the joint method is asked for: a method, and its settings.
QUALITIES = {
    "fast": ("joint", FAST_SETTINGS),
    "normal": ("joint", JOINT_SETTINGS),
    "best": ("views", JOINT_SETTINGS),
}

#: The settings that say what to fit and how: they go with no fitted model.
FIT_SETTINGS = (
    *("method", "estimation", "iterations", "reverse", "prior", "prior_weight", "embeddings", "start"),
    *("quality", "keep_case"),
)
#: Those that a fitted model has a use for only while it is adapted.
MEMORY_SETTINGS = ("max_memory", "temp_folder")


@dataclass(frozen=True)
class AlignSettings:
    """Settings of :func:`alignkit.workflow.align.align`: how to read a text, what to fit on it, how to link.

    With a fitted model there is nothing to fit: :data:`FIT_SETTINGS` are refused then.

    Attributes:
        method: what to fit, a name in :data:`METHODS`.
        estimation: settings of the method; its defaults if None.
        iterations: of EM, instead of those of the estimation.
        symmetrization: fit both directions, and combine them by this heuristic of
            :data:`alignkit.links.heuristics.HEURISTICS`. None: one direction, or a joint model.
        reverse: fit the target-to-source direction. Links have their source first all the same.
        threshold: link where a probability is at least this, with the joint model or a heuristic that needs
            scores; None: the model's, or the default.
        prior: a lexicon from another text, or the file that `alignkit lexicon` wrote it to, as pseudo-counts.
        prior_weight: how many occurrences of each word a lexicon that is read from a file counts for.
        embeddings: vectors that say which words are alike (:mod:`alignkit.embeddings`); ``e5`` for those of the
            extra ``embeddings``; or a file of word vectors, or two of them with a comma between them.
        start: a fitted model, or its file, to go on from instead of uniform parameters.
        max_memory: memory not to exceed, in bytes or as "800M" or "4G": what is larger is kept on disk, with the
            same result. For hidden Markov models only. None: half of the machine's memory, as far as that can be
            kept. With a fitted model, it and ``temp_folder`` go only with ``adapt``.
        temp_folder: where what is too large for memory is kept; None: where the system has temporary files.
        encoding_errors: ``strict``, or ``replace`` to read invalid UTF-8 as U+FFFD.
        lowercase: whether to read both sides in lower case.
        quality: of the joint method, a name in :data:`QUALITIES`: ``normal`` looks at small texts as subwords
            too; ``fast``, words only, takes two thirds of its time, and half or less of small texts'; ``best``
            takes about seven times as long, and three times for small texts.
        keep_case: whether words that differ in case only are different words to a joint model.
        adapt: whether a fitted joint model is adapted to the text that it links, in blocks of 250,000 pairs
            (:mod:`alignkit.classical.hmm.adaptation`).

    Raises:
        AlignkitError: there is no such method, or its settings are those of another one.
    """

    method: str = "joint"
    estimation: Estimation | None = None
    iterations: int | None = None
    symmetrization: str | None = None
    reverse: bool = False
    threshold: float | None = None
    prior: LexiconPrior | PathLike | None = None
    prior_weight: float = PRIOR_WEIGHT
    embeddings: Embeddings | str | None = None
    start: Aligner | PathLike | None = None
    max_memory: int | str | None = None
    temp_folder: str | None = None
    encoding_errors: str = "strict"
    lowercase: bool = False
    quality: str = "normal"
    keep_case: bool = False
    adapt: bool = False

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise AlignkitError(f"unknown method {self.method!r}; known are {', '.join(METHODS)}")
        if self.quality not in QUALITIES:
            raise AlignkitError(f"unknown quality {self.quality!r}; known are {', '.join(QUALITIES)}")
        if self.quality != "normal" and self.method != "joint":
            raise AlignkitError(f"{self.method} has no quality {self.quality}; joint has")
        wanted = type(METHODS[self.method].estimation)
        if self.estimation is not None and not isinstance(self.estimation, wanted):
            given = type(self.estimation).__name__
            raise AlignkitError(f"the estimation of {self.method} needs {wanted.__name__}, not {given}")

    def check_fit(self) -> None:
        """Check the settings of a fit; raises AlignkitError if some of them exclude each other."""
        if self.adapt:
            raise AlignkitError("adapt is for a fitted model; a fit learns from its text anyway")
        method, by_scores = self.chosen()[0], False
        if self.symmetrization is not None:
            by_scores = find_heuristic(self.symmetrization).needs_scores
            if method.is_joint or self.reverse:
                other = "reverse" if self.reverse else f"{self.method}, which does so by itself"
                raise AlignkitError(f"symmetrization fits both directions; it does not go with {other}")
        if method.is_joint and self.reverse:
            raise AlignkitError(f"{self.method} is a model of both directions; there is no reverse one")
        if self.threshold is not None and not (method.is_joint or by_scores):
            raise AlignkitError("a threshold needs the joint model, or a heuristic of scores")
        if self.keep_case and method is METHODS["views"]:
            raise AlignkitError("quality best folds case; keep_case goes with the others")
        for name, takes in (
            ("prior", {"prior"}),
            ("embeddings", {"embeddings"}),
            ("start", {"start"}),
            ("max_memory", {"memory"}),
        ):
            if getattr(self, name) is not None and not takes & method.takes:
                raise AlignkitError(f"{name} does not go with {self._refusal(name, takes)}")

    def check_model(self) -> None:
        """Check the settings for a fitted model; raises AlignkitError, naming those that are not for one."""
        given = {each.name for each in fields(self) if getattr(self, each.name) != each.default}
        fit = [name for name in FIT_SETTINGS if name in given]
        if fit:
            raise AlignkitError(f"a fitted model is not fitted again; {', '.join(fit)} cannot be given with it")
        memory = [name for name in MEMORY_SETTINGS if name in given]
        if memory and not self.adapt:
            raise AlignkitError(f"{', '.join(memory)} cannot be given with a fitted model without adapt")

    def chosen(self) -> tuple[Method, Estimation]:
        """What is fitted, and its settings."""
        name, estimation = QUALITIES[self.quality] if self.method == "joint" else (self.method, None)
        chosen = self.estimation or estimation or METHODS[name].estimation
        if self.iterations is not None:
            chosen = replace(chosen, iterations=self.iterations)
            if isinstance(chosen, HMMSettings):
                chosen = replace(chosen, hurry_from=0)
        if self.keep_case and isinstance(chosen, HMMSettings):
            chosen = replace(chosen, fold_case=False)
        return METHODS[name], chosen

    def _refusal(self, setting: str, takes: set[str]) -> str:
        """The quality or method that a setting does not go with, and the remedy."""
        if self.quality != "normal":
            return f"quality {self.quality}; leave out --{setting} or --quality {self.quality}"
        others = [name for name, method in METHODS.items() if takes & method.takes]
        return f"{self.method}, only with {', '.join(others)}"
