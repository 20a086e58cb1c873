"""Rewrites weighed by the thousand: every pair of sites that a rule takes, in machine code (Numba).

A rule (`rules.PairRule`) is three numbers here: what it does with two sites, `one` and `other`, in which
relation they stand, and how many levels apart. A climb tries all pairs, annealing draws one.

Rules:

- Only costs that `path_cost` knows, without PRODUCT, and floats alone: what a climb finds here is measured
  again, exactly, before it is applied.
- Every shape changes the costs within at most two intervals of the depth-first order, and nothing else: those
  are walked, the rest comes from running totals and extremes. A swap leaves the shape of the tree as it is
  and exchanges two labels.
- What is known of sites and of places in the order are arrays of records: machine code hands on few arrays
  fast, and many slowly.

Cost: a rewrite costs as much as the sites that it moves, mostly one or a few; a tree is read in linear time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import kernel
from distributary.plan.goal.expression import GoalFunction
from distributary.plan.trees.rules import PairRelation, RewriteShape

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Records = NDArray[Any]
Rule = tuple[int, int, int]
"""The numbers of a `PairRule`."""
Intervals = tuple[int, int, int, int]
"""Two intervals of the depth-first order: from and to, and again from and to (0 and 0 if there is one)."""

# Functions, shapes and relations are numbers in machine code.
FUNCTIONS = tuple(map(GoalFunction, ("SUM", "AVERAGE", "VARIANCE", "STD", "MIN", "MAX")))
SUM, AVERAGE, VARIANCE, STD, MIN, MAX = range(len(FUNCTIONS))
MOVE, HAND, SWAP, EXCHANGE = map(int, RewriteShape)
RISE, SWAP_UP, BESIDE, SIBLINGS, ELSEWHERE, PARTNERS = map(int, PairRelation)

SITE = np.dtype(
    [(name, np.int64) for name in ("parent", "position", "size", "first", "fanout")]
    + [(name, np.float64) for name in ("weight", "cost")]
)
"""What is known of a site: `position` in the order, `size` of its subtree, the `first` of its children."""

PLACE = np.dtype(
    [(name, np.int64) for name in ("site", "child")]
    + [(name, np.float64) for name in ("total", "squares", "before", "after", "walked")]
)
"""Of a place in the depth-first order: who stands there, totals and the extreme `before` it, the extreme from
it on (`after`), and room for the cost that a walk finds. The children of all sites are in `child`, in a row
for each site."""


class Layout(NamedTuple):
    """A tree as arrays; there is one place more than sites. Functions are those of the node and the system.

    `scale` holds what squares are taken about, and the weight of all sites.
    """

    links: Floats
    sites: Records
    places: Records
    scale: Floats
    functions: tuple[int, int]


def layout_of(links: Floats, weights: Floats, functions: tuple[int, int], parents: tuple[int, ...]) -> Layout:
    """The layout of a tree."""
    sites, places = np.zeros(len(parents), dtype=SITE), np.zeros(len(parents) + 1, dtype=PLACE)
    sites["parent"], sites["weight"] = parents, weights
    layout = Layout(links, sites, places, np.array([0.0, weights.sum()]), functions)
    read(layout)
    return layout


# Reading a tree


@kernel
def read(layout: Layout) -> float:
    """Derive everything from the parents; the system's cost."""
    _read_order(layout.sites, layout.places)
    _read_costs(layout)
    return system_cost(layout, (0, 0, 0, 0), 0.0, 0.0, np.inf, -np.inf)


@kernel
def _read_order(sites: Records, places: Records) -> None:
    """Children, the depth-first order, positions and sizes of subtrees."""
    count = len(sites)
    for site in range(count):
        sites[site].fanout = 0
        sites[site].size = 1
    for site in range(count):
        if sites[site].parent >= 0:
            sites[sites[site].parent].fanout += 1
    room = root = 0
    for site in range(count):
        sites[site].first = room
        room += sites[site].fanout
        sites[site].fanout = 0
    for site in range(count):
        parent = sites[site].parent
        if parent >= 0:
            places[sites[parent].first + sites[parent].fanout].child = site
            sites[parent].fanout += 1
        else:
            root = site
    waiting = np.empty(count, dtype=np.int64)
    waiting[0] = root
    left, place = 1, 0
    while left:
        left -= 1
        site = waiting[left]
        places[place].site = site
        sites[site].position = place
        place += 1
        for child in range(sites[site].fanout):
            waiting[left] = places[sites[site].first + child].child
            left += 1
    for place in range(count - 1, 0, -1):
        site = places[place].site
        sites[sites[site].parent].size += sites[site].size


