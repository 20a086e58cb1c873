"""The one interface of all indexes: which subscriptions want this event?

An index holds filters of one kind under *slots*, small whole numbers that its owner chooses (`Matcher`
keeps the table from slots to subscriptions). `match` answers for one event, `match_batch` for an
`EventBatch`; both are exact. Removing a slot never disturbs another.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from distributary.filters.filter import Filter
from distributary.kernel import Ints
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.single import SingleEvent
from distributary.model import Event

F = TypeVar("F", bound=Filter)
Arrays = dict[str, NDArray[Any]]
AnyArrays = Mapping[str, NDArray[Any]]
"""Arrays by name to be read; those of an opened index are taken, and checked, when they are asked for."""

NO_SLOTS: Ints = np.empty(0, np.int32)


class Pairs(NamedTuple):
    """Which rows of a batch match which slots: two arrays of one length, each pair once, in any order."""

    rows: Ints
    slots: Ints

    @classmethod
    def none(cls) -> Pairs:
        """No pairs."""
        return cls(np.empty(0, np.int32), np.empty(0, np.int32))

    @classmethod
    def joined(cls, parts: Sequence[Pairs]) -> Pairs:
        """All pairs of these parts, one part after another."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.none()
        return cls(
            np.concatenate([part.rows for part in parts]), np.concatenate([part.slots for part in parts])
        )


class Index(ABC, Generic[F]):
    """Filters of one kind, organised so that an event finds those it passes."""

    kind: ClassVar[str]
    """The filter kind this index holds."""
    filter_class: ClassVar[type[Any]]
    """The class of the filters it holds."""
    name: ClassVar[str]
    """The algorithm, as `Matcher(engines=...)` and the benchmarks name it."""

    @abstractmethod
    def add(self, slot: int, filter: F) -> None:
        """Hold `filter` under `slot`; ValueError when the slot is taken."""

    def add_many(self, slots: Iterable[int], filters: Iterable[F]) -> None:
        """Hold each filter under its slot; an index may do this faster than one by one."""
        for slot, filter in zip(slots, filters, strict=True):
            self.add(slot, filter)

    @abstractmethod
    def remove(self, slot: int) -> None:
        """Forget the filter under `slot`; KeyError when there is none."""

    @abstractmethod
    def filter(self, slot: int) -> F:
        """The filter held under `slot`; KeyError when there is none."""

    @abstractmethod
    def __len__(self) -> int:
        """How many filters it holds."""

    @abstractmethod
    def match(self, event: Event) -> list[int]:
        """The slots whose filters the event passes, ascending."""

    def find(self, single: SingleEvent) -> Ints:
        """The slots whose filters the event passes, each once, in any order: `match` for kernels to go on."""
        return np.array(self.match(single.event), np.int32)

    def match_batch(self, batch: EventBatch) -> Pairs:
        """All pairs of a row and a slot it passes. The default asks event by event."""
        rows: list[int] = []
        slots: list[int] = []
        for row in range(batch.rows):
            found = self.match(batch.event(row))
            rows.extend([row] * len(found))
            slots.extend(found)
        return Pairs(np.array(rows, np.int32), np.array(slots, np.int32))

    @abstractmethod
    def slots(self) -> Iterable[int]:
        """The slots that hold a filter, in any order."""

    def freeze(self) -> Arrays:
        """Everything it holds, as plain arrays (see `frozen` for writing them to a directory).

        The default writes the filters' texts, from which `open` builds the structure again; an index
        that is made of arrays writes those, so that opening it builds nothing.
        """
        slots = list(self.slots())
        texts = frozen.pack_texts([self.filter(slot).text for slot in slots])
        return {"slots": np.array(slots, np.int32), **frozen.under("texts", texts)}

    @classmethod
    def open(cls, arrays: AnyArrays) -> Self:
        """The index that `freeze` wrote. The arrays may be memory-mapped, and are its own from then on."""
        index = cls()
        texts = frozen.unpack_texts(frozen.within(arrays, "texts"))
        index.add_many(arrays["slots"].tolist(), (cls.filter_class.parse(text) for text in texts))
        return index

    @abstractmethod
    def memory(self) -> int:
        """The bytes it occupies, as far as Python and NumPy can tell."""

    def compact(self) -> None:
        """Reorganise after many changes, if that makes matching faster; answers stay the same."""


class HeldFilters(Index[F]):
    """An index that keeps the filters themselves, by slot; a subclass says how they are found."""

    def __init__(self) -> None:
        self._filters: dict[int, F] = {}

    def add(self, slot: int, filter: F) -> None:
        """Hold `filter` under `slot`; ValueError when the slot is taken."""
        if slot in self._filters:
            raise ValueError(f"slot {slot} is taken")
        self._filters[slot] = filter

    def remove(self, slot: int) -> None:
        """Forget the filter under `slot`; KeyError when there is none."""
        del self._filters[slot]

    def filter(self, slot: int) -> F:
        """The filter held under `slot`; KeyError when there is none."""
        return self._filters[slot]

    def slots(self) -> Iterable[int]:
        """The slots that hold a filter, in any order."""
        return self._filters

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, slot: int) -> bool:
        return slot in self._filters
