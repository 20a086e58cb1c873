"""Documents of a batch read from their bytes, those that are provably well-formed and plain: no object each.

`scan_documents` lays the trees of all such documents side by side, as a `Forest` does, their names numbered
and their values as slices of one buffer. Everything it is not certain of (a document type declaration, a name
beyond ASCII, what is malformed, whatever exceeds a bound) it leaves to `filters.path.document`, which alone
refuses documents. So neither a verdict nor a message can differ: a document that is read here is one that is
accepted there, with the same nodes, labels and values.

What is plain: XML 1.0 without a document type; names, namespaces and characters as `names` and `characters`
have them; within the bounds on depth, nodes and attributes. Cost: one pass over the bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.filters.path.document import MAX_ATTRIBUTES, MAX_DEPTH, MAX_LENGTH, MAX_NODES
from distributary.kernel import Bytes, Flags, Ints, Longs, inlined, kernel, same_text, sealed, uncounted
from distributary.matching.columns import Strings
from distributary.matching.held import HeldTables
from distributary.matching.path.xml.characters import (
    APOSTROPHE,
    GREATER,
    LESS,
    NAME_CLASS,
    NAME_START,
    NOT_PLAIN,
    QUESTION,
    QUOTE,
    SECTION_OPENING,
    comment_end,
    copy_section,
    copy_text,
    copy_value,
    declaration_end,
    instruction_end,
    is_white,
    skip_white,
    stands_at,
)
from distributary.matching.path.xml.names import (
    COLON,
    DECLARED,
    DOCUMENT_LABEL,
    LABELS,
    LONGEST_NAME,
    SCOPES,
    LabelTable,
    declare,
    declares,
    empty_names,
    label_of,
    with_names,
)

EQUALS, SLASH, EXCLAMATION, DASH = 0x3D, 0x2F, 0x21, 0x2D


class ScannedNodes(NamedTuple):
    """The nodes of all trees, in document order; each tree begins with a node for its document."""

    label: Ints
    parent: Ints
    """By node: the parent, counted from the tree's first node; -1 for the document's."""
    start: Longs
    end: Longs
    """By node: its value is `data[start:end]`."""


class ScannedDocuments(NamedTuple):
    """The trees of the documents that are plain."""

    rows: Ints
    """By tree: the row of its document."""
    first: Longs
    """Tree t has the nodes from `first[t]` up to `first[t + 1]`."""
    nodes: ScannedNodes
    text_first: Longs
    """Tree t has the text nodes from `text_first[t]` up to `text_first[t + 1]`."""
    texts: ScannedNodes
    data: Bytes
    label_low: Longs
    """The letters of label l are `letters[label_low[l]:label_low[l + 1]]`."""
    letters: Bytes


OPEN_NODE, OPEN_AT, OPEN_END, OPEN_DECLARED, OPEN_SCOPE = range(5)
"""The columns of open elements: the node, where its name stands, and the declarations in force around it."""
NAME_AT, NAME_END, NAME_HASH = range(3)
"""The columns of the attributes of an element whose labels are not known yet."""
NODE, TEXT, ELEMENT = range(3)
"""The places of `Scanner.used`: nodes and text nodes of all trees, and elements so far."""


class Scanner(NamedTuple):
    """What one document after another is read with."""

    nodes: ScannedNodes
    texts: ScannedNodes
    names: LabelTable
    open: Longs
    waiting: Longs
    used: Longs


def scan(texts: Strings, wanted: Flags) -> ScannedDocuments | None:
    """The documents of the wanted rows, as far as they are plain; None when memory does not suffice."""
    try:
        return scan_documents(sealed(texts.data), sealed(texts.starts), sealed(texts.ends), sealed(wanted))
    except MemoryError:
        return None


@kernel
def scan_documents(data: Bytes, starts: Longs, ends: Longs, wanted: Flags) -> ScannedDocuments:
    """Read the documents `data[starts[r]:ends[r]]` of the wanted rows, as far as they are plain."""
    rows, count, text_count, size = _room(data, starts, ends, wanted)
    scanner = Scanner(
        _no_nodes(count),
        _no_nodes(text_count),
        empty_names(),
        np.empty((MAX_DEPTH + 1, 5), np.int64),
        np.empty((MAX_ATTRIBUTES, 3), np.int64),
        np.zeros(3, np.int64),
    )
    used = scanner.used
    out = np.empty(size, np.uint8)
    row_of, first, text_first = (
        np.empty(rows, np.int32),
        np.zeros(rows + 1, np.int64),
        np.zeros(rows + 1, np.int64),
    )
    zero: Any = np.int64(0)
    trees, base = zero, zero
    for row in range(len(wanted)):
        length = ends[row] - starts[row]
        if not wanted[row] or length > MAX_LENGTH:
            continue
        names = with_names(scanner.names, data)
        scanner = Scanner(scanner.nodes, scanner.texts, names, scanner.open, scanner.waiting, used)
        if _scan_document(data, starts[row], ends[row], out, base, base + length, scanner):
            row_of[trees] = row
            trees += 1
            first[trees], text_first[trees] = used[NODE], used[TEXT]
            base += length
        used[NODE], used[TEXT] = first[trees], text_first[trees]
    names = scanner.names
    return ScannedDocuments(
        row_of[:trees],
        first[: trees + 1],
        _cut(scanner.nodes, first[trees]),
        text_first[: trees + 1],
        _cut(scanner.texts, text_first[trees]),
        out,
        names.label_low[: names.counts[LABELS] + 1],
        names.letters,
    )


def read_document(data: Bytes) -> Any:
    """The `ScannedDocuments` of one document, held for kernels; None when it is not plain, or too large."""
    try:
        plain, document = _scan_one(data)
    except MemoryError:
        return None
    return document if plain else None


@kernel
def _scan_one(data: Bytes) -> tuple[bool, Any]:
    starts, ends = np.zeros(1, np.int64), np.full(1, len(data), np.int64)
    scanned = scan_documents(data, starts, ends, np.ones(1, np.bool_))
    return len(scanned.rows) == 1, HeldTables(scanned)


@kernel
def _room(data: Bytes, starts: Longs, ends: Longs, wanted: Flags) -> tuple[int, int, int, int]:
    """The number of rows to be read, and the most nodes, texts and bytes of values that they can have."""
    rows, count, text_count, size = 0, 0, 0, 0
    for row in range(len(wanted)):
        if not wanted[row] or ends[row] - starts[row] > MAX_LENGTH:
            continue
        tags, equals = 0, 0
        for at in range(starts[row], ends[row]):
            tags += data[at] == LESS
            equals += data[at] == EQUALS
        rows += 1
        count += min(tags + equals, MAX_NODES) + 2
        text_count += tags + 1
        size += ends[row] - starts[row]
    return rows, count, text_count, size


@kernel
def _no_nodes(count: int) -> ScannedNodes:
    return ScannedNodes(
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )


@kernel
def _cut(nodes: ScannedNodes, count: int) -> ScannedNodes:
    """The first of the nodes, without the room behind them."""
    return ScannedNodes(nodes.label[:count], nodes.parent[:count], nodes.start[:count], nodes.end[:count])


@uncounted
def _scan_document(data: Bytes, at: int, stop: int, out: Bytes, to: int, top: int, scanner: Scanner) -> bool:
    """Read one document; False when it is not plain.

    Text is written from `out[to]` upwards, and attributes' values from `out[top]` downwards: no text
    node, and no value, is longer than what it is written as.
    """
    # One loop over the document: what it keeps between two tags are a dozen numbers.
    nodes, texts, names, open_elements, used = (
        scanner.nodes,
        scanner.texts,
        scanner.names,
        scanner.open,
        scanner.used,
    )
    root = used[NODE]
    nodes.label[root], nodes.parent[root], nodes.start[root] = DOCUMENT_LABEL, -1, to
    used[NODE] += 1
    text_begin, depth, asides, closed = to, 0, 0, False
    names.counts[DECLARED] = 0
    at = declaration_end(data, at, stop)
    if at < 0:
        return False
    while True:
        if depth:
            at, to = copy_text(data, at, stop, out, to)
        else:
            at = skip_white(data, at, stop)
            if at == stop:
                break
        if at < 0 or at + 1 >= stop or data[at] != LESS:
            return False
        following = data[at + 1]
        if following == EXCLAMATION and depth and stands_at(data, at, stop, SECTION_OPENING):
            at, to = copy_section(data, at + len(SECTION_OPENING), stop, out, to)
            if at < 0:
                return False
            continue
        if to > text_begin:
            _add_text(texts, used, text_begin, to, open_elements[depth, OPEN_NODE] - root)
            text_begin = to
        if following == SLASH:
            at += 2
            begin, end = open_elements[depth, OPEN_AT], open_elements[depth, OPEN_END]
            length = end - begin
            if not depth or at + length >= stop or not same_text(data, begin, end, data, at, at + length):
                return False
            at = skip_white(data, at + length, stop)
            if at >= stop or data[at] != GREATER:
                return False
            at += 1
            nodes.end[open_elements[depth, OPEN_NODE]] = to
            names.counts[DECLARED] = open_elements[depth, OPEN_DECLARED]
            depth -= 1
            closed = depth == 0
        elif following in (EXCLAMATION, QUESTION):
            asides += 1
            if following == QUESTION:
                at = instruction_end(data, at + 2, stop)
            elif at + 3 < stop and data[at + 2] == DASH and data[at + 3] == DASH:
                at = comment_end(data, at + 4, stop)
            else:
                return False
            if at < 0 or asides > MAX_NODES:
                return False
        else:
            if closed or depth == MAX_DEPTH:
                return False
            node = used[NODE]
            depth += 1
            at, top, empty = _open_element(data, at + 1, stop, out, to, top, root, depth, scanner)
            if at < 0 or used[NODE] - root > MAX_NODES:
                return False
            if empty:
                nodes.end[node] = to
                names.counts[DECLARED] = open_elements[depth, OPEN_DECLARED]
                depth -= 1
                closed = depth == 0
    nodes.end[root] = to
    return closed


@inlined
def _add_text(texts: ScannedNodes, used: Longs, start: int, end: int, parent: int) -> None:
    text = used[TEXT]
    texts.parent[text], texts.start[text], texts.end[text] = parent, start, end
    used[TEXT] += 1


@inlined
def _name_end(data: Bytes, at: int, stop: int) -> tuple[int, np.uint64]:
    """The end of a name, and its hash as `hash_bytes` has it; a name that is not plain is empty."""
    begin, hashed = at, np.uint64(0xCBF29CE484222325)
    if at < stop and NAME_CLASS[data[at]] == NAME_START:
        while at < stop and (NAME_CLASS[data[at]] or data[at] == COLON):
            hashed = (hashed ^ np.uint64(data[at])) * np.uint64(0x100000001B3)
            at += 1
    return (at if at - begin <= LONGEST_NAME else begin), hashed


@inlined
def _open_element(
    data: Bytes, at: int, stop: int, out: Bytes, to: int, top: int, root: int, depth: int, scanner: Scanner
) -> tuple[int, int, bool]:
    """Read a tag from its name on, and add the element and its attributes.

    Gives where the tag ends, the new `top`, and whether the element is empty.
    """
    # One function for the whole tag: labels are known only when all its declarations are read, and what is
    # read until then would have to be handed on.
    nodes, names, open_elements, waiting, used = (
        scanner.nodes,
        scanner.names,
        scanner.open,
        scanner.waiting,
        scanner.used,
    )
    counts = names.counts
    node = used[NODE]
    outer, scope = counts[DECLARED], 0 if depth == 1 else open_elements[depth - 1, OPEN_SCOPE]
    begin = at
    at, hashed = _name_end(data, at, stop)
    end = at
    if begin == end:
        return NOT_PLAIN, top, False
    attributes = 0
    while at < stop and is_white(data[at]):
        at = skip_white(data, at, stop)
        name_begin = at
        at, name_hash = _name_end(data, at, stop)
        name_end = at
        if name_begin == at:
            break
        at = skip_white(data, at, stop)
        if at + 1 >= stop or data[at] != EQUALS or attributes == MAX_ATTRIBUTES:
            return NOT_PLAIN, top, False
        at = skip_white(data, at + 1, stop)
        if at >= stop or (data[at] != QUOTE and data[at] != APOSTROPHE):
            return NOT_PLAIN, top, False
        quote = data[at]
        value_end = at + 1
        while value_end < stop and data[value_end] != quote:
            value_end += 1
        low = top - (value_end - at - 1)
        at, high = copy_value(data, at + 1, stop, quote, out, low)
        if at < 0:
            return NOT_PLAIN, top, False
        at += 1
        top = low
        if declares(data, name_begin, name_end):
            if not declare(data, name_begin, name_end, out, low, high, outer, names):
                return NOT_PLAIN, top, False
            # Declarations count among the attributes, and so keep their place here.
            name_begin = name_end
        waiting[attributes, NAME_AT], waiting[attributes, NAME_END] = name_begin, name_end
        waiting[attributes, NAME_HASH] = np.int64(name_hash)
        attributes += 1
        if name_begin < name_end:
            used[NODE] += 1
            if used[NODE] - root > MAX_NODES:
                return NOT_PLAIN, top, False
            nodes.parent[used[NODE]] = node - root
            nodes.start[used[NODE]], nodes.end[used[NODE]] = low, high
    empty = at < stop and data[at] == SLASH
    if empty:
        at += 1
    if at >= stop or data[at] != GREATER:
        return NOT_PLAIN, top, False
    if counts[DECLARED] > outer:
        counts[SCOPES] += 1
        scope = counts[SCOPES]
    label = label_of(data, begin, end, hashed, 2 * scope, out, names)
    if label < 0:
        return NOT_PLAIN, top, False
    nodes.label[node], nodes.start[node] = label, to
    nodes.parent[node] = 0 if depth == 1 else open_elements[depth - 1, OPEN_NODE] - root
    open_elements[depth, OPEN_NODE] = node
    open_elements[depth, OPEN_AT], open_elements[depth, OPEN_END] = begin, end
    open_elements[depth, OPEN_DECLARED], open_elements[depth, OPEN_SCOPE] = outer, scope
    used[ELEMENT] += 1
    place = node
    for each in range(attributes):
        name_begin, name_end = waiting[each, NAME_AT], waiting[each, NAME_END]
        if name_begin == name_end:
            continue
        place += 1
        name_hash = np.uint64(waiting[each, NAME_HASH])
        label = label_of(data, name_begin, name_end, name_hash, 2 * scope + 1, out, names)
        if label < 0 or names.bearer[label] == used[ELEMENT]:
            return NOT_PLAIN, top, False
        names.bearer[label] = used[ELEMENT]
        nodes.label[place] = label
    used[NODE] = place + 1
    return at + 1, top, empty
