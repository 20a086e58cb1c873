"""Queries with answers that were worked out by hand: the cases that every engine runs.

A case is a function that is given a `QueryCase`: it builds its queries on `case.build`, feeds a few events to
its sources, and says what some streams hold. `@case` adds it to `CASES`; `test_queries` does the rest.

All cases together are one catalogue (`combined`), because a job of Spark's takes its time however little it
does: so the sources and queries of a case carry its name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from distributary.flow import Catalogue, Item, QueryBuilder, Schema, Source
from distributary.model import Event

TRADES = Schema({"symbol": "text", "price": "number", "size": "integer", "at": "integer"}, time="at")
QUOTES = Schema({"name": "text", "price": "number", "at": "integer"}, time="at")

TOPIC_TRADES = Schema({**TRADES.attributes, "topic": "text"}, time="at")
LARGE = Schema({"bid": "number", "size": "number", "topic": "text", "at": "integer"}, time="at")
TOTALS = Schema({"symbol": "text", "total": "integer", "topic": "text", "at": "integer"}, time="at")

GIVES = {"of": "text", "number": "integer"}
"""What the functions of `flow.functions` give."""

CASES: dict[str, QueryCase] = {}
"""Every case by its name."""


class QueryCase:
    """One or more queries, events for them, and what streams of theirs hold."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.sources: dict[str, Source] = {}
        self.builders: list[QueryBuilder] = []
        self.events: list[Event] = []
        self.late: list[Event] = []
        """Events that come when all others were there, too late for an engine that knows lateness."""
        self.expected: dict[str, tuple[str, list[Any]]] = {}
        """Of a stream, the columns that are looked at and their values in the order of the stream."""
        self.trades = self.source("trades", TRADES)
        self.quotes = self.source("quotes", QUOTES)
        self.build = self.query()

    def source(self, name: str, schema: Schema, where: str | None = None, lateness: int = 200) -> Source:
        """A source whose topic is its name."""
        called = f"{self.name}-{name}"
        made = Source(called, schema, topic=called, where=where, lateness=lateness)
        self.sources[name] = made
        return made

    def topic_source(self, name: str, schema: Schema, topic: str, *, derived: bool = False) -> Source:
        """A source with a topic below the case's name."""
        called = f"{self.name}-{name}"
        pattern = f"{self.name}/{topic}"
        self.sources[name] = Source(called, schema, topic=pattern, lateness=200, derived=derived)
        return self.sources[name]

    def feed_topic(self, topic: str, *events: Event) -> None:
        """Add events with a topic below the case's name."""
        self.events += [Event(event.id, f"{self.name}/{topic}", event.attributes) for event in events]

    def query(self, suffix: str = "") -> QueryBuilder:
        """A query called after the case."""
        self.builders.append(QueryBuilder(self.name + suffix))
        return self.builders[-1]

    def feed(self, source: Source, *events: Event, late: bool = False) -> None:
        """Add events to those of a source."""
        to = self.late if late else self.events
        to += [Event(event.id, source.name, event.attributes) for event in events]

    def expect(self, stream: str, columns: str, values: Sequence[Any], suffix: str = "") -> None:
        """Say what a stream holds in its order: of each item these columns (id, time, rank, attributes)."""
        self.expected[f"{self.name}{suffix}.{stream}"] = (columns, list(values))

    def catalogue(self) -> Catalogue:
        return combined([self])


def case(write: Callable[[QueryCase], None]) -> Callable[[QueryCase], None]:
    """Add a case that a function writes."""
    made = QueryCase(write.__name__)
    write(made)
    CASES[made.name] = made
    return write


def combined(cases: Iterable[QueryCase], more: Catalogue | None = None) -> Catalogue:
    """The queries of several cases, and of another catalogue, in one catalogue."""
    chosen = list(cases)
    queries = [build.query() for one in chosen for build in one.builders if build._operators]
    read = {name for query in queries for operator in query.operators for name in operator.inputs}
    sources = [source for one in chosen for source in one.sources.values() if source.name in read]
    if more is not None:
        sources += more.sources.values()
        queries += more.queries.values()
    catalogue = Catalogue(sources, queries)
    catalogue.check()
    return catalogue


