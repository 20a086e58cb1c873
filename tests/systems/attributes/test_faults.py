"""The attribute system under faults: unmoved by what happens to messages, exact again after anything else."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest

from distributary.model import Event, Subscription
from distributary.overlay.ring.placement import ArcPlacement, ScatteredPlacement
from distributary.sim.deployment import Deployment
from distributary.sim.latency import UniformLatency
from distributary.sim.simulator import Simulator
from distributary.systems.assembly import RingParts, Settings
from distributary.systems.attributes.broker import AttributeBroker
from distributary.systems.attributes.schema import AttributeSchema, NumberAttribute, TextAttribute
from overlay.ring.rings import Lossy
from overlay.ring.seeds import seeds
from replay import replayed_by
from systems.attributes.worlds import MATCHINGS, PLACEMENTS, World, random_addresses
from systems.healing import Clients, deployed

SCHEMA = AttributeSchema(
    (NumberAttribute("a", 0, 9), NumberAttribute("b", 0, 100, 10), TextAttribute("c")), topic=True
)


def random_subscription(random: Random, name: str) -> Subscription:
    low = random.randrange(10)
    conditions = [
        f"a between {low} and {low + random.randrange(4)}",
        f"b > {random.randrange(0, 100)}",
        f"c = '{random.choice('xyz')}'",
    ]
    chosen = random.sample(conditions, random.randint(1, 3))
    where = random.choice([" and ", " and ", " or "]).join(chosen)
    return Subscription(
        name, f"client {random.randrange(5)}", topic=random.choice([None, "A/#", "A"]), where=where
    )


def random_event(random: Random, name: str) -> Event:
    values = {"a": random.randrange(12), "b": random.uniform(0, 110), "c": random.choice("xyz")}
    return Event(name, random.choice(["A", "A/B", None]), values)


@pytest.mark.parametrize("match", MATCHINGS)
@seeds(3)
def test_loss_repetition_and_reordering_change_nothing(seed: int, match: str) -> None:
    with replayed_by(f"pytest tests/systems/attributes/test_faults.py -k 'loss and {match}' # seed {seed}"):
        random = Random(seed)
        network = Lossy(seed, loss=0.15, repeat=0.15)
        placement = PLACEMENTS[random.choice(sorted(PLACEMENTS))]
        options: dict[str, Any] = {"placement": placement, "match": match}
        world = World(
            random_addresses(random, 10), SCHEMA, network=network, couriers=True, seed=seed, **options
        )
        for round_ in range(3):
            for _ in range(4):
                name = f"s{random.randrange(6)}"
                subscription, at = random_subscription(random, name), random.choice(world.addresses)
                if name in world.subscriptions:  # the same one, changed
                    before, at = world.subscriptions[name]
                    subscription = replace(subscription, subscriber=before.subscriber)
                world.subscribe(subscription, at)
                world.run(random.choice([0.0, 0.1]))
            if world.subscriptions and round_ == 2:
                world.unsubscribe(random.choice(sorted(world.subscriptions)))
            if placement is PLACEMENTS["arcs"] and round_ == 1:
                at = world.addresses[0]
                world.simulator.call(at, lambda at=at: world.brokers[at].rebalance("a"), "rebalance")
            world.run(90)
            for number in range(12):
                event = random_event(random, f"e{round_}.{number}")
                world.publish(event, random.choice(world.addresses))
            world.run(90)
        world.check()
        assert network.lost
        assert network.repeated


def attributes(seed: int, match: str, nodes: int) -> Deployment:
    def make(parts: RingParts) -> AttributeBroker:
        return AttributeBroker(
            parts.ring,
            SCHEMA,
            placement=ArcPlacement.evenly,
            match=match,
            **parts.options,
            rebalance=20.0 if seed % 2 else None,
            overlap=10.0,
            window=3.0,
        )

    world = Simulator(seed, UniformLatency(0.01, 0.1, seed=seed))
    return deployed(make, seed, Settings.robust(nodes, refresh=5.0), world)


@pytest.mark.parametrize("match", MATCHINGS)
@seeds(3)
def test_after_the_last_fault_has_healed_everything_is_delivered_once(seed: int, match: str) -> None:
    with replayed_by(f"pytest tests/systems/attributes/test_faults.py -k 'healed and {match}' # seed {seed}"):
        clients = Clients(random_subscription, random_event)
        clients.live_through_faults(attributes(seed, match, nodes=10), seed)


def test_what_nobody_files_again_is_forgotten() -> None:
    world = World([100, 200, 300, 400], SCHEMA, bits=9, refresh=5.0)
    world.subscribe(Subscription("s", "ann", where="a between 2 and 6"), at=200)
    world.run(60)
    assert world.stored_at()
    world.simulator.crash(200)
    world.run(60)
    assert not {address: count for address, count in world.stored_at().items() if address != 200}


def test_where_faults_are_borne_what_goes_the_same_way_is_filed_by_one_message() -> None:
    sent = []
    for couriers in (False, True):
        world = World([100, 200, 300, 400], SCHEMA, bits=9, placement=ScatteredPlacement, couriers=couriers)
        world.subscribe(Subscription("s", "ann", where="a between 0 and 9"), at=200)
        world.run(20)
        assert sum(world.stored_at().values()) >= 2
        sent.append(world.metrics.by_kind()["RoutedPayload"].messages)
    each, together = sent
    assert together <= 4 < each


def test_a_robust_node_is_made_of_the_same_broker() -> None:
    deployment = attributes(0, "narrowest", nodes=8)
    member = next(iter(deployment.members.values()))
    assert isinstance(member, AttributeBroker)
