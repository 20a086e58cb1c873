"""Deliveries: one row for each event and subscriber, and the sinks they go to.

A delivery has `event_id`, `subscriber`, `subscriptions` (the ids that matched, sorted) and the columns of the
event that the sink carries. Five layouts:

- files: `<path>/batch=<id>`, replaced by a batch that is done again;
- files, each: `<path>/each=<subscriber>/batch=<id>`, and `_complete/<id>` when all are there; those that have
  no directory of their own share `each=__HIVE_DEFAULT_PARTITION__`, Spark's name for null;
- Kafka, exactly once: one transaction a batch, written by the driver (`kafka_sink`);
- Delta and Iceberg: one transaction a batch, too, written by the driver (`tables`);
- anything else: rows appended, with the batch id in a column. A batch that is done again appends again.

Parquet without options is what tasks have staged, put in place; tables take what was staged from the driver.
For all else a job of Spark's reads what was
staged and writes it in the format of the sink; so it does where deliveries of one event and subscriber were
made in several places, to make them one (`regrouped`).

A subscriber's name becomes the name of a directory or a Kafka topic as it is when it can be one. Otherwise it
is shortened to what is allowed there with a hash behind it; names that look as if they had one get one too,
so that no two subscribers ever share a place.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from distributary.spark import storage
from distributary.spark.columns import quoted
from distributary.spark.pipeline.config import FILE_FORMATS, SUBSCRIBER, Sink
from distributary.spark.pipeline.directories import DEFAULT_PARTITION
from distributary.spark.pipeline.kafka_sink import write_once
from distributary.spark.pipeline.outputs import (
    mark_complete,
    put_in_directories,
    put_in_place,
    read_batches,
    remove_spread,
)
from distributary.spark.pipeline.receipts import Receipt, StagedFile
from distributary.spark.pipeline.staging import DELIVERIES, EVENT_IDS
from distributary.spark.pipeline.tables.sink import write_rows_once, write_staged_once

HASHED = r"-[0-9a-f]{32}\z"
DIRECTORY_NAME = r"^[^\p{Cntrl}]{1,60}\z"
"""Short enough for a directory's name even if every character has to be escaped."""
TOPIC_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\z"
"""They end where the name ends: a `$` would let a line break pass there."""
ROWS_A_FILE = 200_000
MOST_IDS = 1 << 22
"""Event ids that the driver compares; of more, deliveries are made one by Spark in any case."""


def is_staged_as_written(sink: Sink) -> bool:
    """Whether what tasks stage is what the sink is to hold."""
    return sink.format == "parquet" and not sink.options


def delivery_schema(event: StructType, columns: Sequence[str]) -> StructType:
    """The columns of deliveries, for events of this schema."""
    plain = [StructField(name, StringType()) for name in ("event_id", "subscriber")]
    asked = StructField("subscriptions", ArrayType(StringType()))
    carried = [StructField(name, event[name].dataType) for name in columns]
    return StructType([*plain, asked, *carried])


def write_deliveries(
    spark: SparkSession, receipt: Receipt, sink: Sink, batch: int, schema: StructType, checkpoint: str
) -> int:
    """Write the deliveries that tasks have staged for a batch; returns how many there were.

    The checkpoint is that of the pipeline: the transactions of Kafka and of tables are known by it.
    """
    files = receipt.of(DELIVERIES)
    count = sum(one.rows for one in files)
    alone = not any_repeated(receipt.of(EVENT_IDS))
    if alone and is_staged_as_written(sink):
        assert sink.path is not None, "a sink of files has a path"
        put = put_in_directories if sink.each else put_in_place
        put(files, sink.path, batch)
        return count
    if alone and sink.is_table:
        write_staged_once(sink, files, schema, checkpoint, batch)
        return count
    rows = spark.read.schema(schema).parquet(*(one.location for one in files))
    if not alone:
        rows = regrouped(rows, sink.columns).persist()
    try:
        count = count if alone else rows.count()
        if sink.exactly_once:
            assert sink.topic is not None, "Kafka has a topic"
            write_once(kafka_rows(rows, sink.topic, batch), sink.options, sink.topic, checkpoint, batch)
        elif sink.is_table:
            write_rows_once(sink, rows.toArrow(), schema, checkpoint, batch)
        else:
            _write_by_spark(rows, sink, batch, count)
    finally:
        if not alone:
            rows.unpersist()
    return count


