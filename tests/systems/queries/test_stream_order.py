"""The order in which clients are given answers: as items come, or as the stream has them."""

from __future__ import annotations

import pytest

from distributary.errors import DistributaryError
from distributary.flow import Catalogue, Item, Query, QueryBuilder, Source, read_catalogue
from distributary.live.codec import decode, encode
from distributary.systems.queries.messages import QueryDeployment, RegisterQuery
from systems.queries.worlds import World

FEEDS = [
    Source(name, {"size": "integer", "at": "integer"}, time="at", topic=name, lateness=10)
    for name in ("left", "right")
]
ARRIVALS = [("left", 30), ("right", 12), ("left", 25), ("right", 11), ("right", 40), ("left", 41)]
"""Late by 10 at most, each in its source."""


def both(ordered: bool) -> Query:
    build = QueryBuilder("both")
    build.union("all", *FEEDS)
    return build.query(ordered=ordered)


def answer(query: Query, *, end: bool) -> list[int]:
    """The times of the items that a query's client is given, in order."""
    world = World(3, 1)
    world.register(Catalogue(FEEDS, [query]))
    for source, at in ARRIVALS:
        world.feed(source, Item(f"e{at}", at, {"size": 1, "at": at}))
        world.run(1)
    for source in ("left", "right") if end else ():
        world.end(source)
    world.run(5)
    return [item.time for item in world.results()["both.all"]]


def test_items_come_as_soon_as_they_are_certain() -> None:
    assert answer(both(ordered=False), end=False) == [at for _, at in ARRIVALS]


def test_who_asks_for_the_order_of_the_stream_gets_each_item_when_none_can_come_before_it() -> None:
    assert answer(both(ordered=True), end=False) == [11, 12, 25]
    assert answer(both(ordered=True), end=True) == [11, 12, 25, 30, 40, 41]


def test_a_file_says_which_queries_are_ordered() -> None:
    operators = [{"name": "some", "filter": {"from": "left", "where": "size > 1"}}]
    tables = {"plain": {"operators": operators}, "sorted": {"operators": operators, "ordered": True}}
    left = {"topic": "left", "time": "at", "schema": {"size": "integer", "at": "integer"}}
    catalogue = read_catalogue({"sources": {"left": left}, "queries": tables})
    assert {name: query.ordered for name, query in catalogue.queries.items()} == {
        "plain": False,
        "sorted": True,
    }
    wrong = read_catalogue({"queries": {"odd": {"operators": operators, "ordered": "yes"}}})
    assert str(wrong.problems[0]) == "query 'odd', ordered: must be true or false, not 'yes'"


@pytest.mark.parametrize("ordered", [False, True])
def test_other_nodes_are_told_that_a_query_is_ordered(ordered: bool) -> None:
    for message in (RegisterQuery(both(ordered)), QueryDeployment("both", (), (), (), 1, ordered)):
        assert decode(encode(message)) == message


def test_an_order_that_is_no_truth_value_is_refused() -> None:
    with pytest.raises(DistributaryError, match="ordered: must be true or false, not 1"):
        Query("both", both(False).operators, ordered=1)  # type: ignore[arg-type]
