"""The items of a document's signature from its bytes: what `signature` makes of a parsed one, by kernels.

A document that `xml.scan` reads has nodes in arrays. Its labels and pairs of labels are few, and become items
as such. Its values are many: the bits they set are found where they stand, texts as they are, and numbers as
Python writes them. Only numbers of more than `EXACT_DIGITS` digits, or with an exponent, are left for Python
to write.

The bits are those of `signature` for the same document; what is not plain is left to it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from distributary.filters.path.literals import number
from distributary.kernel import Bytes, Longs, inlined, kernel
from distributary.matching.path.signature import (
    FIRST_FACTOR,
    LONGEST_VALUE,
    SECOND_FACTOR,
    STEP,
    Item,
    SignatureShape,
    value_item,
)
from distributary.matching.path.xml.characters import skip_white
from distributary.matching.path.xml.scan import ScannedDocuments, ScannedNodes
from distributary.matching.single import read_latest

MOST_BYTES = 4
"""Bytes of a character in UTF-8, at most."""
TEXT_MARK = np.frombuffer(b"\0text\0", np.uint8)
NUMBER_MARK = np.frombuffer(b"\0number\0", np.uint8)
"""What stands between the label and the value of an item."""
ZERO, NINE, DOT, MINUS = b"09.-"
EXACT_DIGITS = 15
"""Numbers of so many digits differ as floats if they differ, so that one is written as it was read."""
MOST_ZEROS = 3
"""A number below 1 with more zeros behind the point is written with an exponent."""
MOST_WRITTEN = EXACT_DIGITS + MOST_ZEROS + 4
"""Bytes of a number that is written: its digits, a sign, a point and a zero on either side of it."""
NO_NUMBER, WRITTEN, UNWRITTEN = range(3)
"""What becomes of a value as a number: it is none, it was written, or Python has to write it."""
ALL_ONES = np.uint32(0xFFFFFFFF)
CHECKSUMS = np.array([crc32(bytes([byte])) for byte in range(256)], np.uint32) ^ np.uint32(crc32(b"\0"))
"""By byte, what it changes in a checksum; made of those of single bytes, for checksums add up by XOR."""


class ScannedItems(NamedTuple):
    """The items of a document, most of the values as the bits that they set."""

    structure: set[Item]
    """Labels and pairs of labels, as `document_items` has them."""
    values: set[Item]
    """Some of the values that `document_values` has."""
    bits: int
    """The bits of all other values."""


def scanned_items(text: str, shape: SignatureShape | None) -> ScannedItems | None:
    """The items of a document, its values as bits of this shape; None when it is not plain, or too large.

    Without a shape, values are left out.

    >>> found = scanned_items("<a id='x'> 7</a>", SignatureShape(64, 1))
    >>> sorted(map(str, found.structure)), found.values, found.bits.bit_count()
    (["('a', '@id')", '@id', 'a'], set(), 3)
    """
    held = read_latest(text)
    if held is None:
        return None
    letters, low, used, pairs = _structure(held)
    named = letters.tobytes()
    labels = [named[start:end].decode() for start, end in pairwise(low.tolist())]
    structure: set[Item] = {labels[each] for each in used.tolist()}
    structure.update((labels[pair // len(labels)], labels[pair % len(labels)]) for pair in pairs.tolist())
    if shape is None:
        return ScannedItems(structure, set(), 0)
    packed, unwritten, data = _value_bits(held, shape.length, shape.hashes)
    numbers: set[Item] = set()
    for label, start, end in unwritten.tolist():
        item = value_item(labels[label], number(data[start:end].tobytes().decode()))
        if item is not None:
            numbers.add(item)
    return ScannedItems(structure, numbers, int.from_bytes(packed.tobytes(), "little"))


@kernel
def _structure(held: Any) -> tuple[Bytes, Longs, Longs, Longs]:
    """The letters of all labels with their bounds, the labels of nodes, and pairs of parents and children.

    A pair is the parent's label times the number of labels, plus the child's.
    """
    scanned = held.tables
    nodes, low = scanned.nodes, scanned.label_low
    count = len(low) - 1
    is_used = np.zeros(count, np.bool_)
    for node in range(1, len(nodes.label)):
        is_used[nodes.label[node]] = True
    return scanned.letters[: low[count]], low, np.flatnonzero(is_used), _pairs(nodes, count)


@kernel
def _pairs(nodes: ScannedNodes, count: int) -> Longs:
    """The pairs of labels, of which there are so many, each once: from a table, or sorted if it is large."""
    size = len(nodes.label)
    marked = count * count <= 16 * size
    is_there = np.zeros(count * count if marked else 0, np.bool_)
    found, used = np.empty(0 if marked else size, np.int64), 0
    for node in range(1, size):
        parent = nodes.parent[node]
        if parent > 0:
            pair = np.int64(nodes.label[parent]) * count + nodes.label[node]
            if marked:
                is_there[pair] = True
            else:
                found[used] = pair
                used += 1
    return np.flatnonzero(is_there) if marked else np.unique(found[:used])


@kernel
def _value_bits(held: Any, length: int, hashes: int) -> tuple[Bytes, Longs, Bytes]:
    """The bits of values; label, start and end of numbers that Python has to write, and where they stand."""
    scanned = held.tables
    nodes, data = scanned.nodes, scanned.data
    texts, numbers = _label_checksums(scanned, TEXT_MARK), _label_checksums(scanned, NUMBER_MARK)
    bits = np.zeros((length + 7) // 8, np.uint8)
    unwritten, left = np.empty((len(nodes.label), 3), np.int64), 0
    written = np.empty(MOST_WRITTEN, np.uint8)
    for node in range(1, len(nodes.label)):
        label, start, end = nodes.label[node], nodes.start[node], nodes.end[node]
        if _is_short(data, start, end):
            _set_bits(bits, _checksum(data, start, end, texts[label]), length, hashes)
        fate, size = _write_number(data, start, end, written, 0)
        if fate == WRITTEN:
            _set_bits(bits, _checksum(written, 0, size, numbers[label]), length, hashes)
        elif fate == UNWRITTEN:
            unwritten[left, 0], unwritten[left, 1], unwritten[left, 2] = label, start, end
            left += 1
    return bits, unwritten[:left], data


@kernel
def _label_checksums(scanned: ScannedDocuments, mark: Bytes) -> Any:
    """By label, the checksum with which that of its values goes on."""
    low = scanned.label_low
    checksums = np.empty(len(low) - 1, np.uint32)
    for label in range(len(low) - 1):
        begun = _checksum(scanned.letters, low[label], low[label + 1], np.uint32(0))
        checksums[label] = _checksum(mark, 0, len(mark), begun)
    return checksums


@inlined
def _checksum(data: Bytes, start: int, end: int, checksum: Any) -> Any:
    """`zlib.crc32(data[start:end], checksum)`."""
    checksum ^= ALL_ONES
    for at in range(start, end):
        checksum = CHECKSUMS[(checksum ^ data[at]) & np.uint32(0xFF)] ^ (checksum >> np.uint32(8))
    return checksum ^ ALL_ONES


@inlined
def _set_bits(bits: Bytes, checksum: Any, length: int, hashes: int) -> None:
    """Set the bits of a value with this checksum: those that `signature` sets."""
    first = _mixed(np.uint64(checksum) + np.uint64(STEP))
    second = _mixed(np.uint64(checksum) + np.uint64(STEP) + np.uint64(STEP)) | np.uint64(1)
    for _ in range(hashes):
        place = first % np.uint64(length)
        bits[place >> np.uint64(3)] |= np.uint8(1 << (place & np.uint64(7)))
        first += second


@inlined
def _mixed(number: Any) -> Any:
    """`signature`'s function of that name."""
    number = (number ^ (number >> np.uint64(30))) * np.uint64(FIRST_FACTOR)
    number = (number ^ (number >> np.uint64(27))) * np.uint64(SECOND_FACTOR)
    return number ^ (number >> np.uint64(31))


