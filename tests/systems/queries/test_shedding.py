"""Queries are thinned out under overload: clients get exactly the true answers of the share they are told."""

from __future__ import annotations

from functools import partial
from random import Random
from typing import NamedTuple

import pytest

from distributary.errors import DistributaryError
from distributary.flow import BEGINNING, Catalogue, Item, Query, QueryBuilder, Source, interpret
from distributary.flow.thinning import ThinningUnit
from distributary.model import Subscription
from distributary.overlay.node import Address, Node
from distributary.sim.faults import Injection
from distributary.sim.processor import SimulatedProcessor
from distributary.sim.trials.query_answers import answers_due
from distributary.systems.queries import FlowBroker, QueryShare
from distributary.systems.queries.client_shares import ClientShares, ShareAgreement, ShareOrder, WholeAgain
from distributary.systems.queries.messages import Element
from distributary.systems.queries.settings import CheckpointSettings, SheddingSettings
from distributary.systems.queries.shedding_registry import LoadReport
from distributary.systems.queries.thinning import (
    NodeThinning,
    ThinningReceipt,
    ThinningRule,
    ThinningTable,
)
from flow.random_queries import SOURCES, random_catalogue
from systems.queries.test_reconfiguration import random_faults
from systems.queries.worlds import World, expect_equal

SEED = 5
SHEDDING = SheddingSettings(period=4.0, seed=SEED)
SCHEMA = {"symbol": "text", "size": "integer", "at": "integer"}
TRADES = Source("trades", SCHEMA, time="at", topic="trades", lateness="1 second")
QUOTES = Source("quotes", SCHEMA, time="at", topic="quotes", lateness="1 second")


def shares(world: World, query: str) -> list[QueryShare]:
    """What the client of a query was told, in order."""
    delivered = [one.item for one in world.simulator.delivered]
    return [item for item in delivered if isinstance(item, QueryShare) and item.query == query]


def expect_told_share(world: World, catalogue: Catalogue, items: dict[str, list[Item]]) -> dict[str, float]:
    """Every client got exactly the true answers that survive at the shares it was told.

    Returns the part of all answers that each query's client got.
    """
    delivered = [one.item for one in world.simulator.delivered]
    told = [item for item in delivered if isinstance(item, QueryShare)]
    due = answers_due(catalogue, items, told, SEED)
    full, found, parts = interpret(catalogue, items).streams, world.results(), {}
    for query in catalogue.queries:
        outputs = catalogue.outputs(query)
        for output in outputs:
            assert sorted(found[output], key=lambda item: item.order) == due[output], output
        total = sum(len(full[output]) for output in outputs)
        parts[query] = sum(len(due[output]) for output in outputs) / total if total else 1.0
    assert not [one for one in world.rejected() if "late" in one.reason]
    return parts


class Rush(NamedTuple):
    """How many events come each second: before, in the rush, and after it; and how long each lasts."""

    calm: float = 2.0
    rush: float = 20.0
    seconds: float = 60.0


RUSH = Rush()


def feed(world: World, sources: list[str], rush: Rush = RUSH, symbols: int = 9) -> dict[str, list[Item]]:
    """Events of sources at the pace of a rush, with the virtual time as theirs; then the sources end."""
    items: dict[str, list[Item]] = {name: [] for name in sources}
    began = world.simulator.now
    for rate, seconds in (
        (rush.calm, rush.seconds),
        (rush.rush, rush.seconds),
        (rush.calm, 2 * rush.seconds),
    ):
        for _ in range(round(rate * seconds)):
            source = world.random.choice(sources)
            at = round(1000 * (world.simulator.now - began))
            values = {"symbol": f"s{world.random.randrange(symbols)}", "size": world.random.randrange(90)}
            items[source].append(Item(f"{source}{len(items[source])}", at, {**values, "at": at}))
            world.feed(source, items[source][-1])
            world.run(1 / rate)
    for source in sources:
        world.end(source)
    world.run(300)
    return items


