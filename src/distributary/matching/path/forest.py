"""The documents of a batch as arrays: their trees, their values, and the summary each tree folds into.

A *forest* lays the trees of a batch side by side. Every tree begins with a node for the document itself;
elements and attributes follow in document order, then the text nodes where a reader asks for them. A node's
value is a slice of one buffer of bytes, for the text below an element is contiguous.

A *summary* is the smallest tree on which every pattern without values has the same answer. Two nodes with
the same label and the same set of kinds of children are of one kind; a tree of kinds unfolded from the root,
in which no node has two children of one kind, decides child and descendant steps, branches, `or` and
`not()` exactly as the document does, because patterns only look downwards and never count. A document of a
thousand nodes usually folds into some dozens of classes, and documents often fold into the same summary.

Cost: one pass over the nodes for each; the kinds of a batch live in one hash table, exact on its keys.
"""

from __future__ import annotations

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from distributary.filters.path.document import Document
from distributary.kernel import kernel
from distributary.matching.batch import EventBatch

DOCUMENT = ""
"""The label of a document's own node, which no element can bear."""

NO_NODE = np.int32(-1)


class Forest(NamedTuple):
    """Trees side by side: tree r has the nodes from `first[r]` up to `first[r + 1]`, its document's first."""

    first: NDArray[np.int64]
    label: NDArray[np.int32]
    """By node: its label's place in the batch's list of labels."""
    parent: NDArray[np.int32]
    """By node: the parent, counted from the tree's first node; -1 for the document's."""
    start: NDArray[np.int64]
    end: NDArray[np.int64]
    """By node: its value is `data[start:end]`."""
    data: NDArray[np.uint8]


class Summaries(NamedTuple):
    """Summaries side by side: summary s has the classes from `first[s]` up to `first[s + 1]`, in preorder."""

    of_tree: NDArray[np.int32]
    """By tree: its summary."""
    first: NDArray[np.int64]
    label: NDArray[np.int32]
    parent: NDArray[np.int32]
    """By class: the parent, counted from the summary's first class."""
    end: NDArray[np.int32]
    """By class: one beyond the last class below it, counted likewise."""
    of_node: NDArray[np.int32]
    """By node of the forest: its class, counted from the summary's first."""


class Grove:
    """The forest of a batch, with what is derived from it on demand.

    Make it with `grove`, which keeps it as long as the batch lives, so that all segments of all path indexes
    share the work.
    """

    def __init__(self, documents: list[Document], rows: list[int], with_text: bool) -> None:
        self.rows = np.array(rows, np.int32)
        """By tree: the row of the batch it came from."""
        self.labels: dict[str, int] = {DOCUMENT: 0}
        self.forest = _planted(documents, self.labels, with_text)
        self._summaries: dict[bool, Summaries] = {}
        self._numbers: NDArray[np.float64] | None = None

    def summaries(self, shared: bool = True) -> Summaries:
        """The summaries; unless shared, each tree gets one of its own even where two are alike."""
        if shared not in self._summaries:
            self._summaries[shared] = Summaries(*_summarise(self.forest, shared))
        return self._summaries[shared]

    def numbers(self) -> NDArray[np.float64]:
        """By node: its value as a number by the rules of XPath, NaN when it is none."""
        if self._numbers is None:
            numbers, long = _read_numbers(self.forest)
            for node in long.tolist():
                text = self.forest.data[self.forest.start[node] : self.forest.end[node]]
                numbers[node] = float(text.tobytes()) + 0.0
            self._numbers = numbers
        return self._numbers

    def recode(self, codes: dict[str, int]) -> NDArray[np.int32]:
        """By label of the batch: its code in a segment, -1 where the segment does not know it."""
        return np.array([codes.get(label, -1) for label in self.labels], np.int32)


def grove(batch: EventBatch, with_text: bool) -> Grove:
    """The forest of a batch's documents, with their text nodes or without."""
    kept = _KEPT.setdefault(batch, {})
    if with_text not in kept:
        present = [(row, document) for row in range(batch.rows) if (document := batch.document(row))]
        kept[with_text] = Grove([document for _, document in present], [row for row, _ in present], with_text)
    return kept[with_text]


