"""What plain loops do not give: prefetching, and slices whose bounds are not checked."""

from __future__ import annotations

from typing import Any

from numba.core import cgutils, types
from numba.extending import intrinsic


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
