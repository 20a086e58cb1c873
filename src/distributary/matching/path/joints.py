"""Filters with two values: do two nodes that have them hang off one node, as the filter says?

The routes to the two values (see `routes`) share their first links and part at a node, the *joint*. The
filter holds when a node with the first value, to which the first route leads, and a node with the second, to
which the second route leads, have a joint in common. Where all links after the joint are child steps, it is
the node so many levels above; else the line of classes tells where it may be (see `ways`).

First the joints of the first value are marked, then those of the second are compared with the marks. The
nodes with an equality's value were found before (see `keys`); else the nodes of the label are tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import Ints, Longs, Words, fused, kernel, same_text, sealed, uncounted
from distributary.matching.memory import hash_words, prefetch
from distributary.matching.path import bounds
from distributary.matching.path import expressions as kinds
from distributary.matching.path.evaluate import ExpressionTable, NodeValues, Subject, compares
from distributary.matching.path.follow import FoundFilters, Posted
from distributary.matching.path.keys import HIT_PLACE, HIT_TREE, KeyHits
from distributary.matching.path.labels import TEXT_CODE
from distributary.matching.path.postings import POSITION
from distributary.matching.path.ranges import TreeValues
from distributary.matching.path.trie import LEG_COLUMNS
from distributary.matching.path.walk import MAX_LINE, OPEN, REACH_STAMP, SURE, SummaryWalk, reach_paths
from distributary.matching.path.ways import ASTRAY, LEADS, NO_ROOM, UNDECIDED, joint_places, route_leads

STATE, CODE, RELATION, LITERAL, UP, TWISTED, KEY = range(LEG_COLUMNS)
"""The columns of a leg, one of the two values: the state at the end of its route, the label's code, how the
value compares with the literal at that place, how many links lead there from the joint, whether one of them
is deep, and the key of an equality, else -1."""

NO_JOINT = -1

MARK, JOINTS = range(2)
FEW = 8
"""Up to so many joints of the first value, the second is looked for below each of them."""

KNOWN_STAMP, KNOWN_WORDS = 4, 5
"""Where the stamp of the paths stands behind the masks of the two values, and how many words these are."""


class JointFilters(NamedTuple):
    """The filters of a segment that have two values and are decided here."""

    of_filter: Ints
    """By position: its place, or NO_JOINT."""
    legs: Ints
    """By place and value: STATE to KEY."""
    hashes: Words
    """By place and value: the hash of a string."""
    paths: Words
    """By layout and place: the paths that the two routes lead to, SURE and OPEN of each, and KNOWN_STAMP."""


class JointMarks(NamedTuple):
    """What was seen of a tree for the filter that is decided, by the filter's own mark."""

    last: Ints
    """By element or attribute: the last one that is below it, or itself; they stand in document order."""
    counts: Longs
    """MARK: the mark of the filter; JOINTS: how many joints its first value has."""
    joints: Ints
    """These joints, as far as they are FEW."""

    nodes: Ints
    """By node: the mark of the last filter whose first value has its joint there."""
    classes: Ints
    """By class: whether the route leads there, as an answer of `ways` plus four times twice the mark, plus 4
    for the second route."""


class JointSearch(NamedTuple):
    """A tree in which joints are looked for, and all that is known of it."""

    joints: JointFilters
    posted: Posted
    hits: KeyHits
    subject: Subject
    """The tree's nodes."""
    walk: SummaryWalk
    """Its summary."""
    values: TreeValues
    longest: int
    """The length of the longest string that values are compared with."""
    marks: JointMarks


def joint_filters(arrays: Mapping[str, NDArray[Any]], table: ExpressionTable, layouts: int) -> JointFilters:
    """Those in a segment's arrays, with room for what is known of them in so many layouts."""
    of_filter, legs = sealed(arrays["joints.of_filter"]), sealed(arrays["joints.legs"])
    paths = np.zeros((layouts, len(legs), KNOWN_WORDS), np.uint64)
    return JointFilters(of_filter, legs, _hashes_of(legs, table), paths)


@kernel
def _hashes_of(legs: Ints, table: ExpressionTable) -> Words:
    hashes = np.zeros((len(legs), 2), np.uint64)
    for place in range(len(legs)):
        for side in range(2):
            literal = legs[place, side, LITERAL]
            if legs[place, side, RELATION] < kinds.EQUAL:
                low, high = table.string_offsets[literal], table.string_offsets[literal + 1]
                hashes[place, side] = hash_words(table.string_bytes, low, high)
    return hashes


