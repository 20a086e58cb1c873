"""Thresholds: exact tolerances at a cost that follows how many fire, not how many are registered.

Every member of a group waits for its attribute to rise above one threshold or to fall below another. Trees
of the nearest thresholds lead an event to those it passes (`change_cells` has the arrays and why they are
exact). Groups of a few members, the most common kind, have no trees at all: their members stand side by
side in shared arrays, and a hash table of group lane and topic finds the values last delivered.

Cost: an event takes O(k log(n / k) + 1) for each group of n members it is shown to, k of which fire; when
members fire in runs of neighbouring tolerances, as they do after a shared delivery, O(k + log n). A removal
is O(1). An addition is O(log n) for each topic its group has seen, and amortised O(1) copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from distributary.filters.change import ChangeFilter
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.change import cells as kernels
from distributary.matching.change.cells import Cells, Fired, Lanes, Shown
from distributary.matching.change.index import ChangeIndex, Facts, numbers_of
from distributary.matching.change.topics import TopicNumbers
from distributary.matching.index import Arrays, Pairs

NO_GROUP = -1
SPARE = 64
"""Dead terms that are tolerated beyond the number of live ones before everything is laid out anew."""
ROOM = 1 << 20
"""Answers that are made room for beyond the most that one event can have."""

LAID_OUT = {
    "group_lane": -1,
    "next": -1,
    "attribute": -1,
    "start": 0,
    "size": 0,
    "capacity": 0,
    "slots": -1,
    "tolerances": -1,
    "slot_term": -1,
    "slot_terms": 0,
    "term_lane": 0,
    "term_place": 0,
    "term_next": -1,
}
"""The arrays of lanes that depend on the filters alone, and what stands in their unused places."""

A = TypeVar("A", bound=np.generic)


class _Terms(NamedTuple):
    slots: NDArray[np.int32]
    attributes: NDArray[np.int32]
    tolerances: NDArray[np.float64]


class ChangeThresholds(ChangeIndex):
    """Leads each event to the members whose thresholds it passes."""

    name: ClassVar[str] = "thresholds"

    def __init__(self) -> None:
        self._attributes: dict[str, int] = {}
        self._topics = TopicNumbers()
        self._groups: NDArray[np.int32] = np.full(64, NO_GROUP, np.int32)
        self._waiting: dict[int, ChangeFilter] = {}
        self._count = 0
        self._lay_out(_no_terms(), _no_facts(0))

    def add(self, slot: int, filter: ChangeFilter, group: int = 0) -> None:
        self._groups = _enlarged(self._groups, slot + 1, NO_GROUP)
        if self._groups[slot] != NO_GROUP:
            raise ValueError(f"slot {slot} is taken")
        self._groups[slot] = group
        self._waiting[slot] = filter
        self._count += 1

    def remove(self, slot: int) -> None:
        self._check(slot)
        self._groups[slot] = NO_GROUP
        self._count -= 1
        if self._waiting.pop(slot, None) is not None:
            return
        lanes = self._lanes
        for term in self._terms_of(slot):
            at = lanes.start[lanes.term_lane[term]] + lanes.term_place[term]
            lanes.slots[at] = -1
            lanes.tolerances[at] = -1
            self._dead_terms += 1
            self._live_terms -= 1
        lanes.slot_term[slot] = -1
        lanes.slot_terms[slot] = 0

    def filter(self, slot: int) -> ChangeFilter:
        self._check(slot)
        waiting = self._waiting.get(slot)
        if waiting is not None:
            return waiting
        names = list(self._attributes)
        lanes = self._lanes
        tolerances = []
        for term in self._terms_of(slot):
            lane = lanes.term_lane[term]
            tolerance = float(lanes.tolerances[lanes.start[lane] + lanes.term_place[term]])
            tolerances.append((names[lanes.attribute[lane]], tolerance))
        return ChangeFilter(tuple(sorted(tolerances)))

    def __len__(self) -> int:
        return self._count

    def slots(self) -> Iterable[int]:
        slots: list[int] = np.flatnonzero(self._groups != NO_GROUP).tolist()
        return slots

    def fire(self, batch: EventBatch, rows: NDArray[np.int32], groups: NDArray[np.int32]) -> Pairs:
        self._settle()
        if not len(rows) or not self._live_terms:
            return Pairs.none()
        shown = self._shown(batch, rows, groups)
        fired = self._room()
        parts = []
        at = count = 0
        while True:
            at, count, stopped = kernels.fire(self._lanes, self._cells, shown, fired, at, count)
            if stopped == kernels.CELLS_FULL:
                self._make_cells(len(rows) - at)
                continue
            parts.append(Pairs(fired.rows[:count], fired.slots[:count]))
            if stopped == kernels.DONE:
                break
            fired, count = self._room(), 0
        if len(parts) == 1:  # a view would keep the whole room from being given back
            return Pairs(parts[0].rows.copy(), parts[0].slots.copy())
        return Pairs.joined(parts)

    def _room(self) -> Fired:
        """Room for the answers to any one event at least."""
        answers = ROOM + self._live_terms + self._dead_terms
        largest = int(self._lanes.capacity.max())
        return Fired(
            rows=np.empty(answers, np.int32),
            slots=np.empty(answers, np.int32),
            places=np.empty(largest, np.int32),
            nodes=np.empty(int(kernels.tree_nodes(largest)), np.int32),
        )

    def last(self, slot: int, topic: str | None) -> dict[str, float]:
        self._check(slot)
        self._settle()
        number = self._topics.find(topic)
        if number is None:
            return {}
        names = list(self._attributes)
        cells = self._cells
        values = {}
        for term in self._terms_of(slot):
            lane = int(self._lanes.term_lane[term])
            cell = cells.table[kernels.find_place(cells.table, cells.lane, cells.topic, lane, number)]
            if cell >= 0:
                value = float(cells.last[cells.start[cell] + self._lanes.term_place[term]])
                if value == value:
                    values[names[self._lanes.attribute[lane]]] = value
        return values

    def forget(self) -> None:
        """The room for cells is kept for what comes next."""
        self._topics = TopicNumbers()
        kernels.forget_cells(self._lanes, self._cells)

    def recall(self, topics: Sequence[str | None]) -> Facts:
        self._settle()
        found = [self._topics.find(topic) for topic in topics]
        places = np.array([at for at, number in enumerate(found) if number is not None], np.int32)
        facts = self._facts(np.array([number for number in found if number is not None], np.int32))
        return facts._replace(topics=places[facts.topics])

    def restore(self, topics: Sequence[str | None], facts: Facts) -> None:
        self._settle()
        numbers = self._topics.of(topics)
        attributes = np.array([self._attributes.get(name, -1) for name in facts.names], np.int32)
        self._enter(
            facts._replace(attributes=attributes[facts.attributes], topics=numbers[facts.topics]), numbers
        )

    def compact(self) -> None:
        """Lay everything out anew: lanes in order of tolerance, and no dead places."""
        self._lay_out(self._terms(), self._facts(self._all_topics()))

    def memory(self) -> int:
        return self._groups.nbytes + sum(array.nbytes for array in (*self._lanes, *self._cells))

    def freeze(self) -> Arrays:
        """The lanes as they stand, so that opening lays out nothing."""
        self.compact()
        groups = self._groups[: int(np.flatnonzero(self._groups != NO_GROUP).max(initial=-1)) + 1]
        lanes = {name: frozen.with_room(getattr(self._lanes, name), fill) for name, fill in LAID_OUT.items()}
        return {
            "counts": np.array([self._count, self._lane_count, self._term_count], np.int64),
            "groups": frozen.with_room(groups, NO_GROUP),
            **frozen.under("lanes", lanes),
            **frozen.under("topics", frozen.pack_texts(self._topics.topics())),
            **frozen.under("facts", self._facts(self._all_topics()).to_arrays()),
        }

    @classmethod
    def open(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        index = cls()
        facts = Facts.from_arrays(frozen.within(arrays, "facts"))
        index._attributes = {name: at for at, name in enumerate(facts.names)}
        index._topics = TopicNumbers(frozen.unpack_texts(frozen.within(arrays, "topics")))
        index._groups = arrays["groups"]
        index._count, index._lane_count, index._term_count = arrays["counts"].tolist()
        index._live_terms = index._place_count = index._term_count
        lanes = frozen.within(arrays, "lanes")
        index._lanes = Lanes(
            **lanes,
            first_cell=np.full(len(lanes["next"]), -1, np.int32),
            current_cell=np.full(len(lanes["next"]), -1, np.int32),
            slot_tick=np.zeros(len(lanes["slot_term"]), np.int64),
        )
        index._cells = _no_cells(len(facts.values))
        index._enter(facts, index._all_topics())
        return index

    def _check(self, slot: int) -> None:
        if not 0 <= slot < len(self._groups) or self._groups[slot] == NO_GROUP:
            raise KeyError(slot)

    def _terms_of(self, slot: int) -> list[int]:
        terms = []
        term = int(self._lanes.slot_term[slot])
        while term >= 0:
            terms.append(term)
            term = int(self._lanes.term_next[term])
        return terms

    def _shown(self, batch: EventBatch, rows: NDArray[np.int32], groups: NDArray[np.int32]) -> Shown:
        value_row = np.full(len(self._attributes), -1, np.int32)
        columns: list[NDArray[np.float64]] = []
        for name, attribute in self._attributes.items():
            numbers = numbers_of(batch, name)
            if numbers is not None:
                value_row[attribute] = len(columns)
                columns.append(numbers)
        values = np.stack(columns) if columns else np.empty((0, batch.rows))
        topics = self._topics.of_rows(batch, rows)
        self._make_topics()
        return Shown(
            values,
            value_row,
            topics,
            np.ascontiguousarray(rows, np.int32),
            np.ascontiguousarray(groups, np.int32),
        )

    def _settle(self) -> None:
        """Give the members that wait their places: few one by one, many by laying everything out anew."""
        many = 2 * len(self._waiting) >= self._live_terms
        if (self._waiting and many) or self._dead_terms > self._live_terms + SPARE:
            self.compact()
            return
        for slot, filter in self._waiting.items():
            self._place(slot, filter)
        self._waiting = {}

    def _terms(self) -> _Terms:
        """All terms, of the members that wait too."""
        lanes = self._lanes
        term_lane = lanes.term_lane[: self._term_count]
        places = lanes.start[term_lane] + lanes.term_place[: self._term_count]
        live = np.flatnonzero(lanes.tolerances[places] >= 0)
        waiting = [
            (slot, self._attribute(name), tolerance)
            for slot, filter in self._waiting.items()
            for name, tolerance in filter.tolerances
        ]
        return _Terms(
            np.append(lanes.slots[places[live]], np.array([term[0] for term in waiting], np.int32)),
            np.append(lanes.attribute[term_lane[live]], np.array([term[1] for term in waiting], np.int32)),
            np.append(lanes.tolerances[places[live]], np.array([term[2] for term in waiting], np.float64)),
        )

    def _facts(self, topics: NDArray[np.int32]) -> Facts:
        """What is remembered of these topics, given by number, with their places in place of them."""
        names = list(self._attributes)
        if not self._cells.used[kernels.USED_CELLS]:
            return _no_facts(0)._replace(names=names)
        self._make_topics()
        facts = _no_facts(int(kernels.count_values(self._lanes, self._cells, topics)))._replace(names=names)
        count = kernels.list_facts(self._lanes, self._cells, topics, *facts[1:])
        return facts.chosen(slice(count))

    def _all_topics(self) -> NDArray[np.int32]:
        return np.arange(len(self._topics), dtype=np.int32)

    def _attribute(self, name: str) -> int:
        return self._attributes.setdefault(name, len(self._attributes))

    def _lay_out(self, terms: _Terms, facts: Facts) -> None:
        """Build all lanes and cells."""
        self._lanes = _lanes(terms, self._groups)
        self._cells = _no_cells(len(facts.values))
        self._waiting = {}
        self._lane_count = len(self._lanes.next)
        self._live_terms = self._term_count = self._place_count = len(terms.slots)
        self._dead_terms = 0
        self._enter(facts, self._all_topics())

    def _enter(self, facts: Facts, topics: NDArray[np.int32]) -> None:
        """Enter facts of these topics, all given by number, into the cells."""
        if not len(facts.values):
            return
        self._make_topics()
        at = kernels.enter_facts(self._lanes, self._cells, *facts[1:], 0)
        while at < len(facts.values):
            self._make_cells(len(facts.values) - at)
            at = kernels.enter_facts(self._lanes, self._cells, *facts[1:], at)
        kernels.refresh_topics(self._lanes, self._cells, topics)

    def _make_topics(self) -> None:
        """Have a place for every topic that was met."""
        topic_cell = _enlarged(self._cells.topic_cell, len(self._topics), -1)
        self._cells = self._cells._replace(topic_cell=topic_cell)

    def _make_cells(self, expected: int) -> None:
        """Have room for one more cell, whatever its lane, and for up to four times as many if so expected."""
        cells = self._cells
        if cells.used[kernels.USED_CELLS] == len(cells.lane):
            count = len(cells.lane) * (4 if expected > 2 * len(cells.lane) else 2)
            self._cells = cells._replace(
                lane=_enlarged(cells.lane, count, -1),
                topic=_enlarged(cells.topic, count, -1),
                start=_enlarged(cells.start, count, 0),
                tree=_enlarged(cells.tree, count, 0),
                next=_enlarged(cells.next, count, -1),
                fellow=_enlarged(cells.fellow, count, -1),
                table=np.full(_table_size(count), -1, np.int32),
            )
            kernels.enter_cells(self._cells)
        self._make_values(1, int(self._lanes.capacity.max(initial=1)))

    def _make_values(self, count: int, capacity: int) -> None:
        """Have room for the values and nodes of so many cells more, each of a lane of this capacity."""
        cells = self._cells
        values = int(cells.used[kernels.USED_VALUES]) + count * capacity
        nodes = int(cells.used[kernels.USED_NODES]) + count * int(kernels.tree_nodes(capacity))
        self._cells = cells._replace(
            last=_enlarged(cells.last, values, np.nan),
            above=_enlarged(cells.above, nodes, np.nan),
            below=_enlarged(cells.below, nodes, np.nan),
        )

    def _place(self, slot: int, filter: ChangeFilter) -> None:
        """Append one member to the lanes of its group."""
        lanes = self._lanes
        self._lanes = lanes._replace(
            slot_term=_enlarged(lanes.slot_term, slot + 1, -1),
            slot_terms=_enlarged(lanes.slot_terms, slot + 1, 0),
            slot_tick=_enlarged(lanes.slot_tick, slot + 1, 0),
        )
        for name, tolerance in filter.tolerances:
            lane = self._lane(int(self._groups[slot]), self._attribute(name))
            if self._lanes.size[lane] == self._lanes.capacity[lane]:
                self._widen(lane)
            lanes = self._lanes
            place = int(lanes.size[lane])
            lanes.slots[lanes.start[lane] + place] = slot
            lanes.tolerances[lanes.start[lane] + place] = tolerance
            lanes.size[lane] = place + 1
            self._append_term(slot, lane, place)
            kernels.admit_member(self._lanes, self._cells, lane, place)

    def _lane(self, group: int, attribute: int) -> int:
        """The lane of this group and attribute, made without any place when there is none."""
        lanes = self._lanes = self._lanes._replace(
            group_lane=_enlarged(self._lanes.group_lane, group + 1, -1)
        )
        lane = int(lanes.group_lane[group])
        while lane >= 0:
            if lanes.attribute[lane] == attribute:
                return lane
            lane = int(lanes.next[lane])
        lane = self._lane_count
        self._lane_count += 1
        lanes = self._lanes = lanes._replace(
            next=_enlarged(lanes.next, lane + 1, -1),
            attribute=_enlarged(lanes.attribute, lane + 1, -1),
            start=_enlarged(lanes.start, lane + 1, 0),
            size=_enlarged(lanes.size, lane + 1, 0),
            capacity=_enlarged(lanes.capacity, lane + 1, 0),
            first_cell=_enlarged(lanes.first_cell, lane + 1, -1),
            current_cell=_enlarged(lanes.current_cell, lane + 1, -1),
        )
        lanes.attribute[lane] = attribute
        lanes.next[lane] = lanes.group_lane[group]
        lanes.group_lane[group] = lane
        return lane

    def _widen(self, lane: int) -> None:
        """Move a lane to twice as many places, and its cells with it."""
        before = int(self._lanes.capacity[lane])
        after = max(1, 2 * before)
        start = self._place_count
        self._place_count += after
        lanes = self._lanes = self._lanes._replace(
            slots=_enlarged(self._lanes.slots, self._place_count, -1),
            tolerances=_enlarged(self._lanes.tolerances, self._place_count, -1),
        )
        old = slice(int(lanes.start[lane]), int(lanes.start[lane]) + before)
        lanes.slots[start : start + before] = lanes.slots[old]
        lanes.tolerances[start : start + before] = lanes.tolerances[old]
        lanes.start[lane] = start
        lanes.capacity[lane] = after
        if lanes.first_cell[lane] >= 0:
            count = int((self._cells.lane == lane).sum())
            self._make_values(count, after)
            kernels.widen_cells(lanes, self._cells, lane, before)

    def _append_term(self, slot: int, lane: int, place: int) -> None:
        term = self._term_count
        self._term_count += 1
        self._live_terms += 1
        lanes = self._lanes = self._lanes._replace(
            term_lane=_enlarged(self._lanes.term_lane, term + 1, 0),
            term_place=_enlarged(self._lanes.term_place, term + 1, 0),
            term_next=_enlarged(self._lanes.term_next, term + 1, -1),
        )
        lanes.term_lane[term] = lane
        lanes.term_place[term] = place
        lanes.term_next[term] = lanes.slot_term[slot]
        lanes.slot_term[slot] = term
        lanes.slot_terms[slot] += 1


def _lanes(terms: _Terms, groups_of: NDArray[np.int32]) -> Lanes:
    """The lanes of these terms, each in ascending order of tolerance and exactly as large as it must be."""
    groups = groups_of[terms.slots]
    order = np.lexsort((terms.tolerances, terms.attributes, groups))
    slots, attributes, groups = terms.slots[order], terms.attributes[order], groups[order]
    count = len(slots)
    opens = np.ones(count, np.bool_)
    opens[1:] = (groups[1:] != groups[:-1]) | (attributes[1:] != attributes[:-1])
    starts = np.flatnonzero(opens)
    lane_groups = groups[starts]
    term_lane = (np.cumsum(opens) - 1).astype(np.int32)
    lane_count = len(starts)
    follows = np.full(lane_count, -1, np.int32)
    follows[:-1][lane_groups[1:] == lane_groups[:-1]] = 0
    follows[follows == 0] = np.flatnonzero(follows == 0) + 1
    group_lane = np.full(int(groups.max(initial=-1)) + 1, -1, np.int32)
    group_lane[lane_groups[::-1]] = np.arange(lane_count - 1, -1, -1, dtype=np.int32)
    sizes = np.diff(np.append(starts, count)).astype(np.int32)
    slot_term, slot_terms, term_next = _links(slots)
    return Lanes(
        group_lane=group_lane,
        next=follows,
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


def _links(slots: NDArray[np.int32]) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Link the terms of each slot: the first term and the number of terms by slot, the next by term."""
    order = np.argsort(slots, kind="stable").astype(np.int32)
    size = int(slots.max(initial=-1)) + 1
    slot_term = np.full(size, -1, np.int32)
    slot_term[slots[order[::-1]]] = order[::-1]
    term_next = np.full(len(slots), -1, np.int32)
    again = slots[order[1:]] == slots[order[:-1]]
    term_next[order[:-1][again]] = order[1:][again]
    return slot_term, np.bincount(slots, minlength=size).astype(np.int32), term_next


