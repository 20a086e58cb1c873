"""A client of a broker's web server, by WebSocket: the same as a client of the network, from anywhere.

Rules:

- Its place is a session at the broker, under its name: what was not taken is there again for the next
  connection, and for the next process of that name. An event counts as taken when the application asks for
  the one after it.
- When the connection breaks it connects again, to the next of its addresses, after a pause that doubles and
  has some chance in it. What was not answered is sent again with the same ids, and what comes again is passed
  over by its place: nothing is lost or doubled.
- A subscription without an id is known by its filters, so that the next process of the name goes on with it.
  One of an earlier process that nobody takes up is ended after `MOST_UNCLAIMED` events, which is a gap.
- Where the broker has lost the session, or has given up what its mailbox could not keep, `gaps` counts it.
- A client without a name of its own ends its session when it is closed; another one's waits for `expiry`
  seconds. Beyond this machine a token or a password goes by `wss://` alone.

The protocol is that of the server (`distributary.edge.web.sockets`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import count
from random import Random
from ssl import SSLContext
from types import TracebackType
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec

from distributary.client.batches import TakenEvents, waiting_items
from distributary.client.running_queries import RefusedError, require_accepted
from distributary.errors import DistributaryError, InputError
from distributary.json_text import read_object
from distributary.model import Event, Subscription

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
PATIENCE = 10.0
"""Seconds in which a server must have answered."""
WINDOW, BATCH = 64, 256
"""Requests that may be unanswered, and events of one request."""
SUBPROTOCOL = "distributary.1"
MOST_UNCLAIMED = 256
"""Events that wait for somebody to take up a subscription of an earlier process."""
MOST_BYTES = 64 << 20
"""The longest message that is read."""
_encoder = msgspec.json.Encoder(decimal_format="number")


@dataclass
class _Taken:
    """An event or a gap that came: its place, and how many subscriptions have not handed it out."""

    place: int
    mark: str
    left: int


@dataclass
class _Request:
    """Something that was asked and is not answered."""

    record: dict[str, Any]
    answer: asyncio.Future[dict[str, Any]]


_QueueItem = tuple[Event, _Taken] | Exception


class WebClient:
    """A connection to a web server of a broker. Made by `connect`."""

    def __init__(
        self,
        addresses: Sequence[str],
        name: str | None,
        headers: Mapping[str, str],
        context: SSLContext | None,
        lasting: bool,
        expiry: float | None,
        mailbox: Mapping[str, Any] | None = None,
        place: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name or f"client-{uuid4().hex[:12]}"
        self.broker: str | None = None
        """The broker it is connected to; None while it is not."""
        self.gaps = 0
        """How often events may have been missed."""
        self._addresses, self._headers, self._context = list(addresses), dict(headers), context
        self._lasting, self._expiry, self._own_name = lasting, expiry, name is not None
        self._random = Random()
        self._line: ClientConnection | None = None
        self._out: asyncio.Queue[bytes] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None
        self._failure: DistributaryError | None = None
        self._numbers = 0
        self._unanswered: dict[int, _Request] = {}
        self._room = asyncio.Semaphore(WINDOW)
        self._subscriptions: dict[str, Subscription] = {}
        self._handed_out: set[str] = set()
        self._queues: dict[str, asyncio.Queue[_QueueItem]] = {}
        self._mailbox = dict(mailbox or {})
        self._mark: str | None = None if place is None else str(place["mark"])
        self._received = self._settled = 0 if place is None else int(place["place"])
        """The last places that came, and that the application is done with."""
        self._items: deque[_Taken] = deque()

    async def __aenter__(self) -> WebClient:
        await self._connect_somewhere(tries=1)
        self._task = asyncio.get_running_loop().create_task(self._live())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End the connection; what was not answered is not waited for."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._fail(DistributaryError("the client was closed"))
        line, self._line, self.broker = self._line, None, None
        if line is not None:
            with suppress(Exception):
                while not self._out.empty():
                    await line.send(self._out.get_nowait().decode())
                if not self._own_name:
                    await line.send('{"type": "close"}')
            await line.close()

    async def publish(self, *events: Event) -> None:
        """Publish events, in this order; returns when all are safe. RefusedError says which are not."""
        asked = []
        for start in range(0, len(events), BATCH):
            batch = events[start : start + BATCH]
            record = {"type": "publish", "events": [event.to_record() for event in batch]}
            asked.append((batch, await self._ask(record)))
        refused: list[tuple[Event, str]] = []
        for batch, answer in asked:
            told = await answer
            if told["type"] == "refused":
                refused += [(event, told["reason"]) for event in batch]
            else:
                refused += [(batch[each["place"]], each["reason"]) for each in told["rejected"]]
        require_accepted(refused)

    @asynccontextmanager
    async def subscribed(
        self,
        *,
        id: str | None = None,
        topic: str | None = None,
        where: str | None = None,
        path: str | None = None,
        change: Mapping[str, float] | None = None,
    ) -> AsyncIterator[AsyncIterator[Event]]:
        """Subscribe for as long as the context lasts; gives the events. RefusedError when it is refused."""
        asked = Subscription(id or "s", self.name, topic=topic, where=where, path=path, change=change)
        subscription = asked if id else replace(asked, id=self._id_of(asked))
        queue = await self._register(subscription)
        try:
            yield self._each(queue)
        finally:
            self._forget(subscription.id)
            if self._line is not None and self._failure is None:
                await self._ask({"type": "unsubscribe", "id": subscription.id})

    @asynccontextmanager
    async def batches(self, *, id: str, **filters: Any) -> AsyncIterator[AsyncIterator[TakenEvents]]:
        """Subscribe; gives events with their places, in batches. RefusedError when it is refused.

        Events of a batch are acknowledged when the next is asked for, and not if none is. The subscription
        does not end with the context, nor with the client: another client of this name goes on with it.
        """
        subscription = Subscription(id, self.name, **filters)
        yield self._each_batch(await self._register(subscription))

    async def _register(self, subscription: Subscription) -> asyncio.Queue[_QueueItem]:
        """Have a subscription in force; gives where its events come. RefusedError when it is refused."""
        if subscription.id in self._handed_out:
            raise DistributaryError(f"there is a subscription {subscription.id!r} already")
        self._handed_out.add(subscription.id)
        queue = self._queues.setdefault(subscription.id, asyncio.Queue())
        try:
            answer = await (await self._ask(_subscribing(subscription)))
            if answer["type"] == "refused":
                raise RefusedError(answer["reason"])
        except BaseException:
            self._forget(subscription.id)
            raise
        self._subscriptions[subscription.id] = subscription
        return queue

    def _id_of(self, asked: Subscription) -> str:
        """The id of a subscription that was given none: the next process of this name goes on with it."""
        made = blake2b(_encoder.encode(asked.filters()), digest_size=6).hexdigest()
        numbered = (made if number == 1 else f"{made}-{number}" for number in count(1))
        return next(id for id in numbered if id not in self._handed_out)

    async def subscribe(self, **filters: Any) -> AsyncIterator[Event]:
        """The events of a subscription, as they come; it ends when the iteration does."""
        async with self.subscribed(**filters) as events:
            async for event in events:
                yield event

    # What the application has taken.

    async def _each(self, queue: asyncio.Queue[_QueueItem]) -> AsyncIterator[Event]:
        while True:
            item = await queue.get()
            if isinstance(item, Exception):
                raise item
            try:
                yield item[0]
            finally:
                self._take(item[1])

    async def _each_batch(self, queue: asyncio.Queue[_QueueItem]) -> AsyncIterator[TakenEvents]:
        while True:
            items = await waiting_items(queue)
            last = items[-1][1]
            yield TakenEvents([event for event, _ in items], {"mark": last.mark, "place": last.place})
            for _, item in items:
                self._take(item)

    def _take(self, item: _Taken) -> None:
        """One subscription is done with an event."""
        item.left -= 1
        self._settle()

    def _settle(self) -> None:
        """Acknowledge all that nobody needs any more."""
        settled = self._settled
        while self._items and self._items[0].left <= 0:
            first = self._items.popleft()
            if first.mark == self._mark:
                settled = first.place
        if settled != self._settled:
            self._settled = settled
            self._send({"type": "acknowledge", "place": settled})

    def _forget(self, id: str) -> None:
        """A subscription is not wanted any more, nor what came for it."""
        self._handed_out.discard(id)
        self._subscriptions.pop(id, None)
        queue = self._queues.pop(id)
        while not queue.empty():
            item = queue.get_nowait()
            if not isinstance(item, Exception):
                self._take(item[1])

    # The connection.

    async def _connect_somewhere(self, tries: int | None = None) -> None:
        """Connect to the next address that answers; all are tried, so many times over."""
        pause, tried = FIRST_PAUSE, 0
        while True:
            reasons = []
            for _ in range(len(self._addresses)):
                try:
                    await self._connect(self._addresses[0])
                    return
                except RefusedError:
                    raise
                except DistributaryError as error:
                    reasons.append(str(error))
                    self._addresses.append(self._addresses.pop(0))
            tried += 1
            if tries is not None and tried >= tries:
                raise DistributaryError("; ".join(reasons))
            await asyncio.sleep(pause * (0.5 + self._random.random()))
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _connect(self, address: str) -> None:
        websockets = _websockets()
        secure = {"ssl": self._context} if address.startswith("wss:") and self._context is not None else {}
        try:
            async with asyncio.timeout(PATIENCE):
                line = await websockets.connect(
                    address,
                    additional_headers=self._headers,
                    subprotocols=[SUBPROTOCOL],
                    max_size=MOST_BYTES,
                    compression=None,
                    **secure,
                )
                try:
                    opened = await self._open(line)
                except BaseException:  # a cancellation, too, must not leave it open
                    line.transport.abort()
                    raise
        except websockets.InvalidStatus as error:
            self._refused(address, error.response.status_code, error.response.body)
        except (TimeoutError, OSError, websockets.WebSocketException, InputError) as error:
            raise DistributaryError(f"cannot connect to {address}: {str(error) or 'no answer'}") from error
        self._go_on(line, opened)

    def _refused(self, address: str, status: int, body: bytes | None) -> None:
        """A server has answered, and does not let this client in: for good, unless the fault is its own."""
        reason = (body or b"").decode(errors="replace")[:500] or f"status {status}"
        kind = DistributaryError if status >= 500 or status == 429 else RefusedError
        raise kind(f"{address} refuses: {reason}")

    async def _open(self, line: ClientConnection) -> dict[str, Any]:
        """Say who this is and how far it has come; what the server says to that."""
        record = {**self._mailbox, "type": "open", "session": self.name, "after": self._settled}
        if self._lasting:
            record["expiry"] = self._expiry
        else:
            record["expiry"] = 0
        if self._mark is not None:
            record["mark"] = self._mark
        await line.send(_encoder.encode(record).decode())
        opened = await _heard(line)
        if opened.get("type") != "opened":
            await line.close()
            raise RefusedError(str(opened.get("reason")))
        return opened

    def _go_on(self, line: ClientConnection, opened: Mapping[str, Any]) -> None:
        """Go on where it was: with the same places, or anew; and send again what was not answered."""
        if opened["mark"] != self._mark:
            self.gaps += self._mark is not None
            self._mark, self._received, self._settled = opened["mark"], 0, 0
        known = {each["id"] for each in opened["subscriptions"]}
        for id in known:
            self._queues.setdefault(id, asyncio.Queue())
        self._line, self.broker, self._out = line, opened["broker"], asyncio.Queue()
        for id, subscription in self._subscriptions.items():
            if id not in known:
                self._send({"request": 0, **_subscribing(subscription)})
        for request in self._unanswered.values():
            self._send(request.record)

    async def _live(self) -> None:
        """Read what comes, and connect again whenever the connection ends."""
        while True:
            line = self._line
            assert line is not None
            writing = asyncio.get_running_loop().create_task(self._write(line, self._out))
            try:
                reason = await self._read(line)
            finally:
                writing.cancel()
            self.broker = None
            await line.close()
            self._line = None
            try:
                if not self._lasting or "took over" in reason:
                    raise DistributaryError(f"the connection ended: {reason}")
                await self._connect_somewhere()
            except DistributaryError as error:
                self._fail(error)
                return

    async def _read(self, line: ClientConnection) -> str:
        """Take what comes until the connection ends; why it did."""
        try:
            while True:
                record = await _heard(line)
                if record.get("type") == "end":
                    return str(record.get("reason"))
                self._hear(record)
        except (_websockets().WebSocketException, OSError, DistributaryError, KeyError, TypeError) as error:
            return str(error)

    async def _write(self, line: ClientConnection, out: asyncio.Queue[bytes]) -> None:
        with suppress(_websockets().WebSocketException, OSError):
            while True:
                await line.send((await out.get()).decode())

    def _hear(self, record: dict[str, Any]) -> None:
        match record.get("type"):
            case "event":
                self._deliver(record)
            case "gap":
                self._miss(record["place"])
            case "done" | "refused":
                self._answered(record)

    def _deliver(self, record: Mapping[str, Any]) -> None:
        place = record["place"]
        if place <= self._received:
            return
        self._received = place
        ids = [id for id in record["subscriptions"] if id in self._queues]
        item = _Taken(place, self._mark or "", max(len(ids), 1))
        self._items.append(item)
        event = Event.from_record(record["event"])
        for id in ids:
            self._queues[id].put_nowait((event, item))
        if not ids:
            self._take(item)
        for id in ids:
            if id not in self._handed_out and self._queues[id].qsize() > MOST_UNCLAIMED:
                self._abandon(id)

    def _miss(self, place: int) -> None:
        """Something is missing up to a place; that is told until it is acknowledged, and counted once."""
        if place > self._received:
            self._received = place
            self.gaps += 1
            self._items.append(_Taken(place, self._mark or "", 0))
            self._settle()

    def _abandon(self, id: str) -> None:
        """End a subscription of an earlier process that nobody here takes up: it would hold up others."""
        self.gaps += 1
        self._forget(id)
        self._send({"type": "unsubscribe", "request": -1, "id": id})

    def _answered(self, record: dict[str, Any]) -> None:
        number = record.get("request")
        request = self._unanswered.get(number) if isinstance(number, int) else None
        if request is None:
            if record["type"] == "refused" and number == 0:  # of what ran before the connection broke
                self._fail(RefusedError(record["reason"]))
            return
        if record["type"] == "refused" and record.get("again") and self._lasting:
            loop = asyncio.get_running_loop()
            loop.call_later(FIRST_PAUSE * (1 + self._random.random()), self._send, request.record)
            return
        del self._unanswered[request.record["request"]]
        self._room.release()
        if not request.answer.done():
            request.answer.set_result(record)

    async def _ask(self, record: dict[str, Any]) -> asyncio.Future[dict[str, Any]]:
        """Send a request; gives what will be its answer. Waits while too many are unanswered."""
        await self._room.acquire()
        if self._failure is not None:
            self._room.release()  # whoever waits behind is told too
            raise self._failure
        self._numbers += 1
        request = _Request({**record, "request": self._numbers}, asyncio.get_running_loop().create_future())
        self._unanswered[self._numbers] = request
        self._send(request.record)
        return request.answer

    def _send(self, record: Mapping[str, Any]) -> None:
        if self._line is not None:
            self._out.put_nowait(_encoder.encode(record))

    def _fail(self, error: DistributaryError) -> None:
        """Tell everybody who waits that there is nothing to wait for any more."""
        self._failure = self._failure or error
        for request in self._unanswered.values():
            if not request.answer.done():
                request.answer.set_exception(error)
                request.answer.exception()
            self._room.release()
        self._unanswered.clear()
        for queue in self._queues.values():
            queue.put_nowait(error)


def _subscribing(subscription: Subscription) -> dict[str, Any]:
    return {"type": "subscribe", "id": subscription.id, **subscription.filters()}


async def _heard(line: ClientConnection) -> dict[str, Any]:
    """The next record from a server."""
    data = await line.recv()
    return read_object(data if isinstance(data, bytes) else data.encode())


def _websockets() -> Any:
    try:
        import websockets
    except ImportError:
        reason = "this needs the package websockets: pip install 'distributary[edge]'"
        raise DistributaryError(reason) from None
    return websockets
