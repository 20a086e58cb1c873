"""Queries in the network: what travels between nodes, what is shared, and who gets what when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from distributary.errors import DistributaryError
from distributary.flow import Catalogue, Item, QueryBuilder, Source, interpret
from distributary.model import Delivery, Event, Subscription
from distributary.overlay.node import Node
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.links import LinkEstimate, LinkTable
from distributary.systems.queries.messages import (
    Element,
    Selection,
    StreamElements,
    StreamLocation,
    StreamMove,
    StreamReader,
    SubscriptionGrant,
)
from distributary.systems.queries.publications import StreamPublication, selects
from distributary.systems.queries.registry import QueryRegistry
from distributary.systems.queries.registry_failover import RegistryLink
from distributary.systems.queries.router import Router
from distributary.systems.queries.source_trees import ParentChoice, SourceFeed, SourceTree, best_root
from flow.random_queries import random_catalogue, random_streams
from systems.queries.worlds import REGISTRY, World, expect_equal, row_of_nodes, run_through

TRADES = Source(
    "trades", {"symbol": "text", "size": "integer", "at": "integer"}, time="at", topic="trades", lateness=15
)


def trades(count: int) -> dict[str, list[Item]]:
    return {
        "trades": [
            Item(f"t{at}", at, {"symbol": "ab"[at % 2], "size": at % 10, "at": at}) for at in range(count)
        ]
    }


def busy(name: str = "busy", least: int = 7) -> QueryBuilder:
    build = QueryBuilder(name)
    large = build.filter("large", "trades", where=f"size >= {least}")
    build.count("per_ten", large, window="10 ms", group_by=["symbol"])
    return build


def test_operators_at_one_node_need_no_messages_between_them() -> None:
    catalogue, items = Catalogue([TRADES], [busy().query()]), trades(40)
    world = World(1, 1)
    world.register(catalogue)
    run_through(world, catalogue, items, changes=0)
    expect_equal(world, catalogue, items)
    assert world.metrics.total().messages == 0


def test_a_filter_pushed_up_keeps_what_it_blocks_off_the_connections() -> None:
    """Only items of size 9 can be used; the rest never leaves the source's root broker."""
    catalogue = Catalogue([TRADES], [busy(least=9).query()])
    world = World(4, 3)
    world.register(catalogue)
    carried: Counter[str] = Counter()

    class Watch(type(world.metrics)):  # type: ignore[misc]
        def received(self, now, sender, to, message) -> None:  # type: ignore[no-untyped-def]
            inner = getattr(message, "message", None)
            if isinstance(inner, StreamElements):
                carried.update(
                    str(element.item.attributes["size"]) for element in inner.elements if element.item
                )

    world.simulator.observe(Watch())
    ((_, host),) = [each for each in world.operators() if each[0] == "busy.large"]
    away = next(
        node for node in world.nodes if node not in (host, world.broker(host).router.locations["trades"].host)
    )
    world.simulator.call(host, lambda: world.broker(host).move("busy.large", away))
    world.run(20)
    run_through(world, catalogue, trades(60), changes=0)
    expect_equal(world, catalogue, trades(60))
    assert set(carried) == {"9"}


def test_what_two_queries_compute_alike_is_computed_once() -> None:
    catalogue = Catalogue([TRADES], [busy("one").query(), busy("two").query()])
    world = World(4, 5)
    world.register(catalogue)
    assert [name for name, _ in world.operators()] == ["one.large", "one.per_ten"]
    run_through(world, catalogue, trades(50), changes=0.2)
    expect_equal(world, catalogue, trades(50))


def test_sources_are_grouped_onto_few_trees_and_one_connection_serves_all_of_them() -> None:
    random = Random("grouped")
    catalogue = random_catalogue(random, queries=6)
    world = World(6, 2)
    world.register(catalogue)
    registry = world.broker(REGISTRY).registry_link.local_registry
    assert registry is not None
    assert len(registry.trees) <= 2
    items = random_streams(random)
    run_through(world, catalogue, items, changes=0.5)
    expect_equal(world, catalogue, items)
    for broker in world.brokers:
        peers = {*broker.connections._outgoing, *broker.connections._next}
        assert peers <= set(world.nodes) - {broker.node.address}