def _no_terms() -> _Terms:
    return _Terms(np.empty(0, np.int32), np.empty(0, np.int32), np.empty(0, np.float64))


def _no_facts(count: int) -> Facts:
    """Room for so many facts."""
    return Facts(
        [], np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count, np.int32), np.empty(count)
    )


def _no_cells(values: int) -> Cells:
    """Room for so many values and some cells, none of it used."""
    cells = values = max(16, values)
    return Cells(
        table=np.full(_table_size(cells), -1, np.int32),
        lane=np.full(cells, -1, np.int32),
        topic=np.full(cells, -1, np.int32),
        start=np.zeros(cells, np.int64),
        tree=np.zeros(cells, np.int64),
        next=np.full(cells, -1, np.int32),
        fellow=np.full(cells, -1, np.int32),
        topic_cell=np.full(16, -1, np.int32),
        last=np.empty(values),
        above=np.empty(0),
        below=np.empty(0),
        used=np.zeros(4, np.int64),
    )


def _table_size(cells: int) -> int:
    """A power of two that is never more than half full."""
    return 1 << (2 * cells - 1).bit_length()


def _enlarged(array: NDArray[A], needed: int, fill: float) -> NDArray[A]:
    """The array itself when it is long enough, else a copy of at least twice the length."""
    if needed <= len(array):
        return array
    larger = np.full(max(needed, 2 * len(array)), fill, array.dtype)
    larger[: len(array)] = array
    return larger
