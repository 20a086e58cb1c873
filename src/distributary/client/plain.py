"""Any client for programs without an event loop: a thread of its own runs one.

with connect_plain("ws://localhost:8080", token=...) as client:
    client.publish(Event("e1", "quotes/OTE", {"price": 8.4}))
    for event in client.subscribe(topic="quotes/*", where="price > 8"):
        print(event)
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, TypeVar

from distributary.client.connection import Client
from distributary.client.endpoints import connect
from distributary.client.web import WebClient
from distributary.model import Event

T = TypeVar("T")


def connect_plain(*endpoints: str, **options: Any) -> PlainClient:
    """A client as `connect` gives it, with methods that wait; use it with `with`."""
    return PlainClient(lambda: connect(*endpoints, **options))


class PlainClient:
    """A client whose methods wait. It may be used by several threads."""

    def __init__(self, make: Any) -> None:
        self._make = make
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._client: Client | WebClient | None = None

    def __enter__(self) -> PlainClient:
        self._thread.start()
        try:
            self._client = self._wait(self._entered())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the connection, and the thread."""
        if self._client is not None:
            client, self._client = self._client, None
            self._wait(client.close())
            self._end()

    @property
    def client(self) -> Client | WebClient:
        """The client that does the work, in the thread; it has its name, broker and gaps."""
        if self._client is None:
            raise RuntimeError("use it within `with connect_plain(...) as client`")
        return self._client

    def publish(self, *events: Event) -> None:
        """Publish events, in this order; returns when they are acknowledged."""
        self._wait(self.client.publish(*events))

    @contextmanager
    def subscribed(self, **filters: Any) -> Iterator[Iterator[Event]]:
        """Subscribe for as long as the context lasts; gives the events, which may be waited for endlessly."""
        context = self.client.subscribed(**filters)
        events = self._wait(_entering(context))
        try:
            yield self._each(events)
        finally:
            self._wait(_leaving(context))

    def subscribe(self, **filters: Any) -> Iterator[Event]:
        """The events of a subscription, as they come; it ends when the iteration does."""
        with self.subscribed(**filters) as events:
            yield from events

    def _each(self, events: AsyncIterator[Event]) -> Iterator[Event]:
        while True:
            yield self._wait(_next(events))

    async def _entered(self) -> Client | WebClient:
        client: Client | WebClient = self._make()
        return await client.__aenter__()

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # whoever interrupts the wait wants no event to be taken meanwhile
            raise

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


async def _entering(context: Any) -> AsyncIterator[Event]:
    events: AsyncIterator[Event] = await context.__aenter__()
    return events


async def _leaving(context: Any) -> None:
    await context.__aexit__(None, None, None)


async def _next(events: AsyncIterator[Event]) -> Event:
    return await anext(events)
