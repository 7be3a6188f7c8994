"""The M-step of word pairs: their expected counts, and pseudo-counts from spelling, transliteration, a lexicon and
classes of words; and what the likeness of two tokens says of their link."""

from __future__ import annotations

import numpy as np

from alignkit.classical.cooccurrence import IndexedBitext
from alignkit.classical.hmm.background import FEW, BackgroundModel, BackgroundPairs, Classes
from alignkit.classical.hmm.model import Ids, text_arrays
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.spelling import MOST_PAIRS, Transliteration, are_words, letters_of, spelling_counts
from alignkit.classical.priors import LexiconPrior
from alignkit.embeddings.levels import LEVELS, STEP, UNKNOWN
from alignkit.kernels.expected_links import UNIT, add_by_level, count_pairs
from alignkit.kernels.hmm_e_step import Likeness, LinkArrays
from alignkit.kernels.hmm_m_step import (
    NO_BACKGROUND,
    BackOffClasses,
    PairPrior,
    add_back_off,
    column_sums,
    row_sums,
    update_counts,
)
from alignkit.kernels.hmm_rows import ONE
from alignkit.kernels.inverted_index import TableRows
from alignkit.support.threads import blocks, run_blocks
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary

NO_COUNTS = np.empty(0, np.float32)
# The ratios of likeness at first, as counted on gold links of Danish-English and Hebrew-English, both as
# logarithms: those of the likeness (levels.likeness_levels), and those of the ratio. They count as much as so many
# links.
LOG_LIKENESS = -np.array([0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.25, 4.5, 6.5, 7.75])
LOG_RATIO = np.array([7.5, 5.5, 4.5, 3.8, 3.2, 2.4, 1.8, 0.1, -1.4, -4.0, -4.5])
PRIOR_LINKS = 200.0
#: A level below this is of two tokens that are more alike than 1/e, each among all of the other's sentence.
SURE = 4


