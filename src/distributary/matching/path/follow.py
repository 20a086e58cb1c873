"""Following routes: does the chain of a filter lead from the document down to a class that has its value?

A filter found by a value stands at a state of the trie. Its route is first tried on whole paths of the
summary, in a few machine words (see `bounds`), and only where that leaves it open on the line of classes from
the document down to the class that has the value.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Flags, Ints, Longs, Words, kernel, uncounted
from distributary.matching.path import bounds, candidates, evaluate
from distributary.matching.path import expressions as kinds
from distributary.matching.path.trie import BEFORE, CODE, CONDITION, DEEP

MAX_LINE = 64
"""Classes this deep are left to the check: a route is followed in the bits of one word."""

ASTRAY, LEADS, UNDECIDED, NO_ROOM = range(4)
"""Whether a route leads to a class; or that the masks have no room to work that out."""

SURE, OPEN, REACH_STAMP = range(3)
"""The columns of `reach`, by state, when its stamp is that of the paths: the paths of which its route leads
to every class, and those of which it may lead to some."""


class FoundFilters(NamedTuple):
    """The entries found: twice a filter's position, plus one when what it finds has to be checked.

    Each position is found for certain once per tree at most, and in doubt once before that.
    """

    several: Flags
    """By position: whether it has several routes, and so may be found by one after another."""
    seen: Longs
    """By such a position: twice the turn of the tree that last found it, plus one when that was certain."""
    entries: Ints
    used: Longs
    """How many entries there are, in its only place."""


class SummaryWalk(NamedTuple):
    """One summary in a segment's codes, and what has been worked out about it."""

    classes: Ints
    """By class: OWN, WILDCARD, PARENT, DEPTH and PATH of `bounds`."""
    subject: evaluate.Subject
    bounds: bounds.Bounds
    reach: Words
    evaluated: evaluate.Evaluated
    lacking: np.uint64
    """A bit for each label that no class has (see `routes.label_bit`)."""
    chain: Ints
    """Room for the states of a route, and in `line` for the classes above a class."""
    line: Ints


@uncounted
def emit(entry: int, turn: int, found: FoundFilters) -> None:
    """Note an entry unless its filter was found for this tree already."""
    position, certain = entry >> 1, 1 - (entry & 1)
    if found.several[position]:
        if found.seen[position] >= 2 * turn + certain:
            return
        found.seen[position] = 2 * turn + certain
    found.entries[found.used[0]] = entry
    found.used[0] += 1


@kernel
def follow(
    turn: int,
    asked: candidates.Candidates,
    table: evaluate.ExpressionTable,
    states: Ints,
    walk: SummaryWalk,
    members: candidates.ClassMembers,
    masks: Words,
    found: FoundFilters,
) -> Words:
    """Emit the candidates whose route leads to a class that has the value; gives the masks."""
    if len(asked.runs):
        place = np.zeros(2, np.int64)
        place[1] = asked.runs[0, candidates.FIRST]
        while not _follow_from(place, turn, asked, table, states, walk, members, masks, found):
            masks = evaluate.with_words(masks, walk.evaluated, walk.subject)
    return masks


@uncounted
def _follow_from(
    place: Longs,
    turn: int,
    asked: candidates.Candidates,
    table: evaluate.ExpressionTable,
    states: Ints,
    walk: SummaryWalk,
    members: candidates.ClassMembers,
    masks: Words,
    found: FoundFilters,
) -> bool:
    """Follow the candidates from a run and posting on; False when the masks have no room, with the place."""
    runs, postings, literals = asked.runs, asked.postings, asked.literals
    classes, known, reach = walk.classes, walk.bounds, walk.reach
    begin = place[1]
    for run in range(place[0], len(runs)):
        relation, paths = runs[run, candidates.RELATION], asked.paths[run]
        for at in range(max(begin, runs[run, candidates.FIRST]), runs[run, candidates.LAST]):
            if postings[at, candidates.NEEDS] & walk.lacking:
                continue
            stands = postings[at, candidates.STANDS]
            state: Any = np.int64(stands >> np.uint64(32))
            entry: Any = np.int64(stands & np.uint64(0xFFFFFFFF))
            sure, open_to = np.uint64(0), ~np.uint64(0)
            if known.paths.size:
                if reach[state, REACH_STAMP] != known.stamp:
                    _reach_paths(state, table.rows, states, walk)
                sure, open_to = reach[state, SURE], reach[state, OPEN]
                if not open_to & paths:
                    continue
                if sure & paths and relation > kinds.UNEQUAL:
                    emit(entry, turn, found)
                    continue
            doubtful = False
            for member in range(runs[run, candidates.LOW], runs[run, candidates.HIGH]):
                each: Any = np.int64(asked.classes[member])
                bit = np.uint64(1) << np.uint64(classes[each, bounds.PATH] & 63)
                if not open_to & bit:
                    continue
                if relation != candidates.EQUALITY and not candidates.class_passes(
                    relation, literals[at], each, table, members
                ):
                    continue
                leads = LEADS
                if not sure & bit:
                    leads = _route_leads(state, each, table, states, walk, masks)
                if leads == NO_ROOM:
                    place[0], place[1] = run, at
                    return False
                if leads == LEADS:
                    emit(entry, turn, found)
                    doubtful = False
                    break
                doubtful |= leads == UNDECIDED
            if doubtful:
                emit(entry | 1, turn, found)
        begin = 0
    return True


