"""The documents of a batch as arrays: their trees, and the values of their nodes.

A *forest* lays the trees of a batch side by side. Every tree begins with a node for the document itself;
elements and attributes follow in document order, then the text nodes where a reader asks for them. A node's
value is a slice of one buffer of bytes, for the text below an element is contiguous.

Cost: one pass over the nodes. What segments and indexes ask about a batch's documents is kept as long as the
batch lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from distributary.filters.path import pattern
from distributary.filters.path.document import Document
from distributary.kernel import Bytes, Floats, Ints, Longs, kernel
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.held import HeldTables
from distributary.matching.path.labels import LabelCodes, SegmentLabels, codes_of
from distributary.matching.path.summaries import Summaries, summarise
from distributary.matching.path.xml.names import DOCUMENT_LABEL, TEXT_LABEL
from distributary.matching.path.xml.scan import ScannedDocuments, ScannedNodes
from distributary.matching.single import SingleEvent

NO_LABELS = {"": DOCUMENT_LABEL, pattern.TEXT: TEXT_LABEL}
"""The labels that every batch has: of a document's own node, which no element can bear, and of text."""


class Forest(NamedTuple):
    """Trees side by side: tree r has the nodes from `first[r]` up to `first[r + 1]`, its document's first."""

    first: Longs
    label: Ints
    """By node: its label's place in the batch's list of labels."""
    parent: Ints
    """By node: the parent, counted from the tree's first node; -1 for the document's."""
    start: Longs
    end: Longs
    """By node: its value is `data[start:end]`."""
    data: Bytes


class Grove:
    """The forest of a batch, with what is derived from it on demand.

    Make it with `grove`, which keeps it as long as the batch lives, so that all segments of all path indexes
    share the work.
    """

    def __init__(
        self,
        scanned: ScannedDocuments | None,
        documents: Mapping[int, Document],
        with_text: bool,
    ) -> None:
        """The trees of documents that were scanned, and of others by their rows."""
        parts: list[Forest] = []
        rows = np.fromiter(documents, np.int32, len(documents))
        if scanned is not None and len(scanned.rows):
            parts.append(_scanned_forest(scanned, with_text))
            rows = np.concatenate([scanned.rows, rows])
            self.letters, self.label_low = scanned.letters, scanned.label_low
            """The letters of label l are `letters[label_low[l]:label_low[l + 1]]`."""
        self.rows: Ints = rows
        """By tree: the row of the batch it came from."""
        if documents or not parts:
            labels = _labels(scanned) if parts and scanned is not None else dict(NO_LABELS)
            parts.append(_planted(list(documents.values()), labels, with_text))
            packed = frozen.pack_texts(list(labels))
            self.letters, self.label_low = packed["bytes"].copy(), packed["offsets"]
        self.forest = parts[0] if len(parts) == 1 else _joined_forest(*parts)
        self._summaries: dict[bool, Summaries] = {}

    def summaries(self, shared: bool = True) -> Summaries:
        """The summaries; unless shared, each tree gets one of its own even where two are alike."""
        if shared not in self._summaries:
            forest = self.forest
            self._summaries[shared] = summarise(forest.first, forest.label, forest.parent, shared)
        return self._summaries[shared]

    @cached_property
    def numbers(self) -> Floats:
        """By node: its value as a number by the rules of XPath, NaN when it is none."""
        numbers, long = _read_numbers(self.forest)
        for node in long.tolist():
            text = self.forest.data[self.forest.start[node] : self.forest.end[node]]
            numbers[node] = float(text.tobytes()) + 0.0
        return numbers

    def codes(self, known: SegmentLabels) -> LabelCodes:
        """The codes that a segment with these labels has for those of this batch."""
        return codes_of(self.letters, self.label_low, known)


class PlantedTree(NamedTuple):
    """The tree of a single document, with what is derived from it."""

    forest: Forest
    """It has one tree."""
    summaries: Summaries
    numbers: Floats
    letters: Bytes
    label_low: Longs
    """The letters of label l are `letters[label_low[l]:label_low[l + 1]]`."""