class PairCounts:
    """Counts and pseudo-counts of all pairs of words that meet in a text.

    Args:
        bitext: M pairs.
        settings: of the estimation.
        threads: how many to use; no result depends on it.
        prior: a lexicon from another text, as pseudo-counts.
        background: a fitted model, whose counts are added, and its ids of the text's words.

    Attributes:
        rows: the pairs by source word; their values are the counts among ``counts``.
        counts: float32 (K, 3), each pair's count, and its pseudo-counts in the forward and the reverse direction.
        lexicon: float32 (2, K), the pseudo-counts of the prior, or None.
        background_counts: float32 (K,), the background model's; empty: there is none.
    """

    def __init__(
        self,
        bitext: Bitext,
        settings: HMMSettings,
        threads: int,
        prior: LexiconPrior | None = None,
        background: tuple[BackgroundModel, Ids] | None = None,
    ) -> None:
        self.settings, self.threads, self._text = settings, threads, text_arrays(bitext)
        indexed = IndexedBitext(bitext, threads, keep_bags=False)
        offsets, columns, _ = indexed.pairs()
        self.ranges = indexed.row_ranges
        del indexed  # which is as large as the text
        self.counts = np.zeros((len(columns), 3), np.float32)
        self.rows = TableRows(offsets, columns, self.counts[:, 0])
        sides = bitext.source, bitext.target
        self.frequencies = [np.bincount(side.tokens, minlength=len(side.vocabulary)) for side in sides]

        in_model = None if background is None else BackgroundPairs(*background, self.rows, self.ranges, threads)
        self.background_counts = NO_COUNTS if in_model is None else in_model.values
        self._background_totals = None if in_model is None else in_model.rest

        # A word and a mark of punctuation are seldom linked; without a factor all tokens count as words.
        factor = settings.punctuation
        words = (
            are_words(side.vocabulary) if factor < 1 else np.ones(len(side.vocabulary), bool) for side in sides
        )
        self._prior = PairPrior(np.float32(settings.dirichlet), np.float32(factor), *words)

        if prior is not None and settings.fold_case:
            prior = prior.lowercased
        self.lexicon = None if prior is None else prior.pseudo_counts(bitext, self.rows)
        self.alike = self.transliteration = None
        if settings.spelling > 0:
            letters = letters_of(bitext.source.vocabulary, bitext.target.vocabulary)
            self.alike = spelling_counts(letters, self.rows, threads)
            if len(columns) <= MOST_PAIRS:
                self.transliteration = Transliteration(letters, self.rows, self.alike, self.frequencies, threads)
        affixes = settings.affix_slices if settings.back_off > 0 else []
        self.back_off = [
            BackOff(bitext, affix, settings.back_off / len(affixes), self.frequencies, n, in_model)
            for n, affix in enumerate(affixes)
        ]

    def initialise(self, is_uniform: bool) -> None:
        """Make all pairs equal but for spelling and punctuation; or, if not uniform, leave them without counts."""
        self.counts[:] = 0
        if is_uniform:
            _, factor, are_source_words, are_target_words = self._prior
            fit = np.repeat(are_source_words, np.diff(self.rows.offsets)) == are_target_words[self.rows.columns]
            self.counts[:, 0] = np.where(fit, ONE, factor)
            self._add_spelling()

    def update(self, links: LinkArrays) -> tuple[np.ndarray, np.ndarray]:
        """Counts and pseudo-counts from expected links.

        Returns:
            float32 (V_src,) and (V_tgt,), the sums of each word's counts and pseudo-counts in both directions.
        """
        rows, counts, sums = self.rows, self.counts, sums_in_place(self.counts)
        # Each block reads the whole text, so there are no more of them than threads.
        run_blocks(
            lambda *span: update_counts(
                *span, self._text, links, rows, self.background_counts, self._prior, sums, counts
            ),
            blocks(self.frequencies[0], self.threads),
            self.threads,
        )
        totals = self._sums(rows.values, rows.values)
        if self._background_totals is not None:
            totals = totals[0] + self._background_totals[0], totals[1] + self._background_totals[1]
        self._add_spelling()
        if self.transliteration is not None:
            places, alike = self.transliteration.counts(rows.values, totals)
            counts[places, 1:] += np.float32(self.settings.spelling) * alike[:, None]
        if self.lexicon is not None:
            counts[:, 1:] += self.lexicon.T
        for classes in self.back_off:
            classes.add(rows, totals, counts, self.threads)
        forward, reverse = self._sums(counts[:, 1], counts[:, 2])
        return (totals[0] + forward).astype(np.float32), (totals[1] + reverse).astype(np.float32)

    def background_without(self, links: LinkArrays) -> np.ndarray:
        """float32 (K,): the background's counts less the text's expected links; ``counts`` is overwritten."""
        own = sums_in_place(self.counts)
        count_pairs((0, len(own)), self._text, links, own)
        counts = np.empty_like(self.background_counts)
        for low in range(0, len(own), 1 << 22):
            part = slice(low, low + (1 << 22))
            counts[part] = np.maximum(self.background_counts[part] - own[part] * UNIT, 0)
        return counts

    def _add_spelling(self) -> None:
        if self.alike is not None:
            places, alike = self.alike
            self.counts[places, 1:] += np.float32(self.settings.spelling) * alike[:, None]

    def _sums(self, by_source: np.ndarray, by_target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """float64 (V_src,) and (V_tgt,): the sums of the pairs' numbers (K,) by source, and by target word."""
        offsets, columns, _ = self.rows
        source, target = np.empty(len(self.frequencies[0])), np.zeros(len(self.frequencies[1]))
        run_blocks(lambda low, high: row_sums(low, high, offsets, by_source, source), self.ranges, self.threads)
        run_blocks(
            lambda low, high: column_sums(low, high, columns, by_target, target),
            blocks(self.frequencies[1], self.threads),
            self.threads,
        )
        return source, target


def sums_in_place(counts: np.ndarray) -> np.ndarray:
    """int64 (K,), in the place of the two pseudo-counts of each word pair, which are made anew from its sum."""
    fields: np.ndarray = counts.view([("count", np.float32), ("sum", np.int64)])["sum"]
    return fields[:, 0]


def affix_classes(vocabulary: Vocabulary, affix: slice) -> Classes:
    """Classes of words that share the letters at this place; a shorter word is its own affix."""
    ids: dict[str, int] = {}
    of = np.array([ids.setdefault(word[affix], len(ids)) for word in vocabulary], np.int32)
    first = np.zeros(len(ids) + 1, np.int64)
    np.cumsum(np.bincount(of, minlength=len(ids)), out=first[1:])
    return Classes(of, first, np.argsort(of, kind="stable").astype(np.int32))


class BackOff:
    """Pseudo-counts of word pairs from other pairs of their classes: words that share first or last letters.

    With a, b the classes of i, o, the pair (i, o) gets, in the row of i, a share of ``weight`` in proportion to
    count(a, b) - count(i, o), and to how frequent o is in its class.

    Args:
        bitext: the text.
        affix: the place of the letters that make classes.
        weight: what each row gets in all at most, where much is known of its classes.
        frequencies: of the source and the target words.
        number: which of the settings' affixes it is.
        background: a model's expected counts, which are added to those of the text.
    """

    def __init__(
        self,
        bitext: Bitext,
        affix: slice,
        weight: float,
        frequencies: list[np.ndarray],
        number: int = 0,
        background: BackgroundPairs | None = None,
    ) -> None:
        words = bitext.source.vocabulary, bitext.target.vocabulary
        self.classes = affix_classes(words[0], affix), affix_classes(words[1], affix)
        self.weight, self._frequencies = weight, [each.astype(np.float64) for each in frequencies]
        self._background = None
        if background is not None:
            self._background = background.model.classes[number].of_text(self.classes, words, background)

    def add(
        self, rows: TableRows, totals: tuple[np.ndarray, np.ndarray], pair_counts: np.ndarray, threads: int
    ) -> None:
        """Adds to the pseudo-counts of both directions.

        Args:
            rows: counts of the word pairs by source word.
            totals: float64, their sums by source word, and by target word.
            pair_counts: float32 (K, 3), as :attr:`PairCounts.counts`.
        """
        factors = []
        for side, (of, first, _) in enumerate(self.classes):
            # Of each word: weight / what the rest of its class sums to, and its share in its class.
            frequency, number = self._frequencies[side], len(first) - 1
            rest = np.maximum(np.bincount(of, totals[side], minlength=number)[of] - totals[side], 0)
            if self._background is not None:
                rest = rest + self._background.rest[side]
            factor = self.weight / (rest + FEW)
            share = frequency / np.maximum(np.bincount(of, frequency, minlength=number)[of], 1)
            factors.append(np.stack([share, factor] if side else [factor, share], axis=1).astype(np.float32))
        source, target = self.classes
        classes = BackOffClasses(source.members, source.first, target.of, factors[0], factors[1])
        background = NO_BACKGROUND if self._background is None else self._background.counts
        work = np.add.reduceat(np.diff(rows.offsets)[source.members], source.first[:-1])

        run_blocks(
            lambda low, high: add_back_off(
                low,
                high,
                classes,
                background,
                rows,
                np.zeros(len(target.first) - 1),
                np.empty(work[low:high].max(), np.uint32),
                pair_counts,
            ),
            blocks(work, 1 if threads == 1 else 8 * threads),
            threads,
        )


class LevelRatios:
    """How much likelier each level of likeness is where there is a link than elsewhere, estimated with the links.

    An encoder knows some languages less well than others: the ratios count with an exponent that falls with the
    share of target tokens to which a source token is much alike.

    Args:
        levels: uint8 (P,), of every element of the text's matrices (:mod:`alignkit.embeddings.levels`).
        shapes: int (M, 2), T and L of each matrix.
        exponent: of the ratios if all target tokens have such a source token, and in proportion; at most 1 in all.
    """

    def __init__(self, levels: np.ndarray, shapes: np.ndarray, exponent: float) -> None:
        # The share of rows, of those with any known level, that have one below SURE.
        widths, share = np.repeat(shapes[:, 1], shapes[:, 0]), 0.0
        widths = widths[widths > 0].astype(np.int64)
        if len(widths):
            best = np.minimum.reduceat(levels, np.cumsum(widths) - widths)
            share = float((best < SURE).sum() / max((best < UNKNOWN).sum(), 1))
        self.exponent = min(exponent * share, 1.0)
        counts, step = np.zeros(LEVELS + 1), 1 << 22
        for low in range(0, len(levels), step):
            counts += np.bincount(levels[low : low + step], minlength=LEVELS + 1)
        counts = counts[:LEVELS] + 1
        self.shares = counts / counts.sum()
        first = np.exp(np.interp(STEP * np.arange(LEVELS), -LOG_LIKENESS, LOG_RATIO))
        expected = self.shares * first
        self.prior = PRIOR_LINKS * expected / expected.sum()
        self.ratios = np.ones(LEVELS + 1, np.float32)
        self.ratios[:LEVELS] = np.maximum(first, 1e-6) ** self.exponent
        #: As the kernels take it; :meth:`update` changes it.
        self.likeness = Likeness(levels, self.ratios)

    def update(self, elements: np.ndarray) -> None:
        """New ratios from the expected links of elements uint32 (P,)."""
        sums = np.zeros(LEVELS + 1)
        add_by_level(self.likeness.levels, elements, sums)
        linked = sums[:LEVELS] * UNIT + self.prior
        self.ratios[:LEVELS] = np.maximum(linked / linked.sum() / self.shares, 1e-6) ** self.exponent
