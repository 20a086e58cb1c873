"""Arrays that take in very many numbers, some or one at a time, in pages of their own.

An array that outgrows its place is moved, and the allocator keeps the place for others. Where many arrays
grow side by side, as they do while an index is built, it soon keeps half as much again as is in use. Here a
large array lies in pages that the system gives to it alone and takes back as soon as it is moved or dropped.
Room that nothing was written to takes no memory, so an array need not be copied to be rid of it.

>>> numbers = GrowingArray("i")
>>> numbers.append(7)
>>> numbers.extend(np.array([8, 9], np.int32))
>>> numbers.taken().tolist()
[7, 8, 9]
"""

from __future__ import annotations

import ctypes
import mmap
from array import array
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LARGE = 1 << 18
"""Arrays of fewer bytes are not worth pages of their own."""

HUGE = 1 << 22
"""Arrays of so many bytes are worth large pages, which are much faster to get and to look things up in."""


def paged(count: int, dtype: DTypeLike) -> NDArray[Any]:
    """An array of zeros, in pages of its own if it is large."""
    size = count * np.dtype(dtype).itemsize
    if size < LARGE:
        return np.zeros(count, dtype)
    private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
    pages = mmap.mmap(-1, size, **private)
    if size >= HUGE and hasattr(mmap, "MADV_HUGEPAGE"):
        pages.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(pages, dtype, count)


def with_room(array: NDArray[Any], used: int, needed: int) -> NDArray[Any]:
    """The array, if it has room for as many as are needed; else a copy of what is used that has.

    The copy has half as much again as there was, so that whoever adds to it copies each number a few times.
    """
    if needed <= len(array):
        return array
    larger = paged(max(needed, len(array) + len(array) // 2), array.dtype)
    larger[:used] = array[:used]
    return larger


def return_free_memory() -> None:
    """Have the allocator give what it keeps for others, but nobody uses, back to the system, if it can.

    That takes milliseconds, so it is for large moments: before much memory is needed in other sizes.
    """
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Callable[[int], int] | None:
    """The GNU C library's `malloc_trim`; None where another one is used."""
    try:
        found: Callable[[int], int] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError, TypeError):
        return None
    return found


class GrowingArray:
    """Numbers of one type, named as in Python's `array`, to which more are added."""

    __slots__ = ("_held", "_single", "_used", "append", "frombytes")

    def __init__(self, typecode: str) -> None:
        self._held: NDArray[Any] = np.empty(0, typecode)
        self._used = 0
        self._single: array[Any] = array(typecode)
        """What came after all that is held, one by one: Python's arrays are faster at that."""
        self.append = self._single.append
        """Add one number."""
        self.frombytes = self._single.frombytes
        """Add the numbers that these bytes are; for a few."""

    def __len__(self) -> int:
        return self._used + len(self._single)

    def extend(self, more: NDArray[Any]) -> None:
        """Add numbers, which fit the type."""
        self._hold_singles()
        self._hold(more)

    def shorten(self, length: int) -> None:
        """Strike out what was added, one by one, since there were so many numbers."""
        assert length >= self._used, "what was added by the array stays"
        del self._single[length - self._used :]

    def taken(self) -> NDArray[Any]:
        """All numbers as one array. Nothing may be added after that."""
        if not self._used:
            return self._singles()
        self._hold_singles()
        return self._held[: self._used]

    def _hold_singles(self) -> None:
        if self._single:
            self._hold(self._singles())
            del self._single[:]

    def _hold(self, more: NDArray[Any]) -> None:
        last = self._used + len(more)
        self._held = with_room(self._held, self._used, last)
        self._held[self._used : last] = more
        self._used = last

    def _singles(self) -> NDArray[Any]:
        """What came one by one, in the memory that it lies in."""
        typecode = self._single.typecode
        return np.frombuffer(self._single, typecode) if self._single else np.empty(0, typecode)
