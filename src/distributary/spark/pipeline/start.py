"""A pipeline as a streaming query: source, matching, queries and sinks put together.

    query = start(spark, load_pipeline("pipeline.toml"))
    query.awaitTermination()

`distributary run` does the same with a session of its own, progress and a clean stop (see `run`).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from hashlib import sha256

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import TimestampNTZType, TimestampType

from distributary.errors import DistributaryError, SubscriptionWarning
from distributary.filters.lint.schema import EventSchema
from distributary.flow.catalogue import Catalogue
from distributary.spark import storage
from distributary.spark.columns import quoted
from distributary.spark.index.build import live_index
from distributary.spark.lint import lint_of
from distributary.spark.match import match_with
from distributary.spark.pipeline.config import FILE_FORMATS, Pipeline, derived_in
from distributary.spark.pipeline.derived import attribute_columns, derived_rows, published_topics
from distributary.spark.pipeline.outputs import batches_begun
from distributary.spark.pipeline.sink import BatchWriter
from distributary.spark.pipeline.source import read_source
from distributary.spark.places import SOURCE_PLACE, UNREADABLE
from distributary.spark.queries.sql import SQL_TYPES
from distributary.spark.rows import TaggedRows
from distributary.spark.session import ROCKSDB, STATE_STORE
from distributary.spark.tasks import MatchTasks


def _warn(line: str) -> None:
    warnings.warn(line, SubscriptionWarning, stacklevel=3)


def start(spark: SparkSession, pipeline: Pipeline, *, tell: Callable[[str], None] = _warn) -> StreamingQuery:
    """Start a pipeline in a session; with a checkpoint that exists it goes on where it was.

        query = start(spark, load_pipeline("pipeline.toml"))

    Unless the file says `lint = false`, `tell` is called with a line for each thing that keeps subscriptions
    from matching such events; the default is a `SubscriptionWarning`. Raises `DistributaryError` when outputs
    of another run would be overwritten, when the queries are others than those of the checkpoint, and when
    Spark cannot read the source.
    """
    require_own_outputs(pipeline)
    _require_the_same_queries(pipeline)
    pipeline.store.create()
    spark.conf.set(STATE_STORE, pipeline.spark.get(STATE_STORE, ROCKSDB))
    events = read_source(spark, pipeline.source, pipeline.events.id)
    writer = tagged_rows(events, pipeline).writeStream.queryName(pipeline.name)
    if pipeline.trigger.available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=pipeline.trigger.every or "0 seconds")
    writer = writer.option("checkpointLocation", pipeline.checkpoint)
    for line in lint_lines(events, pipeline):
        tell(line)
    return writer.foreachBatch(batch_writer(events, pipeline)).start()


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


def tagged_rows(events: DataFrame, pipeline: Pipeline) -> DataFrame:
    """The stream of tagged rows, with all events: the archive needs all of their columns, counting a few."""
    columns = pipeline.columns
    bare = [name for name in events.columns if name not in (UNREADABLE, SOURCE_PLACE)]
    topic = [columns.topic] if pipeline.metrics and columns.topic in bare else []
    order = [columns.order] if columns.order is not None else []
    carry = list(dict.fromkeys([*pipeline.sink.columns, *topic]))
    kept = bare if pipeline.archive else [*topic, *order]
    columns.check(events.schema, [*carry, *kept])
    index = live_index(events.sparkSession, pipeline.store, pipeline.index_options, follow=events.isStreaming)
    tagged = TaggedRows.of(bare, columns.id, carry, kept, flows=False)
    rows = match_with(MatchTasks(index, columns, tagged), events)
    if pipeline.queries is None:
        return rows
    derived = derived_rows(events, pipeline, carry, tagged.event_schema(events.schema))
    return rows.unionByName(derived, allowMissingColumns=True)


def batch_writer(events: DataFrame, pipeline: Pipeline) -> BatchWriter:
    """What writes the micro-batches of a pipeline with such events."""
    order, topic = pipeline.events.order, pipeline.events.topic
    times = order is not None and isinstance(events.schema[order].dataType, TimestampType | TimestampNTZType)
    return BatchWriter(pipeline, topic if topic in events.columns else None, order if times else None)


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
