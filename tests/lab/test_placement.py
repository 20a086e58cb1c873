"""What the lab measures of placed queries, and what it concludes from it."""

from __future__ import annotations

import numpy as np
import pytest

from distributary.errors import DistributaryError
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.goals import LOAD
from distributary.plan.queries.shedding import shed_load
from distributary_lab.experiment import Outcome, Point, Row, Run
from distributary_lab.placement import bandwidth as bandwidth
from distributary_lab.placement import beyond as beyond
from distributary_lab.placement import latency as latency
from distributary_lab.placement import load as load
from distributary_lab.placement import traffic as traffic
from distributary_lab.placement.setup import (
    CLIENT_STAR,
    CLIENT_TREE,
    GLOBAL,
    HYBRID_RULES,
    LOCAL_RULES,
    SOURCE,
    goal_of,
    start_at,
)
from distributary_lab.rows import number, select

SMALL: Point = {"nodes": 10, "queries": 12}


def random(seed: int = 2) -> np.random.Generator:
    return np.random.default_rng(seed)


def costs(rows: list[Row]) -> dict[str, float]:
    return {str(row["method"]): number(row, "cost") for row in rows}


def test_clients_are_where_there_is_room_and_never_at_a_root() -> None:
    start = start_at({"nodes": 12, "queries": 30}, random(), limit=9)
    assert PlacementEstimate(goal_of(LOAD), start).cost <= 9
    clients = {operator.pinned for operator in start.workload.operators} - {None}
    assert not clients & {tree.root for tree in start.network.trees}


def test_fewer_sites_than_trees_are_refused() -> None:
    with pytest.raises(DistributaryError, match="4 trees need more sites"):
        start_at({"nodes": 4, "queries": 1}, random())


def test_filters_climb_to_the_roots_as_source_and_global_put_them() -> None:
    found = costs(bandwidth.run_filters(SMALL, random()))
    assert found[LOCAL_RULES] == pytest.approx(found[SOURCE]) == pytest.approx(found[GLOBAL])
    assert found[LOCAL_RULES] < found[CLIENT_STAR] < found[CLIENT_TREE]


def test_a_climb_under_limits_is_told_period_by_period() -> None:
    rows = list(bandwidth.run_limits({**SMALL, "limits": "5 100"}, random()))
    for limit in (5, 100):
        told = [number(row, "bandwidth") for row in select(rows, limit=limit)]
        assert told == sorted(told, reverse=True)
        assert told[-1] == pytest.approx(number(select(rows, limit=limit)[-1], "end"))
        assert len(told) == bandwidth.PERIODS + 1


@pytest.mark.parametrize("run", [latency.run_network, latency.run_limited, load.run_steps])
def test_no_climb_ends_above_its_start(run: Run) -> None:
    rows = list(run(SMALL, random()))
    column = next(name for name in ("local", "latency", "load") if name in rows[0])
    assert number(rows[-1], column) <= number(select(rows, period=0)[-1], column)


def test_partition_and_migration_go_below_the_heaviest_operator() -> None:
    point = {"nodes": 30, "queries": 4, "operators": load.FILTERS}
    rows = load.run_partition(point, random())
    found = costs(rows)
    assert found[load.TOGETHER] < number(rows[0], "bound") <= found[load.MIGRATED]


def test_a_lottery_sends_fewer_statistics() -> None:
    point = {"nodes": 30, "queries": 40, "tops": "2 0", "hears": "everybody worst"}
    some, every, _, worst = traffic.run_traffic(point, random())
    assert number(worst, "statistics") < number(every, "statistics") / 2
    assert number(some, "statistics") < number(every, "statistics")
    total = sum(number(every, kind) for kind in traffic.KINDS)
    assert number(every, "bytes") == pytest.approx(total)


def test_thinning_out_alike_loses_more_than_by_worth_and_nothing_where_there_is_room() -> None:
    start = start_at({"nodes": 8, "queries": 20}, random())
    most = PlacementEstimate(goal_of(LOAD), start).cost
    assert beyond.lost_alike(start, most) == 0
    assert 0 < shed_load(start, most / 2).lost < beyond.lost_alike(start, most / 2) < 1