_KEPT: WeakKeyDictionary[EventBatch, dict[bool, Grove]] = WeakKeyDictionary()


def _planted(documents: list[Document], codes: dict[str, int], with_text: bool) -> Forest:
    sizes = [1 + len(each.classes) + (len(each.texts) if with_text else 0) for each in documents]
    first = np.zeros(len(documents) + 1, np.int64)
    np.cumsum(sizes, out=first[1:])
    count = int(first[-1])
    label, parent = np.zeros(count, np.int32), np.full(count, NO_NODE)
    start, end = np.zeros(count, np.int64), np.zeros(count, np.int64)
    buffers: list[bytes] = []
    offset = 0
    for tree, document in enumerate(documents):
        low, middle, high = (
            int(first[tree]),
            int(first[tree]) + 1 + len(document.classes),
            int(first[tree + 1]),
        )
        own = np.array([codes.setdefault(name, len(codes)) for name in document.labels], np.int32)
        label[low + 1 : middle] = own[np.array(document.classes)]
        parent[low + 1 : middle] = document.parents
        parent[low + 1 : middle] += 1
        text, text_offsets = _joined(document.texts)
        values, value_offsets = _joined(document.attribute_values)
        starts, ends = np.array(document.text_starts), np.array(document.text_ends)
        _place_values(
            starts, ends, text_offsets, value_offsets, offset, start[low + 1 : middle], end[low + 1 : middle]
        )
        start[low], end[low] = offset, offset + len(text)
        if with_text:
            label[middle:high] = codes.setdefault("text()", len(codes))
            parent[middle:high] = np.array(document.text_parents, np.int32) + 1
            start[middle:high] = offset + text_offsets[:-1]
            end[middle:high] = offset + text_offsets[1:]
        buffers += (text, values)
        offset += len(text) + len(values)
    return Forest(first, label, parent, start, end, np.frombuffer(bytearray().join(buffers), np.uint8))


