"""One client that is connected to a broker: what it asks, and what it is given.

The rules are those of `clients`, where all clients of a broker are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Protocol

from distributary.errors import DistributaryError
from distributary.flow import Query, Source
from distributary.live import client_messages as messages
from distributary.live.codec import CodecError, encode
from distributary.live.frames import frame
from distributary.live.requests import Request
from distributary.model import (
    Delivery,
    DeliveryBatch,
    Event,
    EventIdentity,
    Offset,
    Subscription,
    SubscriptionKey,
)
from distributary.overlay.broker import LogGap, SessionState
from distributary.overlay.node import Message, RegistrationKey, RequestKey
from distributary.overlay.packed_events import joined

if TYPE_CHECKING:
    from distributary.live.clients import ClientRoom

MOST_QUEUED = 16 << 20
"""Bytes of deliveries that a client has not taken."""
LATER = 0.02
"""Seconds until it is looked again whether the broker is congested."""
MOST_UNANSWERED = 10_000
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

    @property
    def keeps_log(self) -> bool:
        """Whether events are acknowledged by how far all is safe."""

    def publish(self, *events: Event) -> int | None:
        """Have events delivered; where the broker acknowledges, all or none, and the number of the last."""

    def publish_all(self, events: Sequence[Event]) -> int | None:
        """As `publish`; events that came packed stay so."""

    def register_source(self, source: Source) -> None:
        """Take events of a source, in a network of stream queries."""

    def register_query(self, query: Query) -> None:
        """Run a stream query."""

    def withdraw_query(self, name: str) -> None:
        """Run it no longer."""

    def publish_given(self, events: Sequence[Event]) -> None:
        """As `publish_all`, of events that everybody has been given who wants them."""

    def audience(self, topic: str, lacking: str) -> tuple[tuple[str, tuple[str, ...]], ...] | None:
        """Who would be given an event, where this node alone decides and nothing is kept; see `Broker`."""

    def last_place(self) -> Offset | None:
        """The place in the log of what was published last, where this node alone decides; see `Broker`."""

    def remembers(self, identity: EventIdentity) -> bool:
        """Whether an event was published before; see `Broker`."""

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

    def write_pieces(self, pieces: Sequence[bytes | memoryview], size: int) -> None:
        """Have pieces of so many bytes in all sent, one after the other."""

    def close(self, reason: str) -> None:
        """End it after what was written."""

    def pause(self) -> None:
        """Read nothing for now."""

    def resume(self) -> None:
        """Read again."""


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
        self._unanswered = 0
        """Requests with events that are not safe yet."""
        self._unsent: list[bytes | memoryview] = []
        self._unsent_bytes = 0
        self._handlers: dict[type, Callable[..., None]] = {
            messages.ClientSubscribe: self._subscribe,
            messages.ClientResume: self._resume,
            messages.ClientUnsubscribe: self._unsubscribe,
            messages.ClientSource: self._register_source,
            messages.ClientQuery: self._register_query,
            messages.ClientWithdrawal: self._withdraw_query,
        }

    def receive_at_once(self, data: bytes) -> bool:
        """Give the event that these bytes publish, if it can be given at once; whether it was."""
        return self._room.direct.take(self, data)

    def receive(self, came: Sequence[Message]) -> None:
        """Do what the client asks, all that has come; CodecError for what no client says."""
        if len(came) == 1 and type(came[0]) is messages.ClientEvents:
            self._publish(came)
            return
        for kind, group in groupby(came, type):
            if kind is messages.ClientEvents:
                self._publish(list(group))
                continue
            handler = self._handlers.get(kind)
            if handler is None:
                raise CodecError(f"a {kind.__name__} from a client")
            for message in group:
                handler(message)

    # What it is given.

    def open(self) -> None:
        """From now on all deliveries are for this connection."""
        self._open = True

    def give(self, delivery: Delivery | DeliveryBatch) -> None:
        """Send deliveries, or let the client go if it is too slow."""
        if not self._open:
            return
        if isinstance(delivery, DeliveryBatch):
            self._told = Offset(delivery.epoch, delivery.numbers[-1])
            self._offer(self._room.frames.pieces(delivery))
        else:
            event, _, names, self._told = delivery
            self.offer(messages.ClientDelivery(event, names, self._told))

    @property
    def takes_at_once(self) -> bool:
        """Whether nothing waits that the client is to be given before."""
        return self._open and not self._gone and not self._unsent and self._line.unwritten <= MOST_QUEUED

    def give_at_once(self, delivery: bytes, offset: Offset) -> None:
        """Send a delivery that is written, of an event at this place in the log."""
        self._told = offset
        self._line.write(delivery)

    def write_at_once(self, data: bytes) -> None:
        """Send bytes, after what waits."""
        self.flush()
        self._line.write(data)

    def offer(self, message: Message) -> None:
        """Send something that the client asked for, or let the client go if it is too slow."""
        self._offer((frame(encode(message)),))

    def _offer(self, pieces: Sequence[bytes | memoryview]) -> None:
        if self._line.unwritten + self._unsent_bytes > MOST_QUEUED:
            self._room.slow += 1
            self.let_go(f"more than {MOST_QUEUED:,} bytes of deliveries were not taken")
        else:
            self._write(pieces)

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
        self.flush()
        self._line.close(reason)
        self.left()

    def left(self) -> None:
        """The connection has ended: nothing of the client's is kept."""
        if not self._gone:
            self._gone = True
            self._room.dismiss(self.name, self)
            for request in self._requests:
                request.abandon()
            for id in sorted(self._ids):
                self._broker.unsubscribe(SubscriptionKey(self.name, id))
            for query in sorted(self._queries):
                self._room.disown(query)
                self._broker.withdraw_query(query)

    def say(self, message: Message) -> None:
        """Send a message at the end of this turn of the loop."""
        self._write((frame(encode(message)),))

    def _write(self, pieces: Sequence[bytes | memoryview]) -> None:
        if not self._unsent:
            self._room.write_soon(self)
        self._unsent += pieces
        self._unsent_bytes += sum(map(len, pieces))

    def flush(self) -> None:
        """Write what waits."""
        if self._unsent:
            unsent, self._unsent = self._unsent, []
            self._line.write_pieces(unsent, self._unsent_bytes)
            self._unsent_bytes = 0

    # What it asks.

    def _publish(self, requests: Sequence[messages.ClientEvents]) -> None:
        if self._broker.keeps_log or not self._broker.acknowledges:
            self._publish_together(requests)
        else:
            for request in requests:
                self._publish_by_key(request)
        if not self.paused:
            self._read_or_wait()

    def _publish_by_key(self, message: messages.ClientEvents) -> None:
        """Publish events that are acknowledged, or refused later, one by one."""
        refused: list[tuple[int, str]] = []

        def done() -> None:
            if request.refusals:
                told = ((place, request.refusals.get(each.key)) for place, each in enumerate(message.events))
                refused.extend((place, reason) for place, reason in told if reason is not None)
            if message.number or refused:
                self._answer(message.number, refused)

        request = self._request((event.key for event in message.events), done)
        for place, event in enumerate(message.events):
            try:
                self._broker.publish(event)
            except DistributaryError as error:
                refused.append((place, str(error)))
                request.refuse(event.key)
        request.close()

    def _publish_together(self, requests: Sequence[messages.ClientEvents]) -> None:
        """Publish the events of several requests together; one by one if something is wrong with them."""
        events = joined([request.events for request in requests])
        try:
            last = self._broker.publish_all(events)
        except DistributaryError:
            for request in requests:
                self._publish_singly(request)
            return
        through = None if last is None else last - len(events)
        for request in requests:
            if through is not None:
                through += len(request.events)
            if request.number:
                self._answer_when_safe(request.number, through)

    def _publish_singly(self, request: messages.ClientEvents) -> None:
        refused: list[tuple[int, str]] = []
        last: int | None = None
        for place, event in enumerate(request.events):
            try:
                last = self._broker.publish(event)
            except DistributaryError as error:
                refused.append((place, str(error)))
        if request.number or refused:
            self._answer_when_safe(request.number, last, refused)

    def _answer_when_safe(
        self, number: int, through: int | None, refused: Iterable[tuple[int, str]] = ()
    ) -> None:
        """Answer a request once all up to a number is safe; at once where there is nothing to wait for."""
        if through is None:
            self._answer(number, refused)
            return
        self._unanswered += 1
        self._room.publications.when_safe(through, partial(self._answer_safe, number, refused))

    def _answer_safe(self, number: int, refused: Iterable[tuple[int, str]]) -> None:
        self._unanswered -= 1
        self._answer(number, refused)

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
        full = self._broker.congested or len(self._requests) + self._unanswered > MOST_UNANSWERED
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
