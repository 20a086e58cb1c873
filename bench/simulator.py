"""The simulator: messages a second, what observers cost, memory of a node, and rings at their sizes.

Times are those of the processor, not of the clock: a simulation is one thread that waits for nothing.
"""

from __future__ import annotations

import gc
import math
import time
import tracemalloc
from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

from bench.report import Result
from distributary.filters.profile import Profile
from distributary.model import Event
from distributary.overlay.node import Address, Node
from distributary.overlay.ring.ring import Ring, settle
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency, Latency, WideAreaLatency
from distributary.sim.metrics import Metrics
from distributary.sim.simulator import Observer, Simulator
from distributary.sim.trace import Trace
from distributary.sim.trials.clients import made_up
from distributary.systems.assembly import CIRCLE, Settings
from distributary.systems.lookups import LookupBroker
from distributary.systems.table import system

SEED = 1
SYSTEMS = ("flooding", "central", "attributes", "state-aware-thresholds")
CHECKED = 5
"""Events of each system whose deliveries are compared with brute force."""


def run(quick: bool) -> list[Result]:
    return [
        *_messages(50_000, 2 if quick else 12),
        *_memory(100 if quick else 2_000),
        *_traffic(64 if quick else 4_096, 128 if quick else 8_192, 20 if quick else 200),
        *_largest(2_000 if quick else 100_000, 200 if quick else 20_000),
    ]


class Ball(NamedTuple):
    left: int


class Player:
    """Throws a ball on to one of eight others."""

    def __init__(self, address: Address, count: int) -> None:
        self.node = Node(address)
        self._others = [(7 * address + 13 * number + 1) % count for number in range(8)]
        self.node.handle(Ball, self.take)

    def take(self, ball: Ball, sender: Address) -> None:
        if ball.left:
            self.node.send(self._others[ball.left & 7], Ball(ball.left - 1))


def _messages(count: int, runs: int) -> list[Result]:
    """1,000 nodes throw 1,000 balls."""
    results = []
    made: dict[str, Callable[[], tuple[Latency, Sequence[Observer]]]] = {
        "simulator": lambda: (ConstantLatency(0.05), ()),
        "with wide-area delays": lambda: (WideAreaLatency(seed=SEED), ()),
        "with counts": lambda: (ConstantLatency(0.05), [Metrics(sizes=False)]),
        "with counts and bytes": lambda: (ConstantLatency(0.05), [Metrics()]),
        "with a trace": lambda: (ConstantLatency(0.05), [Trace()]),
    }
    for engine, make in made.items():
        few = count // 10 if engine == "with a trace" else count
        speed = max(_throw(few, *make()) for _ in range(runs))
        target = ">= 300,000" if engine == "simulator" else ""
        results.append(
            Result("simple messages", engine, "messages", speed, "a second", "every ball arrived", target)
        )
    return results


