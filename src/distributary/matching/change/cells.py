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

Two habits of the kernels are for the compiler. They take the arrays they need out of the tuples once, for
taking them out counts references, which costs more than a comparison. And numbers read from arrays are
widened to int64 before they are handed on, so that each kernel is compiled for one set of types only.

Dead places have tolerance -1. They stay until everything is laid out anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import kernel

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
    """What was delivered. `table` finds a cell by lane and topic; `used` counts what the pools have given.

    The cells of a lane (from `Lanes.first_cell`, by `next`) and those of a topic (from `topic_cell`, by
    `fellow`) are linked lists that end in -1. Topics need a place in `topic_cell` before they are shown.
    """

    table: NDArray[np.int32]
    lane: NDArray[np.int32]
    topic: NDArray[np.int32]
    start: NDArray[np.int64]
    tree: NDArray[np.int64]
    next: NDArray[np.int32]
    fellow: NDArray[np.int32]
    topic_cell: NDArray[np.int32]
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
    """Where answers go, and room for the nodes that one descent visits and the places that it finds."""

    rows: NDArray[np.int32]
    slots: NDArray[np.int32]
    places: NDArray[np.int32]
    nodes: NDArray[np.int32]


Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Floats = NDArray[np.float64]


@kernel
def tree_nodes(capacity: int) -> int:
    """How many nodes the tree over so many places has."""
    nodes = wide(0)
    while capacity > FAN:
        capacity = (capacity + FAN - 1) // FAN
        nodes += capacity
    return nodes


@kernel
def hashed_place(size: int, lane: int, topic: int) -> int:
    """Where in a table of this size the search for a cell starts."""
    key = (np.uint64(lane) << np.uint64(32)) | np.uint64(topic)
    key = (key ^ (key >> np.uint64(29))) * np.uint64(0x9E3779B97F4A7C15)
    return wide((key >> np.uint64(32)) & np.uint64(size - 1))


@kernel
def find_place(table: Ints, cell_lane: Ints, cell_topic: Ints, lane: int, topic: int) -> int:
    """Where in the table the cell of a lane for a topic stands, or would stand."""
    place = hashed_place(len(table), lane, topic)
    while table[place] >= 0:
        cell = table[place]
        if cell_lane[cell] == lane and cell_topic[cell] == topic:
            break
        place = (place + 1) & (len(table) - 1)
    return place


@kernel
def enter_cells(cells: Cells) -> None:
    """Enter all cells into an empty table."""
    table, cell_lane, cell_topic = cells.table, cells.lane, cells.topic
    for cell in range(cells.used[USED_CELLS]):
        lane, topic = wide(cell_lane[cell]), wide(cell_topic[cell])
        table[find_place(table, cell_lane, cell_topic, lane, topic)] = cell


@kernel
def forget_cells(lanes: Lanes, cells: Cells) -> None:
    """Give back all cells, at the cost of those that were used."""
    table, used = cells.table, cells.used
    for cell in range(used[USED_CELLS]):
        lane, topic = wide(cells.lane[cell]), wide(cells.topic[cell])
        place = hashed_place(len(table), lane, topic)
        while table[place] != cell:  # past the holes that others left
            place = (place + 1) & (len(table) - 1)
        table[place] = -1
        lanes.first_cell[lane] = -1
        cells.topic_cell[topic] = -1
    used[USED_CELLS] = used[USED_VALUES] = used[USED_NODES] = 0


