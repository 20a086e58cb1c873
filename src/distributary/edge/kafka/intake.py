"""Reads topics of Kafka, publishes their records as events, and commits what is safe.

Rules:

- Order: what was read is published before what is read next, and as it was read. While it is being made
  safe, the next records are read already.
- An offset is committed when all records before it are safe: acknowledged by the network, so that no delivery
  of them is lost, or set aside on the disk. A crash before that has them read again, here or by another
  broker of the group; the network knows them by their identity (`records`). For that to hold, not more than
  `MOST_READ` records are read at a time, three times as many may be uncommitted, and a root that was started
  again knows the latest 10,000 events.
- What the network does not take yet (the node has no place in it, or is congested) is tried again, and
  nothing is read meanwhile. So is what cannot be read while the schema registry does not answer. A record
  that no network would take is set aside when it is read.
- When a rebalance takes a partition away, nothing more is committed of what was read before.
- What goes wrong with Kafka is told once, and so is its end. The client library tries again by itself; after
  an error that it calls fatal another reader is made, after a pause.
- The Kafka itself is behind `KafkaReader`: this module does no I/O.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import NamedTuple, Protocol

from distributary.edge.kafka.quarantine import RecordQuarantine, rejected_at
from distributary.edge.kafka.records import KafkaRecord, RecordReader
from distributary.errors import DistributaryError, InputError
from distributary.kafka_values.schemas import RegistryError
from distributary.model import Event
from distributary.quarantine import Rejection

MOST_READ = 2_000
"""Records that are read at a time."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
"""Seconds until what failed is tried again; each time twice as many, with some chance in them."""
FAREWELL = 5.0
"""Seconds that the last records may take to become safe when it ends."""

Partition = tuple[str, int]
"""A partition of a topic."""
Offsets = dict[Partition, int]
"""Partitions, and the offset of the record that is read next."""
Publish = Callable[[Sequence[Event]], Awaitable[str | None]]
"""Publishes events; gives the reason why not, or None once they are safe."""


class KafkaTurn(NamedTuple):
    """What one look at Kafka gave."""

    records: list[KafkaRecord]
    lost: frozenset[Partition] = frozenset()
    """Partitions that were taken away since the look before."""
    trouble: str | None = None
    """What is wrong with Kafka just now."""


class KafkaReader(Protocol):
    """Reads the records of a source. Its methods block, and are called one at a time."""

    def read(self, safe: Mapping[Partition, int], most: int) -> KafkaTurn:
        """Commit offsets, and give what has come, after a moment's wait if nothing has.

        KafkaTroubleError when it cannot go on.
        """

    def close(self, safe: Mapping[Partition, int]) -> None:
        """Commit offsets, and leave the group."""


class BackOff:
    """How long to wait after failures in a row.

    >>> pauses = BackOff(Random(1)); 0.05 <= pauses.next() <= 0.1, pauses.failures
    (True, 1)
    """

    def __init__(self, random: Random) -> None:
        self._random = random
        self.failures = 0

    def next(self) -> float:
        """The seconds until the next try."""
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self.failures, 20))
        self.failures += 1
        return pause * self._random.uniform(0.5, 1.0)

    def over(self) -> bool:
        """It worked; whether it had failed before."""
        failed, self.failures = self.failures > 0, 0
        return failed


