"""Following routes: does the chain of a filter lead from the document down to a class that has its value?

A filter found by a value stands at a state of the trie. Its posting says to which paths of the summary
its route leads for certain, and to which it may (see `postings`). Only where that leaves it open, the route
is followed along the line of classes from the document down to a class that has the value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Floats, Ints, Longs, Words, fused, kernel, uncounted
from distributary.matching.memory import prefetch
from distributary.matching.path import bounds, evaluate
from distributary.matching.path import expressions as kinds
from distributary.matching.path.keys import KEY_HIGH, KEY_LOW, KeyHits, PathKeys
from distributary.matching.path.postings import (
    DOUBT,
    LIST_COLUMNS,
    LIST_HIGH,
    LIST_LOW,
    LIST_STAMP,
    LISTED,
    LISTED_COLUMNS,
    POSITION,
    SEVERAL,
    LayoutPostings,
    PackedPostings,
    list_postings,
)
from distributary.matching.path.ranges import TreeValues, class_passes, first_beyond, paths_passing
from distributary.matching.path.trie import RELATIONS, Trie
from distributary.matching.path.walk import OPEN, SURE, SummaryWalk
from distributary.matching.path.ways import ASTRAY, LEADS, NO_ROOM, UNDECIDED, route_leads, work_out_classes

TRIED = 2
"""So many classes that pass are tried by themselves before all classes are looked at together."""


class FoundFilters(NamedTuple):
    """The packed entries found for one tree (see `postings`).

    Each position is found for certain once at most, and in doubt once before that.
    """

    seen: Longs
    """By position of several routes: twice the turn of the tree that last found it, plus one for certain."""
    entries: Ints
    used: Longs
    """How many entries there are, in its only place."""
    held: Ints
    """Room for those of the entries in doubt that hold."""


class Posted(NamedTuple):
    """What following routes reads of a segment, and the lists that it makes of it."""

    table: evaluate.ExpressionTable
    trie: Trie
    keys: PathKeys
    packed: PackedPostings
    lists: LayoutPostings


@fused
def emit(entry: int, turn: int, found: FoundFilters) -> None:
    """Note an entry unless its filter was found for this tree already."""
    if entry & SEVERAL:
        position, certain = entry >> POSITION, 1 - (entry & DOUBT)
        if found.seen[position] >= 2 * turn + certain:
            return
        found.seen[position] = 2 * turn + certain
    found.entries[found.used[0]] = entry
    found.used[0] += 1


@kernel
def follow_keys(
    turn: int,
    hits: KeyHits,
    posted: Posted,
    walk: SummaryWalk,
    values: TreeValues,
    masks: Words,
    found: FoundFilters,
) -> Words:
    """Emit the equalities whose route leads to a class that has the value; gives the masks."""
    place = np.zeros(2, np.int64)
    while not _follow_keys_from(place, turn, hits, posted, walk, values, masks, found):
        masks = evaluate.with_words(masks, walk.evaluated, walk.subject)
    return masks


@kernel
def follow_tests(
    turn: int, posted: Posted, walk: SummaryWalk, values: TreeValues, masks: Words, found: FoundFilters
) -> Words:
    """Emit the ranges and inequalities whose route leads to a class that passes; gives the masks."""
    place = np.zeros(2, np.int64)
    while not _follow_tests_from(place, turn, posted, walk, values, masks, found):
        masks = evaluate.with_words(masks, walk.evaluated, walk.subject)
    return masks


@uncounted
def _follow_keys_from(
    place: Longs,
    turn: int,
    hits: KeyHits,
    posted: Posted,
    walk: SummaryWalk,
    values: TreeValues,
    masks: Words,
    found: FoundFilters,
) -> bool:
    """Follow the hits from a hit and posting on; False when the masks have no room, with the place."""
    lists, keys, table, states = posted.lists, posted.keys.keys, posted.table, posted.trie.states
    rows = lists.rows
    for hit in range(place[0], len(hits.keys)):
        prefetch(lists.keys, (walk.layout * len(keys) + hits.keys[hit]) * LIST_COLUMNS)
    for hit in range(place[0], len(hits.keys)):
        prefetch(rows, lists.keys[walk.layout, hits.keys[hit], LIST_LOW] * LISTED_COLUMNS)
    begin: Any = np.int64(place[1])
    for hit in range(place[0], len(hits.keys)):
        key = hits.keys[hit]
        known = lists.keys[walk.layout, key]
        if known[LIST_STAMP] != lists.stamps[walk.layout] or not walk.bounds.paths.size:
            first, last = keys[key, KEY_LOW], keys[key, KEY_HIGH]
            packed, literals = posted.packed.keys, posted.trie.test_literal[:0]
            list_postings(known, first, last, packed, literals, table.rows, states, walk, lists)
        paths = hits.paths[hit]
        for row in range(known[LIST_LOW] + begin, known[LIST_HIGH]):
            if not rows[row, OPEN] & paths:
                continue
            leads = LEADS
            if not rows[row, SURE] & paths:
                leads = _leads_to_node(row, hits, hit, rows, table, states, walk, values, masks)
            if leads == NO_ROOM:
                place[0], place[1] = hit, row - known[LIST_LOW]
                return False
            _emit_row(row, leads, rows, turn, found)
        begin = 0
    return True


@uncounted
def _follow_tests_from(
    place: Longs,
    turn: int,
    posted: Posted,
    walk: SummaryWalk,
    values: TreeValues,
    masks: Words,
    found: FoundFilters,
) -> bool:
    """Follow the tests from a run and posting on; False when the masks have no room, with the place."""
    lists, trie, table, states = posted.lists, posted.trie, posted.table, posted.trie.states
    rows, literals, subject, paths = lists.rows, lists.literals, walk.subject, walk.bounds.paths
    begin: Any = np.int64(place[1])
    for run in range(place[0], len(trie.test_low) - 1):
        code, relation = run // RELATIONS, run % RELATIONS
        low, high = subject.low[code], subject.low[code + 1]
        if low == high or trie.test_low[run] == trie.test_low[run + 1]:
            continue
        known = lists.tests[walk.layout, run]
        if known[LIST_STAMP] != lists.stamps[walk.layout] or not paths.size:
            first, last = trie.test_low[run], trie.test_low[run + 1]
            packed = posted.packed.tests
            list_postings(known, first, last, packed, trie.test_literal, table.rows, states, walk, lists)
        start, stop = _passing_rows(known, relation, low, high, literals, subject.order, values)
        sure, open_to = np.uint64(0), ~np.uint64(0)
        last_literal = np.nan
        for row in range(max(start, known[LIST_LOW] + begin), stop):
            literal = literals[row]
            if paths.size and literal != last_literal:
                sure, open_to = paths_passing(relation, literal, code, table, paths, values)
                last_literal = literal
            if not rows[row, OPEN] & open_to:
                continue
            leads = LEADS
            if not rows[row, SURE] & sure:
                leads = _leads_to_passing(
                    row, relation, literal, code, rows, table, states, walk, values, masks
                )
            if leads == NO_ROOM:
                place[0], place[1] = run, row - known[LIST_LOW]
                return False
            _emit_row(row, leads, rows, turn, found)
        begin = 0
    return True


@fused
def _emit_row(row: int, leads: int, rows: Words, turn: int, found: FoundFilters) -> None:
    """Note the entry of a listed posting, in doubt where that is undecided, unless its route leads astray."""
    if leads != ASTRAY:
        entry: Any = np.int64(rows[row, LISTED] & np.uint64(0xFFFFFFFF))
        emit(entry | (DOUBT if leads == UNDECIDED else 0), turn, found)


@fused
def _passing_rows(
    known: Ints, relation: int, low: int, high: int, literals: Floats, order: Ints, values: TreeValues
) -> tuple[int, int]:
    """The rows of a list whose literals some value of the label may compare so with."""
    first, last = known[LIST_LOW], known[LIST_HIGH]
    if first == last or relation < kinds.LESS:
        return first, last
    least, greatest = np.inf, -np.inf
    for at in range(low, high):
        least = min(least, values.classes.least[order[at]])
        greatest = max(greatest, values.classes.greatest[order[at]])
    if least > greatest:
        return first, first
    if relation <= kinds.AT_MOST:
        return first_beyond(literals, first, last, least, relation == kinds.LESS), last
    return first, first_beyond(literals, first, last, greatest, relation == kinds.AT_LEAST)


@fused
def _leads_to_node(
    row: int,
    hits: KeyHits,
    hit: int,
    rows: Words,
    table: evaluate.ExpressionTable,
    states: Ints,
    walk: SummaryWalk,
    values: TreeValues,
    masks: Words,
) -> int:
    """Whether the route of a listed posting, which its paths leave open, leads to a node of a hit."""
    state: Any = np.int64(rows[row, LISTED] >> np.uint64(32))
    found, last = ASTRAY, -1
    for at in range(hits.low[hit], hits.low[hit + 1]):
        each: Any = np.int64(values.of_node[hits.nodes[at]])
        if each == last or not rows[row, OPEN] & (
            np.uint64(1) << np.uint64(walk.classes[each, bounds.PATH] & 63)
        ):
            continue
        last = each
        leads = route_leads(state, each, table, states, walk, masks)
        if leads in (LEADS, NO_ROOM):
            return leads
        if leads == UNDECIDED:
            found = UNDECIDED
    return found


@fused
def _leads_to_passing(
    row: int,
    relation: int,
    literal: float,
    code: int,
    rows: Words,
    table: evaluate.ExpressionTable,
    states: Ints,
    walk: SummaryWalk,
    values: TreeValues,
    masks: Words,
) -> int:
    """Whether the route of a listed posting leads to a class of a code that has a value which passes."""
    state: Any = np.int64(rows[row, LISTED] >> np.uint64(32))
    evaluated, subject = walk.evaluated, walk.subject
    tried = 0
    for at in range(subject.low[code], subject.low[code + 1]):
        first: Any = np.int64(subject.order[at])
        bit = np.uint64(1) << np.uint64(walk.classes[first, bounds.PATH] & 63)
        if not rows[row, OPEN] & bit or not class_passes(relation, literal, first, table, values):
            continue
        leads = LEADS if rows[row, SURE] & bit else route_leads(state, first, table, states, walk, masks)
        if leads in (LEADS, NO_ROOM):
            return leads
        tried += 1
        if tried == TRIED:
            break
    else:
        if tried == 0:
            return ASTRAY
    # It may lead to none of many: look at all of them together.
    if evaluated.state_stamp[state] != subject.number and not work_out_classes(
        state, table, states, walk, masks
    ):
        return NO_ROOM
    place = evaluated.state_place[state]
    for at in range(subject.low[code], subject.low[code + 1]):
        each: Any = np.int64(subject.order[at])
        if evaluate.holds_at(masks, place, each) and class_passes(relation, literal, each, table, values):
            return LEADS
    return ASTRAY
