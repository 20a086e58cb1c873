"""The operations that look at more than one item: aggregate, count, join, sort, truncate, unique.

All but aggregate take time windows that do not overlap (or, for join, a greatest distance in time). A
result's time is the last millisecond of its window, so it is never earlier than what it was made of, and a
stream's watermark passes through every operator unchanged.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from distributary.errors import InputError
from distributary.flow.aggregates import Accumulator, AggregateCall, accumulator, parse_aggregate
from distributary.flow.language.operators import Operation, names_tuple, table_of_texts
from distributary.flow.language.problems import Checks
from distributary.flow.language.schema import FrozenMapping, Schema, Type, set_fields
from distributary.flow.language.window import TimeWindow, Window, parse_duration, parse_window

GROUPABLE = (Type.TEXT, Type.INTEGER, Type.BOOLEAN)
"""A number is no good to group by: equal in print is not equal, and engines print it differently."""


class WindowOperation(Operation):
    """An operation over windows: how the window is written, and the attribute that gets the new times."""

    window: str
    time: str | None
    """What the time attribute of the output is called; as in the input when not said."""

    @property
    def span(self) -> Window:
        """The window, parsed."""
        return parse_window(self.window)


@dataclass(frozen=True)
class Aggregate(WindowOperation):
    """Count, sum, average, min or max of the items of each window, for each group.

    >>> from distributary.flow import Item, apply
    >>> trades = Schema({"symbol": "text", "size": "integer", "at": "integer"}, time="at")
    >>> rows = [("OTE", 5, 10), ("PPC", 9, 20), ("OTE", 7, 30)]
    >>> items = [Item(f"e{at}", at, {"symbol": s, "size": size, "at": at}) for s, size, at in rows]
    >>> [item.attributes for item in apply(Aggregate("20 ms", {"volume": "sum(size)"}), [trades], [items])]
    [{'volume': 5, 'at': 19}, {'volume': 16, 'at': 39}]
    """

    kind: ClassVar[str] = "aggregate"

    window: str
    values: Mapping[str, str]
    group_by: tuple[str, ...] | Sequence[str] = ()
    time: str | None = None

    def __post_init__(self) -> None:
        checks = Checks()
        given = table_of_texts(self.values, "values", '{ volume = "sum(size)" }')
        texts = checks.attempt_each(given, "values", lambda text, field: parse_aggregate(text, field).text)
        if not given:
            checks.fault('is empty; write for example { volume = "sum(size)" }', field="values")
        check_time(self.time, checks)
        window = checks.attempt(parse_window, self.window)
        groups = checks.attempt(names_tuple, self.group_by, "group_by")
        checks.finish()
        set_fields(self, values=FrozenMapping(texts), window=window.text if window else "", group_by=groups)

    @property
    def aggregates(self) -> dict[str, AggregateCall]:
        """The values, parsed, by their names."""
        return {name: parse_aggregate(text) for name, text in self.values.items()}

    def accumulators(self, schema: Schema) -> dict[str, Accumulator]:
        """The arithmetic of each value over items of the input's schema."""
        checks = Checks()
        found = checks.attempt_each(
            self.aggregates, "values", lambda call, field: accumulator(call, schema, field)
        )
        checks.finish()
        return found

    def schema(self, *inputs: Schema) -> Schema:
        (given,) = inputs
        checks = Checks()
        types = group_types(self.group_by, given, checks)
        accumulators = checks.attempt(self.accumulators, given) or {}
        for name, each in accumulators.items():
            if name in types:
                checks.fault("is an attribute of group_by as well; choose another name", f"values.{name}")
            types[name] = each.type
        return with_time(types, self.time or given.time, None, checks)


@dataclass(frozen=True)
class Count(WindowOperation):
    """How many items each window has, for each group: an aggregate whose one value is `count`.

    >>> from distributary.flow import Item, apply
    >>> trades = Schema({"symbol": "text", "size": "integer", "at": "integer"}, time="at")
    >>> rows = [("OTE", 5, 10), ("PPC", 9, 20), ("OTE", 7, 30)]
    >>> items = [Item(f"e{at}", at, {"symbol": s, "size": size, "at": at}) for s, size, at in rows]
    >>> [item.attributes for item in apply(Count("1 second", ["symbol"]), [trades], [items])]
    [{'symbol': 'OTE', 'count': 2, 'at': 999}, {'symbol': 'PPC', 'count': 1, 'at': 999}]
    """

    kind: ClassVar[str] = "count"

    window: str
    group_by: tuple[str, ...] | Sequence[str] = ()
    name: str = "count"
    time: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise InputError(f"must name an attribute, not {self.name!r}", field="name")
        set_fields(self, window=self.canonical.window, group_by=self.canonical.group_by)

    @property
    def canonical(self) -> Aggregate:
        return Aggregate(self.window, {self.name: "count()"}, self.group_by, self.time)

    def schema(self, *inputs: Schema) -> Schema:
        return self.canonical.schema(*inputs)


