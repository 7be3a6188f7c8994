"""Aligners: whatever maps a bitext to scores, how saved ones are read, and two directions as one.

A new aligner is a subclass of :class:`Aligner` with ``name``, ``kinds``, ``score`` and ``save``, and a line in
:data:`LOADERS`; it overrides the defaults that it does not share.
"""

from __future__ import annotations

import os
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from alignkit.errors import AlignkitError, InputError, check_list, check_type, plainly_shown
from alignkit.links.from_scores import best_links, scores_of_links
from alignkit.links.heuristics import ALIASES, DEFAULT_METHOD, DEFAULT_THRESHOLD, HEURISTICS, find_heuristic
from alignkit.links.links import Links
from alignkit.links.symmetrization import symmetrize, symmetrize_scores
from alignkit.scores import Scores, cap_row_sums, merge_subwords
from alignkit.support.arrays import brief_repr
from alignkit.support.combining import MOST, Combined, Sides, of_texts
from alignkit.support.files import Fields, Record, loaded, read_header, save_arrays
from alignkit.support.packages import imported, need
from alignkit.text.bitext import Bitext, lines_of
from alignkit.text.pairs import read_text
from alignkit.text.tokenization import Tokenizer, encode_bitext
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import PathLike

REVERSED = "alignkit.reversed", 1
SYMMETRIZED = "alignkit.symmetrized", 1
BLOCK = 10_000  # sentence pairs that two directions score at a time

#: header kind of a saved npz -> where its loader is ("module:function", imported when needed)
LOADERS = {
    "alignkit.ibm1": "alignkit.classical.ibm1:load_ibm1",
    "alignkit.diagonal": "alignkit.classical.diagonal:load_diagonal",
    "alignkit.hmm": "alignkit.classical.hmm.hmm:load_hmm",
    "alignkit.hmm-joint": "alignkit.classical.hmm.joint:load_joint",
    "alignkit.reversed": "alignkit.aligner:load_reversed",
    "alignkit.symmetrized": "alignkit.aligner:load_symmetrized",
    "alignkit.supervised": "alignkit.supervised:load_supervised",
    "alignkit.heads": "alignkit.lab.heads.combination:load_combination",
}
#: the loader of a checkpoint or a run directory
NEURAL_LOADER = "alignkit.neural.aligners:load_checkpoint"
TORCH_THREADS = "alignkit.neural.devices:set_threads"


