"""Inference with fitted hidden Markov aligners: posteriors, likelihoods and Viterbi alignments of new text."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from alignkit.classical.hmm.expectation import expect, text_arrays
from alignkit.classical.hmm.parameters import HMMParameters, TextTable
from alignkit.classical.null import UNSEEN
from alignkit.kernels import hmm_m_step, viterbi
from alignkit.kernels.hmm_e_step import DirectionArrays, LinkArrays
from alignkit.parallel import blocks, run_blocks
from alignkit.scores.scores import Scores, flat_offsets
from alignkit.text.bitext import Bitext

# Fertility needs the links of the other words: they are found without it first, and then this many times with it.
ROUNDS = 2

Directions = tuple[HMMParameters, HMMParameters | None]


def posteriors(
    bitext: Bitext, table: TextTable, parameters: Directions, shares: tuple[float, float], threads: int
) -> tuple[Scores, np.ndarray]:
    """Link probabilities (T, L) of M pairs, and the log-likelihood of each, float64 (M,).

    With both directions, the latter is their sum.

    Args:
        bitext: the text.
        table: of the model, for this text.
        parameters: of the forward and the reverse direction, None to leave that out.
        shares: weights of the directions' posteriors in the result; fertility is judged by their mean.
        threads: how many to use; no result depends on it.
    """
    links, rounds = _link_arrays(bitext, table, parameters, threads), _rounds(parameters)
    mean = shares if parameters[1] is None else (0.5, 0.5)
    likelihood = np.zeros(len(bitext))
    for i in range(rounds):
        directions = _directions(bitext, table, parameters, i > 0)
        likelihood = expect(bitext, links, directions, shares if i == rounds - 1 else mean, threads).likelihood
    return Scores(np.clip(links.links, 0, 1, out=links.links), links.offsets, bitext.shapes), likelihood


def log_probabilities(
    bitext: Bitext, table: TextTable, parameters: Directions, threads: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """float64 (M,): log p(y | x) of each pair, and log p(x | y) with a reverse direction, up to the factors for
    lengths. Arguments are those of :func:`posteriors`.

    Without fertility: its factors are for links given the others, and make no distribution over sentences.
    """

    def plain(direction: HMMParameters) -> HMMParameters:
        return replace(direction, fertility=np.ones((direction.types[0], 1), np.float32))

    forward, reverse = plain(parameters[0]), None if parameters[1] is None else plain(parameters[1])
    ahead = posteriors(bitext, table, (forward, None), (1.0, 0.0), threads)[1]
    if reverse is None:
        return ahead, None
    # Without fertility the directions know nothing of each other, and their log-likelihoods add up.
    return ahead, posteriors(bitext, table, (forward, reverse), (0.5, 0.5), threads)[1] - ahead


def best_positions(bitext: Bitext, table: TextTable, forward: HMMParameters, threads: int) -> np.ndarray:
    """int32 (N_tgt,): the source position of each target token in the Viterbi alignment, -1 for NULL.

    With fertility, it is the likeliest alignment given the expected links of the other words.
    """
    parameters = (forward, None)
    links = _link_arrays(bitext, table, parameters, threads)
    for i in range(_rounds(parameters) - 1):
        expect(bitext, links, _directions(bitext, table, parameters, i > 0), (1.0, 0.0), threads)
    direction, text = _directions(bitext, table, parameters, True)[0], text_arrays(bitext)
    positions = np.empty(len(bitext.target.tokens), np.int32)

    def decode(low: int, high: int) -> None:
        viterbi.best_positions(low, high, text, links, direction, positions)

    work = bitext.source.lengths * bitext.source.lengths * bitext.target.lengths
    run_blocks(decode, blocks(work, 1 if threads == 1 else 8 * threads), threads)
    return positions


def _rounds(parameters: Directions) -> int:
    fertile = any(direction is not None and direction.fertility.shape[1] > 1 for direction in parameters)
    return 1 + ROUNDS * fertile


def _link_arrays(bitext: Bitext, table: TextTable, parameters: Directions, threads: int) -> LinkArrays:
    """Every element of the matrices as a word pair of its own, whose pseudo-counts are its probabilities."""
    offsets = flat_offsets(bitext.shapes)
    evidence = np.zeros((offsets[-1], 3), np.float32)
    for side, direction in enumerate(parameters):
        if direction is not None:
            evidence[:, 1 + side] = _emissions(bitext, table, direction, side, threads)
    ids = np.arange(offsets[-1], dtype=np.uint32).view(np.int32)
    return LinkArrays(offsets, ids, evidence, np.zeros(offsets[-1], np.float32))


def _emissions(bitext: Bitext, table: TextTable, direction: HMMParameters, side: int, threads: int) -> np.ndarray:
    """float32 (P,): p(y|x) for every element of the (T, L) matrices, none below the floor of its x."""
    scores = table.scores(bitext, direction.emission, threads)
    words = table.ids[side]
    floor = np.maximum(_take(direction.emission_floor, words), np.float32(UNSEEN))
    unknown = np.float32(1 / max(len(direction.null), 1))  # an unknown x may be anything
    floor = np.where(words >= 0, floor, unknown).astype(np.float32)
    floors = floor[(bitext.target if side else bitext.source).tokens]
    text = text_arrays(bitext)

    def fill(low: int, high: int) -> None:
        hmm_m_step.fill_floor(low, high, text, floors, bool(side), scores.offsets, scores.values)

    run_blocks(fill, blocks(np.diff(scores.offsets), threads), threads)
    return scores.values


def _directions(
    bitext: Bitext, table: TextTable, parameters: Directions, fertility: bool
) -> tuple[DirectionArrays, DirectionArrays]:
    forward, reverse = parameters
    return (
        _direction(bitext, table, forward, 0, fertility),
        _direction(bitext, table, reverse, 1, fertility),
    )


def _direction(
    bitext: Bitext, table: TextTable, parameters: HMMParameters | None, side: int, fertility: bool
) -> DirectionArrays:
    """The parameters of a direction for the words of a text; without any, of one that does not run."""
    states, emitted = table.ids[side], table.ids[1 - side]
    tokens = (bitext.source if side else bitext.target).tokens
    direction = DirectionArrays(
        totals=np.ones(len(states), np.float32),
        null=np.ones(len(emitted), np.float32),
        null_total=1.0,
        null_links=np.zeros(len(tokens), np.float32),
        fertility=np.ones((len(states), 1), np.float32),
        transition=np.empty(0, np.float32),
        initial=np.empty(0, np.float32),
        null_probability=0.5,
        exclude=0.0,
    )
    if parameters is None:
        return direction
    if fertility:
        neutral = np.ones((1, parameters.fertility.shape[1]), np.float32)
        direction = direction._replace(fertility=np.concatenate([parameters.fertility, neutral])[states])
    return direction._replace(
        null=np.maximum(_take(parameters.null, emitted), np.float32(UNSEEN)),
        transition=parameters.transition,
        initial=parameters.initial,
        null_probability=parameters.null_probability,
    )


def _take(values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """values[ids], 0 where an id is -1."""
    return np.append(values, np.float32(0))[ids]
