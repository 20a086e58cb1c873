"""The dissemination tree: exact, at the cost of the edges it takes, and through any reorganisation."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as some

from distributary.errors import DistributaryError, FilterError, UnknownSubscriptionError
from distributary.model import Event, EventKey, Subscription, SubscriptionKey
from distributary.overlay.tree.topology import unsettled
from systems.tree.worlds import World


@settings(max_examples=25, deadline=None)
@given(some.integers(0, 10**6), some.integers(1, 12), some.integers(1, 4))
def test_what_is_delivered_is_what_was_asked_for(seed: int, nodes: int, most: int) -> None:
    """However few profiles an interest may have, and with clients that come and go."""
    world = World(nodes, seed, most_profiles=most)
    for step in range(40):
        choice = world.random.random()
        if choice < 0.4:
            world.subscribe(f"s{step}")
        elif choice < 0.5 and world.deployment.subscriptions:
            world.deployment.unsubscribe(world.random.choice(sorted(world.deployment.subscriptions)))
        else:
            world.publish()
        world.simulator.run()
    assert world.got() == world.expected
    assert unsettled(world.trees()) == []


@settings(max_examples=20, deadline=None)
@given(some.integers(0, 10**6), some.integers(2, 20))
@example(741, 12)  # a node is granted a child's interest by its old parent, and later by its new one
def test_reorganising_under_traffic_loses_and_repeats_nothing(seed: int, nodes: int) -> None:
    """Without beats: requests and answers alone must do."""
    world = World(nodes, seed)
    for number in range(nodes):
        world.subscribe(f"s{number}")
    world.run(3)
    for _ in range(60):
        world.publish()
        world.reorganise()
        world.run(world.random.choice([0.0, 0.01, 0.05, 0.3]))
    world.simulator.run()
    assert world.got() == world.expected
    assert unsettled(world.trees()) == []


@pytest.mark.parametrize("seed", range(2))
def test_thousands_of_reorganisations_under_traffic_lose_and_repeat_nothing(seed: int) -> None:
    """With beats, while clients keep what they asked for; several changes are on their way at any time."""
    world = World(30, seed, robust=True, watch=False)
    for number in range(40):
        world.subscribe(f"s{number}")
    world.run(5)
    for step in range(1000):
        world.reorganise()
        if step % 3 == 0:
            world.publish()
        world.run(0.1)
    world.run(30)
    assert world.got() == world.expected
    assert unsettled(world.trees()) == []
    assert sum(tree.link.moves for tree in world.trees()) > 500
    assert sum(tree.log.missing for tree in world.trees()) == 0


def test_an_event_costs_the_way_to_the_root_and_an_edge_for_each_child_that_must_have_it() -> None:
    world = World(20, 1)
    homes = [4, 9, 17]
    for home in homes:
        world.deployment.subscribe(Subscription(f"s{home}", "ann", topic="A"), at=home)
    world.simulator.run()
    edges = set()
    for home in homes:
        at = home
        while at != 1:
            edges.add(at)
            at = world.broker(at).tree.parent or 1
    world.deployment.publish(Event("wanted", "A/B"), at=20)
    world.deployment.publish(Event("not wanted", "B"), at=20)
    world.simulator.run()
    assert world.deployment.metrics.cost(("publish", EventKey("", "wanted"))).messages == 1 + len(edges)
    assert world.deployment.metrics.cost(("publish", EventKey("", "not wanted"))).messages == 1


def test_a_covered_profile_goes_no_further_than_to_who_asked_for_more_already() -> None:
    world = World(20, 1)
    deep = max(world.trees(), key=lambda tree: len(ways_up(world, tree.address)))
    world.deployment.subscribe(Subscription("wide", "ann", topic="A"), at=deep.address)
    world.simulator.run()
    world.deployment.subscribe(Subscription("narrow", "bob", topic="A/B"), at=deep.address)
    world.simulator.run()
    costs = world.deployment.metrics.cost
    assert costs(("subscribe", SubscriptionKey("ann", "wide"))).messages == 2 * len(
        ways_up(world, deep.address)
    )
    assert costs(("subscribe", SubscriptionKey("bob", "narrow"))).messages == 0
    world.deployment.unsubscribe(SubscriptionKey("ann", "wide"))
    world.simulator.run()
    assert [
        tree.upstream.interest.forms for tree in world.trees() if tree.address in ways_up(world, deep.address)
    ] == [((("topic", "A/B"),),)] * len(ways_up(world, deep.address))


def ways_up(world: World, address: int) -> list[int]:
    """A node and those above it, the root left out."""
    way = []
    while address != 1:
        way.append(address)
        address = world.broker(address).tree.parent or 1
    return way


def test_a_node_goes_neither_below_itself_nor_to_a_full_parent() -> None:
    world = World(3, 1, fanout=1)
    assert [tree.parent for tree in world.trees()] == [None, 1, 2]
    for node, new in ((2, 3), (3, 1)):
        broker = world.broker(node)
        world.simulator.call(node, lambda broker=broker, new=new: broker.change_parent(new))  # type: ignore[misc]
        world.simulator.run()
        assert broker.tree.link.change is None
    assert [tree.parent for tree in world.trees()] == [None, 1, 2]
    with pytest.raises(DistributaryError, match="is the root"):
        world.broker(1).change_parent(2)
    with pytest.raises(DistributaryError, match="its own parent"):
        world.broker(2).change_parent(2)


def test_nodes_that_come_later_find_a_parent_and_get_what_follows() -> None:
    world = World(4, 2, fanout=2)
    for address in range(11, 21):
        world.deployment.add(address)
        world.run(0.02)
    world.simulator.run()
    for address in range(11, 21):
        world.subscribe(f"s{address}", at=address)
    world.simulator.run()
    for _ in range(20):
        world.publish()
    world.simulator.run()
    assert world.got() == world.expected
    assert unsettled(world.trees()) == []


@pytest.mark.parametrize("robust", [False, True])
def test_nodes_leave_one_after_the_other_the_root_first_and_nothing_is_lost(robust: bool) -> None:
    world = World(9, 3, robust=robust)
    for number in range(12):
        world.subscribe(f"s{number}", at=world.random.choice([7, 8, 9]))
    world.run(5)
    for address in range(1, 7):
        world.deployment.leave(address)
        for _ in range(8):
            world.publish()
            world.run(0.5)
        world.run(15)
        assert unsettled(world.trees()) == []
    world.run(90)
    assert world.got() == world.expected
    assert sorted(tree.address for tree in world.trees()) == [7, 8, 9]


def test_what_was_forgotten_everywhere_is_told() -> None:
    """A node that was cut off for longer than the room of all caches misses events, and says so."""
    world = World(3, 1, robust=True, room=5, fanout=1)
    world.deployment.subscribe(Subscription("s", "ann", topic="A"), at=3)
    world.run(5)
    world.simulator.pause(3)
    for number in range(20):
        world.deployment.publish(Event(f"e{number}", "A"), at=1)
        world.run(1)
    world.simulator.resume(3)
    world.run(30)
    assert world.broker(3).tree.log.missing > 0
    assert world.deployment.deliveries[-1].delivery.event.id == "e19"


def test_the_root_comes_back_without_its_state_and_the_log_goes_on() -> None:
    world = World(8, 5, robust=True)
    for number in range(10):
        world.subscribe(f"s{number}", at=2 + number % 7)
    world.run(5)
    world.deployment.crash(1)
    world.run(10)
    world.deployment.restart(1, keep_state=False)
    world.run(40)
    for _ in range(20):
        world.publish()
        world.run(0.2)
    world.run(20)
    assert world.got() == world.expected
    assert unsettled(world.trees()) == []
    assert {tree.log.epoch for tree in world.trees()} == {0.0}


def test_unknown_subscriptions_cannot_be_given_up_and_unreadable_ones_not_made() -> None:
    world = World(3, 1)
    with pytest.raises(UnknownSubscriptionError):
        world.broker(2).unsubscribe(SubscriptionKey("ann", "nothing"))
    with pytest.raises(FilterError):
        world.deployment.subscribe(Subscription("s", "ann", where="a >"), at=2)
    assert world.broker(2).tree.upstream.interest.forms == ()
