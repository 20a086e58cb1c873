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
from math import nan
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from distributary.filters.change import ChangeFilter, number_of
from distributary.filters.where.values import plain
from distributary.kernel import Floats, Ints
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.change.memory import LastValues
from distributary.matching.change.topics import TopicNumbers
from distributary.matching.columns import NUMBER, number_of_value, tag_of
from distributary.matching.index import Arrays, Index, Pairs
from distributary.matching.single import SingleEvent
from distributary.model import Event


@dataclass(frozen=True, slots=True)
class AttributeMove:
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
        distance = self.distance
        if distance is None:
            return f"{self.attribute} is {self.value:g}, and none was delivered yet for this topic"
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
    moves: tuple[AttributeMove, ...]
    rule: str = ""

    def __str__(self) -> str:
        return "; ".join([*map(str, self.moves), *([self.rule] if self.rule else [])])


class ChangeIndex(Index[ChangeFilter]):
    """Tolerances under slots, with the memory of what each slot was last delivered."""

    kind: ClassVar[str] = "change"
    filter_class: ClassVar[type[ChangeFilter]] = ChangeFilter

    _topics: TopicNumbers

    @property
    def topics(self) -> list[str | None]:
        """The topics met, and None for events without one."""
        return [None, *self._topics.topics()]

    @abstractmethod
    def add(self, slot: int, filter: ChangeFilter, group: int = 0) -> None:
        """Hold `filter` under `slot` as a new member of `group`; ValueError when the slot is taken."""

    def add_many(
        self, slots: Iterable[int], filters: Iterable[ChangeFilter], groups: Iterable[int] | None = None
    ) -> None:
        if groups is None:
            super().add_many(slots, filters)
            return
        for slot, filter, group in zip(slots, filters, groups, strict=True):
            self.add(slot, filter, group)

    @abstractmethod
    def fire(self, batch: EventBatch, rows: Ints, groups: Ints) -> Pairs:
        """Show these rows to these groups, and say which members fire.

        The pairs of a row and a group come in ascending order of the row, each once; groups without members
        are passed over. The caller leaves out rejected rows. The answer has one pair for each
        slot that fired on a row, in the order of the rows.
        """

    def fire_single(self, single: SingleEvent, groups: Ints) -> Ints:
        """Show one event to these groups, and say which members fire: `fire` for a single event."""
        return self.fire(single.batch, np.zeros(len(groups), np.int32), groups).slots

    @abstractmethod
    def last(self, slot: int, topic: str | None) -> dict[str, float]:
        """The values last delivered to `slot` for `topic`, by attribute; KeyError without such a slot."""

    @abstractmethod
    def forget(self) -> None:
        """Forget all values delivered and the topics met; the filters stay.

        Costs what was remembered, not what is registered.
        """

    @abstractmethod
    def recall(self, topics: Sequence[str | None]) -> LastValues:
        """All values last delivered for these topics, which are distinct."""

    @abstractmethod
    def restore(self, topics: Sequence[str | None], remembered: LastValues) -> None:
        """Remember what `recall` gave, for topics of which these slots remember nothing.

        All slots are held; attributes that a slot's filter does not name are passed over.
        """

    def peek(self, event: Event, slot: int) -> Peek:
        """Whether `slot` would fire on this event now, and why. Changes nothing."""
        last = self.last(slot, event.topic)
        moves = []
        for name, tolerance in self.filter(slot).tolerances:
            value, before = number_of(event.attributes.get(name)), last.get(name)
            moved = value is not None and (before is None or abs(value - before) > tolerance)
            moves.append(AttributeMove(name, tolerance, value, before, moved))
        return Peek(any(move.moved for move in moves), tuple(moves))

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
    """An engine in plain Python, which lists its filters with their groups and takes events one by one.

    A subclass says what an addition changes (`_enrol`), which attributes a group watches (`_watched`), and
    who fires on the values of one event (`_advance`).
    """

    def __init__(self) -> None:
        self._filters: dict[int, tuple[ChangeFilter, int]] = {}
        self._topics = TopicNumbers()

    def add(self, slot: int, filter: ChangeFilter, group: int = 0) -> None:
        if slot in self._filters:
            raise ValueError(f"slot {slot} is taken")
        self._filters[slot] = (filter, group)
        self._enrol(slot, filter, group)

    def filter(self, slot: int) -> ChangeFilter:
        return self._filters[slot][0]

    def __len__(self) -> int:
        return len(self._filters)

    def slots(self) -> Iterable[int]:
        return list(self._filters)

    def fire(self, batch: EventBatch, rows: Ints, groups: Ints) -> Pairs:
        topics = self._topics.of_rows(batch, rows)
        columns: dict[str, Floats | None] = {}
        parts = []
        for row, group in zip(rows.tolist(), groups.tolist(), strict=True):
            values: dict[str, float] = {}
            for name in self._watched(group):
                if name not in columns:
                    columns[name] = numbers_of(batch, name)
                column = columns[name]
                if column is not None and column[row] == column[row]:
                    values[name] = float(column[row])
            fired = self._advance(group, int(topics[row]), values)
            parts.append(Pairs(np.full(len(fired), row, np.int32), np.array(fired, np.int32)))
        return Pairs.joined(parts)

    def freeze(self) -> Arrays:
        return {
            **super().freeze(),
            "groups": np.array([group for _, group in self._filters.values()], np.int32),
            **frozen.under("topics", frozen.pack_texts(self._topics.topics())),
        }

    def _refill(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take the filters and topics that `freeze` wrote; the subclass takes its memory."""
        texts = frozen.unpack_texts(frozen.within(arrays, "texts"))
        self.add_many(arrays["slots"].tolist(), map(ChangeFilter.parse, texts), arrays["groups"].tolist())
        self._topics = TopicNumbers(frozen.unpack_texts(frozen.within(arrays, "topics")))

    @abstractmethod
    def _enrol(self, slot: int, filter: ChangeFilter, group: int) -> None:
        """Make a new slot a member of its group."""

    @abstractmethod
    def _watched(self, group: int) -> Iterable[str]:
        """The attributes that members of a group watch; none for a group without members."""

    @abstractmethod
    def _advance(self, group: int, topic: int, values: Mapping[str, float]) -> Sequence[int] | Ints:
        """Show one event's values (of watched attributes) to a group; the slots that fire, each once."""


def numbers_of(batch: EventBatch, attribute: str) -> Floats | None:
    """The attribute in every row, NaN where it is no number; None when no event of the batch has it."""
    column = batch.column(attribute)
    if column is None:
        return None
    numbers: Floats = np.where(column.tags == NUMBER, column.numbers, np.nan)
    return numbers


def number_under(event: Event, attribute: str) -> float:
    """The attribute of one event as `numbers_of` has it, NaN where it is no number."""
    value = event.attributes.get(attribute)  # an object, and an event's own id and topic, are no numbers
    if type(value) is float:
        return value
    value = plain(value)
    return number_of_value(value) if tag_of(value) == NUMBER else nan
