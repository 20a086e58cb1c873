"""The DataFrames of a plan: the chain of stages, and the tagged rows at its end.

A stage explodes every row into what its tasks want of it, groups all of that at once, and makes packed rows
of the groups:

    task, closes, time, rank, id, texts, integers, numbers, booleans

`closes` is the moment of event time at which a row is final. In a stream it is a column of the grouping, so
Spark keeps a group until the watermark has passed that moment, and gives it out then. A result of an earlier
stage goes through later groupings with the `closes` it has: it is given out at once, in the same micro-batch.

The watermark of a stream is the least over the sources, each of which is read by itself for that (a frame
that several sources share would have one watermark only); in a batch the events are read once for a stage.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from distributary.flow.language.function import Function
from distributary.flow.language.parse import resolve_text
from distributary.flow.language.schema import Schema, Type
from distributary.flow.language.source import Source
from distributary.flow.language.windowed import Join, Sort, Truncate, Unique
from distributary.spark.queries.calls import Call, CallTask, CountingState, pack
from distributary.spark.queries.intake import Intake
from distributary.spark.queries.plan import (
    EVENTS,
    PACKED,
    Branch,
    Feed,
    Plan,
    Sheet,
    Stage,
    Task,
    failed,
    packing,
)
from distributary.spark.queries.slots import (
    aggregations,
    finished_arrays,
    finishing,
    slot_counts,
    slot_names,
    slot_value,
)
from distributary.spark.queries.sql import SQL_TYPES, Value, expression_sql, literal
from distributary.spark.tolerances import unpack

ARRAYS = {array: f"array<{SQL_TYPES[type]}>" for type, array in PACKED.items()}
PACKED_DDL = "task int, closes bigint, time bigint, rank int, id string, " + ", ".join(
    f"{name} {type}" for name, type in ARRAYS.items()
)
LAST_MOMENT = 2**53
"""Beyond this, a moment in milliseconds is no timestamp any more; windows that close later never do."""
WATERMARK = {"spark.watermarkDelayMs": 0}
"""What marks a column as event time for Spark; its `window` function marks its columns in the same way."""
ALL = 2**31 - 1
NOBODY = -(2**31) + 1
"""A number that no task and no stream has."""
PASS, RANK, JOIN, CALL = range(4)
"""What happens to the items of a group: they stay as they are, are numbered, paired, or handed to Python."""


def tagged_rows(plan: Plan, intake: Intake, sources: dict[str, Source], *, aside: bool = True) -> DataFrame:
    """All items of the wanted streams in one frame, with what is set aside: `stream` says of which each is.

    stream (the number in `plan.wanted`, or of the source), field and reason (of a misfit), and the item: id,
    time, rank and its values, packed.
    """
    events = on_sheet(intake.events, plan.events)
    frames = [exploded(events, "stream", outputs(plan, intake, EVENTS, sources, aside))]
    results = chain(plan, intake, sources)
    if results is not None:
        given = outputs(plan, intake, None, sources, aside)
        frames.append(exploded(on_sheet(results, plan.results), "stream", given))
    return _united([frame for frame in frames if frame is not None])


def chain(plan: Plan, intake: Intake, sources: dict[str, Source]) -> DataFrame | None:
    """The results of the last stage, with those of earlier ones that are needed; None without stages."""
    results: DataFrame | None = None
    for stage in plan.stages:
        rows = [exploded(frame, "task", feeds) for frame, feeds in _inputs(plan, stage, intake, sources)]
        if results is not None:
            wanted = [*_passed(stage), *_feeds(stage, None)]
            rows.append(exploded(on_sheet(results, plan.results), "task", wanted))
        results = run_stage(stage, _united([frame for frame in rows if frame is not None]))
    return results


def _inputs(
    plan: Plan, stage: Stage, intake: Intake, sources: dict[str, Source]
) -> Iterator[tuple[DataFrame, list[Wanted]]]:
    """The events with what the tasks of a stage want of them."""
    frame = on_sheet(intake.events, plan.events)
    if not intake.events.isStreaming:
        feeds = [feed for name in sources for feed in _feeds(stage, name)]
        if feeds:
            yield frame, feeds
        return
    for name, source in sources.items():
        branch = intake.sources[name]
        feeds = list(_feeds(stage, name))
        if feeds:
            clock = F.expr(f"timestamp_millis({branch.time} + 1)")
            items = frame.where(branch.present).withColumn("clock", clock)
            yield items.withWatermark("clock", f"{source.lateness + 1} milliseconds"), feeds


def on_sheet(frame: DataFrame, sheet: Sheet) -> DataFrame:
    for level in sheet.levels:
        frame = frame.selectExpr("*", *level)
    return frame


@dataclass(frozen=True)
class Wanted:
    """A row that is wanted of the rows of a frame for which `present` is true.

    Rows of many tasks differ in nothing but the number, so the fields are computed once for all of them.
    """

    present: str
    number: str
    fields: tuple[tuple[str, str], ...]
    within: tuple[str, str] | None = None
    """The same as `present` in two parts: what is true of the stream that was filtered, and the test."""


def exploded(frame: DataFrame, number: str, wanted: Iterable[Wanted]) -> DataFrame | None:
    """A frame with the rows that are wanted, their numbers in a column; None when there are none at all.

    Of a plain `explode` Spark infers that only rows with something to explode are needed, and sees to that
    first of all: all columns of the sheet are written out in that one condition, which may take forever, and
    rows that no query takes do not move the watermark. Of `explode_outer` it infers nothing.
    """
    shapes: dict[tuple[tuple[str, str], ...], list[Wanted]] = {}
    for each in wanted:
        shapes.setdefault(each.fields, []).append(each)
    if not shapes:
        return None
    lists = [f"{_takers(alike)} as takers{at}" for at, alike in enumerate(shapes.values())]
    rows = [
        f"if(size(takers{at}) > 0, {struct(takers=f'takers{at}', **dict(fields))}, null)"
        for at, fields in enumerate(shapes)
    ]
    found = (
        frame.selectExpr("*", *lists)
        .selectExpr(f"array_compact(array({', '.join(rows)})) as rows")
        .selectExpr("explode_outer(rows) as row")
        .where("row is not null")
        .select("row.*")
    )
    if "slide" in found.columns:
        found = _in_windows(found)
    names = [quoted(name) for name in found.columns if name != "takers"]
    return found.selectExpr(f"explode_outer(takers) as {number}", *names)


def _takers(wanted: Sequence[Wanted]) -> str:
    """The numbers of those for whom a row is present: filters of one stream are asked only of its items."""
    streams: dict[str | None, list[Wanted]] = {}
    for each in wanted:
        streams.setdefault(each.within and each.within[0], []).append(each)
    parts = []
    for stream, alike in streams.items():
        nested = stream is not None and len(alike) > 1
        tests = [each.within[1] if nested and each.within else each.present for each in alike]
        pairs = zip(tests, alike, strict=True)
        numbers = ", ".join(f"if({test}, {each.number}, {NOBODY})" for test, each in pairs)
        found = f"array_remove(array({numbers}), {NOBODY})"
        parts.append(f"if({stream}, {found}, cast(array() as array<int>))" if nested else found)
    return parts[0] if len(parts) == 1 else f"concat({', '.join(parts)})"


def _in_windows(rows: DataFrame) -> DataFrame:
    """A row for each window that an item is in, with the window's end as time."""
    starts = rows.withColumn("start", F.explode_outer(F.expr("sequence(start, stop, slide)")))
    return starts.withColumns(
        {
            "time": F.expr("if(own, start + size - 1L, time)"),
            "closes": F.expr("if(own, start + size + closes, closes)"),
        }
    ).drop("stop", "slide", "size")


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), frames)


