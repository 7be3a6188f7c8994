"""Probabilities of links from log-odds: by themselves, by the links beside them, and by what stands beside a word.

**Phrase edges.** Articles, prepositions and conjunctions often begin a stretch between marks of punctuation, or a
sentence, and seldom end one; postpositions and particles do the opposite. A word shares its partner more often
with the neighbour that belongs to the same phrase (:mod:`alignkit.kernels.link_probabilities`).

**Attachment.** An article, a preposition or an auxiliary that the other language does not have ("the house",
"huset"; "football", "de fútbol") is linked with its content word as a rule. The models leave it to NULL, because
it stands beside another word each time. On which side of it that word stands is learned from the links that the
models do find: of the frequent words of a text, those that share a partner with the word after them much more
often than with the word before them, or the other way around, take the partners of the word on that side where
they have none.

**Trust.** Of a small text, models that were fitted on it are too sure, the more so the harder it is for them. This
shows in the number of pairs of words that they neither link nor rule out (:func:`trust_in`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, Self

import numpy as np

from alignkit.classical.hmm.settings import JOINT_THRESHOLD
from alignkit.classical.hmm.spelling import are_words, is_word
from alignkit.embeddings.levels import LEVELS, OPINIONS, STEP
from alignkit.kernels.link_probabilities import (
    CONTENT,
    HARDLY,
    MARK,
    NO_LINK,
    LinkValues,
    Side,
    attach,
    count_shared,
    judge_matrices,
)
from alignkit.scores import Scores
from alignkit.support.arrays import offsets_of, values_of
from alignkit.support.threads import blocks, run_blocks, run_evenly, thread_count
from alignkit.text.bitext import Bitext, Corpus

#: Pseudo-counts of a word's first places in stretches, and of its last ones.
EDGE_PRIOR = 50
#: How many words of each side are frequent.
FREQUENT = 20
#: Each word's counts are smoothed with PRIOR pseudo-counts, distributed as those of its side's frequent words;
#: it has a direction if it has RATIO times as many in it as in the other.
PRIOR, RATIO = 20.0, 2.0
#: The probability p of a link of an attached word becomes FLOOR + (1 - FLOOR) p: on development data 58 to 93 % of
#: such links were right, and more of them the higher p was.
FLOOR = np.float32(0.7)
#: Pairs of words with at least this probability are doubtful, if they are no links; and the power of their number.
DOUBTFUL, TRUST_POWER = np.float32(0.02), 0.3

#: Of the source and of the target words: see :meth:`PhraseEdges.cohesion`.
Cohesion = tuple[np.ndarray, np.ndarray]


def chances(log_odds: np.ndarray) -> np.ndarray:
    """float32: the probabilities of log-odds by themselves; 0 where neither direction sees a link."""
    return np.where(log_odds <= HARDLY, np.float32(0), 1 / (1 + np.exp(-log_odds))).astype(np.float32)


class PackedLogOdds(NamedTuple):
    """Log-odds of links, most of which neither direction sees: an eighth to a third of the memory."""

    size: int
    are_seen: np.ndarray  # uint8 (size / 8,), a bit for each
    values: np.ndarray  # float32, of those that are seen; the others are NO_LINK

    def unpacked(self) -> np.ndarray:
        """float32 (P,), as they were."""
        log_odds = np.full(self.size, NO_LINK, np.float32)
        np.place(log_odds, np.unpackbits(self.are_seen, count=self.size).view(bool), self.values)
        return log_odds


def packed_log_odds(log_odds: np.ndarray) -> PackedLogOdds:
    """Pack log-odds, float32 (P,)."""
    seen = log_odds != NO_LINK
    return PackedLogOdds(len(log_odds), np.packbits(seen), log_odds[seen])


def mean_log_odds(opinions: Iterable[PackedLogOdds]) -> np.ndarray:
    """float32 (P,): the mean of several views' log-odds, added in their order."""
    first, *others = opinions
    total = first.unpacked()
    for other in others:
        total += other.unpacked()
    total /= np.float32(1 + len(others))
    return total


