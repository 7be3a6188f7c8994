"""Eight float32 numbers at once, for kernels whose loops over positions are short.

Numba turns a loop over an array into vector instructions, but keeps its sums in memory or adds them up one by one,
and spends as long on getting into a loop of 25 numbers as on the loop. In a kernel, ``load`` gives eight
neighbours of a float32 array as one value; values are added, subtracted, multiplied and divided by + - * /, and
stay in registers between. Arithmetic is that of each number alone, so the bits are the same on every processor.

A choice between a number and what is no number takes the second. Nothing checks the bounds: whoever loads index i
reads i to i + 7, and rows are to be padded to whole ``LANES`` (:func:`.forward_backward.padded`).
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from llvmlite import ir
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import intrinsic, lower_builtin, models, register_model

LANES = 8
VECTOR = ir.VectorType(ir.FloatType(), LANES)
NUMBER = ir.IntType(32)
ALIGNMENT = 4  # bytes: any float32 may be the first of a load


class LanesType(types.Type):
    """Numba's type of eight float32 numbers."""

    def __init__(self) -> None:
        super().__init__(name="lanes")


LANES_TYPE = LanesType()


@register_model(LanesType)
class LanesModel(models.PrimitiveModel):
    """They are one LLVM vector, which every processor splits into registers as wide as it has."""

    def __init__(self, manager: Any, numba_type: LanesType) -> None:
        super().__init__(manager, numba_type, VECTOR)


def _arithmetic(python: Any, instruction: str) -> None:
    class Template(AbstractTemplate):
        def generic(self, args: Any, kws: Any) -> Any:
            if args == (LANES_TYPE, LANES_TYPE):
                return signature(LANES_TYPE, LANES_TYPE, LANES_TYPE)
            return None

    infer_global(python)(Template)

    @lower_builtin(python, LanesType, LanesType)
    def lower(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)


_arithmetic(operator.add, "fadd")
_arithmetic(operator.sub, "fsub")
_arithmetic(operator.mul, "fmul")
_arithmetic(operator.truediv, "fdiv")


def _is_row(array: Any) -> bool:
    return isinstance(array, types.Array) and (array.dtype, array.ndim, array.layout) == (types.float32, 1, "C")


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), VECTOR.as_pointer())


@intrinsic
def load(typing: Any, array: Any, index: Any) -> Any:
    """array[index : index + 8], of a float32 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, sig.args[0], *args), align=ALIGNMENT)

    return (LANES_TYPE(array, types.intp), generate) if _is_row(array) else None


@intrinsic
def store(typing: Any, array: Any, index: Any, lanes: Any) -> Any:
    """array[index : index + 8] = lanes"""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(context, builder, sig.args[0], *args[:2]), align=ALIGNMENT)
        return context.get_dummy_value()

    fits = _is_row(array) and lanes == LANES_TYPE
    return (types.void(array, types.intp, LANES_TYPE), generate) if fits else None


@intrinsic
def splat(typing: Any, number: Any) -> Any:
    """Eight times the same number."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        nothing = ir.Constant(VECTOR, ir.Undefined)
        first = builder.insert_element(nothing, args[0], ir.Constant(NUMBER, 0))
        return builder.shuffle_vector(first, nothing, _places([0] * LANES))

    return LANES_TYPE(types.float32), generate


@intrinsic
def larger(typing: Any, a: Any, b: Any) -> Any:
    """The larger one in each lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _larger(builder, *args)

    return LANES_TYPE(LANES_TYPE, LANES_TYPE), generate


@intrinsic
def smaller(typing: Any, a: Any, b: Any) -> Any:
    """The smaller one in each lane."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered("<", *args), *args)

    return LANES_TYPE(LANES_TYPE, LANES_TYPE), generate


@intrinsic
def above(typing: Any, a: Any, b: Any, c: Any) -> Any:
    """c where a > b, else 0."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        zeros = ir.Constant(VECTOR, [0.0] * LANES)
        return builder.select(builder.fcmp_ordered(">", args[0], args[1]), args[2], zeros)

    return LANES_TYPE(LANES_TYPE, LANES_TYPE, LANES_TYPE), generate


@intrinsic
def total(typing: Any, lanes: Any) -> Any:
    """The sum of the lanes: halves are added to each other until one number is left."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _fold(builder, args[0], builder.fadd)

    return types.float32(LANES_TYPE), generate


@intrinsic
def largest(typing: Any, lanes: Any) -> Any:
    """The largest of the lanes."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _fold(builder, args[0], functools.partial(_larger, builder))

    return types.float32(LANES_TYPE), generate


def _larger(builder: Any, a: Any, b: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", a, b), a, b)


def _places(numbers: list[int]) -> Any:
    return ir.Constant(ir.VectorType(NUMBER, len(numbers)), numbers)


def _fold(builder: Any, value: Any, combine: Any) -> Any:
    """One number from a vector: its halves combined, and so on."""
    size = LANES
    while size > 1:
        size //= 2
        nothing = ir.Constant(value.type, ir.Undefined)
        low, high = list(range(size)), list(range(size, 2 * size))
        value = combine(*(builder.shuffle_vector(value, nothing, _places(half)) for half in (low, high)))
    return builder.extract_element(value, ir.Constant(NUMBER, 0))
