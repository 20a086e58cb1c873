"""What clients and brokers say to each other, over the same frames as nodes do.

A client speaks first (`ClientGreeting`), and is welcomed or refused. Every request has a number, and is
answered by one answer with that number. Where the network has a log, what a client is given carries its place
in it, and the client can go on from there at any broker.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from distributary.flow import Item, Query, Source
from distributary.model import Event, Offset, Subscription
from distributary.overlay.broker import SessionState


class ClientGreeting(NamedTuple):
    """The first message of a client."""

    oldest: int
    """The oldest version of the protocol that it speaks."""
    newest: int
    network: str
    client: str
    """Its name: the subscriber of what it subscribes to."""


class ClientWelcome(NamedTuple):
    """The client is let in."""

    network: str
    broker: str
    """The name of the node."""
    acknowledges: bool = False
    """Whether answers mean that events are safe and subscriptions in force: the network has a log."""


class ClientEvents(NamedTuple):
    """Publish these, in this order."""

    number: int
    """Of the request; 0 if nobody waits for its answer, which then comes only if something is refused."""
    events: Sequence[Event]


class ClientSubscribe(NamedTuple):
    """Register a subscription, for as long as the connection lasts."""

    number: int
    subscription: Subscription


class ClientResume(NamedTuple):
    """Register these subscriptions, and give me what I have missed."""

    number: int
    session: SessionState


class ClientUnsubscribe(NamedTuple):
    """Forget a subscription."""

    number: int
    id: str


class ClientSource(NamedTuple):
    """Take events of a source of stream queries, from now on and whoever publishes them."""

    number: int
    source: Source


class ClientQuery(NamedTuple):
    """Run a stream query and give me its answer, for as long as the connection lasts."""

    number: int
    query: Query


class ClientWithdrawal(NamedTuple):
    """Run a query of mine no longer."""

    number: int
    query: str


class ClientAnswer(NamedTuple):
    """What was asked is done, but for what is refused."""

    number: int
    refused: tuple[tuple[int, str], ...] = ()
    """Of events their place in the request, from 0, and why; of anything else place 0."""


class ClientDelivery(NamedTuple):
    """An event for the client, and which of its subscriptions want it."""

    event: Event
    subscriptions: tuple[str, ...]
    offset: Offset | None = None
    """Its place in the log; None where there is none."""


class ClientResult(NamedTuple):
    """An item of the answer of a client's query."""

    stream: str
    """`query.operator`"""
    item: Item


class ClientDeliveries(NamedTuple):
    """Events for the client that come together, in order, and which of its subscriptions want them."""

    epoch: float
    """Of their places in the log."""
    numbers: tuple[int, ...]
    """Of each event its number in the log."""
    events: tuple[Event, ...]
    names: tuple[tuple[str, ...], ...]
    """Of each event the subscriptions; one entry where they are the same for all."""


class ClientProgress(NamedTuple):
    """The client has been given everything up to there."""

    offset: Offset


class ClientGap(NamedTuple):
    """What the client has missed between these places is in no log any more."""

    after: Offset
    through: Offset


class ClientFarewell(NamedTuple):
    """The broker ends the connection, and why."""

    reason: str
    final: bool = False
    """Whether the client should not come back."""
