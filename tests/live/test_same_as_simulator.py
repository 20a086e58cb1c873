"""Simulator and live network deliver the same for the same workload, which is what brute force says."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

import pytest

from distributary.client import connect
from distributary.flow import Item
from distributary.flow.language import function
from distributary.live.broker import LiveBroker
from distributary.overlay.node import Node
from distributary.sim.latency import UniformLatency
from distributary.sim.simulator import Simulator
from distributary.sim.trials.query_answers import differences
from distributary.systems.queries import FlowBroker, QueryResult, Surroundings
from live.loops import alone, until
from live.query_network import Askers, due, earlier, query_network, workload
from live.same_workload import LiveReaders, Workload, given_in_simulator

NODES = 4
REPRESENTATIVES = {"tree": 30, "attributes": 30, "state-aware-thresholds": 12, "hope-kbpp": 12}
"""A system of each kind, and how many events are published."""


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_simulator_and_live_network_deliver_the_same(name: str) -> None:
    work = Workload.of(name, subscriptions=10, events=REPRESENTATIVES[name], seed=3)
    expected = work.due()
    assert len(expected) > 5, "little is due, which shows little"
    assert given_in_simulator(work, NODES, seed=3) == expected

    @alone
    async def live() -> None:
        async with AsyncExitStack() as stack:
            brokers: list[LiveBroker] = []
            for number in range(NODES):
                contacts = [each.endpoint for each in brokers[:2]]
                broker = LiveBroker("distributary", name, name=f"n{number}", contacts=contacts, nodes=NODES)
                brokers.append(await stack.enter_async_context(broker))
            await until(lambda: at_rest(brokers))
            readers, endpoints = LiveReaders(), [broker.endpoint for broker in brokers]
            async with readers.reading(endpoints, work):
                await asyncio.sleep(1.5)  # on a ring an answer means that the subscription is on its way
                sellers = [await stack.enter_async_context(connect(each)) for each in endpoints]
                for number, event in enumerate(work.data.events):
                    owed = {pair for pair in expected if pair[1] == event.key}
                    await sellers[number % NODES].publish(event)
                    await until(lambda owed=owed: owed <= readers.pairs)  # type: ignore[misc]
                    await asyncio.sleep(0.1 * work.in_turn)
                await asyncio.sleep(0.5)
            assert readers.pairs == expected
            assert readers.twice == []

    live()


def at_rest(brokers: list[LiveBroker]) -> bool:
    """Whether all nodes have their places."""
    if not all(broker.joined for broker in brokers):
        return False
    order = sorted(broker.address for broker in brokers)
    after = dict(zip(order, [*order[1:], order[0]], strict=True))
    places = [(broker.address, broker.place) for broker in brokers]
    return all(place.get("successor", after[at]) == after[at] for at, place in places)


def test_simulator_and_live_query_network_give_the_same_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(function, "_permitted", None)
    catalogue, events = workload(queries=5, feeds=3, events=150, seed=12)
    world = Simulator(1, UniformLatency(0.005, 0.05, seed=1))
    nodes = list(range(1, NODES + 1))
    brokers = {at: FlowBroker(Node(at), 1, Surroundings(brokers=nodes)) for at in nodes}
    for broker in brokers.values():
        world.add(broker.node)
    world.run(until=5.0)
    for source in catalogue.sources.values():
        world.call(2, partial(brokers[2].register_source, source))
    world.run(until=10.0)
    for number, query in enumerate(catalogue.queries.values()):
        at = nodes[number % NODES]
        world.call(at, partial(brokers[at].register_query, query))
        world.run(until=world.now + 1.0)
    for event in events:
        world.call(2, partial(brokers[2].publish, event))
        world.run(until=world.now + 0.1)
    world.run(until=world.now + 30.0)
    simulated: dict[str, list[Item]] = {}
    for each in world.delivered:
        if isinstance(each.item, QueryResult):
            simulated.setdefault(each.item.stream, []).append(each.item.item)
    expected = {name: earlier(items) for name, items in simulated.items()}
    assert differences(due(catalogue, events), expected) == []

    @alone
    async def live() -> None:
        async with query_network(NODES) as network, AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(connect(broker.endpoint)) for broker in network]
            askers = Askers()
            await askers.ask(clients, catalogue)
            await clients[1].publish(*events)
            await askers.check(expected)

    live()