@uncounted
def _reach_paths(state: int, rows: Ints, states: Ints, walk: SummaryWalk) -> None:
    """Work out which paths a state's route leads to, and first for the states before it."""
    known, reach, chain, parent = walk.bounds, walk.reach, walk.chain, walk.bounds.paths.parent
    links = 0
    while reach[state, REACH_STAMP] != known.stamp:
        chain[links] = state
        links += 1
        state = states[state, BEFORE]
    sure, open_to = reach[state, SURE], reach[state, OPEN]
    for link in range(links - 1, -1, -1):
        state = chain[link]
        deep, code, condition = states[state, DEEP], states[state, CODE], states[state, CONDITION]
        holds, fails = ~np.uint64(0), np.uint64(0)
        if condition != kinds.TRUE:
            if known.masks[condition, bounds.STAMP] != known.stamp:
                bounds.work_out_bounds(condition, known, rows)
            holds, fails = known.masks[condition, bounds.ALL], known.masks[condition, bounds.NONE]
        sure_here, open_here = np.uint64(0), np.uint64(0)
        if open_to:
            for at in range(known.paths.low[code], known.paths.low[code + 1]):
                path = known.paths.order[at]
                bit = np.uint64(1) << np.uint64(path)
                if fails & bit:
                    continue
                above = parent[path]
                sure_above, open_above = False, False
                while above >= 0:
                    sure_above |= (sure >> np.uint64(above)) & np.uint64(1) != 0
                    open_above |= (open_to >> np.uint64(above)) & np.uint64(1) != 0
                    above = parent[above] if deep else -1
                if open_above:
                    open_here |= bit
                if sure_above:
                    sure_here |= holds & bit
        sure, open_to = sure_here, open_here
        reach[state, REACH_STAMP], reach[state, SURE], reach[state, OPEN] = known.stamp, sure, open_to


@uncounted
def _route_leads(
    state: int, each: int, table: evaluate.ExpressionTable, states: Ints, walk: SummaryWalk, masks: Words
) -> int:
    """Whether the route to a state leads to a class, by the classes for which its conditions hold."""
    classes, line, chain, evaluated = walk.classes, walk.line, walk.chain, walk.evaluated
    depth = classes[each, bounds.DEPTH]
    if depth >= MAX_LINE:
        return UNDECIDED
    links = 0
    while state:
        chain[links] = state
        links += 1
        state = states[state, BEFORE]
    for place in range(depth, -1, -1):
        line[place] = each
        each = classes[each, bounds.PARENT]
    ways = np.uint64(1)  # by place on the line: whether the links so far lead there
    for link in range(links - 1, -1, -1):
        state = chain[link]
        deep, code, condition = states[state, DEEP], states[state, CODE], states[state, CONDITION]
        following = _deeper(ways) if deep else ways << np.uint64(1)
        ways = np.uint64(0)
        for place in range(1 if link else depth, depth + 1):
            bit = np.uint64(1) << np.uint64(place)
            here = line[place]
            if not following & bit or (
                classes[here, bounds.OWN] != code and classes[here, bounds.WILDCARD] != code
            ):
                continue
            if condition != kinds.TRUE:
                if evaluated.stamp[condition] != walk.subject.number and not evaluate.work_out(
                    condition, table, walk.subject, evaluated, masks
                ):
                    return NO_ROOM
                if not evaluate.holds_at(masks, evaluated.place[condition], here):
                    continue
            ways |= bit
        if not ways:
            return ASTRAY
    return LEADS


@kernel
def _deeper(ways: np.uint64) -> np.uint64:
    """All bits above the lowest that is set."""
    return ~((ways & (~ways + np.uint64(1))) * np.uint64(2) - np.uint64(1)) if ways else ways
