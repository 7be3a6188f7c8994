"""Emission probabilities of word pairs that a fitted joint aligner does not know, in texts that it links."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from alignkit.classical.hmm.evidence import spelling_of_new_pairs
from alignkit.classical.hmm.expectation import text_arrays
from alignkit.classical.hmm.known_model import ClassPairs, FittedCounts, KnownModel, taken
from alignkit.classical.hmm.new_transliterations import KnownLetters
from alignkit.classical.hmm.parameters import FittedHMM
from alignkit.classical.hmm.settings import JOINT_SETTINGS
from alignkit.classical.hmm.word_classes import FEW
from alignkit.classical.lexical_model import Lookup
from alignkit.kernels.hmm_known import add_class_counts, divide_by_totals
from alignkit.parallel import blocks, run_blocks
from alignkit.scores import flat_offsets
from alignkit.text.bitext import Bitext

Ids = tuple[np.ndarray, np.ndarray]


class NewPairs:
    """What is known of pairs of words that never met in the text of a model, or of words that were not there.

    A pair gets pseudo-counts as in a fit with :data:`.settings.JOINT_SETTINGS`: that of all pairs, that of its
    spelling if the model was fitted with such, and that of the other pairs of the same classes
    (:class:`alignkit.classical.hmm.word_classes.BackOff`). p(y|x) is their sum divided by the count of x and 1.
    A model that was fitted with other pseudo-counts, or without, gets these too: with none, words that it does not
    know could not be linked.

    Args:
        model: of both directions.
        counts: those that it was fitted with.
    """

    def __init__(self, model: FittedHMM, counts: FittedCounts) -> None:
        self.known, self.settings = KnownModel(model, counts, JOINT_SETTINGS), JOINT_SETTINGS
        self.is_spelled = model.is_spelled  # short units have no spelling

    @cached_property
    def letters(self) -> KnownLetters:
        """Which letters correspond in what the model has learned."""
        return KnownLetters(self.known)

    def add(self, bitext: Bitext, ids: Ids, is_new: np.ndarray, evidence: np.ndarray, threads: int) -> None:
        """Sets p(y|x) of the new pairs in both directions.

        Args:
            bitext: M pairs.
            ids: the model's ids of the text's source and target words, -1 if unknown.
            is_new: bool (P,), of each element of the (T, L) matrices whether the model does not know the pair.
            evidence: float32 (P, 3), of which columns 1 and 2 are the forward and the reverse direction's.
        """
        new = np.flatnonzero(is_new)
        if not len(new):
            return
        start = np.full(len(new), self.settings.lexical_prior, np.float32)
        if self.is_spelled:
            alike = spelling_of_new_pairs(bitext, is_new, threads)[new]
            alike = np.maximum(alike, self.letters.counts(bitext, ids, new, threads))
            start += np.float32(self.settings.spelling) * alike
        evidence[new, 1] = evidence[new, 2] = start
        text, offsets = text_arrays(bitext), flat_offsets(bitext.shapes)
        ranges, words = blocks(np.diff(offsets), threads), self._words(bitext)
        for classes in self.known.classes:
            found = classes.of_words(0, words[0]), classes.of_words(1, words[1])
            counts = Lookup(classes.table, bitext, *found, threads).scores().values
            factors = self._factors(classes, ids, found)

            def add(low: int, high: int, counts: np.ndarray = counts, factors: Ids = factors) -> None:
                add_class_counts(low, high, text, offsets, is_new, counts, factors, evidence)

            run_blocks(add, ranges, threads)
        totals = [(taken(self.known.totals[side], ids[side]) + 1).astype(np.float32) for side in (0, 1)]
        run_blocks(
            lambda *span: divide_by_totals(*span, text, offsets, is_new, *totals, evidence), ranges, threads
        )

    def _words(self, bitext: Bitext) -> list[list[str]]:
        """The words of both sides as the model has them."""
        lower = self.known.model.fold_case
        vocabularies = bitext.source.vocabulary, bitext.target.vocabulary
        return [[word.lower() if lower else word for word in vocabulary] for vocabulary in vocabularies]

    def _factors(self, classes: ClassPairs, ids: Ids, found: Ids) -> Ids:
        """The factors of both sides' words (:class:`alignkit.kernels.hmm_m_step.BackOffClasses`), from the classes
        found for them, with their frequencies as the model knows them."""
        weight, factors = self.settings.back_off / len(self.known.classes), []
        for side, of in enumerate(found):
            own, in_class = taken(self.known.totals[side], ids[side]), taken(classes.totals[side], of)
            frequency = np.maximum(own, 1)
            share = frequency / np.maximum(in_class + (ids[side] < 0), frequency)
            factor = weight / (np.maximum(in_class - own, 0) + FEW)
            columns = [share, factor] if side else [factor, share]
            factors.append(np.stack(columns, axis=1).astype(np.float32))
        return factors[0], factors[1]