def projected(items: Iterable[Item], columns: str) -> list[Any]:
    """Some columns of items, as `QueryCase.expect` names them."""
    names = columns.split()
    rows = [
        tuple(
            getattr(item, name) if name in ("id", "time", "rank") else item.attributes[name] for name in names
        )
        for item in items
    ]
    return [row[0] for row in rows] if len(names) == 1 else rows


def trade(
    id: str, at: int | None, symbol: str | None = "A", price: float | None = 1.0, size: int | None = 1
) -> Event:
    return Event(id, None, {"symbol": symbol, "price": price, "size": size, "at": at})


def quote(id: str, at: int, name: str | None) -> Event:
    return Event(id, None, {"name": name, "price": 9.0, "at": at})


@case
def filter_keeps_what_is_true_and_block_drops_what_is_true(case: QueryCase) -> None:
    case.feed(case.trades, trade("a", 1, price=5.0), trade("b", 2, price=None), trade("c", 3, price=1.0))
    case.build.filter("kept", case.trades, where="price > 2")
    case.build.filter("rest", case.trades, block="price > 2")
    case.expect("kept", "id", ["a"])
    case.expect("rest", "id", ["b", "c"])


@case
def a_condition_may_be_true_for_every_item_or_for_none(case: QueryCase) -> None:
    case.feed(case.trades, trade("a", 1, price=None), trade("b", 2, symbol=None, size=None))
    case.build.filter("all", case.trades, where="true")
    case.build.filter("both", case.trades, where="price is null or price is not null")
    case.build.filter("itself", case.trades, where="price = price")
    case.build.filter("none", case.trades, where="1 = 2")
    case.build.filter("blocked", case.trades, block="not false")
    case.expect("all", "id", ["a", "b"])
    case.expect("both", "id", ["a", "b"])
    case.expect("itself", "id", ["b"])
    case.expect("none", "id", [])
    case.expect("blocked", "id", [])


@case
def a_condition_on_nulls_may_be_unknown(case: QueryCase) -> None:
    case.feed(
        case.trades,
        trade("false", 1, price=None, size=0),
        trade("unknown", 2, price=None, size=5),
        trade("true", 3, price=3.0, size=5),
    )
    case.build.filter("not_true", case.trades, where="not (price > 2 and size > 1)")
    case.build.filter("blocked", case.trades, block="not (price > 2 and size > 1)")
    case.build.filter("null", case.trades, where="price is null and symbol in ('A', 'B')")
    case.expect("not_true", "id", ["false"])
    case.expect("blocked", "id", ["unknown", "true"])
    case.expect("null", "id", ["false", "unknown"])


@case
def conditions_may_compute_and_compare_times_and_decimals(case: QueryCase) -> None:
    case.feed(
        case.trades,
        trade("a", 1, symbol="2026-06-01T12:30:00+02:00", price=0.35, size=2),
        trade("b", 2, symbol="2026-06-02", price=0.57, size=-7),
        trade("c", 3, symbol="no time", price=None, size=9007199254740993),
    )
    at_noon = "symbol >= timestamp '2026-06-01 10:30:00' and symbol < date '2026-06-02'"
    case.build.filter("times", case.trades, where=at_noon)
    case.build.filter("block", case.trades, block=at_noon)
    case.build.filter("decimals", case.trades, where="price > 0.34999999999999999999 and price < 1e400")
    case.build.filter("exact", case.trades, where="size + 1 = 9007199254740994 or round(price, 1) = 0.4")
    case.build.filter("texts", case.trades, where="upper(symbol) regexp '^NO' or length(symbol) = 10")
    case.build.filter("choice", case.trades, where="case when size < 0 then 'low' else 'high' end = 'low'")
    case.build.filter("dates", case.trades, where="month(cast(symbol as timestamp)) = 6 and abs(size) < 8")
    even = case.build.filter("even", case.trades, where="size % 2 = 0")
    case.build.count("counted", even, window="10 ms")
    case.expect("times", "id", ["a"])
    case.expect("block", "id", ["b", "c"])
    case.expect("decimals", "id", ["b"])  # a double meets the nearest double
    case.expect("exact", "id", ["a", "c"])
    case.expect("texts", "id", ["b", "c"])
    case.expect("choice", "id", ["b"])
    case.expect("dates", "id", ["a", "b"])
    case.expect("counted", "count", [1])


