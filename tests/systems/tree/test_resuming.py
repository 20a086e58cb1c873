"""Clients that come back to a tree are given what they missed once and in order, whatever overtakes what."""

from __future__ import annotations

from typing import Any

from distributary.model import Delivery, Event, EventKey, Offset, Subscription, SubscriptionKey
from distributary.overlay.broker import SessionState
from distributary.overlay.node import Address
from distributary.overlay.tree.event_log import KeptEvents
from distributary.overlay.tree.messages import InterestChange, InterestGrant, LogReply
from distributary.sim.latency import UniformLatency
from distributary.sim.simulator import Observer
from systems.tree.worlds import World

OLD = Subscription("old", "ann", topic="A")
NEW = Subscription("new", "ann", topic="B")
ROOT, CHILD = 1, 2


class LateNetwork:
    """A network on which messages of one class take seconds more than others."""

    def __init__(self, late: type) -> None:
        self._late = late
        self._quick = UniformLatency(0.01, 0.05, seed=1)

    def delays(self, now: float, sender: Address, to: Address, message: Any) -> list[float]:
        carried = getattr(message, "message", message)
        more = 3.0 * isinstance(carried, self._late)
        return [each + more for each in self._quick.delays(now, sender, to, message)]


class Seen(Observer):
    """What a client was given and told, in order."""

    def __init__(self) -> None:
        self.given: list[tuple[str, Offset | None]] = []
        self.told: list[tuple[float, EventKey | SubscriptionKey]] = []

    def delivered(self, delivered: Any) -> None:
        if isinstance(delivered.item, Delivery):
            self.given.append((delivered.item.event.id, delivered.item.offset))

    def acknowledged(self, now: float, address: Address, what: EventKey | SubscriptionKey) -> None:
        self.told.append((now, what))


def tree_of_two(late: type) -> tuple[World, Seen]:
    world, seen = World(2, 1, robust=True, watch=False, network=LateNetwork(late)), Seen()
    world.simulator.observe(seen)
    world.run(20)
    return world, seen


def publish(world: World, *ids: str) -> None:
    broker = world.broker(ROOT)
    for id in ids:
        event = Event(id, "A" if id.startswith("a") else "B")
        world.simulator.call(ROOT, lambda event=event: broker.publish(event))
        world.run(0.3)


def come_back(world: World, place: Offset, *more: Subscription) -> None:
    broker = world.broker(CHILD)
    world.simulator.call(CHILD, lambda: broker.resume(SessionState((OLD,), place)))
    for each in more:
        world.simulator.call(CHILD, lambda each=each: broker.subscribe(each))


def test_what_comes_while_the_answer_of_the_root_is_late_is_not_missed() -> None:
    world, seen = tree_of_two(LogReply)
    place = Offset(world.broker(ROOT).tree.log.epoch, 0)
    publish(world, "a1", "a2")
    come_back(world, place)
    publish(world, "a3", "a4")
    world.run(20)
    publish(world, "a5")
    world.run(20)
    assert [id for id, _ in seen.given] == ["a1", "a2", "a3", "a4", "a5"]


def test_a_new_subscription_of_a_client_that_catches_up_overtakes_nothing() -> None:
    world, seen = tree_of_two(LogReply)
    place = Offset(world.broker(ROOT).tree.log.epoch, 0)
    publish(world, "a1", "a2")
    come_back(world, place, NEW)
    publish(world, "b1", "a3", "b2", "a4")
    world.run(20)
    assert {what.id for _, what in seen.told} >= {"old", "new"}
    publish(world, "b3", "a5")
    world.run(20)
    places = [offset for _, offset in seen.given if offset is not None]
    assert places == sorted(places)
    got = [id for id, _ in seen.given]
    assert [id for id in got if id.startswith("a")] == ["a1", "a2", "a3", "a4", "a5"]
    assert got.index("b3") > got.index("a4")  # what came before the acknowledgement is not owed


def test_the_grant_of_a_subscription_that_was_withdrawn_acknowledges_no_later_one() -> None:
    world, seen = tree_of_two(InterestGrant)
    broker = world.broker(CHILD)
    world.simulator.call(CHILD, lambda: broker.subscribe(NEW))
    world.run(2)
    asked = [lambda: broker.unsubscribe(NEW.key), lambda: broker.subscribe(NEW)]
    for each in asked:
        world.simulator.call(CHILD, each)
    again = world.simulator.now
    world.run(20)
    [when] = [time for time, what in seen.told if what == NEW.key]
    assert when > again + 3.0


def test_an_interest_that_comes_late_is_not_acknowledged_early() -> None:
    world, seen = tree_of_two(InterestChange)
    broker = world.broker(CHILD)
    world.simulator.call(CHILD, lambda: broker.subscribe(NEW))
    asked = world.simulator.now
    world.run(20)
    assert [what for time, what in seen.told if time > asked + 2.0] == [NEW.key]


def test_a_client_is_read_on_for_when_more_came_meanwhile_than_its_node_remembers() -> None:
    world, seen = tree_of_two(LogReply)
    world.broker(CHILD).tree.log._kept = KeptEvents(room=2, room_bytes=1 << 20)
    place = Offset(world.broker(ROOT).tree.log.epoch, 0)
    publish(world, "a1")
    come_back(world, place)
    world.run(2)  # the log has been asked for, and its answer is under way
    late = [f"a{number}" for number in range(2, 9)]
    publish(world, *late)
    world.run(20)
    publish(world, "a9")
    world.run(20)
    assert [id for id, _ in seen.given] == ["a1", *late, "a9"]
    assert [what.id for _, what in seen.told].count("old") == 1
