"""The plan of a catalogue on Spark: which rows each operator needs of which frame, and in which stage.

Two frames feed everything: the *events*, and the *results* of stages, packed into rows of one shape whatever
stream they are of. Both are read through a *sheet*: columns that are added level by level, each written once,
so that what many queries have in common is computed once. Operators without memory never become frames: they
are columns of a sheet, one that says whether a row is in the stream, and one for each value that is computed.
So a stream is a list of *branches* (a union has several): a frame, the column that says what is in, where
each attribute is, and the id.

Operators with memory are *tasks*. A stage is one grouping for all tasks of a kind that depend on equally many
others; aggregates of one stream with the same window and groups are one task. Stages form a chain: stage k
gets rows of the events and of the results of stage k-1, and hands on the results that are still needed. So no
result is computed twice, in a stream as well, where Spark would keep the state of every use apart.

A task has a *delay*: how long after an item's time, at most, the item can come in event time. Windows close
that much later. Only a join adds to it, because its pairs have the time of the left item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from distributary.errors import DistributaryError
from distributary.flow.catalogue import Catalogue, SharedOperator
from distributary.flow.language.function import Function
from distributary.flow.language.operators import Copy, FilterOperation, Map, Operation, Rename, Split, Union
from distributary.flow.language.schema import Schema, Type
from distributary.flow.language.window import TimeWindow
from distributary.flow.language.windowed import Aggregate, Count, Join, Sort, Truncate, Unique
from distributary.spark.queries.slots import Slots
from distributary.spark.queries.sql import Value, condition_sql, expression_sql

EVENTS = -1
"""The frame of the events, where others have the number of a task."""
PACKED = {Type.TEXT: "texts", Type.INTEGER: "integers", Type.NUMBER: "numbers", Type.BOOLEAN: "booleans"}
"""In which array of a packed row the values of a type are."""


class Sheet:
    """Columns to add to a frame, level by level."""

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
class Branch:
    """Items of a stream that are in one frame: where they are and where their parts are."""

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

    def value(self, name: str, schema: Schema) -> Value:
        return (self.time, Type.INTEGER) if name == schema.time else self.columns[name]

    def values(self, schema: Schema) -> dict[str, Value]:
        return {name: self.value(name, schema) for name in schema.attributes}


@dataclass(frozen=True)
class View:
    """A stream as branches."""

    schema: Schema
    branches: tuple[Branch, ...]


@dataclass(frozen=True)
class Feed:
    """One input of a task: whose items it gets, and from which side of a join."""

    view: View
    right: bool = False


@dataclass
class Task:
    """An operation with memory."""

    operation: Operation
    feeds: tuple[Feed, ...]
    kind: str
    """How it is grouped: "aggregate", "call" (not at all), "collect" or "number"."""
    name: str
    """The operator it computes, or the first of those."""
    gives: Schema
    level: int
    delay: int
    slots: Slots = field(default_factory=Slots)
    """Of an aggregate: where each value is computed."""
    first: bool = False
    """Of the two tasks of `unique`: whether it is the one that drops repetitions."""
    number: int = 0
    """What its results are tagged with."""

    @property
    def reach(self) -> int:
        """How far apart the items of a join's pair may be; otherwise 0."""
        return self.operation.within if isinstance(self.operation, Join) else 0

    @property
    def bucket(self) -> int:
        """A join looks for pairs in buckets of so many milliseconds of the left side."""
        return 2 * self.reach + 1

    @property
    def window(self) -> TimeWindow:
        if isinstance(self.operation, Join):
            return TimeWindow(self.bucket, self.bucket)
        if self.kind in ("call", "number"):
            return TimeWindow(1, 1)
        window = self.operation.span  # type: ignore[attr-defined]
        assert isinstance(window, TimeWindow)
        return window

    @property
    def result_delay(self) -> int:
        return self.delay + self.bucket + self.reach if isinstance(self.operation, Join) else self.delay


@dataclass(frozen=True)
class Stage:
    """The tasks of one grouping, and the earlier tasks whose results are needed after it."""

    kind: str
    tasks: tuple[Task, ...]
    passed: frozenset[int]


@dataclass(frozen=True)
class Plan:
    """How the wanted streams are computed."""

    events: Sheet
    results: Sheet
    stages: tuple[Stage, ...]
    views: Mapping[str, View]
    """Every computed stream, sources included."""
    computed: Mapping[str, str]
    """From every stream of the catalogue to the one that is computed in its place."""
    wanted: tuple[str, ...]
    """The computed streams to give out; their places here are their numbers in tagged rows."""

    @property
    def functions(self) -> list[Task]:
        """The tasks that may fail for some items."""
        tasks = [task for stage in self.stages for task in stage.tasks]
        return [task for task in tasks if isinstance(task.operation, Function)]


