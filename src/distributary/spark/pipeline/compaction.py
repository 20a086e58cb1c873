"""Putting the batches of outputs together, so that a stream of small batches leaves few files.

Rules: only finished batches that are old enough are taken, of outputs in Parquet; the rows stay the same, and
readers of ours find them in either place (see `compacted`). Where subscribers have directories of their own,
they have them in what is put together as well, `_compacted/<first>-<last>/each=<name>`. A compaction
that is killed is done again or completed by the next. Whoever reads a batch at the moment at which its own
directory is removed fails, and succeeds when he tries again.

Cost: what is taken is read and written once, by Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from pyspark.sql import SparkSession

from distributary.spark import storage
from distributary.spark.pipeline.commits import read_records
from distributary.spark.pipeline.compacted import COMPACTED, compacted_batches, list_compacted
from distributary.spark.pipeline.config import Pipeline, Sink
from distributary.spark.pipeline.deliveries import directory_name
from distributary.spark.pipeline.outputs import MANIFEST, complete_batches, read_some
from distributary.spark.pipeline.retention import note, places_of

MOST_BATCHES = 1_000
"""Batches that are put together in one directory, at most."""
ROWS_A_FILE = 1_000_000


def compact(
    spark: SparkSession, pipeline: Pipeline, older: timedelta, now: datetime, most: int = MOST_BATCHES
) -> dict[str, int]:
    """Put batches together that finished longer ago; gives of how many batches of each output."""
    records = {record.batch: record for record in read_records(pipeline.commits)}
    old = {batch for batch, record in records.items() if record.finished < now - older}
    rows = {batch: max(record.events, record.deliveries) for batch, record in records.items()}
    counts: dict[str, int] = {}
    for name, places in places_of(pipeline).items():
        if name == "quarantine" or (name == "deliveries" and pipeline.sink.format != "parquet"):
            continue
        sink = pipeline.sink if name == "deliveries" and pipeline.sink.each else None
        counts[name] = 0
        for place in places:
            for group in _groups(place, old, most):
                _put_together(spark, place, group, sum(rows[batch] for batch in group), sink)
                counts[name] += len(group)
            _remove_originals(place)
    note(pipeline, "compaction", {f"batches of {name}": count for name, count in counts.items()})
    return counts


def _groups(place: str, old: set[int], most: int) -> Iterator[list[int]]:
    """The batches to put together, in order; one alone is left as it is."""
    done = compacted_batches(place)
    chosen = [batch for batch in complete_batches(place) if batch in old and batch not in done]
    for start in range(0, len(chosen), most):
        if len(group := chosen[start : start + most]) > 1:
            yield group


def _put_together(spark: SparkSession, place: str, group: list[int], rows: int, sink: Sink | None) -> None:
    """Write some batches together; those of a sink are by subscriber, in one file for each."""
    target = f"{place}/{COMPACTED}/{group[0]}-{group[-1]}"
    frame, files = read_some(spark, place, group), max(1, rows // ROWS_A_FILE)
    if sink is None:
        frame.coalesce(files).write.mode("overwrite").parquet(target)
    else:
        # Spark may have read the names of directories as numbers, so they are made anew.
        placed = frame.withColumn("each", directory_name(sink)).repartition(files, "each")
        placed.write.mode("overwrite").partitionBy("each").parquet(target)
    list_compacted(place, group, target)


def _remove_originals(place: str) -> None:
    """Remove the directories of batches that were put together, also by a compaction that was killed."""
    done = compacted_batches(place)
    for batch in sorted(done):
        for mark in (f"{place}/_complete/{batch}", f"{place}/batch={batch}/{MANIFEST}"):
            with suppress(FileNotFoundError):
                storage.remove_file(mark)
        storage.remove_directory(f"{place}/batch={batch}")
    for directory in storage.spread_directories(place):
        names = [PurePosixPath(one).name for one in storage.directories(directory)]
        for name in names:
            if name.startswith("batch=") and int(name.removeprefix("batch=")) in done:
                storage.remove_directory(f"{directory}/{name}")