def stateless(name: str) -> Query:
    build = QueryBuilder(name)
    build.copy("again", "trades", {"size": f"size_{name}"})
    return build.query()


def counted(name: str) -> Query:
    build = QueryBuilder(name)
    large = build.filter("large", "trades", where="size >= 10")
    build.aggregate("n", large, "5 seconds", {f"n_{name}": "count()", "v": "sum(size)"}, ["symbol"])
    return build.query()


def ranked(name: str) -> Query:
    build = QueryBuilder(name)
    build.truncate("first", build.sort("sorted", "trades", "2 seconds", ["size desc"]), "4 seconds", 3)
    return build.query()


def joined(name: str) -> Query:
    build = QueryBuilder(name)
    pairs = build.join("pairs", "trades", "quotes", on=["symbol"], within="2 seconds", prefix="q_")
    build.count("n", pairs, "6 seconds every 3 seconds", ["symbol"], name=f"n_{name}")
    return build.query()


MADE = {"stateless": stateless, "counted": counted, "ranked": ranked, "joined": joined}


def overloaded(
    made: dict[str, Query], speed: float, settings: SheddingSettings = SHEDDING, utility: float = 1.0
) -> tuple[World, Catalogue, dict[str, list[Item]]]:
    """Queries at node 3, which is too slow for the rush; the first has a utility."""
    catalogue = Catalogue([TRADES, QUOTES], made.values())
    world = World(3, 4, processors={3: SimulatedProcessor(speed)}, shedding=settings)
    world.register(Catalogue([TRADES, QUOTES], []), {"trades": 1, "quotes": 2})
    for number, query in enumerate(made.values()):
        register = partial(world.broker(3).register_query, query, utility if number == 0 else 1.0)
        world.simulator.call(3, register)
        world.run(4)
    return world, catalogue, feed(world, ["trades", "quotes"])


@pytest.mark.parametrize("kind", MADE)
def test_a_client_gets_the_share_it_is_told_and_all_when_the_overload_ends(kind: str) -> None:
    world, catalogue, items = overloaded({"q": MADE[kind]("q")}, speed={"joined": 12.0}.get(kind, 8.0))
    told = shares(world, "q")
    assert told[0].share < 1
    assert told[-1].share == 1.0
    assert told[-1].since < items["trades"][-1].time, "answers of the last minute are whole"
    part = expect_told_share(world, catalogue, items)["q"]
    assert min(one.share for one in told) <= part < 0.9, "about a third of all events come when it is calm"
    assert world.broker(1).shedding.registry.queries == {}, "others may read its streams again"  # type: ignore[union-attr]


def test_without_shedding_the_same_rush_leaves_items_waiting() -> None:
    longest = {}
    for settings in (None, SHEDDING):
        world = World(3, 4, processors={3: SimulatedProcessor(8.0)}, shedding=settings)
        world.register(Catalogue([TRADES, QUOTES], [stateless("q")]), {"trades": 1, "quotes": 2, "q": 3})
        feed_rush = Rush(seconds=30.0)
        backlog = 0
        run = world.run

        def watched(seconds: float, run: object = run, world: World = world) -> None:
            nonlocal backlog
            run(seconds)  # type: ignore[operator]
            backlog = max(backlog, world.broker(3).engine.queue.backlog)

        world.run = watched  # type: ignore[method-assign]
        items = feed(world, ["trades"], feed_rush)
        expect_told_share(world, Catalogue([TRADES, QUOTES], [stateless("q")]), {**items, "quotes": []})
        longest[settings] = backlog
    assert longest[SHEDDING] < longest[None] / 2


def test_shares_are_those_of_the_plan_by_utility() -> None:
    for utility, kept in ((5.0, "a"), (0.2, "b")):
        world, catalogue, items = overloaded({"a": counted("a"), "b": ranked("b")}, 30.0, utility=utility)
        least = {query: min([one.share for one in shares(world, query)], default=1.0) for query in "ab"}
        other = "b" if kept == "a" else "a"
        assert least[kept] == 1.0 > least[other]
        expect_told_share(world, catalogue, items)


