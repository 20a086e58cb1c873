"""What operators do: the operations that need no memory, and what every operation knows.

An `Operation` is a kind with its parameters, apart from names and wiring (an `Operator` of a query has
those). It is a frozen dataclass whose texts are canonical: two operations that mean the same compare equal,
which is how common parts of many queries are found. An operation knows how many inputs it takes, which
schema it gives for theirs, and (see `splitting`) how it is replicated. What it computes is said twice, in
the interpreter and for running incrementally; the two share nothing but expressions and the arithmetic of
aggregates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, ClassVar

from distributary.errors import InputError
from distributary.filters.where import expression as conditions
from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.values import Duration, Instant, Months, TimeOfDay
from distributary.flow.language.expression import TypedExpression, literal_type
from distributary.flow.language.parse import canonical, resolve_text
from distributary.flow.language.problems import Checks
from distributary.flow.language.schema import FrozenMapping, Schema, Type, listed, set_fields
from distributary.model import require_text


class Operation(ABC):
    """A kind of operator with its parameters."""

    kind: ClassVar[str]
    arity: ClassVar[tuple[int, int | None]] = (1, 1)
    """The least and the most inputs; None for any number."""
    ports: ClassVar[tuple[str, ...]] = ("",)
    """What is appended to the operator's name to name each of its output streams."""
    internal: ClassVar[bool] = False
    """Whether only the engines make it, never a user."""

    @abstractmethod
    def schema(self, *inputs: Schema) -> Schema:
        """The schema of the output (of each, if there are several); an error when the inputs do not fit."""

    @property
    def canonical(self) -> Operation:
        """The operation that stands for all that mean the same."""
        return self


@dataclass(frozen=True)
class FilterOperation(Operation):
    """Keep the items for which `where` is true, or drop those for which `block` is.

    >>> from distributary.flow import Item, apply
    >>> trades = Schema({"symbol": "text", "size": "integer", "at": "integer"}, time="at")
    >>> rows = [("OTE", 5, 10), ("PPC", 9, 20), ("OTE", 7, 30)]
    >>> items = [Item(f"e{at}", at, {"symbol": s, "size": size, "at": at}) for s, size, at in rows]
    >>> [item.id for item in apply(FilterOperation(where="size > 6"), [trades], [items])]
    ['e20', 'e30']
    """

    kind: ClassVar[str] = "filter"

    where: str | None = None
    block: str | None = None

    def __post_init__(self) -> None:
        if (self.where is None) == (self.block is None):
            raise InputError("give one of where (what to keep) and block (what to drop)", field="where")
        name, text = ("where", self.where) if self.where is not None else ("block", self.block)
        try:
            set_fields(self, **{name: parse_condition(text).text})
        except InputError as error:
            raise InputError(error.reason, field=name, text=error.text, position=error.position) from error

    @property
    def condition(self) -> conditions.Expression:
        """The condition as a tree, of what to keep or what to drop."""
        return WhereFilter.parse(self.where if self.where is not None else self.block).expression

    def schema(self, *inputs: Schema) -> Schema:
        checks = Checks()
        name = "where" if self.where is not None else "block"
        checks.found.extend(condition_faults(self.condition, inputs[0], name))
        checks.finish()
        return inputs[0]


