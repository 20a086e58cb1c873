"""The items of a document's signature from its bytes: what `signature` makes of a parsed one, by kernels.

A document that `xml.scan` reads has nodes in arrays. Its labels and pairs of labels are few, and become items
as such. Its values are many, and are hashed where they stand: texts as they are, and numbers as Python writes
them. Only numbers of more than `EXACT_DIGITS` digits, or with an exponent, are left for Python to write.

The bits are those of `signature` for the same document; what is not plain is left to it.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from distributary.filters.path.literals import number
from distributary.kernel import Bytes, Longs, Words, inlined, kernel
from distributary.matching.blake2b import BLOCK, STATE, digest
from distributary.matching.path.signature import LONGEST_VALUE, Item, SignatureShape, value_item
from distributary.matching.path.xml.characters import skip_white
from distributary.matching.path.xml.scan import ScannedDocuments, scan_documents

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
NO_NUMBER, WRITTEN, UNWRITTEN = range(3)
"""What becomes of a value as a number: it is none, it was written, or Python has to write it."""


class ScannedItems(NamedTuple):
    """The items of a document, most of the values as hashes."""

    structure: set[Item]
    """Labels and pairs of labels, as `document_items` has them."""
    values: set[Item]
    """Some of the values that `document_values` has."""
    hashes: tuple[Words, Words]
    """The two hashes of each of the other values."""

    def hashed_bits(self, shape: SignatureShape) -> int:
        """The bits that the values set of which there are hashes."""
        first, second = self.hashes
        flags = np.zeros(shape.length, np.bool_)
        for turn in range(shape.hashes):
            flags[(first + np.uint64(turn) * second) % np.uint64(shape.length)] = True
        return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def scanned_items(text: str, *, values: bool) -> ScannedItems | None:
    """The items of a document, with its values or without; None when it is not plain, or too large.

    >>> found = scanned_items("<a id='x'> 7</a>", values=True)
    >>> sorted(map(str, found.structure)), found.values, len(found.hashes[0])
    (["('a', '@id')", '@id', 'a'], set(), 3)
    """
    data = np.frombuffer(text.encode(), np.uint8)
    starts, ends = np.zeros(1, np.int64), np.full(1, len(data), np.int64)
    try:
        scanned = scan_documents(data, starts, ends, np.ones(1, np.bool_))
    except MemoryError:
        return None
    if not len(scanned.rows):
        return None
    letters, low = scanned.letters.tobytes(), scanned.label_low.tolist()
    labels = [letters[start:end].decode() for start, end in pairwise(low)]
    structure = _structure(scanned, labels)
    if not values:
        return ScannedItems(structure, set(), (np.empty(0, np.uint64), np.empty(0, np.uint64)))
    first, second, unwritten = _hashed_values(scanned)
    numbers: set[Item] = set()
    for node in unwritten.tolist():
        text = scanned.data[scanned.nodes.start[node] : scanned.nodes.end[node]].tobytes().decode()
        item = value_item(labels[scanned.nodes.label[node]], number(text))
        if item is not None:
            numbers.add(item)
    return ScannedItems(structure, numbers, (first, second))


def _structure(scanned: ScannedDocuments, labels: list[str]) -> set[Item]:
    """The labels of a document's nodes, and of parents and their children."""
    label, parent = scanned.nodes.label[1:], scanned.nodes.parent[1:]
    inner = parent > 0
    pairs = scanned.nodes.label[parent[inner]].astype(np.int64) * len(labels) + label[inner]
    above, below = np.divmod(np.unique(pairs), len(labels))
    items: set[Item] = {labels[each] for each in np.unique(label).tolist()}
    items.update((labels[up], labels[down]) for up, down in zip(above.tolist(), below.tolist(), strict=True))
    return items


@kernel
def _hashed_values(scanned: ScannedDocuments) -> tuple[Words, Words, Longs]:
    """The two hashes of each value that is an item, and the nodes with numbers that Python has to write."""
    nodes, data, low = scanned.nodes, scanned.data, scanned.label_low
    count = len(nodes.label)
    first, second = np.empty(2 * count, np.uint64), np.empty(2 * count, np.uint64)
    unwritten = np.empty(count, np.int64)
    hashed, left, longest = 0, 0, 0
    for label in range(len(low) - 1):
        longest = max(longest, low[label + 1] - low[label])
    message = np.empty(longest + len(NUMBER_MARK) + MOST_BYTES * LONGEST_VALUE + BLOCK, np.uint8)
    state = np.empty(STATE, np.uint64)
    for node in range(1, count):
        label, start, end = nodes.label[node], nodes.start[node], nodes.end[node]
        if _is_short(data, start, end):
            length = _copied(scanned.letters, low[label], low[label + 1], message, 0)
            length = _copied(TEXT_MARK, 0, len(TEXT_MARK), message, length)
            length = _copied(data, start, end, message, length)
            first[hashed], second[hashed] = digest(message, length, state)
            hashed += 1
        length = _copied(scanned.letters, low[label], low[label + 1], message, 0)
        length = _copied(NUMBER_MARK, 0, len(NUMBER_MARK), message, length)
        fate, length = _write_number(data, start, end, message, length)
        if fate == WRITTEN:
            first[hashed], second[hashed] = digest(message, length, state)
            hashed += 1
        elif fate == UNWRITTEN:
            unwritten[left] = node
            left += 1
    return first[:hashed], second[:hashed] | np.uint64(1), unwritten[:left]


@inlined
def _is_short(data: Bytes, start: int, end: int) -> bool:
    """Whether a value has no more characters than the longest that is an item."""
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
