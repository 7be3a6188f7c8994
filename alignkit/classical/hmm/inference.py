"""Inference with fitted hidden Markov aligners: posteriors, likelihoods and Viterbi alignments of new text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alignkit.classical.hmm.evidence import spelling_of_new_pairs
from alignkit.classical.hmm.expectation import expect, text_arrays, uniform_direction
from alignkit.classical.hmm.known_model import taken
from alignkit.classical.hmm.new_pairs import NewPairs
from alignkit.classical.hmm.own_part import OwnPart
from alignkit.classical.hmm.parameters import FittedHMM, HMMParameters
from alignkit.classical.lexical_model import Lookup
from alignkit.kernels import hmm_m_step, viterbi
from alignkit.kernels.hmm_e_step import BOTH, FORWARD, LinkArrays, Shares
from alignkit.kernels.hmm_emissions import DirectionArrays
from alignkit.kernels.hmm_pairs import NO_PLACES
from alignkit.kernels.packed_links import as_floats
from alignkit.kernels.translation_table import UNSEEN
from alignkit.parallel import blocks, run_blocks, thread_count
from alignkit.scores import Scores, flat_offsets
from alignkit.text.bitext import Bitext

# Fertility needs the links of the other words: they are found without it first, and then this many times with it.
ROUNDS = 2

Ids = tuple[np.ndarray, np.ndarray]
Running = tuple[HMMParameters | None, HMMParameters | None]


def posteriors(
    bitext: Bitext,
    model: FittedHMM,
    shares: Shares,
    threads: int | None,
    new_pairs: NewPairs | None = None,
) -> tuple[Scores, np.ndarray]:
    """Link probabilities (T, L) of M pairs, and the log-likelihood of each, float64 (M,).

    Args:
        bitext: the text.
        model: with one direction or both.
        shares: of the forward and the reverse direction's posteriors in the result; the log-likelihoods of two
            are added. Fertility is judged by the mean of both.
        threads: all there are by default; no result depends on it.
        new_pairs: what to think of pairs of words that the model does not know; by default they are equal, but for
            their spelling.
    """
    found, likelihood = _last_links(bitext, model, shares, threads, new_pairs)
    np.clip(found.values, 0, 1, out=found.values)
    return found, likelihood


def pooled_log_odds(
    bitext: Bitext,
    model: FittedHMM,
    shares: Shares,
    threads: int | None,
    new_pairs: NewPairs | None = None,
    own_part: OwnPart | None = None,
) -> Scores:
    """The mean of the log-odds of both directions' posteriors, (T, L) of M pairs; NO_LINK where there are none.

    See :mod:`alignkit.kernels.link_odds`. Arguments are those of :func:`posteriors`, with shares of log-odds; with
    ``own_part``, sentence pairs of the model's own text are judged by the others.
    """
    return _last_links(bitext, model, shares, threads, new_pairs, own_part)[0]


def _last_links(
    bitext: Bitext,
    model: FittedHMM,
    shares: Shares,
    threads: int | None,
    new_pairs: NewPairs | None,
    own_part: OwnPart | None = None,
) -> tuple[Scores, np.ndarray]:
    """What the last of some E-steps finds, and the log-likelihoods."""
    running, threads = _running(model, shares), thread_count(threads)
    ids, rounds = model.ids(bitext), _rounds(running)
    links = _link_arrays(bitext, model, ids, running, threads, new_pairs, own_part)
    mean = shares if None in running else BOTH
    likelihood = np.zeros(len(bitext))
    for i in range(rounds):
        directions = _directions(bitext, ids, running, fertility=i > 0)
        is_last = i == rounds - 1
        found = expect(bitext, links, directions, shares if is_last else mean, threads, is_last=is_last)
        likelihood = found.likelihood
    return Scores(as_floats(links.elements), links.offsets, bitext.shapes), likelihood


def log_likelihoods(bitext: Bitext, model: FittedHMM, shares: Shares, threads: int | None) -> np.ndarray:
    """float64 (M,): log p(y | x) of each pair, up to the factor for its length; arguments of :func:`posteriors`.

    Without fertility, whose factors are for links given the others, and without spelling, which gives words that
    the model has never seen together more than is left for them: neither makes a distribution over sentences.
    """
    plain = [
        replace(
            each,
            fertility=np.ones((each.types[0], 1), np.float32),
            emission_alike=np.zeros_like(each.emission_alike),
        )
        for each in model.directions
    ]
    parts = model.source, model.target, model.table
    return posteriors(bitext, FittedHMM(*parts, *plain, fold_case=model.fold_case), shares, threads)[1]


def viterbi_positions(bitext: Bitext, model: FittedHMM, threads: int | None) -> np.ndarray:
    """int32 (N_tgt,): source positions of target tokens in the forward direction's Viterbi alignment, or -1.

    With fertility, it is the likeliest alignment given the expected links of the other words.
    """
    shares, threads = FORWARD, thread_count(threads)
    running, ids = _running(model, shares), model.ids(bitext)
    links = _link_arrays(bitext, model, ids, running, threads)
    for i in range(_rounds(running) - 1):
        expect(bitext, links, _directions(bitext, ids, running, fertility=i > 0), shares, threads)
    direction, text = _directions(bitext, ids, running, fertility=True)[0], text_arrays(bitext)
    positions = np.empty(len(bitext.target.tokens), np.int32)

    def decode(low: int, high: int) -> None:
        viterbi.decode_block(low, high, text, links, direction, positions)

    work = bitext.source.lengths * bitext.source.lengths * bitext.target.lengths
    run_blocks(decode, blocks(work, 1 if threads == 1 else 8 * threads), threads)
    return positions


def _running(model: FittedHMM, shares: Shares) -> Running:
    """The directions of weight above 0."""
    forward, reverse = (
        direction if share > 0 else None
        for direction, share in ((model.forward, shares.forward), (model.reverse, shares.reverse))
    )
    return forward, reverse


def _rounds(running: Running) -> int:
    return 1 + ROUNDS * any(each is not None and each.fertility.shape[1] > 1 for each in running)


def _link_arrays(
    bitext: Bitext,
    model: FittedHMM,
    ids: Ids,
    running: Running,
    threads: int,
    new_pairs: NewPairs | None = None,
    own_part: OwnPart | None = None,
) -> LinkArrays:
    """Every element of the matrices as a word pair of its own, whose pseudo-counts are its probabilities."""
    offsets = flat_offsets(bitext.shapes)
    evidence, alike = np.zeros((offsets[-1], 3), np.float32), None
    is_new = np.zeros(offsets[-1], bool)
    for side, direction in enumerate(running):
        if direction is not None:
            lookup = Lookup(replace(model.table, values=direction.emission), bitext, *ids, threads)
            scores = lookup.scores()
            is_new = scores.values == 0
            if new_pairs is None and direction.emission_alike.any():
                alike = spelling_of_new_pairs(bitext, is_new, threads) if alike is None else alike
                _add_alike(bitext, alike, direction, ids[side], side, scores)
            evidence[:, 1 + side] = _emissions(bitext, scores, direction, ids[side], side, threads)
    if own_part is not None:
        own_part.take_out(bitext, ids, is_new, evidence, threads)
    if new_pairs is not None:
        new_pairs.add(bitext, ids, is_new, evidence, threads)
    return LinkArrays(offsets, NO_PLACES, evidence, np.zeros(offsets[-1], np.uint32))


def _add_alike(
    bitext: Bitext, alike: np.ndarray, direction: HMMParameters, words: np.ndarray, side: int, scores: Scores
) -> None:
    """Sets the scores of pairs that the model does not know but that are spelled alike, ``alike`` float32 (P,)."""
    places = np.flatnonzero(alike > 0)
    m = np.searchsorted(scores.offsets, places, side="right") - 1
    row, column = np.divmod(places - scores.offsets[m], bitext.source.lengths[m])
    corpus, positions = (bitext.target, row) if side else (bitext.source, column)
    tokens = corpus.tokens[corpus.offsets[m] + positions]
    scores.values[places] = alike[places] * direction.emission_alike[words[tokens]]


def _emissions(
    bitext: Bitext, scores: Scores, direction: HMMParameters, words: np.ndarray, side: int, threads: int
) -> np.ndarray:
    """float32 (P,): the scores p(y|x), raised to at least the floor of x, by ``words``."""
    floor = np.maximum(taken(direction.emission_floor, words), np.float32(UNSEEN))
    unknown = np.float32(1 / max(len(direction.null), 1))  # an unknown x may be anything
    floor = np.where(words >= 0, floor, unknown).astype(np.float32)
    floors = floor[(bitext.target if side else bitext.source).tokens]
    text = text_arrays(bitext)

    def fill(low: int, high: int) -> None:
        hmm_m_step.fill_floor(low, high, text, floors, bool(side), scores.offsets, scores.values)

    run_blocks(fill, blocks(np.diff(scores.offsets), threads), threads)
    return scores.values


def _directions(
    bitext: Bitext, ids: Ids, running: Running, fertility: bool
) -> tuple[DirectionArrays, DirectionArrays]:
    """The parameters of both directions for the words of a text; one that does not run has uniform ones."""
    forward, reverse = (
        _direction(parameters, ids[side], ids[1 - side], len(corpus.tokens), fertility)
        for side, (parameters, corpus) in enumerate(zip(running, (bitext.target, bitext.source), strict=True))
    )
    return forward, reverse


def _direction(
    parameters: HMMParameters | None, states: np.ndarray, emitted: np.ndarray, tokens: int, fertility: bool
) -> DirectionArrays:
    """One direction; states and emitted are ids of the text's words, and it emits this number of tokens."""
    direction = uniform_direction(len(states), len(emitted), tokens, 0.5)
    if parameters is None:
        return direction
    if fertility:
        neutral = np.ones((1, parameters.fertility.shape[1]), np.float32)
        direction = direction._replace(fertility=np.concatenate([parameters.fertility, neutral])[states])
    return direction._replace(
        totals=np.ones(len(states), np.float32),
        null=np.maximum(taken(parameters.null, emitted), np.float32(UNSEEN)),
        null_total=1.0,
        transition=parameters.transition,
        initial=parameters.initial,
        null_probability=parameters.null_probability,
    )
