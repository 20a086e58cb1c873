"""Beyond 004: what it leaves out of order-preserving placement, the small-domain problem and load balance.

Section 4.3 names both and solves neither. A small domain on a large ring: between two values lie nodes that
store nothing, and a walk passes them all. Skew: values that many ask for lie side by side, and so does their
load. `Arcs` is our answer to both; it is compared with the paper's two hashes on the same events and
subscriptions, in the same run, with the placement made by the system's own protocol from what its nodes saw.
"""

from __future__ import annotations

from math import log2
from statistics import fmean

import numpy as np

from distributary.model import Event, Subscription
from distributary.overlay.ring.fingers import BOTH_WAYS
from distributary.systems.attributes.schema import NumberAttribute, Schema
from distributary_lab.attributes.ring import AttributeRing
from distributary_lab.claims import Claim
from distributary_lab.experiment import Answer, Experiment, Plot, Point, Row, Rows, Verdict, grid
from distributary_lab.rows import gini, mean, number, select

LEVELS, RANGE = 16, 8
"""A domain of 16 values, and ranges of 8."""

CELLS = 1000
CENTRE = 300
"""Values in all, and the one that is asked for most."""

BALANCED = "arcs"
PLACEMENTS = ["Chord", "OPChord", BALANCED]


# The small domain


def run_small(point: Point, random: np.random.Generator) -> list[Row]:
    """Store ranges of a small domain, and count."""
    nodes = int(point["nodes"])
    schema = Schema((NumberAttribute("level", 0, LEVELS - 1),))
    ring = AttributeRing(
        schema,
        nodes,
        int(random.integers(2**31)),
        placement=str(point["placement"]),
        rule=BOTH_WAYS,
        match="narrowest",
    )
    hops = []
    for trial in range(20):
        low = int(random.integers(0, LEVELS - RANGE + 1))
        where = f"level between {low} and {low + RANGE - 1}"
        at = ring.addresses[random.integers(nodes)]
        hops.append(ring.subscribe(Subscription(f"s{trial}", "client", where=where), at))
    return [{"hops": fmean(hops), "OPChord's formula": log2(nodes) / 2 + RANGE}]


def check_small(rows: Rows) -> Verdict:
    """Ours stays at the formula while the walk grows with the ring."""
    largest = int(max(number(row, "nodes") for row in rows))
    hops = {
        name: mean(rows, "hops", nodes=largest, placement=name)
        for name in ("Chord", "OPChord", "OPChord, jumping", BALANCED)
    }
    formula = log2(largest) / 2 + RANGE
    return Verdict.of(
        hops[BALANCED] <= formula and hops[BALANCED] < hops["OPChord, jumping"] < hops["OPChord"],
        ours=f"{RANGE} of {LEVELS} values on {largest:,} nodes: "
        + ", ".join(f"{name} {value:.1f}" for name, value in hops.items()),
        ratio=hops[BALANCED] / hops["OPChord"],
        reason=f"The formula says {formula:.1f}. A walk passes {largest // LEVELS:,} nodes from one value to "
        "the next; a jump takes a route; arcs put the next value on the next node.",
    )


# Skew


def run_skew(point: Point, random: np.random.Generator) -> list[Row]:
    """Subscribe and publish with values that many ask for, rebalance ours, and see who has what to do."""
    nodes, placement, skew = int(point["nodes"]), str(point["placement"]), float(point["skew"])
    schema = Schema((NumberAttribute("price", 0, CELLS - 1),))
    ring = AttributeRing(
        schema,
        nodes,
        int(random.integers(2**31)),
        placement="arcs, not yet balanced" if placement == BALANCED else placement,
        rule=BOTH_WAYS,
        match="narrowest",
    )
    for address in ring.addresses:
        ring.broker(address)
    weights = (1.0 + np.arange(CELLS)) ** -skew
    weights /= weights.sum()

    def value() -> int:
        away = int(random.choice(CELLS, p=weights)) * (1 if random.random() < 0.5 else -1)
        return (CENTRE + away) % CELLS

    def subscribe(name: str) -> int:
        low, width = value(), int(random.integers(1, 21))
        where = f"price between {low} and {min(low + width - 1, CELLS - 1)}"
        at = ring.addresses[random.integers(nodes)]
        return ring.subscribe(Subscription(name, "client", where=where), at)

    def publish(name: str) -> int:
        event = Event(name, attributes={"price": value()})
        return ring.publish(event, ring.addresses[random.integers(nodes)])

    for number_ in range(nodes):
        subscribe(f"early {number_}")
    for number_ in range(2 * nodes):
        publish(f"early event {number_}")
    moved = ring.rebalance("price", ring.addresses[0]) if placement == BALANCED else 0
    served = np.array([ring.brokers[address].served for address in ring.addresses])
    store = fmean(subscribe(f"late {number_}") for number_ in range(50))
    for number_ in range(4 * nodes):
        publish(f"event {number_}")
    lookups = np.array([ring.brokers[address].served for address in ring.addresses]) - served
    entries = np.array([ring.brokers[address].entries for address in ring.addresses])
    return [
        {
            "most lookups by mean": float(lookups.max() / lookups.mean()),
            "Gini of lookups": gini(lookups),
            "most entries by mean": float(entries.max() / entries.mean()),
            "Gini of entries": gini(entries),
            "store": store,
            "rebalancing messages a node": moved / nodes,
        }
    ]