def planted(single: SingleEvent, with_text: bool) -> Any:
    """The `PlantedTree` of an event's document, held for kernels, with its text nodes or without.

    None when the document was not read from its bytes, or has numbers of more digits than a kernel reads.
    """
    if single.scanned is None:
        return None
    if with_text not in single.trees:
        settled, tree = _plant(single.scanned, with_text)
        single.trees[with_text] = tree if settled else None
    return single.trees[with_text]


@kernel
def _plant(document: Any, with_text: bool) -> tuple[bool, Any]:
    """A `PlantedTree`, held, of a document that was read; whether all its numbers could be read."""
    scanned = document.tables
    first, nodes = scanned.first, scanned.nodes
    if with_text:
        first, nodes = _with_texts(first, nodes, scanned.text_first, scanned.texts)
    forest = Forest(first, nodes.label, nodes.parent, nodes.start, nodes.end, scanned.data)
    numbers, long = _read_numbers(forest)
    summaries = summarise(first, nodes.label, nodes.parent, True)
    tree = PlantedTree(forest, summaries, numbers, scanned.letters, scanned.label_low)
    return len(long) == 0, HeldTables(tree)


def grove(batch: EventBatch, with_text: bool) -> Grove:
    """The forest of a batch's documents, with their text nodes or without."""
    kept = _KEPT.setdefault(batch, {})
    if with_text not in kept:
        kept[with_text] = Grove(batch.scanned, batch.exact_documents, with_text)
    return kept[with_text]


_KEPT: WeakKeyDictionary[EventBatch, dict[bool, Grove]] = WeakKeyDictionary()


def _labels(scanned: ScannedDocuments) -> dict[str, int]:
    """The labels of scanned documents, with their numbers."""
    letters, low = scanned.letters.tobytes(), scanned.label_low.tolist()
    return {letters[low[label] : low[label + 1]].decode(): label for label in range(len(low) - 1)}


def _scanned_forest(scanned: ScannedDocuments, with_text: bool) -> Forest:
    first, nodes = scanned.first, scanned.nodes
    if with_text:
        first, nodes = _with_texts(first, nodes, scanned.text_first, scanned.texts)
    return Forest(first, *nodes, scanned.data)


@kernel
def _with_texts(
    first: Longs, nodes: ScannedNodes, text_first: Longs, texts: ScannedNodes
) -> tuple[Longs, ScannedNodes]:
    """The nodes of each tree and then its text nodes, and where each tree begins."""
    count = len(nodes.label) + len(texts.label)
    label, parent = np.full(count, TEXT_LABEL, np.int32), np.empty(count, np.int32)
    start, end = np.empty(count, np.int64), np.empty(count, np.int64)
    for tree in range(len(first) - 1):
        for part, begin, stop, shift in (
            (nodes, first[tree], first[tree + 1], text_first[tree]),
            (texts, text_first[tree], text_first[tree + 1], first[tree + 1]),
        ):
            parent[begin + shift : stop + shift] = part.parent[begin:stop]
            start[begin + shift : stop + shift] = part.start[begin:stop]
            end[begin + shift : stop + shift] = part.end[begin:stop]
        begin, stop, shift = first[tree], first[tree + 1], text_first[tree]
        label[begin + shift : stop + shift] = nodes.label[begin:stop]
    return first + text_first, ScannedNodes(label, parent, start, end)


def _joined_forest(one: Forest, other: Forest) -> Forest:
    """The trees of both, one after the other."""
    nodes, size = len(one.label), len(one.data)
    return Forest(
        np.concatenate([one.first, other.first[1:] + nodes]),
        np.concatenate([one.label, other.label]),
        np.concatenate([one.parent, other.parent]),
        np.concatenate([one.start, other.start + size]),
        np.concatenate([one.end, other.end + size]),
        np.concatenate([one.data, other.data]),
    )


