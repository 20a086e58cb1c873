"""Functions of the user's as operators, and what they declare about their replication (section 7.3).

A function is named as `module:name`; what it gives is declared, and checked row by row.

- Without a window it gets one item and returns rows (mappings of the declared attributes). It has no memory,
  so any number of replicas may share its stream.
- With a window it gets the items of each time window, in stream order, and `replicas` says what is true of
  it:
  - "none": it must see all items of a window; it is not replicated.
  - "keyed": items with different values of the attributes `by` have nothing to do with one another. It gets
    the items of one window and one group at a time, and replicas may share the stream by those values.
  - "union": what it gives for a window is the union of what it gives for any parts of it. It returns pairs
    (item, row) that say which item a row stems from, for the row's id.
  - "merge": it works in three steps: `partial(items)` gives a state, plain data as JSON can hold;
    `merge(state, state)` combines two, in any order and grouping; `use(state)` gives the rows.

A call that fails, or gives a row that does not fit, gives nothing: its item or window is rejected with the
reason, and the others go on. `options` are passed to every call as keyword arguments.

To name a function is to have its module imported. A process that takes queries from elsewhere says once which
functions these may name (`permit_functions`); from then on no other is imported or called.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

from distributary.errors import DistributaryError, InputError
from distributary.flow.language.identifiers import function_id, item_in_window_id, window_id
from distributary.flow.language.operators import Operation, names_tuple, table_of_texts
from distributary.flow.language.problems import Checks
from distributary.flow.language.schema import PUBLIC_TYPES, FrozenMapping, Item, Schema, Type, set_fields
from distributary.flow.language.window import TimeWindow, parse_window
from distributary.flow.language.windowed import group_types

USE = re.compile(r"[^\W\d][\w.]*:[^\W\d][\w.]*")
REPLICAS = ("none", "keyed", "union", "merge")


@dataclass(frozen=True)
class Function(Operation):
    """A function of the user's.

    >>> Function(use="statistics:median", gives={"middle": "number"}, window="1 minute").replicas
    'none'
    """

    kind: ClassVar[str] = "function"

    use: str
    gives: Mapping[str, str]
    """The attributes of the rows, with their types; the time attribute is added."""
    window: str | None = None
    replicas: str = ""
    by: tuple[str, ...] | Sequence[str] = ()
    partial: str | None = None
    merge: str | None = None
    options: Mapping[str, str | int | float | bool] = field(default_factory=lambda: FrozenMapping({}))

    def __post_init__(self) -> None:
        checks = Checks()
        if self.replicas == "":
            set_fields(self, replicas="union" if self.window is None else "none")
        window = None if self.window is None else checks.attempt(parse_window, self.window)
        if window is not None and not isinstance(window, TimeWindow):
            checks.fault("must be a time, such as '10 minutes'", field="window")
        gives = checks.attempt(table_of_texts, self.gives, "gives", '{ score = "number" }') or {}
        for name, type in gives.items():
            if type not in PUBLIC_TYPES:
                checks.fault(f"{type!r} is no type; types are {', '.join(PUBLIC_TYPES)}", f"gives.{name}")
        by = checks.attempt(names_tuple, self.by, "by") or ()
        self._check_replicas(by, checks)
        plain = isinstance(self.options, Mapping) and all(
            isinstance(name, str) and isinstance(value, str | int | float | bool)
            for name, value in self.options.items()
        )
        if not plain:
            checks.fault(f"must be a table of texts, numbers and booleans, not {self.options!r}", "options")
        for name in ("use", "partial", "merge"):
            use = getattr(self, name)
            if (use is not None or name == "use") and (not isinstance(use, str) or not USE.fullmatch(use)):
                checks.fault(f"must be written module:name, not {use!r}", field=name)
        checks.finish()
        set_fields(self, window=window.text if window else None, gives=FrozenMapping(gives), by=by)
        set_fields(self, options=FrozenMapping(dict(self.options)))

    def _check_replicas(self, by: tuple[str, ...], checks: Checks) -> None:
        allowed = ("none", "union") if self.window is None else REPLICAS
        if self.replicas not in allowed:
            told = "without a window it is" if self.window is None else "it is"
            checks.fault(f"{self.replicas!r} is not known; {told} one of {', '.join(allowed)}", "replicas")
        if (self.replicas == "keyed") != bool(by):
            checks.fault('goes with replicas = "keyed", and names the attributes', field="by")
        for name in ("partial", "merge"):
            if (self.replicas == "merge") != (getattr(self, name) is not None):
                checks.fault('goes with replicas = "merge", and names a function', field=name)

    @property
    def span(self) -> TimeWindow | None:
        """The window, parsed."""
        window = None if self.window is None else parse_window(self.window)
        return window if isinstance(window, TimeWindow) else None

    @property
    def time_window(self) -> TimeWindow:
        """The window of a function that has one, parsed."""
        assert self.span is not None
        return self.span

    def schema(self, *inputs: Schema) -> Schema:
        (given,) = inputs
        checks = Checks()
        for name in ("use", "partial", "merge"):
            if (use := getattr(self, name)) is not None:
                checks.attempt(load, use, name)
        group_types(self.by, given, checks)
        if given.time in self.gives:
            checks.fault("is the time attribute of the input, which is added anyway", f"gives.{given.time}")
        checks.finish()
        types: dict[str, Type | str] = {**self.gives, given.time: Type.INTEGER}
        return Schema(types, given.time)


_permitted: set[str] | None = None
"""The functions that may be loaded; None for all."""


def permit_functions(uses: Iterable[str]) -> None:
    """Load no other functions than these, and those permitted before, for as long as the process lives.

    For processes that take queries from a network: what comes from there names no code but this.
    """
    global _permitted
    _permitted = {*(_permitted or ()), *uses}


def load(use: str, field: str = "use") -> Callable[..., Any]:
    """The function that `module:name` names; InputError when it cannot be loaded, or is not permitted."""
    if not isinstance(use, str) or not USE.fullmatch(use):
        raise InputError(f"must be written module:name, not {use!r}", field=field)
    if _permitted is not None and use not in _permitted:
        told = ", ".join(sorted(_permitted)) or "none"
        raise InputError(f"is not permitted here; those that are: {told}", field=field, text=use)
    return _loaded(use, field)


@lru_cache(maxsize=1024)
def _loaded(use: str, field: str) -> Callable[..., Any]:
    module, _, name = use.partition(":")
    try:
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # a module of the user's may fail in any way when it is imported
        reason = f"cannot be loaded: {type(error).__name__}: {error}"
        raise InputError(reason, field=field, text=use) from error
    if not callable(found):
        raise InputError("is no function", field=field, text=use)
    return found


State = dict[str, Any]
"""What a replica of a function hands on: its `state`, or the reason why it `failed`."""


class CallError(DistributaryError):
    """A call of a user's function failed, or gave what does not fit."""


