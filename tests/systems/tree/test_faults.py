"""The tree while things go wrong: what no state is lost with costs no event; what is, heals."""

from __future__ import annotations

from itertools import pairwise

import pytest

from distributary.overlay.tree.topology import unsettled
from distributary.sim.faults import Crash, Fault, Partition, Pause
from distributary.sim.scenario import SCENARIOS, Scenario, random_scenario
from replay import replayed_by
from systems.tree.worlds import World

NODES = 12
SPARES = (101, 102, 103)
LOSSLESS = [
    "loss", "duplication", "reordering", "delay spike", "partition", "one-way partition",
    "restart with state", "pause", "join",
]  # fmt: skip
"""Faults in which no broker forgets its clients, nor the root its events."""


def through(world: World, seed: int, kinds: tuple[str, ...], changes: int = 60) -> None:
    """Publish and reorganise while faults of these kinds happen, until all has healed."""
    scenario = random_scenario(
        seed, range(1, NODES + 1), kinds=kinds, spares=SPARES, start=5, duration=15.0 * max(2, len(kinds))
    )
    injection = scenario.inject(world.deployment)
    world.run(5)
    for _ in range(changes):
        world.publish()
        world.reorganise()
        world.run((scenario.healed - 5) / changes)
    world.run(90)
    scenario.require_fired(injection)


@pytest.mark.parametrize("seed", range(24))
def test_no_event_is_lost_or_repeated_while_brokers_keep_their_state(seed: int) -> None:
    with replayed_by(f"pytest tests/systems/tree/test_faults.py -k 'keep_their_state and {seed}'"):
        world = World(NODES, seed, robust=True, election=60.0)
        kinds = tuple(world.random.sample(LOSSLESS, 3))
        for number in range(15):
            world.subscribe(f"s{number}")
        through(world, seed, kinds)
        assert world.got() == world.expected
        assert unsettled(world.trees(up=True)) == []
        assert sum(tree.link.moves for tree in world.trees()) > 0


@pytest.mark.parametrize("name", [name for name in SCENARIOS if name != "calm"])
@pytest.mark.parametrize("seed", range(2))
def test_after_the_last_fault_has_healed_everything_is_delivered_once(name: str, seed: int) -> None:
    with replayed_by(f"pytest tests/systems/tree/test_faults.py -k 'healed and {seed}-{name}'"):
        world = World(NODES, seed, robust=True)
        for number in range(15):
            world.subscribe(f"s{number}")
        through(world, seed, SCENARIOS[name], changes=20)
        before = set(world.expected)
        for _ in range(20):
            world.publish()
            world.run(1)
        world.run(20)
        got = world.got()
        for event, receivers in world.expected.items():
            assert event in before or got[event] == receivers
        assert sum(len(receivers) for event, receivers in got.items() if event not in before) > 10
        assert unsettled(world.trees(up=True)) == []


@pytest.mark.parametrize("seed", range(6))
def test_a_root_that_is_gone_for_good_is_replaced_by_one_of_its_children(seed: int) -> None:
    world = World(NODES, seed, robust=True)
    for number in range(15):
        world.subscribe(f"s{number}", at=2 + number % 11)
    world.run(5)
    world.deployment.crash(1)
    world.run(70)
    assert unsettled(world.trees(up=True)) == []
    for _ in range(20):
        world.publish()
        world.reorganise()
        world.run(0.5)
    world.run(20)
    assert world.got() == world.expected
    world.deployment.restart(1)
    world.run(20)
    assert unsettled(world.trees(up=True)) == []
    for _ in range(20):
        world.publish()
        world.run(0.5)
    world.run(20)
    assert world.got() == world.expected


@pytest.mark.parametrize("seed", range(3))
def test_roots_follow_each_other_whatever_their_clocks_say(seed: int) -> None:
    """What a root began by a clock that is ahead, one whose clock is behind must end."""
    world = World(NODES, seed, robust=True)
    for address in range(2, NODES + 1):
        world.simulator.set_clock(address, forward=1000.0 * (NODES - address))
    for number in range(15):
        world.subscribe(f"s{number}", at=2 + number % 11)
    world.run(5)
    roots = [1]
    for _ in range(3):
        world.deployment.crash(roots[-1])
        world.run(90)
        trees = world.trees(up=True)
        assert unsettled(trees) == []
        roots += [tree.address for tree in trees if tree.is_root]
    assert any(one < later for one, later in pairwise(roots[1:])), "one whose clock is behind"
    for _ in range(20):
        world.publish()
        world.run(0.5)
    world.run(20)
    assert world.got() == {
        event: {one: 1 for one in receivers if one[0] not in roots[:-1]}
        for event, receivers in world.expected.items()
    }


@pytest.mark.parametrize(
    "fault",
    [
        Pause(start=10, end=70, node=1),
        Crash(start=10, end=70, node=1),
        Crash(start=10, end=70, node=1, keep_state=False),
        Partition(start=10, end=70, side=(1,)),
        Partition(start=10, end=70, side=(1, 2, 3, 4, 5)),
        Partition(start=10, end=70, side=(1,), one_way=True),
    ],
    ids=lambda fault: type(fault).__name__,
)
@pytest.mark.parametrize("seed", range(2))
def test_of_two_roots_one_remains_and_there_is_never_a_loop(fault: Fault, seed: int) -> None:
    """The root is away for longer than its children wait, and comes back as if nothing had happened."""
    world = World(NODES, seed, robust=True)
    for number in range(15):
        world.subscribe(f"s{number}")
    injection = Scenario.of("a root that comes back", [fault]).inject(world.deployment)
    for _ in range(100):
        world.reorganise()
        world.run(1)
    assert sum(injection.fired.values()) > 0
    world.run(60)
    assert unsettled(world.trees(up=True)) == []
    for _ in range(20):
        world.publish()
        world.run(0.5)
    world.run(20)
    assert world.got() == world.expected
