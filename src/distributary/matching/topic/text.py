"""Canonical topic texts and topics as bytes: what the compiled topic structures read in place.

A canonical text says all about its filter (see `filters.topic`), so nothing of it is stored twice: kernels
read its syntax, its end and its levels from the bytes. Both syntaxes write the wildcard as a level of one
byte that no value of theirs can be, and both mark the end with `/#`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import kernel, sealed
from distributary.matching.batch import Strings
from distributary.matching.index import Arrays
from distributary.matching.memory import WORD, equal_bytes, load_word

SLASH = ord("/")
HASH = ord("#")
STAR = ord("*")
PLUS = ord("+")
DOLLAR = ord("$")
MQTT = np.frombuffer(b"mqtt:", np.uint8)

TEXT_BYTES = "texts.bytes"
TEXT_OFFSETS = "texts.offsets"


def topic_arrays(topics: Strings) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The topics of a batch, sealed: bytes, starts, ends, validity."""
    return sealed(topics.data), sealed(topics.starts), sealed(topics.ends), sealed(topics.valid)


def text_arrays(arrays: Arrays) -> tuple[NDArray[Any], NDArray[Any]]:
    """The canonical texts of a segment, sealed: bytes, offsets."""
    return sealed(arrays[TEXT_BYTES]), sealed(arrays[TEXT_OFFSETS])


@kernel
def read_ends(data: NDArray[np.uint8], start: int, end: int) -> tuple[int, int, int, bool]:
    """Where the levels of a canonical text start and end, its wildcard byte, and whether it is open."""
    mqtt = end - start > len(MQTT)
    if mqtt:
        for at in range(len(MQTT)):
            if data[start + at] != MQTT[at]:
                mqtt = False
                break
    marked = end - start >= 2 and data[end - 1] == HASH and data[end - 2] == SLASH
    if marked:
        end -= 2
    if mqtt:
        return start + len(MQTT), end, PLUS, marked
    if data[start] == SLASH:
        start += 1
    return start, end, STAR, not marked


@kernel
def agrees(
    data: NDArray[np.uint8],
    start: int,
    end: int,
    topic: NDArray[np.uint8],
    topic_start: int,
    topic_end: int,
) -> bool:
    """Whether the filter written at `data[start:end]` matches the topic; decided on every byte.

    Equal bytes are passed over whatever they mean. Where the two differ, the filter must be at a wildcard, or
    behind one, when the level of the topic begins with the byte by which the wildcard is written.
    """
    first, end, wildcard, is_open = read_ends(data, start, end)
    at, there = first, topic_start
    while True:
        same = same_bytes(data, at, end, topic, there, topic_end)
        at += same
        there += same
        if at == end and (there == topic_end or topic[there] == SLASH):
            return is_open or there == topic_end
        if there == topic_end:
            return False
        if _is_wildcard(data, at, first, end, wildcard):
            if there == topic_start and topic[there] == DOLLAR:
                return False
            at += 1
        elif topic[there] == SLASH or not _is_wildcard(data, at - 1, first, end, wildcard):
            return False
        while there < topic_end and topic[there] != SLASH:
            there += 1


@kernel
def same_bytes(
    one: NDArray[np.uint8],
    start: int | np.int64,
    end: int | np.int64,
    other: NDArray[np.uint8],
    other_start: int | np.int64,
    other_end: int | np.int64,
) -> int:
    """How many bytes of two texts are equal from their starts on."""
    length = min(end - start, other_end - other_start)
    same = 0
    while same + WORD <= length:
        difference = load_word(one, start + same) ^ load_word(other, other_start + same)
        if difference:
            return int(same + equal_bytes(difference))
        same += WORD
    while same < length and one[start + same] == other[other_start + same]:
        same += 1
    return same


@kernel
def _is_wildcard(data: NDArray[np.uint8], at: int, first: int, end: int, wildcard: int) -> bool:
    """Whether the byte at that place is a whole level, and the wildcard."""
    if at < first or at >= end or data[at] != wildcard:
        return False
    return (at == first or data[at - 1] == SLASH) and (at + 1 == end or data[at + 1] == SLASH)
