"""Thresholds: exact tolerances at a cost that follows how many fire, not how many are registered.

Every member of a group waits for its attribute to rise above one threshold or to fall below another. Trees
of the nearest thresholds lead an event to those it passes (`layout` has the arrays, `firing` the kernels and
why they are exact). Groups of a few members, the most common kind, have no trees at all: their members stand
side by side in shared arrays, and a hash table of group lane and topic finds the values last delivered.

Cost: an event takes O(k log(n / k) + 1) for each group of n members it is shown to, k of which fire; when
members fire in runs of neighbouring tolerances, as they do after a shared delivery, O(k + log n). A removal
is O(1). An addition is O(log n) for each topic its group has seen, and amortised O(1) copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from distributary.filters.change import ChangeFilter
from distributary.kernel import Floats, Ints
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.change import cells, firing, layout
from distributary.matching.change.index import ChangeIndex, number_under, numbers_of
from distributary.matching.change.layout import Cells, Lanes, Terms
from distributary.matching.change.memory import LastValues
from distributary.matching.change.topics import TopicNumbers
from distributary.matching.held import HeldTables, hold
from distributary.matching.index import NO_SLOTS, Arrays, Pairs
from distributary.matching.single import SingleEvent

NO_GROUP = -1
SPARE = 64
"""Dead terms that are tolerated beyond the number of live ones before everything is laid out anew."""
LITTLE_ROOM = 1 << 10
"""Answers to a single event that are made room for at first."""
ROOM = 1 << 20
"""Answers that are made room for beyond the most that one event can have."""

EMPTIED = ("first_cell", "current_cell", "slot_tick")
"""The arrays of lanes that do not depend on the filters alone, and are not frozen."""


class _ShownAlone(NamedTuple):
    """What single events are shown to, and where the answers go if they are few."""

    lanes: Lanes
    cells: Cells
    fired: firing.FiredMembers
    held: HeldTables
    """All of these, for kernels."""


class ChangeThresholds(ChangeIndex):
    """Leads each event to the members whose thresholds it passes."""

    name: ClassVar[str] = "thresholds"

    def __init__(self) -> None:
        self._attributes: dict[str, int] = {}
        self._topics = TopicNumbers()
        self._groups: Ints = np.full(64, NO_GROUP, np.int32)
        self._waiting: dict[int, ChangeFilter] = {}
        self._gathered: list[Terms] = []
        """What came by `add_many` and waits too."""
        self._count = 0
        self._live_terms = 0
        self._alone: _ShownAlone | None = None
        self._lay_out(Terms.of([]), LastValues.room([], 0))

    def add(self, slot: int, filter: ChangeFilter, group: int = 0) -> None:
        self._groups = layout.enlarged(self._groups, slot + 1, NO_GROUP)
        if self._groups[slot] != NO_GROUP:
            raise ValueError(f"slot {slot} is taken")
        self._groups[slot] = group
        self._waiting[slot] = filter
        self._count += 1

    def add_many(
        self, slots: Iterable[int], filters: Iterable[ChangeFilter], groups: Iterable[int] | None = None
    ) -> None:
        """Take the terms of all filters, and keep none of the filters."""
        rows: list[tuple[int, int, float]] = []
        for slot, filter, group in zip(slots, filters, repeat(0) if groups is None else groups, strict=False):
            self.add(slot, filter, group)
            del self._waiting[slot]
            rows.extend([(slot, self._attribute(name), tolerance) for name, tolerance in filter.tolerances])
        if rows:
            self._gathered.append(Terms.of(rows))

    def remove(self, slot: int) -> None:
        self._check(slot)
        if self._gathered:
            self._settle()
        self._groups[slot] = NO_GROUP
        self._count -= 1
        if self._waiting.pop(slot, None) is not None:
            return
        lanes = self._lanes
        for lane, place in self._terms_of(slot):
            at = lanes.start[lane] + place
            lanes.slots[at] = -1
            lanes.tolerances[at] = -1
            self._dead_terms += 1
            self._live_terms -= 1
        lanes.slot_term[slot] = -1
        lanes.slot_terms[slot] = 0

    def filter(self, slot: int) -> ChangeFilter:
        self._check(slot)
        if self._gathered:
            self._settle()
        waiting = self._waiting.get(slot)
        if waiting is not None:
            return waiting
        names = list(self._attributes)
        lanes = self._lanes
        tolerances = [
            (names[lanes.attribute[lane]], float(lanes.tolerances[lanes.start[lane] + place]))
            for lane, place in self._terms_of(slot)
        ]
        return ChangeFilter(tuple(sorted(tolerances)))

    def __len__(self) -> int:
        return self._count

    def slots(self) -> Iterable[int]:
        slots: list[int] = np.flatnonzero(self._groups != NO_GROUP).tolist()
        return slots

    def fire(self, batch: EventBatch, rows: Ints, groups: Ints) -> Pairs:
        self._settle()
        if not len(rows) or not self._live_terms:
            return Pairs.none()
        self._alone = None  # arrays that a batch replaces are not to be kept
        return self._fired(self._shown(batch, rows, groups), self._room())

    def fire_single(self, single: SingleEvent, groups: Ints) -> Ints:
        self._settle()
        if not self._live_terms:
            return NO_SLOTS
        event = single.event
        numbers = np.array([number_under(event, name) for name in self._attributes], np.float64)
        topic = self._topics.number(event.topic)
        self._make_topics()
        alone = self._shown_alone()
        at, count, stopped = firing.fire_alone(alone.held, numbers, topic, groups)
        if stopped != firing.DONE:
            rows, topics = np.zeros(len(groups), np.int32), np.array([topic], np.int32)
            value_row = np.arange(len(numbers), dtype=np.int32)
            shown = firing.ShownEvents(numbers.reshape(-1, 1), value_row, topics, rows, groups)
            return self._fired(shown, alone.fired, at, count).slots
        return alone.fired.slots[:count].copy()

    def _shown_alone(self) -> _ShownAlone:
        """What single events are shown to, held for the kernel; made anew when some array was replaced."""
        alone = self._alone
        if alone is None or alone.lanes is not self._lanes or alone.cells is not self._cells:
            fired = alone.fired if alone and alone.lanes is self._lanes else self._room(LITTLE_ROOM)
            tables = self._lanes, self._cells, fired
            alone = self._alone = _ShownAlone(*tables, hold(tables))
        return alone

    def _fired(
        self, shown: firing.ShownEvents, fired: firing.FiredMembers, at: int = 0, count: int = 0
    ) -> Pairs:
        """Which members fire on these events; there is room for their answers, or else more is made.

        The first `at` pairs were shown already, and gave the first `count` answers.
        """
        parts = []
        while True:
            at, count, stopped = firing.fire(self._lanes, self._cells, shown, fired, at, count)
            if stopped == firing.CELLS_FULL:
                self._make_cells(len(shown.rows) - at)
                continue
            parts.append(Pairs(fired.rows[:count], fired.slots[:count]))
            if stopped == firing.DONE:
                break
            fired, count = self._room(), 0
        if len(parts) == 1:  # a view would keep the whole room from being given back
            return Pairs(parts[0].rows.copy(), parts[0].slots.copy())
        return Pairs.joined(parts)

    def _room(self, answers: int | None = None) -> firing.FiredMembers:
        """Room for so many answers, by default for those to any one event at least."""
        if answers is None:
            answers = ROOM + self._live_terms + self._dead_terms
        rows, slots = np.empty((2, answers), np.int32)
        largest = int(self._lanes.capacity.max())
        places, nodes = np.empty(largest, np.int32), np.empty(int(cells.tree_nodes(largest)), np.int32)
        return firing.FiredMembers(rows, slots, places, nodes)

    def last(self, slot: int, topic: str | None) -> dict[str, float]:
        self._check(slot)
        self._settle()
        number = self._topics.find(topic)
        if number is None:
            return {}
        names = list(self._attributes)
        table, cell_lane, cell_topic = self._cells[:3]
        values = {}
        for lane, place in self._terms_of(slot):
            cell = table[cells.find_place(table, cell_lane, cell_topic, lane, number)]
            if cell >= 0:
                value = float(self._cells.last[self._cells.start[cell] + place])
                if value == value:
                    values[names[self._lanes.attribute[lane]]] = value
        return values

    def forget(self) -> None:
        """The room for cells is kept for what comes next."""
        self._topics = TopicNumbers()
        cells.forget_cells(self._lanes, self._cells)

    def recall(self, topics: Sequence[str | None]) -> LastValues:
        self._settle()
        found = [self._topics.find(topic) for topic in topics]
        places = np.array([at for at, number in enumerate(found) if number is not None], np.int32)
        known = self._remembered(np.array([number for number in found if number is not None], np.int32))
        return known._replace(topics=places[known.topics])

    def restore(self, topics: Sequence[str | None], remembered: LastValues) -> None:
        self._settle()
        numbers = self._topics.of(topics)
        codes = np.array([self._attributes.get(name, -1) for name in remembered.names], np.int32)
        attributes, of_topics = codes[remembered.attributes], numbers[remembered.topics]
        self._enter(remembered._replace(attributes=attributes, topics=of_topics), numbers)

    def compact(self) -> None:
        """Lay everything out anew: lanes in order of tolerance, and no dead places."""
        self._lay_out(self._terms(), self._remembered(self._all_topics()))

    def memory(self) -> int:
        return self._groups.nbytes + sum(array.nbytes for array in (*self._lanes, *self._cells))

    def freeze(self) -> Arrays:
        """The lanes as they stand, so that opening lays out nothing."""
        self.compact()
        groups = self._groups[: int(np.flatnonzero(self._groups != NO_GROUP).max(initial=-1)) + 1]
        lanes = {
            name: frozen.with_room(array, int(layout.UNUSED[name]))
            for name, array in self._lanes._asdict().items()
            if name not in EMPTIED
        }
        return {
            "counts": np.array([self._count, self._lane_count, self._term_count], np.int64),
            "groups": frozen.with_room(groups, NO_GROUP),
            **frozen.under("lanes", lanes),
            **frozen.under("topics", frozen.pack_texts(self._topics.topics())),
            **frozen.under("facts", self._remembered(self._all_topics()).to_arrays()),
        }

    @classmethod
    def open(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        index = cls()
        remembered = LastValues.from_arrays(frozen.within(arrays, "facts"))
        index._attributes = {name: at for at, name in enumerate(remembered.names)}
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
        index._cells = layout.no_cells(len(remembered.values))
        index._enter(remembered, index._all_topics())
        return index

    def _check(self, slot: int) -> None:
        if not 0 <= slot < len(self._groups) or self._groups[slot] == NO_GROUP:
            raise KeyError(slot)

    def _terms_of(self, slot: int) -> Iterator[tuple[int, int]]:
        """The lane of each term of a slot, and its place there."""
        lanes = self._lanes
        term = lanes.slot_term[slot]
        while term >= 0:
            yield int(lanes.term_lane[term]), int(lanes.term_place[term])
            term = lanes.term_next[term]

    def _shown(self, batch: EventBatch, rows: Ints, groups: Ints) -> firing.ShownEvents:
        value_row = np.full(len(self._attributes), -1, np.int32)
        columns: list[Floats] = []
        for name, attribute in self._attributes.items():
            numbers = numbers_of(batch, name)
            if numbers is not None:
                value_row[attribute] = len(columns)
                columns.append(numbers)
        values = np.stack(columns) if columns else np.empty((0, batch.rows))
        topics = self._topics.of_rows(batch, rows)
        self._make_topics()
        rows, groups = np.ascontiguousarray(rows, np.int32), np.ascontiguousarray(groups, np.int32)
        return firing.ShownEvents(values, value_row, topics, rows, groups)

    def _settle(self) -> None:
        """Give the members that wait their places: few one by one, many by laying everything out anew."""
        many = 2 * len(self._waiting) >= self._live_terms
        if self._gathered or (self._waiting and many) or self._dead_terms > self._live_terms + SPARE:
            self.compact()
            return
        for slot, filter in self._waiting.items():
            self._place(slot, filter)
        self._waiting = {}

    def _terms(self) -> Terms:
        """All terms, of the members that wait too."""
        lanes = self._lanes
        term_lane = lanes.term_lane[: self._term_count]
        places = lanes.start[term_lane] + lanes.term_place[: self._term_count]
        live = np.flatnonzero(lanes.tolerances[places] >= 0)
        waiting = Terms.of(
            [
                (slot, self._attribute(name), tolerance)
                for slot, filter in self._waiting.items()
                for name, tolerance in filter.tolerances
            ]
        )
        laid_out = Terms(
            lanes.slots[places[live]], lanes.attribute[term_lane[live]], lanes.tolerances[places[live]]
        )
        return Terms(*map(np.concatenate, zip(laid_out, *self._gathered, waiting, strict=True)))

    def _remembered(self, topics: Ints) -> LastValues:
        """What is remembered of these topics, given by number, with their places in place of them."""
        names = list(self._attributes)
        if not self._cells.used[layout.USED_CELLS]:
            return LastValues.room(names, 0)
        self._make_topics()
        room = LastValues.room(names, int(cells.count_values(self._lanes, self._cells, topics)))
        return room.chosen(slice(cells.list_values(self._lanes, self._cells, topics, *room[1:])))

    def _all_topics(self) -> Ints:
        return np.arange(len(self._topics), dtype=np.int32)

    def _attribute(self, name: str) -> int:
        return self._attributes.setdefault(name, len(self._attributes))

    def _lay_out(self, terms: Terms, remembered: LastValues) -> None:
        """Build all lanes and cells."""
        self._alone = None
        self._lanes = layout.lanes_of(terms, self._groups)
        self._cells = layout.no_cells(len(remembered.values))
        self._waiting, self._gathered = {}, []
        self._lane_count = len(self._lanes.next)
        self._live_terms = self._term_count = self._place_count = len(terms.slots)
        self._dead_terms = 0
        self._enter(remembered, self._all_topics())

    def _enter(self, remembered: LastValues, topics: Ints) -> None:
        """Enter values of these topics, all given by number, into the cells."""
        if not len(remembered.values):
            return
        self._make_topics()
        at = cells.enter_values(self._lanes, self._cells, *remembered[1:], 0)
        while at < len(remembered.values):
            self._make_cells(len(remembered.values) - at)
            at = cells.enter_values(self._lanes, self._cells, *remembered[1:], at)
        firing.refresh_topics(self._lanes, self._cells, topics)

    def _make_topics(self) -> None:
        """Have a place for every topic that was met."""
        if len(self._topics) > len(self._cells.topic_cell):
            self._cells = layout.grown(self._cells, ("topic_cell",), len(self._topics))

    def _make_cells(self, expected: int) -> None:
        """Have room for one more cell, whatever its lane, and for up to four times as many if so expected."""
        size = len(self._cells.lane)
        if self._cells.used[layout.USED_CELLS] == size:
            count = size * (4 if expected > 2 * size else 2)
            table = np.full(layout.table_size(count), -1, np.int32)
            self._cells = layout.grown(self._cells, layout.BY_CELL, count)._replace(table=table)
            cells.enter_cells(self._cells)
        self._make_values(1, int(self._lanes.capacity.max(initial=1)))

    def _make_values(self, count: int, capacity: int) -> None:
        """Have room for the values and nodes of so many cells more, each of a lane of this capacity."""
        used = self._cells.used
        values = int(used[layout.USED_VALUES]) + count * capacity
        nodes = int(used[layout.USED_NODES]) + count * int(cells.tree_nodes(capacity))
        self._cells = layout.grown(layout.grown(self._cells, ("last",), values), layout.BY_NODE, nodes)

    def _place(self, slot: int, filter: ChangeFilter) -> None:
        """Append one member to the lanes of its group."""
        self._lanes = layout.grown(self._lanes, layout.BY_SLOT, slot + 1)
        for name, tolerance in filter.tolerances:
            lane = self._lane(int(self._groups[slot]), self._attribute(name))
            if self._lanes.size[lane] == self._lanes.capacity[lane]:
                self._widen(lane)
            lanes = self._lanes
            place = int(lanes.size[lane])
            lanes.slots[lanes.start[lane] + place] = slot
            lanes.tolerances[lanes.start[lane] + place] = tolerance
            lanes.size[lane] = place + 1
            term = self._term_count
            self._term_count += 1
            self._live_terms += 1
            lanes = self._lanes = layout.grown(lanes, layout.BY_TERM, term + 1)
            lanes.term_lane[term], lanes.term_place[term] = lane, place
            lanes.term_next[term], lanes.slot_term[slot] = lanes.slot_term[slot], term
            lanes.slot_terms[slot] += 1
            firing.admit_member(lanes, self._cells, lane, place)

    def _lane(self, group: int, attribute: int) -> int:
        """The lane of this group and attribute, made without any place when there is none."""
        lanes = self._lanes = layout.grown(self._lanes, ("group_lane",), group + 1)
        lane = int(lanes.group_lane[group])
        while lane >= 0:
            if lanes.attribute[lane] == attribute:
                return lane
            lane = int(lanes.next[lane])
        lane = self._lane_count
        self._lane_count += 1
        lanes = self._lanes = layout.grown(lanes, layout.BY_LANE, lane + 1)
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
        lanes = self._lanes = layout.grown(self._lanes, layout.BY_PLACE, self._place_count)
        old = slice(int(lanes.start[lane]), int(lanes.start[lane]) + before)
        lanes.slots[start : start + before] = lanes.slots[old]
        lanes.tolerances[start : start + before] = lanes.tolerances[old]
        lanes.start[lane] = start
        lanes.capacity[lane] = after
        if lanes.first_cell[lane] >= 0:
            count = int((self._cells.lane == lane).sum())
            self._make_values(count, after)
            firing.widen_cells(lanes, self._cells, lane, before)
