"""A walk over one summary: its classes in a segment's codes, and the paths to which routes lead in it.

A route is first tried on whole paths of the summary, in a few machine words (see `bounds`): the paths to
every class of which it leads, and those to some class of which it may. Only where that leaves it open are
classes looked at (see `follow`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from distributary.kernel import Ints, Words, uncounted
from distributary.matching.path import bounds, evaluate
from distributary.matching.path import expressions as kinds
from distributary.matching.path.trie import BEFORE, CODE, CONDITION, DEEP

MAX_LINE = 64
"""Classes this deep are left to the check: a route is followed in the bits of one word."""

LONGEST_CHAIN = 1 << 12
"""More states than a route can have."""

DOCUMENT = np.uint64(1)
"""The bit of the document's own path."""

SURE, OPEN, REACH_STAMP = range(3)
"""The columns of `reach`, by state, when its stamp is that of the paths: the paths of which its route leads
to every class, and those of which it may lead to some."""


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
    layout: int
    """The number of its layout (see `workspace`), of no meaning when its paths are too many."""


@uncounted
def reach_paths(state: int, rows: Ints, states: Ints, walk: SummaryWalk) -> None:
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