@kernel
def no_marks(parent: Ints, classes: int) -> JointMarks:
    """No marks yet, for a tree with these parents and a summary of so many classes."""
    last = np.arange(len(parent)).astype(np.int32)
    for node in range(len(parent) - 1, 0, -1):
        last[parent[node]] = max(last[parent[node]], last[node])
    nodes, of_class = np.zeros(len(parent), np.int32), np.zeros(classes, np.int32)
    return JointMarks(last, np.zeros(2, np.int64), np.empty(FEW, np.int32), nodes, of_class)


@uncounted
def decide_joints(
    progress: Longs, doubtful: int, found: FoundFilters, search: JointSearch, masks: Words
) -> bool:
    """Decide which of the entries in doubt hold for a tree; False when the masks have no room.

    `progress` says how many were looked at, how many are still in doubt, and how many hold: the former are
    moved to the front of the entries, the latter to the front of `found.held`. It goes on from there.
    """
    of_filter = search.joints.of_filter
    _fetch(progress[0], doubtful, found, search)
    for at in range(progress[0], doubtful):
        progress[0] = at
        entry = found.entries[at]
        place, leads = of_filter[entry >> POSITION], UNDECIDED
        if place != NO_JOINT:
            leads = _joint_holds(place, search, masks)
        if leads == NO_ROOM:
            return False
        if leads == UNDECIDED:
            found.entries[progress[1]] = entry
            progress[1] += 1
        elif leads == LEADS:
            found.held[progress[2]] = entry
            progress[2] += 1
    return True


@fused
def _fetch(first: int, last: int, found: FoundFilters, search: JointSearch) -> None:
    """Have fetched what deciding these entries will read, for it lies all over large tables."""
    joints, hits = search.joints, search.posted.keys.hits
    for at in range(first, last):
        prefetch(joints.of_filter, found.entries[at] >> POSITION)
    for at in range(first, last):
        place = joints.of_filter[found.entries[at] >> POSITION]
        if place != NO_JOINT:
            known = (search.walk.layout * len(joints.legs) + place) * KNOWN_WORDS
            prefetch(joints.paths, known)
            prefetch(joints.paths, known + KNOWN_WORDS - 1)
            prefetch(joints.legs, 2 * LEG_COLUMNS * place)
            prefetch(joints.legs, 2 * LEG_COLUMNS * (place + 1) - 1)
            prefetch(joints.hashes, 2 * place)
    for at in range(first, last):
        place = joints.of_filter[found.entries[at] >> POSITION]
        if place != NO_JOINT:
            for side in range(2):
                if joints.legs[place, side, KEY] >= 0:
                    prefetch(hits, 2 * joints.legs[place, side, KEY])


@fused
def _joint_holds(place: int, search: JointSearch, masks: Words) -> int:
    """Whether the filter at a place holds for a tree: ASTRAY, LEADS, UNDECIDED or NO_ROOM of `ways`."""
    # One loop for both values, which chooses arrays: a function that is uncounted cannot give one back.
    joints, posted, hits, subject = search.joints, search.posted, search.hits, search.subject
    walk, marks = search.walk, search.marks
    marks.counts[MARK] += 1
    marks.counts[JOINTS] = 0
    known = joints.paths[walk.layout, place]
    if walk.bounds.paths.size and known[KNOWN_STAMP] != walk.bounds.stamp:
        _learn_paths(joints.legs[place], known, posted, walk)
    for side in range(2):
        leg = joints.legs[place, side]
        nodes, low, high = subject.order, subject.low[leg[CODE]], subject.low[leg[CODE] + 1]
        if leg[KEY] >= 0:
            hit = posted.keys.hits[leg[KEY]]
            if hit[HIT_TREE] != subject.number:
                return ASTRAY
            nodes, low, high = hits.nodes, hits.low[hit[HIT_PLACE]], hits.low[hit[HIT_PLACE] + 1]
        sure, open_to = np.uint64(0), ~np.uint64(0)
        if walk.bounds.paths.size:
            sure, open_to = known[2 * side + SURE], known[2 * side + OPEN]
        found, below = ASTRAY, 0
        if side and leg[KEY] < 0 and leg[CODE] != TEXT_CODE and marks.counts[JOINTS] <= FEW:
            below = marks.counts[JOINTS]
        for span in range(max(below, 1)):
            start, stop = low, high
            if below:
                joint: Any = np.int64(marks.joints[span])
                start = _first_from(nodes, low, high, joint)
                stop = _first_from(nodes, start, high, marks.last[joint] + 1)
            for at in range(start, stop):
                hashed = joints.hashes[place, side]
                leads = _try_node(side, leg, hashed, nodes[at], sure, open_to, search, masks)
                if leads in (NO_ROOM, UNDECIDED) or (side and leads == LEADS):
                    return leads
                if leads == LEADS:
                    found = LEADS
        if found == ASTRAY:
            break
    return ASTRAY


