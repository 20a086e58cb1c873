"""The names of XML documents in bytes: from the name that a tag is written with to the number of its label.

Labels are numbered over all documents that are read together. What a written name means depends on the
namespaces that are declared where it stands; a *scope* is a number for those declarations, new for every
element that declares one, and 0 where there is none. So a name is taken apart once in a scope, and then
found by its bytes.

Rules, all on the side of caution: what is not plain is left to the reader that knows everything.

- A plain name is of ASCII, with one colon at most, between two names.
- At most `MOST_DECLARED` declarations are in force at a time, and a document adds at most `MOST_NAMES` names
  and `MOST_LETTERS` letters to the table, so there is always room for a document that begins.
- Declarations of the reserved prefixes and namespaces, and prefixes that are not declared, are not plain.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distributary.kernel import Bytes, Ints, Longs, hash_bytes, inlined, kernel, same_text
from distributary.matching.path.xml.characters import NAME_CLASS, NAME_START, NOT_PLAIN

DOCUMENT_LABEL, TEXT_LABEL, FIRST_NAME = range(3)
"""The labels of documents and of text nodes, which every table has, and the first label of a name."""

MOST_NAMES = 2048
MOST_LETTERS = 1 << 16
MOST_DECLARED = 64
LONGEST_NAME = 1024
"""Bytes of a plain name, and of a plain namespace's URI."""

LABELS, LETTERS, NAMES, SCOPES, DECLARED = range(5)
"""The places of `LabelTable.counts`: labels, letters of labels, names, scopes, and declarations in force."""

PREFIX, PREFIX_END, URI, URI_END = range(4)
"""The columns of declarations: where the prefix stands in the document, and the URI in what was written."""

AT, END, MEANING, LABEL = range(4)
"""The columns of names: where it stands, twice its scope (plus one for an attribute), and its label."""

XML_NAMESPACE = np.frombuffer(b"http://www.w3.org/XML/1998/namespace", np.uint8)
XMLNS_NAMESPACE = np.frombuffer(b"http://www.w3.org/2000/xmlns/", np.uint8)
XML = np.frombuffer(b"xml", np.uint8)
XMLNS = np.frombuffer(b"xmlns", np.uint8)
COLON, SIGN = 0x3A, 0x40


class LabelTable(NamedTuple):
    """The names and labels so far, and the declarations that are in force."""

    counts: Longs
    names: Longs
    """By name: AT, END, MEANING and LABEL."""
    table: Ints
    """Finds names: a hash table of them, at most half full, with -1 in empty places."""
    label_low: Longs
    """By label: where its letters begin; they end where those of the next begin."""
    letters: Bytes
    label_table: Ints
    """Finds labels, like `table`."""
    bearer: Longs
    """By label: the serial number of the last element with an attribute of that label."""
    declared: Longs
    """The declarations in force, outermost first: PREFIX, PREFIX_END, URI and URI_END."""


@kernel
def empty_names() -> LabelTable:
    """A table with the labels of documents and of text nodes, and room for one document."""
    label_low, letters = np.zeros(MOST_NAMES + FIRST_NAME + 1, np.int64), np.empty(MOST_LETTERS + 8, np.uint8)
    for at, letter in enumerate((0x74, 0x65, 0x78, 0x74, 0x28, 0x29)):  # text()
        letters[at] = letter
    label_low[FIRST_NAME] = 6
    counts = np.zeros(5, np.int64)
    counts[LABELS], counts[LETTERS] = FIRST_NAME, 6
    return LabelTable(
        counts,
        np.empty((MOST_NAMES, 4), np.int64),
        np.full(2 * MOST_NAMES, -1, np.int32),
        label_low,
        letters,
        np.full(2 * MOST_NAMES, -1, np.int32),
        np.full(MOST_NAMES + FIRST_NAME, -1, np.int64),
        np.empty((MOST_DECLARED, 4), np.int64),
    )


