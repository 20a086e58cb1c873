"""The simulator: order of events, causes, and the lives of nodes."""

from __future__ import annotations

import pytest

from distributary.errors import DistributaryError
from distributary.overlay.node import Node
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Observer, Simulator
from sim.chatter import chatting


def world_of(*nodes: Node) -> Simulator:
    world = Simulator(1, ConstantLatency(0.5))
    for node in nodes:
        world.add(node)
    return world


def alarming(address: int) -> Node:
    node = Node(address)
    node.at_alarm("ring", node.deliver)
    node.handle(str, lambda message, sender: node.deliver(message))
    return node


def items(world: Simulator) -> list[object]:
    return [delivered.item for delivered in world.delivered]


def test_what_is_due_at_the_same_time_happens_in_the_order_it_was_asked_for() -> None:
    node = alarming(1)
    world = world_of(node)
    for number in (3, 1, 2):
        world.call(1, lambda number=number: node.wake_after(1, "ring", number))  # type: ignore[misc]
    world.run()
    assert items(world) == [3, 1, 2]


def test_a_message_is_one_deeper_than_what_its_sender_was_handling_and_an_alarm_is_not() -> None:
    one, two = alarming(1), alarming(2)
    two.handle(int, lambda message, sender: two.wake_after(1, "ring", message))
    world = world_of(one, two)
    world.call(1, lambda: one.send(2, 7), cause="asked")
    world.run()
    (delivered,) = world.delivered
    assert (delivered.time, delivered.cause, delivered.depth) == (1.5, "asked", 1)


def test_what_nodes_do_of_themselves_has_no_cause() -> None:
    node = alarming(1)
    node.at_start(lambda: node.wake_after(1, "ring", "tick"))
    world = world_of(node)
    world.run()
    assert [(delivered.item, delivered.cause) for delivered in world.delivered] == [("tick", None)]


def test_time_passes_to_the_end_that_was_asked_for_and_no_further() -> None:
    node = alarming(1)
    world = world_of(node)
    world.call(1, lambda: node.wake_after(3, "ring"))
    world.run(until=2)
    assert (world.now, world.idle, items(world)) == (2, False, [])
    world.run(until=10)
    assert (world.now, world.idle, items(world)) == (10, True, [None])


def test_a_run_can_be_cut_into_steps() -> None:
    whole, cut = (chatting(Simulator(1, ConstantLatency(0.03))) for _ in range(2))
    whole.simulator.run(until=3)
    while cut.simulator.steps < whole.simulator.steps:
        cut.simulator.run(most=1)
    assert cut.simulator.delivered == whole.simulator.delivered


def test_nothing_can_be_planned_for_the_past() -> None:
    world = world_of()
    world.run(until=5)
    with pytest.raises(DistributaryError, match="already"):
        world.at(4, lambda: None)


def test_a_crashed_node_forgets_its_alarms_and_misses_what_arrives() -> None:
    one, two = alarming(1), alarming(2)
    world = world_of(one, two)
    world.call(2, lambda: two.wake_after(1, "ring", "alarm"))
    world.call(1, lambda: one.send(2, "arrives while down"))
    world.crash(2)
    world.run(until=0.7)
    world.restart(2)
    world.call(1, lambda: one.send(2, "arrives later"))
    world.run()
    assert items(world) == ["arrives later"]


def test_a_message_that_is_under_way_while_its_receiver_restarts_arrives() -> None:
    one, two = alarming(1), alarming(2)
    world = world_of(one, two)
    world.call(1, lambda: one.send(2, "hello"))
    world.run(until=0.2)
    world.crash(2)
    world.restart(2)
    world.run()
    assert items(world) == ["hello"]


def test_a_node_restarts_with_its_state_or_as_a_fresh_one() -> None:
    kept, fresh = alarming(1), alarming(1)
    world = world_of(kept)
    world.crash(1)
    world.restart(1)
    assert world.nodes[1] is kept
    world.crash(1)
    world.restart(1, fresh)
    assert world.nodes[1] is fresh


def test_a_paused_node_gets_everything_late_and_in_order() -> None:
    one, two = alarming(1), alarming(2)
    world = world_of(one, two)
    world.call(2, lambda: two.wake_after(0.6, "ring", "alarm"))
    world.call(1, lambda: one.send(2, "first"))
    world.pause(2)
    world.call(2, lambda: two.deliver("asked"))
    world.run(until=0.5)
    world.call(1, lambda: one.send(2, "at the time of waking"))
    world.at(1.0, lambda: world.resume(2))
    world.run(until=2)
    assert items(world) == ["asked", "first", "alarm", "at the time of waking"]
    assert {delivered.time for delivered in world.delivered} == {1.0}


def test_a_paused_node_that_crashes_loses_what_waited() -> None:
    seen: list[str] = []

    class Missed(Observer):
        def missed(self, now: float, sender: int, to: int, message: str) -> None:
            seen.append(message)

    one, two = alarming(1), alarming(2)
    world = world_of(one, two)
    world.observe(Missed())
    world.call(1, lambda: one.send(2, "waited"))
    world.pause(2)
    world.run(until=1)
    world.crash(2)
    world.restart(2)
    world.resume(2)
    world.run()
    assert (items(world), seen) == ([], ["waited"])


def test_a_removed_node_can_come_back_under_its_address() -> None:
    first, second = alarming(1), alarming(1)
    world = world_of(first)
    world.call(1, lambda: first.wake_after(1, "ring", "of the first"))
    world.remove(1)
    world.add(second)
    world.call(1, lambda: second.wake_after(2, "ring", "of the second"))
    world.run()
    assert items(world) == ["of the second"]


def test_lives_that_make_no_sense_are_refused() -> None:
    world = world_of(alarming(1))
    for action in (
        lambda: world.add(alarming(1)),
        lambda: world.restart(1),
        lambda: world.crash(2),
        lambda: world.pause(2),
        lambda: world.call(2, lambda: None),
    ):
        with pytest.raises(DistributaryError, match=r"node \d"):
            action()


def test_observers_see_everything_in_order() -> None:
    seen: list[str] = []

    class Everything(Observer):
        def sent(self, *rest: object) -> None:
            seen.append("sent")

        def received(self, *rest: object) -> None:
            seen.append("received")

        def missed(self, *rest: object) -> None:
            seen.append("missed")

        def woken(self, *rest: object) -> None:
            seen.append("woken")

        def delivered(self, *rest: object) -> None:
            seen.append("delivered")

        def happened(self, now: float, address: int | None, what: str) -> None:
            seen.append(what)

    one = alarming(1)
    world = Simulator(1, ConstantLatency(0.5), [Everything()])
    world.add(one)
    world.call(1, lambda: (one.send(1, "self"), one.send(9, "nobody"), one.wake_after(2, "ring"))[0])
    world.run()
    world.crash(1)
    world.remove(1)
    assert seen == [
        *("start", "sent", "sent", "received", "delivered", "missed", "woken", "delivered", "crash", "gone"),
    ]