def test_a_subscription_gets_the_items_of_an_operator_inside_a_query() -> None:
    catalogue = Catalogue([TRADES], [busy().query()])
    world = World(4, 4)
    subscription = Subscription("s1", "ann", topic="busy/large", where="symbol = 'a'")
    world.simulator.call(2, lambda: world.broker(2).subscribe(subscription))
    world.register(catalogue)  # the subscription was there first, and is told of the new stream
    run_through(world, catalogue, trades(60), changes=0.2)
    expected = [
        Event(item.id, "busy/large", item.attributes)
        for item in interpret(catalogue, trades(60)).streams["busy.large"]
        if item.attributes["symbol"] == "a"
    ]
    assert expected
    assert sorted(world.deliveries(), key=lambda each: each.event.id) == [
        Delivery(event, "ann", ("s1",)) for event in sorted(expected, key=lambda event: event.id)
    ]


def test_a_query_with_faults_is_refused_with_the_reasons_and_disturbs_nobody() -> None:
    world = World(3, 6)
    catalogue = Catalogue([TRADES], [busy().query()])
    world.register(catalogue)
    wrong = QueryBuilder("wrong")
    wrong.filter("large", "trades", where="weight > 3")
    world.simulator.call(2, lambda: world.broker(2).register_query(wrong.query()))
    world.run(10)
    assert "weight" in world.broker(2).refused["wrong"]
    run_through(world, catalogue, trades(30), changes=0)
    expect_equal(world, catalogue, trades(30))


def test_a_query_that_comes_later_gets_what_is_published_from_then_on() -> None:
    world = World(4, 10)
    catalogue = Catalogue([TRADES], [busy().query()])
    world.register(catalogue)
    items = trades(60)["trades"]
    for item in items[:30]:
        world.feed("trades", item)
    world.run(5)
    later = QueryBuilder("later")
    later.filter("small", "trades", where="size < 5")
    later.rename("large", "busy.large", names={"size": "amount"})
    world.simulator.call(3, lambda: world.broker(3).register_query(later.query()))
    world.run(5)
    for item in items[30:]:
        world.feed("trades", item)
        world.change()
        world.run(0.1)
    world.run(30)
    found = {name: sorted(got, key=lambda item: item.order) for name, got in world.results().items()}
    assert [item.id for item in found["later.small"]] == [
        item.id for item in items[30:] if item.attributes["size"] < 5
    ]
    assert [item.attributes["amount"] for item in found["later.large"]] == [7, 8, 9] * 3


def test_late_and_misshapen_events_are_told_of_and_the_rest_goes_on() -> None:
    world = World(3, 7)
    catalogue = Catalogue([TRADES], [busy(least=0).query()])
    world.register(catalogue)
    for at in (10, 30, 3, 31):
        world.feed("trades", Item(f"t{at}", at, {"symbol": "a", "size": 1, "at": at}))
        world.run(5)
    world.feed("trades", Item("odd", 32, {"symbol": 5, "size": 1, "at": 32}))
    world.run(5)
    assert {one.id: one.stream for one in world.rejected()} == {"t3": "trades", "odd": "trades"}


def test_nothing_is_sent_of_a_source_that_nobody_wants() -> None:
    world = World(3, 8)
    world.register(Catalogue([TRADES], []))
    world.feed("trades", trades(1)["trades"][0])
    world.run(5)
    assert "StreamElements" not in world.metrics.by_kind()


def test_what_every_reader_has_acknowledged_is_forgotten() -> None:
    world = World(4, 9)
    catalogue = Catalogue([TRADES], [busy(least=0).query()])
    world.register(catalogue)
    run_through(world, catalogue, trades(300), changes=0.1)
    kept = [len(one.kept) for broker in world.brokers for one in broker.router.publications.values()]
    assert max(kept) < 60


