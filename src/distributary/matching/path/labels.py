"""How a segment writes the labels of documents: as codes, found by a label's letters in a hash table.

The labels of a batch have numbers of their own (see `forest` and `xml`). A segment knows those that its
filters name, and a code for each of the wildcards; what no filter names is accepted by a wildcard only.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distributary.filters.path import pattern
from distributary.kernel import Bytes, Ints, Longs, hash_bytes, kernel, same_text
from distributary.matching.layers import CompiledSegment
from distributary.matching.path.xml.names import DOCUMENT_LABEL, TEXT_LABEL

ELEMENT_CODE, ATTRIBUTE_CODE, TEXT_CODE = range(3)
"""The codes of `*`, `@*` and `text()` in every segment; names have the codes after these."""

ATTRIBUTE_SIGN = ord(pattern.ATTRIBUTE)


class LabelCodes(NamedTuple):
    """How a segment writes the labels of a batch."""

    own: Ints
    """By label of the batch: its code in the segment, -1 where no filter of the segment names it."""
    wildcard: Ints
    """By label of the batch: the code of the wildcard that accepts it, -1 for the document's own label."""
    size: int
    """How many codes the segment has."""


class SegmentLabels(NamedTuple):
    """The labels that a segment knows: those of code c are `letters[low[c]:low[c + 1]]`."""

    letters: Bytes
    low: Longs
    table: Ints
    """A hash table of codes, -1 where there is none; its size is a power of two."""


def labels_of(segment: CompiledSegment) -> SegmentLabels:
    """The labels of a segment of path filters, laid out once."""
    if segment.known is None:
        arrays = segment.readable
        segment.known = _lay_out_labels(arrays["labels.bytes"], arrays["labels.offsets"])
    known: SegmentLabels = segment.known
    return known


@kernel
def _lay_out_labels(letters: Bytes, low: Longs) -> SegmentLabels:
    size = 4
    while size < 2 * len(low):
        size *= 2
    table = np.full(size, -1, np.int32)
    for code in range(len(low) - 1):
        place = _place_of(letters, low[code], low[code + 1], size)
        while table[place] >= 0:
            place = (place + 1) & (size - 1)
        table[place] = code
    return SegmentLabels(letters, low, table)


@kernel
def codes_of(letters: Bytes, low: Longs, known: SegmentLabels) -> LabelCodes:
    """The codes that a segment has for the labels of a batch, of which the letters are given."""
    count, table = len(low) - 1, known.table
    own, wildcard = np.full(count, -1, np.int32), np.full(count, ELEMENT_CODE, np.int32)
    for label in range(count):
        begin, end = low[label], low[label + 1]
        if label == DOCUMENT_LABEL:
            wildcard[label] = -1
        elif label == TEXT_LABEL:
            wildcard[label] = TEXT_CODE
        elif letters[begin] == ATTRIBUTE_SIGN:
            wildcard[label] = ATTRIBUTE_CODE
        place = _place_of(letters, begin, end, len(table))
        while table[place] >= 0:
            code = table[place]
            if same_text(known.letters, known.low[code], known.low[code + 1], letters, begin, end):
                own[label] = code
                break
            place = (place + 1) & (len(table) - 1)
    return LabelCodes(own, wildcard, len(known.low) - 1)


@kernel
def _place_of(letters: Bytes, begin: int, end: int, size: int) -> int:
    """Where to start looking for a label in a table of that size."""
    hashed = hash_bytes(letters, begin, end)
    return np.int64((hashed ^ (hashed >> np.uint64(32))) & np.uint64(size - 1))  # type: ignore[return-value]
