"""Texts as numbers: the rank of an attribute's text among the texts that conditions compare it with.

The texts that a segment's conditions name are kept sorted, attribute by attribute. A text equal to the
i-th of them has rank 2i + 1, a text between the (i-1)-th and the i-th has rank 2i. Every equality, range
or prefix on texts is then a range of ranks, and is checked like a range of numbers. Where conditions only
ask for equality, a text that none of them names needs no order and gets rank -1.

A row costs one hash of its bytes and one comparison; with ranges, a row that equals no named text costs a
binary search more. The hash only says where to look: bytes decide.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import (
    Bytes,
    Flags,
    Floats,
    Ints,
    Longs,
    hash_bytes,
    inlined,
    kernel,
    same_text,
    sealed,
    text_order,
)
from distributary.matching.columns import STRING

FOLD = np.uint64(32)
UNNAMED = -1.0


class Texts(NamedTuple):
    """The named texts: attribute a has those numbered `first[a]` to `first[a + 1]`, ascending.

    `slots[slots_first[a]:slots_first[a + 1]]` is the attribute's hash table of text numbers, -1 where
    free; its size is a power of two, or 0. `ordered[a]` says whether unnamed texts need their place.
    """

    first: Ints
    offsets: Longs
    data: Bytes
    slots_first: Ints
    slots: Ints
    ordered: Flags


def named_texts(texts: Sequence[Sequence[str]], ordered: Flags) -> Texts:
    """The table of the texts of each attribute, which are given sorted and distinct."""
    counts = [len(of_one) for of_one in texts]
    encoded = [text.encode() for of_one in texts for text in of_one]
    sizes = [1 << (2 * count - 1).bit_length() if count else 0 for count in counts]
    table = Texts(
        _offsets(counts).astype(np.int32),
        _offsets([len(text) for text in encoded]),
        np.frombuffer(b"".join(encoded), np.uint8),
        _offsets(sizes).astype(np.int32),
        np.full(sum(sizes), -1, np.int32),
        ordered,
    )
    _fill_slots(
        sealed(table.first), sealed(table.offsets), sealed(table.data), sealed(table.slots_first), table.slots
    )
    return table


def _offsets(counts: Sequence[int]) -> Longs:
    offsets = np.zeros(len(counts) + 1, np.int64)
    np.cumsum(np.asarray(counts, np.int64), out=offsets[1:])
    return offsets


@kernel
def text_hash(data: Bytes, start: int, end: int) -> Any:
    """A hash of some bytes, folded so that its low bits depend on all of them."""
    value = hash_bytes(data, start, end)
    return value ^ (value >> FOLD)


@kernel
def _fill_slots(first: Ints, offsets: Longs, data: Bytes, slots_first: Ints, slots: Ints) -> None:
    for attribute in range(len(first) - 1):
        base = slots_first[attribute]
        mask = np.uint64(slots_first[attribute + 1] - base - 1)
        for text in range(first[attribute], first[attribute + 1]):
            at = text_hash(data, offsets[text], offsets[text + 1]) & mask
            while slots[base + np.int64(at)] >= 0:
                at = (at + np.uint64(1)) & mask
            slots[base + np.int64(at)] = text


@kernel
def rank_texts(
    texts: Texts,
    attribute: int,
    data: Bytes,
    starts: Longs,
    ends: Longs,
    tags: Bytes,
    values: Floats,
    column: int,
) -> None:
    """Write the rank of each row that holds a text into that column of `values`."""
    for row in range(len(starts)):
        if tags[row] == STRING:
            values[row, column] = rank_text(texts, attribute, data, starts[row], ends[row])


@inlined
def rank_text(texts: Texts, attribute: Any, data: Bytes, start: Any, end: Any) -> Any:
    """The rank of one text among those of an attribute."""
    first, last = texts.first[attribute], texts.first[attribute + 1]
    if first == last:
        return UNNAMED
    base = texts.slots_first[attribute]
    mask = np.uint64(texts.slots_first[attribute + 1] - base - 1)
    at = text_hash(data, start, end) & mask
    text = texts.slots[base + np.int64(at)]
    while text >= 0:
        if same_text(data, start, end, texts.data, texts.offsets[text], texts.offsets[text + 1]):
            return 2.0 * (text - first) + 1.0
        at = (at + np.uint64(1)) & mask
        text = texts.slots[base + np.int64(at)]
    if not texts.ordered[attribute]:
        return UNNAMED
    low, high = first, last
    while low < high:
        middle = (low + high) >> 1
        other, other_end = texts.offsets[middle], texts.offsets[middle + 1]
        if text_order(data, start, end, texts.data, other, other_end) > 0:
            low = middle + 1
        else:
            high = middle
    return 2.0 * (low - first)
