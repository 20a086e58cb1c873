"""Streams with many readers spread by trees: no node has more children than allowed, answers stay exact."""

from __future__ import annotations

from random import Random

import pytest

from distributary.flow import Catalogue, Item, QueryBuilder, Source
from distributary.overlay.courier import Packet
from distributary.overlay.node import Address, Message, Node, Send
from distributary.plan.queries.goals import LATENCY, parse_query_goal
from distributary.plan.queries.spreading import ParentPreference
from distributary.sim.faults import Crash, Duplication, Injection, Loss, Pause, Reordering
from distributary.sim.simulator import Observer
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.engine import Engine
from distributary.systems.queries.links import LinkTable
from distributary.systems.queries.messages import (
    Element,
    Prune,
    Selection,
    StreamElements,
    StreamLocation,
    StreamReader,
    Subscribe,
    SubscriptionGrant,
    SubscriptionRedirect,
)
from distributary.systems.queries.registry_failover import RegistryLink
from distributary.systems.queries.settings import CheckpointSettings, QueryOptimiserSettings
from distributary.systems.queries.source_trees import ParentChoice, SourceTree
from distributary.systems.queries.stream_trees import StreamParent, StreamTrees, StreamTreeSettings
from distributary.systems.queries.tree_rules import best_change, restructure, tree_cost
from systems.queries.test_links import registry_of
from systems.queries.worlds import LineLatency, World, expect_equal, row_of_nodes

TRADES = Source("trades", {"size": "integer", "at": "integer"}, time="at", topic="trades", lateness=0)
STREAM = "first.all"
READER = StreamReader("r", 0, 1)


def many_readers(count: int) -> Catalogue:
    """A query, and others that read its stream, each in a way of its own."""
    first = QueryBuilder("first")
    first.filter("all", "trades", where="size >= 0")
    made = [first.query()]
    for number in range(count):
        build = QueryBuilder(f"q{number}")
        build.copy("again", STREAM, {"size": f"size{number}"})
        made.append(build.query())
    return Catalogue([TRADES], made)


def placed(count: int) -> dict[str, Address]:
    """Each reader at a node of its own; the first query at node 1."""
    return {"trades": 1, "first": 1, **{f"q{number}": number + 2 for number in range(count)}}


class Hops(Observer):
    """Which nodes sent the stream to which others, since it was last cleared."""

    def __init__(self) -> None:
        self.children: dict[Address, set[Address]] = {}

    def sent(self, now: float, sender: Address, to: Address, message: object, *rest: object) -> None:
        inner = message.message if isinstance(message, Packet) else message
        if isinstance(inner, StreamElements) and inner.stream == STREAM:
            self.children.setdefault(sender, set()).add(to)

    @property
    def most(self) -> int:
        return max(map(len, self.children.values()), default=0)


def feed(world: World, count: int, start: int = 0, each: float = 0.2) -> list[Item]:
    items = []
    for number in range(start, start + count):
        items.append(Item(f"t{number}", number * 100, {"size": number, "at": number * 100}))
        world.feed("trades", items[-1])
        world.run(each)
    return items


def test_no_node_sends_a_stream_to_more_nodes_than_the_fanout_allows() -> None:
    catalogue = many_readers(9)
    hops = Hops()
    world = World(10, 1, fanout=2)
    world.register(catalogue, placed(9))
    world.simulator.observe(hops)
    fed = feed(world, 20)
    world.run(20)
    expect_equal(world, catalogue, {"trades": fed})
    assert hops.most == 2
    assert set().union(*hops.children.values()) == set(range(2, 11)), "all readers are on the tree"
    tree = world.broker(1).router.stream_trees.trees[STREAM]
    assert tree.members == set(range(1, 11))


