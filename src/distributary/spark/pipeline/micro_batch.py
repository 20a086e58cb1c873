"""Which micro-batch a task works for: the id of its query, which survives restarts, and that of its batch.

Spark tells a task by local properties. On Spark Connect the jobs that `foreachBatch` starts are executions of
their own, without those; there whoever writes the batch tags its jobs, and the tags reach the tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark import TaskContext
from pyspark.sql import SparkSession

TAG = re.compile(r"distributary-batch:(\d+):([0-9A-Za-z-]+)")


def running_micro_batch() -> tuple[str, int] | None:
    """The query and the batch that the running task works for, if it works for a stream."""
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
