"""A pipeline as a streaming query: source, matching and sinks put together.

    query = start(spark, load_pipeline("pipeline.toml"))
    query.awaitTermination()

`distributary run` does the same with a session of its own, progress and a clean stop (see `pipeline_run`).
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import TimestampNTZType, TimestampType

from distributary.errors import DistributaryError
from distributary.flow.catalogue import Catalogue
from distributary.flow.language.file import read_query_file
from distributary.spark.columns import EventColumns
from distributary.spark.index.routing import routed
from distributary.spark.pipeline.commits import directories, exists, read_text, write_whole
from distributary.spark.pipeline.config import FILE_FORMATS, UNREADABLE, Pipeline, derived_in
from distributary.spark.pipeline.delivery_files import batches_begun
from distributary.spark.pipeline.sink import BatchWriter
from distributary.spark.pipeline.source import has_unreadable, read_source
from distributary.spark.queries.matching import derived_rows, published_topics
from distributary.spark.queries.run import limit_methods
from distributary.store import SubscriptionStore, open_store

Route = Callable[..., DataFrame]
"""What makes tagged rows of events: `routing.routed`, or something with the same parameters."""

ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
STATE_STORE = "spark.sql.streaming.stateStore.providerClass"


def start(spark: SparkSession, pipeline: Pipeline, route: Route = routed) -> StreamingQuery:
    """Start a pipeline in a session; with a checkpoint that exists it goes on where it was."""
    require_own_outputs(pipeline)
    require_the_same_queries(pipeline)
    spark.conf.set(STATE_STORE, pipeline.spark.get(STATE_STORE, ROCKSDB))
    events = read_source(spark, pipeline.source)
    store = subscription_store(pipeline)
    rows = tagged_rows(events, pipeline, store, route)
    writer = rows.writeStream.queryName(pipeline.name).option("checkpointLocation", pipeline.checkpoint)
    if pipeline.trigger.available_now:
        writer = writer.trigger(availableNow=True)
    else:
        writer = writer.trigger(processingTime=pipeline.trigger.every or "0 seconds")
    return writer.foreachBatch(batch_writer(events, pipeline)).start()


def subscription_store(pipeline: Pipeline) -> SubscriptionStore:
    """The store of a pipeline; an empty one is made where there is none."""
    given = pipeline.subscriptions
    return open_store(given.store, create=True, workspace=given.workspace)


def tagged_rows(events: DataFrame, pipeline: Pipeline, store: SubscriptionStore, route: Route) -> DataFrame:
    """The stream of tagged rows, with all events: the archive needs all of their columns, counting a few."""
    named = pipeline.events
    corrupt = UNREADABLE if has_unreadable(events) else None
    topic = [named.topic] if pipeline.metrics and named.topic in events.columns else []
    order = [named.order] if named.order is not None else []
    columns = EventColumns(named.id, named.topic, named.document, named.order, corrupt)
    carry = list(dict.fromkeys([*pipeline.sink.columns, *topic]))
    rows = route(
        events,
        store,
        columns=columns,
        keep_events=True if pipeline.archive else [*topic, *order],
        carry=carry,
        tolerances=named.order is not None,
        strategy=pipeline.subscriptions.strategy,
    )
    catalogue = query_catalogue(pipeline)
    if catalogue is None:
        return rows
    limit_methods(events.sparkSession)
    derived = derived_rows(
        events,
        catalogue,
        columns,
        store,
        like=rows,
        carry=carry,
        checkpoint=pipeline.checkpoint,
        keep=pipeline.archive is not None,
    )
    return rows.unionByName(derived, allowMissingColumns=True)


def batch_writer(events: DataFrame, pipeline: Pipeline) -> BatchWriter:
    """What writes the micro-batches of a pipeline with such events."""
    order = pipeline.events.order
    times = order is not None and isinstance(events.schema[order].dataType, TimestampType | TimestampNTZType)
    catalogue = query_catalogue(pipeline)
    return BatchWriter(
        sink=pipeline.sink,
        quarantine=pipeline.quarantine,
        commits=pipeline.commits,
        checkpoint=pipeline.checkpoint,
        archive=pipeline.archive,
        metrics=pipeline.metrics,
        topic=pipeline.events.topic if pipeline.events.topic in events.columns else None,
        clock=order if times else None,
        operators=query_operators(catalogue),
        published={} if catalogue is None else published_topics(catalogue),
    )


def query_catalogue(pipeline: Pipeline) -> Catalogue | None:
    """The queries of a pipeline, if it has any."""
    if pipeline.queries is None:
        return None
    catalogue = read_query_file(pipeline.queries)
    catalogue.check()
    return catalogue


def query_operators(catalogue: Catalogue | None) -> dict[str, tuple[str, tuple[str, ...]]]:
    """The streams of queries, each with its kind and the streams it is made of."""
    if catalogue is None:
        return {}
    streams: dict[str, tuple[str, tuple[str, ...]]] = dict.fromkeys(catalogue.sources, ("source", ()))
    for each in catalogue.operators:
        streams |= dict.fromkeys(each.streams, (each.operation.kind, each.inputs))
    return streams


def require_the_same_queries(pipeline: Pipeline) -> None:
    """Refuse to go on with other queries than those whose state a checkpoint holds."""
    catalogue = query_catalogue(pipeline)
    written = "" if catalogue is None else repr((sorted(catalogue.sources.items()), catalogue.operators))
    digest = sha256(written.encode()).hexdigest() if written else "none"
    place = f"{pipeline.checkpoint}/queries"
    if not exists(f"{pipeline.checkpoint}/metadata"):
        if catalogue is not None:
            write_whole(place, digest)
        return
    before = read_text(place) if exists(place) else "none"
    if before != digest:
        raise DistributaryError(
            f"the queries are others than those of the checkpoint {pipeline.checkpoint}, which holds their "
            "state: bring them back, or choose another checkpoint and other outputs"
        )


def require_own_outputs(pipeline: Pipeline) -> None:
    """Refuse to overwrite what another run has written, or to mix two layouts in one directory."""
    outputs = [pipeline.quarantine, pipeline.archive]
    if pipeline.archive:
        outputs.append(derived_in(pipeline.archive))
    if pipeline.sink.format in FILE_FORMATS:
        outputs.append(pipeline.sink.path)
        _require_one_layout(pipeline)
    if pipeline.metrics:
        outputs += [f"{pipeline.metrics}/{table}" for table in ("topics", "subscriptions", "operators")]
    if exists(f"{pipeline.checkpoint}/metadata"):
        return
    for output in outputs:
        if output and batches_begun(output):
            raise DistributaryError(
                f"the checkpoint {pipeline.checkpoint} is new, but {output} holds batches of an earlier run, "
                "which would be overwritten: bring that checkpoint back, or choose another path"
            )


def _require_one_layout(pipeline: Pipeline) -> None:
    sink = pipeline.sink
    assert sink.path is not None
    other = "batch=" if sink.each else "each="
    if any(one.rpartition("/")[2].startswith(other) for one in directories(sink.path)):
        before = "one directory a batch" if sink.each else "a directory for each subscriber"
        raise DistributaryError(
            f"[sink] each: {sink.path} was written with {before}; choose another path to change that"
        )
