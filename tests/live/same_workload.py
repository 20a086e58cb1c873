"""One workload for a live network and for the simulator: who subscribes to what where, and what is published.

What clients are given is compared by subscriber and event; brute force says what that must be.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from distributary.client import Client, connect
from distributary.model import Delivery, Event, EventKey, Subscription, SubscriptionKey
from distributary.overlay.broker import Broker
from distributary.sim.latency import UniformLatency
from distributary.sim.oracle import ClientSubscription, Oracle
from distributary.sim.population import Population
from distributary.sim.simulator import Simulator
from distributary.sim.trials.clients import TrialData, made_up
from distributary.systems.assembly import Settings
from distributary.systems.table import system

Given = set[tuple[str, EventKey]]
"""Subscribers, and the events that they were given."""


class Workload(NamedTuple):
    """What is asked and published in a network of one system."""

    system: str
    data: TrialData

    @classmethod
    def of(cls, name: str, subscriptions: int, events: int, seed: int) -> Workload:
        """The workload of a system's own trials; the ring alone serves no subscriptions."""
        data = made_up(system(name).workload, subscriptions, events, seed)
        return cls(name, data if system(name).promise != "once" else TrialData((), data.events))

    @property
    def in_turn(self) -> bool:
        """Whether an event must have arrived before the next is published: what is due depends on it."""
        return any(each.change for each in self.data.subscriptions)

    def due(self) -> Given:
        """What clients must be given, by brute force, if each event arrives before the next is published."""
        oracle, due = Oracle(), set[tuple[str, EventKey]]()
        clients = [ClientSubscription(each, 0) for each in self.data.subscriptions]
        for event in self.data.events:
            wanted = [client for client in clients if oracle.wants(client, event)]
            oracle.note(event, wanted, 0.0)
            due |= {(client.subscription.subscriber, event.key) for client in wanted}
        return due

    def drifts(self, given: Sequence[tuple[SubscriptionKey, Event]]) -> list[str]:
        """How the last values that clients were given are further from the latest than they tolerate."""
        oracle, found = Oracle(), []
        clients = {each.key: ClientSubscription(each, 0) for each in self.data.subscriptions}
        for key, event in given:
            oracle.note(event, [clients[key]], 0.0)
        latest = {event.topic: event for event in self.data.events}
        for client in clients.values():
            for event in latest.values():
                if (drift := oracle.drift(client, event)) is not None:
                    found.append(f"{client.subscription.key} {drift}")
        return found


def given_in_simulator(work: Workload, nodes: int, seed: int) -> Given:
    """What clients are given by nodes of the simulator."""
    world = Simulator(seed, UniformLatency(0.005, 0.05, seed=seed))
    founders = list(range(1, nodes + 1))
    population: Population[Broker]
    assembly = system(work.system).assemble(
        Settings.robust(nodes, refresh=system(work.system).refresh),
        founders,
        lambda one: population.contact(one),
    )
    population = Population(world, assembly)
    population.add_settled(founders, assembly.settle)
    world.run(until=5.0)
    places: dict[str, int] = {}
    for number, subscription in enumerate(work.data.subscriptions):
        at = places.setdefault(subscription.subscriber, founders[number % nodes])
        broker = population.members[at]
        world.call(broker.node.address, partial(broker.subscribe, subscription))
    world.run(until=20.0)
    for number, event in enumerate(work.data.events):
        broker = population.members[founders[number % nodes]]
        world.call(broker.node.address, partial(broker.publish, event))
        world.run(until=world.now + 2.0)
    world.run(until=world.now + 20.0)
    items = [each.item for each in world.delivered if isinstance(each.item, Delivery)]
    assert len({(each.subscriber, each.event.key) for each in items}) == len(items), "each comes once"
    return {(each.subscriber, each.event.key) for each in items}


class LiveReaders:
    """Clients that subscribe at the brokers of a live network, and what they were given, in order."""

    def __init__(self) -> None:
        self.given: list[tuple[SubscriptionKey, Event]] = []

    @property
    def pairs(self) -> Given:
        """Subscribers and events."""
        return {(key.subscriber, event.key) for key, event in self.given}

    @property
    def twice(self) -> list[Any]:
        """What was given more than once to one subscription."""
        counts = Counter((key, event.key) for key, event in self.given)
        return [each for each, count in counts.items() if count > 1]

    @asynccontextmanager
    async def reading(self, endpoints: Sequence[Any], work: Workload) -> AsyncIterator[None]:
        """Have all subscriptions in force as long as the context lasts."""
        async with AsyncExitStack() as stack:
            clients: dict[str, Client] = {}
            tasks: list[asyncio.Task[None]] = []
            for number, each in enumerate(work.data.subscriptions):
                if each.subscriber not in clients:
                    at = endpoints[number % len(endpoints)]
                    clients[each.subscriber] = await stack.enter_async_context(
                        connect(at, name=each.subscriber)
                    )
                events = await stack.enter_async_context(subscribed(clients[each.subscriber], each))
                tasks.append(asyncio.create_task(self._read(each.key, events)))
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, key: SubscriptionKey, events: AsyncIterator[Event]) -> None:
        async for event in events:
            self.given.append((key, event))


def subscribed(client: Client, each: Subscription) -> Any:
    """The context of a subscription."""
    filters = {"topic": each.topic, "where": each.where, "path": each.path, "change": each.change}
    return client.subscribed(id=each.id, **filters)
