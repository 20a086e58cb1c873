"""The bandwidth bottleneck when sites may have only so many children: Figure 4.19 of 003.

The climb starts from trees that keep the limit, and the bottleneck is noted after every period; after its
last, a run stays where it is. Ours is run from the same trees, all its moves in one period.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np

from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.escape import improve
from distributary.plan.trees.optimiser import climb
from distributary_lab.experiment import Plot, Point, Row, Rows, Verdict, answer, grid, repeated, seed_from
from distributary_lab.rows import mean, means, select, stretched
from distributary_lab.tree import bottleneck
from distributary_lab.tree.climbs import OURS, WIDEST, measured, problem_of, promised_costs
from distributary_lab.tree.networks import site_experiment

NO_LIMIT = "none"
LIMITS = ("2", "6", "10", NO_LIMIT)
PERIODS = 15
"""Periods that are drawn; all that a run takes count."""

CLIMB = "climb"
NETWORKS = bottleneck.NETWORKS


@repeated
def run(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Climb over the same sites under one limit after the other; every run has sites and trees of its own."""
    sites = bottleneck.bottleneck_network(point, random)
    seed = seed_from(random)
    for fanout in LIMITS:
        limit = None if fanout == NO_LIMIT else int(fanout)
        problem = problem_of(WIDEST, sites, "" if limit is None else f"fanout <= {limit}")
        start = bottleneck.first_tree(problem, str(point["start"]), seed, limit)
        found = {CLIMB: climb(problem, start), OURS: improve(problem, start)}
        for method, climbed in found.items():
            yield from ({"fanout": fanout, **row} for row in _periods(problem, method, climbed))


def _periods(problem: Problem, method: str, found: TreeClimb) -> list[Row]:
    """The bottleneck after each period; where a climb ended stands for all later ones, and for the last."""
    ends = measured(problem, method, found, float(found.cost))
    costs = promised_costs(problem, found)
    shown = [*stretched(costs, PERIODS), costs[-1]]
    totals = {"periods": len(found.steps), "connections": ends["connections"]}
    return [
        {"method": method, "period": period, "bottleneck": cost, **totals}
        for period, cost in enumerate(shown)
    ]


def check_limits(rows: Rows) -> Verdict:
    """Figure 4.19: the stricter the limit, the sooner the climb stops."""

    def look(found: Rows) -> tuple[bool, str]:
        shown, holds = [], False
        for start in bottleneck.STARTS:
            ends = select(found, period=PERIODS, start=start, method=CLIMB)
            periods = means(ends, "periods", by="fanout")
            counts = [periods[limit] for limit in LIMITS]
            costs = [mean(ends, "bottleneck", fanout=limit) for limit in LIMITS]
            in_order = all(a <= b + 0.5 for a, b in pairwise(counts))
            holds |= in_order and counts[0] < counts[-1] and costs[0] < costs[-1]
            texts = (f"{count:.1f} ({cost:.1f})" for count, cost in zip(counts, costs, strict=True))
            shown.append(f"from {start} {', '.join(texts)}")
        return holds, "; ".join(shown)

    own = select(rows, period=PERIODS)
    strict = {method: mean(own, "bottleneck", method=method, fanout="2") for method in (CLIMB, OURS)}
    return bottleneck.on_each_network(
        rows,
        look,
        "Periods until the climb stops (Mbit/s it comes to) for at most 2, 6, 10 children and without limit. "
        "Judged: from one of the two starts, more periods and a wider tree the looser the limit. With at "
        f"most 2 children ours comes to {strict[OURS]:.1f} Mbit/s, the climb to {strict[CLIMB]:.1f}, over "
        "all networks.",
    )


by_period = partial(Plot, x="period", y="bottleneck", series="fanout", y_label="Mbit/s")

EXPERIMENTS = (
    site_experiment(
        name="tree-bottleneck-limits",
        title="The bandwidth bottleneck when sites may have only so many children",
        grid=grid(nodes=[40], network=NETWORKS, start=bottleneck.STARTS, part=range(1, 6), runs=[10]),
        quick=grid(nodes=[20], network=NETWORKS, start=bottleneck.STARTS, part=[1], runs=[1]),
        run=run,
        answers={
            "003-fig4.19": answer(
                check_limits,
                *(
                    by_period(
                        f"The bottleneck by period, {name}",
                        where={"network": name, "start": bottleneck.RANDOM, "method": CLIMB},
                    )
                    for name in NETWORKS
                ),
            )
        },
        deviation=bottleneck.DEVIATION,
    ),
)