@kernel
def make_cell(lanes: Lanes, cells: Cells, lane: int, topic: int, place: int) -> int:
    """A new cell, entered at this place of the table; -1 when there is no room for it."""
    used = cells.used
    cell = wide(used[USED_CELLS])
    values, nodes = used[USED_VALUES], used[USED_NODES]
    capacity = wide(lanes.capacity[lane])
    above = tree_nodes(capacity)
    if cell >= len(cells.lane) or values + capacity > len(cells.last) or nodes + above > len(cells.above):
        return wide(-1)
    cells.table[place] = cell
    cells.lane[cell] = lane
    cells.topic[cell] = topic
    cells.next[cell] = lanes.first_cell[lane]
    lanes.first_cell[lane] = cell
    cells.fellow[cell] = cells.topic_cell[topic]
    cells.topic_cell[topic] = cell
    cells.start[cell] = values
    cells.tree[cell] = nodes
    cells.last[values : values + capacity] = np.nan
    cells.above[nodes : nodes + above] = -np.inf
    cells.below[nodes : nodes + above] = np.inf
    used[USED_CELLS] = cell + 1
    used[USED_VALUES] = values + capacity
    used[USED_NODES] = nodes + above
    return cell


@kernel
def _refresh_leaf(tolerances: Floats, last: Floats, above: Floats, below: Floats, at: int) -> None:
    """Compute the thresholds at `at` from the places of a leaf."""
    least, greatest = np.inf, -np.inf
    least_fires, greatest_fires = False, False
    for place in range(len(tolerances)):
        tolerance, value = tolerances[place], last[place]
        if tolerance < 0:
            continue
        if value != value:
            above[at], below[at] = -np.inf, np.inf
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
    above[at] = least if least_fires else np.nextafter(least, np.inf)
    below[at] = greatest if greatest_fires else np.nextafter(greatest, -np.inf)


@kernel
def _refresh_node(above: Floats, below: Floats, children: int, count: int, node: int) -> None:
    """Compute the thresholds of a node. The `count` nodes of the level below it start at `children`."""
    least, greatest = np.inf, -np.inf
    for child in range(children + node * FAN, children + min(node * FAN + FAN, count)):
        least = min(least, above[child])
        greatest = max(greatest, below[child])
    above[children + count + node] = least
    below[children + count + node] = greatest


@kernel
def _refresh_path(
    tolerances: Floats, last: Floats, above: Floats, below: Floats, tree: int, place: int
) -> None:
    """Compute the thresholds on the way from one place of a cell to the top."""
    count = wide(len(tolerances))
    if count <= FAN:
        return
    node = place // FAN
    leaf = slice(node * FAN, min(node * FAN + FAN, count))
    _refresh_leaf(tolerances[leaf], last[leaf], above, below, tree + node)
    children, count = tree, (count + FAN - 1) // FAN
    while count > FAN:
        node //= FAN
        _refresh_node(above, below, children, count, node)
        children, count = children + count, (count + FAN - 1) // FAN


@kernel
def _refresh_tree(tolerances: Floats, last: Floats, above: Floats, below: Floats, tree: int) -> None:
    """Compute all thresholds of a cell from its values."""
    count = wide(len(tolerances))
    if count <= FAN:
        return
    leaves = (count + FAN - 1) // FAN
    for node in range(leaves):
        leaf = slice(node * FAN, min(node * FAN + FAN, count))
        _refresh_leaf(tolerances[leaf], last[leaf], above, below, tree + node)
    children, count = tree, leaves
    while count > FAN:
        nodes = (count + FAN - 1) // FAN
        for node in range(nodes):
            _refresh_node(above, below, children, count, node)
        children, count = children + count, nodes


@kernel
def admit_member(lanes: Lanes, cells: Cells, lane: int, place: int) -> None:
    """A new member took this place: let it fire on the next event of every topic."""
    members = slice(lanes.start[lane], lanes.start[lane] + lanes.capacity[lane])
    cell = lanes.first_cell[lane]
    while cell >= 0:
        memory = slice(cells.start[cell], cells.start[cell] + lanes.capacity[lane])
        cells.last[cells.start[cell] + place] = np.nan
        _refresh_path(
            lanes.tolerances[members], cells.last[memory], cells.above, cells.below, cells.tree[cell], place
        )
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
        cell = cells.next[cell]
    refresh_cells(lanes, cells, lane)


