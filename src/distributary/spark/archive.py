"""The archive: every well-formed event of a pipeline as it came, by batch, for subscribers of a later day.

`<path>/batch=<id>` holds the events of a micro-batch with their own columns, as Parquet. The record of the
batch (see `pipeline_commits`) tells which version of the subscriptions it was matched against.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from distributary.spark.pipeline_config import UNREADABLE
from distributary.spark.sink_files import read_batches, write_batch


def write_archive(kept: DataFrame, path: str, batch: int, rows: int) -> None:
    """Write the events of a batch, from tagged rows that are events."""
    write_batch(kept.select("event.*").drop(UNREADABLE), path, batch, rows=rows)


def read_archive(spark: SparkSession, path: str) -> DataFrame:
    """The archived events of all complete batches, with the column `batch`."""
    return read_batches(spark, path)
