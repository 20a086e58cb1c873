"""`HopeBroker`: what every HOPE node does, however events and subscriptions meet (001 chapters 4 and 5).

HOPE addresses XML events and subscriptions by their structure (`addressing`); they meet at the vertices of a
hypercube on a ring (`overlay.hypercube`). The two ways of meeting are KBPP (`kbpp`) and KBSP (`kbsp`).

Rules:

- A subscription is at its home, the node of its client, which alone decides what is delivered. It is
  registered at the vertex of its key, which sends home the events that cover its filter.
- `overlay.replication` keeps the contents of a vertex: the owner of its position hosts them, other nodes hold
  copies, and they move when owners change. What is derived from them (`Vertex`) exists only at the host.
- Vertices of one node communicate in memory; only what goes to another node is a message. The host of a
  neighbouring vertex is looked up on the ring once and cached until it turns out to be wrong.
- Registrations are soft state: every `refresh` seconds a home registers its subscriptions again, and a vertex
  drops those not renewed for `LEASES` periods. This repairs whatever faults have damaged.
- Events travel without their documents, which homes ask for once (`documents`). The publisher's own clients
  get an event at once.
- With `history`, the vertex of an event's key stores its latest events, for subscribers that were away or are
  new (`history`).
- With `facets`, there are several hypercubes, each rotated by another part of the circle. A subscription is
  registered in all of them and an event goes to one, chosen by its id, which spreads the load of a key with
  many events over several nodes.
- With `dimensions`, the length of keys follows the number of nodes (`dimension`; needs `refresh`).
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from math import inf
from typing import Any, ClassVar
from zlib import crc32

from distributary.errors import DistributaryError
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.hypercube import Cubes, CubeVertex, Key
from distributary.overlay.node import Address, Message
from distributary.overlay.periodic import set_periodic_alarm, staggered
from distributary.overlay.replication import Name
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.hope.addressing import Addressing, StructuralAddress
from distributary.systems.hope.dimension import AgreedDimensions, DimensionAgreement
from distributary.systems.hope.documents import DocumentExchange, without_document
from distributary.systems.hope.history import EventHistory
from distributary.systems.hope.messages import (
    DirectMessage,
    EventRecall,
    FilterRegistration,
    FilterWithdrawal,
    OwnershipDenial,
    OwnershipNotice,
    RegistrationName,
    XmlPublication,
)
from distributary.systems.hope.notices import NoticeInterests
from distributary.systems.publishing import require_readable
from distributary.systems.ring_broker import RendezvousBroker

Visit = Callable[[int, CubeVertex, Key | None], Iterable[Key]]
"""Looks at a vertex, given its position, its place and where the message came from; returns the keys of the
neighbours that the message goes on to."""

LEASES = 3.5
"""After how many refresh periods a registration that was not renewed is dropped."""


class Vertex:
    """The registrations at a vertex that this node hosts."""

    def __init__(self) -> None:
        self.registrations: dict[RegistrationName, int] = {}
        self._homes: dict[int, Counter[Address]] = {}
        """By filter, how many registrations each home has."""
        self._all_homes: Counter[Address] = Counter()

    def update(self, registration: RegistrationName, filter: int | None) -> tuple[int | None, int | None]:
        """Register a filter, or remove the registration (None).

        Returns the filter that has no registration any more, and the one that has its first; None for each
        that there is not.
        """
        dropped = self._remove(registration)
        if filter is None:
            return dropped, None
        new = filter if filter not in self._homes else None
        self.registrations[registration] = filter
        self._homes.setdefault(filter, Counter())[registration.home] += 1
        self._all_homes[registration.home] += 1
        return (None, None) if dropped == filter else (dropped, new)

    def _remove(self, registration: RegistrationName) -> int | None:
        """Remove a registration; returns its filter if that was the last registration of it."""
        filter = self.registrations.pop(registration, None)
        if filter is None:
            return None
        homes = self._homes[filter]
        for counts in (homes, self._all_homes):
            counts[registration.home] -= 1
            if not counts[registration.home]:
                del counts[registration.home]
        if homes:
            return None
        del self._homes[filter]
        return filter

    def find_homes(self, filter: int, found: set[Address]) -> None:
        """Add the homes with a registered filter that this event filter covers to those found elsewhere.

        Filters are compared until no home is left that could be found.
        """
        if self._all_homes.keys() <= found:
            return
        left = len(self._all_homes.keys() - found)
        lacking = ~filter
        for asked, homes in self._homes.items():
            if not left:
                return
            if not asked & lacking:
                before = len(found)
                found.update(homes)
                left -= len(found) - before


class HopeBroker(RendezvousBroker):
    """A node of a HOPE system; `Kbpp` and `Kbsp` are the two kinds.

    With `courier`, messages survive loss; with `copies`, the contents of vertices survive the failure of so
    many neighbours; with `refresh`, all other damage is repaired.
    """

    mirrored: ClassVar[bool]
    """Whether clearing a bit of a key, rather than setting one, should be a step along one finger."""

    def __init__(
        self,
        ring: Ring,
        addressing: Addressing,
        *,
        facets: int = 1,
        history: int = 0,
        dimensions: tuple[int, ...] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(ring, **options)
        if dimensions is not None and (addressing.dimension not in dimensions or self.refresh is None):
            raise DistributaryError(
                f"the length of addresses can change among dimensions {dimensions} only if it starts as one "
                f"of them, not as {addressing.dimension}, and if nodes refresh what they know; give "
                "`refresh` seconds"
            )
        self.agreement = DimensionAgreement(
            ring,
            self.replication,
            addressing.dimension,
            dimensions or (addressing.dimension,),
            changed=self._readdress,
        )
        self.cubes = Cubes(self.agreement.dimensions, ring.circle, self.mirrored, facets)
        self._addressings = [replace(addressing, dimension=each) for each in self.agreement.dimensions]
        self.history = EventHistory(self, history)
        self._notices = NoticeInterests()
        self.documents = DocumentExchange(
            self.node, self.home, self.tell, self._notices.may_want, retries=self.courier is not None
        )
        self._addresses: dict[SubscriptionKey, list[StructuralAddress]] = {}
        """The addresses of the subscriptions here, in the cubes of each dimension."""
        self._subscribed_at: dict[SubscriptionKey, float] = {}
        self._renewed_at: dict[tuple[int, RegistrationName], float] = {}
        """When each registration hosted here was last made or renewed."""
        self._hosts: dict[int, Address] = {}
        """The owners of positions that this node sends to, as far as it was told."""
        self.replication.on_change(self._changed)
        ring.listen(FilterRegistration, self._register)
        ring.listen(FilterWithdrawal, self._withdraw)
        ring.listen(XmlPublication, self._published)
        self.node.handle(DirectMessage, self._receive_direct)
        self.node.handle(OwnershipNotice, self._learn_host)
        self.node.handle(OwnershipDenial, self._forget_host)
        delay = 0.5 + staggered(self.node.address)
        set_periodic_alarm(self.node, "hope refresh", self.refresh, self._each_period, delay=delay)

    # For clients.

    def subscribe(self, subscription: Subscription) -> None:
        """Register a client's subscription, with any filters; it is cheap only with a path."""
        self.home.add(subscription)
        filters = self.home.filters(subscription.key)
        self._notices.put(subscription.key, filters)
        addresses = [addressing.of_filters(filters) for addressing in self._addressings]
        known = self._addresses.get(subscription.key)
        if known is not None and known != addresses:
            self._withdraw_from(subscription.key, self.agreement.settled.registering)
        self._addresses[subscription.key] = addresses
        self._subscribed_at.setdefault(subscription.key, self.node.now)
        self._register_in(subscription.key, self.agreement.settled.registering)

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Remove a subscription; UnknownSubscriptionError when it is not at this node."""
        self.home.remove(key)
        self._notices.remove(key)
        self._withdraw_from(key, self.agreement.settled.registering)
        self.history.leaves(key, self.node.now)
        del self._addresses[key], self._subscribed_at[key]

    def publish(self, event: Event) -> None:
        """Have an event delivered, its document going to whoever asks for it."""
        require_readable(event)
        rank = self.agreement.settled.publishing
        key, filter = self._addressings[rank].of_event(event)
        facet = crc32(event.id.encode()) % self.cubes.facets
        holders: tuple[Address, ...] = ()
        if event.document is not None:
            self.documents.hold(event)
            holders = (self.node.address,)
        carried = event if self.history.limit or self.replication.copies else without_document(event)
        publication = XmlPublication(carried, filter, holders)
        self.ring.route(self.cubes.position(CubeVertex(key, facet, rank)), publication)
        self.home.offer(event)

    def catch_up(self, key: SubscriptionKey, since: float = -inf) -> None:
        """Have the stored events since a time delivered, except those that the subscriber has already.

        The time is by the clock of this node; what was stored less after it than the request is under way
        may be left out.

        DistributaryError for a subscription with a tolerance, which depends on the order of events.
        """
        self.history.catch_up(key, since)

    # What a subscription here is registered with.

    def filter_of(self, key: SubscriptionKey) -> int:
        """The filter of a subscription here, which is the same in all cubes."""
        return self._addresses[key][0].filter

    def subscribed_at(self, key: SubscriptionKey) -> float:
        """When a subscription was made here."""
        return self._subscribed_at[key]

    # At the vertices hosted here.

    @abstractmethod
    def _meet(self, position: int, publication: XmlPublication) -> None:
        """Process a publication at a vertex hosted here: notify homes, and forward it to other vertices."""

    @abstractmethod
    def _changed(self, position: int, name: Name, entry: Any) -> None:
        """Follow a change of the contents hosted here."""

    def _register(self, message: FilterRegistration, arrival: Arrival) -> None:
        registration = RegistrationName(message.subscription, message.home)
        for position in arrival.keys:
            self._renewed_at[position, registration] = self.node.now
            known = self.replication.contents(position).get(registration)
            if known != message.filter:
                self.replication.put(position, registration, message.filter)
            if known is None:
                self.history.comes(registration)

    def _withdraw(self, message: FilterWithdrawal, arrival: Arrival) -> None:
        for position in arrival.keys:
            self._forget(position, RegistrationName(message.subscription, message.home))

    def _forget(self, position: int, registration: RegistrationName) -> None:
        self._renewed_at.pop((position, registration), None)
        if registration in self.replication.contents(position):
            self.replication.drop(position, registration)

    def _published(self, message: XmlPublication, arrival: Arrival) -> None:
        for position in arrival.keys:
            if message.came_from is None:
                self.history.remember(position, message)
                message = self._stripped(message)
            self._meet(position, message)
        if message.came_from is not None:
            self.introduce(arrival, arrival.origin)

    def _stripped(self, message: XmlPublication) -> XmlPublication:
        """Hold the document of an event that came whole; returns what is sent on without it."""
        if message.event.document is None:
            return message
        self.documents.hold(message.event)
        holders = tuple(dict.fromkeys((*message.holders, self.node.address)))
        return message._replace(event=without_document(message.event), holders=holders)

    def spread(self, position: int, message: XmlPublication | EventRecall, visit: Visit) -> None:
        """Visit the vertices hosted here that a message reaches from one of them; send it on to others."""
        pending = [(position, self.cubes.place(position), message.came_from)]
        while pending:
            position, place, came_from = pending.pop()
            elsewhere = []
            for child in visit(position, place, came_from):
                neighbour = CubeVertex(child, place.facet, place.rank)
                there = self.cubes.position(neighbour)
                if self.ring.owns(there):
                    pending.append((there, neighbour, place.vertex))
                else:
                    elsewhere.append(there)
            if elsewhere:
                self._send_on(elsewhere, message._replace(came_from=place.vertex))

    # From a vertex to its neighbours.

    def _send_on(self, positions: Iterable[int], message: Message) -> None:
        """Send a message to the hosts of some vertices elsewhere: directly where they are known."""
        hosts: dict[Address | None, list[int]] = {}
        for position in positions:
            hosts.setdefault(self._host(position), []).append(position)
        unknown = hosts.pop(None, None)
        for host, its in hosts.items():
            assert host is not None
            self.send_to_host(host, tuple(its), message)
        if unknown:
            self.ring.multicast(unknown, message)

    def send_to_host(self, host: Address, positions: tuple[int, ...], message: Message) -> None:
        """Send a message to the vertices at these positions, whose host this node is presumably."""
        direct = DirectMessage(positions, message)
        if host == self.node.address:
            self.node.dispatch(direct, host)
        else:
            self.ring.forward(host, direct)

    def _host(self, position: int) -> Address | None:
        host = self._hosts.get(position)
        if host is not None and host != self.node.address and host not in self.ring.suspected:
            return host
        known = self.ring.known()  # a node whose identifier is the position owns it
        place = bisect_left(known, position)
        return position if place < len(known) and known[place] == position else None

    def _receive_direct(self, message: DirectMessage, sender: Address) -> None:
        positions, inner = message
        if sender == self.node.address:  # returned: the presumed owner does not answer
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

    def introduce(self, arrival: Arrival, sender: Address) -> None:
        """Tell a neighbour that routed to these positions that this node owns them."""
        if arrival.origin != self.node.address and sender != self.node.address:
            self.node.send(sender, OwnershipNotice(arrival.keys))

    def _learn_host(self, message: OwnershipNotice, sender: Address) -> None:
        for position in message.positions:
            self._hosts[position] = sender

    def _forget_host(self, message: OwnershipDenial, sender: Address) -> None:
        for position in message.positions:
            if self._hosts.get(position) == sender:
                del self._hosts[position]

    # Upkeep.

    def _register_in(self, key: SubscriptionKey, ranks: Iterable[int]) -> None:
        self.send_up(key, ranks, FilterRegistration(key, self.node.address, self.filter_of(key)))

    def _withdraw_from(self, key: SubscriptionKey, ranks: Iterable[int]) -> None:
        self.send_up(key, ranks, FilterWithdrawal(key, self.node.address))

    def send_up(self, key: SubscriptionKey, ranks: Iterable[int], message: Message) -> None:
        """Send a message to the vertices of a subscription's keys, in all facets of some cubes."""
        addresses = self._addresses[key]
        self.ring.multicast(
            [
                self.cubes.position(CubeVertex(addresses[rank].key, facet, rank))
                for rank in ranks
                for facet in range(self.cubes.facets)
            ],
            message,
        )

    def _readdress(self, before: AgreedDimensions, now: AgreedDimensions) -> None:
        """Register in the cubes that are new, and withdraw from those that are no longer used."""
        for name in self._addresses:
            new = [rank for rank in now.registering if rank not in before.registering]
            old = [rank for rank in before.registering if rank not in now.registering]
            if new:
                self._register_in(name, new)
            if old:
                self._withdraw_from(name, old)

    def _each_period(self) -> None:
        assert self.refresh is not None
        if not self.ring.member:
            return
        self.agreement.each_period()
        self.history.each_period(self.refresh)
        self._renew()
        self._expire(self.node.now - LEASES * self.refresh)

    def _renew(self) -> None:
        """Send all registrations of this home again."""
        for name in self._addresses:
            self._register_in(name, self.agreement.settled.registering)

    def _expire(self, before: float) -> None:
        """Drop what was last renewed before a time; what is newly hosted here counts as renewed now."""
        hosted = {
            (position, name)
            for position in self.replication.hosted()
            for name in self.replication.contents(position)
            if isinstance(name, RegistrationName)
        }
        self._renewed_at = {known: time for known, time in self._renewed_at.items() if known in hosted}
        for position, registration in sorted(hosted):
            renewed_at = self._renewed_at.setdefault((position, registration), self.node.now)
            if renewed_at < before:
                self._forget(position, registration)
                if not self._is_registered(position, registration.subscription):
                    self.history.leaves(registration.subscription, renewed_at)

    def _is_registered(self, position: int, key: SubscriptionKey) -> bool:
        """Whether a subscription is registered at a vertex, by whichever home."""
        names = self.replication.contents(position)
        return any(isinstance(name, RegistrationName) and name.subscription == key for name in names)
