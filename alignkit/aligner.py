"""Aligners: whatever maps a bitext to scores, what they give, how they are loaded, and two of them as one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import Field, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, TypeVar, runtime_checkable

import numpy as np

from alignkit.errors import AlignkitError, InputError
from alignkit.links.formats import Alignment
from alignkit.links.from_scores import best_links
from alignkit.links.heuristics import DEFAULT_METHOD, DEFAULT_THRESHOLD, HEURISTICS, find_heuristic
from alignkit.links.links import Links
from alignkit.links.symmetrization import symmetrize, symmetrize_scores
from alignkit.packages import imported, need
from alignkit.parallel import blocks_of_size
from alignkit.records import Record, plainly_shown
from alignkit.scores import Scores, cap_row_sums, merge_subwords
from alignkit.storage import Fields, load_arrays, read_header, save_arrays
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.on_disk import RELEASED, release
from alignkit.text.tokenization import Tokenizer, encode_bitext
from alignkit.types import PathLike, brief_repr


@runtime_checkable
class Aligner(Protocol):
    """A fitted aligner. Fitting is a function that returns one; an aligner does not change.

    Attributes:
        name: short name, as in ``ibm1`` or ``lstm``; with a kind it names a score: ``ibm1.beta``.
        kinds: the score kinds it gives, a subset of ``alignkit.scores.SCORE_KINDS``.
    """

    @property
    def name(self) -> str: ...

    @property
    def kinds(self) -> tuple[str, ...]: ...

    def score(self, bitext: Bitext, kind: str) -> Scores:
        """The (T, L) matrix of every pair; raises AlignkitError for a kind it does not have."""
        ...

    def save(self, path: PathLike) -> None:
        """Write the aligner to a file that :func:`alignkit.aligner.load_aligner` reads."""
        ...


@runtime_checkable
class GivesLinks(Protocol):
    """An aligner with its own rule for links. The links of others are those of their alpha scores (see
    :func:`alignkit.links.from_scores.best_links`)."""

    def links(self, bitext: Bitext) -> Links:
        """The links of M pairs, source first."""
        ...


@runtime_checkable
class GivesLinksAndProbabilities(Protocol):
    """An aligner that finds links and their probabilities at the same time."""

    def links_and_probabilities(self, bitext: Bitext) -> tuple[Links, np.ndarray]:
        """The links of M pairs, source first, and the probability of each, float64 (K,)."""
        ...


@runtime_checkable
class HasLinkProbabilities(Protocol):
    """An aligner whose links have probabilities other than their alpha scores."""

    def link_probabilities(self, bitext: Bitext, links: Links) -> np.ndarray:
        """float64 (K,): the probability of each link of M pairs."""
        ...


@runtime_checkable
class HasLikelihood(Protocol):
    """An aligner that gives probabilities of target sentences."""

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, natural logarithm."""
        ...


@runtime_checkable
class HasReverseLikelihood(Protocol):
    """An aligner that gives probabilities of source sentences."""

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(source | target) of each pair, natural logarithm."""
        ...


@runtime_checkable
class HasTokenizer(Protocol):
    """An aligner of bitexts that its own tokenizer encoded, not of whitespace words."""

    @property
    def tokenizer(self) -> Tokenizer: ...


@runtime_checkable
class HasThreads(Protocol):
    """An aligner, a dataclass, that can be told how many threads to use (see :func:`with_threads`)."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def threads(self) -> int | None: ...