def levels_of_links(log_odds: np.ndarray) -> np.ndarray:
    """uint8 (P,): what log-odds say of links, as levels after those of likeness (:class:`.LevelRatios`).

    OPINIONS + n is of probabilities from exp(-n / 4) down to exp(-(n + 1) / 4), and the last one of all below.
    """
    levels = np.full(len(log_odds), OPINIONS + LEVELS - 1, np.uint8)
    seen = np.flatnonzero(log_odds > HARDLY)  # few: the others are no links in either direction
    said = np.log(1 / (1 + np.exp(-log_odds[seen]))) / np.float32(-STEP)
    levels[seen] = OPINIONS + np.minimum(said, LEVELS - 1).astype(np.uint8)
    return levels


def into_probabilities(log_odds: Scores, threads: int | None = None, cohesion: Cohesion | None = None) -> Scores:
    """The probability of every link, (T, L) for each pair, from its log-odds and those of the links beside it.

    Args:
        log_odds: (T, L) for each pair, of one model or the mean of several views'; overwritten by the result.
        threads: all there are by default; no result depends on it.
        cohesion: of neighbouring source and target words (:meth:`PhraseEdges.cohesion`); None: all are 1.
    """
    count = thread_count(threads)
    target, source = map(offsets_of, log_odds.shapes.T)
    if cohesion is None:
        cohesion = np.ones(source[-1] + 1, np.float32), np.ones(target[-1] + 1, np.float32)
    arrays = source, target, log_odds.offsets, cohesion, log_odds.values
    run_evenly(lambda *span: judge_matrices(*span, *arrays), log_odds.offsets, count)
    return log_odds


def trust_in(probabilities: Scores) -> float:
    """How far the links of a small text are to be trusted: (links / doubtful pairs of words) ** 0.3, at most 1.

    Args:
        probabilities: of all links, before words are attached.
    """
    links = np.count_nonzero(probabilities.values >= JOINT_THRESHOLD)
    doubtful = np.count_nonzero(probabilities.values >= DOUBTFUL) - links
    return float(links / doubtful) ** TRUST_POWER if 0 < links < doubtful else 1.0


def trusted(probabilities: Scores, trust: float) -> Scores:
    """Multiplies the log-odds of links by a trust in (0, 1], in place. Which pairs of words are links stays as it
    is, and so do the probabilities of the others."""
    if trust < 1:
        links = np.flatnonzero(probabilities.values >= JOINT_THRESHOLD)
        odds_against = 1 / probabilities.values[links].astype(np.float64) - 1
        probabilities.values[links] = 1 / (1 + odds_against**trust)
    return probabilities


