"""What the lab measures of placed queries, and what it concludes from it."""

from __future__ import annotations

import numpy as np
import pytest

from distributary.errors import DistributaryError
from distributary.plan.queries.benefit import PlacementEstimate
from distributary.plan.queries.goals import LOAD
from distributary.plan.queries.shedding import shed_load
from distributary_lab.experiment import Point, Row, Run
from distributary_lab.placement import bandwidth as bandwidth
from distributary_lab.placement import beyond as beyond
from distributary_lab.placement import latency as latency
from distributary_lab.placement import load as load
from distributary_lab.placement import traffic as traffic
from distributary_lab.placement.setup import (
    CLIENT_STAR,
    CLIENT_TREE,
    GLOBAL,
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


def test_filters_climb_to_the_roots_if_they_may_move_together() -> None:
    found = costs(bandwidth.run_filters(SMALL, random()))
    together = found[bandwidth.LOCAL_TOGETHER]
    assert together == pytest.approx(found[SOURCE]) == pytest.approx(found[GLOBAL])
    assert together < found[LOCAL_RULES]
    assert together < found[CLIENT_STAR] < found[CLIENT_TREE]


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
    point = {"on": "planner", "nodes": 30, "queries": 40, "tops": "2 0", "hears": "everybody worst"}
    some, every, _, worst = traffic.run_traffic(point, random())
    assert number(worst, "statistics") < number(every, "statistics") / 2
    assert number(some, "statistics") < number(every, "statistics")
    total = sum(number(every, kind) for kind in traffic.KINDS)
    assert number(every, "bytes") == pytest.approx(total)


def test_running_nodes_send_fewer_statistics_by_a_lottery_and_answer_right() -> None:
    point = {"on": "nodes", "nodes": 7, "tops": "1 0", "hears": "everybody", "events": 20, "seconds": 15}
    some, every = traffic.run_traffic({**point, "queries": 6, "feeds": 4}, random())
    assert 0 < number(some, "statistics") < number(every, "statistics")
    assert number(every, "bytes") == number(every, "statistics") + number(every, "optimisation")
    assert some["wrong"] == every["wrong"] == 0


def test_thinning_out_alike_loses_more_than_by_worth_and_nothing_where_there_is_room() -> None:
    start = start_at({"nodes": 8, "queries": 20}, random())
    most = PlacementEstimate(goal_of(LOAD), start).cost
    assert beyond.lost_alike(start, most) == 0
    assert 0 < shed_load(start, most / 2).lost < beyond.lost_alike(start, most / 2) < 1