def make_plan(
    catalogue: Catalogue, sources: Mapping[str, Branch], events: Sheet, streams: Iterable[str]
) -> Plan:
    """The plan for some streams of a catalogue, whose sources are these branches of the events."""
    sharing = catalogue.shared()
    wanted = tuple(dict.fromkeys(sharing.streams[name] for name in streams))
    planner = _Planner(events)
    for name, source in catalogue.sources.items():
        planner.views[name] = View(source.schema, (sources[name],))
    for operator in _needed(sharing.operators, wanted):
        view = planner.view(operator)
        planner.views.update(dict.fromkeys(operator.streams, view))
    used = {branch.frame for name in wanted for branch in planner.views[name].branches}
    return Plan(events, planner.results, planner.stages(used), planner.views, sharing.streams, wanted)


def _needed(operators: Sequence[SharedOperator], wanted: Sequence[str]) -> list[SharedOperator]:
    """The operators on which the wanted streams depend, in their order."""
    names = set(wanted)
    needed = []
    for operator in reversed(operators):
        if names & set(operator.streams):
            needed.append(operator)
            names |= set(operator.inputs)
    return needed[::-1]


class _Planner:
    def __init__(self, events: Sheet) -> None:
        self.events = events
        self.results = Sheet("r")
        self.views: dict[str, View] = {}
        self.tasks: list[Task] = []
        self._merged: dict[tuple[object, ...], int] = {}

    def view(self, operator: SharedOperator) -> View:
        """The stream of an operator whose inputs are known."""
        inputs = [self.views[name] for name in operator.inputs]
        operation = operator.operation
        match operation:
            case FilterOperation():
                return View(operator.schema, tuple(self._filtered(operation, inputs[0])))
            case Map():
                return View(operator.schema, tuple(self._mapped(operation, inputs[0])))
            case Rename(names):
                return self._renamed(operator, inputs[0], names)
            case Copy(names):
                return self._copied(operator, inputs[0], names)
            case Split():
                return inputs[0]
            case Union():
                return self._union(operator, inputs)
            case Aggregate() | Count():
                if isinstance(operation.span, TimeWindow):
                    return self._aggregated(operator, inputs[0])
                return self._called(operator, operation.canonical, inputs[0], "number")
            case Function():
                kind = "call" if operation.span is None else "collect"
                return self._called(operator, operation, inputs[0], kind)
            case Join():
                return self._joined(operator, operation, inputs)
            case Sort():
                return self._ranked(operator, operation, inputs[0])
            case Truncate():
                return self._ranked(operator, operation, inputs[0])
            case Unique():
                first = self._task(operator, operation, (Feed(inputs[0]),), "collect", first=True)
                return self._ranked(
                    operator, operation, self._packed(operator.input_schemas[0], first, inputs[0])
                )
        raise DistributaryError(f"a {operation.kind} cannot run on Spark")

    # Without memory

    def _sheet(self, branch: Branch) -> Sheet:
        return self.events if branch.frame == EVENTS else self.results

    def _filtered(self, filter: FilterOperation, view: View) -> Iterable[Branch]:
        for branch in view.branches:
            values = branch.values(view.schema)
            sheet = self._sheet(branch)
            # A column of its own: other queries ask the same of other items.
            test = sheet.add(f"coalesce({condition_sql(filter.condition, values)}, false)", *_texts(values))
            kept = test if filter.where is not None else f"not {test}"
            present = sheet.add(f"{branch.present} and {kept}", branch.present, test)
            yield replace(branch, present=present, within=(branch.present, kept))

    def _mapped(self, map: Map, view: View) -> Iterable[Branch]:
        computed = map.values(view.schema)
        for branch in view.branches:
            values = branch.values(view.schema)
            columns = {
                name: branch.columns[name] for name in map.kept(view.schema) if name != view.schema.time
            }
            for name, typed in computed.items():
                text, _ = expression_sql(typed.expression, values)
                columns[name] = self._computed(branch, text, values), typed.type
            yield replace(branch, columns=columns)

    def _computed(self, branch: Branch, text: str, values: Mapping[str, Value]) -> str:
        """The column with a value, of rows of other streams too; a plain copy of another needs none."""
        return text if text in _texts(values) else self._sheet(branch).add(text, *_texts(values))

    def _renamed(self, operator: SharedOperator, view: View, names: Mapping[str, str]) -> View:
        return View(
            operator.schema,
            tuple(
                replace(branch, columns={names.get(name, name): v for name, v in branch.columns.items()})
                for branch in view.branches
            ),
        )

    def _copied(self, operator: SharedOperator, view: View, names: Mapping[str, str]) -> View:
        return View(
            operator.schema,
            tuple(
                replace(
                    branch,
                    columns={
                        **branch.columns,
                        **{new: branch.value(name, view.schema) for name, new in names.items()},
                    },
                )
                for branch in view.branches
            ),
        )

    def _union(self, operator: SharedOperator, views: Sequence[View]) -> View:
        return View(
            operator.schema,
            tuple(
                replace(branch, id=f"concat('{index}:', {branch.id})")
                for index, view in enumerate(views)
                for branch in view.branches
            ),
        )

    # With memory

    def _task(
        self,
        operator: SharedOperator,
        operation: Operation,
        feeds: tuple[Feed, ...],
        kind: str,
        *,
        first: bool = False,
    ) -> int:
        frames = [
            self.tasks[branch.frame]
            for feed in feeds
            for branch in feed.view.branches
            if branch.frame != EVENTS
        ]
        level = 1 + max((task.level for task in frames), default=0)
        delay = max((task.result_delay for task in frames), default=0)
        number = len(self.tasks)
        known = operation, feeds, kind, operator.name, operator.schema, level, delay
        self.tasks.append(Task(*known, first=first, number=number))
        return number

    def _result(self, task: int, schema: Schema, columns: Mapping[str, Value]) -> View:
        """The stream that a task's results are."""
        present = self.results.add(f"task = {task}")
        return View(schema, (Branch(task, None, present, "id", "time", "rank", columns),))

    def _aggregated(self, operator: SharedOperator, view: View) -> View:
        operation = operator.operation.canonical
        assert isinstance(operation, Aggregate)
        key = (operator.inputs, operation.window, operation.group_by)
        if key not in self._merged:
            self._merged[key] = self._task(operator, operation, (Feed(view),), "aggregate")
        task = self.tasks[self._merged[key]]
        sizes = packed_sizes(operation.group_by, view.schema)
        columns: dict[str, Value] = {
            name: (f"get({array}, {place})", view.schema.attributes[name])
            for name, (array, place) in packing(operation.group_by, view.schema).items()
        }
        accumulators = operation.accumulators(view.schema)
        for name, call in operation.aggregates.items():
            array, place, truth = task.slots.place(call.function, call.argument, view.schema)
            text = f"get({array}, {sizes[array] + place})"
            columns[name] = f"({text} = 1L)" if truth else text, accumulators[name].type
        return self._result(self._merged[key], operator.schema, columns)

    def _packed(self, schema: Schema, task: int, view: View) -> View:
        """The stream of a task that hands whole items on."""
        columns: dict[str, Value] = {
            name: (f"get({array}, {place})", view.schema.attributes[name])
            for name, (array, place) in packing(list(view.schema.attributes), view.schema).items()
            if name != schema.time
        }
        return self._result(task, schema, columns)

    def _ranked(self, operator: SharedOperator, operation: Operation, view: View) -> View:
        task = self._task(operator, operation, (Feed(view),), "collect")
        return self._packed(operator.schema, task, view)

    def _called(self, operator: SharedOperator, operation: Operation, view: View, kind: str) -> View:
        """A task that runs in Python gives its results packed as their schema says, but for the time."""
        task = self._task(operator, operation, (Feed(view),), kind)
        names = [name for name in operator.schema.attributes if name != operator.schema.time]
        columns: dict[str, Value] = {
            name: (f"get({array}, {place})", operator.schema.attributes[name])
            for name, (array, place) in packing(names, operator.schema).items()
        }
        return self._result(task, operator.schema, columns)

    def _joined(self, operator: SharedOperator, join: Join, inputs: Sequence[View]) -> View:
        left, right = (view.schema for view in inputs)
        task = self._task(operator, join, (Feed(inputs[0]), Feed(inputs[1], right=True)), "collect")
        before = packed_sizes(list(left.attributes), left)
        places = packing(list(right.attributes), right)
        columns = dict(self._packed(operator.schema, task, inputs[0]).branches[0].columns)
        for name, original in join.from_right(right).items():
            array, place = places[original]
            columns[name] = f"get({array}, {before[array] + place})", right.attributes[original]
        return self._result(task, operator.schema, columns)

    # The chain

    def stages(self, used: set[int]) -> tuple[Stage, ...]:
        """The chain of groupings, when results of the tasks in `used` are needed at its end."""
        groups: dict[tuple[int, str], list[Task]] = {}
        for task in sorted(self.tasks, key=lambda task: (task.level, task.kind)):
            groups.setdefault((task.level, task.kind), []).append(task)
        needed = used - {EVENTS}
        # The failures of functions are always told; they are tagged with a number of their own.
        needed |= {failed(task.number) for task in self.tasks if isinstance(task.operation, Function)}
        stages = []
        for (_, kind), tasks in reversed(groups.items()):
            own = {task.number for task in tasks}
            needed -= own | {failed(number) for number in own}
            read = {branch.frame for task in tasks for feed in task.feeds for branch in feed.view.branches}
            stages.append(Stage(kind, tuple(tasks), frozenset(needed)))
            needed |= read - {EVENTS}
        return tuple(stages[::-1])


def failed(task: int) -> int:
    """What the failures of a task are tagged with, in place of its number."""
    return -2 - task


def packing(names: Sequence[str], schema: Schema) -> dict[str, tuple[str, int]]:
    """Where the values of these attributes are in a packed row: in which array, at which place."""
    places: dict[str, tuple[str, int]] = {}
    sizes = dict.fromkeys(PACKED.values(), 0)
    for name in names:
        array = PACKED[schema.attributes[name]]
        places[name] = array, sizes[array]
        sizes[array] += 1
    return places


def packed_sizes(names: Sequence[str], schema: Schema) -> dict[str, int]:
    """How long the arrays of such a packed row are."""
    arrays = [array for array, _ in packing(names, schema).values()]
    return {array: arrays.count(array) for array in PACKED.values()}


def _texts(values: Mapping[str, Value]) -> list[str]:
    return [text for text, _ in values.values()]
