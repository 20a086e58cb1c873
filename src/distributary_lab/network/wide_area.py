"""A live tree with the delays of a wide area: what its cost model says, and what its clients measure.

003 ran XPORT on PlanetLab (4.6) and gives total and average latency by its model (Figures 4.7, 4.8). Here
every broker is a process, the links between them are as slow as between hosts all over the world, and the
tree improves itself for the total latency by what it measures. At every broker a client subscribes, and one
publishes at the root. The least time of several events is taken for each broker: what it takes longer than to
the root's own client is measured latency, and the sum of the emulated delays on the way the prediction.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from distributary.cli.link_speeds import link_speeds
from distributary.client.endpoints import connect_node as connect
from distributary.live.local_network import LocalNetwork, node_names
from distributary.model import Event
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
from distributary_lab.network.improving import PERIOD, parents_in, wait_until_improved
from distributary_lab.rows import largest, number, numbers, select
from distributary_lab.tree.climbs import TOTAL_LATENCY

EVENTS, PAUSE = 15, 0.2
"""Events that are timed, and seconds between them."""
PATIENCE = 60.0
"""Seconds in which an event must have reached every broker."""
MOST_MEASUREMENTS = 5
"""How often the delays are measured anew because the tree has changed meanwhile."""

Delays = Mapping[str, Mapping[str, float]]
"""Milliseconds from a node to another, by names."""


def run(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Latencies of the tree as it came about, and as it has made itself."""
    nodes = int(point["nodes"])
    tables = link_speeds("wide-area", seed_from(random), "distributary", node_names(nodes))
    delays = {name: tables[name]["delays"] for name in tables}
    settings = {"goal": TOTAL_LATENCY, "period": float(PERIOD), "fanout": nodes, "concurrent": True}
    with TemporaryDirectory(prefix="wide-area-") as place:
        network = LocalNetwork(Path(place))
        network.up(nodes, "tree", settings=settings, tables=tables)
        try:
            yield {"tree": "first", **_measured(network, delays)}
            wait_until_improved(lambda: parents_in(network))
            yield {"tree": "improved", **_measured(network, delays)}
        finally:
            network.down()


def _measured(network: LocalNetwork, delays: Delays) -> Row:
    for _ in range(MOST_MEASUREMENTS):
        before = parents_in(network)
        came = asyncio.run(_latencies(network, before))
        if parents_in(network) == before:
            break
    [root] = [name for name, parent in before.items() if parent is None]
    predicted = {name: way(name, before, delays) for name in before if name != root}
    best = shortest(root, delays)
    errors = [abs(came[name] - predicted[name]) for name in predicted]
    return {
        "predicted_ms": sum(predicted.values()),
        "measured_ms": sum(came[name] for name in predicted),
        "best_ms": sum(best[name] for name in predicted),
        "worst_error_ms": max(errors),
        "steady": parents_in(network) == before,
    }


def way(name: str, parents: Mapping[str, str | None], delays: Delays) -> float:
    """The delay from the root to a node, by the tree.

    >>> way("c", {"a": None, "b": "a", "c": "b"}, {"a": {"b": 5.0}, "b": {"c": 7.0}})
    12.0
    """
    total, parent = 0.0, parents[name]
    while parent is not None:
        total += delays[parent][name]
        name, parent = parent, parents[parent]
    return total


def shortest(root: str, delays: Delays) -> dict[str, float]:
    """The least delay from a node to each by any way.

    >>> shortest("a", {"a": {"b": 1.0, "c": 9.0}, "b": {"a": 1.0, "c": 2.0}, "c": {"a": 9.0, "b": 2.0}})
    {'a': 0.0, 'b': 1.0, 'c': 3.0}
    """
    found = {name: delays[root].get(name, 0.0) for name in delays}
    for _ in delays:
        for one in delays:
            for other, delay in delays[one].items():
                found[other] = min(found[other], found[one] + delay)
    return found


async def _latencies(network: LocalNetwork, parents: Mapping[str, str | None]) -> dict[str, float]:
    """By broker the least milliseconds in which an event came there, beyond those to the root's client."""
    places = {entry["name"]: entry["client"] for entry in network.described()["nodes"]}
    [root] = [name for name, parent in parents.items() if parent is None]
    least: dict[str, float] = {}
    async with AsyncExitStack() as stack:
        streams = {name: await _reader(stack, name, places[name]) for name in parents}
        publisher = await stack.enter_async_context(connect(places[root], name="publisher"))
        for number in range(EVENTS):
            begun = time.perf_counter()
            published = asyncio.create_task(publisher.publish(Event(f"e{number}-{time.time()}", "timed")))
            times = dict(await asyncio.gather(*(_arrival(name, each) for name, each in streams.items())))
            for name, arrived in times.items():
                least[name] = min(1000 * (arrived - begun), least.get(name, np.inf))
            await published
            await asyncio.sleep(PAUSE)
    return {name: found - least[root] for name, found in least.items()}


async def _reader(stack: AsyncExitStack, name: str, place: str) -> AsyncIterator[Event]:
    client = await stack.enter_async_context(connect(place, name=f"reader at {name}"))
    return await stack.enter_async_context(client.subscribed(topic="timed"))


async def _arrival(name: str, stream: AsyncIterator[Any]) -> tuple[str, float]:
    await asyncio.wait_for(anext(stream), PATIENCE)
    return name, time.perf_counter()


def check(rows: Rows) -> Verdict:
    """Clients measure what the model says, and the tree comes near the shortest ways."""
    most = largest(rows, "nodes")
    wrong = [abs(number(row, "measured_ms") / number(row, "predicted_ms") - 1) for row in rows]
    [improved] = numbers(select(rows, nodes=most), "measured_ms", tree="improved")
    [first] = numbers(select(rows, nodes=most), "measured_ms", tree="first")
    [best] = numbers(select(rows, nodes=most), "best_ms", tree="improved")
    return Verdict.of(
        all(words.near(number(row, "measured_ms"), number(row, "predicted_ms")) for row in rows)
        and improved <= first
        and words.near(improved, best),
        ours=f"{improved:,.0f} ms in all to {most} brokers, {improved / (most - 1):.0f} on average; the "
        f"shortest ways {best:,.0f}",
        ratio=improved / best,
        reason=f"Near the prediction (at worst {max(wrong):.1%} off) and the "
        f"shortest ways, and not above the first tree's {first:,.0f} ms? Of one broker the prediction is at "
        f"worst {max(numbers(rows, 'worst_error_ms')):.0f} ms off.",
    )


EXPERIMENTS = (
    Experiment(
        name="wide-area-tree",
        title="A live tree with the delays of a wide area",
        grid=grid(nodes=[10, 20, 40]),
        quick=grid(nodes=[6]),
        run=run,
        measured=("predicted_ms", "measured_ms", "best_ms", "worst_error_ms", "steady"),
        labels=("tree",),
        runs=Runs.LIVE,
        answers={
            "beyond-live-latency": answer(
                check,
                Plot(
                    "Total latency, predicted and measured",
                    x="nodes",
                    y=("predicted_ms", "measured_ms", "best_ms"),
                    series="tree",
                    y_label="ms",
                ),
            )
        },
        deviation="Delays are emulated between processes of one machine, in place of PlanetLab's.",
        alone=True,
    ),
)
