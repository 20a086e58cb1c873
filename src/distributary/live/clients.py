"""The clients of a broker: they connect, publish, subscribe and are given what they asked for.

Rules:

- A client is known by its name, which is the subscriber of its subscriptions. Whoever connects with a name
  that is connected takes its place; the one before is told and let go.
- A subscription lasts as long as the connection: when that ends, it is withdrawn.
- Events are answered once this broker has passed them on. While the links to other nodes are congested,
  clients that publish are not read from, so that they wait too.
- A client that takes its deliveries too slowly to keep the queue below `MOST_QUEUED` is told so and let go:
  no other client waits for it, and nothing is left out in silence.
- Clients connect on loopback, or with a certificate of the network's authority.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from distributary.errors import DistributaryError
from distributary.live import client_messages as messages
from distributary.live.codec import VERSION, CodecError, encode
from distributary.live.frames import frame
from distributary.model import Delivery, Event, Subscription, SubscriptionKey
from distributary.overlay.node import Message

MOST_QUEUED = 16 << 20
"""Bytes of deliveries that a client has not taken."""
LATER = 0.02
"""Seconds until it is looked again whether links are congested."""


class Served(Protocol):
    """The broker that clients talk to."""

    name: str

    def subscribe(self, subscription: Subscription) -> None:
        """Register a subscription."""

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Forget a subscription."""

    def publish(self, event: Event) -> None:
        """Have an event delivered."""

    @property
    def congested(self) -> bool:
        """Whether publishers should wait."""


class ClientConnection(Protocol):
    """The connection to a client."""

    @property
    def unwritten(self) -> int:
        """Bytes that the client has not taken yet."""

    def write(self, data: bytes) -> None:
        """Have bytes sent."""

    def close(self, reason: str) -> None:
        """End it after what was written."""

    def pause(self) -> None:
        """Read nothing for now."""

    def resume(self) -> None:
        """Read again."""


class ClientRoom:
    """All clients of one broker."""

    def __init__(self, network: str, broker: Served) -> None:
        self.network = network
        self.broker = broker
        self.slow = 0
        """Clients let go because they were too slow."""
        self._clients: dict[str, ClientLine] = {}

    @property
    def names(self) -> list[str]:
        """The clients that are connected, sorted."""
        return sorted(self._clients)

    def refusal(self, greeting: messages.ClientGreeting) -> str | None:
        """Why a client is refused; None if it is not."""
        if greeting.network != self.network:
            return f"this is network {self.network!r}, not {greeting.network!r}"
        if not greeting.oldest <= VERSION <= greeting.newest:
            spoken = f"{greeting.oldest} to {greeting.newest}"
            return f"the client speaks versions {spoken} of the protocol, this broker version {VERSION}"
        if not greeting.client:
            return "a client needs a name"
        return None

    def enter(self, greeting: messages.ClientGreeting, line: ClientConnection) -> ClientLine:
        """Let a client in."""
        before = self._clients.get(greeting.client)
        if before is not None:
            before.let_go(f"another client connected as {greeting.client!r}")
        client = self._clients[greeting.client] = ClientLine(self, greeting.client, line)
        client.say(messages.ClientWelcome(self.network, self.broker.name))
        return client

    def deliver(self, delivery: Delivery) -> bool:
        """Give a delivery to its client; whether that is connected."""
        client = self._clients.get(delivery.subscriber)
        if client is not None:
            client.give(delivery)
        return client is not None

    def close(self, reason: str) -> None:
        """Let everybody go."""
        for client in list(self._clients.values()):
            client.let_go(reason)

    def forget(self, client: ClientLine) -> None:
        """A client is gone."""
        if self._clients.get(client.name) is client:
            del self._clients[client.name]


class ClientLine:
    """One client that is connected."""

    def __init__(self, room: ClientRoom, name: str, line: ClientConnection) -> None:
        self.name = name
        self._room = room
        self._line = line
        self._ids: set[str] = set()
        self._gone = False
        self._unsent: list[bytes] = []
        self._handlers: dict[type, Callable[..., None]] = {
            messages.ClientEvents: self._publish,
            messages.ClientSubscribe: self._subscribe,
            messages.ClientUnsubscribe: self._unsubscribe,
        }

    def receive(self, message: Message) -> None:
        """Do what the client asks; CodecError for what no client says."""
        handler = self._handlers.get(type(message))
        if handler is None:
            raise CodecError(f"a {type(message).__name__} from a client")
        handler(message)

    def give(self, delivery: Delivery) -> None:
        """Send a delivery, or let the client go if it is too slow."""
        if self._line.unwritten > MOST_QUEUED:
            self._room.slow += 1
            self.let_go(f"more than {MOST_QUEUED:,} bytes of deliveries were not taken")
        else:
            self.say(messages.ClientDelivery(delivery.event, tuple(delivery.subscriptions)))

    def let_go(self, reason: str) -> None:
        """Tell the client why, and end the connection."""
        self.say(messages.ClientFarewell(reason))
        self._flush()
        self._line.close(reason)
        self.left()

    def left(self) -> None:
        """The connection has ended: nothing of the client's is kept."""
        if not self._gone:
            self._gone = True
            self._room.forget(self)
            for id in sorted(self._ids):
                self._room.broker.unsubscribe(SubscriptionKey(self.name, id))

    def say(self, message: Message) -> None:
        """Send a message at the end of this turn of the loop."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        self._unsent.append(frame(encode(message)))

    def _flush(self) -> None:
        if self._unsent:
            self._line.write(b"".join(self._unsent))
            self._unsent.clear()

    def _publish(self, message: messages.ClientEvents) -> None:
        refused = []
        for place, event in enumerate(message.events):
            try:
                self._room.broker.publish(event)
            except DistributaryError as error:
                refused.append((place, str(error)))
        if self._room.broker.congested:
            self._line.pause()
            self._when_free(message.number, tuple(refused))
        else:
            self.say(messages.ClientAnswer(message.number, tuple(refused)))

    def _when_free(self, number: int, refused: tuple[tuple[int, str], ...]) -> None:
        if self._gone:
            return
        if self._room.broker.congested:
            asyncio.get_running_loop().call_later(LATER, self._when_free, number, refused)
        else:
            self.say(messages.ClientAnswer(number, refused))
            self._line.resume()

    def _subscribe(self, message: messages.ClientSubscribe) -> None:
        subscription = message.subscription
        if subscription.subscriber != self.name:
            reason = f"{self.name!r} cannot subscribe for {subscription.subscriber!r}"
            self.say(messages.ClientAnswer(message.number, ((0, reason),)))
            return
        try:
            self._room.broker.subscribe(subscription)
        except DistributaryError as error:
            self.say(messages.ClientAnswer(message.number, ((0, str(error)),)))
            return
        self._ids.add(subscription.id)
        self.say(messages.ClientAnswer(message.number))

    def _unsubscribe(self, message: messages.ClientUnsubscribe) -> None:
        if message.id not in self._ids:
            self.say(
                messages.ClientAnswer(message.number, ((0, f"there is no subscription {message.id!r}"),))
            )
            return
        self._ids.remove(message.id)
        self._room.broker.unsubscribe(SubscriptionKey(self.name, message.id))
        self.say(messages.ClientAnswer(message.number))
