"""Filters compiled to arrays that can still change: segments, a buffer of what is new, and nothing rewritten.

A compiled structure is read-only, so changes are layered over it in the manner of a log-structured merge
tree. New filters wait in a buffer and are compiled into a small segment when somebody next asks; small
segments are merged into larger ones; `home` says which segment holds the current filter of a slot, so what
other segments still say about that slot is ignored. That makes removal a single write, and reuse of a slot
safe. A segment with more dead than live filters is compiled again when somebody next asks.

Cost: an addition is compiled O(log n) times on average (`SETTLED` bounds how large a segment can get
without `compact`); a removal is O(1).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, ClassVar, Generic, NamedTuple, Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from distributary.kernel import Flags, Ints, Longs, inlined, sealed
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.bound import BoundArrays, array_at
from distributary.matching.gathering import FilterColumn, Gatherer, TextColumn
from distributary.matching.index import NO_SLOTS, AnyArrays, Arrays, F, Index, Pairs
from distributary.matching.order import at_places
from distributary.matching.single import SingleEvent
from distributary.model import Event

SETTLED = 1 << 17
"""Segments of this many filters are merged only by `compact`, so that no single change waits for long."""

COLUMN = 1 << 15
"""Filters that are read at a time, when a segment is compiled again."""

NOWHERE = -1
WAITING = -2
FIRST = 0
"""The number of the segment that is opened."""

TEXTS = "texts."
"""What the names of the texts start with among the arrays that searching sees."""

OWN_ARRAYS = 3
"""How many arrays a segment has bound before those of its engine: see `LiveSlots`."""


class ReadableArrays(Mapping[str, NDArray[Any]]):
    """What searching sees of a segment, sealed: the compiled arrays, and the texts as `texts.bytes` and
    `texts.offsets`.

    Each is taken when it is first asked for: most engines never read the texts of an index that was opened.
    """

    __slots__ = ("_arrays", "_sealed", "_texts")

    def __init__(self, texts: AnyArrays, arrays: AnyArrays) -> None:
        self._texts = texts
        self._arrays = arrays
        self._sealed: Arrays = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        array = self._sealed.get(name)
        if array is None:
            found = self._texts[name.removeprefix(TEXTS)] if name.startswith(TEXTS) else self._arrays[name]
            array = self._sealed[name] = sealed(found)
        return array

    def __iter__(self) -> Iterator[str]:
        return chain((TEXTS + name for name in self._texts), self._arrays)

    def __len__(self) -> int:
        return len(self._texts) + len(self._arrays)


class CompiledSegment:
    """One compiled structure: `slots[i]` is the slot of its i-th filter, `texts` their canonical texts.

    Searching sees both the compiled arrays and the texts, as `readable`, so that an engine which decides on
    the text itself need not keep it twice.
    """

    __slots__ = ("arrays", "bound", "dead", "known", "memo", "readable", "slots", "texts")

    def __init__(self, slots: Ints, texts: AnyArrays, arrays: AnyArrays) -> None:
        self.slots = slots
        self.texts = texts
        self.arrays = arrays
        self.readable = ReadableArrays(texts, arrays)
        self.dead = 0
        self.memo: Any = None
        """What an engine remembers of its searches in this segment, if it does."""
        self.known: Any = None
        """What an engine keeps as Python has it, to match single events, if it does."""
        self.bound: BoundArrays | None = None
        """What kernels read for a single event, once it was asked for; see `Layers.bound`."""

    def __len__(self) -> int:
        return len(self.slots)


class LiveSlots(NamedTuple):
    """The home of every slot and its place there, and the slots of a segment's filters, by place.

    What a segment says about a slot counts only if it is the slot's home.
    """

    home: Ints
    place: Ints
    slots: Ints


@inlined
def is_at_home(live: LiveSlots, number: Any, slot: Any) -> Any:
    """Whether the segment of that number is the home of a slot, which may be larger than any that has one."""
    return slot < len(live.home) and live.home[slot] == number


@inlined
def live_slots(words: Longs) -> LiveSlots:
    """The first of the arrays that every segment has bound."""
    return LiveSlots(array_at(words, 0, np.int32), array_at(words, 1, np.int32), array_at(words, 2, np.int32))


class Layers(ABC, Generic[F]):
    """Keeps filters under slots in compiled segments; a subclass says how to compile and what to ask."""

    filter_class: ClassVar[type[Any]]

    def __init__(self) -> None:
        self._segments: dict[int, CompiledSegment] = {}
        self._next_segment = 0
        self._waiting: dict[int, F] = {}
        self._mostly_dead: set[int] = set()
        self._gathered: Gatherer[F] | None = None
        """Filters that came by the column and wait too."""
        self._home = np.full(64, NOWHERE, np.int32)
        self._place = np.zeros(64, np.int32)
        self._count = 0

    def compile(self, filters: Sequence[F]) -> Arrays:
        """The arrays of one segment. Filters are known by their position from here on.

        An engine that can do without the filters themselves writes `gatherer` and `compile_gathered` instead.
        """
        gathered = self.gatherer()
        for position, filter in enumerate(filters):
            gathered.add(position, filter)
        return self.compile_gathered(gathered)

    def gatherer(self) -> Gatherer[F]:
        """What takes filters in until they are compiled."""
        return Gatherer()

    def compile_gathered(self, gathered: Gatherer[F]) -> Arrays:
        """The arrays of one segment, of the filters that `gatherer` took."""
        return self.compile(gathered.filters)

    def column(self, texts: AnyArrays, first: int, last: int) -> FilterColumn[F]:
        """The packed canonical texts numbered from `first` to `last` as a column of filters."""
        offsets = texts["offsets"][first : last + 1]
        return TextColumn({"offsets": offsets, "bytes": texts["bytes"]}, self._parse)

    def add(self, slot: int, filter: F) -> None:
        """Hold the filter under a slot from the next question on; ValueError when the slot is taken."""
        self._reserve(slot)
        if self._home[slot] != NOWHERE:
            raise ValueError(f"slot {slot} is taken")
        self._home[slot] = WAITING
        self._waiting[slot] = filter
        self._count += 1

    def add_many(self, slots: Iterable[int], filters: Iterable[F]) -> None:
        """Hold each filter under its slot."""
        for slot, filter in zip(slots, filters, strict=True):
            self.add(slot, filter)

    def add_column(self, slots: Ints, column: FilterColumn[F], codes: Ints) -> None:
        """Hold the filter of each code under the slot in the same place; the slots are free and distinct."""
        if not len(slots):
            return
        if self._gathered is None:
            self._gathered = self.gatherer()
        self._gathered.take(slots, column, codes)
        self._reserve(int(slots.max()))
        self._home[slots] = WAITING
        self._count += len(slots)

    def remove(self, slot: int) -> None:
        """Forget the filter under a slot.

        A segment that is mostly dead is compiled again by the next question; a removal waits for nothing.
        """
        home = self._home_of(slot)
        if home == WAITING and slot not in self._waiting:
            self._flush()
            home = self._home_of(slot)
        self._home[slot] = NOWHERE
        self._count -= 1
        if home == WAITING:
            del self._waiting[slot]
            return
        segment = self._segments[home]
        segment.dead += 1
        if 2 * segment.dead > len(segment):
            self._mostly_dead.add(home)

    def filter(self, slot: int) -> F:
        """The filter held under a slot, read from its canonical text; KeyError when there is none."""
        home = self._home_of(slot)
        if home == WAITING and slot in self._waiting:
            return self._waiting[slot]
        if home == WAITING:
            self._flush()
            home = self._home_of(slot)
        text = frozen.unpack_text(self._segments[home].texts, int(self._place[slot]))
        return self._parse(text)

    def __len__(self) -> int:
        return self._count

    def __contains__(self, slot: int) -> bool:
        return slot < len(self._home) and self._home[slot] != NOWHERE

    def slots(self) -> Iterable[int]:
        """The slots that hold a filter, ascending."""
        slots: list[int] = np.flatnonzero(self._home != NOWHERE).tolist()
        return slots

    def compact(self) -> None:
        """Compile everything into one segment."""
        self._flush()
        if len(self._segments) > 1 or any(segment.dead for segment in self._segments.values()):
            self._rebuild(list(self._segments))

    def segments(self) -> Iterator[tuple[int, CompiledSegment]]:
        """The segments that together hold every filter, each with its number."""
        self._flush()
        yield from list(self._segments.items())

    def freeze(self) -> Arrays:
        """One segment with everything, as arrays."""
        self.compact()
        arrays: Arrays = {}
        for number, segment in self.segments():
            top = int(segment.slots.max(initial=-1)) + 1
            home = np.where(self._home[:top] == number, np.int32(FIRST), np.int32(NOWHERE))
            arrays["home"] = frozen.with_room(home, NOWHERE)
            arrays["place"] = frozen.with_room(self._place[:top], 0)
            arrays["slots"] = segment.slots
            arrays.update(frozen.under("texts", segment.texts))
            arrays.update(frozen.under("compiled", segment.arrays))
        return arrays

    @classmethod
    def open(cls, arrays: Mapping[str, NDArray[Any]]) -> Self:
        """The layers that `freeze` wrote, as their first segment."""
        layers = cls()
        if "slots" in arrays:
            segment = CompiledSegment(
                arrays["slots"], frozen.within(arrays, "texts"), frozen.within(arrays, "compiled")
            )
            layers._segments[FIRST] = segment
            layers._next_segment = FIRST + 1
            layers._home, layers._place = arrays["home"], arrays["place"]
            layers._count = len(segment)
        return layers

    def memory(self) -> int:
        """The bytes of the segments, with what is remembered of searches in them."""
        self._flush()
        total = self._home.nbytes + self._place.nbytes
        for segment in self._segments.values():
            total += segment.slots.nbytes
            total += sum(array.nbytes for array in (*segment.texts.values(), *segment.arrays.values()))
            total += 0 if segment.memo is None else segment.memo.memory()
        return total

    def searched(self, segment: CompiledSegment) -> Iterable[tuple[NDArray[Any], DTypeLike]]:
        """The arrays that the kernels of this engine find bound, each with its type, behind `LiveSlots`."""
        return ()

    def bound(self, segment: CompiledSegment) -> BoundArrays:
        """The bound arrays of a segment, which hold until the table of homes is replaced by a larger one."""
        bound = segment.bound
        if bound is None:
            own = LiveSlots(self._home, self._place, sealed(segment.slots))
            arrays = [*((array, np.int32) for array in own), *self.searched(segment)]
            bound = segment.bound = BoundArrays(arrays)
        return bound

    def live(self, number: int, segment: CompiledSegment, positions: NDArray[Any]) -> Flags | None:
        """Which of these positions still speak for their slot; None when all do."""
        if not segment.dead:
            return None
        alive: Flags = self._home[segment.slots[positions]] == number
        return alive

    def _parse(self, text: str) -> F:
        filter: F = self.filter_class.parse(text)
        return filter

    def _home_of(self, slot: int) -> int:
        home = int(self._home[slot]) if 0 <= slot < len(self._home) else NOWHERE
        if home == NOWHERE:
            raise KeyError(slot)
        return home

    def _reserve(self, slot: int) -> None:
        if slot >= len(self._home):
            size = max(len(self._home) + len(self._home) // 2, slot + 1)
            self._home = np.concatenate([self._home, np.full(size - len(self._home), NOWHERE, np.int32)])
            self._place = np.concatenate([self._place, np.zeros(size - len(self._place), np.int32)])
            for segment in self._segments.values():
                segment.bound = None

    def _flush(self) -> None:
        """Compile what waits, and again what is mostly dead; then merge the newest segments of like size."""
        while self._mostly_dead:
            number = self._mostly_dead.pop()
            if number in self._segments:
                self._rebuild([number])
        if not self._waiting and self._gathered is None:
            return
        gathered = self._gathered or self.gatherer()
        for slot, filter in self._waiting.items():
            gathered.add(slot, filter)
        self._waiting, self._gathered = {}, None
        self._install(gathered)
        while len(self._segments) >= 2:
            before, last = list(self._segments)[-2:]
            if len(self._segments[before]) > 2 * len(self._segments[last]):
                return
            if len(self._segments[before]) + len(self._segments[last]) > SETTLED:
                return
            self._rebuild([before, last])

    def _install(self, gathered: Gatherer[F]) -> None:
        """Compile what was gathered into a new segment."""
        segment = CompiledSegment(gathered.slots(), gathered.texts(), self.compile_gathered(gathered))
        number = self._next_segment
        self._next_segment += 1
        self._segments[number] = segment
        if len(segment):
            self._reserve(int(segment.slots.max()))
        self._home[segment.slots] = number
        self._place[segment.slots] = np.arange(len(segment), dtype=np.int32)

    def _rebuild(self, numbers: list[int]) -> None:
        """Replace these segments by one that holds what is alive in them."""
        gathered = self.gatherer()
        for number in numbers:
            segment = self._segments.pop(number)
            alive = self._home[segment.slots] == number
            for first in range(0, len(segment), COLUMN):
                last = min(first + COLUMN, len(segment))
                codes = np.flatnonzero(alive[first:last]).astype(np.int32)
                if len(codes):
                    column = self.column(segment.texts, first, last)
                    gathered.take(segment.slots[first:last][codes], column, codes)
        if len(gathered):
            self._install(gathered)


class CompiledIndex(Layers[F], Index[F]):
    """An index whose segments are searched by array code."""

    @abstractmethod
    def search(self, segment: CompiledSegment, batch: EventBatch) -> Pairs:
        """The pairs of a row and a *position* in this segment, each once."""

    def match(self, event: Event) -> list[int]:
        """The slots whose filters the event passes, ascending."""
        found = self.find(SingleEvent(event))
        found.sort()
        slots: list[int] = found.tolist()
        return slots

    def find(self, single: SingleEvent) -> Ints:
        """Search each segment for the event alone."""
        if self._waiting or self._mostly_dead or self._gathered is not None:
            self._flush()
        found = NO_SLOTS
        for number, segment in self._segments.items():
            slots = self.find_in(number, segment, single)
            if len(slots):
                found = np.concatenate((found, slots)) if len(found) else slots
        return found

    def find_in(self, number: int, segment: CompiledSegment, single: SingleEvent) -> Ints:
        """The slots of this segment, of that number, whose filters the event passes; as a batch of one."""
        return self.living(number, segment, self.search(segment, single.batch).slots)

    def living(self, number: int, segment: CompiledSegment, positions: Ints) -> Ints:
        """The slots of those of the positions that still speak for them."""
        alive = self.live(number, segment, positions)
        slots: Ints = segment.slots[positions if alive is None else positions[alive]]
        return slots

    def match_batch(self, batch: EventBatch) -> Pairs:
        """Search each segment, and drop what no longer speaks for its slot."""
        return self.gathered(lambda segment: self.search(segment, batch))

    def gathered(self, search: Callable[[CompiledSegment], Pairs]) -> Pairs:
        """What a search finds in all segments: pairs of a row and a position there become rows and slots."""
        parts = []
        for number, segment in self.segments():
            rows, positions = search(segment)
            alive = self.live(number, segment, positions)
            if alive is not None:
                rows, positions = rows[alive], positions[alive]
            parts.append(Pairs(rows, at_places(segment.slots, positions)))
        return Pairs.joined(parts)


class Verifier(Layers[F]):
    """Filters that are never searched, only asked about pairs that another index found.

    A slot that holds no filter lets everything pass.
    """

    @abstractmethod
    def verify_in(
        self, number: int, segment: CompiledSegment, batch: EventBatch, rows: Ints, slots: Ints, passed: Flags
    ) -> None:
        """Clear the flags of the pairs whose row does not pass what this segment, of that number, says."""

    @abstractmethod
    def passing_in(self, number: int, segment: CompiledSegment, single: SingleEvent, slots: Ints) -> Ints:
        """The slots but those of this segment whose filters the event does not pass."""

    def passing(self, single: SingleEvent, slots: Ints) -> Ints:
        """Those of the slots whose filters the event passes; they may be written over the slots given."""
        if self._waiting or self._mostly_dead or self._gathered is not None:
            self._flush()
        for number, segment in self._segments.items():
            if not len(slots):
                break
            slots = self.passing_in(number, segment, single, slots)
        return slots

    def verify(self, batch: EventBatch, rows: Ints, slots: Ints) -> Flags:
        """For each pair of a row and a slot: does the row pass?"""
        passed = np.ones(len(rows), np.bool_)
        if len(rows):
            for number, segment in self.segments():
                self.verify_in(number, segment, batch, rows, slots, passed)
        return passed

    def homes_of(self, slots: Ints) -> Ints:
        """The home of each slot, of which there are some; NOWHERE for one that holds no filter."""
        self._reserve(int(slots.max()))
        homes: Ints = self._home[slots]
        return homes


class PairVerifier(Verifier[F]):
    """A verifier that is asked about pairs of a row and a position in a segment, many at once."""

    @abstractmethod
    def check(self, segment: CompiledSegment, batch: EventBatch, rows: Ints, positions: Ints) -> Flags:
        """For each pair of a row and a position in this segment: does the row pass?"""

    def verify_in(
        self, number: int, segment: CompiledSegment, batch: EventBatch, rows: Ints, slots: Ints, passed: Flags
    ) -> None:
        """Check the pairs at home in this segment."""
        here = self.homes_of(slots) == number
        if here.all():
            passed &= self.check(segment, batch, rows, self._place[slots])
            return
        chosen = np.flatnonzero(here)
        if len(chosen):
            passed[chosen] = self.check(segment, batch, rows[chosen], self._place[slots[chosen]])

    def passing_in(self, number: int, segment: CompiledSegment, single: SingleEvent, slots: Ints) -> Ints:
        """As a batch of one, which is not made where none of the slots is at home in this segment."""
        if number not in self._home.take(slots, mode="clip").tolist():  # of many calls the cheapest
            return slots
        passed = np.ones(len(slots), np.bool_)
        self.verify_in(number, segment, single.batch, np.zeros(len(slots), np.int32), slots, passed)
        kept: Ints = slots[passed]
        return kept
