"""MFD: deliveries of the matcher's engine of that name, and never further from the source than tolerated."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from distributary.errors import FilterError
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.node import Address
from distributary.overlay.ring.ring import Arrival
from distributary.sim.deployment import Deployment
from distributary.sim.latency import UniformLatency
from distributary.sim.simulator import Observer
from distributary.sim.trials.trial import Trial, run_trial
from distributary.systems.state_aware.broker import PublishedValue, ValueNotice
from distributary.systems.state_aware.mfd import LevelReport, LevelValue, MFDBroker
from systems.state_aware.worlds import run_against_oracle, settled_world

ITEM = "A/B/C"
WHOLE = range(65)
"""Tolerances that the matcher, with units of 1, splits in the same way."""


def subscribe(deployment: Deployment, name: str, tolerance: float, at: Address) -> None:
    deployment.subscribe(Subscription(name, name, topic=ITEM, change={"d": tolerance}), at=at)
    deployment.simulator.run()


def filters_of(deployment: Deployment) -> list[tuple[int, int]]:
    """The sub-filters of the item, at all nodes: the units of each, and how many subscriptions it has."""
    return sorted(
        (name.key[0], len(hosted.slots))
        for broker in deployment.members.values()
        for name, hosted in broker._filters.get(ITEM, {}).items()
    )


def casts(deployment: Deployment) -> list[LevelValue]:
    """All multicasts to a level from now on, as they are sent out."""
    sent: list[LevelValue] = []
    for broker in deployment.members.values():
        cast = broker._cast
        broker._cast = lambda message, cast=cast: (sent.append(message), cast(message))
    return sent


@pytest.mark.parametrize("seed", range(8))
def test_deliveries_are_those_of_the_matcher(seed: int) -> None:
    deployment, addresses = settled_world(MFDBroker, 2 + 3 * seed, seed, span=2 + seed)
    run_against_oracle(deployment, addresses, seed, engine="mfd", tolerances=WHOLE)


@pytest.mark.parametrize("seed", range(4))
def test_late_reports_go_up_by_a_multicast_of_their_own(seed: int) -> None:
    deployment, addresses = settled_world(
        MFDBroker, 20, seed, span=12, window=0.01, network=UniformLatency(0.01, 0.4, seed=1)
    )
    run_against_oracle(deployment, addresses, seed, engine="mfd", gap=30, tolerances=WHOLE)


def test_a_value_reported_late_is_not_lost() -> None:
    deployment, addresses = settled_world(
        MFDBroker, 20, 5, span=12, window=0.01, network=UniformLatency(0.01, 0.4, seed=1)
    )
    for number, tolerance in enumerate(range(1, 64)):
        subscribe(deployment, f"s{number}", tolerance, addresses[number % 20])
    sent = casts(deployment)
    deployment.publish(Event("e1", ITEM, {"d": 10}), at=addresses[0])
    deployment.simulator.run()
    assert len(deployment.deliveries) == 63
    assert len(sent) > 3, "more than one multicast a level"


class Levels(Observer):
    """The levels to which values were sent."""

    def __init__(self) -> None:
        self.seen: set[int] = set()

    def received(self, now: float, sender: Address, to: Address, message: Any) -> None:
        payload = getattr(message, "payload", None)
        if isinstance(payload, LevelValue):
            self.seen.add(payload.level)


def test_tolerances_of_a_few_cents_have_levels_too() -> None:
    levels = Levels()
    quotes = "quotes:stock_count=6,maximum=0.1"
    trial = Trial("state-aware-mfd", subscriptions=200, events=60, workload=quotes)
    outcome = run_trial(trial, [levels])
    assert outcome.problems == ()
    assert levels.seen == {1, 2, 3}


@pytest.mark.parametrize("seed", range(6))
def test_nobody_is_further_from_the_source_than_tolerated(seed: int) -> None:
    deployment, addresses = settled_world(
        MFDBroker, 12, seed, span=6, window=0.05, network=UniformLatency(0.01, 0.1, seed=1)
    )
    random = Random(seed)
    tolerances: dict[str, float] = {}
    last: dict[str, float] = {}
    values: dict[str, float] = {}
    value, seen = 100, 0
    for step in range(120):
        if step % 6 == 0 and len(tolerances) < 30:
            name = f"s{step}"
            tolerances[name] = random.choice([0, random.randint(1, 64), random.uniform(0.01, 300)])
            deployment.subscribe(
                Subscription(name, name, topic=ITEM, change={"d": tolerances[name]}),
                at=random.choice(addresses),
            )
            if random.random() < 0.5:
                deployment.simulator.run()
        value += random.randint(-9, 9)
        values[f"e{step}"] = value
        deployment.publish(Event(f"e{step}", ITEM, {"d": value}), at=addresses[0])
        deployment.simulator.run()
        for each in deployment.deliveries[seen:]:
            last[each.delivery.subscriber] = values[each.delivery.event.id]
        seen = len(deployment.deliveries)
        assert all(abs(last[name] - value) <= tolerances[name] for name in last)


def test_proxies_are_made_replaced_and_removed() -> None:
    deployment, addresses = settled_world(MFDBroker, 30, seed=1)
    subscribe(deployment, "s21", 21, addresses[0])
    assert filters_of(deployment) == [(1, 0), (5, 0), (21, 1)]
    subscribe(deployment, "s5", 5, addresses[1])
    subscribe(deployment, "s53", 53, addresses[2])
    assert filters_of(deployment) == [(1, 0), (5, 1), (21, 1), (53, 1)]
    deployment.unsubscribe(SubscriptionKey("s21", "s21"))
    deployment.simulator.run()
    assert filters_of(deployment) == [(1, 0), (5, 1), (53, 1)]
    deployment.unsubscribe(SubscriptionKey("s5", "s5"))
    deployment.simulator.run()
    assert filters_of(deployment) == [(1, 0), (5, 0), (53, 1)]
    deployment.unsubscribe(SubscriptionKey("s53", "s53"))
    deployment.simulator.run()
    assert filters_of(deployment) == []


def test_a_level_without_output_ends_it() -> None:
    deployment, addresses = settled_world(MFDBroker, 30, seed=1)
    subscribe(deployment, "s21", 21, addresses[0])
    sent = casts(deployment)
    levels = []
    for number, value in enumerate([10, 11, 12, 16, 40]):
        sent.clear()
        deployment.publish(Event(f"e{number}", ITEM, {"d": value}), at=addresses[9])
        deployment.simulator.run(until=deployment.simulator.now + 60)
        levels.append([message.level for message in sent])
    assert levels == [[1, 2, 3], [1], [1, 2], [1, 2, 3], [1, 2, 3]]
    assert [each.delivery.event.id for each in deployment.deliveries] == ["e0", "e4"]


def test_a_filter_that_feeds_nobody_is_no_output() -> None:
    deployment, addresses = settled_world(MFDBroker, 30, seed=1)
    subscribe(deployment, "s1", 1, addresses[0])
    sent = casts(deployment)
    deployment.publish(Event("e1", ITEM, {"d": 10}), at=addresses[9])
    deployment.simulator.run()
    assert [message.level for message in sent] == [1]
    assert len(deployment.deliveries) == 1


def test_only_nodes_with_output_report() -> None:
    deployment, addresses = settled_world(MFDBroker, 40, seed=2, span=20)
    subscribe(deployment, "s5", 5, addresses[0])
    routed = []
    for broker in deployment.members.values():
        route = broker.ring.route
        broker.ring.route = lambda key, message, route=route: (routed.append(message), route(key, message))
    deployment.publish(Event("e1", ITEM, {"d": 10}), at=addresses[9])
    deployment.simulator.run()
    assert [type(message) for message in routed] == [PublishedValue, LevelReport]
    assert len(deployment.deliveries) == 1


def test_a_new_subscription_gets_the_latest_value_whatever_the_levels_below_say() -> None:
    deployment, addresses = settled_world(MFDBroker, 30, seed=1)
    subscribe(deployment, "first", 21, addresses[0])
    deployment.publish(Event("e1", ITEM, {"d": 10}), at=addresses[9])
    deployment.simulator.run()
    deployment.publish(Event("e2", ITEM, {"d": 11}), at=addresses[9])
    deployment.simulator.run()
    subscribe(deployment, "second", 21, addresses[1])
    subscribe(deployment, "third", 53, addresses[2])
    got = sorted((each.delivery.event.id, each.delivery.subscriber) for each in deployment.deliveries)
    assert got == [("e1", "first"), ("e2", "second"), ("e2", "third")]


def test_tolerances_on_several_attributes_are_refused() -> None:
    deployment, addresses = settled_world(MFDBroker, 3, seed=1)
    with pytest.raises(FilterError, match="several attributes"):
        deployment.subscribe(Subscription("s", "ann", topic=ITEM, change={"d": 1, "e": 2}), at=addresses[0])


def test_a_home_does_not_register_again_for_a_value_that_is_older_than_what_it_has() -> None:
    """It would be given the same value again, and so on."""
    deployment, addresses = settled_world(MFDBroker, 12, 1)
    home = deployment.members[addresses[0]]
    key = SubscriptionKey("s", "s")
    deployment.subscribe(Subscription("s", "s", topic="A/B/C", change={"d": 1}), at=addresses[0])
    deployment.simulator.run(until=5)
    deployment.publish(Event("e1", "A/B/C", {"d": 5}), at=addresses[1])
    deployment.simulator.run(until=10)
    latest = home._own[key].delivered["A/B/C"].stamp
    registered = []
    home.ring.route = lambda key, message: registered.append(message)
    older = latest._replace(number=latest.number - 1)
    wanted = ((addresses[0], (key,)),)
    notice = ValueNotice("A/B/C", Event("e0", "A/B/C", {"d": 4}), older, wanted)
    arrival = Arrival(addresses[1])
    deployment.simulator.call(addresses[0], lambda: home.ring.listeners[ValueNotice](notice, arrival))
    deployment.simulator.run(until=20)
    assert not registered
    assert [each.delivery.event.id for each in deployment.deliveries] == ["e1"]
