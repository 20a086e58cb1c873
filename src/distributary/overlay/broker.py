"""What a node that serves clients offers, whatever system it belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from distributary.model import Event, EventIdentity, Offset, Subscription, SubscriptionKey
from distributary.overlay.node import Address, Message, Node, RequestKey

ValuesByTopic = Mapping[str | None, Mapping[str, float]]
"""The values last delivered to a subscription, by topic and attribute."""


class RememberedValues(NamedTuple):
    """The values that a subscription with tolerances was last given, for one topic."""

    subscription: str
    topic: str | None
    values: tuple[tuple[str, float], ...]


class SessionState(NamedTuple):
    """What a client knows of itself: with this it goes on at any broker, whatever became of the last one."""

    subscriptions: tuple[Subscription, ...]
    """All of one subscriber."""
    offset: Offset | None = None
    """Everything up to there has been received; None for a client that begins with what comes next."""
    last: tuple[RememberedValues, ...] = ()
    """What the tolerances of its subscriptions start from."""


class ToleranceStart(NamedTuple):
    """What the tolerance of a subscription is to start from."""

    key: SubscriptionKey
    before: tuple[RememberedValues, ...]
    """What its client was last given by deliveries."""
    values: tuple[RememberedValues, ...]
    """What it was given since, otherwise."""


class RequestRefusal(NamedTuple):
    """Delivered in place of an acknowledgement: what a client asked for will not be done, and why."""

    what: RequestKey
    reason: str


class LogGap(NamedTuple):
    """Delivered in place of what a client has missed and the log no longer has."""

    subscriber: str
    after: Offset
    through: Offset
    """What its subscriptions wanted after the one place and up to the other is lost for it."""


class Broker(Protocol):
    """What a node offers its clients. Deliveries leave the node as effects: `Deliver(model.Delivery)`, or in
    a network with a log `Deliver(model.DeliveryBatch)` where several come together for a subscriber.

    Where the broker `acknowledges`, what is done leaves as `Acknowledge`: events once they are safe on the
    disks of two nodes, a subscription's key once every event published from then on will reach it.
    Elsewhere there is nothing to wait for: the network does its best with what it was given.

    The clients of a broker are whoever subscribed there: their deliveries leave at the same node. Ids are
    each client's own: what is asked and published is known by its key (`Subscription.key`, `Event.key`).
    A broker that restarts without its state has forgotten its clients, who then subscribe again.
    """

    node: Node

    @property
    def acknowledges(self) -> bool:
        """Whether clients are told, by an effect of its own, when what they asked for is done."""

    @property
    def joined(self) -> bool:
        """Whether the node has its place among the others."""

    def subscribe(self, subscription: Subscription) -> None:
        """Register a subscription of a client of this node; FilterError when the system cannot serve it."""

    def start_from(self, start: ToleranceStart) -> None:
        """Have a tolerance start from values that its client was given elsewhere.

        A topic of which something was delivered meanwhile keeps that. Where systems measure tolerances
        otherwise, nothing happens.
        """
        return

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Forget a subscription that was registered here."""

    def resume(self, session: SessionState) -> None:
        """Register a client's subscriptions, and deliver what it has missed since it was last connected.

        In a network with a log everything after the session's offset is delivered, in order and once. In
        others this is the same as subscribing. FilterError when the system cannot serve a subscription. What
        the log has no longer is told by a `LogGap`, delivered in its place.
        """

    def reached(self, subscriber: str) -> Offset | None:
        """Up to where this client has been given everything that its subscriptions here want.

        Those count that were acknowledged. None while there is no such place: where there is no log, or the
        node has not come so far. Clients are told now and then, so that one to which nothing was delivered
        for long does not come back with a place that the log has forgotten.
        """

    def publish(self, event: Event) -> None:
        """Have the event delivered once to every subscriber who asked for it, wherever they are.

        DocumentError when its document cannot be read: then nobody gets it.
        """

    def publish_all(self, events: Sequence[Event]) -> int | None:
        """Publish several, in this order. DocumentError when a document cannot be read.

        Where the broker `acknowledges`, an error means that nobody gets any of them; and the number that is
        returned is the one by which the last of them is told to be safe (`SafeEvents.through`).
        """
        for event in events:
            self.publish(event)
        return None

    def publish_at_once(self, events: Sequence[Event]) -> bool:
        """Publish several where nobody else has a part in it and no disk is asked for; whether that was done.

        They are safe then, as far as they ever are: nothing is stored or acknowledged. Where it is not done,
        nothing has happened.
        """
        return False

    def audience(self, topic: str, lacking: str) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
        """Who would be given an event of a topic that lacks an attribute, where nothing else decides.

        Subscribers with the ids of their subscriptions. None where more than that decides, or where others
        than the clients here have a part in it. It holds until the node is next asked or told anything.
        """
        return None

    def last_place(self) -> Offset | None:
        """The place in the log of what was published last, where `audience` tells who is given what follows.

        What is published next has the next number. None elsewhere.
        """
        return None

    def remembers(self, identity: EventIdentity) -> bool:
        """Whether an event was published before, as far as this node remembers."""
        return False

    def suspect(self, address: Address) -> None:
        """Whoever runs this node has found that no process is where another node was.

        That one may come back at any moment; until it is heard of, it counts as silent for long.
        """

    def leave(self) -> None:
        """Begin to leave the network in good order; nothing if that has begun.

        Clients have gone elsewhere by then. A node that cannot leave yet stays as it is, and is asked again.
        """

    @property
    def left(self) -> bool:
        """Whether the others need this node no longer, so that it may stop."""

    def restore(self, stored: Mapping[str, Message]) -> None:
        """Before the start: take up what an earlier node of this address had stored, by its names."""
