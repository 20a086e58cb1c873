"""Deployments: brokers with their clients, what the clients get, and what each operation costs."""

from __future__ import annotations

import pytest

from distributary.errors import DistributaryError, FilterError, UnknownSubscriptionError
from distributary.model import Event, EventKey, Subscription
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.metrics import Cost
from distributary.sim.simulator import Simulator
from sim.floods import Flooding


def deployed(count: int = 4) -> Deployment:
    world = Simulator(1, ConstantLatency(0.05))
    deployment = Deployment(world, lambda address: Flooding(address, range(count)))
    for address in range(count):
        deployment.add(address)
    return deployment


def wanted(subscription_id: str) -> Subscription:
    return Subscription(subscription_id, f"client of {subscription_id}", topic="A")


def receivers(deployment: Deployment, event_id: str) -> list[str]:
    return sorted(
        received.delivery.subscriptions[0]
        for received in deployment.deliveries
        if received.delivery.event.id == event_id
    )


def test_deliveries_tell_when_and_where_and_after_how_many_hops() -> None:
    deployment = deployed()
    deployment.subscribe(wanted("far"), at=2)
    deployment.subscribe(wanted("near"), at=0)
    deployment.publish(Event("e", topic="A/B"), at=0)
    deployment.simulator.run()
    found = [
        (time, address, delivery.subscriptions, depth)
        for time, address, delivery, depth in deployment.deliveries
    ]
    assert found == [(0.0, 0, ("near",), 0), (0.05, 2, ("far",), 1)]


def test_each_operation_has_its_own_cost() -> None:
    deployment = deployed(5)
    deployment.subscribe(wanted("s"), at=2)
    for number in range(3):
        deployment.publish(Event(f"e{number}", topic="A"), at=number)
        deployment.simulator.run()
    costs = deployment.costs()
    assert costs["subscribe"].operations == 1
    assert costs["subscribe"].messages == 0
    publish = costs["publish"]
    assert (publish.operations, publish.messages, publish.hops, publish.deliveries) == (3, 4.0, 1.0, 1.0)
    assert publish.bytes == 4 * deployment.metrics.cost(("publish", EventKey("", "e0"))).bytes / 4
    assert publish.delivery_hops == pytest.approx(2 / 3)
    assert publish.delay == pytest.approx(0.1 / 3)
    assert deployment.metrics.upkeep() == {}


def test_kinds_counted_apart_are_left_out_of_the_cost() -> None:
    deployment = deployed(5)
    deployment.publish(Event("e", topic="A"), at=0)
    apart = deployment.costs(apart=("Flood",))["publish"]
    assert (apart.messages, apart.hops, apart.apart) == (0, 0, {"Flood": 4.0})
    assert deployment.metrics.cost(("publish", EventKey("", "e")), without=["Flood"]) == Cost()


def test_costs_since_a_time_leave_out_what_was_before() -> None:
    deployment = deployed()
    deployment.publish(Event("e1", topic="A"), at=0)
    deployment.simulator.run(until=10)
    deployment.publish(Event("e2", topic="A"), at=0)
    assert deployment.costs(since=5)["publish"].operations == 1


def test_clients_subscribe_again_when_their_broker_lost_its_state() -> None:
    deployment = deployed()
    deployment.subscribe(wanted("s"), at=2)
    deployment.crash(2)
    deployment.restart(2, keep_state=False)
    deployment.publish(Event("e", topic="A"), at=0)
    deployment.simulator.run()
    assert receivers(deployment, "e") == ["s"]
    costs = deployment.costs()
    assert costs["subscribe"].operations == costs["subscribe again"].operations == 1


def test_a_broker_that_kept_its_state_is_not_asked_again() -> None:
    deployment = deployed()
    deployment.subscribe(wanted("s"), at=2)
    deployment.crash(2)
    deployment.restart(2, keep_state=True)
    deployment.publish(Event("e", topic="A"), at=0)
    deployment.simulator.run()
    assert receivers(deployment, "e") == ["s"]
    assert "subscribe again" not in deployment.costs()


