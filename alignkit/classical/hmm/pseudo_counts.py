"""The M-step of word pairs: their expected counts, and pseudo-counts from spelling, transliteration, a lexicon and
classes of words; and what the likeness of two tokens says of their link."""

from __future__ import annotations

import numpy as np

from alignkit.classical.cooccurrence import IndexedBitext
from alignkit.classical.hmm.background import BackgroundModel, counts_of_pairs
from alignkit.classical.hmm.e_step import text_arrays
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.hmm.spelling import MOST_PAIRS, Transliteration, are_words, letters_of, spelling_counts
from alignkit.classical.hmm.word_classes import BackOff, affix_classes
from alignkit.classical.lexical_model import Ids
from alignkit.classical.priors import LexiconPrior
from alignkit.embeddings.levels import LEVELS, OPINIONS, STEP
from alignkit.kernels.expected_links import UNIT, add_by_level, count_pairs
from alignkit.kernels.hmm_e_step import Likeness, LinkArrays
from alignkit.kernels.hmm_m_step import PairPrior, column_sums, row_sums, update_counts
from alignkit.kernels.hmm_rows import ONE
from alignkit.kernels.inverted_index import TableRows
from alignkit.support.arrays import offsets_of
from alignkit.support.threads import run_blocks, run_evenly
from alignkit.text.bitext import Bitext
from alignkit.text.spellings import base_letters