class KafkaIntake:
    """Has the records of one source published until it is told to end."""

    def __init__(
        self,
        name: str,
        open_reader: Callable[[], KafkaReader],
        records: RecordReader,
        publish: Publish,
        quarantine: RecordQuarantine,
        note: Callable[[str], None],
        random: Random,
    ) -> None:
        self.published = 0
        self.trouble: str | None = None
        """What is wrong with Kafka, if anything is."""
        self._name, self._open, self._records = name, open_reader, records
        self._publish, self._quarantine, self._note = publish, quarantine, note
        self._pauses, self._refusals = BackOff(random), BackOff(random)
        self._ending = asyncio.Event()
        self._safe: Offsets = {}
        """What may be committed, and is not known to be."""
        self._under_way: Offsets = {}
        """Where the records end that are being made safe."""

    def end(self) -> None:
        """Have `run` end: what was read is made safe and committed, if that can be done soon."""
        self._ending.set()

    async def run(self) -> None:
        """Read and publish until the end."""
        while not self._ending.is_set():
            reader: KafkaReader | None = None
            try:
                reader = await asyncio.to_thread(self._open)
                await self._go_on(reader)
            except DistributaryError as error:  # Kafka's, or of the file for what is set aside
                self._tell(str(error))
                await self._pause(self._pauses)
            finally:
                if reader is not None:
                    await asyncio.to_thread(reader.close, self._safe)
                self._safe, self._under_way = {}, {}

    async def _go_on(self, reader: KafkaReader) -> None:
        publishing: asyncio.Task[None] | None = None
        try:
            while not self._ending.is_set():
                safe, self._safe = self._safe, {}
                turn = await asyncio.to_thread(reader.read, safe, MOST_READ)
                self._forget(turn.lost)
                self._tell(turn.trouble)
                if publishing is not None:
                    await self._settled(publishing)
                    if not publishing.done():
                        return  # it ends, and the network has not said that they are safe
                    publishing = None
                if turn.records:
                    self._pauses.over()
                    self._under_way = _ends(turn.records)
                    publishing = asyncio.create_task(self._make_safe(turn.records))
                    await asyncio.sleep(0)  # let it be published before this looks for more
            if publishing is not None:
                await self._settled(publishing)
        finally:
            if publishing is not None and not publishing.done():
                publishing.cancel()
                with suppress(asyncio.CancelledError):
                    await publishing

    async def _settled(self, publishing: asyncio.Task[None]) -> None:
        """Wait until records are safe; at the end not for long."""
        ending = asyncio.create_task(self._ending.wait())
        try:
            await asyncio.wait({publishing, ending}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            ending.cancel()
        if not publishing.done():
            await asyncio.wait({publishing}, timeout=FAREWELL)
        if publishing.done():
            publishing.result()

    async def _make_safe(self, records: Sequence[KafkaRecord]) -> None:
        """Publish records, as often as it takes, and set aside those that are no events."""
        read = await self._read(records)
        if read is None:
            return  # it ends, and there is no schema to read them with
        events, rejected = read
        await self._quarantine.keep(rejected)
        while events and (reason := await self._publish(events)) is not None:
            if not self._refusals.failures:
                self._note(f"{self._name}: records wait, because they cannot be published: {reason}")
            await self._pause(self._refusals)
            if self._ending.is_set():
                return
        self._refusals.over()
        self.published += len(events)
        self._safe |= self._under_way
        self._under_way = {}

    async def _read(self, records: Sequence[KafkaRecord]) -> tuple[list[Event], list[Rejection]] | None:
        """The events of records, and those that are none; None if it ends before their schemas are known."""
        if not self._records.asks_registry:
            return self._events(records)
        while True:
            try:
                return await asyncio.to_thread(self._events, records)
            except RegistryError as error:
                if not self._refusals.failures:
                    self._note(f"{self._name}: records wait: {error}")
                await self._pause(self._refusals)
                if self._ending.is_set():
                    return None

    def _events(self, records: Sequence[KafkaRecord]) -> tuple[list[Event], list[Rejection]]:
        events, rejected = list[Event](), list[Rejection]()
        for record in records:
            try:
                events.append(self._records.event(record))
            except InputError as error:
                rejected.append(rejected_at(record.place, error, record.value))
        return events, rejected

    def _forget(self, lost: Iterable[Partition]) -> None:
        for partition in lost:
            self._safe.pop(partition, None)
            self._under_way.pop(partition, None)

    def _tell(self, trouble: str | None) -> None:
        """Say what is wrong with Kafka, or that it is over, once."""
        if trouble != self.trouble:
            self._note(f"{self._name}: {trouble or 'Kafka answers again'}")
        self.trouble = trouble

    async def _pause(self, pauses: BackOff) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ending.wait(), pauses.next())


def _ends(records: Iterable[KafkaRecord]) -> Offsets:
    """Behind the last record of each partition.

    >>> _ends([KafkaRecord("a", 0, 5), KafkaRecord("a", 1, 7), KafkaRecord("a", 0, 6)])
    {('a', 0): 7, ('a', 1): 8}
    """
    return {(record.topic, record.partition): record.offset + 1 for record in records}
