"""What keeping HOPE up costs: Figures 4.18, 4.21, 4.22 and 5.3 of 001, from running nodes.

A full cube with upkeep of the ring, registrations and links renewed, and replication, in which every node
gives up its subscription for another now and then. Bytes are counted by what a message carries. Periods are
those common for Chord (stabilise every 20 s), not those of our defaults, which mend faster.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import partial

import numpy as np

from distributary.overlay.node import Address, Message, Node
from distributary.overlay.replication import (
    DigestCheck,
    DigestMismatch,
    ReplicaRequest,
    Replicas,
    StrayItems,
    StrayReceipt,
)
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import ONE_WAY
from distributary.overlay.ring.questions import KeyLookup, KeyOwnerReply, NeighboursReply, NeighboursRequest
from distributary.overlay.ring.ring import Ring, RoutedBundle, RoutedPayload, settle
from distributary.overlay.ring.stabilisation import PredecessorNotice
from distributary.overlay.ring.upkeep import Upkeep
from distributary.overlay.wire import size_of
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Cause, Observer, Simulator
from distributary.systems.hope.addressing import Addressing, fitting_dimension
from distributary.systems.hope.kbsp import Kbsp
from distributary.systems.hope.messages import (
    AdvertRenewal,
    AdvertRequest,
    DirectMessage,
    FilterRegistration,
    OwnershipDenial,
    OwnershipNotice,
)
from distributary_lab.experiment import Experiment, Plot, Point, Row, Rows, Verdict, answer, grid, seed_from
from distributary_lab.hope.model import subscriptions
from distributary_lab.rows import column_means, largest, listed, mean, means, shown

PERIOD = 20.0
REFRESH = 60.0
RATE = 0.1
"""Subscriptions a node and second (Table 4.1)."""
PAPER_TRAFFIC = 8_000.0
"""Bytes a second of application traffic at l = 1024 (Figure 4.19)."""
PAPER_REPLICATION = 788.0
"""Bytes a second more from one copy to the most (Figure 5.3)."""

GROUPS: dict[str, tuple[type, ...]] = {
    "ring": (NeighboursRequest, NeighboursReply, PredecessorNotice, KeyLookup, KeyOwnerReply),
    "links": (AdvertRenewal, AdvertRequest, OwnershipNotice, OwnershipDenial),
    "registrations": (FilterRegistration,),
    "replication": (Replicas, DigestCheck, DigestMismatch, ReplicaRequest, StrayItems, StrayReceipt),
}


class CarriedBytes(Observer):
    """Bytes by the class of what a message carries, and by receiver for the ring's upkeep."""

    def __init__(self) -> None:
        self.by_class: Counter[type] = Counter()
        self.ring_in: Counter[Address] = Counter()
        self.ring_out: Counter[Address] = Counter()

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None:
        """Add the bytes of a message to the class of what it carries."""
        carried = message.messages[0] if isinstance(message, RoutedBundle) else message  # all of one class
        carried = carried.payload if isinstance(carried, RoutedPayload) else carried
        carried = carried.message if isinstance(carried, DirectMessage) else carried
        size = size_of(message)
        self.by_class[type(carried)] += size
        if type(carried) in GROUPS["ring"]:
            self.ring_in[to] += size
            self.ring_out[sender] += size


def run(point: Point, random: np.random.Generator) -> list[Row]:
    """One system over some time, counted from when everybody has subscribed."""
    nodes, length, copies = int(point["nodes"]), int(point["length"]), int(point["copies"])
    seconds = float(point["seconds"])
    dimension = fitting_dimension(nodes)
    deployment = _deployment(nodes, dimension, length, copies - 1)
    world = deployment.simulator
    changes = int(nodes * RATE * seconds) if point["changing"] else 0
    wanted = subscriptions(nodes + changes, seed=seed_from(random))
    living = [next(wanted) for _ in range(nodes)]
    for node, subscription in enumerate(living):
        deployment.subscribe(subscription, at=node)
    world.run(until=2 * REFRESH)
    counted = CarriedBytes()
    world.observe(counted)
    for change in range(changes):
        world.run(until=2 * REFRESH + seconds * change / changes)
        node = int(random.integers(nodes))
        deployment.unsubscribe(living[node].key)
        living[node] = next(wanted)
        deployment.subscribe(living[node], at=node)
    world.run(until=2 * REFRESH + seconds)
    row: Row = {
        name: sum(counted.by_class[kind] for kind in kinds) / nodes / seconds
        for name, kinds in GROUPS.items()
    }
    spread = {"ring_in_most": counted.ring_in, "ring_out_most": counted.ring_out}
    return [row | {name: max(sums.values()) / seconds for name, sums in spread.items()}]


