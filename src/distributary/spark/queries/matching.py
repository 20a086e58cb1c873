"""Derived items as events: matched against the subscriptions of a pipeline, counted, and set aside when late.

A pipeline's queries give tagged rows (see `queries_frames`), which are read once: a stream's state is kept
for each reading. So one task does all that is to be done with them:

- items of published streams become events with the topic `query/operator` and are matched like any other.
  Their ids have the topic and `#` before them, since a stream's items may have the ids of the events they are
  made of. Tolerances see the items of a micro-batch in their stream's order, and are kept where the pipeline
  keeps those of its events;
- for an archive, every item that was matched is told of with its columns, as the kind "derived";
- what each stream had is counted, in items and bytes, for the metrics;
- events that do not fit their source, or come later than it allows, are told of as rejected. A late one may
  still have counted where its window was open; where that had closed it did not.

Rows are those of `rows.TaggedRows`, with the kind "flow" for counts: `subscription_id` is the stream's name
and `record` has its `items`, `bytes` and `late` as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StructField, StructType, TimestampNTZType, TimestampType

from distributary.errors import DistributaryError
from distributary.flow.catalogue import Catalogue
from distributary.flow.language.schema import Schema, Type
from distributary.spark.columns import RESERVED, EventColumns
from distributary.spark.index.subscribed import Subscribed, parts_for
from distributary.spark.pipeline.commits import watermark_of
from distributary.spark.pipeline.micro_batch import running_micro_batch
from distributary.spark.queries.frames import quoted, set_aside_streams, tagged_rows
from distributary.spark.queries.intake import take_in
from distributary.spark.queries.plan import make_plan, packing
from distributary.spark.queries.sql import SQL_TYPES
from distributary.spark.rows import DERIVED, EVENT, REJECTED, TaggedRows
from distributary.spark.tasks import Batches, MatchTask
from distributary.spark.tolerances import PACKED, PackTask, kept_in_stream, packed_rows
from distributary.store import SubscriptionStore

FLOW = "flow"
"""The kind of rows that count."""
STREAM, TIME, SIZE = RESERVED + "stream", RESERVED + "time", RESERVED + "size"
ORDER = RESERVED + "order"
"""The column by which tolerances see the items of a stream."""
AS_ORDER = f"concat(lpad(hex(time + {2**62}L), 16, '0'), lpad(hex(rank), 8, '0'))"
"""A text that compares as time and then rank do."""
FIELD, REASON = RESERVED + "field", RESERVED + "reason"
ASIDE = (TIME, SIZE, FIELD, REASON, STREAM)
"""Columns that are there to be counted or told of, and are not part of an event."""
OWN = ("id", "topic")
"""Columns that every derived event has besides its attributes."""


def derived_rows(
    events: DataFrame,
    catalogue: Catalogue,
    columns: EventColumns,
    store: SubscriptionStore,
    *,
    like: DataFrame,
    carry: Sequence[str],
    checkpoint: str,
    keep: bool = False,
) -> DataFrame:
    """The rows about derived items, with the columns of `like`, the rows about the events themselves.

    With `keep` there is a row for every item that was matched, which has its columns in the struct `derived`.
    """
    if keep:
        require_columns_to_keep(catalogue)
    items = derived_events(events, catalogue, columns)
    tolerances = columns.order is not None
    named = EventColumns(order=ORDER if tolerances else None)
    parts, _ = parts_for(items, store, named, Subscribed(tolerances, strategy="index"), [])
    carried = carried_columns(carry, columns, items.columns)
    kept = tuple(name for name in items.columns if name not in ASIDE) if keep else ()
    shape = TaggedRows(kept or carried or ("id",), carried, kept, keep)
    times = {name: source.time for name, source in catalogue.sources.items()}
    task = FlowTask(MatchTask(parts, named, shape), times, checkpoint)
    if tolerances:
        rows = kept_in_stream(items.mapInArrow(task.packed, PACKED), parts, named, shape, items.schema)
    else:
        rows = items.mapInArrow(task.run, shape.schema(items.schema))
    inner, found = like.schema["event"].dataType, rows.schema["event"].dataType
    assert isinstance(inner, StructType)
    assert isinstance(found, StructType)
    event = F.struct(*(as_carried(field, columns, found, "event.") for field in inner.fields))
    told = rows.withColumn("event", event).select(*like.columns)
    if not keep:
        return told
    is_item = F.col("kind") == EVENT
    held = rows.withColumn("derived", F.when(is_item, F.col("event"))).withColumn("event", event)
    kind = F.when(is_item, DERIVED).otherwise(F.col("kind"))
    return held.withColumn("kind", kind).select(*like.columns, "derived")


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
    """Every item of every stream as an event, for the published ones with a topic, and all misfits.

    Items of streams that are not published, and of sources, have no topic and no attributes: they are
    there to be counted.
    """
    names = [name for each in catalogue.operators for name in each.streams]
    intake = take_in(events, columns, catalogue.sources.values())
    plan = make_plan(catalogue, intake.sources, intake.sheet, [*names, *catalogue.sources])
    tagged = tagged_rows(plan, intake, catalogue.sources)
    called = [
        [name for name in (*names, *catalogue.sources) if plan.computed[name] == stream]
        for stream in plan.wanted
    ]
    sources = [[name] for name in set_aside_streams(plan, catalogue.sources)]
    streams = F.when(F.col("stream") >= 0, F.element_at(F.lit(called), F.col("stream") + 1)).otherwise(
        F.element_at(F.lit(sources), -F.col("stream"))
    )
    published = list(published_topics(catalogue))
    places = attribute_columns(catalogue, published)
    told = tagged.withColumn(STREAM, F.explode(streams))
    topic = F.when(F.col(STREAM).isin(published), F.translate(STREAM, ".", "/"))
    size = F.expr(
        "length(encode(id, 'utf-8')) + 8 + coalesce(aggregate(texts, 0, (sum, text) -> sum + "
        "coalesce(length(encode(text, 'utf-8')), 0)), 0) + 8 * coalesce(size(integers), 0) "
        "+ 8 * coalesce(size(numbers), 0) + coalesce(size(booleans), 0)"
    )
    return told.select(
        F.coalesce(F.concat(topic, F.lit("#"), "id"), "id").alias("id"),
        topic.alias("topic"),
        F.col("time").alias(TIME),
        F.expr(AS_ORDER).alias(ORDER),
        size.cast("bigint").alias(SIZE),
        F.col("field").alias(FIELD),
        F.col("reason").alias(REASON),
        STREAM,
        *(_attribute(name, type, where).alias(name) for name, (type, where) in places.items()),
    )


def published_topics(catalogue: Catalogue) -> dict[str, str]:
    """The streams whose items become events, with the topics of these."""
    streams = [catalogue.streams[name] for each in catalogue.operators for name in each.streams]
    return {stream.name: str(stream.topic) for stream in streams if stream.published}


Places = dict[str, tuple[Type, dict[str, list[str]]]]
"""For every attribute its type, and where in a packed row it is in which streams."""


def attribute_columns(catalogue: Catalogue, published: Sequence[str]) -> Places:
    """The columns of derived events: one for each name, whichever streams have such an attribute."""
    places: Places = {}
    first: dict[str, tuple[str, Type]] = {}
    for stream in published:
        for name, (type, text) in _places_in(catalogue.streams[stream].schema).items():
            if name in OWN or name.startswith(RESERVED):
                raise DistributaryError(
                    f"the stream {stream} publishes {name!r}, a name that is taken; rename it"
                )
            other, known = first.setdefault(name, (stream, type))
            if known is not type and {known, type} != {Type.INTEGER, Type.NUMBER}:
                raise DistributaryError(
                    f"the streams {other} and {stream} both publish {name!r}, as {known} and as {type}: "
                    "subscriptions could not tell what it is; rename one of them"
                )
            merged = type if known is type else Type.NUMBER
            first[name] = other, merged
            before = places.get(name, (merged, {}))[1]
            before.setdefault(text, []).append(stream)
            places[name] = merged, before
    return places


def require_columns_to_keep(catalogue: Catalogue) -> None:
    """Refuse attributes that cannot be columns of one table of files, where case makes no difference."""
    taken = {name: f"its own {name}" for name in (*OWN, "batch")}
    for stream in published_topics(catalogue):
        for name in catalogue.streams[stream].schema.attributes:
            other = taken.setdefault(name.lower(), repr(name))
            if other != repr(name):
                raise DistributaryError(
                    f"the stream {stream} publishes {name!r}, which an archive cannot tell from {other}; "
                    "rename it"
                )


def _places_in(schema: Schema) -> dict[str, tuple[Type, str]]:
    names = [name for name in schema.attributes if name != schema.time]
    found = {
        name: (schema.attributes[name], f"get({array}, {place})")
        for name, (array, place) in packing(names, schema).items()
    }
    return {**found, schema.time: (Type.INTEGER, "time")}


def _attribute(name: str, type: Type, where: Mapping[str, list[str]]) -> Column:
    value = F.lit(None).cast(SQL_TYPES[type])
    for text, streams in where.items():
        value = F.when(F.col(STREAM).isin(streams), F.expr(text).cast(SQL_TYPES[type])).otherwise(value)
    return value


@dataclass(frozen=True)
class FlowTask:
    """Does all that is to be done with the items of queries."""

    match: MatchTask
    sources: Mapping[str, str]
    """Each with the attribute that holds its time."""
    checkpoint: str
    """Where Spark notes the watermark of each micro-batch."""

    def run(self, batches: Batches) -> Batches:
        aside: list[pa.RecordBatch] = []
        for matched in self.match.run(self._published(batches, aside)):
            yield matched
            yield from aside
            aside.clear()
        yield from aside

    def packed(self, batches: Batches) -> Batches:
        """All rows, and the events whose matches depend on tolerances, for the state that keeps those."""
        aside: list[pa.RecordBatch] = []
        pack = PackTask(self.match.parts, self.match.columns)
        for events in self._published(batches, aside):
            yield from pack.run(iter([events]))
            yield from packed_rows(self.match.run(iter([events])))
            yield from packed_rows(aside)
            aside.clear()
        yield from packed_rows(aside)

    def _published(self, batches: Batches, aside: list[pa.RecordBatch]) -> Batches:
        """The events to match; the rows about all others go aside."""
        watermark = self._watermark()
        for batch in batches:
            table = pa.Table.from_batches([batch])
            fits = table.filter(pc.is_null(table[REASON]))
            late = self._late(fits, watermark)
            aside += [*self._rejected(table.filter(pc.is_valid(table[REASON]))), *self._rejected(late)]
            aside += self._counted(fits, late)
            yield from fits.filter(pc.is_valid(fits["topic"])).combine_chunks().to_batches()

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
        for name, told in ((FIELD, fields), (REASON, reasons)):
            late = late.set_column(late.schema.get_field_index(name), name, pa.array(told, pa.string()))
        return late

    def _rejected(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        if rows.num_rows:
            told = {"event_id": rows["id"], "field": rows[FIELD], "reason": rows[REASON]}
            yield self._shape.told(REJECTED, rows, {name: _whole(found) for name, found in told.items()})

    def _counted(self, items: pa.Table, late: pa.Table) -> Iterator[pa.RecordBatch]:
        if not items.num_rows:
            return
        totals = items.group_by(STREAM).aggregate([(SIZE, "sum"), (SIZE, "count")])
        counts = late.group_by(STREAM).aggregate([(SIZE, "count")]).to_pylist()
        too_late = {row[STREAM]: row[f"{SIZE}_count"] for row in counts}
        records = [
            {
                "items": row[f"{SIZE}_count"],
                "bytes": row[f"{SIZE}_sum"],
                "late": too_late.get(row[STREAM], 0),
            }
            for row in totals.to_pylist()
        ]
        told = {
            "subscription_id": _whole(totals[STREAM]),
            "record": pa.array([json.dumps(record) for record in records], pa.string()),
        }
        yield self._shape.told(FLOW, items.slice(0, totals.num_rows), told)

    @property
    def _shape(self) -> TaggedRows:
        assert isinstance(self.match.shape, TaggedRows)
        return self.match.shape


def _whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
