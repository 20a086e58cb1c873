"""Tolerances on Spark: the second branch of the dataflow, for matches that depend on what came before.

Tolerances compare an event with the last one delivered for its topic, so the events of a topic meet in one
task, in the order of a column that the user names (ties: by event id).

In a batch they are repartitioned by topic and sorted. In a stream they are packed, as Arrow bytes, into rows
keyed by a bucket of topics, because the state operator charges by row and by key; its state holds, for
each shard of a bucket, what the matcher remembers of the topics. The matcher is the same as everywhere: its
memory is restored before and recalled after. Events are ordered within a micro-batch; one that arrives in a
later micro-batch than its successors is compared with what was delivered by then.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import IntegerType, StructField, StructType

from distributary.errors import DistributaryError
from distributary.matching.matcher import Matcher
from distributary.spark.columns import HOME, PART, EventColumns, quoted
from distributary.spark.rows import Batches
from distributary.spark.session import keep_state_in_rocksdb
from distributary.spark.tasks import MatchTasks
from distributary.spark.workers import map_in_arrow, packed_kinds, packed_task, unpacked

BUCKETS = 64
"""Keys of the state operator. Each call of it costs much, however little it does."""
SHARDS = 64
"""Shards of a bucket: only those whose topics occur in a micro-batch are read and written."""
PACKED = "bucket int, part int, version bigint, payload binary"
"""A packed row. A bucket below 0 is one of rows of the result, which are only passed on."""
PACKED_SCHEMA = pa.schema(
    [("bucket", pa.int32()), ("part", pa.int32()), ("version", pa.int64()), ("payload", pa.binary())]
)
PLAN = (-1, -1)
"""The key under which a bucket's state remembers for which rendezvous plan it was made."""


def matched_in_batch(events: DataFrame, tasks: MatchTasks) -> DataFrame:
    """The matches of the events of a batch that depend on tolerances."""
    columns = tasks.columns
    assert columns.order is not None
    bare = StructType([field for field in events.schema if field.name not in (PART, HOME)])
    picked = map_in_arrow(events, tasks.pick_tolerant, StructType([*bare, StructField(PART, IntegerType())]))
    topic = F.col(quoted(columns.topic)) if columns.topic in events.columns else F.lit("")
    ordered = picked.repartition(PART, topic).sortWithinPartitions(PART, *columns.ordering)
    return map_in_arrow(ordered, tasks.match_ordered, tasks.rows.schema(bare))


def matched_in_stream(events: DataFrame, tasks: MatchTasks) -> DataFrame:
    """All rows of the events of a stream, whether they depend on tolerances or not, in one pass."""
    packed = map_in_arrow(events, PackTask(tasks).with_others, PACKED)
    return matched_with_state(packed, tasks, events.schema)


def matched_with_state(packed: DataFrame, tasks: MatchTasks, events: StructType) -> DataFrame:
    """The matches of packed events, and the rows of the result that were packed with them."""
    return map_in_arrow(with_state(packed, tasks), unpack, tasks.rows.schema(events))


def with_state(packed: DataFrame, tasks: MatchTasks) -> DataFrame:
    """The same, still packed: a column `payload` of Arrow bytes."""
    keep_state_in_rocksdb(packed.sparkSession)
    return packed.groupBy("bucket").transformWithState(
        ToleranceState(tasks), "payload binary", "Append", "None"
    )


@dataclass(frozen=True)
class PackTask:
    """Packs the events that depend on tolerances: one row for each bucket of topics that a batch has."""

    tasks: MatchTasks

    def run(self, batches: Batches) -> Batches:
        """The packed rows of the events that depend on tolerances."""
        version = self.tasks.index.version()
        for part, table in self.tasks.tolerant(batches, version):
            buckets = topic_places(table, self.tasks.columns).rows[:, 0]
            rows = [
                _packed_row(bucket, part, version, to_bytes(table.filter(pa.array(buckets == bucket))))
                for bucket in np.unique(buckets).tolist()
            ]
            yield pa.RecordBatch.from_pylist(rows, PACKED_SCHEMA)

    def with_others(self, batches: Batches) -> Batches:
        """The same, and the rows of the events that depend on none, packed to be passed on."""
        for batch in batches:
            yield from self.run(iter([batch]))
            yield from packed_rows(self.tasks.match(iter([batch])))


def packed_rows(rows: Iterable[pa.RecordBatch]) -> Batches:
    """Rows of the result, packed to be passed on by the state operator."""
    for batch in rows:
        payload = to_bytes(pa.Table.from_batches([batch]))
        row = _packed_row(-1 - zlib.crc32(payload) % BUCKETS, 0, 0, payload)
        yield pa.RecordBatch.from_pylist([row], PACKED_SCHEMA)


def _packed_row(bucket: int, part: int, version: int, payload: bytes) -> dict[str, Any]:
    return {"bucket": bucket, "part": part, "version": version, "payload": payload}


