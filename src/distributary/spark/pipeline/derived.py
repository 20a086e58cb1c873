"""Derived items as events: matched against the subscriptions of a pipeline, counted, and rejected when late.

A pipeline's queries give rows of items (see `queries.frames`), which are read once: a stream's state is kept
for each reading. So one task does all that is to be done with them:

- items of published streams become events with the topic `query/operator`, or the one that the operator says,
  and are matched like any other. Their ids have `query/operator#` before them, since they may be those of the
  events they come from. Tolerances see the items of a micro-batch in their stream's order, and are kept where
  the pipeline keeps those of its events;
- for an archive, every item that was matched is given with its columns in the struct `derived`, in a row of
  the kind "derived";
- what each stream had is counted for the metrics, in rows of the kind "flow": stream, items, bytes, late;
- events that do not fit their source, or come later than it allows, are rejected. A late one may still have
  counted where its window was open; where that had closed it did not.

All other columns are those of `rows.TaggedRows`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from distributary.errors import DistributaryError
from distributary.flow.catalogue import Catalogue, published_topic
from distributary.flow.language.schema import Type
from distributary.flow.language.topics import TOPIC, TopicTemplate
from distributary.spark.columns import EventColumns, quoted
from distributary.spark.index.build import live_index
from distributary.spark.match import with_arrival
from distributary.spark.micro_batch import running_micro_batch, watermark_of
from distributary.spark.pipeline.config import Pipeline
from distributary.spark.places import RESERVED
from distributary.spark.queries.frames import item_rows, rejecting_streams
from distributary.spark.queries.packed import item_values
from distributary.spark.queries.sql import SQL_TYPES, published_topic_sql
from distributary.spark.rows import DERIVED, EVENT, FLOW, REJECTED, Batches, TaggedRows, whole
from distributary.spark.tasks import MatchTasks
from distributary.spark.tolerances import PACKED, PackTask, matched_with_state, packed_rows
from distributary.spark.workers import map_in_arrow

STREAM, TIME, SIZE = RESERVED + "stream", RESERVED + "time", RESERVED + "size"
ORDER = RESERVED + "order"
"""The column by which tolerances see the items of a stream."""
AS_ORDER = f"concat(lpad(hex(time + {2**62}L), 16, '0'), lpad(hex(rank), 8, '0'))"
"""A text that compares as time and then rank do."""
FIELD, REASON = RESERVED + "field", RESERVED + "reason"
ABOUT = (TIME, SIZE, FIELD, REASON, STREAM)
"""Columns about an item or a rejection, which are not part of an event."""
OWN = ("id", "topic")
"""Columns that every derived event has besides its attributes."""


def derived_rows(events: DataFrame, pipeline: Pipeline, carry: Sequence[str], inner: StructType) -> DataFrame:
    """The tagged rows about what the queries of a pipeline derive from events.

    `inner` has the columns of their struct `event`, which are those of the rows about the events themselves.
    With an archive there is a row for every item that was matched, with its columns in the struct `derived`.
    """
    catalogue, columns, keep = pipeline.queries, pipeline.columns, pipeline.archive is not None
    assert catalogue is not None, "a pipeline with queries"
    if keep:
        require_columns_to_keep(catalogue)
    items = derived_events(events, catalogue, columns)
    named = EventColumns(order=None if columns.order is None else ORDER)
    options = replace(pipeline.index_options, strategy="index")
    index = live_index(events.sparkSession, pipeline.store, options, follow=items.isStreaming)
    own = [name for name in items.columns if name not in ABOUT]
    items = with_arrival(items)
    carried = carried_columns(carry, columns, own)
    tagged = TaggedRows.of(own, "id", carried, own if keep else None, flows=True)
    times = {name: source.time for name, source in catalogue.sources.items()}
    published = frozenset(published_topics(catalogue))
    task = FlowTask(MatchTasks(index, named, tagged), tagged, times, published, pipeline.checkpoint)
    if index.tolerances:
        rows = matched_with_state(map_in_arrow(items, task.packed, PACKED), task.tasks, items.schema)
    else:
        rows = map_in_arrow(items, task.run, tagged.schema(items.schema))
    found = tagged.event_schema(items.schema)
    event = F.struct(*(as_carried(field, columns, found, "event.") for field in inner.fields))
    if not keep:
        return rows.withColumn("event", event)
    is_item = F.col("kind") == EVENT
    kind = F.when(is_item, DERIVED).otherwise(F.col("kind"))
    derived = F.when(is_item, F.col("event"))
    return rows.withColumns({"kind": kind, "derived": derived, "event": event})


def as_carried(field: StructField, columns: EventColumns, items: StructType, at: str = "") -> Column:
    """What a derived event carries in a column of the source's events; null where it has no such thing.

    Derived events are found `at` some place, with `items` as their columns.
    """
    type, name = field.dataType, _stands_for(field.name, columns, items.names)
    wanted = type.simpleString()
    if name is None:
        return F.lit(None).cast(wanted).alias(field.name)
    value = F.col(at + quoted(name))
    if isinstance(type, TimestampType | TimestampNTZType):
        numbers = items[name].dataType.simpleString() == "bigint"
        value = F.timestamp_millis(value) if numbers else F.lit(None)
    return value.try_cast(wanted).alias(field.name)


def carried_columns(names: Sequence[str], columns: EventColumns, items: Sequence[str]) -> tuple[str, ...]:
    """The columns of derived events that stand for columns of the source's events, each once."""
    found = (_stands_for(name, columns, items) for name in names)
    return tuple(dict.fromkeys(name for name in found if name is not None))


