"""Workloads and placements: what flows, what may be split, and what is refused."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.plan.queries.generator import at_clients, feed_workload, random_network
from distributary.plan.queries.graph import (
    CLIENT,
    MOST_PARTS,
    RETIRED,
    PlannedOperator,
    PlannedQuery,
    PlannedSource,
    QueryWorkload,
    client,
)
from distributary.plan.queries.placement import Placement, SiteNetwork
from distributary.plan.trees.tree import Sites, star
from plan.queries.networks import exact_placement

A, B = PlannedSource("a", 0, 100, 10), PlannedSource("b", 1, 60, 6)


def test_a_filter_behind_a_union_is_replicated_over_the_unions_inputs() -> None:
    workload = QueryWorkload(
        (A, B),
        (
            PlannedOperator("u", "union", (0, 1)),
            PlannedOperator("f", "filter", (2,), selectivity=0.5),
            client("c", 3, 0),
        ),
        (PlannedQuery("q", (0, 1, 2)),),
    )
    split = workload.replicated(1)
    assert [operator.kind for operator in split.operators] == [RETIRED, "union", CLIENT, "filter", "filter"]
    assert [operator.inputs for operator in split.operators] == [(), (5, 6), (3,), (0,), (1,)]
    assert split.queries[0].operators == (1, 3, 4, 2)
    assert split.output_rate(1) == workload.output_rate(1) == 80


def test_the_replicas_of_one_operator_carry_the_replicas_of_the_next() -> None:
    chain = (PlannedOperator("f", "filter", (0, 1)), PlannedOperator("g", "filter", (2,)), client("c", 3, 0))
    split = QueryWorkload((A, B), chain, (PlannedQuery("q", (0, 1, 2)),)).replicated(0).replicated(1)
    assert split.operators[0].kind == RETIRED
    assert [split.operators[index].inputs for index in (1, 5, 6)] == [(2 + 5, 2 + 6), (2 + 3,), (2 + 4,)]


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(2, MOST_PARTS))
def test_splitting_an_operator_leaves_the_rates_of_all_others_as_they_were(seed: int, count: int) -> None:
    workload = exact_placement(seed).workload
    random = Random(seed)
    index = random.randrange(len(workload.operators))
    ways = [lambda at: workload.partitioned(at, count)] if workload.may_partition(index) else []
    ways += [workload.replicated] if len(workload.replica_inputs(index)) > 1 else []
    for way in ways:
        split = way(index)
        kept = [
            at for at, operator in enumerate(split.operators[: len(workload.operators)]) if operator.inputs
        ]
        assert [split.output_rate(at) for at in kept] == [workload.output_rate(at) for at in kept]
        parts = range(len(workload.operators), len(split.operators))
        assert sum(split.load(at) for at in parts) == workload.load(index)
        assert not any(split.may_partition(at) or split.replica_inputs(at) for at in (*parts, index))


@pytest.mark.parametrize("parts", [0, 1, MOST_PARTS + 1])
def test_a_partition_into_none_one_or_too_many_is_refused(parts: int) -> None:
    workload = QueryWorkload(
        (A, B), (PlannedOperator("f", "filter", (0,)), client("c", 2, 1)), (PlannedQuery("q", (0, 1)),)
    )
    with pytest.raises(DistributaryError, match=f"into {parts}: take 2 to 16 equal parts"):
        workload.partitioned(0, parts)


@pytest.mark.parametrize(
    ("operators", "reason"),
    [
        ((PlannedOperator("f", "filter", (9,)),), "reads stream 9 of 3"),
        ((PlannedOperator("f", "filter", (2,)),), "read each other in a circle: f -> f"),
    ],
)
def test_a_graph_that_is_none_is_refused(operators: tuple[PlannedOperator, ...], reason: str) -> None:
    with pytest.raises(DistributaryError, match=reason):
        QueryWorkload((A, B), operators, ())


def test_an_operator_that_reads_a_stream_twice_is_refused() -> None:
    with pytest.raises(DistributaryError, match="'u' reads the same stream twice"):
        PlannedOperator("u", "union", (0, 0))


def test_a_placement_keeps_clients_where_they_are() -> None:
    network = SiteNetwork(Sites(latency=[[0, 5], [5, 0]]), (star(2), star(2, 1)))
    workload = QueryWorkload(
        (A, B), (PlannedOperator("f", "filter", (0,)), client("c", 2, 1)), (PlannedQuery("q", (0, 1)),)
    )
    with pytest.raises(DistributaryError, match="'c' must stay at site 1"):
        Placement(workload, network, (1, 0))
    with pytest.raises(DistributaryError, match="at site 7, which is not there"):
        Placement(workload, network, (7, 1))


def test_the_seeds_workload_is_of_the_stated_size_and_skew() -> None:
    network = random_network(50, 4, seed=3)
    workload = feed_workload(network, 300, seed=3, two_feeds=0)
    assert len(workload.sources) == 700
    assert {source.rate for source in workload.sources} == {3200.0}
    assert {len(query.operators) for query in workload.queries} == {6}
    readers = [len(row) for row in workload.readers[:700]]
    assert 20 < readers[0] < 80
    assert sum(readers[:70]) > sum(readers[70:])
    clients = {operator.pinned for operator in workload.operators if operator.kind == CLIENT}
    assert not clients & {tree.root for tree in network.trees}
    assert at_clients(workload, network) == at_clients(
        feed_workload(network, 300, seed=3, two_feeds=0), network
    )
