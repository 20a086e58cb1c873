"""Queries together: names, schemas, faults that stop nobody else, sharing, super-operators, files."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest
from hypothesis import given, settings

from distributary.errors import DistributaryError
from distributary.flow import (
    Catalogue,
    FilterOperation,
    Item,
    Operator,
    Query,
    QueryBuilder,
    Source,
    Type,
    interpret,
    read_catalogue,
    read_query_file,
)
from distributary.flow.language.problems import CombinedError
from flow.strategies import catalogues, streams

TRADES = Source("trades", {"symbol": "text", "size": "integer", "at": "integer"}, time="at", topic="trades")

FILE = """
[sources.trades]
topic = "trades"
time = "at"
lateness = "5 seconds"
schema = { symbol = "text", price = "number", size = "integer", at = "integer" }

[queries.busy]
[[queries.busy.operators]]
name = "large"
filter = { from = "trades", where = "size > 1000" }
[[queries.busy.operators]]
name = "per_minute"
aggregate = { from = "large", window = "1 minute", group_by = ["symbol"], values = { v = "sum(size)" } }
"""


def query(name: str, *operators: tuple[str, str, str]) -> Query:
    """A query of filters: name, input, condition."""
    return Query(name, [Operator(each, FilterOperation(where), (read,)) for each, read, where in operators])


def told(catalogue: Catalogue) -> list[str]:
    return [str(problem) for problem in catalogue.problems]


def test_a_file_gives_a_catalogue(tmp_path: Path) -> None:
    path = tmp_path / "queries.toml"
    path.write_text(FILE)
    catalogue = read_query_file(path)
    catalogue.check()
    stream = catalogue.streams["busy.per_minute"]
    assert stream.topic == "busy/per_minute"
    assert stream.schema.attributes == {"symbol": Type.TEXT, "v": Type.INTEGER, "at": Type.INTEGER}
    assert catalogue.outputs("busy") == ("busy.per_minute",)
    assert catalogue.sources["trades"].lateness == 5000


def test_a_file_that_is_no_toml_or_has_unknown_tables_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "queries.toml"
    path.write_text("[sources")
    with pytest.raises(DistributaryError, match=r"queries\.toml: "):
        read_query_file(path)
    path.write_text("[querys.a]")
    with pytest.raises(DistributaryError, match=r"unknown table 'querys'; did you mean queries\?"):
        read_query_file(path)


def test_faults_are_told_together_and_stop_only_their_query() -> None:
    tables = tomllib.loads(FILE)
    tables["sources"]["odd"] = {"topic": "a//b", "time": "when", "schema": {"at": "integer"}}
    tables["queries"]["bad"] = {
        "operators": [
            {"name": "a", "filter": {"from": "trades", "where": "sise > 1 and symbol > 3"}},
            {"name": "b", "map": {"from": "trades", "set": {"x": "price + symbol", "y": "nothing"}}},
            {"name": "c", "join": {"from": ["a", "b"], "on": ["nothing"], "within": "1 minute"}},
        ]
    }
    tables["queries"]["worse"] = {
        "operators": [
            {"name": "a", "sort": {"from": "trades", "window": "10 items", "by": []}},
            {"name": "b", "unique": {"from": "trades", "windw": "1 hour"}},
            {"name": "c", "filter": {"where": "size > 0"}},
            {"name": "d", "filtr": {}},
        ]
    }
    tables["queries"]["reader"] = {
        "operators": [{"name": "a", "filter": {"from": "bad.a", "where": "size > 0"}}]
    }
    catalogue = read_catalogue(tables)
    assert list(catalogue.queries) == ["busy"]
    assert told(catalogue) == [
        "source 'odd', topic: an empty level at position 2 of 'a//b'",
        "source 'odd', time: must name an attribute of type integer (milliseconds since 1970), not 'when'; "
        "there are at",
        "query 'worse', operator 'a', window: '10 items' must be a time without 'every', such as "
        "'10 minutes'",
        "query 'worse', operator 'a', by: is empty; name what to sort by, for example [\"score desc\"]",
        "query 'worse', operator 'b', windw: unknown; a unique has window, by, time",
        'query \'worse\', operator \'c\', from: missing; name the input, as "trades" or ["left", "right"]',
        "query 'worse', operator 'd', operator: must have a name and one kind of filter, map, rename, copy, "
        "union, split, aggregate, count, join, sort, truncate, unique, function; it has filtr",
        "query 'bad', operator 'a', where: no attribute 'sise'; there are symbol, price, size, at",
        "query 'bad', operator 'a', where: 'symbol' is text, not integer",
        "query 'bad', operator 'b', set.x: + takes integer or number, not text at position 8 of "
        "'price + symbol'",
        "query 'bad', operator 'b', set.y: no attribute 'nothing'; there are symbol, price, size, at at "
        "position 0 of 'nothing'",
        "query 'reader', operator 'a': reads 'bad.a' of a query that is faulty",
    ]
    with pytest.raises(CombinedError, match="query 'reader'"):
        catalogue.check()


def test_names_that_mean_nothing_are_told_with_those_there_are() -> None:
    catalogue = Catalogue([TRADES], [query("q", ("a", "trade", "size > 0"), ("trades", "a", "size > 0"))])
    assert told(catalogue) == [
        "query 'q', operator 'a', from: there is no stream 'trade'; this query has a, trades, the sources "
        "are trades, and a stream of another query is called query.operator",
        "query 'q', operator 'trades', name: a source has the same name; choose another",
    ]


def test_circles_are_told_and_break_only_the_queries_in_them() -> None:
    catalogue = Catalogue(
        [TRADES],
        [
            query("p", ("a", "q.a", "size > 0")),
            query("q", ("a", "p.a", "size > 0")),
            query("r", ("a", "a", "size > 0")),
            query("fine", ("a", "trades", "size > 0")),
        ],
    )
    assert list(catalogue.queries) == ["fine"]
    assert len(catalogue.problems) == 3
    assert all("in a circle" in problem for problem in told(catalogue))


def test_a_query_of_a_faulty_query_is_faulty_however_far_away() -> None:
    catalogue = Catalogue(
        [TRADES],
        [
            query("c", ("a", "b.a", "size > 0")),
            query("b", ("a", "a.a", "size > 0")),
            query("a", ("a", "trades", "size > 0"), ("b", "trades", "nothing = 1")),
        ],
    )
    assert not catalogue.queries
    assert not catalogue.operators
    assert set(catalogue.streams) == {"trades"}


def test_operators_come_after_those_they_read() -> None:
    catalogue = Catalogue(
        [TRADES],
        [
            query("b", ("y", "a.x", "size > 0")),
            query("a", ("x", "z", "size > 0"), ("z", "trades", "size > 0")),
        ],
    )
    assert [each.name for each in catalogue.operators] == ["a.z", "a.x", "b.y"]


def test_queries_that_begin_alike_share_what_they_have_in_common() -> None:
    queries = []
    for number in range(500):
        build = QueryBuilder(f"q{number}")
        large = build.filter("large", TRADES, where="size > 10 AND symbol<>'A'")
        build.count("n", large, window="60 seconds" if number % 2 else "1 minute", group_by=["symbol"])
        build.filter("own", large, where=f"size > {number % 5}")
        queries.append(build.query())
    catalogue = Catalogue([TRADES], queries)
    catalogue.check()
    shared = catalogue.shared()
    assert [each.name for each in shared.operators[:3]] == ["q0.large", "q0.n", "q0.own"]
    assert len(shared.operators) == 7
    assert sum(len(each.stands_for) for each in shared.operators) == 1500
    assert shared.streams["q499.n"] == "q0.n"
    assert shared.streams["q499.own"] == "q4.own"


def test_split_has_two_streams_and_no_third() -> None:
    build = QueryBuilder("q")
    one, two = build.split("both", TRADES)
    build.filter("a", one, where="size > 1")
    catalogue = Catalogue([TRADES], [build.query(), query("r", ("a", "q.both.2", "size > 0"))])
    catalogue.check()
    assert catalogue.outputs("q") == ("q.both.2", "q.a")
    assert (one, two) == ("both.1", "both.2")
    assert catalogue.streams["q.both.2"].topic == "q/both/2"
    wrong = Catalogue([TRADES], [build.query(), query("r", ("a", "q.both", "size > 0"))])
    assert "'q.both' is a split; say 'q.both.1' or 'q.both.2'" in told(wrong)[0]


def unit_query(*members: str, read: str = "c") -> Query:
    build = QueryBuilder("q")
    build.filter("a", TRADES, where="size > 1")
    build.filter("b", "a", where="size > 2")
    build.filter("c", "b", where="size > 3")
    build.filter("d", read, where="size > 4")
    build.unit("unit", *members)
    return build.query()


def test_a_super_operator_publishes_only_its_last_stream() -> None:
    catalogue = Catalogue([TRADES], [unit_query("a", "b", "c"), query("r", ("x", "q.b", "size > 0"))])
    assert [each.unit for each in catalogue.operators] == ["q.unit"] * 3 + [None]
    assert [catalogue.streams[f"q.{name}"].published for name in "abcd"] == [False, False, True, True]
    assert told(catalogue) == [
        "query 'r', operator 'x', from: 'q.b' is inside a super-operator of its query, which does not "
        "publish it"
    ]


@pytest.mark.parametrize(
    ("members", "read", "reason"),
    [
        (("a", "c"), "c", "must have one last operator"),
        (("a", "b"), "a", "'d' reads 'a', which is inside the unit; only 'b' can be read outside"),
        (("a",), "c", "must name two or more operators"),
        (("a", "x"), "c", "must name two or more operators of a, b, c, d, not a, x"),
    ],
)
def test_a_super_operator_that_is_no_unit_is_refused(
    members: tuple[str, ...], read: str, reason: str
) -> None:
    catalogue = Catalogue([TRADES], [unit_query(*members, read=read)])
    assert reason in told(catalogue)[0]
    assert told(catalogue)[0].startswith("query 'q', super.unit: ")


GOOD: dict[str, dict[str, object]] = {
    "filter": {"from": "trades", "where": "size > 1"},
    "map": {"from": "trades", "set": {"a": "size + 1"}, "keep": ["symbol"]},
    "rename": {"from": "trades", "names": {"size": "n"}},
    "copy": {"from": "trades", "names": {"size": "n"}},
    "union": {"from": ["trades", "trades"]},
    "split": {"from": "trades"},
    "aggregate": {
        "from": "trades",
        "window": "1 s",
        "values": {"n": "count()"},
        "group_by": ["symbol"],
        "time": "t",
    },
    "count": {"from": "trades", "window": "1 s", "group_by": ["symbol"], "name": "n", "time": "t"},
    "join": {"from": ["trades", "trades"], "on": ["symbol"], "within": "1 s", "prefix": "r_", "time": "t"},
    "sort": {"from": "trades", "window": "1 s", "by": ["size"], "time": "t"},
    "truncate": {"from": "trades", "window": "1 s", "items": 3},
    "unique": {"from": "trades", "window": "1 s", "by": ["size"]},
    "function": {
        "from": "trades",
        "use": "flow.functions:ids",
        "gives": {"a": "text"},
        "window": "1 s",
        "replicas": "keyed",
        "by": ["symbol"],
        "options": {"a": 1},
    },
}
ODD = [
    None,
    7,
    -1,
    1.5,
    True,
    "",
    "?",
    "\ud800",
    [],
    [1],
    [[]],
    ["trades", 3],
    {},
    {"a": 1},
    {"a": []},
    {"": ""},
]


@pytest.mark.parametrize("kind", GOOD)
def test_whatever_stands_in_a_file_is_read_or_told_of(kind: str) -> None:
    tables = tomllib.loads(FILE)
    for number, (name, odd) in enumerate(
        (name, odd) for name in (*GOOD[kind], "name", "extra") for odd in ODD
    ):
        row = {"name": "a", kind: {**GOOD[kind], name: odd}}
        if name == "name" and kind != "count":
            row = {"name": odd, kind: GOOD[kind]}
        tables["queries"][f"q{number}"] = {"operators": [row]}
    tables["queries"]["good"] = {"operators": [{"name": "a", kind: GOOD[kind]}]}
    catalogue = read_catalogue(tables)
    assert {"busy", "good"} <= set(catalogue.queries)
    told_of = {problem.query for problem in catalogue.problems}
    assert told_of | set(catalogue.queries) == set(tables["queries"])
    assert not told_of & set(catalogue.queries)


@pytest.mark.parametrize("odd", ODD, ids=repr)
def test_whatever_stands_for_a_table_is_told_of(odd: object) -> None:
    for key in ("topic", "where", "time", "lateness", "schema", "extra"):
        table = {"topic": "t", "time": "at", "schema": {"at": "integer"}, key: odd}
        read_catalogue({"sources": {"s": table, "": odd, "t": odd}})
    for key in ("operators", "outputs", "super", "ordered"):
        rows = [{"name": "a", "filter": GOOD["filter"]}]
        read_catalogue({**tomllib.loads(FILE), "queries": {"q": {"operators": rows, key: odd}, "r": odd}})
    read_catalogue({"sources": odd, "queries": odd})
    catalogue = read_catalogue({"queries": {"q": {"operators": [odd]}}})
    assert catalogue.problems
    assert not catalogue.queries


@settings(max_examples=20)
@given(catalogues(queries=3), streams(max_items=8))
def test_what_is_shared_has_the_answers_of_all_it_stands_for(
    catalogue: Catalogue, items: dict[str, list[Item]]
) -> None:
    answers = interpret(catalogue, items).streams
    for stream, computed in catalogue.shared().streams.items():
        assert answers[stream] == answers[computed]
