"""Live queries that place themselves: Figures 5.9 and 5.10 of 003, between processes.

Brokers are processes. Each feed is published at a broker of its own, and clients at the others run queries,
each a chain of five filters over one feed whose selectivities are drawn between 0 and 1, as in Figure 5.9.
Operators begin at their clients' brokers; in one network they stay there, in another they move by what the
brokers measure. What the best placement would take is known from what passed: with every query at its feed's
broker only answers travel, straight to the client's broker. Checkpoints, which the document has not, are left
out by a pause between them that is longer than a run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from random import Random
from statistics import fmean, median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from distributary.cli.link_speeds import link_speeds
from distributary.client import Client
from distributary.client.endpoints import connect_node as connect
from distributary.flow import Query, QueryBuilder, Source
from distributary.live.local_network import LocalNetwork, NodeTables, node_names
from distributary.model import Event
from distributary.overlay.wire import event_size
from distributary_lab import words
from distributary_lab.experiment import (
    Experiment,
    Plot,
    Point,
    Row,
    Rows,
    Runs,
    Verdict,
    answer,
    grid,
    seed_from,
)
from distributary_lab.network.improving import hosts_in, wait_until_improved
from distributary_lab.rows import largest, mean, numbers

SYSTEM, NETWORK = "queries", "distributary"
FILTERS = 5
PERIOD = 6.0
"""Seconds between moves."""
PACE = 0.1
"""Seconds between two items of a feed."""
PAYLOAD = 4_000
"""Characters of an item, beside what filters look at."""
WATCHED = 8.0
"""Seconds over which bytes are counted, and latencies taken."""
PATIENCE = 30.0
"""Seconds in which an answer must have come."""
SETTINGS = {"probing": 3.0, "checkpoint": 3_600.0}
AT_CLIENTS, IMPROVED = "at their clients", "improved"


class LiveQuery(NamedTuple):
    """A query: where its client is, and what passes it."""

    client: str
    feed: int
    limits: tuple[float, ...]
    """An item passes if each of its draws is below the filter's."""

    def passes(self, draws: Sequence[float]) -> bool:
        """Whether an item with these draws is of the answer."""
        return all(draw < limit for draw, limit in zip(draws, self.limits, strict=True))

    def built(self, name: str) -> Query:
        """As brokers run it."""
        build, stream = QueryBuilder(name), f"feed{self.feed}"
        for number, limit in enumerate(self.limits):
            build.filter(f"f{number}", stream, where=f"d{number} < {limit}")
            stream = f"f{number}"
        return build.query(outputs=[stream])


def queries_of(names: Sequence[str], feeds: int, queries: int, seed: int) -> dict[str, LiveQuery]:
    """Queries by name, with clients at brokers at which no feed is published."""
    random = Random(seed)
    return {
        f"q{number}": LiveQuery(
            random.choice(names[feeds:]),
            random.randrange(feeds),
            tuple(round(random.random(), 3) for _ in range(FILTERS)),
        )
        for number in range(queries)
    }


def run_bandwidth(point: Point, random: np.random.Generator) -> list[Row]:
    """Bytes of streams a second between all brokers, at first and when operators have moved."""
    return _run(point, random, "bandwidth", {})


def run_latency(point: Point, random: np.random.Generator) -> list[Row]:
    """How long answers take, with the delays of a wide area."""
    names = node_names(int(point["nodes"]))
    return _run(point, random, "latency", link_speeds("wide-area", seed_from(random), NETWORK, names))


def _run(point: Point, random: np.random.Generator, goal: str, tables: Mapping[str, NodeTables]) -> list[Row]:
    names, feeds = node_names(int(point["nodes"])), int(point["feeds"])
    queries = queries_of(names, feeds, int(point["queries"]), seed_from(random))
    delays = {name: table["delays"] for name, table in tables.items()}
    rows: list[Row] = []
    for placed, chosen in ((AT_CLIENTS, {}), (IMPROVED, {"goal": goal, "period": PERIOD})):
        with TemporaryDirectory(prefix="queries-") as place:
            network = LocalNetwork(Path(place))
            network.up(len(names), SYSTEM, settings=SETTINGS | chosen, tables=tables)
            try:
                watched = _Watched(network, names[:feeds], queries, delays)
                rows.append({"placed": placed, **asyncio.run(watched.row(improves=bool(chosen)))})
            finally:
                network.down()
    return rows


