"""SF, single-level filtering: every subscription is compared with every event of its group.

The reference among the tolerance engines, after section 4.3.2 of the dynamic-filter paper. Each group keeps
a matrix of tolerances (members by attributes) and, for each topic, a matrix of the same shape with the
values last delivered, NaN where there is none. An event is one pass over the two.

Cost: an event takes time proportional to the members of its groups, however few fire; an addition or
removal copies the matrices of one group when it is next asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from distributary.filters.change import ChangeFilter
from distributary.kernel import Floats, Ints
from distributary.matching import frozen
from distributary.matching.change.index import ListedChangeIndex
from distributary.matching.change.memory import LastValues
from distributary.matching.change.topics import TopicNumbers
from distributary.matching.index import Arrays


class _Group:
    """The members of one group; column j of every matrix is about `attributes[j]`."""

    __slots__ = ("attributes", "last", "slots", "tolerances", "waiting")

    def __init__(self) -> None:
        self.attributes: list[str] = []
        self.slots: Ints = np.empty(0, np.int32)
        self.tolerances: Floats = np.empty((0, 0))
        self.last: dict[int, Floats] = {}
        self.waiting: dict[int, ChangeFilter] = {}

    def settle(self) -> None:
        """Give the members that wait a row each, and the attributes that are new a column."""
        if not self.waiting:
            return
        names = {name for filter in self.waiting.values() for name in filter.attributes}
        self.attributes.extend(sorted(names - set(self.attributes)))
        column = {name: at for at, name in enumerate(self.attributes)}
        old, columns = self.tolerances.shape
        more = ((0, len(self.waiting)), (0, len(self.attributes) - columns))
        self.slots = np.append(self.slots, np.fromiter(self.waiting, np.int32, len(self.waiting)))
        self.tolerances = np.pad(self.tolerances, more, constant_values=np.nan)
        self.last = {topic: np.pad(last, more, constant_values=np.nan) for topic, last in self.last.items()}
        for row, filter in enumerate(self.waiting.values(), old):
            for name, tolerance in filter.tolerances:
                self.tolerances[row, column[name]] = tolerance
        self.waiting = {}

    def strike(self, slot: int) -> None:
        """Remove a member and what it was last delivered."""
        if slot in self.waiting:
            del self.waiting[slot]
            return
        keep = self.slots != slot
        self.slots = self.slots[keep]
        self.tolerances = self.tolerances[keep]
        self.last = {topic: last[keep] for topic, last in self.last.items()}

    def of_topic(self, topic: int) -> Floats:
        """The matrix of values last delivered for a topic, made when there is none."""
        if topic not in self.last:
            self.last[topic] = np.full(self.tolerances.shape, np.nan)
        return self.last[topic]

    def advance(self, topic: int, values: Floats) -> Ints:
        """The slots that fire on these values (NaN: no number); they are the last delivered from now on."""
        last = self.of_topic(topic)
        carried = ~np.isnan(values) & ~np.isnan(self.tolerances)
        with np.errstate(invalid="ignore", over="ignore"):
            far = np.abs(values - last) > self.tolerances
        fires: NDArray[np.bool_] = np.any(carried & (far | np.isnan(last)), axis=1)
        np.copyto(last, values, where=carried & fires[:, np.newaxis])
        return self.slots[fires]


class ChangeSF(ListedChangeIndex):
    """Compares every member of a group with every event the group is shown."""

    name: ClassVar[str] = "sf"

    def __init__(self) -> None:
        super().__init__()
        self._groups: dict[int, _Group] = {}

    def remove(self, slot: int) -> None:
        _, number = self._filters.pop(slot)
        group = self._groups[number]
        group.strike(slot)
        if not len(group.slots) and not group.waiting:
            del self._groups[number]

    def _enrol(self, slot: int, filter: ChangeFilter, group: int) -> None:
        self._groups.setdefault(group, _Group()).waiting[slot] = filter

    def _watched(self, group: int) -> Sequence[str]:
        if group not in self._groups:
            return ()
        self._groups[group].settle()
        return self._groups[group].attributes

    def _advance(self, group: int, topic: int, values: Mapping[str, float]) -> Sequence[int] | Ints:
        members = self._groups.get(group)
        if members is None:
            return ()
        return members.advance(topic, np.array([values.get(name, np.nan) for name in members.attributes]))

    def last(self, slot: int, topic: str | None) -> dict[str, float]:
        group = self._groups[self._filters[slot][1]]
        group.settle()
        number = self._topics.find(topic)
        if number is None or number not in group.last:
            return {}
        row = group.last[number][int(np.flatnonzero(group.slots == slot)[0])]
        return {
            name: value for name, value in zip(group.attributes, row.tolist(), strict=True) if value == value
        }

    def forget(self) -> None:
        self._topics = TopicNumbers()
        for group in self._groups.values():
            group.last = {}

    def recall(self, topics: Sequence[str | None]) -> LastValues:
        numbers = {self._topics.find(topic): at for at, topic in enumerate(topics)}
        names = sorted({name for group in self._groups.values() for name in group.attributes})
        code = {name: at for at, name in enumerate(names)}
        found = [
            (int(group.slots[row]), code[group.attributes[column]], numbers[topic], last[row, column])
            for group in self._groups.values()
            for topic, last in group.last.items()
            if topic in numbers
            for row, column in np.argwhere(~np.isnan(last)).tolist()
        ]
        columns = np.array(found, np.float64).reshape(-1, 4).T
        slots, attributes, at = columns[:3].astype(np.int32)
        return LastValues(names, slots, attributes, at, columns[3].copy())

    def restore(self, topics: Sequence[str | None], remembered: LastValues) -> None:
        numbers = self._topics.of(topics)
        self._enter(remembered._replace(topics=numbers[remembered.topics]))

    def memory(self) -> int:
        return sum(
            group.slots.nbytes + group.tolerances.nbytes + sum(last.nbytes for last in group.last.values())
            for group in self._groups.values()
        )

    def freeze(self) -> Arrays:
        for group in self._groups.values():
            group.settle()
        everything = self.recall([None, *self._topics.topics()])
        return {**super().freeze(), **frozen.under("facts", everything.to_arrays())}

    @classmethod
    def open(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        index = cls()
        index._refill(arrays)
        index._enter(LastValues.from_arrays(frozen.within(arrays, "facts")))
        return index

    def _enter(self, remembered: LastValues) -> None:
        """Enter values, whose topics are given by number, into the matrices."""
        places: dict[int, int] = {}
        columns: dict[int, dict[str, int]] = {}
        for number, group in self._groups.items():
            group.settle()
            places.update((slot, row) for row, slot in enumerate(group.slots.tolist()))
            columns[number] = {name: column for column, name in enumerate(group.attributes)}
        for slot, attribute, topic, value in zip(*map(np.ndarray.tolist, remembered[1:]), strict=True):
            name = remembered.names[attribute]
            filter, number = self._filters[slot]
            if name not in filter.attributes:
                continue
            group = self._groups[number]
            group.of_topic(topic)[places[slot], columns[number][name]] = value
