"""The interface of all engines for tolerances: which subscriptions has this event moved for?

The answer depends on what was delivered before, so these indexes have a memory: for every slot, topic and
named attribute the value last delivered. `fire` reads it and advances it; nothing else changes it but
`forget` and the removal of slots. An event without a topic belongs to one topic of its own.

Slots belong to *groups*, small whole numbers that the owner chooses. `Matcher` puts subscriptions whose
other filters are identical into one group: their members see the same events, so an engine can look at
them together. Each slot has a memory of its own all the same: removing one never disturbs another, and a
slot that is added later, also under a number that was used before, starts afresh.

`filters.change` states the arithmetic. `ChangeSF` and `ChangeThresholds` follow it to the letter;
`ChangeMFD` keeps the tolerances but delivers at other moments, and says how.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.filters.change import ChangeFilter, number_of
from distributary.matching import frozen
from distributary.matching.batch import NUMBER, EventBatch
from distributary.matching.index import Arrays, Index, Pairs
from distributary.model import Event


@dataclass(frozen=True, slots=True)
class Move:
    """One attribute of an event beside the value last delivered. `value` None: it carries no number.

    `last` None: nothing was delivered yet. `moved` is whether that alone would let the event pass.
    """

    attribute: str
    tolerance: float
    value: float | None
    last: float | None
    moved: bool

    @property
    def distance(self) -> float | None:
        """How far the value is from the last one, where there are both."""
        if self.value is None or self.last is None:
            return None
        return 0.0 if self.value == self.last else abs(self.value - self.last)

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.attribute} is not a number in this event"
        if self.last is None:
            return f"{self.attribute} is {self.value:g}, and none was delivered yet for this topic"
        distance = 0.0 if self.value == self.last else abs(self.value - self.last)
        relation = "more" if distance > self.tolerance else "not more"
        return (
            f"{self.attribute} is {self.value:g}, which is {distance:g} from the last delivered "
            f"{self.last:g}: {relation} than {self.tolerance:g}"
        )


@dataclass(frozen=True, slots=True)
class Peek:
    """Whether a slot would fire on an event, and why.

    `rule` is what an engine adds that does not compare each value with the last delivered one alone.
    """

    fires: bool
    moves: tuple[Move, ...]
    rule: str = ""

    def __str__(self) -> str:
        return "; ".join([*map(str, self.moves), *([self.rule] if self.rule else [])])


class Facts(NamedTuple):
    """Values last delivered, as columns: one row for each slot, attribute and topic.

    Attributes are places in `names`; topics are places in the list of topics that was asked for.
    """

    names: list[str]
    slots: NDArray[np.int32]
    attributes: NDArray[np.int32]
    topics: NDArray[np.int32]
    values: NDArray[np.float64]

    def to_arrays(self) -> Arrays:
        columns = {name: getattr(self, name) for name in ("slots", "attributes", "topics", "values")}
        return {**frozen.under("names", frozen.pack_texts(self.names)), **columns}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, NDArray[Any]]) -> Facts:
        names = frozen.unpack_texts(frozen.within(arrays, "names"))
        return cls(names, arrays["slots"], arrays["attributes"], arrays["topics"], arrays["values"])

    def chosen(self, rows: slice | NDArray[np.int64]) -> Facts:
        """These facts alone."""
        return Facts(
            self.names, self.slots[rows], self.attributes[rows], self.topics[rows], self.values[rows]
        )


class ChangeIndex(Index[ChangeFilter]):
    """Tolerances under slots, with the memory of what each slot was last delivered."""

    kind: ClassVar[str] = "change"
    filter_class: ClassVar[type[ChangeFilter]] = ChangeFilter

    @abstractmethod
    def add(self, slot: int, filter: ChangeFilter, group: int = 0) -> None:
        """Hold `filter` under `slot` as a new member of `group`; ValueError when the slot is taken."""

    def add_many(
        self, slots: Iterable[int], filters: Iterable[ChangeFilter], groups: Iterable[int] | None = None
    ) -> None:
        if groups is None:
            for slot, filter in zip(slots, filters, strict=True):
                self.add(slot, filter)
            return
        for slot, filter, group in zip(slots, filters, groups, strict=True):
            self.add(slot, filter, group)

    @abstractmethod
    def fire(self, batch: EventBatch, rows: NDArray[np.int32], groups: NDArray[np.int32]) -> Pairs:
        """Show these rows to these groups, and say which members fire.

        The pairs of a row and a group come in ascending order of the row, each once; groups without members
        are passed over. Malformed rows are the caller's to leave out. The answer has one pair for each
        slot that fired on a row, in the order of the rows.
        """

    @abstractmethod
    def last(self, slot: int, topic: str | None) -> dict[str, float]:
        """The values last delivered to `slot` for `topic`, by attribute; KeyError without such a slot."""

    @abstractmethod
    def forget(self) -> None:
        """Forget all values delivered and the topics met; the filters stay.

        Costs what was remembered, not what is registered.
        """

    @abstractmethod
    def recall(self, topics: Sequence[str | None]) -> Facts:
        """All values last delivered for these topics, which are distinct."""

    @abstractmethod
    def restore(self, topics: Sequence[str | None], facts: Facts) -> None:
        """Remember what `recall` gave, for topics of which nothing is remembered.

        All slots are held; attributes that a slot's filter does not name are passed over.
        """

    def peek(self, event: Event, slot: int) -> Peek:
        """Whether `slot` would fire on this event now, and why. Changes nothing."""
        last = self.last(slot, event.topic)
        moves = tuple(
            move_of(name, tolerance, number_of(event.attributes.get(name)), last.get(name))
            for name, tolerance in self.filter(slot).tolerances
        )
        return Peek(any(move.moved for move in moves), moves)

    def match(self, event: Event) -> list[int]:
        """The slots of group 0 that fire on this event, ascending. Advances their memory."""
        return sorted(self.match_batch(EventBatch.from_events([event])).slots.tolist())

    def match_batch(self, batch: EventBatch) -> Pairs:
        """Show every well-formed row to group 0, in order."""
        rows = np.arange(batch.rows, dtype=np.int32)
        if batch.rejected:
            rows = np.delete(rows, list(batch.rejected))
        return self.fire(batch, rows, np.zeros(len(rows), np.int32))


class ListedChangeIndex(ChangeIndex):
    """An engine that lists its filters in a table, each with its group."""

    _filters: dict[int, tuple[ChangeFilter, int]]

    def filter(self, slot: int) -> ChangeFilter:
        return self._filters[slot][0]

    def __len__(self) -> int:
        return len(self._filters)

    def slots(self) -> Iterable[int]:
        return list(self._filters)


def move_of(attribute: str, tolerance: float, value: float | None, last: float | None) -> Move:
    """Compare a value with the last one as `filters.change` prescribes."""
    moved = value is not None and (last is None or abs(value - last) > tolerance)
    return Move(attribute, tolerance, value, last, moved)


def numbers_of(batch: EventBatch, attribute: str) -> NDArray[np.float64] | None:
    """The attribute in every row, NaN where it is no number; None when it is one in no row."""
    column = batch.column(attribute)
    if column is None:
        return None
    numbers: NDArray[np.float64] = np.where(column.tags == NUMBER, column.numbers, np.nan)
    return numbers
