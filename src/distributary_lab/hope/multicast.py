"""How the hypercube multicasts: stress, stretch and gain on the network below; KBPP's traffic (001, 4.6).

Nodes of a full cube stand on a drawn internetwork (`sim.underlay`). Keys are drawn with each bit set with the
probability that the saturation gives. The first experiment follows the tree of each key over physical links;
the second runs KBPP's nodes and counts what every link between two nodes carried, with the tree and without
it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from statistics import fmean
from typing import NamedTuple

import numpy as np

from distributary.model import Event
from distributary.overlay.hypercube import Cubes, CubeVertex, children_below, covered_keys
from distributary.overlay.node import Address, Message, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import ONE_WAY
from distributary.overlay.ring.ring import Ring, settle
from distributary.overlay.wire import size_of
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Cause, Observer, Simulator
from distributary.sim.underlay import Underlay
from distributary.systems.hope.addressing import Addressing, fitting_dimension
from distributary.systems.hope.kbpp import Kbpp
from distributary.systems.hope.messages import DirectMessage, XmlPublication
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
from distributary_lab.rows import listed, mean, means, named, select, shown

SATURATIONS = (0.2, 0.5, 0.75)
TREES = 40
PAIRS = 1_000
MESSAGE = 4_000
"""Bytes of a publication (section 4.6.3)."""


def run(point: Point, random: np.random.Generator) -> list[Row]:
    """Trees and ways on one internetwork."""
    nodes = int(point["nodes"])
    dimension = fitting_dimension(nodes)
    below = Underlay.transit_stub(seed=seed_from(random))
    rings = full_ring(dimension)
    rows: list[Row] = []
    for _ in range(TREES):
        root = int((random.random(dimension) < float(point["saturation"])) @ (1 << np.arange(dimension)))
        links = list(tree(root))
        members = [child for _, child in links]
        if not members:
            continue
        stress: Counter[tuple[str, str]] = Counter()
        for parent, child in links:
            stress.update(below.path(parent, child))
        others = random.choice(nodes, len(members), replace=False).tolist()
        meeting = int(random.integers(nodes))
        rows.append(
            {
                "stress": fmean(stress.values()),
                "gain": gain(below, root, links, members),
                "gain_scribe": gain(below, meeting, join_tree(rings, meeting, others), others),
                "gain_distinct": 1 - len(stress) / sum(len(below.path(root, member)) for member in members),
                "members": len(members),
            }
        )
    return [
        {name: fmean(float(row[name]) for row in rows) for name in rows[0]} | _stretch(below, rings, random)
    ]


def full_ring(dimension: int) -> dict[Address, Ring]:
    """A ring at rest with a node at every place."""
    rings = {
        address: Ring(Node(address), Circle(dimension), rule=ONE_WAY) for address in range(1 << dimension)
    }
    settle(list(rings.values()))
    return rings


def tree(root: int) -> Iterator[tuple[int, int]]:
    """The links of the tree from a root down to all that it covers."""
    pending: list[tuple[int, int | None]] = [(root, None)]
    while pending:
        vertex, came_from = pending.pop()
        for child in children_below(vertex, came_from):
            yield vertex, child
            pending.append((child, vertex))


def join_tree(rings: dict[Address, Ring], meeting: Address, members: list[Address]) -> list[tuple[int, int]]:
    """As Scribe has it: members route towards the meeting point until they come to a node of the tree."""
    parents: dict[Address, Address] = {}
    for member in members:
        here = member
        while here != meeting and here not in parents:
            hop = rings[here].next_hop(meeting)
            assert hop is not None
            parents[here] = hop
            here = hop
    return [(parent, child) for child, parent in parents.items()]


def gain(below: Underlay, root: Address, links: list[tuple[int, int]], members: list[Address]) -> float:
    """Equation 4.4: the share of physical hops that the tree saves over sending from the root to each."""
    multicast = sum(len(below.path(*link)) for link in links)
    unicast = sum(len(below.path(root, member)) for member in members)
    return 1 - multicast / unicast if unicast else 0.0


def _stretch(below: Underlay, rings: dict[Address, Ring], random: np.random.Generator) -> Row:
    """Delay over the ring by direct delay: to nodes, as any Chord application, and to vertices, as HOPE."""
    dimension = rings[0].circle.bits
    cubes = Cubes((dimension,), Circle(dimension), mirrored=True)
    stretches: dict[str, list[float]] = {"stretch_chord": [], "stretch": []}
    for name, found in stretches.items():
        while len(found) < PAIRS:
            start, end = map(int, random.integers(len(rings), size=2))
            key = end if name == "stretch_chord" else cubes.position(CubeVertex(end))
            if start != key:
                found.append(_way(below, rings, start, key) / below.length(start, key))
    return {name: fmean(found) for name, found in stretches.items()}


def _way(below: Underlay, rings: dict[Address, Ring], here: Address, key: int) -> float:
    length = 0.0
    while (hop := rings[here].next_hop(key)) is not None:
        length += below.length(here, hop)
        here = hop
    return length


class PublicationCopy(NamedTuple):
    """A publication sent to one covered key."""

    event: Event


class LinkBytes(Observer):
    """Bytes by link of what follows from one call at a node."""

    def __init__(self, world: Simulator) -> None:
        self._world = world
        self._links: Counter[tuple[Address, Address]] = Counter()
        world.observe(self)

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None:
        """Add the bytes of a message to its link."""
        self._links[sender, to] += size_of(message)

    def of(self, at: Address, action: Callable[[], None]) -> list[int]:
        """The bytes on each link that was used; [0] when there is none."""
        self._links.clear()
        self._world.call(at, action)
        self._world.run()
        return list(self._links.values()) or [0]


def run_kbpp(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Publications of one saturation through KBPP's nodes, and one by one through the ring."""
    nodes = int(point["nodes"])
    dimension = fitting_dimension(nodes)
    world = Simulator(1, ConstantLatency(0.05))
    counted = LinkBytes(world)
    brokers = {
        address: Kbpp(Ring(Node(address), Circle(dimension), rule=ONE_WAY), Addressing(dimension, 0))
        for address in range(nodes)
    }
    for broker in brokers.values():
        broker.ring.listen(PublicationCopy, lambda copy, arrival: None)
        world.add(broker.node)
    settle([broker.ring for broker in brokers.values()])
    for number in range(int(point["publications"])):
        weight = round(float(point["saturation"]) * dimension)
        bits = random.choice(dimension, weight, replace=False)
        event = Event(f"e{number}", attributes={"content": "x" * MESSAGE})  # documents leave the tree
        start = brokers[int(random.integers(nodes))]
        yield _publish(brokers, counted, event, int((1 << bits).sum()), start)