def test_readers_that_leave_leave_the_tree() -> None:
    world = World(8, 2, fanout=2)
    catalogue = many_readers(7)
    world.register(catalogue, placed(7))
    feed(world, 5)
    tree = world.broker(1).router.stream_trees.trees[STREAM]
    leaf = next(node for node in sorted(tree.parents) if not tree.children(node))
    inner = next(node for node in sorted(tree.parents) if tree.children(node))
    for node in (leaf, inner):
        world.simulator.call(node, lambda node=node: world.broker(node).unregister_query(f"q{node - 2}"))  # type: ignore[misc]
        world.run(5)
    assert leaf not in tree.members
    assert inner in tree.members, "it stays for those below it"
    fed = feed(world, 5, start=5)
    world.run(5)
    kept = [f"q{node - 2}" for node in range(2, 9) if node not in (leaf, inner)]
    found = world.results()
    for name in kept:
        assert {item.id for item in found[f"{name}.again"]} >= {item.id for item in fed}


def moved_about(seed: int, *, faults: bool, gone: bool = False) -> World:
    """The operator moves from node to node while its stream has many readers; some of these move too."""
    random = Random(f"{seed}/trees")
    readers = random.randint(4, 8)
    catalogue = many_readers(readers)
    checkpoints = CheckpointSettings(checkpoint=1.0, beat=0.5, silence=6.0) if gone else None
    prefer = random.choice(list(ParentPreference))
    nodes = readers + 2
    world = World(nodes, seed, fanout=2, checkpoints=checkpoints, restructuring=2.0, prefer=prefer)
    world.register(catalogue, placed(readers))
    now = world.simulator.now
    fired: dict[str, int] = {}
    if faults:
        one, other = random.sample(world.nodes[1:], 2)
        fired = Injection(
            world.population,
            [
                Loss(start=now, end=now + 20, probability=0.1),
                Duplication(start=now, end=now + 20, probability=0.1, within=0.5),
                Reordering(start=now, end=now + 20, probability=0.1, by=0.3),
                Pause(start=now + 2, end=now + 5, node=one),
                Crash(start=now + 4, end=now + 7, node=other, keep_state=True),
            ],
        ).fired
    if gone:
        # It has neither sources nor clients.
        world.simulator.at(now + 6, lambda: world.population.crash(nodes))
    fed: list[Item] = []
    for start in range(0, 60, 5):
        fed += feed(world, 5, start=start)
        for name, at in world.operators_up():
            wanted = name == STREAM or random.random() < 0.1
            if wanted and not world.simulator.is_paused(at) and random.random() < 0.5:
                to = random.choice(world.nodes)
                world.simulator.call(at, lambda at=at, name=name, to=to: world.broker(at).move(name, to))  # type: ignore[misc]
    world.run(150)
    world.end("trades")
    world.run(60)
    assert not faults or all(fired.values()), fired
    expect_equal(world, catalogue, {"trades": fed}, in_order=not gone)
    return world