@runtime_checkable
class HasThreshold(Protocol):
    """An aligner, a dataclass, that links where a probability reaches a threshold (see :func:`with_threshold`)."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def threshold(self) -> float: ...


AnAligner = TypeVar("AnAligner", bound=Aligner)


def with_threads(aligner: AnAligner, threads: int | None) -> AnAligner:
    """The aligner with another number of threads (None: all cores), on which no result depends.

    An aligner without this setting is returned as it is.
    """
    return replace(aligner, threads=threads) if isinstance(aligner, HasThreads) else aligner


def with_threshold(aligner: AnAligner, threshold: float) -> AnAligner:
    """The aligner with another threshold of its links: higher for precision, lower for recall.

    Raises:
        AlignkitError: its links do not depend on a threshold, or the threshold is outside [0, 1].
    """
    if not isinstance(aligner, HasThreshold):
        raise AlignkitError(f"the links of {aligner.name} do not depend on a threshold")
    if not 0 <= threshold <= 1:
        raise AlignkitError(f"the threshold must lie in [0, 1], not {threshold}")
    return replace(aligner, threshold=threshold)


def check_kind(aligner: Aligner, kind: str) -> None:
    """Raise AlignkitError, naming those there are, if the aligner does not give scores of ``kind``."""
    if kind not in aligner.kinds:
        known = ", ".join(aligner.kinds)
        raise AlignkitError(f"{aligner.name} has no {kind} scores; it has {known}")


_OTHER_PAIRS = "links and scores are not of the same sentence pairs"


def links_of(aligner: Aligner, bitext: Bitext) -> Links:
    """The links of a bitext by the aligner's own rule, or else by its alpha scores.

    Raises:
        AlignkitError: the aligner has neither.
    """
    return aligner.links(bitext) if isinstance(aligner, GivesLinks) else best_links(aligner.score(bitext, "alpha"))


def link_probabilities(aligner: Aligner, bitext: Bitext, links: Links) -> np.ndarray:
    """float64 (K,): the probability of each link of M pairs, its alpha score unless the aligner says otherwise."""
    if isinstance(aligner, HasLinkProbabilities):
        return aligner.link_probabilities(bitext, links)
    return scores_of_links(links, aligner.score(bitext, "alpha"))


def scores_of_links(links: Links, scores: Scores, *, transposed: bool = False) -> np.ndarray:
    """float64 (K,): the score of each link.

    Args:
        links: of M pairs.
        scores: of the same pairs, (T, L) each.
        transposed: the scores are those of the reversed pairs, (L, T) each.

    Raises:
        AlignkitError: a link is outside its matrix.
    """
    if len(scores) != len(links):
        raise AlignkitError(_OTHER_PAIRS)
    found, offsets = np.empty(len(links.pairs)), links.offsets
    for low, high in blocks_of_size(offsets, RELEASED // 16):  # few elements are links
        part = slice(offsets[low], offsets[high])
        sentence = np.repeat(np.arange(low, high), np.diff(offsets[low : high + 1]))
        pairs = links.pairs[part].astype(np.int64)
        column, row = pairs.T[::-1] if transposed else pairs.T
        T, L = scores.shapes[sentence].T
        if (row >= T).any() or (column >= L).any():
            raise AlignkitError(_OTHER_PAIRS)
        found[part] = scores.values[scores.offsets[sentence] + row * L + column]
        release(scores.values)
    return found


def target_log_probabilities(aligner: Aligner, bitext: Bitext) -> np.ndarray:
    """float64 (M,): log p(target | source) of each pair, natural logarithm.

    Raises:
        AlignkitError: the aligner gives no probability of a sentence.
    """
    if not isinstance(aligner, HasLikelihood):
        raise AlignkitError(f"{aligner.name} gives no probability of a sentence, and so no sentence scores")
    return aligner.log_probabilities(bitext)


def sentence_scores(aligner: Aligner, bitext: Bitext) -> np.ndarray:
    """float64 (M, C): log p(target | source) per target word, log p(source | target) per source word, or both.

    NaN for a pair with a blank side.

    Raises:
        AlignkitError: the aligner gives no probability of a sentence.
    """
    columns = []
    if isinstance(aligner, HasLikelihood) or not isinstance(aligner, HasReverseLikelihood):
        columns.append(per_word(target_log_probabilities(aligner, bitext), bitext.shapes))
    if isinstance(aligner, HasReverseLikelihood):
        columns.append(per_word(aligner.reverse_log_probabilities(bitext), bitext.reversed.shapes))
    return np.stack(columns, axis=1)


def per_word(totals: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """float64 (M,): logarithms of probabilities divided by the number of target words, to compare short with long.

    NaN for a pair with a blank side, where nothing is predicted, or from nothing.

    Args:
        totals: float64 (M,), log p(target | source).
        shapes: int (M, 2), T and L of the pairs in whitespace words.
    """
    return np.where((shapes == 0).any(axis=1), np.nan, totals / np.maximum(shapes[:, 0], 1))


def linked(aligner: Aligner, bitext: Bitext) -> tuple[Links, np.ndarray]:
    """The links of a bitext, and the probability of each, float64 (K,); see :func:`link_probabilities`.

    Raises:
        AlignkitError: the aligner has no rule for links and no alpha scores.
    """
    if isinstance(aligner, GivesLinksAndProbabilities):
        return aligner.links_and_probabilities(bitext)
    if not isinstance(aligner, GivesLinks):
        alpha = aligner.score(bitext, "alpha")
        links = best_links(alpha)
        return links, scores_of_links(links, alpha)
    links = aligner.links(bitext)
    return links, link_probabilities(aligner, bitext, links)


def alignment_of(
    aligner: Aligner,
    bitext: Bitext,
    links: Links | None = None,
    known: np.ndarray | None = None,
    *,
    probabilities: bool = False,
    scored: bool = False,
    words: bool = False,
) -> Alignment:
    """The links of a bitext with what is known about them.

    Args:
        aligner: of whitespace words.
        bitext: M pairs of whitespace words.
        links: of the bitext, if they are known already.
        known: their probabilities, float64 (K,), likewise.
        probabilities, scored, words: whether the result is to have the probabilities of the links, the scores of
            the sentences, and the words of both sides. Words come with sentence scores where the aligner has them.

    Raises:
        AlignkitError: the aligner does not give what is asked for.
    """
    if links is None and probabilities:
        links, known = linked(aligner, bitext)
    elif links is None:
        links = links_of(aligner, bitext)
    elif probabilities and known is None:
        known = link_probabilities(aligner, bitext, links)
    scored = scored or (words and isinstance(aligner, HasLikelihood | HasReverseLikelihood))
    return Alignment(
        links,
        [bitext.source.words(m) for m in range(len(bitext))] if words else (),
        [bitext.target.words(m) for m in range(len(bitext))] if words else (),
        known if probabilities else None,
        sentence_scores(aligner, bitext) if scored else None,
        is_reverse=isinstance(aligner, HasReverseLikelihood) and not isinstance(aligner, HasLikelihood),
    )


@dataclass(frozen=True, eq=False)
class WordLevel:
    """An aligner of whitespace words around one of subwords, or of words with BOS and EOS.

    Attributes:
        inner: the aligner, of bitexts that ``tokens`` encoded.
        tokens: the tokenizer of the inner aligner.
    """

    inner: Aligner
    tokens: Tokenizer

    __repr__ = brief_repr

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def kinds(self) -> tuple[str, ...]:
        """``alpha`` if the inner aligner has it: other scores of subwords have no sum that is one of words."""
        return ("alpha",) if "alpha" in self.inner.kinds else ()

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """alpha of words: summed over the subwords of the source word, averaged over those of the target word.

        What a row lacks to 1 is the weight of BOS and EOS.

        Raises:
            AlignkitError: another kind.
        """
        check_kind(self, kind)
        source, target = _lines(bitext.source), _lines(bitext.target)
        encoded = encode_bitext(self.tokens, source, target)
        sides = (source, list(encoded.source)), (target, list(encoded.target))
        return merge_subwords(self.inner.score(encoded, kind), self.tokens, *sides)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, natural logarithm.

        Raises:
            AlignkitError: the inner aligner gives no probability of a sentence.
        """
        encoded = encode_bitext(self.tokens, _lines(bitext.source), _lines(bitext.target))
        return target_log_probabilities(self.inner, encoded)

    def save(self, path: PathLike) -> None:
        """Write the inner aligner."""
        self.inner.save(path)