@kernel
def with_names(names: LabelTable, data: Bytes) -> LabelTable:
    """The table, or a larger copy, with room for another document."""
    counts = names.counts
    rows = len(names.names)
    if counts[NAMES] + MOST_NAMES > rows:
        rows *= 2
    letters = len(names.letters)
    while counts[LETTERS] + MOST_LETTERS > letters:
        letters *= 2
    if rows == len(names.names) and letters == len(names.letters):
        return names
    larger = LabelTable(
        counts,
        np.empty((rows, 4), np.int64),
        np.full(2 * rows, -1, np.int32),
        np.zeros(rows + FIRST_NAME + 1, np.int64),
        np.empty(letters, np.uint8),
        np.full(2 * rows, -1, np.int32),
        np.full(rows + FIRST_NAME, -1, np.int64),
        names.declared,
    )
    for letter in range(counts[LETTERS]):
        larger.letters[letter] = names.letters[letter]
    for name in range(counts[NAMES]):
        for column in range(4):
            larger.names[name, column] = names.names[name, column]
        hashed = hash_bytes(data, names.names[name, AT], names.names[name, END])
        larger.table[_free_place(larger.table, hashed, names.names[name, MEANING])] = name
    for label in range(counts[LABELS]):
        low, high = names.label_low[label], names.label_low[label + 1]
        larger.label_low[label + 1], larger.bearer[label] = high, names.bearer[label]
        if label >= FIRST_NAME:
            larger.label_table[_free_place(larger.label_table, hash_bytes(names.letters, low, high), 0)] = (
                label
            )
    return larger


@kernel
def _free_place(table: Ints, hashed: np.uint64, meaning: int) -> int:
    """Where in a table a new entry goes."""
    place = _name_place(hashed, meaning, len(table))
    while table[place] >= 0:
        place = (place + 1) & (len(table) - 1)
    return place


@inlined
def _name_place(hashed: np.uint64, meaning: int, size: int) -> int:
    """Where to start looking in a table of that size, a power of two."""
    mixed = (hashed ^ (np.uint64(meaning) * np.uint64(0x9E3779B97F4A7C15))) * np.uint64(0xBF58476D1CE4E5B9)
    return np.int64((mixed ^ (mixed >> np.uint64(32))) & np.uint64(size - 1))  # type: ignore[return-value]


@inlined
def label_of(
    data: Bytes, at: int, end: int, hashed: np.uint64, meaning: int, written: Bytes, names: LabelTable
) -> int:
    """The label of the name `data[at:end]`, whose hash is given; NOT_PLAIN when that cannot be said.

    `meaning` is twice the scope, plus one for an attribute; `written` is where the URIs of declarations are.
    """
    table, rows = names.table, names.names
    place = _name_place(hashed, meaning, len(table))
    while table[place] >= 0:
        name = table[place]
        if rows[name, MEANING] == meaning and same_text(data, rows[name, AT], rows[name, END], data, at, end):
            return rows[name, LABEL]  # type: ignore[no-any-return]
        place = (place + 1) & (len(table) - 1)
    return _add_name(data, at, end, meaning, place, written, names)


