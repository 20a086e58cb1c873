"""Whatever happens, every record is published or set aside, in order, and committed only when it is safe."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.edge.kafka import intake
from distributary.edge.kafka.intake import KafkaIntake, KafkaTurn, Partition
from distributary.edge.kafka.quarantine import RecordQuarantine
from distributary.edge.kafka.records import KafkaRecord, RecordReader
from distributary.edge.kafka.settings import KafkaSource
from distributary.kafka_transactions import KafkaTroubleError
from distributary.model import Event, EventKey
from distributary.quarantine import Rejection

PARTITIONS = [("t", 0), ("t", 1)]


class Kept(RecordQuarantine):
    """What was set aside, by place."""

    def __init__(self) -> None:
        super().__init__(None, lambda told: None)
        self.places: set[str] = set()

    async def keep(self, rejected: Sequence[Rejection]) -> None:
        self.places |= {each.place for each in rejected}
        await super().keep(rejected)


class World:
    """Topics, a group that commits, and a network that knows what it was given before.

    `script` says what each look at Kafka gives: a number of records, or something that goes wrong.
    """

    def __init__(self, values: Sequence[tuple[int, bytes | None]], script: Sequence[str | int]) -> None:
        self.log: dict[Partition, list[KafkaRecord]] = {each: [] for each in PARTITIONS}
        for number, value in values:
            records = self.log[PARTITIONS[number]]
            records.append(KafkaRecord("t", number, len(records), value))
        self.committed = dict.fromkeys(PARTITIONS, 0)
        self.script = list(script)
        self.published: dict[EventKey, Event] = {}
        """What is safe, in the order in which it was numbered: an event that comes again is not."""
        self.refusals = 0
        self.aside = Kept()
        self.notes: list[str] = []
        self.closed = 0
        self.intake = KafkaIntake(
            "Kafka's t",
            lambda: Reader(self),
            RecordReader(KafkaSource(("t",)), "kafka"),
            self.publish,
            self.aside,
            self.notes.append,
            Random(1),
        )

    async def publish(self, events: Sequence[Event]) -> str | None:
        if self.refusals:
            self.refusals -= 1
            return "no place in the network"
        await asyncio.sleep(0)
        for event in events:
            self.published.setdefault(event.key, event)
        return None

    def commit(self, safe: Mapping[Partition, int]) -> None:
        """Commit, and see that nothing is committed that is not safe."""
        for partition, end in safe.items():
            for record in self.log[partition][:end]:
                id = f"t-{record.partition}-{record.offset}"
                assert EventKey("kafka", id) in self.published or record.place in self.aside.places
            assert end >= self.committed[partition], "what was committed is taken back"
            self.committed[partition] = end

    def run(self) -> None:
        asyncio.run(self.intake.run())


class Reader:
    """Reads from where the group has committed."""

    def __init__(self, world: World) -> None:
        self.world, self.next = world, dict(world.committed)

    def read(self, safe: Mapping[Partition, int], most: int) -> KafkaTurn:
        world = self.world
        world.commit(safe)
        step = world.script.pop(0) if world.script else most
        lost = frozenset[Partition]()
        if step == "fatal":
            raise KafkaTroubleError("fatal")
        if step == "trouble":
            return KafkaTurn([], trouble="away")
        if step == "refuse":
            world.refusals += 2
        if isinstance(step, str) and step.startswith("lost"):
            lost = frozenset({PARTITIONS[int(step[-1])]})
            for each in lost:  # another had it, and published what it read, from where this one committed
                self.next[each] = world.committed[each]
        records: list[KafkaRecord] = []
        for partition, log in world.log.items():
            begin = self.next[partition]
            taken = log[begin : begin + (step if isinstance(step, int) else 1)]
            self.next[partition] += len(taken)
            records += taken
        if not world.script and world.committed == {each: len(log) for each, log in world.log.items()}:
            world.intake.end()
        return KafkaTurn(records, lost)

    def close(self, safe: Mapping[Partition, int]) -> None:
        self.world.commit(safe)
        self.world.closed += 1


VALUES = st.sampled_from([b'{"price": 1}', b"<a/>", None, b"broken", b'{"price": '])
STEPS = st.one_of(st.integers(0, 4), st.sampled_from(["fatal", "trouble", "refuse", "lost 0", "lost 1"]))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "FIRST_PAUSE", 0.0)


@given(st.lists(st.tuples(st.integers(0, 1), VALUES), max_size=12), st.lists(STEPS, max_size=10))
def test_every_record_is_published_or_set_aside_in_order_and_committed_when_safe(
    values: list[tuple[int, bytes | None]], script: list[str | int]
) -> None:
    world = World(values, script)
    world.run()
    for (_, number), records in world.log.items():
        good = [record for record in records if record.value in (b'{"price": 1}', b"<a/>")]
        ids = [event.id for event in world.published.values() if f"-{number}-" in event.id]
        assert ids == [f"t-{record.partition}-{record.offset}" for record in good]
        assert {record.place for record in records if record not in good} <= world.aside.places
    assert world.committed == {each: len(log) for each, log in world.log.items()}


def test_trouble_is_told_once_and_so_is_its_end() -> None:
    world = World([(0, b"{}")], ["trouble", "trouble", "trouble", 1, "fatal", 0])
    world.run()
    assert world.notes == [f"Kafka's t: {told}" for told in ("away", "Kafka answers again", "fatal")] + [
        "Kafka's t: Kafka answers again"
    ]
    assert world.closed == 2


def test_records_that_the_network_does_not_take_wait_and_that_is_told_once() -> None:
    world = World([(0, b"{}"), (0, b"{}")], ["refuse", 0])
    world.run()
    assert len(world.published) == 2
    assert [told for told in world.notes if "no place in the network" in told] == world.notes[:1]


def test_what_cannot_be_made_safe_at_the_end_is_not_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "FAREWELL", 0.01)
    world = World([(0, b"{}")], [1, 0])

    async def publish(events: Sequence[Event]) -> str | None:
        world.intake.end()
        return await asyncio.Future()

    world.intake._publish = publish
    world.run()
    assert (world.committed["t", 0], world.closed) == (0, 1)
