"""The unit of a goal's value follows from the units of what is measured."""

from __future__ import annotations

import pytest

from distributary.plan.goal.units import system_unit
from distributary.plan.queries.goals import (
    BANDWIDTH,
    LATENCY,
    LOAD,
    RESPONSE,
    STATISTICS,
    UNITS,
    parse_query_goal,
)
from distributary.plan.trees.goals import parse_goal
from distributary.plan.trees.units import TreeUnits


@pytest.mark.parametrize(
    ("goal", "unit"),
    [
        ("aggregate(MAX, aggregate(SUM, link latency + cpu, PATH), BROKERS)", "ms"),
        ("aggregate(MAX, 5 + link latency, BROKERS)", "ms"),
        ("aggregate(MAX, link latency * (2 + 3), BROKERS)", "ms"),
        ("aggregate(MIN, aggregate(MIN, link bandwidth, PATH), CLIENTS)", "Mbit/s"),
        ("aggregate(SUM, superfluous data, BROKERS)", "KB/s"),
        ("aggregate(MAX, fanout, BROKERS)", ""),
        ("aggregate(SUM, link bandwidth * link latency, BROKERS)", "Mbit/s·ms"),
        ("aggregate(SUM, link latency / link latency, BROKERS)", ""),
        ("aggregate(SUM, link latency / fanout, BROKERS)", "ms"),
        ("aggregate(SUM, fanout / link latency, BROKERS)", "1/ms"),
        ("aggregate(SUM, link latency + link bandwidth, BROKERS)", None),
        ("aggregate(SUM, (link latency + fanout) * fanout, BROKERS)", None),
        ("aggregate(VARIANCE, link latency, BROKERS)", "ms²"),
        ("aggregate(VARIANCE, incoming rate, BROKERS)", "(KB/s)²"),
        ("aggregate(STD, link latency, BROKERS)", "ms"),
        ("aggregate(PRODUCT, link latency, BROKERS)", None),
        ("aggregate(PRODUCT, fanout, BROKERS)", ""),
    ],
)
def test_units_of_goals_for_trees(goal: str, unit: str | None) -> None:
    assert system_unit(parse_goal(f"minimise {goal}").cost, TreeUnits(rate="KB/s").by_metric) == unit


@pytest.mark.parametrize(
    ("goal", "unit"), [(BANDWIDTH, "B/s"), (LATENCY, "ms"), (RESPONSE, "ms"), (LOAD, "cycles/s")]
)
def test_units_of_goals_for_queries(goal: str, unit: str) -> None:
    assert system_unit(parse_query_goal(goal).cost, UNITS) == unit


def test_every_statistic_has_a_unit_as_its_meaning_says() -> None:
    assert UNITS.keys() == STATISTICS.keys()
    words = {"ms": "milliseconds", "B/s": "bytes a second", "cycles/s": ""}
    assert all(words.get(unit, "") in STATISTICS[name].meaning for name, unit in UNITS.items())
