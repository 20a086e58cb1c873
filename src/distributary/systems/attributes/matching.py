"""How an event finds its subscriptions in the lists on the ring: two ways.

`COUNTING` (004 section 3.2, Figure 5): a part is in the list of every attribute that it constrains. The
publisher's node collects the list of each of the event's values, counts in how many of them every part
appears, and sends the event to the homes of the parts that appear in as many as they constrain. If lists are
still missing after several requests, a part counts as being in them: homes decide anyway.

`NARROWEST`: a part is in one list only, that of the attribute on which it asks for the fewest values, with
all of its conditions. The event is multicast to the lists of its values, and the nodes that keep them check
the conditions and send the event to the homes. This takes fewer messages: nothing is sent back to the
publisher, and a part is stored once.

Either way `Home` decides what is delivered.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from zlib import crc32

from distributary.model import Event, EventKey
from distributary.overlay.node import Address, SendMessage
from distributary.overlay.ring.placement import FIRST, point_key
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.attributes.identifier import IdentifierLayout
from distributary.systems.attributes.messages import EventLookup, ListReply, ListRequest, ValueLookup
from distributary.systems.attributes.placements import Placements
from distributary.systems.attributes.rendezvous import EntryLists
from distributary.systems.attributes.schema import Spot
from distributary.systems.home import Home


class Matching(StrEnum):
    """The two ways of matching."""

    COUNTING = "counting"
    NARROWEST = "narrowest"


@dataclass(eq=False)
class EventMatcher(ABC):
    """What both ways share: lookups of values, and forwarding those that use a retired placement."""

    ring: Ring
    rendezvous: EntryLists
    placements: Placements
    layout: IdentifierLayout
    home: Home
    send: SendMessage
    retry: float | None
    """Seconds after which missing lists are requested again; None for never."""
    served: int = field(default=0, init=False)
    """How many lookups this node has answered."""

    @abstractmethod
    def publish(self, event: Event, lookups: Iterable[ValueLookup]) -> None:
        """Find the homes that may want an event in the lists of these values, and send it to them."""

    def lookup(self, attribute: str, spot: Spot, event: EventKey) -> ValueLookup:
        """The lookup of one value of an event by the placement in use now."""
        if isinstance(spot, str):
            return ValueLookup(point_key(self.ring.circle, attribute, spot), attribute, spot, FIRST)
        placement = self.placements.current(attribute)
        key = placement.key(spot, crc32(event.id.encode()))
        return ValueLookup(key, attribute, spot, placement.version)

    def repeat(self, lookup: ValueLookup, event: EventKey) -> ValueLookup:
        """The same lookup by the placement in use now."""
        return self.lookup(lookup.attribute, lookup.spot, event)

    def is_retired(self, lookup: ValueLookup, origin: Address) -> bool:
        """Whether a lookup uses a retired placement; its publisher is then told the newest one."""
        if isinstance(lookup.spot, str) or not self.placements.is_retired(lookup.attribute, lookup.version):
            self.served += 1
            return False
        self.placements.tell(origin, lookup.attribute)
        return True


@dataclass
class _Tally:
    """An event of which lists are being collected."""

    event: Event
    missing: dict[tuple[str, Spot], ValueLookup]
    lists: dict[int, set[str]] = field(default_factory=dict)
    """For each part, the attributes in whose lists it appeared."""
    requests: int = 1


@dataclass(eq=False)
class CountingMatcher(EventMatcher):
    """Matches by counting in how many lists a part appears."""

    MOST_REQUESTS = 8
    """After so many requests, an event is decided with the lists that have come."""

    def __post_init__(self) -> None:
        self._tallies: dict[EventKey, _Tally] = {}
        self.ring.listen(ListRequest, self._answer)
        self.ring.node.handle(ListReply, self._collect)
        self.ring.node.at_alarm("attributes lists", self._request_again)
        self.ring.node.at_start(self._begin)

    def publish(self, event: Event, lookups: Iterable[ValueLookup]) -> None:
        missing = {(lookup.attribute, lookup.spot): lookup for lookup in lookups}
        if missing:
            self._tallies[event.key] = _Tally(event, dict(missing))
            self._request(event.key, missing.values())

    def _request(self, event: EventKey, lookups: Iterable[ValueLookup]) -> None:
        if self.retry is not None:
            self.ring.node.wake_after(self.retry, "attributes lists", event)
        for lookup in lookups:
            self.ring.route(lookup.key, ListRequest(event, lookup, self.ring.identifier))

    def _answer(self, message: ListRequest, arrival: Arrival) -> None:
        event, lookup, publisher = message
        if self.is_retired(lookup, publisher):
            newer = self.repeat(lookup, event)
            self.ring.route(newer.key, message._replace(lookup=newer))
            return
        parts = tuple(sorted({name.part for name, _ in self.rendezvous.find(lookup)}))
        reply = ListReply(event, lookup.attribute, lookup.spot, parts)
        self.send(publisher, reply)

    def _collect(self, message: ListReply, sender: Address) -> None:
        tally = self._tallies.get(message.event)
        if tally is None or tally.missing.pop((message.attribute, message.spot), None) is None:
            return
        for part in message.parts:
            tally.lists.setdefault(part, set()).add(message.attribute)
        if not tally.missing:
            self._decide(tally)

    def _decide(self, tally: _Tally) -> None:
        del self._tallies[tally.event.key]
        unknown = {attribute for attribute, _ in tally.missing}
        homes = set()
        for part, attributes in tally.lists.items():
            identifier = self.layout.unpack(part)
            if len(attributes | unknown) >= identifier.attributes:
                homes.add(identifier.node)
        self.home.notify(sorted(homes), tally.event)

    def _request_again(self, event: EventKey) -> None:
        tally = self._tallies.get(event)
        if tally is None:
            return
        if tally.requests == self.MOST_REQUESTS:
            self._decide(tally)
            return
        tally.requests += 1
        self._request(event, [self.repeat(lookup, event) for lookup in tally.missing.values()])

    def _begin(self) -> None:
        """Set the alarms again after a restart with state, which loses them."""
        if self.retry is not None:
            for event in self._tallies:
                self.ring.node.wake_after(self.retry, "attributes lists", event)


@dataclass(eq=False)
class NarrowestMatcher(EventMatcher):
    """Matches at the nodes that keep the narrowest set of each part."""

    def __post_init__(self) -> None:
        self.ring.listen(EventLookup, self._match)

    def publish(self, event: Event, lookups: Iterable[ValueLookup]) -> None:
        lookups = tuple(lookups)
        if lookups:
            self.ring.multicast((lookup.key for lookup in lookups), EventLookup(event, lookups))

    def _match(self, message: EventLookup, arrival: Arrival) -> None:
        event = message.event
        homes, retired = set(), []
        for lookup in message.lookups:
            if lookup.key not in arrival.keys:
                continue
            if self.is_retired(lookup, arrival.origin):
                retired.append(self.repeat(lookup, event.key))
                continue
            for name, entry in self.rendezvous.find(lookup):
                if entry.wanted is None or entry.wanted.admits(event):
                    homes.add(self.layout.unpack(name.part).node)
        self.home.notify(sorted(homes), event)
        self.publish(event, retired)