def _planted(documents: list[Document], codes: dict[str, int], with_text: bool) -> Forest:
    sizes = [1 + len(each.classes) + (len(each.texts) if with_text else 0) for each in documents]
    first = np.zeros(len(documents) + 1, np.int64)
    np.cumsum(sizes, out=first[1:])
    count = int(first[-1])
    label, parent = np.zeros(count, np.int32), np.full(count, -1, np.int32)
    start, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    buffers: list[bytes] = []
    offset = 0
    for tree, document in enumerate(documents):
        low, high = int(first[tree]), int(first[tree + 1])
        middle = low + 1 + len(document.classes)
        own = np.array([codes.setdefault(name, len(codes)) for name in document.labels], np.int32)
        here = slice(low + 1, middle)  # its elements and attributes
        label[here] = own[np.array(document.classes)]
        parent[here] = document.parents
        parent[here] += 1
        text, text_offsets = _joined(document.texts)
        values, value_offsets = _joined(document.attribute_values)
        starts, ends = np.array(document.text_starts), np.array(document.text_ends)
        _place_values(starts, ends, text_offsets, value_offsets, offset, start[here], end[here])
        start[low], end[low] = offset, offset + len(text)
        if with_text:
            label[middle:high] = codes.setdefault(pattern.TEXT, len(codes))
            parent[middle:high] = np.array(document.text_parents, np.int32) + 1
            start[middle:high] = offset + text_offsets[:-1]
            end[middle:high] = offset + text_offsets[1:]
        buffers += (text, values)
        offset += len(text) + len(values)
    return Forest(first, label, parent, start, end, np.frombuffer(bytearray().join(buffers), np.uint8))


def _joined(texts: list[str]) -> tuple[bytes, Longs]:
    """The texts' bytes end to end, and the offsets between them."""
    whole = "".join(texts)
    data = whole.encode()
    lengths = list(map(len, texts)) if len(data) == len(whole) else list(map(len, map(str.encode, texts)))
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return data, offsets


@kernel
def _place_values(
    starts: Longs, ends: Longs, texts: Longs, values: Longs, offset: int, start: Longs, end: Longs
) -> None:
    """Turn a document's ranges of texts into ranges of bytes; attributes' values come after all text.

    `texts` and `values` are the offsets of the texts and of the attributes' values in bytes.
    """
    for node in range(len(starts)):
        if ends[node] < 0:
            shift = offset + texts[-1]
            start[node], end[node] = shift + values[starts[node]], shift + values[starts[node] + 1]
        else:
            start[node], end[node] = offset + texts[starts[node]], offset + texts[ends[node]]


@kernel
def _read_numbers(forest: Forest) -> tuple[Floats, Longs]:
    """Numbers of up to 15 digits are quotients of two exact doubles; nodes with longer ones are listed."""
    powers = np.empty(16, np.float64)
    powers[0] = 1.0
    for exponent in range(1, 16):
        powers[exponent] = powers[exponent - 1] * 10.0
    numbers = np.full(len(forest.label), np.nan)
    long = np.empty(len(forest.label), np.int64)
    found = 0
    for node in range(len(numbers)):
        at, end = forest.start[node], forest.end[node]
        while at < end and _is_space(forest.data[at]):
            at += 1
        while end > at and _is_space(forest.data[end - 1]):
            end -= 1
        negative = at < end and forest.data[at] == 45
        if negative:
            at += 1
        digits, after_point, total = 0, -1, 0
        while at < end:
            byte = forest.data[at]
            if byte == 46 and after_point < 0:
                after_point = 0
            elif 48 <= byte <= 57:
                digits += 1
                if digits <= 15:
                    total = total * 10 + (byte - 48)
                if after_point >= 0:
                    after_point += 1
            else:
                break
            at += 1
        if at < end or digits == 0:
            continue
        if digits > 15:
            long[found] = node
            found += 1
            continue
        value = total / powers[max(after_point, 0)]
        # Zero has one sign, so that equal numbers have equal bits.
        numbers[node] = -value if negative and total else value
    return numbers, long[:found]


@kernel
def _is_space(byte: int) -> bool:
    return byte == 32 or byte == 10 or byte == 9 or byte == 13
