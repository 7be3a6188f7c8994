"""Hidden Markov models of word alignment: their parameters, the E-step over a text, and posteriors of new text."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from typing import Any, NamedTuple

import numpy as np

from alignkit.classical.hmm.spelling import spelling_of_new_pairs
from alignkit.classical.lexical_model import LexicalModel, read_parts, table_values
from alignkit.kernels.expected_links import NO_PLACES
from alignkit.kernels.forward_backward import TransitionCounts
from alignkit.kernels.hmm_e_step import (
    BOTH,
    DirectionArrays,
    EStepOptions,
    LinkArrays,
    OpinionPool,
    TextArrays,
    expect_links,
)
from alignkit.kernels.hmm_m_step import fill_floor
from alignkit.kernels.translation_table import UNSEEN
from alignkit.scores import Scores, flat_offsets, tokens_of_elements
from alignkit.support.arrays import brief_repr
from alignkit.support.files import Fields, Record
from alignkit.support.threads import blocks, run_blocks, thread_count
from alignkit.text.bitext import Bitext

#: W: jumps and first positions beyond it share a weight.
WIDTH = 100
LARGEST_WEIGHT = 1e6  #: of a jump or first position: sums of such numbers are finite in float32
_MOST_LINKS = 1e15  # more than any text has, and far from what 32 bits hold
# The number of blocks that the text is cut into, whatever the number of threads: counts are summed block by block.
BLOCKS = 64
# In larger texts, transitions are counted in every nth pair, at least so many: they are few numbers.
COUNTED_PAIRS = 40_000
# Fertility needs the links of the other words: they are found without it first, and then this many times with it.
ROUNDS = 2
#: A text with this share of types among its tokens, or a higher one, hardly repeats any word.
UNREPEATED, STEEPNESS = 0.75, 4

#: The numbers of some source and some target words, -1 for unknown ones.
Ids = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True, eq=False)
class HMMParameters:
    """The HMM's parameters of one direction; x are the words of its states, y those it emits.

    Attributes:
        emission: float32 (K,), p(y|x) of each word pair in the table of the model.
        emission_floor: float32 (V_x,), p(y|x) of any other y.
        emission_alike: float32 (V_x + 1,), p(y|x) of any other y that is spelled like x; the last is for a word x
            that the model does not know. 0: spelling says nothing.
        null: float32 (V_y,), p(y|NULL).
        fertility: float32 (V_x, F), the factor for one more link of a word with 0, 1, ... others; F = 1: none.
        transition: float32 (2 W + 1,), weights of jumps -W..W, the ends standing for all beyond them.
        initial: float32 (W + 1,), weights of first positions, likewise.
        final: float32 (W + 1,), weights of last positions, counted from the end; all 1: the end says nothing.
        null_probability: p0, that a word y is NULL's.
    """

    emission: np.ndarray
    emission_floor: np.ndarray
    emission_alike: np.ndarray
    null: np.ndarray
    fertility: np.ndarray
    transition: np.ndarray
    initial: np.ndarray
    final: np.ndarray
    null_probability: float

    __repr__ = brief_repr

    def __post_init__(self) -> None:
        arrays = self.arrays.values()
        if any(array.dtype != np.float32 for array in arrays):
            raise TypeError("the arrays of an HMM must be float32")
        if not all(np.isfinite(array).all() and (array >= 0).all() for array in arrays):
            raise ValueError("the numbers of an HMM must be finite and not negative")
        # A little more than 1, for sums are rounded.
        if any(
            (array > 1.001).any() for array in (self.emission, self.emission_floor, self.emission_alike, self.null)
        ):
            raise ValueError("the probabilities of an HMM must lie between 0 and 1")
        if any((array > LARGEST_WEIGHT).any() for array in (self.transition, self.initial, self.final)):
            raise ValueError(f"weights of transitions cannot exceed {LARGEST_WEIGHT:g}")
        if (
            self.fertility.ndim != 2
            or len(self.fertility) != len(self.emission_floor)
            or not self.fertility.shape[1]
        ):
            raise ValueError("fertility must have a row for each source word")
        if self.emission_alike.shape != (len(self.emission_floor) + 1,):
            raise ValueError("emission_alike must have a value for each source word, and one more")
        if (len(self.transition), len(self.initial), len(self.final)) != (2 * WIDTH + 1, WIDTH + 1, WIDTH + 1):
            raise ValueError(f"transition must have {2 * WIDTH + 1} weights, initial and final {WIDTH + 1}")
        if not (self.transition.all() and self.initial.all() and self.final.all()):
            raise ValueError("weights of transitions must be positive")
        if not 0 < self.null_probability < 1:
            raise ValueError("null_probability must lie between 0 and 1")

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        """All but the NULL probability, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)[:-1]}


