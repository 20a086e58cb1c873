"""What keeping HOPE up costs between processes: Figures 4.18, 4.21 and 4.22 of 001 as bytes on the wire.

Every broker is a process with a client that has one subscription; nothing is published. Traces of all
processes tell what each sends and is sent for some seconds: bytes are those of the frames, and together they
must be what the links of the processes have counted. Beside it stands the simulator, in which the same nodes,
made from the same settings with the same addresses, keep the same subscriptions. Periods are the defaults of
our live nodes, which mend faster than those that are common for Chord.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from distributary.client.endpoints import connect_node as connect
from distributary.live.frames import HEADER
from distributary.live.local_network import LocalNetwork, node_names
from distributary.model import Subscription
from distributary.overlay.courier import Ack, Packet
from distributary.overlay.node import Address, Message
from distributary.overlay.trace_text import parse_line, value_of
from distributary.overlay.wire import size_of
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Cause, Observer, Simulator
from distributary.systems.hope.addressing import fitting_dimension
from distributary.systems.membership import Membership, address_of
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
from distributary_lab.hope.model import subscriptions
from distributary_lab.hope.upkeep import GROUPS, carried_by
from distributary_lab.rows import largest, listed, mean, means, named, numbers

SYSTEM, NETWORK = "hope-kbsp", "distributary"
SETTLING = 15.0
"""Seconds until rings, lists and links are those of a network at rest."""
PROCESSES, SIMULATOR = "processes", "simulator"
PAPER_SHARE = 0.13
"""Of the hypercube's upkeep, beside the ring's (Figure 4.18)."""
DELAY = 0.0005
"""Seconds of a message in the simulator."""

Sums = Counter[str]
"""Bytes by what they are for."""


def run(point: Point, random: np.random.Generator) -> list[Row]:
    """Upkeep of some brokers with filters of some length, by processes and by the simulator."""
    names, seconds = node_names(int(point["nodes"])), float(point["seconds"])
    wanted = subscriptions(len(names), seed=seed_from(random))
    asked = {name: next(wanted) for name in names}
    chosen = {"dimension": fitting_dimension(len(names)), "length": int(point["length"])}
    with TemporaryDirectory(prefix="hope-") as place:
        network = LocalNetwork(Path(place))
        network.up(len(names), SYSTEM, settings=chosen)
        try:
            told, counted, took = asyncio.run(_kept_up(network, asked, seconds))
        finally:
            network.down()
    simulated = in_simulator(chosen, asked, seconds)
    each = len(names)
    return [
        {"source": PROCESSES, **_row(told, each * seconds), "counted": counted / (each * took)},
        {"source": SIMULATOR, **_row(simulated, each * seconds), "counted": 0.0},
    ]


def _row(sums: Sums, times: float) -> Row:
    row: Row = {name: sums[name] / times for name in (*GROUPS, "receipts", "all", "ring in")}
    return row | {"hypercube": (sums["links"] + sums["registrations"]) / times}


async def _kept_up(
    network: LocalNetwork, asked: dict[str, Subscription], seconds: float
) -> tuple[Sums, int, float]:
    """Bytes by the traces; and what the links have counted meanwhile, in how many seconds."""
    async with AsyncExitStack() as stack:
        for entry in network.described()["nodes"]:
            client = await stack.enter_async_context(connect(entry["client"], name=f"at {entry['name']}"))
            await stack.enter_async_context(client.subscribed(path=asked[entry["name"]].path))
        await asyncio.sleep(SETTLING)
        begun, before = time.monotonic(), await asyncio.to_thread(_sent, network)
        lines = await asyncio.to_thread(network.trace, seconds)
        ended, after = time.monotonic(), await asyncio.to_thread(_sent, network)
    return told(lines), after - before, ended - begun


def _sent(network: LocalNetwork) -> int:
    return sum(int(node["counts"]["bytes sent"]) for node in network.status())


def told(lines: Iterable[str]) -> Sums:
    """The bytes that a trace tells of, in frames."""
    sums = Sums()
    for line in lines:
        found = parse_line(line)
        if found.what in ("sent", "received"):
            _add(sums, value_of(found.rest), came=found.what == "received")
    return sums


def _add(sums: Sums, message: Message, *, came: bool = False) -> None:
    """Count a frame by what it is for: that of the ring both ways, the others where they are sent."""
    carried = carried_by(message.message if isinstance(message, Packet) else message)
    purpose = next((name for name, kinds in GROUPS.items() if type(carried) in kinds), "")
    size = size_of(message) + HEADER
    if came:
        sums["ring in"] += size * (purpose == "ring")
        return
    sums["receipts" if isinstance(message, Ack) else purpose] += size
    sums["all"] += size


class FramedBytes(Observer):
    """Counts the messages of a simulation as processes would frame them."""

    def __init__(self) -> None:
        self.sums = Sums()

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None:
        """Count a message."""
        _add(self.sums, message)
        _add(self.sums, message, came=True)


def in_simulator(chosen: dict[str, int], asked: dict[str, Subscription], seconds: float) -> Sums:
    """The same nodes with the same subscriptions, in the simulator."""
    world, made = Simulator(1, ConstantLatency(DELAY)), Membership(SYSTEM, len(asked), chosen)
    first, *_ = addresses = [address_of(NETWORK, name) for name in asked]
    brokers = [made.broker(address, [first] if address != first else []) for address in addresses]
    for broker in brokers:
        world.add(broker.node)
        world.run(until=world.now + 1)
    world.run(until=world.now + SETTLING)
    for broker, subscription in zip(brokers, asked.values(), strict=True):
        world.call(broker.node.address, partial(broker.subscribe, subscription))
    world.run(until=world.now + SETTLING)
    counted = FramedBytes()
    world.observe(counted)
    world.run(until=world.now + seconds)
    return counted.sums


# Checks


def check(rows: Rows) -> Verdict:
    """Processes send what the simulator counts, in all and for the ring; links count what is told; the ring's
    upkeep is the same for all lengths; and the hypercube's is as small beside it as the document has it."""
    frames = _pairs(rows, "counted", PROCESSES, "all", PROCESSES)
    alike = [pair for part in ("ring", "all") for pair in _pairs(rows, part, PROCESSES, part, SIMULATOR)]
    small = _pairs(rows, "hypercube", PROCESSES, "hypercube", SIMULATOR)
    ring, cube = (means(rows, part, by="nodes", source=PROCESSES) for part in ("ring", "hypercube"))
    by_length = [means(rows, "ring", by="length", source=PROCESSES, nodes=nodes) for nodes in ring]
    share = max(cube[nodes] / ring[nodes] for nodes in ring)
    most = largest(rows, "nodes")
    return Verdict.of(
        all(words.near(*pair) for pair in (*frames, *alike))
        and all(words.as_given(*pair) for pair in small)
        and all(words.flat(each) for each in by_length)
        and words.as_low_as(share, PAPER_SHARE),
        ours=f"{listed(ring, '{:,.0f}')} B/s at {listed(list(ring))} nodes for the ring, at most {share:.0%} "
        "of that for the hypercube",
        ratio=share / PAPER_SHARE,
        reason=f"At {most} nodes, B/s a node: "
        + named({part: mean(rows, part, source=PROCESSES, nodes=most) for part in PARTS}, "{:,.1f}")
        + "; by the simulator "
        + named({part: mean(rows, part, source=SIMULATOR, nodes=most) for part in PARTS}, "{:,.1f}")
        + ". Stabilised every second, where the document's own figures are tried with "
        "every 20 s.",
    )


def _pairs(rows: Rows, one: str, by: str, other: str, other_by: str) -> list[tuple[float, float]]:
    """Values of the same points by two sources."""
    return list(zip(numbers(rows, one, source=by), numbers(rows, other, source=other_by), strict=True))


PARTS = ("ring", "links", "registrations", "replication", "receipts", "all")

EXPERIMENTS = (
    Experiment(
        name="live-hope-upkeep",
        title="HOPE's upkeep between processes",
        grid=grid(nodes=[8, 16, 32], length=[0, 128, 1024], seconds=[40]),
        quick=grid(nodes=[4], length=[0, 1024], seconds=[10]),
        run=run,
        measured=(*PARTS, "hypercube", "ring in", "counted"),
        labels=("source",),
        runs=Runs.LIVE,
        answers={
            "beyond-live-hope-upkeep": answer(
                check,
                Plot(
                    "Upkeep of a broker, by processes and by the simulator",
                    x="nodes",
                    y=("ring", "hypercube", "all"),
                    series="source",
                    y_label="bytes a second",
                ),
            )
        },
        deviation="Periods are the defaults of our live nodes: the ring is stabilised every second, "
        "registrations and links are renewed every 10.",
        alone=True,
    ),
)