class _Watched:
    """A network with its queries, and what passes between its brokers and comes to its clients."""

    def __init__(
        self,
        network: LocalNetwork,
        proxies: Sequence[str],
        queries: Mapping[str, LiveQuery],
        delays: Mapping[str, Mapping[str, float]],
    ) -> None:
        self._network, self._proxies, self._queries, self._delays = network, proxies, queries, delays
        self._random = Random(1)
        self._places = {each["name"]: each["client"] for each in network.described()["nodes"]}
        self._published: dict[str, tuple[float, int, tuple[float, ...], int]] = {}
        """By event: when, which feed, its draws, its bytes."""
        self._came: dict[str, list[tuple[str, float]]] = {name: [] for name in queries}
        """By query the items of its answer, and when each came."""

    async def row(self, *, improves: bool) -> Row:
        """What is measured; where operators move, when they have stopped to."""
        async with AsyncExitStack() as stack:
            publishers = [
                await stack.enter_async_context(connect(self._places[name])) for name in self._proxies
            ]
            for number, publisher in enumerate(publishers):
                await publisher.register(_source(number))
            clients = {
                name: await stack.enter_async_context(connect(self._places[name]))
                for name in sorted({query.client for query in self._queries.values()})
            }
            for name, query in self._queries.items():
                await stack.enter_async_context(self._taking(clients[query.client], name, query))
            rest = await self._bytes_sent()
            async with AsyncExitStack() as publishing:
                for number, publisher in enumerate(publishers):
                    await publishing.enter_async_context(self._publishing(publisher, number))
                periods = 0
                if improves:
                    periods = await asyncio.to_thread(wait_until_improved, self._hosts, PERIOD)
                measured = await self._measured(rest)
            return {"periods": periods, "wrong": await self._wrong(), **measured}

    def _hosts(self) -> tuple[tuple[str, str], ...]:
        return tuple(hosts_in(self._network).items())

    async def _measured(self, rest: float) -> Row:
        begun = time.perf_counter()
        sent = await self._bytes_sent() - rest
        ended = time.perf_counter()
        came = {
            name: [1000 * (at - self._published[id][0]) for id, at in items if begun <= at < ended]
            for name, items in self._came.items()
        }
        answers = sum(
            self._published[id][3] for items in self._came.values() for id, at in items if begun <= at < ended
        )
        row: Row = {"bytes": sent, "answers": answers / (ended - begun)}
        if not self._delays:
            return row
        timed = {name: median(times) for name, times in came.items() if times}
        best = [self._straight(self._queries[name]) for name in timed]
        return row | {"latency": fmean(timed.values()), "best": fmean(best), "timed": len(timed)}

    def _straight(self, query: LiveQuery) -> float:
        """Milliseconds from the feed's broker to the client's."""
        return self._delays[self._proxies[query.feed]][query.client]

    async def _bytes_sent(self) -> float:
        """Bytes a second that all brokers send each other for some seconds."""
        begun, before = time.monotonic(), await asyncio.to_thread(self._count)
        await asyncio.sleep(WATCHED)
        ended, after = time.monotonic(), await asyncio.to_thread(self._count)
        return (after - before) / (ended - begun)

    def _count(self) -> int:
        return sum(int(node["counts"]["bytes sent"]) for node in self._network.status())

    @asynccontextmanager
    async def _taking(self, client: Client, name: str, query: LiveQuery) -> Any:
        """Run a query, and note its answer."""

        async def take() -> None:
            async for result in results:
                self._came[name].append((result.item.id, time.perf_counter()))

        async with client.query(query.built(name)) as results:
            task = asyncio.create_task(take())
            yield
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    @asynccontextmanager
    async def _publishing(self, publisher: Client, feed: int) -> Any:
        """Publish items of a feed meanwhile."""
        task = asyncio.create_task(self._publish(publisher, feed))
        yield
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task

    async def _publish(self, publisher: Client, feed: int) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        for number in count():
            draws = tuple(round(self._random.random(), 4) for _ in range(FILTERS))
            values = {f"d{each}": draw for each, draw in enumerate(draws)}
            attributes: dict[str, str | int | float] = {**values, "at": number, "text": "x" * PAYLOAD}
            event = Event(f"e{feed}/{number}", f"feeds/feed{feed}", attributes)
            self._published[event.id] = (time.perf_counter(), feed, draws, event_size(event))
            await asyncio.shield(asyncio.create_task(publisher.publish(event)))
            due += PACE
            await asyncio.sleep(max(0.0, due - loop.time()))

    async def _wrong(self) -> int:
        """How many items of answers are missing, not of the answer, or there twice."""
        due = {
            name: {
                id
                for id, (_, feed, draws, _) in self._published.items()
                if feed == query.feed and query.passes(draws)
            }
            for name, query in self._queries.items()
        }
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and any(len(self._came[name]) < len(due[name]) for name in due):
            await asyncio.sleep(0.1)
        came = {name: [id for id, _ in items] for name, items in self._came.items()}
        return sum(len(due[name] ^ set(came[name])) + len(came[name]) - len(set(came[name])) for name in due)


