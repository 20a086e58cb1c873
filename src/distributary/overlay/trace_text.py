"""Traces as text: how everything that happens at nodes is written, a line each, and read again.

Rules:

- A text never depends on hashing, identities or the order of a set: sets are written sorted, and a value
  without a reproducible text is an error. Times are written as Python writes floats, without rounding.
- What is written of a message of a known kind (`kinds`) can be read: `value_of(text_of(message)) == message`.
  Enumerations cannot, which the sources of query networks have.

A line looks like this:

    12.05 sent 17 > 93 RoutedPayload(keys=(88,), payload=Ack(number=1), ...) | publish e4 depth 2

After the time stands what happened (`sent`, `received`, `missed`, `woken`, `delivered`, `happened`, and of a
node that is recorded alone `called`, `stored` and `acknowledged`), then the node, or sender and receiver, and
the rest. Behind the last ` | ` stands the cause, where it is known.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from importlib import import_module
from math import inf, nan
from typing import Any, NamedTuple

from distributary.errors import DistributaryError
from distributary.model import LOCAL
from distributary.overlay.kinds import BY_MODULE, PACKAGE
from distributary.overlay.node import Address
from distributary.overlay.packed_events import PackedEvents


class TraceLine(NamedTuple):
    """A line of a trace, taken apart."""

    time: float
    what: str
    address: Address | None
    """The node that did it, or that it happened to; None for what happened everywhere."""
    other: Address | None
    """Of a message that was sent its receiver, of one that came its sender."""
    rest: str
    """The text of the message or item, or whatever else is told, without the cause."""


def parse_line(line: str) -> TraceLine:
    """Take a line apart; DistributaryError when it is no line of a trace.

    >>> parse_line("2.5 received 7 > 9 Ack(incarnation=0.0, number=1, tried=0.0)")[:4]
    (2.5, 'received', 9, 7)
    """
    at: Address | None
    other: Address | None
    try:
        time, what, first, rest = line.split(" ", 3)
        if what in ("sent", "received", "missed"):
            _, second, rest = rest.split(" ", 2)
            sender, to = int(first), int(second)
            at, other = (sender, to) if what == "sent" else (to, sender)
        else:
            at, other = None if first == "everywhere" else int(first), None
        if what in ("sent", "delivered"):
            rest = rest.rpartition(" | ")[0] or rest
        return TraceLine(float(time), what, at, other, rest)
    except ValueError:
        raise DistributaryError(f"this is no line of a trace: {line[:100]!r}") from None


def text_of(value: Any) -> str:
    """A value as text, the same in every process.

    >>> text_of(frozenset({"b", "a"})), text_of(("one", 2.5, None))
    ("frozenset({'a', 'b'})", "('one', 2.5, None)")
    """
    kind = type(value)
    return (_TEXTS.get(kind) or _text_for(kind))(value)


def value_of(text: str) -> Any:
    """The value that a text is; DistributaryError when it is none, or of a class that is no kind of message.

    >>> value_of("Ack(incarnation=2.0, number=7, tried=0.0)")
    Ack(incarnation=2.0, number=7, tried=0.0)
    >>> value_of("open(file='x')")
    Traceback (most recent call last):
    ...
    distributary.errors.DistributaryError: a trace has no 'open'
    """
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError) as error:
        raise DistributaryError(f"this is no value of a trace: {text[:100]!r}: {error}") from None


def _text_for(kind: type) -> Callable[[Any], str]:
    """How values of a class are written; remembered for the next one."""
    text: Callable[[Any], str]
    if issubclass(kind, tuple) and hasattr(kind, "_fields"):
        text = _with_fields(kind, kind._fields)
    elif is_dataclass(kind):
        names = tuple(field.name for field in fields(kind) if LOCAL not in field.metadata)
        text = _with_fields(kind, names)
    elif issubclass(kind, Mapping):
        text = _mapping_text
    elif issubclass(kind, int | float | str | bytes) and kind.__repr__ is not object.__repr__:
        text = repr
    else:
        raise DistributaryError(
            f"a trace cannot tell a {kind.__qualname__}: its text may differ from process to process; use"
            " numbers, texts, tuples, NamedTuples, frozen dataclasses"
        )
    _TEXTS[kind] = text
    return text


def _with_fields(kind: type, names: tuple[str, ...]) -> Callable[[Any], str]:
    def text(value: Any) -> str:
        inner = ", ".join([f"{name}={text_of(getattr(value, name))}" for name in names])
        return f"{kind.__name__}({inner})"

    return text


def _tuple_text(value: tuple[Any, ...]) -> str:
    return f"({', '.join(map(text_of, value))}{',' if len(value) == 1 else ''})"


def _list_text(value: list[Any]) -> str:
    return f"[{', '.join(map(text_of, value))}]"


def _set_text(value: frozenset[Any]) -> str:
    return f"{type(value).__name__}({{{', '.join(sorted(map(text_of, value)))}}})"


def _mapping_text(value: Mapping[Any, Any]) -> str:
    return f"{{{', '.join(f'{text_of(key)}: {text_of(item)}' for key, item in value.items())}}}"


_TEXTS: dict[type, Callable[[Any], str]] = {
    type(None): repr,
    bool: repr,
    int: repr,
    float: repr,
    str: repr,
    bytes: repr,
    tuple: _tuple_text,
    PackedEvents: lambda value: _tuple_text(value.made),
    list: _list_text,
    set: _set_text,
    frozenset: _set_text,
    dict: _mapping_text,
}


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.UnaryOp(ast.USub(), operand):
            return -_value(operand)
        case ast.Name("inf" | "nan" as name):
            return inf if name == "inf" else nan
        case ast.Tuple(items):
            return tuple(map(_value, items))
        case ast.List(items):
            return list(map(_value, items))
        case ast.Dict(keys, values):
            return {_value(key): _value(value) for key, value in zip(keys, values, strict=True) if key}
        case ast.Call(ast.Name("set" | "frozenset" as name), [inner], []):
            return (set if name == "set" else frozenset)(_members(inner))
        case ast.Call(ast.Name(name), [], given):
            kind, computed = _kind(name)
            return kind(**{e.arg: _value(e.value) for e in given if e.arg and e.arg not in computed})
    raise ValueError(f"it has {ast.unparse(node)[:50]!r}")


def _members(node: ast.expr) -> list[Any]:
    """The members of a set, which is written as `{...}`; an empty one looks like a mapping."""
    return list(map(_value, node.elts)) if isinstance(node, ast.Set) else list(_value(node))


@cache
def _kind(name: str) -> tuple[type, frozenset[str]]:
    """The class of a kind of message, imported when it is first read, and the fields that it computes."""
    for module, kinds in BY_MODULE.items():
        if name in kinds:
            found: type = getattr(import_module(PACKAGE + module), name)
            own = fields(found) if is_dataclass(found) else ()
            return found, frozenset(field.name for field in own if not field.init)
    raise DistributaryError(f"a trace has no {name!r}")
