"""A simulated publish-subscribe system with its clients: what they ask for, what they get, what it costs.

Rules:

- Every operation is a cause of its own, for example `("publish", event.key)`, so that messages, bytes and
  hops of each operation follow from the metrics alone.
- Clients behave like real ones. When their broker restarts they subscribe again (cause
  `("subscribe again", key)`); requests that a broker lost in a crash, or that came while it was down, are
  made again when it is up; when it leaves, or has crashed for good, they move to the next one, clockwise.
- An event that does not say when it arrived arrives when it is published: to conditions, `now()` is the
  simulator's time, which begins with 1970, so that it is the same in every run.
- A client talks to its own broker only. Subscribing or publishing at a broker that is down is an error of the
  caller.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple

from distributary.errors import DistributaryError, UnknownSubscriptionError
from distributary.model import Delivery, Event, EventKey, Offset, Subscription, SubscriptionKey
from distributary.overlay.broker import Broker, LogGap, SessionState
from distributary.overlay.node import Address
from distributary.sim.metrics import Cost, Metrics
from distributary.sim.population import Population
from distributary.sim.simulator import DeliveredItem, Observer, Simulator

ACKNOWLEDGEMENTS = ("Ack",)
"""The kinds of messages that `costs` counts separately by default."""

NANOSECONDS = 1_000_000_000
"""So many are a second."""

RECONNECT = 5.0
"""Seconds after which the clients of a broker that crashed for good go to another."""

Cause = tuple[str, EventKey | SubscriptionKey]
"""An operation by its kind and what it was about."""


class ReceivedDelivery(NamedTuple):
    """A delivery to a client: when, at which node, and after how many messages since the publication."""

    time: float
    address: Address
    delivery: Delivery
    depth: int


@dataclass(frozen=True)
class Costs:
    """The mean cost of an operation of one kind."""

    operations: int
    messages: float
    """Without those counted separately."""
    bytes: float
    hops: float
    """The longest chain of messages, without those counted separately."""
    apart: Mapping[str, float] = field(default_factory=dict)
    """Messages of the kinds counted separately, such as acknowledgements, by kind."""
    deliveries: float = 0.0
    delivery_hops: float = 0.0
    """Messages in the chain from the operation to a delivery."""
    delay: float = 0.0
    """Seconds from the operation to a delivery."""


@dataclass
class Stay:
    """A time in which a broker has a subscription: until it has been told that the client does not want it
    any more, or has lost its state."""

    subscription: Subscription
    at: Address
    since: float
    until: float = inf


@dataclass
class _Client:
    """A subscription, the node of its client, and the brokers that have it."""

    subscription: Subscription
    at: Address
    registered: set[Address] = field(default_factory=set)
    since: float = 0.0
    offset: Offset | None = None
    """Up to where it has been given everything, where there is a log."""


class _Receipts(Observer):
    """Records what the clients get."""

    def __init__(self, deployment: Deployment) -> None:
        self._deployment = deployment
        self.all: list[ReceivedDelivery] = []
        self.by_cause: dict[object, list[tuple[float, int]]] = {}

    def delivered(self, delivered: DeliveredItem) -> None:
        time, address, item, cause, depth = delivered
        if isinstance(item, LogGap):
            return
        if item.offset is not None:
            self._deployment.note_offset(item.subscriber, address, item.offset)
        self.all.append(ReceivedDelivery(time, address, item, depth))
        self.by_cause.setdefault(cause, []).append((time, depth))

    def acknowledged(self, now: float, address: Address, what: EventKey | SubscriptionKey) -> None:
        if isinstance(what, SubscriptionKey):
            self._deployment.note_registered(what, address)


class Deployment(Population[Broker]):
    """Brokers of any system, with their clients.

    world = Simulator(seed=1, network=ConstantLatency(0.05))
    deployment = Deployment(world, make)                  # make(address) -> Broker
    for address in addresses:
        deployment.add(address)
    deployment.subscribe(Subscription("s1", "ann", topic="A"), at=addresses[2])
    world.run(until=60)
    deployment.publish(Event("e1", topic="A/B"), at=addresses[0])
    world.run(until=120)
    for time, address, delivery, depth in deployment.deliveries: ...
    deployment.costs()["publish"].messages
    """

    def __init__(
        self, simulator: Simulator, make: Callable[[Address], Broker], *, sizes: bool = True
    ) -> None:
        super().__init__(simulator, make)
        self.metrics = Metrics(sizes=sizes)
        self._receipts = _Receipts(self)
        simulator.observe(self.metrics)
        simulator.observe(self._receipts)
        self._clients: dict[SubscriptionKey, _Client] = {}
        self._stays: dict[SubscriptionKey, list[Stay]] = {}
        self._keys_of: dict[str, list[SubscriptionKey]] = {}
        self._births: dict[Address, list[float]] = {}
        """When each node was started without a state, beyond the first time."""
        self._pending_removals: dict[Address, dict[SubscriptionKey, _Client]] = {}
        """Removed subscriptions whose brokers do not know that yet, being down or paused."""
        self._operations: dict[Cause, float] = {}
        """When each operation began, by its cause."""

    # What clients do.

    def subscribe(self, subscription: Subscription, at: Address) -> None:
        """Subscribe a client at a node; FilterError when the system cannot serve it."""
        if subscription.key in self._clients:
            raise DistributaryError(f"there is a subscription {subscription.key} already")
        self._require_up(at)
        client = _Client(subscription, at)
        self._clients[subscription.key] = client
        self._register(client, "subscribe")

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Remove a subscription; a broker that is down is told when it is up again."""
        client = self._clients.pop(key, None)
        if client is None:
            raise UnknownSubscriptionError(key.id, key.subscriber)
        self._withdraw(client, client.at)

    def publish(self, event: Event, at: Address) -> None:
        """Publish an event at a node."""
        self._require_up(at)
        arriving = self.arriving(event)
        self._operate("publish", event.key, at, lambda: self.members[at].publish(arriving))

    def arriving(self, event: Event) -> Event:
        """The event as one that arrives now, by the simulator's clock, unless it says when it arrived."""
        if event.arrival is not None:
            return event
        return replace(event, arrival=round(self.simulator.now * NANOSECONDS))

    @property
    def subscriptions(self) -> dict[SubscriptionKey, tuple[Subscription, Address]]:
        """The current subscriptions, each with its node."""
        return {key: (client.subscription, client.at) for key, client in self._clients.items()}

    def subscribed_since(self, key: SubscriptionKey) -> float:
        """When a subscription was last registered at a broker."""
        return self._clients[key].since

    def subscription_keys(self, subscriber: str) -> list[SubscriptionKey]:
        """The subscriptions that a subscriber has or had."""
        return self._keys_of.get(subscriber, [])

    def stays(self, key: SubscriptionKey) -> list[Stay]:
        """Where a subscription has been registered, and when, in order; empty when it never was."""
        return self._stays.get(key, [])

    def life(self, address: Address, time: float) -> int:
        """How often a node had been started without a state by then: it forgot its earlier lives."""
        return bisect(self._births.get(address, []), time)

    # What they get, and what it cost.

    @property
    def deliveries(self) -> list[ReceivedDelivery]:
        """All deliveries, in the order of time."""
        return self._receipts.all

    def costs(self, *, apart: Iterable[str] = ACKNOWLEDGEMENTS, since: float = 0.0) -> dict[str, Costs]:
        """The mean cost by kind of operation, of those that began at `since` or later.

        Kinds of messages named in `apart` are counted separately. What no operation caused is in
        `metrics.upkeep()`.
        """
        excluded = frozenset(apart)
        by_kind: dict[str, list[Cause]] = {}
        for cause, began in self._operations.items():
            if began >= since:
                by_kind.setdefault(cause[0], []).append(cause)
        return {kind: self._mean_costs(causes, excluded) for kind, causes in sorted(by_kind.items())}

    def _mean_costs(self, causes: list[Cause], apart: frozenset[str]) -> Costs:
        counted, hops = Cost(), 0
        separate = dict.fromkeys(sorted(apart), 0)
        waits: list[float] = []
        depths = 0
        for cause in causes:
            cost = self.metrics.cost(cause, without=apart)
            counted, hops = counted + cost, hops + cost.hops
            for kind, spent in self.metrics.costs_by_kind(cause).items():
                if kind in apart:
                    separate[kind] += spent.messages
            for time, depth in self._receipts.by_cause.get(cause, ()):
                waits.append(time - self._operations[cause])
                depths += depth
        count = len(causes)
        return Costs(
            operations=count,
            messages=counted.messages / count,
            bytes=counted.bytes / count,
            hops=hops / count,
            apart={kind: messages / count for kind, messages in separate.items() if messages},
            deliveries=len(waits) / count,
            delivery_hops=depths / len(waits) if waits else 0.0,
            delay=sum(waits) / len(waits) if waits else 0.0,
        )

    # Lives, as clients see them.

    def restart(self, address: Address, *, keep_state: bool = True) -> None:
        remembers = keep_state and not hasattr(self.members[address], "restore")
        super().restart(address, keep_state=keep_state)
        pending = self._pending_removals.pop(address, {})
        if remembers:
            for client in pending.values():
                self._withdraw(client, address)
        else:
            self._births.setdefault(address, []).append(self.simulator.now)
            self._end_stays(address)
        clients = self._clients_of(address)
        if not remembers:
            for client in clients:
                client.registered.discard(address)
        self._register_again(client for client in clients if address not in client.registered)

    def lose(self, address: Address) -> None:
        """Stop a broker for good; its clients subscribe at the next one, clockwise, when they notice."""
        super().lose(address)
        self._end_stays(address)
        self.simulator.at(self.simulator.now + RECONNECT, lambda: self._move_clients(address))

    def leave(self, address: Address) -> None:
        """Make a broker leave; its clients unsubscribe there and subscribe at the next one, clockwise."""
        for client in self._clients_of(address):
            self._withdraw(client, address)
        self._move_clients(address)
        super().leave(address)

    def _move_clients(self, address: Address) -> None:
        others = [other for other in self.up() if other != address]
        if others:
            clients = self._clients_of(address)
            for client in clients:
                client.at = others[bisect(others, address) % len(others)]
            self._register_again(clients)

    def _end_stays(self, address: Address, key: SubscriptionKey | None = None) -> None:
        """Note that a broker no longer has a subscription, or any."""
        for stays in self._stays.values() if key is None else [self.stays(key)]:
            for stay in stays:
                if stay.at == address and stay.until == inf:
                    stay.until = self.simulator.now

    def _clients_of(self, address: Address) -> list[_Client]:
        return [client for client in self._clients.values() if client.at == address]

    def note_offset(self, subscriber: str, address: Address, offset: Offset) -> None:
        """A client has been given everything up to there."""
        for key in self._keys_of.get(subscriber, ()):
            client = self._clients.get(key)
            if client is not None and client.at == address:
                client.offset = offset

    def note_registered(self, key: SubscriptionKey, address: Address) -> None:
        """A subscription is in force: its client has its first place in the log."""
        client = self._clients.get(key)
        if client is not None and client.at == address and client.offset is None:
            client.offset = self.members[address].reached(key.subscriber)

    def _register_again(self, clients: Iterable[_Client]) -> None:
        """Register subscriptions at the brokers of their clients: those of one session together.

        What of a subscriber's has the same place in the log goes on there as one session, so that an event
        which several of them missed comes once.
        """
        sessions: dict[tuple[str, Offset], list[_Client]] = {}
        for client in clients:
            if client.offset is None:
                self._register(client, "subscribe again")
            else:
                sessions.setdefault((client.subscription.subscriber, client.offset), []).append(client)
        for (_, offset), session in sessions.items():
            self._resume(session, offset)

    def _resume(self, session: list[_Client], offset: Offset) -> None:
        """Have the subscriptions of one subscriber, all at one broker, go on from a place in the log."""
        at = session[0].at
        state = SessionState(tuple(client.subscription for client in session), offset)

        def action() -> None:
            self.members[at].resume(state)
            for client in session:
                self._note_stay(client)

        self._operate("subscribe again", session[0].subscription.key, at, action)

    def _register(self, client: _Client, operation: str) -> None:
        subscription, at = client.subscription, client.at

        def action() -> None:
            try:
                self.members[at].subscribe(subscription)
            except DistributaryError:
                del self._clients[subscription.key]
                raise
            self._note_stay(client)

        self._operate(operation, subscription.key, at, action)

    def _note_stay(self, client: _Client) -> None:
        """A broker has a subscription from now on."""
        subscription, at = client.subscription, client.at
        client.registered.add(at)
        client.since = self.simulator.now
        self._end_stays(at, subscription.key)
        if subscription.key not in self._stays:
            self._stays[subscription.key] = []
            self._keys_of.setdefault(subscription.subscriber, []).append(subscription.key)
        self._stays[subscription.key].append(Stay(subscription, at, client.since))

    def _withdraw(self, client: _Client, at: Address) -> None:
        """Tell a broker that a subscription is removed: now, or when it is up again."""
        key = client.subscription.key
        pending = self._pending_removals.setdefault(at, {})
        pending[key] = client

        def action() -> None:
            pending.pop(key, None)
            if at in client.registered:
                client.registered.discard(at)
                self.members[at].unsubscribe(key)
                self._end_stays(at, key)

        if self.simulator.is_up(at):
            self._operate("unsubscribe", key, at, action)

    def _operate(
        self, operation: str, key: EventKey | SubscriptionKey, at: Address, action: Callable[[], None]
    ) -> None:
        cause = (operation, key)
        self._operations.setdefault(cause, self.simulator.now)
        self.simulator.call(at, action, cause)

    def _require_up(self, at: Address) -> None:
        if at not in self.members or not self.simulator.is_up(at):
            raise DistributaryError(f"node {at} is not up, so no client can talk to it")
