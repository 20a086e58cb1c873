"""What events have: the attributes by name, the kinds of values of each, and whether there are topics.

A schema is made of an Arrow schema, of a text such as Spark's `price double, tags array<string>`, or of
sampled events. A nested object's attributes have dotted names, as in events. Where the schema was sampled,
events to come may have more than was seen, so `complete` is false.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import Enum
from typing import TYPE_CHECKING, Any

from distributary.filters.lint.ddl import DDL_KINDS, DdlType, read_ddl
from distributary.filters.where.values import Kind, kind_of, plain
from distributary.model import Event

if TYPE_CHECKING:
    import pyarrow as pa

MAX_SAMPLED = 10_000
"""So many events are looked at, when a schema is made of events."""
MAX_NAMES = 10_000
"""So many names are compared with a misspelt one."""
MAX_LOOKUPS = 500
"""For so many misspelt names the nearest is looked for; of others it is only said that nothing has them."""


class Container(Enum):
    """What an attribute holds that is no plain value."""

    ARRAY = "an array"
    MAP = "a map"
    OBJECT = "an object"


@dataclass(frozen=True, slots=True)
class ValueType:
    """The kinds that a value can have, and those of its elements; None for any kind."""

    kinds: frozenset[Kind | Container] | None = None
    element: ValueType | None = None

    def __str__(self) -> str:
        return " or ".join(sorted(kind.value for kind in self.kinds)) if self.kinds else "of no known kind"


ANY = ValueType()


def one_of(*kinds: Kind | Container) -> ValueType:
    """The type of values of these kinds."""
    return ValueType(frozenset(kinds))


def either(types: Iterable[ValueType]) -> ValueType:
    """The type of values that are of one of the types."""
    kinds: set[Kind | Container] = set()
    elements = []
    for each in types:
        if each.kinds is None:
            return ANY
        kinds |= each.kinds
        if each.kinds & {Container.ARRAY, Container.MAP}:
            elements.append(each.element or ANY)
    return ValueType(frozenset(kinds), either(elements) if elements else None)


@dataclass(frozen=True)
class EventSchema:
    """The attributes of events and their types.

    >>> EventSchema.of_ddl("price double, wind struct<speed: int>").type_of("wind.speed").kinds
    frozenset({<Kind.NUMBER: 'a number'>})
    """

    attributes: Mapping[str, ValueType]
    has_topic: bool = True
    has_document: bool = True
    complete: bool = True
    """Whether events have no attributes but these."""
    _folded: dict[str, str] = field(default_factory=dict, compare=False, repr=False)
    _nearest: dict[str, str | None] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of_arrow(
        cls, schema: pa.Schema, *, topic: str = "topic", document: str = "document", id: str = "id"
    ) -> EventSchema:
        """The schema of events in an Arrow table; the names of three columns can be given."""
        return cls._of_columns(
            {column.name: _of_arrow_type(column.type) for column in schema},
            {topic, document, id},
            topic,
            document,
        )

    @classmethod
    def of_ddl(
        cls, text: str, *, topic: str = "topic", document: str = "document", id: str = "id"
    ) -> EventSchema:
        """What Spark writes as `price double, at timestamp`; an `InputError` says what is wrong."""
        columns = {name: _of_ddl_type(type_) for name, type_ in read_ddl(text).items()}
        return cls._of_columns(columns, {topic, document, id}, topic, document)

    @classmethod
    def of_events(cls, events: Iterable[Event]) -> EventSchema:
        """The schema of the events that are given, `MAX_SAMPLED` of them at most."""
        found: dict[str, set[ValueType]] = {}
        has_topic = has_document = False
        for _, event in zip(range(MAX_SAMPLED), events, strict=False):
            has_topic |= event.topic is not None
            has_document |= event.document is not None
            for name, value in event.attributes.items():
                if value is not None:
                    found.setdefault(name, set()).add(_of_value(value))
        attributes = {name: either(types) for name, types in found.items()}
        return cls(_with_objects(attributes), has_topic, has_document, complete=False)

    @classmethod
    def _of_columns(
        cls, columns: dict[str, _Nested], own: set[str], topic: str, document: str
    ) -> EventSchema:
        flat: dict[str, ValueType] = {}
        for name, type_ in columns.items():
            if name not in own:
                _flatten(name, type_, flat)
        return cls(flat, topic in columns, document in columns)

    def joined(self, other: EventSchema) -> EventSchema:
        """The schema of events of which some have one schema and some another."""
        names = dict.fromkeys([*self.attributes, *other.attributes])
        types = {
            name: either(each.attributes[name] for each in (self, other) if name in each.attributes)
            for name in names
        }
        return EventSchema(
            types,
            self.has_topic or other.has_topic,
            self.has_document or other.has_document,
            self.complete and other.complete,
        )

    def type_of(self, name: str) -> ValueType | None:
        """The type of an attribute; None when there is none of this name."""
        found = self.attributes.get(name)
        if found is not None:
            return found
        if name == "id" or (name == "topic" and self.has_topic):
            return one_of(Kind.TEXT)
        above, dot, _ = name.rpartition(".")
        while dot:
            outer = self.attributes.get(above)
            if outer is not None and (outer.kinds is None or Container.MAP in outer.kinds):
                return (outer.element if outer.kinds else None) or ANY
            above, dot, _ = above.rpartition(".")
        return None

    def nearest(self, name: str) -> str | None:
        """The attribute whose name is most like this one, if one is."""
        if not self._folded:
            for known in self.attributes:
                self._folded.setdefault(known.lower(), known)
        folded = name.lower()
        if folded in self._folded:
            return self._folded[folded]
        if folded not in self._nearest:
            if len(self._nearest) >= MAX_LOOKUPS:
                return None
            names = list(self._folded)[:MAX_NAMES]
            close = get_close_matches(folded, [each for each in names if abs(len(each) - len(folded)) < 4], 1)
            self._nearest[folded] = self._folded[close[0]] if close else None
        return self._nearest[folded]


_Nested = ValueType | dict[str, Any]
"""A type, or those of the parts of an object by name."""


def _flatten(name: str, nested: _Nested, flat: dict[str, ValueType]) -> None:
    if isinstance(nested, ValueType):
        flat[name] = nested
        return
    flat[name] = one_of(Container.OBJECT)
    for part, type_ in nested.items():
        _flatten(f"{name}.{part}", type_, flat)


def _with_objects(attributes: dict[str, ValueType]) -> dict[str, ValueType]:
    """The attributes, and the objects that hold those with dotted names."""
    objects = {
        name[:at]: one_of(Container.OBJECT)
        for name in attributes
        for at, sign in enumerate(name)
        if sign == "."
    }
    return {**objects, **attributes}


def _of_value(value: Any) -> ValueType:
    found = plain(value)
    if isinstance(found, (tuple, list)):
        return ValueType(
            frozenset([Container.ARRAY]), either([_of_value(each) for each in found[:100]]) if found else ANY
        )
    if isinstance(found, Mapping):
        return ValueType(frozenset([Container.MAP]))
    kind = kind_of(found)
    return ANY if kind is None else one_of(kind)


def _of_arrow_type(type_: pa.DataType) -> _Nested:
    from pyarrow import types

    if types.is_dictionary(type_) or types.is_run_end_encoded(type_):
        return _of_arrow_type(type_.value_type)
    if types.is_struct(type_):
        return {part.name: _of_arrow_type(part.type) for part in type_}
    if types.is_map(type_):
        return ValueType(frozenset([Container.MAP]), _whole(_of_arrow_type(type_.item_type)))
    lists = (
        types.is_list,
        types.is_large_list,
        types.is_fixed_size_list,
        types.is_list_view,
        types.is_large_list_view,
    )
    if any(is_one(type_) for is_one in lists):
        return ValueType(frozenset([Container.ARRAY]), _whole(_of_arrow_type(type_.value_type)))
    for kind, tests in _arrow_tests().items():
        if any(test(type_) for test in tests):
            return one_of(kind)
    return ANY


def _arrow_tests() -> dict[Kind, tuple[Any, ...]]:
    from pyarrow import types

    return {
        Kind.NUMBER: (types.is_integer, types.is_floating, types.is_decimal),
        Kind.TEXT: (types.is_string, types.is_large_string, types.is_string_view),
        Kind.BOOLEAN: (types.is_boolean,),
        Kind.INSTANT: (types.is_date, types.is_timestamp),
        Kind.TIME: (types.is_time,),
        Kind.DURATION: (types.is_duration,),
        Kind.BINARY: (
            types.is_binary,
            types.is_large_binary,
            types.is_fixed_size_binary,
            types.is_binary_view,
        ),
    }


def _of_ddl_type(type_: DdlType) -> _Nested:
    if type_.name == "struct":
        return {name: _of_ddl_type(part) for name, part in type_.parts.items()}
    if type_.name in ("array", "map"):
        form = Container.ARRAY if type_.name == "array" else Container.MAP
        return ValueType(frozenset([form]), _whole(_of_ddl_type(list(type_.parts.values())[-1])))
    kind = DDL_KINDS[type_.name]
    return ANY if kind is None else one_of(kind)


def _whole(nested: _Nested) -> ValueType:
    """The type of an element; an object's parts are not looked into."""
    return nested if isinstance(nested, ValueType) else one_of(Container.OBJECT)
