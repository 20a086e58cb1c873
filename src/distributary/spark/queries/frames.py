"""The DataFrames of a plan: the chain of stages, and the rows of items at its end.

A stage explodes every row into what its tasks ask of it (`inputs`, `explode`), groups all of that at once,
and makes packed rows of the groups (`stages`).

The watermark of a stream is the least over the sources, each of which is read by itself for that (a frame
that several sources share would have one watermark only); in a batch the events are read once for a stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary import flow
from distributary.spark.columns import EventColumns
from distributary.spark.queries.conditions import register
from distributary.spark.queries.explode import RowRequest, exploded
from distributary.spark.queries.inputs import requests_of_tasks, requests_to_pass_on
from distributary.spark.queries.intake import EventIntake, take_in
from distributary.spark.queries.packed import NULL_ARRAYS, failed, packed, without_time
from distributary.spark.queries.plan import EVENTS, ColumnSheet, SparkPlan, Stage, StreamBranch, make_plan
from distributary.spark.queries.stages import run_stage

Sources = Mapping[str, flow.Source]

METHODS = "spark.sql.codegen.hugeMethodLimit"


def _limit_methods(spark: SparkSession) -> None:
    """Have Spark generate no methods that the JVM never compiles, as it would for many queries; unless set.

    HotSpot interprets methods of more than 8000 bytes, however often they are called.
    """
    if spark.conf.get(METHODS) == "65535":
        spark.conf.set(METHODS, "8000")


def item_rows(
    catalogue: flow.Catalogue,
    events: DataFrame,
    columns: EventColumns,
    streams: Iterable[str],
    *,
    rejections: bool = True,
) -> tuple[SparkPlan, DataFrame]:
    """All items of some streams in one frame, and with `rejections` what could not be used; and their plan.

    The columns are stream (the number in `plan.wanted`; of a rejection -1, -2 and so on, its place in
    `rejecting_streams`), field and reason (of a rejection), and the item: id, time, rank, packed values.
    """
    _limit_methods(events.sparkSession)
    sources = catalogue.sources
    intake = take_in(events, columns, sources.values())
    plan = make_plan(catalogue, intake.sources, intake.sheet, streams)
    if plan.calls_conditions:
        register(events.sparkSession)
    asked = [*_outputs(plan, of_events=True)]
    if rejections:
        asked += _rejected_events(intake, sources)
    frames = [exploded(on_sheet(intake.events, plan.events), "stream", asked)]
    results = _chain(plan, intake, sources)
    if results is not None:
        asked = [*_outputs(plan, of_events=False)]
        if rejections:
            asked += _failed_calls(plan, sources)
        frames.append(exploded(on_sheet(results, plan.results), "stream", asked))
    return plan, _united(frames)


def rejecting_streams(plan: SparkPlan, sources: Iterable[str]) -> list[str]:
    """The streams of which something may be rejected; their numbers in rows of items are -1, -2 and so on."""
    return [*sources, *(task.name for task in plan.functions)]


def on_sheet(frame: DataFrame, sheet: ColumnSheet) -> DataFrame:
    """A frame with the columns of a sheet."""
    for level in sheet.levels:
        frame = frame.selectExpr("*", *level)
    return frame


def _chain(plan: SparkPlan, intake: EventIntake, sources: Sources) -> DataFrame | None:
    """The results of the last stage, with those of earlier ones that are needed; None without stages."""
    results: DataFrame | None = None
    for stage in plan.stages:
        rows = list(_rows_of_events(plan, stage, intake, sources))
        if results is not None:
            asked = [*requests_to_pass_on(stage), *requests_of_tasks(stage, None)]
            rows.append(exploded(on_sheet(results, plan.results), "task", asked))
        results = run_stage(stage, _united(rows))
    return results


def _rows_of_events(
    plan: SparkPlan, stage: Stage, intake: EventIntake, sources: Sources
) -> Iterator[DataFrame | None]:
    """The rows that the tasks of a stage ask of the events."""
    frame = on_sheet(intake.events, plan.events)
    if not frame.isStreaming:
        yield exploded(frame, "task", [each for name in sources for each in requests_of_tasks(stage, name)])
        return
    for name, source in sources.items():
        asked = list(requests_of_tasks(stage, name))
        if asked:
            branch = intake.sources[name]
            clock = F.expr(f"timestamp_millis({branch.time} + 1)")
            items = frame.where(branch.present).withColumn("clock", clock)
            yield exploded(items.withWatermark("clock", f"{source.lateness + 1} milliseconds"), "task", asked)


def _united(frames: Sequence[DataFrame | None]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), [each for each in frames if each is not None])


def _outputs(plan: SparkPlan, *, of_events: bool) -> Iterator[RowRequest]:
    """What the wanted streams ask of the events, or else of the results."""
    for number, name in enumerate(plan.wanted):
        view = plan.views[name]
        for branch in view.branches:
            if (branch.frame == EVENTS) == of_events:
                fields = tuple(_output(branch, view.schema).items())
                yield RowRequest(branch.present, str(number), fields, branch.within)


def _output(branch: StreamBranch, schema: flow.Schema) -> dict[str, str]:
    nothing = {"field": "cast(null as string)", "reason": "cast(null as string)"}
    item = {"id": branch.id, "time": branch.time, "rank": branch.rank}
    values = branch.values(schema)
    return {**nothing, **item, **packed([values[name] for name in without_time(schema)])}


def _rejected_events(intake: EventIntake, sources: Sources) -> Iterator[RowRequest]:
    for number, name in enumerate(sources):
        rejection = intake.rejections[name]
        fields = _rejection(f"{rejection}.field", f"{rejection}.reason", "event_id")
        yield RowRequest(f"{rejection} is not null", str(-1 - number), fields)


def _failed_calls(plan: SparkPlan, sources: Sources) -> Iterator[RowRequest]:
    for number, task in enumerate(plan.functions, len(sources)):
        fields = _rejection("cast(null as string)", "get(texts, 0)", "id")
        yield RowRequest(f"task = {failed(task.number)}", str(-1 - number), fields)


def _rejection(field: str, reason: str, id: str) -> tuple[tuple[str, str], ...]:
    row = {"field": field, "reason": reason, "id": id, "time": "cast(null as bigint)", "rank": "0"}
    return tuple({**row, **NULL_ARRAYS}.items())
