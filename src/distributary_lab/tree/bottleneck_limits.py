"""The bandwidth bottleneck when sites may have only so many children: Figure 4.19 of 003.

The climb starts from trees that keep the limit, and the bottleneck is noted after every period; after its
last, a run stays where it is. Ours is run from the same trees, all its moves in one period.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from distributary.plan.trees.benefit import Problem
from distributary.plan.trees.climb import TreeClimb
from distributary.plan.trees.escape import improve
from distributary.plan.trees.optimiser import climb
from distributary_lab import words
from distributary_lab.experiment import Plot, Point, Row, Rows, answer, grid, repeated, seed_from
from distributary_lab.rows import listed, mean, select, stretched
from distributary_lab.tree import bottleneck
from distributary_lab.tree.climbs import OURS, WIDEST, measured, problem_of, promised_costs
from distributary_lab.tree.networks import SITES, site_experiment

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


def look_limits(rows: Rows) -> tuple[bool, str]:
    """Figure 4.19: the stricter the limit, the sooner the climb stops, and the narrower the tree."""
    ends = select(rows, period=PERIODS, start=bottleneck.RANDOM, method=CLIMB)
    counts, costs = (
        [mean(ends, column, fanout=limit) for limit in LIMITS] for column in ("periods", "bottleneck")
    )
    texts = (f"{count:.1f} ({cost:.1f})" for count, cost in zip(counts, costs, strict=True))
    return words.rises(counts) and words.rises(costs), listed(texts)


check_limits = partial(
    bottleneck.on_each_network,
    look=look_limits,
    reason="Periods until the climb from a random tree stops (Mbit/s it comes to) for at most 2, 6, 10 "
    "children and without limit; both must rise with every looser limit.",
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
        measured=("bottleneck", "periods", "connections"),
        labels=("method", "fanout", "period"),
        ours={"method": (OURS,)},
        open_parameters=(SITES, bottleneck.TIES),
        deviation=bottleneck.DEVIATION,
    ),
)
