"""The dissemination tree: exact, at the cost of the edges it takes, and through any reorganisation."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as some

from distributary.overlay.tree_shape import unsettled
from systems.tree_worlds import World


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
