"""The plan of a catalogue on Spark: which rows each operator needs of which frame, and in which stage.

Two frames feed everything: the *events*, and the *results* of stages, packed into rows of one shape whatever
stream they are of (see `packed`). Both are read through a *sheet*: columns that are added level by level,
each written once, so that what many queries have in common is computed once. Operators without memory never
become frames: they are columns of a sheet, one that says whether a row is in the stream, and one for each
value that is computed. So a stream is a list of *branches* (a union has several): a frame, the column that
says what is in, where each attribute is, and the id.

Operators with memory are *tasks*. A stage is one grouping for all tasks of a kind that depend on equally many
others; aggregates of one stream with the same window and groups are one task. Stages form a chain: stage k
gets rows of the events and of the results of stage k-1, and hands on the results that are still needed. So no
result is computed twice, in a stream as well, where Spark would keep the state of every use apart.

A task has a *delay*: how long after an item's time, at most, the item can come in event time. Windows close
that much later. Only a join adds to it, because its pairs have the time of the left item.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from distributary import flow
from distributary.errors import DistributaryError
from distributary.filters.topic import TopicFilter
from distributary.filters.where.filter import WhereFilter
from distributary.flow.entries import SourceEntry
from distributary.flow.language.topics import TOPIC
from distributary.flow.splitting import Gather
from distributary.spark.queries.aggregates import AggregateSlots
from distributary.spark.queries.conditions import FUNCTION, condition_sql
from distributary.spark.queries.packed import array_lengths, failed, unpacked, without_time
from distributary.spark.queries.sql import (
    SQL_TYPES,
    Value,
    expression_sql,
    literal,
    published_topic_sql,
    text_literal,
    topic_sql,
)

EVENTS = -1
"""The frame of the events, where others have the number of a task."""


class ColumnSheet:
    """Columns to add to a frame, level by level, each text once.

    >>> sheet = ColumnSheet("c")
    >>> double = sheet.add("x * 2")
    >>> sheet.add(f"{double} > 9", double), sheet.add("x * 2")
    ('c1', 'c0')
    >>> sheet.levels
    [['x * 2 as c0'], ['c0 > 9 as c1']]
    """

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix
        self._levels: list[dict[str, str]] = []
        self._depth: dict[str, int] = {}
        self._known: dict[str, str] = {}

    def add(self, text: str, *uses: str) -> str:
        """The name of the column with this SQL text; `uses` are all columns of this sheet in it."""
        if text in self._known:
            return self._known[text]
        name = f"{self._prefix}{len(self._known)}"
        depth = max((self._depth.get(use, 0) for use in uses), default=0)
        while len(self._levels) <= depth:
            self._levels.append({})
        self._levels[depth][name] = text
        self._depth[name] = depth + 1
        self._known[text] = name
        return name

    @property
    def levels(self) -> list[list[str]]:
        """What to select on each level beside all that is there."""
        return [[f"{text} as {name}" for name, text in level.items()] for level in self._levels]


@dataclass(frozen=True)
class StreamBranch:
    """Items of a stream that are in one frame: which rows they are, and where their parts are, as SQL."""

    frame: int
    """The task whose results they stem from, or EVENTS."""
    source: str | None
    present: str
    id: str
    time: str
    rank: str
    columns: Mapping[str, Value]
    """Every attribute but the time."""
    within: tuple[str, str] | None = None
    """Of what was filtered: what was present before, and the test."""

    def values(self, schema: flow.Schema) -> dict[str, Value]:
        """Every attribute of the schema, the time too."""
        known = {**self.columns, schema.time: (self.time, flow.Type.INTEGER)}
        return {name: known[name] for name in schema.attributes}


@dataclass(frozen=True)
class StreamView:
    """A stream as branches."""

    schema: flow.Schema
    branches: tuple[StreamBranch, ...]


@dataclass
class StatefulTask:
    """An operation with memory."""

    number: int
    """What its results are tagged with."""
    operation: flow.Operation
    inputs: tuple[StreamView, ...]
    """The streams whose items it gets; of a join, left and right."""
    kind: str
    """How it is grouped: "aggregate", "call" (not at all), "collect" or "number"."""
    name: str
    """The operator it computes, or the first of those."""
    gives: flow.Schema
    level: int
    delay: int
    first: bool = False
    """Of the two tasks of `unique`: whether it is the one that drops repetitions."""
    slots: AggregateSlots = field(default_factory=AggregateSlots)
    """Of an aggregate: where each value is computed."""

    @property
    def reach(self) -> int:
        """How far apart the items of a join's pair may be; otherwise 0."""
        return self.operation.within if isinstance(self.operation, flow.Join) else 0

    @property
    def bucket(self) -> int:
        """A join looks for pairs in buckets of so many milliseconds of the left side."""
        return 2 * self.reach + 1

    @property
    def window(self) -> flow.TimeWindow:
        """The windows by which its items are grouped."""
        if isinstance(self.operation, flow.Join):
            return flow.TimeWindow(self.bucket, self.bucket)
        if self.kind in ("call", "number"):
            return flow.TimeWindow(1, 1)
        window = self.operation.span  # type: ignore[attr-defined]
        assert isinstance(window, flow.TimeWindow)
        return window

    @property
    def result_delay(self) -> int:
        """How long after its time, at most, a result can come in event time."""
        return self.delay + self.bucket + self.reach if isinstance(self.operation, flow.Join) else self.delay