def test_a_query_that_cannot_be_thinned_out_stays_whole_and_its_client_is_told_why() -> None:
    build = QueryBuilder("b")
    build.count("n", "trades", "5 items")
    world, catalogue, items = overloaded({"a": counted("a"), "b": build.query()}, 24.0)
    (told,) = shares(world, "b")
    assert (told.share, told.refused) == (1.0, "b.n has windows by number, which depend on all items before")
    parts = expect_told_share(world, catalogue, items)
    assert parts["a"] < parts["b"] == 1.0


def test_nothing_is_dropped_of_what_a_subscription_or_another_query_reads_too() -> None:
    whole = QueryBuilder("whole")
    whole.count("every", "q.large", "5 items")
    catalogue = Catalogue([TRADES, QUOTES], [counted("q"), whole.query()])
    world = World(3, 4, processors={3: SimulatedProcessor(20.0)}, shedding=SHEDDING)
    world.register(catalogue, {"trades": 1, "quotes": 2, "q": 3, "whole": 2})
    items = feed(world, ["trades", "quotes"])
    parts = expect_told_share(world, catalogue, items)
    assert parts["q"] < parts["whole"] == 1.0


def test_who_would_read_a_thinned_query_is_refused_until_it_is_whole() -> None:
    world = World(3, 4, processors={3: SimulatedProcessor(8.0)}, shedding=SHEDDING)
    world.register(Catalogue([TRADES, QUOTES], [counted("q")]), {"trades": 1, "quotes": 2, "q": 3})
    subscription = Subscription("s", "ann", topic="q/n")

    def ask() -> None:
        world.simulator.call(2, partial(world.broker(2).register_query, counted("again")))
        world.simulator.call(2, partial(world.broker(2).subscribe, subscription))
        world.simulator.call(2, partial(world.broker(2).register_query, stateless("other")))

    refused = {}
    for after in (90, 235):
        world.simulator.at(world.simulator.now + after, ask)
    world.simulator.at(world.simulator.now + 100, lambda: refused.update(world.broker(2).refused))
    items = feed(world, ["trades", "quotes"])
    assert min(one.share for one in shares(world, "q")) < 1.0
    reason = "it would read q.large of 'q', which is thinned out: try again when that is whole"
    assert refused.pop("again") == reason
    assert list(refused.values()) == [reason.replace("large", "n")]
    assert "again" not in world.broker(2).refused
    expect_told_share(world, Catalogue([TRADES, QUOTES], [counted("q")]), items)
    late = {item.id for item in world.results()["again.n"]}
    assert late
    assert late < {item.id for item in world.results()["q.n"]}
    assert {one.event.id for one in world.deliveries()} <= {item.id for item in world.results()["q.n"]}
    assert world.deliveries()


def random_overload(seed: int, faults: bool) -> tuple[int, int]:
    """Random queries at slow nodes; returns how many shares clients were told, and how often one was 1."""
    random = Random(f"{seed}/shedding")
    nodes = random.randint(2, 5)
    catalogue = random_catalogue(random, max_operators=3, queries=3)
    speeds = {node: SimulatedProcessor(random.choice([10.0, 20.0, 40.0])) for node in range(1, nodes + 1)}
    settings = SheddingSettings(period=2.0, seed=SEED)
    world = World(nodes + 1, seed, processors=speeds, shedding=settings)
    world.register(catalogue)
    if faults:
        fired = Injection(world.population, random_faults(random, world, world.simulator.now)).fired
    items: dict[str, list[Item]] = {source.name: [] for source in SOURCES}
    for pace in [0.2] * 20 + [0.02] * 600 + [0.5] * 80:
        source = random.choice(SOURCES)
        at = round(1000 * world.simulator.now)
        values = {
            name: random.choice([None, *VALUES[type]]) for name, type in source.schema.attributes.items()
        }
        item = Item(f"e{len(items[source.name])}", at, {**values, source.schema.time: at})
        items[source.name].append(item)
        world.feed(source.name, item)
        world.run(pace)
        if random.random() < 0.03:
            world.change()
    for source in SOURCES:
        world.end(source.name)
    world.run(400)
    if faults:
        assert fired["loss"]
    expect_told_share(world, catalogue, items)
    assert world.disorder() == []
    told = [one for query in catalogue.queries for one in shares(world, query) if one.refused is None]
    return len(told), sum(one.share == 1.0 for one in told)


