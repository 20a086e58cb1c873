"""Items of a stream, their types, and the schema that all items of one stream follow.

- A stream is a set of items; its order is that of (time, rank, id), whatever order they arrive in.
- Every item has every attribute of its stream's schema; what is missing is None (null).
- One attribute of a schema is its *time*: an integer, never null, that holds the item's time in milliseconds
  since 1970. An operator that gives new times writes them there (or into an attribute it was told to use).
- A number is a finite double and never -0.0; an integer has 64 bits. So equal values are written alike
  everywhere, and every engine computes the same.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeVar

from distributary.errors import InputError
from distributary.model import require_text

MAX_INTEGER = 2**63 - 1
MIN_INTEGER = -(2**63)
MAX_TIME = 2**52
"""Times and durations in milliseconds stay within this: window arithmetic then fits 64 bits and a double."""

RESERVED = "#"
"""Attributes whose names begin so are made by operators for one another; a user's never do."""

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")

V = TypeVar("V")


class Type(StrEnum):
    """What an attribute holds."""

    TEXT = "text"
    INTEGER = "integer"
    NUMBER = "number"
    BOOLEAN = "boolean"
    PARTIAL = "partial"
    """What a replica hands to its final operator; no source and no query of a user's has it."""


PUBLIC_TYPES = (Type.TEXT, Type.INTEGER, Type.NUMBER, Type.BOOLEAN)


class FrozenMapping(Mapping[str, V]):
    """A mapping that does not change, is hashable, and equals any mapping with the same items.

    >>> FrozenMapping({"a": 1, "b": 2}) == {"b": 2, "a": 1}
    True
    """

    __slots__ = ("_given",)

    def __init__(self, given: Mapping[str, V]) -> None:
        self._given = dict(given)

    def __getitem__(self, name: str) -> V:
        return self._given[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._given)

    def __len__(self) -> int:
        return len(self._given)

    def __hash__(self) -> int:
        return hash(frozenset(self._given.items()))

    def __repr__(self) -> str:
        return repr(self._given)


def set_fields(frozen: object, **values: Any) -> None:
    """Give a frozen object fields in their canonical form; only while it is being made."""
    for name, value in values.items():
        object.__setattr__(frozen, name, value)


@dataclass(frozen=True, slots=True)
class Item:
    """One element of a stream.

    >>> Item("e1", 1000, {"price": 8.5, "at": 1000}).order
    (1000, 0, 'e1')
    """

    id: str
    time: int
    attributes: Mapping[str, Any] = field(hash=False)
    rank: int = 0
    """The place that `sort` gave it in its window, from 1 on; else 0."""

    @property
    def order(self) -> tuple[int, int, str]:
        """Where it stands in its stream."""
        return (self.time, self.rank, self.id)


@dataclass(frozen=True)
class Schema:
    """The attributes of a stream with their types, and which of them is the time.

    >>> schema = Schema({"symbol": "text", "price": "number", "at": "integer"}, time="at")
    >>> schema.type_of("price")
    <Type.NUMBER: 'number'>
    """

    attributes: Mapping[str, Type]
    time: str

    def __init__(self, attributes: Mapping[str, Type | str], time: str) -> None:
        types: dict[str, Type] = {}
        for name, given in attributes.items():
            if not isinstance(name, str) or not name:
                raise InputError(f"the name of an attribute must be a text, not {name!r}", field="schema")
            require_text(name, "schema")
            try:
                types[name] = Type(given)
                if name.startswith(RESERVED) != (types[name] is Type.PARTIAL):
                    raise InputError(f"{name!r} begins with {RESERVED}, which is reserved", field="schema")
            except ValueError:
                known = ", ".join(PUBLIC_TYPES)
                reason = f"the type of {name!r} is {given!r}; types are {known}"
                raise InputError(reason, field="schema") from None
        set_fields(self, attributes=FrozenMapping(types), time=time)
        if types.get(time) is not Type.INTEGER:
            raise InputError(
                f"must name an attribute of type integer (milliseconds since 1970), not {time!r}; "
                f"there are {listed(types)}",
                field="time",
            )

    def type_of(self, name: str) -> Type | None:
        """The attribute's type; None when there is no such attribute."""
        return self.attributes.get(name)

    def __contains__(self, name: str) -> bool:
        return name in self.attributes

    def require(self, name: str, field: str) -> Type:
        """The attribute's type, or the error that says which attributes there are."""
        found = self.attributes.get(name)
        if found is None:
            raise InputError(f"no attribute {name!r}; there are {listed(self.attributes)}", field=field)
        return found

    def fault(self, attributes: Mapping[str, Any]) -> tuple[str, str] | None:
        """The first attribute that does not fit, and why; None when all fit."""
        for name, type in self.attributes.items():
            reason = value_fault(attributes.get(name), type)
            if reason:
                return name, reason
        return None

    def settled(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """The attributes of this schema, as its types hold them: doubles for numbers, None for missing."""
        settled: dict[str, Any] = {}
        for name, type in self.attributes.items():
            value = attributes.get(name)
            settled[name] = float(value) + 0.0 if type is Type.NUMBER and value is not None else value
        return settled


def value_fault(value: Any, type: Type) -> str | None:
    """Why a value cannot be of a type; None when it can. A null fits every type.

    >>> value_fault(2**63, Type.INTEGER)
    '9223372036854775808 is beyond 64 bits'
    """
    if value is None:
        return None
    kind = value.__class__
    match type:
        case Type.TEXT if kind is str:
            return None
        case Type.BOOLEAN if kind is bool:
            return None
        case Type.INTEGER if kind is int:
            return None if MIN_INTEGER <= value <= MAX_INTEGER else f"{value} is beyond 64 bits"
        case Type.NUMBER if kind is int or kind is float:
            try:
                finite = math.isfinite(value)
            except OverflowError:
                finite = False
            return None if finite else f"{value} is no finite number"
    return f"{value!r} is not of type {type}"


def listed(names: Mapping[str, Any] | Sequence[str]) -> str:
    """Names, for an error."""
    return ", ".join(names) if names else "none"


def require_name(name: Any, what: str) -> str:
    """Refuse what cannot be the name of a source, query or operator."""
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise InputError(
            f"the name of {what} is {name!r}; it must be of letters, digits, _ and -, "
            "and begin with a letter or _",
            field="name",
        )
    return name
