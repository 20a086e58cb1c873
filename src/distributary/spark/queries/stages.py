"""The groupings of a plan: from the rows that the tasks of a stage asked for to packed results.

A stage groups all rows of its tasks at once and makes packed rows of the groups. In a stream `closes` is a
column of the grouping, so Spark keeps a group until the watermark has passed that moment, and gives it out
then. A result of an earlier stage goes through later groupings with the `closes` it has: it is given out at
once, in the same micro-batch.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from distributary.flow.language.function import Function
from distributary.spark.queries.aggregates import aggregations, finished_arrays, finishing, slot_counts
from distributary.spark.queries.calls import CallTask, CountingState, PythonCall, pack_by_group
from distributary.spark.queries.inputs import CALL, ITEMS, JOIN, RANK
from distributary.spark.queries.packed import ARRAY_OF, ARRAYS, NULL_ARRAYS, PACKED_DDL, struct
from distributary.spark.queries.plan import Stage
from distributary.spark.queries.sql import literal
from distributary.spark.session import keep_state_in_rocksdb
from distributary.spark.tolerances import unpack
from distributary.spark.workers import map_in_arrow

LAST_MOMENT = 2**53
"""Beyond this, a moment in milliseconds is no timestamp any more; windows that close later never do."""
WATERMARK = {"spark.watermarkDelayMs": 0}
"""What marks a column as event time for Spark; its `window` function marks its columns in the same way."""

_ITEM = [f"item.{name} as {name}" for name in ("time", "rank", "id", *ARRAYS)]


def run_stage(stage: Stage, rows: DataFrame) -> DataFrame:
    """The packed results of a stage, and what it hands on."""
    if stage.kind == "call":
        alone = rows.selectExpr("task", "closes", *_ITEM, "if(own, array(item), null) as items")
        return _with_calls(stage, alone)
    if stage.kind == "number":
        return _numbered_in_stream(stage, rows) if rows.isStreaming else _numbered_in_batch(stage, rows)
    timed = _with_event_time(rows) if rows.isStreaming else rows
    results = _aggregated(stage, timed) if stage.kind == "aggregate" else _collected(timed)
    if rows.isStreaming:
        results = results.withColumn("closes", F.expr("unix_millis(closes)"))
    return _with_calls(stage, results) if stage.kind == "collect" else results


def _with_event_time(rows: DataFrame) -> DataFrame:
    moment = F.expr(f"timestamp_millis(least(closes, {literal(LAST_MOMENT)}))")
    others = [name for name in rows.columns if name != "closes"]
    return rows.select(*others, moment.alias("closes", metadata=WATERMARK))


def _calls(stage: Stage) -> dict[int, PythonCall]:
    return {
        task.number: PythonCall(task.number, task.operation, task.inputs[0].schema, task.gives)
        for task in stage.tasks
        if isinstance(task.operation, Function) or stage.kind == "number"
    }


def _with_calls(stage: Stage, rows: DataFrame) -> DataFrame:
    """Packed rows with what Python makes of the items of those that have any."""
    calls = _calls(stage)
    return map_in_arrow(rows, CallTask(calls).run, PACKED_DDL) if calls else rows.drop("items")


def _numbered_in_batch(stage: Stage, rows: DataFrame) -> DataFrame:
    """Windows by count over whole groups."""
    groups = rows.groupBy("own", "task", "key").agg(
        F.max("closes").alias("closes"), F.array_sort(F.collect_list("item")).alias("items")
    )
    first = groups.selectExpr("task", "closes", "items[0] as item", "if(own, items, null) as items")
    return _with_calls(stage, first.selectExpr("task", "closes", *_ITEM, "items"))


def _numbered_in_stream(stage: Stage, rows: DataFrame) -> DataFrame:
    """Windows by count over groups that wait for the watermark."""
    keep_state_in_rocksdb(rows.sparkSession)
    buckets = _with_event_time(map_in_arrow(rows, pack_by_group, "bucket int, closes bigint, payload binary"))
    schema = "moment timestamp, payload binary"
    counted = buckets.groupBy("bucket").transformWithState(
        CountingState(_calls(stage)), schema, "Append", "EventTime", None, "moment"
    )
    return map_in_arrow(counted, unpack, PACKED_DDL)


def _aggregated(stage: Stage, rows: DataFrame) -> DataFrame:
    counts = slot_counts(task.slots for task in stage.tasks)
    keys = _group_columns(stage)
    grouped = rows.groupBy(*keys).agg(*(F.expr(text) for text in aggregations(counts)))
    own = "own" if "own" in keys else "true"
    for level in finishing(counts):
        grouped = grouped.selectExpr("*", *level)
    given = {name: name if name in keys else f"cast(array() as {type})" for name, type in ARRAYS.items()}
    finished = finished_arrays(counts)
    arrays = [
        f"if({own}, concat({text}, {finished[name]}), {text}) as {name}"
        if name in finished
        else f"{text} as {name}"
        for name, text in given.items()
    ]
    rank = "rank" if "rank" in keys else "0 as rank"
    id = f"if({own}, concat(cast(start as string), key), key) as id"
    return grouped.selectExpr("task", "closes", "time", rank, id, *arrays)


def _group_columns(stage: Stage) -> list[str]:
    """By what the rows of a stage are grouped: no more than is needed, for there are very many of them."""
    keys = ["task", "closes", "time", "start", "key"]
    if stage.passed:
        return [*keys, "own", "rank", *ARRAYS]
    types = {
        ARRAY_OF[task.inputs[0].schema.attributes[name]]
        for task in stage.tasks
        for name in task.operation.canonical.group_by  # type: ignore[attr-defined]
    }
    return [*keys, *(name for name in ARRAYS if name in types)]


def _collected(rows: DataFrame) -> DataFrame:
    keys = ("own", "task", "closes", "time", "key", "mode", "take", "reach")
    grouped = rows.groupBy(*keys).agg(F.collect_list("item").alias("items"))
    no_items = f"cast(null as {ITEMS})"
    numbered = struct(
        time=f"if(mode = {RANK}, time, item.time)",
        rank=f"if(mode = {RANK}, place + 1, item.rank)",
        id="item.id",
        **{name: f"item.{name}" for name in ARRAYS},
        items=no_items,
    )
    pair = struct(
        time="item.time",
        rank="0",
        id="concat(item.id, '&', other.id)",
        **{name: f"concat(item.{name}, other.{name})" for name in ARRAYS},
        items=no_items,
    )
    pairs = (
        "flatten(transform(filter(items, item -> not item.right), item -> transform(filter(items, "
        f"other -> other.right and abs(item.time - other.time) <= reach), other -> {pair})))"
    )
    ranked = f"transform(slice(array_sort(items), 1, take), (item, place) -> {numbered})"
    whole = struct(time="time", rank="0", id="''", **NULL_ARRAYS, items="array_sort(items)")
    made = f"case mode when {JOIN} then {pairs} when {CALL} then array({whole}) else {ranked} end"
    found = grouped.selectExpr("task", "closes", f"explode_outer({made}) as item").where("item is not null")
    return found.select("task", "closes", "item.*")
