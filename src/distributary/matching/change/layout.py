"""The arrays behind `ChangeThresholds`: who watches what, and what was delivered.

A *lane* holds the members of one group that watch one attribute, each at a *place*, in ascending order of
tolerance as far as they were added together. A member that watches several attributes has a *term* in
each of several lanes. A *cell* is the memory of one lane for one topic: the value last delivered for each
place, NaN before the first.

Dead places have tolerance -1. They stay until everything is laid out anew.

All arrays have spare room at their ends; `UNUSED` says what stands there.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import Floats, Ints, Longs

A = TypeVar("A", bound=np.generic)

USED_CELLS, USED_VALUES, USED_NODES, TICK = range(4)
"""The places of `Cells.used`: how much of each pool is taken, and how many events were shown."""


class Lanes(NamedTuple):
    """Who watches what. The lanes of a group, and the terms of a slot, are linked lists that end in -1."""

    group_lane: Ints
    """By group: its first lane."""
    next: Ints
    """By lane, from here to `current_cell`: the group's next lane."""
    attribute: Ints
    start: Longs
    """Its places are `slots[start : start + capacity]` and the like, of which `size` are taken."""
    size: Ints
    capacity: Ints
    first_cell: Ints
    current_cell: Ints
    """The cell for the event that is being shown; -1 when the event lacks the attribute."""
    slots: Ints
    """By place of all lanes: the member and its tolerance."""
    tolerances: Floats
    slot_term: Ints
    """By slot: its first term, the number of its terms, and the tick at which it last fired."""
    slot_terms: Ints
    slot_tick: Longs
    term_lane: Ints
    """By term: its lane, its place there, and the slot's next term."""
    term_place: Ints
    term_next: Ints


BY_LANE = ("next", "attribute", "start", "size", "capacity", "first_cell", "current_cell")
BY_PLACE = ("slots", "tolerances")
BY_SLOT = ("slot_term", "slot_terms", "slot_tick")
BY_TERM = ("term_lane", "term_place", "term_next")
"""The arrays of `Lanes` that grow together."""


class Cells(NamedTuple):
    """What was delivered. `used` counts what the pools of cells, values and nodes have given out.

    The cells of a lane (from `Lanes.first_cell`, by `next`) and those of a topic (from `topic_cell`, by
    `fellow`) are linked lists that end in -1. Topics need a place in `topic_cell` before they are shown.
    """

    table: Ints
    """A hash table that finds a cell by lane and topic."""
    lane: Ints
    """By cell, from here to `fellow`."""
    topic: Ints
    start: Longs
    """Its values are `last[start : start + capacity of its lane]`."""
    tree: Longs
    """Its nodes in `above` and `below` begin here: level by level, leaves first."""
    next: Ints
    fellow: Ints
    topic_cell: Ints
    """By topic: its first cell."""
    last: Floats
    """By value: what was last delivered to a place of the lane for the topic."""
    above: Floats
    """By node: the least value at or above which a place below it may fire; in `below`, the opposite."""
    below: Floats
    used: Longs


BY_CELL = ("lane", "topic", "start", "tree", "next", "fellow")
BY_NODE = ("above", "below")
"""The arrays of `Cells` that grow together."""


L = TypeVar("L", Lanes, Cells)

UNUSED: dict[str, float] = {
    **dict.fromkeys(("group_lane", "topic_cell", "attribute", "lane", "topic", "slots", "tolerances"), -1),
    **dict.fromkeys(("next", "fellow", "first_cell", "current_cell", "slot_term", "term_next"), -1),
    **dict.fromkeys(("start", "size", "capacity", "tree", "slot_terms", "slot_tick"), 0),
    **dict.fromkeys(("term_lane", "term_place"), 0),
    **dict.fromkeys(("last", "above", "below"), np.nan),
}
"""What stands in the unused places of each array."""


