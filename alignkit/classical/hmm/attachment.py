"""Frequent words without a counterpart, which annotators link to the partner of the word beside them.

An article, a preposition or an auxiliary that the other language does not have ("the house", "huset"; "football",
"de fútbol") is linked with its content word as a rule. The models leave it to NULL, because it stands beside
another word each time. On which side of it that word stands is learned from the links that the models do find: of
the frequent words of a text, those that share a partner with the word after them much more often than with the
word before them, or the other way around, take the partners of the word on that side where they have none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from itertools import islice
from typing import Self

import numpy as np

from alignkit.classical.hmm.evidence import are_words, is_word
from alignkit.classical.hmm.parameters import taken
from alignkit.classical.hmm.settings import JOINT_THRESHOLD
from alignkit.kernels.link_probabilities import CONTENT, MARK, LinkValues, Side, attach, count_shared
from alignkit.scores import Scores
from alignkit.support.threads import blocks, run_blocks
from alignkit.text.bitext import Bitext, Corpus

#: How many words of each side are frequent.
FREQUENT = 20
#: A word's cases are counted with so many more, distributed as those of all frequent words of its side; it has a
#: direction if there are so many times as many in it as in the other.
PRIOR, RATIO = 20.0, 2.0
#: The probability p of a link of an attached word becomes FLOOR + (1 - FLOOR) p: on development data 58 to 93 % of
#: such links were right, and more of them the higher p was.
FLOOR = np.float32(0.7)
BLOCK = 1 << 20  # elements that are copied at a time


def raised(probabilities: np.ndarray) -> np.ndarray:
    """The probabilities of links of attached words, from those that they have by themselves."""
    return FLOOR + (1 - FLOOR) * probabilities


def unattached(probabilities: Scores, places: np.ndarray) -> Scores:
    """A copy of probabilities in which those at some places are as they were before :meth:`Attachment.apply`."""
    values = probabilities.values.copy()
    values[places] = (values[places] - FLOOR) / (1 - FLOOR)
    return replace(probabilities, values=values)


@dataclass(frozen=True, eq=False)
class Attachment:
    """In which direction each word looks for the partners that it takes where it has no link.

    Attributes:
        source, target: int8 (V,): 1: after it, -1: before it, 0: nowhere.
    """

    source: np.ndarray
    target: np.ndarray

    def __post_init__(self) -> None:
        if not (np.isin(self.source, (-1, 0, 1)).all() and np.isin(self.target, (-1, 0, 1)).all()):
            raise ValueError("directions of attachment must be -1, 0 or 1")

    @classmethod
    def learned(cls, bitext: Bitext, probabilities: Scores, threads: int) -> Self:
        """From the links of a text.

        Args:
            bitext: M pairs of words, in lower case if case is folded.
            probabilities: of every link, (T, L) for each pair.
            threads: how many to use; no result depends on it.
        """
        links, sides = _links(probabilities), (bitext.source, bitext.target)
        frequent = [_most_frequent(side) for side in sides]
        columns, rows = (_side(side, ids, np.arange(len(ids))) for side, ids in zip(sides, frequent, strict=True))
        counts = _counted(columns, rows, links, False, threads), _counted(rows, columns, links, True, threads)
        directions = []
        for side, ids, (after, before) in zip(sides, frequent, counts, strict=True):
            found = np.zeros(len(side.vocabulary), np.int8)
            found[ids] = np.where(after >= RATIO * before, 1, np.where(before >= RATIO * after, -1, 0))[: len(ids)]
            directions.append(found)
        return cls(*directions)

    def taken(self, source: np.ndarray, target: np.ndarray) -> Attachment:
        """That of other words: of each its number here, -1 if it is not known."""
        return Attachment(taken(self.source, source), taken(self.target, target))

    def apply(self, bitext: Bitext, probabilities: Scores, threads: int) -> np.ndarray:
        """Changes the probabilities of links of words that are attached; returns their places, int64.

        Args:
            bitext: M pairs of these words; probabilities: (T, L) for each of them, or of no pair at all.
            threads: how many to use; no result depends on it.
        """
        links = _links(probabilities)
        columns, rows = (
            _side(side, np.flatnonzero(directions), directions[directions != 0])
            for side, directions in ((bitext.source, self.source), (bitext.target, self.target))
        )

        def change(low: int, high: int) -> np.ndarray:
            start, values = links.offsets[low], links.values[links.offsets[low] : links.offsets[high]]
            before = values.copy()
            attach(low, high, rows, columns, links, FLOOR)
            return start + np.flatnonzero(values != before)

        ranges = blocks(np.diff(links.offsets), max(threads, len(links.values) // BLOCK))
        return np.concatenate([np.empty(0, np.int64), *run_blocks(change, ranges, threads)])


def _counted(own: Side, other: Side, links: LinkValues, are_rows: bool, threads: int) -> np.ndarray:
    """float64 (2, K): how often each frequent word shares a partner with the word after it, and before it, and
    what is expected of the words of its side."""

    def count(low: int, high: int) -> np.ndarray:
        counts = np.zeros((2, FREQUENT), np.int64)
        count_shared(low, high, own, other, links, are_rows, counts)
        return counts

    counts = reduce(np.add, run_blocks(count, blocks(np.diff(links.offsets), threads) or [(0, 0)], threads))
    # Where nothing is shared at all, no direction has twice the cases of the other.
    return counts + np.maximum(PRIOR * counts.sum(1, keepdims=True) / max(counts.sum(), 1), 1e-9)


def _links(probabilities: Scores) -> LinkValues:
    return LinkValues(probabilities.values, probabilities.offsets, JOINT_THRESHOLD)


def _most_frequent(side: Corpus) -> np.ndarray:
    """The ids of the most frequent words, the most frequent first."""
    counts = np.bincount(side.tokens, minlength=len(side.vocabulary))
    order = np.argsort(-counts, kind="stable")
    words = (i for i in order.tolist() if counts[i] and is_word(side.vocabulary[i]))
    return np.fromiter(islice(words, FREQUENT), np.int64)


def _side(side: Corpus, ids: np.ndarray, kinds: np.ndarray) -> Side:
    found = np.where(are_words(side.vocabulary), np.int8(CONTENT), np.int8(MARK))
    found[ids] = kinds
    return Side(side.tokens, side.offsets, found)
