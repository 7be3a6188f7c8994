"""Pairs too long for the hidden Markov models' matrices, cut into windows, and links found block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from alignkit.links.links import Links
from alignkit.parallel import blocks
from alignkit.scores import Scores, flat_offsets
from alignkit.text.bitext import Bitext, Corpus

#: The most elements (t, l) of a pair that is aligned as a whole, and the elements of a window of a longer one.
LARGEST_PAIR, WINDOW = 1 << 22, 1 << 19
#: Pairs are aligned in blocks of about this number of elements, each with some 30 bytes.
BLOCK_ELEMENTS = 1 << 22

#: Links, and the probability of each, float64 (K,).
Linked = tuple[Links, np.ndarray]
Result = TypeVar("Result")


def is_long(bitext: Bitext) -> np.ndarray:
    """bool (M,): the pairs that have more than ``LARGEST_PAIR`` elements."""
    return bitext.source.lengths * bitext.target.lengths > LARGEST_PAIR


@dataclass(frozen=True, eq=False)
class Windows:
    """Long pairs in windows, which follow the diagonal. Every target token is in one window.

    Attributes:
        bitext: W windows.
        pairs: int64 (W,), the pair that each is a part of, rising.
        starts: int64 (W, 2), where it starts in the source and in the target sentence.
        shapes: int32 (M, 2), T and L of the M pairs.
    """

    bitext: Bitext
    pairs: np.ndarray
    starts: np.ndarray
    shapes: np.ndarray

    def merged(self, links: Links, probabilities: np.ndarray) -> Linked:
        """Links of the windows, and their probabilities float64 (K,), as those of the pairs."""
        window = links.sentences
        pairs, sentences = links.pairs + self.starts[window], self.pairs[window]
        order = np.lexsort((pairs[:, 1], pairs[:, 0], sentences))
        offsets = np.zeros(len(self.shapes) + 1, np.int64)
        np.cumsum(np.bincount(sentences, minlength=len(self.shapes)), out=offsets[1:])
        return Links(pairs[order].astype(np.int32), offsets), probabilities[order]

    def scores(self, scores: Scores, least: float = 0.0) -> Scores:
        """Scores of the windows as those of the pairs: the least outside of all windows."""
        offsets = flat_offsets(self.shapes)
        values = np.full(offsets[-1], least, np.float32)
        for matrix, pair, (source, target) in zip(scores, self.pairs, self.starts, strict=True):
            whole = values[offsets[pair] : offsets[pair + 1]].reshape(self.shapes[pair])
            whole[target : target + matrix.shape[0], source : source + matrix.shape[1]] = matrix
        return Scores(values, offsets, self.shapes)

    def sums(self, values: np.ndarray) -> np.ndarray:
        """float64 (M,): the sums of the windows' values (W,)."""
        return np.bincount(self.pairs, values, minlength=len(self.shapes))


