"""A pipeline as a streaming query: source, matching, queries and sinks put together.

    query = start(spark, load_pipeline("pipeline.toml"))
    query.awaitTermination()

`distributary run` does the same with a session of its own, progress and a clean stop (see `run`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from hashlib import sha256
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import StructType, TimestampNTZType, TimestampType

from distributary.errors import DistributaryError, SubscriptionWarning
from distributary.filters.lint.schema import EventSchema
from distributary.flow.catalogue import Catalogue
from distributary.spark import storage
from distributary.spark.columns import quoted
from distributary.spark.index.build import live_index
from distributary.spark.lint import lint_of
from distributary.spark.pipeline.checkpoint_format import bring_offsets_forward
from distributary.spark.pipeline.config import FILE_FORMATS, Pipeline, derived_in
from distributary.spark.pipeline.deliveries import delivery_schema, is_staged_as_written
from distributary.spark.pipeline.derived import attribute_columns, derived_rows, published_topics
from distributary.spark.pipeline.followed.follow import follow_once
from distributary.spark.pipeline.job import staged
from distributary.spark.pipeline.outputs import batches_begun
from distributary.spark.pipeline.receipts import RECEIPT_DDL
from distributary.spark.pipeline.sink import BatchWriter
from distributary.spark.pipeline.source import read_source
from distributary.spark.pipeline.staging import (
    ARCHIVE,
    DELIVERIES,
    DERIVED_ITEMS,
    EVENT_IDS,
    QUARANTINE,
    SUBSCRIPTIONS,
    TOPICS,
    Staging,
)
from distributary.spark.pipeline.tables.sink import require_table
from distributary.spark.pipeline.tolerance_memory import MEMORY, divisions_of, memory_in
from distributary.spark.places import REASON, SOURCE_PLACE, UNREADABLE
from distributary.spark.queries.sql import SQL_TYPES
from distributary.spark.rows import TaggedRows
from distributary.spark.session import ROCKSDB, STATE_STORE
from distributary.spark.tasks import MatchTasks
from distributary.spark.workers import map_in_arrow


def _warn(line: str) -> None:
    warnings.warn(line, SubscriptionWarning, stacklevel=3)


def start(spark: SparkSession, pipeline: Pipeline, *, tell: Callable[[str], None] = _warn) -> StreamingQuery:
    """Start a pipeline in a session; with a checkpoint that exists it goes on where it was.

        query = start(spark, load_pipeline("pipeline.toml"))

    Unless the file says `lint = false`, `tell` is called with a line for each thing that keeps subscriptions
    from matching such events; the default is a `SubscriptionWarning`. Raises `DistributaryError` when outputs
    of another run would be overwritten, when the queries are others than those of the checkpoint, when the
    table of the sink cannot hold the deliveries, and when Spark cannot read the source.
    """
    require_own_outputs(pipeline)
    _require_the_same_queries(pipeline)
    pipeline.store.create()
    follow_once(spark, pipeline, tell)
    spark.conf.set(STATE_STORE, pipeline.spark.get(STATE_STORE, ROCKSDB))
    events = read_source(spark, pipeline.source, pipeline.events.id, pipeline.events.topic)
    receipts, commit = receipts_of(events, pipeline)
    if pipeline.sink.is_table:
        require_table(pipeline.sink, commit.deliveries)
    bring_offsets_forward(pipeline.checkpoint, receipts)
    commit.staging.clear()
    writer = receipts.writeStream.queryName(pipeline.name)
    if pipeline.trigger.available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=pipeline.trigger.every or "0 seconds")
    writer = writer.option("checkpointLocation", pipeline.checkpoint)
    for line in lint_lines(events, pipeline):
        tell(line)
    return writer.foreachBatch(commit).start()


def lint_lines(events: DataFrame, pipeline: Pipeline) -> list[str]:
    """What is to be told of the store's subscriptions, held against the events and what queries publish."""
    if not pipeline.subscriptions.lint:
        return []
    published = [] if pipeline.queries is None else [_published_schema(pipeline.queries)]
    linted = lint_of(events.schema, pipeline.columns, *published)
    if linted is None:
        return []
    linted.look(pipeline.store.table)
    return linted.lines


def _published_schema(catalogue: Catalogue) -> EventSchema:
    """What the items of published streams have when they are matched."""
    places = attribute_columns(catalogue, list(published_topics(catalogue)))
    types = [f"{quoted(name)} {SQL_TYPES[type]}" for name, (type, _) in places.items()]
    return EventSchema.of_ddl(", ".join(["topic string", *types]))


