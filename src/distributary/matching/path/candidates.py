"""What a document's values ask about: runs of filters, and the classes that have the value each is about.

A document's distinct values find equalities through a hash table, and the least and greatest value of each
label find the ranges. What is found here is not decided yet: `follow` sees whether the filter's route leads
to a class that has the value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Floats, Ints, Words, hash_bytes, kernel, same_text, with_room
from distributary.matching.path import expressions as kinds
from distributary.matching.path.bounds import PATH
from distributary.matching.path.evaluate import ExpressionTable, NodeValues, Subject, compares
from distributary.matching.path.forest import LabelCodes
from distributary.matching.path.trie import RELATIONS, Trie, key_place

EQUALITY = RELATIONS
"""The relation of a run of equalities: its classes are known to have the value."""

FIRST, LAST, LOW, HIGH, RELATION = range(5)
"""The columns of runs: postings from FIRST up to LAST, classes from LOW up to HIGH, how values compare."""


class Postings(NamedTuple):
    """Where filters stand in the trie: by posting, its state, its entry, the labels it needs, its literal."""

    state: Ints
    entry: Ints
    needs: Words
    literal: Floats


class Candidates(NamedTuple):
    """Runs of postings with the same value. Unless a run's RELATION is EQUALITY, its classes are all of the
    label, and which of them have the value remains to be seen.
    """

    runs: Ints
    paths: Words
    """By run: the bits of the paths (see `bounds`) that have the value."""
    classes: Ints
    postings: Postings


class ClassMembers(NamedTuple):
    """A tree's nodes by class, the least and greatest number among each class's values, and all values."""

    low: Ints
    """The nodes of class c are `node[low[c] : low[c + 1]]`."""
    node: Ints
    least: Floats
    greatest: Floats
    values: NodeValues


class KeyHits(NamedTuple):
    """By key: the tree that last had it, and its place among the keys that this tree has."""

    tree: Ints
    place: Ints


@kernel
def gather_members(of_node: Ints, count: int, values: NodeValues) -> ClassMembers:
    """The nodes of so many classes, given the class of each node."""
    low = np.zeros(count + 2, np.int32)
    least, greatest = np.full(count, np.inf), np.full(count, -np.inf)
    for node in range(len(of_node)):
        each, value = of_node[node], values.numbers[node]
        low[each + 2] += 1
        if value == value:
            least[each] = min(least[each], value)
            greatest[each] = max(greatest[each], value)
    for each in range(2, count + 2):
        low[each] += low[each - 1]
    nodes = np.empty(len(of_node), np.int32)
    for node in range(len(of_node)):
        nodes[low[of_node[node] + 1]] = node
        low[of_node[node] + 1] += 1
    return ClassMembers(low, nodes, least, greatest, values)


@kernel
def find_equalities(
    tree: int,
    longest: int,
    table: ExpressionTable,
    trie: Trie,
    codes: LabelCodes,
    label: Ints,
    of_node: Ints,
    classes: Ints,
    values: NodeValues,
    found: KeyHits,
) -> Candidates:
    """The equalities that some node's label and value satisfy, a run for each key.

    Longer strings than `longest` equal no literal. `label` and `of_node` give each node's label and class.
    """
    # The look-up stands in the loop: as a function it would be handed half a dozen arrays for every value,
    # and counting references to them would cost several times what the look-up does.
    size = len(trie.key_table)
    has_strings, has_numbers = trie.code_has_strings, trie.code_has_numbers
    bits = values.numbers.view(np.uint64)
    hits, last_class = np.empty(256, np.int32), np.empty(256, np.int32)
    pairs = np.empty(512, np.int32)  # a hit and a class whose nodes have the key, in turn
    used: Any = np.int64(0)
    paired: Any = np.int64(0)
    for node in range(1, len(label)):
        own, wildcard = codes.own[label[node]], codes.wildcard[label[node]]
        start, end = values.start[node], values.end[node]
        short, numeric = end - start <= longest, values.numbers[node] == values.numbers[node]
        text = np.uint64(0)
        if short and ((own >= 0 and has_strings[own]) or has_strings[wildcard]):
            text = hash_bytes(values.data, start, end)
        # Its own label and the wildcard's, each with its value as a string and as a number.
        for attempt in range(4):
            code = own if attempt < 2 else wildcard
            as_string = attempt % 2 == 0
            if code < 0 or (attempt >= 2 and own == wildcard):
                continue
            if not (short and has_strings[code] if as_string else numeric and has_numbers[code]):
                continue
            wanted = text if as_string else bits[node]
            place = key_place(code, wanted, size)
            key = trie.key_table[place]
            while key >= 0:
                string = trie.key_string[key]
                if trie.key_code[key] == code and (string >= 0) == as_string:
                    if not as_string:
                        if trie.key_number[key] == wanted:
                            break
                    else:
                        low, high = table.string_offsets[string], table.string_offsets[string + 1]
                        if same_text(table.string_bytes, low, high, values.data, start, end):
                            break
                place = (place + 1) & (size - 1)
                key = trie.key_table[place]
            if key < 0:
                continue
            if found.tree[key] != tree:
                hits, last_class = with_room(hits, used, 1), with_room(last_class, used, 1)
                found.tree[key], found.place[key] = tree, used
                hits[used], last_class[used] = key, -1
                used += 1
            hit, each = found.place[key], of_node[node]
            if last_class[hit] != each:
                last_class[hit] = each
                pairs = with_room(pairs, paired, 2)
                pairs[paired], pairs[paired + 1] = hit, each
                paired += 2
    return _runs_of_hits(hits[:used], pairs[:paired], trie, classes)


@kernel
def _runs_of_hits(hits: Ints, pairs: Ints, trie: Trie, classes: Ints) -> Candidates:
    """A run for each key found, with the classes that it is paired with."""
    count = len(hits)
    low = np.zeros(count + 2, np.int32)
    for at in range(0, len(pairs), 2):
        low[pairs[at] + 2] += 1
    for run in range(2, count + 2):
        low[run] += low[run - 1]
    ordered = np.empty(len(pairs) // 2, np.int32)
    for at in range(0, len(pairs), 2):
        ordered[low[pairs[at] + 1]] = pairs[at + 1]
        low[pairs[at] + 1] += 1
    runs, paths = np.empty((count, 5), np.int32), np.zeros(count, np.uint64)
    with_value, last_run = np.empty(len(ordered), np.int32), np.full(len(classes), -1, np.int32)
    size = 0
    for run in range(count):
        runs[run, FIRST], runs[run, LAST] = trie.key_low[hits[run]], trie.key_low[hits[run] + 1]
        runs[run, LOW], runs[run, RELATION] = size, EQUALITY
        for at in range(low[run], low[run + 1]):
            each = ordered[at]
            if last_run[each] != run:
                last_run[each] = run
                with_value[size] = each
                size += 1
                paths[run] |= np.uint64(1) << np.uint64(classes[each, PATH] & 63)
        runs[run, HIGH] = size
    postings = Postings(trie.key_state, trie.key_entry, trie.key_needs, trie.test_literal)
    return Candidates(runs, paths, with_value, postings)


@kernel
def find_tests(trie: Trie, subject: Subject, members: ClassMembers, classes: Ints, paths: int) -> Candidates:
    """The ranges and inequalities on the labels of a tree, a run for each literal that some class passes.

    `paths` is how many paths the summary has, 0 when they are too many to be told apart.
    """
    low, order = subject.low, subject.order
    literals = trie.test_literal
    least, greatest = np.full(64, np.inf), np.full(64, -np.inf)
    for each in range(len(classes)):
        path = classes[each, PATH] & 63
        least[path] = min(least[path], members.least[each])
        greatest[path] = max(greatest[path], members.greatest[each])
    count: Any = np.int64(0)
    found = np.empty(1 << 12, np.int32)  # five columns for each run
    for code in range(len(low) - 2):
        if low[code] == low[code + 1]:
            continue
        lowest, highest = np.inf, -np.inf
        for place in range(low[code], low[code + 1]):
            lowest = min(lowest, members.least[order[place]])
            highest = max(highest, members.greatest[order[place]])
        for relation in range(RELATIONS):
            at, stop = _literal_range(trie, code, relation, lowest, highest)
            while at < stop:
                # Entries with the same literal form one run, as do all inequalities on a label.
                found = with_room(found, 5 * count, 5)
                run = found[5 * count : 5 * count + 5]
                run[FIRST], literal = at, literals[at]
                while at < stop and (relation <= kinds.UNEQUAL or literals[at] == literal):
                    at += 1
                run[LAST], run[LOW], run[HIGH], run[RELATION] = at, low[code], low[code + 1], relation
                count += 1
    runs, masks = found[: 5 * count].reshape((count, 5)), np.zeros(count, np.uint64)
    for at in range(count):
        literal = literals[runs[at, FIRST]]
        for path in range(paths):
            if _in_range(runs[at, RELATION], literal, least[path], greatest[path]):
                masks[at] |= np.uint64(1) << np.uint64(path)
    return Candidates(
        runs, masks, order, Postings(trie.test_state, trie.test_entry, trie.test_needs, literals)
    )


@kernel
def _literal_range(trie: Trie, code: int, relation: int, least: float, greatest: float) -> tuple[int, int]:
    """The run of literals that some value of the label may compare with, given the least and greatest."""
    run = code * RELATIONS + relation
    first, last = trie.test_low[run], trie.test_low[run + 1]
    if first == last or relation < kinds.LESS:
        return first, last
    if least > greatest:
        return first, first
    if relation in (kinds.LESS, kinds.AT_MOST):
        return _bound(trie.test_literal, first, last, least, relation == kinds.LESS), last
    return first, _bound(trie.test_literal, first, last, greatest, relation == kinds.AT_LEAST)


@kernel
def _bound(literals: Floats, first: int, last: int, value: float, beyond: bool) -> int:
    """The first place whose literal is at least the value, or `beyond` it."""
    while first < last:
        middle = (first + last) >> 1
        if literals[middle] < value or (beyond and literals[middle] == value):
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def _in_range(relation: int, literal: float, least: float, greatest: float) -> bool:
    """Whether some of the numbers between two that occur compare so; an inequality is left open."""
    value = least if relation <= kinds.AT_MOST else greatest
    return relation <= kinds.UNEQUAL or compares(relation, value, literal)


@kernel
def class_passes(
    relation: int, literal: float, each: int, table: ExpressionTable, members: ClassMembers
) -> bool:
    """Whether a node of a class has a value that compares so with the literal."""
    if relation > kinds.UNEQUAL:
        return _in_range(relation, literal, members.least[each], members.greatest[each])
    values = members.values
    for at in range(members.low[each], members.low[each + 1]):
        node = members.node[at]
        if relation == kinds.STRING_UNEQUAL:
            low, high = table.string_offsets[int(literal)], table.string_offsets[int(literal) + 1]
            start, end = values.start[node], values.end[node]
            if not same_text(table.string_bytes, low, high, values.data, start, end):
                return True
        elif values.numbers[node] != literal:
            return True
    return False