@dataclass(frozen=True, eq=False, repr=False)
class Aligner(ABC):
    """A fitted aligner. Fitting is a function that returns one; an aligner does not change, and can be pickled.

    A subclass is a frozen dataclass. If it has a field ``threads``, no result depends on it; if it has a field
    ``threshold``, its links have at least this probability.
    """

    __repr__ = brief_repr

    #: True if it was fitted on raw text: the text that it links is tokenized likewise.
    raw_text: bool = field(default=False, repr=False, kw_only=True)
    #: Kind -> a few words for its scores, and a sentence, for readers who do not know it.
    descriptions: ClassVar[Mapping[str, tuple[str, str]]] = {}
    #: The tokenizer of the bitexts that it reads; None: they are of whitespace words.
    tokenizer = None  # type: Tokenizer | None
    #: True if the last bits of a pair's scores depend on the pairs beside it, as those of networks do.
    depends_on_batch = False

    @property
    @abstractmethod
    def name(self) -> str:
        """A short name, as in ``ibm1`` or ``lstm``."""

    @property
    @abstractmethod
    def kinds(self) -> tuple[str, ...]:
        """The kinds of scores it gives, some of :data:`alignkit.scores.SCORE_KINDS`."""

    @property
    def predicts(self) -> tuple[str, ...]:
        """The sides whose probability it gives: ``target`` by :meth:`log_probabilities`, ``source`` by
        :meth:`reverse_log_probabilities`."""
        return ()

    @property
    def ending(self) -> str:
        """The ending of the names of its files."""
        return ".npz"

    @abstractmethod
    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """The (T, L) matrix of every pair; raises AlignkitError for a kind it does not have."""

    @abstractmethod
    def save(self, path: PathLike) -> None:
        """Write the aligner to a file that :func:`load_aligner` reads, with :attr:`about_text` in its header."""

    @property
    def about_text(self) -> dict[str, bool]:
        """What the header of its file says of the text that it was fitted on."""
        return {"raw_text": True} if self.raw_text else {}

    @property
    def title(self) -> str:
        """What a page calls it."""
        return self.name

    def label(self, kind: str) -> tuple[str, str]:
        """What a page calls its scores of a kind: a few words, and a sentence that says what the numbers are."""
        words = {"alpha": "links", "beta": "dictionary", "delta": "influence of each source word"}.get(kind, kind)
        return self.descriptions.get(kind, (f"{self.title} ({words})", f"Scores of {self.title}."))

    def check_kind(self, kind: str) -> None:
        """Raise AlignkitError, naming those there are, if it does not give scores of ``kind``."""
        if kind not in self.kinds:
            raise AlignkitError(f"{self.name} has no {kind} scores; it has {', '.join(self.kinds)}")

    def links(self, bitext: Bitext) -> Links:
        """The links of M pairs, source first; by default each target word's with its best source word by alpha
        (see :func:`alignkit.links.from_scores.best_links`)."""
        return best_links(self.score(bitext, "alpha"))

    def link_probabilities(self, bitext: Bitext, links: Links) -> np.ndarray:
        """float64 (K,): the probability of each link of M pairs, by default its alpha."""
        return scores_of_links(links, self.score(bitext, "alpha"))

    def links_and_probabilities(self, bitext: Bitext) -> tuple[Links, np.ndarray]:
        """The links of M pairs, and the probability of each, float64 (K,)."""
        links = self.links(bitext)
        return links, self.link_probabilities(bitext, links)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, natural logarithm.

        Raises:
            AlignkitError: the aligner gives no probability of a sentence.
        """
        raise AlignkitError(f"{self.name} gives no probability of a sentence, and so no sentence scores")

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(source | target) of each pair; else as :meth:`log_probabilities`."""
        return Aligner.log_probabilities(self, bitext)  # which says that there are none

    def sentence_scores(self, bitext: Bitext) -> np.ndarray:
        """float64 (M, C): log p(target | source) per target word, log p(source | target) per source word, or both.

        NaN for a pair with a blank side.

        Raises:
            AlignkitError: the aligner gives no probability of a sentence.
        """
        columns = []
        if "target" in self.predicts or not self.predicts:
            columns.append(per_word(self.log_probabilities(bitext), bitext.shapes))
        if "source" in self.predicts:
            columns.append(per_word(self.reverse_log_probabilities(bitext), bitext.reversed.shapes))
        return np.stack(columns, axis=1)

    def align_batch(
        self, sources: Sequence[str | Sequence[str]], targets: Sequence[str | Sequence[str]]
    ) -> list[str]:
        """The links of each sentence pair as a line ``s-t s-t``; ``""`` for a pair with a blank side.

        Engines that map functions over batches of data can run it in their processes. Calls from several threads
        are answered together: while one is computed, the others wait, and are then one text.

        Args:
            sources, targets: equally many sentences, each a string with spaces between its words or a list of
                words.

        Raises:
            AlignkitError: a side is not a list, or one side has more sentences than the other.

        >>> from alignkit import Bitext, fit_ibm1
        >>> model = fit_ibm1(Bitext.from_sentences([["das", "Haus"], ["das"]], [["the", "house"], ["the"]]))
        >>> model.align_batch(["das Haus", "", "Haus"], ["the house", "the", "house"])
        ['0-0 1-1', '', '0-0']
        """
        for name, side in (("source", sources), ("target", targets)):
            check_list(side, f"{name} sentences must be a list of sentences")
        return self._combined((list(sources), list(targets)))

    @cached_property
    def _combined(self) -> Combined[Sides, list[str]]:
        """The lines of links of a text; texts of several threads are one."""
        aligner = self.on_words()

        def lines(source: list[Any], target: list[Any]) -> list[str]:
            return aligner.links(read_text(source, target, tokenize=self.raw_text)).to_strings()

        return Combined(of_texts(lines), 1 if aligner.depends_on_batch else MOST)

    def translations(self, word: str, best: int | None = 10) -> list[tuple[str, float]]:
        """The likeliest translations of a word and their probabilities: those that ``alignkit lexicon`` writes.

        Args:
            word: a source word; for a target-to-source model, a target word. If the model does not have it, it is
                looked up in lower case.
            best: the largest number of translations; None: all.

        Returns:
            translations, the likeliest first; empty for an unknown word.

        Raises:
            AlignkitError: the aligner has no translation table.
        """
        check_type(word, str, "a word must be text")
        return imported("alignkit.classical.lexicon:translations")(self, word, best)

    def __getstate__(self) -> dict[str, Any]:
        """The fields, which are pickled; not what cached properties hold."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def on_words(self) -> Aligner:
        """This aligner, wrapped as one of whitespace words if it works on other tokens."""
        return self if self.tokenizer is None else WordLevel(self, self.tokenizer)

    def with_threads(self, threads: int | None) -> Self:
        """This aligner with another number of threads (None: all cores), if it has this setting."""
        return self._changed(threads=threads) if "threads" in self.__dataclass_fields__ else self

    def with_threshold(self, threshold: float) -> Self:
        """This aligner with another threshold of its links: higher for precision, lower for recall.

        Raises:
            AlignkitError: its links do not depend on a threshold, or the threshold is outside [0, 1].
        """
        if "threshold" not in self.__dataclass_fields__:
            raise AlignkitError(f"the links of {self.name} do not depend on a threshold")
        if not 0 <= threshold <= 1:
            raise AlignkitError(f"the threshold must lie in [0, 1], not {threshold}")
        return self._changed(threshold=threshold)

    def _changed(self, **options: Any) -> Self:
        return replace(self, **options)


def per_word(totals: np.ndarray, shapes: np.ndarray) -> np.ndarray:
    """float64 (M,): logarithms of probabilities divided by the number of target words, to compare short with long.

    NaN for a pair with a blank side, where nothing is predicted, or from nothing.

    Args:
        totals: float64 (M,), log p(target | source).
        shapes: int (M, 2), T and L of the pairs in whitespace words.
    """
    return np.where((shapes == 0).any(axis=1), np.nan, totals / np.maximum(shapes[:, 0], 1))


def load_aligner(path: PathLike, threads: int | None = None) -> Aligner:
    """Read any saved aligner: a model file, a neural checkpoint (.pt) or a run directory.

    Args:
        path: the file or folder.
        threads: the number of threads (None: all cores); no result depends on it. All networks of a process share
            this setting.

    Raises:
        InputError: the file is missing, damaged, or none of these.
    """
    if not Path(path).exists():
        raise InputError(path, "no such file")
    if Path(path).is_dir() or os.fspath(path).endswith(".pt"):
        need("torch")
        imported(TORCH_THREADS)(threads)
        return imported(NEURAL_LOADER)(path)
    header = read_header(path)
    if header is None:
        raise InputError(path, "not a saved aligner, or damaged", remedy="give a file that --save-model wrote")
    kind = header.get("kind")
    if not isinstance(kind, str) or kind not in LOADERS:
        raise InputError(path, f"holds {plainly_shown(kind)}, which is not an aligner this program knows")
    aligner: Aligner = imported(LOADERS[kind])(path)
    if header.get("raw_text"):
        aligner = replace(aligner, raw_text=True)
    return aligner.with_threads(threads)


def save_nested(
    path: PathLike,
    kind: tuple[str, int],
    aligners: Mapping[str, Aligner],
    header: Mapping[str, Any],
    more: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write aligners, each as it writes itself, as arrays of bytes of one file.

    Args:
        path: of the file.
        kind: of the file, and its version.
        aligners: the name of the array -> the aligner.
        header: further values of the file.
        more: further arrays.
    """
    arrays = dict(more or {})
    with tempfile.TemporaryDirectory() as folder:
        for name, aligner in aligners.items():
            place = Path(folder, name + aligner.ending)
            aligner.save(place)
            arrays[name] = np.fromfile(place, np.uint8)
    endings = {name: aligner.ending for name, aligner in aligners.items()}
    save_arrays(path, *kind, arrays, {**header, "endings": endings})


