"""A client of a network: one connection at a time, to one of its brokers.

Rules:

- `publish` returns when the events are acknowledged: in a network with a log they are safe then, in others
  the broker has passed them on. What is refused (a document that cannot be read) is raised as a
  `RefusedError` after all others have been published.
- When the connection breaks, the client connects again, to the next of its endpoints, after a pause that
  doubles and has some chance in it. It presents its session (`session`), and is given what it has missed, in
  order and once; it sends again what was not answered. An event keeps its source and id, so nobody gets it
  twice.
- Where there is no log, or the log has not kept it, what is published while there is no connection is missed.
  How often that may have happened is `Client.gaps`.
- A stream query runs as long as its client wants it and is connected. After a reconnect it is registered
  again, at the broker that is there now, and its answer begins anew with what comes then: a gap too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from random import Random
from ssl import Purpose
from types import TracebackType
from typing import Any
from uuid import uuid4

from distributary.client.batches import TakenEvents, waiting_items
from distributary.client.running_queries import RefusedError, RunningQueries, require_accepted
from distributary.client.session import ClientItem, ClientSession, session_record
from distributary.errors import DistributaryError
from distributary.flow import Query, Source
from distributary.live import client_messages as messages
from distributary.live.codec import OLDEST, VERSION, CodecError, decode, encode
from distributary.live.frames import FrameReader, frame
from distributary.live.greeting import Endpoint, GreetingRefusal, LinkBeat, reason_of
from distributary.live.security import TlsFiles
from distributary.model import Event, Offset, Subscription
from distributary.overlay.broker import SessionState

NETWORK = "distributary"
"""The name of a network that nobody named."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
PATIENCE = 5.0
"""Seconds in which a broker must have answered a greeting."""
BEAT = 1.0
SILENCE = 10.0
"""Seconds without a word after which a connection is given up."""
ALONE = 1.0
"""Seconds without a broker after which that is told."""
WINDOW = 64
"""Requests that may be unanswered."""
BATCH = 256
"""Events of one request, at most."""
_log = logging.getLogger("distributary")


_QueueItem = tuple[Event, ClientItem] | Exception