def struct(**fields: str) -> str:
    return "named_struct(" + ", ".join(f"'{name}', {text}" for name, text in fields.items()) + ")"


def packed(values: Sequence[Value]) -> dict[str, str]:
    """Values in the arrays of their types."""
    held: dict[str, list[str]] = {array: [] for array in ARRAYS}
    for text, type in values:
        assert type is not None
        held[PACKED[type]].append(text)
    return {
        array: f"array({', '.join(texts)})" if texts else f"cast(array() as {ARRAYS[array]})"
        for array, texts in held.items()
    }


def group_key(values: Sequence[Value]) -> str:
    """The values of a group in one text, as `flow.identifiers` writes them."""
    parts = []
    for text, type in values:
        shown = f"cast({text} as string)"
        if type is Type.TEXT:
            shown = f"concat(cast(char_length({text}) as string), ':', {text})"
        parts.append(f"coalesce(concat('|', {shown}), '|')")
    return f"concat({', '.join(parts)})" if parts else "''"


# What tasks want


def _feeds(stage: Stage, source: str | None) -> Iterator[Wanted]:
    """What the tasks of a stage want of the rows of a source, or (None) of earlier results."""
    for task in stage.tasks:
        for feed in task.feeds:
            for branch in feed.view.branches:
                if branch.source == source:
                    values = branch.values(feed.view.schema)
                    fields = FEEDS[stage.kind](stage, task, feed, branch, values)
                    present = _with_keys(task, feed, branch, values)
                    within = branch.within if present == branch.present else None
                    yield Wanted(present, str(task.number), tuple(fields.items()), within)


