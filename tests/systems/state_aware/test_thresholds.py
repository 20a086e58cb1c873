"""Thresholds: SF's deliveries, and messages only where somebody takes a value."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.filters.change import ChangeFilter
from distributary.matching.change.thresholds import ChangeThresholds
from distributary.matching.matcher import Matcher
from distributary.model import Event, EventKey, Subscription, SubscriptionKey
from distributary.overlay.node import Address
from distributary.sim.deployment import Deployment
from distributary.sim.latency import UniformLatency
from distributary.systems.state_aware.broker import DirectoryEntry, TrackedSubscription
from distributary.systems.state_aware.directory import Directory, is_quiet
from distributary.systems.state_aware.mfd import MFDBroker
from distributary.systems.state_aware.order import ValueStamp
from distributary.systems.state_aware.sf import SFBroker
from distributary.systems.state_aware.thresholds import (
    GuardedValue,
    LeaseRevocation,
    QuietLease,
    QuietReport,
    ThresholdsBroker,
)
from systems.state_aware.worlds import delivered, run_against_oracle, settled_world

ITEM = "A/B/C"


def publish(deployment: Deployment, name: str, value: float, at: Address) -> list[str]:
    """Publish and let everything settle; the subscribers who get it."""
    before = len(deployment.deliveries)
    deployment.publish(Event(name, ITEM, {"d": value}), at=at)
    deployment.simulator.run(until=deployment.simulator.now + 60)
    return sorted(each.delivery.subscriber for each in deployment.deliveries[before:])


def subscribe(deployment: Deployment, name: str, tolerance: float, at: Address) -> None:
    deployment.subscribe(Subscription(name, name, topic=ITEM, change={"d": tolerance}), at=at)
    deployment.simulator.run(until=deployment.simulator.now + 60)


def messages(deployment: Deployment, name: str) -> int:
    return deployment.metrics.cost(("publish", EventKey("", name))).messages


@pytest.mark.parametrize("seed", range(10))
def test_deliveries_are_those_of_the_matcher(seed: int) -> None:
    deployment, addresses = settled_world(ThresholdsBroker, 2 + 3 * seed, seed, span=2 + seed)
    run_against_oracle(deployment, addresses, seed, engine="sf", attributes=2, steps=80)


@pytest.mark.parametrize("seed", range(3))
def test_messages_of_any_speed_change_nothing(seed: int) -> None:
    network = UniformLatency(0.01, 0.6, seed=seed)
    deployment, addresses = settled_world(ThresholdsBroker, 20, seed, network=network)
    run_against_oracle(deployment, addresses, seed, engine="thresholds", gap=20, attributes=2)


def test_same_deliveries_as_sf_for_fewer_messages_than_sf_and_mfd() -> None:
    got, cost = {}, {}
    for make in (SFBroker, MFDBroker, ThresholdsBroker):
        deployment, addresses = settled_world(make, 60, seed=4, span=8)
        random = Random(9)
        values = dict.fromkeys(range(5), 1000)
        for step in range(600):
            deployment.simulator.run(until=10.0 * step)
            item = f"quotes/NYSE/{step % 5}"
            if step % 4 == 0 and step < 400:
                change = {"d": random.randint(1, 64)}
                at = random.choice(addresses)
                subscription = Subscription(f"s{step}", f"s{step}", topic=item, change=change)
                deployment.subscribe(subscription, at=at)
                deployment.simulator.run(until=10.0 * step + 5)
            values[step % 5] += random.randint(-8, 8)
            deployment.publish(Event(f"e{step}", item, {"d": values[step % 5]}), at=addresses[step % 5])
        deployment.simulator.run()
        got[make] = sorted(
            (each.delivery.event.id, each.delivery.subscriber) for each in deployment.deliveries
        )
        cost[make] = deployment.costs()["publish"].messages
    assert got[ThresholdsBroker] == got[SFBroker]
    assert got[MFDBroker] != got[SFBroker]
    assert cost[ThresholdsBroker] < 0.8 * min(cost[SFBroker], cost[MFDBroker])


def test_a_value_that_nobody_wants_costs_nothing_once_that_is_known() -> None:
    deployment, addresses = settled_world(ThresholdsBroker, 30, seed=1)
    subscribe(deployment, "ann", 10, addresses[3])
    assert publish(deployment, "e1", 100, addresses[9]) == ["ann"]
    assert publish(deployment, "e2", 110, addresses[9]) == []
    assert messages(deployment, "e2") > 0
    assert publish(deployment, "e3", 90, addresses[9]) == []
    assert messages(deployment, "e3") == 0
    assert publish(deployment, "e4", 111, addresses[9]) == ["ann"]


def test_a_subscription_ends_the_lease() -> None:
    deployment, addresses = settled_world(ThresholdsBroker, 30, seed=1)
    assert publish(deployment, "e0", 100, addresses[9]) == []
    subscribe(deployment, "ann", 10, addresses[3])
    for number in (1, 2, 3):
        publish(deployment, f"e{number}", 100 + number, addresses[9])
    assert messages(deployment, "e3") == 0, "kept back"
    subscribe(deployment, "bob", 10, addresses[4])
    got = [(each.delivery.event.id, each.delivery.subscriber) for each in deployment.deliveries]
    assert got == [("e0", "ann"), ("e3", "bob")]
    assert publish(deployment, "e4", 113, addresses[9]) == ["ann"]
    assert publish(deployment, "e5", 114, addresses[9]) == ["bob"]


def test_a_value_kept_back_while_the_lease_was_being_revoked_is_sent_after_all() -> None:
    deployment, addresses = settled_world(ThresholdsBroker, 30, seed=1)
    publisher = addresses[9]
    subscribe(deployment, "ann", 10, addresses[3])
    for number in (1, 2, 3):
        publish(deployment, f"e{number}", 100, publisher)
    broker = deployment.members[publisher]
    broker.node._handlers[LeaseRevocation] = lambda message, sender: deployment.simulator.at(
        deployment.simulator.now + 5,
        lambda: deployment.simulator.call(publisher, lambda: broker._revoked(message, sender)),
    )
    deployment.subscribe(Subscription("bob", "bob", topic=ITEM, change={"d": 10}), at=addresses[4])
    deployment.simulator.run(until=deployment.simulator.now + 2)
    assert publish(deployment, "e4", 101, publisher) == ["bob"]


def test_another_publisher_ends_the_lease() -> None:
    deployment, addresses = settled_world(ThresholdsBroker, 30, seed=1)
    subscribe(deployment, "ann", 10, addresses[3])
    for number in (1, 2, 3):
        publish(deployment, f"e{number}", 100, addresses[9])
    assert publish(deployment, "f1", 200, addresses[12]) == ["ann"]
    assert publish(deployment, "e4", 100, addresses[9]) == ["ann"]


@pytest.mark.parametrize("seed", range(3))
def test_values_that_follow_one_another_before_a_lease_arrives_are_delivered_all_the_same(seed: int) -> None:
    deployment, addresses = settled_world(ThresholdsBroker, 20, seed, span=4)
    random, matcher = Random(seed), Matcher()
    for number in range(3):
        subscribe(deployment, f"s{number}", 2 + number, random.choice(addresses))
        matcher.add(Subscription(f"s{number}", f"s{number}", topic=ITEM, change={"d": 2 + number}))
    wanted = []
    for step in range(150):
        event = Event(f"e{step}", ITEM, {"d": random.choice([100, 101, 102, 110])})
        wanted += [(event.id, name) for name in matcher.match(event)]
        deployment.publish(event, at=addresses[9])
        deployment.simulator.run(until=deployment.simulator.now + random.choice([0, 0.04, 0.2, 5]))
    deployment.simulator.run(until=deployment.simulator.now + 60)
    assert sorted(delivered(deployment, ["s0", "s1", "s2"])) == sorted(wanted)


def test_a_lease_that_its_revocation_has_overtaken_does_not_begin() -> None:
    deployment, addresses = settled_world(ThresholdsBroker, 30, seed=1)
    publisher = addresses[9]
    broker = deployment.members[publisher]
    leases: list[QuietLease] = []
    broker.node._handlers[QuietLease] = lambda message, sender: leases.append(message)
    subscribe(deployment, "ann", 10, addresses[3])
    for number in (1, 2):
        publish(deployment, f"e{number}", 100 + number, publisher)
    subscribe(deployment, "bob", 1, addresses[4])
    (late,) = leases
    deployment.simulator.call(publisher, lambda: broker._leased(late, publisher))
    assert publish(deployment, "e3", 104, publisher) == ["bob"]


@pytest.mark.parametrize("seed", range(5))
def test_publishers_who_race_leave_nobody_further_off_than_tolerated(seed: int) -> None:
    deployment, addresses = settled_world(
        ThresholdsBroker, 20, seed, network=UniformLatency(0.01, 0.5, seed=seed), span=4
    )
    random = Random(seed)
    tolerances = {f"s{number}": random.randint(1, 30) for number in range(12)}
    values: dict[str, float] = {}
    for name, tolerance in tolerances.items():
        subscribe(deployment, name, tolerance, random.choice(addresses))
    for step in range(60):
        for racer in (0, 1):
            values[f"e{step}.{racer}"] = random.randint(0, 60)
            event = Event(f"e{step}.{racer}", ITEM, {"d": values[f"e{step}.{racer}"]})
            deployment.publish(event, at=addresses[racer])
            deployment.simulator.run(until=deployment.simulator.now + random.choice([0, 0.3]))
        deployment.simulator.run(until=deployment.simulator.now + 20)
        values[f"e{step}"] = values[f"e{step}.1"] + 1
        publish(deployment, f"e{step}", values[f"e{step}"], addresses[random.choice([0, 1])])
        last = {each.delivery.subscriber: values[each.delivery.event.id] for each in deployment.deliveries}
        assert all(abs(last[name] - values[f"e{step}"]) <= tolerances[name] for name in tolerances)


def test_a_node_that_takes_value_after_value_does_not_report_each_time() -> None:
    deployment, addresses = settled_world(ThresholdsBroker, 30, seed=1)
    subscribe(deployment, "ann", 60, addresses[3])
    told: list[type] = []
    for broker in deployment.members.values():
        send = broker.send
        broker.send = lambda to, message, send=send: (told.append(type(message)), send(to, message))
    for number in range(10):
        publish(deployment, f"e{number}", 100 * number, addresses[9])
    assert told.count(GuardedValue) == 9, "all but the survey"
    assert told.count(QuietReport) == 1
    publish(deployment, "e10", 901, addresses[9])
    publish(deployment, "e11", 902, addresses[9])
    assert (told.count(GuardedValue), told.count(QuietReport), told.count(QuietLease)) == (10, 2, 1)


def test_a_node_that_keeps_nothing_any_longer_is_forgotten() -> None:
    deployment, addresses = settled_world(ThresholdsBroker, 30, seed=1)
    subscribe(deployment, "ann", 60, addresses[3])
    publish(deployment, "e1", 100, addresses[9])
    deployment.unsubscribe(SubscriptionKey("ann", "ann"))
    for number in (2, 3, 4):
        publish(deployment, f"e{number}", 200 * number, addresses[9])
    (guarded,) = [broker._guarded[ITEM] for broker in deployment.members.values() if ITEM in broker._guarded]
    assert not guarded.nodes
    assert messages(deployment, "e4") == 0


def standing(name: str, tolerances: dict[str, float]) -> TrackedSubscription:
    return TrackedSubscription(
        DirectoryEntry(ITEM, Subscription(name, name, topic=ITEM, change=tolerances), 1), 0.0
    )


NUMBER = st.one_of(st.integers(-20, 20), st.floats(-20, 20, width=16), st.just(float("inf")))


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.dictionaries(st.sampled_from("ab"), st.floats(0, 12, width=16), min_size=1),
        min_size=1,
        max_size=6,
    ),
    st.lists(st.tuples(st.sampled_from([ITEM, ITEM + "/x"]), st.dictionaries(st.sampled_from("ab"), NUMBER))),
)
def test_a_directory_takes_what_the_threshold_index_takes(
    tolerances: list[dict[str, float]], values: list[tuple[str, dict[str, float]]]
) -> None:
    directory, index = Directory(), ChangeThresholds()
    for slot, each in enumerate(tolerances):
        directory.put(standing(str(slot), each))
        index.add(slot, ChangeFilter.parse(each))
    for number, (topic, attributes) in enumerate(values):
        event = Event(f"e{number}", topic, attributes)
        quiet = directory.quiet(topic)
        wanted = index.match(event)
        assert not (wanted and quiet is not None and is_quiet(quiet, event))
        fired = directory.fire(event, ValueStamp(1, 0.0, number))
        assert sorted(int(each.name.id) for each in fired) == wanted


def test_a_value_that_only_rises_leaves_no_thresholds_behind() -> None:
    directory = Directory()
    for name in ("ann", "bob"):
        directory.put(standing(name, {"a": 1}))
    for number in range(1000):
        assert (
            len(directory.fire(Event(f"e{number}", ITEM, {"a": 2 * number}), ValueStamp(1, 0.0, number))) == 2
        )
    thresholds = directory._thresholds[ITEM]["a"]
    assert len(thresholds.rises) + len(thresholds.falls) < 100


@given(st.integers(-50, 50), st.integers(0, 30), st.integers(-100, 100))
def test_whole_numbers_are_quiet_exactly_when_nobody_takes_them(
    last: int, tolerance: int, value: int
) -> None:
    directory = Directory()
    directory.put(standing("s", {"a": tolerance}))
    directory.fire(Event("e0", ITEM, {"a": last}), ValueStamp(1, 0.0, 0))
    quiet = directory.quiet(ITEM)
    assert quiet is not None
    assert is_quiet(quiet, Event("e1", ITEM, {"a": value})) == (abs(value - last) <= tolerance)
