"""MFD, multi-level filter decomposition: tolerances split into sub-filters that share their lower levels.

After section 4.3.3 of the dynamic-filter paper. A tolerance is counted in whole units and written in base
4; each non-zero digit, from the lowest, is a sub-filter, and what one lets pass is all that the next one
sees. 21 units are 111 in base 4: a value must move by more than 1 to pass 001, then by more than 4 from
what 011 let pass last, then by more than 16 from what 111 let pass last. Filters are shared: the one for a
consistency value exists once in a group for each attribute, as a *proxy* while only longer chains need it,
as a real one once subscriptions ask for that value. A value that stops at one level is never shown to
those above it, which is what prunes the work; `evaluated` counts the comparisons made.

What holds: after every event, the value last delivered to a subscriber is no further than its tolerance
from the value of that event. By the triangle inequality the levels' tolerances add up (the paper's
Theorem 1 claims an equality, which is false; deliveries differ from those of SF). To make it hold to the
last bit, units are rounded down so that the widths add up to no more than the tolerance, and the widths
are compared with exact distances.

Every subscriber and every filter has a state of its own for each topic, and takes the first value it meets
as it comes, whatever the levels below say. That keeps the bound: if a filter with lower levels of total
width C and own width w starts at a value v, then the level below holds some p within C of v, and until
that level moves the source stays within C of p, so within 2C of v; digits in base 4 have C < w, so 2C is
less than the filter's total C + w. The same argument allows a subscriber with several attributes to be
re-centred on all of them when any one fires, so such filters are one chain for each attribute. A tolerance
below one unit is a plain filter on the source.

Cost: an event takes time proportional to the filters it is shown to and the deliveries it causes, not to
the number of subscriptions.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, ClassVar, Generic, Never, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from distributary.errors import DistributaryError
from distributary.filters.change import ChangeFilter, number_of
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.change.index import Facts, ListedChangeIndex, Move, Peek, numbers_of
from distributary.matching.change.topics import TopicNumbers
from distributary.matching.index import Arrays, Pairs
from distributary.model import Event

S = TypeVar("S")
"""What stands for a subscriber: a slot number here, a subscription's id in a network."""
T = TypeVar("T")
"""What stands for a topic."""

BASE = 4

MOST_UNITS = BASE**26 - 1
"""Larger tolerances count as this many units, the most that float64 tells apart."""

Key = tuple[int, float]
"""A filter of an item: its units and width. Units are 0 for plain filters, which differ in width alone."""


@dataclass(frozen=True, slots=True, order=True)
class LogicalNode:
    """Where a consistency value belongs in Figure 8: its level, and the leading digit within that level."""

    level: int
    digit: int

    @property
    def index(self) -> int:
        """Its number when nodes are counted from 0, left to right and from the lowest level up."""
        return (self.level - 1) * (BASE - 1) + self.digit - 1


def parts_of(units: int) -> list[int]:
    """The sub-filters of a consistency value: its non-zero digits at their places, lowest first.

    >>> parts_of(21), parts_of(34)
    ([1, 4, 16], [2, 32])
    """
    parts = []
    power = 1
    while units:
        units, digit = divmod(units, BASE)
        if digit:
            parts.append(digit * power)
        power *= BASE
    return parts


def level_of(units: int) -> int:
    """How many sub-filters a consistency value has; 0 for a plain filter.

    >>> level_of(21), level_of(34), level_of(0)
    (3, 2, 0)
    """
    return len(parts_of(units))


def logical_node(units: int) -> LogicalNode:
    """The logical node that stores a consistency value; ValueError for 0, which is no chain.

    >>> logical_node(34), logical_node(34).index
    (LogicalNode(level=2, digit=2), 4)
    """
    if units < 1:
        raise ValueError(f"{units} units belong to no logical node; it takes at least 1")
    parts = parts_of(units)
    digit = parts[-1]
    while digit >= BASE:
        digit //= BASE
    return LogicalNode(len(parts), digit)