def _with_keys(task: Task, feed: Feed, branch: Branch, values: dict[str, Value]) -> str:
    """An item without one of a join's keys is equal to nothing."""
    if not isinstance(task.operation, Join):
        return branch.present
    keys = [values[name][0] for name in _join_keys(task.operation, feed)]
    return " and ".join([branch.present, *(f"{key} is not null" for key in keys)])


def _join_keys(join: Join, feed: Feed) -> list[str]:
    return list(join.on.values() if feed.right else join.on)


def _spans(task: Task, time: str, reach: int = 0) -> dict[str, str]:
    """The windows that an item is in, and by how much they close after their end."""
    window = task.window
    size, slide = literal(window.size), literal(window.slide)
    earliest = f"({time} - {literal(reach)} - {size})" if reach else f"({time} - {size})"
    latest = f"({time} + {literal(reach)})" if reach else time
    start = f"{earliest} - pmod({earliest}, {slide}) + {slide}"
    stop = f"{latest} - pmod({latest}, {slide})"
    return {
        "own": "true",
        "start": stop if window.tumbling and not reach else start,
        "stop": stop,
        "slide": slide,
        "size": size,
        "closes": literal(task.delay + task.reach),
    }


def _aggregate_feed(
    stage: Stage, task: Task, feed: Feed, branch: Branch, values: dict[str, Value]
) -> dict[str, str]:
    operation = task.operation.canonical
    groups = [values[name] for name in operation.group_by]  # type: ignore[attr-defined]
    slots = {name: f"cast(null as {type})" for name, type in slot_names(_counts(stage)).items()}
    for (kind, argument), number in task.slots.filled.items():
        text, type = _argument(argument, feed.view.schema, values)
        slots[f"{kind}{number}"] = slot_value(kind, text, type)
    shared = {"time": "0L", "key": group_key(groups), "rank": "0"}
    return {**_spans(task, branch.time), **shared, **packed(groups), **slots}


def _counts(stage: Stage) -> dict[str, int]:
    return slot_counts(task.slots for task in stage.tasks)


def _argument(argument: str, schema: Schema, values: dict[str, Value]) -> tuple[str, Type]:
    typed = resolve_text(argument, schema)
    return expression_sql(typed.expression, values)[0], typed.type


def _collect_feed(
    stage: Stage, task: Task, feed: Feed, branch: Branch, values: dict[str, Value]
) -> dict[str, str]:
    operation = task.operation
    mode, take, key, order, item_id = RANK, ALL, "''", "", branch.id
    match operation:
        case Join():
            mode = JOIN
            key = group_key([values[name] for name in _join_keys(operation, feed)])
            if not feed.right:
                item_id = f"replace(replace({branch.id}, '%', '%25'), '&', '%26')"
        case Sort():
            order = ", ".join(_sort_key(values[name], downwards) for name, downwards in operation.keys)
        case Truncate():
            take = operation.items
        case Unique() if task.first:
            mode, take, key = PASS, 1, group_key([values[name] for name in operation.by])
        case Function():
            mode, key = CALL, group_key([values[name] for name in operation.by])
    item = _item(replace(branch, id=item_id), values, order, feed.right)
    spans = _spans(task, branch.time, task.reach if feed.right else 0)
    return {
        **spans,
        "time": "0L",
        "key": key,
        "mode": str(mode),
        "take": str(min(take, ALL)),
        "reach": literal(task.reach),
        "item": item,
    }


def _item(branch: Branch, values: dict[str, Value], order: str = "", right: bool = False) -> str:
    """An item as it is collected; what comes first decides the order."""
    return struct(
        order=f"array({order})" if order else f"cast(array() as {ORDER})",
        time=branch.time,
        rank=branch.rank,
        id=branch.id,
        right="true" if right else "false",
        **packed(list(values.values())),
    )


def _call_feed(
    stage: Stage, task: Task, feed: Feed, branch: Branch, values: dict[str, Value]
) -> dict[str, str]:
    """An item by itself, for a function without a window or for windows by count."""
    groups = getattr(task.operation, "group_by", ())
    return {
        "own": "true",
        "closes": f"({branch.time} + {literal(task.delay + 1)})",
        "key": group_key([values[name] for name in groups]),
        "item": _item(branch, values),
    }


FEEDS = {"aggregate": _aggregate_feed, "collect": _collect_feed, "call": _call_feed, "number": _call_feed}