@dataclass(frozen=True)
class Map(Operation):
    """Compute attributes from expressions over the input's; `keep` says which of the input's stay.

    `keep` is true (all), false (none) or a list of names; the time attribute always stays.

    >>> from distributary.flow import Item, apply
    >>> trades = Schema({"symbol": "text", "size": "integer", "at": "integer"}, time="at")
    >>> rows = [("OTE", 5, 10), ("PPC", 9, 20), ("OTE", 7, 30)]
    >>> items = [Item(f"e{at}", at, {"symbol": s, "size": size, "at": at}) for s, size, at in rows]
    >>> [item.attributes for item in apply(Map({"lots": "size * 100"}, keep=False), [trades], [items[:1]])]
    [{'at': 10, 'lots': 500}]
    """

    kind: ClassVar[str] = "map"

    set: Mapping[str, str] = field(default_factory=lambda: FrozenMapping({}))
    keep: bool | tuple[str, ...] | Sequence[str] = True

    def __post_init__(self) -> None:
        checks = Checks()
        given = table_of_texts(self.set, "set", '{ worth = "price * size" }')
        texts = checks.attempt_each(given, "set", canonical)
        if not isinstance(self.keep, bool):
            set_fields(self, keep=checks.attempt(names_tuple, self.keep, "keep"))
        if not given and isinstance(self.keep, bool):
            checks.fault("is empty and keep names no attributes, so there is nothing to do", field="set")
        checks.finish()
        set_fields(self, set=FrozenMapping(texts))

    def kept(self, schema: Schema) -> list[str]:
        """The attributes of the input that stay as they are."""
        if self.keep is True:
            names = list(schema.attributes)
        else:
            chosen = (self.keep or ()) if not isinstance(self.keep, bool) else ()
            names = [name for name in schema.attributes if name in chosen or name == schema.time]
        return [name for name in names if name not in self.set]

    def values(self, schema: Schema) -> dict[str, TypedExpression]:
        """The expressions, checked against the input's schema."""
        checks = Checks()
        typed = checks.attempt_each(self.set, "set", lambda text, field: resolve_text(text, schema, field))
        checks.finish()
        return typed

    def schema(self, *inputs: Schema) -> Schema:
        (given,) = inputs
        checks = Checks()
        values = checks.attempt(self.values, given) or {}
        if given.time in self.set:
            checks.fault("is the time attribute, which a map cannot change", field=f"set.{given.time}")
        for name in () if isinstance(self.keep, bool) else self.keep:
            checks.attempt(given.require, name, "keep")
        checks.finish()
        types = {name: given.attributes[name] for name in self.kept(given)}
        return Schema({**types, **{name: value.type for name, value in values.items()}}, given.time)


@dataclass(frozen=True)
class Rename(Operation):
    """Give attributes other names.

    >>> from distributary.flow import Item, apply
    >>> trades = Schema({"symbol": "text", "size": "integer", "at": "integer"}, time="at")
    >>> rows = [("OTE", 5, 10), ("PPC", 9, 20), ("OTE", 7, 30)]
    >>> items = [Item(f"e{at}", at, {"symbol": s, "size": size, "at": at}) for s, size, at in rows]
    >>> [item.attributes for item in apply(Rename({"size": "lots"}), [trades], [items[:1]])]
    [{'symbol': 'OTE', 'lots': 5, 'at': 10}]
    """

    kind: ClassVar[str] = "rename"

    names: Mapping[str, str]
    """From the old name to the new one."""

    def __post_init__(self) -> None:
        set_fields(self, names=_pairs_of_names(self.names, '{ px = "price" }'))

    def schema(self, *inputs: Schema) -> Schema:
        (given,) = inputs
        checks = Checks()
        for old in self.names:
            checks.attempt(given.require, old, "names")
        checks.finish()
        renamed: dict[str, Type] = {}
        for name, type in given.attributes.items():
            new = self.names.get(name, name)
            if new in renamed:
                checks.fault(f"two attributes would be called {new!r}", field="names")
            renamed[new] = type
        checks.finish()
        return Schema(renamed, self.names.get(given.time, given.time))