def _publish(brokers: dict[Address, Kbpp], counted: LinkBytes, event: Event, key: int, start: Kbpp) -> Row:
    """Send an event as if it had a key: from some node by the tree, from its vertex one by one."""
    position = start.cubes.position(CubeVertex(key))
    meeting = brokers[position]

    def one_by_one() -> None:
        for covered in covered_keys(key):
            meeting.ring.route(meeting.cubes.position(CubeVertex(covered)), PublicationCopy(event))

    by_tree = counted.of(start.node.address, lambda: start.ring.route(position, XmlPublication(event, 0)))
    copy = size_of(DirectMessage((position,), XmlPublication(event, 0, (), key)))
    return {
        "traffic": sum(by_tree),
        "traffic_flooding": (len(brokers) - 1) * copy,
        "busiest_link": max(by_tree),
        "busiest_link_without": max(counted.of(position, one_by_one)),
    }


# Checks.


def check_stress(rows: Rows) -> Verdict:
    """Figure 4.7: more nodes, more stress; fuller keys, more stress."""
    stress = {each: means(rows, "stress", by="nodes", saturation=each) for each in SATURATIONS}
    by_saturation = zip(*(values.values() for values in stress.values()), strict=True)
    told = named(stress, lambda values: listed(values, shown), separator="; ")
    return Verdict.of(
        all(words.rises(values) for values in stress.values())
        and all(words.rises(values) for values in by_saturation),
        ours=f"{listed((max(each.values()) for each in stress.values()), shown)} at the most nodes",
        reason=f"Copies on a used physical link, by saturation and nodes: {told}.",
    )


def check_stretch(rows: Rows) -> Verdict:
    """Figure 4.8: that of Chord, and almost flat."""
    ours, chord = (means(rows, name, by="nodes") for name in ("stretch", "stretch_chord"))
    ratio = fmean(ours.values()) / fmean(chord.values())
    same = all(words.near(ours[nodes], chord[nodes]) for nodes in ours)
    return Verdict.of(
        same and words.flat(ours),
        ours=f"{ratio:.2f} of Chord's; {listed(ours, shown)} at {listed(list(ours))} nodes",
        ratio=ratio,
        reason="Ways to vertices and ways to nodes are drawn apart; both are routes of the same ring, so "
        "equality says no more than that vertices are no further away than nodes. Both grow with the "
        "path, which is half the logarithm of the nodes, and that is not flat.",
    )


