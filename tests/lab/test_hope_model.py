"""The arrays of HOPE against the nodes themselves: the same messages, one by one."""

from __future__ import annotations

from functools import reduce
from operator import or_
from random import Random

import numpy as np
import pytest

from distributary.filters.kinds import parse_filters
from distributary.model import Event, EventKey, Subscription, SubscriptionKey
from distributary.overlay.courier import Courier
from distributary.overlay.node import Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.ring import Ring, settle
from distributary.overlay.ring.upkeep import Upkeep
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Simulator
from distributary.systems.hope import kbsp
from distributary.systems.hope.addressing import Addressing
from distributary.systems.hope.kbsp import Kbsp
from distributary.systems.hope.table import FilterTable
from distributary_lab.hope.failures import arriving, lists_lost
from distributary_lab.hope.model import (
    Addresses,
    AggregatedTree,
    FilterAggregate,
    covering,
    subscription_messages,
    visited,
)
from systems.hope.world import delivered, expected, random_document, random_path, settled

SUBSCRIPTIONS, EVENTS = 60, 40


class World:
    """A full cube that was run, and the addresses of all that was asked and published in it."""

    def __init__(self, dimension: int, length: int, budget: int | None) -> None:
        random = Random(dimension)
        addressing = Addressing(dimension, length, value_bits=0)
        self.deployment = settled(Kbsp, range(1 << dimension), dimension, addressing, budget=budget)
        asked, published = [], []
        self.subscriptions: list[Subscription] = []
        self.events: list[Event] = []
        for number in range(SUBSCRIPTIONS):
            subscription = Subscription(f"s{number}", f"u{number}", path=random_path(random))
            self.subscriptions.append(subscription)
            asked.append(addressing.of_filters(parse_filters(subscription)))
            # At the vertex of its key, so that registering costs nothing.
            self.deployment.subscribe(subscription, at=asked[-1].key)
            self.deployment.simulator.run()
        for number in range(EVENTS):
            event = Event(f"e{number}", document=random_document(random))
            self.events.append(event)
            published.append(addressing.of_event(event))
            self.deployment.publish(event, at=published[-1].key)
            self.deployment.simulator.run()
        self.asked = Addresses.of(asked, length)
        self.published = Addresses.of(published, length)


@pytest.mark.parametrize("length", [0, 16, 256])
@pytest.mark.parametrize("dimension", [4, 6])
def test_an_event_takes_the_ways_to_all_vertices_whose_subscriptions_it_covers(
    dimension: int, length: int
) -> None:
    world = World(dimension, length, budget=None)
    covered = covering(world.published, world.asked)
    total = 0
    for number in range(EVENTS):
        root = int(world.published.keys[number])
        targets = world.asked.keys[covered[number]]
        edges = max(0, int(visited(root, targets, dimension).sum()) - 1) if len(targets) else 0
        homes = {int(key) for key in targets}
        events = world.deployment.metrics.costs_by_kind(("publish", EventKey("", f"e{number}")))
        passed = events["DirectMessage"].messages if "DirectMessage" in events else 0
        assert passed == edges
        assert len(homes) <= edges + 1
        total += edges
    assert total > 40


@pytest.mark.parametrize("length", [0, 16, 256])
@pytest.mark.parametrize("dimension", [4, 6])
def test_one_filter_a_neighbour_sends_events_where_the_model_says(dimension: int, length: int) -> None:
    world = World(dimension, length, budget=1)
    tree = AggregatedTree(world.asked, dimension, FilterAggregate.AND)
    total = 0
    for number in range(EVENTS):
        found = tree.visited(int(world.published.keys[number]), world.published.filters[number])
        costs = world.deployment.metrics.costs_by_kind(("publish", EventKey("", f"e{number}")))
        passed = costs["DirectMessage"].messages if "DirectMessage" in costs else 0
        assert passed == int(found.sum()) - 1
        total += passed
    assert total > 40


@pytest.mark.parametrize("length", [0, 16, 256])
@pytest.mark.parametrize("dimension", [4, 6])
def test_a_subscription_is_told_to_as_many_vertices_as_the_model_says(dimension: int, length: int) -> None:
    world = World(dimension, length, budget=None)
    expected = subscription_messages(world.asked, dimension, suppress=True)
    for number in range(SUBSCRIPTIONS):
        costs = world.deployment.metrics.costs_by_kind(
            ("subscribe", SubscriptionKey(f"u{number}", f"s{number}"))
        )
        told = costs["DirectMessage"].messages if "DirectMessage" in costs else 0
        assert told == expected[number]
    unsuppressed = subscription_messages(world.asked, dimension, suppress=False)
    assert (unsuppressed >= expected).all()
    assert unsuppressed.sum() > expected.sum() > 0


def test_or_asks_for_the_bits_of_all_and_so_reaches_less_than_it_should() -> None:
    asked = Addresses.of([(0b01, 0b0001), (0b01, 0b0010)], 4)
    event = Addresses.of([(0b11, 0b1001)], 4)
    sound = AggregatedTree(asked, 2, FilterAggregate.AND).visited(0b11, event.filters[0])
    unsound = AggregatedTree(asked, 2, FilterAggregate.OR).visited(0b11, event.filters[0])
    assert np.flatnonzero(sound).tolist() == [0b01, 0b11]
    assert np.flatnonzero(unsound).tolist() == [0b11]


