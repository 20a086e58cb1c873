"""A replay from beginning to end: a session of its own, deliveries written out, and what there was to tell.

Deliveries go to a directory as Parquet, to a file as JSON lines, or to standard output; in lines they come by
batch, then by event. They are computed once and kept while they are counted and written.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.errors import DistributaryError
from distributary.output import STANDARD, opened_for_writing
from distributary.spark.columns import quoted
from distributary.spark.pipeline.config import Pipeline
from distributary.spark.pipeline.run import session_for
from distributary.spark.replay.replay import ReplayResult
from distributary.spark.storage import exists

LINES = (".jsonl", ".json", ".ndjson")
"""Endings of files of JSON lines; any other place becomes a directory of Parquet."""


@dataclass(frozen=True, slots=True)
class WrittenReplay:
    """A replay that has been written out."""

    result: ReplayResult
    deliveries: int
    subscriptions: dict[str, int]
    """How many deliveries each subscription has a part in, the most first."""


def run_replay(
    pipeline: Pipeline,
    work: Callable[[SparkSession], ReplayResult],
    out: str,
    log: Path,
    *,
    master: str | None = None,
    remote: str | None = None,
) -> WrittenReplay:
    """Do that work in a session for the pipeline, and write what it delivers."""
    if not _is_lines(out) and exists(out):
        raise DistributaryError(f"{out} is there already; name a directory that is not, or a file.jsonl")
    with session_for(pipeline, log, "replay", master=master, remote=remote) as spark:
        return _written(work(spark), out)


def _written(result: ReplayResult, out: str) -> WrittenReplay:
    kept = result.deliveries.persist()
    try:
        counted = kept.select(F.explode("subscriptions").alias("id")).groupBy("id").count()
        counts = {row["id"]: int(row["count"]) for row in counted.orderBy(F.desc("count"), "id").collect()}
        total = kept.count()
        if _is_lines(out):
            _write_lines(kept, out)
        else:
            kept.write.parquet(out)
    finally:
        kept.unpersist()
    return WrittenReplay(result, total, counts)


def _write_lines(deliveries: DataFrame, out: str) -> None:
    columns = F.struct(*(F.col(quoted(name)) for name in deliveries.columns))
    ordered = deliveries.orderBy("batch", "event_id", "subscriber").select(F.to_json(columns).alias("line"))
    with opened_for_writing(out) as stream:
        for row in ordered.toLocalIterator():
            stream.write(row["line"] + "\n")


def _is_lines(out: str) -> bool:
    return out == STANDARD or Path(out).suffix in LINES