def any_repeated(files: Sequence[StagedFile]) -> bool:
    """Whether deliveries of one event may have been made in more than one place."""
    if len(files) < 2:
        return False
    total = sum(one.rows for one in files)
    if total > MOST_IDS:
        return True
    ids = pa.concat_tables(storage.read_table(one.location) for one in files)["event_id"]
    return int(pc.count_distinct(ids).as_py()) < total


def regrouped(rows: DataFrame, columns: Sequence[str]) -> DataFrame:
    """Deliveries of which some have the same event and subscriber, made one."""
    asked = F.sort_array(F.array_distinct(F.flatten(F.collect_list("subscriptions"))))
    carried = [F.first(quoted(name)).alias(name) for name in columns]
    return rows.groupBy("event_id", "subscriber").agg(asked.alias("subscriptions"), *carried)


def read_deliveries(spark: SparkSession, path: str, format: str = "parquet") -> DataFrame:
    """What has been delivered to files by complete batches, with the column `batch`.

        read_deliveries(spark, "deliveries").where("subscriber = 'ann'").show()

    Raises `DistributaryError` when no batch is complete.
    """
    return read_batches(spark, path, format).drop("each")


def kafka_rows(found: DataFrame, topic: str, batch: int) -> DataFrame:
    """Deliveries as messages: the topic, the subscriber as key, and the delivery as JSON.

    `{subscriber}` in the topic stands for the subscriber.
    """
    before, each, after = topic.partition(SUBSCRIBER)
    name = (
        F.concat(F.lit(before), place_name("subscriber", TOPIC_NAME), F.lit(after)) if each else F.lit(topic)
    )
    delivery = F.struct(*[F.col(quoted(one)) for one in found.columns], F.lit(batch).alias("batch"))
    return found.select(
        name.alias("topic"), F.col("subscriber").alias("key"), F.to_json(delivery).alias("value")
    )


def place_name(column: str, allowed: str) -> Column:
    """The name of a subscriber's place: their own when it is allowed, else one with a hash of it."""
    subscriber = F.col(column)
    plain = subscriber.rlike(allowed) & ~subscriber.rlike(HASHED) & (subscriber != DEFAULT_PARTITION)
    readable = F.substring(F.regexp_replace(subscriber, "[^A-Za-z0-9]", "_"), 1, 20)
    return F.when(plain, subscriber).otherwise(
        F.concat(F.lit("x"), readable, F.lit("-"), F.substring(F.sha2(subscriber, 256), 1, 32))
    )


def directory_name(sink: Sink) -> Column:
    """What follows `each=` in the name of a delivery's directory; null where that is shared."""
    name = place_name("subscriber", DIRECTORY_NAME)
    if isinstance(sink.each, tuple):
        return F.when(F.col("subscriber").isin(list(sink.each)), name)
    return name


def _write_by_spark(rows: DataFrame, sink: Sink, batch: int, count: int) -> None:
    if sink.format == "csv":  # which has no lists
        rows = rows.withColumn("subscriptions", F.to_json("subscriptions"))
    files = max(1, ceil(count / ROWS_A_FILE))
    if sink.format not in FILE_FORMATS:
        _append(rows, sink, batch)
    elif sink.each:
        _write_each(rows, sink, batch, files)
    else:
        writer = rows.coalesce(files).write.format(sink.format).options(**dict(sink.options))
        writer.mode("overwrite").save(f"{sink.path}/batch={batch}")


def _write_each(found: DataFrame, sink: Sink, batch: int, files: int) -> None:
    assert sink.path is not None, "a sink of files has a path"
    remove_spread(sink.path, batch)
    placed = found.withColumn("each", directory_name(sink)).withColumn("batch", F.lit(batch))
    # All rows of a directory come from one task, so that each is one file.
    writer = placed.repartition(files, "each").write.format(sink.format)
    writer = writer.options(**dict(sink.options)).option("partitionOverwriteMode", "dynamic")
    writer.mode("overwrite").partitionBy("each", "batch").save(sink.path)
    mark_complete(sink.path, batch)


def _append(found: DataFrame, sink: Sink, batch: int) -> None:
    if sink.format == "kafka":
        assert sink.topic is not None
        rows = kafka_rows(found, sink.topic, batch)
    else:
        rows = found.withColumn("batch", F.lit(batch).cast("long"))
    writer = rows.write.format(sink.format).options(**dict(sink.options)).mode("append")
    writer.save(sink.path)