@dataclass(frozen=True, eq=False)
class PhraseEdges:
    """How often each word is the first of a stretch between marks of punctuation, and not the last.

    Attributes:
        source, target: float32 (V,): (f + 50) / (f + e + 100) of a word that is the first of f stretches, and the
            last of e.
    """

    source: np.ndarray
    target: np.ndarray

    @classmethod
    def of_text(cls, bitext: Bitext) -> Self:
        """Those of the words of a text, M pairs, in lower case if case is folded."""
        sides = []
        for side in (bitext.source, bitext.target):
            are_marks, filled = ~are_words(side.vocabulary)[side.tokens], side.offsets[:-1] < side.offsets[1:]
            first, last = np.zeros((2, len(side.tokens)), bool)
            first[side.offsets[:-1][filled]] = last[side.offsets[1:][filled] - 1] = True
            first[1:] |= are_marks[:-1]
            last[:-1] |= are_marks[1:]
            firsts, lasts = (
                np.bincount(side.tokens[places & ~are_marks], minlength=len(side.vocabulary)) + EDGE_PRIOR
                for places in (first, last)
            )
            sides.append((firsts / (firsts + lasts)).astype(np.float32))
        return cls(*sides)

    def of_words(self, source: np.ndarray, target: np.ndarray) -> PhraseEdges:
        """Those of other words: of each its number here, -1 if it is not known."""
        return PhraseEdges(values_of(self.source, source, 0.5), values_of(self.target, target, 0.5))

    def cohesion(self, bitext: Bitext) -> Cohesion:
        """How closely the neighbours among the tokens of M pairs of these words belong together, and of others.

        float32 (sum of L + 1,) and (sum of T + 1,): element n, for the tokens n - 1 and n, is the fourth root of
        2 a times 2 (1 - b), where a is the value of the first and b that of the second.
        """
        both = []
        for values, side in ((self.source, bitext.source), (self.target, bitext.target)):
            of, cohesion = values_of(values, side.tokens, 0.5), np.ones(len(side.tokens) + 1, np.float32)
            cohesion[1:-1] = np.sqrt(np.sqrt(4 * of[:-1] * (1 - of[1:])))
            both.append(cohesion)
        return both[0], both[1]


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

    @classmethod
    def of_links(cls, bitext: Bitext, probabilities: Scores, threads: int) -> Self:
        """Learned from the links of a text.

        Args:
            bitext: M pairs of words, in lower case if case is folded.
            probabilities: of every link, (T, L) for each pair.
            threads: how many to use; no result depends on it.
        """
        links = LinkValues(probabilities.values, probabilities.offsets, JOINT_THRESHOLD)
        sides, frequent = (bitext.source, bitext.target), []
        for side in sides:
            counts = np.bincount(side.tokens, minlength=len(side.vocabulary))
            order = np.argsort(-counts, kind="stable").tolist()
            words = (i for i in order if counts[i] and is_word(side.vocabulary[i]))
            frequent.append(np.fromiter(islice(words, FREQUENT), np.int64))
        numbers = [np.full(len(side.vocabulary), CONTENT, np.int8) for side in sides]
        for kinds, ids in zip(numbers, frequent, strict=True):
            kinds[ids] = np.arange(len(ids))
        columns, rows = (_side(side, kinds[side.tokens]) for side, kinds in zip(sides, numbers, strict=True))
        ranges, directions = blocks(links.offsets, threads), []
        for side, ids, own, other in zip(sides, frequent, (columns, rows), (rows, columns), strict=True):
            # How often each word shares a partner with the word after it, and before it, and what is expected of
            # the words of its side. Where nothing is shared, no direction has twice the cases of the other.
            counts = np.zeros((len(ranges), 2, FREQUENT), np.int64)
            arrays = own, other, links, own is rows
            run_blocks(
                lambda *span, arrays=arrays, counts=counts: count_shared(
                    *span, *arrays, counts[ranges.index(span)]
                ),
                ranges,
                threads,
            )
            shared = counts.sum(0)
            expected = np.maximum(PRIOR * shared.sum(1, keepdims=True) / max(shared.sum(), 1), 1e-9)
            after, before = shared + expected
            direction, is_after = np.zeros(len(side.vocabulary), np.int8), after >= RATIO * before
            direction[ids] = np.where(is_after, 1, np.where(before >= RATIO * after, -1, 0))[: len(ids)]
            directions.append(direction)
        return cls(*directions)

    def of_words(self, source: np.ndarray, target: np.ndarray) -> Attachment:
        """That of other words: of each its number here, -1 if it is not known."""
        return Attachment(values_of(self.source, source), values_of(self.target, target))

    def apply(self, bitext: Bitext, probabilities: Scores, threads: int) -> np.ndarray:
        """Changes the probabilities of links of words that are attached; returns their places, int64.

        Args:
            bitext: M pairs of these words, and of others; probabilities: (T, L) for each of them, or of no pair at
                all.
            threads: how many to use; no result depends on it.
        """
        links = LinkValues(probabilities.values, probabilities.offsets, JOINT_THRESHOLD)
        sides = (bitext.source, self.source), (bitext.target, self.target)
        directions = [values_of(of_words, side.tokens) for side, of_words in sides]
        columns, rows = (
            _side(side, np.where(direction == 0, np.int8(CONTENT), direction))
            for (side, _), direction in zip(sides, directions, strict=True)
        )
        run_evenly(lambda low, high: attach(low, high, rows, columns, links, FLOOR), links.offsets, threads)
        places = np.flatnonzero(probabilities.values < 0)
        probabilities.values[places] *= -1
        return places


def _side(side: Corpus, kinds: np.ndarray) -> Side:
    """A side whose tokens are of these kinds, int8 (N,), unless they are no words."""
    return Side(side.offsets, np.where(are_words(side.vocabulary)[side.tokens], kinds, np.int8(MARK)))
