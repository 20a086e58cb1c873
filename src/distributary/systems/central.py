"""Central: one rendezvous node for all subscriptions, as a baseline. Cheap in messages, very uneven in load.

Rules:

- The owner of one agreed key keeps every subscription. Homes register there through the ring; an event is
  routed there, matched against all of them, and sent directly to every home that wants it.
- The rendezvous preselects by the filters that need no memory; homes decide, tolerances included. For its
  own clients it is the home, so it looks an event up for them once, as the home.
- Registrations are soft state. With `refresh`, homes repeat them every so many seconds, and the rendezvous
  drops those not repeated for `PERIODS` periods. With `copies`, the next nodes take over when it fails.

A subscription costs (log N) / 2 messages to the rendezvous; an event the same and one message for each home.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from distributary.filters.kinds import parse_filters
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.node import Address
from distributary.overlay.periodic import set_periodic_alarm, staggered
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.interests import InterestIndex
from distributary.systems.publishing import require_readable
from distributary.systems.ring_broker import RendezvousBroker

KEY = "the centre"
"""The text whose hash is the key of the rendezvous."""

PERIODS = 3
"""After how many refresh periods a registration that was not repeated is dropped."""


class CentralRegistration(NamedTuple):
    """A subscription and the address of its home."""

    subscription: Subscription
    home: Address


class CentralWithdrawal(NamedTuple):
    """The home no longer has this subscription."""

    subscription: SubscriptionKey
    home: Address


class CentralPublication(NamedTuple):
    """An event on its way to the rendezvous."""

    event: Event


class CentralOffer(NamedTuple):
    """An event for a home at which some subscription matches."""

    event: Event


class CentralBroker(RendezvousBroker):
    """A node of the central system; the one that owns the key is the rendezvous."""

    notice = CentralOffer

    def __init__(self, ring: Ring, **options: Any) -> None:
        super().__init__(ring, **options)
        self.key = ring.circle.hash(KEY)
        self._homes: dict[SubscriptionKey, Address] = {}
        """The home of every registration kept here."""
        self._interests: InterestIndex[SubscriptionKey, Address] = InterestIndex()
        """The filters of other homes."""
        self.replication.on_change(self._changed)
        ring.listen(CentralRegistration, self._register)
        ring.listen(CentralWithdrawal, self._withdraw)
        ring.listen(CentralPublication, self._published)
        delay = 0.5 + staggered(self.node.address) / 2
        set_periodic_alarm(self.node, "central refresh", self.refresh, self._refresh, delay=delay)

    # For clients.

    def subscribe(self, subscription: Subscription) -> None:
        """Register a subscription, or replace the one with its key."""
        self.home.add(subscription)
        self.ring.route(self.key, CentralRegistration(subscription, self.node.address))

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Remove a subscription; UnknownSubscriptionError when it is not at this node."""
        self.home.remove(key)
        self.ring.route(self.key, CentralWithdrawal(key, self.node.address))

    def publish(self, event: Event) -> None:
        """Send an event to the rendezvous, which sends it to every home that wants it."""
        require_readable(event)
        self.ring.route(self.key, CentralPublication(event))

    @property
    def entries(self) -> int:
        """How many registrations this node keeps."""
        return len(self._homes)

    # At the rendezvous.

    def _register(self, message: CentralRegistration, arrival: Arrival) -> None:
        name = message.subscription.key
        if self.replication.contents(self.key).get(name) != message:
            self.replication.put(self.key, name, message)
        else:
            self.replication.renew(self.key, name)

    def _withdraw(self, message: CentralWithdrawal, arrival: Arrival) -> None:
        if self._homes.get(message.subscription) == message.home:
            self.replication.drop(self.key, message.subscription)

    def _changed(self, key: int, name: Any, entry: CentralRegistration | None) -> None:
        """Follow a registration that came, went, or moved between nodes."""
        self._homes.pop(name, None)
        if name in self._interests:
            self._interests.remove(name)
        if entry is not None:
            self._homes[name] = entry.home
            if entry.home != self.node.address:
                self._interests.put(name, entry.home, parse_filters(entry.subscription))

    def _published(self, message: CentralPublication, arrival: Arrival) -> None:
        homes = sorted(self._interests.wanting(message.event))
        if len(self.home):
            homes.append(self.node.address)
        self.home.notify(homes, message.event)

    def _refresh(self) -> None:
        assert self.refresh is not None
        self.replication.drop_unrenewed(PERIODS * self.refresh)
        for subscription in self.home.subscriptions.values():
            self.ring.route(self.key, CentralRegistration(subscription, self.node.address))
