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
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.change.index import Facts, ListedChangeIndex, numbers_of
from distributary.matching.change.topics import TopicNumbers
from distributary.matching.index import Arrays, Pairs

Matrix = NDArray[np.float64]


class _Group:
    """The members of one group; column j of every matrix is about `attributes[j]`."""

    __slots__ = ("attributes", "last", "slots", "tolerances", "waiting")

    def __init__(self) -> None:
        self.attributes: list[str] = []
        self.slots: NDArray[np.int32] = np.empty(0, np.int32)
        self.tolerances: Matrix = np.empty((0, 0))
        self.last: dict[int, Matrix] = {}
        self.waiting: dict[int, ChangeFilter] = {}

    def settle(self) -> None:
        """Give the members that wait a row each, and the attributes that are new a column."""
        if not self.waiting:
            return
        names = {name for filter in self.waiting.values() for name in filter.attributes}
        self.attributes.extend(sorted(names - set(self.attributes)))
        column = {name: at for at, name in enumerate(self.attributes)}
        old = len(self.slots)
        shape = (old + len(self.waiting), len(self.attributes))
        self.slots = np.append(self.slots, np.fromiter(self.waiting, np.int32, len(self.waiting)))
        self.tolerances = _enlarged(self.tolerances, shape)
        self.last = {topic: _enlarged(last, shape) for topic, last in self.last.items()}
        for row, filter in enumerate(self.waiting.values(), old):
            for name, tolerance in filter.tolerances:
                self.tolerances[row, column[name]] = tolerance
        self.waiting = {}

    def strike(self, slot: int) -> None:
        if slot in self.waiting:
            del self.waiting[slot]
            return
        keep = self.slots != slot
        self.slots = self.slots[keep]
        self.tolerances = self.tolerances[keep]
        self.last = {topic: last[keep] for topic, last in self.last.items()}

    def advance(self, topic: int, values: Matrix) -> NDArray[np.int32]:
        """The slots that fire on these values (NaN: no number); they are the last delivered from now on."""
        last = self.last.get(topic)
        if last is None:
            last = self.last[topic] = np.full(self.tolerances.shape, np.nan)
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
        self._filters: dict[int, tuple[ChangeFilter, int]] = {}
        self._groups: dict[int, _Group] = {}
        self._topics = TopicNumbers()

    def add(self, slot: int, filter: ChangeFilter, group: int = 0) -> None:
        if slot in self._filters:
            raise ValueError(f"slot {slot} is taken")
        self._filters[slot] = (filter, group)
        self._groups.setdefault(group, _Group()).waiting[slot] = filter

    def remove(self, slot: int) -> None:
        _, number = self._filters.pop(slot)
        group = self._groups[number]
        group.strike(slot)
        if not len(group.slots) and not group.waiting:
            del self._groups[number]

    def fire(self, batch: EventBatch, rows: NDArray[np.int32], groups: NDArray[np.int32]) -> Pairs:
        topics = self._topics.of_rows(batch, rows)
        columns: dict[str, NDArray[np.float64] | None] = {}
        parts = []
        for row, number in zip(rows.tolist(), groups.tolist(), strict=True):
            group = self._groups.get(number)
            if group is None:
                continue
            group.settle()
            values = np.full(len(group.attributes), np.nan)
            for at, name in enumerate(group.attributes):
                if name not in columns:
                    columns[name] = numbers_of(batch, name)
                column = columns[name]
                if column is not None:
                    values[at] = column[row]
            fired = group.advance(int(topics[row]), values)
            parts.append(Pairs(np.full(len(fired), row, np.int32), fired))
        return Pairs.joined(parts)

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

    def recall(self, topics: Sequence[str | None]) -> Facts:
        numbers = {self._topics.find(topic): at for at, topic in enumerate(topics)}
        names = sorted({name for group in self._groups.values() for name in group.attributes})
        code = {name: at for at, name in enumerate(names)}
        facts = [
            (int(group.slots[row]), code[group.attributes[column]], numbers[topic], last[row, column])
            for group in self._groups.values()
            for topic, last in group.last.items()
            if topic in numbers
            for row, column in np.argwhere(~np.isnan(last)).tolist()
        ]
        return Facts(
            names,
            np.array([fact[0] for fact in facts], np.int32),
            np.array([fact[1] for fact in facts], np.int32),
            np.array([fact[2] for fact in facts], np.int32),
            np.array([fact[3] for fact in facts], np.float64),
        )

    def restore(self, topics: Sequence[str | None], facts: Facts) -> None:
        numbers = self._topics.of(topics)
        self._enter(facts._replace(topics=numbers[facts.topics]))

    def memory(self) -> int:
        return sum(
            group.slots.nbytes + group.tolerances.nbytes + sum(last.nbytes for last in group.last.values())
            for group in self._groups.values()
        )

    def freeze(self) -> Arrays:
        for group in self._groups.values():
            group.settle()
        topics = self._topics.topics()
        return {
            **super().freeze(),
            "groups": np.array([group for _, group in self._filters.values()], np.int32),
            **frozen.under("topics", frozen.pack_texts(topics)),
            **frozen.under("facts", self.recall([None, *topics]).to_arrays()),
        }

    @classmethod
    def open(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        index = cls()
        texts = frozen.unpack_texts(frozen.within(arrays, "texts"))
        index.add_many(arrays["slots"].tolist(), map(ChangeFilter.parse, texts), arrays["groups"].tolist())
        index._topics = TopicNumbers(frozen.unpack_texts(frozen.within(arrays, "topics")))
        index._enter(Facts.from_arrays(frozen.within(arrays, "facts")))
        return index

    def _enter(self, facts: Facts) -> None:
        """Enter facts, whose topics are given by number, into the matrices."""
        places: dict[int, int] = {}
        columns: dict[int, dict[str, int]] = {}
        for number, group in self._groups.items():
            group.settle()
            places.update((slot, row) for row, slot in enumerate(group.slots.tolist()))
            columns[number] = {name: column for column, name in enumerate(group.attributes)}
        for slot, attribute, topic, value in zip(
            facts.slots.tolist(),
            facts.attributes.tolist(),
            facts.topics.tolist(),
            facts.values.tolist(),
            strict=True,
        ):
            filter, number = self._filters[slot]
            if facts.names[attribute] not in filter.attributes:
                continue
            group = self._groups[number]
            last = group.last.get(topic)
            if last is None:
                last = group.last[topic] = np.full(group.tolerances.shape, np.nan)
            last[places[slot], columns[number][facts.names[attribute]]] = value


def _enlarged(matrix: Matrix, shape: tuple[int, int]) -> Matrix:
    larger = np.full(shape, np.nan)
    larger[: matrix.shape[0], : matrix.shape[1]] = matrix
    return larger
