"""What a document's values ask about: runs of filters, and the classes that have the value each is about.

A document's distinct values find equalities through a hash table, and the least and greatest value of each
label find the ranges. What is found here is not decided yet: `follow` sees whether the filter's route leads
to a class that has the value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Floats, Ints, Longs, Words, hash_bytes, inlined, kernel, same_text, uncounted
from distributary.matching.path import expressions as kinds
from distributary.matching.path.bounds import PATH
from distributary.matching.path.evaluate import ExpressionTable, NodeValues, Subject, compares
from distributary.matching.path.forest import LabelCodes
from distributary.matching.path.trie import RELATIONS, Trie, key_place, mixed_key

EQUALITY = RELATIONS
"""The relation of a run of equalities: its classes are known to have the value."""

FIRST, LAST, LOW, HIGH, RELATION = range(5)
"""The columns of runs: postings from FIRST up to LAST, classes from LOW up to HIGH, how values compare."""


STANDS, NEEDS = range(2)
"""The columns of postings: its state (in the upper half) with its entry, and the labels it needs."""

SLOT_KEY, SLOT_TAG = range(2)
"""The columns of the slots of a hash table of keys: the key, -1 for none, and half of its hash."""

KEY_VALUE, KEY_CODE, KEY_LOW, KEY_HIGH = range(4)
"""The columns of keys: the bits of a number, or where a string begins and (in the lower 16 bits) its length;
twice the label's code, plus one for a string; and its postings from LOW up to HIGH."""


class PathKeys(NamedTuple):
    """A segment's keys and postings, laid out so that what is read together stands together.

    What looking up a value costs is fetching it from memory: a slot, and where its tag is right, a key.
    """

    present: Words
    """A set of bits, of which a key has the one that `_bit_of` gives: most look-ups end here."""
    slots: Ints
    keys: Longs
    postings: Words
    test_postings: Words
    """The same for ranges and inequalities."""


@kernel
def pack_keys(table: ExpressionTable, trie: Trie) -> PathKeys:
    """The keys and postings of a trie."""
    size = len(trie.key_table)
    slots, keys = np.full((size, 2), -1, np.int32), np.empty((len(trie.key_code), 4), np.int64)
    present = np.zeros((size >> 4) + 1, np.uint64)  # four bits for each slot
    for key in range(len(keys)):
        string = trie.key_string[key]
        value = trie.key_number[key]
        keys[key, KEY_VALUE] = np.int64(value)
        if string >= 0:
            low, high = table.string_offsets[string], table.string_offsets[string + 1]
            value = hash_bytes(table.string_bytes, low, high)
            keys[key, KEY_VALUE] = (low << 16) | (high - low)
        keys[key, KEY_CODE] = 2 * np.int64(trie.key_code[key]) + np.int64(string >= 0)
        keys[key, KEY_LOW], keys[key, KEY_HIGH] = trie.key_low[key], trie.key_low[key + 1]
        mixed = mixed_key(trie.key_code[key], value)
        place = key_place(mixed, size)
        while slots[place, SLOT_KEY] >= 0:
            place = (place + 1) & (size - 1)
        slots[place, SLOT_KEY], slots[place, SLOT_TAG] = key, np.int32(mixed >> np.uint64(33))
        bit = _bit_of(mixed, len(present))
        present[bit >> np.uint64(6)] |= np.uint64(1) << (bit & np.uint64(63))
    return PathKeys(
        present,
        slots,
        keys,
        _pack_postings(trie.key_state, trie.key_entry, trie.key_needs),
        _pack_postings(trie.test_state, trie.test_entry, trie.test_needs),
    )


@inlined
def _bit_of(mixed: np.uint64, words: int) -> np.uint64:
    """The bit of a key with that hash in a set of so many words."""
    return ((mixed >> np.uint64(32)) * np.uint64(64 * words)) >> np.uint64(32)


@kernel
def _pack_postings(state: Ints, entry: Ints, needs: Words) -> Words:
    packed = np.empty((len(state), 2), np.uint64)
    for at in range(len(state)):
        packed[at, STANDS] = (np.uint64(state[at]) << np.uint64(32)) | np.uint64(entry[at])
        packed[at, NEEDS] = needs[at]
    return packed


