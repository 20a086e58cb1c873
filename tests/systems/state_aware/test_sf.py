"""SF: exact against the matcher, in a ring at rest."""

from __future__ import annotations

from functools import partial

import pytest

from distributary.errors import FilterError, UnknownSubscriptionError
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.node import Address
from distributary.sim.deployment import Deployment
from distributary.systems.state_aware.broker import StateAwareBroker, ValueNotice
from distributary.systems.state_aware.order import LatestValue, ValueStamp
from distributary.systems.state_aware.sf import SFBroker, Value
from systems.state_aware.worlds import CIRCLE, run_against_oracle, settled_world

KEY = SubscriptionKey("ann", "s")


@pytest.mark.parametrize("seed", range(12))
def test_deliveries_are_those_of_the_matcher(seed: int) -> None:
    deployment, addresses = settled_world(SFBroker, 1 + 3 * seed, seed)
    addresses = addresses * 2 if len(addresses) == 1 else addresses
    run_against_oracle(deployment, addresses, seed, engine="sf", attributes=2)


def test_the_example_of_figure_6() -> None:
    deployment, addresses = settled_world(SFBroker, 20, seed=1)
    for name, tolerance in (("s1", 5), ("s2", 10)):
        deployment.subscribe(
            Subscription(name, name, topic="A/B/C", change={"d": tolerance}), at=addresses[3]
        )
    stream = [10, 16, 21, 25, 30, 25, 19, 13, 8]
    for number, value in enumerate(stream):
        deployment.simulator.run(until=60.0 * (number + 1))
        deployment.publish(Event(f"{number}", "A/B/C", {"d": value}), at=addresses[9])
    deployment.simulator.run()
    got: dict[str, list[int]] = {"s1": [], "s2": []}
    for each in deployment.deliveries:
        got[each.delivery.subscriber].append(stream[int(each.delivery.event.id)])
    assert got["s1"] == [10, 16, 25, 19, 13]
    assert got["s2"] == [10, 21, 8]


def test_a_late_older_value_is_dropped() -> None:
    deployment, addresses = settled_world(SFBroker, 1, seed=1)
    (broker,) = deployment.members.values()
    assert isinstance(broker, SFBroker)
    deployment.subscribe(Subscription("s", "ann", topic="A/B/C", change={"d": 1}), at=addresses[0])
    for number in (2, 1, 2, 3):
        value = Value("A/B/C", Event(f"{number}", "A/B/C", {"d": 10 * number}), ValueStamp(1, 0.0, number))
        broker.ring.multicast_segment(0, CIRCLE.size, value)
        deployment.simulator.call(addresses[0], lambda: None)
    assert [each.delivery.event.id for each in deployment.deliveries] == ["2", "3"]


def test_a_needless_message_is_no_delivery_and_sets_the_rendezvous_right() -> None:
    deployment, addresses = settled_world(SFBroker, 8, seed=2)
    home, other = addresses[1], addresses[5]
    deployment.subscribe(Subscription("s", "ann", topic="A/B/C", change={"d": 5}), at=home)
    deployment.simulator.run()
    deployment.publish(Event("e1", "A/B/C", {"d": 10}), at=other)
    deployment.simulator.run(until=10)
    (rendezvous,) = [each for each in deployment.members.values() if KEY in each.directory]
    rendezvous.directory[KEY].delivered.clear()
    deployment.publish(Event("e2", "A/B/C", {"d": 13}), at=other)
    deployment.simulator.run(until=20)
    assert dict(rendezvous.directory[KEY].delivered["A/B/C"].values) == {"d": 10}
    deployment.publish(Event("e3", "A/B/C", {"d": 16}), at=other)
    deployment.simulator.run()
    assert [each.delivery.event.id for each in deployment.deliveries] == ["e1", "e3"]


def _after_a_needless_message(**options: float) -> tuple[Deployment, list[Address], StateAwareBroker]:
    """A world whose home took e1 (10) from a rendezvous of before, and declined e2 (13) of the one of now."""
    deployment, addresses = settled_world(SFBroker, 8, seed=2, **options)
    home, other = addresses[1], addresses[5]
    deployment.subscribe(Subscription("s", "ann", topic="A/B/C", change={"d": 5}), at=home)
    deployment.simulator.run(until=10)
    deployment.publish(Event("e1", "A/B/C", {"d": 10}), at=other)
    deployment.simulator.run(until=20)
    before = ValueStamp(other, 0.0, 99)
    own = deployment.members[home]._own[KEY]
    own.delivered["A/B/C"] = own.delivered["A/B/C"]._replace(stamp=before, seen=before)
    (rendezvous,) = [each for each in deployment.members.values() if KEY in each.directory]
    rendezvous.directory[KEY].delivered.clear()
    deployment.publish(Event("e2", "A/B/C", {"d": 13}), at=other)
    deployment.simulator.run(until=21)
    return deployment, addresses, rendezvous


def test_a_value_that_was_declined_is_not_sent_again() -> None:
    deployment, _, rendezvous = _after_a_needless_message(refresh=10.0)
    for second in range(22, 90):
        deployment.simulator.run(until=second)
        assert dict(rendezvous.directory[KEY].delivered["A/B/C"].values) == {"d": 10}


