"""What plain loops do not give: vectors of eight float32 numbers, prefetching, and slices with unchecked bounds.

The vectors are for loops over the few positions of one sentence. Numba turns a loop over an array into vector
instructions, but keeps its sums in memory or adds numbers one by one, and entering such a loop takes as long as 25
numbers in it. Here :func:`load_vector` makes one value of eight neighbours in an array; such values are added,
subtracted, multiplied and divided with + - * /, and stay in registers. Every number is computed by itself, so the
bits are the same on every processor, and those of a plain loop.

Bounds are not checked: loading index i reads i to i + 7, so rows are padded with zeros to a multiple of
``VECTOR_WIDTH``.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable

from alignkit.kernels.compile import kernel

#: Numbers in a vector, its lanes as SIMD instructions have it: as many as an AVX register holds.
VECTOR_WIDTH = 8
LLVM_VECTOR = ir.VectorType(ir.FloatType(), VECTOR_WIDTH)
ALIGNMENT = 4  # bytes: a vector may start at any float32


class VectorType(types.Type):
    """Numba's type of eight float32 numbers."""


VECTOR_TYPE = VectorType("float32 vector")


@register_model(VectorType)
class VectorModel(models.PrimitiveModel):
    """One LLVM vector, which each processor splits into registers of the width that it has."""

    def __init__(self, manager: Any, numba_type: VectorType) -> None:
        super().__init__(manager, numba_type, LLVM_VECTOR)


def _define_operator(symbol: Any, instruction: str) -> None:
    @type_callable(symbol)
    def result(context: Any) -> Any:
        return lambda a, b: VECTOR_TYPE if a == b == VECTOR_TYPE else None

    @lower_builtin(symbol, VectorType, VectorType)
    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)


for _symbol, _instruction in (("add", "fadd"), ("sub", "fsub"), ("mul", "fmul"), ("truediv", "fdiv")):
    _define_operator(getattr(operator, _symbol), _instruction)


def _is_row(array: Any) -> bool:
    return isinstance(array, types.Array) and (array.dtype, array.ndim, array.layout) == (types.float32, 1, "C")


def _pointer(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [index]), LLVM_VECTOR.as_pointer())


@intrinsic
def load_vector(typing: Any, array: Any, index: Any) -> Any:
    """array[index : index + 8], of a float32 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, sig.args[0], *args), align=ALIGNMENT)

    return (VECTOR_TYPE(array, types.intp), generate) if _is_row(array) else None


@intrinsic
def store(typing: Any, array: Any, index: Any, vector: Any) -> Any:
    """array[index : index + 8] = vector, of a float32 array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(context, builder, sig.args[0], *args[:2]), align=ALIGNMENT)
        return context.get_dummy_value()

    fits = _is_row(array) and vector == VECTOR_TYPE
    return (types.void(array, types.intp, VECTOR_TYPE), generate) if fits else None


@intrinsic
def splat(typing: Any, number: Any) -> Any:
    """The same number eight times."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        vector = ir.Constant(LLVM_VECTOR, ir.Undefined)
        for lane in range(VECTOR_WIDTH):
            vector = builder.insert_element(vector, args[0], ir.Constant(ir.IntType(32), lane))
        return vector

    return VECTOR_TYPE(types.float32), generate


@intrinsic
def lane(typing: Any, vector: Any, index: Any) -> Any:
    """One of the eight numbers."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.extract_element(*args)

    return types.float32(VECTOR_TYPE, types.intp), generate


@intrinsic
def choose(typing: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """c where a > b, else d (also where a or b is NaN), for each of the eight."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", *args[:2]), *args[2:])

    return VECTOR_TYPE(*[VECTOR_TYPE] * 4), generate


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


@intrinsic
def prefetch(context: Any, array: Any, place: Any) -> Any:
    """Prefetch the cache line of ``array[place]``; never faults, and changes no result.

    The sentences of a word lie all over a large text. Prefetched a few steps ahead, they are in the cache when the
    loop comes to them, and a sweep over a text of 40 MB takes no longer per word than over one of 2 MB.
    """
    del context

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        data = target.make_array(signature.args[0])(target, builder, values[0]).data
        byte, whole = cgutils.ir.IntType(8).as_pointer(), cgutils.ir.IntType(32)
        address = builder.bitcast(builder.gep(data, [values[1]]), byte)
        shape = cgutils.ir.FunctionType(cgutils.ir.VoidType(), [byte, whole, whole, whole])
        function = builder.module.declare_intrinsic("llvm.prefetch", [byte], shape)
        builder.call(function, [address, whole(0), whole(3), whole(1)])  # for reading, to keep, data
        return target.get_dummy_value()

    return types.void(array, types.int64), generate


@intrinsic
def part(context: Any, array: Any, low: Any, high: Any) -> Any:
    """array[low:high] of a vector, for 0 <= low <= high <= its length.

    Numba looks at each bound of a slice in four ways, which takes longer than what is done to a short row.
    """
    del context

    def generate(target: Any, builder: Any, signature: Any, values: Any) -> Any:
        from numba.np.arrayobj import populate_array  # not needed where kernels are kept

        given = target.make_array(signature.args[0])(target, builder, values[0])
        view = target.make_array(signature.return_type)(target, builder)
        data, size = builder.gep(given.data, [values[1]]), builder.sub(values[2], values[1])
        populate_array(view, data, [size], [given.itemsize], given.itemsize, None)
        return view._getvalue()

    return array(array, types.intp, types.intp), generate
