"""Queries of a catalogue become a workload: shared work once, numbers as measured."""

from __future__ import annotations

import pytest

from distributary.errors import DistributaryError
from distributary.flow import Catalogue, QueryBuilder, Source
from distributary.plan.query.catalogue import Measured, workload_of

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
    known = Measured(rates={"trades": 4000}, items={"trades": 8}, selectivity={"second.big": 0.25})
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