class Candidates(NamedTuple):
    """Runs of postings with the same value. Unless a run's RELATION is EQUALITY, its classes are all of the
    label, and which of them have the value remains to be seen.
    """

    runs: Ints
    paths: Words
    """By run: the bits of the paths (see `bounds`) that have the value."""
    classes: Ints
    postings: Words
    """By posting: STANDS and NEEDS."""
    literals: Floats
    """By posting of a range or inequality: its literal."""


class ClassMembers(NamedTuple):
    """A tree's nodes by class, the least and greatest number among each class's values, and all values."""

    low: Ints
    """The nodes of class c are `node[low[c] : low[c + 1]]`."""
    node: Ints
    least: Floats
    greatest: Floats
    values: NodeValues


HIT_TREE, HIT_PLACE = range(2)
"""The columns of hits, by key: the tree that last had it, and its place among the keys that this tree has."""


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
    keys: PathKeys,
    codes: LabelCodes,
    label: Ints,
    of_node: Ints,
    classes: Ints,
    values: NodeValues,
    found: Ints,
) -> Candidates:
    """The equalities that some node's label and value satisfy, a run for each key.

    Longer strings than `longest` equal no literal. `label` and `of_node` give each node's label and class;
    `found` has HIT_TREE and HIT_PLACE.
    """
    # Each node has at most four keys: its label and the wildcard's, with its value as a string and a number.
    room = 4 * len(label)
    wanted, asked = np.empty((room, 2), np.uint64), np.empty((room, 2), np.int32)
    count = _ask_values(longest, trie, codes, label, values, wanted, asked)
    hits, pairs, used = np.empty(count, np.int32), np.empty(2 * count, np.int32), np.zeros(2, np.int64)
    last_class = np.empty(count, np.int32)
    _look_up(tree, wanted[:count], asked, table, keys, of_node, values, found, hits, last_class, pairs, used)
    return _runs_of_hits(hits[: used[0]], pairs[: used[1]], keys, trie.test_literal, classes)


ASKED_HASH, ASKED_VALUE = range(2)
"""The columns of what is looked up: the hash of the key, and the bits of a number or the hash of a string."""
ASKED_NODE, ASKED_CODE = range(2)
"""The node, and twice the label's code, plus one for a string."""


@uncounted
def _ask_values(
    longest: int, trie: Trie, codes: LabelCodes, label: Ints, values: NodeValues, wanted: Words, asked: Ints
) -> int:
    """List the keys that the nodes may have: ASKED_HASH and ASKED_VALUE, ASKED_NODE and ASKED_CODE."""
    has_strings, has_numbers = trie.code_has_strings, trie.code_has_numbers
    bits = values.numbers.view(np.uint64)
    count: Any = np.int64(0)
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
            if short and has_strings[code] if as_string else numeric and has_numbers[code]:
                value = text if as_string else bits[node]
                wanted[count, ASKED_HASH], wanted[count, ASKED_VALUE] = mixed_key(code, value), value
                asked[count, ASKED_NODE], asked[count, ASKED_CODE] = node, 2 * code + as_string
                count += 1
    return count  # type: ignore[no-any-return]


