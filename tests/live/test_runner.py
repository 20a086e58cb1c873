"""Runners on a virtual clock and a network in memory do what the simulator does, message by message."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Any, NamedTuple

import pytest

from distributary.live.runner import Runner
from distributary.model import Event, Subscription
from distributary.overlay.node import Node
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Observer, Simulator
from distributary.systems.assembly import Settings
from distributary.systems.table import system

ADDRESSES = [3, 1 << 20, 1 << 24, 1 << 28, 3 << 28, 1 << 30, 3 << 30, (1 << 32) - 5]
LATENCY = 0.05


class Notes(Observer):
    """What nodes received and delivered, in order."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def received(self, now: float, sender: int, to: int, message: Any) -> None:
        self.lines.append((now, sender, to, message))

    def delivered(self, delivered: Any) -> None:
        self.lines.append((delivered.time, delivered.address, delivered.item))


class World:
    """Runners in virtual time: their clocks ring from one heap, their messages arrive after `LATENCY`."""

    def __init__(self) -> None:
        self.time = 0.0
        self.lines: list[Any] = []
        self.runners: dict[int, Runner] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def now(self) -> float:
        return self.time

    def after(self, seconds: float, ring: Callable[[], None]) -> None:
        heappush(self._due, (self.time + seconds, next(self._order), ring))

    def add(self, node: Node) -> None:
        address = node.address
        carrier = Mail(self, address)
        note = self.lines.append
        runner = Runner(node, carrier, self, lambda item: note((self.time, address, item)))
        self.runners[address] = runner
        runner.start()

    def run(self, until: float) -> None:
        while self._due and self._due[0][0] <= until:
            self.time, _, ring = heappop(self._due)
            ring()
        self.time = until


class Mail(NamedTuple):
    """Brings the messages of one node to the others."""

    world: World
    sender: int

    def send(self, to: int, message: Any) -> None:
        def arrive() -> None:
            self.world.lines.append((self.world.time, self.sender, to, message))
            self.world.runners[to].receive(message, self.sender)

        self.world.after(LATENCY, arrive)


@pytest.mark.parametrize("name", ["tree", "central", "flooding"])
def test_a_network_of_runners_does_what_the_simulator_does(name: str) -> None:
    notes = Notes()
    simulator = Simulator(1, ConstantLatency(LATENCY), [notes])
    world = World()

    def brokers(add: Callable[[Node], None]) -> dict[int, Any]:
        assembly = system(name).assemble(Settings.robust(len(ADDRESSES)), ADDRESSES, lambda address: None)
        made = {address: assembly(address) for address in ADDRESSES}
        assembly.settle(list(made.values()))
        for broker in made.values():
            add(broker.node)
        return made

    simulated, run = brokers(simulator.add), brokers(world.add)
    first, last = ADDRESSES[1], ADDRESSES[-1]
    wish = Subscription("s1", "ann", topic="A/*", where="price > 3")
    simulator.call(first, lambda: simulated[first].subscribe(wish))
    world.runners[first].call(lambda: run[first].subscribe(wish))
    for number in range(6):
        until = 5.0 * (number + 1)
        simulator.run(until)
        world.run(until)
        event = Event(f"e{number}", "A/B", {"price": number})
        simulator.call(last, lambda event=event: simulated[last].publish(event))
        world.runners[last].call(lambda event=event: run[last].publish(event))
    simulator.run(60.0)
    world.run(60.0)
    delivered = [line for line in world.lines if len(line) == 3]
    assert [each[2].event.id for each in delivered] == ["e4", "e5"]
    assert len(world.lines) > 500
    assert world.lines == notes.lines


class Clockwork(World):
    """A world whose only node is driven by hand."""

    def __init__(self, on_fault: Callable[[str, Exception], None] | None = None) -> None:
        super().__init__()
        self.node = Node(1)
        self.given: list[Any] = []
        self.runner = Runner(self.node, Mail(self, 1), self, self.given.append, on_fault)


def test_an_alarm_of_before_a_stop_does_not_ring_after_it() -> None:
    world = Clockwork()
    world.node.at_alarm("tick", world.node.deliver)
    world.runner.start()
    world.runner.call(lambda: world.node.wake_after(2.0, "tick", "of the first life"))
    world.runner.stop()
    world.runner.receive("lost", 2)
    world.runner.start()
    world.runner.call(lambda: world.node.wake_after(3.0, "tick", "of the second"))
    world.run(10.0)
    assert world.given == ["of the second"]


def test_a_message_that_the_node_cannot_bear_is_told_and_over() -> None:
    told: list[tuple[str, str]] = []
    world = Clockwork(lambda what, error: told.append((what, str(error))))

    def fail(message: str, sender: int) -> None:
        world.node.deliver("before")
        raise ValueError(message)

    world.node.handle(str, fail)
    world.node.handle(int, lambda message, sender: world.node.deliver(message))
    world.runner.start()
    world.runner.receive("bad", 2)
    world.runner.receive(7, 2)
    assert told == [("str from node 2", "bad")]
    assert world.given == ["before", 7]
    assert world.runner.faults == 1


def test_what_cannot_be_done_is_told_and_the_rest_is_done() -> None:
    told: list[tuple[str, str]] = []
    world = Clockwork()

    def take(item: str) -> None:
        if item == "bad":
            raise ValueError("the client fails")
        world.given.append(item)

    class Narrow:
        def send(self, to: int, message: Any) -> None:
            raise ValueError("does not fit in bytes")

    runner = Runner(world.node, Narrow(), world, take, lambda what, error: told.append((what, str(error))))
    runner.start()
    node = world.node
    runner.call(lambda: (node.deliver("bad"), node.send(2, "hello"), node.deliver("good")))
    assert told == [
        ("what the client did with a delivery", "the client fails"),
        ("sending str to node 2", "does not fit in bytes"),
    ]
    assert world.given == ["good"]
    assert runner.faults == 2


def test_what_a_client_asks_raises_at_the_client() -> None:
    world = Clockwork()

    def ask() -> None:
        world.node.deliver("before")
        raise ValueError("refused")

    world.runner.start()
    with pytest.raises(ValueError, match="refused"):
        world.runner.call(ask)
    assert world.given == ["before"]
    world.runner.call(lambda: None)
    assert world.given == ["before"]
