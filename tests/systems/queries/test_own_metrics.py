"""Metrics of the user's own in a network of queries: operators move where they are told to be cheap."""

from __future__ import annotations

from typing import Any

import pytest

from distributary.errors import DistributaryError
from distributary.plan.goal import Place
from distributary.plan.goal.expression import Goal
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.rules import HYBRID, MIGRATIONS
from distributary.plan.trees.metrics import measured
from distributary.systems.queries.settings import QueryOptimiserSettings
from systems.queries.test_optimiser import FAR, expect_equal, finish, placed, queries, steady
from systems.queries.worlds import World

OWN = {"toll": measured("toll", Place.LINK), "rent": measured("rent", Place.NODE)}
RENT = parse_query_goal("minimise aggregate(SUM, rent * operators, BROKERS)", OWN)
TOLL = parse_query_goal(
    """cost = aggregate(SUM, toll, UPSTREAM OPERATORS)
    minimise aggregate(SUM, aggregate(SUM, cost, QUERY OPERATORS), QUERIES)""",
    OWN,
)
MIXED = parse_query_goal("minimise aggregate(SUM, rent * operators + incoming rate, BROKERS)", OWN)
RENTS = {1: 9.0, 2: 7.0, 3: 8.0, 4: 1.0, 5: 6.0, 6: 9.0}
GAUGES: dict[str, Any] = {
    "link_gauges": {"toll": lambda one, other: 5.0 + one},
    "node_gauges": {"rent": RENTS.__getitem__},
}


@pytest.mark.parametrize("goal", [RENT, TOLL], ids=["rent", "toll"])
def test_operators_move_by_what_gauges_measure_and_answers_stay_exact(goal: Goal) -> None:
    settings = QueryOptimiserSettings(goal, period=8.0, window=1.0, **GAUGES)
    catalogue = queries(2)
    world = World(6, 3, optimising=settings)
    world.register(catalogue, FAR)
    world.run(5)
    begun = PlacementEstimate(settings.goal, placed(world)[1]).cost
    fed = steady(world, 100)
    situation, placement = placed(world)
    finish(world)
    expect_equal(world, catalogue, fed)
    reached = PlacementEstimate(settings.goal, placement).cost
    assert dict(situation.own.nodes)["rent"] == tuple(RENTS.values())
    assert dict(situation.own.links)["toll"][1][4] == 7.0, "from the second node to the fifth"
    assert reached < begun
    assert climb(settings.goal, placement, MIGRATIONS, HYBRID).cost >= 0.95 * reached


def test_a_goal_waits_until_all_sites_have_told_and_is_refused_without_a_gauge() -> None:
    with pytest.raises(DistributaryError, match="asks for toll, for which there is no gauge"):
        QueryOptimiserSettings(TOLL, node_gauges=GAUGES["node_gauges"])
    # Without the rents, operators would move to their sources.
    world = World(4, 1, optimising=QueryOptimiserSettings(MIXED, period=8.0, window=1.0, **GAUGES))
    registry = world.broker(1).registry_link.local_registry
    assert registry is not None
    kept = registry.own_metrics.pop(3)
    world.register(queries(2), {**dict.fromkeys(FAR, 2), "trades": 1, "quotes": 1})
    steady(world, 40)
    assert placed(world)[0].own.names == set()
    assert sum(broker.reconfiguration.moves for broker in world.brokers) == 0, "there is nothing to plan with"
    registry.own_metrics[3] = kept
    assert placed(world)[0].own.names == {"toll", "rent"}
    steady(world, 40)
    assert sum(broker.reconfiguration.moves for broker in world.brokers) > 0


def test_the_registry_hears_of_values_that_have_changed_and_of_no_others() -> None:
    rents = dict(RENTS)
    settings = QueryOptimiserSettings(RENT, **{**GAUGES, "node_gauges": {"rent": rents.__getitem__}})
    world = World(4, 1, optimising=settings, probing=5.0)
    registry = world.broker(1).registry_link.local_registry
    assert registry is not None
    sent = world.metrics.by_kind()["OwnMetricsReport"].messages
    world.run(20)
    assert world.metrics.by_kind()["OwnMetricsReport"].messages == sent
    rents[3] = 2.0
    world.run(20)
    assert dict(registry.own_metrics[3].nodes) == {"rent": 2.0}
    assert world.metrics.by_kind()["OwnMetricsReport"].messages == sent + 1