@case
def the_condition_of_a_source_may_compute_too(case: QueryCase) -> None:
    few = case.source("few", TRADES, where="lower(symbol) = 'b' and size * 2 > 5 and topic like 'the%few'")
    case.feed(few, trade("a", 1, "A", size=9), trade("b", 2, "B", size=3), trade("c", 3, "b", size=2))
    case.build.filter("all", few, where="size > 0")
    case.expect("all", "id", ["b"])


@case
def map_computes_from_the_input_and_keeps_what_it_is_told(case: QueryCase) -> None:
    case.feed(case.trades, trade("a", 1, price=2.0, size=3), trade("b", 2, price=None, size=3))
    case.build.map("worth", case.trades, {"price": "price * size", "was": "price"})
    case.build.map("alone", case.trades, {"n": "size + 1"}, keep=False)
    case.build.map("symbols", case.trades, keep=["symbol"])
    case.expect(
        "worth",
        "id time symbol price size at was",
        [("a", 1, "A", 6.0, 3, 1, 2.0), ("b", 2, "A", None, 3, 2, None)],
    )
    case.expect("alone", "at n", [(1, 4), (2, 4)])
    case.expect("symbols", "symbol at", [("A", 1), ("A", 2)])


@case
def rename_and_copy(case: QueryCase) -> None:
    case.feed(case.trades, trade("a", 1))
    case.build.rename("renamed", case.trades, {"at": "time_", "size": "amount"})
    case.build.copy("copied", case.trades, {"price": "last"})
    case.expect("renamed", "symbol price amount time_", [("A", 1.0, 1, 1)])
    case.expect("copied", "symbol price last at", [("A", 1.0, 1.0, 1)])


@case
def union_tells_its_inputs_apart_by_id_and_split_changes_nothing(case: QueryCase) -> None:
    case.feed(case.trades, trade("a", 1), trade("b", 2))
    case.build.union("both", case.trades, case.trades)
    case.build.split("halves", case.trades)
    case.expect("both", "id", ["0:a", "1:a", "0:b", "1:b"])
    case.expect("halves.1", "id symbol at", [("a", "A", 1), ("b", "A", 2)])
    case.expect("halves.2", "id symbol at", [("a", "A", 1), ("b", "A", 2)])


@case
def time_windows_aggregate_by_group_and_ignore_nulls(case: QueryCase) -> None:
    case.feed(
        case.trades,
        trade("a", 1, "A", 1.0, 2),
        trade("b", 9, "A", None, 3),
        trade("c", 9, None, 4.0),
        trade("d", 10, "A", 7.0),
    )
    values = {
        "n": "count()",
        "p": "count(price)",
        "v": "sum(size)",
        "m": "average(price)",
        "hi": "max(price)",
    }
    case.build.aggregate("totals", case.trades, "10 ms", values, group_by=["symbol"])
    rows = [
        ("0|", 9, None, 1, 1, 1, 4.0, 4.0, 9),
        ("0|1:A", 9, "A", 2, 1, 5, 1.0, 1.0, 9),
        ("10|1:A", 19, "A", 1, 1, 1, 7.0, 7.0, 19),
    ]
    case.expect("totals", "id time symbol n p v m hi at", rows)


@case
def sliding_time_windows_overlap_and_reach_before_zero(case: QueryCase) -> None:
    case.feed(case.trades, trade("a", 2))
    case.build.count("counted", case.trades, "10 ms every 5 ms")
    case.expect("counted", "id time count", [("-5", 4, 1), ("0", 9, 1)])


@case
def count_windows_are_full_and_in_stream_order(case: QueryCase) -> None:
    case.feed(case.trades, *[trade(f"{n}", 100 - n, size=n) for n in range(5)])
    case.build.aggregate("totals", case.trades, "3 items every 1", {"v": "sum(size)"}, time="end")
    case.expect("totals", "id time v", [("#0", 98, 9), ("#1", 99, 6), ("#2", 100, 3)])


@case
def sums_do_not_depend_on_the_order_and_overflow_to_null(case: QueryCase) -> None:
    prices = [1e16, 1.0, -1e16, 0.1, -0.1]
    case.feed(case.trades, *[trade(f"{n}", n, price=price, size=2**62) for n, price in enumerate(prices)])
    case.build.aggregate("totals", case.trades, "1 second", {"p": "sum(price)", "v": "sum(size)"})
    case.expect("totals", "p v", [(1.0, None)])


