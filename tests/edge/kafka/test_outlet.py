"""Whatever crashes, Kafka or the broker with its disk, each delivery is in the topic once and in order."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.edge.kafka import intake
from distributary.edge.kafka.outlet import KafkaOutlet
from distributary.edge.kafka.quarantine import RecordQuarantine
from distributary.edge.kafka.settings import KafkaSink
from distributary.edge.sessions import Sessions
from distributary.kafka_transactions import KafkaMessage, KafkaTroubleError, WrittenPlace
from distributary.model import Event
from edge.session_world import LoggedBroker, TornDisk

SINK = KafkaSink("dear", "dear-quotes", where="price > 8")


class Topic:
    """A topic of Kafka's that is written in transactions of one identity."""

    def __init__(self, random: Random) -> None:
        self.ids: list[str] = []
        self.written: WrittenPlace | None = None
        self.epoch = 0
        self.random, self.fails = random, 0.2
        self.longest = 10_000


class Writer:
    """Writes to it, and fails by chance, before or after the transaction."""

    def __init__(self, topic: Topic) -> None:
        self._topic = topic
        self._epoch = 0

    def begin(self) -> WrittenPlace | None:
        self._may_fail()
        self._topic.epoch += 1
        self._epoch = self._topic.epoch
        return self._topic.written

    def write(self, messages: Sequence[KafkaMessage], written: WrittenPlace) -> list[int]:
        self._may_fail()
        if self._epoch != self._topic.epoch:
            raise KafkaTroubleError("fenced")
        refused = [place for place, each in enumerate(messages) if len(each.value) > self._topic.longest]
        taken = [each for place, each in enumerate(messages) if place not in refused]
        self._topic.ids += [dict(each.headers)["ce_id"].decode() for each in taken]
        self._topic.written = written
        self._may_fail()
        return refused

    def close(self) -> None:
        """Nothing is left open."""

    def _may_fail(self) -> None:
        if self._topic.random.random() < self._topic.fails:
            raise KafkaTroubleError("away")


class World:
    """A broker with a sink, which lives, crashes and comes back."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.broker, self.disk = LoggedBroker(self.random), TornDisk(self.random)
        self.topic, self.notes = Topic(self.random), list[str]()
        self.number = 0
        self.due: list[str] = []

    def publish(self, text: str = "") -> None:
        """Publish an event that the sink asked for, or did not."""
        self.number += 1
        price = self.random.choice([7, 9])
        self.broker.publish(
            [Event(f"e{self.number}", "q", {"price": price, "text": text})], lambda told: None
        )
        if price > 8:
            self.due.append(f"e{self.number}")

    async def live(self, steps: int, *, to_the_end: bool = False) -> None:
        """Live for some steps, then crash; or until all is written."""
        sessions = Sessions(self.broker, lambda: 0.0, self.disk)
        sessions.restore(dict(self.disk.stored))
        aside = RecordQuarantine(None, self.notes.append)
        outlet = KafkaOutlet(
            SINK, sessions, lambda: Writer(self.topic), aside, self.notes.append, self.random
        )
        running = asyncio.create_task(outlet.run())
        while steps > 0 or (to_the_end and self.topic.ids != self.due):
            steps -= 1
            if steps > 0 and outlet.ready and self.random.random() < 0.3:
                self.publish()
            for _ in range(3):
                self.broker.step()
                self.disk.step()
            sessions.expire()
            await asyncio.sleep(0.0002)
            assert not running.done(), self.notes
        running.cancel()
        await asyncio.wait([running])
        self.broker.crash()
        self.disk.crash()


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "FIRST_PAUSE", 0.0)
    monkeypatch.setattr("distributary.edge.kafka.outlet.RETRY", 0.0)


@settings(max_examples=15)
@given(st.integers(0, 2**32), st.lists(st.integers(1, 30), max_size=3))
def test_each_delivery_is_written_once_and_in_order_through_crashes(seed: int, lives: list[int]) -> None:
    async def run() -> World:
        world = World(seed)
        for steps in lives:
            await world.live(steps)
        world.topic.fails = 0.0
        async with asyncio.timeout(30):
            await world.live(20, to_the_end=True)
        return world

    world = asyncio.run(run())
    assert world.topic.ids == world.due


def test_what_kafka_finds_too_long_is_set_aside_and_the_rest_is_written() -> None:
    world = World(1)
    world.topic.fails, world.topic.longest = 0.0, 100

    async def run() -> None:
        await world.live(40)
        world.random.choice = lambda given: given[-1]  # type: ignore[method-assign,assignment]
        world.publish("long " * 100)
        world.due.pop()
        await world.live(20, to_the_end=True)

    asyncio.run(run())
    assert world.topic.ids == world.due
    assert any("dear-quotes: event" in told and "bytes" in told for told in world.notes)


def test_places_of_data_that_was_removed_say_nothing_about_new_ones() -> None:
    world = World(3)
    world.topic.fails = 0.0

    async def run() -> None:
        await world.live(60, to_the_end=True)
        world.disk.stored.clear()
        world.topic.fails = 0.4
        async with asyncio.timeout(20):
            await world.live(60, to_the_end=True)

    asyncio.run(run())
    assert world.topic.ids == world.due
    assert len(world.due) > 10
