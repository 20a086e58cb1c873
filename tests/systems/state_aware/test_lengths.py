"""Lengths that follow the work: nothing lost or repeated while they change, and a better balance after."""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.node import Address
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.ring import Arrival
from distributary.sim.deployment import Deployment
from distributary.sim.latency import UniformLatency
from distributary.sim.simulator import Observer
from distributary.sim.trials.trial import Trial, run_trial
from distributary.systems.state_aware.lengths.answers import AnswersOfSegment
from distributary.systems.state_aware.lengths.change import BalancedBroker, HandBackReply, HandBackRequest
from distributary.systems.state_aware.lengths.mfd import BalancedMFD
from distributary.systems.state_aware.lengths.sf import BalancedSF
from distributary.systems.state_aware.lengths.target import WorkTarget
from distributary.systems.state_aware.lengths.thresholds import BalancedThresholds
from distributary.systems.state_aware.sf import Value
from distributary.systems.state_aware.thresholds import GuardedValue
from distributary.systems.table import SYSTEMS
from systems.state_aware.worlds import CIRCLE, run_against_oracle, settled_world


def balance(nodes: int, **changes: float) -> WorkTarget:
    return WorkTarget(spacing=CIRCLE.size // nodes, **{"kept": 2, "taken": 1, "period": 60, **changes})


EXACT = [BalancedThresholds, BalancedSF]
ALL = [*EXACT, BalancedMFD]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("kind", EXACT)
def test_deliveries_are_those_of_the_matcher_while_lengths_change(
    kind: type[BalancedBroker], seed: int
) -> None:
    nodes = 4 + 4 * seed
    deployment, addresses = settled_world(kind, nodes, seed, balance=balance(nodes, longest=12))
    run_against_oracle(deployment, addresses, seed, engine="sf", attributes=2, steps=100)
    assert sum(broker.changes for broker in deployment.members.values()) > 0


def entries(deployment: Deployment) -> dict[Address, int]:
    return {address: len(broker.directory) for address, broker in deployment.members.items()}


def busy(deployment: Deployment, addresses: list[Address], count: int = 80) -> None:
    random = Random(7)
    for number in range(count):
        change = {"d": random.randint(1, 64)}
        subscription = Subscription(f"s{number}", f"s{number}", topic="A/B/C", change=change)
        deployment.subscribe(subscription, at=random.choice(addresses))
    deployment.simulator.run(until=deployment.simulator.now + 10)


@pytest.mark.parametrize("kind", EXACT)
def test_values_that_come_while_subscriptions_move_are_neither_lost_nor_repeated(
    kind: type[BalancedBroker],
) -> None:
    network = UniformLatency(0.02, 0.4, seed=3)
    deployment, addresses = settled_world(
        kind, 40, 3, network=network, span=2, balance=balance(40, kept=4, taken=100)
    )
    busy(deployment, addresses)
    publisher, values, last = addresses[0], {}, {}
    tolerances = {key.id: each.change["d"] for key, (each, _) in deployment.subscriptions.items()}
    random = Random(5)
    value, wanted = 1000, []
    for step in range(200):
        value += random.randint(-12, 12)
        values[f"e{step}"] = value
        deployment.publish(Event(f"e{step}", "A/B/C", {"d": value}), at=publisher)
        for name, tolerance in tolerances.items():
            if name not in last or abs(last[name] - value) > tolerance:
                last[name] = value
                wanted.append((f"e{step}", name))
        deployment.simulator.run(until=deployment.simulator.now + 1.5)
    deployment.simulator.run()
    assert sum(broker.changes for broker in deployment.members.values()) > 0
    got = [(each.delivery.event.id, each.delivery.subscriber) for each in deployment.deliveries]
    assert sorted(got) == sorted(wanted)


@pytest.mark.parametrize("kind", ALL)
def test_a_busy_item_is_spread_and_an_idle_one_drawn_together(kind: type[BalancedBroker]) -> None:
    deployment, addresses = settled_world(kind, 40, 2, span=4, balance=balance(40, kept=4, taken=100))
    busy(deployment, addresses)
    deployment.subscribe(Subscription("few", "few", topic="X/Y/Z", change={"d": 60}), at=addresses[3])
    before = max(entries(deployment).values())
    for step in range(20):
        deployment.publish(Event(f"e{step}", "A/B/C", {"d": 100 * step}), at=addresses[0])
        deployment.publish(Event(f"f{step}", "X/Y/Z", {"d": 100 * step}), at=addresses[1])
        deployment.simulator.run(until=deployment.simulator.now + 10)
    assert max(entries(deployment).values()) < 0.6 * before
    keeper = next(
        broker for broker in deployment.members.values() if SubscriptionKey("few", "few") in broker.directory
    )
    assert keeper.ring.owns(keeper.segments.start("X/Y/Z")), "at the guard itself"
    assert sum(entries(deployment).values()) == 81


def most_kept(kind: type[BalancedBroker], period: float, seed: int) -> int:
    """The most subscriptions that a node keeps in the end, when half of them are to one of eight items."""
    work = balance(60, kept=4, taken=20, period=period)
    deployment, addresses = settled_world(kind, 60, seed, span=4, balance=work)
    random = Random(seed)
    for number in range(160):
        item = random.choice([0, random.randrange(8)])
        wish = Subscription(f"s{number}", f"s{number}", topic=f"A/B/{item}", change={"d": 1 + number % 64})
        deployment.subscribe(wish, at=random.choice(addresses))
    for step in range(20):
        for item in range(8):
            deployment.simulator.run(until=deployment.simulator.now + 2)
            event = Event(f"{item}.{step}", f"A/B/{item}", {"d": random.randint(0, 100)})
            deployment.publish(event, at=addresses[item])
    deployment.simulator.run(until=deployment.simulator.now + 10)
    assert sum(entries(deployment).values()) == 160
    return max(entries(deployment).values())


@pytest.mark.parametrize("kind", ALL)
def test_on_a_skewed_workload_the_busiest_node_keeps_fewer_than_with_the_common_length(
    kind: type[BalancedBroker],
) -> None:
    common, own = (sum(most_kept(kind, period, seed) for seed in range(3)) for period in (inf, 60.0))
    assert own < 0.75 * common


@given(st.integers(0, 63), st.integers(1, 64), st.sets(st.integers(0, 63), min_size=1), st.data())
def test_answers_of_a_segment_are_complete_when_the_owners_of_all_its_keys_have_answered(
    start: int, length: int, nodes: set[int], data: st.DataObject
) -> None:
    order = sorted(nodes)
    arcs = {node: (before, node) for before, node in zip([order[-1], *order], order, strict=False)}
    owner = {key: next((node for node in order if node >= key), order[0]) for key in range(64)}
    awaited = {owner[(start + step) % 64] for step in range(length)}
    answers = AnswersOfSegment(Circle(6), start, length)
    for node in data.draw(st.permutations(order)):
        assert answers.complete == (not awaited)
        answers.add(node, arcs[node])
        awaited.discard(node)
    assert answers.complete


@pytest.mark.parametrize("kind", EXACT)
def test_a_node_hands_back_only_behind_the_values_that_its_guard_sent_before(
    kind: type[BalancedBroker],
) -> None:
    deployment, addresses = settled_world(kind, 40, 2, span=4, balance=balance(40))
    busy(deployment, addresses)
    deployment.publish(Event("e0", "A/B/C", {"d": 0}), at=addresses[0])
    deployment.simulator.run(until=deployment.simulator.now + 10)
    broker = max(deployment.members.values(), key=lambda each: len(each.directory))
    (before,) = {tracked.delivered["A/B/C"].stamp for tracked in broker.directory.values()}
    stamp, far = before._replace(number=before.number + 10), before._replace(number=before.number + 11)
    kept = len(broker.directory)
    request = HandBackRequest("A/B/C", before.node, far, 1, (("A/B/C", stamp),))
    deployment.simulator.call(broker.node.address, lambda: broker._asked(request))
    assert len(broker.directory) == kept
    value = Event("e1", "A/B/C", {"d": 1000})
    shown = {
        BalancedSF: Value("A/B/C", value, stamp),
        BalancedThresholds: GuardedValue("A/B/C", value, stamp, 9),
    }[kind]
    arrival = Arrival(before.node)
    deployment.simulator.call(broker.node.address, lambda: broker.ring.listeners[type(shown)](shown, arrival))
    assert not broker.directory


@pytest.mark.parametrize("kind", ALL)
def test_a_node_that_does_not_answer_is_passed_over(kind: type[BalancedBroker]) -> None:
    deployment, addresses = settled_world(kind, 40, 2, span=4, balance=balance(40, kept=4, taken=100))
    busy(deployment, addresses)
    silent = max(entries(deployment), key=lambda address: entries(deployment)[address])
    broker = deployment.members[silent]
    silenced = set(broker.directory)
    send = broker.send
    lost: list[HandBackReply] = []

    def lose_one(to: Address, message: Any) -> None:
        if isinstance(message, HandBackReply) and not lost:
            lost.append(message)
        else:
            send(to, message)

    broker.send = lose_one
    for step in range(20):
        deployment.publish(Event(f"e{step}", "A/B/C", {"d": 100 * step}), at=addresses[0])
        deployment.simulator.run(until=deployment.simulator.now + 10)
    guard = next(broker for broker in deployment.members.values() if broker.is_guard("A/B/C"))
    assert guard.changes > 0
    assert not guard._moving
    got = {(each.delivery.event.id, each.delivery.subscriber) for each in deployment.deliveries}
    for key in deployment.subscriptions.keys() - silenced:
        assert {event for event, name in got if name == key.subscriber} == {f"e{step}" for step in range(20)}


class Answers(Observer):
    """How often a node handed subscriptions back, or none."""

    def __init__(self) -> None:
        self.count = 0

    def received(self, now: float, sender: Address, to: Address, message: Any) -> None:
        self.count += isinstance(message, HandBackReply)


@pytest.mark.parametrize("system", [name for name in SYSTEMS if name.endswith("-lengths")])
def test_trials_of_the_systems_by_their_names_change_lengths(system: str) -> None:
    answers = Answers()
    outcome = run_trial(Trial(system, subscriptions=200, events=100), [answers])
    assert outcome.problems == ()
    assert answers.count > 0


def test_mfd_keeps_its_bound_while_lengths_change_and_gives_new_subscriptions_the_latest_value() -> None:
    deployment, addresses = settled_world(
        BalancedMFD,
        40,
        3,
        network=UniformLatency(0.02, 0.4, seed=3),
        span=2,
        balance=balance(40, kept=4, taken=10, period=30),
    )
    busy(deployment, addresses)
    random = Random(5)
    value, values, changes = 1000, {}, []
    for step in range(100):
        value += random.randint(-12, 12)
        values[f"e{step}"] = value
        deployment.publish(Event(f"e{step}", "A/B/C", {"d": value}), at=addresses[step % 2])
        deployment.simulator.run(until=deployment.simulator.now + 10)
        if step % 9 == 0:
            new = Subscription(f"n{step}", f"n{step}", topic="A/B/C", change={"d": 1 + step % 64})
            deployment.subscribe(new, at=addresses[2])
            deployment.simulator.run(until=deployment.simulator.now + 10)
        if step % 20 == 19:  # fewer, so that the segment is to be shorter
            for key in sorted(deployment.subscriptions)[::2]:
                deployment.unsubscribe(key)
        last = {one.delivery.subscriber: values[one.delivery.event.id] for one in deployment.deliveries}
        for key, (subscription, _) in deployment.subscriptions.items():
            assert abs(last[key.subscriber] - value) <= subscription.change["d"], (step, key)
        changes.append(sum(broker.changes for broker in deployment.members.values()))
    assert changes[-1] > 2


def test_mfd_nodes_that_a_segment_leaves_behind_keep_nothing_of_its_item() -> None:
    deployment, addresses = settled_world(
        BalancedMFD, 40, 2, span=20, balance=balance(40, kept=100, taken=999)
    )
    busy(deployment, addresses)
    for step in range(20):
        deployment.publish(Event(f"e{step}", "A/B/C", {"d": 100 * step}), at=addresses[0])
        deployment.simulator.run(until=deployment.simulator.now + 10)
    guard = next(broker for broker in deployment.members.values() if broker.is_guard("A/B/C"))
    assert guard.changes == 1
    assert len(guard.directory) == 80
    for broker in deployment.members.values():
        assert broker is guard or not (broker._filters or broker.latest.of("A/B/C"))


def test_a_balance_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(DistributaryError, match="above 0"):
        WorkTarget(spacing=10, kept=0)