@kernel
def _read_costs(layout: Layout) -> None:
    """Costs from the root down, and their running sums and extremes."""
    links, sites, places, scale, functions = layout
    node, system = functions
    count = len(sites)
    root = places[0].site
    nothing = 0.0 if node == SUM else (np.inf if node == MIN else -np.inf)
    own = links[root, root]
    sites[root].cost = nothing if np.isnan(own) else own
    for place in range(1, count):
        site = places[place].site
        parent = sites[site].parent
        sites[site].cost = join(node, sites[parent].cost, links[parent, site])
    if system in (VARIANCE, STD):
        total = 0.0
        for site in range(count):
            if sites[site].weight:
                total += sites[site].weight * sites[site].cost
        scale[0] = total / scale[1]
    places[0].before = places[count].after = np.inf if system == MIN else -np.inf
    for place in range(count):
        here, then = places[place], places[place + 1]
        weight, cost = sites[here.site].weight, sites[here.site].cost
        then.total, then.squares, then.before = here.total, here.squares, here.before
        if weight:
            distance = cost - scale[0]
            then.total += weight * distance
            then.squares += weight * distance * distance
            then.before = worse(system, here.before, cost)
    for place in range(count - 1, -1, -1):
        site = places[place].site
        rest = places[place + 1].after
        places[place].after = worse(system, rest, sites[site].cost) if sites[site].weight else rest


@kernel
def join(function: int, above: float, local: float) -> float:
    """A site's cost from that of its parent and its own link."""
    if function == SUM:
        return above + local
    return min(above, local) if function == MIN else max(above, local)


@kernel
def worse(system: int, one: float, other: float) -> float:
    """The extreme of two costs; of no interest where the system's function has none."""
    return min(one, other) if system == MIN else max(one, other)


@kernel
def system_cost(
    layout: Layout, changed: Intervals, total: float, squares: float, least: float, most: float
) -> float:
    """The system's cost when the sites in two intervals of the order have other costs, summed up here."""
    _, sites, places, scale, functions = layout
    start, end, more, last = changed
    system = functions[1]
    if system in (MIN, MAX):
        found = worse(system, places[start].before, least if system == MIN else most)
        for place in range(end, more):
            site = places[place].site
            if sites[site].weight:
                found = worse(system, found, sites[site].cost)
        return worse(system, found, places[max(end, last)].after)
    whole = places[len(sites)]
    total += whole.total - (places[end].total - places[start].total)
    total -= places[last].total - places[more].total
    if system == SUM:
        return total
    weight = scale[1]
    if system == AVERAGE:
        return total / float(weight)
    squares += whole.squares - (places[end].squares - places[start].squares)
    squares -= places[last].squares - places[more].squares
    variance = max((squares - total * total / weight) / max(weight - 1, 1.0), 0.0)
    return float(variance) if system == VARIANCE else float(variance**0.5)


# A rewrite


@kernel
def intervals(sites: Records, shape: int, one: int, other: int) -> Intervals:
    """Where in the order a rewrite changes costs: from and to, and again from and to (0 and 0 if once)."""
    start = int(sites[one].position)
    end = start + int(sites[one].size)
    if shape == MOVE:
        return start, end, 0, 0
    if shape == HAND:
        return start + 1, end, 0, 0
    more = int(sites[other].position)
    last = more + int(sites[other].size)
    if shape == EXCHANGE:
        start, more = start + 1, more + 1
    if more < start:
        start, end, more, last = more, last, start, end
    return (start, end, 0, 0) if last <= end else (start, end, more, last)


@kernel
def cost_after(layout: Layout, shape: int, one: int, other: int) -> float:
    """The system's cost after a rewrite; the new costs are left in `walked`."""
    _, sites, places, scale, _ = layout
    changed = intervals(sites, shape, one, other)
    start, end, more, last = changed
    total, squares, least, most = 0.0, 0.0, np.inf, -np.inf
    for turn in range(2):
        begin, until = (start, end) if turn == 0 else (more, last)
        for place in range(begin, until):
            label, cost = _new_cost(layout, shape, one, other, place, begin)
            places[place].walked = cost
            weight = sites[label].weight
            if weight:
                distance = cost - scale[0]
                total += weight * distance
                squares += weight * distance * distance
                least, most = min(least, cost), max(most, cost)
    return system_cost(layout, changed, total, squares, least, most)


