"""Queries of a catalogue become a workload: shared work once, numbers as measured."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.flow import Catalogue, Query, QueryBuilder, SharedOperator, Source
from distributary.plan.queries import cost
from distributary.plan.queries.blocks import SUPER, running_blocks
from distributary.plan.queries.catalogue import WorkloadStatistics, workload_of
from distributary.plan.queries.placement import Placement, SiteNetwork
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree

SCHEMA = {"symbol": "text", "size": "integer", "at": "integer"}
TRADES = Source("trades", SCHEMA, time="at", topic="trades")
ORDERS = Source("orders", SCHEMA, time="at", topic="orders")


def catalogue() -> Catalogue:
    first = QueryBuilder("first")
    large = first.filter("large", "trades", where="size > 1000")
    first.count("many", large, "1 minute", ["symbol"])
    second = QueryBuilder("second")
    big = second.filter("big", "trades", where="size > 1000")
    second.join("pair", big, "orders", on=["symbol"], within="1 minute", prefix="o_")
    found = Catalogue([TRADES, ORDERS], [first.query(), second.query()])
    found.check()
    return found


def test_what_two_queries_compute_alike_is_one_operator_of_both() -> None:
    known = WorkloadStatistics(rates={"trades": 4000}, items={"trades": 8}, selectivity={"second.big": 0.25})
    workload = workload_of(catalogue(), {"first": 1, "second": 2}, {"orders": 1}, known)
    names = [operator.name for operator in workload.operators]
    assert names == ["first.large", "first.many", "second.pair", "first", "second"]
    assert [source.tree for source in workload.sources] == [0, 1]
    assert workload.queries_of[0] == (0, 1)
    assert workload.output_rate(0) == 1000
    assert [workload.operators[at].pinned for at in (3, 4)] == [1, 2]


def test_a_join_may_be_partitioned_by_its_key_and_not_replicated_by_input() -> None:
    workload = workload_of(catalogue(), {"first": 1, "second": 2})
    assert workload.may_partition(2)
    assert workload.replica_inputs(2) == ()
    assert workload.may_partition(1)


def test_a_query_without_a_client_is_refused() -> None:
    with pytest.raises(DistributaryError, match="no client's site for query 'second'"):
        workload_of(catalogue(), {"first": 1})


# Super-operators


def with_unit(name: str, unit: bool, where: str = "size > 1000") -> Query:
    """Two filters, a join of what passes them, and a count of that; all but the count are a unit."""
    build = QueryBuilder(name)
    large = build.filter("large", "trades", where=where)
    small = build.filter("small", "orders", where="size < 10")
    pair = build.join("pair", large, small, on=["symbol"], within="1 minute", prefix="o_")
    build.count("many", pair, "1 minute", ["symbol"])
    if unit:
        build.unit("matched", "large", "small", "pair")
    return build.query()


def of(*queries: Query) -> Catalogue:
    found = Catalogue([TRADES, ORDERS], queries)
    found.check()
    return found


def random_numbers(random: Random) -> WorkloadStatistics:
    def some(names: Sequence[str]) -> dict[str, Fraction]:
        return {f"q.{name}": Fraction(random.randint(0, 8), 4) for name in names if random.random() < 0.8}

    operators = ("large", "small", "pair", "many")
    selectivity = {name: min(share, Fraction(1)) for name, share in some(operators[:2]).items()}
    return WorkloadStatistics(
        {name: Fraction(random.randint(300, 900)) for name in ("trades", "orders")},
        {name: Fraction(random.randint(1, 90)) for name in ("trades", "orders")},
        {**some(operators[2:]), **selectivity},
        some(operators[2:]),
        some(operators),
    )


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.booleans())
def test_a_super_operator_costs_what_its_members_cost_at_one_site(seed: int, filtering: bool) -> None:
    random = Random(seed)
    known = random_numbers(random)
    network = SiteNetwork(
        Sites([[0, 5, 9], [5, 0, 3], [9, 3, 0]]), (Tree((NO_PARENT, 0, 1)),), filtering=filtering
    )
    apart, whole = (
        workload_of(of(with_unit("q", unit)), {"q": 2}, measured=known, filtering=filtering)
        for unit in (False, True)
    )
    assert [one.name for one in whole.operators] == ["q.matched", "q.many", "q"]
    site, other = random.choices(range(3), k=2)
    one = cost.MeasuredPlacement(Placement(apart, network, (site, site, site, other, 2)))
    all_in_one = cost.MeasuredPlacement(Placement(whole, network, (site, other, 2)))
    for name in ("node load", "incoming rate", "forwarding rate"):
        for at in range(3):
            expected = float(one.node_statistic(name, at))
            # What travels is rounded up to parts of a stream; here that is a ten thousandth of it at most.
            assert float(all_in_one.node_statistic(name, at)) == pytest.approx(expected, rel=1e-4, abs=1e-2)
    assert float(whole.output_rate(1)) == pytest.approx(float(apart.output_rate(3)))


def test_a_super_operator_is_never_split_and_known_by_its_own_name_if_said() -> None:
    known = WorkloadStatistics(selectivity={"q.matched": 0.125, "q.pair": 0.5}, cost={"q.matched": 7})
    workload = workload_of(of(with_unit("q", True)), {"q": 2}, {"orders": 1}, known)
    matched = workload.operators[0]
    assert (matched.kind, matched.inputs, matched.selectivity, matched.cost) == (SUPER, (0, 1), 0.125, 7)
    assert not workload.may_partition(0)
    assert not workload.replica_inputs(0)
    assert workload.may_partition(1)


def test_super_operators_are_shared_as_a_whole_or_not_at_all() -> None:
    alike = workload_of(of(with_unit("q", True), with_unit("r", True)), {"q": 1, "r": 2})
    assert [one.name for one in alike.operators] == ["q.matched", "q.many", "q", "r"]
    assert alike.queries_of[0] == (0, 1)
    # What is inside a unit is not published, so who computes a part of it alike does so for themselves.
    other = with_unit("r", False, where="size > 2000")
    partly = workload_of(of(with_unit("q", True), other), {"q": 1, "r": 2})
    names = {one.name for one in partly.operators}
    assert names == {"q.matched", "q.many", "q", "r.large", "r.small", "r.pair", "r.many", "r"}
    different = workload_of(
        of(with_unit("q", True), with_unit("r", True, where="size > 2000")), {"q": 1, "r": 2}
    )
    assert {"q.matched", "r.matched"} <= {one.name for one in different.operators}


def test_what_runs_is_one_block_unless_an_inner_stream_of_it_is_read_elsewhere() -> None:
    build = QueryBuilder("s")
    build.filter("large", "trades", where="size > 1000")
    catalogue = of(with_unit("q", True), build.query())

    def unit_of(one: SharedOperator) -> str | None:
        inside = {"q.large", "q.small", "q.pair"}
        return "q.matched" if inside.intersection(one.stands_for) else None

    closed = running_blocks(of(with_unit("q", True)), unit_of).blocks
    assert [(block.name, len(block.members), block.open) for block in closed] == [
        ("q.pair", 3, False),
        ("q.many", 1, False),
    ]
    opened = running_blocks(catalogue, unit_of).blocks
    assert all(len(block.members) == 1 for block in opened)
    assert {block.stands_for[0]: block.open for block in opened} == {
        next(one.name for one in catalogue.shared().operators if "q.large" in one.stands_for): True,
        "q.small": True,
        "q.pair": True,
        "q.many": False,
    }
