"""How far a site must see: units of three, four and five levels, for the average latency.

Figures 4.24 to 4.27 of 003. The rules of a larger unit are added to those of the smaller ones, or take
their place. Local rules only, from a random tree; shortest paths tell what can be reached.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from distributary.plan.trees.optimiser import climb
from distributary.plan.trees.optimum import best_paths
from distributary.plan.trees.rules import FIVE_LEVELS, FOUR_LEVELS, LOCAL, TreeRule
from distributary_lab.experiment import Answer, Experiment, Plot, Point, Row, Rows, Verdict, grid
from distributary_lab.rows import means, select
from distributary_lab.tree.latency import (
    ABOVE,
    AVERAGE,
    DEVIATION,
    PARTS,
    RUNS,
    SIZES,
    off,
    problem_at,
    row_of,
    span,
)
from distributary_lab.tree.networks import OPTIONS

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
UNITS = (THREE, TO_FOUR, TO_FIVE)
"""The units of Figures 4.24 and 4.25: each with the rules of those before it."""


def run(point: Point, random: np.random.Generator) -> list[Row]:
    """Climbs by every set of rules from the same trees."""
    rows: list[Row] = []
    for _ in range(int(point["runs"])):
        problem, start, _ = problem_at(point, random, AVERAGE)
        best = float(problem.at(best_paths(problem)[0]).cost)
        rows.extend(
            row_of(problem, name, climb(problem, start, rules), best) for name, rules in SCOPES.items()
        )
    return rows


# Checks


def _average(shares: dict[int, float]) -> float:
    return float(np.mean(list(shares.values())))


def check_units(rows: Rows) -> Verdict:
    """Figure 4.24: near the optimum with any unit, a little nearer with a larger one."""
    ends = {name: off(rows, name) for name in UNITS}
    gains = [ends[THREE][nodes] - ends[TO_FOUR][nodes] for nodes in ends[THREE]]
    further = [ends[TO_FOUR][nodes] - ends[TO_FIVE][nodes] for nodes in ends[THREE]]
    worst = max(max(shares.values()) for shares in ends.values())
    return Verdict.of(
        worst <= 0.01 and _average(ends[TO_FOUR]) <= _average(ends[THREE]),
        ours=", ".join(f"{name} {span(list(shares.values()))}" for name, shares in ends.items()) + " above",
        ratio=1 + worst,
        reason="Judged: within 1 % at every size and unit, four levels no worse than three on average. Four "
        f"levels gain {_points(gains)} points on three, five {_points(further)} on four. Here a third site "
        "may shorten a way, so that shortest paths are no star, and a few sites stay under the wrong parent.",
    )


def _points(values: Sequence[float]) -> str:
    return f"{100 * min(values):+.1f} to {100 * max(values):+.1f}"


def check_rewrites(rows: Rows) -> Verdict:
    """Figure 4.25: larger units save some rewrites in large networks."""
    counts = {name: means(select(rows, method=name), "rewrites", by="nodes") for name in UNITS}
    largest = max(counts[THREE])
    saved = {name: counts[THREE][largest] - counts[name][largest] for name in (TO_FOUR, TO_FIVE)}
    return Verdict.of(
        saved[TO_FOUR] > 0,
        ours=", ".join(f"{name} {values[largest]:.1f}" for name, values in counts.items())
        + f" at {largest} nodes",
        ratio=saved[TO_FOUR] / 10,
        reason="Judged: four levels take fewer than three in the largest network. By size: "
        + "; ".join(
            f"{name} " + ", ".join(f"{count:.1f}" for count in values.values())
            for name, values in counts.items()
        )
        + ".",
    )


def check_without_small(rows: Rows) -> Verdict:
    """Figure 4.26: without the small rules the climb stops far off, the more so the larger the unit."""
    ends = {name: off(rows, name) for name in (THREE, FOUR, FIVE)}
    ordered = all(ends[THREE][nodes] < ends[FOUR][nodes] < ends[FIVE][nodes] for nodes in ends[THREE])
    small, large = min(ends[FIVE]), max(ends[FIVE])
    return Verdict.of(
        ordered and min(ends[FIVE].values()) >= 0.2,
        ours=", ".join(f"{name} {span(list(shares.values()))}" for name, shares in ends.items()) + " above",
        reason="Judged: at every size level 4 behind level 3, level 5 behind both and at least 20 % above. "
        f"Level 5 alone ends {100 * ends[FIVE][small]:.0f} % above at {small} nodes and "
        f"{100 * ends[FIVE][large]:.0f} % at {large}.",
    )


def check_combined(rows: Rows) -> Verdict:
    """Figure 4.27: with the small rules all is well again."""
    ends = {name: off(rows, name) for name in (TO_FOUR, THREE_AND_FIVE, TO_FIVE, FOUR, FIVE)}
    with_small = [share for name in (TO_FOUR, THREE_AND_FIVE, TO_FIVE) for share in ends[name].values()]
    return Verdict.of(
        max(with_small) <= 0.02,
        ours=", ".join(f"{name} {span(list(shares.values()))}" for name, shares in ends.items()) + " above",
        ratio=1 + max(with_small),
        reason="Judged: within 2 % at every size wherever the rules of three levels are among them.",
    )


# The experiment


def _plot(title: str, *scopes: str, column: str = "above", label: str = ABOVE) -> tuple[Plot, ...]:
    return (Plot(title, x="nodes", y=column, series="method", where={"method": scopes}, y_label=label),)


EXPERIMENTS = (
    Experiment(
        name="tree-scope",
        title="The average latency by units of different size",
        grid=grid(nodes=list(SIZES), part=PARTS, runs=[RUNS]),
        quick=grid(nodes=[20, 60], part=[1], runs=[4]),
        run=run,
        options=OPTIONS,
        answers={
            "003-fig4.24": Answer(check_units, _plot("Units of three, four and five levels", *UNITS)),
            "003-fig4.25": Answer(
                check_rewrites, _plot("Rewrites by unit", *UNITS, column="rewrites", label="rewrites")
            ),
            "003-fig4.26": Answer(check_without_small, _plot("Rules of one level alone", THREE, FOUR, FIVE)),
            "003-fig4.27": Answer(
                check_combined, _plot("With the small rules and without", TO_FOUR, TO_FIVE, FOUR, FIVE)
            ),
        },
        deviation=DEVIATION,
    ),
)
