"""What the length of addresses and several facets do to HOPE's costs and loads: ours, beyond 001.

Nodes at random places on the ring, one subscription each, run KBSP. More bits make keys tell more structures
apart, and a subscription goes to more vertices, though those of one node cost nothing. More facets share out
the events of a key, and every subscription is told to each.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import numpy as np

from distributary.overlay.node import Address, Message, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import ONE_WAY
from distributary.overlay.ring.ring import Ring, settle
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Observer, Simulator
from distributary.systems.hope.addressing import Addressing, fitting_dimension
from distributary.systems.hope.kbsp import Kbsp
from distributary.systems.hope.messages import DocumentReply, DocumentRequest, EventNotice
from distributary.workloads import xml_collection
from distributary_lab import words
from distributary_lab.experiment import Experiment, Plot, Point, Row, Rows, Runs, Verdict, answer, grid
from distributary_lab.hope.model import subscriptions
from distributary_lab.rows import largest, listed, mean, means, shown

CIRCLE = Circle(24)


class HandledMessages(Observer):
    """Counts the messages of publications that each node handles, deliveries to its home left out."""

    def __init__(self) -> None:
        self.by_node: Counter[Address] = Counter()

    def received(self, now: float, sender: Address, to: Address, message: Message) -> None:
        """Count a message at its receiver."""
        if not isinstance(message, EventNotice | DocumentRequest | DocumentReply):
            self.by_node[to] += 1


def run(point: Point, random: np.random.Generator) -> list[Row]:
    """One system: everybody subscribes, then events come."""
    nodes, events = int(point["nodes"]), int(point["events"])
    places = np.sort(random.choice(CIRCLE.size, nodes, replace=False)).tolist()
    dimension = fitting_dimension(nodes) + int(point["more_bits"])
    addressing = Addressing(dimension, 1024)

    def make(address: Address) -> Kbsp:
        return Kbsp(Ring(Node(address), CIRCLE, rule=ONE_WAY), addressing, facets=int(point["facets"]))

    deployment = Deployment(Simulator(1, ConstantLatency(0.05)), make, sizes=False)
    brokers = map(deployment.add, places)
    settle([broker.ring for broker in brokers if isinstance(broker, Kbsp)])
    seeds = random.integers(2**31, size=2).tolist()
    for place, subscription in zip(places, subscriptions(nodes, seed=seeds[0]), strict=True):
        deployment.subscribe(subscription, at=place)
    deployment.simulator.run()
    handled = HandledMessages()
    deployment.simulator.observe(handled)
    for event in xml_collection.events(events, seed=seeds[1], size=1_000):
        deployment.publish(event, at=int(random.choice(places)))
        deployment.simulator.run()
    costs = deployment.costs()
    loads = np.array([handled.by_node[place] for place in places])
    return [
        {
            "publish": costs["publish"].messages,
            "deliveries": costs["publish"].deliveries,
            "subscribe": costs["subscribe"].messages,
            "busiest": float(loads.max() / events),
        }
    ]


def check_facets(rows: Rows) -> Verdict:
    """The busiest node is the less busy the more facets there are."""
    busiest, subscribing = (means(rows, each, by="facets", more_bits=0) for each in ("busiest", "subscribe"))
    one, most = min(busiest), max(busiest)
    return Verdict.of(
        words.falls(busiest),
        ours=f"busiest node {shown(busiest[one])} messages an event with {one}, {shown(busiest[most])} with "
        f"{most}",
        reason=f"Subscribing takes {shown(subscribing[one])} messages with {one} facet and "
        f"{shown(subscribing[most])} with {most}.",
    )


def check_dimension(rows: Rows) -> Verdict:
    """More bits than log2 N cost messages and relieve nobody."""
    publish, subscribe, busiest = (
        means(rows, column, by="more_bits", facets=1) for column in ("publish", "subscribe", "busiest")
    )
    most = max(publish)
    times = [costs[most] / costs[0] for costs in (publish, subscribe, busiest)]
    texts = [
        f"{bits:+.0f}: {listed([publish[bits], subscribe[bits], busiest[bits]], shown)}" for bits in publish
    ]
    return Verdict.of(
        min(times[:2]) > 1 and words.no_worse(busiest[0], busiest[most]),
        ours=f"with {most:+.0f} bits events cost {times[0]:.2f} times as much as with log2 N, subscriptions "
        f"{times[1]:.1f} times, and the busiest node has {times[2]:.1f} times the messages",
        reason=f"{largest(rows, 'nodes'):,} nodes, of which {shown(mean(rows, 'deliveries', facets=1))} want "
        "an event. By bits beyond log2 N, messages an event, messages a subscription, messages of the "
        f"busiest node an event: {'; '.join(texts)}. Long filters rule out what short keys do not, so fewer "
        "bits are cheaper still; then nearly every event passes one node.",
    )


by_facets = partial(Plot, x="facets", where={"more_bits": 0}, y_label="messages an event, a subscription")
by_bits = partial(Plot, x="more_bits", where={"facets": 1}, x_label="bits beyond log2 N", y_label="messages")

EXPERIMENTS = (
    Experiment(
        name="hope-balance",
        title="Address length and facets of HOPE",
        grid=[
            *grid(nodes=[256], events=[300], more_bits=[-4, -2, 0, 2, 4], facets=[1]),
            *grid(nodes=[256], events=[300], more_bits=[0], facets=[2, 4, 8]),
        ],
        quick=[
            *grid(nodes=[64], events=[60], more_bits=[-2, 0, 2], facets=[1]),
            *grid(nodes=[64], events=[60], more_bits=[0], facets=[4]),
        ],
        run=run,
        measured=("publish", "deliveries", "subscribe", "busiest"),
        runs=Runs.NODES,
        answers={
            "beyond-hope-facets": answer(
                check_facets, by_facets("Load of the busiest node, and the price", y=("busiest", "subscribe"))
            ),
            "beyond-hope-dimension": answer(
                check_dimension, by_bits("Costs by address length", y=("publish", "subscribe", "busiest"))
            ),
        },
    ),
)
