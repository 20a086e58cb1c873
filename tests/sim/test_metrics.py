"""Metrics: whatever way one sums, the sums agree, and an operation's costs are its own."""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as some

from distributary.overlay.courier import Packet
from distributary.overlay.node import Node
from distributary.overlay.wire import size_of
from distributary.sim.latency import ConstantLatency
from distributary.sim.metrics import Cost, Metrics, Traffic
from distributary.sim.simulator import Cause, Observer, Simulator


class Ball(NamedTuple):
    left: int


class Beat(NamedTuple):
    text: str


class EachOne(Observer):
    """Keeps every message, the plainest account there is."""

    def __init__(self) -> None:
        self.all: list[tuple[int, int, NamedTuple, Cause, int]] = []

    def sent(self, now: float, sender: int, to: int, message: NamedTuple, cause: Cause, depth: int) -> None:
        self.all.append((sender, to, message, cause, depth))


class Player(Node):
    """Throws a ball on until it has been thrown so many times, and beats once a second."""

    def __init__(self, address: int, count: int) -> None:
        super().__init__(address)
        self.count = count
        self.handle(Ball, lambda ball, sender: self.throw(ball.left))
        self.handle(Beat, lambda beat, sender: None)
        self.at_alarm("beat", self.beat)
        self.at_start(lambda: self.wake_after(1, "beat", 3))

    def throw(self, left: int) -> None:
        if left:
            self.send((self.address + left) % self.count, Ball(left - 1))

    def beat(self, left: int) -> None:
        self.send((self.address + 1) % self.count, Beat("alive" * left))
        if left:
            self.wake_after(1, "beat", left - 1)


def played(throws: list[tuple[int, int]]) -> tuple[Metrics, EachOne]:
    metrics, each = Metrics(), EachOne()
    world = Simulator(1, ConstantLatency(0.05), [metrics, each])
    players = [Player(address, 5) for address in range(5)]
    for player in players:
        world.add(player)
    for number, (start, length) in enumerate(throws):
        world.call(start, lambda start=start, length=length: players[start].throw(length), cause=number)  # type: ignore[misc]
    world.run()
    return metrics, each


@given(some.lists(some.tuples(some.integers(0, 4), some.integers(0, 9)), max_size=8))
def test_all_sums_agree_with_a_plain_account_of_every_message(throws: list[tuple[int, int]]) -> None:
    metrics, each = played(throws)
    assert metrics.total() == Traffic(
        len(each.all), sum(size_of(message) for _, _, message, _, _ in each.all)
    )
    for sums in (metrics.by_kind(), metrics.by_sender(), metrics.by_receiver(), metrics.by_link()):
        assert sum(sums.values(), Traffic()) == metrics.total()
    counts = {kind: traffic.messages for kind, traffic in metrics.by_kind().items()}
    assert counts == Counter(type(message).__name__ for _, _, message, _, _ in each.all)
    links = {link: traffic.messages for link, traffic in metrics.by_link().items()}
    assert links == Counter((sender, to) for sender, to, _, _, _ in each.all)
    operations = (metrics.cost(cause) for cause in range(len(throws)))
    assert sum(operations, Cost()).messages == counts.get("Ball", 0)
    assert list(metrics.upkeep()) == ["Beat"]
    assert metrics.upkeep()["Beat"] == metrics.by_kind()["Beat"]


def test_an_operation_costs_the_messages_it_led_to() -> None:
    metrics, _ = played([(0, 4), (2, 0), (3, 1)])
    assert metrics.cost(0) == Cost(messages=4, bytes=12, hops=4)
    assert metrics.cost(1) == Cost()
    assert metrics.costs_by_kind(2) == {"Ball": Cost(messages=1, bytes=3, hops=1)}


def test_sizes_can_be_left_out() -> None:
    metrics = Metrics(sizes=False)
    world = Simulator(1, ConstantLatency(0.05), [metrics])
    world.add(Player(0, 1))
    world.run(until=1.5)
    assert metrics.total() == Traffic(1, 0)


def test_messages_that_reach_nobody_are_counted_too() -> None:
    metrics = Metrics()
    world = Simulator(1, ConstantLatency(0.05), [metrics])
    world.add(Player(0, 2))
    world.run(until=10)
    assert metrics.by_link()[0, 1].messages == 4


def test_a_packet_counts_as_what_it_carries() -> None:
    metrics = Metrics()
    world = Simulator(1, ConstantLatency(0.05), [metrics])
    node = Node(1)
    world.add(node)
    world.call(1, lambda: node.send(2, Packet(0.0, 1, 1, Beat("x"))), cause="asked")
    assert metrics.by_kind() == {"Beat": Traffic(1, size_of(Packet(0.0, 1, 1, Beat("x"))))}
