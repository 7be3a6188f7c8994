"""What a fitted model says of another text: the counts that its own text adds to those of the other, and
probabilities of pairs of words that it has never seen together."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from alignkit.classical.hmm.model import FittedCounts, FittedHMM, Ids, share_of_repetition, values_of
from alignkit.classical.hmm.settings import JOINT_SETTINGS, HMMSettings
from alignkit.classical.hmm.spelling import (
    are_rare,
    chances_of,
    have_fitting_lengths,
    learned_edits,
    letters_of,
    plain_words,
    spelled,
    spelling_of_new_pairs,
    transliterations,
)
from alignkit.classical.hmm.word_classes import FEW, ClassCounts
from alignkit.classical.lexical_model import row_spans, table_values
from alignkit.kernels.hmm_m_step import background_values, column_sums, row_sums
from alignkit.kernels.hmm_rows import FERTILITIES, TINY
from alignkit.kernels.inverted_index import TableRows
from alignkit.kernels.spelling import Letters, SpelledWords
from alignkit.scores import flat_offsets, tokens_of_elements
from alignkit.support.arrays import in_runs, offsets_of
from alignkit.support.threads import blocks_of_size, run_blocks
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary

#: Pairs with fewer expected links than this say nothing of classes of words; nearly all pairs are such.
LEAST_COUNT = 0.05
#: Models of more letters are those of Chinese and the like, whose words are short; pairs of letters would be many.
MOST_LETTERS = 1000
#: A sentence pair with this number of elements (t, l) or more is taken to be one of the text if all its word pairs
#: met there: in a pair of another text some did not, unless it is short.
LEAST_ELEMENTS = 20
CHANGED_ELEMENTS = 1 << 19  # that are changed at a time


class BackgroundModel:
    """A fitted model of both directions as background knowledge about other texts.

    Args:
        model: fitted.
        counts: those that it was fitted with.
        settings: of the estimation that it is background for.

    Attributes:
        totals: float64 (V_src,) and (V_tgt,), the expected number of links of each word.
        null: float64 (V_tgt,) and (V_src,), NULL's counts in each direction.
        fertilities: float64 (V_src, F) and (V_tgt, F), the number of occurrences with 0, 1, ... links.
        classes: counts of pairs of classes, for each of the settings' affixes.
    """

    def __init__(self, model: FittedHMM, counts: FittedCounts, settings: HMMSettings) -> None:
        table, rows = model.table, model.table.rows
        self.model, self.pairs = model, counts.pairs
        self.totals = tuple(
            np.bincount(words, counts.pairs, minlength=size).astype(np.float64)
            for words, size in zip((rows, table.columns), table.shape, strict=True)
        )
        self.null = tuple(
            direction.null.astype(np.float64) * float(total)
            for direction, total in zip(model.directions, counts.null, strict=True)
        )
        self.fertilities = tuple(
            fertility_counts(direction.fertility, totals, settings.fertility)
            for direction, totals in zip(model.directions, self.totals, strict=True)
        )
        some = np.flatnonzero(counts.pairs >= LEAST_COUNT)
        counted, words = (rows[some], table.columns[some], counts.pairs[some]), (model.source, model.target)
        affixes = settings.affix_slices if settings.back_off > 0 else ()
        self.classes = [ClassCounts(words, counted, self.totals, affix) for affix in affixes]


def fertility_counts(fertility: np.ndarray, links: np.ndarray, exponent: float) -> np.ndarray:
    """float64 (V, F): expected occurrences of each word with 0, 1, ... links, from its
    :func:`alignkit.classical.hmm.hmm.fertility_factors`.

    Args:
        fertility: float32 (V, F - 1), the factors; (V, 1) if there are none.
        links: float64 (V,), the expected number of links of each word.
        exponent: of the factors.
    """
    factors = fertility.astype(np.float64)
    if factors.shape[1] != FERTILITIES - 1 or exponent <= 0:
        return np.zeros((len(factors), FERTILITIES))
    ratios = np.clip(factors, 1e-6, 1e6) ** (1 / exponent)
    chances = np.cumprod(np.concatenate([np.ones((len(factors), 1)), ratios], axis=1), axis=1)
    chances /= chances.sum(axis=1, keepdims=True)
    mean = chances @ np.arange(FERTILITIES)
    return chances * (links / np.maximum(mean, 0.1))[:, None]


class BackgroundPairs:
    """A background model's expected counts of the word pairs of a text.

    Args:
        background: the model.
        ids: the model's ids of the text's source and target words, -1 if unknown.
        rows: the K pairs of the text.
        ranges: of the text's source words.
        threads: how many to use; no result depends on it.

    Attributes:
        values: float32 (K,), counts.
        rest: float64 (V_src,) and (V_tgt,), the counts of each word's pairs that the text does not have.
    """

    def __init__(
        self, background: BackgroundModel, ids: Ids, rows: TableRows, ranges: list[tuple[int, int]], threads: int
    ) -> None:
        self.model, self.ids, table = background, ids, background.model.table
        spans = row_spans(table.with_values(background.pairs), ids[0])
        self.values = np.zeros(len(rows.columns), np.float32)
        run_blocks(
            lambda *span: background_values(
                *span, spans, rows, ids[1], np.zeros(table.width, np.float32), self.values
            ),
            ranges,
            threads,
        )
        sums = np.empty(len(ids[0])), np.zeros(len(ids[1]))
        row_sums(0, len(ids[0]), rows.offsets, self.values, sums[0])
        column_sums(0, len(ids[1]), rows.columns, self.values, sums[1])
        self.rest = tuple(
            np.maximum(values_of(background.totals[side], ids[side]) - sums[side], 0) for side in (0, 1)
        )


class UnknownPairs:
    """Emissions of pairs of words that never met in the text of a model, or of words that were not there.

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
        self.background, self.settings = BackgroundModel(model, counts, JOINT_SETTINGS), JOINT_SETTINGS
        self.is_spelled = model.is_spelled  # short units have no spelling

    @cached_property
    def letters(self) -> LearnedLetters:
        """The letters that correspond in the links that the model has learned."""
        return LearnedLetters(self.background)

    def add(self, bitext: Bitext, ids: Ids, is_new: np.ndarray, probabilities: np.ndarray, threads: int) -> None:
        """Sets p(y|x) of the new pairs in both directions.

        Args:
            bitext: M pairs.
            ids: the model's ids of the text's source and target words, -1 if unknown.
            is_new: bool (P,), the elements of the (T, L) matrices whose pair the model does not know.
            probabilities: float32 (P, 3), of which columns 1 and 2 are the forward and the reverse direction's.
        """
        new = np.flatnonzero(is_new)
        if not len(new):
            return
        words = tokens_of_elements(bitext, new)
        forward = np.full(len(new), self.settings.dirichlet, np.float32)
        if self.is_spelled:
            alike = spelling_of_new_pairs(bitext, is_new, threads)[new]
            alike = np.maximum(alike, self.letters.counts(bitext, ids, words, threads))
            forward += np.float32(self.settings.spelling) * alike
        reverse = forward.copy()
        weight = self.settings.back_off / len(self.background.classes)
        for classes in self.background.classes:
            own_classes = (
                classes.classes_of(0, bitext.source.vocabulary),
                classes.classes_of(1, bitext.target.vocabulary),
            )
            counts = table_values(classes.table, bitext, *own_classes, threads)[new]
            counted = np.flatnonzero(counts)
            counts, x, y = counts[counted], words[0][counted], words[1][counted]
            factors, shares = [], []  # of each word, as in BackOff.add, with frequencies as the model has them
            for side, of in enumerate(own_classes):
                own = values_of(self.background.totals[side], ids[side])
                in_class = values_of(classes.totals[side], of)
                frequency = np.maximum(own, 1)
                share = frequency / np.maximum(in_class + (ids[side] < 0), frequency)
                factor = weight / (np.maximum(in_class - own, 0) + FEW)
                factors.append(factor.astype(np.float32))
                shares.append(share.astype(np.float32))
            forward[counted] += counts * (factors[0][x] * shares[1][y])
            reverse[counted] += counts * (shares[0][x] * factors[1][y])
        for side, pseudo_counts in enumerate((forward, reverse)):
            totals = (values_of(self.background.totals[side], ids[side]) + 1).astype(np.float32)
            probabilities[new, 1 + side] = np.minimum(pseudo_counts / totals[words[side]], np.float32(1))


