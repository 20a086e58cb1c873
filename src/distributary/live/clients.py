"""The clients of a broker: they connect, publish, subscribe and are given what they asked for.

Rules:

- A client is known by its name, which is the subscriber of its subscriptions. Whoever connects with a name
  that is connected takes its place; the one before is told and let go.
- A subscription lasts as long as the connection: when that ends, it is withdrawn. A client that comes back
  says how far it had come (`ClientResume`), here or at any other broker, and is given what follows: nothing
  of a client is kept at a broker. What was on its way to the connection before is not given to the next one.
- What a client publishes within one turn of the loop is published together. What clients are given in one
  turn, or in answer to what came in one, is written at once.
- Where the broker acknowledges, requests are answered when all that they ask for is acknowledged; elsewhere
  when the broker has passed them on. While the broker is congested, clients that publish are not read from,
  so that they wait too.
- A client that takes its deliveries too slowly to keep the queue below `MOST_QUEUED` is told so and let go:
  no other client waits for it, and nothing is left out in silence.
- Clients connect on loopback, or with a certificate of the network's authority. A broker that has them log in
  elsewhere (`refused`) lets none of them in here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from distributary.flow import Item
from distributary.live import client_messages as messages
from distributary.live.client_line import ClientConnection, ClientLine, Served
from distributary.live.codec import OLDEST, VERSION
from distributary.live.deliveries import DeliveryFrames
from distributary.live.direct_events import DirectEvents
from distributary.live.greeting import GreetingRefusal
from distributary.live.requests import Publications, Requests
from distributary.model import Delivery, DeliveryBatch
from distributary.overlay.broker import LogGap
from distributary.overlay.node import Message, RequestKey, SafeEvents


class RoomClient(Protocol):
    """A client: one that is connected (`ClientLine`), or one in the broker's own process."""

    @property
    def paused(self) -> bool:
        """Whether nothing is read from it for now."""

    def give(self, delivery: Delivery | DeliveryBatch) -> None:
        """Give it deliveries."""

    def miss(self, gap: LogGap) -> None:
        """Tell it what it has missed."""

    def tell_progress(self) -> None:
        """Tell it how far it has been given everything."""

    def let_go(self, reason: str, *, final: bool = False) -> None:
        """The broker ends, or another client has taken its name (`final`)."""


class ClientRoom:
    """All clients of one broker."""

    def __init__(self, network: str, broker: Served, refused: str | None = None) -> None:
        self.network = network
        self.refused = refused
        """Why no client is let in that connects where nodes do; None where they are."""
        self.broker = broker
        self.requests = Requests()
        """The subscriptions that clients wait for."""
        self.publications = Publications()
        """The events that they wait for."""
        self.frames = DeliveryFrames()
        self.direct = DirectEvents(broker, lambda name: self._clients.get(name))
        """Gives events that come by themselves."""
        self.slow = 0
        """Clients let go because they were too slow."""
        self._closed: str | None = None
        """Why nobody is let in any more."""
        self._clients: dict[str, RoomClient] = {}
        self._given = False
        """Whether what is delivered now has been given."""
        self._queries: dict[str, ClientLine] = {}
        """Whose each stream query is."""
        self._unwritten: list[ClientLine] = []
        """Those for whom something waits to be written."""
        self._gathering = False
        """Whether what clients are told is written when all that has come is done."""

    def serve(self, client: ClientLine, came: Sequence[Message]) -> None:
        """Do what a client asks, all that has come, and write what clients are told at the end."""
        self._gathering = True
        try:
            client.receive(came)
        finally:
            self._gathering = False
            self.flush()

    def write_soon(self, client: ClientLine) -> None:
        """Have what waits for a client written, at the end of this turn of the loop at the latest."""
        if not self._unwritten and not self._gathering:
            asyncio.get_running_loop().call_soon(self.flush)
        self._unwritten.append(client)

    def flush(self) -> None:
        """Write what waits."""
        unwritten, self._unwritten = self._unwritten, []
        for client in unwritten:
            client.flush()

    def acknowledged(self, what: RequestKey | SafeEvents) -> None:
        """Something that clients asked for is done."""
        if isinstance(what, SafeEvents):
            self.publications.safe_through(what.through)
        else:
            self.requests.acknowledged(what)

    @property
    def names(self) -> list[str]:
        """The clients that are connected, sorted."""
        return sorted(self._clients)

    @property
    def waiting(self) -> int:
        """How many clients are not read from, because they publish more than can be passed on."""
        return sum(client.paused for client in self._clients.values())

    def refusal(self, greeting: messages.ClientGreeting) -> Message | None:
        """What a client is told that is not let in; None for one that is."""
        reason = self._reason(greeting)
        if reason is not None:
            return GreetingRefusal(reason)
        if self._closed is not None:
            return messages.ClientFarewell(self._closed)
        return None if self.broker.runs else messages.ClientFarewell("the broker has not joined yet")

    def _reason(self, greeting: messages.ClientGreeting) -> str | None:
        if greeting.network != self.network:
            return f"this is network {self.network!r}, not {greeting.network!r}"
        if greeting.oldest > VERSION or greeting.newest < OLDEST:
            spoken = f"{greeting.oldest} to {greeting.newest}"
            return f"the client speaks versions {spoken} of the protocol, this broker version {VERSION}"
        return self.refused if greeting.client else "a client needs a name"

    def enter(self, greeting: messages.ClientGreeting, line: ClientConnection) -> ClientLine:
        """Let a client in."""
        client = ClientLine(self, greeting.client, line)
        self.admit(greeting.client, client)
        client.say(messages.ClientWelcome(self.network, self.broker.name, self.broker.acknowledges))
        self.broker.in_turn(client.open)
        return client

    def admit(self, name: str, client: RoomClient) -> None:
        """Have what is for a name given to a client, in place of one that had it before."""
        before = self._clients.get(name)
        if before is not None:
            before.let_go(f"another client connected as {name!r}", final=True)
        self._clients[name] = client

    def deliver(self, delivery: Delivery | DeliveryBatch) -> bool:
        """Give a delivery, or several, to its client; whether that is connected."""
        if self._given:
            return True
        client = self._clients.get(delivery.subscriber)
        if client is not None:
            client.give(delivery)
        return client is not None

    def mark_given(self, given: bool) -> None:
        """Say whether what is delivered from now on has been given."""
        self._given = given

    def deliver_result(self, stream: str, item: Item) -> None:
        """Give an item of a query's answer to its client, if that is connected."""
        client = self._queries.get(stream.partition(".")[0])
        if client is not None:
            client.offer(messages.ClientResult(stream, item))

    def own(self, query: str, client: ClientLine) -> bool:
        """Have the answer of a query given to a client; whether it is nobody else's."""
        return self._queries.setdefault(query, client) is client

    def disown(self, query: str) -> None:
        """Give the answer of a query to nobody."""
        self._queries.pop(query, None)

    def tell_gap(self, gap: LogGap) -> None:
        """Tell a client what it has missed for good."""
        client = self._clients.get(gap.subscriber)
        if client is not None:
            client.miss(gap)

    def tell_progress(self) -> None:
        """Tell all clients how far they have been given everything."""
        for client in self._clients.values():
            client.tell_progress()

    def close(self, reason: str) -> None:
        """Let everybody go, and nobody in any more."""
        self._closed = reason
        for client in list(self._clients.values()):
            client.let_go(reason)

    def dismiss(self, name: str, client: RoomClient) -> None:
        """A client is gone."""
        if self._clients.get(name) is client:
            del self._clients[name]
