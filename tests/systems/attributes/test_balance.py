"""Placing values anew: balanced afterwards, cheap for ranges, and no match is lost on the way."""

from __future__ import annotations

from random import Random

import pytest

from distributary.model import Event, Subscription
from distributary.overlay.ring.placement import ArcPlacement, OrderedPlacement, PlacementFactory, Spread
from distributary.systems.attributes.messages import PlacementAnnouncement
from distributary.systems.attributes.schema import AttributeSchema, NumberAttribute
from systems.attributes.worlds import MATCHINGS, World, random_addresses

PRICES = AttributeSchema((NumberAttribute("price", 0, 199),))


def skewed(random: Random) -> int:
    """Most values lie near 40."""
    return max(0, min(199, int(40 + random.gauss(0, 3) if random.random() < 0.9 else random.randrange(200))))


def traffic(world: World, random: Random, events: int, name: str = "e") -> None:
    for number in range(events):
        world.publish(
            Event(f"{name}{number}", attributes={"price": skewed(random)}), random.choice(world.addresses)
        )


def subscribed(world: World, random: Random, count: int) -> None:
    for number in range(count):
        low = skewed(random)
        where = f"price between {low} and {low + random.randrange(10)}"
        world.subscribe(Subscription(f"s{number}", "ann", where=where), random.choice(world.addresses))


def imbalance(loads: list[int]) -> float:
    return max(loads) * len(loads) / sum(loads)


def made(placement: PlacementFactory, nodes: int = 40, **options: object) -> tuple[World, Random]:
    random = Random(11)
    world = World(random_addresses(random, nodes), PRICES, placement=placement, **options)  # type: ignore[arg-type]
    subscribed(world, random, 30)
    world.run(5)
    traffic(world, random, 200)
    world.run(5)
    return world, random


@pytest.mark.parametrize("match", MATCHINGS)
def test_the_load_is_balanced_where_the_order_preserving_hash_is_not(match: str) -> None:
    loads: dict[str, tuple[float, float]] = {}
    for name, placement in {"ordered": OrderedPlacement, "arcs": ArcPlacement.evenly}.items():
        world, random = made(placement, match=match)
        if name == "arcs":
            world.simulator.call(world.addresses[3], lambda world=world: rebalance(world), "rebalance")
            world.run()
        before = {address: broker.served for address, broker in world.brokers.items()}
        traffic(world, random, 300, "later")
        world.run()
        world.check()
        served = [broker.served - before[address] for address, broker in world.brokers.items()]
        loads[name] = imbalance(served), imbalance([broker.entries for broker in world.brokers.values()])
    assert loads["arcs"][0] < loads["ordered"][0] / 3
    assert loads["arcs"][1] < loads["ordered"][1] / 1.5


def rebalance(world: World, attribute: str = "price") -> None:
    world.brokers[world.addresses[3]].rebalance(attribute)


@pytest.mark.parametrize("match", MATCHINGS)
@pytest.mark.parametrize("seed", range(3))
def test_no_match_is_lost_while_the_placement_changes(seed: int, match: str) -> None:
    world, _ = made(ArcPlacement.evenly, nodes=20, match=match, overlap=8.0, window=2.0)
    random = Random(seed)
    for step in range(160):
        if step in (10, 70):
            world.simulator.call(world.addresses[3], lambda: rebalance(world), f"rebalance {step}")
        choice = random.random()
        if choice < 0.25:
            world.run(1.0)  # so that it is clear which events are before the change and which after
        if choice < 0.15:
            low = skewed(random)
            where = f"price between {low} and {low + 8}"
            at = random.choice(world.addresses)
            world.subscribe(Subscription(f"new {step}", "bob", where=where), at)
            world.run(1.0)
        elif choice < 0.25:
            world.unsubscribe(random.choice(sorted(world.subscriptions)))
            world.run(1.0)
        else:
            traffic(world, random, 1, f"step {step} ")
            world.run(random.choice([0.01, 0.2]))
    world.run()
    world.check()
    versions = {broker.placements.newest("price").version for broker in world.brokers.values()}
    assert len(versions) == 1
    assert versions.pop()[0] == 2
    assert {len(broker.placements.kept("price")) for broker in world.brokers.values()} == {1}
    for name in list(world.subscriptions):
        world.unsubscribe(name)
    world.run()
    assert not world.stored_at()


