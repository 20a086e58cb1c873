"""How the fields of messages are read, from the annotations of their classes.

A `FieldReader` has two halves. The `type` is what msgspec checks and reads in C; `finish`, where there is
something left to do, makes of it what the field holds:

- A kind is read as a tagged array, and finished by making an object of its class.
- A whole number may be an extension that holds more than 64 bits.
- What may be any message (`Any`, `Hashable`, a base class such as `Operation`) is kept as bytes, and read by
  the number of its kind afterwards, or as a plain value.
- An attribute's value may hold arrays and objects as JSON does: they become tuples and mappings.

Rule: in a place that may hold any message, an array is always a message: no bare tuple may stand there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from enum import Enum
from fractions import Fraction
from inspect import isabstract, isclass
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

from msgspec import Raw
from msgspec.msgpack import Ext

from distributary.errors import DistributaryError

Finish = Callable[[Any, int], Any]
"""Makes what a field holds of what msgspec read; the second argument is how deep it lies in messages."""

WIDE = 1
"""The code of the extension that holds a whole number of more than 64 bits."""

MAX_WIDE_BYTES = 8_192
"""The most bytes of a whole number."""

PLAIN = str | int | float | bool | None | list[Any] | dict[Any, Any] | Ext
"""What an attribute's value is read as."""


class FieldReader(NamedTuple):
    """How a field is read."""

    type: Any
    finish: Finish | None = None


class Readers:
    """Makes readers of annotations. `kind` gives the reader of a class that has a number, `inner` that of any
    message or plain value; `known` has annotations that are read in ways of their own."""

    def __init__(
        self,
        kind: Callable[[type], FieldReader | None],
        inner: Finish,
        known: Mapping[Any, FieldReader] | None = None,
    ) -> None:
        self._known = {**SCALARS, **(known or {})}
        self._kind = kind
        self._inner = inner

    def reader(self, hint: Any) -> FieldReader:
        """The reader of what an annotation allows; DistributaryError for what cannot be put on a wire."""
        if hint in self._known:
            return self._known[hint]
        if hint is Any or hint is Hashable:
            return FieldReader(Raw, self._inner)
        origin = get_origin(hint)
        if origin is not None:
            return self._generic(hint, origin, get_args(hint))
        if isinstance(hint, TypeVar) and hint.__bound__ is not None:
            return self.reader(hint.__bound__)
        if isclass(hint):
            if issubclass(hint, Enum):
                return FieldReader(hint)
            known = self._kind(hint)
            if known is not None:
                return known
            if isabstract(hint) or hint.__subclasses__():
                return FieldReader(Raw, self._of_class(hint))
        raise DistributaryError(f"a message's field is annotated {hint}, which cannot be read from a wire")

    def _generic(self, hint: Any, origin: Any, inside: tuple[Any, ...]) -> FieldReader:
        if origin is Literal:
            return FieldReader(hint)
        if origin in (Union, UnionType):
            return self._union(inside)
        if origin is tuple:
            return self._array(inside)
        if origin is Sequence:
            return self._array((*inside, ...))
        if origin is frozenset:
            one = self.reader(inside[0])
            return FieldReader(tuple[one.type, ...], _frozen(one.finish))  # type: ignore[name-defined]
        if isclass(origin) and issubclass(origin, Mapping):
            return self._mapping(*inside)
        raise DistributaryError(f"a message's field is annotated {hint}, which cannot be read from a wire")

    def _array(self, inside: tuple[Any, ...]) -> FieldReader:
        if len(inside) == 2 and inside[1] is Ellipsis:
            one = self.reader(inside[0])
            return FieldReader(tuple[one.type, ...], one.finish and _each(one.finish))  # type: ignore[name-defined]
        many = [self.reader(hint) for hint in inside]
        finishes = [one.finish for one in many]
        finish = _respective(finishes) if any(finishes) else None
        return FieldReader(tuple[tuple(one.type for one in many)], finish)  # type: ignore[misc]

    def _mapping(self, key: Any, item: Any) -> FieldReader:
        if key is not str:
            raise DistributaryError(f"a message's mapping has keys that are {key}; only texts can be read")
        one = FieldReader(PLAIN, finish_value) if item is Any else self.reader(item)
        return FieldReader(dict[str, one.type], one.finish and _items(one.finish))  # type: ignore[name-defined]

    def _union(self, inside: tuple[Any, ...]) -> FieldReader:
        hints = [hint for hint in inside if hint is not Fraction]
        if any(get_origin(hint) is tuple and get_args(hint) == (Any, ...) for hint in hints):
            return FieldReader(PLAIN, finish_value)
        if {str, bytes} <= set(hints):
            return FieldReader(Any, _instance_of(tuple(hints)))
        many = [self.reader(hint) for hint in hints]
        if any(one.type is Raw for one in many):
            alone = [one.finish for one in many if one.type is not None]
            return FieldReader(Raw, _or_none(alone[0]) if len(alone) == 1 else self._inner)
        types = Union[tuple(one.type for one in many)]  # type: ignore[valid-type]  # noqa: UP007
        finishes = {finish for one in many if (finish := one.finish) is not None}
        if not finishes:
            return FieldReader(types)
        return FieldReader(types, _any_of(many, hints))

    def _of_class(self, base: type) -> Finish:
        def finish(read: Any, depth: int) -> Any:
            value = self._inner(read, depth)
            if not isinstance(value, base):
                raise DistributaryError(f"a {type(value).__name__} where a {base.__name__} belongs")
            return value

        return finish


