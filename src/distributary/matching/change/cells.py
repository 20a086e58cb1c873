"""Kernels on the cells of `layout`: finding, making and forgetting them, and copying their values.

Numbers read from arrays are widened to int64 before they are handed on, so that each kernel is compiled for
one set of types only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from distributary.kernel import Floats, Ints, kernel
from distributary.matching.change.layout import USED_CELLS, USED_NODES, USED_VALUES, Cells, Lanes

wide: Callable[[Any], int] = np.int64  # type: ignore[assignment]

FAN = 16
"""Children of a node, and places of a leaf."""


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
def count_values(lanes: Lanes, cells: Cells, topics: Ints) -> int:
    """The values that the cells of these topics have room for: no fewer than were delivered."""
    count = wide(0)
    for topic in topics:
        cell = cells.topic_cell[topic]
        while cell >= 0:
            count += lanes.size[cells.lane[cell]]
            cell = cells.fellow[cell]
    return count


@kernel
def list_values(
    lanes: Lanes, cells: Cells, wanted: Ints, slots: Ints, attributes: Ints, topics: Ints, values: Floats
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
def enter_values(
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