def in_windows(bitext: Bitext, overlap: float = 1.0) -> Windows:
    """Cut the long pairs of a bitext; a pair that is not long is one window.

    Args:
        bitext: M pairs.
        overlap: how far the source side of a window reaches into both of its neighbours', in halves of theirs:
            translations need not stand exactly on the diagonal.
    """
    shapes = bitext.shapes
    T, L = shapes.T.astype(np.int64)
    wanted = np.ceil(np.sqrt(T * L / WINDOW)).astype(np.int64)
    counts = np.where(is_long(bitext), np.minimum(wanted, np.minimum(T, L)), 1)
    pairs = np.repeat(np.arange(len(bitext)), counts)
    k = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
    T, L, counts = T[pairs], L[pairs], counts[pairs]
    low = np.maximum(0, (k - overlap / 2) * L / counts).astype(np.int64)
    high = np.minimum(L, np.ceil((k + 1 + overlap / 2) * L / counts)).astype(np.int64)
    source = _parts(bitext.source, pairs, low, high)
    target = _parts(bitext.target, pairs, k * T // counts, (k + 1) * T // counts)
    return Windows(Bitext(source, target), pairs, np.stack([low, k * T // counts], axis=1), shapes)


def training_pairs(bitext: Bitext) -> tuple[Bitext, np.ndarray | None]:
    """The pairs to fit an aligner on, and which they are, bool (M,); None: all of them.

    Long pairs are left out, unless there are no others: then they are cut, and none of them is there.
    """
    long = is_long(bitext)
    if not long.any():
        return bitext, None
    if (bitext.shapes[~long].prod(axis=1) > 0).any():
        chosen = np.flatnonzero(~long)
        return Bitext(bitext.source.take(chosen), bitext.target.take(chosen)), ~long
    return in_windows(bitext, overlap=0.0).bitext, np.zeros(len(bitext), bool)


def linked_in_blocks(bitext: Bitext, find: Callable[[Bitext], Linked]) -> Linked:
    """The links of a bitext and their probabilities, found in blocks, and those of long pairs in windows.

    Args:
        bitext: M pairs.
        find: links of a few pairs, and their probabilities.
    """
    windows = in_windows(bitext) if is_long(bitext).any() else None
    found = _in_blocks(bitext if windows is None else windows.bitext, find)
    if len(found) == 1:
        links, probabilities = found[0]
    else:
        links = Links.concatenated([links for links, _ in found])
        probabilities = np.concatenate([np.empty(0), *(values for _, values in found)])
    return (links, probabilities) if windows is None else windows.merged(links, probabilities)


def scores_in_windows(bitext: Bitext, find: Callable[[Bitext], Scores], least: float = 0.0) -> Scores:
    """The scores of a bitext; those of long pairs are found in windows, and the least far from the diagonal."""
    if not is_long(bitext).any():
        return find(bitext)
    windows = in_windows(bitext)
    return windows.scores(find(windows.bitext), least)


def sums_in_windows(bitext: Bitext, find: Callable[[Bitext], np.ndarray]) -> np.ndarray:
    """float64 (M,): a value of each pair; that of a long one is the sum of its windows', which do not overlap."""
    windows = in_windows(bitext, overlap=0.0) if is_long(bitext).any() else None
    parts = _in_blocks(bitext if windows is None else windows.bitext, find)
    values = np.concatenate([np.empty(0), *parts])
    return values if windows is None else windows.sums(values)


def _in_blocks(bitext: Bitext, find: Callable[[Bitext], Result]) -> list[Result]:
    elements = bitext.source.lengths * bitext.target.lengths
    ranges = blocks(elements, max(1, -(-int(elements.sum()) // BLOCK_ELEMENTS)))
    if len(ranges) <= 1:
        return [find(bitext)]
    return [find(bitext.block(low, high)) for low, high in ranges]


def spliced(is_first: np.ndarray, first: Linked, second: Linked) -> Linked:
    """The links of all pairs, bool (M,), from those of the pairs that are first, and of the others."""
    counts = np.zeros(len(is_first), np.int64)
    counts[is_first], counts[~is_first] = np.diff(first[0].offsets), np.diff(second[0].offsets)
    offsets = np.zeros(len(is_first) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    pairs, probabilities = np.empty((offsets[-1], 2), np.int32), np.empty(offsets[-1])
    for chosen, (links, values) in ((is_first, first), (~is_first, second)):
        places = np.arange(len(values)) + np.repeat(offsets[:-1][chosen] - links.offsets[:-1], counts[chosen])
        pairs[places], probabilities[places] = links.pairs, values
    return Links(pairs, offsets), probabilities


def spliced_scores(is_first: np.ndarray, shapes: np.ndarray, first: Scores, second: Scores) -> Scores:
    """The scores of all pairs (M, 2), from those of the pairs that are first, bool (M,), and of the others."""
    values = np.empty(flat_offsets(shapes)[-1], np.float32)
    elements = np.repeat(is_first, shapes.astype(np.int64).prod(axis=1))
    values[elements], values[~elements] = first.values, second.values
    return Scores(values, flat_offsets(shapes), shapes)


def unchosen(bitext: Bitext, chosen: np.ndarray) -> Bitext:
    """The pairs of a bitext that are not chosen, bool (M,)."""
    rest = np.flatnonzero(~chosen)
    return Bitext(bitext.source.take(rest), bitext.target.take(rest))


def _parts(corpus: Corpus, sentences: np.ndarray, low: np.ndarray, high: np.ndarray) -> Corpus:
    """The tokens low <= j < high of each of these sentences."""
    lengths = high - low
    offsets = np.zeros(len(sentences) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    places = np.arange(offsets[-1]) + np.repeat(corpus.offsets[sentences] + low - offsets[:-1], lengths)
    return Corpus(corpus.tokens[places], offsets, corpus.vocabulary)