VALUES = {"text": ["a", "b", "c"], "integer": [0, 1, 2, 3], "number": [0.5, 2.0], "boolean": [True, False]}


@pytest.mark.parametrize("faults", [False, True])
def test_random_queries_at_slow_nodes_give_the_shares_told_amid_changes(faults: bool) -> None:
    told = [random_overload(seed, faults) for seed in range(6)]
    assert sum(count for count, _ in told) > 10
    assert sum(whole for _, whole in told) > 3


@pytest.mark.chaos
@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("seed", range(100, 160))
def test_random_queries_give_the_shares_told_on_many_seeds(seed: int, faults: bool) -> None:
    random_overload(seed, faults)


def test_a_withdrawn_query_leaves_nothing_of_its_share() -> None:
    world = World(3, 4, processors={3: SimulatedProcessor(8.0)}, shedding=SHEDDING)
    world.register(Catalogue([TRADES, QUOTES], [counted("q")]), {"trades": 1, "quotes": 2, "q": 3})
    start = world.simulator.now
    broker = world.broker(3)
    world.simulator.at(start + 90, lambda: world.simulator.call(3, partial(broker.unregister_query, "q")))
    world.simulator.at(
        start + 110, lambda: world.simulator.call(3, partial(broker.register_query, stateless("q")))
    )
    items = feed(world, ["trades", "quotes"])
    shedding = world.broker(1).shedding
    assert shedding is not None
    assert shedding.registry is not None
    assert shedding.registry.queries == {}
    again = {item.id for item in world.results()["q.again"]}
    last_quarter = [item.id for item in items["trades"] if item.time > 180_000]
    assert again.issuperset(last_quarter)


def test_a_query_that_is_gone_for_good_leaves_nothing_behind() -> None:
    world = World(3, 4, processors={3: SimulatedProcessor(8.0)}, shedding=SHEDDING)
    world.register(Catalogue([TRADES, QUOTES], [counted("q")]), {"trades": 1, "quotes": 2, "q": 3})
    action = partial(world.broker(3).unregister_query, "q")
    world.simulator.at(world.simulator.now + 90, partial(world.simulator.call, 3, action))
    feed(world, ["trades", "quotes"])
    assert shares(world, "q")
    for broker in world.brokers:
        assert broker.shedding is not None
        assert broker.shedding.clients.queries == {}
        assert broker.engine.thinning.share_of("q.large") == 1.0


def test_operators_are_spared_what_those_before_them_leave_out_and_still_measured_in_full() -> None:
    world = World(3, 4, processors={3: SimulatedProcessor(8.0)}, shedding=SHEDDING)
    world.register(Catalogue([TRADES, QUOTES], [counted("q")]), {"trades": 1, "quotes": 2, "q": 3})
    reports: list[tuple[float, dict[str, float]]] = []
    registry, start = world.broker(1), world.simulator.now
    watch = registry.node._handlers[LoadReport]

    def watched(message: LoadReport, sender: Address) -> None:
        if sender == 3:
            reports.append((world.simulator.now - start, dict(message.loads)))
        watch(message, sender)

    registry.node._handlers[LoadReport] = watched
    items = feed(world, ["trades", "quotes"])
    in_rush = [loads for at, loads in reports if 80 < at < 118]
    assert len(in_rush) > 5
    for loads in in_rush:
        assert 7 < loads["q.large"] < 13, "ten trades a second, eight of nine of which are large"
    averages = [sum(loads[name] for loads in in_rush) for name in ("q.large", "q.n")]
    assert 0.7 < averages[1] / averages[0] < 1.4
    large = sum(item.attributes["size"] >= 10 for item in items["trades"])
    assert len(world.taken["q.n", 0, "q.large"]) < 0.8 * large