def receipts_of(events: DataFrame, pipeline: Pipeline) -> tuple[DataFrame, BatchWriter]:
    """The stream of receipts, whose tasks match the events and stage all outputs, and what commits them.

    All matches of an event are made deliveries by one task: the one that has the event, or, where parts of
    an index or tolerances have a say, one to which they are brought.
    """
    columns = pipeline.columns
    bare = [name for name in events.columns if name not in (UNREADABLE, SOURCE_PLACE, REASON)]
    topic = columns.topic if pipeline.metrics and columns.topic in bare else None
    named = [] if topic is None else [topic]
    order = [columns.order] if columns.order is not None else []
    carry = list(dict.fromkeys([*pipeline.sink.columns, *named]))
    kept = bare if pipeline.archive else [*named, *order]
    columns.check(events.schema, [*carry, *kept])
    index = live_index(events.sparkSession, pipeline.store, pipeline.index_options, follow=events.isStreaming)
    tagged = TaggedRows.of(bare, columns.id, carry, kept, flows=False)
    inner = tagged.event_schema(events.schema)
    derived = None if pipeline.queries is None else derived_rows(events, pipeline, carry, inner)
    divisions = divisions_of(events.sparkSession, pipeline.checkpoint, index.plan)
    writer = batch_writer(pipeline, inner, derived, divisions)
    receipts = staged(MatchTasks(index, columns, tagged), events, writer.staging)
    if derived is not None:
        receipts = receipts.union(map_in_arrow(derived, writer.staging.run_task, RECEIPT_DDL))
    return receipts, writer


def batch_writer(
    pipeline: Pipeline, event: StructType, derived: DataFrame | None = None, divisions: int | None = None
) -> BatchWriter:
    """What writes the micro-batches of a run of a pipeline, whose tagged rows have such events."""
    sink, order, topic = pipeline.sink, pipeline.events.order, pipeline.events.topic
    by_tasks = sink.path is not None and is_staged_as_written(sink)
    places = {EVENT_IDS: pipeline.checkpoint, QUARANTINE: pipeline.quarantine}
    places[MEMORY] = memory_in(pipeline.checkpoint)
    places[DELIVERIES] = str(sink.path) if by_tasks else pipeline.checkpoint
    deliveries = delivery_schema(event, sink.columns)
    schemas = {DELIVERIES: deliveries.json()}
    if pipeline.archive:
        places[ARCHIVE], schemas[ARCHIVE] = pipeline.archive, event.json()
        if derived is not None:
            places[DERIVED_ITEMS] = derived_in(pipeline.archive)
            schemas[DERIVED_ITEMS] = derived.schema["derived"].dataType.json()
    if pipeline.metrics:
        places |= {TOPICS: f"{pipeline.metrics}/topics", SUBSCRIPTIONS: f"{pipeline.metrics}/subscriptions"}
    times = order in event.names and isinstance(event[order].dataType, TimestampType | TimestampNTZType)
    staging = Staging(
        uuid4().hex,
        places,
        schemas,
        sink.columns,
        sink.each if by_tasks else False,
        topic if topic in event.names else None,
        order if times else None,
        divisions,
    )
    return BatchWriter(pipeline, staging, deliveries)


def queries_digest(catalogue: Catalogue) -> str:
    """A hash of all sources and operators. Checkpoints keep it, so later releases must give the same one."""
    written = repr((sorted(catalogue.sources.items()), catalogue.operators))
    # In the releases that wrote the first checkpoints, filters had a shorter name.
    written = written.replace("operation=FilterOperation(", "operation=Filter(")
    # They knew neither topics of operators nor derived sources.
    written = written.replace(", publish=None)", ")").replace(", derived=False)", ")")
    return sha256(written.encode()).hexdigest()


def _require_the_same_queries(pipeline: Pipeline) -> None:
    """Raise an error if the queries are others than those whose state the checkpoint holds."""
    checkpoint, catalogue = pipeline.checkpoint, pipeline.queries
    digest = "none" if catalogue is None else queries_digest(catalogue)
    place = f"{checkpoint}/queries"
    if not storage.exists(f"{checkpoint}/metadata"):
        if catalogue is not None:
            storage.write_atomically(place, digest)
        return
    before = storage.read_text(place) if storage.exists(place) else "none"
    if before != digest:
        raise DistributaryError(
            f"the queries are others than those of the checkpoint {checkpoint}, which holds their "
            "state: bring them back, or choose another checkpoint and other outputs"
        )


def require_own_outputs(pipeline: Pipeline) -> None:
    """Raise an error if what another run has written would be overwritten, or two layouts be mixed."""
    outputs = [pipeline.quarantine]
    if pipeline.archive:
        outputs += [pipeline.archive, derived_in(pipeline.archive)]
    path, each = pipeline.sink.path, pipeline.sink.each
    if path is not None and pipeline.sink.format in FILE_FORMATS:
        outputs.append(path)
        other, layout = "each=", "a directory for each subscriber"
        if each:
            other, layout = "batch=", "one directory a batch"
        if any(one.rpartition("/")[2].startswith(other) for one in storage.directories(path)):
            raise DistributaryError(
                f"[sink] each: {path} was written with {layout}; choose another path to change that"
            )
    if pipeline.metrics:
        outputs += [f"{pipeline.metrics}/{table}" for table in ("topics", "subscriptions", "operators")]
    if storage.exists(f"{pipeline.checkpoint}/metadata"):
        return
    for output in outputs:
        if batches_begun(output):
            raise DistributaryError(
                f"the checkpoint {pipeline.checkpoint} is new, but {output} holds batches of an earlier run, "
                "which would be overwritten: bring that checkpoint back, or choose another path"
            )
