"""Transliterations in texts that a fitted joint aligner links, by what it has learned of letters."""

from __future__ import annotations

import numpy as np

from alignkit.classical.hmm.evidence import alphabet_of, plain_words, spelled
from alignkit.classical.hmm.known_model import KnownModel, taken
from alignkit.classical.hmm.transliteration import (
    are_mutual,
    are_rare,
    chances_of,
    have_fitting_lengths,
    learned_edits,
    transliterations,
)
from alignkit.kernels.spelling import Letters
from alignkit.kernels.transliteration import SpelledWords
from alignkit.scores import flat_offsets
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary

#: Models of more letters are those of Chinese and the like, whose words are short; pairs of letters would be many.
MOST_LETTERS = 1000

Ids = tuple[np.ndarray, np.ndarray]


class KnownLetters:
    """Which letters correspond, learned from the links of a fitted joint aligner.

    As :class:`alignkit.classical.hmm.transliteration.Transliteration` does while an aligner is fitted, but of any
    size of its text: what is new is rare. Not with more than :data:`MOST_LETTERS`.

    Args:
        known: the aligner and its counts.
    """

    def __init__(self, known: KnownModel) -> None:
        self.known, table = known, known.model.table
        words = plain_words(known.model.source), plain_words(known.model.target)
        self.alphabet = alphabet_of(*words)
        self.is_used = len(known.pairs) > 0 and len(self.alphabet) <= MOST_LETTERS
        if not self.is_used:
            return
        source, target = (spelled(side, self.alphabet) for side in words)
        self.chances = chances_of(source, target, len(self.alphabet) + 1)  # the last letter is any other
        sources = np.repeat(np.arange(table.shape[0], dtype=np.int32), np.diff(table.offsets))
        mutual = are_mutual(known.pairs, known.totals[0][sources], known.totals[1][table.columns])
        mutual &= have_fitting_lengths(source)[sources] & have_fitting_lengths(target)[table.columns]
        pairs = np.stack([sources[mutual], table.columns[mutual]], axis=1).astype(np.int64)
        self.edits = learned_edits(pairs, SpelledWords(source, target, self.chances))

    def counts(self, bitext: Bitext, ids: Ids, new: np.ndarray, threads: int) -> np.ndarray:
        """How sure it is that pairs of rare or unknown words are transliterations.

        Args:
            bitext: M pairs.
            ids: the aligner's ids of the text's source and target words, -1 if unknown.
            new: int64 (N,), elements of the (T, L) matrices whose pair of words the aligner does not know.
            threads: how many to use; no result depends on it.

        Returns:
            float32 (N,), from 0 to 1.
        """
        counts = np.zeros(len(new), np.float32)
        if not self.is_used:
            return counts
        offsets = flat_offsets(bitext.shapes)
        m = np.searchsorted(offsets, new, side="right") - 1
        row, column = np.divmod(new - offsets[m], bitext.source.lengths[m])
        words = (
            bitext.source.tokens[bitext.source.offsets[m] + column],
            bitext.target.tokens[bitext.target.offsets[m] + row],
        )
        seen = [taken(self.known.totals[side], ids[side])[words[side]] + 1 for side in (0, 1)]
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
