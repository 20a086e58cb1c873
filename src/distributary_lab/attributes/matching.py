"""What storing, updating and matching cost on a ring: the formulas of 004 sections 3.3 and 4.1, measured.

Every message is counted, on rings at rest of 16 to 16,384 nodes; those of the paper have Chord's one-way
fingers, ours has both ways. The domain has as many values as there are nodes, which is what the formula for
OPChord takes for granted: with fewer values than nodes its walk is longer (see `attributes.load`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from math import log2
from statistics import fmean

import numpy as np

from distributary.model import Event, Subscription
from distributary.overlay.ring.fingers import BOTH_WAYS, ONE_WAY
from distributary_lab.attributes.ring import AttributeRing, domain
from distributary_lab.experiment import Experiment, Plot, Point, Row, Rows, Verdict, answer, grid, seed_from
from distributary_lab.rows import largest, mean, named, numbers, select

WITHIN = 0.2
"""A mean may be a fifth off its formula, or a hop a route above it: formulas drop constants."""

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


def run_store(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Store ranges from random nodes, and count."""
    nodes, ring = int(point["nodes"]), made(point, random)
    path = log2(nodes) / 2
    for values in (count for count in VALUES if count * 3 <= nodes):
        hops = []
        for trial in range(max(20, 160 // values)):
            low = int(random.integers(0, nodes - values + 1))
            at = ring.addresses[random.integers(nodes)]
            hops.append(ring.subscribe(between(f"{values} values {trial}", low, values), at))
        scattered = point["placement"] == "Chord"
        formula = values * path if scattered else path + values
        routes = values if scattered else 1
        yield {"values": values, "hops": fmean(hops), "formula": formula, "routes": routes}


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
        formula = changed * log2(nodes)
        yield {"changed": changed, "hops": fmean(hops), "formula": formula, "routes": 2 * changed}


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
            "formula": count * log2(nodes) / 2,
            "routes": count,
        }


# Checks


def agrees(rows: Rows, column: str) -> tuple[bool, str]:
    """Whether a column follows its formula in every row, and by what ratios."""
    measured, formulas, routes = (numbers(rows, each) for each in (column, "formula", "routes"))
    follows = all(
        (1 - WITHIN) * formula <= found <= formula + max(WITHIN * formula, hops)
        for found, formula, hops in zip(measured, formulas, routes, strict=True)
    )
    ratios = [found / formula for found, formula in zip(measured, formulas, strict=True)]
    return follows, f"{min(ratios):.2f} to {max(ratios):.2f}"


def check_store(rows: Rows) -> Verdict:
    """Chord and OPChord as their formulas say, for every size and range."""
    (chord, by_chord), (ordered, by_ordered) = (
        agrees(select(rows, placement=name), "hops") for name in ("Chord", "OPChord")
    )
    most, widest = largest(rows, "nodes"), largest(rows, "values")
    hops = {name: mean(rows, "hops", placement=name, nodes=most, values=widest) for name in PLACEMENTS}
    return Verdict.of(
        chord and ordered,
        ours=f"{widest} values on {most:,} nodes: {named(hops, '{:.0f}')} hops",
        ratio=hops["Chord"] / (widest * log2(most) / 2),
        reason=f"Measured by formula: Chord {by_chord}, OPChord {by_ordered}; a route takes up to a hop more "
        "than half the logarithm. The 3-bit example takes 6 hops with Chord and 4 with OPChord, as in "
        "Figures 6 and 7 (tests/systems/attributes/test_attributes.py).",
    )


def check_update(rows: Rows) -> Verdict:
    """Chord as the formula says; k is the number of values that only one of the two ranges has, halved."""
    follows, ratios = agrees(select(rows, placement="Chord"), "hops")
    most = largest(rows, "nodes")
    equality = mean(rows, "hops", placement="Chord", nodes=most, changed=1)
    return Verdict.of(
        follows,
        ours=f"equality on {most:,} nodes: {equality:.1f} hops, formula {log2(most):.0f}",
        ratio=equality / log2(most),
        reason=f"Measured by formula {ratios}, with k the values by which a range moved: each is dropped at "
        "one end and stored at the other.",
    )


def check_match(rows: Rows) -> Verdict:
    """The nodes asked, as the formula says."""
    follows, ratios = agrees(select(rows, matching="counting"), "asked")
    most, widest = largest(rows, "nodes"), largest(rows, "attributes")
    asked = mean(rows, "asked", matching="counting", nodes=most, attributes=widest)
    formula = widest * log2(most) / 2
    return Verdict.of(
        follows,
        ours=f"{widest} attributes on {most:,} nodes: {asked:.1f} nodes, formula {formula:.0f}",
        ratio=asked / formula,
        reason=f"Measured by formula {ratios}. The lists come back by one more message an attribute, which "
        "the formula does not count.",
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

EXPERIMENTS = (
    Experiment(
        name="attributes-store",
        title="Storing a range of values on Chord and on OPChord",
        grid=grid(nodes=SIZES, placement=PLACEMENTS),
        quick=grid(nodes=QUICK, placement=PLACEMENTS),
        run=run_store,
        answers={"004-store": answer(check_store, *STORE)},
        deviation="The domain has as many values as there are nodes, with random identifiers.",
    ),
    Experiment(
        name="attributes-update",
        title="Updating equalities and ranges",
        grid=grid(nodes=SIZES, placement=PLACEMENTS),
        quick=grid(nodes=QUICK, placement=PLACEMENTS),
        run=run_update,
        answers={"004-update": answer(check_update, *UPDATE)},
        deviation="Ranges are twice as wide as they move.",
    ),
    Experiment(
        name="attributes-match",
        title="Collecting the lists of an event's values",
        grid=grid(nodes=SIZES, matching=MATCHINGS),
        quick=grid(nodes=QUICK, matching=MATCHINGS),
        run=run_match,
        answers={
            "004-match": answer(check_match, ASKED),
            "beyond-narrowest-list": answer(check_narrowest, *NARROWEST),
        },
    ),
)