# Checks


@pytest.mark.parametrize(("ours", "outcome"), [(100.0, Outcome.HOLDS), (110.0, Outcome.DOES_NOT_HOLD)])
def test_local_rules_have_to_come_to_the_same_bandwidth_as_global(ours: float, outcome: Outcome) -> None:
    each = {LOCAL_RULES: ours, GLOBAL: 100.0, SOURCE: 100.0, CLIENT_STAR: 200.0, CLIENT_TREE: 300.0}
    rows: list[Row] = [{"queries": 5, "method": name, "cost": cost} for name, cost in each.items()]
    assert bandwidth.check_filters(rows).outcome is outcome


@pytest.mark.parametrize(("hybrid", "holds"), [(90.0, True), (101.0, False)])
def test_under_a_limit_hybrid_rules_have_to_be_below_global_and_local_ones_above(
    hybrid: float, holds: bool
) -> None:
    rows: list[Row] = [
        {"method": name, "cost": cost, "period": 0, "latency": 300.0, GLOBAL: 100.0}
        | {"broken": 0, "at_first": 0, "over": 0}
        for name, cost in ((LOCAL_RULES, 120.0), (HYBRID_RULES, hybrid))
    ]
    assert (latency.check_limited(rows).outcome is Outcome.HOLDS) is holds


@pytest.mark.parametrize(("both", "holds"), [(1.9, True), (2.0, False)])
def test_partition_has_to_add_something_to_migration(both: float, holds: bool) -> None:
    loads = {load.MIGRATED: 2.0, load.PARTITIONED: 3.0, load.TOGETHER: both}
    rows: list[Row] = [
        {"operators": kind, "method": name, "cost": cost, "bound": 1.0}
        for kind in (load.MIXED, load.FILTERS)
        for name, cost in loads.items()
    ]
    assert (load.check_partition(rows).outcome is Outcome.HOLDS) is holds


@pytest.mark.parametrize(("many", "holds"), [(110.0, True), (200.0, False)])
def test_traffic_has_to_stay_when_queries_become_many(many: float, holds: bool) -> None:
    rows: list[Row] = [{"queries": 10, "bytes": 100.0}, {"queries": 90, "bytes": many}]
    assert (traffic.check_queries(rows).outcome is Outcome.HOLDS) is holds


@pytest.mark.parametrize(("some", "holds"), [(60.0, True), (80.0, False)])
def test_a_lottery_has_to_save_most_of_what_everybody_hears_whatever_the_worst_do(
    some: float, holds: bool
) -> None:
    sent = {(traffic.EVERYBODY, traffic.ALL): 200.0, (traffic.EVERYBODY, 20): some}
    sent |= {(traffic.WORST, traffic.ALL): 20.0, (traffic.WORST, 20): 15.0}
    rows: list[Row] = [
        {"nodes": nodes, "hears": hears, "top": top, "statistics": told, "cost": 1.0}
        for nodes in (50, 200)
        for (hears, top), told in sent.items()
    ]
    assert (traffic.check_saved(rows).outcome is Outcome.HOLDS) is holds


@pytest.mark.parametrize(("broken", "holds"), [(0, True), (1, False)])
def test_trees_and_queries_together_may_break_no_more_limits_than_the_start(broken: int, holds: bool) -> None:
    each = {CLIENT_TREE: 9.0, beyond.TREES_ALONE: 5.0, beyond.QUERIES_ALONE: 4.0, beyond.BOTH: 3.0}
    rows: list[Row] = [
        {"metric": metric, "method": name, "cost": cost, "share": cost / 9}
        | {"broken": broken if name == beyond.BOTH else 0}
        for metric in beyond.METRICS
        for name, cost in each.items()
    ]
    assert (beyond.check_joint(rows).outcome is Outcome.HOLDS) is holds
