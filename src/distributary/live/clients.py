"""The clients of a broker: they connect, publish, subscribe and are given what they asked for.

Rules:

- A client is known by its name, which is the subscriber of its subscriptions. Whoever connects with a name
  that is connected takes its place; the one before is told and let go.
- A subscription lasts as long as the connection: when that ends, it is withdrawn. A client that comes back
  says how far it had come (`ClientResume`), here or at any other broker, and is given what follows: nothing
  of a client is kept at a broker. What was on its way to the connection before is not given to the next one.
- Where the broker acknowledges, requests are answered when all that they ask for is acknowledged; elsewhere
  when the broker has passed them on. While the broker is congested, clients that publish are not read from,
  so that they wait too.
- A client that takes its deliveries too slowly to keep the queue below `MOST_QUEUED` is told so and let go:
  no other client waits for it, and nothing is left out in silence.
- Clients connect on loopback, or with a certificate of the network's authority.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

from distributary.errors import DistributaryError
from distributary.flow import Item, Query, Source
from distributary.live import client_messages as messages
from distributary.live.codec import VERSION, CodecError, encode
from distributary.live.frames import frame
from distributary.live.greeting import GreetingRefusal
from distributary.live.requests import Request, Requests
from distributary.model import Delivery, Event, Offset, Subscription, SubscriptionKey
from distributary.overlay.broker import LogGap, SessionState
from distributary.overlay.node import Message, RegistrationKey, RequestKey

MOST_QUEUED = 16 << 20
"""Bytes of deliveries that a client has not taken."""
LATER = 0.02
"""Seconds until it is looked again whether the broker is congested."""
MOST_UNANSWERED = 1_000
"""Requests of one client without an answer, beyond which it is not read from."""


class Served(Protocol):
    """The broker that clients talk to."""

    name: str

    def subscribe(self, subscription: Subscription) -> None:
        """Register a subscription."""

    def resume(self, session: SessionState) -> None:
        """Register a client's subscriptions, and deliver what it has missed."""

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Forget a subscription."""

    def reached(self, subscriber: str) -> Offset | None:
        """Up to where a client has been given everything."""

    def in_turn(self, action: Callable[[], None]) -> None:
        """Do something after all deliveries that are on their way now."""

    @property
    def runs(self) -> bool:
        """Whether the node is started, and not stopped since."""

    @property
    def acknowledges(self) -> bool:
        """Whether the broker says when what was asked for is done."""

    def publish(self, event: Event) -> None:
        """Have an event delivered."""

    def register_source(self, source: Source) -> None:
        """Take events of a source, in a network of stream queries."""

    def register_query(self, query: Query) -> None:
        """Run a stream query."""

    def withdraw_query(self, name: str) -> None:
        """Run it no longer."""

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
        self.requests = Requests()
        """What clients wait for."""
        self.slow = 0
        """Clients let go because they were too slow."""
        self._clients: dict[str, ClientLine] = {}
        self._queries: dict[str, ClientLine] = {}
        """Whose each stream query is."""

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
        return None if self.broker.runs else messages.ClientFarewell("the broker has not joined yet")

    def _reason(self, greeting: messages.ClientGreeting) -> str | None:
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
            before.let_go(f"another client connected as {greeting.client!r}", final=True)
        client = self._clients[greeting.client] = ClientLine(self, greeting.client, line)
        client.say(messages.ClientWelcome(self.network, self.broker.name, self.broker.acknowledges))
        self.broker.in_turn(client.open)
        return client

    def deliver(self, delivery: Delivery) -> bool:
        """Give a delivery to its client; whether that is connected."""
        client = self._clients.get(delivery.subscriber)
        if client is not None:
            client.give(delivery)
        return client is not None

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
        self._broker = room.broker
        self._line = line
        self._ids: set[str] = set()
        self._queries: set[str] = set()
        self._gone = False
        self.paused = False
        """Whether nothing is read from it for now."""
        self._open = False
        """Whether what comes for the client is for this connection, and not on its way to one before."""
        self._told: Offset | None = None
        """The place that the client was told last."""
        self._requests: set[Request] = set()
        self._unsent: list[bytes] = []
        self._unsent_bytes = 0
        self._handlers: dict[type, Callable[..., None]] = {
            messages.ClientEvents: self._publish,
            messages.ClientSubscribe: self._subscribe,
            messages.ClientResume: self._resume,
            messages.ClientUnsubscribe: self._unsubscribe,
            messages.ClientSource: self._register_source,
            messages.ClientQuery: self._register_query,
            messages.ClientWithdrawal: self._withdraw_query,
        }

    def receive(self, message: Message) -> None:
        """Do what the client asks; CodecError for what no client says."""
        handler = self._handlers.get(type(message))
        if handler is None:
            raise CodecError(f"a {type(message).__name__} from a client")
        handler(message)

    # What it is given.

    def open(self) -> None:
        """From now on all deliveries are for this connection."""
        self._open = True

    def give(self, delivery: Delivery) -> None:
        """Send a delivery, or let the client go if it is too slow."""
        if self._open:
            self._told = delivery.offset
            self.offer(
                messages.ClientDelivery(delivery.event, tuple(delivery.subscriptions), delivery.offset)
            )

    def offer(self, message: Message) -> None:
        """Send something that the client asked for, or let the client go if it is too slow."""
        if self._line.unwritten + self._unsent_bytes > MOST_QUEUED:
            self._room.slow += 1
            self.let_go(f"more than {MOST_QUEUED:,} bytes of deliveries were not taken")
        else:
            self.say(message)

    def miss(self, gap: LogGap) -> None:
        """Tell the client what it has missed."""
        if self._open:
            self.say(messages.ClientGap(gap.after, gap.through))

    def tell_progress(self) -> None:
        """Tell the client how far it has been given everything, after what is on its way."""
        reached = self._broker.reached(self.name)
        if reached is not None and self._ids:
            self._broker.in_turn(partial(self._tell_place, reached))

    def _tell_place(self, reached: Offset) -> None:
        if self._open and not self._gone and reached != self._told:
            self._told = reached
            self.say(messages.ClientProgress(reached))

    def let_go(self, reason: str, *, final: bool = False) -> None:
        """Tell the client why, and end the connection."""
        self.say(messages.ClientFarewell(reason, final))
        self._flush()
        self._line.close(reason)
        self.left()

    def left(self) -> None:
        """The connection has ended: nothing of the client's is kept."""
        if not self._gone:
            self._gone = True
            self._room.forget(self)
            for request in self._requests:
                request.abandon()
            for id in sorted(self._ids):
                self._broker.unsubscribe(SubscriptionKey(self.name, id))
            for query in sorted(self._queries):
                self._room.disown(query)
                self._broker.withdraw_query(query)

    def say(self, message: Message) -> None:
        """Send a message at the end of this turn of the loop."""
        if not self._unsent:
            asyncio.get_running_loop().call_soon(self._flush)
        data = frame(encode(message))
        self._unsent.append(data)
        self._unsent_bytes += len(data)

    def _flush(self) -> None:
        if self._unsent:
            self._line.write(b"".join(self._unsent))
            self._unsent.clear()
            self._unsent_bytes = 0

    # What it asks.

    def _publish(self, message: messages.ClientEvents) -> None:
        refused: list[tuple[int, str]] = []

        def done() -> None:
            if request.refusals:
                told = ((place, request.refusals.get(each.key)) for place, each in enumerate(message.events))
                refused.extend((place, reason) for place, reason in told if reason is not None)
            self._answer(message.number, refused)

        request = self._request((event.key for event in message.events), done)
        for place, event in enumerate(message.events):
            try:
                self._broker.publish(event)
            except DistributaryError as error:
                refused.append((place, str(error)))
                request.refuse(event.key)
        request.close()
        if not self.paused:
            self._read_or_wait()

    def _request(self, keys: Iterable[RequestKey], done: Callable[[], None]) -> Request:
        """Begin a request that is answered once these are acknowledged, where anybody does."""

        def answer() -> None:
            self._requests.discard(request)
            done()

        request = self._room.requests.open(keys if self._broker.acknowledges else (), answer)
        self._requests.add(request)
        return request

    def _answer(self, number: int, refused: Iterable[tuple[int, str]] = ()) -> None:
        if not self._gone:
            self.say(messages.ClientAnswer(number, tuple(refused)))

    def _read_or_wait(self) -> None:
        """Read from the client, unless the broker or the client itself has enough to do for now."""
        full = self._broker.congested or len(self._requests) > MOST_UNANSWERED
        if self._gone:
            return
        if full != self.paused:
            self.paused = full
            (self._line.pause if full else self._line.resume)()
        if full:
            asyncio.get_running_loop().call_later(LATER, self._read_or_wait)

    def _subscribe(self, message: messages.ClientSubscribe) -> None:
        subscription = message.subscription
        self._register(message.number, (subscription,), lambda: self._broker.subscribe(subscription))

    def _resume(self, message: messages.ClientResume) -> None:
        session = message.session
        self._register(message.number, session.subscriptions, lambda: self._broker.resume(session))

    def _register(
        self, number: int, subscriptions: tuple[Subscription, ...], register: Callable[[], None]
    ) -> None:
        """Register subscriptions, and answer when they are in force and all before has been given."""
        for subscriber in {each.subscriber for each in subscriptions} - {self.name}:
            self._answer(number, [(0, f"{self.name!r} cannot subscribe for {subscriber!r}")])
            return

        keys = [subscription.key for subscription in subscriptions]

        def done() -> None:
            if request is not None:
                self._ids.difference_update(key.id for key in keys if key in request.refusals)
            self.tell_progress()
            self._broker.in_turn(partial(self._answer, number, _reasons(request)))

        request = self._ask(number, keys, register, done)
        if request is not None:
            self._ids.update(key.id for key in keys)
            request.close()

    def _ask(
        self,
        number: int,
        keys: Iterable[RequestKey],
        action: Callable[[], None],
        done: Callable[[], None],
    ) -> Request | None:
        """Begin a request for this; None when that is refused at once, which is answered."""
        request = self._request(keys, done)
        try:
            action()
        except DistributaryError as error:
            request.abandon()
            self._requests.discard(request)
            self._answer(number, [(0, str(error))])
            return None
        return request

    # What it asks of a network of stream queries.

    def _register_source(self, message: messages.ClientSource) -> None:
        key = RegistrationKey("source", message.source.name)
        self._ask_one(message.number, key, lambda: self._broker.register_source(message.source))

    def _register_query(self, message: messages.ClientQuery) -> None:
        name = message.query.name
        if not self._room.own(name, self):
            self._answer(message.number, [(0, f"another client here has a query {name!r}")])
            return
        self._queries.add(name)
        key = RegistrationKey("query", name)
        register = partial(self._broker.register_query, message.query)
        self._ask_one(message.number, key, register, partial(self._forget_query, name))

    def _withdraw_query(self, message: messages.ClientWithdrawal) -> None:
        if message.query not in self._queries:
            self._answer(message.number, [(0, f"there is no query {message.query!r}")])
            return
        self._forget_query(message.query)
        key = RegistrationKey("withdrawal", message.query)
        self._ask_one(message.number, key, partial(self._broker.withdraw_query, message.query))

    def _forget_query(self, name: str) -> None:
        self._queries.discard(name)
        self._room.disown(name)

    def _ask_one(
        self,
        number: int,
        key: RegistrationKey,
        action: Callable[[], None],
        refused: Callable[[], None] = lambda: None,
    ) -> None:
        """Ask for one thing, and answer when it is done; `refused` is called when it will not be."""

        def done() -> None:
            if request is None or request.refusals:
                refused()
            self._answer(number, _reasons(request))

        request = self._ask(number, [key], action, done)
        if request is None:
            refused()
        else:
            request.close()

    def _unsubscribe(self, message: messages.ClientUnsubscribe) -> None:
        if message.id not in self._ids:
            self._answer(message.number, [(0, f"there is no subscription {message.id!r}")])
            return
        self._ids.remove(message.id)
        self._broker.unsubscribe(SubscriptionKey(self.name, message.id))
        self._answer(message.number)


def _reasons(request: Request | None) -> list[tuple[int, str]]:
    """Why something that a client asked for is refused, if it is."""
    return [] if request is None else [(0, reason) for reason in request.refusals.values()]
