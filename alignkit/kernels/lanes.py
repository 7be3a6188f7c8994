"""Vectors of eight float32 numbers, for loops over the few positions of one sentence.

Numba turns a loop over an array into vector instructions, but keeps its sums in memory or adds numbers one by one,
and entering such a loop takes as long as 25 numbers in it. Here :func:`load_lanes` makes one value of eight
neighbours in an array; such values are added, subtracted, multiplied and divided with + - * /, and stay in
registers. Every number is computed by itself, so the bits are the same on every processor, and those of a plain
loop.

Bounds are not checked: loading index i reads i to i + 7, so rows are padded to a multiple of ``LANES`` with zeros.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from alignkit.kernels.compile import kernel

LANES = 8
VECTOR = ir.VectorType(ir.FloatType(), LANES)
ALIGNMENT = 4  # bytes: a vector may start at any float32


class LanesType(types.Type):
    """Numba's type of eight float32 numbers."""


LANES_TYPE = LanesType("lanes")


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):
    """One LLVM vector, which each processor splits into registers of the width that it has."""

    def __init__(self, manager: Any, numba_type: LanesType) -> None:
        super().__init__(manager, numba_type, VECTOR)


def _define_operator(symbol: Any, instruction: str) -> None:
    @type_callable(symbol)
    def result(context: Any) -> Any:
        return lambda a, b: LANES_TYPE if a == b == LANES_TYPE else None

    @lower_builtin(symbol, LanesType, LanesType)
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)


for _symbol, _instruction in (("add", "fadd"), ("sub", "fsub"), ("mul", "fmul"), ("truediv", "fdiv")):
    _define_operator(getattr(operator, _symbol), _instruction)


def _is_row(array: Any) -> bool:
    return isinstance(array, types.Array) and (array.dtype, array.ndim, array.layout) == (types.float32, 1, "C")


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), VECTOR.as_pointer())


@intrinsic
def load_lanes(typing: Any, array: Any, index: Any) -> Any:
    """array[index : index + 8], of a float32 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, sig.args[0], *args), align=ALIGNMENT)

    return (LANES_TYPE(array, types.intp), generate) if _is_row(array) else None


@intrinsic
def store(typing: Any, array: Any, index: Any, lanes: Any) -> Any:
    """array[index : index + 8] = lanes, of a float32 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(context, builder, sig.args[0], *args[:2]), align=ALIGNMENT)
        return context.get_dummy_value()

    fits = _is_row(array) and lanes == LANES_TYPE
    return (types.void(array, types.intp, LANES_TYPE), generate) if fits else None


@intrinsic
def splat(typing: Any, number: Any) -> Any:
    """The same number eight times."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        lanes = ir.Constant(VECTOR, ir.Undefined)
        for lane in range(LANES):
            lanes = builder.insert_element(lanes, args[0], ir.Constant(ir.IntType(32), lane))
        return lanes

    return LANES_TYPE(types.float32), generate


@intrinsic
def lane(typing: Any, lanes: Any, index: Any) -> Any:
    """One of the eight numbers."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(*args)

    return types.float32(LANES_TYPE, types.intp), generate


@intrinsic
def choose(typing: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """c where a > b, else d (also where a or b is NaN), for each of the eight."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args[:2]), *args[2:])

    return LANES_TYPE(*[LANES_TYPE] * 4), generate


@kernel
def larger(a, b):
    """The larger one of each two."""
    return choose(a, b, a, b)


@kernel
def smaller(a, b):
    """The smaller one of each two."""
    return choose(b, a, a, b)


@kernel
def total(a):
    """The sum of the eight: halves are added to each other until one number is left."""
    first, second = lane(a, 0) + lane(a, 4), lane(a, 1) + lane(a, 5)
    third, fourth = lane(a, 2) + lane(a, 6), lane(a, 3) + lane(a, 7)
    return (first + third) + (second + fourth)


@kernel
def largest(a):
    """The largest of the eight."""
    first, second = max(lane(a, 0), lane(a, 4)), max(lane(a, 1), lane(a, 5))
    third, fourth = max(lane(a, 2), lane(a, 6)), max(lane(a, 3), lane(a, 7))
    return max(max(first, third), max(second, fourth))
