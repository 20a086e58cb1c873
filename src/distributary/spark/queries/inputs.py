"""What the tasks of a stage ask of the rows of the events and of earlier results.

The columns of the rows that are asked for depend on the kind of the stage (see `stages` for what is made of
them). All have `own`, whether a row is an input of a task of this stage, rather than a result of an earlier
stage that is handed on; `closes`, when its group is final; and `key`, the text of its group. Rows that are
grouped by windows have `start`, `stop`, `slide` and `size`, from which a row for each window is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from distributary import flow
from distributary.flow.language.parse import resolve_text
from distributary.spark.queries.aggregates import slot_counts, slot_names, slot_value
from distributary.spark.queries.explode import RowRequest
from distributary.spark.queries.packed import ARRAY_OF, ARRAYS, group_key, packed, struct
from distributary.spark.queries.plan import Stage, StatefulTask, StreamBranch
from distributary.spark.queries.sql import Value, expression_sql, literal

PASS, RANK, JOIN, CALL = range(4)
"""What happens to the items of a group: they stay as they are, are numbered, paired, or handed to Python."""
ALL = 2**31 - 1
ORDER = "array<struct<missing: boolean, text: string, integer: bigint, number: double>>"
"""What `sort` compares first. A text to sort downwards is its bytes in hexadecimal digits, turned round."""
NO_ORDER = f"cast(array() as {ORDER})"
ITEMS = (
    f"array<struct<order: {ORDER}, time: bigint, rank: int, id: string, right: boolean, "
    + ", ".join(f"{name}: {type}" for name, type in ARRAYS.items())
    + ">>"
)
"""The type of the items that a group collects."""

Row = dict[str, str]
"""The columns of a row with their SQL."""


def requests_of_tasks(stage: Stage, source: str | None) -> Iterator[RowRequest]:
    """What the tasks of a stage ask of the rows of a source, or (None) of earlier results."""
    for task in stage.tasks:
        for number, view in enumerate(task.inputs):
            for branch in view.branches:
                if branch.source == source:
                    yield _InputBranch(stage, task, view.schema, number == 1, branch).request()


def requests_to_pass_on(stage: Stage) -> Iterator[RowRequest]:
    """What is asked of the results of earlier stages that are needed after this one."""
    if not stage.passed:
        return
    # The order of the columns is that of the tasks' own rows: Spark puts both into one array.
    row = {"own": "false", "closes": "closes"}
    if stage.kind in ("aggregate", "collect"):
        row |= {"start": "0L", "stop": "0L", "slide": "1L", "size": "1L", "time": "time"}
    row["key"] = "id"
    arrays = {name: name for name in ARRAYS}
    item = struct(order=NO_ORDER, time="time", rank="rank", id="id", right="false", **arrays)
    if stage.kind == "aggregate":
        row |= {"rank": "rank", **arrays, **_empty_slots(stage)}
    elif stage.kind == "collect":
        row |= {"mode": str(PASS), "take": "1", "reach": "0L", "item": item}
    else:
        row["item"] = item
    numbers = ", ".join(map(str, sorted(stage.passed)))
    yield RowRequest(f"task in ({numbers})", "task", tuple(row.items()))


@dataclass(frozen=True)
class _InputBranch:
    """A branch of an input of a task, and the row that the task asks of its items."""

    stage: Stage
    task: StatefulTask
    schema: flow.Schema
    right: bool
    """Whether it is of the right input of a join."""
    branch: StreamBranch

    def request(self) -> RowRequest:
        present, operation = self.branch.present, self.task.operation
        if isinstance(operation, flow.Join):
            # An item without one of a join's keys is equal to nothing.
            keys = [text for text, _ in self._values(self._join_keys(operation))]
            present = " and ".join([present, *(f"{key} is not null" for key in keys)])
        within = self.branch.within if present == self.branch.present else None
        if self.stage.kind == "aggregate":
            row = self._aggregate_row()
        elif self.stage.kind == "collect":
            row = self._collect_row()
        else:
            # An item by itself, for a function without a window or for windows by count.
            closes = f"({self.branch.time} + {literal(self.task.delay + 1)})"
            groups = operation.group_by if isinstance(operation, flow.Aggregate) else ()
            key = group_key(self._values(groups))
            row = {"own": "true", "closes": closes, "key": key, "item": self._item()}
        return RowRequest(present, str(self.task.number), tuple(row.items()), within)

    def _values(self, names: Iterable[str]) -> list[Value]:
        values = self.branch.values(self.schema)
        return [values[name] for name in names]

    def _join_keys(self, join: flow.Join) -> list[str]:
        return list(join.on.values() if self.right else join.on)

    def _windows(self, reach: int = 0) -> Row:
        """The windows that an item is in, and by how much they close after their end."""
        task, time = self.task, self.branch.time
        size, slide = literal(task.window.size), literal(task.window.slide)
        earliest = f"({time} - {literal(reach)} - {size})" if reach else f"({time} - {size})"
        latest = f"({time} + {literal(reach)})" if reach else time
        start = f"{earliest} - pmod({earliest}, {slide}) + {slide}"
        stop = f"{latest} - pmod({latest}, {slide})"
        return {
            "own": "true",
            "closes": literal(task.delay + task.reach),
            "start": stop if task.window.tumbling and not reach else start,
            "stop": stop,
            "slide": slide,
            "size": size,
            "time": "0L",
        }

    def _aggregate_row(self) -> Row:
        schema = self.schema
        groups = self._values(self.task.operation.canonical.group_by)  # type: ignore[attr-defined]
        slots = _empty_slots(self.stage)
        for (kind, argument), number in self.task.slots.filled.items():
            typed = resolve_text(argument, schema)
            text, _ = expression_sql(typed.expression, self.branch.values(schema))
            slots[f"{kind}{number}"] = slot_value(kind, text, typed.type)
        return {**self._windows(), "key": group_key(groups), "rank": "0", **packed(groups), **slots}

    def _collect_row(self) -> Row:
        operation, reach = self.task.operation, self.task.reach
        mode, take, keys, order = RANK, ALL, list[str](), NO_ORDER
        match operation:
            case flow.Join():
                mode, keys = JOIN, self._join_keys(operation)
            case flow.Sort() if operation.keys:
                values = self._values(name for name, _ in operation.keys)
                pairs = zip(values, operation.keys, strict=True)
                order = f"array({', '.join(_sort_key(value, down) for value, (_, down) in pairs)})"
            case flow.Truncate():
                take = operation.items
            case flow.Unique() if self.task.first:
                mode, take, keys = PASS, 1, list(operation.by)
            case flow.Function():
                mode, keys = CALL, list(operation.by)
        return {
            **self._windows(reach if self.right else 0),
            "key": group_key(self._values(keys)),
            "mode": str(mode),
            "take": str(min(take, ALL)),
            "reach": literal(reach),
            "item": self._item(order),
        }

    def _item(self, order: str = NO_ORDER) -> str:
        """An item as it is collected; what comes first decides the order."""
        branch, id, right = self.branch, self.branch.id, self.right
        if isinstance(self.task.operation, flow.Join) and not right:
            id = f"replace(replace({id}, '%', '%25'), '&', '%26')"
        values = branch.values(self.schema)
        known = {"order": order, "time": branch.time, "rank": branch.rank, "id": id}
        return struct(**known, right="true" if right else "false", **packed(list(values.values())))


def _empty_slots(stage: Stage) -> Row:
    counts = slot_counts(task.slots for task in stage.tasks)
    return {name: f"cast(null as {type})" for name, type in slot_names(counts).items()}


def _sort_key(value: Value, downwards: bool) -> str:
    text, type = value
    fields = {array: literal(None, kind) for kind, array in ARRAY_OF.items()}
    match type:
        case flow.Type.TEXT if downwards:
            digits = f"translate(hex({text}), '0123456789ABCDEF', 'FEDCBA9876543210')"
            fields["texts"] = f"concat({digits}, 'G')"
        case flow.Type.TEXT:
            fields["texts"] = text
        case flow.Type.NUMBER:
            fields["numbers"] = f"(0D - {text})" if downwards else text
        case flow.Type.BOOLEAN:
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