def load_nested(arrays: Fields, header: Record, *names: str) -> list[Aligner]:
    """The aligners of these names, of whitespace words, from what :func:`save_nested` wrote.

    Raises:
        AlignkitError: one of them is damaged.
    """
    found, endings = [], header.part("endings")
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            place = Path(folder, name + endings.text(name, (".npz", ".pt")))
            arrays.get(name, np.uint8).tofile(place)
            found.append(load_aligner(place).on_words())
    return found


@dataclass(frozen=True, eq=False, repr=False)
class WordLevel(Aligner):
    """An aligner of whitespace words around one of subwords, or of words with BOS and EOS.

    Attributes:
        inner: the aligner, of bitexts that ``tokens`` encoded.
        tokens: the tokenizer of the inner aligner.
    """

    inner: Aligner
    tokens: Tokenizer
    depends_on_batch = True

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def kinds(self) -> tuple[str, ...]:
        """``alpha`` and ``beta`` if the inner aligner has them: no rule gives other scores of words."""
        return tuple(kind for kind in self.inner.kinds if kind in ("alpha", "beta"))

    def check_kind(self, kind: str) -> None:
        """As :meth:`Aligner.check_kind`; of scores that only subwords have, it says how to get them."""
        if kind in self.inner.kinds and kind not in self.kinds:
            raise AlignkitError(
                f"{self.name} has no {kind} scores of words, only of its own tokens: give it the text that "
                "alignkit.text.tokenization.encode_bitext(aligner.tokenizer, source_lines, target_lines) makes"
            )
        super().check_kind(kind)

    @property
    def predicts(self) -> tuple[str, ...]:
        return self.inner.predicts

    @property
    def ending(self) -> str:
        return self.inner.ending

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """alpha of words: summed over the subwords of the source word, averaged over those of the target word.
        beta: the probability of all subwords of the target word, averaged over those of the source word.

        The rest of a row of alpha, up to 1, is the weight of BOS and EOS.

        Raises:
            AlignkitError: another kind.
        """
        self.check_kind(kind)
        source, target = lines_of(bitext)
        encoded = encode_bitext(self.tokens, source, target)
        sides = (source, list(encoded.source)), (target, list(encoded.target))
        return merge_subwords(self.inner.score(encoded, kind), self.tokens, *sides, kind)

    def links_and_probabilities(self, bitext: Bitext) -> tuple[Links, np.ndarray]:
        """The best links of alpha, which is computed once."""
        alpha = self.score(bitext, "alpha")
        links = best_links(alpha)
        return links, scores_of_links(links, alpha)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        return self.inner.log_probabilities(encode_bitext(self.tokens, *lines_of(bitext)))

    def save(self, path: PathLike) -> None:
        """Write the inner aligner."""
        self.inner.save(path)