ORDER = "array<struct<missing: boolean, text: string, integer: bigint, number: double>>"
"""What `sort` compares first. A text to sort downwards is its bytes in hexadecimal digits, turned round."""
ITEMS = (
    f"array<struct<order: {ORDER}, time: bigint, rank: int, id: string, right: boolean, "
    + ", ".join(f"{name}: {type}" for name, type in ARRAYS.items())
    + ">>"
)


def _sort_key(value: Value, downwards: bool) -> str:
    text, type = value
    fields = {name: literal(None, kind) for kind, name in PACKED.items()}
    match type:
        case Type.TEXT if downwards:
            digits = f"translate(hex({text}), '0123456789ABCDEF', 'FEDCBA9876543210')"
            fields["texts"] = f"concat({digits}, 'G')"
        case Type.TEXT:
            fields["texts"] = text
        case Type.NUMBER:
            fields["numbers"] = f"(0D - {text})" if downwards else text
        case Type.BOOLEAN:
            whole = f"cast({text} as bigint)"
            fields["integers"] = f"(0L - {whole})" if downwards else whole
        case _:
            # The complement turns the order round and, other than the negative, always fits 64 bits.
            fields["integers"] = f"(~{text})" if downwards else text
    return struct(
        missing=f"({text} is null)",
        text=fields["texts"],
        integer=fields["integers"],
        number=fields["numbers"],
    )


def _passed(stage: Stage) -> Iterator[Wanted]:
    """The results of earlier stages that are needed after this one."""
    if not stage.passed:
        return
    arrays = {name: name for name in ARRAYS}
    row = {"own": "false", "start": "0L", "stop": "0L", "slide": "1L", "size": "1L"}
    row |= {"closes": "closes", "time": "time"}
    if stage.kind == "aggregate":
        slots = {name: f"cast(null as {type})" for name, type in slot_names(_counts(stage)).items()}
        row |= {"key": "id", "rank": "rank", **arrays, **slots}
    else:
        none = f"cast(array() as {ORDER})"
        item = struct(order=none, time="time", rank="rank", id="id", right="false", **arrays)
        row |= {"key": "id", "mode": str(PASS), "take": "1", "reach": "0L", "item": item}
        if stage.kind != "collect":
            row = {name: row[name] for name in ("own", "closes", "key", "item")}
    numbers = ", ".join(map(str, sorted(stage.passed)))
    yield Wanted(f"task in ({numbers})", "task", tuple(row.items()))


# The groupings


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


_ITEM = [f"item.{name} as {name}" for name in ("time", "rank", "id", *ARRAYS)]


def _with_event_time(rows: DataFrame) -> DataFrame:
    moment = F.expr(f"timestamp_millis(least(closes, {literal(LAST_MOMENT)}))")
    others = [name for name in rows.columns if name != "closes"]
    return rows.select(*others, moment.alias("closes", metadata=WATERMARK))


def _calls(stage: Stage) -> dict[int, Call]:
    return {
        task.number: Call(task.number, task.operation, task.feeds[0].view.schema, task.gives)
        for task in stage.tasks
        if isinstance(task.operation, Function) or stage.kind == "number"
    }


def _with_calls(stage: Stage, rows: DataFrame) -> DataFrame:
    """Packed rows with what Python makes of the items of those that have any."""
    calls = _calls(stage)
    return rows.mapInArrow(CallTask(calls).run, PACKED_DDL) if calls else rows.drop("items")


def _numbered_in_batch(stage: Stage, rows: DataFrame) -> DataFrame:
    """Windows by count over whole groups."""
    groups = rows.groupBy("own", "task", "key").agg(
        F.max("closes").alias("closes"), F.array_sort(F.collect_list("item")).alias("items")
    )
    first = groups.selectExpr("task", "closes", "items[0] as item", "if(own, items, null) as items")
    return _with_calls(stage, first.selectExpr("task", "closes", *_ITEM, "items"))


def _numbered_in_stream(stage: Stage, rows: DataFrame) -> DataFrame:
    """Windows by count over groups that wait for the watermark."""
    buckets = _with_event_time(rows.mapInArrow(pack, "bucket int, closes bigint, payload binary"))
    counted = buckets.groupBy("bucket").transformWithState(
        CountingState(_calls(stage)),
        "moment timestamp, payload binary",
        "Append",
        "EventTime",
        None,
        "moment",
    )
    return counted.mapInArrow(unpack, PACKED_DDL)


