"""What Spark knows about a micro-batch: the one a task works for, and what its checkpoint says of it.

A micro-batch is known by the id of its query, which survives restarts, and its own id. Spark tells a task by
local properties. On Spark Connect the jobs that `foreachBatch` starts are executions of their own, without
those properties; there whoever writes the batch tags its jobs (`tagging`), and the tags reach the tasks.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import lru_cache

from pyspark import TaskContext
from pyspark.sql import SparkSession

from distributary.spark import storage

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
TAG = re.compile(r"distributary-batch:(\d+):([0-9A-Za-z-]+)")


def running_micro_batch() -> tuple[str, int] | None:
    """The ids of the query and the batch that the running task works for; None outside a stream."""
    context = TaskContext.get()
    if context is None:
        return None
    query = context.getLocalProperty("sql.streaming.queryId")
    batch = context.getLocalProperty("streaming.sql.batchId")
    if query is not None and batch is not None:
        return query, int(batch)
    tagged = TAG.search(context.getLocalProperty("spark.job.tags") or "")
    return (tagged[2], int(tagged[1])) if tagged else None


@contextmanager
def tagging(spark: SparkSession, query: str, batch: int) -> Iterator[None]:
    """Tag the jobs that are started meanwhile with the micro-batch they work for."""
    tag = f"distributary-batch:{batch}:{query}"
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)


def query_id(checkpoint: str) -> str:
    """The id of the query that a checkpoint belongs to, as Spark has noted it there."""
    return str(json.loads(storage.read_text(f"{checkpoint}/metadata"))["id"])


@lru_cache(maxsize=64)
def watermark_of(checkpoint: str, batch: int) -> int:
    """The watermark of a micro-batch, in milliseconds."""
    return _noted(checkpoint, batch)["batchWatermarkMs"]


def instant_of(checkpoint: str, batch: int) -> datetime:
    """The instant that a micro-batch has for its present, to the millisecond: its `current_timestamp`."""
    return EPOCH + timedelta(milliseconds=_noted(checkpoint, batch)["batchTimestampMs"])


def _noted(checkpoint: str, batch: int) -> dict[str, int]:
    """What Spark notes of a micro-batch before it starts, and goes by when it has to do it again."""
    noted: dict[str, int] = json.loads(storage.read_text(f"{checkpoint}/offsets/{batch}").splitlines()[1])
    return noted
