"""Fingerprints of texts: CRC-32, the same in Python and in kernels.

A plan knows texts (prefixes of topics, attribute values, ids) by their fingerprints alone. Subscriptions and
events that agree in the text agree in the fingerprint. Texts that share one are the same to a plan, which
must be harmless wherever fingerprints are used. A CRC is computed byte by byte, so the fingerprints of all
prefixes of a topic cost one pass over it.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import kernel, sealed

MIXER = 0x9E3779B1
MASK = 0xFFFFFFFF
EMPTY = np.uint32(MASK)
"""The state of a fingerprint in a kernel before the first byte."""
BYTE = np.uint32(255)
SHIFT = np.uint32(8)


def fingerprint(text: str) -> int:
    return crc32(text.encode())


def spread(fingerprint: int, count: int) -> int:
    """A number below `count` for a fingerprint; a CRC alone is too regular for similar texts.

    >>> 0 <= spread(fingerprint("s1"), 10) < 10
    True
    """
    return (((fingerprint * MIXER) & MASK) * count) >> 32


@kernel
def spread_in_kernel(fingerprint: int, count: int) -> int:
    """`spread`, for kernels."""
    return (((fingerprint * MIXER) & MASK) * count) >> 32


@kernel
def extended(state: Any, byte: Any, table: NDArray[np.uint32]) -> Any:
    """The state after one more byte; `table` is `CRC_TABLE`."""
    return table[(state ^ np.uint32(byte)) & BYTE] ^ (state >> SHIFT)


@kernel
def finished(state: Any) -> Any:
    """The fingerprint of the bytes that led to this state."""
    return np.int64(state ^ EMPTY)


@kernel
def text_fingerprint(data: NDArray[np.uint8], start: int, end: int, table: NDArray[np.uint32]) -> Any:
    """The fingerprint of some bytes, for kernels."""
    state = EMPTY
    for at in range(start, end):
        state = extended(state, data[at], table)
    return finished(state)


def _crc_table() -> NDArray[np.uint32]:
    """What zlib computes by, from the reversed polynomial."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ 0xEDB88320 if value & 1 else value >> 1
        table.append(value)
    return sealed(np.array(table, np.uint32))


CRC_TABLE = _crc_table()