@dataclass(frozen=True)
class Stage:
    """The tasks of one grouping, and the earlier tasks whose results are needed after it."""

    kind: str
    tasks: tuple[StatefulTask, ...]
    passed: frozenset[int]


@dataclass(frozen=True)
class SparkPlan:
    """How the wanted streams are computed."""

    events: ColumnSheet
    results: ColumnSheet
    stages: tuple[Stage, ...]
    views: Mapping[str, StreamView]
    """Every computed stream, sources included."""
    computed: Mapping[str, str]
    """From every stream of the catalogue to the one that is computed in its place."""
    wanted: tuple[str, ...]
    """The computed streams to give out; their places here are their numbers in the rows of items."""

    @property
    def calls_conditions(self) -> bool:
        """Whether a condition is evaluated in Python, by the function that `conditions` registers."""
        sheets = self.events, self.results
        return any(FUNCTION in text for sheet in sheets for level in sheet.levels for text in level)

    @property
    def functions(self) -> list[StatefulTask]:
        """The tasks that may fail for some items."""
        tasks = [task for stage in self.stages for task in stage.tasks]
        return [task for task in tasks if isinstance(task.operation, flow.Function)]

    def names(self, streams: Iterable[str]) -> list[list[str]]:
        """Of each wanted stream, by which of these names it is asked for: equal streams are computed once."""
        asked = list(streams)
        return [[name for name in asked if self.computed[name] == stream] for stream in self.wanted]


def make_plan(
    catalogue: flow.Catalogue, sources: Mapping[str, StreamBranch], events: ColumnSheet, names: Iterable[str]
) -> SparkPlan:
    """The plan for some streams of a catalogue, whose sources are these branches of the events."""
    sharing = catalogue.shared()
    wanted = tuple(dict.fromkeys(sharing.streams[name] for name in names))
    planner = _Planner(events)
    for name, source in catalogue.sources.items():
        planner.views[name] = StreamView(source.schema, (sources[name],))
    for operator in _needed(sharing.operators, wanted):
        view = planner.view(operator)
        planner.views.update(dict.fromkeys(operator.streams, view))
    used = {branch.frame for name in wanted for branch in planner.views[name].branches}
    return SparkPlan(events, planner.results, planner.stages(used), planner.views, sharing.streams, wanted)


def _needed(operators: Sequence[flow.SharedOperator], wanted: Sequence[str]) -> list[flow.SharedOperator]:
    """The operators on which the wanted streams depend, in their order."""
    names = set(wanted)
    needed = []
    for operator in reversed(operators):
        if names & set(operator.streams):
            needed.append(operator)
            names |= set(operator.inputs)
    return needed[::-1]


