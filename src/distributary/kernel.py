"""What all Numba kernels share: how they are compiled, the types of their arrays, and two helpers for texts.

A kernel is a function that Numba compiles to machine code. It takes numbers, arrays, and NamedTuples of
arrays. `Ints`, `Floats` and so on are the array types that kernels use most.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

C = TypeVar("C", bound=Callable[..., Any])

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Words = NDArray[np.uint64]
"""Machine words that are read as sets of bits or as hashes."""
Floats = NDArray[np.float64]


def kernel(function: C) -> C:
    """Compile `function` on first use; the machine code is cached beside the module or in NUMBA_CACHE_DIR.

    Where neither that nor the user's cache directory can be written, the function is compiled anew by
    each process rather than failing.
    """
    try:
        compiled: C = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    except RuntimeError:
        compiled = numba.njit(nogil=True, error_model="numpy")(function)
    return compiled


def sealed(array: NDArray[Any]) -> NDArray[Any]:
    """The array plain, contiguous and read-only, so that built and memory-mapped ones are of one type.

    A kernel is compiled for each combination of types it is called with, which takes seconds each time.
    """
    flags = array.flags
    if type(array) is np.ndarray and not flags.writeable and flags.c_contiguous:
        return array
    view = np.ascontiguousarray(array).view(np.ndarray)
    view.flags.writeable = False
    return view


@kernel
def hash_bytes(data: Bytes, start: int, end: int) -> np.uint64:
    """The 64-bit FNV-1a hash of `data[start:end]`. Its low bits alone are weak: fold or mix it before use."""
    code = np.uint64(0xCBF29CE484222325)
    for at in range(start, end):
        code = (code ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
    return code


@kernel
def same_text(one: Bytes, start: int, end: int, other: Bytes, other_start: int, other_end: int) -> bool:
    """Whether `one[start:end]` and `other[other_start:other_end]` are the same bytes."""
    length, same = end - start, 0
    if other_end - other_start != length:
        return False
    while same < length and one[start + same] == other[other_start + same]:
        same += 1
    return same == length
