"""Placements that follow drift."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from distributary.errors import DistributaryError
from distributary.plan.adaptation import Patience
from distributary.plan.queries.adaptation import QueryAdaptation
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.graph import (
    PlannedOperator,
    PlannedQuery,
    PlannedSource,
    QueryWorkload,
    client,
)
from distributary.plan.queries.optimiser import climb
from distributary.plan.queries.rules import PARTITION
from plan.queries.networks import small

BANDWIDTH = parse_query_goal(
    "out = aggregate(SUM, output rate, LOCAL OPERATORS) + forwarding rate\n"
    "minimise aggregate(SUM, out, BROKERS)"
)


def drifted(workload: QueryWorkload, factor: float, random: Random) -> QueryWorkload:
    sources = tuple(
        replace(source, rate=float(source.rate) * random.uniform(1 / factor, factor))
        for source in workload.sources
    )
    return replace(workload, sources=sources)


def test_noise_below_the_margin_moves_nothing_and_a_lasting_change_is_followed() -> None:
    placement = small(12, 10)
    settled = climb(BANDWIDTH, placement).placement
    keeper = QueryAdaptation(BANDWIDTH, settled, Patience(margin=0.1))
    random = Random(1)
    assert [keeper.period(drifted(placement.workload, 1.03, random)) for _ in range(5)] == [None] * 5
    # From now on, more comes out of operators than goes in: they belong to their clients.
    turned = replace(
        placement.workload,
        operators=tuple(replace(one, selectivity=3.0) for one in placement.workload.operators),
    )
    changes = [keeper.period(turned) is not None for _ in range(9)]
    assert any(changes)
    assert not any(changes[-3:])


def test_only_migrations_follow_drift() -> None:
    with pytest.raises(DistributaryError, match="not split"):
        QueryAdaptation(BANDWIDTH, small(), rules=(PARTITION,))


def test_what_an_operator_can_use_is_believed_as_slowly_as_what_it_lets_pass() -> None:
    def measured(passing: float, wanted: float | None) -> QueryWorkload:
        one = PlannedOperator("o", "super-operator", (0,), selectivity=passing, wanted=wanted)
        return QueryWorkload(
            (PlannedSource("s", 0, 1, 1),), (one, client("c", 1, site=0)), (PlannedQuery("q", (0, 1)),)
        )

    keeper = QueryAdaptation(BANDWIDTH, small(), Patience(smoothing=0.25))
    believed = keeper.smoothed(measured(0.2, 0.5), measured(0.4, 0.9)).operators[0]
    assert (believed.selectivity, believed.wanted) == pytest.approx((0.25, 0.6))
    assert keeper.smoothed(measured(0.2, None), measured(0.4, None)).operators[0].wanted is None