def on_words(aligner: Aligner) -> Aligner:
    """The aligner, made one of whitespace words if it works on other tokens."""
    return WordLevel(aligner, aligner.tokenizer) if isinstance(aligner, HasTokenizer) else aligner


def _lines(corpus: Corpus) -> Sequence[str]:
    return [" ".join(corpus.words(m)) for m in range(len(corpus))]


#: header kind of a saved npz -> where its loader is ("module:function", imported when needed)
LOADERS = {
    "alignkit.ibm1": "alignkit.classical.ibm1:load_ibm1",
    "alignkit.diagonal": "alignkit.classical.diagonal:load_diagonal",
    "alignkit.hmm": "alignkit.classical.hmm.model:load_hmm",
    "alignkit.hmm-joint": "alignkit.classical.hmm.joint:load_joint",
    "alignkit.hmm-views": "alignkit.classical.hmm.joint_views:load_views",
    "alignkit.reversed": "alignkit.aligner:load_reversed",
    "alignkit.symmetrized": "alignkit.aligner:load_symmetrized",
}
#: the loader of a checkpoint or a run directory
NEURAL_LOADER = "alignkit.neural.loading:load_checkpoint"
TORCH_THREADS = "alignkit.neural.devices:set_threads"


def load_aligner(path: PathLike, threads: int | None = None) -> Aligner:
    """Read any saved aligner: a model file, a neural checkpoint (.pt) or a run directory.

    Args:
        path: the file or folder.
        threads: how many it computes with (None: all cores), on which no result depends. A network shares this
            setting with all others of the process.

    Raises:
        InputError: the file is missing, damaged, or none of these.
    """
    if not Path(path).exists():
        raise InputError(path, "no such file")
    if Path(path).is_dir() or os.fspath(path).endswith(".pt"):
        need("torch")
        imported(TORCH_THREADS)(threads)
        network: Aligner = imported(NEURAL_LOADER)(path)
        return network
    header = read_header(path)
    if header is None:
        raise InputError(path, "not a saved aligner, or damaged", remedy="give a file that --save-model wrote")
    kind = header.get("kind")
    if not isinstance(kind, str) or kind not in LOADERS:
        raise InputError(path, f"holds {plainly_shown(kind)}, which is not an aligner this program knows")
    aligner: Aligner = imported(LOADERS[kind])(path)
    return with_threads(aligner, threads)


