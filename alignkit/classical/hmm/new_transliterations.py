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
from alignkit.kernels.transliteration import SpelledWords
from alignkit.scores.scores import flat_offsets
from alignkit.text.bitext import Bitext

Ids = tuple[np.ndarray, np.ndarray]


class KnownLetters:
    """Which letters correspond, learned from the links of a fitted joint aligner.

    As :class:`alignkit.classical.hmm.transliteration.Transliteration` does while an aligner is fitted, but of any
    size of its text: what is new is rare.

    Args:
        known: the aligner and its counts.
    """

    def __init__(self, known: KnownModel) -> None:
        self.known, table = known, known.model.table
        self.is_used = len(known.pairs) > 0
        if not self.is_used:
            return
        words = plain_words(known.model.source), plain_words(known.model.target)
        self.alphabet = alphabet_of(*words)
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
        vocabularies = bitext.source.vocabulary, bitext.target.vocabulary
        source, target = (spelled(plain_words(side), self.alphabet) for side in vocabularies)
        seen = [taken(self.known.totals[side], ids[side]) + 1 for side in (0, 1)]
        chosen = have_fitting_lengths(source)[words[0]] & have_fitting_lengths(target)[words[1]]
        chosen &= are_rare(seen[0][words[0]], seen[1][words[1]])
        places = np.flatnonzero(chosen)
        pairs = np.stack([words[0][places], words[1][places]], axis=1).astype(np.int64)
        counts[places] = transliterations(pairs, SpelledWords(source, target, self.chances), self.edits, threads)
        return counts
