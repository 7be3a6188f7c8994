"""Eight float32 numbers at once, for kernels whose loops over positions are short.

Numba turns a loop over an array into vector instructions, but keeps its sums in memory or adds them up one by one,
and spends as long on getting into a loop of 25 numbers as on the loop. In a kernel, ``load`` gives eight
neighbours of a float32 array as one value; values are added, subtracted, multiplied and divided by + - * /, and
stay in registers between. Arithmetic is that of each number alone, so the bits are the same on every processor.

A choice between a number and what is no number takes the second. Nothing checks the bounds: whoever loads index i
reads i to i + 7, and rows are to be padded to whole ``LANES`` (:func:`.chain.padded`). Outside kernels these names
do nothing.
"""

from __future__ import annotations

from typing import Any

LANES = 8


class Operation:
    """A name for Numba to find in kernels; what it does is in :mod:`.lanes_numba`, imported by the first use."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, *arguments: Any) -> Any:
        raise TypeError(f"{self.name} works within kernels only")

    @property
    def _numba_type_(self) -> Any:
        from alignkit.kernels import lanes_numba

        return lanes_numba.type_of(self.name)


#: load(array, i): array[i : i + 8]
load = Operation("load")
#: store(array, i, lanes): array[i : i + 8] = lanes
store = Operation("store")
#: splat(number): eight times the same
splat = Operation("splat")
#: larger(a, b): the larger one in each lane
larger = Operation("larger")
#: smaller(a, b)
smaller = Operation("smaller")
#: above(a, b, c): c where a > b, else 0
above = Operation("above")
#: total(lanes): their sum, halves added to each other until one number is left
total = Operation("total")
#: largest(lanes)
largest = Operation("largest")