def _source(number: int) -> Source:
    schema = {f"d{each}": "number" for each in range(FILTERS)} | {"text": "text", "at": "integer"}
    return Source(f"feed{number}", schema, time="at", topic=f"feeds/feed{number}", lateness=1_000_000)


# Checks


def check_bandwidth(rows: Rows) -> Verdict:
    """Figure 5.9, live: as little as the best placement takes, and much less than at first."""
    first, improved = (numbers(rows, "bytes", placed=placed) for placed in (AT_CLIENTS, IMPROVED))
    best = numbers(rows, "answers", placed=IMPROVED)
    wrong = sum(numbers(rows, "wrong", placed=IMPROVED))
    ratios = [one / least for one, least in zip(improved, best, strict=True)]
    most = largest(rows, "queries")
    start, end, least = (
        mean(rows, column, queries=most, placed=placed) / 1000
        for column, placed in (("bytes", AT_CLIENTS), ("bytes", IMPROVED), ("answers", IMPROVED))
    )
    return Verdict.of(
        all(map(words.near, improved, best)) and all(map(words.much_less, improved, first)) and not wrong,
        ours=f"{start:,.0f} kB/s at clients, {end:,.1f} in the end, {least:,.1f} the answers alone",
        ratio=max(ratios),
        reason=f"At {most} queries. Judged: near what the answers alone take, much less than with operators "
        f"at their clients, and all answers right ({wrong:.0f} items were not). What brokers send at rest is "
        "left out; receipts and watermarks are counted.",
    )


def check_latency(rows: Rows) -> Verdict:
    """Figure 5.10, live: near the straight way from the feed's broker to the client's.

    That is where chains of filters at their clients begin, so it shows that moves do no harm.
    """
    improved = numbers(rows, "latency", placed=IMPROVED)
    best = numbers(rows, "best", placed=IMPROVED)
    wrong = sum(numbers(rows, "wrong", placed=IMPROVED))
    ratios = [one / least for one, least in zip(improved, best, strict=True)]
    most = largest(rows, "nodes")
    start, end, least = (
        mean(rows, column, nodes=most, placed=placed)
        for column, placed in (("latency", AT_CLIENTS), ("latency", IMPROVED), ("best", IMPROVED))
    )
    return Verdict.of(
        all(map(words.near, improved, best)) and not wrong,
        ours=f"from {start:.0f} ms to {end:.0f}; straight {least:.0f}",
        ratio=max(ratios),
        reason=f"At {most} nodes, on average of queries, by the clocks of clients. Judged: near the delay of "
        "the straight way, on which chains of filters at their clients are from the first, and all answers "
        f"right ({wrong:.0f} items were not).",
    )


MEASURED = ("bytes", "answers", "periods", "wrong")
placed_experiment = partial(
    Experiment,
    labels=("placed",),
    runs=Runs.LIVE,
    deviation="Processes of one machine in place of PlanetLab, fewer of them and fewer queries; what no "
    "filter would let pass is left out on the way, wherever the filters run.",
    alone=True,
)

EXPERIMENTS = (
    placed_experiment(
        name="live-query-bandwidth",
        title="Bytes of live queries that place themselves",
        grid=grid(nodes=[12], feeds=[3], queries=[6, 12, 24]),
        quick=grid(nodes=[5], feeds=[1], queries=[3]),
        run=run_bandwidth,
        measured=MEASURED,
        answers={
            "beyond-live-query-bandwidth": answer(
                check_bandwidth,
                Plot(
                    "Bytes between brokers",
                    x="queries",
                    y=("bytes", "answers"),
                    series="placed",
                    y_label="bytes a second",
                ),
            )
        },
    ),
    placed_experiment(
        name="live-query-latency",
        title="Latency of live queries that place themselves",
        grid=grid(nodes=[12, 24], feeds=[3], queries=[24]),
        quick=grid(nodes=[6], feeds=[1], queries=[4]),
        run=run_latency,
        measured=(*MEASURED, "latency", "best", "timed"),
        answers={
            "beyond-live-query-latency": answer(
                check_latency,
                Plot(
                    "Mean latency of answers", x="nodes", y=("latency", "best"), series="placed", y_label="ms"
                ),
            )
        },
    ),
)