@dataclass(frozen=True)
class Join(Operation):
    """Pairs of items, one of each input, with equal keys and times at most `within` apart.

    A pair has the left item's attributes and the right's but for its keys, each with `prefix` before its
    name; its time is the left item's, in the left's time attribute or in the one that `time` names.
    Null keys are equal to nothing.

    >>> from distributary.flow import Item, apply
    >>> trades = Schema({"symbol": "text", "size": "integer", "at": "integer"}, time="at")
    >>> rows = [("OTE", 5, 10), ("PPC", 9, 20), ("OTE", 7, 30)]
    >>> items = [Item(f"e{at}", at, {"symbol": s, "size": size, "at": at}) for s, size, at in rows]
    >>> [item.id for item in apply(Join(["symbol"], "25 ms", "other_"), [trades] * 2, [items] * 2)]
    ['e10&e10', 'e10&e30', 'e20&e20', 'e30&e10', 'e30&e30']
    """

    kind: ClassVar[str] = "join"
    arity: ClassVar[tuple[int, int | None]] = (2, 2)

    on: Mapping[str, str]
    """From the left's attribute to the right's."""
    within: int
    prefix: str
    time: str | None

    def __init__(
        self,
        on: Mapping[str, str] | Sequence[str],
        within: str | int,
        prefix: str = "",
        time: str | None = None,
    ) -> None:
        checks = Checks()
        if isinstance(on, Mapping):
            keys: Mapping[str, str] | None = checks.attempt(table_of_texts, on, "on", '{ symbol = "name" }')
        else:
            keys = {name: name for name in checks.attempt(names_tuple, on, "on") or ()}
        if not checks.found and not keys:
            checks.fault('is empty; name what must be equal, for example ["symbol"]', field="on")
        distance = checks.attempt(parse_duration, within, "within")
        if not isinstance(prefix, str):
            checks.fault(f"must be a text, not {prefix!r}", field="prefix")
        check_time(time, checks)
        checks.finish()
        set_fields(self, on=FrozenMapping(keys or {}), within=distance, prefix=prefix, time=time)

    def from_right(self, right: Schema) -> dict[str, str]:
        """The attributes that the right item gives, by the names they get in the pair."""
        keys = set(self.on.values())
        return {self.prefix + name: name for name in right.attributes if name not in keys}

    def schema(self, *inputs: Schema) -> Schema:
        left, right = inputs
        checks = Checks()
        for mine, theirs in self.on.items():
            types = checks.attempt(left.require, mine, "on"), checks.attempt(right.require, theirs, "on")
            if None not in types and types[0] is not types[1]:
                reason = f"{mine!r} is {types[0]} on the left and {theirs!r} {types[1]} on the right"
                checks.fault(f"{reason}; keys need one type", field="on")
        types_of_pair = dict(left.attributes)
        for name, original in self.from_right(right).items():
            if name in types_of_pair:
                reason = f"both inputs have {name!r}; give a prefix for the right's attributes, or rename one"
                checks.fault(reason, field="prefix")
            types_of_pair[name] = right.attributes[original]
        return with_time(types_of_pair, self.time or left.time, left.time, checks)


class Arrangement(WindowOperation):
    """An operation that keeps some items of each window, arranges them and ranks them from 1.

    They keep their ids and get the time of the window's last millisecond: they are given out when it has
    passed, and nothing that reads them may find them late.
    """

    def __post_init__(self) -> None:
        checks = Checks()
        window = checks.attempt(tumbling_window, self.window)
        self._check(checks)
        check_time(self.time, checks)
        checks.finish()
        set_fields(self, window=window.text if window else "")

    @abstractmethod
    def _check(self, checks: Checks) -> None:
        """Check the parameters of the one kind, and bring them into their canonical form."""

    @property
    def span(self) -> TimeWindow:
        return tumbling_window(self.window)

    @property
    def keys(self) -> tuple[tuple[str, bool], ...]:
        """The attributes to sort by, and whether downwards; then stream order decides."""
        return ()

    @property
    def decided_by(self) -> tuple[str, ...]:
        """The attributes whose values decide what is kept, and where."""
        return tuple(name for name, _ in self.keys)

    def schema(self, *inputs: Schema) -> Schema:
        (given,) = inputs
        checks = Checks()
        for name in self.decided_by:
            checks.attempt(given.require, name, "by")
        return with_time(dict(given.attributes), self.time or given.time, given.time, checks)