def _deployment(nodes: int, dimension: int, length: int, siblings: int) -> Deployment:
    def make(address: Address) -> Kbsp:
        ring = Ring(Node(address), Circle(dimension), rule=ONE_WAY, successor_count=max(4, siblings))
        Upkeep(ring, period=PERIOD, probe=3 * PERIOD)
        broker = Kbsp(ring, Addressing(dimension, length), copies=siblings, refresh=REFRESH)
        broker.replication.period = PERIOD
        return broker

    deployment = Deployment(Simulator(1, ConstantLatency(0.05)), make, sizes=False)
    brokers = [deployment.add(address) for address in range(nodes)]
    settle([broker.ring for broker in brokers if isinstance(broker, Kbsp)])
    return deployment


# Checks.


def check_links(rows: Rows) -> Verdict:
    """Figure 4.18."""
    nodes = largest(rows, "nodes")
    links, ring = column_means(rows, "links", "ring", nodes=nodes)
    most = max(means(rows, "links", by="nodes").values())
    return Verdict.of(
        most < 2 and links / ring < 0.26,
        ours=f"{most:.2f} B/s at most; {links / ring:.0%} of the ring's upkeep",
        ratio=most / 2,
        reason=f"Digests of what is wanted, every {REFRESH:.0f} s across every link in use, and where "
        f"vertices are hosted. At {nodes:,} nodes {shown(links)} B/s, which is {links / PAPER_TRAFFIC:.3%} "
        "of the paper's 8 KB/s of application traffic.",
    )


def check_ring(rows: Rows, column: str, paper: float = 20.0) -> Verdict:
    """Figures 4.21 and 4.22."""
    ring = means(rows, "ring", by="nodes")
    fewest, most = min(ring), max(ring)
    lengths = means(rows, "ring", by="length", nodes=most).values()
    independent = max(lengths) - min(lengths) < 0.02 * max(lengths)
    mild = ring[most] / ring[fewest] <= math.log2(most) / math.log2(fewest)
    return Verdict.of(
        ring[most] < paper and independent and mild,
        ours=f"{ring[most]:.1f} B/s on average at {most:,} nodes",
        ratio=ring[most] / paper,
        reason=f"By nodes: {listed(ring, '{:.1f}')} B/s, stabilising every {PERIOD:.0f} s; the busiest node "
        f"has {shown(mean(rows, column, nodes=most))}. Lower layers' headers are not counted.",
    )


def check_replication(rows: Rows) -> Verdict:
    """Figure 5.3."""
    nodes = largest(rows, "nodes")
    sent = means(rows, "replication", by="copies", nodes=nodes)
    least, most = min(sent), max(sent)
    more = sent[most] - sent[least]
    return Verdict.of(
        more <= 2 * PAPER_REPLICATION and list(sent.values()) == sorted(sent.values()),
        ours=f"+{more:,.0f} B/s a node from r = {least} to {most} at {nodes:,} nodes",
        ratio=more / PAPER_REPLICATION,
        reason=f"B/s a node by r at {nodes:,} nodes: {', '.join(f'{r}: {shown(sent[r])}' for r in sent)}. "
        f"Every node changes its subscription every {1 / RATE:.0f} s; each filter that a vertex learns or "
        "forgets is sent to r - 1 others.",
    )


CALM: dict[str, list[int]] = {"changing": [False], "copies": [1]}
BUSY: dict[str, list[int]] = {"changing": [True], "length": [1024]}

by_nodes = partial(Plot, x="nodes", series="length", y_label="B/s", log_x=True)

EXPERIMENTS = (
    Experiment(
        name="hope-upkeep",
        title="Upkeep of HOPE's ring and links",
        grid=grid(nodes=[16, 64, 256, 1024, 4096], length=[0, 128, 1024], seconds=[120], **CALM),
        quick=grid(nodes=[16, 64], length=[0, 1024], seconds=[120], **CALM),
        run=run,
        answers={
            "001-fig4.18": answer(check_links, by_nodes("Upkeep of links", y="links")),
            "001-fig4.21": answer(
                partial(check_ring, column="ring_in_most"),
                by_nodes("Upkeep of the ring, in", y=("ring", "ring_in_most")),
            ),
            "001-fig4.22": answer(
                partial(check_ring, column="ring_out_most"),
                by_nodes("Upkeep of the ring, out", y=("ring", "ring_out_most")),
            ),
        },
        deviation="Periods are ours; the paper gives none.",
    ),
    Experiment(
        name="hope-replication",
        title="Traffic of replicated lists",
        grid=grid(nodes=[16, 64, 256, 1024, 4096], copies=[1, 2, 8], seconds=[60], **BUSY),
        quick=grid(nodes=[16, 64], copies=[1, 2, 8], seconds=[20], **BUSY),
        run=run,
        answers={
            "001-fig5.3": answer(
                check_replication, by_nodes("Replication traffic of a node", y="replication", series="copies")
            )
        },
        deviation="Every node changes its subscription every 10 s; r counts all copies.",
    ),
)
