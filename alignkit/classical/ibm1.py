"""IBM Model 1 (Brown et al. 1993): word translation probabilities by EM.

Trans(o|i), of a target word o given a source word i, is their t(f|e).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Unpack

import numpy as np

from alignkit.aligner import Aligner
from alignkit.classical.cooccurrence import IndexedBitext, PairTable, bags_between, bags_of, check_memory, invert
from alignkit.classical.lexical_model import (
    LexicalModel,
    Lookup,
    exact_sum,
    has_converged,
    normalise_null,
    normalise_rows,
    read_parts,
)
from alignkit.classical.priors import LexiconPrior, check_knowledge, start_null, start_values
from alignkit.classical.settings import IBM1Options, IBM1Settings
from alignkit.errors import AlignkitError
from alignkit.kernels import inverted_index
from alignkit.kernels import translation_table as kernels
from alignkit.kernels.inverted_index import Bags, Tokens
from alignkit.kernels.translation_table import UNSEEN, Matrices, NullWord
from alignkit.links.from_scores import links_from_positions
from alignkit.links.links import Links
from alignkit.scores import Scores
from alignkit.support.arrays import offsets_of
from alignkit.support.files import loaded, save_arrays
from alignkit.support.settings import with_options
from alignkit.support.stages import Stage
from alignkit.support.threads import blocks, blocks_of_size, run_blocks, run_evenly, thread_count
from alignkit.text.bitext import Bitext
from alignkit.types import PathLike, Progress

KIND, VERSION = "alignkit.ibm1", 1
BLOCK = 1 << 20  # target tokens whose links are found at a time


def fit_ibm1(
    bitext: Bitext,
    settings: IBM1Settings | None = None,
    *,
    threads: int | None = None,
    progress: Progress | None = None,
    prior: LexiconPrior | None = None,
    start: IBM1 | None = None,
    **options: Unpack[IBM1Options],
) -> IBM1:
    """Fit IBM Model 1 by EM, from uniform parameters or from those of another model.

    With ``iterations=1, null=False`` the result is the co-occurrence table with its rows normalised: the
    count-based Trans of Snell et al. (2021, section 2.2).

    Args:
        bitext: M pairs; pairs with an empty side are ignored.
        settings: None: the defaults.
        threads: the number of threads, by default all; the result is the same, bit for bit, for any number.
        progress: called with (done, total, message) after each iteration.
        prior: a lexicon from another text, as pseudo-counts of the word pairs that occur in this one. EM then
            climbs to a mode of the posterior, and the log-likelihood alone may fall.
        start: a fitted model from whose tables EM continues. On the same text, n iterations and then k give the
            same bits as n + k. Word pairs that are new in this text start uniform (see
            :func:`alignkit.classical.priors.start_values`).
        **options: fields of :class:`IBM1Settings`, which replace those of ``settings``.

    Raises:
        AlignkitError: an argument is of another type; a setting or ``threads`` is out of range; only one of
            ``start`` and this model has NULL; or the text is too large for the machine's memory.

    >>> text = Bitext.from_sentences([["das", "Haus"], ["das", "Buch"]], [["the", "house"], ["the", "book"]])
    >>> fit_ibm1(text).links(text)[0].tolist()
    [[0, 0], [1, 1]]
    """
    settings = with_options(IBM1Settings, settings, options)
    check_knowledge(prior, start, IBM1)
    if start is not None and (start.null is not None) != settings.null:
        raise AlignkitError("the model to start from and this one must both have NULL, or neither")
    check_memory(bitext)
    workers, p0 = thread_count(threads), settings.null_probability

    # The model: p(o | x_1..x_L) = (sum over l of Trans(o|x_l) + w Trans(o|NULL)) / norm, w being NULL's weight.
    # Sentences are bags: each word once, with its count n. The E-step goes through the target words of each
    # sentence for ``weights``, n / (sum over l and NULL of Trans), and then through the sentences of each source
    # word.
    lengths, V_tgt = bitext.source.lengths, len(bitext.target.vocabulary)
    indexed = IndexedBitext(bitext, workers)
    index, target = indexed.index, indexed.target
    null = NullWord(np.zeros(V_tgt, np.float32), null_weights(lengths, settings.null, p0))
    norms = lengths + null.weights if p0 is None else lengths / (1 - p0)  # the former is Brown's l + 1

    # The start: with the same Trans for all pairs, the expected counts of the first E-step are co-occurrence
    # counts, which are made in the sweep that finds the pairs.
    posteriors = (1 / np.maximum(lengths + null.weights, 1)).astype(np.float32)
    weights = np.repeat(posteriors, np.diff(target.offsets)) * target.counts
    if start is None:
        trans = indexed.pairs(weights)
        if settings.null:
            null.values[target.words] = 1
        log_likelihood = -float(bitext.target.lengths[lengths > 0].sum()) * float(np.log(max(V_tgt, 1)))
    else:
        trans, words = indexed.pairs(), (start.source, start.target)
        trans = trans._replace(values=start_values(start.table, words, start.table.values, bitext, trans))
        if start.null is not None:
            null.values[:] = start_null(start.null, start.target, bitext.target.vocabulary)
    pseudo_counts = None if prior is None else prior.pseudo_counts(bitext, trans)[0]

    arrays, sentences = (index, trans, target), blocks(offsets_of(lengths * bitext.target.lengths), workers)
    log_probs, history = np.zeros(len(bitext)), list[float]()
    with Stage("fitting", progress) as stage:
        for iteration in range(settings.iterations):
            # E-step: the posterior of x_l is Trans(o|x_l) divided by the sum over all l and NULL; expected counts
            # are sums of posteriors.
            if iteration > 0 or start is not None:
                run_blocks(
                    lambda *span: kernels.posterior_weights(
                        *span, *arrays, null, norms, weights, np.zeros(V_tgt, np.float32), log_probs
                    ),
                    sentences,
                    workers,
                )
                log_likelihood = exact_sum(log_probs)
                run_blocks(
                    lambda *span: kernels.expected_counts(*span, *arrays, weights, np.zeros(V_tgt)),
                    indexed.row_ranges,
                    workers,
                )
            null_counts = np.zeros(V_tgt)
            if settings.null:
                kernels.expected_null_counts(target, null, weights, null_counts)

            # M-step: the rows of expected counts become distributions.
            if pseudo_counts is not None:
                trans.values[:] += pseudo_counts
            normalise_rows(trans.offsets, trans.values, settings.dirichlet, indexed.row_ranges, workers)
            if settings.null:
                null.values[:] = normalise_null(null_counts, settings.dirichlet)

            history.append(log_likelihood)
            converged = has_converged(history, settings.tolerance)
            done = settings.iterations if converged else iteration + 1
            stage(done, settings.iterations, f"log-likelihood {log_likelihood:.9g}")
            if converged:
                break
    table = PairTable(*trans, V_tgt)
    return IBM1(
        bitext.source.vocabulary,
        bitext.target.vocabulary,
        table.chosen(table.values >= settings.prune) if settings.prune else table,
        null=null.values if settings.null else None,
        log_likelihood=tuple(history),
        threads=threads,
        null_probability=p0,
    )


def null_weights(lengths: np.ndarray, null: bool, null_probability: float | None) -> np.ndarray:
    """float32 (M,): how probable NULL is relative to one source position; 0 for an empty source and without NULL.

    A pair with an empty source is ignored, by NULL too: it would have no place to come from.

    Args:
        lengths: int64 (M,), L of each pair.
        null: whether there is NULL.
        null_probability: as in :class:`IBM1Settings`.
    """
    if null_probability is None:
        return ((lengths > 0) & null).astype(np.float32)
    return (lengths * (null_probability / (1 - null_probability))).astype(np.float32)


def fill_positions(
    bitext: Bitext, source: Bags, target: Bags, lookup: Lookup, null: NullWord, positions: np.ndarray
) -> None:
    """Fill in, for each target word, the position of its most probable source word, or -1: int32 (N_tgt,).

    Args:
        bitext: M pairs, with the bags of both sides.
        lookup: of the table; of this bitext or one that it is a block of.
        null: with the weights of these pairs.
        positions: filled.
    """
    x, y = (Tokens(side.tokens, side.offsets) for side in (bitext.source, bitext.target))
    first, keys = np.empty(len(source.words), np.int32), np.empty(len(target.words), np.uint64)
    ranges = blocks(offsets_of(bitext.shapes.prod(axis=1, dtype=np.int64)), lookup.threads)
    sizes = len(bitext.source.vocabulary), len(bitext.target.vocabulary)
    run_blocks(
        lambda *span: inverted_index.first_positions(*span, x, source, np.empty(sizes[0], np.int32), first),
        ranges,
        lookup.threads,
    )
    index = invert(source._replace(counts=first), sizes[0], lookup.threads)
    columns = target._replace(words=lookup.columns_of(target.words))
    rows = lookup.rows._replace(values=lookup.rows.values.view(np.uint32))

    def fill(low: int, high: int) -> None:
        dense = np.zeros(lookup.width + 1, np.uint32)
        kernels.best_sources(low, high, index, rows, columns, null, keys, dense)
        kernels.token_positions(low, high, y, target, keys, np.empty(sizes[1], np.int32), positions)

    run_blocks(fill, ranges, lookup.threads)


@dataclass(frozen=True, eq=False, repr=False)
class IBM1(LexicalModel, Aligner):
    """A fitted IBM Model 1.

    Attributes:
        null_probability: p0, the probability that a target word comes from NULL; None: NULL is one more source
            word.

    The other attributes are those of :class:`LexicalModel`. The rows of ``table``, and ``null``, sum to 1 after
    maximum likelihood without pruning.
    """

    null_probability: float | None = None
    name = "ibm1"
    title = "IBM Model 1"
    descriptions: ClassVar = {
        "alpha": ("IBM links", "IBM Model 1's guess of which source word each target word comes from."),
        "beta": (
            "IBM dictionary",
            "Translation probabilities that IBM Model 1 counts out of the text: which words occur together.",
        ),
    }
    kinds = ("alpha", "beta")
    predicts = ("target",)

    def score(self, bitext: Bitext, kind: str = "alpha") -> Scores:
        """beta[t, l] = Trans(y_t | x_l); alpha[t, l] = beta[t, l] / sum over l' of beta[t, l'], NULL included.

        The rest of a row of alpha, up to 1, is NULL's. Unseen pairs have beta 0; a target word without any
        evidence has uniform alpha.
        """
        self.check_kind(kind)
        lookup = self.lookup(bitext)
        scores = lookup.scores()
        if kind == "alpha":
            lengths = bitext.source.lengths
            target = Tokens(lookup.columns_of(bitext.target.tokens), bitext.target.offsets)
            null = NullWord(lookup.null, null_weights(lengths, self.null is not None, self.null_probability))
            arrays = target, lengths, null, Matrices(scores.values, scores.offsets)
            run_evenly(lambda *span: kernels.normalise_scores(*span, *arrays), scores.offsets, lookup.threads)
        return scores

    def links(self, bitext: Bitext) -> Links:
        """Each target word with its most probable source word (the leftmost of equals), unless NULL is more
        probable."""
        lookup = self.lookup(bitext)
        weights = null_weights(bitext.source.lengths, self.null is not None, self.null_probability)
        bags = [bags_of(side, lookup.threads) for side in (bitext.source, bitext.target)]
        positions, offsets = np.empty(len(bitext.target.tokens), np.int32), bitext.target.offsets
        for low, high in blocks_of_size(offsets, BLOCK):
            own, null = [bags_between(low, high, *side) for side in bags], NullWord(lookup.null, weights[low:high])
            found = positions[offsets[low] : offsets[high]]
            fill_positions(bitext.block(low, high), own[0], own[1], lookup, null, found)
        return links_from_positions(positions, bitext, self.threads)

    def log_probabilities(self, bitext: Bitext) -> np.ndarray:
        """float64 (M,): log p(target | source) of each pair, the sum over t of the logarithm of

            p0 Trans(y_t | NULL) + (1 - p0) / L * sum over l of beta[t, l]

        (Brown et al. 1993, section 4.1, with p0 = 1 / (L + 1), but for their factor of the length), but at least
        ``UNSEEN``.
        """
        lookup = self.lookup(bitext)
        width = np.repeat(bitext.source.lengths, bitext.target.lengths)  # L of each target token
        sums, filled = np.zeros(len(width)), np.flatnonzero(width)
        if len(filled):
            starts = np.cumsum(width) - width
            sums[filled] = np.add.reduceat(lookup.scores().values, starts[filled], dtype=np.float64)
        p0 = np.zeros(len(width))
        if self.null is not None:
            p0 = 1 / (width + 1) if self.null_probability is None else np.full(len(width), self.null_probability)
            p0[width == 0] = 1
        by_null = lookup.null[lookup.columns_of(bitext.target.tokens)]
        values = (1 - p0) / np.maximum(width, 1) * sums + p0 * by_null
        pairs = np.repeat(np.arange(len(bitext)), bitext.target.lengths)
        return np.bincount(pairs, np.log(np.maximum(values, UNSEEN)), len(bitext))

    def save(self, path: PathLike) -> None:
        """Write the model; :func:`alignkit.load` reads it."""
        header = self.header() | {"null_probability": self.null_probability} | self.about_text
        save_arrays(path, KIND, VERSION, self.arrays(), header)


def load_ibm1(path: PathLike) -> IBM1:
    """Read what :meth:`IBM1.save` wrote; raises InputError if it is missing, damaged or of another kind."""
    with loaded(path, KIND, VERSION) as (fields, header):
        p0 = header.number("null_probability", 0, 1) if header.optional("null_probability") else None
        model = IBM1(**read_parts(fields, header), null_probability=p0)
        if p0 is not None and not (model.null is not None and 0 < p0 < 1):
            raise ValueError("null_probability must lie between 0 and 1, and needs null")
        return model