class Client:
    """A connection to a network, through one broker at a time."""

    def __init__(
        self,
        endpoints: Sequence[Endpoint],
        name: str,
        network: str,
        tls: TlsFiles | None,
        lasting: bool,
        session: SessionState | None = None,
    ) -> None:
        self.name = name
        self.broker: str | None = None
        """The broker it is connected to; None while it is not."""
        self.gaps = 0
        """How often events may have been missed."""
        self._endpoints = list(endpoints)
        self._network = network
        self._tls = tls
        self._lasting = lasting
        self._final = False
        """Whether the broker said not to come back."""
        self._random = Random()
        self._numbers = 0
        self._unanswered: dict[int, tuple[Any, asyncio.Future[messages.ClientAnswer]]] = {}
        self._room = asyncio.Semaphore(WINDOW)
        self._session = ClientSession(session)
        self._queues: dict[str, asyncio.Queue[_QueueItem]] = {
            id: asyncio.Queue() for id in self._session.subscriptions
        }
        self._handed_out: set[str] = set()
        """The subscriptions whose events somebody takes."""
        self._queries_run = RunningQueries(self._ask_aside)
        self._resuming = 0
        """The number of the request by which the session goes on, if that has not been answered."""
        self._writer: asyncio.StreamWriter | None = None
        self._task: asyncio.Task[None] | None = None
        self._failure: DistributaryError | None = None
        self._alone_since: float | None = None
        """Since when there has been no broker; None while there is one."""
        self._told_alone = False

    async def __aenter__(self) -> Client:
        await self._connect_somewhere(tries=1)
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
        await self._hang_up()

    async def publish(self, *events: Event) -> None:
        """Publish events, in this order; returns when the broker has passed all of them on."""
        asked = []
        for start in range(0, len(events), BATCH):
            batch = events[start : start + BATCH]
            asked.append((batch, await self._ask(lambda number, b=batch: messages.ClientEvents(number, b))))
        refused = [
            (batch[place], reason) for batch, answer in asked for place, reason in (await answer).refused
        ]
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
        subscription = Subscription(
            id or uuid4().hex[:12], self.name, topic=topic, where=where, path=path, change=change
        )
        if subscription.id in self._handed_out:
            raise DistributaryError(f"there is a subscription {subscription.id!r} already")
        self._handed_out.add(subscription.id)
        try:
            if self._session.subscriptions.get(subscription.id) != subscription:
                await self._register(subscription)
            yield self._each(self._queues[subscription.id])
        finally:
            self._forget(subscription.id)
            if self._writer is not None and self._failure is None:
                await self._ask(lambda number: messages.ClientUnsubscribe(number, subscription.id))

    @asynccontextmanager
    async def batches(self, *, id: str, **filters: Any) -> AsyncIterator[AsyncIterator[TakenEvents]]:
        """Subscribe; gives events with their places, in batches. RefusedError when it is refused.

        To go on behind a batch, another client is given its place; nothing has to be acknowledged.
        """
        subscription = Subscription(id, self.name, **filters)
        if id in self._handed_out:
            raise DistributaryError(f"there is a subscription {id!r} already")
        self._handed_out.add(id)
        try:
            if self._session.subscriptions.get(id) != subscription:
                await self._register(subscription)
            yield self._each_batch(self._queues[id])
        finally:
            self._handed_out.discard(id)

    @property
    def place(self) -> dict[str, Any]:
        """The place of this client after all that was taken; it moves with events that nobody here wants."""
        return session_record(self.session)

    async def _each_batch(self, queue: asyncio.Queue[_QueueItem]) -> AsyncIterator[TakenEvents]:
        while True:
            items = await waiting_items(queue)
            for _, item in items:
                self._session.take(item)
            yield TakenEvents([event for event, _ in items], self.place)

    async def _register(self, subscription: Subscription) -> None:
        """Subscribe, and wait until the subscription is in force."""
        self._queues[subscription.id] = asyncio.Queue()
        self._session.expect(subscription)
        answer = await self._ask(lambda number: messages.ClientSubscribe(number, subscription))
        for _, reason in (await answer).refused:
            raise RefusedError(reason)

    def _forget(self, id: str) -> None:
        """A subscription ends: what it has not handed out, it never will."""
        self._handed_out.discard(id)
        self._session.end(id)
        queue = self._queues.pop(id)
        while not queue.empty():
            item = queue.get_nowait()
            if not isinstance(item, Exception):
                self._session.take(item[1])

    async def _each(self, queue: asyncio.Queue[_QueueItem]) -> AsyncIterator[Event]:
        while True:
            item = await queue.get()
            if isinstance(item, Exception):
                raise item
            self._session.take(item[1])
            yield item[0]

    @property
    def session(self) -> SessionState:
        """The client's place: its subscriptions, and the last events that were taken from them.

        An application that saves it after it has done its work with an event, and gives it to `connect` when
        it starts again, goes on after that event. Where the network has no log the place has no offset.
        """
        return self._session.taken

    async def subscribe(self, **filters: Any) -> AsyncIterator[Event]:
        """The events of a subscription, as they come; it ends when the iteration does."""
        async with self.subscribed(**filters) as events:
            async for event in events:
                yield event

    # Stream queries.

    async def register(self, *sources: Source) -> None:
        """Have a network of stream queries take events of these sources; RefusedError when it will not."""
        for source in sources:
            await self._done(lambda number, s=source: messages.ClientSource(number, s))

    @asynccontextmanager
    async def query(self, query: Query) -> AsyncIterator[AsyncIterator[messages.ClientResult]]:
        """Run a query for as long as the context lasts; gives the items of its answer.

        Every event that is published from now on counts for the answer. RefusedError when it is refused.
        """
        running = self._queries_run.begin(query)
        try:
            await self._done(lambda number: messages.ClientQuery(number, query))
            running.accepted = True
            yield running.results()
        finally:
            self._queries_run.end(query.name)
            if running.accepted and self._writer is not None and self._failure is None:
                await self._ask(lambda number: messages.ClientWithdrawal(number, query.name))

    async def _done(self, make: Any) -> None:
        """Ask for something, and wait until it is done; RefusedError when it will not be."""
        for _, reason in (await (await self._ask(make))).refused:
            raise RefusedError(reason)

    def _ask_aside(self, make: Any) -> int:
        """Send a request that nobody waits for; its number."""
        self._numbers += 1
        if self._writer is not None:
            self._writer.write(frame(encode(make(self._numbers))))
        return self._numbers

    # The connection.

    async def _connect_somewhere(self, tries: int | None = None) -> None:
        """Connect to the next endpoint that answers; all are tried, so many times over."""
        pause, tried = FIRST_PAUSE, 0
        while True:
            reasons = []
            for _ in range(len(self._endpoints)):
                endpoint = self._endpoints[0]
                try:
                    await self._connect(endpoint)
                    return
                except RefusedError:
                    raise
                except DistributaryError as error:
                    reasons.append(str(error))
                    self._endpoints.append(self._endpoints.pop(0))
            tried += 1
            if tries is not None and tried >= tries:
                raise DistributaryError("; ".join(reasons))
            self._tell_alone(reasons)
            await asyncio.sleep(pause * (0.5 + self._random.random()))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _tell_alone(self, reasons: Sequence[str]) -> None:
        """Tell once, after a while without a broker, that none answers."""
        now = asyncio.get_running_loop().time()
        if self._alone_since is None:
            self._alone_since = now
        if not self._told_alone and now - self._alone_since >= ALONE:
            self._told_alone = True
            _log.warning("%s: no broker answers, and all are tried again: %s", self.name, "; ".join(reasons))

    def _tell_connected(self) -> None:
        """Tell that there is a broker again, if it was told that there was none."""
        if self._told_alone:
            _log.warning("%s: connected again, to broker %r", self.name, self.broker)
        self._alone_since, self._told_alone = None, False

    async def _connect(self, endpoint: Endpoint) -> None:
        context = self._tls.context(Purpose.SERVER_AUTH) if self._tls else None
        try:
            async with asyncio.timeout(PATIENCE):
                reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context)
        except (TimeoutError, OSError) as error:
            reason = "it did not answer" if isinstance(error, TimeoutError) else reason_of(error)
            raise DistributaryError(f"cannot connect to {endpoint}: {reason}") from error
        frames = FrameReader()
        try:
            welcome, came = await self._greet(endpoint, reader, writer, frames)
        except BaseException:
            writer.close()
            raise
        self.broker = welcome.broker
        self._tell_connected()
        self._writer = writer
        self._go_on(writer, welcome.acknowledges)
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._live(reader, frames, came))
        else:
            self._reading = (reader, frames, came)

    async def _greet(
        self,
        endpoint: Endpoint,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        frames: FrameReader,
    ) -> tuple[messages.ClientWelcome, list[Any]]:
        """Speak first; gives the welcome, and what came with it."""
        writer.write(frame(encode(messages.ClientGreeting(OLDEST, VERSION, self._network, self.name))))
        try:
            async with asyncio.timeout(PATIENCE):
                first = await _messages(reader, frames)
        except (TimeoutError, OSError, CodecError) as error:
            reason = str(error) or "it did not answer"
            raise DistributaryError(f"{endpoint} is no broker: {reason}") from error
        match first[:1]:
            case [messages.ClientWelcome() as welcome]:
                return welcome, first[1:]
            case [GreetingRefusal(reason)]:
                raise RefusedError(f"{endpoint} refuses: {reason}")
            case [messages.ClientFarewell(reason, _)]:
                raise DistributaryError(f"{endpoint}: {reason}")
        raise DistributaryError(f"{endpoint} closed the connection before a word")

    def _go_on(self, writer: asyncio.StreamWriter, acknowledges: bool) -> None:
        """Present the session, and send again what was not answered."""
        state = self._session.received
        if state.subscriptions:
            self._numbers += 1
            self._resuming = self._numbers
            writer.write(frame(encode(messages.ClientResume(self._resuming, state))))
            if not acknowledges or state.offset is None:
                self.gaps += 1
        self.gaps += self._queries_run.run_again()
        for message, _ in self._unanswered.values():
            writer.write(frame(encode(message)))

    async def _live(self, reader: asyncio.StreamReader, frames: FrameReader, came: list[Any]) -> None:
        """Read what comes, and connect again whenever the connection ends."""
        while True:
            beats = asyncio.get_running_loop().create_task(self._beat())
            try:
                reason = await self._read(reader, frames, came)
            finally:
                beats.cancel()
                await self._hang_up()
            try:
                if not self._lasting or self._final:
                    raise DistributaryError(f"the connection ended: {reason}")
                await self._connect_somewhere()
            except DistributaryError as error:
                self._fail(error)
                return
            reader, frames, came = self._reading

    async def _read(self, reader: asyncio.StreamReader, frames: FrameReader, came: list[Any]) -> str:
        """Take what comes until the connection ends; why it did."""
        try:
            while True:
                for message in came:
                    if isinstance(message, messages.ClientFarewell):
                        self._final = message.final
                        return message.reason
                    self._take(message)
                async with asyncio.timeout(SILENCE):  # unlike wait_for, it never swallows a cancellation
                    came = await _messages(reader, frames)
                if not came:
                    return "the broker closed it"
        except (TimeoutError, OSError, CodecError) as error:
            return str(error) or "nothing was heard for long"

    def _take(self, message: Any) -> None:
        match message:
            case messages.ClientDelivery(event, ids, offset):
                self._deliver(event, ids, offset)
            case messages.ClientDeliveries(epoch, numbers, events, names):
                each = names * len(events) if len(names) == 1 else names
                if not len(events) == len(numbers) == len(each):
                    raise CodecError("a ClientDeliveries whose fields have different lengths")
                for event, number, ids in zip(events, numbers, each, strict=True):
                    self._deliver(event, ids, Offset(epoch, number))
            case messages.ClientResult(stream, _):
                self._queries_run.take(stream, message)
            case messages.ClientAnswer(number, refused):
                self._answered(number, refused, message)
            case messages.ClientProgress(offset):
                self._session.reach(offset)
            case messages.ClientGap():
                self.gaps += 1
            case LinkBeat():
                pass
            case _:
                raise CodecError(f"a {type(message).__name__} from a broker")

    def _deliver(self, event: Event, ids: tuple[str, ...], offset: Offset | None) -> None:
        new, item = self._session.receive(event, ids, offset)
        for id in new:
            if id in self._queues:
                self._queues[id].put_nowait((event, item))
            else:
                self._session.take(item)

    def _answered(
        self, number: int, refused: tuple[tuple[int, str], ...], message: messages.ClientAnswer
    ) -> None:
        if number == self._resuming:
            self._resuming = 0
            for _, reason in refused:
                for id in list(self._session.subscriptions):
                    self._session.end(id)
                    self._queues[id].put_nowait(RefusedError(reason))
        self._queries_run.answered(number, refused[0][1] if refused else None)
        asked, answer = self._unanswered.pop(number, (None, None))
        if isinstance(asked, messages.ClientSubscribe) and not refused:
            self._session.begin(asked.subscription)
        elif isinstance(asked, messages.ClientUnsubscribe):  # of one that nobody waited for, perhaps
            self._session.end(asked.id)
        if answer is not None:
            self._room.release()
            if not answer.done():  # whoever asked may wait no more
                answer.set_result(message)

    async def _beat(self) -> None:
        while True:
            await asyncio.sleep(BEAT)
            if self._writer is not None:
                self._writer.write(frame(encode(LinkBeat())))

    async def _ask(self, make: Any) -> asyncio.Future[messages.ClientAnswer]:
        """Send a request; gives what will be its answer. Waits while too many are unanswered."""
        await self._room.acquire()
        if self._failure is not None:
            raise self._failure
        self._numbers += 1
        message = make(self._numbers)
        answer: asyncio.Future[messages.ClientAnswer] = asyncio.get_running_loop().create_future()
        self._unanswered[self._numbers] = (message, answer)
        if self._writer is not None:
            self._writer.write(frame(encode(message)))
            with suppress(OSError):
                await self._writer.drain()
        return answer

    async def _hang_up(self) -> None:
        writer, self._writer, self.broker = self._writer, None, None
        if writer is not None:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    def _fail(self, error: DistributaryError) -> None:
        """Tell everybody who waits that there is nothing to wait for any more."""
        self._failure = self._failure or error
        for _, answer in self._unanswered.values():
            if not answer.done():
                answer.set_exception(error)
                answer.exception()
                self._room.release()
        self._unanswered.clear()
        for queue in self._queues.values():
            queue.put_nowait(error)
        self._queries_run.fail(error)


async def _messages(reader: asyncio.StreamReader, frames: FrameReader) -> list[Any]:
    """The messages that come next; none when the connection has ended."""
    while data := await reader.read(1 << 16):
        found = [decode(each) for each in frames.read(data)]
        if found:
            return found
    return []
