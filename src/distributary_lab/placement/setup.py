"""Queries to place, networks to place them in, and the goals: what the experiments on placement share (003,
section 5.5).

Rules:

- Sites are those of `tree.networks`. Over all of them span four trees, each with another root, in which every
  site joined under a random one; the 700 feeds are dealt at random to the trees' roots, clients to the other
  sites. Queries are chains of five operators, and which feed they read follows a Zipf distribution.
- The thesis moves operators one by one (section 5.4.1). Rows of a method whose name ends with `TOGETHER` may
  also move several at once, which is a rule of ours; no claim of the thesis rests on them.
- A climb starts with every operator at its client's: CLIENT-TREE, unless an experiment says otherwise.
- Costs in rows are those of a placement counted anew, and a run fails if a climb promised another one.

Cost: 500 queries on 100 sites are made in a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import numpy as np

from distributary.errors import DistributaryError
from distributary.plan.goal.expression import Goal
from distributary.plan.queries.baselines import at_sources, client_star, globally
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.generator import at_clients, feed_workload
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.graph import QueryWorkload
from distributary.plan.queries.optimiser import QueryClimb, climb
from distributary.plan.queries.placement import Placement, SiteNetwork
from distributary.plan.queries.rules import MIGRATION, MIGRATIONS, QueryRule, RuleArea
from distributary.plan.trees.tree import random_tree
from distributary_lab.experiment import OpenParameter, Plot, Point, Row, Runs, Value, seed_from
from distributary_lab.rows import number, stretched
from distributary_lab.tree.networks import network_at, site_experiment

TREES = 4

CLIENT_TREE, CLIENT_STAR, SOURCE, GLOBAL = "CLIENT-TREE", "CLIENT-STAR", "SOURCE", "GLOBAL"
LOCAL_RULES, DIRECTED_RULES, HYBRID_RULES = "local", "directed", "hybrid"
TOGETHER = " and together"
"""Added to the name of a method that may also move operators together: a rule of ours."""

DEVIATION = (
    "Sites and latencies are the lab's wide-area network, not PlanetLab's. What the thesis does not give of "
    "its operators (selectivities, cycles an item) is set to round numbers."
)


def goal_of(text: str, *constraints: str) -> Goal:
    """A goal under constraints.

    >>> from distributary.plan.queries.goals import LOAD
    >>> len(goal_of(LOAD, "node load <= 5").constraints)
    1
    """
    return parse_query_goal("\n".join([text, *(f"subject to {each}" for each in constraints)]))


def start_at(
    point: Point,
    random: np.random.Generator,
    *,
    speed: float = 1.0,
    matching: float = 0.0,
    two_feeds: float = 0.2,
    filters_only: bool = False,
    limit: float | None = None,
) -> Placement:
    """As many sites and queries as the point says, every operator at its client's.

    With a `limit`, clients are where no site gets more load than that, as far as that is possible.
    """
    sites = network_at(point, random)
    if sites.count <= TREES:
        raise DistributaryError(f"{TREES} trees need more sites than the {sites.count} there are")
    shapes = Random(seed_from(random))
    trees = tuple(random_tree(sites.count, shapes, root) for root in range(TREES))
    network = SiteNetwork(sites, trees, speed=[speed] * sites.count, matching=matching)
    workload = feed_workload(
        network, int(point["queries"]), seed_from(random), two_feeds=two_feeds, filters_only=filters_only
    )
    if limit is not None:
        workload = clients_with_room(workload, sites.count, limit, random)
    return at_clients(workload, network)


def clients_with_room(
    workload: QueryWorkload, sites: int, limit: float, random: np.random.Generator
) -> QueryWorkload:
    """The workload with its clients at random sites that have room for their queries.

    The heaviest query comes first; one for which there is no room goes where the load is least.
    """
    load = [float(sum(map(workload.load, query.operators))) for query in workload.queries]
    loads = np.zeros(sites)
    loads[:TREES] = np.inf
    operators = list(workload.operators)
    for index in np.argsort(load)[::-1]:
        room = np.flatnonzero(loads + load[index] <= limit)
        site = int(random.choice(room)) if len(room) else int(loads.argmin())
        loads[site] += load[index]
        last = workload.queries[index].operators[-1]
        operators[last] = replace(operators[last], pinned=site)
    return replace(workload, operators=tuple(operators))


def row_of(goal: Goal, method: str, found: QueryClimb | Placement) -> Row:
    """A placement, or what a climb came to, in numbers; the cost is counted anew."""
    placement = found if isinstance(found, Placement) else found.placement
    standing = PlacementEstimate(goal, placement)
    row: Row = {"method": method, "cost": standing.cost, "broken": standing.broken(), "rewrites": 0}
    if isinstance(found, Placement):
        return row
    if abs(standing.cost - found.cost) > 1e-6 * abs(found.cost):
        raise DistributaryError(f"{method} promised {found.cost}, and it is {standing.cost}")
    return {**row, "rewrites": len(found.rewrites), "periods": len(found.steps)}


def baseline(name: str, goal: Goal, start: Placement) -> Row:
    """What one of the thesis' simple placements of the same queries comes to."""
    workload, network = start.workload, start.network
    placements = {
        CLIENT_TREE: lambda: start,
        CLIENT_STAR: lambda: client_star(workload, network),
        SOURCE: lambda: at_sources(workload, network),
        GLOBAL: lambda: globally(goal, workload, network),
    }
    return row_of(goal, name, placements[name]())