def check_gain(rows: Rows) -> Verdict:
    """Figure 4.9: falls, and is almost that of Scribe."""
    half = select(rows, saturation=0.5)
    ours, scribe = (means(half, name, by="nodes") for name in ("gain", "gain_scribe"))
    distinct = mean(half, "gain_distinct")
    alike = all(words.near(1 - ours[nodes], 1 - scribe[nodes]) for nodes in ours)
    return Verdict.of(
        words.falls(ours) and alike,
        ours=f"{listed(ours, '{:.2f}')}, Scribe-like {listed(scribe, '{:.2f}')} at {listed([*ours])} nodes",
        reason="Compared is what is left, 1 - gain. Every node of our tree is a receiver and each link leads "
        "to one that is as far away as any other, so a tree on nodes placed at random saves nothing in hops: "
        "it spares the root, not the network. Counting each physical link once, however many copies cross "
        f"it, {distinct:.2f} are saved. A Scribe-like tree also runs over nodes that are no members.",
    )


def check_kbpp(rows: Rows) -> Verdict:
    """Figure 4.10: exponential, and below flooding at every saturation."""
    traffic, flooding = means(rows, "traffic", by="saturation"), mean(rows, "traffic_flooding")
    worst = max(traffic.values()) / flooding
    return Verdict.of(
        words.exponential(traffic) and worst < 1,
        ours=f"{worst:.3f} of flooding at {max(traffic):.0%}",
        ratio=worst,
        reason=f"KB a publication by saturation: {listed(traffic, lambda sent: shown(sent / 1000))}; "
        f"flooding takes {shown(flooding / 1000)}.",
    )


def check_busiest(rows: Rows) -> Verdict:
    """Figure 4.11: without the tree the busiest link carries orders of magnitude more."""
    with_tree, without = (
        means(rows, name, by="saturation") for name in ("busiest_link", "busiest_link_without")
    )
    last = max(without)
    times = without[last] / with_tree[last]
    return Verdict.of(
        words.orders_of_magnitude(with_tree[last], without[last]),
        ours=f"{times:.0f} times as much without the tree at {last:.0%}",
        reason=f"By saturation {listed({each: without[each] / with_tree[each] for each in without}, shown)} "
        "times. With the tree no link carries a publication twice, at any saturation, where the thesis has "
        "it grow; one by one, half of all copies leave over the same finger.",
    )


by_nodes = partial(Plot, x="nodes", series="saturation", log_x=True)
GAINS = ("gain", "gain_scribe", "gain_distinct")
by_saturation = partial(Plot, x="saturation", y_label="bytes", log_y=True)

EXPERIMENTS = (
    Experiment(
        name="hope-multicast",
        title="Stress, stretch and gain of the hypercube's trees",
        grid=grid(nodes=[16, 64, 256, 1024, 4096], saturation=list(SATURATIONS)),
        quick=grid(nodes=[16, 64, 256], saturation=list(SATURATIONS)),
        run=run,
        answers={
            "001-fig4.7": answer(check_stress, by_nodes("Link stress", y="stress", y_label="copies a link")),
            "001-fig4.8": answer(
                check_stretch,
                by_nodes("Link stretch", y=("stretch", "stretch_chord"), y_label="delay by direct delay"),
            ),
            "001-fig4.9": answer(
                check_gain,
                by_nodes("Gain over unicast", y=GAINS, y_label="share of hops saved"),
            ),
        },
        measured=("stress", "stretch", "stretch_chord", "gain", "gain_scribe", "gain_distinct"),
        runs=Runs.MODEL,
        open_parameters=(
            OpenParameter(
                "the network below",
                "transit-stub, 400 routers",
                "the thesis names its simulator and not the topology; a common one of it was drawn",
                after=False,
            ),
            OpenParameter(
                "what a multicast link of Equation 4.4 is",
                "every crossing of a physical link",
                "the thesis explains the fall by overlapping links, which raise the number",
                after=True,
                effect="counting each physical link once, gains are above 0 and do not fall",
            ),
        ),
        deviation="The internetwork is drawn: transit-stub, 400 routers, as many nodes at each as it takes.",
    ),
    Experiment(
        name="hope-kbpp",
        title="Traffic of KBPP by saturation",
        grid=grid(nodes=[2048], saturation=[0.1, 0.2, 0.3, 0.4, 0.5, 0.6], publications=[20]),
        quick=grid(nodes=[256], saturation=[0.2, 0.4, 0.6], publications=[5]),
        run=run_kbpp,
        answers={
            "001-fig4.10": answer(
                check_kbpp, by_saturation("Bytes a publication", y=("traffic", "traffic_flooding"))
            ),
            "001-fig4.11": answer(
                check_busiest,
                by_saturation("Bytes on the busiest link", y=("busiest_link", "busiest_link_without")),
            ),
        },
        measured=("traffic", "traffic_flooding", "busiest_link", "busiest_link_without"),
        runs=Runs.NODES,
        deviation="Flooding is one copy to every other node. Keys are drawn, not made from documents.",
    ),
)