class Terms(NamedTuple):
    """What members watch: a row for each slot and attribute."""

    slots: Ints
    attributes: Ints
    tolerances: Floats

    @classmethod
    def of(cls, rows: list[tuple[int, int, float]]) -> Terms:
        """The columns of these rows."""
        slots, attributes, tolerances = zip(*rows, strict=True) if rows else ((), (), ())
        return cls(
            np.array(slots, np.int32), np.array(attributes, np.int32), np.array(tolerances, np.float64)
        )


def enlarged(array: NDArray[A], needed: int, fill: float) -> NDArray[A]:
    """The array itself when it is long enough, else a copy of at least twice the length."""
    if needed <= len(array):
        return array
    larger = np.full(max(needed, 2 * len(array)), fill, array.dtype)
    larger[: len(array)] = array
    return larger


def grown(arrays: L, names: tuple[str, ...], needed: int) -> L:
    """The lanes or cells with the named arrays at least so long."""
    present: dict[str, NDArray[Any]] = arrays._asdict()
    return arrays._replace(**{name: enlarged(present[name], needed, UNUSED[name]) for name in names})


def lanes_of(terms: Terms, groups_of: Ints) -> Lanes:
    """The lanes of these terms, each in ascending order of tolerance and exactly as large as it must be."""
    groups = groups_of[terms.slots]
    order = np.lexsort((terms.tolerances, terms.attributes, groups))
    slots, attributes, groups = terms.slots[order], terms.attributes[order], groups[order]
    count = len(slots)
    opens = np.ones(count, np.bool_)
    opens[1:] = (groups[1:] != groups[:-1]) | (attributes[1:] != attributes[:-1])
    starts = np.flatnonzero(opens)
    term_lane = (np.cumsum(opens) - 1).astype(np.int32)
    lane_count = len(starts)
    group_lane, _, next_lane = _links(groups[starts])
    sizes = np.diff(np.append(starts, count)).astype(np.int32)
    slot_term, slot_terms, term_next = _links(slots)
    return Lanes(
        group_lane=group_lane,
        next=next_lane,
        attribute=attributes[starts].astype(np.int32),
        start=starts.astype(np.int64),
        size=sizes,
        capacity=sizes.copy(),
        first_cell=np.full(lane_count, -1, np.int32),
        current_cell=np.full(lane_count, -1, np.int32),
        slots=slots.astype(np.int32),
        tolerances=terms.tolerances[order].astype(np.float64),
        slot_term=slot_term,
        slot_terms=slot_terms,
        slot_tick=np.zeros(len(slot_term), np.int64),
        term_lane=term_lane,
        term_place=(np.arange(count) - starts[term_lane]).astype(np.int32),
        term_next=term_next,
    )


def _links(owners: Ints) -> tuple[Ints, Ints, Ints]:
    """Link what belongs to each owner: the first and their number by owner, and the next by what is owned."""
    order = np.argsort(owners, kind="stable").astype(np.int32)
    size = int(owners.max(initial=-1)) + 1
    first = np.full(size, -1, np.int32)
    first[owners[order[::-1]]] = order[::-1]
    following = np.full(len(owners), -1, np.int32)
    again = owners[order[1:]] == owners[order[:-1]]
    following[order[:-1][again]] = order[1:][again]
    return first, np.bincount(owners, minlength=size).astype(np.int32), following


def no_cells(values: int) -> Cells:
    """Room for so many values and some cells, none of it used."""
    size = max(16, values)
    types = {"start": np.int64, "tree": np.int64}
    by_cell: dict[str, NDArray[Any]] = {
        name: np.full(size, UNUSED[name], types.get(name, np.int32)) for name in BY_CELL
    }
    return Cells(
        **by_cell,
        table=np.full(table_size(size), -1, np.int32),
        topic_cell=np.full(16, -1, np.int32),
        last=np.empty(size),
        above=np.empty(0),
        below=np.empty(0),
        used=np.zeros(4, np.int64),
    )


def table_size(cells: int) -> int:
    """A power of two that is never more than half full."""
    return 1 << (2 * cells - 1).bit_length()