@kernel
def _add_name(
    data: Bytes, at: int, end: int, meaning: int, place: int, written: Bytes, names: LabelTable
) -> int:
    """Take a new name apart, and find or add its label."""
    counts, letters = names.counts, names.letters
    colon = at
    while colon < end and data[colon] != COLON:
        colon += 1
    local = at
    low, high, reserved = 0, 0, False  # the URI of its namespace
    if colon < end:
        local = colon + 1
        if colon == at or local == end or NAME_CLASS[data[local]] != NAME_START:
            return NOT_PLAIN
        for each in range(local, end):
            if data[each] == COLON:
                return NOT_PLAIN
    if colon == at + 3 and local > at and same_text(data, at, colon, XML, 0, 3):
        high, reserved = len(XML_NAMESPACE), True
    elif local > at or not meaning & 1:
        # An attribute without a prefix is in no namespace; an element is in the default one.
        found = counts[DECLARED] - 1
        declared = names.declared
        prefix_end = colon if local > at else at
        while found >= 0 and not same_text(
            data, at, prefix_end, data, declared[found, PREFIX], declared[found, PREFIX_END]
        ):
            found -= 1
        if found >= 0:
            low, high = declared[found, URI], declared[found, URI_END]
        elif local > at:
            return NOT_PLAIN
    begin = counts[LETTERS]
    if begin + high - low + end - local + 4 > len(letters) or counts[NAMES] == len(names.names):
        return NOT_PLAIN
    to = begin
    if meaning & 1:
        letters[to] = SIGN
        to += 1
    if high > low:
        letters[to], letters[to + 1] = 0x51, 0x7B  # Q{
        to += 2
        if reserved:
            to = _append(letters, to, XML_NAMESPACE, low, high)
        else:
            to = _append(letters, to, written, low, high)
        letters[to] = 0x7D
        to += 1
    to = _append(letters, to, data, local, end)
    label = _numbered_label(begin, to, names)
    name, rows = counts[NAMES], names.names
    rows[name, AT], rows[name, END], rows[name, MEANING], rows[name, LABEL] = at, end, meaning, label
    names.table[place] = name
    counts[NAMES] += 1
    return label


@inlined
def _append(letters: Bytes, to: int, source: Bytes, low: int, high: int) -> int:
    """Write `source[low:high]`; gives where that ends."""
    for each in range(low, high):
        letters[to] = source[each]
        to += 1
    return to


@kernel
def _numbered_label(begin: int, end: int, names: LabelTable) -> int:
    """The number of the label whose letters were just written; they are kept when it is new."""
    counts, letters, table, low = names.counts, names.letters, names.label_table, names.label_low
    place = _name_place(hash_bytes(letters, begin, end), 0, len(table))
    while table[place] >= 0:
        label = table[place]
        if same_text(letters, low[label], low[label + 1], letters, begin, end):
            return int(label)
        place = (place + 1) & (len(table) - 1)
    label = counts[LABELS]
    table[place] = label
    counts[LABELS] += 1
    counts[LETTERS] = low[label + 1] = end
    return int(label)


@inlined
def declares(data: Bytes, at: int, end: int) -> bool:
    """Whether an attribute of the name `data[at:end]` declares a namespace."""
    length = end - at
    if data[at] != 0x78 or length < 5 or (length > 5 and data[at + 5] != COLON):
        return False
    return same_text(data, at, at + 5, XMLNS, 0, 5)


@kernel
def declare(
    data: Bytes, at: int, end: int, written: Bytes, low: int, high: int, outer: int, names: LabelTable
) -> bool:
    """Put a declaration in force, if it is plain: its name is `data[at:end]`, its URI `written[low:high]`.

    `outer` is how many declarations are in force around the element that declares it.
    """
    counts, rows = names.counts, names.declared
    prefix = end if end - at == 5 else at + 6
    if counts[DECLARED] == MOST_DECLARED or high - low > LONGEST_NAME:
        return False
    if end - at > 5:
        if prefix == end or low == high or NAME_CLASS[data[prefix]] != NAME_START:
            return False
        for each in range(prefix, end):
            if data[each] == COLON:
                return False
        if same_text(data, prefix, end, XML, 0, len(XML)) or same_text(
            data, prefix, end, XMLNS, 0, len(XMLNS)
        ):
            return False
    if same_text(written, low, high, XML_NAMESPACE, 0, len(XML_NAMESPACE)) or same_text(
        written, low, high, XMLNS_NAMESPACE, 0, len(XMLNS_NAMESPACE)
    ):
        return False
    for each in range(outer, counts[DECLARED]):
        if same_text(data, prefix, end, data, rows[each, PREFIX], rows[each, PREFIX_END]):
            return False  # declared twice
    last = counts[DECLARED]
    rows[last, PREFIX], rows[last, PREFIX_END], rows[last, URI], rows[last, URI_END] = prefix, end, low, high
    counts[DECLARED] += 1
    return True