@dataclass(frozen=True)
class Copy(Operation):
    """Copy attributes under further names.

    >>> from distributary.flow import Item, apply
    >>> trades = Schema({"symbol": "text", "size": "integer", "at": "integer"}, time="at")
    >>> rows = [("OTE", 5, 10), ("PPC", 9, 20), ("OTE", 7, 30)]
    >>> items = [Item(f"e{at}", at, {"symbol": s, "size": size, "at": at}) for s, size, at in rows]
    >>> [item.attributes for item in apply(Copy({"size": "lots"}), [trades], [items[:1]])]
    [{'symbol': 'OTE', 'size': 5, 'at': 10, 'lots': 5}]
    """

    kind: ClassVar[str] = "copy"

    names: Mapping[str, str]
    """From the attribute to the name of its copy."""

    def __post_init__(self) -> None:
        set_fields(self, names=_pairs_of_names(self.names, '{ price = "last" }'))

    def schema(self, *inputs: Schema) -> Schema:
        (given,) = inputs
        checks = Checks()
        types = dict(given.attributes)
        for name, new in self.names.items():
            type = checks.attempt(given.require, name, "names")
            if new in types:
                checks.fault(f"there is an attribute {new!r} already", field="names")
            elif type is not None:
                types[new] = type
        checks.finish()
        return Schema(types, given.time)


@dataclass(frozen=True)
class Union(Operation):
    """All items of two or more streams with the same schema.

    >>> from distributary.flow import Item, apply
    >>> trades = Schema({"symbol": "text", "size": "integer", "at": "integer"}, time="at")
    >>> rows = [("OTE", 5, 10), ("PPC", 9, 20), ("OTE", 7, 30)]
    >>> items = [Item(f"e{at}", at, {"symbol": s, "size": size, "at": at}) for s, size, at in rows]
    >>> [item.id for item in apply(Union(), [trades, trades], [items[:2], items[2:]])]
    ['0:e10', '0:e20', '1:e30']
    """

    kind: ClassVar[str] = "union"
    arity: ClassVar[tuple[int, int | None]] = (2, None)

    def schema(self, *inputs: Schema) -> Schema:
        require_alike(inputs)
        return inputs[0]


@dataclass(frozen=True)
class Split(Operation):
    """Two identical copies of a stream, called `name.1` and `name.2`.

    >>> from distributary.flow import Item, apply
    >>> trades = Schema({"symbol": "text", "size": "integer", "at": "integer"}, time="at")
    >>> rows = [("OTE", 5, 10), ("PPC", 9, 20), ("OTE", 7, 30)]
    >>> items = [Item(f"e{at}", at, {"symbol": s, "size": size, "at": at}) for s, size, at in rows]
    >>> [item.id for item in apply(Split(), [trades], [items])], Split().ports
    (['e10', 'e20', 'e30'], ('.1', '.2'))
    """

    kind: ClassVar[str] = "split"
    ports: ClassVar[tuple[str, ...]] = (".1", ".2")

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0]


# Checks that several operations make


def require_alike(inputs: Sequence[Schema]) -> None:
    """Refuse inputs whose schemas differ, saying where."""
    checks = Checks()
    first = inputs[0]
    for number, other in enumerate(inputs[1:], 2):
        for name in dict.fromkeys([*first.attributes, *other.attributes]):
            types = first.type_of(name), other.type_of(name)
            if types[0] is not types[1]:
                told = [str(type) if type else "missing" for type in types]
                checks.fault(
                    f"all inputs need one schema, and {name!r} is {told[0]} in input 1 but {told[1]} in "
                    f"input {number}; map or rename it first",
                    field="from",
                )
        if first.time != other.time:
            reason = f"the time is {first.time!r} in input 1 but {other.time!r} in input {number}; rename it"
            checks.fault(reason, field="from")
    checks.finish()


def table_of_texts(given: Any, field: str, example: str) -> dict[str, str]:
    """A table whose keys and values are texts."""
    if not isinstance(given, Mapping):
        raise InputError(f"must be a table such as {example}, not {given!r}", field=field)
    for name, text in given.items():
        if not isinstance(name, str) or not name or not isinstance(text, str):
            raise InputError(f"must be a table such as {example}, not {name!r} = {text!r}", field=field)
        require_text(name, field)
        require_text(text, field)
    return dict(given)


