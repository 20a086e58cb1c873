"""MFD, multi-level filter decomposition: tolerances split into sub-filters that share their lower levels.

After section 4.3.3 of the dynamic-filter paper; `decomposition` has the sub-filters. They are shared: the
one for a consistency value exists once in a group for each attribute, as a *proxy* while only longer chains
need it, as a real one once subscriptions ask for that value. A value that stops at one level is never shown
to those above it, which is what prunes the work; `evaluated` counts the comparisons made.

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
from typing import Any, ClassVar, Never, Self

import numpy as np
from numpy.typing import NDArray

from distributary.errors import DistributaryError
from distributary.filters.change import ChangeFilter, number_of
from distributary.matching import frozen
from distributary.matching.change.decomposition import Key, SubFilter, SubFilterState, chain_of
from distributary.matching.change.index import AttributeMove, ListedChangeIndex, Peek
from distributary.matching.change.memory import LastValues
from distributary.matching.change.topics import TopicNumbers
from distributary.matching.index import Arrays
from distributary.model import Event

STATES = {
    "groups": np.int32,
    "attributes": np.int32,
    "units": np.int64,
    "widths": np.float64,
    "topics": np.int32,
    "passed": np.float64,
}
"""The frozen columns of filters' states, each named `state_...`."""

APART = {"slots": np.int32, "attributes": np.int32, "topics": np.int32, "values": np.float64}
"""The frozen columns of subscribers that are apart from their filter's state, each named `apart_...`."""


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
        """Add a subscriber at the end of its chain, whose filters are made where there are none."""
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
        super().__init__()
        self.evaluated = 0
        """How many comparisons of a value with a state have been made."""
        self._groups: dict[int, dict[str, _Item]] = {}

    def chain(self, tolerance: float) -> list[Key]:
        """The filters that make up a tolerance, in the order in which a value passes them."""
        return list(chain_of(self.unit, tolerance))

    def filters_of(self, attribute: str, group: int = 0) -> list[tuple[int, int]]:
        """The filters of one attribute: the units of each with the number of its subscribers, sorted."""
        item = self._groups.get(group, {}).get(attribute)
        return sorted((units, len(f.slots)) for (units, _), f in item.filters.items()) if item else []

    def remove(self, slot: int) -> None:
        filter, group = self._filters.pop(slot)
        items = self._groups[group]
        for name, tolerance in filter.tolerances:
            items[name].unsubscribe(slot, self.chain(tolerance)[-1])
            if not items[name].filters:
                del items[name]
        if not items:
            del self._groups[group]

    def _enrol(self, slot: int, filter: ChangeFilter, group: int) -> None:
        items = self._groups.setdefault(group, {})
        for name, tolerance in filter.tolerances:
            items.setdefault(name, _Item()).subscribe(slot, self.chain(tolerance))

    def _watched(self, group: int) -> Mapping[str, _Item]:
        return self._groups.get(group, {})

    def _advance(self, group: int, topic: int, values: Mapping[str, float]) -> list[int]:
        items = self._watched(group)
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
            moves.append(AttributeMove(name, end.key[1], value, before, moved))
        return Peek(any(move.moved for move in moves), tuple(moves), "; ".join(stops))

    def forget(self) -> None:
        self._topics = TopicNumbers()
        for _, _, item in self._items():
            item.fresh = {}
            for filter in item.filters.values():
                filter.states = {}

    def recall(self, topics: Sequence[str | None]) -> Never:
        raise _immovable()

    def restore(self, topics: Sequence[str | None], remembered: LastValues) -> Never:
        raise _immovable()

    def memory(self) -> int:
        """An estimate: what a small dictionary takes for each filter, state and subscriber."""
        filters = [filter for _, _, item in self._items() for filter in item.filters.values()]
        return sum(400 + 100 * len(f.slots) + 300 * len(f.states) for f in filters)

    def _items(self) -> Iterator[tuple[int, str, _Item]]:
        """All items, each with its group and attribute."""
        for group, items in self._groups.items():
            for name, item in items.items():
                yield group, name, item

    def freeze(self) -> Arrays:
        names = sorted({name for _, name, _ in self._items()})
        states = [
            (group, names.index(name), *key, topic, state)
            for group, name, item in self._items()
            for key, filter in item.filters.items()
            for topic, state in filter.states.items()
        ]
        apart = [
            (slot, attribute, topic, math.nan if last is None else last)
            for _, attribute, _, _, topic, state in states
            for slot, last in state.apart.items()
        ]
        passed = [(*place, state.passed) for *place, state in states]
        return {
            **super().freeze(),
            "unit": np.array([self.unit]),
            **frozen.under("attributes", frozen.pack_texts(names)),
            **_columns("state_", STATES, passed),
            **_columns("apart_", APART, apart),
        }

    @classmethod
    def open(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        index = cls(float(arrays["unit"][0]))
        index._refill(arrays)
        names = frozen.unpack_texts(frozen.within(arrays, "attributes"))
        for group, attribute, units, width, topic, passed in _rows(arrays, "state_", STATES):
            item = index._groups[group][names[attribute]]
            item.fresh.setdefault(topic, {})
            item.filters[units, width].states[topic] = SubFilterState(passed)
        for slot, attribute, topic, last in _rows(arrays, "apart_", APART):
            end = dict(index._ends(slot))[names[attribute]]
            end.states[topic].apart[slot] = None if last != last else last
        # Note for each topic which filters still wait for a first value.
        for _, _, item in index._items():
            for topic, fresh in item.fresh.items():
                for key, filter in item.filters.items():
                    state = filter.states.get(topic)
                    if state is None or None in state.apart.values():
                        fresh[key] = filter
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


def _columns(prefix: str, types: Mapping[str, Any], rows: Sequence[tuple[Any, ...]]) -> Arrays:
    """Rows as frozen columns of these names and types."""
    return {
        prefix + name: np.array([row[at] for row in rows], kind)
        for at, (name, kind) in enumerate(types.items())
    }


def _rows(
    arrays: Mapping[str, NDArray[Any]], prefix: str, types: Mapping[str, Any]
) -> Iterator[tuple[Any, ...]]:
    """The rows that `_columns` wrote."""
    return zip(*(arrays[prefix + name].tolist() for name in types), strict=True)