class LearnedLetters:
    """Pairs of letters that correspond, learned from the links of a fitted model.

    As :class:`alignkit.classical.hmm.spelling.Transliteration` does while a model is fitted, but of any size of
    its text: what is new is rare. Not with more than :data:`MOST_LETTERS`.

    Args:
        background: the model and its counts.
    """

    def __init__(self, background: BackgroundModel) -> None:
        self.totals, table, links = background.totals, background.model.table, background.pairs
        source, target, self.alphabet = letters_of(background.model.source, background.model.target)
        self.is_used = len(links) > 0 and len(self.alphabet) <= MOST_LETTERS
        if not self.is_used:
            return
        self.chances = chances_of(source, target, len(self.alphabet) + 1)  # the last letter is any other
        words = SpelledWords(source, target, self.chances)
        self.edits = learned_edits(table.rows, table.columns, links, self.totals, words)

    def counts(self, bitext: Bitext, ids: Ids, words: tuple[np.ndarray, np.ndarray], threads: int) -> np.ndarray:
        """Judge how sure it is that pairs of rare or unknown words are transliterations.

        Args:
            bitext: M pairs.
            ids: the model's ids of the text's source and target words, -1 if unknown.
            words: int (N,) each, the source and the target word of pairs that the model does not know.
            threads: how many to use; no result depends on it.

        Returns:
            float32 (N,), from 0 to 1.
        """
        counts = np.zeros(len(words[0]), np.float32)
        if not self.is_used:
            return counts
        seen = [values_of(self.totals[side], ids[side])[words[side]] + 1 for side in (0, 1)]
        places = np.flatnonzero(are_rare(*seen))
        source, sources = self._spelled(bitext.source.vocabulary, words[0][places])
        target, targets = self._spelled(bitext.target.vocabulary, words[1][places])
        letters = SpelledWords(source, target, self.chances)
        fit = have_fitting_lengths(letters, sources, targets)
        keys, which = np.unique(sources[fit] * max(len(target.offsets), 1) + targets[fit], return_inverse=True)
        pairs = np.stack(np.divmod(keys, max(len(target.offsets), 1)), axis=1)
        values = transliterations(pairs, letters, self.edits, threads)
        counts[places[fit]] = values[which]
        return counts

    def _spelled(self, vocabulary: Vocabulary, words: np.ndarray) -> tuple[Letters, np.ndarray]:
        """The letters of the different words among some, and int64 (N,), which of them each is."""
        own, which = np.unique(words, return_inverse=True)
        return spelled(plain_words(vocabulary[int(i)] for i in own), self.alphabet), which


