"""`PackedEvents`: events that came together, in the bytes they came in, with what a broker needs of them.

A broker that passes events on to those who asked for their topics needs no object for each: it needs what
they are known by, their topics, and their bytes. Whoever asks for an event (a condition, a document, a
tolerance, a trace) is given an `Event`, made of its bytes then.

Rules:

- What is packed was checked as strictly as what is read one by one: making its events later cannot fail.
- Packed events equal a tuple of the same events, are written like one, and never change.
- Parts of them and several put together are packed too; nothing is written anew.
- Events that came in bytes of another form, such as messages of MQTT, have an origin: it holds those bytes,
  gives them again to whoever sends events on in that form, and writes the events in ours once that is needed.

The functions here take any sequence of events, packed or not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, Protocol, overload

from distributary.model import Event, EventIdentity, Value

Buffer = bytes | memoryview


class EventReading(NamedTuple):
    """How the bytes of packed events are read."""

    split: Callable[[Sequence[Buffer], int], list[bytes]]
    """The bytes of each of so many events that lie one after the other."""
    make: Callable[[bytes], Event]
    """The event that bytes hold, which were checked before."""
    write: Callable[[Event], bytes]
    """The bytes of an event."""


class EventOrigin(Protocol):
    """Events in the form in which they came, which is not ours."""

    @property
    def size(self) -> int:
        """About how many bytes they have in our form."""

    def events(self, identities: Sequence[EventIdentity], topics: Sequence[str | None]) -> tuple[Event, ...]:
        """The events themselves, of which it is known what they are known by, and their topics."""

    def may_have(self, name: str) -> bool:
        """Whether one of them may have an attribute, or one below it; False only if that is certain."""

    def common(self, name: str) -> Value:
        """The value of an attribute that all of them have alike; None where that is not known."""

    def chosen(self, places: Sequence[int]) -> EventOrigin:
        """Those at some places, at least one, in their order."""

    def joined(self, others: Sequence[EventOrigin]) -> EventOrigin | None:
        """These, and others after them; None when they are not of one form."""


class PackedEvents(Sequence[Event]):
    """Some events, at least one."""

    __slots__ = (
        "_buffers",
        "_made",
        "_pieces",
        "has_documents",
        "identities",
        "origin",
        "reading",
        "size",
        "topics",
    )

    def __init__(
        self,
        buffers: tuple[Buffer, ...] | None,
        identities: Sequence[EventIdentity],
        topics: Sequence[str | None],
        has_documents: bool,
        reading: EventReading,
        pieces: list[bytes] | None = None,
        origin: EventOrigin | None = None,
    ) -> None:
        """Without `buffers` they are written by their origin, when that is needed."""
        self._buffers = buffers
        self.size = sum(map(len, buffers)) if buffers is not None else origin.size if origin else 0
        """How many bytes that are; about how many, where they are not written yet."""
        self.identities = identities
        self.topics = topics
        self.has_documents = has_documents
        """Whether any of them may have a document."""
        self.reading = reading
        self.origin = origin
        self._pieces = pieces
        self._made: tuple[Event, ...] | None = None

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The bytes of all of them, one after the other; a buffer begins with an event."""
        if self._buffers is None:
            self._buffers = (b"".join(self.pieces),)
        return self._buffers

    @property
    def pieces(self) -> list[bytes]:
        """The bytes of each."""
        if self._pieces is None:
            if self._buffers is None and self.origin is not None:
                self._pieces = list(map(self.reading.write, self.made))
            else:
                self._pieces = self.reading.split(self.buffers, len(self))
        return self._pieces

    @property
    def made(self) -> tuple[Event, ...]:
        """The events themselves."""
        if self._made is None:
            if self.origin is not None:
                self._made = self.origin.events(self.identities, self.topics)
            else:
                self._made = tuple(map(self.reading.make, self.pieces))
        return self._made

    def may_have(self, name: str) -> bool:
        """Whether one of them may have an attribute, or one below it; False only if that is certain."""
        return self.origin is None or self.origin.may_have(name)

    def common(self, name: str) -> Value:
        """The value of an attribute that all of them have alike; None where that is not known."""
        return None if self.origin is None else self.origin.common(name)

    def chosen(self, places: Sequence[int]) -> PackedEvents:
        """Those at some places, at least one, in their order."""
        identities = [self.identities[place] for place in places]
        topics = [self.topics[place] for place in places]
        rest = identities, topics, self.has_documents, self.reading
        if self.origin is not None:
            return PackedEvents(None, *rest, None, self.origin.chosen(places))
        pieces = self.pieces
        theirs = [pieces[place] for place in places]
        return PackedEvents((b"".join(theirs),), *rest, theirs)

    def __len__(self) -> int:
        return len(self.identities)

    def __iter__(self) -> Iterator[Event]:
        return iter(self.made)

    @overload
    def __getitem__(self, place: int) -> Event: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Event]: ...
    def __getitem__(self, place: int | slice) -> Event | Sequence[Event]:
        if not isinstance(place, slice):
            return self.made[place]
        places = range(*place.indices(len(self)))
        if len(places) == len(self) and place.step in (None, 1):
            return self
        return self.chosen(places) if places else ()

    def __eq__(self, other: object) -> bool:
        return self.made == tuple(other) if isinstance(other, PackedEvents | tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.made)

    def __repr__(self) -> str:
        return repr(self.made)


def frozen(events: Sequence[Event]) -> Sequence[Event]:
    """The same events, in a sequence that never changes."""
    return events if type(events) is PackedEvents else tuple(events)


def identities_of(events: Sequence[Event]) -> Sequence[EventIdentity]:
    """What each is known by.

    >>> identities_of([Event("e1"), Event("e2", attributes={"source": "ann"})])
    ['e1', EventKey(source='ann', id='e2')]
    """
    return events.identities if type(events) is PackedEvents else [event.identity for event in events]


def topics_of(events: Sequence[Event]) -> Sequence[str | None]:
    """The topic of each."""
    return events.topics if type(events) is PackedEvents else [event.topic for event in events]


def chosen(events: Sequence[Event], places: Sequence[int]) -> Sequence[Event]:
    """Those at some places, at least one, in their order."""
    if len(places) == len(events):
        return frozen(events)
    if type(events) is PackedEvents:
        return events.chosen(places)
    return tuple([events[place] for place in places])


def joined(parts: Sequence[Sequence[Event]]) -> Sequence[Event]:
    """One sequence after the other.

    >>> [event.id for event in joined([(Event("e1"),), [Event("e2")]])]
    ['e1', 'e2']
    """
    if len(parts) == 1:
        return frozen(parts[0])
    packed = [part for part in parts if type(part) is PackedEvents]
    if len(packed) < len(parts) or not parts:
        return tuple(chain.from_iterable(parts))
    rest = (
        list(chain.from_iterable([part.identities for part in packed])),
        list(chain.from_iterable([part.topics for part in packed])),
        any(part.has_documents for part in packed),
        packed[0].reading,
    )
    origins = [part.origin for part in packed if part.origin is not None]
    origin = origins[0].joined(origins[1:]) if len(origins) == len(packed) else None
    if origin is not None:
        return PackedEvents(None, *rest, None, origin)
    return PackedEvents(tuple(chain.from_iterable([part.buffers for part in packed])), *rest)
