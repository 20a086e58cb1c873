"""How far a site must see: units of three, four and five levels, for the average latency.

Figures 4.24 to 4.27 of 003. The rules of a larger unit are added to those of the smaller ones, or take
their place. Local rules only, from a random tree; shortest paths tell what can be reached.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from statistics import fmean

import numpy as np

from distributary.plan.trees.optimiser import climb
from distributary.plan.trees.rules import FIVE_LEVELS, FOUR_LEVELS, LOCAL, TreeRule
from distributary_lab import words
from distributary_lab.experiment import Point, Row, Rows, Verdict, answer, grid, repeated
from distributary_lab.rows import curves, listed, named
from distributary_lab.tree import latency
from distributary_lab.tree.climbs import AVERAGE_LATENCY

THREE, FOUR, FIVE = "level 3", "level 4", "level 5"
TO_FOUR, TO_FIVE, THREE_AND_FIVE = "levels 3 and 4", "levels 3, 4 and 5", "levels 3 and 5"
SCOPES: dict[str, Sequence[TreeRule]] = {
    THREE: LOCAL,
    TO_FOUR: (*LOCAL, *FOUR_LEVELS),
    TO_FIVE: (*LOCAL, *FOUR_LEVELS, *FIVE_LEVELS),
    FOUR: FOUR_LEVELS,
    FIVE: FIVE_LEVELS,
    THREE_AND_FIVE: (*LOCAL, *FIVE_LEVELS),
}
PAPER_OFF, PAPER_FEWER, PAPER_FOUR, PAPER_FIVE = 0.01, 10, 0.1, (0.2, 0.85)
"""Figures 4.24 (off at most), 4.25 (rewrites fewer) and 4.26 (off by rules of four levels alone, of five)."""

UNITS = (THREE, TO_FOUR, TO_FIVE)
"""The units of Figures 4.24 and 4.25: each with the rules of those before it."""


@repeated
def run(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Climbs by every set of rules from the same trees."""
    problem, start, _ = latency.problem_at(point, random, AVERAGE_LATENCY)
    ends = {name: climb(problem, start, rules) for name, rules in SCOPES.items()}
    yield from latency.rows_of(problem, ends)


# Checks


def check_units(rows: Rows) -> Verdict:
    """Figure 4.24: near the optimum with any unit, a little nearer with a larger one."""
    ends = {name: latency.off(rows, name) for name in UNITS}
    four, five = (
        [ends[smaller][nodes] - ends[larger][nodes] for nodes in ends[THREE]]
        for smaller, larger in pairwise(UNITS)
    )
    worst = max(max(shares.values()) for shares in ends.values())
    return Verdict.of(
        worst <= PAPER_OFF and fmean(ends[TO_FOUR].values()) < fmean(ends[THREE].values()),
        ours=f"{named(ends, latency.spans)} above",
        ratio=1 + worst,
        reason="Within 1 % at every size and unit, and four levels better than three on average? Four "
        f"levels gain {_points(four)} points on three, five {_points(five)} on four. Here a third site "
        "may shorten a way, so that shortest paths are no star, and a few sites stay under the wrong parent.",
    )


def _points(values: Sequence[float]) -> str:
    return f"{100 * min(values):+.1f} to {100 * max(values):+.1f}"


def check_rewrites(rows: Rows) -> Verdict:
    """Figure 4.25: larger units save some rewrites in large networks."""
    counts = curves(rows, "rewrites", "nodes", method=UNITS)
    largest = max(counts[THREE])
    saved = counts[THREE][largest] - counts[TO_FOUR][largest]
    by_size = named(counts, lambda values: listed(values, "{:.1f}"), separator="; ")
    return Verdict.of(
        saved > 0 and words.as_given(saved, PAPER_FEWER),
        ours=named(counts, lambda values: f"{values[largest]:.1f}") + f" at {largest} nodes",
        ratio=saved / PAPER_FEWER,
        reason=f"Four levels must save about ten in the largest network. By size: {by_size}.",
    )


def check_without_small(rows: Rows) -> Verdict:
    """Figure 4.26: without the small rules the climb stops far off, the more so the larger the unit."""
    ends = {name: latency.off(rows, name) for name in (THREE, FOUR, FIVE)}
    ordered = all(ends[THREE][nodes] < ends[FOUR][nodes] < ends[FIVE][nodes] for nodes in ends[THREE])
    small, large = min(ends[FIVE]), max(ends[FIVE])
    least, most = PAPER_FIVE
    return Verdict.of(
        ordered
        and words.as_given(fmean(ends[FOUR].values()), PAPER_FOUR)
        and all(least <= share <= most for share in ends[FIVE].values())
        and words.falls(ends[FIVE]),
        ours=f"{named(ends, latency.spans)} above",
        reason="Level 4 must be about 10 % above, level 5 from 20 to 85 %, and that the more the smaller the "
        "network. "
        f"Level 5 alone ends {100 * ends[FIVE][small]:.0f} % above at {small} nodes and "
        f"{100 * ends[FIVE][large]:.0f} % at {large}.",
    )


def check_combined(rows: Rows) -> Verdict:
    """Figure 4.27: with the small rules all is well again."""
    ends = {name: latency.off(rows, name) for name in (TO_FOUR, THREE_AND_FIVE, TO_FIVE, FOUR, FIVE)}
    worst = max(max(ends[name].values()) for name in (TO_FOUR, THREE_AND_FIVE, TO_FIVE))
    return Verdict.of(
        words.near(1 + worst, 1),
        ours=f"{named(ends, latency.spans)} above",
        ratio=1 + worst,
        reason="At every size wherever the rules of three levels are among them.",
    )


ALONE = {"the paper's for four levels": 100 * PAPER_FOUR} | {
    f"for five, {end}": 100 * share for end, share in zip(("least", "most"), PAPER_FIVE, strict=True)
}

EXPERIMENTS = (
    latency.latency_experiment(
        name="tree-scope",
        title="The average latency by units of different size",
        grid=grid(nodes=list(latency.SIZES), part=latency.PARTS, runs=[latency.RUNS]),
        quick=grid(nodes=[20, 60], part=[1], runs=[4]),
        run=run,
        answers={
            "003-fig4.24": answer(
                check_units,
                latency.by_nodes(
                    "Units of three, four and five levels",
                    *UNITS,
                    reference={"the paper's bound": 100 * PAPER_OFF},
                ),
            ),
            "003-fig4.25": answer(check_rewrites, latency.by_nodes("Rewrites by unit", *UNITS, y="rewrites")),
            "003-fig4.26": answer(
                check_without_small,
                latency.by_nodes("Rules of one level alone", THREE, FOUR, FIVE, reference=ALONE),
            ),
            "003-fig4.27": answer(
                check_combined,
                latency.by_nodes("With the small rules and without", TO_FOUR, TO_FIVE, FOUR, FIVE),
            ),
        },
    ),
)
