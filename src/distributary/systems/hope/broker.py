"""What every HOPE node does, whichever way events and subscriptions meet (001 chapters 4 and 5).

HOPE carries XML events by their structure: an event and a subscription are addressed by it
(`hope_addressing`), and the vertices of a hypercube on a ring (`overlay.hypercube`) are where they meet. The
two ways of meeting are KBPP (`hope_kbpp`) and KBSP (`hope_kbsp`).

Rules:

- A subscription lives at its home, the node of its client, which alone decides what is delivered. The vertex
  of its key is told of it and sends home the events that cover its filter.
- What a vertex knows is kept by `overlay.replication`: the owner of its position hosts it, siblings hold
  replicas, and it moves when owners change. What is derived from it (`Vertex`) is made where it is hosted.
- Vertices of one node talk to each other in memory; only what goes to another node is a message. Where a
  neighbouring vertex is hosted is looked up on the ring once, and remembered until it turns out to be wrong.
- Registrations are soft state: every `refresh` seconds a home registers its subscriptions again, and a vertex
  forgets those that it has not heard of for `LEASES` periods. So whatever faults did is mended by itself.
- With `history`, the vertex of an event's key remembers its latest events. `catch_up` has them delivered to
  whoever was away or is new: the request climbs to every vertex whose events may be wanted.
- With `facets`, there are several hypercubes, each turned by another part of the circle. A subscription is
  told to all of them and an event goes to one, chosen by its id, so that a key of which there are many events
  is the load of several nodes.
- With `dimensions`, the length of addresses follows the number of nodes (`hope_dimension`; needs `refresh`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any, ClassVar
from zlib import crc32

from distributary.errors import DistributaryError, UnknownSubscriptionError
from distributary.model import Event, Subscription
from distributary.overlay.courier import Courier
from distributary.overlay.hypercube import Cubes, CubeVertex, Key, children_above, children_below
from distributary.overlay.node import Address, Message, Node
from distributary.overlay.replication import Name, Replication
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.home import Home
from distributary.systems.hope.addressing import Addressing, StructuralAddress
from distributary.systems.hope.dimension import AgreedDimensions, DimensionAgreement
from distributary.systems.hope.messages import (
    DirectMessage,
    EventName,
    EventNotice,
    EventRecall,
    EventRecallReply,
    FilterRegistration,
    FilterWithdrawal,
    OwnershipDenial,
    OwnershipNotice,
    RegistrationName,
    StoredEvent,
    XmlPublication,
)

LEASES = 3.5
"""After so many refresh periods of silence, what is not registered again is forgotten."""


class Vertex:
    """What is registered at a vertex that this node hosts."""

    def __init__(self) -> None:
        self.residents: dict[RegistrationName, int] = {}
        self._homes: dict[int, Counter[Address]] = {}

    def settle(self, resident: RegistrationName, filter: int | None) -> tuple[int | None, int | None]:
        """Register a filter, or remove it (None); gives the filter nobody asks for now, and the new one."""
        gone = self._leave(resident)
        if filter is None:
            return gone, None
        new = filter if filter not in self._homes else None
        self.residents[resident] = filter
        self._homes.setdefault(filter, Counter())[resident.home] += 1
        return (None, None) if gone == filter else (gone, new)

    def _leave(self, resident: RegistrationName) -> int | None:
        """Forget a registration; returns its filter if that was the last with it."""
        filter = self.residents.pop(resident, None)
        if filter is None:
            return None
        homes = self._homes[filter]
        homes[resident.home] -= 1
        if not homes[resident.home]:
            del homes[resident.home]
        if homes:
            return None
        del self._homes[filter]
        return filter

    def homes(self, filter: int) -> set[Address]:
        """The homes that want an event with this filter."""
        lacking = ~filter
        return {home for asked, homes in self._homes.items() if not asked & lacking for home in homes}


class HopeBroker(ABC):
    """A node of a HOPE system; `Kbpp` and `Kbsp` are the two kinds.

    `courier` makes messages survive loss, `copies` the contents of vertices the failure of as many
    neighbours, `refresh` everything else.
    """

    mirrored: ClassVar[bool]
    """Whether it is clearing a bit that should be a finger's step."""

    def __init__(
        self,
        ring: Ring,
        addressing: Addressing,
        *,
        courier: Courier | None = None,
        copies: int = 0,
        refresh: float | None = None,
        facets: int = 1,
        history: int = 0,
        dimensions: tuple[int, ...] | None = None,
        leave: Callable[[], None] | None = None,
    ) -> None:
        if dimensions is not None and (addressing.dimension not in dimensions or refresh is None):
            raise DistributaryError(
                f"the length of addresses can change among dimensions {dimensions} only if it starts as one "
                "of "
                f"them, not as {addressing.dimension}, and if nodes refresh what they know; give `refresh` "
                "seconds"
            )
        self.node: Node = ring.node
        self.ring = ring
        self.addressing = addressing
        self.agreement = DimensionAgreement(ring, addressing.dimension, dimensions or (addressing.dimension,))
        self.cubes = Cubes(self.agreement.dimensions, ring.circle, self.mirrored, facets)
        self._addressings = [replace(addressing, dimension=each) for each in self.agreement.dimensions]
        self.home = Home(self.node)
        self.refresh = refresh
        self.history = history
        self.send: Callable[[Address, Message], None] = self.node.send if courier is None else courier.send
        self.replication = Replication(ring, copies, self.send)
        self._leave = leave
        self._addresses: dict[str, list[StructuralAddress]] = {}
        """Where the subscriptions that live here belong, in the cubes of each dimension."""
        self._heard_of: dict[tuple[int, RegistrationName], float] = {}
        """When each registration hosted here was last made."""
        self._hosts: dict[int, Address] = {}
        """Who owns positions that this node sends to, as far as it was told."""
        self.replication.on_change(self._changed)
        self.agreement.replication = self.replication
        self.agreement.changed = self._readdress
        ring.listen(FilterRegistration, self._register)
        ring.listen(FilterWithdrawal, self._withdraw)
        ring.listen(XmlPublication, self._published)
        ring.listen(EventRecall, self._recall)
        self.node.handle(EventNotice, lambda message, sender: self.home.offer(message.event))
        self.node.handle(EventRecallReply, self._recalled)
        self.node.handle(DirectMessage, self._passed)
        self.node.handle(OwnershipNotice, self._host_is_here)
        self.node.handle(OwnershipDenial, self._host_is_elsewhere)
        self.node.at_alarm("hope refresh", self._each_period)
        self.node.at_start(self._begin)

    # For clients.

    def subscribe(self, subscription: Subscription) -> None:
        """Register a subscription of a client of this node; any filters will do, a path makes it cheap."""
        self.home.add(subscription)
        filters = self.home.filters(subscription.id)
        addresses = [addressing.of_filters(filters) for addressing in self._addressings]
        known = self._addresses.get(subscription.id)
        if known is not None and known != addresses:
            self._withdraw_from(subscription.id, self.agreement.settled.registering)
        self._addresses[subscription.id] = addresses
        self._register_in(subscription.id, self.agreement.settled.registering)

    def unsubscribe(self, subscription_id: str) -> None:
        """Forget a subscription that was registered here."""
        self.home.remove(subscription_id)
        self._withdraw_from(subscription_id, self.agreement.settled.registering)
        del self._addresses[subscription_id]

    def publish(self, event: Event) -> None:
        """Have an event delivered; DocumentError when its document cannot be read and gives no address."""
        rank = self.agreement.settled.publishing
        key, filter = self._addressings[rank].of_event(event)
        facet = crc32(event.id.encode()) % self.cubes.facets
        self.ring.route(self.cubes.position(CubeVertex(key, facet, rank)), XmlPublication(event, filter))

    def catch_up(self, subscription_id: str, since: float = 0.0) -> None:
        """Have the remembered events since a time delivered, except those that the subscriber has got."""
        if subscription_id not in self.home:
            raise UnknownSubscriptionError(subscription_id)
        if "change" in self.home.filters(subscription_id):
            raise DistributaryError(
                f"subscription {subscription_id!r} has a tolerance, which depends on the order of events; "
                "that of remembered ones is not known; catch up with a subscription without one"
            )
        filter = self._addresses[subscription_id][0].filter
        recall = EventRecall(subscription_id, self.node.address, filter, since)
        self._send_up(subscription_id, self.agreement.settled.registering, recall)

    def leave(self) -> None:
        """Hand over what is hosted here, and leave the ring."""
        self.replication.hand_over()
        if self._leave is not None:
            self._leave()

    # At the vertices hosted here.

    @abstractmethod
    def _meet(self, position: int, publication: XmlPublication) -> None:
        """Take a publication on from a vertex hosted here."""

    @abstractmethod
    def _changed(self, position: int, name: Name, entry: Any) -> None:
        """Keep up with a change of what is hosted here."""

    def _register(self, message: FilterRegistration, arrival: Arrival) -> None:
        resident = RegistrationName(message.subscription, message.home)
        for position in arrival.keys:
            self._heard_of[position, resident] = self.node.now
            if self.replication.contents(position).get(resident) != message.filter:
                self.replication.put(position, resident, message.filter)

    def _withdraw(self, message: FilterWithdrawal, arrival: Arrival) -> None:
        for position in arrival.keys:
            self._forget(position, RegistrationName(message.subscription, message.home))

    def _forget(self, position: int, resident: RegistrationName) -> None:
        self._heard_of.pop((position, resident), None)
        if resident in self.replication.contents(position):
            self.replication.drop(position, resident)

    def _published(self, message: XmlPublication, arrival: Arrival) -> None:
        for position in arrival.keys:
            if message.came_from is None:
                self._remember(position, message)
            self._meet(position, message)
        if message.came_from is not None:
            self._introduce(arrival, arrival.origin)

    def _notify(self, event: Event, homes: Iterable[Address]) -> None:
        """Send an event to the homes that may want it."""
        for home in sorted(homes):
            if home == self.node.address:
                self.home.offer(event)
            else:
                self.send(home, EventNotice(event))

    def _reach(
        self, position: int, came_from: Key | None, upwards: bool, onwards: Callable[[Key], Message]
    ) -> Iterator[int]:
        """The vertices hosted here that a message reaches from one of them; it is sent on to the others."""
        pending = [(position, came_from)]
        while pending:
            position, came_from = pending.pop()
            yield position
            place = self.cubes.place(position)
            vertex = place.vertex
            children = (
                children_above(vertex, self.cubes.dimension(place), came_from)
                if upwards
                else children_below(vertex, came_from)
            )
            elsewhere = []
            for child in children:
                there = self.cubes.position(place._replace(vertex=child))
                if self.ring.owns(there):
                    pending.append((there, vertex))
                else:
                    elsewhere.append(there)
            self._send_on(elsewhere, onwards(vertex))

    # From a vertex to its neighbours.

    def _send_on(self, positions: Iterable[int], message: Message) -> None:
        """Send a message to the hosts of some vertices elsewhere: straight, where they are known."""
        hosts: dict[Address | None, list[int]] = {}
        for position in positions:
            hosts.setdefault(self._host(position), []).append(position)
        unknown = hosts.pop(None, None)
        for host, its in hosts.items():
            assert host is not None
            self.ring.forward(host, DirectMessage(tuple(its), message))
        if unknown:
            self.ring.multicast(unknown, message)

    def _host(self, position: int) -> Address | None:
        host = self._hosts.get(position)
        if host is not None and host != self.node.address and host not in self.ring.suspected:
            return host
        known = self.ring.known()  # whoever has the position for an identifier owns it
        place = bisect_left(known, position)
        return position if place < len(known) and known[place] == position else None

    def _passed(self, message: DirectMessage, sender: Address) -> None:
        positions, inner = message
        if sender == self.node.address:  # it came back: the node that was thought to own them does not answer
            for position in positions:
                self._hosts.pop(position, None)
        own = tuple(position for position in positions if self.ring.member and self.ring.owns(position))
        others = tuple(position for position in positions if position not in own)
        if own:
            self.ring.listeners[type(inner)](inner, Arrival(self.node.address, own))
        if others:
            self.ring.multicast(others, inner)
            if sender != self.node.address:
                self.node.send(sender, OwnershipDenial(others))

    def _introduce(self, arrival: Arrival, sender: Address) -> None:
        """Tell a neighbour that had to look for these positions where they are."""
        if arrival.origin != self.node.address and sender != self.node.address:
            self.node.send(sender, OwnershipNotice(arrival.keys))

    def _host_is_here(self, message: OwnershipNotice, sender: Address) -> None:
        for position in message.positions:
            self._hosts[position] = sender

    def _host_is_elsewhere(self, message: OwnershipDenial, sender: Address) -> None:
        for position in message.positions:
            if self._hosts.get(position) == sender:
                del self._hosts[position]

    # Stored events.

    def _remember(self, position: int, message: XmlPublication) -> None:
        """Keep an event for those who ask later; the oldest makes room."""
        if not self.history:
            return
        name = EventName(message.event.id)
        past = {
            known: entry.time
            for known, entry in self.replication.contents(position).items()
            if isinstance(known, EventName)
        }
        if name in past:
            return
        if len(past) >= self.history:
            self.replication.drop(position, min(past, key=lambda known: (past[known], known)))
        self.replication.put(position, name, StoredEvent(self.node.now, message.filter, message.event))

    def _recall(self, message: EventRecall, arrival: Arrival) -> None:
        if message.came_from is not None:
            self._introduce(arrival, arrival.origin)
        found: list[StoredEvent] = []
        for start in arrival.keys:
            for position in self._reach(
                start, message.came_from, True, lambda vertex: message._replace(came_from=vertex)
            ):
                found += self._past(position, message)
        if found:
            found.sort(key=lambda entry: (entry.time, entry.event.id))
            answer = EventRecallReply(message.subscription, tuple(entry.event for entry in found))
            if message.home == self.node.address:
                self._recalled(answer, message.home)
            else:
                self.send(message.home, answer)

    def _past(self, position: int, message: EventRecall) -> list[StoredEvent]:
        return [
            entry
            for entry in self.replication.contents(position).values()
            if isinstance(entry, StoredEvent)
            and entry.time >= message.since
            and not message.filter & ~entry.filter
        ]

    def _recalled(self, message: EventRecallReply, sender: Address) -> None:
        for event in message.events:
            self.home.accept(event, [message.subscription])

    # Upkeep.

    def _register_in(self, subscription_id: str, ranks: Iterable[int]) -> None:
        filter = self._addresses[subscription_id][0].filter
        self._send_up(subscription_id, ranks, FilterRegistration(subscription_id, self.node.address, filter))

    def _withdraw_from(self, subscription_id: str, ranks: Iterable[int]) -> None:
        self._send_up(subscription_id, ranks, FilterWithdrawal(subscription_id, self.node.address))

    def _send_up(self, subscription_id: str, ranks: Iterable[int], message: Message) -> None:
        """Send a message to the vertices of a subscription's keys, in every facet of some cubes."""
        addresses = self._addresses[subscription_id]
        self.ring.multicast(
            [
                self.cubes.position(CubeVertex(addresses[rank].key, facet, rank))
                for rank in ranks
                for facet in range(self.cubes.facets)
            ],
            message,
        )

    def _readdress(self, before: AgreedDimensions, now: AgreedDimensions) -> None:
        """Register where that is to be from now on, and withdraw from where it is not."""
        for name in self._addresses:
            new = [rank for rank in now.registering if rank not in before.registering]
            old = [rank for rank in before.registering if rank not in now.registering]
            if new:
                self._register_in(name, new)
            if old:
                self._withdraw_from(name, old)

    def _begin(self) -> None:
        if self.refresh is not None:
            share = (self.node.address * 0.618034) % 1.0  # so that not all nodes refresh at once
            self.node.wake_after(self.refresh * (0.5 + share), "hope refresh")

    def _each_period(self, about: None) -> None:
        assert self.refresh is not None
        self.node.wake_after(self.refresh, "hope refresh")
        if not self.ring.member:
            return
        self.agreement.each_period(self.refresh)
        self._renew()
        self._expire(self.node.now - LEASES * self.refresh)

    def _renew(self) -> None:
        """Tell others again what they should know."""
        for name in self._addresses:
            self._register_in(name, self.agreement.settled.registering)

    def _expire(self, before: float) -> None:
        """Forget what was last heard of before a time; what is newly hosted here counts as heard of now."""
        hosted = {
            (position, name)
            for position in self.replication.hosted()
            for name in self.replication.contents(position)
            if isinstance(name, RegistrationName)
        }
        self._heard_of = {known: time for known, time in self._heard_of.items() if known in hosted}
        for position, resident in sorted(hosted):
            if self._heard_of.setdefault((position, resident), self.node.now) < before:
                self._forget(position, resident)