@kernel
def _new_cost(layout: Layout, shape: int, one: int, other: int, place: int, begin: int) -> tuple[int, float]:
    """Who stands at a place of the order after the rewrite, and that site's cost."""
    links, sites, places, _, functions = layout
    label = places[place].site
    parent = sites[label].parent
    at = sites[parent].position
    if shape == SWAP:
        label = other if label == one else (one if label == other else label)
        parent = other if parent == one else (one if parent == other else parent)
    elif shape == MOVE:
        parent = other if label == one else parent
        at = sites[parent].position
    elif parent == one:
        parent, at = other, sites[other].position
    elif shape == EXCHANGE and parent == other:
        parent, at = one, sites[one].position
    # Within the interval a parent comes before its children, and has its new cost already.
    cost = places[at].walked if begin <= at < place else sites[places[at].site].cost
    return label, join(functions[0], cost, links[parent, label])


# Where a rule may be applied


@kernel
def above(sites: Records, site: int, levels: int) -> int:
    """The site so many levels up, or -1."""
    while levels > 0 and site >= 0:
        site = sites[site].parent
        levels -= 1
    return site


@kernel
def owner_of(sites: Records, rule: Rule, one: int, other: int) -> int:
    """Whose unit the pair is in if the rule takes it, else -1."""
    shape, relation, levels = rule
    parent = int(sites[one].parent)
    if one == other or (shape == HAND and sites[one].size == 1):
        return -1
    if relation == RISE:
        return other if above(sites, one, levels) == other else -1
    if relation == SWAP_UP:
        return one if parent >= 0 and above(sites, other, levels) == one else -1
    if relation == BESIDE:
        beside = above(sites, other, levels)
        return parent if beside >= 0 and beside != one and 0 <= parent == sites[beside].parent else -1
    if relation == SIBLINGS:
        alike = one < other and 0 <= parent == sites[other].parent
        return parent if alike and sites[one].size + sites[other].size > 2 else -1
    if parent in (-1, other):
        return -1
    if relation == ELSEWHERE:
        within = sites[other].position - sites[one].position
        return -1 if 0 <= within < sites[one].size else one
    return one if _partners(sites, one, other) else -1


@kernel
def _partners(sites: Records, one: int, other: int) -> bool:
    """Whether two sites may change places: out of each other's units, and not leaves side by side."""
    if sites[other].parent in (-1, one) or above(sites, one, 2) == other or above(sites, other, 2) == one:
        return False
    leaves = sites[one].size == 1 and sites[other].size == 1
    return not (leaves and sites[one].parent == sites[other].parent)


@kernel
def weigh_pairs(
    layout: Layout,
    rule: Rule,
    asked: Integers,
    owners: NDArray[np.bool_],
    signed: Floats,
    sign: int,
    least: float,
) -> tuple[Integers, Integers, Floats, int]:
    """Weigh a rule with all pairs whose first is among `asked`.

    A local rule stays in the units of `owners`; a directed one looks at others that are better off, by their
    `signed` costs. Benefits up to `least` are left out. Returned are the pairs, the benefit of each, and how
    many were looked at.
    """
    most = len(asked) * len(signed)
    ones, others, benefits = np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most)
    now = system_cost(layout, (0, 0, 0, 0), 0.0, 0.0, np.inf, -np.inf)
    kept = looked_at = 0
    shape, relation, _ = rule
    directed = relation >= ELSEWHERE
    for one in asked:
        for other in range(len(signed)):
            if directed and signed[other] >= signed[one]:
                continue
            owner = owner_of(layout.sites, rule, one, other)
            if owner < 0 or not (directed or owners[owner]):
                continue
            looked_at += 1
            benefit = sign * (now - cost_after(layout, shape, one, other))
            if benefit > least:
                ones[kept], others[kept], benefits[kept] = one, other, benefit
                kept += 1
    return ones[:kept].copy(), others[:kept].copy(), benefits[:kept].copy(), looked_at