def finish_whole(read: Any, depth: int = 0) -> Any:
    """A whole number, or whatever else was read in its place."""
    if type(read) is not Ext:
        return read
    data = bytes(read.data)
    if read.code != WIDE or not 8 < len(data) <= MAX_WIDE_BYTES:
        raise DistributaryError(f"an extension {read.code} of {len(data)} bytes is no whole number")
    return int.from_bytes(data, "big", signed=True)


def finish_value(read: Any, depth: int = 0) -> Any:
    """An attribute's value: arrays become tuples, and keys of objects are texts."""
    if isinstance(read, list):
        return tuple(finish_value(item, depth + 1) for item in read)
    if isinstance(read, dict):
        for key in read:
            if type(key) is not str:
                raise DistributaryError(f"an attribute's object has the key {key!r}, which is no text")
        return {key: finish_value(item, depth + 1) for key, item in read.items()}
    if isinstance(read, bytes):
        raise DistributaryError("an attribute's value holds bytes")
    return finish_whole(read)


SCALARS: dict[Any, FieldReader] = {
    str: FieldReader(str),
    bool: FieldReader(bool),
    bytes: FieldReader(bytes),
    NoneType: FieldReader(None),
    float: FieldReader(float | int | Ext, finish_whole),
    int: FieldReader(int | Ext, finish_whole),
}


def _each(finish: Finish) -> Finish:
    if finish is finish_whole:
        return lambda read, depth: tuple(map(finish_whole, read)) if Ext in map(type, read) else read
    return lambda read, depth: tuple([finish(item, depth) for item in read])


def _respective(finishes: list[Finish | None]) -> Finish:
    def finish(read: Any, depth: int) -> Any:
        pairs = zip(read, finishes, strict=True)
        return tuple([item if one is None else one(item, depth) for item, one in pairs])

    return finish


def _frozen(finish: Finish | None) -> Finish:
    if finish is None:
        return lambda read, depth: frozenset(read)
    return lambda read, depth: frozenset([finish(item, depth) for item in read])


def _or_none(finish: Finish | None) -> Finish:
    """Finish what was kept as bytes, or None."""
    assert finish is not None
    return lambda read, depth: None if bytes(read) == b"\xc0" else finish(read, depth)


def _items(finish: Finish) -> Finish:
    return lambda read, depth: {key: finish(item, depth) for key, item in read.items()}


def _instance_of(classes: tuple[type, ...]) -> Finish:
    """Check what msgspec, which tells no texts from bytes in a union, has read as anything."""

    def finish(read: Any, depth: int) -> Any:
        if type(read) not in classes:
            raise DistributaryError(f"a {type(read).__name__} where a text or bytes belong")
        return read

    return finish


def _any_of(many: list[FieldReader], hints: list[Any]) -> Finish:
    """Finish what one of several readers read: told by the class of what it is."""
    by_class: dict[type, Finish] = {}
    for one, hint in zip(many, hints, strict=True):
        if one.finish is not None:
            wide = hint in (int, float)
            by_class[Ext if wide else get_origin(one.type) or one.type] = one.finish

    def finish(read: Any, depth: int) -> Any:
        chosen = by_class.get(type(read))
        return read if chosen is None else chosen(read, depth)

    return finish
