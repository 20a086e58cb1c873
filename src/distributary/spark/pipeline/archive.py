"""The archive: every well-formed event of a pipeline as it came, by batch, for subscribers of a later day.

`<path>/batch=<id>` holds the events of a micro-batch with their own columns, as Parquet. The record of the
batch (see `pipeline_commits`) tells which version of the subscriptions it was matched against.

With queries, `<path>/_derived/batch=<id>` holds what these published in a micro-batch, as it was matched: id
(`query/operator#id`), topic, the column by which tolerances saw it, and a column for every attribute that
any published stream has. Whoever reads all of `<path>` as Parquet passes over it, for its name begins with
an underscore. Batches without events may have derived items: windows are given out when their time has come.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.errors import DistributaryError
from distributary.spark.pipeline.commits import complete_batches
from distributary.spark.pipeline.config import UNREADABLE, derived_in
from distributary.spark.pipeline.delivery_files import read_batches, write_batch


def write_archive(kept: DataFrame, path: str, batch: int, rows: int) -> None:
    """Write the events of a batch, from tagged rows that are events."""
    write_batch(kept.select("event.*").drop(UNREADABLE), path, batch, rows=rows)


def write_derived(kept: DataFrame, path: str, batch: int, rows: int) -> None:
    """Write what queries published in a batch, from tagged rows that are derived items."""
    write_batch(kept.select("derived.*"), derived_in(path), batch, rows=rows)


def read_archive(spark: SparkSession, path: str) -> DataFrame:
    """The archived events of all complete batches, with the column `batch`."""
    return read_batches(spark, path)


def read_derived(spark: SparkSession, path: str) -> DataFrame:
    """What queries published in all complete batches of the archive at a path, with the column `batch`."""
    derived = derived_in(path)
    complete = complete_batches(derived)
    if not complete:
        raise DistributaryError(f"{derived} holds no complete batch")
    return read_some(spark, derived, complete)


def read_some(spark: SparkSession, path: str, batches: list[int]) -> DataFrame:
    """The rows of these batches of an archive, with the column `batch`."""
    # Columns may have been added to the source since: an event that came before has none of them.
    reader = spark.read.option("basePath", path).option("mergeSchema", "true")
    rows = reader.parquet(*(f"{path}/batch={batch}" for batch in batches))
    return rows.withColumn("batch", F.col("batch").cast("long"))
