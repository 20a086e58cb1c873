"""How long the paths on a ring are: one way, both ways, and the shortest there are (002 Figure 3, 004).

Rings of random identifiers at rest, routed by `overlay.ring.static`, which takes the very hops that messages
take. Each node knows what the papers give it: fingers and its two neighbours, no longer list of successors.

A path is counted in messages to the owner of the key, as everywhere in the lab; that is how 004 counts in its
example. To the owner's predecessor, who can name the owner, it is one message less, counted beside.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

import numpy as np

from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import BOTH_WAYS, DOUBLE_TABLE, ONE_WAY, Rule
from distributary.overlay.ring.static import StaticRing
from distributary_lab import words
from distributary_lab.experiment import Experiment, Plot, Point, Row, Rows, Runs, Verdict, answer, grid
from distributary_lab.rows import curves, listed, means

CIRCLE = Circle(32)
QUERIES = 100_000
SOURCES = 4
"""Nodes from which the shortest paths to all others are measured."""

RULES: dict[str, Rule] = {
    "one way": ONE_WAY,
    "both ways": BOTH_WAYS,
    "both ways, table doubled": DOUBLE_TABLE,
}
SHORTEST_SAME, SHORTEST_DOUBLED = "shortest, both ways", "shortest, table doubled"
OPTIMUM = "log2(N) / 3"
"""What the paper takes for the optimum (section 4.1)."""

OWNER, PREDECESSOR, HALF = "to the owner", "to its predecessor", "log2(N) / 2"
LOOKUPS = (OWNER, PREDECESSOR, HALF)

FIGURE_3 = (100, 200, 400, 800, 1_600, 3_200)
BEYOND_FIGURE_3 = (10_000, 100_000, 1_000_000)


def run_routings(point: Point, random: np.random.Generator) -> list[Row]:
    """The mean path by every rule, over one ring and one set of queries, and the shortest paths."""
    nodes = int(point["nodes"])
    ring = StaticRing.random(nodes, CIRCLE, ONE_WAY, random)
    sources, keys = random.integers(nodes, size=QUERIES), random.integers(CIRCLE.size, size=QUERIES)
    starts = random.integers(nodes, size=SOURCES)
    found: dict[str, float] = {OPTIMUM: paper_optimum(nodes)}
    for routing, rule in RULES.items():
        ruled = StaticRing(ring.members, CIRCLE, rule, successor_count=1)
        found[routing] = float(ruled.hops(sources, keys).mean())
        if rule is not ONE_WAY:
            shortest = SHORTEST_SAME if rule is BOTH_WAYS else SHORTEST_DOUBLED
            found[shortest] = float(np.mean([ruled.shortest(int(start)).mean() for start in starts]))
    return [{"routing": routing, "hops": hops} for routing, hops in found.items()]


def check_figure_3(rows: Rows) -> Verdict:
    """Both ways must be below one way, and near the optimum, at all the paper's sizes."""
    routings = ("one way", "both ways", SHORTEST_SAME, SHORTEST_DOUBLED)
    one, both, same_table, doubled = curves(rows, "hops", "nodes", routing=routings).values()
    sizes = [nodes for nodes in both if nodes in FIGURE_3]
    if not sizes:
        return Verdict.not_run("no ring of 100 to 3,200 nodes was run")
    optimum = {nodes: paper_optimum(nodes) for nodes in both}
    below = all(both[nodes] < one[nodes] for nodes in sizes)
    near = all(words.near(both[nodes], optimum[nodes]) for nodes in sizes)
    last, most = sizes[-1], max(both)
    return Verdict.of(
        below and near,
        ours=f"{one[last]:.2f} one way, {both[last]:.2f} both ways, {optimum[last]:.2f} optimal at {last:,} "
        "nodes",
        ratio=both[last] / optimum[last],
        reason=f"{'Below' if below else 'Not below'} one way at every size, but the paper calls it close to "
        f"optimal, and it is {both[last] / optimum[last] - 1:.0%} above log2(N) / 3 at {last:,} nodes. "
        "Against shortest paths over its own "
        f"table, going both ways takes {both[last] / same_table[last] - 1:.0%} more there, over the doubled "
        f"table {both[last] / doubled[last] - 1:.0%}. It grows by {_growth(both):.2f} a doubling and the "
        f"optimum by {_growth(optimum):.2f}, so being near wears off: at {most:,} nodes it takes "
        f"{both[most]:.2f}, one way {one[most]:.2f}, the optimum {optimum[most]:.2f}.",
    )


