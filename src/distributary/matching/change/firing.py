"""Kernels that show events to the members of groups, and keep the trees of thresholds over their cells.

A lane of more than `FAN` places has a tree over each of its cells. A node keeps, for the places below it,
the least value at or above which one may fire and the greatest at or below which one may. So an event
descends only to where somebody may fire, and a cell in which nobody does costs one look at the top.

The thresholds select, the comparison `abs(value - last) > tolerance` decides. Selecting by them is safe:
rounding is monotone, so if the computed distance exceeds the tolerance then so does the true one, hence
`value >= fl(last + tolerance)`, or `value <= fl(last - tolerance)` on the other side. Where even that
first value does not fire, the threshold is the next float.

`fire` takes the arrays it needs out of the tuples once, for taking them out counts references, which costs
more than a comparison.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Floats, Ints, kernel
from distributary.matching.change.cells import FAN, find_place, make_cell, tree_nodes, wide
from distributary.matching.change.layout import TICK, USED_NODES, USED_VALUES, Cells, Lanes

LEVELS = 10
"""More than the levels of a tree over 2^31 places."""

DONE, CELLS_FULL, OUTPUT_FULL = range(3)
"""Why `fire` stopped."""


class ShownEvents(NamedTuple):
    """The events of one call, and the pairs of a row and a group they are shown to."""

    values: Floats
    """`values[value_row[attribute], row]` is NaN where there is no number; a value row of -1: nowhere."""
    value_row: Ints
    topics: Ints
    rows: Ints
    groups: Ints


class FiredMembers(NamedTuple):
    """Where answers go, and room for the nodes that one descent visits and the places that it finds."""

    rows: Ints
    slots: Ints
    places: Ints
    nodes: Ints


class CellView(NamedTuple):
    """One cell: tolerances and last values by place, thresholds by node of its tree."""

    tolerances: Floats
    last: Floats
    above: Floats
    below: Floats


@kernel
def view_of(lanes: Lanes, cells: Cells, cell: int) -> CellView:
    """The stretches of the arrays that belong to a cell."""
    lane = cells.lane[cell]
    members, values, tree = lanes.start[lane], cells.start[cell], cells.tree[cell]
    capacity = wide(lanes.capacity[lane])
    nodes = tree_nodes(capacity)
    return CellView(
        lanes.tolerances[members : members + capacity],
        cells.last[values : values + capacity],
        cells.above[tree : tree + nodes],
        cells.below[tree : tree + nodes],
    )


@kernel
def _refresh_leaf(view: CellView, leaf: int) -> None:
    """Compute the thresholds of a leaf from its places."""
    tolerances, last, above, below = view
    least, greatest = np.inf, -np.inf
    least_fires, greatest_fires = False, False
    for place in range(leaf * FAN, min(leaf * FAN + FAN, len(tolerances))):
        tolerance, value = tolerances[place], last[place]
        if tolerance < 0:
            continue
        if value != value:
            above[leaf], below[leaf] = -np.inf, np.inf
            return
        high, low = value + tolerance, value - tolerance
        if high < least:
            least, least_fires = high, high - value > tolerance
        elif high == least and high - value > tolerance:
            least_fires = True
        if low > greatest:
            greatest, greatest_fires = low, value - low > tolerance
        elif low == greatest and value - low > tolerance:
            greatest_fires = True
    above[leaf] = least if least_fires else np.nextafter(least, np.inf)
    below[leaf] = greatest if greatest_fires else np.nextafter(greatest, -np.inf)


@kernel
def _refresh_node(view: CellView, children: int, count: int, node: int) -> None:
    """Compute the thresholds of a node. The `count` nodes of the level below it start at `children`."""
    _, _, above, below = view
    least, greatest = np.inf, -np.inf
    for child in range(children + node * FAN, children + min(node * FAN + FAN, count)):
        least = min(least, above[child])
        greatest = max(greatest, below[child])
    above[children + count + node] = least
    below[children + count + node] = greatest


@kernel
def _refresh_path(view: CellView, place: int) -> None:
    """Compute the thresholds on the way from one place of a cell to the top."""
    count = wide(len(view.tolerances))
    if count <= FAN:
        return
    node = place // FAN
    _refresh_leaf(view, node)
    children, count = wide(0), (count + FAN - 1) // FAN
    while count > FAN:
        node //= FAN
        _refresh_node(view, children, count, node)
        children, count = children + count, (count + FAN - 1) // FAN


@kernel
def _refresh_tree(view: CellView) -> None:
    """Compute all thresholds of a cell from its values."""
    count = wide(len(view.tolerances))
    if count <= FAN:
        return
    children, count = wide(0), (count + FAN - 1) // FAN
    for leaf in range(count):
        _refresh_leaf(view, leaf)
    while count > FAN:
        nodes = (count + FAN - 1) // FAN
        for node in range(nodes):
            _refresh_node(view, children, count, node)
        children, count = children + count, nodes


@kernel
def admit_member(lanes: Lanes, cells: Cells, lane: int, place: int) -> None:
    """A new member took this place: let it fire on the next event of every topic."""
    cell = lanes.first_cell[lane]
    while cell >= 0:
        view = view_of(lanes, cells, wide(cell))
        view.last[place] = np.nan
        _refresh_path(view, place)
        cell = cells.next[cell]


@kernel
def widen_cells(lanes: Lanes, cells: Cells, lane: int, before: int) -> None:
    """Give the cells of a lane that grew from `before` places new room; the pools must have it."""
    capacity = wide(lanes.capacity[lane])
    cell = lanes.first_cell[lane]
    while cell >= 0:
        old, new = cells.start[cell], cells.used[USED_VALUES]
        for place in range(capacity):
            cells.last[new + place] = cells.last[old + place] if place < before else np.nan
        cells.start[cell] = new
        cells.tree[cell] = cells.used[USED_NODES]
        cells.used[USED_VALUES] += capacity
        cells.used[USED_NODES] += tree_nodes(capacity)
        _refresh_tree(view_of(lanes, cells, wide(cell)))
        cell = cells.next[cell]


@kernel
def refresh_topics(lanes: Lanes, cells: Cells, topics: Ints) -> None:
    """Compute all thresholds of the cells of these topics."""
    for topic in topics:
        cell = cells.topic_cell[topic]
        while cell >= 0:
            if lanes.capacity[cells.lane[cell]] > FAN:
                _refresh_tree(view_of(lanes, cells, wide(cell)))
            cell = cells.fellow[cell]


@kernel
def _try_places(tolerances: Floats, last: Floats, value: float, places: Ints, found: int, first: int) -> int:
    """Move the places that fire to the value, and append them, counted from `first`, to `places`."""
    for place in range(len(tolerances)):
        tolerance, before = tolerances[place], last[place]
        if tolerance >= 0 and (before != before or abs(value - before) > tolerance):
            last[place] = value
            places[found] = first + place
            found += 1
    return found


@kernel
def _descend(lanes: Lanes, cells: Cells, cell: int, value: float, places: Ints, nodes: Ints) -> int:
    """Move all places of a cell that fire to the value, and list them in `places`.

    Goes down level by level to the leaves where somebody may fire, and back up through the nodes it visited.
    """
    view = view_of(lanes, cells, cell)  # made here: in `fire` it would slow down the cells that need none
    tolerances, last, above, below = view
    starts = np.empty(LEVELS, np.int64)  # of the nodes of each level in `above` and `below`
    counts = np.empty(LEVELS, np.int64)
    visits = np.empty(LEVELS + 1, np.int64)  # of the visited nodes of each level in `nodes`
    starts[0], counts[0], top = 0, (wide(len(tolerances)) + FAN - 1) // FAN, 0
    while counts[top] > FAN:
        starts[top + 1], counts[top + 1] = starts[top] + counts[top], (counts[top] + FAN - 1) // FAN
        top += 1
    # Down: all nodes of the top level, then the children of those where somebody may fire.
    visited = 0
    visits[top] = 0
    for node in range(counts[top]):
        if value >= above[starts[top] + node] or value <= below[starts[top] + node]:
            nodes[visited] = node
            visited += 1
    for level in range(top - 1, -1, -1):
        visits[level] = visited
        for at in range(visits[level + 1], visits[level]):
            first = wide(nodes[at]) * FAN
            for node in range(first, min(first + FAN, counts[level])):
                if value >= above[starts[level] + node] or value <= below[starts[level] + node]:
                    nodes[visited] = node
                    visited += 1
    # The places of the leaves, then the thresholds on the way up.
    found = wide(0)
    for at in range(visits[0], visited):
        first = wide(nodes[at]) * FAN
        leaf = slice(first, min(first + FAN, len(tolerances)))
        found = _try_places(tolerances[leaf], last[leaf], value, places, found, first)
        _refresh_leaf(view, wide(nodes[at]))
    for level in range(1, top + 1):
        for at in range(visits[level], visits[level - 1]):
            _refresh_node(view, starts[level - 1], counts[level - 1], wide(nodes[at]))
    return found


@kernel
def _recentre(lanes: Lanes, cells: Cells, shown: ShownEvents, row: int, slot: int) -> None:
    """A slot with several attributes fired: all of them that the event carries are delivered."""
    term = lanes.slot_term[slot]
    while term >= 0:
        lane, place = lanes.term_lane[term], wide(lanes.term_place[term])
        cell = wide(lanes.current_cell[lane])
        if cell >= 0:
            value = shown.values[shown.value_row[lanes.attribute[lane]], row]
            view = view_of(lanes, cells, cell)
            if view.last[place] != value:
                view.last[place] = value
                _refresh_path(view, place)
        term = lanes.term_next[term]


@kernel
def fire(
    lanes: Lanes, cells: Cells, shown: ShownEvents, fired: FiredMembers, at: int, count: int
) -> tuple[int, int, int]:
    """Show the pairs of row and group from number `at` on, and append to the `count` answers so far.

    Returns the number of the first pair not shown, the count of answers, and why it stopped. Nothing of that
    pair has happened yet, so the caller makes room and goes on with it.
    """
    # One long kernel: as functions of their own its steps would take the arrays out of the tuples for every
    # pair, and most groups have so few members that this is what a pair would mostly cost.
    group_lane, lane_next, lane_attribute = lanes.group_lane, lanes.next, lanes.attribute
    lane_start, lane_size, lane_capacity = lanes.start, lanes.size, lanes.capacity
    current_cell, slots, tolerances = lanes.current_cell, lanes.slots, lanes.tolerances
    slot_terms, slot_tick = lanes.slot_terms, lanes.slot_tick
    table, cell_lane, cell_topic = cells.table, cells.lane, cells.topic
    cell_start, last, used = cells.start, cells.last, cells.used
    values, value_row, topics = shown.values, shown.value_row, shown.topics
    rows, groups = shown.rows, shown.groups
    fired_rows, fired_slots, places, nodes = fired.rows, fired.slots, fired.places, fired.nodes
    while at < len(rows):
        row, group = wide(rows[at]), groups[at]
        lane = wide(group_lane[group]) if group < len(group_lane) else wide(-1)
        # Find or make the cell of each lane whose attribute the event carries, before anything changes.
        room = 0
        while lane >= 0:
            current_cell[lane] = -1
            attribute = value_row[lane_attribute[lane]]
            if attribute >= 0 and values[attribute, row] == values[attribute, row]:
                topic = wide(topics[row])
                place = find_place(table, cell_lane, cell_topic, lane, topic)
                cell = wide(table[place])
                if cell < 0:
                    cell = make_cell(lanes, cells, lane, topic, place)
                    if cell < 0:
                        return at, count, CELLS_FULL
                current_cell[lane] = cell
                room += lane_size[lane]
            lane = wide(lane_next[lane])
        if count + room > len(fired_slots):
            return at, count, OUTPUT_FULL
        # Let the members of each lane fire, each slot once for an event.
        used[TICK] += 1
        tick = used[TICK]
        before = count
        several = False
        lane = wide(group_lane[group]) if room else wide(-1)
        while lane >= 0:
            cell = wide(current_cell[lane])
            if cell >= 0:
                value = values[value_row[lane_attribute[lane]], row]
                first, capacity = lane_start[lane], lane_capacity[lane]
                if capacity <= FAN:
                    lane_tolerances = tolerances[first : first + capacity]
                    lane_last = last[cell_start[cell] : cell_start[cell] + capacity]
                    found = _try_places(lane_tolerances, lane_last, value, places, wide(0), wide(0))
                else:
                    found = _descend(lanes, cells, cell, value, places, nodes)
                for one in range(found):
                    slot = slots[first + places[one]]
                    if slot_terms[slot] > 1:
                        several = True
                        if slot_tick[slot] == tick:
                            continue
                        slot_tick[slot] = tick
                    fired_rows[count] = row
                    fired_slots[count] = slot
                    count += 1
            lane = wide(lane_next[lane])
        if several:
            for one in range(before, count):
                if slot_terms[fired_slots[one]] > 1:
                    _recentre(lanes, cells, shown, row, wide(fired_slots[one]))
        at += 1
    return at, count, DONE


@kernel
def fire_alone(held: Any, numbers: Floats, topic: int, groups: Ints) -> tuple[int, int, int]:
    """Show one event to these groups, as `fire` does; `held` are the lanes, the cells and where answers go.

    `numbers` has each attribute, NaN where it is no number.
    """
    lanes, cells, fired = held.tables
    places = np.arange(len(numbers)).astype(np.int32)
    topics, rows = np.full(1, topic, np.int32), np.zeros(len(groups), np.int32)
    shown = ShownEvents(numbers.reshape(-1, 1), places, topics, rows, groups)
    return fire(lanes, cells, shown, fired, 0, 0)