@dataclass(frozen=True, eq=False)
class FittedCounts:
    """The expected counts that a joint aligner was fitted with.

    Attributes:
        pairs: float32 (K,), links of each word pair of the aligner's table.
        null: float32 (2,), the sums of NULL's counts in the forward and in the reverse direction.

    Raises:
        ValueError: a count is negative or not finite, or they are more than any text has.
    """

    pairs: np.ndarray
    null: np.ndarray

    def __post_init__(self) -> None:
        if (self.pairs.dtype, self.null.dtype, self.null.shape) != (np.float32, np.float32, (2,)):
            raise ValueError("counts must be float32, and two of them NULL's")
        if not all(np.isfinite(array).all() and (array >= 0).all() for array in (self.pairs, self.null)):
            raise ValueError("counts must be finite and not negative")
        if max(array.sum(dtype=np.float64) for array in (self.pairs, self.null)) > _MOST_LINKS:
            raise ValueError(f"counts must not sum to more than {_MOST_LINKS:.0e}")


@dataclass(frozen=True, eq=False, repr=False)
class FittedHMM(LexicalModel):
    """A fitted hidden Markov model of one direction, or of both over one table of word pairs.

    Attributes:
        forward: the parameters of the direction whose states are source words; its emissions are the table.
        reverse: those of the other direction, if there is one.

    The other attributes are those of :class:`LexicalModel`.
    """

    forward: HMMParameters
    reverse: HMMParameters | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        sides = (self.source, self.target), (self.target, self.source)
        for name, each, (states, emitted) in zip(("", "reverse "), self.directions, sides, strict=False):
            if (len(each.emission_floor), len(each.null)) != (len(states), len(emitted)):
                raise ValueError(f"the {name}parameters do not fit the vocabularies")
        if any(len(direction.emission) != len(self.table.values) for direction in self.directions):
            raise ValueError("each direction must have an emission for each pair of the table")

    @property
    def directions(self) -> tuple[HMMParameters, ...]:
        """The parameters of each direction."""
        return (self.forward,) if self.reverse is None else (self.forward, self.reverse)

    def running(self, pool: OpinionPool) -> tuple[HMMParameters | None, HMMParameters | None]:
        """The parameters of the forward and the reverse direction; None: it has weight 0."""
        return self.forward if pool.forward > 0 else None, self.reverse if pool.reverse > 0 else None

    @cached_property
    def plain(self) -> FittedHMM:
        """The model without fertility and without pairs that are spelled alike."""
        plain = (
            replace(
                each,
                fertility=np.ones((len(each.emission_floor), 1), np.float32),
                emission_alike=np.zeros_like(each.emission_alike),
            )
            for each in self.directions
        )
        return FittedHMM(self.source, self.target, self.table, *plain)

    @property
    def is_spelled(self) -> bool:
        """True if it was fitted with pseudo-counts for words that are spelled alike."""
        return any(direction.emission_alike.any() for direction in self.directions)

    @property
    def has_fertility(self) -> bool:
        """True if there are factors for one more link of a word."""
        return self.forward.fertility.shape[1] > 1

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a saved file."""
        arrays = super().arrays()
        for name, direction in zip(("forward", "reverse"), self.directions, strict=False):
            arrays |= {f"{name}_{key}": array for key, array in direction.arrays.items()}
        del arrays["forward_emission"]  # the table has it
        return arrays

    def header(self) -> dict[str, Any]:
        """The numbers of a saved file."""
        return super().header() | {"null_probability": self.forward.null_probability}


def unpack_hmm(arrays: Fields, header: Record, directions: int) -> dict[str, Any]:
    """The attributes of :class:`FittedHMM` with 1 or 2 directions, from what its ``arrays`` and ``header`` wrote.

    Raises:
        InputError, TypeError, ValueError: the file is damaged.
    """
    attributes = read_parts(arrays, header)
    values = Fields(arrays.path, {**arrays.arrays, "forward_emission": attributes["table"].values})
    null_probability = header.number("null_probability", 0, 1)
    for direction in ("forward", "reverse")[:directions]:
        parameters = {
            field.name: values.get(f"{direction}_{field.name}", np.float32, 2 if field.name == "fertility" else 1)
            for field in fields(HMMParameters)[:-1]
        }
        attributes[direction] = HMMParameters(**parameters, null_probability=null_probability)
    return attributes


def values_of(values: np.ndarray, ids: np.ndarray, unknown: float = 0) -> np.ndarray:
    """values[ids], and ``unknown`` where an id is -1; in time that does not depend on the number of values."""
    out, is_known = np.full((len(ids), *values.shape[1:]), unknown, values.dtype), ids >= 0
    out[is_known] = values[ids[is_known]]
    return out


def share_of_repetition(ratio: float) -> float:
    """The share of a link's own expectation that is taken out of the counts that judge it.

    In a text with this number r of types for each token it is 1 - (r / 0.75)^4, at least 0. In a text of a few
    sentences nearly every link is the only evidence for itself: without it, nothing is left to choose by.
    """
    return max(0.0, 1 - (ratio / UNREPEATED) ** STEEPNESS)


def text_arrays(bitext: Bitext, copies: np.ndarray | None = None) -> TextArrays:
    """A text as the kernels take it; copies float32 (M,), how often each pair is there: once by default."""
    copies = np.ones(len(bitext), np.float32) if copies is None else copies
    source, target = bitext.source, bitext.target
    return TextArrays(source.tokens, source.offsets, target.tokens, target.offsets, copies)


def uniform_direction(states: int, emitted: int, tokens: int, null_probability: float) -> DirectionArrays:
    """A direction without transitions or fertility, which emits this number of tokens, and whose emissions are
    uniform: counts of 1, divided by the number of words that there are."""
    return DirectionArrays(
        totals=np.full(states, max(emitted, 1), np.float32),
        null=np.ones(emitted, np.float32),
        null_total=float(max(emitted, 1)),
        null_links=np.zeros(tokens, np.float32),
        fertility=np.ones((states, 1), np.float32),
        transition=np.empty(0, np.float32),
        initial=np.empty(0, np.float32),
        final=np.empty(0, np.float32),
        null_probability=null_probability,
        leave_one_out=0.0,
    )


class Expectation(NamedTuple):
    """What an E-step finds beside the links."""

    likelihood: np.ndarray  # float64 (M,), the log-likelihood of each pair, summed over the directions that ran
    transitions: list[TransitionCounts]  # expected counts of the forward and the reverse direction
    change: float  # the sum of the absolute changes of the links


def expect(
    bitext: Bitext,
    links: LinkArrays,
    directions: tuple[DirectionArrays, DirectionArrays],
    pool: OpinionPool,
    threads: int,
    copies: np.ndarray | None = None,
    is_last: bool = False,
    least_own: float = 0.0,
) -> Expectation:
    """The E-step: the forward-backward algorithm in both directions of every pair.

    The links of ``links``, and NULL's of the directions, are overwritten.

    Args:
        bitext: M pairs.
        pool: of both directions' posteriors, which makes the links.
        threads: how many to use; no result depends on it.
        copies: of :func:`text_arrays`.
        is_last, least_own: of :class:`alignkit.kernels.hmm_e_step.EStepOptions`.
    """
    text, likelihood = text_arrays(bitext, copies), np.zeros(len(bitext), np.float64)
    options = EStepOptions(is_last, least_own, max(1, len(bitext) // COUNTED_PAIRS))
    source, target = bitext.source.lengths, bitext.target.lengths
    ranges = blocks(source * target * (source + target), BLOCKS) or [(0, 0)]
    counts = {
        span: tuple(
            TransitionCounts(*(np.zeros(len(of)) for of in 2 * [each.transition] + 4 * [each.initial]))
            for each in directions
        )
        for span in ranges
    }
    changes = run_blocks(
        lambda low, high: expect_links(
            low, high, text, links, directions, pool, options, likelihood, counts[low, high]
        ),
        ranges,
        threads,
    )
    transitions = [
        TransitionCounts(*(reduce(np.add, numbers) for numbers in zip(*each, strict=True)))
        for each in zip(*counts.values(), strict=True)
    ]
    return Expectation(likelihood, transitions, float(sum(changes)))


def posteriors(
    bitext: Bitext, model: FittedHMM, pool: OpinionPool, threads: int | None
) -> tuple[Scores, np.ndarray]:
    """Link probabilities (T, L) of M pairs, and the log-likelihood of each, float64 (M,).

    Pairs of words that the model does not know are equally likely, but for their spelling.

    Args:
        bitext: the text.
        model: with one direction or both.
        pool: of both directions' posteriors, which makes the result; the log-likelihoods of two are added.
            Fertility is judged by the mean of both.
        threads: all there are by default; no result depends on it.
    """
    ids, threads = model.ids(bitext), thread_count(threads)
    probabilities, _ = pair_probabilities(bitext, model, ids, pool, threads)
    links, likelihood = last_links(bitext, model, ids, pool, probabilities, threads)
    np.clip(links.values, 0, 1, out=links.values)
    return links, likelihood


def log_likelihoods(bitext: Bitext, model: FittedHMM, pool: OpinionPool, threads: int | None) -> np.ndarray:
    """float64 (M,): log p(y | x) of each pair, up to the factor for its length; arguments of :func:`posteriors`.

    Without fertility, whose factors are for links given the others, and without spelling, which gives words that
    the model has never seen together more than is left for them: neither makes a distribution over sentences.
    """
    return posteriors(bitext, model.plain, pool, threads)[1]


def pair_probabilities(
    bitext: Bitext, model: FittedHMM, ids: Ids, pool: OpinionPool, threads: int, compare_spelling: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """The emissions of every element of the (T, L) matrices of M pairs.

    Args:
        bitext: the text.
        model: with one direction or both; ids: those of the text's words in it.
        pool: a direction of weight 0 is left out.
        threads: how many to use; no result depends on it.
        compare_spelling: whether new pairs that are spelled alike are likelier, if the model was so fitted.

    Returns:
        (float32 (P, 3), of which columns 1 and 2 are p(y|x) and p(x|y); bool (P,), the elements whose pair of
        words the model does not know).
    """
    offsets, text = flat_offsets(bitext.shapes), text_arrays(bitext)
    probabilities, alike = np.zeros((offsets[-1], 3), np.float32), None
    is_new = np.zeros(offsets[-1], bool)
    for side, direction in enumerate(model.running(pool)):
        if direction is None:
            continue
        values = table_values(model.table.with_values(direction.emission), bitext, *ids, threads)
        is_new = values == 0
        if compare_spelling and direction.emission_alike.any():
            alike = spelling_of_new_pairs(bitext, is_new, threads) if alike is None else alike
            places = np.flatnonzero(alike > 0)
            words = ids[side][tokens_of_elements(bitext, places)[side]]
            values[places] = alike[places] * direction.emission_alike[words]
        # p(y|x) is at least the floor of x; an unknown x may be anything.
        floor = np.maximum(values_of(direction.emission_floor, ids[side]), np.float32(UNSEEN))
        uniform = np.float32(1 / max(len(direction.null), 1))
        floor = np.where(ids[side] >= 0, floor, uniform).astype(np.float32)
        floors = floor[(bitext.target if side else bitext.source).tokens]
        raised = text, floors, bool(side), offsets, values
        run_blocks(
            lambda *span, raised=raised: fill_floor(*span, *raised), blocks(np.diff(offsets), threads), threads
        )
        probabilities[:, 1 + side] = values
    return probabilities, is_new


def last_links(
    bitext: Bitext, model: FittedHMM, ids: Ids, pool: OpinionPool, probabilities: np.ndarray, threads: int
) -> tuple[Scores, np.ndarray]:
    """The links, and float64 (M,) log-likelihoods, that the last of some E-steps finds.

    Args:
        bitext: M pairs.
        model, ids, pool, threads: as of :func:`pair_probabilities`.
        probabilities: as :func:`pair_probabilities` returns them.
    """
    running = model.running(pool)
    rounds = 1 + ROUNDS * any(each is not None and each.fertility.shape[1] > 1 for each in running)
    directions = []
    for side, parameters in enumerate(running):
        states, emitted = ids[side], ids[1 - side]
        tokens = len((bitext.source if side else bitext.target).tokens)
        direction = uniform_direction(len(states), len(emitted), tokens, 0.5)
        if parameters is not None:
            direction = direction._replace(
                totals=np.ones(len(states), np.float32),
                null=np.maximum(values_of(parameters.null, emitted), np.float32(UNSEEN)),
                null_total=1.0,
                transition=parameters.transition,
                initial=parameters.initial,
                final=parameters.final,
                null_probability=parameters.null_probability,
            )
        directions.append(direction)
    # Every element is a word pair of its own, whose pseudo-counts are its probabilities.
    offsets = flat_offsets(bitext.shapes)
    links = LinkArrays(offsets, NO_PLACES, probabilities, np.zeros(offsets[-1], np.uint32))
    mean = pool if None in running else BOTH
    for i in range(rounds):
        if i == 1:
            directions = [
                each if own is None else each._replace(fertility=values_of(own.fertility, states, unknown=1))
                for each, own, states in zip(directions, running, ids, strict=True)
            ]
        is_last = i == rounds - 1
        used = pool if is_last else mean
        forward, reverse = directions
        likelihood = expect(bitext, links, (forward, reverse), used, threads, is_last=is_last).likelihood
    return Scores(links.elements.view(np.float32), links.offsets, bitext.shapes), likelihood