class ToleranceState(StatefulProcessor):
    """Matches the events of a bucket of topics, with the memory of tolerances kept in Spark's state store."""

    def __init__(self, tasks: MatchTasks) -> None:
        self._tasks = tasks
        plan = tasks.index.plan
        self._plan = None if plan is None else blake2b(plan.encode(), digest_size=16).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        """Travels with the filter kinds that an application has added."""
        return _unpacked_state, (packed_task(self._tasks), packed_kinds())

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state; Spark calls this once for each partition and micro-batch."""
        self._memory = handle.getMapState("memory", "part int, shard int", "memory binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """The rows of the result, packed, for the packed rows of one bucket."""
        if key[0] < 0:
            yield from (Row(payload=row.payload) for row in rows)
            return
        self._require_the_same_plan()
        tables: dict[int, list[pa.Table]] = {}
        version = 0
        for row in rows:
            version = row.version
            tables.setdefault(row.part, []).append(from_bytes(row.payload))
        for part, found in sorted(tables.items()):
            for result in self._matched(part, version, pa.concat_tables(found)):
                yield Row(payload=to_bytes(pa.Table.from_batches([result])))

    def close(self) -> None:
        """Nothing to close; Spark requires the method."""

    def _matched(self, part: int, version: int, table: pa.Table) -> Batches:
        columns = self._tasks.columns
        assert columns.order is not None
        ordered = table.sort_by([(name, "ascending") for name in columns.ordering])
        matcher = self._tasks.index.matcher(part, version)
        found = topic_places(ordered, columns)
        shards = np.unique(found.places[:, 1]).tolist()
        # A dict keeps the order: what is remembered first, then the topics that are new.
        topics = {(shard, topic): None for shard in shards for topic in self._restore(matcher, part, shard)}
        topics |= dict.fromkeys(zip(found.places[:, 1].tolist(), found.topics, strict=True))
        yield from self._tasks.matched(matcher, ordered, version)
        memories = matcher.recall([topic for _, topic in topics])
        kept: dict[int, list[tuple[str | None, bytes]]] = {shard: [] for shard in shards}
        for (shard, topic), memory in zip(topics, memories, strict=True):
            if memory is not None:
                kept[shard].append((topic, memory))
        for shard, memorised in kept.items():
            self._keep(part, shard, memorised)

    def _restore(self, matcher: Matcher, part: int, shard: int) -> list[str | None]:
        """Give the matcher its memory of a shard back; returns the topics that this is about."""
        found = self._memory.getValue((part, shard))
        if found is None:
            return []
        remembered = from_bytes(found[0])
        topics: list[str | None] = remembered.column("topic").to_pylist()
        matcher.restore(topics, remembered.column("memory").to_pylist())
        return topics

    def _keep(self, part: int, shard: int, kept: list[tuple[str | None, bytes]]) -> None:
        if kept:
            topics, memories = zip(*kept, strict=True)
            columns = {"topic": pa.array(topics, pa.large_string())}
            columns["memory"] = pa.array(memories, pa.large_binary())
            self._memory.updateValue((part, shard), (to_bytes(pa.table(columns)),))
        elif self._memory.containsKey((part, shard)):
            self._memory.removeKey((part, shard))

    def _require_the_same_plan(self) -> None:
        """State is kept by part, so another plan would look for it in the wrong places."""
        if self._plan is None:
            return
        known = self._memory.getValue(PLAN)
        if known is None:
            self._memory.updateValue(PLAN, (self._plan.encode(),))
        elif bytes(known[0]).decode() != self._plan:
            raise DistributaryError(
                "the tolerances of this stream were kept under another rendezvous plan, because the "
                "subscriptions were others when it started; start with a new checkpoint, or keep the "
                "subscriptions in a store, which keeps its plan"
            )


def _unpacked_state(tasks: bytes, added: bytes) -> ToleranceState:
    return ToleranceState(unpacked(tasks, added))


def unpack(batches: Batches) -> Batches:
    """The rows that a state operator packed."""
    for batch in batches:
        for payload in batch.column("payload"):
            yield from from_bytes(payload.as_py()).to_batches()


class TopicPlaces(NamedTuple):
    """The topics of a table's events, and in which bucket and shard each of them is kept."""

    topics: list[str | None]
    """The topics that occur."""
    places: NDArray[np.int32]
    """The bucket and the shard of each of them."""
    rows: NDArray[np.int32]
    """The bucket and the shard of the topic of each event."""


def topic_places(table: pa.Table, columns: EventColumns) -> TopicPlaces:
    """Where the topics of events are kept; events without one are in the first bucket and shard."""
    if columns.topic not in table.schema.names:
        return TopicPlaces([None], np.zeros((1, 2), np.int32), np.zeros((table.num_rows, 2), np.int32))
    texts = table.column(columns.topic).combine_chunks().dictionary_encode("encode")
    topics = texts.dictionary.to_pylist()
    places = np.array([_place(topic) for topic in topics], np.int32).reshape(-1, 2)
    return TopicPlaces(topics, places, places[texts.indices.to_numpy()])


def _place(topic: str | None) -> tuple[int, int]:
    if topic is None:
        return 0, 0
    number = zlib.crc32(topic.encode())
    return number % BUCKETS, number // BUCKETS % SHARDS


def to_bytes(table: pa.Table) -> bytes:
    """A table as Arrow bytes."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def from_bytes(data: bytes) -> pa.Table:
    """The table that `to_bytes` wrote."""
    return pa.ipc.open_stream(data).read_all()