@pytest.mark.parametrize(("faults", "gone"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("seed", range(3))
def test_answers_are_exact_while_trees_change_and_operators_move(seed: int, faults: bool, gone: bool) -> None:
    moved_about(seed, faults=faults, gone=gone)


@pytest.mark.chaos
@pytest.mark.parametrize(("faults", "gone"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("seed", range(100, 160))
def test_answers_are_exact_while_trees_change_and_operators_move_on_many_seeds(
    seed: int, faults: bool, gone: bool
) -> None:
    moved_about(seed, faults=faults, gone=gone)


# Restructuring


def test_a_rule_is_applied_that_gains_most_and_keeps_the_fanout() -> None:
    tree = SourceTree(1, {2: 1, 3: 1, 4: 2, 5: 2, 6: 1})
    choice = ParentChoice(row_of_nodes(6), fanout=3, prefer=ParentPreference.NEAREST)
    before = tree_cost(tree, choice)
    told = restructure(tree, choice)
    assert tree_cost(tree, choice) < before
    assert told
    assert tree.unsettled
    assert best_change(tree, choice) == {}, "not all know of the last change"
    for _ in range(10):
        tree.unsettled.clear()
        restructure(tree, choice)
        assert max(tree.children(node) for node in tree.members) <= 3
    assert tree_cost(tree, choice) == 5.0, "each below its neighbour"


@pytest.mark.parametrize("prefer", list(ParentPreference))
def test_rules_keep_a_tree_and_never_invert_it(prefer: ParentPreference) -> None:
    """A node and its old and new parents, whoever has heard of what, make no cycle."""
    random = Random(7)
    for _ in range(40):
        count = random.randint(3, 9)
        tree = SourceTree(1, {node: random.randrange(1, node) for node in range(2, count + 1)})
        choice = ParentChoice(row_of_nodes(count), fanout=3, prefer=prefer)
        changes = best_change(tree, choice)
        for _ in range(5):
            heard = {node: parent for node, parent in changes.items() if random.random() < 0.5}
            mixed = SourceTree(1, {**tree.parents, **heard})
            assert all(len(set(mixed.path(node))) <= count for node in mixed.parents)


class Wandering(LineLatency):
    """Nodes in a row that change their places at some moment."""

    def __init__(self) -> None:
        super().__init__(5, jitter=0.0)
        self.places: dict[Address, int] = {}

    def delay(self, now: float, sender: Address, to: Address, message: Message) -> float:
        one, other = self.places.get(sender, sender), self.places.get(to, to)
        return super().delay(now, one, other, message)


@pytest.mark.parametrize("prefer", [ParentPreference.NEAREST, ParentPreference.SHORTEST_PATH])
def test_trees_follow_links_that_have_changed_while_operators_follow_the_goal(
    prefer: ParentPreference,
) -> None:
    """Network rules and query rules work at the same time, and answers stay exact."""
    settings = QueryOptimiserSettings(parse_query_goal(LATENCY), period=4.0, window=0.5)
    network = Wandering()
    world = World(9, 5, fanout=2, network=network, optimising=settings, prefer=prefer, probing=2.0)
    catalogue = many_readers(8)
    # Half of the queries read the source by its tree.
    build = [QueryBuilder(f"r{number}") for number in range(8)]
    for number, one in enumerate(build):
        one.copy("source", "trades", {"size": f"other{number}"})
    catalogue = Catalogue([TRADES], [*catalogue.queries.values(), *(one.query() for one in build)])
    world.register(catalogue, {**placed(8), **{f"r{number}": number + 2 for number in range(8)}})
    fed = feed(world, 50)
    registry = registry_of(world)
    formerly = [SourceTree(tree.root, dict(tree.parents)) for tree in registry.trees]
    network.places = {node: (node * 4) % 9 for node in world.nodes}
    fed += feed(world, 250, start=50)
    choice = registry.parent_choice
    for tree, former in zip(registry.trees, formerly, strict=True):
        assert best_change(tree, choice) == {}, "no rule helps any more"
        assert tree_cost(tree, choice) < tree_cost(former, choice)
    assert registry.restructured > 0
    assert sum(one.router.stream_trees.restructured for one in world.brokers) > 0
    assert sum(one.reconfiguration.moves for one in world.brokers) > 0
    world.run(20)
    world.end("trades")
    world.run(20)
    expect_equal(world, catalogue, {"trades": fed})


# One node


def test_those_below_a_node_that_is_removed_are_told_their_ways() -> None:
    sent: list[tuple[Address, object]] = []
    trees = StreamTrees(
        Node(1), lambda to, message: sent.append((to, message)), StreamTreeSettings(2), lambda _: 7, LinkTable
    )
    trees.trees[STREAM] = SourceTree(1, {2: 1, 3: 2, 4: 3})
    trees.remove_node(2)
    assert sent == [(3, StreamParent(STREAM, 7, 1, True)), (4, StreamParent(STREAM, 7, 3, True))]


def test_a_grant_that_took_the_former_way_is_not_passed_on() -> None:
    node = Node(9)
    router = Engine(RegistryLink(Connections(node), 1), False, print).router
    reader, location = StreamReader("r", 0, 1), StreamLocation(2)
    grant = SubscriptionGrant(STREAM, reader, ())
    passed = []
    for message, sender in (
        (Subscribe(STREAM, reader, Selection(), None, location), 5),
        (StreamParent(STREAM, 0, 3, False), 2),
        (grant, 2),
        (grant, 3),
    ):
        effects = node.receive(message, sender, now=0.0)
        sends = [one for one in effects if isinstance(one, Send) and isinstance(one.message, Packet)]
        passed.append([(one.to, type(one.message.message).__name__) for one in sends])
    assert passed == [
        [(2, "Subscribe")],
        [(2, "StreamParentConfirmation"), (3, "Subscribe")],
        [],
        [(5, "SubscriptionGrant")],
    ]
    assert router.stream_parents == {STREAM: 3}


@pytest.mark.parametrize("order", [(5, 6, 2, 2), (6, 5, 2, 2), (5, 2, 6, 2), (6, 2, 5, 2)])
def test_a_subscription_that_comes_by_two_ways_is_served_by_both(order: tuple[Address, ...]) -> None:
    """The reader's own way is by node 5; by 6 comes a copy from before its way changed."""
    node = Node(9)
    Engine(RegistryLink(Connections(node), 1), False, print)
    reader = StreamReader("r", 0, 1)
    subscribe = Subscribe(STREAM, reader, Selection(), None, StreamLocation(2))
    elements = StreamElements(STREAM, (Element(1, Item("i", 1, {})),))
    passed: dict[Address, list[str]] = {}
    for message, sender in (
        *((SubscriptionGrant(STREAM, reader, ()) if sender == 2 else subscribe, sender) for sender in order),
        (elements, 2),
        (Prune(STREAM), 6),
        (elements, 2),
    ):
        for effect in node.receive(message, sender, now=0.0):
            if isinstance(effect, Send) and isinstance(effect.message, Packet):
                passed.setdefault(effect.to, []).append(type(effect.message.message).__name__)
    assert passed[5] == ["SubscriptionGrant", "StreamElements", "StreamElements"]
    assert passed[6] == ["SubscriptionGrant", "StreamElements"]


@pytest.mark.parametrize(
    "change",
    [(StreamParent(STREAM, 0, 3, False), 2), (SubscriptionRedirect(STREAM, READER, StreamLocation(2)), 2)],
)
def test_readers_below_are_told_when_the_way_that_served_them_is_void(
    change: tuple[Message, Address],
) -> None:
    """What the host tells them of the change may have come before it was known here."""
    node = Node(9)
    router = Engine(RegistryLink(Connections(node), 1), False, print).router
    for message, sender in (
        (Subscribe(STREAM, READER, Selection(), None, StreamLocation(2)), 5),
        (SubscriptionGrant(STREAM, READER, ()), 2),
    ):
        node.receive(message, sender, now=0.0)
    assert set(router.routes[STREAM]) == {READER}
    packets = [one for one in node.receive(*change, now=0.0) if isinstance(one, Send)]
    told = SubscriptionRedirect(STREAM, READER, StreamLocation(2))
    assert [one.message.message for one in packets if one.to == 5] == [told]
    assert STREAM not in router.routes


def test_a_reader_subscribes_again_when_its_way_is_void() -> None:
    world = World(3, 1)
    world.register(many_readers(1), placed(1))
    world.run(5)
    host, name = world.broker(1), "q0.again"
    (reader,) = [one for one in host.router.routes[STREAM] if one.name == name]
    told = SubscriptionRedirect(STREAM, reader, host.router.locations[STREAM])
    world.simulator.call(1, lambda: host.router.routes[STREAM].pop(reader))
    world.simulator.call(1, lambda: host.connections.send(2, told))
    world.run(5)
    again = reader._replace(epoch=reader.epoch + 1)
    assert [one for one in host.router.routes[STREAM] if one.name == name] == [again]
    assert list(world.broker(2).router.routes[STREAM]) == [again]
