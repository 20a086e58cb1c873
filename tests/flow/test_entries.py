"""What operators publish under topics of their own, as events of the sources that other queries read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given

from distributary.errors import DistributaryError
from distributary.flow import Catalogue, Item, Query, QueryBuilder, Source, answer, read_catalogue
from distributary.model import Event
from flow.random_queries import RANDOMS

SCHEMA = {"symbol": "text", "size": "integer", "topic": "text", "at": "integer"}
TRADES = Source("trades", SCHEMA, time="at", topic="trades/*/#")
ALERTS = Source("alerts", SCHEMA, time="at", topic="trades/*/large")


def large(publish: str, name: str = "busy", of: Source = TRADES) -> Query:
    build = QueryBuilder(name)
    build.publish(build.filter("large", of, where="size > 3"), publish)
    return build.query()


def counting(of: Source, name: str = "counting") -> Query:
    build = QueryBuilder(name)
    build.count("counted", of, window="10 ms", group_by=["topic"])
    return build.query()


def told(*queries: Query, sources: Sequence[Source] = (TRADES, ALERTS)) -> list[str]:
    return [str(problem) for problem in Catalogue(sources, queries).problems]


def test_a_stage_that_extends_the_topic_of_a_closed_pattern_is_no_loop() -> None:
    assert told(large("{topic}/large"), counting(ALERTS)) == []


def test_a_loop_of_topics_is_refused_with_its_path() -> None:
    (problem,) = told(large("trades/{symbol}"))
    assert problem == (
        "query 'busy': items would be published to where they come from: topic 'trades/{symbol}' -> "
        "source 'trades' -> busy.large -> topic 'trades/{symbol}'"
    )
    open_source = Source("trades", SCHEMA, time="at", topic="trades")
    assert "would be published to where they come from" in told(large("{topic}/x"), sources=[open_source])[0]


def test_a_loop_through_two_queries_leaves_both_out_and_no_other() -> None:
    back = large("trades/{topic[2]}", "back", ALERTS)
    other = QueryBuilder("other")
    other.filter("kept", "quotes", where="size > 0")
    quotes = Source("quotes", SCHEMA, time="at", topic="quotes")
    queries = [large("{topic}/large"), back, counting(ALERTS), other.query()]
    catalogue = Catalogue([TRADES, ALERTS, quotes], queries)
    loops = [problem for problem in catalogue.problems if "->" in str(problem)]
    assert {problem.query for problem in loops} == {"busy", "back"}
    for name in ("topic '{topic}/large'", "source 'alerts'", "back.large", "source 'trades'", "busy.large"):
        assert name in loops[0].reason
    assert set(catalogue.queries) == {"other"}
    reading = next(str(problem) for problem in catalogue.problems if problem.query == "counting")
    assert reading == (
        "query 'counting': reads 'busy.large' of a query that is faulty, as it reads source 'alerts'"
    )


def test_a_topic_that_cannot_be_followed_may_be_any() -> None:
    build = QueryBuilder("busy")
    build.publish(build.map("made", TRADES, {"topic": "symbol"}), "{topic}/large")
    assert "-> source 'trades' ->" in told(build.query())[0]
    kept = QueryBuilder("busy")
    kept.publish(kept.map("made", TRADES, {"double": "size * 2"}), "{topic}/large")
    assert told(kept.query()) == []


@pytest.mark.parametrize(
    ("schema", "time", "reason"),
    [
        ({"symbol": "integer", "at": "integer"}, "at", "'symbol' is integer, but in the stream it is text"),
        ({"then": "integer"}, "then", "whose time is 'then', but the stream's is 'at'"),
    ],
)
def test_items_that_would_not_fit_a_source_are_a_fault_of_its_readers(
    schema: dict[str, str], time: str, reason: str
) -> None:
    wrong = Source("alerts", schema, time=time, topic="trades/*/large")
    build = QueryBuilder("reading")
    build.filter("all", wrong, where="true")
    (problem,) = told(large("{topic}/large"), build.query(), sources=[TRADES, wrong])
    assert problem.startswith("query 'reading'")
    assert "'busy.large' is published under topics of source 'alerts'" in problem
    assert reason in problem


def test_a_file_says_what_is_published_and_what_is_derived() -> None:
    operator = {
        "name": "large",
        "publish": "{topic}/large",
        "filter": {"from": "trades", "where": "size > 3"},
    }
    tables = {
        "sources": {
            "trades": {"topic": "trades/*/#", "time": "at", "schema": SCHEMA},
            "alerts": {"topic": "trades/*/large", "time": "at", "schema": SCHEMA, "derived": True},
        },
        "queries": {
            "busy": {"operators": [operator]},
            "counting": {
                "operators": [
                    {"name": "counted", "count": {"from": "alerts", "window": "10 ms", "group_by": ["topic"]}}
                ]
            },
        },
    }
    catalogue = read_catalogue(tables)
    catalogue.check()
    derived = Source("alerts", SCHEMA, time="at", topic="trades/*/large", derived=True)
    assert (
        catalogue.operators
        == Catalogue([TRADES, derived], [large("{topic}/large"), counting(derived)]).operators
    )
    wrong = read_catalogue({"sources": {"a": {**tables["sources"]["alerts"], "derived": 1}}})
    assert "derived: must be true or false, not 1" in str(wrong.problems[0])


def test_a_derived_source_takes_nothing_from_outside() -> None:
    derived = Source("alerts", SCHEMA, time="at", topic="trades/*/large", derived=True)
    catalogue = Catalogue([TRADES, derived], [large("{topic}/large"), counting(derived)])
    catalogue.check()
    events = [
        Event("e1", "trades/A", {"symbol": "x", "size": 9, "at": 1}),
        Event("e2", "trades/A/large", {"symbol": "x", "size": 9, "at": 2}),
    ]
    streams = answer(catalogue, events).streams
    assert set(streams) == {"trades", "alerts", "busy.large", "counting.counted"}, "and no inner operators"
    (counted,) = streams["counting.counted"]
    assert counted.attributes == {"topic": "trades/A/large", "count": 1, "at": 9}
    unread = Catalogue([derived], [counting(derived)])  # nobody publishes into it
    assert answer(unread, events).streams["counting.counted"] == []


def test_a_split_has_no_topic_and_the_inside_of_a_unit_publishes_nothing() -> None:
    build = QueryBuilder("two")
    build.split("both", TRADES)
    with pytest.raises(DistributaryError, match="publish: the streams of a split"):
        build.publish("both", "a")
    with pytest.raises(DistributaryError, match="no operator 'neither'"):
        build.publish("neither", "a")
    unit = QueryBuilder("unit")
    unit.publish(unit.filter("inner", TRADES, where="size > 1"), "a/{symbol}")
    unit.filter("last", "inner", where="size > 2")
    unit.unit("whole", "inner", "last")
    assert told(unit.query()) == [
        "query 'unit', super.whole: 'inner' is inside the unit, so it publishes nothing"
    ]


STAGES = [
    TRADES,
    ALERTS,
    Source("sums", {"total": "integer", "topic": "text", "at": "integer"}, time="at", topic="sums"),
]


def chain() -> list[Query]:
    summed = QueryBuilder("summed")
    summed.aggregate("sum", "alerts", "10 ms", {"total": "sum(size)"}, group_by=["topic", "symbol"])
    summed.publish("sum", "sums/{symbol}/{topic[2]}")
    last = QueryBuilder("last")
    last.count("counted", "sums", "20 ms", group_by=["topic"])
    last.filter("all", "sums", where="total > 4 and topic <> 'sums/x/A'")
    return [large("{topic}/large"), summed.query(), last.query(), counting(STAGES[1])]


def random_events(rng: Random) -> list[Event]:
    """Events for every source of the chain, and for none."""
    shapes = ["trades/A", "trades/B/large", "sums", "/trades/A", "other"]
    return [
        Event(
            f"e{n}",
            rng.choice(shapes),
            {
                "symbol": rng.choice(["x", "y", "", "x/y", None]),
                "size": rng.randint(0, 9),
                "total": rng.randint(0, 9),
                "at": rng.randint(0, 40),
            },
        )
        for n in range(rng.randint(0, 25))
    ]


@given(RANDOMS)
def test_queries_see_what_is_published_as_they_would_see_events_of_those_topics(rng: Random) -> None:
    """The plain way: publish item by item, as events from outside, until nothing new is published."""
    outside = random_events(rng)
    catalogue = Catalogue(STAGES, chain())
    catalogue.check()
    plain = Catalogue(STAGES, [without_topics(query) for query in chain()])
    events, before = outside, -1
    while before < len(events):
        before = len(events)
        streams = answer(plain, events).streams
        events = outside + [
            published(catalogue, name, item)
            for name in ("busy.large", "summed.sum")
            for item in streams[name]
        ]
    found = answer(catalogue, outside).streams
    for operator in plain.operators:
        assert found[operator.name] == streams[operator.name]


def without_topics(query: Query) -> Query:
    return Query(query.name, [replace(each, publish=None) for each in query.operators], query.outputs)


def published(catalogue: Catalogue, name: str, item: Item) -> Event:
    event = catalogue.streams[name].event(item)
    return Event(f"{name}:{event.id}", event.topic, event.attributes)
