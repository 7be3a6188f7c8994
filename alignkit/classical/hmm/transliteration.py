"""Words that sound alike in different letters, as names do: found by a model that a text's own links teach."""

from __future__ import annotations

import numpy as np

from alignkit.classical.hmm.back_off import BackgroundModel
from alignkit.classical.hmm.evidence import alphabet_of, letters_of, plain_words, spelled
from alignkit.classical.hmm.parameters import taken
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.spelling import LONGEST_WORD, Edits, Letters, SpelledWords, expected_edits, log_ratios
from alignkit.scores import tokens_of_elements
from alignkit.support.threads import blocks, run_blocks
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary

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
#: Models of more letters are those of Chinese and the like, whose words are short; pairs of letters would be many.
MOST_LETTERS = 1000

Ids = tuple[np.ndarray, np.ndarray]


class Transliteration:
    """Pseudo-counts for pairs of rare words that correspond letter by letter.

    A pair of words is a sequence of edits: letters that are substituted, left out, or inserted, each with a
    probability of its own. The pairs that have most of each other's links are either such transliterations or
    independent words; EM tells them apart (Sajjad, Fraser and Schmid 2012).

    Args:
        bitext: M pairs.
        rows: its word pairs by source word.
        alike: what :func:`alignkit.classical.hmm.evidence.spelling_counts` has found: pairs get what is missing.
        frequencies: of the source and the target words.
        threads: how many to use; no result depends on it.
    """

    def __init__(
        self,
        bitext: Bitext,
        rows: TableRows,
        alike: tuple[np.ndarray, np.ndarray],
        frequencies: list[np.ndarray],
        threads: int,
    ) -> None:
        self.threads = threads
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
        pairs = np.stack([self._sources[mutual], self._targets[mutual]], axis=1).astype(np.int64)
        edits = learned_edits(pairs, self._words)
        rare = np.stack([self._sources[self._places], self._targets[self._places]], axis=1).astype(np.int64)
        counts = transliterations(rare, self._words, edits, self.threads)
        chosen = counts > self._spelled
        return self._places[chosen], (counts - self._spelled)[chosen].astype(np.float32)


class LearnedLetters:
    """Pairs of letters that correspond, learned from the links of a fitted model.

    As :class:`Transliteration` does while a model is fitted, but of any
    size of its text: what is new is rare. Not with more than :data:`MOST_LETTERS`.

    Args:
        background: the model and its counts.
    """

    def __init__(self, background: BackgroundModel) -> None:
        self.totals, table, links = background.totals, background.model.table, background.pairs
        words = plain_words(background.model.source), plain_words(background.model.target)
        self.alphabet = alphabet_of(*words)
        self.is_used = len(links) > 0 and len(self.alphabet) <= MOST_LETTERS
        if not self.is_used:
            return
        source, target = (spelled(side, self.alphabet) for side in words)
        self.chances = chances_of(source, target, len(self.alphabet) + 1)  # the last letter is any other
        sources = table.rows
        mutual = are_mutual(links, self.totals[0][sources], self.totals[1][table.columns])
        mutual &= have_fitting_lengths(source)[sources] & have_fitting_lengths(target)[table.columns]
        pairs = np.stack([sources[mutual], table.columns[mutual]], axis=1).astype(np.int64)
        self.edits = learned_edits(pairs, SpelledWords(source, target, self.chances))

    def counts(self, bitext: Bitext, ids: Ids, new: np.ndarray, threads: int) -> np.ndarray:
        """Judge how sure it is that pairs of rare or unknown words are transliterations.

        Args:
            bitext: M pairs.
            ids: the model's ids of the text's source and target words, -1 if unknown.
            new: int64 (N,), elements of the (T, L) matrices whose pair of words the model does not know.
            threads: how many to use; no result depends on it.

        Returns:
            float32 (N,), from 0 to 1.
        """
        counts = np.zeros(len(new), np.float32)
        if not self.is_used:
            return counts
        words = tokens_of_elements(bitext, new)
        seen = [taken(self.totals[side], ids[side])[words[side]] + 1 for side in (0, 1)]
        places = np.flatnonzero(are_rare(*seen))
        source, sources = self._spelled(bitext.source.vocabulary, words[0][places])
        target, targets = self._spelled(bitext.target.vocabulary, words[1][places])
        fit = have_fitting_lengths(source)[sources] & have_fitting_lengths(target)[targets]
        keys, which = np.unique(sources[fit] * max(len(target.offsets), 1) + targets[fit], return_inverse=True)
        pairs = np.stack(np.divmod(keys, max(len(target.offsets), 1)), axis=1)
        found = transliterations(pairs, SpelledWords(source, target, self.chances), self.edits, threads)
        counts[places[fit]] = found[which]
        return counts

    def _spelled(self, vocabulary: Vocabulary, words: np.ndarray) -> tuple[Letters, np.ndarray]:
        """The letters of the different words among some, and int64 (N,), which of them each is."""
        own, which = np.unique(words, return_inverse=True)
        return spelled(plain_words(vocabulary[int(i)] for i in own), self.alphabet), which


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
    """bool (V,): the words that are neither too short nor too long."""
    lengths = np.diff(letters.offsets)
    return (lengths >= SHORTEST_WORD) & (lengths <= LONGEST_WORD)


def are_rare(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """bool (N,): the pairs of words that may need help, by how often each word is seen."""
    fewer, more = np.minimum(source, target), np.maximum(source, target)
    rare: np.ndarray = (fewer <= RARE) & (more <= IMBALANCE * fewer)
    return rare


def are_mutual(links: np.ndarray, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """bool (N,): the pairs whose links are most of those of both words."""
    mutual: np.ndarray = (links >= LEAST_LINKS) & (links >= SHARE * source) & (links >= SHARE * target)
    return mutual