class Around(Aligner):
    """An aligner of whitespace words that asks another one, with its threads, and reads raw text as that does."""

    inner: Aligner
    threads: int | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "inner", self.inner.with_threads(self.threads))
        object.__setattr__(self, "raw_text", self.inner.raw_text)
        object.__setattr__(self, "depends_on_batch", self.inner.depends_on_batch)


@dataclass(frozen=True, eq=False, repr=False)
class Reversed(Around):
    """An aligner fitted from target to source, used as one from source to target.

    Attributes:
        inner: aligner of bitexts with their sides exchanged, between whitespace words.
        threads: of the inner aligner; all there are by default.
    """

    inner: Aligner
    threads: int | None = None

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def kinds(self) -> tuple[str, ...]:
        return ("alpha",) if "alpha" in self.inner.kinds else ()

    @property
    def predicts(self) -> tuple[str, ...]:
        return ("source",) if "target" in self.inner.predicts else ()

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """alpha: the inner aligner's, transposed; rows that then sum to more than 1 are divided by their sum."""
        self.check_kind(kind)
        return cap_row_sums(Scores.from_matrices([matrix.T for matrix in self.inner.score(bitext.reversed, kind)]))

    def links(self, bitext: Bitext) -> Links:
        """The inner aligner's links, source first."""
        return self.inner.links(bitext.reversed).reversed

    def link_probabilities(self, bitext: Bitext, links: Links) -> np.ndarray:
        """float64 (K,): the inner aligner's alpha of each link."""
        return scores_of_links(links, self.inner.score(bitext.reversed, "alpha"), transposed=True)

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        return self.inner.log_probabilities(bitext.reversed)

    def save(self, path: PathLike) -> None:
        save_nested(path, REVERSED, {"aligner": self.inner}, {})


def load_reversed(path: PathLike) -> Reversed:
    """Read what :meth:`Reversed.save` wrote; raises InputError if it is missing, damaged or something else."""
    with loaded(path, *REVERSED) as (fields, header):
        (inner,) = load_nested(fields, header, "aligner")
        return Reversed(inner)


