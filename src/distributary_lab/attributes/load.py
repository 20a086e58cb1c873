"""Beyond 004: what it leaves out of order-preserving placement, the small-domain problem and load balance.

Section 4.3 names both and solves neither. A small domain on a large ring: between two values lie nodes that
store nothing, and a walk passes them all. Skew: values that many ask for lie side by side, and so does their
load. `Arcs` is our answer to both; it is compared with the paper's two hashes on the same events and
subscriptions, in the same run, with the placement made by the system's own protocol from what its nodes saw.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import log2
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from distributary.model import Event, Subscription
from distributary.overlay.ring.fingers import BOTH_WAYS
from distributary_lab.attributes.ring import AttributeRing, domain
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
from distributary_lab.rows import gini, largest, mean, named, select

LEVELS, RANGE = 16, 8
"""A domain of 16 values, and ranges of 8."""

CELLS = 1000
CENTRE = 300
"""Values in all, and the one that is asked for most."""

BALANCED = "arcs"
PLACEMENTS = ["Chord", "OPChord", BALANCED]
SMALL_PLACEMENTS = ["Chord", "OPChord", "OPChord, jumping", BALANCED]

ours = partial(AttributeRing, rule=BOTH_WAYS, match="narrowest")
"""A ring as our system has it: fingers both ways, a subscription in one list."""


# The small domain


def run_small(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Store ranges of a small domain, and count."""
    nodes, placement = int(point["nodes"]), str(point["placement"])
    ring = ours(domain(LEVELS, "level"), nodes, seed_from(random), placement=placement)
    hops = []
    for trial in range(20):
        low = int(random.integers(0, LEVELS - RANGE + 1))
        where = f"level between {low} and {low + RANGE - 1}"
        at = ring.addresses[random.integers(nodes)]
        hops.append(ring.subscribe(Subscription(f"s{trial}", "client", where=where), at))
    yield {"hops": fmean(hops), "OPChord's formula": walk_formula(nodes)}


def walk_formula(nodes: int) -> float:
    """Section 4.1 of 004: a route, and a step for each value."""
    return log2(nodes) / 2 + RANGE


def check_small(rows: Rows) -> Verdict:
    """Ours stays at the formula while the walk grows with the ring."""
    most = largest(rows, "nodes")
    hops = {name: mean(rows, "hops", nodes=most, placement=name) for name in SMALL_PLACEMENTS}
    formula = walk_formula(most)
    return Verdict.of(
        hops[BALANCED] <= formula and hops[BALANCED] < hops["OPChord, jumping"] < hops["OPChord"],
        ours=f"{RANGE} of {LEVELS} values on {most:,} nodes: {named(hops, '{:.1f}')}",
        ratio=hops[BALANCED] / hops["OPChord"],
        reason=f"The formula says {formula:.1f}. A walk passes {most // LEVELS:,} nodes from one value to "
        "the next; a jump takes a route; arcs put the next value on the next node.",
    )


# Skew


