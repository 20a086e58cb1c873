"""What a node of a tree has of the stream: how far it has come, and what it can send again.

Rules:

- The root numbers events 1, 2, 3, ... A node receives those that its subtree asked for, in this order. Its
  position says that it has had all of them up to there.
- It remembers the latest events. Of a profile it knows since when it has had every event that matches: from
  there on, unless its room ran out, it can answer for the profile, and for every profile that it covers.
- Numbers are those of one epoch. A root that comes back without its state begins another.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple, overload

from distributary.model import Event
from distributary.overlay.packed_events import PackedEvents, chosen, frozen, joined
from distributary.overlay.tree.interest import Form, Interest, covers
from distributary.overlay.wire import event_size

NumberedEvent = tuple[int, Event]


class NumberedRun(Sequence[NumberedEvent]):
    """Events that come together, with their numbers, which rise.

    >>> run = NumberedRun(range(4, 7), (Event("e4"), Event("e5"), Event("e6")))
    >>> [number for number, _ in run.after(4)], run[0][1].id
    ([5, 6], 'e4')
    """

    __slots__ = ("events", "numbers")

    def __init__(self, numbers: Sequence[int], events: Sequence[Event]) -> None:
        if len(numbers) != len(events):
            raise ValueError(f"{len(events)} events with {len(numbers)} numbers")
        self.numbers, self.events = numbers, events

    @staticmethod
    def of(events: Sequence[NumberedEvent]) -> NumberedRun:
        """The same events, as a run."""
        if isinstance(events, NumberedRun):
            return events
        return NumberedRun([number for number, _ in events], tuple([event for _, event in events]))

    @staticmethod
    def joined(runs: Sequence[NumberedRun]) -> NumberedRun:
        """One run after the other."""
        if len(runs) == 1:
            return runs[0]
        numbers = list(chain.from_iterable([run.numbers for run in runs]))
        return NumberedRun(numbers, joined([run.events for run in runs]))

    def after(self, number: int) -> NumberedRun:
        """Those above a number."""
        if not self.numbers or self.numbers[0] > number:
            return self
        return self[bisect_right(self.numbers, number) :]

    def chosen(self, places: Sequence[int]) -> NumberedRun:
        """Those at some places, at least one, in their order."""
        if len(places) == len(self.numbers):
            return self
        return NumberedRun([self.numbers[place] for place in places], chosen(self.events, places))

    def __len__(self) -> int:
        return len(self.numbers)

    def __iter__(self) -> Iterator[NumberedEvent]:
        return zip(self.numbers, self.events, strict=True)

    @overload
    def __getitem__(self, place: int) -> NumberedEvent: ...
    @overload
    def __getitem__(self, place: slice) -> NumberedRun: ...
    def __getitem__(self, place: int | slice) -> NumberedEvent | NumberedRun:
        if isinstance(place, slice):
            return NumberedRun(self.numbers[place], self.events[place])
        return self.numbers[place], self.events[place]


MOST_TOGETHER = 1 << 20
"""Bytes of events in one message or one record, or a single larger event."""


def total_size(events: Sequence[Event]) -> int:
    """How many bytes events take inside messages."""
    if type(events) is PackedEvents:
        return events.size
    return sum([len(event.encoded) if event.encoded is not None else event_size(event) for event in events])


def in_parts(events: Sequence[Event]) -> list[slice]:
    """Which events go together in a message or a record, in order: so many bytes at most, or one event.

    >>> long = Event("e2", document="x" * MOST_TOGETHER)
    >>> [part.stop for part in in_parts([Event("e1"), long, Event("e3"), Event("e4")])]
    [1, 2, 4]
    """
    if len(events) <= 1 or total_size(events) <= MOST_TOGETHER:
        return [slice(0, len(events))]
    if type(events) is PackedEvents:
        sizes = list(map(len, events.pieces))
    else:
        sizes = [event_size(event) for event in events]
    parts: list[slice] = []
    first = size = 0
    for place, each in enumerate(sizes):
        size += each
        if size > MOST_TOGETHER and place > first:
            parts.append(slice(first, place))
            first, size = place, each
    return [*parts, slice(first, len(events))]


def divided(events: Sequence[Event]) -> list[tuple[int, Sequence[Event]]]:
    """Events as they go together in messages and records (`in_parts`), each part with its first place."""
    if type(events) is PackedEvents and events.size <= MOST_TOGETHER:
        return [(0, events)]
    return [(part.start, frozen(events[part])) for part in in_parts(events)]


class _Chunk(NamedTuple):
    """Events that were kept together."""

    events: NumberedRun
    size: int


class KeptEvents:
    """The latest events: so many, or a few more that came together with the oldest of them.

    Of more bytes than there is room for only those that came last are kept.

    >>> kept = KeptEvents(room=2, room_bytes=1000)
    >>> for number in (1, 2, 5):
    ...     kept.extend([(number, Event(f"e{number}"))])
    >>> kept.floor, [number for number, _ in kept.after(2)]
    (1, [5])
    """

    def __init__(self, room: int, room_bytes: int) -> None:
        self._room, self._room_bytes = room, room_bytes
        self.floor = 0
        """Whatever is not above this number has been forgotten."""
        self._chunks: deque[_Chunk] = deque()
        self._count = self._bytes = 0

    def begin(self, floor: int) -> None:
        """Forget everything."""
        self.floor = floor
        self._chunks.clear()
        self._count = self._bytes = 0

    def extend(self, events: Sequence[NumberedEvent]) -> None:
        """Keep these, the next ones."""
        run = NumberedRun.of(events)
        if type(run.events) is PackedEvents and run.events.size <= MOST_TOGETHER:
            self._add(run)
        else:
            for start, part in divided(run.events):
                self._add(NumberedRun(run.numbers[start : start + len(part)], part))
        chunks = self._chunks
        while len(chunks) > 1:
            oldest, size = chunks[0]
            count = len(oldest.numbers)
            if self._count - count < self._room and self._bytes <= self._room_bytes:
                break
            self._count -= count
            self._bytes -= size
            self.floor = oldest.numbers[-1]
            chunks.popleft()

    def _add(self, events: NumberedRun) -> None:
        if events.numbers:
            size = total_size(events.events)
            self._chunks.append(_Chunk(events, size))
            self._count += len(events.numbers)
            self._bytes += size

    def cut(self, last: int) -> None:
        """Forget what came after a number."""
        self.floor = min(self.floor, last)
        while self._chunks and self._chunks[-1].events.numbers[-1] > last:
            events, size = self._chunks.pop()
            self._count -= len(events)
            self._bytes -= size
            self._add(events[: bisect_right(events.numbers, last)])

    def after(self, number: int) -> tuple[NumberedEvent, ...]:
        """Those after a number."""
        found: list[NumberedEvent] = []
        for events, _ in reversed(self._chunks):
            if events.numbers[-1] <= number:
                break
            found += reversed(list(events.after(number)))
        return tuple(reversed(found))

    @property
    def last(self) -> int:
        """The number of the latest; the floor if there is none."""
        return self._chunks[-1].events.numbers[-1] if self._chunks else self.floor


class EventLog:
    """The stream as one node has it.

    >>> stream = EventLog(room=100, room_bytes=10_000)
    >>> stream.ask((everything := Interest(((),))), since=0)
    >>> stream.take([(1, Event("e1", topic="A")), (2, Event("e2", topic="B"))])
    >>> only = Interest(((("topic", "B"),),))
    >>> stream.answers(only, 0, 2), [event.id for _, event in stream.between(only, 0, 2)]
    (True, ['e2'])
    """

    def __init__(self, room: int, room_bytes: int) -> None:
        self.epoch = -1.0
        """None yet."""
        self.position = 0
        """The node has had everything that it asked for up to this number."""
        self.missing = 0
        """How often something asked for had been forgotten everywhere, for want of room or of a root."""
        self._kept = KeptEvents(room, room_bytes)
        self._since: dict[Form, int] = {}

    def begin(self, epoch: float, position: int) -> None:
        """Forget everything: a new epoch, or the first."""
        self.epoch = epoch
        self.position = position
        self._kept.begin(position)
        self._since.clear()

    def fork(self, epoch: float, position: int) -> None:
        """Go on in another epoch, whose log is this one's up to a position; what came after it is dropped."""
        self.epoch, self.position = epoch, position
        self._kept.cut(position)
        self._since = {form: since for form, since in self._since.items() if since <= position}

    def take(self, events: Sequence[NumberedEvent]) -> None:
        """The next events, at least one."""
        run = NumberedRun.of(events)
        self.position = run.numbers[-1]
        self._kept.extend(run)

    def skip_to(self, number: int) -> None:
        """There is nothing for this node up to that number."""
        self.position = max(self.position, number)

    def ask(self, interest: Interest, since: int) -> None:
        """From a number on, all that matches these profiles comes here."""
        for form in interest.forms:
            self._since[form] = min(since, self._since.get(form, since))

    def retain(self, interest: Interest) -> None:
        """From now on only what matches these profiles is asked for; what they do not cover is incomplete."""
        self._since = {form: since for form, since in self._since.items() if interest.covers(form)}

    def answers(self, interest: Interest, after: int, through: int) -> bool:
        """Whether all that matches, of those numbers, is certainly here."""
        return (
            after >= self.floor
            and through <= self.position
            and all(self._has(form, after) for form in interest.forms)
        )

    def between(self, interest: Interest, after: int, through: int) -> tuple[NumberedEvent, ...]:
        """The events that match, after one number and up to another, as far as they are here."""
        return tuple(
            each for each in self._kept.after(after) if each[0] <= through and interest.matches(each[1])
        )

    @property
    def floor(self) -> int:
        """Whatever is not above this number has been forgotten."""
        return self._kept.floor

    def forgotten(self, after: int) -> bool:
        """Whether something above this number may have been forgotten for want of room."""
        return after < self.floor

    def all_after(self, number: int) -> tuple[NumberedEvent, ...]:
        """Whatever is here above a number."""
        return self._kept.after(number)

    def _has(self, form: Form, after: int) -> bool:
        since = self._since.get(form)
        if since is not None and since <= after:
            return True
        return any(since <= after and covers(wide, form) for wide, since in self._since.items())
