"""What kernels do with texts, which are bytes between two places of an array, and an array that grows."""

from __future__ import annotations

import numpy as np

from distributary.kernel.compile import kernel
from distributary.kernel.tables import Bytes, Ints


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


@kernel
def text_order(one: Bytes, start: int, end: int, other: Bytes, other_start: int, other_end: int) -> int:
    """Negative, zero or positive as `one[start:end]` comes before, equals or follows the other bytes."""
    length, other_length = end - start, other_end - other_start
    for at in range(min(length, other_length)):
        difference = np.int64(one[start + at]) - np.int64(other[other_start + at])
        if difference != 0:
            return int(difference)
    return int(length - other_length)


@kernel
def with_room(array: Ints, used: int, more: int) -> Ints:
    """The array, or a larger copy of it, with room for `more` after the first `used`."""
    if used + more <= len(array):
        return array
    larger = np.empty(2 * len(array) + more, np.int32)
    for at in range(used):
        larger[at] = array[at]
    return larger
