"""Requests of HOPE's nodes themselves: Figures 4.12 and 4.16 of 001.

A full cube of KBSP's nodes in the simulator. Every node has a subscription; at the rates of Table 4.1 each
publishes and replaces its subscription by another, at random moments that are the same for all filter
lengths. Counted is what comes to the vertices: publications from their publishers (a publication counts as
sent when it has come to its vertex), publications in all, and subscriptions: registrations, and filters that
neighbours tell. Events received by homes are counted beside, to hold against the model (`hope.delivery`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from distributary.overlay.node import Address, Message, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import ONE_WAY
from distributary.overlay.ring.ring import Arrival, Ring, settle
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Observer, Simulator
from distributary.systems.hope.addressing import Addressing, fitting_dimension
from distributary.systems.hope.kbsp import Kbsp
from distributary.systems.hope.messages import EventNotice, FilterAdvert, FilterRegistration, XmlPublication
from distributary.workloads import xml_collection
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
from distributary_lab.rows import labelled, largest, listed, means, named, shown

LENGTHS = (0, 128, 1024)
RATE = 0.1
"""Publications, and subscriptions, a node and second (Table 4.1)."""


class CountedKbsp(Kbsp):
    """A node that counts what comes to its vertices, by name."""

    def __init__(self, *args: Any, counts: Counter[str], **options: Any) -> None:
        self.counts = counts
        super().__init__(*args, **options)

    def _meet(self, position: int, publication: XmlPublication) -> None:
        self.counts["publications"] += 1
        self.counts["sent"] += publication.came_from is None
        super()._meet(position, publication)

    def _register(self, message: FilterRegistration, arrival: Arrival) -> None:
        self.counts["subscriptions"] += len(arrival.keys)
        super()._register(message, arrival)

    def _advertised(self, advert: FilterAdvert, arrival: Arrival) -> None:
        self.counts["subscriptions"] += 1
        super()._advertised(advert, arrival)


class ReceivedNotices(Observer):
    """Counts the notices of events that homes get from other nodes."""

    def __init__(self, counts: Counter[str]) -> None:
        self.counts = counts

    def received(self, now: float, sender: Address, to: Address, message: Message) -> None:
        """Count a notice at its receiver."""
        self.counts["received"] += isinstance(message, EventNotice)


def run(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """One cube and one course of publications and subscriptions, with every filter length."""
    nodes, seconds = int(point["nodes"]), float(point["seconds"])
    seeds = (seed_from(random), seed_from(random))
    times, actors = (random.poisson(RATE * nodes * seconds, 2), random)
    course = sorted(
        (float(random.uniform(0, seconds)), int(actors.integers(nodes)), publishes)
        for publishes, count in ((True, times[0]), (False, times[1]))
        for _ in range(count)
    )
    for length in LENGTHS:
        counts = _counted(nodes, length, course, seeds)
        each = nodes * seconds
        yield {
            "length": length,
            "sent": counts["sent"],
            "received": counts["received"],
            "subscription_requests": counts["subscriptions"] / each,
            "publication_requests": counts["publications"] / each,
        }


def _counted(
    nodes: int, length: int, course: list[tuple[float, int, bool]], seeds: tuple[int, int]
) -> Counter[str]:
    """What came to the vertices while publications and subscriptions took their course."""
    dimension, counts = fitting_dimension(nodes), Counter[str]()

    def make(address: Address) -> Kbsp:
        ring = Ring(Node(address), Circle(dimension), rule=ONE_WAY)
        return CountedKbsp(ring, Addressing(dimension, length), counts=counts)

    deployment = Deployment(Simulator(1, ConstantLatency(0.05)), make, sizes=False)
    brokers = [deployment.add(address) for address in range(nodes)]
    settle([broker.ring for broker in brokers if isinstance(broker, Kbsp)])
    wanted = subscriptions(nodes + len(course), seed=seeds[0])
    standing = [next(wanted) for _ in range(nodes)]
    for node, subscription in enumerate(standing):
        deployment.subscribe(subscription, at=node)
    world = deployment.simulator
    world.run()
    counts.clear()
    world.observe(ReceivedNotices(counts))
    start, events = world.now, xml_collection.events(len(course), seed=seeds[1], size=1_000)
    for time, node, publishes in course:
        world.run(until=start + time)
        if publishes:
            deployment.publish(next(events), at=node)
        else:
            deployment.unsubscribe(standing[node].key)
            standing[node] = next(wanted)
            deployment.subscribe(standing[node], at=node)
    world.run()
    return counts


# Checks.


def check_sent(rows: Rows) -> Verdict:
    """Figure 4.12: the same for all lengths, and linear in the nodes."""
    sent = {f"l = {length}:": means(rows, "sent", by="nodes", length=length) for length in LENGTHS}
    sizes = labelled(rows, "nodes")
    by_size = zip(*(each.values() for each in sent.values()), strict=True)
    same = all(words.equal(min(each), max(each)) for each in by_size)
    growth = all(words.linear(each) for each in sent.values())
    return Verdict.of(
        same and growth,
        ours=named(sent, lambda each: listed(each, shown), separator="; ") + f" at {listed(sizes)} nodes",
        reason="Publications that came to their vertices: whoever publishes does so whatever the filters "
        "are, so this can fail only where a node refuses or loses some.",
    )


def check_subscription_requests(rows: Rows) -> Verdict:
    """Figure 4.16: the same for all lengths."""
    requests = {
        nodes: means(rows, "subscription_requests", by="length", nodes=nodes)
        for nodes in labelled(rows, "nodes")
    }
    same = all(words.equal(min(each.values()), max(each.values())) for each in requests.values())
    last = largest(rows, "nodes")
    told = named(requests, lambda each: listed(each, shown), separator="; ")
    return Verdict.of(
        same,
        ours=", ".join(f"{shown(value)} at l = {length}" for length, value in requests[last].items())
        + f" a node and second ({last:,} nodes)",
        reason="Registrations and filters that neighbours tell, to a node and second, by nodes: "
        f"{told}. A neighbour is told one filter that stands for all, and nothing where that stays the same; "
        "with longer filters it changes more often.",
    )


SENT = Plot("Publications sent", x="nodes", y="sent", series="length", log_x=True, log_y=True)
REQUESTS = Plot(
    "Subscription requests to a node",
    x="nodes",
    y="subscription_requests",
    series="length",
    y_label="requests a second",
    log_x=True,
)

EXPERIMENTS = (
    Experiment(
        name="hope-nodes",
        title="Publications and subscriptions that come to HOPE's nodes",
        grid=grid(nodes=[16, 64, 256], seconds=[60], repeat=[1, 2, 3]),
        quick=grid(nodes=[8, 16, 32], seconds=[30], repeat=[1]),
        run=run,
        answers={
            "001-fig4.12": answer(check_sent, SENT),
            "001-fig4.16": answer(check_subscription_requests, REQUESTS),
        },
        measured=("sent", "received", "subscription_requests", "publication_requests"),
        labels=("length",),
        runs=Runs.NODES,
        open_parameters=(
            OpenParameter(
                "what a subscription replaces",
                "the node's own before it",
                "the thesis gives a rate and no lifetime; so the number that stands is the number of nodes",
                after=False,
            ),
        ),
        deviation="Up to 256 nodes and 60 s, where the thesis has 4,096 and 7,200 s; documents are "
        "generated; filters are joined soundly, by AND.",
    ),
)
