"""What each kind of operator means, on examples small enough to check by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from distributary.flow import (
    Aggregate,
    Catalogue,
    Copy,
    Count,
    FilterOperation,
    Item,
    Join,
    Map,
    Operation,
    QueryBuilder,
    Rename,
    Schema,
    Sort,
    Source,
    Split,
    Truncate,
    Union,
    Unique,
    answer,
    apply,
)
from distributary.model import Event

TRADES = Schema({"symbol": "text", "price": "number", "size": "integer", "at": "integer"}, time="at")


def trade(
    id: str, at: int, symbol: str | None = "A", price: float | None = 1.0, size: int | None = 1
) -> Item:
    return Item(id, at, {"symbol": symbol, "price": price, "size": size, "at": at})


def output(operation: Operation, *inputs: Sequence[Item], schemas: Sequence[Schema] = ()) -> list[Item]:
    return apply(operation, schemas or [TRADES] * len(inputs), inputs)


def ids(items: Sequence[Item]) -> list[str]:
    return [item.id for item in items]


def column(items: Sequence[Item], name: str) -> list[Any]:
    return [item.attributes[name] for item in items]


def test_filter_keeps_what_is_true_and_block_drops_what_is_true() -> None:
    items = [trade("a", 1, price=5.0), trade("b", 2, price=None), trade("c", 3, price=1.0)]
    assert ids(output(FilterOperation(where="price > 2"), items)) == ["a"]
    assert ids(output(FilterOperation(block="price > 2"), items)) == ["b", "c"]


def test_map_computes_from_the_input_and_keeps_what_it_is_told() -> None:
    items = [trade("a", 1, price=2.0, size=3)]
    worth = output(Map({"price": "price * size", "was": "price"}), items)
    assert worth == [Item("a", 1, {"symbol": "A", "price": 6.0, "size": 3, "at": 1, "was": 2.0})]
    assert output(Map({"n": "size + 1"}, keep=False), items)[0].attributes == {"at": 1, "n": 4}
    assert output(Map(keep=["symbol"]), items)[0].attributes == {"symbol": "A", "at": 1}


def test_rename_and_copy() -> None:
    items = [trade("a", 1)]
    assert list(output(Rename({"at": "time"}), items)[0].attributes) == ["symbol", "price", "size", "time"]
    assert output(Copy({"price": "last"}), items)[0].attributes["last"] == 1.0


def test_union_tells_its_inputs_apart_by_id_and_split_changes_nothing() -> None:
    items = [trade("a", 1)]
    assert ids(output(Union(), items, items)) == ["0:a", "1:a"]
    assert output(Split(), items) == items


def test_time_windows_aggregate_by_group_and_ignore_nulls() -> None:
    operation = Aggregate(
        "10 ms",
        {"n": "count()", "p": "count(price)", "v": "sum(size)", "m": "average(price)", "hi": "max(price)"},
        group_by=["symbol"],
    )
    items = [
        trade("a", 1, "A", 1.0, 2),
        trade("b", 9, "A", None, 3),
        trade("c", 9, None, 4.0),
        trade("d", 10, "A", 7.0),
    ]
    results = output(operation, items)
    assert [(item.id, item.time, dict(item.attributes)) for item in results] == [
        ("0|", 9, {"symbol": None, "n": 1, "p": 1, "v": 1, "m": 4.0, "hi": 4.0, "at": 9}),
        ("0|1:A", 9, {"symbol": "A", "n": 2, "p": 1, "v": 5, "m": 1.0, "hi": 1.0, "at": 9}),
        ("10|1:A", 19, {"symbol": "A", "n": 1, "p": 1, "v": 1, "m": 7.0, "hi": 7.0, "at": 19}),
    ]


def test_sliding_time_windows_overlap_and_reach_before_zero() -> None:
    results = output(Count("10 ms every 5 ms"), [trade("a", 2)])
    assert [(item.id, item.time) for item in results] == [("-5", 4), ("0", 9)]


def test_count_windows_are_full_and_in_stream_order() -> None:
    items = [trade(f"{n}", 100 - n, size=n) for n in range(5)]
    results = output(Aggregate("3 items every 1", {"v": "sum(size)"}, time="end"), items)
    assert [(item.id, item.time, item.attributes["v"]) for item in results] == [
        ("#0", 98, 9),
        ("#1", 99, 6),
        ("#2", 100, 3),
    ]


def test_sums_do_not_depend_on_the_order_and_overflow_to_null() -> None:
    total = Aggregate("1 second", {"p": "sum(price)", "v": "sum(size)"})
    prices = [1e16, 1.0, -1e16, 0.1, -0.1]
    items = [trade(f"{n}", n, price=price, size=2**62) for n, price in enumerate(prices)]
    assert column(output(total, items), "p") == [1.0]
    assert column(output(total, items), "v") == [None]
    assert column(output(total, [trade("a", 0, price=2.0**62)]), "p") == [None]


def test_join_pairs_equal_keys_that_are_near_in_time() -> None:
    right = Schema({"name": "text", "price": "number", "at": "integer"}, time="at")
    quotes = [
        Item(f"q{at}", at, {"name": name, "price": 9.0, "at": at})
        for name, at in [("A", 5), ("A", 16), (None, 10), ("B", 10)]
    ]
    join = Join(on={"symbol": "name"}, within=5, prefix="quote_")
    results = output(join, [trade("a", 10), trade("b", 10, symbol=None)], quotes, schemas=[TRADES, right])
    attributes = {"symbol": "A", "price": 1.0, "size": 1, "at": 10, "quote_price": 9.0, "quote_at": 5}
    assert results == [Item("a&q5", 10, attributes)]


def test_sort_ranks_within_the_window_with_nulls_last() -> None:
    items = [trade("a", 1, price=None), trade("b", 2, price=1.0), trade("c", 3, price=2.0), trade("d", 12)]
    down = output(Sort("10 ms", by=["price desc"], time="sorted"), items)
    assert [(item.id, item.time, item.rank) for item in down] == [
        ("c", 9, 1),
        ("b", 9, 2),
        ("a", 9, 3),
        ("d", 19, 1),
    ]
    assert column(down, "at") == [3, 2, 1, 12]
    up = output(Sort("10 ms", by=["price"]), items)
    assert ids(up) == ["b", "c", "a", "d"]


def test_truncate_after_sort_gives_the_best_of_each_window() -> None:
    items = [trade("a", 1, price=3.0), trade("b", 2, price=5.0), trade("c", 3, price=4.0)]
    best = output(Truncate("10 ms", 2), output(Sort("10 ms", by=["price desc"]), items))
    assert [(item.id, item.time, item.rank) for item in best] == [("b", 9, 1), ("c", 9, 2)]


def test_unique_keeps_the_first_of_equals_in_each_window() -> None:
    items = [trade("b", 1), trade("a", 1), trade("c", 2, symbol=None), trade("d", 3, None), trade("e", 10)]
    kept = output(Unique("10 ms", by=["symbol"]), items)
    assert [(item.id, item.time, item.rank) for item in kept] == [("a", 9, 1), ("c", 9, 2), ("e", 19, 1)]


def test_whole_queries_answer_events_and_reject_what_does_not_fit() -> None:
    source = Source("trades", TRADES, topic="trades/*", where="size > 0")
    build = QueryBuilder("busy")
    large = build.filter("large", source, where="size >= 10")
    build.count("per_second", large, window="1 second", group_by=["symbol"])
    other = QueryBuilder("few")
    other.filter("quiet", "busy.per_second", where="count < 2")
    catalogue = Catalogue([source], [other.query(), build.query()])
    catalogue.check()
    events = [
        Event("e1", "trades/A", {"symbol": "A", "price": 1, "size": 10, "at": 5}),
        Event("e2", "trades/A", {"symbol": "A", "size": 20, "at": 7, "more": True}),
        Event("e3", "trades/B", {"symbol": "B", "size": 20, "at": 7}),
        Event("e4", "trades/B", {"symbol": "B", "size": 20}),
        Event("e5", "trades/B", {"symbol": 7, "size": 20, "at": 7}),
        Event("e3", "trades/B", {"symbol": "C", "size": 20, "at": 7}),
        Event("e6", "quotes/B", {"symbol": "B", "size": 20, "at": 7}),
    ]
    found = answer(catalogue, events)
    assert ids(found.streams["busy.large"]) == ["e1", "e2", "e3"]
    quiet = catalogue.streams["few.quiet"]
    assert [quiet.event(item) for item in found.streams["few.quiet"]] == [
        Event("0|1:B", "few/quiet", {"symbol": "B", "count": 1, "at": 999})
    ]
    assert [(each.stream, each.id) for each in found.rejected] == [("trades", f"e{n}") for n in (4, 5, 3)]
    assert "'symbol'" not in found.rejected[0].reason
    assert found.rejected[1].reason == "symbol: 7 is not of type text, as source 'trades' declares it"
