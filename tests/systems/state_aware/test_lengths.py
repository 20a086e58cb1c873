"""Lengths that follow the work: nothing lost or repeated while they change, and a better balance after."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from distributary.errors import DistributaryError
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.node import Address
from distributary.sim.deployment import Deployment
from distributary.sim.latency import UniformLatency
from distributary.sim.simulator import Observer
from distributary.sim.trials.trial import Trial, run_trial
from distributary.systems.state_aware.lengths import (
    BalancedBroker,
    HandBackReply,
    HandBackRequest,
    WorkTarget,
)
from systems.state_aware.worlds import CIRCLE, run_against_oracle, settled_world


def balance(nodes: int, **changes: float) -> WorkTarget:
    return WorkTarget(spacing=CIRCLE.size // nodes, **{"kept": 2, "taken": 1, "period": 60, **changes})


@pytest.mark.parametrize("seed", range(6))
def test_deliveries_are_those_of_the_matcher_while_lengths_change(seed: int) -> None:
    nodes = 4 + 4 * seed
    deployment, addresses = settled_world(BalancedBroker, nodes, seed, balance=balance(nodes, longest=12))
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


def test_values_that_come_while_subscriptions_move_are_neither_lost_nor_repeated() -> None:
    network = UniformLatency(0.02, 0.4, seed=3)
    deployment, addresses = settled_world(
        BalancedBroker, 40, 3, network=network, span=2, balance=balance(40, kept=4, taken=100)
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


def test_a_busy_item_is_spread_and_an_idle_one_drawn_together() -> None:
    deployment, addresses = settled_world(
        BalancedBroker, 40, 2, span=4, balance=balance(40, kept=4, taken=100)
    )
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


def test_a_node_that_does_not_answer_is_passed_over() -> None:
    deployment, addresses = settled_world(
        BalancedBroker, 40, 2, span=4, balance=balance(40, kept=4, taken=100)
    )
    busy(deployment, addresses)
    silent = max(entries(deployment), key=lambda address: entries(deployment)[address])
    broker = deployment.members[silent]
    send = broker.send
    broker.send = lambda to, message: None if isinstance(message, HandBackReply) else send(to, message)
    for step in range(20):
        deployment.publish(Event(f"e{step}", "A/B/C", {"d": 100 * step}), at=addresses[0])
        deployment.simulator.run(until=deployment.simulator.now + 10)
    guard = next(broker for broker in deployment.members.values() if "A/B/C" in broker._guarded)
    assert guard.changes > 0
    assert not guard._moving
    assert {each.delivery.event.id for each in deployment.deliveries} == {f"e{step}" for step in range(20)}


class Requests(Observer):
    """How often a node was asked to hand subscriptions back."""

    def __init__(self) -> None:
        self.count = 0

    def received(self, now: float, sender: Address, to: Address, message: Any) -> None:
        self.count += isinstance(message, HandBackRequest)


def test_trials_of_the_system_by_its_name_change_lengths() -> None:
    requests = Requests()
    outcome = run_trial(Trial("state-aware-lengths", subscriptions=200, events=100), [requests])
    assert outcome.problems == ()
    assert requests.count > 0


def test_a_balance_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(DistributaryError, match="above 0"):
        WorkTarget(spacing=10, kept=0)