def check_directions(forward: object, reverse: object) -> None:
    """Raises AlignkitError if an aligner that should be of target to source has more of its source words in common
    with the source words of the other one than of its target words."""
    words = getattr(forward, "source", None)
    sides = [getattr(reverse, side, None) for side in ("source", "target")]
    if not isinstance(words, Vocabulary) or not all(isinstance(side, Vocabulary) for side in sides):
        return
    same, opposite = (sum(word in side for word in words) for side in sides if side is not None)
    if same > opposite or (len(words) and not opposite):
        raise AlignkitError(
            "the second model is not of the other direction, from target to source: fit it with --reverse"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Symmetrized(Aligner):
    """A source-to-target and a target-to-source aligner whose links are combined.

    Attributes:
        forward: aligner of bitexts as they are, between whitespace words.
        reverse: aligner of bitexts with their sides exchanged; the :class:`Reversed` of one can be given for it.
        method: how to combine them: name of a heuristic in ``alignkit.links.heuristics.HEURISTICS`` or alias.
        threshold: of a heuristic that needs scores, by default 0.2: a link's probability is at least this.
        threads: of both directions and of symmetrization; all there are by default.
    """

    forward: Aligner
    reverse: Aligner
    method: str = DEFAULT_METHOD
    threshold: float | None = None
    threads: int | None = None

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
            aligner.check_kind("alpha")
            object.__setattr__(self, side, aligner.with_threads(self.threads).on_words())
        object.__setattr__(self, "raw_text", self.forward.raw_text)
        object.__setattr__(
            self, "depends_on_batch", self.forward.depends_on_batch or self.reverse.depends_on_batch
        )

    @property
    def name(self) -> str:
        """``symmetrized-`` and the name of the forward aligner."""
        return f"symmetrized-{self.forward.name}"

    @property
    def kinds(self) -> tuple[str, ...]:
        """``alpha``, and ``beta`` if the forward aligner has it."""
        return ("alpha", "beta") if "beta" in self.forward.kinds else ("alpha",)

    @property
    def predicts(self) -> tuple[str, ...]:
        both = (("target", self.forward), ("source", self.reverse))
        return tuple(side for side, aligner in both if "target" in aligner.predicts)

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """alpha[t, l]: the geometric mean of both directions' alpha, sqrt(forward[t, l] reverse[l, t]); rows that
        sum to more than 1 are divided by their sum. beta: the forward aligner's."""
        self.check_kind(kind)
        if kind == "beta":
            return self.forward.score(bitext, kind)
        forward, reverse = self.forward.score(bitext, kind), self.reverse.score(bitext.reversed, kind)
        pairs = zip(forward, reverse, strict=True)
        return cap_row_sums(Scores.from_matrices(np.sqrt(a.astype(np.float64) * b.T) for a, b in pairs))

    def links(self, bitext: Bitext) -> Links:
        """Both aligners' links, combined."""
        if not find_heuristic(self.method).needs_scores:
            forward, reverse = self.forward.links(bitext), self.reverse.links(bitext.reversed).reversed
            return symmetrize(forward, reverse, self.method, self.threads)
        threshold = DEFAULT_THRESHOLD if self.threshold is None else self.threshold
        parts = []
        for low in range(0, max(len(bitext), 1), BLOCK):  # all matrices at once would be most of the memory
            block = bitext.block(low, min(low + BLOCK, len(bitext)))
            scores = self.forward.score(block, "alpha"), self.reverse.score(block.reversed, "alpha")
            parts.append(symmetrize_scores(*scores, self.method, threshold))
        return Links.concatenated(parts)

    def link_probabilities(self, bitext: Bitext, links: Links) -> np.ndarray:
        """float64 (K,): the geometric mean of both directions' alpha of each link."""
        forward = scores_of_links(links, self.forward.score(bitext, "alpha"))
        reverse = scores_of_links(links, self.reverse.score(bitext.reversed, "alpha"), transposed=True)
        return np.sqrt(forward * reverse)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        return self.forward.log_probabilities(bitext)

    def reverse_log_probabilities(self, bitext: Bitext) -> np.ndarray:
        return self.reverse.log_probabilities(bitext.reversed)

    def save(self, path: PathLike) -> None:
        aligners = {"forward": self.forward, "reverse": self.reverse}
        save_nested(path, SYMMETRIZED, aligners, {"method": self.method, "threshold": self.threshold})


def load_symmetrized(path: PathLike) -> Symmetrized:
    """Read what :meth:`Symmetrized.save` wrote; raises InputError if it is missing, damaged or something else."""
    with loaded(path, *SYMMETRIZED) as (fields, header):
        method = header.text("method", HEURISTICS | ALIASES)
        threshold = header.number("threshold", 0, 1) if header.optional("threshold") else None
        forward, reverse = load_nested(fields, header, "forward", "reverse")
        return Symmetrized(forward, reverse, method, threshold)