def call_item(function: Function, schema: Schema, item: Item) -> list[Item]:
    """What a function without a window gives for one item."""
    rows = _called(function.use, function, item)
    return [_item(row, schema, function_id(item.id, n), item.time) for n, row in enumerate(rows)]


def call_window(
    function: Function, schema: Schema, start: int, group: Sequence[Any], items: Sequence[Item]
) -> list[Item]:
    """What a function gives for the items of a window (and group), which must be in stream order."""
    time = start + function.time_window.size - 1
    if function.replicas == "merge":
        return call_finish(function, schema, start, call_partial(function, items))
    rows = _called(function.use, function, list(items))
    if function.replicas == "union":
        return _stemming(rows, schema, start, time, items)
    of = window_id(start, group)
    return [_item(row, schema, function_id(of, n), time) for n, row in enumerate(rows)]


def call_partial(function: Function, items: Sequence[Item]) -> State:
    """The state for some items of a window; a failure is part of it, so that it spoils the whole window."""
    try:
        return {"state": _guarded(function.partial, list(items), **function.options)}
    except CallError as error:
        return {"failed": str(error)}


def call_merge(function: Function, one: State, other: State) -> State:
    """The state for what either state is for."""
    if "failed" in one or "failed" in other:
        return one if "failed" in one else other
    try:
        return {"state": _guarded(function.merge, one["state"], other["state"], **function.options)}
    except CallError as error:
        return {"failed": str(error)}


def call_finish(function: Function, schema: Schema, start: int, state: State) -> list[Item]:
    """The items that the state of a whole window stands for."""
    if "failed" in state:
        raise CallError(state["failed"])
    time = start + function.time_window.size - 1
    rows = _called(function.use, function, state["state"])
    return [_item(row, schema, function_id(window_id(start, ()), n), time) for n, row in enumerate(rows)]


def _guarded(use: str | None, *arguments: Any, **options: Any) -> Any:
    assert use is not None
    try:
        return load(use)(*arguments, **options)
    except Exception as error:  # a user's function may fail in any way
        raise CallError(f"{use} failed: {type(error).__name__}: {error}") from error


def _called(use: str, function: Function, given: Any) -> list[Any]:
    """The rows of one call; a generator's own failures come out here as well."""
    rows = _guarded(use, given, **function.options)
    if isinstance(rows, Mapping) or not isinstance(rows, Iterable):
        raise CallError(f"{use} must return rows, not {rows!r}")
    try:
        return list(rows)
    except Exception as error:
        raise CallError(f"{use} failed: {type(error).__name__}: {error}") from error


def _stemming(
    pairs: Sequence[Any], schema: Schema, start: int, time: int, items: Sequence[Item]
) -> list[Item]:
    """The items of (item, row) pairs; a row is numbered among those of the same item."""
    known = {item.id for item in items}
    counts: dict[str, int] = {}
    results = []
    for pair in pairs:
        if not isinstance(pair, tuple) or len(pair) != 2 or getattr(pair[0], "id", None) not in known:
            raise CallError(f"must return pairs (item of the window, row), not {pair!r}")
        number = counts.get(pair[0].id, 0)
        counts[pair[0].id] = number + 1
        results.append(
            _item(pair[1], schema, function_id(item_in_window_id(pair[0].id, start), number), time)
        )
    return results


def _item(row: Any, schema: Schema, id: str, time: int) -> Item:
    if not isinstance(row, Mapping):
        raise CallError(f"must return rows (mappings), not {row!r}")
    unknown = [name for name in row if name not in schema or name == schema.time]
    if unknown:
        raise CallError(f"gave {unknown[0]!r}, which is not declared")
    attributes = {**row, schema.time: time}
    fault = schema.fault(attributes)
    if fault is not None:
        raise CallError(f"gave a {fault[0]!r} that does not fit: {fault[1]}")
    return Item(id, time, schema.settled(attributes))
