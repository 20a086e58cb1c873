"""The registry is gone: its standby takes over, knows all it knew, and what was asked is answered once."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import cast

import pytest

from distributary.flow import Catalogue, Item
from distributary.model import Subscription
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.queries.rules import MIGRATIONS
from distributary.sim.faults import Crash, Duplication, Fault, Injection, Loss, Reordering
from distributary.systems.queries.broker import FlowBroker
from distributary.systems.queries.registry_failover import RegistryClient, Role
from distributary.systems.queries.settings import CheckpointSettings, QueryOptimiserSettings, Regrouping
from flow.random_queries import random_arrivals, random_catalogue, random_streams
from replay import many_seeds
from systems.queries.test_network import TRADES, busy, trades
from systems.queries.worlds import REGISTRY, World, expect_equal

QUICK = CheckpointSettings(checkpoint=0.3, beat=0.2, silence=2.0)
PATIENT = CheckpointSettings(checkpoint=0.3, beat=0.5, silence=15.0)
"""Where messages are lost and sent again."""
ENDS = (3, 4)
"""Where sources and clients are; the others may go."""


def primaries(world: World) -> list[FlowBroker]:
    """The brokers that are up and have the registry."""
    up = [broker for broker in world.brokers if world.simulator.is_up(broker.node.address)]
    return [broker for broker in up if broker.registry_link.local_registry is not None]


def with_the_registry_gone(
    seed: int, victims: int = 1, faults: bool = False, regrouping: Regrouping | None = None
) -> tuple[World, Counter[str]]:
    """Random queries are registered, changed and withdrawn while the registry goes, and others after it."""
    random = Random(f"{seed}/office")
    catalogue, items = random_catalogue(random, queries=4), random_streams(random)
    world = World(7, seed, checkpoints=PATIENT if faults else QUICK, regrouping=regrouping)
    home = random.choice(ENDS)  # of all clients, so that what they ask arrives in order
    where = {
        **{name: random.choice(ENDS) for name in catalogue.sources},
        **dict.fromkeys(catalogue.queries, home),
    }
    world.register(Catalogue(catalogue.sources.values(), []), where)
    others = [REGISTRY, *random.sample([2, 2, 5, 6, 7][random.randint(0, 1) :], 3)]
    gone = list(dict.fromkeys(others))[:victims]
    planned: list[Fault] = []
    now = moment = world.simulator.now
    for node in gone:
        moment += random.uniform(0.0, 3.0)
        planned.append(Crash(start=moment, node=node))
        moment += random.uniform(20.0, 25.0) if faults else random.uniform(4.0, 6.0)
    if faults:
        planned += [
            Loss(start=now, end=moment + 10, probability=0.05),
            Duplication(start=now, end=moment + 10, probability=0.05, within=0.5),
            Reordering(start=now, end=moment + 10, probability=0.05, by=0.2),
        ]
    fired = Injection(world.population, planned).fired
    client = world.broker(home)
    for query in catalogue.queries.values():
        world.simulator.call(home, lambda query=query: client.register_query(query))
        world.run(random.choice([0.0, 0.5, 1.0]))
        if random.random() < 0.5:
            world.change()
    world.run(25 if faults else 6)
    for number, (source, step) in enumerate(random_arrivals(random, items)):
        if isinstance(step, Item):
            world.feed(source, step)
        elif step >= 2**53:
            world.end(source)
        if number % 4 == 0:
            world.change()
        world.run(random.choice([0.0, 0.1, 0.5]) * (4 if faults else 1))
    world.run(100 if faults else 25)
    assert fired["crash"] == victims
    expect_equal(world, catalogue, items, in_order=False)
    assert len(primaries(world)) == 1
    for name in catalogue.queries:
        world.simulator.call(home, lambda name=name: client.unregister_query(name))
    world.run(60 if faults else 20)
    assert not world.operators_up(), "the registry that took over knows what is over"
    return world, fired


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_exact_after_the_registry_is_gone(seed: int) -> None:
    world, _ = with_the_registry_gone(seed)
    assert primaries(world)[0].node.address == 2


@pytest.mark.parametrize("seed", range(10, 12))
def test_answers_are_exact_after_its_standby_is_gone_too(seed: int) -> None:
    with_the_registry_gone(seed, victims=2)


def test_it_works_while_messages_are_lost_and_doubled() -> None:
    _, fired = with_the_registry_gone(20, faults=True)
    assert fired["loss"]


def test_it_works_while_trees_are_merged() -> None:
    with_the_registry_gone(30, regrouping=Regrouping(period=1.0, likeness=0.3))


def test_both_registries_know_the_same() -> None:
    world = World(4, 1, checkpoints=QUICK)
    world.register(Catalogue([TRADES], [busy().query()]), {"trades": 3, "busy": 4})
    subscription = Subscription("s1", "ann", topic="busy/large")
    world.simulator.call(3, lambda: world.broker(3).subscribe(subscription))
    world.simulator.call(4, lambda: world.broker(4).move("busy.large", 2))
    world.run(5)
    clients = [cast(RegistryClient, broker.registry_link) for broker in world.brokers]
    replicas = [client.replica for client in clients]
    assert [one.role for one in replicas] == [Role.PRIMARY, Role.STANDBY, Role.MEMBER, Role.MEMBER]
    assert (replicas[0].peer, replicas[1].peer) == (2, 1)
    assert replicas[0].registry.state() == replicas[1].registry.state()
    sent = [{to: outbox.last for to, outbox in one._replies.items()} for one in replicas[:2]]
    assert sent[0] == sent[1]
    assert not any(outbox.pending for one in replicas for outbox in one._replies.values())
    assert not any(client._requests.pending for client in clients)
    state = replicas[1].registry.state()
    replicas[3].registry.restore(state)
    assert replicas[3].registry.state() == state


def test_what_was_asked_of_a_registry_that_is_gone_is_answered_by_its_standby() -> None:
    world = World(4, 2, checkpoints=QUICK)
    world.register(Catalogue([TRADES], []), {"trades": 3})
    world.population.crash(REGISTRY)
    world.simulator.call(4, lambda: world.broker(4).register_query(busy().query()))
    world.run(1)
    assert world.operators() == [], "nobody answers"
    world.run(5)
    assert [name for name, _ in world.operators()] == ["busy.large", "busy.per_ten"]
    for item in trades(20)["trades"]:
        world.feed("trades", item)
    world.end("trades")
    world.run(5)
    expect_equal(world, Catalogue([TRADES], [busy().query()]), trades(20), in_order=False)
    world.simulator.call(4, lambda: world.broker(4).register_query(busy().query()))
    world.run(5)
    assert "already" in world.broker(4).refused["busy"], "it knows of it"


@pytest.mark.parametrize("told", ["whole", "neighbourhood"])
def test_a_network_goes_on_optimising_itself(told: str) -> None:
    goal = parse_query_goal("minimise aggregate(SUM, incoming rate, BROKERS)")
    settings = QueryOptimiserSettings(goal, period=4.0, window=0.5, rules=MIGRATIONS, told=told)
    catalogue, items = Catalogue([TRADES], [busy().query()]), trades(160)
    world = World(5, 3, optimising=settings, checkpoints=QUICK)
    world.register(catalogue, {"trades": 3, "busy": 5})
    world.population.crash(REGISTRY)
    world.run(5)
    before = sum(broker.reconfiguration.moves for broker in world.brokers)
    for item in items["trades"]:
        world.feed("trades", item)
        world.run(0.25)
    world.end("trades")
    world.run(10)
    expect_equal(world, catalogue, items, in_order=False)
    assert sum(broker.reconfiguration.moves for broker in world.brokers) > before


@pytest.mark.chaos
@pytest.mark.parametrize("faults", [False, True])
@pytest.mark.parametrize("victims", [1, 2, 3])
def test_answers_are_exact_after_the_registry_is_gone_on_many_seeds(faults: bool, victims: int) -> None:
    total: Counter[str] = Counter()
    seeds = many_seeds(500, 60)
    for seed in seeds:
        regrouping = Regrouping(period=1.0, likeness=0.3) if seed % 3 == 0 else None
        total.update(with_the_registry_gone(seed, victims, faults, regrouping)[1])
    assert total["crash"] == len(seeds) * victims
    assert not faults or total["loss"]
