"""What the length of addresses and several facets do to HOPE's costs and loads: ours, beyond 001.

Nodes at random places on the ring, one subscription each, run KBSP. More bits make keys tell more structures
apart, and a subscription goes to more vertices, though those of one node cost nothing. More facets share out
the events of a key, and every subscription is told to each.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from distributary.overlay.node import Address, Message, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import ONE_WAY
from distributary.overlay.ring.ring import Ring, settle
from distributary.sim.deployment import Deployment
from distributary.sim.latency import Constant
from distributary.sim.simulator import Observer, Simulator
from distributary.systems.hope.addressing import Addressing, fitting_dimension
from distributary.systems.hope.kbsp import Kbsp
from distributary.systems.hope.messages import Notice
from distributary.workloads import xml_collection
from distributary_lab.claims import Claim
from distributary_lab.experiment import Answer, Experiment, Plot, Point, Row, Rows, Verdict, grid
from distributary_lab.rows import mean, means, number, shown

CIRCLE = Circle(24)


class Handled(Observer):
    """Counts the messages of publications that each node handles, deliveries to its home left out."""

    def __init__(self) -> None:
        self.by_node: Counter[Address] = Counter()

    def received(self, now: float, sender: Address, to: Address, message: Message) -> None:
        if not isinstance(message, Notice):
            self.by_node[to] += 1


def run(point: Point, random: np.random.Generator) -> list[Row]:
    """One system: everybody subscribes, then events come."""
    nodes, events = int(point["nodes"]), int(point["events"])
    places = np.sort(random.choice(CIRCLE.size, nodes, replace=False)).tolist()
    dimension = fitting_dimension(nodes) + int(point["more_bits"])
    addressing = Addressing(dimension, 1024)

    def make(address: Address) -> Kbsp:
        return Kbsp(Ring(Node(address), CIRCLE, rule=ONE_WAY), addressing, facets=int(point["facets"]))

    deployment = Deployment(Simulator(1, Constant(0.05)), make, sizes=False)
    brokers = [deployment.add(place) for place in places]
    settle([broker.ring for broker in brokers if isinstance(broker, Kbsp)])
    seeds = random.integers(2**31, size=2).tolist()
    for place, subscription in zip(
        places, xml_collection.subscriptions(nodes, seed=seeds[0], depth=3, branching=0.2), strict=True
    ):
        deployment.subscribe(subscription, at=place)
    deployment.simulator.run()
    handled = Handled()
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
    plain = [row for row in rows if row["more_bits"] == 0]
    busiest, subscribing = means(plain, "busiest", by="facets"), means(plain, "subscribe", by="facets")
    one, most = min(busiest, key=float), max(busiest, key=float)
    return Verdict.of(
        busiest[most] < 0.75 * busiest[one],
        ours=f"busiest node {shown(busiest[one])} messages an event with {one}, {shown(busiest[most])} with "
        f"{most}",
        reason=f"Subscribing takes {shown(subscribing[one])} messages with {one} facet and "
        f"{shown(subscribing[most])} with {most}.",
    )


def check_dimension(rows: Rows) -> Verdict:
    """More bits than log2 N cost messages and relieve nobody."""
    plain = [row for row in rows if row["facets"] == 1]
    publishing, busiest, subscribing = (
        list(means(plain, column, by="more_bits").values()) for column in ("publish", "busiest", "subscribe")
    )
    bits = list(means(plain, "publish", by="more_bits"))
    texts = [
        f"{float(more):+.0f}: {shown(event)}, {shown(subscription)}, {shown(load)}"
        for more, event, subscription, load in zip(bits, publishing, subscribing, busiest, strict=True)
    ]
    fitting = bits.index(0)
    return Verdict.of(
        publishing[fitting] < publishing[-1] and busiest[fitting] <= 1.25 * min(busiest),
        ours=f"with {float(bits[-1]):+.0f} bits events cost {publishing[-1] / publishing[fitting]:.2f} "
        "times as much "
        f"as with log2 N, subscriptions {subscribing[-1] / subscribing[fitting]:.1f} times, and the busiest "
        "node "
        f"has {busiest[-1] / busiest[fitting]:.1f} times the messages",
        reason=f"{max(number(row, 'nodes') for row in rows):,.0f} nodes, of which "
        f"{shown(mean(plain, 'deliveries'))} want an event. By bits beyond log2 N, messages an event, "
        "messages "
        f"a subscription, messages of the busiest node an event: {'; '.join(texts)}. Long filters rule out "
        "what "
        "short keys do not, so fewer bits are cheaper still; then nearly every event passes one node.",
    )


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
        answers={
            "beyond-hope-facets": Answer(
                check_facets,
                (
                    Plot(
                        "Load of the busiest node, and the price",
                        x="facets",
                        y=("busiest", "subscribe"),
                        where={"more_bits": 0},
                        y_label="messages an event, a subscription",
                    ),
                ),
                claim=Claim(
                    "beyond-hope-facets",
                    "several turned hypercubes share out the load of hot keys",
                    "one hypercube, as in 001",
                ),
            ),
            "beyond-hope-dimension": Answer(
                check_dimension,
                (
                    Plot(
                        "Costs by address length",
                        x="more_bits",
                        y=("publish", "subscribe", "busiest"),
                        where={"facets": 1},
                        x_label="bits beyond log2 N",
                        y_label="messages",
                    ),
                ),
                claim=Claim(
                    "beyond-hope-dimension",
                    "addresses longer than log2 N bits cost more messages and do not relieve the busiest "
                    "node",
                    "001, where the length is log2 N without being varied",
                ),
            ),
        },
    ),
)
