"""Outputs of files: a directory `batch=<id>` for each micro-batch, written as a whole.

Tasks stage the files of a batch (see `staging`); the driver puts them in place when all of them are done, and
then writes the manifest `_SUCCESS`: a JSON object with the files and their rows. Until that is there the
directory does not count. An output that spreads a batch over many directories, `each=<name>/batch=<id>`, has
the file `_complete/<id>` in place of it. A batch that is done again first removes what it put there before.

The archive is such an output. `<path>/batch=<id>` holds every well-formed event of a micro-batch with its own
columns, as Parquet, for subscribers of a later day; the record of the batch (see `commits`) tells which
version of the subscriptions it was matched against. With queries, `<path>/_derived/batch=<id>` holds what
these published in a micro-batch, as it was matched: id (`query/operator#id`), topic, the column by which
tolerances saw it, and a column for every attribute that any published stream has. Reading all of `<path>` as
Parquet passes over it, for its name begins with an underscore. Batches without events may have derived
items: windows are given out when their time has come.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import reduce
from pathlib import PurePosixPath

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyarrow import parquet
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.errors import DistributaryError
from distributary.spark import storage
from distributary.spark.pipeline.compacted import compacted_batches, read_compacted, together
from distributary.spark.pipeline.config import derived_in
from distributary.spark.pipeline.receipts import StagedFile

UNMERGED = "CANNOT_MERGE_SCHEMAS"
"""What Spark says where files have columns of types that it does not make one."""
MANIFEST = "_SUCCESS"
"""The last file of a batch's directory; Spark's writers leave an empty one of that name."""


def put_in_place(files: Sequence[StagedFile], path: str, batch: int) -> None:
    """Make staged files the batch of an output, in place of what it was before."""
    target = f"{path}/batch={batch}"
    storage.remove_directory(target)
    storage.make_directory(target)
    names = [PurePosixPath(one.location).name for one in files]
    for one, name in zip(files, names, strict=True):
        storage.move(one.location, f"{target}/{name}")
    _write_manifest(target, {name: one.rows for one, name in zip(files, names, strict=True)})


def put_in_directories(files: Sequence[StagedFile], path: str, batch: int) -> None:
    """Make staged files the batch of an output that is spread over the directories they name."""
    remove_spread(path, batch)
    for directory in dict.fromkeys(one.directory for one in files):
        storage.make_directory(f"{path}/{directory}/batch={batch}")
    for one in files:
        name = PurePosixPath(one.location).name
        storage.move(one.location, f"{path}/{one.directory}/batch={batch}/{name}")
    mark_complete(path, batch)


def remove_spread(path: str, batch: int) -> None:
    """Remove what a batch has put into the directories of an output."""
    for directory in storage.spread_directories(path):
        storage.remove_directory(f"{directory}/batch={batch}")


def write_table(rows: pa.Table, path: str, batch: int) -> None:
    """Write a few rows that the driver has as the batch of an output, in place of what it was before."""
    target = f"{path}/batch={batch}"
    storage.remove_directory(target)
    with storage.new_file(f"{target}/part-00000.parquet") as stream:
        parquet.write_table(rows, stream, store_schema=False)
    _write_manifest(target, {"part-00000.parquet": rows.num_rows})


def _write_manifest(target: str, files: dict[str, int]) -> None:
    storage.write_atomically(f"{target}/{MANIFEST}", json.dumps({"files": files}))


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
    return found | set(compacted_batches(path))


def complete_batches(path: str) -> list[int]:
    """The ids of the batches that are complete, in order."""
    names = (PurePosixPath(one).name for one in storage.directories(path))
    batches = [name.removeprefix("batch=") for name in names if name.startswith("batch=")]
    marked = storage.which_exist(path, [f"batch={batch}/{MANIFEST}" for batch in batches])
    whole = {int(batch) for batch, found in zip(batches, marked, strict=True) if batch.isdigit() and found}
    spread = set(storage.numbered_files(f"{path}/_complete"))
    return sorted(whole | spread | set(compacted_batches(path)))


def read_batches(spark: SparkSession, path: str, format: str = "parquet") -> DataFrame:
    """What the complete batches of an output hold, with the column `batch`; an error when there is none."""
    complete, elsewhere = _some_complete(path), compacted_batches(path)
    own = [batch for batch in complete if batch not in elsewhere]
    rows = _read_all(spark, path, format, own) if own else None
    found = together([rows, read_compacted(spark, elsewhere)])
    assert found is not None, "some batch is complete"
    return found


def _read_all(spark: SparkSession, path: str, format: str, complete: list[int]) -> DataFrame:
    """The rows of all these batches and no others, of those that have directories of their own."""
    reader = spark.read.format(format).option("basePath", path)
    if format == "parquet":
        # Columns may have come, gone or grown since the first batch.
        try:
            rows = reader.option("mergeSchema", "true").load(path)
            _ = rows.schema
        except (PySparkException, Py4JError) as error:
            if UNMERGED not in str(error):
                raise
            return _read_by_schema(spark, path, complete)
    else:
        rows = reader.load(path)
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
    elsewhere = compacted_batches(path)
    own = [batch for batch in batches if batch not in elsewhere]
    taken = {batch: elsewhere[batch] for batch in batches if batch in elsewhere}
    found = together([_read_own(spark, path, own) if own else None, read_compacted(spark, taken)])
    assert found is not None, "some batch is asked for"
    return found


def _read_own(spark: SparkSession, path: str, batches: list[int]) -> DataFrame:
    """The rows of batches that have directories of their own."""
    if storage.spread_directories(path):
        return _read_all(spark, path, "parquet", batches)
    # Columns may have been added to the source since: an event that came before has none of them.
    reader = spark.read.option("basePath", path).option("mergeSchema", "true")
    try:
        rows = reader.parquet(*(f"{path}/batch={batch}" for batch in batches))
        _ = rows.schema
    except (PySparkException, Py4JError) as error:
        if UNMERGED not in str(error):
            raise
        return _read_by_schema(spark, path, batches)
    return rows.withColumn("batch", F.col("batch").cast("long"))


def _read_by_schema(spark: SparkSession, path: str, batches: list[int]) -> DataFrame:
    """The same where a column has types that Spark does not merge: whole numbers that grew, say.

    Batches of one schema are read together; then the types become those that hold both.
    """
    found: dict[str, list[str]] = {}
    for batch in batches:
        for place in storage.batch_places(path, batch):
            found.setdefault(storage.schema_text(place), []).append(place)
    reader = spark.read.option("basePath", path)
    frames = [reader.parquet(*places) for places in found.values()]
    rows = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    return rows.withColumn("batch", F.col("batch").cast("long"))


def _some_complete(path: str) -> list[int]:
    complete = complete_batches(path)
    if not complete:
        raise DistributaryError(f"{path} holds no complete batch")
    return complete
