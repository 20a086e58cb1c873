"""State-aware networks under faults: exact when only messages suffer, healed when nodes did."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from distributary.model import Event, Subscription, SubscriptionKey
from distributary.sim.faults import Crash
from distributary.sim.scenario import SCENARIOS, Scenario, random_scenario
from distributary.systems.state_aware.broker import StateAwareBroker
from distributary.systems.state_aware.lengths.mfd import BalancedMFD
from distributary.systems.state_aware.lengths.sf import BalancedSF
from distributary.systems.state_aware.lengths.target import WorkTarget
from distributary.systems.state_aware.lengths.thresholds import BalancedThresholds
from distributary.systems.state_aware.mfd import MFDBroker
from distributary.systems.state_aware.sf import SFBroker
from distributary.systems.state_aware.thresholds import ThresholdsBroker
from overlay.ring.seeds import seeds
from systems.state_aware.faults import FaultyWorld
from systems.state_aware.worlds import CIRCLE

BALANCE = WorkTarget(spacing=CIRCLE.size // 10, kept=2, taken=1, period=10, longest=8)
SYSTEMS: dict[str, Callable[..., StateAwareBroker]] = {
    "sf": SFBroker,
    "mfd": MFDBroker,
    "thresholds": ThresholdsBroker,
    "lengths": partial(BalancedThresholds, balance=BALANCE),
    "sf-lengths": partial(BalancedSF, balance=BALANCE),
    "mfd-lengths": partial(BalancedMFD, balance=BALANCE),
}


@pytest.mark.parametrize("system", SYSTEMS)
@seeds(2)
def test_all_is_well_again_after_the_last_fault(system: str, seed: int) -> None:
    world = FaultyWorld(SYSTEMS[system], seed)
    world.suffer(random_scenario(seed, world.founders, spares=world.spares, start=10, duration=60))
    world.check_healed(exact="mfd" not in system)


@pytest.mark.parametrize("system", SYSTEMS)
@seeds(2)
def test_nothing_is_lost_or_repeated_by_a_network_that_loses_repeats_and_overtakes(
    system: str, seed: int
) -> None:
    world = FaultyWorld(SYSTEMS[system], seed, mending=False)
    kinds = SCENARIOS["messages"]
    scenario = random_scenario(seed, world.founders, kinds=kinds, start=20, duration=540)
    for _ in range(10):
        world.subscribe()
    injection = scenario.inject(world.deployment)
    world.simulator.run(until=20)
    for second in range(20, 560, 5):  # alone, few values give too few messages for all faults to happen
        world.simulator.at(second, partial(world.publish_unasked, 3))
    world.check_healed(exact="mfd" not in system, gap=30, values=15)
    world.simulator.run(until=scenario.healed)
    scenario.require_fired(injection)


@pytest.mark.parametrize("system", ["sf", "thresholds"])
def test_a_rendezvous_that_took_over_asks_the_home(system: str) -> None:
    """The replica knows the subscription, not what was delivered: the home declines what it need not have."""
    world = FaultyWorld(SYSTEMS[system], seed=5)
    item = "quotes/A/1"
    homes = [address for address in world.founders if not _keeps(world, item, address)]
    world.deployment.subscribe(Subscription("s", "s", topic=item, change={"price": 20}), at=homes[0])
    world.simulator.run(until=5)
    world.deployment.publish(Event("e1", item, {"price": 100}), at=homes[1])
    world.simulator.run(until=8)
    keeper = next(
        a for a, broker in world.deployment.members.items() if SubscriptionKey("s", "s") in broker.directory
    )
    Scenario.of("the rendezvous dies", [Crash(start=9, node=keeper)]).inject(world.deployment)
    world.simulator.run(until=9.5)
    for number, value in enumerate((110, 121, 125)):
        world.simulator.run(until=40 + 10 * number)
        world.deployment.publish(Event(f"f{number}", item, {"price": value}), at=homes[1])
    world.simulator.run(until=90)
    assert [each.delivery.event.id for each in world.deployment.deliveries] == ["e1", "f1"]
    assert not world.simulator.is_up(keeper)


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("dead", ["first", "last", "both"])
def test_a_new_subscription_gets_the_latest_value_from_a_rendezvous_that_took_over(
    system: str, dead: str
) -> None:
    world = FaultyWorld(SYSTEMS[system], seed=5)
    item, tolerance = "quotes/A/1", 64
    first = _owner(world, world.segments.start(item))
    last = _owner(world, world.segments.place(item, tolerance))
    gone = {"first": {first}, "last": {last}, "both": {first, last}}[dead]
    homes = [address for address in world.founders if address not in (first, last)]
    world.deployment.publish(Event("e1", item, {"price": 100}), at=homes[0])
    world.deployment.publish(Event("e2", f"{item}/x", {"price": 200}), at=homes[1])
    world.simulator.run(until=8)
    Scenario.of("they die", [Crash(start=9, node=node) for node in gone]).inject(world.deployment)
    world.simulator.run(until=40)
    subscription = Subscription("s", "s", topic=item, change={"price": tolerance})
    world.deployment.subscribe(subscription, at=homes[2])
    world.simulator.run(until=60)
    assert sorted(each.delivery.event.id for each in world.deployment.deliveries) == ["e1", "e2"]


def test_an_answer_from_before_the_ring_changed_does_not_hide_a_newer_value() -> None:
    world = FaultyWorld(SYSTEMS["sf"], seed=5)
    item = "quotes/A/1"
    first = _owner(world, world.segments.start(item))
    asker = world.deployment.members[_owner(world, world.segments.place(item, 64))]
    assert asker.node.address != first
    world.deployment.publish(Event("e1", item, {"price": 100}), at=first)
    world.simulator.run(until=8)
    world.simulator.call(asker.node.address, lambda: asker.latest.need(item))
    world.deployment.publish(Event("e2", item, {"price": 200}), at=asker.node.address)
    world.simulator.call(asker.node.address, asker.ring._changed)
    world.simulator.run(until=20)
    assert [event.id for event, _ in asker.latest.of(item)] == ["e2"]


def _owner(world: FaultyWorld, key: int) -> int:
    return next(address for address in world.founders if world.deployment.members[address].ring.owns(key))


def _keeps(world: FaultyWorld, item: str, address: int) -> bool:
    """Whether a node may keep something of the item, or guard it."""
    broker = world.deployment.members[address]
    segments = broker.segments
    return broker.ring.owns(segments.start(item)) or broker.ring.owns(segments.place(item, 20))