class _Planner:
    def __init__(self, events: ColumnSheet) -> None:
        self.events = events
        self.results = ColumnSheet("r")
        self.views: dict[str, StreamView] = {}
        self.tasks: list[StatefulTask] = []
        self._merged: dict[tuple[object, ...], StatefulTask] = {}

    def view(self, operator: flow.SharedOperator) -> StreamView:
        """The stream of an operator whose inputs are known."""
        inputs = [self.views[name] for name in operator.inputs]
        branches = inputs[0].branches
        match operator.operation:
            case flow.Split():
                return inputs[0]
            case flow.FilterOperation() as filter:
                branches = tuple(self._filtered(filter, inputs[0]))
            case flow.Map() as map:
                branches = tuple(self._mapped(map, inputs[0]))
            case flow.Rename(names):
                branches = tuple(
                    replace(each, columns={names.get(name, name): v for name, v in each.columns.items()})
                    for each in branches
                )
            case flow.Copy(names):
                branches = tuple(_with_copies(each, inputs[0].schema, names) for each in branches)
            case flow.Union():
                branches = tuple(
                    replace(branch, id=f"concat('{index}:', {branch.id})")
                    for index, view in enumerate(inputs)
                    for branch in view.branches
                )
            case Gather():
                branches = tuple(branch for view in inputs for branch in view.branches)
            case SourceEntry() as entry:
                branches = tuple(self._entered(entry, inputs[0]))
            case _:
                return self._with_memory(operator, inputs)
        return StreamView(operator.schema, branches)

    # Without memory

    def _filtered(self, filter: flow.FilterOperation, view: StreamView) -> Iterator[StreamBranch]:
        for branch in view.branches:
            values = branch.values(view.schema)
            sheet = self._sheet(branch)
            # A column of its own: other queries ask the same of other items.
            test = sheet.add(f"coalesce({condition_sql(filter.condition, values)}, false)", *_texts(values))
            kept = test if filter.where is not None else f"not {test}"
            present = sheet.add(f"{branch.present} and {kept}", branch.present, test)
            yield replace(branch, present=present, within=(branch.present, kept))

    def _mapped(self, map: flow.Map, view: StreamView) -> Iterator[StreamBranch]:
        computed = map.values(view.schema)
        kept = [name for name in map.kept(view.schema) if name != view.schema.time]
        for branch in view.branches:
            values = branch.values(view.schema)
            columns = {name: branch.columns[name] for name in kept}
            for name, typed in computed.items():
                text, _ = expression_sql(typed.expression, values)
                if text not in _texts(values):  # a plain copy of another column needs none of its own
                    text = self._sheet(branch).add(text, *_texts(values))
                columns[name] = text, typed.type
            yield replace(branch, columns=columns)

    def _entered(self, entry: SourceEntry, view: StreamView) -> Iterator[StreamBranch]:
        """The items that belong to a source once they are published."""
        source = entry.source
        for branch in view.branches:
            values, sheet = branch.values(view.schema), self._sheet(branch)
            own = sheet.add(published_topic_sql(entry.template, values), *_texts(values))
            topic: Value = (own, flow.Type.TEXT)
            id = f"concat({text_literal(entry.entry_id(''))}, {branch.id})"
            seen: dict[str, Value] = {**values, TOPIC: topic}
            named = values.get("id", (literal(None, flow.Type.TEXT), flow.Type.TEXT))
            if named[1] is flow.Type.TEXT:
                seen["id"] = f"coalesce({named[0]}, {id})", flow.Type.TEXT
            tests = [branch.present]
            if source.topic is not None:
                tests.append(f"coalesce({topic_sql(TopicFilter.parse(source.topic), own)}, false)")
            if source.where is not None:
                condition = WhereFilter.parse(source.where).expression
                tests.append(f"coalesce({condition_sql(condition, seen)}, false)")
            present = sheet.add(" and ".join(tests), branch.present, own, *_texts(values))
            entered = {name: value for name, value in values.items() if name != TOPIC}
            if source.schema.type_of(TOPIC) is flow.Type.TEXT:
                entered[TOPIC] = topic
            columns = {
                name: _as_type(entered.get(name), type)
                for name, type in source.schema.attributes.items()
                if name != source.schema.time
            }
            yield replace(branch, present=present, id=id, rank="0", columns=columns, within=None)

    def _sheet(self, branch: StreamBranch) -> ColumnSheet:
        return self.events if branch.frame == EVENTS else self.results

    # With memory

    def _with_memory(self, operator: flow.SharedOperator, inputs: Sequence[StreamView]) -> StreamView:
        operation, view = operator.operation, inputs[0]
        match operation:
            case flow.Aggregate() | flow.Count():
                if isinstance(operation.span, flow.TimeWindow):
                    return self._aggregated(operator, view)
                return self._called(operator, operation.canonical, view, "number")
            case flow.Function():
                kind = "call" if operation.span is None else "collect"
                return self._called(operator, operation, view, kind)
            case flow.Join():
                return self._joined(operator, operation, inputs)
            case flow.Sort() | flow.Truncate():
                return self._collected(operator, view)
            case flow.Unique():
                first = self._task(operator, operation, (view,), "collect", first=True)
                distinct = self._result(first, operator.input_schemas[0], _whole_items(view.schema))
                return self._collected(operator, distinct)
        raise DistributaryError(f"a {operation.kind} cannot run on Spark")

    def _task(
        self,
        operator: flow.SharedOperator,
        operation: flow.Operation,
        inputs: Sequence[StreamView],
        kind: str,
        *,
        first: bool = False,
    ) -> StatefulTask:
        branches = [branch for view in inputs for branch in view.branches]
        before = [self.tasks[branch.frame] for branch in branches if branch.frame != EVENTS]
        level = 1 + max((task.level for task in before), default=0)
        delay = max((task.result_delay for task in before), default=0)
        named = operator.name, operator.schema
        task = StatefulTask(len(self.tasks), operation, tuple(inputs), kind, *named, level, delay, first)
        self.tasks.append(task)
        return task

    def _result(self, task: StatefulTask, schema: flow.Schema, columns: Mapping[str, Value]) -> StreamView:
        """The stream that a task's results are."""
        present = self.results.add(f"task = {task.number}")
        known = {name: value for name, value in columns.items() if name != schema.time}
        return StreamView(schema, (StreamBranch(task.number, None, present, "id", "time", "rank", known),))

    def _aggregated(self, operator: flow.SharedOperator, view: StreamView) -> StreamView:
        operation = operator.operation.canonical
        assert isinstance(operation, flow.Aggregate)
        key = (operator.inputs, operation.window, operation.group_by)
        if key not in self._merged:
            self._merged[key] = self._task(operator, operation, (view,), "aggregate")
        task = self._merged[key]
        lengths = array_lengths(operation.group_by, view.schema)
        columns = unpacked(operation.group_by, view.schema)
        accumulators = operation.accumulators(view.schema)
        for name, call in operation.aggregates.items():
            array, place, truth = task.slots.place(call.function, call.argument, view.schema)
            text = f"get({array}, {lengths[array] + place})"
            columns[name] = f"({text} = 1L)" if truth else text, accumulators[name].type
        return self._result(task, operator.schema, columns)

    def _collected(self, operator: flow.SharedOperator, view: StreamView) -> StreamView:
        """A task that gives items of its input as they are."""
        task = self._task(operator, operator.operation, (view,), "collect")
        return self._result(task, operator.schema, _whole_items(view.schema))

    def _called(
        self, operator: flow.SharedOperator, operation: flow.Operation, view: StreamView, kind: str
    ) -> StreamView:
        """A task that runs in Python gives its results packed as their schema says, but for the time."""
        task = self._task(operator, operation, (view,), kind)
        schema = operator.schema
        return self._result(task, schema, unpacked(without_time(schema), schema))

    def _joined(
        self, operator: flow.SharedOperator, join: flow.Join, views: Sequence[StreamView]
    ) -> StreamView:
        left, right = (view.schema for view in views)
        task = self._task(operator, join, views, "collect")
        behind = array_lengths(list(left.attributes), left)
        of_right = unpacked(list(right.attributes), right, behind)
        taken = {name: of_right[original] for name, original in join.from_right(right).items()}
        return self._result(task, operator.schema, _whole_items(left) | taken)

    # The chain

    def stages(self, used: set[int]) -> tuple[Stage, ...]:
        """The chain of groupings, when results of the tasks in `used` are needed at its end."""
        groups: dict[tuple[int, str], list[StatefulTask]] = {}
        for task in sorted(self.tasks, key=lambda task: (task.level, task.kind)):
            groups.setdefault((task.level, task.kind), []).append(task)
        needed = used - {EVENTS}
        # The failures of functions are always told; they are tagged with a number of their own.
        needed |= {failed(task.number) for task in self.tasks if isinstance(task.operation, flow.Function)}
        stages = []
        for (_, kind), tasks in reversed(groups.items()):
            own = {task.number for task in tasks}
            needed -= own | {failed(number) for number in own}
            read = {branch.frame for task in tasks for view in task.inputs for branch in view.branches}
            stages.append(Stage(kind, tuple(tasks), frozenset(needed)))
            needed |= read - {EVENTS}
        return tuple(stages[::-1])


def _whole_items(schema: flow.Schema) -> dict[str, Value]:
    """The attributes of items that are packed with all their attributes, the time too."""
    return unpacked(list(schema.attributes), schema)


def _with_copies(branch: StreamBranch, schema: flow.Schema, names: Mapping[str, str]) -> StreamBranch:
    values = branch.values(schema)
    return replace(branch, columns={**branch.columns, **{new: values[old] for old, new in names.items()}})


def _as_type(value: Value | None, type: flow.Type) -> Value:
    """A value as a stream declares it: a null where there is none, a number for an integer."""
    if value is None:
        return literal(None, type), type
    return (value[0] if value[1] is type else f"cast({value[0]} as {SQL_TYPES[type]})"), type


def _texts(values: Mapping[str, Value]) -> list[str]:
    return [text for text, _ in values.values()]
