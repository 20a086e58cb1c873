"""Canonical topic texts and topics as bytes: what the compiled topic structures read in place.

A canonical text says all about its filter (see `filters.topic`), so nothing of it is stored twice: kernels
read its syntax, its end and its levels from the bytes. Both syntaxes write the wildcard as a level of one
byte that no value of theirs can be, and both mark the end with `/#`. A filter in our syntax sees a topic
without its leading slash.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distributary.kernel import Bytes, Longs, inlined, kernel
from distributary.matching.memory import WORD, load_word, lowest_bit

SLASH = ord("/")
HASH = ord("#")
STAR = ord("*")
PLUS = ord("+")
DOLLAR = ord("$")
MQTT = np.frombuffer(b"mqtt:", np.uint8)


class FilterTexts(NamedTuple):
    """The canonical texts of a segment: that of filter i is `bytes[offsets[i]:offsets[i + 1]]`."""

    bytes: Bytes
    offsets: Longs


@kernel
def read_ends(data: Bytes, start: int, end: int) -> tuple[int, int, int, bool]:
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


@inlined
def agrees(
    texts: FilterTexts, position: int, topic: Bytes, topic_start: int | np.int64, topic_end: int | np.int64
) -> bool:
    """Whether the filter at that position matches the topic that is there; decided on every byte.

    Equal bytes are passed over whatever they mean. Where the two differ, the filter must be at a wildcard, or
    behind one, when the level of the topic begins with the byte by which the wildcard is written.
    """
    data = texts.bytes
    first, end, wildcard, is_open = read_ends(data, texts.offsets[position], texts.offsets[position + 1])
    if wildcard == STAR and has_leading_slash(topic, topic_start, topic_end):
        topic_start += 1
    at, there = first, topic_start
    while True:
        same = same_bytes(data, at, end, topic, there, topic_end)
        at += same
        there += same
        if at == end and (there == topic_end or topic[there] == SLASH):
            return is_open or there == topic_end
        if is_wildcard(data, at, first, end, wildcard):
            if there == topic_start and there < topic_end and topic[there] == DOLLAR:
                return False
            at += 1
        elif (
            there == topic_end or topic[there] == SLASH or not is_wildcard(data, at - 1, first, end, wildcard)
        ):
            return False
        while there < topic_end and topic[there] != SLASH:
            there += 1


@kernel
def has_leading_slash(topic: Bytes, start: int | np.int64, end: int | np.int64) -> bool:
    """Whether a topic starts with a slash, which our own syntax does not see."""
    return bool(start < end and topic[start] == SLASH)


@kernel
def same_bytes(
    one: Bytes,
    start: int | np.int64,
    end: int | np.int64,
    other: Bytes,
    other_start: int | np.int64,
    other_end: int | np.int64,
) -> int:
    """How many bytes of two texts are equal from their starts on."""
    length = min(end - start, other_end - other_start)
    same = 0
    while same + WORD <= length:
        difference = load_word(one, start + same) ^ load_word(other, other_start + same)
        if difference:
            return int(same + np.int64(lowest_bit(difference) // np.uint64(8)))  # whole bytes are equal
        same += WORD
    while same < length and one[start + same] == other[other_start + same]:
        same += 1
    return same


@kernel
def is_wildcard(data: Bytes, at: int, first: int, end: int, wildcard: int) -> bool:
    """Whether the byte at that place is a whole level, and the wildcard."""
    if at < first or at >= end or data[at] != wildcard:
        return False
    return (at == first or data[at - 1] == SLASH) and (at + 1 == end or data[at + 1] == SLASH)
