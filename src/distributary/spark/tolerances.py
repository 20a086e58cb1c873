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
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import IntegerType, StructField, StructType

from distributary.errors import DistributaryError
from distributary.matching.matcher import Matcher
from distributary.spark.columns import HOME, PART, EventColumns
from distributary.spark.index.parts import Parts
from distributary.spark.rows import Shape
from distributary.spark.tasks import Batches, OrderedMatchTask, TolerantTask, match_in_order

BUCKETS = 64
"""Keys of the state operator. Each call of it costs much, however little it does."""
SHARDS = 64
"""Shards of a bucket: only those whose topics occur in a micro-batch are read and written."""
PACKED = "bucket int, part int, version bigint, payload binary"
"""A packed row. Below 0 are buckets of what is a row of the result already, and is only passed on."""
PACKED_SCHEMA = pa.schema(
    [("bucket", pa.int32()), ("part", pa.int32()), ("version", pa.int64()), ("payload", pa.binary())]
)
PLAN = (-1, -1)
"""The key under which a bucket's state remembers for which rendezvous plan it was made."""


def matched_in_batch(events: DataFrame, parts: Parts, columns: EventColumns, shape: Shape) -> DataFrame:
    """The matches of the events of a batch that depend on tolerances."""
    assert columns.order is not None
    bare = StructType([field for field in events.schema if field.name not in (PART, HOME)])
    picked = events.mapInArrow(
        TolerantTask(parts, columns).run, StructType([*bare, StructField(PART, IntegerType())])
    )
    topic = F.regexp_replace(columns.topic, "^/", "") if columns.topic in events.columns else F.lit("")
    ordered = picked.repartition(PART, topic).sortWithinPartitions(PART, *columns.ordering)
    return ordered.mapInArrow(OrderedMatchTask(parts, columns, shape).run, shape.schema(bare))


def matched_in_stream(events: DataFrame, parts: Parts, columns: EventColumns, shape: Shape) -> DataFrame:
    """The matches of the events of a stream that depend on tolerances."""
    packed = events.mapInArrow(PackTask(parts, columns).run, PACKED)
    return kept_in_stream(packed, parts, columns, shape, events.schema)


def kept_in_stream(
    packed: DataFrame, parts: Parts, columns: EventColumns, shape: Shape, events: StructType
) -> DataFrame:
    """The matches of packed events, and whatever rows were packed with them."""
    kept = packed.groupBy("bucket").transformWithState(
        ToleranceState(parts, columns, shape), "payload binary", "Append", "None"
    )
    return kept.mapInArrow(unpack, shape.schema(events))


@dataclass(frozen=True)
class PackTask:
    """Packs the events that depend on tolerances: one row for each bucket of topics that a batch has."""

    parts: Parts
    columns: EventColumns

    def run(self, batches: Batches) -> Batches:
        version = self.parts.version()
        for part, table in TolerantTask(self.parts, self.columns).tolerant(batches, version):
            buckets = bucket_and_shard(table, self.columns)[0]
            found = np.unique(buckets)
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array(found, pa.int32()),
                    pa.repeat(pa.scalar(part, pa.int32()), len(found)),
                    pa.repeat(pa.scalar(version, pa.int64()), len(found)),
                    pa.array(
                        [to_bytes(table.filter(pa.array(buckets == one))) for one in found], pa.binary()
                    ),
                ],
                PACKED_SCHEMA.names,
            )


def packed_rows(rows: Iterable[pa.RecordBatch]) -> Batches:
    """Rows of the result, packed to be passed on by the state operator."""
    for batch in rows:
        payload = to_bytes(pa.Table.from_batches([batch]))
        bucket = -1 - zlib.crc32(payload) % BUCKETS
        yield pa.RecordBatch.from_pylist(
            [{"bucket": bucket, "part": 0, "version": 0, "payload": payload}], PACKED_SCHEMA
        )


