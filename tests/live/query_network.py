"""A query network in this process, its clients, and what they must be given: the interpreter's answers."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from distributary.client import Client
from distributary.flow import Catalogue, Item, interpret
from distributary.live.broker import LiveBroker
from distributary.model import Event
from distributary.sim.trials.query_answers import differences
from distributary.sim.trials.query_workload import BEGIN, feed_catalogue, feed_events
from live.loops import until

SECONDS = 30.0
"""Of event time."""
LATER = BEGIN + 10_000_000
"""The time of events that close all windows."""


@asynccontextmanager
async def query_network(nodes: int, **chosen: Any) -> AsyncIterator[list[LiveBroker]]:
    """So many brokers that all know the registry."""
    names = [f"n{number}" for number in range(1, nodes + 1)]
    async with AsyncExitStack() as stack:
        brokers: list[LiveBroker] = []
        for name in names:
            contacts = [brokers[0].endpoint] if brokers else []
            broker = LiveBroker(
                "distributary", "queries", name=name, contacts=contacts, chosen={"brokers": names, **chosen}
            )
            brokers.append(await stack.enter_async_context(broker))
        await until(lambda: all(broker.joined for broker in brokers))
        yield brokers


def workload(queries: int, feeds: int, events: int, seed: int) -> tuple[Catalogue, list[Event]]:
    """Queries over feeds, and events after which no window is open that they belong to."""
    catalogue = feed_catalogue(queries, feeds, seed)
    closing = [
        Event(f"last-{name}", f"feeds/{name}", {"title": "", "section": "", "comments": 0, "at": LATER})
        for name in catalogue.sources
    ]
    return catalogue, [*feed_events(catalogue, events, SECONDS, seed), *closing]


def due(catalogue: Catalogue, events: Iterable[Event]) -> dict[str, list[Item]]:
    """What clients must be given, but for what comes of the last events."""
    items: dict[str, list[Item]] = {name: [] for name in catalogue.sources}
    for event in events:
        for name, source in catalogue.sources.items():
            if source.accepts(event):
                items[name].append(source.item(event))
    streams = interpret(catalogue, items).streams
    outputs = [output for name in catalogue.queries for output in catalogue.outputs(name)]
    return {output: earlier(streams[output]) for output in outputs}


def earlier(items: Iterable[Item]) -> list[Item]:
    """Those that do not come of the last events."""
    return [item for item in items if item.time < LATER - 100_000]


class Askers:
    """Clients that run queries, and all that they were given."""

    def __init__(self) -> None:
        self.found: defaultdict[str, list[Item]] = defaultdict(list)
        self._tasks: list[asyncio.Task[None]] = []

    async def ask(self, clients: Sequence[Client], catalogue: Catalogue) -> None:
        """Have the queries run, by one client after the other; returns when all do."""
        await clients[0].register(*catalogue.sources.values())
        for number, query in enumerate(catalogue.queries.values()):
            running = asyncio.get_running_loop().create_future()
            client = clients[number % len(clients)]
            self._tasks.append(asyncio.create_task(self._take(client, query, running)))
            await running

    async def _take(self, client: Client, query: Any, running: asyncio.Future[None]) -> None:
        try:
            async with client.query(query) as results:
                running.set_result(None)
                async for result in results:
                    self.found[result.stream].append(result.item)
        except Exception as error:
            if running.done():
                raise
            running.set_exception(error)

    async def check(self, expected: dict[str, list[Item]]) -> None:
        """Wait until all that is due has come, and see that nothing else has; then ask for nothing more."""
        assert any(expected.values()), "nothing is due, which shows nothing"
        await until(
            lambda: all(len(earlier(self.found[name])) >= len(items) for name, items in expected.items())
        )
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        got = {name: earlier(items) for name, items in self.found.items()}
        assert differences(expected, got) == []
