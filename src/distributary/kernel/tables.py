"""The arrays that kernels take: their types, and how they are made plain, aligned, and tables.

`Ints`, `Floats` and so on are the array types that kernels use most. Arrays that belong together are one
NamedTuple, a *table*, which says once what each of them holds. `read_table` makes such a tuple of the arrays
of an index, and `table_arrays` is the way back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

T = TypeVar("T", bound=NamedTuple)

Bytes = NDArray[np.uint8]
Flags = NDArray[np.bool_]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Words = NDArray[np.uint64]
"""Machine words that are read as sets of bits or as hashes."""
Floats = NDArray[np.float64]

CACHE_LINE = 64
"""Bytes that a processor fetches at once."""


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


def sealed_arrays(arrays: Iterable[Any]) -> tuple[NDArray[Any], ...]:
    """All of the arrays sealed; for a kernel that takes the arrays of a table one by one."""
    return tuple(map(sealed, arrays))


def sealed_table(table: T) -> T:
    """The table with all its arrays sealed."""
    return table._make(map(sealed, table))


def read_table(table: type[T], arrays: Mapping[str, NDArray[Any]], prefix: str = "") -> T:
    """The table with these arrays, sealed; the array of a field is named by the prefix and the field."""
    return table._make(sealed(arrays[prefix + field]) for field in table._fields)


def table_arrays(table: NamedTuple, prefix: str = "") -> dict[str, NDArray[Any]]:
    """The arrays of a table by name, as `read_table` reads them."""
    return {prefix + field: array for field, array in table._asdict().items()}


def empty_in_line(count: int, kind: DTypeLike) -> NDArray[Any]:
    """An array of so many numbers, with anything in it, that begins where a line of the cache does.

    What is as long as a line then lies in one line, not in two, and is fetched in half the time.
    """
    size = np.dtype(kind).itemsize
    room = np.empty(count * size + CACHE_LINE, np.uint8)
    start = -room.ctypes.data % CACHE_LINE
    return room[start : start + count * size].view(kind)
