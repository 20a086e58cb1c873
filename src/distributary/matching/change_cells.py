"""The arrays behind `ChangeThresholds`, and the kernels that walk them.

A *lane* holds the members of one group that watch one attribute, each at a *place*, in ascending order of
tolerance as far as they were added together. A member that watches several attributes has a *term* in
each of several lanes. A *cell* is the memory of one lane for one topic: the value last delivered for each
place, NaN before the first.

A lane of more than `FAN` places has a tree over each of its cells. A node keeps, for the places below it,
the least value at or above which one may fire and the greatest at or below which one may. So an event
descends only to where somebody may fire, and a cell in which nobody does costs one look at the top.

The thresholds select, the comparison `abs(value - last) > tolerance` decides. Selecting by them is safe:
rounding is monotone, so if the computed distance exceeds the tolerance then so does the true one, hence
`value >= fl(last + tolerance)`, or `value <= fl(last - tolerance)` on the other side. Where even that
first value does not fire, the threshold is the next float.

Numbers read from arrays are widened to int64 before they are handed on, so that each kernel is compiled
for one set of types only.

Dead places have tolerance -1. They stay until everything is laid out anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.matching.kernel import kernel

wide: Callable[[Any], int] = np.int64  # type: ignore[assignment]

FAN = 16
"""Children of a node, and places of a leaf."""

LEVELS = 10
"""More than the levels of a tree over 2^31 places."""

DONE, CELLS_FULL, OUTPUT_FULL = 0, 1, 2

USED_CELLS, USED_VALUES, USED_NODES, TICK = 0, 1, 2, 3


class Lanes(NamedTuple):
    """Who watches what. The lanes of a group, and the terms of a slot, are linked lists that end in -1."""

    group_lane: NDArray[np.int32]
    next: NDArray[np.int32]
    attribute: NDArray[np.int32]
    start: NDArray[np.int64]
    size: NDArray[np.int32]
    capacity: NDArray[np.int32]
    first_cell: NDArray[np.int32]
    current_cell: NDArray[np.int32]
    slots: NDArray[np.int32]
    tolerances: NDArray[np.float64]
    slot_term: NDArray[np.int32]
    slot_terms: NDArray[np.int32]
    slot_tick: NDArray[np.int64]
    term_lane: NDArray[np.int32]
    term_place: NDArray[np.int32]
    term_next: NDArray[np.int32]


class Cells(NamedTuple):
    """What was delivered. `table` finds a cell by lane and topic; `used` counts what the pools have given."""

    table: NDArray[np.int32]
    lane: NDArray[np.int32]
    topic: NDArray[np.int32]
    start: NDArray[np.int64]
    tree: NDArray[np.int64]
    next: NDArray[np.int32]
    last: NDArray[np.float64]
    above: NDArray[np.float64]
    below: NDArray[np.float64]
    used: NDArray[np.int64]


class Shown(NamedTuple):
    """The events of one call: `values[value_row[attribute], row]`, NaN where there is no number."""

    values: NDArray[np.float64]
    value_row: NDArray[np.int32]
    topics: NDArray[np.int32]
    rows: NDArray[np.int32]
    groups: NDArray[np.int32]


class Fired(NamedTuple):
    """Where answers go, and room for the nodes that one descent visits."""

    rows: NDArray[np.int32]
    slots: NDArray[np.int32]
    nodes: NDArray[np.int32]


@kernel
def tree_nodes(capacity: int) -> int:
    """How many nodes the tree over so many places has."""
    nodes = wide(0)
    while capacity > FAN:
        capacity = (capacity + FAN - 1) // FAN
        nodes += capacity
    return nodes


@kernel
def _home(table: NDArray[np.int32], lane: int, topic: int) -> int:
    key = (np.uint64(lane) << np.uint64(32)) | np.uint64(topic)
    key = (key ^ (key >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    return wide((key >> np.uint64(32)) & np.uint64(len(table) - 1))


@kernel
def find_cell(cells: Cells, lane: int, topic: int) -> int:
    """The cell of a lane for a topic, or -1."""
    place = _home(cells.table, lane, topic)
    while cells.table[place] >= 0:
        cell = cells.table[place]
        if cells.lane[cell] == lane and cells.topic[cell] == topic:
            return wide(cell)
        place = (place + 1) & (len(cells.table) - 1)
    return wide(-1)


@kernel
def enter_cells(cells: Cells) -> None:
    """Enter all cells into an empty table."""
    for cell in range(cells.used[USED_CELLS]):
        place = _home(cells.table, wide(cells.lane[cell]), wide(cells.topic[cell]))
        while cells.table[place] >= 0:
            place = (place + 1) & (len(cells.table) - 1)
        cells.table[place] = cell


@kernel
def take_cell(lanes: Lanes, cells: Cells, lane: int, topic: int) -> int:
    """The cell of a lane for a topic, made when there is none; -1 when there is no room to make it."""
    cell = find_cell(cells, lane, topic)
    if cell >= 0:
        return cell
    cell = wide(cells.used[USED_CELLS])
    values, nodes = cells.used[USED_VALUES], cells.used[USED_NODES]
    capacity = wide(lanes.capacity[lane])
    above = tree_nodes(capacity)
    if cell >= len(cells.lane) or values + capacity > len(cells.last) or nodes + above > len(cells.above):
        return wide(-1)
    place = _home(cells.table, lane, topic)
    while cells.table[place] >= 0:
        place = (place + 1) & (len(cells.table) - 1)
    cells.table[place] = cell
    cells.lane[cell] = lane
    cells.topic[cell] = topic
    cells.next[cell] = lanes.first_cell[lane]
    lanes.first_cell[lane] = cell
    cells.start[cell] = values
    cells.tree[cell] = nodes
    for at in range(values, values + capacity):
        cells.last[at] = np.nan
    for at in range(nodes, nodes + above):
        cells.above[at] = -np.inf
        cells.below[at] = np.inf
    cells.used[USED_CELLS] = cell + 1
    cells.used[USED_VALUES] = values + capacity
    cells.used[USED_NODES] = nodes + above
    return cell


@kernel
def refresh_leaf(lanes: Lanes, cells: Cells, cell: int, leaf: int) -> None:
    """Compute the thresholds of a leaf from its places."""
    lane = cells.lane[cell]
    first = leaf * FAN
    end = min(first + FAN, lanes.size[lane])
    above, below = np.inf, -np.inf
    above_fires, below_fires = False, False
    for place in range(first, end):
        tolerance = lanes.tolerances[lanes.start[lane] + place]
        if tolerance < 0:
            continue
        last = cells.last[cells.start[cell] + place]
        if last != last:
            cells.above[cells.tree[cell] + leaf] = -np.inf
            cells.below[cells.tree[cell] + leaf] = np.inf
            return
        high, low = last + tolerance, last - tolerance
        if high < above:
            above, above_fires = high, high - last > tolerance
        elif high == above and high - last > tolerance:
            above_fires = True
        if low > below:
            below, below_fires = low, last - low > tolerance
        elif low == below and last - low > tolerance:
            below_fires = True
    cells.above[cells.tree[cell] + leaf] = above if above_fires else np.nextafter(above, np.inf)
    cells.below[cells.tree[cell] + leaf] = below if below_fires else np.nextafter(below, -np.inf)


@kernel
def _refresh_node(cells: Cells, children: int, count: int, node: int, at: int) -> None:
    """Compute the thresholds at `at` of node number `node`, whose level below starts at `children`."""
    above, below = np.inf, -np.inf
    for child in range(children + node * FAN, children + min(node * FAN + FAN, count)):
        above = min(above, cells.above[child])
        below = max(below, cells.below[child])
    cells.above[at] = above
    cells.below[at] = below


@kernel
def refresh_tree(lanes: Lanes, cells: Cells, cell: int) -> None:
    """Compute all thresholds of a cell from its values."""
    count = wide(lanes.capacity[cells.lane[cell]])
    if count <= FAN:
        return
    leaves = (count + FAN - 1) // FAN
    for leaf in range(leaves):
        refresh_leaf(lanes, cells, cell, leaf)
    children, count = cells.tree[cell], leaves
    while count > FAN:
        nodes = (count + FAN - 1) // FAN
        for node in range(nodes):
            _refresh_node(cells, children, count, node, children + count + node)
        children, count = children + count, nodes


@kernel
def _refresh_place(lanes: Lanes, cells: Cells, cell: int, place: int) -> None:
    """Compute the thresholds on the way from one place to the top."""
    count = wide(lanes.capacity[cells.lane[cell]])
    if count <= FAN:
        return
    node = place // FAN
    refresh_leaf(lanes, cells, cell, node)
    children, count = cells.tree[cell], (count + FAN - 1) // FAN
    while count > FAN:
        node //= FAN
        _refresh_node(cells, children, count, node, children + count + node)
        children, count = children + count, (count + FAN - 1) // FAN


@kernel
def refresh_lane(lanes: Lanes, cells: Cells, lane: int, place: int) -> None:
    """A new member took this place: let it fire on the next event of every topic."""
    cell = wide(lanes.first_cell[lane])
    while cell >= 0:
        cells.last[cells.start[cell] + place] = np.nan
        _refresh_place(lanes, cells, cell, place)
        cell = wide(cells.next[cell])


@kernel
def widen_cells(lanes: Lanes, cells: Cells, lane: int, before: int) -> None:
    """Give the cells of a lane that grew from `before` places new room; the pools must have it."""
    capacity = wide(lanes.capacity[lane])
    cell = wide(lanes.first_cell[lane])
    while cell >= 0:
        old, new = cells.start[cell], cells.used[USED_VALUES]
        for place in range(capacity):
            cells.last[new + place] = cells.last[old + place] if place < before else np.nan
        cells.start[cell] = new
        cells.tree[cell] = cells.used[USED_NODES]
        cells.used[USED_VALUES] += capacity
        cells.used[USED_NODES] += tree_nodes(capacity)
        refresh_tree(lanes, cells, cell)
        cell = wide(cells.next[cell])


@kernel
def _try_places(
    lanes: Lanes, cells: Cells, cell: int, first: int, end: int, value: float, fired: Fired, count: int
) -> int:
    """Compare the value with each of these places; move those that fire to it and append their slots."""
    lane = cells.lane[cell]
    members, memory = lanes.start[lane], cells.start[cell]
    tick = cells.used[TICK]
    for place in range(first, end):
        tolerance = lanes.tolerances[members + place]
        last = cells.last[memory + place]
        if tolerance >= 0 and (last != last or abs(value - last) > tolerance):
            cells.last[memory + place] = value
            slot = lanes.slots[members + place]
            if lanes.slot_terms[slot] > 1:
                if lanes.slot_tick[slot] == tick:
                    continue
                lanes.slot_tick[slot] = tick
            fired.slots[count] = slot
            count += 1
    return count


@kernel
def _advance_cell(lanes: Lanes, cells: Cells, cell: int, value: float, fired: Fired, count: int) -> int:
    """Show a value to a cell: descend level by level to the leaves where somebody may fire, and back up."""
    lane = cells.lane[cell]
    capacity, size = wide(lanes.capacity[lane]), wide(lanes.size[lane])
    if capacity <= FAN:
        return _try_places(lanes, cells, cell, wide(0), size, value, fired, count)
    offsets = np.empty(LEVELS, np.int64)  # where each level's nodes start in the pools
    counts = np.empty(LEVELS, np.int64)
    visited = np.empty(LEVELS + 1, np.int64)  # where each level's visited nodes start in fired.nodes
    levels = 0
    offset, nodes = cells.tree[cell], (capacity + FAN - 1) // FAN
    while True:
        offsets[levels], counts[levels] = offset, nodes
        levels += 1
        if nodes <= FAN:
            break
        offset, nodes = offset + nodes, (nodes + FAN - 1) // FAN
    found = 0
    visited[levels] = 0
    for level in range(levels - 1, -1, -1):
        visited[level] = found
        parents = 1 if level == levels - 1 else visited[level] - visited[level + 1]
        for parent_at in range(parents):
            parent = 0 if level == levels - 1 else fired.nodes[visited[level + 1] + parent_at]
            for node in range(parent * FAN, min(parent * FAN + FAN, counts[level])):
                if value >= cells.above[offsets[level] + node] or value <= cells.below[offsets[level] + node]:
                    fired.nodes[found] = node
                    found += 1
    for at in range(visited[0], found):
        leaf = wide(fired.nodes[at])
        count = _try_places(lanes, cells, cell, leaf * FAN, min(leaf * FAN + FAN, size), value, fired, count)
        refresh_leaf(lanes, cells, cell, leaf)
    for level in range(1, levels):
        for at in range(visited[level], visited[level - 1]):
            node = wide(fired.nodes[at])
            _refresh_node(cells, offsets[level - 1], counts[level - 1], node, offsets[level] + node)
    return count


@kernel
def _recentre(lanes: Lanes, cells: Cells, shown: Shown, row: int, slot: int) -> None:
    """A slot with several attributes fired: all of them that the event carries are delivered."""
    term = lanes.slot_term[slot]
    while term >= 0:
        lane, place = lanes.term_lane[term], wide(lanes.term_place[term])
        cell = wide(lanes.current_cell[lane])
        if cell >= 0:
            value = shown.values[shown.value_row[lanes.attribute[lane]], row]
            if cells.last[cells.start[cell] + place] != value:
                cells.last[cells.start[cell] + place] = value
                _refresh_place(lanes, cells, cell, place)
        term = lanes.term_next[term]


@kernel
def _open_cells(lanes: Lanes, cells: Cells, shown: Shown, row: int, group: int) -> int:
    """Set the current cell of each lane of the group; the most that can fire, or -1 without room."""
    room = wide(0)
    topic = wide(shown.topics[row])
    lane = wide(lanes.group_lane[group])
    while lane >= 0:
        lanes.current_cell[lane] = -1
        value_row = shown.value_row[lanes.attribute[lane]]
        if value_row >= 0 and shown.values[value_row, row] == shown.values[value_row, row]:
            cell = take_cell(lanes, cells, lane, topic)
            if cell < 0:
                return wide(-1)
            lanes.current_cell[lane] = cell
            room += lanes.size[lane]
        lane = wide(lanes.next[lane])
    return room


@kernel
def fire(lanes: Lanes, cells: Cells, shown: Shown, fired: Fired, at: int) -> tuple[int, int, int]:
    """Show the pairs of row and group from number `at` on.

    Returns how many fired, the number of the first pair not shown, and why it stopped there. Nothing of that
    pair has happened yet, so the caller makes room and goes on with it.
    """
    count = wide(0)
    while at < len(shown.rows):
        row, group = wide(shown.rows[at]), wide(shown.groups[at])
        if group >= len(lanes.group_lane) or lanes.group_lane[group] < 0:
            at += 1
            continue
        room = _open_cells(lanes, cells, shown, row, group)
        if room < 0:
            return count, at, CELLS_FULL
        if count + room > len(fired.slots):
            return count, at, OUTPUT_FULL
        cells.used[TICK] += 1
        before = count
        lane = lanes.group_lane[group]
        while lane >= 0:
            cell = wide(lanes.current_cell[lane])
            if cell >= 0:
                value = shown.values[shown.value_row[lanes.attribute[lane]], row]
                count = _advance_cell(lanes, cells, cell, value, fired, count)
            lane = lanes.next[lane]
        for one in range(before, count):
            fired.rows[one] = row
            if lanes.slot_terms[fired.slots[one]] > 1:
                _recentre(lanes, cells, shown, row, wide(fired.slots[one]))
        at += 1
    return count, at, DONE


@kernel
def count_facts(lanes: Lanes, cells: Cells) -> int:
    """How many values have been delivered to members that still exist."""
    count = 0
    for cell in range(cells.used[USED_CELLS]):
        lane = cells.lane[cell]
        for place in range(lanes.size[lane]):
            last = cells.last[cells.start[cell] + place]
            if lanes.tolerances[lanes.start[lane] + place] >= 0 and last == last:
                count += 1
    return count


@kernel
def list_facts(
    lanes: Lanes,
    cells: Cells,
    slots: NDArray[np.int32],
    attributes: NDArray[np.int32],
    topics: NDArray[np.int32],
    values: NDArray[np.float64],
) -> None:
    """Write those values out, with the slot, attribute and topic of each."""
    count = 0
    for cell in range(cells.used[USED_CELLS]):
        lane = cells.lane[cell]
        for place in range(lanes.size[lane]):
            last = cells.last[cells.start[cell] + place]
            if lanes.tolerances[lanes.start[lane] + place] >= 0 and last == last:
                slots[count] = lanes.slots[lanes.start[lane] + place]
                attributes[count] = lanes.attribute[lane]
                topics[count] = cells.topic[cell]
                values[count] = last
                count += 1


@kernel
def recall_facts(
    lanes: Lanes,
    cells: Cells,
    slots: NDArray[np.int32],
    attributes: NDArray[np.int32],
    topics: NDArray[np.int32],
    values: NDArray[np.float64],
    at: int,
) -> int:
    """Enter delivered values from number `at` on; returns the first for which there was no room."""
    while at < len(slots):
        term = lanes.slot_term[slots[at]]
        while term >= 0 and lanes.attribute[lanes.term_lane[term]] != attributes[at]:
            term = lanes.term_next[term]
        if term >= 0:
            cell = take_cell(lanes, cells, wide(lanes.term_lane[term]), wide(topics[at]))
            if cell < 0:
                return at
            cells.last[cells.start[cell] + lanes.term_place[term]] = values[at]
        at += 1
    for cell in range(cells.used[USED_CELLS]):
        refresh_tree(lanes, cells, cell)
    return at