def names_tuple(given: Any, field: str) -> tuple[str, ...]:
    """A list of attributes' names, each once."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise InputError(f'must be a list of attributes such as ["symbol"], not {given!r}', field=field)
    names = tuple(given)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InputError(f"must hold names of attributes, not {name!r}", field=field)
        if names.count(name) > 1:
            raise InputError(f"names {name!r} twice", field=field)
    return names


def _pairs_of_names(given: Any, example: str) -> FrozenMapping[str]:
    pairs = table_of_texts(given, "names", example)
    if not pairs:
        raise InputError(f"is empty; write for example {example}", field="names")
    targets = list(pairs.values())
    for new in targets:
        if not new or targets.count(new) > 1:
            raise InputError(f"two attributes would be called {new!r}", field="names")
    return FrozenMapping(pairs)


def parse_condition(text: Any) -> WhereFilter:
    """A condition of a query: any that a subscription can have, but not one on the time at which it runs."""
    condition = WhereFilter.parse(text)
    if condition.looks_at_clock:
        reason = (
            "a query cannot look at the clock: now() would give other items at each place and in each run; "
            "compare with a time that the items carry, or write now() in a subscription to what is published"
        )
        raise InputError(reason, field="where", text=text)
    return condition


def condition_faults(condition: conditions.Expression, schema: Schema, field: str) -> Iterator[InputError]:
    """What a condition says of attributes that the schema does not have, or of other types.

    The language of conditions takes such a comparison for unknown; over a schema it can only be a mistake.
    """
    match condition:
        case conditions.And(parts) | conditions.Or(parts):
            for part in parts:
                yield from condition_faults(part, schema, field)
            return
        case conditions.Not(part):
            yield from condition_faults(part, schema, field)
            return
        case conditions.TruthConstant():
            return
    missing = [name for name in conditions.attributes_of(condition) if name not in schema]
    for name in missing:
        yield InputError(f"no attribute {name!r}; there are {listed(schema.attributes)}", field=field)
    computed = any(not isinstance(operand, str) for operand in conditions.operands_of(condition))
    if missing or computed or isinstance(condition, conditions.IsNull):
        return
    yield from _type_faults(condition, schema, field)


def _type_faults(condition: Any, schema: Schema, field: str) -> Iterator[InputError]:
    if isinstance(condition, conditions.CompareAttributes):
        left, right = (schema.attributes[str(name)] for name in (condition.left, condition.right))
        if not comparable(left, right):
            reason = f"{condition.left!r} is {left} and {condition.right!r} is {right}; they do not compare"
            yield InputError(reason, field=field)
        return
    match condition:
        case conditions.Like() | conditions.MatchesPattern():
            wanted: list[Type | str | None] = [Type.TEXT]
        case conditions.Compare() | conditions.Between() | conditions.In():
            wanted = [_compared_type(literal) for literal in conditions.literals_of(condition)]
        case _:
            wanted = [Type.BOOLEAN]
    type = schema.attributes[condition.attribute]
    for other in dict.fromkeys(wanted):
        if other == TIME and type is Type.TEXT:
            continue  # read as ISO 8601
        if other is not None and not (isinstance(other, Type) and comparable(type, other)):
            yield InputError(f"{condition.attribute!r} is {type}, not {other}", field=field)


TIME = "a time, or text that holds one"


def _compared_type(literal: Any) -> Type | str | None:
    """The type of attributes with which a literal of a condition compares, or what it is itself."""
    match literal:
        case Decimal():
            return Type.NUMBER
        case Instant() | TimeOfDay():
            return TIME
        case bytes():
            return "binary"
        case Duration() | Months():
            return "an interval"
    return literal_type(literal)


def comparable(one: Type, other: Type) -> bool:
    """Whether values of the two types compare."""
    return one is other or {one, other} == {Type.INTEGER, Type.NUMBER}