def _aggregated(stage: Stage, rows: DataFrame) -> DataFrame:
    counts = _counts(stage)
    keys = _group_columns(stage)
    grouped = rows.groupBy(*keys).agg(*(F.expr(text) for text in aggregations(counts)))
    own = "own" if "own" in keys else "true"
    for level in finishing(counts):
        grouped = grouped.selectExpr("*", *level)
    held = {name: name if name in keys else f"cast(array() as {type})" for name, type in ARRAYS.items()}
    finished = finished_arrays(counts)
    arrays = [
        f"if({own}, concat({text}, {finished[name]}), {text}) as {name}"
        if name in finished
        else f"{text} as {name}"
        for name, text in held.items()
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
        PACKED[task.feeds[0].view.schema.attributes[name]]
        for task in stage.tasks
        for name in task.operation.canonical.group_by  # type: ignore[attr-defined]
    }
    return [*keys, *(name for name in ARRAYS if name in types)]


def _collected(rows: DataFrame) -> DataFrame:
    keys = ("own", "task", "closes", "time", "key", "mode", "take", "reach")
    grouped = rows.groupBy(*keys).agg(F.collect_list("item").alias("items"))
    arrays = {name: f"item.{name}" for name in ARRAYS}
    numbered = struct(
        time=f"if(mode = {RANK}, time, item.time)",
        rank=f"if(mode = {RANK}, place + 1, item.rank)",
        id="item.id",
        **arrays,
        items=f"cast(null as {ITEMS})",
    )
    pair = struct(
        time="item.time",
        rank="0",
        id="concat(item.id, '&', other.id)",
        **{name: f"concat(item.{name}, other.{name})" for name in ARRAYS},
        items=f"cast(null as {ITEMS})",
    )
    pairs = (
        "flatten(transform(filter(items, item -> not item.right), item -> transform(filter(items, "
        f"other -> other.right and abs(item.time - other.time) <= reach), other -> {pair})))"
    )
    ranked = f"transform(slice(array_sort(items), 1, take), (item, place) -> {numbered})"
    nothing = {name: f"cast(null as {type})" for name, type in ARRAYS.items()}
    whole = struct(time="time", rank="0", id="''", **nothing, items="array_sort(items)")
    made = f"case mode when {JOIN} then {pairs} when {CALL} then array({whole}) else {ranked} end"
    found = grouped.selectExpr("task", "closes", f"explode_outer({made}) as item").where("item is not null")
    return found.select("task", "closes", "item.*")


# What comes out


def outputs(
    plan: Plan, intake: Intake, frame: int | None, sources: dict[str, Source], aside: bool
) -> Iterator[Wanted]:
    """What is given out of the events or (None) of the results."""
    for number, name in enumerate(plan.wanted):
        view = plan.views[name]
        for branch in view.branches:
            if (branch.frame == EVENTS) == (frame == EVENTS):
                fields = tuple(_output(branch, view.schema).items())
                yield Wanted(branch.present, str(number), fields, branch.within)
    if not aside:
        return
    nothing = {array: f"cast(null as {type})" for array, type in ARRAYS.items()}
    if frame != EVENTS:
        for number, task in enumerate(plan.functions, len(sources)):
            told = {"field": "cast(null as string)", "reason": "get(texts, 0)", "id": "id"}
            row = {**told, "time": "cast(null as bigint)", "rank": "0", **nothing}
            yield Wanted(f"task = {failed(task.number)}", str(-1 - number), tuple(row.items()))
        return
    for number, name in enumerate(sources):
        misfit = intake.misfits[name]
        told = {"field": f"{misfit}.field", "reason": f"{misfit}.reason", "id": "event_id"}
        row = {**told, "time": "cast(null as bigint)", "rank": "0", **nothing}
        yield Wanted(f"{misfit} is not null", str(-1 - number), tuple(row.items()))


def _output(branch: Branch, schema: Schema) -> dict[str, str]:
    nothing = "cast(null as string)"
    values = [value for name, value in branch.values(schema).items() if name != schema.time]
    item = {"id": branch.id, "time": branch.time, "rank": branch.rank}
    return {"field": nothing, "reason": nothing, **item, **packed(values)}


def set_aside_streams(plan: Plan, sources: Iterable[str]) -> list[str]:
    """The streams of which something may be set aside; their numbers in tagged rows are -1, -2 and so on."""
    return [*sources, *(task.name for task in plan.functions)]


def unpacked(schema: Schema) -> list[str]:
    """The attributes of a stream's items, as SQL over tagged rows."""
    names = [name for name in schema.attributes if name != schema.time]
    places = packing(names, schema)
    return [
        f"time as {quoted(name)}"
        if name == schema.time
        else f"get({places[name][0]}, {places[name][1]}) as {quoted(name)}"
        for name in schema.attributes
    ]


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
