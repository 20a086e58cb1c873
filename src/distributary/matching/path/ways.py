"""Routes over the classes of a summary, where its paths alone do not decide where they lead (see `walk`).

Three questions are answered here. Does a route lead to a class? To which classes does it lead? And where may
the node stand from which its last links start? Each looks at the conditions of the links, which are
worked out for all classes at once and remembered (see `evaluate`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from distributary.kernel import Ints, Words, fused, kernel, uncounted
from distributary.matching.path import bounds, evaluate
from distributary.matching.path import expressions as kinds
from distributary.matching.path.trie import BEFORE, CODE, CONDITION, DEEP
from distributary.matching.path.walk import MAX_LINE, SummaryWalk

ASTRAY, LEADS, UNDECIDED, NO_ROOM = range(4)
"""Whether a route leads to a class; that its line is too long; or that the masks have no room to tell."""


@fused
def route_leads(
    state: int, each: int, table: evaluate.ExpressionTable, states: Ints, walk: SummaryWalk, masks: Words
) -> int:
    """Whether the route to a state leads to a class."""
    depth = walk.classes[each, bounds.DEPTH]
    if depth >= MAX_LINE:
        return UNDECIDED
    evaluate.forget_many(walk.evaluated)
    links = _draw_line(state, each, states, walk)
    ready, ways = _lead_down(links, 0, depth, table, states, walk, masks)
    if not ready:
        return NO_ROOM
    return LEADS if ways else ASTRAY


@uncounted
def joint_places(
    state: int,
    up: int,
    each: int,
    table: evaluate.ExpressionTable,
    states: Ints,
    walk: SummaryWalk,
    masks: Words,
) -> tuple[bool, np.uint64]:
    """At which depths the node may stand that the last `up` links start from, as bits, for a class in reach.

    False when the masks have no room to tell. The class is less deep than `MAX_LINE`.
    """
    depth = walk.classes[each, bounds.DEPTH]
    evaluate.forget_many(walk.evaluated)
    links = _draw_line(state, each, states, walk)
    back = np.uint64(1) << np.uint64(depth)
    for link in range(up):
        # Those places that the link accepts, and then where the node before it may stand.
        ready, back = _accepted(walk.chain[link], back, depth, table, states, walk, masks)
        if not ready:
            return False, back
        back = _shallower(back) if states[walk.chain[link], DEEP] else back >> np.uint64(1)
    ready, ways = _lead_down(links, up, depth, table, states, walk, masks)
    return ready, ways & back


@fused
def _draw_line(state: int, each: int, states: Ints, walk: SummaryWalk) -> int:
    """Write down the states of a route, the last first, and the classes above a class; how many states."""
    links = 0
    while state:
        walk.chain[links] = state
        links += 1
        state = states[state, BEFORE]
    for place in range(walk.classes[each, bounds.DEPTH], -1, -1):
        walk.line[place] = each
        each = walk.classes[each, bounds.PARENT]
    return links


@fused
def _lead_down(
    links: int,
    last: int,
    depth: int,
    table: evaluate.ExpressionTable,
    states: Ints,
    walk: SummaryWalk,
    masks: Words,
) -> tuple[bool, np.uint64]:
    """The places on the line to which the links down to `last` lead; link 0 leads to its end only."""
    ways, ready = np.uint64(1), True
    for link in range(links - 1, last - 1, -1):
        ways = _deeper(ways) if states[walk.chain[link], DEEP] else ways << np.uint64(1)
        if not link:
            ways &= np.uint64(1) << np.uint64(depth)
        ready, ways = _accepted(walk.chain[link], ways, depth, table, states, walk, masks)
        if not ready or not ways:
            break
    return ready, ways


@fused
def _accepted(
    state: int,
    places: np.uint64,
    depth: int,
    table: evaluate.ExpressionTable,
    states: Ints,
    walk: SummaryWalk,
    masks: Words,
) -> tuple[bool, np.uint64]:
    """Those of the places on the line, below the document's, that the last link of a state accepts."""
    code, condition, evaluated = states[state, CODE], states[state, CONDITION], walk.evaluated
    found = np.uint64(0)
    for place in range(1, depth + 1):
        bit = np.uint64(1) << np.uint64(place)
        here = walk.line[place]
        if not places & bit or (
            walk.classes[here, bounds.OWN] != code and walk.classes[here, bounds.WILDCARD] != code
        ):
            continue
        if condition != kinds.TRUE:
            if evaluated.stamp[condition] != walk.subject.number and not evaluate.work_out(
                condition, table, walk.subject, evaluated, masks
            ):
                return False, found
            if not evaluate.holds_at(masks, evaluated.place[condition], here):
                continue
        found |= bit
    return True, found


@kernel
def _deeper(ways: np.uint64) -> np.uint64:
    """All bits above the lowest that is set."""
    return ~((ways & (~ways + np.uint64(1))) * np.uint64(2) - np.uint64(1)) if ways else ways


@kernel
def _shallower(ways: np.uint64) -> np.uint64:
    """All bits below the highest that is set."""
    for shift in (1, 2, 4, 8, 16, 32):
        ways |= ways >> np.uint64(shift)
    return ways >> np.uint64(1)


@uncounted
def work_out_classes(
    wanted: int, table: evaluate.ExpressionTable, states: Ints, walk: SummaryWalk, masks: Words
) -> bool:
    """Work out the mask of the classes to which a state's route leads, and first of the states before it.

    It begins at `walk.evaluated.state_place`. False when the masks have no room, to be asked again.
    """
    evaluated, subject, chain = walk.evaluated, walk.subject, walk.chain
    number, words = subject.number, (len(subject.parent) + 63) >> 6
    evaluate.forget_many(evaluated)
    links, state = 0, wanted
    while state and evaluated.state_stamp[state] != number:
        chain[links] = state
        links += 1
        state = states[state, BEFORE]
    for link in range(links - 1, -1, -1):
        state = chain[link]
        condition, code = states[state, CONDITION], states[state, CODE]
        if (
            condition != kinds.TRUE
            and evaluated.stamp[condition] != number
            and not evaluate.work_out(condition, table, subject, evaluated, masks)
        ):
            return False
        here: Any = np.int64(evaluated.used[0])
        if here + words > len(masks):
            return False
        masks[here : here + words] = 0
        before, deep = states[state, BEFORE], states[state, DEEP] != 0
        for at in range(subject.low[code], subject.low[code + 1]):
            each: Any = np.int64(subject.order[at])
            if condition != kinds.TRUE and not evaluate.holds_at(masks, evaluated.place[condition], each):
                continue
            above: Any = np.int64(subject.parent[each])
            while above >= 0:
                if (
                    above == 0
                    if not before
                    else evaluate.holds_at(masks, evaluated.state_place[before], above)
                ):
                    masks[here + (each >> 6)] |= np.uint64(1) << np.uint64(each & 63)
                    break
                above = np.int64(subject.parent[above]) if deep else np.int64(-1)
        evaluated.state_stamp[state], evaluated.state_place[state] = number, here
        evaluated.used[0] += words
    return True