def _joined(texts: list[str]) -> tuple[bytes, NDArray[np.int64]]:
    """The texts' bytes end to end, and the offsets between them."""
    whole = "".join(texts)
    data = whole.encode()
    lengths = list(map(len, texts)) if len(data) == len(whole) else list(map(len, map(str.encode, texts)))
    offsets = np.zeros(len(texts) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return data, offsets


@kernel
def _place_values(
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    text_offsets: NDArray[np.int64],
    value_offsets: NDArray[np.int64],
    offset: int,
    start: NDArray[np.int64],
    end: NDArray[np.int64],
) -> None:
    """Turn a document's ranges of texts into ranges of bytes; attributes' values come after all text."""
    for node in range(len(starts)):
        if ends[node] < 0:
            shift = offset + text_offsets[-1]
            start[node] = shift + value_offsets[starts[node]]
            end[node] = shift + value_offsets[starts[node] + 1]
        else:
            start[node] = offset + text_offsets[starts[node]]
            end[node] = offset + text_offsets[ends[node]]


@kernel
def _read_numbers(forest: Forest) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
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
def _sort(array: NDArray[np.int32], low: int, high: int) -> None:
    """Sort a stretch of an array in place, by insertion at shrinking distances."""
    gap = 1
    while 3 * gap + 1 < high - low:
        gap = 3 * gap + 1
    while gap:
        for at in range(low + gap, high):
            value = array[at]
            place = at
            while place - gap >= low and array[place - gap] > value:
                array[place] = array[place - gap]
                place -= gap
            array[place] = value
        gap //= 3


@kernel
def _is_space(byte: int) -> bool:
    return byte == 32 or byte == 10 or byte == 9 or byte == 13


@kernel
def _summarise(
    forest: Forest, shared: bool
) -> tuple[
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
]:
    nodes, trees = len(forest.label), len(forest.first) - 1
    kind = np.empty(nodes, np.int32)
    # A kind has a label and the kinds of its children, ascending: child_kinds[low[k]:low[k + 1]].
    kind_label = np.empty(nodes, np.int32)
    low = np.zeros(nodes + 1, np.int64)
    child_kinds = np.empty(nodes, np.int32)
    kinds = 0
    size = 16
    while size < 2 * nodes:
        size *= 2
    table = np.full(size, -1, np.int32)
    chosen = np.full(nodes, -1, np.int64)
    first_child = np.full(nodes, -1, np.int64)
    next_sibling = np.full(nodes, -1, np.int64)

    of_tree = np.empty(trees, np.int32)
    first = np.zeros(trees + 1, np.int64)
    class_label = np.empty(nodes, np.int32)
    class_parent = np.empty(nodes, np.int32)
    class_end = np.empty(nodes, np.int32)
    class_kind = np.empty(nodes, np.int32)
    of_node = np.empty(nodes, np.int32)
    summary_of_kind = np.full(nodes, -1, np.int32)
    recent = np.zeros(nodes, np.int32)
    stack_kind = np.empty(nodes + 1, np.int32)
    stack_parent = np.empty(nodes + 1, np.int32)
    summaries = 0
    for tree in range(trees):
        begin, stop = forest.first[tree], forest.first[tree + 1]
        # Children follow their parents, so that going backwards meets every child before its parent.
        for node in range(stop - 1, begin - 1, -1):
            bottom = low[kinds]
            top = bottom
            child = first_child[node]
            while child >= 0:
                if chosen[kind[child]] != node:
                    chosen[kind[child]] = node
                    child_kinds[top] = kind[child]
                    top += 1
                child = next_sibling[child]
            _sort(child_kinds, bottom, top)
            code = np.uint64(forest.label[node] + 1) * np.uint64(0x9E3779B97F4A7C15)
            for at in range(bottom, top):
                code = (code ^ np.uint64(child_kinds[at] + 1)) * np.uint64(0xBF58476D1CE4E5B9)
                code ^= code >> np.uint64(29)
            place = np.int64(code >> np.uint64(20)) & (size - 1)
            while True:
                known = table[place]
                if known < 0:
                    table[place] = kinds
                    kind_label[kinds] = forest.label[node]
                    kind[node] = kinds
                    kinds += 1
                    low[kinds] = top
                    break
                same = kind_label[known] == forest.label[node] and low[known + 1] - low[known] == top - bottom
                if same:
                    for at in range(top - bottom):
                        if child_kinds[low[known] + at] != child_kinds[bottom + at]:
                            same = False
                            break
                if same:
                    kind[node] = known
                    break
                place = (place + 1) & (size - 1)
            if node > begin:
                above = begin + forest.parent[node]
                next_sibling[node] = first_child[above]
                first_child[above] = node

        summary = summary_of_kind[kind[begin]] if shared else -1
        if summary < 0:
            summary = summaries
            summary_of_kind[kind[begin]] = summary
            summaries += 1
            base = first[summary]
            count = 0
            stack_kind[0], stack_parent[0] = kind[begin], -1
            depth = 1
            while depth:
                depth -= 1
                here = stack_kind[depth]
                class_kind[base + count] = here
                class_label[base + count] = kind_label[here]
                class_parent[base + count] = stack_parent[depth]
                class_end[base + count] = count + 1
                for at in range(low[here + 1] - 1, low[here] - 1, -1):
                    stack_kind[depth] = child_kinds[at]
                    stack_parent[depth] = count
                    depth += 1
                count += 1
            for at in range(count - 1, 0, -1):
                above = base + class_parent[base + at]
                class_end[above] = max(class_end[above], class_end[base + at])
            first[summaries] = base + count
        of_tree[tree] = summary

        base = first[summary]
        of_node[begin] = 0
        for node in range(begin + 1, stop):
            above = of_node[begin + forest.parent[node]]
            guess = recent[kind[node]]
            if (
                guess >= first[summary + 1] - base
                or class_kind[base + guess] != kind[node]
                or class_parent[base + guess] != above
            ):
                guess = above + 1
                while class_kind[base + guess] != kind[node]:
                    guess = class_end[base + guess]
                recent[kind[node]] = guess
            of_node[node] = guess
    total = first[summaries]
    return (
        of_tree,
        first[: summaries + 1].copy(),
        class_label[:total].copy(),
        class_parent[:total].copy(),
        class_end[:total].copy(),
        of_node,
    )
