"""Many live nodes on one machine: what one takes of memory, messages and processor time while at rest.

Every node is a process of one process group, with sockets of its own. The processes are forked from this one
after all modules are loaded, so that they share the code; the memory that is told is what each adds, pages
that several share counted in parts (PSS). A process started by `distributary node` takes more, as it has
loaded its code by itself. Before anything is measured all nodes have joined, and an event that is published
at one has reached subscribers at ten others.

--only tree (or ring) measures one of them; --quick has 20 nodes.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import time
from collections.abc import Collection
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

from bench.report import Result
from distributary.errors import DistributaryError
from distributary.live.broker import LiveBroker
from distributary.live.greeting import Endpoint
from distributary.model import Event, Subscription

SYSTEMS = {"tree": "tree", "ring": "central"}
NODES, QUICK = 200, 20
TOGETHER = 10
"""Nodes that join at the same time."""
PATIENCE = 300.0
SETTLING, MEASURED = 20.0, 10.0
"""Seconds before the measurement, and of it."""
READERS = 10
CHECKED = "an event of one node reaches subscribers at ten others"


class NodeReport(NamedTuple):
    """What a node tells when it is asked."""

    joined: bool
    sent: int
    bytes_sent: int
    processor: float
    """Seconds of processor time so far."""
    given: int
    links: int


class BenchNode(NamedTuple):
    """A node in a process of its own, and the pipe to it."""

    process: Any
    pipe: Connection
    endpoint: Endpoint

    def ask(self, what: str) -> NodeReport:
        """Have it do something, and tell how it is."""
        self.pipe.send(what)
        told: NodeReport = self.pipe.recv()
        return told


def known(quick: bool) -> list[str]:
    """What can be asked for."""
    return list(SYSTEMS)


def run(quick: bool, only: Collection[str] = ()) -> list[Result]:
    results: list[Result] = []
    for name, system in SYSTEMS.items():
        if not only or name in only:
            results += measured(system, QUICK if quick else NODES, 5.0 if quick else SETTLING)
    return results


def measured(system: str, count: int, settling: float) -> list[Result]:
    """Start so many nodes of a system, look at them at rest, and stop them."""
    nodes: list[BenchNode] = []
    try:
        started = time.monotonic()
        while len(nodes) < count:
            nodes += start_some(system, nodes, min(TOGETHER, count - len(nodes)), count)
        wait_until_joined(nodes)
        joined = time.monotonic() - started
        check(nodes)
        time.sleep(settling)
        before, began = [node.ask("tell") for node in nodes], time.monotonic()
        time.sleep(MEASURED)
        after, seconds = [node.ask("tell") for node in nodes], time.monotonic() - began
        memory = [memory_of(node.process.pid) for node in nodes]
    finally:
        for node in nodes:
            node.process.terminate()
        for node in nodes:
            node.process.join(10)
    each = count * seconds
    sums = {
        field: sum(
            getattr(now, field) - getattr(then, field) for then, now in zip(before, after, strict=True)
        )
        for field in ("sent", "bytes_sent", "processor")
    }

    def result(measure: str, value: float, unit: str) -> Result:
        return Result(f"{count} nodes of {system}, a process each", "live", measure, value, unit, CHECKED)

    return [
        result("until all had joined", joined, "s"),
        result("memory a node (PSS)", sum(memory) / count, "MB"),
        result("links a node", sum(report.links for report in after) / count, "links"),
        result("messages a node at rest", sums["sent"] / each, "a second"),
        result("bytes a node at rest", sums["bytes_sent"] / each, "a second"),
        result("processor time a node at rest", 1000 * sums["processor"] / each, "ms a second"),
    ]


def start_some(system: str, nodes: list[BenchNode], more: int, count: int) -> list[BenchNode]:
    """Start nodes that join through others, and wait until they listen."""
    context = multiprocessing.get_context("fork")
    begun = []
    for number in range(len(nodes), len(nodes) + (more if nodes else 1)):
        ours, theirs = context.Pipe()
        contacts = [nodes[number % len(nodes)].endpoint, nodes[0].endpoint] if nodes else []
        process = context.Process(target=live, args=(system, number, contacts, count, theirs), daemon=True)
        process.start()
        begun.append((process, ours))
    return [BenchNode(process, pipe, pipe.recv()) for process, pipe in begun]


def live(system: str, number: int, contacts: list[Endpoint], count: int, pipe: Connection) -> None:
    """The life of one node, in a process of its own."""
    asyncio.run(serve(system, number, contacts, count, pipe))


async def serve(system: str, number: int, contacts: list[Endpoint], count: int, pipe: Connection) -> None:
    given: list[object] = []
    while True:
        broker = LiveBroker(
            "bench",
            system,
            name=f"node-{number}",
            contacts=contacts,
            nodes=count,
            on_delivery=given.append,
            on_notice=lambda notice: None,
        )
        try:
            endpoint = await broker.start()
            break
        except DistributaryError:  # its contacts have too much to do to answer in time
            await asyncio.sleep(1.0)
    asked: asyncio.Queue[str] = asyncio.Queue()
    pipe.send(endpoint)
    asyncio.get_running_loop().add_reader(pipe.fileno(), lambda: asked.put_nowait(pipe.recv()))
    while True:
        what = await asked.get()
        if what == "subscribe":
            broker.subscribe(Subscription("s1", f"reader-{number}", where="price >= 0"))
        elif what == "publish":
            broker.publish(Event(f"e{time.monotonic_ns()}", "quotes", {"price": 1.0}))
        counts = broker.counts
        report = (
            counts["sent"],
            counts["bytes sent"],
            time.process_time(),
            len(given),
            len(broker.links.linked),
        )
        pipe.send(NodeReport(broker.joined, *report))


def wait_until_joined(nodes: list[BenchNode]) -> None:
    end = time.monotonic() + PATIENCE
    while not all(node.ask("tell").joined for node in nodes):
        if time.monotonic() > end:
            raise RuntimeError(f"not all nodes have joined in {PATIENCE:g} s")
        time.sleep(0.5)


def check(nodes: list[BenchNode]) -> None:
    """An event published at one node must reach those who ask for it at others."""
    readers = nodes[1 :: max(1, len(nodes) // READERS)][:READERS]
    for node in readers:
        node.ask("subscribe")
    end = time.monotonic() + PATIENCE
    while not all(node.ask("tell").given for node in readers):
        if time.monotonic() > end:
            raise RuntimeError("events do not reach those who asked for them")
        nodes[0].ask("publish")
        time.sleep(0.5)


def memory_of(pid: int) -> float:
    """What a process adds to the memory that is in use, in MB: pages that several share are divided."""
    with open(f"/proc/{pid}/smaps_rollup") as lines:
        found = next(line for line in lines if line.startswith("Pss:"))
    return int(found.split()[1]) / 1024


assert hasattr(os, "fork"), "this measures forked processes"