@kernel
def refresh_cells(lanes: Lanes, cells: Cells, lane: int) -> None:
    """Compute all thresholds of the cells of a lane."""
    members = slice(lanes.start[lane], lanes.start[lane] + lanes.capacity[lane])
    cell = lanes.first_cell[lane]
    while cell >= 0:
        memory = slice(cells.start[cell], cells.start[cell] + lanes.capacity[lane])
        _refresh_tree(
            lanes.tolerances[members], cells.last[memory], cells.above, cells.below, cells.tree[cell]
        )
        cell = cells.next[cell]


@kernel
def refresh_topics(lanes: Lanes, cells: Cells, topics: Ints) -> None:
    """Compute all thresholds of the cells of these topics."""
    for topic in topics:
        cell = cells.topic_cell[topic]
        while cell >= 0:
            lane = cells.lane[cell]
            start, capacity = lanes.start[lane], wide(lanes.capacity[lane])
            if capacity > FAN:
                memory = slice(cells.start[cell], cells.start[cell] + capacity)
                _refresh_tree(
                    lanes.tolerances[start : start + capacity],
                    cells.last[memory],
                    cells.above,
                    cells.below,
                    cells.tree[cell],
                )
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
def _descend(
    tolerances: Floats,
    last: Floats,
    above: Floats,
    below: Floats,
    tree: int,
    value: float,
    places: Ints,
    nodes: Ints,
) -> int:
    """Move all places of a cell that fire to the value, and list them in `places`.

    Goes down level by level to the leaves where somebody may fire, and back up through the nodes it visited.
    """
    starts = np.empty(LEVELS, np.int64)  # of the nodes of each level in `above` and `below`
    counts = np.empty(LEVELS, np.int64)
    visits = np.empty(LEVELS + 1, np.int64)  # of the visited nodes of each level in `nodes`
    count = (wide(len(tolerances)) + FAN - 1) // FAN
    starts[0], counts[0], top = tree, count, 0
    while counts[top] > FAN:
        starts[top + 1], counts[top + 1] = starts[top] + counts[top], (counts[top] + FAN - 1) // FAN
        top += 1
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
    found = wide(0)
    for at in range(visits[0], visited):
        first = wide(nodes[at]) * FAN
        leaf = slice(first, min(first + FAN, len(tolerances)))
        found = _try_places(tolerances[leaf], last[leaf], value, places, found, first)
        _refresh_leaf(tolerances[leaf], last[leaf], above, below, tree + nodes[at])
    for level in range(1, top + 1):
        for at in range(visits[level], visits[level - 1]):
            _refresh_node(above, below, starts[level - 1], counts[level - 1], wide(nodes[at]))
    return found


@kernel
def _recentre(lanes: Lanes, cells: Cells, shown: Shown, row: int, slot: int) -> None:
    """A slot with several attributes fired: all of them that the event carries are delivered."""
    term = lanes.slot_term[slot]
    while term >= 0:
        lane, place = lanes.term_lane[term], wide(lanes.term_place[term])
        cell = lanes.current_cell[lane]
        if cell >= 0:
            value = shown.values[shown.value_row[lanes.attribute[lane]], row]
            memory = slice(cells.start[cell], cells.start[cell] + lanes.capacity[lane])
            if cells.last[memory][place] != value:
                cells.last[memory][place] = value
                members = slice(lanes.start[lane], lanes.start[lane] + lanes.capacity[lane])
                _refresh_path(
                    lanes.tolerances[members],
                    cells.last[memory],
                    cells.above,
                    cells.below,
                    cells.tree[cell],
                    place,
                )
        term = lanes.term_next[term]