@inlined
def _is_short(data: Bytes, start: int, end: int) -> bool:
    """Whether a value has no more characters than the longest that is an item."""
    if end - start <= LONGEST_VALUE:
        return True
    if end - start > MOST_BYTES * LONGEST_VALUE:
        return False
    characters = 0
    for at in range(start, end):
        characters += (data[at] & 0xC0) != 0x80
    return characters <= LONGEST_VALUE


@inlined
def _copied(data: Bytes, start: int, end: int, message: Bytes, to: int) -> int:
    """Copy `data[start:end]` to a place in the message; where it ends there."""
    for at in range(start, end):
        message[to] = data[at]
        to += 1
    return to


@inlined
def _is_digit(byte: int) -> bool:
    return ZERO <= byte <= NINE


@inlined
def _digits_end(data: Bytes, at: int, end: int) -> int:
    while at < end and _is_digit(data[at]):
        at += 1
    return at


@inlined
def _write_number(data: Bytes, start: int, end: int, message: Bytes, to: int) -> tuple[int, int]:
    """Write a value as Python writes the float that it is, if it is one; what became of it, and the end."""
    at = skip_white(data, start, end)
    is_negative = at < end and data[at] == MINUS
    whole = at + 1 if is_negative else at
    whole_end = at = _digits_end(data, whole, end)
    part = at + 1 if at < end and data[at] == DOT else at
    part_end = _digits_end(data, part, end)
    if (whole == whole_end and part == part_end) or skip_white(data, part_end, end) < end:
        return NO_NUMBER, to
    while whole < whole_end and data[whole] == ZERO:
        whole += 1
    while part < part_end and data[part_end - 1] == ZERO:
        part_end -= 1
    digits = whole_end - whole + part_end - part
    zeros = part
    while zeros < part_end and data[zeros] == ZERO:
        zeros += 1
    if digits > EXACT_DIGITS or (whole == whole_end and zeros - part > MOST_ZEROS):
        return UNWRITTEN, to
    if is_negative and digits:  # zero has no sign
        message[to] = MINUS
        to += 1
    to = _copied_or_zero(data, whole, whole_end, message, to)
    message[to] = DOT
    return WRITTEN, _copied_or_zero(data, part, part_end, message, to + 1)


@inlined
def _copied_or_zero(data: Bytes, start: int, end: int, message: Bytes, to: int) -> int:
    """Copy digits to a place in the message, or a zero if there are none; where they end there."""
    if start < end:
        return _copied(data, start, end, message, to)
    message[to] = ZERO
    return to + 1
