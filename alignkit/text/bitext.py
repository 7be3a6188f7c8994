"""Corpora and bitexts: encoded text as flat arrays of tokens and offsets (CSR)."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from alignkit.errors import AlignkitError, abbreviated, check_list, check_type, counted
from alignkit.support.arrays import Ragged, offsets_of, places_of, rise_to
from alignkit.support.files import loaded, save_arrays
from alignkit.text.vocabulary import Vocabulary, unpack_vocabulary, vocabulary_arrays
from alignkit.types import PathLike

KIND, VERSION = "alignkit.bitext", 1


@dataclass(frozen=True, eq=False)
class Corpus(Ragged):
    """One side of a bitext: M sentences, N tokens in all.

    Attributes:
        tokens: int32 (N,), ids in ``vocabulary``.
        offsets: int64 (M + 1,), where each sentence starts in ``tokens``.
        vocabulary: the V tokens that the ids stand for.
        spans: int32 (N, 2), the characters [start, end) of each token in its line of raw text; None if it was not
            tokenized here.
    """

    tokens: np.ndarray
    offsets: np.ndarray
    vocabulary: Vocabulary
    spans: np.ndarray | None = None

    def __post_init__(self) -> None:
        if self.tokens.dtype != np.int32 or self.offsets.dtype != np.int64:
            raise TypeError("Corpus needs int32 tokens and int64 offsets")
        if self.tokens.ndim != 1 or self.offsets.ndim != 1 or len(self.offsets) == 0:
            raise ValueError("Corpus needs flat tokens and M + 1 offsets")
        if not rise_to(self.offsets, len(self.tokens)):
            raise ValueError("Corpus offsets must rise from 0 to the number of tokens")
        # A negative one is a large one without its sign.
        if len(self.tokens) and self.tokens.view(np.uint32).max() >= len(self.vocabulary):
            raise ValueError("Corpus token ids must lie in [0, V)")
        if self.spans is not None and self.spans.shape != (len(self.tokens), 2):
            raise ValueError("Corpus spans must be the start and end of each token")

    @classmethod
    def from_sentences(cls, sentences: Iterable[Sequence[str]], vocabulary: Vocabulary | None = None) -> Corpus:
        """Encode tokenised sentences; without a vocabulary, ids are given in order of first appearance.

        Raises:
            KeyError: a token is not in the given vocabulary.
            AlignkitError: a sentence is a string, not a list of tokens; a token is empty, or has a line end.
        """
        check_list(sentences, "sentences must be a list of lists of words")
        flat: list[str] = []
        offsets = [0]
        for n, sentence in enumerate(sentences):
            what = f"the sentence at index {n} must be a list of words"
            check_list(sentence, what, "split it, as sentence.split() does")
            flat.extend(sentence)
            offsets.append(len(flat))
        types = dict.fromkeys(flat)
        for word in types:
            if not isinstance(word, str) or not word or "\n" in word or "\r" in word:
                n = bisect_right(offsets, flat.index(word)) - 1
                problem = f"the sentence at index {n} has {abbreviated(repr(word))} as a word"
                raise AlignkitError(
                    f"{problem}; words are text, not empty and without line ends, as sentence.split() gives them"
                )
        if vocabulary is None:
            vocabulary = Vocabulary.from_tokens(types)
        tokens = np.array([vocabulary.ids[token] for token in flat], np.int32)
        return cls(tokens, np.array(offsets, np.int64), vocabulary)

    def __getitem__(self, m: int) -> np.ndarray:
        """The ids of sentence m, a view."""
        return self.tokens[self.span(m)]

    @property
    def lengths(self) -> np.ndarray:
        """int64 (M,), tokens per sentence."""
        return self.offsets[1:] - self.offsets[:-1]

    def words(self, m: int) -> list[str]:
        """The tokens of sentence m as strings."""
        tokens = self.vocabulary.tokens
        return [tokens[i] for i in self[m].tolist()]

    def spans_of(self, m: int) -> list[tuple[int, int]]:
        """The characters [start, end) of each token of sentence m in its line of raw text; none if not known."""
        if self.spans is None:
            return []
        return [(start, end) for start, end in self.spans[self.span(m)].tolist()]

    def take(self, sentences: np.ndarray) -> Corpus:
        """The corpus of these sentences (indices), in this order, with the same vocabulary."""
        offsets, places = offsets_of(self.lengths[sentences]), places_of(self, sentences)
        spans = None if self.spans is None else self.spans[places]
        return Corpus(self.tokens[places], offsets, self.vocabulary, spans)

    def with_own_words(self) -> Corpus:
        """The same sentences with a vocabulary of the tokens that they have, in order of first appearance."""
        used, first, tokens = np.unique(self.tokens, return_index=True, return_inverse=True)
        order = np.argsort(first)
        ids = np.empty(len(used), np.int32)
        ids[order] = np.arange(len(used))
        words = Vocabulary.from_tokens(self.vocabulary[int(i)] for i in used[order])
        return Corpus(ids[tokens], self.offsets, words, self.spans)

    def block(self, low: int, high: int) -> Corpus:
        """The sentences low <= m < high, with the same vocabulary; the tokens are a view."""
        offsets = self.offsets[low : high + 1]
        part = slice(offsets[0], offsets[-1])
        spans = None if self.spans is None else self.spans[part]
        return Corpus(self.tokens[part], offsets - offsets[0], self.vocabulary, spans)

    def __repr__(self) -> str:
        sizes = (len(self), "sentence"), (len(self.tokens), "token"), (len(self.vocabulary), "type")
        return f"Corpus({', '.join(counted(*size) for size in sizes)})"


def kept_tokens(corpus: Corpus, kept: np.ndarray) -> Corpus:
    """The sentences with those of their tokens that are kept, bool (N,), and the same vocabulary."""
    return Corpus(corpus.tokens[kept], offsets_of(kept)[corpus.offsets], corpus.vocabulary)


@dataclass(frozen=True, eq=False)
class Bitext:
    """M sentence pairs, ``source[m]`` and ``target[m]``."""

    source: Corpus
    target: Corpus

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise ValueError(
                f"a bitext needs equal sentence counts, not {len(self.source)} and {len(self.target)}"
            )

    @classmethod
    def from_sentences(cls, source: Iterable[Sequence[str]], target: Iterable[Sequence[str]]) -> Bitext:
        """A bitext of tokenised sentences, each side with a vocabulary of its own.

        Raises:
            AlignkitError: a sentence is a string, not a list of tokens.
            ValueError: the sides differ in length.
        """
        return cls(Corpus.from_sentences(source), Corpus.from_sentences(target))

    def __len__(self) -> int:
        return len(self.source.offsets) - 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bitext) and (self is other or self.fingerprint() == other.fingerprint())

    @cached_property
    def shapes(self) -> np.ndarray:
        """int32 (M, 2): T and L of each pair."""
        shapes = np.empty((len(self), 2), np.int32)
        shapes[:, 0], shapes[:, 1] = self.target.lengths, self.source.lengths
        return shapes

    @property
    def reversed(self) -> Bitext:
        """The same pairs with source and target exchanged."""
        return Bitext(self.target, self.source)

    @property
    def copies(self) -> np.ndarray:
        """int64 (M,): how often each pair occurs in the bitext, itself included."""
        from alignkit.kernels.sentence_pairs import count_copies  # imports Numba

        sides = [(side.tokens, side.offsets) for side in (self.source, self.target)]
        table = np.full(1 << (2 * len(self)).bit_length(), -1, np.int64)
        counts = np.zeros(len(self), np.int64)
        count_copies(*sides, table, np.empty(len(self), np.int64), counts)
        return counts

    def take(self, sentences: np.ndarray) -> Bitext:
        """The bitext of these pairs (indices), in this order."""
        return Bitext(self.source.take(sentences), self.target.take(sentences))

    def block(self, low: int, high: int) -> Bitext:
        """The pairs low <= m < high; their tokens are views. All of them are this bitext."""
        if (low, high) == (0, len(self)):
            return self
        return Bitext(self.source.block(low, high), self.target.block(low, high))

    def with_own_words(self) -> Bitext:
        """The same pairs with vocabularies of the tokens that they have, in order of first appearance."""
        return Bitext(self.source.with_own_words(), self.target.with_own_words())

    def fingerprint(self) -> str:
        """SHA-256 of the encoded text and its vocabularies, equal only for equal bitexts."""
        digest = hashlib.sha256()
        for corpus in (self.source, self.target):
            parts = (corpus.tokens, corpus.offsets, corpus.vocabulary.text, corpus.vocabulary.offsets)
            for array in parts:
                digest.update(len(array).to_bytes(8, "little"))
                digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def save(self, path: PathLike) -> None:
        """Write the encoded bitext to an npz file; a vocabulary shared by both sides is written once."""
        arrays = {}
        for side, corpus in (("source", self.source), ("target", self.target)):
            arrays[f"{side}_tokens"] = corpus.tokens
            arrays[f"{side}_offsets"] = corpus.offsets
            if corpus.spans is not None:
                arrays[f"{side}_spans"] = corpus.spans
        shared = self.source.vocabulary is self.target.vocabulary
        for side, corpus in (("source", self.source), ("target", self.target))[: 1 if shared else 2]:
            arrays |= vocabulary_arrays(side, corpus.vocabulary)
        save_arrays(path, KIND, VERSION, arrays, {"shared": shared}, compress=True)

    @classmethod
    def load(cls, path: PathLike) -> Bitext:
        """Read a file written by :meth:`save`; raises InputError if it is missing or damaged."""
        with loaded(path, KIND, VERSION) as (fields, header):
            corpora: list[Corpus] = []
            for side in ("source", "target"):
                if side == "source" or not header.flag("shared"):
                    vocabulary = unpack_vocabulary(fields, side)
                tokens, spans = fields.get(f"{side}_tokens", np.int32), None
                if f"{side}_spans" in fields.arrays:
                    spans = fields.get(f"{side}_spans", np.int32, 2)
                corpora.append(Corpus(tokens, fields.get(f"{side}_offsets", np.int64), vocabulary, spans))
            return cls(*corpora)

    def __repr__(self) -> str:
        return f"Bitext({self.source!r} -> {self.target!r})"


def lines_of(bitext: Bitext) -> tuple[list[str], list[str]]:
    """The lines of both sides, words with spaces between them."""
    source, target = (
        [" ".join(side.words(m)) for m in range(len(side))] for side in (bitext.source, bitext.target)
    )
    return source, target


def check_bitext(text: object) -> None:
    """Raise AlignkitError unless a text is a bitext."""
    if not isinstance(text, Bitext):
        check_type(text, Bitext, "a text must be a Bitext, which read_bitext and Bitext.from_sentences make")
