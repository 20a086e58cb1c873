"""Runners on a virtual clock and a network in memory do what the simulator does, message by message."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, NamedTuple

import pytest

from distributary.live.runner import Disk, Runner
from distributary.model import Event, EventKey, Subscription, SubscriptionKey
from distributary.overlay.node import Acknowledge, Deliver, Node, SafeEvents, Store
from distributary.sim.disks import Disks
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

    def acknowledged(self, now: float, address: int, what: Any) -> None:
        self.lines.append((now, address, "acknowledged", what))


class World:
    """Runners in virtual time: their clocks ring from one heap, their messages arrive after `LATENCY`."""

    def __init__(self, latency: float = LATENCY) -> None:
        self.time = 0.0
        self.latency = latency
        self.lines: list[Any] = []
        self.runners: dict[int, Runner] = {}
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._order = count()

    def now(self) -> float:
        return self.time

    def after(self, seconds: float, ring: Callable[[], None]) -> None:
        heappush(self._due, (self.time + seconds, next(self._order), ring))

    def add(self, node: Node, disk: Disk | None = None) -> None:
        address = node.address
        carrier = Mail(self, address)
        note = self.lines.append

        def acknowledged(what: SafeEvents | SubscriptionKey) -> None:
            for key in Acknowledge(what).keys:
                note((self.time, address, "acknowledged", key))

        runner = Runner(
            node,
            carrier,
            self,
            lambda item: [note((self.time, address, each)) for each in Deliver(item).items],
            disk=disk,
            on_acknowledgement=acknowledged,
        )
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
            if not self.world.runners[to].runs:
                return
            self.world.lines.append((self.world.time, self.sender, to, message))
            self.world.runners[to].receive(message, self.sender)

        self.world.after(self.world.latency, arrive)


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

    disks = Disks(simulator.random_for("disks"))
    simulated = brokers(simulator.add)
    run = brokers(lambda node: world.add(node, Platter(world, node.address, disks, [])))
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


class Entry(NamedTuple):
    """What keepers send each other."""

    number: int
    hops: int


class Keeper:
    """A node that stores, sends, delivers, acknowledges and sets alarms, all of it mixed by numbers."""

    def __init__(self, address: int, stored: Mapping[str, Any]) -> None:
        self.node = node = Node(address)
        self.known = dict(stored)
        node.handle(Entry, self.take)
        node.at_alarm("later", self.drop)
        node.at_start(lambda: node.deliver(("started with", sorted(self.known.items()))))

    def take(self, entry: Entry, sender: int) -> None:
        number, hops = entry
        node = self.node
        node.send(sender, Entry(number, hops - 1)) if number % 7 == 0 and hops else None
        for part in range(number % 3):
            self.keep(f"{number}.{part}", entry)
        node.deliver(("after its parts", number, hops))
        if number % 2:
            self.keep(f"last of {sender}", entry)
            node.acknowledge(EventKey(str(sender), str(number)))
        if hops:
            neighbour = KEEPERS[(KEEPERS.index(node.address) + number) % len(KEEPERS)]
            node.send(neighbour, Entry(number + 1, hops - 1))
            node.wake_after(0.011 * (number % 4), "later", f"{number}.0")

    def keep(self, name: str, entry: Entry | None) -> None:
        if entry is None:
            self.known.pop(name, None)
        else:
            self.known[name] = entry
        self.node.store(name, entry)

    def drop(self, name: str) -> None:
        self.keep(name, None)
        self.node.deliver(("dropped", name))


KEEPERS = [1, 2, 3, 4, 5]


class Platter(NamedTuple):
    """The disk of one runner: that of the simulator, one group of values after another."""

    world: World
    address: int
    disks: Disks
    queue: list[tuple[list[Store], Callable[[], None]]]

    def write(self, stores: Sequence[Store], then: Callable[[], None]) -> None:
        self.queue.append((list(stores), then))
        if len(self.queue) == 1:
            self.begin()

    def begin(self) -> None:
        writing = self.queue[0]
        took = self.disks.begin(self.address, writing[0])
        self.world.after(took, lambda: self.end(writing))

    def end(self, writing: Any) -> None:
        if self.queue and self.queue[0] is writing:
            self.disks.end(self.address)
            writing[1]()
            self.queue.pop(0)
            if self.queue:
                self.begin()

    def crash(self) -> int:
        self.queue.clear()
        return self.disks.crash(self.address)


@pytest.mark.parametrize("seed", range(4))
def test_runners_with_disks_do_what_the_simulator_does_through_crashes(seed: int) -> None:
    notes = Notes()
    simulator = Simulator(seed, ConstantLatency(LATENCY / 25), [notes])
    world = World(LATENCY / 25)
    disks = Disks(simulator.random_for("disks"))
    platters = {address: Platter(world, address, disks, []) for address in KEEPERS}
    for address in KEEPERS:
        simulator.add(Keeper(address, {}).node)
        world.add(Keeper(address, {}).node, platters[address])
    random = Random(seed)
    lost = 0
    for round in range(40):
        at, number = random.choice(KEEPERS), random.randrange(100)
        for start in (number, number + 1):
            first = Entry(start, 4)
            simulator.call(at, partial(simulator.nodes[at].send, at, first))
            world.runners[at].call(partial(world.runners[at].node.send, at, first))
        until = 0.05 * round + random.uniform(0.001, 0.03)
        simulator.run(until)
        world.run(until)
        if round % 4 == 3:
            down = random.choice(sorted(disks.busy) or KEEPERS)
            simulator.crash(down)
            world.runners[down].stop()
            lost += platters[down].crash()
            assert disks.of(down) == simulator.disks.of(down)
            later = until + random.choice([0.0, 0.004])
            simulator.run(later)
            world.run(later)
            simulator.restart(down, Keeper(down, simulator.disks.of(down)).node)
            world.add(Keeper(down, disks.of(down)).node, platters[down])
    simulator.run(10.0)
    world.run(10.0)
    assert world.lines == notes.lines
    assert len([line for line in world.lines if "acknowledged" in line]) > 50
    assert lost == simulator.disks.lost > 0
    for address in KEEPERS:
        assert disks.of(address) == simulator.disks.of(address)


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


def test_what_follows_a_store_waits_for_it_and_all_else_too() -> None:
    world = Clockwork()
    written: list[tuple[list[str], Callable[[], None]]] = []

    class Slow:
        def write(self, stores: Sequence[Store], then: Callable[[], None]) -> None:
            written.append(([store.name for store in stores], then))

    told: list[Any] = []
    runner = Runner(
        world.node, Mail(world, 1), world, world.given.append, disk=Slow(), on_acknowledgement=told.append
    )
    runner.start()
    node, key = world.node, EventKey("ann", "e1")
    runner.call(lambda: (node.deliver(1), node.store("a", key), node.store("b", key), node.deliver(2)))
    runner.call(lambda: node.deliver(3))
    runner.call(lambda: (node.store("c", key), node.acknowledge(key)))
    runner.call(lambda: node.deliver(4))
    assert [names for names, _ in written] == [["a", "b"], ["c"]]
    assert world.given == [1]
    written[0][1]()
    assert (world.given, told) == ([1, 2, 3], [])
    written[1][1]()
    assert (world.given, told) == ([1, 2, 3, 4], [key])
    runner.call(lambda: node.deliver(5))
    runner.call(lambda: (node.store("d", key), node.deliver("of a life that is over")))
    runner.stop()
    runner.start()
    written[2][1]()
    runner.call(lambda: node.deliver(6))
    assert world.given == [1, 2, 3, 4, 5, 6]


def test_what_is_asked_while_effects_are_handed_on_comes_after_them() -> None:
    world = Clockwork()
    node = world.node

    def take(item: int) -> None:
        world.given.append(item)
        if item in (1, 3):
            runner.call(lambda: (node.deliver(item + 10), node.deliver(item + 20)))

    runner = Runner(node, Mail(world, 1), world, take)
    runner.start()
    runner.call(lambda: (node.deliver(1), node.deliver(2), node.deliver(3)))
    assert world.given == [1, 2, 3, 11, 21, 13, 23]


def test_what_is_asked_of_a_node_that_waits_for_its_disk_waits_too() -> None:
    world = Clockwork()
    node, written = world.node, []

    class Slow:
        def write(self, stores: Sequence[Store], then: Callable[[], None]) -> None:
            written.append(then)

    def take(item: int) -> None:
        world.given.append(item)
        if item == 1:
            runner.call(lambda: node.deliver(4))

    runner = Runner(node, Mail(world, 1), world, take, disk=Slow())
    runner.start()
    runner.call(lambda: (node.store("a", None), node.deliver(1), node.deliver(2)))
    runner.call(lambda: (node.store("b", None), node.deliver(3)))
    written[0]()
    assert world.given == [1, 2], "what the first asked comes after what waits for the second"
    written[1]()
    assert world.given == [1, 2, 3, 4]


def test_without_a_disk_nothing_waits() -> None:
    world = Clockwork()
    world.runner.start()
    world.runner.call(lambda: (world.node.store("a", None), world.node.deliver(1)))
    assert world.given == [1]


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
