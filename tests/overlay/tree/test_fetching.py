"""What a node of a tree has missed comes to it in parts, each short enough to be sent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from distributary.model import Event, Subscription
from distributary.overlay.tree.event_log import MOST_TOGETHER
from distributary.overlay.tree.events import first_part
from distributary.overlay.tree.messages import EventFetchReply, ForwardedEvents
from distributary.overlay.wire import size_of
from distributary.sim.simulator import Observer, Simulator
from distributary.systems.assembly import Settings
from distributary.systems.table import system


class Forgetful:
    """A network that loses events on the way down while it is told to."""

    def __init__(self) -> None:
        self.loses = False
        self.lost = 0

    def delays(self, now: float, sender: int, to: int, message: Any) -> Iterable[float]:
        if self.loses and isinstance(message, ForwardedEvents):
            self.lost += 1
            return []
        return [0.05]


class Replies(Observer):
    """The sizes of replies to fetches."""

    def __init__(self) -> None:
        self.sizes: list[int] = []

    def received(self, now: float, sender: int, to: int, message: Any) -> None:
        if isinstance(message, EventFetchReply):
            self.sizes.append(size_of(message))


def test_many_large_events_that_were_missed_come_in_parts() -> None:
    network, replies = Forgetful(), Replies()
    world = Simulator(1, network, [replies])
    assembly = system("tree").assemble(Settings.robust(2), [1, 2], lambda address: None)
    brokers: dict[int, Any] = {address: assembly(address) for address in (1, 2)}
    assembly.settle(list(brokers.values()))
    for broker in brokers.values():
        world.add(broker.node)
    world.call(2, lambda: brokers[2].subscribe(Subscription("s1", "ann", where="price > 1")))
    world.run(10.0)
    network.loses = True
    events = [Event(f"e{n}", attributes={"price": 9, "text": "a" * 100_000}) for n in range(40)]
    for event in events:
        world.call(1, lambda event=event: brokers[1].publish(event))
    world.run(11.0)
    network.loses = False
    assert network.lost >= 40
    world.run(60.0)
    assert [item.item.event.id for item in world.delivered] == [event.id for event in events]
    assert len(replies.sizes) >= 4
    assert max(replies.sizes) < MOST_TOGETHER + 1_000


def test_a_single_event_above_the_bound_comes_alone() -> None:
    large = Event("e1", attributes={"text": "a" * (MOST_TOGETHER + 1)})
    small = Event("e2")
    assert first_part(((1, large), (2, small))) == ((1, large),)
    assert first_part(((1, small), (2, large))) == ((1, small),)
    assert first_part(((1, small), (2, small))) == ((1, small), (2, small))
    assert first_part(()) == ()