NO_COUNTS = np.empty(0, np.float32)
#: A word pair's count, and the sum of its expected links in the place of its two pseudo-counts.
COUNT_AND_SUM = np.dtype([("count", np.float32), ("sum", np.int64)])
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
        is_uniform: all pairs are equal at the start but for spelling and punctuation; else they have no counts.

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
        is_uniform: bool = True,
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

        self.background_counts, self._background_totals = NO_COUNTS, None
        if background is not None:
            in_model = counts_of_pairs(*background, self.rows, self.ranges, threads)
            self.background_counts, self._background_totals = in_model

        # A word and a mark of punctuation are seldom linked; without a factor all tokens count as words.
        factor = np.float32(settings.punctuation)
        words = (
            are_words(side.vocabulary) if factor < 1 else np.ones(len(side.vocabulary), bool) for side in sides
        )
        are_source_words, are_target_words = words
        dirichlet = np.float32(settings.dirichlet)
        self._prior = PairPrior(dirichlet, factor, are_source_words, are_target_words)
        if is_uniform:
            fit = np.repeat(are_source_words, np.diff(offsets)) == are_target_words[columns]
            self.counts[:, 0] = np.where(fit, ONE, factor)

        if prior is not None and settings.fold_case:
            prior = prior.folded
        self.lexicon = None if prior is None else prior.pseudo_counts(bitext, self.rows)
        self.transliteration: Transliteration | None = None
        self.spelled = np.empty(0, np.int64), np.empty((0, 1), np.float32)
        if settings.spelling > 0:
            letters = letters_of(bitext.source.vocabulary, bitext.target.vocabulary)
            places, alike = spelling_counts(letters, self.rows, threads)
            self.spelled = places, np.float32(settings.spelling) * alike[:, None]
            if len(columns) <= MOST_PAIRS:
                self.transliteration = Transliteration(
                    letters, self.rows, (places, alike), self.frequencies, threads
                )
        if is_uniform:
            places, spelled = self.spelled
            self.counts[places, 1:] += spelled

        affixes, vocabularies = settings.affix_slices, [side.vocabulary for side in sides]
        self.back_off = list[BackOff]()
        bases = [[*map(base_letters, words)] for words in vocabularies] if settings.back_off > 0 else []
        for n, affix in enumerate(affixes if bases else ()):
            source, target = (affix_classes(words, affix) for words in bases)
            in_classes = None
            if background is not None:
                known, ids = background
                in_classes = known.classes[n].of_text((source, target), vocabularies, ids, self.background_counts)
            weight = settings.back_off / len(affixes)
            self.back_off.append(BackOff((source, target), weight, self.frequencies, in_classes))

    def update(self, links: LinkArrays) -> tuple[np.ndarray, np.ndarray]:
        """Counts and pseudo-counts from expected links.

        Returns:
            float32 (V_src,) and (V_tgt,), the sums of each word's counts and pseudo-counts in both directions.
        """
        rows, counts, sums = self.rows, self.counts, self.counts.view(COUNT_AND_SUM)["sum"][:, 0]
        # Each block reads the whole text, so there are no more of them than threads.
        arrays = self._text, links, rows, self.background_counts, self._prior, sums, counts
        run_evenly(lambda *span: update_counts(*span, *arrays), offsets_of(self.frequencies[0]), self.threads)
        totals = self._sums(rows.values, rows.values)
        if self._background_totals is not None:
            totals = totals[0] + self._background_totals[0], totals[1] + self._background_totals[1]
        places, spelled = self.spelled
        counts[places, 1:] += spelled
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
        own = self.counts.view(COUNT_AND_SUM)["sum"][:, 0]
        count_pairs((0, len(own)), self._text, links, own)
        counts = np.empty_like(self.background_counts)
        for low in range(0, len(own), 1 << 22):
            part = slice(low, low + (1 << 22))
            counts[part] = np.maximum(self.background_counts[part] - own[part] * UNIT, 0)
        return counts

    def _sums(self, by_source: np.ndarray, by_target: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """float64 (V_src,) and (V_tgt,): the sums of the pairs' numbers (K,) by source, and by target word."""
        offsets, columns, _ = self.rows
        source, target = np.empty(len(self.frequencies[0])), np.zeros(len(self.frequencies[1]))
        run_blocks(lambda low, high: row_sums(low, high, offsets, by_source, source), self.ranges, self.threads)
        run_evenly(
            lambda low, high: column_sums(low, high, columns, by_target, target),
            offsets_of(self.frequencies[1]),
            self.threads,
        )
        return source, target


class LevelRatios:
    """How much likelier each level of evidence is where there is a link than elsewhere, estimated with the links.

    An encoder knows some languages less well than others: the ratios count with an exponent that falls with the
    share of target tokens to which a source token is much alike. So it is with what other views say.

    Args:
        levels: uint8 (P,), of every element of the text's matrices: of likeness
            (:mod:`alignkit.embeddings.levels`), or after these of opinions
            (:func:`alignkit.classical.hmm.link_probabilities.levels_of_links`).
        shapes: int (M, 2), T and L of each matrix.
        exponents: of the ratios of both if all target tokens have such a source token, and in proportion; at most
            1 in all.
    """

    def __init__(self, levels: np.ndarray, shapes: np.ndarray, exponents: tuple[float, float]) -> None:
        widths = np.repeat(shapes[:, 1], shapes[:, 0])
        widths = widths[widths > 0].astype(np.int64)
        best = np.minimum.reduceat(levels, np.cumsum(widths) - widths) if len(widths) else levels
        counts, step = np.zeros(OPINIONS + LEVELS), 1 << 20
        for low in range(0, len(levels), step):
            counts += np.bincount(levels[low : low + step], minlength=len(counts))
        first = np.exp(np.interp(STEP * np.arange(LEVELS), -LOG_LIKENESS, LOG_RATIO))
        ratios = np.ones(len(counts), np.float32)
        #: Of likeness and opinions: the first level, the exponent, the shares of levels, and links known before.
        self.kinds: list[tuple[int, float, np.ndarray, np.ndarray]] = []
        for low, exponent in zip((0, OPINIONS), exponents, strict=True):
            own = best[(best >= low) & (best < low + LEVELS)] - low
            exponent = min(exponent * float((own < SURE).sum() / max(len(own), 1)), 1.0)
            shares = counts[low : low + LEVELS] + 1
            shares /= shares.sum()
            expected = shares * first
            self.kinds.append((low, exponent, shares, PRIOR_LINKS * expected / expected.sum()))
            ratios[low : low + LEVELS] = np.maximum(first, 1e-6) ** exponent
        #: As the kernels take it; :meth:`update` changes it.
        self.likeness = Likeness(levels, ratios)

    def update(self, elements: np.ndarray) -> None:
        """New ratios from the expected links of elements uint32 (P,)."""
        levels, ratios = self.likeness
        sums = np.zeros(len(ratios))
        add_by_level(levels, elements, sums)
        for low, exponent, shares, prior in self.kinds:
            linked = sums[low : low + LEVELS] * UNIT + prior
            ratios[low : low + LEVELS] = np.maximum(linked / linked.sum() / shares, 1e-6) ** exponent