def test_whoever_missed_the_change_is_led_on_and_told() -> None:
    world, _ = made(ArcPlacement.evenly, nodes=20)
    ignorant = world.brokers[world.addresses[5]]
    ignorant.ring.listeners[PlacementAnnouncement] = lambda message, arrival: None
    world.simulator.call(world.addresses[3], lambda: rebalance(world), "rebalance")
    world.run()
    assert ignorant.placements.newest("price").version == (0, 0)
    for number in range(200):
        world.publish(Event(f"late {number}", attributes={"price": number}), ignorant.node.address)
    world.simulator.run(until=world.simulator.now + 1)
    others = world.brokers[world.addresses[6]]
    assert ignorant.placements.newest("price").version == others.placements.newest("price").version
    world.run()
    theirs = {name for name, (_, at) in world.subscriptions.items() if at != ignorant.node.address}
    delivered = {(event, names) for _, event, _, names in world.delivered() if set(names) <= theirs}
    promised = {(event, names) for _, event, _, names in world.promised if set(names) <= theirs}
    assert delivered == promised


def test_gossip_spreads_a_placement() -> None:
    world, _ = made(ArcPlacement.evenly, nodes=12, refresh=5.0)
    keeper = world.brokers[world.addresses[0]]
    arcs = ArcPlacement.balanced(
        keeper.ring.circle,
        keeper.placements.newest("price").axis,
        world.addresses,
        {},
        version=(7, 1),  # type: ignore[attr-defined]
    )
    world.simulator.call(keeper.node.address, lambda: keeper.placements.learn(arcs, settled=False))
    world.run(120)
    assert {broker.placements.newest("price").version for broker in world.brokers.values()} == {(7, 1)}


def test_keepers_rebalance_of_themselves_when_told_to() -> None:
    random = Random(2)
    world = World(random_addresses(random, 12), PRICES, rebalance=30.0)
    traffic(world, random, 50)
    world.run(50)
    [(number, _)] = {broker.placements.newest("price").version for broker in world.brokers.values()}
    assert number == 1


def test_a_small_domain_costs_a_message_a_value_where_a_walk_passes_many_nodes() -> None:
    schema = AttributeSchema((NumberAttribute("level", 0, 15),))
    costs = {}
    placements: dict[str, PlacementFactory] = {
        "walk": OrderedPlacement,
        "jump": lambda circle, axis: OrderedPlacement(circle, axis, spread=Spread.JUMP),
        "arcs": ArcPlacement.evenly,
    }
    for name, placement in placements.items():
        random = Random(5)
        world = World(random_addresses(random, 256), schema, placement=placement)
        traffic_at = random.choice(world.addresses)
        for number in range(64):
            world.publish(Event(f"e{number}", attributes={"level": number % 16}), traffic_at)
        if name == "arcs":
            world.simulator.call(
                world.addresses[3], lambda world=world: rebalance(world, "level"), "rebalance"
            )
        world.run()
        for number in range(10):
            where = "level between 3 and 10"
            world.subscribe(Subscription(f"s{number}", "ann", where=where), random.choice(world.addresses))
        world.run()
        costs[name] = sum(world.messages("subscribe", f"s{number}") for number in range(10)) / 10
    assert costs["walk"] > 100
    assert costs["jump"] < 35
    assert costs["arcs"] < 8 * 3 + 5
    assert costs["arcs"] < costs["jump"]


def test_a_keeper_that_crashed_during_a_census_takes_another() -> None:
    world, _ = made(ArcPlacement.evenly, nodes=12)
    [keeper] = [broker for broker in world.brokers.values() if broker.placements.is_keeper("price")]
    world.simulator.call(keeper.node.address, lambda: keeper.rebalance("price"))
    world.simulator.crash(keeper.node.address)
    world.run(20)
    assert keeper.placements.newest("price").version == (0, 0)
    world.simulator.restart(keeper.node.address)
    world.simulator.call(keeper.node.address, lambda: keeper.rebalance("price"))
    world.run(20)
    assert {broker.placements.newest("price").version[0] for broker in world.brokers.values()} == {1}