class UnsoundTable(FilterTable):
    """What a neighbour is told is joined by OR, from all filters, as the thesis writes it."""

    def told(self, bit: int) -> frozenset[int]:
        asked = [filter for filter, mask in self._sources.items() if mask >> bit + 1]
        return frozenset([reduce(or_, asked)] if asked else ())


@pytest.mark.parametrize("length", [16, 256])
@pytest.mark.parametrize("dimension", [4, 6])
def test_nodes_that_join_filters_by_or_send_and_lose_what_the_model_says(
    dimension: int, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kbsp, "FilterTable", UnsoundTable)
    world = World(dimension, length, budget=1)
    tree = AggregatedTree(world.asked, dimension, FilterAggregate.OR)
    wanted = expected(world.subscriptions, world.events)
    at = {each.subscriber: int(key) for each, key in zip(world.subscriptions, world.asked.keys, strict=True)}
    reached = {}
    for number, event in enumerate(world.events):
        reached[event.id] = tree.visited(int(world.published.keys[number]), world.published.filters[number])
        costs = world.deployment.metrics.costs_by_kind(("publish", event.key))
        passed = costs["DirectMessage"].messages if "DirectMessage" in costs else 0
        assert passed == int(reached[event.id].sum()) - 1
    arrive = {(event, who) for event, who in wanted if reached[event][at[who]]}
    assert set(delivered(world.deployment)) == arrive
    assert len(arrive) < len(wanted)


class Failed:
    """A full cube with a subscription at every node, after some of its nodes have failed at once."""

    def __init__(self, dimension: int, copies: int, probability: float, seed: int) -> None:
        self.random = Random(seed)
        self.addressing = Addressing(dimension, 64, value_bits=0)
        self.dimension, self.copies, nodes = dimension, copies, range(1 << dimension)
        self.deployment = Deployment(Simulator(seed, ConstantLatency(0.03)), self.make, sizes=False)
        for node in nodes:
            self.deployment.add(node)
        settle([member.ring for member in self.deployment.members.values()])  # type: ignore[attr-defined]
        self.subscriptions = [Subscription("s", f"{node}", path=random_path(self.random)) for node in nodes]
        for node, subscription in zip(nodes, self.subscriptions, strict=True):
            self.deployment.subscribe(subscription, at=node)
        self.deployment.simulator.run(until=20)
        failed = {node for node in nodes if self.random.random() < probability}
        for node in sorted(failed):
            self.deployment.crash(node)
        self.deployment.simulator.run(until=80)
        self.lost = lists_lost(np.array([node in failed for node in nodes]), copies)

    def make(self, address: int) -> Kbsp:
        half = 1 << self.dimension - 1
        ring = Ring(Node(address), Circle(self.dimension), successor_count=half)
        courier = Courier(ring.node)
        courier.carry(ring)
        upkeep = Upkeep(ring, None)
        siblings = self.copies - 1
        return Kbsp(ring, self.addressing, courier=courier, copies=siblings, refresh=None, upkeep=upkeep)

    def follow(self, count: int) -> tuple[set[tuple[str, str]], set[tuple[str, str]], set[tuple[str, str]]]:
        """Deliveries that homes which are up want, that the model lets arrive, and that arrived.

        Left out is what a home publishes itself: it needs no list for that.
        """
        up, world = self.deployment.up(), self.deployment
        events = {
            f"e{number}": Event(f"e{number}", document=random_document(self.random))
            for number in range(count)
        }
        publishers = {name: self.random.choice(up) for name in events}
        for name, event in events.items():
            world.publish(event, at=publishers[name])
        world.simulator.run(until=140)
        homes = [subscription for subscription in self.subscriptions if int(subscription.subscriber) in up]
        pairs = expected(homes, list(events.values()))
        wanted = {(name, who) for name, who in pairs if publishers[name] != int(who)}
        keys = {each.subscriber: self.addressing.of_filters(parse_filters(each)).key for each in homes}
        roots = {name: self.addressing.of_event(event).key for name, event in events.items()}
        arrive = {
            pair for pair in wanted if arriving(roots[pair[0]], np.array([keys[pair[1]]]), self.lost).all()
        }
        return wanted, arrive, set(delivered(world)) & wanted


@pytest.mark.parametrize("seed", [3, 4])
def test_nodes_without_copies_lose_the_deliveries_of_the_model_when_some_fail(seed: int) -> None:
    wanted, arrive, came = Failed(5, copies=1, probability=0.25, seed=seed).follow(30)
    assert came == arrive
    assert 0 < len(arrive) < len(wanted)


@pytest.mark.parametrize("copies", [2, 8])
def test_nodes_with_copies_lose_nothing_that_the_model_does_not(copies: int) -> None:
    wanted, arrive, came = Failed(5, copies=copies, probability=0.5, seed=4).follow(30)
    assert arrive <= came <= wanted
    assert len(came) < len(wanted) if copies == 2 else came == wanted
