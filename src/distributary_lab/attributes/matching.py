"""What storing, updating and matching cost on a ring: the formulas of 004 sections 3.3 and 4.1, measured.

Every message to the owner of a key is a hop, as the paper counts in its example of Figures 6 and 7 (eight
nodes, measured too). Rings are at rest and have 16 to 16,384 nodes; those of the paper have Chord's one-way
fingers, ours has both ways. The domain has as many values as there are nodes, which is what the formula for
OPChord takes for granted: with fewer values than nodes its walk is longer (see `attributes.load`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from math import log2
from statistics import fmean
from typing import ClassVar

import numpy as np

from distributary.model import Event, Subscription
from distributary.overlay.node import Address, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import BOTH_WAYS, ONE_WAY
from distributary.overlay.ring.placement import OrderedPlacement, ScatteredPlacement
from distributary.overlay.ring.ring import Ring, settle
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Simulator
from distributary.systems.attributes.broker import AttributeBroker
from distributary_lab import words
from distributary_lab.attributes.ring import AttributeRing, domain
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
from distributary_lab.rows import labelled, largest, listed, mean, means, named, select

PAPER_EXAMPLE, PAPER_EXAMPLE_HOPS = 8, 6
"""Nodes of the ring of Figures 6 and 7, and the hops to store three values on it with Chord."""

SIZES = [2**power for power in range(4, 15)]
QUICK = [2**power for power in (4, 6, 8, 10)]
PLACEMENTS = ["Chord", "OPChord", "arcs"]
MATCHINGS = ["counting", "counting, both ways", "narrowest"]
VALUES = (4, 16, 64)
CHANGED = (1, 4, 16)


def made(point: Point, random: np.random.Generator) -> AttributeRing:
    """A ring with a value for each node; ours goes both ways, as it does unless told otherwise."""
    nodes, placement = int(point["nodes"]), str(point["placement"])
    rule = BOTH_WAYS if placement == "arcs" else ONE_WAY
    seed = seed_from(random)
    return AttributeRing(domain(nodes, "a"), nodes, seed, placement=placement, rule=rule, match="counting")


def between(name: str, low: int, count: int) -> Subscription:
    """A subscription to so many values of the attribute `a`, from the lowest on."""
    return Subscription(name, "client", where=f"a between {low} and {low + count - 1}")


class FigureSix(ScatteredPlacement):
    """The hash of Figure 6, which says where three values belong."""

    KEYS: ClassVar = {1: 6, 2: 2, 3: 4}

    def key(self, cell: int, choice: int) -> int:
        """As in the figure."""
        return self.KEYS[cell]


class FigureSeven(OrderedPlacement):
    """The order-preserving hash of Figure 7, for a name that hashes to 5."""

    def key(self, cell: int, choice: int) -> int:
        """The hash, turned so that the name is at 5."""
        return self.circle.add(super().key(cell, choice), 5 - self.circle.hash(self.axis.name))


def example(placement: str) -> Iterator[Row]:
    """Figures 6 and 7: a subscription to three values arrives at node 3 of eight."""
    if placement not in ("Chord", "OPChord"):
        return
    place = FigureSix if placement == "Chord" else FigureSeven

    def make(address: Address) -> AttributeBroker:
        ring = Ring(Node(address), Circle(3), rule=ONE_WAY)
        return AttributeBroker(ring, domain(9, "a"), placement=place, match="counting")

    deployment = Deployment(Simulator(1, ConstantLatency(1.0)), make, sizes=False)
    brokers = [deployment.add(address) for address in range(PAPER_EXAMPLE)]
    settle([broker.ring for broker in brokers if isinstance(broker, AttributeBroker)])
    deployment.subscribe(Subscription("s", "client", where="a > 0 and a < 4"), at=3)
    deployment.simulator.run()
    yield {"values": 3, "hops": deployment.costs()["subscribe"].messages}


def run_store(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Store ranges from random nodes, and count."""
    if point["nodes"] == PAPER_EXAMPLE:
        yield from example(str(point["placement"]))
        return
    nodes, ring = int(point["nodes"]), made(point, random)
    for values in (count for count in VALUES if count * 3 <= nodes):
        hops = []
        for trial in range(max(20, 160 // values)):
            low = int(random.integers(0, nodes - values + 1))
            at = ring.addresses[random.integers(nodes)]
            hops.append(ring.subscribe(between(f"{values} values {trial}", low, values), at))
        formula = store_formula(nodes, values, str(point["placement"]))
        yield {"values": values, "hops": fmean(hops), "formula": formula}


def run_update(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Move ranges by some values, or equalities to another value, and count."""
    nodes, ring = int(point["nodes"]), made(point, random)
    for changed in (count for count in CHANGED if count * 3 <= nodes):
        width = 1 if changed == 1 else 2 * changed
        hops = []
        for trial in range(max(10, 80 // changed)):
            low = int(random.integers(0, nodes - width - changed + 1))
            at = ring.addresses[random.integers(nodes)]
            name = f"{changed} values {trial}"
            ring.subscribe(between(name, low, width), at)
            hops.append(ring.subscribe(between(name, low + changed, width), at, ("update", name)))
        yield {"changed": changed, "hops": fmean(hops), "formula": update_formula(nodes, changed)}


def run_match(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Publish events with some attributes, and count who is asked; store subscriptions to as many."""
    nodes, matching = int(point["nodes"]), str(point["matching"])
    names = [f"a{number}" for number in range(10)]
    rule = ONE_WAY if matching == "counting" else BOTH_WAYS
    seed, match = seed_from(random), matching.partition(",")[0]
    ring = AttributeRing(domain(nodes, *names), nodes, seed, placement="Chord", rule=rule, match=match)
    for count in (1, 2, 5, 10):
        asked, messages, stored = [], [], []
        for trial in range(100):
            values = {name: int(random.integers(nodes)) for name in names[:count]}
            event = Event(f"{count} attributes {trial}", attributes=values)
            messages.append(ring.publish(event, ring.addresses[random.integers(nodes)]))
            asked.append(ring.routed(event.id))
        for trial in range(20):
            where = " and ".join(f"{name} = {random.integers(nodes)}" for name in names[:count])
            subscription = Subscription(f"{count} conditions {trial}", "client", where=where)
            stored.append(ring.subscribe(subscription, ring.addresses[random.integers(nodes)]))
        yield {
            "attributes": count,
            "asked": fmean(asked),
            "messages": fmean(messages),
            "store": fmean(stored),
            "formula": match_formula(nodes, count),
        }


# Formulas


def store_formula(nodes: int, values: int, placement: str) -> float:
    """Section 3.3: a route for each value; section 4.1: a route, and a step for each value."""
    path = log2(nodes) / 2
    return values * path if placement == "Chord" else path + values


def update_formula(nodes: int, changed: int) -> float:
    """Section 3.3, with k the values by which a range moved."""
    return changed * log2(nodes)


def match_formula(nodes: int, attributes: int) -> float:
    """Section 3.3: a route for each attribute of the event."""
    return attributes * log2(nodes) / 2


# Checks


def agrees(rows: Rows, column: str, by: str, formula: Callable[[int, int], float]) -> tuple[bool, str]:
    """Whether a column is near its formula on the largest ring and as given on all, and by what ratios."""
    ratios: dict[int, list[float]] = {}
    for nodes in labelled(rows, "nodes"):
        measured = means(rows, column, by=by, nodes=nodes)
        ratios[nodes] = [found / formula(nodes, count) for count, found in measured.items()]
    close = all(words.near(ratio, 1) for ratio in ratios[max(ratios)])
    everywhere = [ratio for each in ratios.values() for ratio in each]
    told = f"{min(everywhere):.2f} to {max(everywhere):.2f}, {listed(ratios[max(ratios)], '{:.2f}')} at most"
    return close and all(words.as_given(ratio, 1) for ratio in everywhere), f"{told} nodes"


ONE_MORE = " A route ends with a message to the owner, about one hop more than half the logarithm."


def check_store(rows: Rows) -> Verdict:
    """Chord and OPChord as their formulas say, and as in Figures 6 and 7."""
    found, examples = {}, {}
    for name in ("Chord", "OPChord"):
        formula = partial(store_formula, placement=name)
        own = select(rows, placement=name)
        large = [row for row in own if row["nodes"] != PAPER_EXAMPLE]
        found[name] = agrees(large, "hops", "values", formula)
        examples[name] = mean(own, "hops", nodes=PAPER_EXAMPLE)
    most = largest(rows, "nodes")
    widest = max(labelled(rows, "values", nodes=most))
    hops = {name: mean(rows, "hops", placement=name, nodes=most, values=widest) for name in found}
    as_drawn = examples["Chord"] == PAPER_EXAMPLE_HOPS and examples["OPChord"] < examples["Chord"]
    return Verdict.of(
        as_drawn and all(follows for follows, _ in found.values()),
        ours=f"{widest} values on {most:,} nodes: {named(hops, '{:.0f}')} hops; the example of eight nodes: "
        f"{named(examples, '{:.0f}')}",
        ratio=hops["Chord"] / store_formula(most, widest, "Chord"),
        reason="Measured by formula: "
        + "; ".join(f"{name} {told}" for name, (_, told) in found.items())
        + f".{ONE_MORE}",
    )


def check_update(rows: Rows) -> Verdict:
    """Chord as the formula says; k is the number of values that only one of the two ranges has, halved."""
    follows, ratios = agrees(select(rows, placement="Chord"), "hops", "changed", update_formula)
    most = largest(rows, "nodes")
    equality = mean(rows, "hops", placement="Chord", nodes=most, changed=1)
    return Verdict.of(
        follows,
        ours=f"equality on {most:,} nodes: {equality:.1f} hops, formula {update_formula(most, 1):.0f}",
        ratio=equality / update_formula(most, 1),
        reason=f"Measured by formula {ratios}, with k the values by which a range moved: each is dropped at "
        f"one end and stored at the other.{ONE_MORE}",
    )


def check_match(rows: Rows) -> Verdict:
    """The nodes contacted, as the formula says."""
    follows, ratios = agrees(select(rows, matching="counting"), "asked", "attributes", match_formula)
    most, widest = largest(rows, "nodes"), largest(rows, "attributes")
    asked = mean(rows, "asked", matching="counting", nodes=most, attributes=widest)
    formula = match_formula(most, widest)
    return Verdict.of(
        follows,
        ours=f"{widest} attributes on {most:,} nodes: {asked:.1f} nodes, formula {formula:.0f}",
        ratio=asked / formula,
        reason=f"Measured by formula {ratios}.{ONE_MORE} The lists come back by one more message an "
        "attribute, which the formula does not count.",
    )


def check_narrowest(rows: Rows) -> Verdict:
    """Never more messages than counting on the same ring, and fewer where there are several attributes."""
    points = sorted({(int(row["nodes"]), int(row["attributes"])) for row in rows})
    publish, store = (
        [
            mean(rows, column, matching="narrowest", nodes=nodes, attributes=count)
            / mean(rows, column, matching="counting, both ways", nodes=nodes, attributes=count)
            for nodes, count in points
            if count > 1
        ]
        for column in ("messages", "store")
    )
    return Verdict.of(
        max(publish) < 1 and max(store) < 1,
        ours=f"messages by those of counting: publish {min(publish):.2f} to {max(publish):.2f}, "
        f"store {min(store):.2f} to {max(store):.2f}",
        ratio=fmean(publish),
        reason="On the same bi-directional ring, for 2 to 10 attributes.",
    )


by_nodes = partial(Plot, x="nodes", log_x=True, y_label="messages")


def _against_formula(title: str, column: str, placement: str, about: str) -> Plot:
    where = {"placement": placement}
    return by_nodes(title, y=("hops", "formula"), series=column, where=where, about=about)


ARCS_KEEP = "Ours, beside the formula for OPChord: order is kept, and so is the cost."
BOTH_ENDS = "Both ends are routed to once and walked from there."
LOST_AND_GAINED = "Chord: values that a range loses and gains"
STORE = (
    _against_formula("Chord: a route for each value", "values", "Chord", "r x 1/2 log2 N"),
    _against_formula("OPChord: a route and a walk", "values", "OPChord", "1/2 log2 N + r: flat in N"),
    _against_formula("Arcs: one message that divides", "values", "arcs", ARCS_KEEP),
)
UPDATE = (
    _against_formula(LOST_AND_GAINED, "changed", "Chord", "k log2 N; one value is an equality."),
    _against_formula("OPChord, against the same formula", "changed", "OPChord", BOTH_ENDS),
)
by_attributes = partial(by_nodes, y=("asked", "formula"), series="attributes", where={"matching": "counting"})
ASKED = by_attributes("Nodes asked for the lists of an event", about="attributes x 1/2 log2 N")
by_matching = partial(by_nodes, series="matching", where={"attributes": 5})
NARROWEST = (
    by_matching(
        "All messages of an event with 5 attributes that nobody wants",
        y="messages",
        about="Ours (narrowest) goes to all values by one message that divides, and needs no lists sent "
        "back.",
    ),
    by_matching(
        "Messages to store a subscription to 5 values of 5 attributes",
        y="store",
        about="Ours stores it once.",
    ),
)

DOMAIN = OpenParameter(
    "values of an attribute",
    "as many as nodes",
    "the formula for OPChord takes a step a value for granted, which needs as many values as nodes",
    after=False,
    effect="with fewer values OPChord's walk passes nodes that hold none (beyond-small-domain)",
)

EXPERIMENTS = (
    Experiment(
        name="attributes-store",
        title="Storing a range of values on Chord and on OPChord",
        grid=grid(nodes=[PAPER_EXAMPLE, *SIZES], placement=PLACEMENTS),
        quick=grid(nodes=[PAPER_EXAMPLE, *QUICK], placement=PLACEMENTS),
        run=run_store,
        answers={"004-store": answer(check_store, *STORE)},
        measured=("hops",),
        labels=("values",),
        ours={"placement": ("arcs",)},
        runs=Runs.NODES,
        open_parameters=(DOMAIN,),
        deviation="The domain has as many values as there are nodes, with random identifiers.",
    ),
    Experiment(
        name="attributes-update",
        title="Updating equalities and ranges",
        grid=grid(nodes=SIZES, placement=PLACEMENTS),
        quick=grid(nodes=QUICK, placement=PLACEMENTS),
        run=run_update,
        answers={"004-update": answer(check_update, *UPDATE)},
        measured=("hops",),
        labels=("changed",),
        ours={"placement": ("arcs",)},
        runs=Runs.NODES,
        open_parameters=(
            DOMAIN,
            OpenParameter(
                "k of a moved range",
                "the values by which it moves",
                "each is dropped at one end and stored at the other, at 1/2 log N each",
                after=False,
            ),
        ),
        deviation="Ranges are twice as wide as they move.",
    ),
    Experiment(
        name="attributes-match",
        title="Collecting the lists of an event's values",
        grid=grid(nodes=SIZES, matching=MATCHINGS),
        quick=grid(nodes=QUICK, matching=MATCHINGS),
        run=run_match,
        measured=("asked", "messages", "store"),
        labels=("attributes",),
        ours={"matching": ("counting, both ways", "narrowest")},
        runs=Runs.NODES,
        open_parameters=(DOMAIN,),
        answers={
            "004-match": answer(check_match, ASKED),
            "beyond-narrowest-list": answer(check_narrowest, *NARROWEST),
        },
    ),
)
