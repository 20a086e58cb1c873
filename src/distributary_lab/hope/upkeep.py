"""What keeping HOPE up costs: Figures 4.18, 4.21, 4.22 and 5.3 of 001, from running nodes.

A full cube with upkeep of the ring, registrations and links renewed, and replication, in which every node
gives up its subscription for another now and then. Bytes are counted by what a message carries. Periods are
those common for Chord (stabilise every 20 s), not those of our defaults, which mend faster.
"""

from __future__ import annotations

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
from distributary_lab import words
from distributary_lab.experiment import (
    Experiment,
    OpenParameter,
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
from distributary_lab.rows import column_means, labelled, listed, mean, means, named, shown

PERIOD = 20.0
REFRESH = 60.0
RATE = 0.1
"""Subscriptions a node and second (Table 4.1)."""
PAPER_LINKS, PAPER_SHARE = 2.0, 0.13
"""Bytes a second for the hypercube, and as a share of the ring's upkeep (Figure 4.18)."""
PAPER_RING = 20.0
"""Bytes a second of the ring's upkeep are below (Figures 4.21 and 4.22)."""
PAPER_REPLICATION, PAPER_NODES = 788.0, 4096
"""Bytes a second more from one copy to the most (Figure 5.3), and the size at which."""

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
        carried = carried_by(message)
        size = size_of(message)
        self.by_class[type(carried)] += size
        if type(carried) in GROUPS["ring"]:
            self.ring_in[to] += size
            self.ring_out[sender] += size


def carried_by(message: Message) -> Message:
    """What a message carries: over the ring, or straight to another."""
    carried = message.messages[0] if isinstance(message, RoutedBundle) else message  # all of one class
    carried = carried.payload if isinstance(carried, RoutedPayload) else carried
    return carried.message if isinstance(carried, DirectMessage) else carried


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
    row["hypercube"] = float(row["links"]) + float(row["registrations"])
    for way, sums in (("in", counted.ring_in), ("out", counted.ring_out)):
        row[f"ring_{way}"] = sum(sums.values()) / nodes / seconds
        row[f"ring_{way}_most"] = max(sums.values()) / seconds
    return [row]


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
    """Figure 4.18: a little, and little beside the ring's upkeep."""
    overhead, ring = (means(rows, name, by="nodes") for name in ("hypercube", "ring"))
    shares = {nodes: overhead[nodes] / ring[nodes] for nodes in ring}
    nodes, most = max(ring), max(overhead.values())
    links, registrations = column_means(rows, "links", "registrations", nodes=nodes)
    return Verdict.of(
        most < PAPER_LINKS and words.as_low_as(max(shares.values()), PAPER_SHARE),
        ours=f"{most:.2f} B/s at most; {max(shares.values()):.0%} of the ring's upkeep",
        ratio=most / PAPER_LINKS,
        reason=f"At {nodes:,} nodes {shown(links)} B/s are digests of what neighbours want, every "
        f"{REFRESH:.0f} s across every link in use, and {shown(registrations)} B/s are subscriptions that "
        "are registered again, over the ring, as often. The thesis does not say whether anything is renewed.",
    )


def check_ring(rows: Rows, column: str) -> Verdict:
    """Figures 4.21 and 4.22: low, growing mildly, on an axis of logarithms, and the same for all lengths."""
    ring = means(rows, column, by="nodes")
    independent = all(words.flat(means(rows, column, by="length", nodes=nodes)) for nodes in ring)
    return Verdict.of(
        max(ring.values()) < PAPER_RING and independent and words.logarithmic(ring),
        ours=f"{listed(ring, '{:.1f}')} B/s at {listed(list(ring))} nodes",
        ratio=max(ring.values()) / PAPER_RING,
        reason=f"On average, stabilising every {PERIOD:.0f} s; the busiest node has "
        f"{shown(mean(rows, f'{column}_most', nodes=max(ring)))} at {max(ring):,} nodes. "
        "Lower layers' headers are not counted.",
    )


def check_replication(rows: Rows) -> Verdict:
    """Figure 5.3: more with every copy, and at 4,096 nodes no more than the paper's bytes a second."""
    if PAPER_NODES not in labelled(rows, "nodes"):
        return Verdict.not_run("no cube of 4,096 nodes was run")
    sent = means(rows, "replication", by="copies", nodes=PAPER_NODES)
    least, most = min(sent), max(sent)
    more = sent[most] - sent[least]
    return Verdict.of(
        words.rises(sent) and words.as_low_as(more, PAPER_REPLICATION),
        ours=f"+{more:,.0f} B/s a node from r = {least} to {most} at {PAPER_NODES:,} nodes",
        ratio=more / PAPER_REPLICATION,
        reason=f"B/s a node by r at {PAPER_NODES:,} nodes: {named(sent, shown)}. "
        f"Every node changes its subscription every {1 / RATE:.0f} s; each filter that a vertex learns or "
        "forgets is sent to r - 1 others.",
    )


MEASURED = (
    *("ring", "links", "registrations", "hypercube", "replication"),
    *("ring_in", "ring_out", "ring_in_most", "ring_out_most"),
)
PERIODS = (
    OpenParameter(
        "how often the ring stabilises",
        f"{PERIOD:.0f} s",
        "common for Chord",
        after=False,
        effect="the ring's upkeep is in inverse proportion to it, so 4.21 and 4.22 turn with it",
    ),
    OpenParameter(
        "how often links and registrations are renewed",
        f"{REFRESH:.0f} s",
        "three periods of the ring",
        after=False,
        effect="the hypercube's upkeep is in inverse proportion to it; without renewal it is 0",
    ),
)

CALM: dict[str, list[int]] = {"changing": [False], "copies": [1]}
BUSY: dict[str, list[int]] = {"changing": [True], "length": [1024]}

by_nodes = partial(Plot, x="nodes", series="length", y_label="B/s", log_x=True)
RING_BOUND = {"the paper's bound on the mean": PAPER_RING}

EXPERIMENTS = (
    Experiment(
        name="hope-upkeep",
        title="Upkeep of HOPE's ring and links",
        grid=grid(nodes=[16, 64, 256, 1024, 4096], length=[0, 128, 1024], seconds=[120], **CALM),
        quick=grid(nodes=[16, 64], length=[0, 1024], seconds=[120], **CALM),
        run=run,
        answers={
            "001-fig4.18": answer(
                check_links,
                by_nodes(
                    "Upkeep of the hypercube",
                    y=("hypercube", "links", "registrations"),
                    reference={"the paper's bound": PAPER_LINKS},
                ),
            ),
            "001-fig4.21": answer(
                partial(check_ring, column="ring_in"),
                by_nodes("Upkeep of the ring, in", y=("ring_in", "ring_in_most"), reference=RING_BOUND),
            ),
            "001-fig4.22": answer(
                partial(check_ring, column="ring_out"),
                by_nodes("Upkeep of the ring, out", y=("ring_out", "ring_out_most"), reference=RING_BOUND),
            ),
        },
        measured=MEASURED,
        runs=Runs.NODES,
        open_parameters=PERIODS,
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
                check_replication,
                by_nodes(
                    "Replication traffic of a node",
                    y="replication",
                    series="copies",
                    reference={"what 8 copies add in the paper": PAPER_REPLICATION},
                ),
            )
        },
        measured=MEASURED,
        runs=Runs.NODES,
        open_parameters=(
            *PERIODS,
            OpenParameter(
                "whose link traffic the 788 B/s are",
                "all links of a node together",
                "the section speaks of traffic on a link and of total link traffic; the stricter reading",
                after=False,
                effect="divided by a node's links it would be less",
            ),
        ),
        deviation="Every node changes its subscription every 10 s; r counts all copies.",
    ),
)