@lru_cache(maxsize=1 << 16)
def chain_of(unit: float, tolerance: float) -> tuple[Key, ...]:
    """The filters that make up a tolerance, in the order in which a value passes them.

    >>> chain_of(1.0, 21.0)
    ((1, 1.0), (5, 4.0), (21, 16.0))
    """
    units = min(Fraction(tolerance) // Fraction(unit), MOST_UNITS)
    while sum(Fraction(part * unit) for part in parts_of(units)) > Fraction(tolerance):
        units -= 1
    parts = parts_of(units)
    if not parts:
        return ((0, tolerance),)
    return tuple((sum(parts[: at + 1]), part * unit) for at, part in enumerate(parts))


class State(Generic[S]):
    """One filter's state for one topic.

    `passed` is the value it let pass last. Subscribers are in step with it, having been delivered that value
    last, save those in `apart`: they were delivered another one, or nothing yet (None).
    """

    __slots__ = ("apart", "passed")

    def __init__(self, passed: float) -> None:
        self.passed = passed
        self.apart: dict[S, float | None] = {}

    def deliver(self, slot: S, value: float) -> None:
        """A subscriber gets this value."""
        if value == self.passed:
            self.apart.pop(slot, None)
        else:
            self.apart[slot] = value


class SubFilter(Generic[S, T]):
    """A sub-filter with the subscribers at its consistency value (none: a proxy) and a state a topic."""

    __slots__ = ("key", "slots", "states")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.slots: dict[S, None] = {}
        self.states: dict[T, State[S]] = {}

    def moved(self, value: float, last: float) -> bool:
        """Whether the value is further from the last one than the width: exactly, unless it is plain."""
        units, width = self.key
        distance = abs(value - last)
        if distance == width and units:
            return math.fsum((max(value, last), -min(value, last), -width)) > 0
        return distance > width

    def begin(self, topic: T, value: float) -> list[S]:
        """Take the value as the first one, here and for the subscribers that have none; they fire."""
        state = self.states.get(topic)
        if state is None:
            self.states[topic] = State(value)
            return list(self.slots)
        fired = [slot for slot, last in state.apart.items() if last is None]
        for slot in fired:
            state.deliver(slot, value)
        return fired

    def advance(self, state: State[S], value: float) -> tuple[bool, list[S]]:
        """Whether the value passes, and the subscribers that fire. Those without a first value wait."""
        apart = [slot for slot, last in state.apart.items() if last is not None and self.moved(value, last)]
        passed = self.moved(value, state.passed)
        fired = [slot for slot in self.slots if slot not in state.apart] + apart if passed else apart
        if passed:
            state.passed = value
        for slot in apart:
            state.deliver(slot, value)
        return passed, fired


class _Filter(SubFilter[int, int]):
    """A sub-filter that knows the one it is fed by and those it feeds."""

    __slots__ = ("children", "parent")

    def __init__(self, key: Key, parent: _Filter | None) -> None:
        super().__init__(key)
        self.parent = parent
        self.children: dict[Key, _Filter] = {}


class _Item:
    """The filters of one attribute in one group: a forest in which every parent has fewer units."""

    __slots__ = ("filters", "fresh", "roots")

    def __init__(self) -> None:
        self.filters: dict[Key, _Filter] = {}
        self.roots: dict[Key, _Filter] = {}
        self.fresh: dict[int, dict[Key, _Filter]] = {}
        """For each topic met, the filters that have no state yet, or a subscriber without one."""

    def subscribe(self, slot: int, chain: Sequence[Key]) -> None:
        filter = None
        for key in chain:
            filter = self._filter(key, filter)
        assert filter is not None, "a chain has at least one filter"
        filter.slots[slot] = None
        for topic, fresh in self.fresh.items():
            fresh[filter.key] = filter
            if topic in filter.states:
                filter.states[topic].apart[slot] = None

    def _filter(self, key: Key, parent: _Filter | None) -> _Filter:
        """The filter of this key, made as a proxy when there is none."""
        filter = self.filters.get(key)
        if filter is None:
            filter = self.filters[key] = _Filter(key, parent)
            (self.roots if parent is None else parent.children)[key] = filter
            for fresh in self.fresh.values():
                fresh[key] = filter
        return filter

    def unsubscribe(self, slot: int, key: Key) -> None:
        """Strike a subscriber out, and the filters that nobody needs any longer.

        A filter that others still need stays as a proxy and keeps its state.
        """
        filter: _Filter | None = self.filters[key]
        assert filter is not None
        del filter.slots[slot]
        for state in filter.states.values():
            state.apart.pop(slot, None)
        while filter is not None and not filter.slots and not filter.children:
            del self.filters[filter.key]
            del (self.roots if filter.parent is None else filter.parent.children)[filter.key]
            for fresh in self.fresh.values():
                fresh.pop(filter.key, None)
            filter = filter.parent

    def advance(self, topic: int, value: float) -> tuple[list[int], int]:
        """Show a value to the lowest level, and to each further filter whose parent let it pass.

        Returns the slots that fire and the number of comparisons. First values are compared with nothing.
        """
        fired: list[int] = []
        evaluated = 0
        fresh = self.fresh.get(topic, self.filters)
        self.fresh[topic] = {}
        shown = list(self.roots.values())
        for filter in shown:
            state = filter.states.get(topic)
            if state is None:
                continue
            evaluated += 1 + len(state.apart)
            passed, slots = filter.advance(state, value)
            fired.extend(slots)
            if passed:
                shown.extend(filter.children.values())
        for filter in fresh.values():
            fired.extend(filter.begin(topic, value))
        return fired, evaluated


class ChangeMFD(ListedChangeIndex):
    """Shows a value to the sub-filters of the lowest level, and to higher ones only what passes.

    `unit` is the size of one unit of tolerance: 1 as in the paper, 0.01 for prices in cents.

    >>> index = ChangeMFD()
    >>> index.add(0, ChangeFilter.parse({"price": 21}))
    >>> index.filters_of("price")  # two proxies and the subscription's own
    [(1, 0), (5, 0), (21, 1)]
    """

    name: ClassVar[str] = "mfd"

    def __init__(self, unit: float = 1.0) -> None:
        if not 0 < unit < math.inf:
            raise ValueError(f"the unit must be a finite number above 0, not {unit!r}")
        self.unit = float(unit)
        self.evaluated = 0
        """How many comparisons of a value with a state have been made."""
        self._filters: dict[int, tuple[ChangeFilter, int]] = {}
        self._groups: dict[int, dict[str, _Item]] = {}
        self._topics = TopicNumbers()

    def units(self, tolerance: float) -> int:
        """A tolerance in whole units, rounded down; 0 makes it a plain filter.

        Rounded so that the widths of the sub-filters, as floats, add up to no more than the tolerance.
        """
        return self.chain(tolerance)[-1][0]

    def chain(self, tolerance: float) -> list[Key]:
        """The filters that make up a tolerance, in the order in which a value passes them."""
        return list(chain_of(self.unit, tolerance))

    def filters_of(self, attribute: str, group: int = 0) -> list[tuple[int, int]]:
        """The filters of one attribute: the units of each with the number of its subscribers, sorted."""
        item = self._groups.get(group, {}).get(attribute)
        return sorted((units, len(f.slots)) for (units, _), f in item.filters.items()) if item else []

    def add(self, slot: int, filter: ChangeFilter, group: int = 0) -> None:
        if slot in self._filters:
            raise ValueError(f"slot {slot} is taken")
        self._filters[slot] = (filter, group)
        items = self._groups.setdefault(group, {})
        for name, tolerance in filter.tolerances:
            items.setdefault(name, _Item()).subscribe(slot, self.chain(tolerance))

    def remove(self, slot: int) -> None:
        filter, group = self._filters.pop(slot)
        items = self._groups[group]
        for name, tolerance in filter.tolerances:
            items[name].unsubscribe(slot, self.chain(tolerance)[-1])
            if not items[name].filters:
                del items[name]
        if not items:
            del self._groups[group]

    def fire(self, batch: EventBatch, rows: NDArray[np.int32], groups: NDArray[np.int32]) -> Pairs:
        topics = self._topics.of_rows(batch, rows)
        columns: dict[str, NDArray[np.float64] | None] = {}
        parts = []
        for row, group in zip(rows.tolist(), groups.tolist(), strict=True):
            values: dict[str, float] = {}
            for name in self._groups.get(group, ()):
                if name not in columns:
                    columns[name] = numbers_of(batch, name)
                column = columns[name]
                if column is not None and column[row] == column[row]:
                    values[name] = float(column[row])
            fired = self._advance(group, int(topics[row]), values)
            parts.append(Pairs(np.full(len(fired), row, np.int32), np.array(fired, np.int32)))
        return Pairs.joined(parts)

    def _advance(self, group: int, topic: int, values: Mapping[str, float]) -> list[int]:
        """Show one event's values to the items of a group; the slots that fire, each once."""
        items = self._groups.get(group, {})
        fired: list[int] = []
        for name, value in values.items():
            slots, evaluated = items[name].advance(topic, value)
            fired.extend(slots)
            self.evaluated += evaluated
        if len(items) == 1:
            return fired
        fired = list(dict.fromkeys(fired))
        for slot in fired:
            for name, filter in self._ends(slot):
                if name in values:
                    filter.states[topic].deliver(slot, values[name])
        return fired

    def _ends(self, slot: int) -> Iterator[tuple[str, _Filter]]:
        """The last filter of each of a slot's chains."""
        filter, group = self._filters[slot]
        for name, tolerance in filter.tolerances:
            yield name, self._groups[group][name].filters[self.chain(tolerance)[-1]]

    def last(self, slot: int, topic: str | None) -> dict[str, float]:
        number = self._topics.find(topic)
        values = {}
        for name, filter in self._ends(slot):
            state = None if number is None else filter.states.get(number)
            value = None if state is None else state.apart.get(slot, state.passed)
            if value is not None:
                values[name] = value
        return values

    def peek(self, event: Event, slot: int) -> Peek:
        """As for the others, with the width of the last sub-filter for the tolerance of each move."""
        last = self.last(slot, event.topic)
        topic = self._topics.find(event.topic)
        moves, stops = [], []
        for name, end in self._ends(slot):
            value, before = number_of(event.attributes.get(name)), last.get(name)
            moved = value is not None
            if value is not None and before is not None and topic is not None:
                stop = _stop(end.parent, topic, value)
                moved = stop is None and end.moved(value, before)
                if stop is not None:
                    stops.append(f"{name} stops at the sub-filter of {stop.key[1]:g} below")
            moves.append(Move(name, end.key[1], value, before, moved))
        return Peek(any(move.moved for move in moves), tuple(moves), "; ".join(stops))

    def forget(self) -> None:
        self._topics = TopicNumbers()
        for items in self._groups.values():
            for item in items.values():
                item.fresh = {}
                for filter in item.filters.values():
                    filter.states = {}

    def recall(self, topics: Sequence[str | None]) -> Never:
        raise _immovable()

    def restore(self, topics: Sequence[str | None], facts: Facts) -> Never:
        raise _immovable()

    def memory(self) -> int:
        """An estimate: what a small dictionary takes for each filter, state and subscriber."""
        filters = [
            f for items in self._groups.values() for item in items.values() for f in item.filters.values()
        ]
        return sum(400 + 100 * len(f.slots) + 300 * len(f.states) for f in filters)

    def freeze(self) -> Arrays:
        names = sorted({name for items in self._groups.values() for name in items})
        states = [
            (group, names.index(name), key, topic, state)
            for group, items in self._groups.items()
            for name, item in items.items()
            for key, filter in item.filters.items()
            for topic, state in filter.states.items()
        ]
        apart = [
            (slot, attribute, topic, math.nan if last is None else last)
            for _, attribute, _, topic, state in states
            for slot, last in state.apart.items()
        ]
        return {
            **super().freeze(),
            "unit": np.array([self.unit]),
            "groups": np.array([group for _, group in self._filters.values()], np.int32),
            **frozen.under("attributes", frozen.pack_texts(names)),
            **frozen.under("topics", frozen.pack_texts(self._topics.topics())),
            "state_groups": np.array([state[0] for state in states], np.int32),
            "state_attributes": np.array([state[1] for state in states], np.int32),
            "state_units": np.array([state[2][0] for state in states], np.int64),
            "state_widths": np.array([state[2][1] for state in states], np.float64),
            "state_topics": np.array([state[3] for state in states], np.int32),
            "state_passed": np.array([state[4].passed for state in states], np.float64),
            "apart_slots": np.array([one[0] for one in apart], np.int32),
            "apart_attributes": np.array([one[1] for one in apart], np.int32),
            "apart_topics": np.array([one[2] for one in apart], np.int32),
            "apart_values": np.array([one[3] for one in apart], np.float64),
        }

    @classmethod
    def open(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        index = cls(float(arrays["unit"][0]))
        texts = frozen.unpack_texts(frozen.within(arrays, "texts"))
        index.add_many(arrays["slots"].tolist(), map(ChangeFilter.parse, texts), arrays["groups"].tolist())
        index._topics = TopicNumbers(frozen.unpack_texts(frozen.within(arrays, "topics")))
        names = frozen.unpack_texts(frozen.within(arrays, "attributes"))
        for group, attribute, units, width, topic, passed in _rows(
            arrays, "state_", "groups", "attributes", "units", "widths", "topics", "passed"
        ):
            item = index._groups[group][names[attribute]]
            item.fresh.setdefault(topic, {})
            item.filters[units, width].states[topic] = State(passed)
        for slot, attribute, topic, last in _rows(
            arrays, "apart_", "slots", "attributes", "topics", "values"
        ):
            end = dict(index._ends(slot))[names[attribute]]
            end.states[topic].apart[slot] = None if last != last else last
        for items in index._groups.values():
            for item in items.values():
                _find_fresh(item)
        return index


def _immovable() -> DistributaryError:
    """Its memory cannot leave it: shared filters remember for subscribers that are gone.

    What a filter let pass last outlives those who were subscribed when it did, if others came before they
    left. So the order of changes counts, which no account by subscriber can tell.
    """
    return DistributaryError(
        "what the change engine 'mfd' remembers cannot be moved elsewhere, because its subscribers share it; "
        "choose the engine 'thresholds' or 'sf' where tolerances are kept as state"
    )


def _stop(filter: _Filter | None, topic: int, value: float) -> _Filter | None:
    """The lowest filter, from the source up to this one, that does not let the value pass."""
    stop = None
    while filter is not None:
        state = filter.states.get(topic)
        if state is not None and not filter.moved(value, state.passed):
            stop = filter
        filter = filter.parent
    return stop


def _find_fresh(item: _Item) -> None:
    """Note for each topic which filters still wait for a first value."""
    for topic, fresh in item.fresh.items():
        for key, filter in item.filters.items():
            state = filter.states.get(topic)
            if state is None or None in state.apart.values():
                fresh[key] = filter


def _rows(arrays: Mapping[str, NDArray[Any]], prefix: str, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(arrays[prefix + name].tolist() for name in names), strict=True)
