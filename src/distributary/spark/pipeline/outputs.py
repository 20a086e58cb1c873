"""Outputs of files: a directory `batch=<id>` for each micro-batch, overwritten as a whole.

Spark moves the files of a job into place when the job is done and then writes `_SUCCESS`; until that is there
the directory does not count. An output that spreads a batch over many directories marks it with a file
`_complete/<id>`. A batch is written as few files as its rows allow, since a stream makes many.

The archive is such an output. `<path>/batch=<id>` holds every well-formed event of a micro-batch with its own
columns, as Parquet, for subscribers of a later day; the record of the batch (see `commits`) tells which
version of the subscriptions it was matched against. With queries, `<path>/_derived/batch=<id>` holds what
these published in a micro-batch, as it was matched: id (`query/operator#id`), topic, the column by which
tolerances saw it, and a column for every attribute that any published stream has. Reading all of `<path>` as
Parquet passes over it, for its name begins with an underscore. Batches without events may have derived
items: windows are given out when their time has come.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from pathlib import PurePosixPath

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.errors import DistributaryError
from distributary.spark import storage
from distributary.spark.pipeline.config import derived_in

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


def files_for(rows: int) -> int:
    """As how many files so many rows are written."""
    return max(1, ceil(rows / ROWS_A_FILE))


def mark_complete(path: str, batch: int) -> None:
    """Note that a batch which is spread over many directories is complete."""
    storage.write_atomically(f"{path}/_complete/{batch}", "")


def batches_begun(path: str) -> set[int]:
    """The ids of all batches of which there is a directory, complete or not."""
    found = set()
    for one in storage.directories(path):
        name = PurePosixPath(one).name
        inner = storage.directories(one) if name.startswith("each=") else [one]
        batches = (PurePosixPath(place).name.removeprefix("batch=") for place in inner)
        found |= {int(batch) for batch in batches if batch.isdigit()}
    return found


def complete_batches(path: str) -> list[int]:
    """The ids of the batches that are complete, in order."""
    names = (PurePosixPath(one).name for one in storage.directories(path))
    batches = [name.removeprefix("batch=") for name in names if name.startswith("batch=")]
    marked = storage.which_exist(path, [f"batch={batch}/_SUCCESS" for batch in batches])
    whole = {int(batch) for batch, found in zip(batches, marked, strict=True) if batch.isdigit() and found}
    return sorted(whole | set(storage.numbered_files(f"{path}/_complete")))


def read_batches(spark: SparkSession, path: str, format: str = "parquet") -> DataFrame:
    """What the complete batches of an output hold, with the column `batch`; an error when there is none."""
    complete = _some_complete(path)
    rows = spark.read.format(format).option("basePath", path).load(path)
    # Batches that begin after the look at the marks are newer than all that were complete then.
    partial = batches_begun(path) - set(complete)
    number = F.col("batch").cast("long")
    return rows.withColumn("batch", number).where((number <= max(complete)) & ~number.isin(list(partial)))


def read_archive(spark: SparkSession, path: str) -> DataFrame:
    """The archived events of all complete batches, with the column `batch`.

    read_archive(spark, "archive").where("batch >= 17")
    """
    return read_batches(spark, path)


def read_derived(spark: SparkSession, path: str) -> DataFrame:
    """What queries published in all complete batches of the archive at a path, with the column `batch`."""
    derived = derived_in(path)
    return read_some(spark, derived, _some_complete(derived))


def read_some(spark: SparkSession, path: str, batches: list[int]) -> DataFrame:
    """The rows of these batches of an archive, with the column `batch`."""
    # Columns may have been added to the source since: an event that came before has none of them.
    reader = spark.read.option("basePath", path).option("mergeSchema", "true")
    rows = reader.parquet(*(f"{path}/batch={batch}" for batch in batches))
    return rows.withColumn("batch", F.col("batch").cast("long"))


def _some_complete(path: str) -> list[int]:
    complete = complete_batches(path)
    if not complete:
        raise DistributaryError(f"{path} holds no complete batch")
    return complete