def test_a_value_that_a_home_has_seen_before_sets_the_rendezvous_right() -> None:
    deployment, addresses, rendezvous = _after_a_needless_message()
    rendezvous.directory[KEY].delivered.clear()
    deployment.simulator.call(rendezvous.node.address, lambda: rendezvous.on_latest("A/B/C"))
    deployment.simulator.run(until=30)
    deployment.publish(Event("e3", "A/B/C", {"d": 16}), at=addresses[5])
    deployment.simulator.run()
    assert [each.delivery.event.id for each in deployment.deliveries] == ["e1", "e3"]


@pytest.mark.parametrize("names", [("s",), ("s", "t")])
def test_a_value_that_comes_again_after_a_newer_one_is_not_the_last_delivered(names: tuple[str, ...]) -> None:
    deployment, addresses = settled_world(SFBroker, 8, seed=2)
    home, other = addresses[1], addresses[5]
    for name in names:
        deployment.subscribe(Subscription(name, "ann", topic="A/B/C", change={"d": 5}), at=home)
    deployment.simulator.run(until=10)
    values = [Event(f"e{number}", "A/B/C", {"d": value}) for number, value in enumerate((10, 20, 12))]
    for event in values[:2]:
        deployment.publish(event, at=other)
        deployment.simulator.run(until=deployment.simulator.now + 10)
    (rendezvous,) = [each for each in deployment.members.values() if KEY in each.directory]
    latest = LatestValue(values[0], ValueStamp(other, 0.0, 99))
    for name in names:  # as of a rendezvous that took over and knows the first value only
        tracked = rendezvous.directory[SubscriptionKey("ann", name)]
        tracked.delivered.clear()
        deployment.simulator.call(rendezvous.node.address, partial(rendezvous.begin_with, tracked, [latest]))
    deployment.simulator.run(until=deployment.simulator.now + 10)
    deployment.publish(values[2], at=other)
    deployment.simulator.run()
    assert [each.delivery.event.id for each in deployment.deliveries] == ["e0", "e1", "e2"]


def test_a_home_that_is_told_of_a_stranger_has_it_forgotten() -> None:
    deployment, addresses = settled_world(SFBroker, 8, seed=2)
    home = deployment.members[addresses[1]]
    assert isinstance(home, SFBroker)
    deployment.subscribe(Subscription("s", "ann", topic="A/B/C", change={"d": 5}), at=addresses[1])
    deployment.simulator.run()
    del home._own[KEY]
    deployment.publish(Event("e1", "A/B/C", {"d": 10}), at=addresses[5])
    deployment.simulator.run()
    assert not deployment.deliveries
    assert not any(KEY in each.directory for each in deployment.members.values())


def test_one_node_sends_a_value_to_all_homes_by_one_multicast() -> None:
    deployment, addresses = settled_world(SFBroker, 30, seed=3)
    for number, address in enumerate(addresses):
        subscription = Subscription(f"s{number}", f"c{number}", topic="A/B/C", change={"d": 5})
        deployment.subscribe(subscription, at=address)
    deployment.simulator.run()
    casts = []
    for broker in deployment.members.values():
        multicast = broker.ring.multicast
        broker.ring.multicast = lambda keys, message, multicast=multicast: (
            casts.append(message),
            multicast(keys, message),
        )
    deployment.publish(Event("e1", "A/B/C", {"d": 10}), at=addresses[0])
    deployment.simulator.run()
    assert len(deployment.deliveries) == 30
    assert [type(cast) for cast in casts] == [ValueNotice]


@pytest.mark.parametrize(
    ("subscription", "reason"),
    [
        (Subscription("s", "ann", topic="A/B/C"), "change: missing"),
        (Subscription("s", "ann", change={"d": 1}), "topic: missing"),
        (Subscription("s", "ann", topic="A/*/C", change={"d": 1}), "several data items"),
    ],
)
def test_what_cannot_be_served_is_refused(subscription: Subscription, reason: str) -> None:
    deployment, addresses = settled_world(SFBroker, 3, seed=1)
    with pytest.raises(FilterError, match=reason):
        deployment.subscribe(subscription, at=addresses[0])
    deployment.publish(Event("e1", attributes={"d": 1}), at=addresses[0])
    deployment.simulator.run()
    assert not deployment.deliveries


def test_unsubscribing_what_is_not_there_is_an_error() -> None:
    deployment, addresses = settled_world(SFBroker, 3, seed=1)
    with pytest.raises(UnknownSubscriptionError):
        deployment.members[addresses[0]].unsubscribe(KEY)


def test_another_subscription_of_the_same_id_replaces_the_first() -> None:
    deployment, addresses = settled_world(SFBroker, 9, seed=4)
    broker = deployment.members[addresses[0]]
    for tolerance in (5, 60):
        subscription = Subscription("s", "ann", topic="A/B/C", change={"d": tolerance})
        deployment.simulator.call(
            addresses[0], lambda subscription=subscription: broker.subscribe(subscription)
        )
        deployment.simulator.run()
    kept = [each.directory[KEY] for each in deployment.members.values() if KEY in each.directory]
    assert [each.registered.subscription.change for each in kept] == [{"d": 60}]