@fused
def _try_node(
    side: int,
    leg: Ints,
    hashed: np.uint64,
    node: int,
    sure: np.uint64,
    open_to: np.uint64,
    search: JointSearch,
    masks: Words,
) -> int:
    """Visit a node if it has the value and the route may lead to its path; UNDECIDED where it is too deep."""
    walk, values = search.walk, search.values
    if leg[KEY] < 0 and not _has_value(leg, hashed, node, search.posted.table, values.nodes, search.longest):
        return ASTRAY
    each = values.of_node[node]
    bit = np.uint64(1) << np.uint64(walk.classes[each, bounds.PATH] & 63)
    if not open_to & bit:
        return ASTRAY
    if walk.classes[each, bounds.DEPTH] >= MAX_LINE:
        return UNDECIDED
    return _visit(side, leg, node, each, sure & bit != 0, search, masks)


@fused
def _visit(side: int, leg: Ints, node: int, each: int, sure: bool, search: JointSearch, masks: Words) -> int:
    """Mark the joints of a node that has the first value, or see whether one of the second's is marked.

    LEADS when some is; `each` is the node's class, and `sure` when the route leads there anyhow.
    """
    table, states, parent = search.posted.table, search.posted.trie.states, search.subject.parent
    walk, marks = search.walk, search.marks
    state: Any = np.int64(leg[STATE])
    mark = marks.counts[MARK]
    if leg[TWISTED]:
        ready, places = joint_places(state, leg[UP], each, table, states, walk, masks)
        if not ready:
            return NO_ROOM
        found, depth = ASTRAY, walk.classes[each, bounds.DEPTH]
        while depth > 0:
            node, depth = parent[node], depth - 1
            if (places >> np.uint64(depth)) & np.uint64(1):
                if not side:
                    _mark(node, marks)
                if marks.nodes[node] == mark:
                    found = LEADS
        return found
    joint = node
    for _ in range(leg[UP]):
        joint = parent[joint]
    if side and marks.nodes[joint] != mark:
        return ASTRAY
    if not sure:
        leads = marks.classes[each] - 4 * (2 * mark + side)
        if leads < 0:
            leads = route_leads(state, each, table, states, walk, masks)
            if leads == NO_ROOM:
                return NO_ROOM
            marks.classes[each] = leads + 4 * (2 * mark + side)
        if leads == ASTRAY:
            return ASTRAY
    _mark(joint, marks)
    return LEADS


@fused
def _mark(node: int, marks: JointMarks) -> None:
    """Note a joint, once."""
    if marks.nodes[node] != marks.counts[MARK]:
        marks.nodes[node] = marks.counts[MARK]
        if marks.counts[JOINTS] < FEW:
            marks.joints[marks.counts[JOINTS]] = node
        marks.counts[JOINTS] += 1


@fused
def _first_from(nodes: Ints, low: int, high: int, node: int) -> int:
    """The first place among ascending nodes that has this node or a later one."""
    while low < high:
        middle = (low + high) >> 1
        if nodes[middle] < node:
            low = middle + 1
        else:
            high = middle
    return low


@uncounted
def _learn_paths(legs: Ints, known: Words, posted: Posted, walk: SummaryWalk) -> None:
    """Write down the paths that the two routes of a filter lead to."""
    for side in range(2):
        state: Any = np.int64(legs[side, STATE])
        if walk.reach[state, REACH_STAMP] != walk.bounds.stamp:
            reach_paths(state, posted.table.rows, posted.trie.states, walk)
        known[2 * side + SURE], known[2 * side + OPEN] = walk.reach[state, SURE], walk.reach[state, OPEN]
    known[KNOWN_STAMP] = walk.bounds.stamp


@fused
def _has_value(
    leg: Ints, hashed: np.uint64, node: int, table: ExpressionTable, nodes: NodeValues, longest: int
) -> bool:
    """Whether a node's value compares as a leg says."""
    relation, literal = leg[RELATION], leg[LITERAL]
    if relation >= kinds.EQUAL:
        return compares(relation, nodes.numbers[node], table.numbers[literal])
    start, end = nodes.start[node], nodes.end[node]
    same = end - start <= longest and nodes.hashes[node] == hashed
    if same:
        low, high = table.string_offsets[literal], table.string_offsets[literal + 1]
        same = same_text(table.string_bytes, low, high, nodes.data, start, end)
    return same if relation == kinds.STRING_EQUAL else not same