def rows_by_rules(
    goal: Goal, start: Placement, rules: Mapping[str, tuple[QueryRule, ...]], area: RuleArea
) -> list[Row]:
    """CLIENT-TREE and a climb by each set of rules, with what they save of the start's cost in per cent."""
    ends = {name: climb(goal, start, each, area) for name, each in rules.items()}
    rows = [baseline(CLIENT_TREE, goal, start), *(row_of(goal, name, found) for name, found in ends.items())]
    before = next(iter(ends.values())).before
    return [{**row, "improvement": 100 * (1 - number(row, "cost") / before)} for row in rows]


def rows_by_period(found: QueryClimb | float, periods: int, column: str, /, **others: Value) -> list[Row]:
    """A row for the start and for each of so many periods; a climb that ended stays where it is.

    In place of a climb there may be a cost that stays the same.

    >>> # From 9 to 4 in one period.
    >>> from distributary.plan.queries.optimiser import QueryStep
    >>> from distributary.plan.queries.statistics import OptimiserTraffic
    >>> found = QueryClimb(None, None, 4.0, (QueryStep((), 9.0, 4.0, OptimiserTraffic()),))
    >>> [row["load"] for row in rows_by_period(found, 3, "load")]
    [9.0, 4.0, 4.0, 4.0]
    """
    steps = (
        [found.before, *(step.after for step in found.steps)] if isinstance(found, QueryClimb) else [found]
    )
    costs = enumerate(stretched(steps, periods + 1))
    return [{**others, "period": period, column: cost} for period, cost in costs]


def moved(goal: Goal, start: Placement, area: RuleArea, **options: Any) -> QueryClimb:
    """A climb that moves operators one by one, as the thesis does."""
    return climb(goal, start, (MIGRATION,), area, **options)


def moved_together(goal: Goal, start: Placement, area: RuleArea) -> QueryClimb:
    """A climb that may move several operators of a site at once."""
    return climb(goal, start, MIGRATIONS, area)


OPERATORS = OpenParameter(
    "selectivities and cycles of the operators",
    "round numbers",
    "the thesis gives those of its filters only",
    after=False,
)
NETWORK = OpenParameter(
    "the sites' network",
    "the lab's wide-area network of 200 sites",
    "the thesis used measurements of PlanetLab that are not public",
    after=False,
)

placement_experiment = partial(
    site_experiment,
    deviation=DEVIATION,
    measured=("cost", "broken", "rewrites", "periods"),
    labels=("method",),
    runs=Runs.MODEL,
    open_parameters=(NETWORK, OPERATORS),
)
"""An experiment over sites that may be given in files, with what all of them share."""

by_period = partial(Plot, x="period", series="method", x_label="optimisation period")


def by_method(title: str, x: str, y: str, methods: Iterable[str] = (), **look: Any) -> Plot:
    """A line, or bars, for each of some methods, or of all."""
    where = {"method": tuple(methods)} if methods else {}
    return Plot(title, x, y, "method", where, **look)
