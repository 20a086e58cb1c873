"""Deliveries: one row for each event and subscriber, and the sinks they go to.

A delivery has `event_id`, `subscriber`, `subscriptions` (the ids that matched, sorted) and the columns of the
event that the sink carries. Three layouts:

- files: `<path>/batch=<id>`, overwritten by a batch that is done again;
- files, each: `<path>/each=<subscriber>/batch=<id>`, every directory put in place in one step, and
  `_complete/<id>` when all are; those that have no directory of their own share
  `each=__HIVE_DEFAULT_PARTITION__`, Spark's name for null;
- anything else: rows appended, with the batch id in a column. A batch that is done again appends again.

A subscriber's name becomes the name of a directory or a Kafka topic as it is when it can be one. Otherwise it
is shortened to what is allowed there with a hash behind it; names that look as if they had one get one too,
so that no two subscribers ever share a place.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.spark.columns import quoted
from distributary.spark.deliver import deliver
from distributary.spark.pipeline.config import FILE_FORMATS, SUBSCRIBER, Sink
from distributary.spark.pipeline.outputs import files_for, mark_complete, read_batches, write_batch

HASHED = r"-[0-9a-f]{32}\z"
DIRECTORY_NAME = r"^[^\p{Cntrl}]{1,60}\z"
"""Short enough for a directory's name even if every character has to be escaped."""
TOPIC_NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}\z"
"""They end where the name ends: a `$` would let a line break pass there."""
DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def deliveries(matches: DataFrame, columns: tuple[str, ...] = ()) -> DataFrame:
    """One row for each event and subscriber, from tagged rows that are matches."""
    carried = [F.col(f"event.{quoted(name)}").alias(name) for name in columns]
    return deliver(matches.select("event_id", "subscription_id", "subscriber", *carried))


def write_deliveries(found: DataFrame, sink: Sink, batch: int, matches: int) -> int:
    """Write the deliveries of a batch, which come from so many matches; returns how many there were."""
    observation = Observation()
    rows = found.observe(observation, F.count(F.lit(1)).alias("rows"))
    if sink.format == "csv":  # which has no lists
        rows = rows.withColumn("subscriptions", F.to_json("subscriptions"))
    if sink.format not in FILE_FORMATS:
        _append(rows, sink, batch)
    elif sink.each:
        _write_each(rows, sink, batch, matches)
    else:
        assert sink.path is not None
        write_batch(rows, sink.path, batch, rows=matches, format=sink.format, options=sink.options)
    return int(observation.get["rows"])


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


def _write_each(found: DataFrame, sink: Sink, batch: int, matches: int) -> None:
    assert sink.path is not None
    name = place_name("subscriber", DIRECTORY_NAME)
    if isinstance(sink.each, tuple):
        name = F.when(F.col("subscriber").isin(list(sink.each)), name)
    placed = found.withColumn("each", name).withColumn("batch", F.lit(batch))
    # All rows of a directory come from one task, so that each is one file.
    writer = placed.repartition(files_for(matches), "each").write.format(sink.format)
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