def saved_bytes(aligner: Aligner) -> tuple[np.ndarray, str]:
    """The file that an aligner writes, uint8, and the suffix of its name, which says what kind of file it is."""
    suffix = ".pt" if isinstance(aligner, WordLevel) else ".npz"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "aligner" + suffix)
        aligner.save(place)
        return np.fromfile(place, np.uint8), suffix


def load_bytes(data: np.ndarray, suffix: str) -> Aligner:
    """The aligner of what :func:`saved_bytes` gave; raises AlignkitError if it is damaged."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder, "aligner" + (".pt" if suffix == ".pt" else ".npz"))
        data.tofile(place)
        return load_aligner(place)


REVERSED = "alignkit.reversed", 1


@dataclass(frozen=True, eq=False)
class Reversed:
    """A view of an aligner: bitexts and links have their source first, the aligner sees them the other way round.

    Attributes:
        inner: aligner of bitexts with their sides exchanged, between whitespace words.
        threads: of the inner aligner; all there are by default, and no result depends on it.
    """

    inner: Aligner
    threads: int | None = None

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        object.__setattr__(self, "inner", with_threads(self.inner, self.threads))

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("alpha",) if "alpha" in self.inner.kinds else ()

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """alpha: the inner aligner's, transposed; rows that then sum to more than 1 are divided by their sum."""
        check_kind(self, kind)
        return cap_row_sums(Scores.from_matrices([matrix.T for matrix in self.inner.score(bitext.reversed, kind)]))

    def links(self, bitext: Bitext) -> Links:
        """The inner aligner's links, source first."""
        return links_of(self.inner, bitext.reversed).reversed

    def link_probabilities(self, bitext: Bitext, links: Links) -> np.ndarray:
        """float64 (K,): the inner aligner's posterior of each link."""
        return scores_of_links(links, self.inner.score(bitext.reversed, "alpha"), transposed=True)

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(source | target) of each pair, natural logarithm."""
        return target_log_probabilities(self.inner, bitext.reversed)

    def save(self, path: PathLike) -> None:
        """Write the inner aligner and that its sides are exchanged; :func:`alignkit.load_aligner` reads it."""
        data, suffix = saved_bytes(self.inner)
        save_arrays(path, *REVERSED, {"aligner": data}, {"suffix": suffix})


def load_reversed(path: PathLike) -> Reversed:
    """Read what :meth:`Reversed.save` wrote.

    Raises:
        InputError: the file is missing or damaged, or holds something else.
    """
    arrays, values = load_arrays(path, *REVERSED)
    suffix = Record(path, values).text("suffix")
    try:
        return Reversed(on_words(load_bytes(Fields(path, arrays).get("aligner", np.uint8), suffix)))
    except InputError as error:
        raise InputError(path, f"damaged: {error.problem}") from error
    except AlignkitError as error:
        raise InputError(path, f"damaged: {error}") from error


SYMMETRIZED = "alignkit.symmetrized", 1
BLOCK = 10_000  # sentence pairs scored at a time


@dataclass(frozen=True, eq=False)
class Symmetrized:
    """A source-to-target and a target-to-source aligner whose links are combined.

    Attributes:
        forward: aligner of bitexts as they are, between whitespace words.
        reverse: aligner of bitexts with their sides exchanged; the :class:`Reversed` of one can be given for it.
        method: how to combine them: the name of a heuristic in ``alignkit.links.heuristics.HEURISTICS``.
        threshold: of a heuristic that needs scores, by default 0.2: a link's probability is at least this.
        threads: of both directions and of symmetrization; all there are by default, and no result depends on it.
    """

    forward: Aligner
    reverse: Aligner
    method: str = DEFAULT_METHOD
    threshold: float | None = None
    threads: int | None = None

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        needs_scores = find_heuristic(self.method).needs_scores
        if self.threshold is not None and not (needs_scores and 0 <= self.threshold <= 1):
            raise AlignkitError(f"a threshold lies in [0, 1] and needs a heuristic of scores, not {self.method}")
        if isinstance(self.forward, Reversed):
            raise AlignkitError(
                "the first of two aligners to combine is of target to source; give it as the second"
            )
        reverse = self.reverse.inner if isinstance(self.reverse, Reversed) else self.reverse
        for side, aligner in (("forward", self.forward), ("reverse", reverse)):
            if needs_scores or not isinstance(aligner, GivesLinks):
                check_kind(aligner, "alpha")
            object.__setattr__(self, side, on_words(with_threads(aligner, self.threads)))

    @property
    def name(self) -> str:
        """``symmetrized-`` and the name of the forward aligner."""
        return f"symmetrized-{self.forward.name}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """``alpha`` if both directions have it, ``beta`` if the forward one has."""
        shared = ("alpha",) if "alpha" in self.forward.kinds and "alpha" in self.reverse.kinds else ()
        return (*shared, "beta") if "beta" in self.forward.kinds else shared

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """alpha[t, l]: the geometric mean of both directions' alpha, sqrt(forward[t, l] reverse[l, t]); rows that
        sum to more than 1 are divided by their sum. beta: the forward aligner's."""
        check_kind(self, kind)
        if kind == "beta":
            return self.forward.score(bitext, kind)
        forward, reverse = self.forward.score(bitext, kind), self.reverse.score(bitext.reversed, kind)
        pairs = zip(forward, reverse, strict=True)
        values = [np.sqrt(a.astype(np.float64) * b.T).ravel() for a, b in pairs]
        flat = np.concatenate([np.empty(0), *values]).astype(np.float32)
        return cap_row_sums(Scores(flat, forward.offsets, forward.shapes))

    def links(self, bitext: Bitext) -> Links:
        """Both aligners' links, combined."""
        if find_heuristic(self.method).needs_scores:
            return self._links_from_scores(bitext)
        forward, reverse = links_of(self.forward, bitext), links_of(self.reverse, bitext.reversed).reversed
        return symmetrize(forward, reverse, self.method, self.threads)

    def _links_from_scores(self, bitext: Bitext) -> Links:
        threshold = DEFAULT_THRESHOLD if self.threshold is None else self.threshold
        parts = []
        for low in range(0, max(len(bitext), 1), BLOCK):  # all matrices at once would be most of the memory
            block = bitext.take(np.arange(low, min(low + BLOCK, len(bitext))))
            scores = self.forward.score(block, "alpha"), self.reverse.score(block.reversed, "alpha")
            parts.append(symmetrize_scores(*scores, self.method, threshold))
        return Links.concatenated(parts)

    def link_probabilities(self, bitext: Bitext, links: Links) -> np.ndarray:
        """float64 (K,): the geometric mean of both directions' posteriors of each link."""
        forward = scores_of_links(links, self.forward.score(bitext, "alpha"))
        reverse = scores_of_links(links, self.reverse.score(bitext.reversed, "alpha"), transposed=True)
        return np.sqrt(forward * reverse)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): the forward aligner's log p(target | source); raises AlignkitError if it has none."""
        return target_log_probabilities(self.forward, bitext)

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): the reverse aligner's log p(source | target); raises AlignkitError if it has none."""
        return target_log_probabilities(self.reverse, bitext.reversed)

    def save(self, path: PathLike) -> None:
        """Write both aligners, each as it writes itself, to one file; :func:`alignkit.load_aligner` reads it."""
        forward, reverse = saved_bytes(self.forward), saved_bytes(self.reverse)
        arrays, suffixes = {"forward": forward[0], "reverse": reverse[0]}, [forward[1], reverse[1]]
        header = {"method": self.method, "threshold": self.threshold, "suffixes": suffixes}
        save_arrays(path, *SYMMETRIZED, arrays, header)


def load_symmetrized(path: PathLike) -> Symmetrized:
    """Read what :meth:`Symmetrized.save` wrote.

    Raises:
        InputError: the file is missing or damaged, or holds something else.
    """
    arrays, values = load_arrays(path, *SYMMETRIZED)
    fields, header = Fields(path, arrays), Record(path, values)
    method = header.text("method", HEURISTICS)
    threshold = header.number("threshold", 0, 1) if header.optional("threshold") else None
    suffixes = header.texts("suffixes", 2)
    try:
        forward = load_bytes(fields.get("forward", np.uint8), suffixes[0])
        reverse = load_bytes(fields.get("reverse", np.uint8), suffixes[1])
        return Symmetrized(forward, reverse, method, threshold)
    except InputError as error:
        raise InputError(path, f"damaged: {error.problem}") from error
    except AlignkitError as error:
        raise InputError(path, f"damaged: {error}") from error
