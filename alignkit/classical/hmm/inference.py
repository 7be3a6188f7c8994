"""One direction of a fitted hidden Markov aligner, and scoring new text with one or two of them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from alignkit.classical.hmm.estimation import WIDTH, Direction, Estimation, run_expectation
from alignkit.classical.hmm.settings import HMMSettings
from alignkit.classical.lookup import Lookup
from alignkit.classical.null import UNSEEN
from alignkit.classical.priors import start_null, start_values
from alignkit.classical.translation_table import PairTable
from alignkit.kernels import hmm_m_step, viterbi
from alignkit.parallel import blocks, run_blocks
from alignkit.scores.scores import Scores, flat_offsets
from alignkit.storage import Fields
from alignkit.text.bitext import Bitext
from alignkit.text.vocabulary import Vocabulary

# Fertility needs the links of the other words, so links are found without it first, and then so often with it.
ROUNDS = 2


@dataclass(frozen=True, eq=False)
class Chain:
    """The parameters of one direction; x are its states, y what it emits.

    Attributes:
        values: float32 (K,), p(y|x) of every pair that met; K the pairs of the aligner's table.
        floor: float32 (V_x,), p(y|x) of any other y.
        null: float32 (V_y,), p(y|NULL).
        ratios: float32 (V_x, F), the factor for one more link of a word that has 0, 1, ...; F = 1: no fertility.
        jumps: float32 (2 W + 1,), weights of jumps -W..W, the ends for all beyond them.
        start: float32 (W + 1,), weights of first positions.
        null_probability: p0.
    """

    values: np.ndarray
    floor: np.ndarray
    null: np.ndarray
    ratios: np.ndarray
    jumps: np.ndarray
    start: np.ndarray
    null_probability: float

    def __post_init__(self) -> None:
        arrays = (self.values, self.floor, self.null, self.ratios, self.jumps, self.start)
        if any(array.dtype != np.float32 for array in arrays):
            raise TypeError("a chain's arrays must be float32")
        if not all(np.isfinite(array).all() and (array >= 0).all() for array in arrays):
            raise ValueError("a chain's numbers must be finite and not negative")
        if self.ratios.ndim != 2 or len(self.ratios) != len(self.floor) or self.ratios.shape[1] < 1:
            raise ValueError("ratios must have a row for each source word")
        if (len(self.jumps), len(self.start)) != (2 * WIDTH + 1, WIDTH + 1):
            raise ValueError(f"jumps and start must have {2 * WIDTH + 1} and {WIDTH + 1} weights")
        if not (self.jumps.all() and self.start.all()):
            raise ValueError("weights of jumps must be positive")
        if not 0 < self.null_probability < 1:
            raise ValueError("null_probability must lie between 0 and 1")

    @classmethod
    def of(cls, estimation: Estimation, side: int) -> Chain:
        """What an estimation found for its forward (0) or reverse (1) direction."""
        direction, settings = estimation.directions[side], estimation.settings
        offsets, columns, counts = estimation.rows
        states = columns if side else np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
        totals = np.maximum(direction.totals, np.float32(1e-30))
        values = np.minimum((counts + estimation.evidence[:, 1 + side]) / totals[states], np.float32(1))
        floor = np.minimum(np.float32(settings.lexical_prior) / totals, np.float32(1))
        # A word that no link supports says nothing: its floor would be all there is.
        floor = np.where(direction.totals > 0, floor, np.float32(0)).astype(np.float32)
        null = (direction.null / max(direction.numbers[1], 1e-30)).astype(np.float32)
        return cls(
            values, floor, null, direction.ratios, direction.jumps, direction.start, settings.null_probability
        )

    def pack(self, prefix: str) -> dict[str, np.ndarray]:
        """The arrays of a saved file."""
        names = ("values", "floor", "null", "ratios", "jumps", "start")
        return {f"{prefix}_{name}": getattr(self, name) for name in names}

    @classmethod
    def unpack(cls, fields: Fields, prefix: str, null_probability: float) -> Chain:
        """What :meth:`pack` packed; raises InputError, TypeError or ValueError where the file is damaged."""

        def get(name: str, dimensions: int = 1) -> np.ndarray:
            return fields.get(f"{prefix}_{name}", np.float32, dimensions)

        single = get("values"), get("floor"), get("null")
        return cls(*single, get("ratios", 2), get("jumps"), get("start"), null_probability)


@dataclass(frozen=True, eq=False)
class Table:
    """The word pairs that chains have values for, and the words of a text to score.

    Attributes:
        offsets: int64 (V_src + 1,), columns: int32 (K,): the pairs, row by row.
        width: V_tgt.
        ids: int32, the table's id of each of the text's source words, and of its target words; -1 if unknown.
    """

    offsets: np.ndarray
    columns: np.ndarray
    width: int
    ids: tuple[np.ndarray, np.ndarray]

    def scores(self, bitext: Bitext, values: np.ndarray, threads: int) -> Scores:
        """The (T, L) matrices of float32 (K,) values; 0 for pairs that never met."""
        table = PairTable(self.offsets, self.columns, values, self.width)
        return Lookup(table, bitext, *self.ids, threads).scores()


def posteriors(
    bitext: Bitext,
    table: Table,
    chains: tuple[Chain, Chain | None],
    shares: tuple[float, float],
    threads: int,
) -> tuple[Scores, np.ndarray]:
    """Link probabilities of a bitext, and the log-likelihood of each pair, of both directions if both run.

    Args:
        bitext: M pairs.
        table: the pairs the chains know, and the bitext's words in it.
        chains: forward and reverse; None: the forward one alone.
        shares: weights of the directions' posteriors in the result; fertility is judged by their mean.
        threads: how many to use; no result depends on it.
    """
    pairs = _pairs(bitext, table, chains, threads)
    rounds = _rounds(chains)
    likelihood = np.zeros(len(bitext))
    for i in range(rounds):
        mean = (0.5, 0.5) if chains[1] is not None else shares
        weights = shares if i == rounds - 1 else mean
        directions = _directions(bitext, table, chains, i > 0)
        likelihood = run_expectation(bitext, pairs, directions, weights, threads).likelihood
    links = pairs[3]
    return Scores(np.clip(links, 0, 1, out=links), pairs[0], bitext.shapes), likelihood


def log_probabilities(
    bitext: Bitext, table: Table, chains: tuple[Chain, Chain | None], threads: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """float64 (M,): log p(y | x) of each pair by the forward chain, and log p(x | y) by the reverse one if it is
    given, up to the factors for lengths.

    Without fertility: its factors are for links given the others, and make no distribution over sentences.

    Arguments are those of :func:`posteriors`.
    """

    def plain(chain: Chain) -> Chain:
        return replace(chain, ratios=np.ones((len(chain.floor), 1), np.float32))

    forward, reverse = plain(chains[0]), None if chains[1] is None else plain(chains[1])
    ahead = posteriors(bitext, table, (forward, None), (1.0, 0.0), threads)[1]
    if reverse is None:
        return ahead, None
    # Without fertility the directions know nothing of each other, and their log-likelihoods add up.
    return ahead, posteriors(bitext, table, (forward, reverse), (0.5, 0.5), threads)[1] - ahead


def best_places(bitext: Bitext, table: Table, chain: Chain, threads: int) -> np.ndarray:
    """int32 (N_tgt,): the source position of each target token on the likeliest path (Viterbi), -1 for NULL.

    With fertility, it is the likeliest given the expected links of the other words.
    """
    chains = (chain, None)
    pairs = _pairs(bitext, table, chains, threads)
    for i in range(_rounds(chains) - 1):
        run_expectation(bitext, pairs, _directions(bitext, table, chains, i > 0), (1.0, 0.0), threads)
    direction = _directions(bitext, table, chains, True)[0].arrays
    source, target = bitext.source, bitext.target
    copies = np.ones(len(bitext), np.float32)
    text = (source.tokens, source.offsets, target.tokens, target.offsets, copies)
    places = np.empty(len(target.tokens), np.int32)

    def decode(low: int, high: int) -> None:
        viterbi.best_places(low, high, text, pairs, direction, places)

    work = source.lengths * source.lengths * target.lengths
    run_blocks(decode, blocks(work, 1 if threads == 1 else 8 * threads), threads)
    return places


def start_from(
    estimation: Estimation,
    words: tuple[Vocabulary, Vocabulary],
    table: PairTable,
    chains: tuple[Chain, Chain | None],
) -> None:
    """Lets an estimation go on from fitted chains instead of uniform parameters.

    Args:
        estimation: before its first E-step.
        words: source and target vocabulary of the chains.
        table: their word pairs.
        chains: forward and reverse; None where that direction does not run.
    """
    bitext = estimation.bitext
    estimation.evidence[:] = 0
    sides = (bitext.target, words[1]), (bitext.source, words[0])
    for side, (chain, (emitted, known)) in enumerate(zip(chains, sides, strict=True)):
        if chain is None:
            continue
        direction = estimation.directions[side]
        rows = estimation.rows
        estimation.evidence[:, 1 + side] = start_values(table, words, chain.values, bitext, rows, bool(side))
        direction.totals = np.ones_like(direction.totals)
        direction.null = start_null(chain.null, known, emitted.vocabulary)
        direction.numbers[1] = 1.0
        direction.jumps, direction.start = chain.jumps, chain.start


def _rounds(chains: tuple[Chain, Chain | None]) -> int:
    fertile = any(chain is not None and chain.ratios.shape[1] > 1 for chain in chains)
    return 1 + ROUNDS * fertile


def _pairs(
    bitext: Bitext, table: Table, chains: tuple[Chain, Chain | None], threads: int
) -> tuple[np.ndarray, ...]:
    """What kernels take, with a "word pair" for each element, whose evidence is its probability both ways."""
    offsets = flat_offsets(bitext.shapes)
    evidence = np.zeros((offsets[-1], 3), np.float32)
    for side, chain in enumerate(chains):
        if chain is not None:
            evidence[:, 1 + side] = _emissions(bitext, table, chain, side, threads)
    ids = np.arange(offsets[-1], dtype=np.uint32).view(np.int32)
    return offsets, ids, evidence, np.zeros(offsets[-1], np.float32)


def _directions(
    bitext: Bitext, table: Table, chains: tuple[Chain, Chain | None], fertility: bool
) -> tuple[Direction, Direction]:
    forward, reverse = chains
    return (
        _direction(bitext, table, forward, 0, fertility),
        _direction(bitext, table, reverse, 1, fertility),
    )


def _emissions(bitext: Bitext, table: Table, chain: Chain, side: int, threads: int) -> np.ndarray:
    """float32 (P,): p(y|x) for every element of the (T, L) matrices, none below the floor of its x."""
    scores = table.scores(bitext, chain.values, threads)
    words = table.ids[side]
    floor = np.maximum(_take(chain.floor, words), np.float32(UNSEEN))
    unknown = np.float32(1 / max(len(chain.null), 1))  # an unknown x may be anything
    floor = np.where(words >= 0, floor, unknown).astype(np.float32)
    source, target = bitext.source, bitext.target
    by_token = floor[(target if side else source).tokens]
    out = (scores.values, scores.offsets)

    def fill(low: int, high: int) -> None:
        hmm_m_step.fill_floor(low, high, source.offsets, target.offsets, by_token, bool(side), out)

    run_blocks(fill, blocks(np.diff(scores.offsets), threads), threads)
    return scores.values


def _direction(bitext: Bitext, table: Table, chain: Chain | None, side: int, fertility: bool) -> Direction:
    """A chain as the E-step wants it."""
    states, emitted = table.ids[side], table.ids[1 - side]
    tokens = (bitext.source if side else bitext.target).tokens
    direction = Direction((len(states), len(emitted)), len(tokens), HMMSettings())
    direction.totals[:] = 1
    direction.numbers[1] = 1
    if chain is None:
        return direction
    direction.numbers[0] = chain.null_probability
    direction.null = np.maximum(_take(chain.null, emitted), np.float32(UNSEEN))
    if fertility:
        neutral = np.ones((1, chain.ratios.shape[1]), np.float32)
        direction.ratios = np.concatenate([chain.ratios, neutral])[states]
    direction.jumps, direction.start = chain.jumps, chain.start
    return direction


def _take(values: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """values[ids], 0 where an id is -1."""
    return np.append(values, np.float32(0))[ids]