class ToleranceState(StatefulProcessor):
    """Matches the events of a bucket of topics, with the memory of tolerances kept in Spark's state store."""

    def __init__(self, parts: Parts, columns: EventColumns, shape: Shape) -> None:
        self._parts = parts
        self._columns = columns
        self._shape = shape
        self._plan = "" if parts.plan is None else blake2b(parts.plan.encode(), digest_size=16).hexdigest()

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._memory = handle.getMapState("memory", "part int, shard int", "memory binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
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
        pass

    def _matched(self, part: int, version: int, table: pa.Table) -> Iterator[pa.RecordBatch]:
        assert self._columns.order is not None
        ordered = table.sort_by([(name, "ascending") for name in self._columns.ordering])
        matcher = self._parts.matcher(part, version)
        shards = np.unique(bucket_and_shard(ordered, self._columns)[1]).tolist()
        topics = [(shard, topic) for shard in shards for topic in self._restore(matcher, part, shard)]
        seen = {(shard, topic) for shard, topic in topics}
        for topic, (_, shard) in distinct_topics(ordered, self._columns).items():
            if (shard, topic) not in seen:
                topics.append((shard, topic))
        yield from match_in_order(matcher, ordered, self._columns, self._shape, version)
        memories = matcher.recall([topic for _, topic in topics])
        for shard in shards:
            kept = [
                (topic, memory)
                for (its, topic), memory in zip(topics, memories, strict=True)
                if its == shard and memory is not None
            ]
            self._keep(part, shard, kept)

    def _restore(self, matcher: Matcher, part: int, shard: int) -> list[str | None]:
        """Give the matcher its memory of a shard back; the topics it is about."""
        found = self._memory.getValue((part, shard))
        if found is None:
            return []
        held = from_bytes(found[0])
        topics: list[str | None] = held.column("topic").to_pylist()
        matcher.restore(topics, held.column("memory").to_pylist())
        return topics

    def _keep(self, part: int, shard: int, kept: list[tuple[str | None, bytes]]) -> None:
        if kept:
            topics, memories = zip(*kept, strict=True)
            table = pa.table(
                {
                    "topic": pa.array(topics, pa.large_string()),
                    "memory": pa.array(memories, pa.large_binary()),
                }
            )
            self._memory.updateValue((part, shard), (to_bytes(table),))
        elif self._memory.containsKey((part, shard)):
            self._memory.removeKey((part, shard))

    def _require_the_same_plan(self) -> None:
        """State is kept by part, so another plan would look for it in the wrong places."""
        if self._parts.plan is None:
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


def unpack(batches: Batches) -> Batches:
    """The rows that a state operator packed."""
    for batch in batches:
        for payload in batch.column("payload"):
            yield from from_bytes(payload.as_py()).to_batches()


def bucket_and_shard(table: pa.Table, columns: EventColumns) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The bucket and the shard of every event's topic."""
    if columns.topic not in table.schema.names:
        nothing = np.zeros(table.num_rows, np.int32)
        return nothing, nothing
    texts = table.column(columns.topic).combine_chunks().dictionary_encode()
    placed = np.array([_place(topic) for topic in texts.dictionary.to_pylist()] + [(0, 0)], np.int32)
    codes = texts.indices.fill_null(len(placed) - 1).to_numpy()
    return placed[codes, 0], placed[codes, 1]


def distinct_topics(table: pa.Table, columns: EventColumns) -> dict[str | None, tuple[int, int]]:
    """The topics that occur, without the leading slash, each with its bucket and shard."""
    if columns.topic not in table.schema.names:
        return {None: (0, 0)}
    topics = table.column(columns.topic).unique().to_pylist()
    return {None if topic is None else topic.removeprefix("/"): _place(topic) for topic in topics}


def _place(topic: str | None) -> tuple[int, int]:
    if topic is None:
        return 0, 0
    number = zlib.crc32(topic.removeprefix("/").encode())
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