@case
def join_pairs_equal_keys_that_are_near_in_time(case: QueryCase) -> None:
    case.feed(case.trades, trade("a", 10), trade("b", 10, symbol=None))
    for name, at in [("A", 5), ("A", 16), (None, 10), ("B", 10)]:
        case.feed(case.quotes, quote(f"q{at}{name}", at, name))
    case.build.join("pairs", case.trades, case.quotes, on={"symbol": "name"}, within=5, prefix="quote_")
    columns = "id time symbol price size at quote_price quote_at"
    case.expect("pairs", columns, [("a&q5A", 10, "A", 1.0, 1, 10, 9.0, 5)])


@case
def sort_ranks_within_the_window_with_nulls_last(case: QueryCase) -> None:
    case.feed(case.trades, trade("a", 1, price=None), trade("b", 2, price=1.0), trade("c", 3, price=2.0))
    case.feed(case.trades, trade("d", 12))
    case.build.sort("down", case.trades, "10 ms", by=["price desc"], time="sorted")
    case.build.sort("up", case.trades, "10 ms", by=["price"])
    down = [("c", 9, 1, 3), ("b", 9, 2, 2), ("a", 9, 3, 1), ("d", 19, 1, 12)]
    case.expect("down", "id time rank at", down)
    case.expect("up", "id", ["b", "c", "a", "d"])


@case
def truncate_after_sort_gives_the_best_of_each_window(case: QueryCase) -> None:
    case.feed(case.trades, trade("a", 1, price=3.0), trade("b", 2, price=5.0), trade("c", 3, price=4.0))
    case.build.truncate("best", case.build.sort("down", case.trades, "10 ms", by=["price desc"]), "10 ms", 2)
    case.expect("best", "id time rank", [("b", 9, 1), ("c", 9, 2)])


@case
def unique_keeps_the_first_of_equals_in_each_window(case: QueryCase) -> None:
    case.feed(case.trades, trade("b", 1), trade("a", 1), trade("c", 2, symbol=None), trade("d", 3, None))
    case.feed(case.trades, trade("e", 10))
    case.build.unique("kept", case.trades, "10 ms", by=["symbol"])
    case.expect("kept", "id time rank", [("a", 9, 1), ("c", 9, 2), ("e", 19, 1)])


@case
def functions_see_an_item_or_a_window(case: QueryCase) -> None:
    case.feed(case.trades, trade("a", 1), trade("b", 2), trade("c\u00e9", 3), trade("d", 11))
    case.build.function("twice", case.trades, "flow.functions:repeat", GIVES, options={"times": 2})
    case.build.function("shape", case.trades, "flow.functions:shape", GIVES, window="10 ms")
    # The third trade is one that the function fails for.
    case.expect("twice", "of number", [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("d", 0), ("d", 1)])
    case.expect("shape", "time of number", [(9, "a", 3), (9, "c\u00e9", None), (19, "d", 1), (19, "d", None)])


@case
def queries_read_other_queries(case: QueryCase) -> None:
    case.feed(case.trades, trade("a", 5, size=10), trade("b", 7, size=20), trade("c", 7, "B", size=20))
    case.feed(case.trades, trade("d", 8, "C", size=9))
    large = case.build.filter("large", case.trades, where="size >= 10")
    case.build.count("per_second", large, window="1 second", group_by=["symbol"])
    few = case.query("-few")
    few.filter("quiet", f"{case.name}.per_second", where="count < 2")
    few.rename("large", f"{case.name}.large", {"size": "amount"})
    case.expect("per_second", "id symbol count at", [("0|1:A", "A", 2, 999), ("0|1:B", "B", 1, 999)])
    case.expect("quiet", "id symbol count at", [("0|1:B", "B", 1, 999)], suffix="-few")
    case.expect("large", "id amount", [("a", 10), ("b", 20), ("c", 20)], suffix="-few")


