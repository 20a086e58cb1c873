"""The arrays of HOPE against the nodes themselves: the same messages, one by one."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from distributary.filters.kinds import parse_filters
from distributary.model import Event, EventKey, Subscription, SubscriptionKey
from distributary.systems.hope.addressing import Addressing
from distributary.systems.hope.kbsp import Kbsp
from distributary_lab.hope.model import (
    Addresses,
    AggregatedTree,
    FilterAggregate,
    covering,
    subscription_messages,
    visited,
)
from systems.hope.world import random_document, random_path, settled

SUBSCRIPTIONS, EVENTS = 60, 40


class World:
    """A full cube that was run, and the addresses of all that was asked and published in it."""

    def __init__(self, dimension: int, length: int, budget: int | None) -> None:
        random = Random(dimension)
        addressing = Addressing(dimension, length, value_bits=0)
        self.deployment = settled(Kbsp, range(1 << dimension), dimension, addressing, budget=budget)
        asked, published = [], []
        for number in range(SUBSCRIPTIONS):
            subscription = Subscription(f"s{number}", f"u{number}", path=random_path(random))
            asked.append(addressing.of_filters(parse_filters(subscription)))
            # At the vertex of its key, so that registering costs nothing.
            self.deployment.subscribe(subscription, at=asked[-1].key)
            self.deployment.simulator.run()
        for number in range(EVENTS):
            event = Event(f"e{number}", document=random_document(random))
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