def _stands_for(name: str, columns: EventColumns, items: Sequence[str]) -> str | None:
    """What derived events have for a column of the source's; id and topic may be called otherwise there."""
    if name in (columns.id, columns.topic):
        name = "id" if name == columns.id else "topic"
    elif name in OWN:
        return None
    return name if name in items else None


def derived_events(events: DataFrame, catalogue: Catalogue, columns: EventColumns) -> DataFrame:
    """Every item of every stream as an event, for the published ones with a topic, and all rejections.

    Items of streams that are not published, and of sources, have no topic and no attributes: they are
    there to be counted.
    """
    names = [name for each in catalogue.operators for name in each.streams]
    names += catalogue.sources
    plan, rows = item_rows(catalogue, events, columns, names)
    sources = [[name] for name in rejecting_streams(plan, catalogue.sources)]
    streams = F.when(
        F.col("stream") >= 0, F.element_at(F.lit(plan.names(names)), F.col("stream") + 1)
    ).otherwise(F.element_at(F.lit(sources), -F.col("stream")))
    published = list(published_topics(catalogue))
    places = attribute_columns(catalogue, published)
    told = rows.withColumn(STREAM, F.explode(streams))
    name = F.when(F.col(STREAM).isin(published), F.translate(STREAM, ".", "/"))
    topic = name
    for stream in (catalogue.streams[each] for each in published):
        template = TopicTemplate.parse(stream.topic)
        if stream.topic != published_topic(stream.name):
            made = F.expr(published_topic_sql(template, item_values(stream.schema)))
            topic = F.when(F.col(STREAM) == stream.name, made).otherwise(topic)
    size = F.expr(
        "length(encode(id, 'utf-8')) + 8 + coalesce(aggregate(texts, 0, (sum, text) -> sum + "
        "coalesce(length(encode(text, 'utf-8')), 0)), 0) + 8 * coalesce(size(integers), 0) "
        "+ 8 * coalesce(size(numbers), 0) + coalesce(size(booleans), 0)"
    )
    return told.select(
        F.coalesce(F.concat(name, F.lit("#"), "id"), "id").alias("id"),
        topic.alias("topic"),
        F.col("time").alias(TIME),
        F.expr(AS_ORDER).alias(ORDER),
        size.cast("bigint").alias(SIZE),
        F.col("field").alias(FIELD),
        F.col("reason").alias(REASON),
        STREAM,
        *(_attribute(type, where).alias(name) for name, (type, where) in places.items()),
    )


def published_topics(catalogue: Catalogue) -> dict[str, str]:
    """The streams whose items become events, with the topics they have unless they say another."""
    streams = [catalogue.streams[name] for each in catalogue.operators for name in each.streams]
    return {stream.name: published_topic(stream.name) for stream in streams if stream.published}


Places = dict[str, tuple[Type, dict[str, list[str]]]]
"""For every attribute its type, and where in a packed row it is in which streams."""


def attribute_columns(catalogue: Catalogue, published: Sequence[str]) -> Places:
    """The columns of derived events: one for each name, whichever streams have such an attribute."""
    places: Places = {}
    first: dict[str, str] = {}
    for stream in published:
        schema = catalogue.streams[stream].schema
        for name, (text, _) in item_values(schema).items():
            type = schema.attributes[name]
            if name == TOPIC and type is Type.TEXT:
                continue  # the event has a topic of its own
            if name in OWN or name.startswith(RESERVED):
                raise DistributaryError(
                    f"the stream {stream} publishes {name!r}, a name that is taken; rename it"
                )
            other = first.setdefault(name, stream)
            known, where = places.setdefault(name, (type, {}))
            if known is not type and {known, type} != {Type.INTEGER, Type.NUMBER}:
                raise DistributaryError(
                    f"the streams {other} and {stream} both publish {name!r}, as {known} and as {type}: "
                    "subscriptions could not tell what it is; rename one of them"
                )
            where.setdefault(text, []).append(stream)
            places[name] = type if known is type else Type.NUMBER, where
    return places


