"""Hidden Markov models of word alignment: their parameters."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from alignkit.classical.lexical_model import LexicalModel, read_parts
from alignkit.support.arrays import brief_repr
from alignkit.support.files import Fields, Record

#: W: jumps and first positions beyond it share a weight.
WIDTH = 100
LARGEST_WEIGHT = 1e6  #: of a jump or first position: sums of such numbers are finite in float32
_MOST_LINKS = 1e15  # more than any text has, and far from what 32 bits hold


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

    @cached_property
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