class SkewedLoad:
    """Subscriptions and events from random nodes, most of them about the values next to one."""

    def __init__(self, ring: AttributeRing, skew: float, random: np.random.Generator) -> None:
        self.ring, self.random = ring, random
        weights = (1.0 + np.arange(CELLS)) ** -skew
        self._weights = weights / weights.sum()

    def _value(self) -> int:
        away = int(self.random.choice(CELLS, p=self._weights)) * (1 if self.random.random() < 0.5 else -1)
        return (CENTRE + away) % CELLS

    def _node(self) -> int:
        return self.ring.addresses[self.random.integers(len(self.ring.addresses))]

    def subscribe(self, name: str) -> int:
        """Store a range of up to twenty values; how many messages that took."""
        low, width = self._value(), int(self.random.integers(1, 21))
        where = f"price between {low} and {min(low + width - 1, CELLS - 1)}"
        return self.ring.subscribe(Subscription(name, "client", where=where), self._node())

    def publish(self, name: str) -> None:
        """Publish one value."""
        event = Event(name, attributes={"price": self._value()})
        self.ring.publish(event, self._node())

    def loads(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """By node: lookups served so far, and entries kept."""
        brokers = list(map(self.ring.broker, self.ring.addresses))
        return np.array([each.served for each in brokers]), np.array([each.entries for each in brokers])


def run_skew(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Subscribe and publish with values that many ask for, rebalance ours, and see who has what to do."""
    nodes, balanced = int(point["nodes"]), point["placement"] == BALANCED
    placement = "arcs, not yet balanced" if balanced else str(point["placement"])
    ring = ours(domain(CELLS, "price"), nodes, seed_from(random), placement=placement)
    for address in ring.addresses:
        ring.broker(address)
    load = SkewedLoad(ring, float(point["skew"]), random)
    for each in range(nodes):
        load.subscribe(f"early {each}")
    for each in range(2 * nodes):
        load.publish(f"early event {each}")
    moved = ring.rebalance("price", ring.addresses[0]) if balanced else 0
    served, _ = load.loads()
    store = fmean(load.subscribe(f"late {each}") for each in range(50))
    for each in range(4 * nodes):
        load.publish(f"event {each}")
    lookups, entries = load.loads()
    lookups = lookups - served
    yield {
        "most lookups by mean": float(lookups.max() / lookups.mean()),
        "Gini of lookups": gini(lookups),
        "most entries by mean": float(entries.max() / entries.mean()),
        "Gini of entries": gini(entries),
        "store": store,
        "rebalancing messages a node": moved / nodes,
    }


MEASURES = ("most lookups by mean", "Gini of lookups", "most entries by mean", "Gini of entries")


def check_skew(rows: Rows) -> Verdict:
    """More even than OPChord in every measure wherever there is skew, and cheaper than Chord for ranges."""
    points = sorted({(int(row["nodes"]), float(row["skew"])) for row in rows if row["skew"]})
    at = {
        (nodes, skew, name): select(rows, nodes=nodes, skew=skew, placement=name)
        for nodes, skew in points
        for name in PLACEMENTS
    }
    worse = [
        f"{measure} at skew {skew:g} on {nodes} nodes"
        for nodes, skew in points
        for measure in MEASURES
        if mean(at[nodes, skew, BALANCED], measure) >= mean(at[nodes, skew, "OPChord"], measure)
    ]
    cheap = all(mean(at[*point, BALANCED], "store") < mean(at[*point, "Chord"], "store") for point in points)
    nodes, skew = points[-1]
    last = {name: at[nodes, skew, name] for name in PLACEMENTS}
    texts = "; ".join(
        f"{name}: most lookups {mean(found, MEASURES[0]):.1f} x mean, most entries "
        f"{mean(found, MEASURES[2]):.1f} x mean, {mean(found, 'store'):.0f} messages to store"
        for name, found in last.items()
    )
    return Verdict.of(
        not worse and cheap,
        ours=f"{nodes} nodes, skew {skew:g}: {texts}",
        ratio=mean(last[BALANCED], MEASURES[0]) / mean(last["OPChord"], MEASURES[0]),
        reason="Not better than OPChord: " + ", ".join(worse)
        if worse
        else f"Rebalancing took {mean(last[BALANCED], 'rebalancing messages a node'):.1f} messages a node, "
        "storing the subscriptions once more included.",
    )


def _by_skew(title: str, column: str, about: str = "") -> Plot:
    return Plot(title, x="skew", y=column, series=("placement", "nodes"), y_label=column, about=about)


by_nodes = partial(Plot, x="nodes", series="placement", log_x=True, log_y=True)
SMALL = by_nodes(
    f"Messages to store {RANGE} of {LEVELS} values",
    y="hops",
    y_label="messages",
    about="OPChord walks past ever more nodes that hold no value.",
)

EXPERIMENTS = (
    Experiment(
        name="attributes-small-domain",
        title="Ranges of a small domain on a large ring",
        grid=grid(nodes=[2**power for power in range(4, 15)], placement=SMALL_PLACEMENTS),
        quick=grid(nodes=[2**power for power in (4, 6, 8, 10)], placement=SMALL_PLACEMENTS),
        run=run_small,
        measured=("hops",),
        runs=Runs.NODES,
        answers={"beyond-small-domain": answer(check_small, SMALL)},
    ),
    Experiment(
        name="attributes-balance",
        title="Load by value under skew",
        grid=grid(nodes=[64, 256, 1024], skew=[0.0, 0.5, 1.0, 1.5], placement=PLACEMENTS),
        quick=grid(nodes=[64], skew=[0.0, 0.7, 1.2], placement=PLACEMENTS),
        run=run_skew,
        measured=(*MEASURES, "store", "rebalancing messages a node"),
        runs=Runs.NODES,
        answers={
            "beyond-balanced-order": answer(
                check_skew,
                _by_skew("Lookups of the busiest node by the mean", "most lookups by mean"),
                _by_skew("Inequality of lookups", "Gini of lookups"),
                _by_skew("Entries of the fullest node by the mean", "most entries by mean"),
                _by_skew("Inequality of entries", "Gini of entries"),
                _by_skew(
                    "Messages to store a range of 1 to 20 values",
                    "store",
                    "Where many ask, arcs are short: a range touches more of them, though never more "
                    "than it has values, save where a value is kept on several nodes.",
                ),
            )
        },
        deviation="Values follow Zipf's law by their distance from one value: popular ones are neighbours.",
    ),
)