def require_columns_to_keep(catalogue: Catalogue) -> None:
    """Refuse attributes that cannot be columns of one table of files, where case makes no difference."""
    taken = {name: f"its own {name}" for name in (*OWN, "batch")}
    for stream in published_topics(catalogue):
        for name in catalogue.streams[stream].schema.attributes:
            if name == TOPIC:
                continue  # see `attribute_columns`
            other = taken.setdefault(name.lower(), repr(name))
            if other != repr(name):
                raise DistributaryError(
                    f"the stream {stream} publishes {name!r}, which an archive cannot tell from {other}; "
                    "rename it"
                )


def _attribute(type: Type, where: Mapping[str, list[str]]) -> Column:
    value = F.lit(None).cast(SQL_TYPES[type])
    for text, streams in where.items():
        value = F.when(F.col(STREAM).isin(streams), F.expr(text).cast(SQL_TYPES[type])).otherwise(value)
    return value


@dataclass(frozen=True)
class FlowTask:
    """Does all that is to be done with the items of queries."""

    tasks: MatchTasks
    rows: TaggedRows
    """The rows that those tasks make."""
    sources: Mapping[str, str]
    """Each source with the attribute that holds its time."""
    published: frozenset[str]
    """The streams whose items are matched."""
    checkpoint: str
    """Where Spark notes the watermark of each micro-batch."""

    def run(self, batches: Batches) -> Batches:
        """All rows, where there are no tolerances."""
        others: list[pa.RecordBatch] = []
        for matched in self.tasks.match(self._published(batches, others)):
            yield matched
            yield from others
            others.clear()
        yield from others

    def packed(self, batches: Batches) -> Batches:
        """All rows, and the events whose matches depend on tolerances, for the state that keeps those."""
        others: list[pa.RecordBatch] = []
        pack = PackTask(self.tasks)
        for events in self._published(batches, others):
            yield from pack.run(iter([events]))
            yield from packed_rows(self.tasks.match(iter([events])))
            yield from packed_rows(others)
            others.clear()
        yield from packed_rows(others)

    def _published(self, batches: Batches, others: list[pa.RecordBatch]) -> Batches:
        """The events to match; rejections and counts are added to `others`."""
        watermark = self._watermark()
        for batch in batches:
            table = pa.Table.from_batches([batch])
            items = table.filter(pc.is_null(table[REASON]))
            late = self._late(items, watermark)
            others += [*self._rejected(table.filter(pc.is_valid(table[REASON]))), *self._rejected(late)]
            others += self._counted(items, late)
            matched = pc.is_in(items[STREAM], pa.array(sorted(self.published)))
            yield from items.filter(matched).combine_chunks().to_batches()

    def _watermark(self) -> int | None:
        """What Spark takes as late now: all before the watermark of the micro-batch before this one."""
        running = running_micro_batch()
        if running is None:
            return None
        return watermark_of(self.checkpoint, running[1] - 1) if running[1] else 0

    def _late(self, items: pa.Table, watermark: int | None) -> pa.Table:
        """The items of sources that are older than the watermark, with that as the reason."""
        if watermark is None:
            return items.slice(0, 0)
        before = pc.less(items[TIME], watermark)
        late = items.filter(pc.and_(before, pc.is_in(items[STREAM], pa.array(sorted(self.sources)))))
        reasons = [
            f"{time} is late for source {stream!r}: event time had reached {watermark}"
            for time, stream in zip(late[TIME].to_pylist(), late[STREAM].to_pylist(), strict=True)
        ]
        fields = [self.sources[stream] for stream in late[STREAM].to_pylist()]
        for name, texts in ((FIELD, fields), (REASON, reasons)):
            late = late.set_column(late.schema.get_field_index(name), name, pa.array(texts, pa.string()))
        return late

    def _rejected(self, items: pa.Table) -> Batches:
        if items.num_rows:
            columns = {"event_id": items["id"], "field": items[FIELD], "reason": items[REASON]}
            found = {name: whole(column) for name, column in columns.items()}
            yield self.rows.without_events(REJECTED, items, found)

    def _counted(self, items: pa.Table, late: pa.Table) -> Batches:
        if not items.num_rows:
            return
        totals = items.group_by(STREAM).aggregate([(SIZE, "sum"), (SIZE, "count")])
        streams = whole(totals[STREAM])
        counts = late.group_by(STREAM).aggregate([(SIZE, "count")]).to_pylist()
        too_late = {row[STREAM]: row[f"{SIZE}_count"] for row in counts}
        columns = {
            "stream": streams,
            "items": whole(totals[f"{SIZE}_count"]),
            "bytes": whole(totals[f"{SIZE}_sum"]),
            "late": pa.array([too_late.get(stream, 0) for stream in streams.to_pylist()], pa.int64()),
        }
        yield self.rows.without_events(FLOW, items.slice(0, totals.num_rows), columns)