def _throw(count: int, latency: Latency, observers: Sequence[Observer]) -> float:
    """Messages a second."""
    world = Simulator(SEED, latency, observers)
    players = [Player(address, 1_000) for address in range(1_000)]
    for player in players:
        world.add(player.node)
    for number, player in enumerate(players):
        ball = Ball(count // 1_000)
        world.call(player.node.address, lambda player=player, ball=ball: player.take(ball, 0), cause=number)  # type: ignore[misc]
    seconds = _timed(world.run)
    assert world.steps == count // 1_000 * 1_000, "a ball was lost"
    return world.steps / seconds


def _memory(nodes: int) -> list[Result]:
    """Nodes as they are before anybody has subscribed."""
    results = []
    for engine, shared in (("bare", Settings(nodes)), ("robust", Settings.robust(nodes))):
        gc.collect()
        tracemalloc.start()
        deployment = _deployed("central", shared)
        gc.collect()
        size, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert len(deployment.up()) == nodes
        results.append(
            Result(
                f"{nodes:,} nodes at rest", engine, "memory of a node", size / nodes, "bytes", "all are up"
            )
        )
    return results


def _traffic(nodes: int, subscriptions: int, events: int) -> list[Result]:
    """Full publish-subscribe traffic: everybody subscribes, many publish at once."""
    results = []
    for name in SYSTEMS:
        chosen, deployment = system(name), _deployed(name, Settings(nodes))
        random = Random(SEED)
        made = made_up(chosen.workload, subscriptions, events, SEED)
        for subscription in made.subscriptions:
            deployment.subscribe(subscription, at=random.choice(deployment.founders))
        began = time.process_time()
        deployment.simulator.run(until=60.0)
        for event in made.events:
            deployment.publish(event, at=random.choice(deployment.founders))
            deployment.simulator.run(until=deployment.simulator.now + 5.0)
        seconds = time.process_time() - began
        checked = _checked(deployment, made.events[:CHECKED])
        shown = f"{nodes:,} nodes, {subscriptions:,} subscriptions, {events:,} events"
        messages = deployment.metrics.total().messages
        results += [
            Result(shown, name, "time", seconds, "s", checked, "minutes"),
            Result(shown, name, "messages", messages / seconds, "a second", checked),
            Result(shown, name, "messages an event", deployment.costs()["publish"].messages, "", checked),
        ]
    return results


def _checked(deployment: Founded, events: Sequence[Event]) -> str:
    """Compare deliveries with brute force: who may get an event, and without tolerances, who must."""
    standing = [
        (Profile.of(subscription), subscription.subscriber, at)
        for subscription, at in deployment.subscriptions.values()
    ]
    exact = not any("change" in profile.filters for profile, _, _ in standing)
    for event in events:
        wanted = {(at, who) for profile, who, at in standing if profile.matches(event)}
        got = {
            (received.address, received.delivery.subscriber)
            for received in deployment.deliveries
            if received.delivery.event.key == event.key
        }
        assert got == wanted if exact else got <= wanted, f"event {event.id} went astray"
    return f"brute force, {len(events)} events"


class Founded(Deployment):
    """A deployment that knows who was there first."""

    founders: list[Address]


def _deployed(name: str, shared: Settings) -> Founded:
    world = Simulator(SEED, ConstantLatency(0.05))
    founders = sorted(Random(SEED).sample(range(shared.circle.size), shared.nodes))
    assembly = system(name).assemble(shared, founders, lambda one: founders[0])
    deployment = Founded(world, assembly)
    deployment.add_settled(founders, assembly.settle)
    deployment.founders = founders
    return deployment


def _largest(nodes: int, lookups: int) -> list[Result]:
    """A ring at rest, message by message: what a node takes, and the hops of lookups."""
    gc.collect()
    metrics = Metrics(sizes=False)
    world = Simulator(SEED, ConstantLatency(0.05), [metrics])
    random = Random(SEED)
    addresses = sorted(random.sample(range(CIRCLE.size), nodes))
    brokers = [LookupBroker(Ring(Node(address), CIRCLE)) for address in addresses]
    settling = _timed(lambda: settle([broker.ring for broker in brokers]))
    for broker in brokers:
        world.add(broker.node)
    events = [Event(f"e{number}") for number in range(lookups)]
    for event in events:
        broker = random.choice(brokers)
        world.call(broker.node.address, lambda broker=broker, event=event: broker.publish(event), event.id)  # type: ignore[misc]
    seconds = _timed(world.run)
    by_address = {broker.node.address: broker for broker in brokers}
    assert len(world.delivered) == lookups
    assert all(
        by_address[delivered.address].ring.owns(CIRCLE.hash(str(delivered.item.event.key)))
        for delivered in world.delivered
    )
    shown = f"the largest ring: {nodes:,} nodes, {lookups:,} lookups"
    checked = "every lookup ended at the owner of its key"
    hops = metrics.total().messages / lookups
    return [
        Result(shown, "both ways", "settling", settling, "s", checked),
        Result(
            shown, "both ways", "hops of a lookup", hops, "", checked, f"below {math.log2(nodes) / 2:.1f}"
        ),
        Result(shown, "both ways", "messages", world.steps / seconds, "a second", checked),
    ]


def _timed(action: Callable[[], object]) -> float:
    began = time.process_time()
    action()
    return max(time.process_time() - began, 1e-9)