def paper_optimum(nodes: int) -> float:
    """What the paper takes for the optimum (section 4.1)."""
    return math.log2(nodes) / 3


def _growth(hops: Mapping[int, float]) -> float:
    """How much a path grows when the nodes double, over the whole range; 0 when there is but one size."""
    fewest, most = min(hops), max(hops)
    doublings = math.log2(most / fewest)
    return (hops[most] - hops[fewest]) / doublings if doublings else 0.0


def run_lookups(point: Point, random: np.random.Generator) -> list[Row]:
    """The mean of one-way lookups: messages to the owner, and to its predecessor, who can name it."""
    nodes = int(point["nodes"])
    ring = StaticRing.random(nodes, CIRCLE, ONE_WAY, random)
    plain = StaticRing(ring.members, CIRCLE, ONE_WAY, successor_count=1)
    hops = plain.hops(random.integers(nodes, size=QUERIES), random.integers(CIRCLE.size, size=QUERIES))
    found = (float(hops.mean()), float(np.maximum(hops - 1, 0).mean()), math.log2(nodes) / 2)
    return [dict(zip(LOOKUPS, found, strict=True))]


def check_lookups(rows: Rows) -> Verdict:
    """Near half of log2 N on the largest ring, as given on all, and logarithmic."""
    owners, before = (means(rows, column, by="nodes") for column in (OWNER, PREDECESSOR))
    ratios = {nodes: hops / (math.log2(nodes) / 2) for nodes, hops in owners.items()}
    last = max(owners)
    return Verdict.of(
        words.near(ratios[last], 1)
        and all(words.as_given(ratio, 1) for ratio in ratios.values())
        and words.logarithmic(owners),
        ours=f"{owners[last]:.2f} against {math.log2(last) / 2:.2f} at {last:,} nodes",
        ratio=ratios[last],
        reason=f"By formula, from {min(owners)} nodes on: {listed(ratios, '{:.2f}')}. A lookup is counted to "
        f"the owner of the key; to its predecessor, who can name it, it is {before[last]:.2f}.",
    )


by_nodes = partial(Plot, x="nodes", log_x=True, y_label="mean path")
ROUTINGS = by_nodes(
    "Messages to the owner of a key",
    y="hops",
    series="routing",
    about="Both ways, a table of the same size saves a message or more; with twice the table it would be "
    "near the optimum at any size.",
)
MESSAGES = by_nodes(
    "Messages of a lookup",
    y=LOOKUPS,
    about="The formula runs between the two ways of counting, close to the lower one.",
)

EXPERIMENTS = (
    Experiment(
        name="ring-paths",
        title="Path lengths of rings: one way, both ways, optimal",
        grid=grid(nodes=[*FIGURE_3, *BEYOND_FIGURE_3], repeat=range(3)),
        quick=grid(nodes=[*FIGURE_3, 100_000], repeat=[0]),
        run=run_routings,
        answers={"002-fig3": answer(check_figure_3, ROUTINGS)},
        measured=("hops",),
        labels=("routing",),
        runs=Runs.MODEL,
        deviation="The paper's optimum is the formula of a full circle; the shortest paths of our rings, by "
        "the same table and by the doubled one that the formula supposes, stand beside it.",
    ),
    Experiment(
        name="ring-lookups",
        title="Lookups on Chord against the formula",
        grid=grid(nodes=[1 << bits for bits in range(4, 21)], repeat=range(3)),
        quick=grid(nodes=[16, 64, 256, 1_024, 4_096, 16_384], repeat=[0]),
        run=run_lookups,
        answers={"004-lookup": answer(check_lookups, MESSAGES)},
        measured=(OWNER, PREDECESSOR),
        runs=Runs.MODEL,
        deviation="Random identifiers of 32 bits in place of SHA-1 hashes; checked to 2^20 nodes.",
    ),
)
