"""Outputs of files: a directory `batch=<id>` for each micro-batch, overwritten as a whole, read when whole.

Spark moves the files of a job into place when the job is done and then writes `_SUCCESS`; until that is there
the directory does not count. A batch is written as few files as its rows allow, since a stream makes many.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import PurePosixPath

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.errors import DistributaryError
from distributary.spark.pipeline.commits import complete_batches, directories

ROWS_A_FILE = 200_000


def write_batch(
    frame: DataFrame,
    path: str,
    batch: int,
    *,
    rows: int,
    format: str = "parquet",
    options: Mapping[str, str] | None = None,
) -> None:
    """Write the rows of a batch, of which there are about `rows`, in place of what it wrote before."""
    writer = frame.coalesce(files_for(rows)).write.format(format).options(**dict(options or {}))
    writer.mode("overwrite").save(f"{path}/batch={batch}")


def read_batches(
    spark: SparkSession, path: str, format: str = "parquet", options: Mapping[str, str] | None = None
) -> DataFrame:
    """What the complete batches of an output hold, with the column `batch`."""
    complete = complete_batches(path)
    if not complete:
        raise DistributaryError(f"{path} holds no complete batch")
    reader = spark.read.format(format).options(**dict(options or {})).option("basePath", path)
    rows = reader.load(path).withColumn("batch", F.col("batch").cast("long"))
    # Batches that begin after the look at the marks are newer than all that were complete then.
    known = set(complete)
    partial = [one for one in batches_begun(path) if one not in known]
    return rows.where((F.col("batch") <= max(complete)) & ~F.col("batch").isin(partial))


def batches_begun(path: str) -> set[int]:
    """The ids of all batches of which there is a directory, complete or not."""
    found = set()
    for one in directories(path):
        name = PurePosixPath(one).name
        inner = directories(one) if name.startswith("each=") else [one]
        batches = (PurePosixPath(place).name.removeprefix("batch=") for place in inner)
        found |= {int(batch) for batch in batches if batch.isdigit()}
    return found


def files_for(rows: int) -> int:
    return max(1, ceil(rows / ROWS_A_FILE))
