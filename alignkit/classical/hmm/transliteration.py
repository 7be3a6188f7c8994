"""Words that sound alike in different letters, as names do: found by a model that a text's own links teach."""

from __future__ import annotations

import numpy as np

from alignkit.classical.exchange import Exchange
from alignkit.classical.hmm.evidence import letters_of
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.spelling import Letters
from alignkit.kernels.transliteration import LONGEST_WORD, Edits, SpelledWords, expected_edits, log_ratios
from alignkit.parallel import blocks, run_blocks
from alignkit.text.bitext import Bitext

#: Texts in which more pairs of words meet repeat their words; there it costs time and gains nothing.
MOST_PAIRS = 1 << 19
#: Pairs to learn from: each word has this share of the other's links, and they have this many; and how many pairs.
SHARE, LEAST_LINKS, LEARNED_FROM = 0.3, 0.5, 2000
ITERATIONS = 6
#: Shorter words are alike by chance; words that are seen more often need no help, nor do those of which one is
#: seen this many times as often as the other.
SHORTEST_WORD, RARE, IMBALANCE = 3, 10, 16
#: The logarithm of how much likelier than chance a transliteration must be: at least this, and 1 for each letter
#: of the longer word. Then it counts half as much as an identical word.
LEAST_RATIO = 8.0
#: Pairs about which this or less is known get nothing.
UNSURE = 0.05


class Transliteration:
    """Pseudo-counts for pairs of rare words that correspond letter by letter.

    A pair of words is a sequence of edits: letters that are substituted, left out, or inserted, each with a
    probability of its own. The pairs that have most of each other's links are either such transliterations or
    independent words; EM tells them apart (Sajjad, Fraser and Schmid 2012).

    Args:
        bitext: M pairs.
        rows: its word pairs by source word; those that this process owns.
        alike: what :func:`alignkit.classical.hmm.evidence.spelling_counts` has found: pairs get what is missing.
        frequencies: of the source and the target words, in the whole text.
        exchange: with the processes that have the rest of the text.
        threads: how many to use; no result depends on it.
    """

    def __init__(
        self,
        bitext: Bitext,
        rows: TableRows,
        alike: tuple[np.ndarray, np.ndarray],
        frequencies: list[np.ndarray],
        exchange: Exchange,
        threads: int,
    ) -> None:
        self.exchange, self.threads = exchange, threads
        source, target, letters = letters_of(bitext)
        self._sources, self._targets = (
            np.repeat(np.arange(len(rows.offsets) - 1), np.diff(rows.offsets)),
            rows.columns,
        )
        fits = have_fitting_lengths(source), have_fitting_lengths(target)
        self._fits = fits[0][self._sources] & fits[1][self._targets]
        seen = frequencies[0][self._sources], frequencies[1][self._targets]
        self._places = np.flatnonzero(self._fits & are_rare(*seen))
        spelled = np.zeros(len(rows.columns), np.float32)
        spelled[alike[0]] = alike[1]
        self._spelled = spelled[self._places]
        self._words = SpelledWords(source, target, chances_of(source, target, letters))

    def counts(self, links: np.ndarray, totals: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """The word pairs that are transliterations, and how sure that is.

        Args:
            links: (K,), the expected links of the pairs.
            totals: float64 (V_src,) and (V_tgt,), their sums by word.

        Returns:
            (int64 (N,), indices of such pairs in the rows; float32 (N,), above 0 and at most 1).
        """
        mutual = self._fits & are_mutual(links, totals[0][self._sources], totals[1][self._targets])
        pairs = self.exchange.gathered(
            np.stack([self._sources[mutual], self._targets[mutual]], axis=1).astype(float)
        )
        edits = learned_edits(pairs.astype(np.int64), self._words)
        rare = np.stack([self._sources[self._places], self._targets[self._places]], axis=1).astype(np.int64)
        counts = transliterations(rare, self._words, edits, self.threads)
        chosen = counts > self._spelled
        return self._places[chosen], (counts - self._spelled)[chosen].astype(np.float32)


def learned_edits(pairs: np.ndarray, words: SpelledWords) -> Edits:
    """The edits' probabilities, by EM on pairs of words int64 (N, 2)."""
    if len(pairs) > LEARNED_FROM:
        pairs = pairs[np.linspace(0, len(pairs) - 1, LEARNED_FROM).astype(np.int64)]
    source, target = words.chances
    prior = Edits(np.outer(source, target), source, target)
    edits = Edits(0.6 * prior.substituted, 0.2 * prior.deleted, 0.2 * prior.inserted)
    tables = np.zeros((2, LONGEST_WORD + 1, LONGEST_WORD + 1))
    # At first no pair is likelier one or the other, and all teach; then a share that is refined.
    share = 1.0
    for iteration in range(ITERATIONS):
        counts = Edits(*map(np.zeros_like, prior))
        expected = expected_edits(pairs, words, share, edits, tables, counts)
        total = sum(float(count.sum()) for count in counts) + len(counts)
        edits = Edits(*((count + each) / total for count, each in zip(counts, prior, strict=True)))
        share = 0.3 if iteration < 2 else min(max(expected / max(len(pairs), 1), 0.01), 0.99)
    return edits


def transliterations(pairs: np.ndarray, words: SpelledWords, edits: Edits, threads: int) -> np.ndarray:
    """float64 (N,): how sure it is that pairs of words int64 (N, 2) are transliterations, from 0 to 1."""
    lengths = [np.diff(side.offsets)[pairs[:, n]] for n, side in enumerate((words.source, words.target))]
    found = np.empty(len(pairs))

    def compare(low: int, high: int) -> None:
        table = np.zeros((LONGEST_WORD + 1, LONGEST_WORD + 1))
        log_ratios(low, high, pairs, words, edits, table, found)

    run_blocks(compare, blocks(np.ones(len(pairs)), threads), threads)
    least = np.maximum(LEAST_RATIO, np.maximum(*lengths))
    counts: np.ndarray = 1 / (1 + np.exp(np.minimum(least - found, 50.0)))
    return np.where(counts > UNSURE, counts, 0.0)


def chances_of(source: Letters, target: Letters, letters: int) -> np.ndarray:
    """float64 (2, letters): of each letter in a word of either side."""
    counts = [np.bincount(side.ids, minlength=letters) + 0.1 for side in (source, target)]
    return np.stack([count / count.sum() for count in counts])


def have_fitting_lengths(letters: Letters) -> np.ndarray:
    """bool (V,): whether words are neither too short nor too long."""
    lengths = np.diff(letters.offsets)
    return (lengths >= SHORTEST_WORD) & (lengths <= LONGEST_WORD)


def are_rare(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """bool (N,): whether pairs of words that are seen so often may need help."""
    fewer, more = np.minimum(source, target), np.maximum(source, target)
    rare: np.ndarray = (fewer <= RARE) & (more <= IMBALANCE * fewer)
    return rare


def are_mutual(links: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """bool (N,): whether pairs with these numbers of links have most of those of their words, given as sums."""
    mutual: np.ndarray = (links >= LEAST_LINKS) & (links >= SHARE * source) & (links >= SHARE * target)
    return mutual