@pytest.mark.parametrize("keep_state", [True, False])
def test_a_subscription_given_up_while_its_broker_was_down_is_gone(keep_state: bool) -> None:
    deployment = deployed()
    deployment.subscribe(wanted("s"), at=2)
    deployment.crash(2)
    deployment.unsubscribe(wanted("s").key)
    deployment.restart(2, keep_state=keep_state)
    deployment.publish(Event("e", topic="A"), at=0)
    deployment.simulator.run()
    assert deployment.deliveries == []
    assert deployment.subscriptions == {}


@pytest.mark.parametrize("keep_state", [True, False])
def test_what_was_asked_of_a_paused_broker_that_crashed_is_asked_again(keep_state: bool) -> None:
    deployment = deployed()
    deployment.subscribe(wanted("old"), at=2)
    deployment.pause(2)
    deployment.subscribe(wanted("new"), at=2)
    deployment.unsubscribe(wanted("old").key)
    deployment.crash(2)
    deployment.restart(2, keep_state=keep_state)
    deployment.publish(Event("e", topic="A"), at=0)
    deployment.simulator.run()
    assert receivers(deployment, "e") == ["new"]


def test_what_is_asked_of_a_paused_broker_is_done_when_it_resumes() -> None:
    deployment = deployed()
    deployment.pause(2)
    deployment.subscribe(wanted("kept"), at=2)
    deployment.subscribe(wanted("given up"), at=2)
    deployment.unsubscribe(wanted("given up").key)
    assert deployment.members[2].subscriptions == {}  # type: ignore[attr-defined]
    deployment.resume(2)
    deployment.simulator.run()
    assert list(deployment.members[2].subscriptions) == [wanted("kept").key]  # type: ignore[attr-defined]


def test_clients_of_a_broker_that_leaves_move_to_the_next() -> None:
    deployment = deployed()
    deployment.subscribe(wanted("s"), at=3)
    deployment.leave(3)
    deployment.publish(Event("e", topic="A"), at=1)
    deployment.simulator.run()
    assert [received.address for received in deployment.deliveries] == [0]
    assert deployment.up() == [0, 1, 2]


def test_operations_that_make_no_sense_are_refused() -> None:
    deployment = deployed()
    deployment.subscribe(wanted("s"), at=0)
    with pytest.raises(DistributaryError, match="s of client of s already"):
        deployment.subscribe(wanted("s"), at=1)
    with pytest.raises(UnknownSubscriptionError):
        deployment.unsubscribe(wanted("other").key)
    with pytest.raises(FilterError):
        deployment.subscribe(Subscription("p", "ann", path="/a"), at=0)
    assert list(deployment.subscriptions) == [wanted("s").key]
    deployment.crash(0)
    with pytest.raises(DistributaryError, match="node 0 is not up"):
        deployment.publish(Event("e"), at=0)
    with pytest.raises(DistributaryError, match="node 0 is not up"):
        deployment.leave(0)
    with pytest.raises(DistributaryError, match="node 9 is not up"):
        deployment.subscribe(wanted("t"), at=9)
    with pytest.raises(DistributaryError, match="node 1 already"):
        deployment.add(1)


def test_an_event_arrives_by_the_simulators_clock_unless_it_says_when() -> None:
    deployment = deployed()
    world = deployment.simulator
    deployment.subscribe(Subscription("s", "ann", where="until > now()"), at=2)
    for number, (at, arrival) in enumerate([(20, None), (40, None), (60, 20_000_000_000)]):
        event = Event(f"e{number}", attributes={"until": "1970-01-01T00:00:30"}, arrival=arrival)
        world.at(at, lambda event=event: deployment.publish(event, at=0))  # type: ignore[misc]
    world.run()
    assert [received.delivery.event.id for received in deployment.deliveries] == ["e0", "e2"]