@pytest.mark.parametrize(
    ("latency", "bandwidth", "root"),
    [
        ({1: 5.0, 2: 1.0, 3: 9.0}, {}, 2),
        ({1: 5.0, 2: 1.0, 3: 9.0}, {2: 50.0}, 1),  # the nearest has no room for the volume
        ({1: 5.0, 2: 4.9, 3: 9.0}, {2: 101.0, 1: 1e6}, 1),  # almost as near, with much more room
    ],
)
def test_a_root_broker_is_near_and_has_bandwidth(
    latency: dict[int, float], bandwidth: dict[int, float], root: int
) -> None:
    links = LinkTable({(9, other): LinkEstimate(seconds) for other, seconds in latency.items()})
    left = lambda broker: bandwidth.get(broker, 1e6)  # noqa: E731
    assert best_root([SourceFeed(9, 100.0)], (1, 2, 3), links, left) == root


def test_a_node_joins_a_tree_below_the_nearest_member_with_room() -> None:
    tree = SourceTree(root=1)
    choice = ParentChoice(row_of_nodes(6), fanout=1)
    assert [tree.join(node, choice) for node in (5, 6, 2, 5)] == [1, 5, 6, 1]


def test_a_publication_keeps_what_somebody_has_not_acknowledged() -> None:
    publication = StreamPublication()
    publication.acknowledge(("a", 0), 0)
    publication.acknowledge(("b", 0), 0)
    publication.append([Item("x", 1, {}), Item("y", 2, {})], 2)
    publication.acknowledge(("a", 0), 3)
    publication.acknowledge(("b", 0), 1)
    assert [element.number for element in publication.since(1, Selection())] == [2, 3, 3]
    publication.forget(StreamReader("b", 0, 1))
    assert not publication.kept


def test_a_selection_deals_items_out_to_one_part_each() -> None:
    items = [Item(f"i{number}", number, {"k": number % 7}) for number in range(50)]
    for keys in (None, ("k",)):
        parts = [
            [selects(Selection(part=part, parts=3, keys=keys), item) for item in items] for part in range(3)
        ]
        assert [sum(row) for row in zip(*parts, strict=True)] == [1] * 50
    assert not selects(Selection(block="k = 3"), items[3])


def test_what_a_former_host_sent_late_is_not_taken() -> None:
    """The reader had it from the new host already when the old one's last elements come."""
    node = Node(9)
    taken: list[int] = []

    class OneReader:
        def take(self, stream: str, reader: StreamReader, elements: Sequence[Element]) -> None:
            taken.extend(element.number for element in elements)

        def resubscribe(self, stream: str) -> None:
            router.subscribe(stream, StreamReader("r", 0, 2), Selection(), 0)

        def wake(self, stream: str) -> None:
            raise AssertionError("nothing is published here")

        give_up = wake

    router = Router(RegistryLink(Connections(node), 1), OneReader())
    router.learn([("q.s", StreamLocation(2))])
    elements = tuple(Element(number, Item(f"i{number}", number, {})) for number in (1, 2))
    node.call(lambda: router.subscribe("q.s", StreamReader("r", 0, 1), Selection(), 0), now=0.0)
    for message, sender in (
        (SubscriptionGrant("q.s", StreamReader("r", 0, 1), ()), 2),
        (StreamMove("q.s", StreamLocation(3, None, 1)), 2),
        (SubscriptionGrant("q.s", StreamReader("r", 0, 2), elements), 3),
        (StreamElements("q.s", elements), 2),
        (StreamElements("q.s", (Element(3, Item("i3", 3, {})),)), 3),
        (StreamMove("q.s", StreamLocation(2)), 4),
    ):
        node.receive(message, sender, now=0.0)
    assert taken == [1, 2, 3]
    assert router.locations["q.s"].host == 3, "older news does not count"


def test_an_operator_that_is_not_here_cannot_be_changed() -> None:
    world = World(2, 1)
    with pytest.raises(DistributaryError, match=r"'q\.x' is not at node 1"):
        world.broker(1).move("q.x", 2)
    assert isinstance(world.broker(1).registry_link.local_registry, QueryRegistry)
