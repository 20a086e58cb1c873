"""Arrays that are bound once: a kernel finds dozens of them by address, and takes one array in their place.

Calling a kernel costs about a twentieth of a microsecond for each array that it is given, and the arrays of
an index are dozens: more than the search for a single event takes. What kernels read of a compiled segment
never changes, so the addresses and lengths of its arrays are written down once, in an array of *words*.
`array_at` makes an array of them again inside a kernel, read-only.

Whoever calls a kernel with the words holds on to the `BoundArrays` meanwhile: it keeps the arrays alive.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array
from numpy.typing import DTypeLike, NDArray

from distributary.kernel import Longs

WORDS = 2
"""Words of an array: its address and its length."""


class BoundArrays:
    """The words of some arrays, and the arrays, which must not move while they are in use.

    `arrays` come with the type that the kernel reads them as, for it would take them for that unseen.
    """

    __slots__ = ("_kept", "words")

    def __init__(self, arrays: Iterable[tuple[NDArray[Any], DTypeLike]]) -> None:
        self._kept = tuple(arrays)
        words: list[int] = []
        for array, wanted in self._kept:
            if array.dtype != wanted or not array.flags.c_contiguous:
                raise TypeError(f"a kernel reads {np.dtype(wanted)} in a row here, not {array.dtype}")
            words += (array.ctypes.data, array.size)
        self.words: Longs = np.array(words, np.int64)


@intrinsic  # type: ignore[untyped-decorator]
def array_at(typing_context: Any, words: Any, number: Any, kind: Any) -> Any:
    """array_at(words, number, kind): the bound array of that number, flat, with elements of that kind."""
    found = types.Array(kind.dtype, 1, "C", readonly=True)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = context.make_array(signature.args[0])(context, builder, arguments[0])
        index = context.cast(builder, arguments[1], signature.args[1], types.intp)
        place = builder.gep(given.data, [builder.mul(index, ir.Constant(cgutils.intp_t, WORDS))])
        address, length = builder.load(place), builder.load(cgutils.gep_inbounds(builder, place, 1))
        array = context.make_array(found)(context, builder)
        size = context.get_constant(types.intp, context.get_abi_sizeof(context.get_data_type(found.dtype)))
        populate_array(
            array,
            data=builder.inttoptr(address, array.data.type),
            shape=[length],
            strides=[size],
            itemsize=size,
            meminfo=None,
        )
        return array._getvalue()

    return found(words, number, kind), generate
