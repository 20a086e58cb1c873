"""What the interpreter rejects, and why. What each operator means is in `engines.query_cases`."""

from __future__ import annotations

from distributary.flow import Aggregate, Catalogue, Item, QueryBuilder, Schema, Source, answer, apply
from distributary.model import Event

TRADES = Schema({"symbol": "text", "price": "number", "size": "integer", "at": "integer"}, time="at")


def test_a_number_in_a_sum_may_be_too_large_to_be_exact() -> None:
    item = Item("a", 0, {"symbol": "A", "price": 2.0**62, "size": 1, "at": 0})
    (total,) = apply(Aggregate("1 second", {"p": "sum(price)"}), [TRADES], [[item]])
    assert total.attributes["p"] is None


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
    assert [item.id for item in found.streams["busy.large"]] == ["e1", "e2", "e3"]
    quiet = catalogue.streams["few.quiet"]
    assert [quiet.event(item) for item in found.streams["few.quiet"]] == [
        Event("0|1:B", "few/quiet", {"symbol": "B", "count": 1, "at": 999})
    ]
    assert [(each.stream, each.id) for each in found.rejected] == [("trades", f"e{n}") for n in (4, 5, 3)]
    assert "'symbol'" not in found.rejected[0].reason
    assert found.rejected[1].reason == "symbol: 7 is not of type text, as source 'trades' declares it"