@dataclass(frozen=True)
class Sort(Arrangement):
    """The items of each window in another order: equal values in stream order, nulls last.

    Every item gets the time of its window's end and, as its rank, its place in the window.

    >>> from distributary.flow import Item, apply
    >>> trades = Schema({"symbol": "text", "size": "integer", "at": "integer"}, time="at")
    >>> rows = [("OTE", 5, 10), ("PPC", 9, 20), ("OTE", 7, 30)]
    >>> items = [Item(f"e{at}", at, {"symbol": s, "size": size, "at": at}) for s, size, at in rows]
    >>> [(item.rank, item.id) for item in apply(Sort("1 second", ["size desc"]), [trades], [items])]
    [(1, 'e20'), (2, 'e30'), (3, 'e10')]
    """

    kind: ClassVar[str] = "sort"

    window: str
    by: tuple[str, ...] | Sequence[str]
    time: str | None = None

    def _check(self, checks: Checks) -> None:
        set_fields(self, by=checks.attempt(_orders, self.by))

    @property
    def keys(self) -> tuple[tuple[str, bool], ...]:
        pairs = [order.rpartition(" ") for order in self.by]
        return tuple((name, direction == "desc") for name, _, direction in pairs)


@dataclass(frozen=True)
class Truncate(Arrangement):
    """The first so many items of each window, in stream order, ranked.

    >>> from distributary.flow import Item, apply
    >>> trades = Schema({"symbol": "text", "size": "integer", "at": "integer"}, time="at")
    >>> rows = [("OTE", 5, 10), ("PPC", 9, 20), ("OTE", 7, 30)]
    >>> items = [Item(f"e{at}", at, {"symbol": s, "size": size, "at": at}) for s, size, at in rows]
    >>> [(item.rank, item.id) for item in apply(Truncate("1 second", 2), [trades], [items])]
    [(1, 'e10'), (2, 'e20')]
    """

    kind: ClassVar[str] = "truncate"

    window: str
    items: int
    time: str | None = None

    def _check(self, checks: Checks) -> None:
        if isinstance(self.items, bool) or not isinstance(self.items, int) or self.items < 1:
            checks.fault(f"must be a whole number above 0, not {self.items!r}", field="items")


@dataclass(frozen=True)
class Unique(Arrangement):
    """Of the items of a window with equal values the first in stream order, ranked; null equals null here.

    >>> from distributary.flow import Item, apply
    >>> trades = Schema({"symbol": "text", "size": "integer", "at": "integer"}, time="at")
    >>> rows = [("OTE", 5, 10), ("PPC", 9, 20), ("OTE", 7, 30)]
    >>> items = [Item(f"e{at}", at, {"symbol": s, "size": size, "at": at}) for s, size, at in rows]
    >>> [(item.rank, item.id) for item in apply(Unique("1 second", ["symbol"]), [trades], [items])]
    [(1, 'e10'), (2, 'e20')]
    """

    kind: ClassVar[str] = "unique"

    window: str
    by: tuple[str, ...] | Sequence[str]
    time: str | None = None

    def _check(self, checks: Checks) -> None:
        by = checks.attempt(names_tuple, self.by, "by")
        if by == ():
            checks.fault('is empty; name what must not repeat, for example ["title"]', field="by")
        set_fields(self, by=by)

    @property
    def decided_by(self) -> tuple[str, ...]:
        return tuple(self.by)


# Checks that several operations make


def tumbling_window(text: str) -> TimeWindow:
    """A time window that slides by its size; this is all that sort, truncate and unique take."""
    window = parse_window(text)
    if not isinstance(window, TimeWindow) or not window.tumbling:
        reason = f"{text!r} must be a time without 'every', such as '10 minutes'"
        raise InputError(reason, field="window")
    return window


def group_types(group_by: Sequence[str], given: Schema, checks: Checks) -> dict[str, Type]:
    """The types of the attributes to group by."""
    types: dict[str, Type] = {}
    for name in group_by:
        type = checks.attempt(given.require, name, "group_by")
        if type is not None and type not in GROUPABLE:
            reason = f"{name!r} is a {type}; group by text, integer or boolean, such as floor({name} * 100)"
            checks.fault(reason, field="group_by")
        types[name] = type or Type.TEXT
    return types


def check_time(time: str | None, checks: Checks) -> None:
    """Refuse what cannot be the name of the time attribute."""
    if time is not None and (not isinstance(time, str) or not time):
        checks.fault(f"must name an attribute, not {time!r}", field="time")


def with_time(types: dict[str, Type], time: str, overwritten: str | None, checks: Checks) -> Schema:
    """The schema of results that get new times, in the attribute `time`; only `overwritten` may be there."""
    if time in types and time != overwritten:
        checks.fault(f"there is an attribute {time!r} already; name another for the time", field="time")
    checks.finish()
    return Schema({**types, time: Type.INTEGER}, time)


def _orders(given: Sequence[str]) -> tuple[str, ...]:
    """What to sort by, as `name asc` or `name desc`."""
    orders = []
    for text in names_tuple(given, "by"):
        name, _, direction = text.rpartition(" ")
        if direction.lower() not in ("asc", "desc") or not name:
            name, direction = text, "asc"
        orders.append(f"{name.strip()} {direction.lower()}")
    if not orders:
        raise InputError('is empty; name what to sort by, for example ["score desc"]', field="by")
    return tuple(orders)
