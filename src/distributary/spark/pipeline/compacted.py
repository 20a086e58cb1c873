"""Batches of an output that were put together: many small directories become one larger.

`<output>/_compacted/<first>-<last>/` holds the rows of many batches as Parquet, with their `batch` as a
column, and `<first>-<last>.json` beside it lists these batches. That list is what makes it count, and it is
written last: from then on the batches are read from there, whether or not their own directories are gone yet.
Spark's own reading of `<output>` passes over it, for its name begins with an underscore; `read_deliveries`
and its like do not.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import reduce
from pathlib import PurePosixPath

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.spark import storage

COMPACTED = "_compacted"


def compacted_batches(path: str) -> dict[int, str]:
    """The batches of an output that were put together, and in which directory each of them is."""
    found: dict[int, str] = {}
    home = f"{path}/{COMPACTED}"
    for name in storage.file_names(home):
        if name.endswith(".json"):
            listed = json.loads(storage.read_text(f"{home}/{name}"))["batches"]
            found |= dict.fromkeys(listed, f"{home}/{PurePosixPath(name).stem}")
    return found


def list_compacted(path: str, batches: Iterable[int], directory: str) -> None:
    """Have a directory count for these batches."""
    name = PurePosixPath(directory).name
    storage.write_atomically(f"{path}/{COMPACTED}/{name}.json", json.dumps({"batches": sorted(batches)}))


def remove_compacted(directory: str) -> None:
    """Remove a directory of batches that were put together, once it does not count any more."""
    storage.remove_file(f"{directory}.json")
    storage.remove_directory(directory)


def read_compacted(spark: SparkSession, found: dict[int, str]) -> DataFrame | None:
    """The rows of these batches, each with the directory it is in; None where there is none."""
    directories: dict[str, list[int]] = {}
    for batch, directory in found.items():
        directories.setdefault(directory, []).append(batch)
    frames = [
        _rows_in(spark, directory).where(F.col("batch").isin(batches))
        for directory, batches in directories.items()
    ]
    return together(frames)


def _rows_in(spark: SparkSession, directory: str) -> DataFrame:
    rows = spark.read.parquet(directory)
    # Names of subscribers' directories are numbers to Spark, if all of them could be.
    return rows.drop("each") if storage.spread_directories(directory) else rows


def together(frames: Iterable[DataFrame | None]) -> DataFrame | None:
    """The rows of all frames, with the columns that any of them has; None if there are no frames."""
    there = [frame for frame in frames if frame is not None]
    if not there:
        return None
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), there)