PIECES = ThinningUnit(1000, 0, 0, {"q.n": ("symbol",)})


def test_a_share_is_in_force_from_the_beginning_of_a_unit_and_whole_when_nothing_can_lack_items() -> None:
    node, told, watermark = Node(1), list[object](), 0
    clients = ClientShares(node, told.append, lambda reader: watermark, seed=1)
    clients.begin("q", ["client:q.n"])
    answer = Item("a", 4200, {"symbol": "s"})
    assert clients.delivers("q", "q.n", answer)
    (share,) = [effect.item for effect in node.receive(ShareOrder(7, "q", 0.5, 5500, PIECES), 1, now=0)]  # type: ignore[union-attr]
    assert (share.share, share.since) == (0.5, 6000)
    groups = ThinningUnit(None, 300, 40, {"q.n": ("symbol",)})
    (share,) = [effect.item for effect in node.receive(ShareOrder(8, "q", 1.0, 6000, groups), 1, now=0)]  # type: ignore[union-attr]
    assert (share.share, share.since) == (1.0, 6001)
    watermark = 6340
    clients.check_whole()
    assert told[2:] == []
    watermark = 6341
    clients.check_whole()
    clients.check_whole()
    assert told == [ShareAgreement(7, 6000), ShareAgreement(8, 6001), WholeAgain(8)]


def test_a_node_follows_the_latest_table_whatever_comes_after_it() -> None:
    thinning = NodeThinning()
    rule = ThinningRule("q", 0.0, 100, PIECES)
    early, late = Element(1, Item("a", 99, {"symbol": "s"})), Element(2, Item("b", 100, {"symbol": "s"}))
    readers = (("q.next", ("q",)),)
    assert thinning.follow(ThinningTable(2, (rule,), readers)).dropped == (("q", BEGINNING),)
    assert thinning.leave_out("q.next", "q.n", [early, late]) == [early]
    assert thinning.leave_out("q.next", "another", [early, late]) == [early, late]
    assert thinning.leave_out("q.other", "q.n", [early, late]) == [early, late]
    receipt = thinning.follow(ThinningTable(1, (), ()))
    assert receipt == ThinningReceipt(2, (("q", 100),))
    assert thinning.leave_out("q.next/2", "q.n", [late]) == [], "a replica leaves out what its operator does"
    assert thinning.follow(ThinningTable(3, (rule._replace(share=1.0),), readers)).dropped == (("q", 100),)
    assert thinning.leave_out("q.next", "q.n", [early, late]) == [early, late]


def test_a_network_that_keeps_up_thins_nothing_out() -> None:
    made = {name: make(name) for name, make in MADE.items()}
    catalogue = Catalogue([TRADES, QUOTES], made.values())
    world = World(3, 4, processors={3: SimulatedProcessor(2000.0)}, shedding=SHEDDING)
    world.register(catalogue, {"trades": 1, "quotes": 2, **dict.fromkeys(made, 3)})
    items = feed(world, ["trades", "quotes"], Rush(seconds=20.0))
    expect_equal(world, catalogue, items)
    assert not any(shares(world, query) for query in made)


def test_shedding_and_checkpoints_exclude_each_other() -> None:
    with pytest.raises(DistributaryError, match="does not shed load"):
        FlowBroker(Node(1), 1, checkpoints=CheckpointSettings(), shedding=SHEDDING)


@pytest.mark.parametrize("utility", [0.0, -1.0, float("inf"), float("nan")])
def test_a_utility_is_a_number_above_zero(utility: float) -> None:
    world = World(1, 1)
    with pytest.raises(DistributaryError, match="utility is above 0, and finite"):
        world.broker(1).register_query(stateless("q"), utility)
