"""Nodes measure the links between them, and the registry chooses by what they have measured."""

from __future__ import annotations

from math import inf

import pytest

from distributary.flow import Source
from distributary.overlay.node import Address, Effect, Message, Node, Send
from distributary.plan.queries.goals import LATENCY, parse_query_goal
from distributary.plan.queries.spreading import ParentPreference
from distributary.sim.faults import Duplication, Injection, Loss, Pause
from distributary.sim.latency import BandwidthLatency
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.link_meter import LinkMeter
from distributary.systems.queries.links import LinkTable
from distributary.systems.queries.registry import QueryRegistry
from distributary.systems.queries.registry_failover import RegistryLink
from distributary.systems.queries.settings import QueryOptimiserSettings
from distributary.systems.queries.source_trees import ParentChoice, SourceTree
from systems.queries.worlds import REGISTRY, LineLatency, World, row_of_nodes


def registry_of(world: World) -> QueryRegistry:
    found = world.broker(REGISTRY).registry_link.local_registry
    assert found is not None
    return found


def expect_measured(links: LinkTable, nodes: list[Address], within: float) -> None:
    for one in nodes:
        for other in nodes:
            assert links.latency(one, other) == pytest.approx(0.02 * abs(one - other), abs=within)


def test_the_registry_knows_latencies_that_nodes_have_measured() -> None:
    world = World(6, 1, network=LineLatency(1, jitter=0.0))
    expect_measured(registry_of(world).links, world.nodes, within=1e-9)


def test_latencies_are_measured_though_messages_are_lost_and_doubled_and_a_node_pauses() -> None:
    world = World(5, 2)
    now = world.simulator.now
    faults = [
        Loss(start=now, end=now + 400, probability=0.2),
        Duplication(start=now, end=now + 400, probability=0.2, within=0.5),
        Pause(start=now + 25, end=now + 45, node=3),
    ]
    fired = Injection(world.population, faults).fired
    world.run(420)
    assert all(fired.values()), fired
    # Jitter of up to 20 ms a message is half of that on average; nothing else may be added.
    for node in world.nodes:
        links = world.broker(node).link_meter.links()
        for other in set(world.nodes) - {node}:
            assert links[other].latency == pytest.approx(0.02 * abs(node - other) + 0.01, abs=0.006)


class Changing(LineLatency):
    """From a moment on all links are longer."""

    longer = 0.0

    def delay(self, now: float, sender: Address, to: Address, message: Message) -> float:
        return super().delay(now, sender, to, message) + self.longer


def test_the_registry_hears_of_links_that_have_changed() -> None:
    network = Changing(3, jitter=0.0)
    world = World(3, 3, network=network)
    network.longer = 0.5
    world.run(300)
    assert registry_of(world).links.latency(1, 3) == pytest.approx(0.54)
    sent = world.metrics.by_kind()["LinkReport"].messages
    world.run(300)
    assert world.metrics.by_kind()["LinkReport"].messages == sent, "nothing has changed since"


def test_clocks_need_not_agree() -> None:
    nodes = {address: Node(address) for address in (1, 2)}
    clocks = {1: 1000.0, 2: -50.0}
    meters = {
        address: LinkMeter(RegistryLink(Connections(node), 9), (1, 2), period=30.0, speed=inf)
        for address, node in nodes.items()
    }

    def carry(sender: Address, effects: list[Effect], now: float) -> None:
        for effect in effects:
            if isinstance(effect, Send) and effect.to in nodes:
                arrives = now + 0.25
                node = nodes[effect.to]
                answers = node.receive(effect.message, sender, arrives + clocks[effect.to])
                carry(effect.to, answers, arrives)

    carry(1, nodes[1].call(meters[1].probe, clocks[1]), 0.0)
    assert meters[1].links()[2].latency == pytest.approx(0.25)


def bandwidth_world(lines: dict[Address, float], jitter: float = 0.0) -> World:
    return World(4, 4, network=BandwidthLatency(LineLatency(4, jitter), lines))


def test_bandwidth_is_measured_where_a_line_holds_messages_up() -> None:
    world = bandwidth_world({2: 20_000.0, 3: 200_000.0})
    world.run(200)
    links = registry_of(world).links
    assert links.bandwidth(2, 4) == pytest.approx(20_000.0, rel=0.05)
    assert links.bandwidth(3, 1) == pytest.approx(200_000.0, rel=0.05)
    assert links.bandwidth(4, 3) == inf


def test_probes_to_many_brokers_do_not_make_a_narrow_line_look_wider() -> None:
    world = World(16, 4, network=BandwidthLatency(LineLatency(4, 0.0), {2: 10_000.0}))
    world.run(200)
    links = registry_of(world).links
    measured = sorted(links.bandwidth(2, other) for other in world.nodes if other != 2)
    assert measured[:-2] == pytest.approx([10_000.0] * 13, rel=0.05)
    assert measured[-1] < 13_000.0, "of a few links there are not many samples yet"


def test_bandwidth_that_cannot_be_told_from_jitter_is_not_claimed() -> None:
    world = bandwidth_world({2: 10_000_000.0}, jitter=0.02)
    world.run(400)
    links = [link for broker in world.brokers for link in broker.link_meter.links().values()]
    assert [link.bandwidth for link in links] == [inf] * 12


def test_a_root_broker_is_the_nearest_whose_measured_bandwidth_is_enough() -> None:
    world = bandwidth_world({4: 5_000.0})
    world.run(60)
    source = Source("trades", {"at": "integer"}, time="at", topic="trades")
    world.simulator.call(4, lambda: world.broker(4).register_source(source, volume=15_000.0))
    world.run(5)
    assert registry_of(world).locations["trades"].host == 3, "4 is its proxy, and its line is too slow"


@pytest.mark.parametrize(
    ("prefer", "parent"),
    [
        (ParentPreference.NEAREST, 6),
        (ParentPreference.SHORTEST_PATH, 4),
        (ParentPreference.FEWEST_CHILDREN, 2),
    ],
)
def test_a_parent_is_chosen_by_what_the_goal_asks_for(prefer: ParentPreference, parent: Address) -> None:
    # The way to 6 leads by 1, to and fro; 2 and 5 have no child, and 2 is the nearer one.
    tree = SourceTree(4, {1: 4, 6: 1, 2: 6, 3: 4, 5: 3})
    links = row_of_nodes(7)
    links.learn(5, [(7, links.known[1, 7])])
    assert tree.join(7, ParentChoice(links, fanout=4, prefer=prefer)) == parent


def test_newcomers_follow_the_goal_of_the_network() -> None:
    goal = parse_query_goal(LATENCY)
    world = World(4, 6, optimising=QueryOptimiserSettings(goal))
    assert registry_of(world).parent_choice.prefer is ParentPreference.SHORTEST_PATH
    assert registry_of(World(2, 6)).parent_choice.prefer is ParentPreference.NEAREST


def test_nothing_is_kept_of_the_links_of_a_node_that_is_removed() -> None:
    registry = registry_of(World(4, 7))
    registry.remove_node(2)
    assert registry.links.known
    assert not any(2 in ends for ends in registry.links.known)
    assert 2 not in registry.speeds