@kernel
def fire(lanes: Lanes, cells: Cells, shown: Shown, fired: Fired, at: int, count: int) -> tuple[int, int, int]:
    """Show the pairs of row and group from number `at` on, and append to the `count` answers so far.

    Returns the number of the first pair not shown, the count of answers, and why it stopped. Nothing of that
    pair has happened yet, so the caller makes room and goes on with it.
    """
    group_lane, lane_next, lane_attribute = lanes.group_lane, lanes.next, lanes.attribute
    lane_start, lane_size, lane_capacity = lanes.start, lanes.size, lanes.capacity
    current_cell, slots, tolerances = lanes.current_cell, lanes.slots, lanes.tolerances
    slot_terms, slot_tick = lanes.slot_terms, lanes.slot_tick
    table, cell_lane, cell_topic = cells.table, cells.lane, cells.topic
    cell_start, cell_tree, last = cells.start, cells.tree, cells.last
    above, below, used = cells.above, cells.below, cells.used
    values, value_row, topics = shown.values, shown.value_row, shown.topics
    rows, groups = shown.rows, shown.groups
    fired_rows, fired_slots, places, nodes = fired.rows, fired.slots, fired.places, fired.nodes
    while at < len(rows):
        row, group = wide(rows[at]), groups[at]
        lane = wide(group_lane[group]) if group < len(group_lane) else wide(-1)
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
                lane_tolerances = tolerances[first : first + capacity]
                lane_last = last[cell_start[cell] : cell_start[cell] + capacity]
                if capacity <= FAN:
                    found = _try_places(lane_tolerances, lane_last, value, places, wide(0), wide(0))
                else:
                    tree = cell_tree[cell]
                    found = _descend(lane_tolerances, lane_last, above, below, tree, value, places, nodes)
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
def count_values(lanes: Lanes, cells: Cells, topics: Ints) -> int:
    """The values that the cells of these topics have room for: no fewer than their facts."""
    count = wide(0)
    for topic in topics:
        cell = cells.topic_cell[topic]
        while cell >= 0:
            count += lanes.size[cells.lane[cell]]
            cell = cells.fellow[cell]
    return count


@kernel
def list_facts(
    lanes: Lanes,
    cells: Cells,
    wanted: Ints,
    slots: Ints,
    attributes: Ints,
    topics: Ints,
    values: Floats,
) -> int:
    """Write out the values delivered for the wanted topics to members that still exist, and count them.

    Each goes with the slot, the attribute and the place of its topic among the wanted ones.
    """
    tolerances, last, members_slots = lanes.tolerances, cells.last, lanes.slots
    count = wide(0)
    for at in range(len(wanted)):
        cell = cells.topic_cell[wanted[at]]
        while cell >= 0:
            lane = cells.lane[cell]
            members, memory = lanes.start[lane], cells.start[cell]
            for place in range(lanes.size[lane]):
                if tolerances[members + place] >= 0 and last[memory + place] == last[memory + place]:
                    slots[count] = members_slots[members + place]
                    attributes[count] = lanes.attribute[lane]
                    topics[count] = at
                    values[count] = last[memory + place]
                    count += 1
            cell = cells.fellow[cell]
    return count


@kernel
def enter_facts(
    lanes: Lanes, cells: Cells, slots: Ints, attributes: Ints, topics: Ints, values: Floats, at: int
) -> int:
    """Enter delivered values from number `at` on; returns the first for which there was no room.

    Attributes that a slot does not watch are passed over. The thresholds do not know of the values until
    the cells are refreshed.
    """
    slot_term, term_next, term_lane = lanes.slot_term, lanes.term_next, lanes.term_lane
    lane_attribute, term_place = lanes.attribute, lanes.term_place
    table, cell_lane, cell_topic = cells.table, cells.lane, cells.topic
    cell_start, last = cells.start, cells.last
    while at < len(slots):
        term = slot_term[slots[at]]
        while term >= 0 and lane_attribute[term_lane[term]] != attributes[at]:
            term = term_next[term]
        if term < 0:
            at += 1
            continue
        lane, topic = wide(term_lane[term]), wide(topics[at])
        place = find_place(table, cell_lane, cell_topic, lane, topic)
        cell = wide(table[place])
        if cell < 0:
            cell = make_cell(lanes, cells, lane, topic, place)
            if cell < 0:
                break
        last[cell_start[cell] + term_place[term]] = values[at]
        at += 1
    return at