class LeaveOneOut:
    """Judges sentence pairs of the text that a model was fitted on by the counts of the others.

    In the fit a link is judged by the counts of other places (kernels.hmm_e_step.emissions). A fitted model
    that links the same text again would find a pair's own links among its counts, and rare words would confirm
    whatever they were linked to.

    Args:
        model: of both directions, between words; a model without pseudo-counts keeps its counts whole.
        counts: those that it was fitted with.
    """

    def __init__(self, model: FittedHMM, counts: FittedCounts) -> None:
        self.model, self.counts = model, counts
        links = float(counts.pairs.sum(dtype=np.float64))
        tokens = (links + float(counts.null[1]), links + float(counts.null[0]))
        ratios = [types / max(number, 1.0) for types, number in zip(model.table.shape, tokens, strict=True)]
        self.share = share_of_repetition(max(ratios)) if model.forward.emission_floor.any() else 0.0

    def take_out(
        self,
        bitext: Bitext,
        ids: Ids,
        is_new: np.ndarray,
        probabilities: np.ndarray,
        threads: int,
    ) -> None:
        """Changes p(y|x) in sentence pairs that are taken to be of the model's text: at most one link of each
        word pair is its own.

        Args:
            bitext, ids, is_new, probabilities: as in :meth:`UnknownPairs.add`.
            threads: how many to use; no result depends on it.
        """
        offsets = flat_offsets(bitext.shapes)
        before = offsets_of(is_new)
        is_own = (before[offsets[1:]] == before[offsets[:-1]]) & (np.diff(offsets) >= LEAST_ELEMENTS)
        if not is_own.any() or self.share <= 0:
            return
        chosen = np.flatnonzero(is_own)
        own_text = bitext.take(chosen)
        starts = flat_offsets(own_text.shapes)
        for low, high in blocks_of_size(starts, CHANGED_ELEMENTS):
            part = own_text.block(low, high)
            places = in_runs(offsets[chosen[low:high]], np.diff(starts[low : high + 1]))
            values = table_values(self.model.table.with_values(self.counts.pairs), part, *ids, threads)
            own = self.share * np.minimum(values, 1).astype(np.float64)
            tokens = tokens_of_elements(part, np.arange(len(own)))
            for side, direction in enumerate(self.model.directions):
                # The floor is the pseudo-count of every pair, divided by the word's count.
                floor = direction.emission_floor[ids[side][tokens[side]]].astype(np.float64)
                totals = JOINT_SETTINGS.dirichlet / np.maximum(floor, TINY)
                others = probabilities[places, 1 + side] * totals - own
                probabilities[places, 1 + side] = np.maximum(others, TINY) / np.maximum(totals - own, TINY)