@uncounted
def _look_up(
    tree: int,
    wanted: Words,
    asked: Ints,
    table: ExpressionTable,
    keys: PathKeys,
    of_node: Ints,
    values: NodeValues,
    found: Ints,
    hits: Ints,
    last_class: Ints,
    pairs: Ints,
    counts: Longs,
) -> None:
    """Write the keys that there are of those asked, and pairs of a place among them and a class; count both.

    Hashes are worked out before, so that one look-up does not wait for the memory that another asks for.
    """
    slots, rows, present, data = keys.slots, keys.keys, keys.present, table.string_bytes
    size = len(slots)
    used: Any = np.int64(0)
    paired: Any = np.int64(0)
    for at in range(len(wanted)):
        mixed = wanted[at, ASKED_HASH]
        bit = _bit_of(mixed, len(present))
        if not (present[bit >> np.uint64(6)] >> (bit & np.uint64(63))) & np.uint64(1):
            continue
        place = key_place(mixed, size)
        key = slots[place, SLOT_KEY]
        tag, code, value = np.int32(mixed >> np.uint64(33)), asked[at, ASKED_CODE], wanted[at, ASKED_VALUE]
        node = asked[at, ASKED_NODE]
        while key >= 0:
            if slots[place, SLOT_TAG] == tag and rows[key, KEY_CODE] == code:
                held = rows[key, KEY_VALUE]
                low, high = held >> 16, (held >> 16) + (held & 0xFFFF)
                if not code & 1:
                    if np.uint64(held) == value:
                        break
                elif same_text(data, low, high, values.data, values.start[node], values.end[node]):
                    break
            place = (place + 1) & (size - 1)
            key = slots[place, SLOT_KEY]
        if key < 0:
            continue
        if found[key, HIT_TREE] != tree:
            found[key, HIT_TREE], found[key, HIT_PLACE] = tree, used
            hits[used], last_class[used] = key, -1
            used += 1
        hit, each = found[key, HIT_PLACE], of_node[node]
        if last_class[hit] != each:
            last_class[hit] = each
            pairs[paired], pairs[paired + 1] = hit, each
            paired += 2
    counts[0], counts[1] = used, paired


@kernel
def _runs_of_hits(hits: Ints, pairs: Ints, keys: PathKeys, literals: Floats, classes: Ints) -> Candidates:
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
        runs[run, FIRST], runs[run, LAST] = keys.keys[hits[run], KEY_LOW], keys.keys[hits[run], KEY_HIGH]
        runs[run, LOW], runs[run, RELATION] = size, EQUALITY
        for at in range(low[run], low[run + 1]):
            each = ordered[at]
            if last_run[each] != run:
                last_run[each] = run
                with_value[size] = each
                size += 1
                paths[run] |= np.uint64(1) << np.uint64(classes[each, PATH] & 63)
        runs[run, HIGH] = size
    return Candidates(runs, paths, with_value, keys.postings, literals)


@kernel
def find_tests(
    trie: Trie, keys: PathKeys, subject: Subject, members: ClassMembers, classes: Ints, paths: int
) -> Candidates:
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
    runs, masks = np.empty((len(literals), 5), np.int32), np.zeros(len(literals), np.uint64)
    count = _find_runs(trie, low, order, members, runs)
    for at in range(count):
        literal = literals[runs[at, FIRST]]
        for path in range(paths):
            if _in_range(runs[at, RELATION], literal, least[path], greatest[path]):
                masks[at] |= np.uint64(1) << np.uint64(path)
    return Candidates(runs[:count], masks[:count], order, keys.test_postings, literals)


@uncounted
def _find_runs(trie: Trie, low: Ints, order: Ints, members: ClassMembers, runs: Ints) -> int:
    """Write a run for each literal that some class of a tree passes, and give their number."""
    literals = trie.test_literal
    count: Any = np.int64(0)
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
                runs[count, FIRST], literal = at, literals[at]
                while at < stop and (relation <= kinds.UNEQUAL or literals[at] == literal):
                    at += 1
                runs[count, LAST], runs[count, RELATION] = at, relation
                runs[count, LOW], runs[count, HIGH] = low[code], low[code + 1]
                count += 1
    return count  # type: ignore[no-any-return]


@uncounted
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


@uncounted
def _bound(literals: Floats, first: int, last: int, value: float, beyond: bool) -> int:
    """The first place whose literal is at least the value, or `beyond` it."""
    while first < last:
        middle = (first + last) >> 1
        if literals[middle] < value or (beyond and literals[middle] == value):
            first = middle + 1
        else:
            last = middle
    return first


@uncounted
def _in_range(relation: int, literal: float, least: float, greatest: float) -> bool:
    """Whether some of the numbers between two that occur compare so; an inequality is left open."""
    value = least if relation <= kinds.AT_MOST else greatest
    return relation <= kinds.UNEQUAL or compares(relation, value, literal)


@uncounted
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