@case
def a_stage_extends_the_topic_of_its_events_and_a_query_reads_what_it_publishes(case: QueryCase) -> None:
    trades = case.topic_source("trades", TOPIC_TRADES, "trades/*/#")
    large = case.topic_source("large", LARGE, "trades/*/large", derived=True)
    case.feed_topic("trades/NYSE", trade("a", 5, size=10), trade("b", 7, size=1), trade("c", 8, size=20))
    case.feed_topic("trades/LSE", trade("d", 8, "B", size=30), trade("e", 19, "B/C", size=30))
    case.feed_topic("trades/LSE", trade("f", 19, None, size=30), trade("g", 19, "", size=30))
    case.build.publish(case.build.filter("large", trades, where="size >= 10"), "{topic}/large/{symbol}")
    reading = case.query("-reading")
    reading.filter("all", large, where="size > 0")
    reading.count("counted", large, "10 ms", group_by=["topic"])
    at = f"{case.name}.large:"
    of_a, of_b = f"{case.name}/trades/NYSE/large/A", f"{case.name}/trades/LSE/large/B"
    case.expect("large", "id", ["a", "c", "d", "e", "f", "g"])
    case.expect(
        "all",
        "id size topic bid",
        [(f"{at}a", 10.0, of_a, None), (f"{at}c", 20.0, of_a, None), (f"{at}d", 30.0, of_b, None)],
        suffix="-reading",
    )
    case.expect("counted", "topic count at", [(of_b, 1, 9), (of_a, 2, 9)], suffix="-reading")


@case
def stages_rewrite_topics_one_after_the_other_and_events_from_outside_are_read_with_them(
    case: QueryCase,
) -> None:
    trades = case.topic_source("trades", TOPIC_TRADES, "trades")
    totals = case.topic_source("totals", TOTALS, "totals/*/#")
    tops = case.topic_source("tops", TOTALS, "tops", derived=True)
    case.feed_topic("trades/NYSE/x", trade("a", 1, size=3), trade("b", 2, size=4), trade("c", 3, "B", size=5))
    case.feed_topic("totals/elsewhere", Event("t", None, {"symbol": "A", "total": 100, "at": 9}))
    summed = case.build.aggregate(
        "summed", trades, "10 ms", values={"total": "sum(size)"}, group_by=["symbol", "topic"]
    )
    case.build.publish(summed, f"{case.name}/totals/{{topic[3]}}")
    top = case.query("-top")
    top.publish(top.filter("high", totals, where="total > 5"), f"{case.name}/tops/{{total}}/{{symbol}}")
    last = case.query("-last")
    last.aggregate("both", tops, "1 second", values={"n": "count()", "most": "max(total)"})
    last.filter("read", tops, where="topic like '%/tops/7/A' or total = 100")
    case.expect(
        "high",
        "total symbol topic",
        [
            (7, "A", f"{case.name}/totals/NYSE"),
            (100, "A", f"{case.name}/totals/elsewhere"),
        ],
        suffix="-top",
    )
    case.expect("both", "n most at", [(2, 100, 999)], suffix="-last")
    case.expect(
        "read",
        "total topic",
        [
            (7, f"{case.name}/tops/7/A"),
            (100, f"{case.name}/tops/100/A"),
        ],
        suffix="-last",
    )


@case
def equal_stages_of_two_queries_publish_apart(case: QueryCase) -> None:
    both = case.topic_source("both", TOTALS, "both", derived=True)
    case.feed(case.trades, trade("a", 1, size=3))
    for build in (case.build, case.query("-other")):
        build.publish(build.filter("some", case.trades, where="size > 2"), f"{case.name}/both/{{size}}")
    reading = case.query("-reading")
    reading.filter("read", both, where="total is null")
    case.expect("read", "id", [f"{case.name}-other.some:a", f"{case.name}.some:a"], suffix="-reading")


@case
def a_source_takes_what_its_condition_accepts_and_has_a_time(case: QueryCase) -> None:
    large = case.source("large", TRADES, where="size > 0")
    case.feed(large, trade("a", 1), trade("b", 2, size=0), trade("c", None), trade("d", 3, size=None))
    case.feed(large, trade("e", 4, symbol=None))
    case.build.filter("all", large, block="symbol = 'Z'")
    case.expect("all", "id", ["a", "e"])


@case
def what_is_late_is_in_no_window(case: QueryCase) -> None:
    punctual = case.source("punctual", TRADES, lateness=15)
    case.feed(punctual, trade("a", 10), trade("b", 30), trade("c", 20), trade("d", 31))
    case.feed(punctual, trade("e", 3), trade("f", 11), late=True)
    case.build.count("counted", punctual, "10 ms")
    case.expect("counted", "time count", [(19, 1), (29, 1), (39, 2)])