MEASURES = ("most lookups by mean", "Gini of lookups", "most entries by mean", "Gini of entries")


def check_skew(rows: Rows) -> Verdict:
    """More even than OPChord in every measure wherever there is skew, and cheaper than Chord for ranges."""
    skewed = [row for row in rows if number(row, "skew") > 0]
    points = sorted({(int(number(row, "nodes")), number(row, "skew")) for row in skewed})
    worse = [
        f"{measure} at skew {skew:g} on {nodes} nodes"
        for nodes, skew in points
        for measure in MEASURES
        if mean(skewed, measure, nodes=nodes, skew=skew, placement=BALANCED)
        >= mean(skewed, measure, nodes=nodes, skew=skew, placement="OPChord")
    ]
    nodes, skew = points[-1]
    at = {name: select(skewed, nodes=nodes, skew=skew, placement=name) for name in PLACEMENTS}
    shown = "; ".join(
        f"{name}: most lookups {mean(found, MEASURES[0]):.1f} x mean, most entries "
        f"{mean(found, MEASURES[2]):.1f} x mean, {mean(found, 'store'):.0f} messages to store"
        for name, found in at.items()
    )
    cheap = all(
        mean(skewed, "store", nodes=nodes, skew=skew, placement=BALANCED)
        < mean(skewed, "store", nodes=nodes, skew=skew, placement="Chord")
        for nodes, skew in points
    )
    return Verdict.of(
        not worse and cheap,
        ours=f"{nodes} nodes, skew {skew:g}: {shown}",
        ratio=mean(at[BALANCED], MEASURES[0]) / mean(at["OPChord"], MEASURES[0]),
        reason="Not better than OPChord: " + ", ".join(worse)
        if worse
        else f"Rebalancing took {mean(at[BALANCED], 'rebalancing messages a node'):.1f} messages a node, "
        "storing the subscriptions once more included.",
    )


def _by_skew(title: str, column: str, about: str = "") -> Plot:
    return Plot(title, x="skew", y=column, series=("placement", "nodes"), y_label=column, about=about)


SMALL = Claim(
    "beyond-small-domain",
    "a range of a domain much smaller than the ring costs a message a value, not a walk past empty nodes",
    "named in 004 section 4.3, not solved there",
)
SKEW = Claim(
    "beyond-balanced-order",
    "order-preserving placement can be balanced under skew, with ranges still cheap",
    "named in 004 section 4.3, not solved there",
)

EXPERIMENTS = (
    Experiment(
        name="attributes-small-domain",
        title="Ranges of a small domain on a large ring",
        grid=grid(
            nodes=[2**power for power in range(4, 15)],
            placement=["Chord", "OPChord", "OPChord, jumping", BALANCED],
        ),
        quick=grid(
            nodes=[2**power for power in (4, 6, 8, 10)],
            placement=["Chord", "OPChord", "OPChord, jumping", BALANCED],
        ),
        run=run_small,
        answers={
            SMALL.id: Answer(
                check_small,
                plots=(
                    Plot(
                        f"Messages to store {RANGE} of {LEVELS} values",
                        x="nodes",
                        y="hops",
                        series="placement",
                        log_x=True,
                        log_y=True,
                        y_label="messages",
                        about="OPChord walks past ever more nodes that hold no value.",
                    ),
                ),
                claim=SMALL,
            )
        },
    ),
    Experiment(
        name="attributes-balance",
        title="Load by value under skew",
        grid=grid(nodes=[64, 256, 1024], skew=[0.0, 0.5, 1.0, 1.5], placement=PLACEMENTS),
        quick=grid(nodes=[64], skew=[0.0, 0.7, 1.2], placement=PLACEMENTS),
        run=run_skew,
        answers={
            SKEW.id: Answer(
                check_skew,
                plots=(
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
                ),
                claim=SKEW,
            )
        },
        deviation="Values follow Zipf's law by their distance from one value: popular ones are neighbours.",
    ),
)
