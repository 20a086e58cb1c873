"""Central: one rendezvous node for everything. Cheap in messages and as uneven as can be, to compare with.

Rules:

- The owner of one agreed key keeps every subscription. Homes register there by the ring; an event goes there
  by the ring, is matched against all of them, and is sent straight to every home that wants it.
- The rendezvous preselects by the filters that need no memory; homes decide, tolerances included.
- Registrations are soft state. With `refresh`, homes repeat theirs every so many seconds, and the rendezvous
  forgets what was not repeated for a few periods. With `copies`, the next nodes take over when it fails.

A subscription costs the way to the rendezvous, (log N) / 2 messages; an event the same and one message for
each home. The rendezvous evaluates every subscription for every event.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from distributary.filters.filter import Filter
from distributary.filters.kinds import parse_filters
from distributary.model import Event, Subscription
from distributary.overlay.courier import Courier
from distributary.overlay.node import Address, Message
from distributary.overlay.replication import Replication
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.home import Home

KEY = "the centre"
"""What everybody hashes to find the rendezvous."""

PERIODS = 3
"""A registration that was not repeated for so many refresh periods is forgotten."""


class CentralRegistration(NamedTuple):
    """A subscription, and where it lives."""

    subscription: Subscription
    home: Address


class CentralWithdrawal(NamedTuple):
    """A subscription that no longer lives there."""

    name: str
    home: Address


class CentralPublication(NamedTuple):
    """An event on its way to the rendezvous."""

    event: Event


class CentralOffer(NamedTuple):
    """An event that somebody at a home asked for."""

    event: Event


class CentralBroker:
    """A node of the central system; whichever owns the key is the rendezvous."""

    def __init__(
        self,
        ring: Ring,
        *,
        courier: Courier | None = None,
        copies: int = 0,
        refresh: float | None = None,
    ) -> None:
        self.ring = ring
        self.node = ring.node
        self.home = Home(ring.node)
        self.refresh = refresh
        self.key = ring.circle.hash(KEY)
        self.replication = Replication(ring, copies, courier.send if courier else None)
        self._send: Callable[[Address, Message], None] = courier.send if courier else ring.node.send
        self._filters: dict[str, tuple[Address, tuple[Filter, ...]]] = {}
        """Of every registration that is kept here: its home, and its filters."""
        self._heard_of: dict[str, float] = {}
        """When each registration that is kept here was last made."""
        if courier is not None:
            courier.carry(ring)
        self.replication.on_change(self._changed)
        ring.listen(CentralRegistration, self._register)
        ring.listen(CentralWithdrawal, self._withdraw)
        ring.listen(CentralPublication, self._published)
        self.node.handle(CentralOffer, lambda offer, sender: self.home.offer(offer.event))
        self.node.at_alarm("central refresh", self._each_period)
        self.node.at_start(self._begin)

    # For clients.

    def subscribe(self, subscription: Subscription) -> None:
        """Register a subscription, or change the one that has its id."""
        self.home.add(subscription)
        self.ring.route(self.key, CentralRegistration(subscription, self.node.address))

    def unsubscribe(self, subscription_id: str) -> None:
        """Forget a subscription; UnknownSubscriptionError when it does not live here."""
        self.home.remove(subscription_id)
        self.ring.route(self.key, CentralWithdrawal(subscription_id, self.node.address))

    def publish(self, event: Event) -> None:
        """Send an event to the rendezvous, which sends it to every home that wants it."""
        self.ring.route(self.key, CentralPublication(event))

    @property
    def entries(self) -> int:
        """How many subscriptions are kept here."""
        return len(self._filters)

    # At the rendezvous.

    def _register(self, message: CentralRegistration, arrival: Arrival) -> None:
        name = message.subscription.id
        self._heard_of[name] = self.node.now
        if self.replication.contents(self.key).get(name) != message:
            self.replication.put(self.key, name, message)

    def _withdraw(self, message: CentralWithdrawal, arrival: Arrival) -> None:
        kept = self._filters.get(message.name)
        if kept is not None and kept[0] == message.home:
            self.replication.drop(self.key, message.name)

    def _changed(self, key: int, name: Any, entry: CentralRegistration | None) -> None:
        """What is kept here has changed: by a message, or by taking over or handing over."""
        if entry is None:
            self._filters.pop(name, None)
            self._heard_of.pop(name, None)
        else:
            self._filters[name] = (entry.home, tuple(parse_filters(entry.subscription).values()))
            self._heard_of.setdefault(name, self.node.now)

    def _published(self, message: CentralPublication, arrival: Arrival) -> None:
        event = message.event
        wanted: dict[Address, None] = {}
        for home, filters in self._filters.values():
            if home not in wanted and all(filter.matches(event) for filter in filters):
                wanted[home] = None
        for home in wanted:
            if home == self.node.address:
                self.home.offer(event)
            else:
                self._send(home, CentralOffer(event))

    # Soft state.

    def _begin(self) -> None:
        if self.refresh is not None:
            share = (self.node.address * 0.618034) % 1.0  # so that not all homes speak at once
            self.node.wake_after(self.refresh * (0.5 + share / 2), "central refresh")

    def _each_period(self, about: None) -> None:
        assert self.refresh is not None
        self.node.wake_after(self.refresh, "central refresh")
        oldest = self.node.now - PERIODS * self.refresh
        for name in [name for name, heard in self._heard_of.items() if heard < oldest]:
            self.replication.drop(self.key, name)
        for subscription in self.home.subscriptions.values():
            self.ring.route(self.key, CentralRegistration(subscription, self.node.address))
