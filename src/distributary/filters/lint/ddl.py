"""Spark's texts of schemas: `price double not null, at timestamp, wind struct<speed: int, by: string>`.

Comments, `not null` and the sizes of decimals and texts are read and say nothing here. Time and memory are
linear in the text, which may be `MAX_LENGTH` long and nested `MAX_NESTED` deep.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NoReturn

from distributary.errors import InputError
from distributary.filters.where.values import Kind

MAX_LENGTH = 1 << 20
"""A text of a schema may have so many characters."""
MAX_NESTED = 50
"""Types may be nested so deep."""

DDL_KINDS: dict[str, Kind | None] = {
    **dict.fromkeys(
        ("tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"), Kind.NUMBER
    ),
    **dict.fromkeys(("float", "real", "double", "decimal", "dec", "numeric"), Kind.NUMBER),
    **dict.fromkeys(("string", "varchar", "char", "character", "text"), Kind.TEXT),
    **dict.fromkeys(("boolean", "bool"), Kind.BOOLEAN),
    **dict.fromkeys(("date", "timestamp", "timestamp_ntz", "timestamp_ltz"), Kind.INSTANT),
    "time": Kind.TIME,
    "interval": Kind.DURATION,
    "binary": Kind.BINARY,
    "variant": None,
    "void": None,
}
"""The plain types, and the kind of their values; None for any."""

TOKEN = re.compile(
    r"\s*(?:(`(?:[^`]|``)*`)|('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")|([^\s`'\"<>(),:]+)|([<>(),:]))"
)


@dataclass(frozen=True, slots=True)
class DdlType:
    """A type: its name, and the parts of an array, a map or a struct by name."""

    name: str
    parts: dict[str, DdlType] = field(default_factory=dict)


def read_ddl(text: str) -> dict[str, DdlType]:
    """The columns by name.

    >>> read_ddl("price decimal(10, 2) not null, tags array<string>")["tags"].parts["element"].name
    'string'
    >>> read_ddl("price doubel")
    Traceback (most recent call last):
    ...
    distributary.errors.InputError: schema: no such type: 'doubel' at position 6 of 'price doubel'
    """
    return _Reader(text).columns()


class _Reader:
    """Reads one text from its beginning."""

    def __init__(self, text: str) -> None:
        self._text = text
        if len(text) > MAX_LENGTH:
            raise InputError(f"longer than {MAX_LENGTH:,} characters", field="schema")
        self._tokens: list[tuple[str, int]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            found = TOKEN.match(text, at)
            if found is None:
                self._refuse("a quote that is not closed", at)
            self._tokens.append((found.group().strip(), found.start(found.lastindex or 0)))
            at = found.end()
        self._next = 0

    def columns(self) -> dict[str, DdlType]:
        """All columns, to the end of the text."""
        columns = self._fields("", 0)
        if not columns:
            self._refuse("names no column; write such as price double, at timestamp", 0)
        return columns

    def _refuse(self, reason: str, position: int | None = None) -> NoReturn:
        place = self._peek()[1] if position is None else position
        raise InputError(reason, field="schema", text=self._text, position=place)

    def _peek(self) -> tuple[str, int]:
        return self._tokens[self._next] if self._next < len(self._tokens) else ("", len(self._text))

    def _take(self) -> str:
        token = self._peek()[0]
        self._next += 1
        return token

    def _accept(self, *words: str) -> bool:
        ahead = [token.lower() for token, _ in self._tokens[self._next : self._next + len(words)]]
        if ahead != list(words):
            return False
        self._next += len(words)
        return True

    def _expect(self, sign: str) -> None:
        if not self._accept(sign):
            self._refuse(f"{sign!r} is needed here")

    def _fields(self, end: str, nested: int) -> dict[str, DdlType]:
        """Names with types, up to the sign that ends them."""
        fields: dict[str, DdlType] = {}
        while self._peek()[0] != end:
            place = self._peek()[1]
            name = self._take()
            if not name or name in "<>(),:":
                self._refuse("a name is needed here", place)
            name = name[1:-1].replace("``", "`") if name.startswith("`") else name
            if name in fields:
                self._refuse(f"{name!r:.60} is given twice", place)
            self._accept(":")
            fields[name] = self._type(nested)
            self._accept("not", "null")
            if self._accept("comment"):
                self._take()
            if self._peek()[0] != end:
                self._expect(",")
        return fields

    def _type(self, nested: int) -> DdlType:
        if nested > MAX_NESTED:
            self._refuse(f"is nested more than {MAX_NESTED} deep")
        place = self._peek()[1]
        name = self._take().lower()
        if name in ("array", "map", "struct"):
            self._expect("<")
            parts = self._parts(name, nested + 1)
            self._expect(">")
            return DdlType(name, parts)
        if name not in DDL_KINDS:
            self._refuse(f"no such type: {name!r:.60}" if name else "a type is needed here", place)
        if self._accept("("):
            while self._peek()[0] not in (")", ""):
                self._take()
            self._expect(")")
        if name == "interval":
            while self._peek()[0].lower() in ("day", "hour", "minute", "second", "year", "month", "to"):
                self._take()
        return DdlType(name)

    def _parts(self, name: str, nested: int) -> dict[str, DdlType]:
        if name == "struct":
            return self._fields(">", nested)
        if name == "array":
            return {"element": self._type(nested)}
        key = self._type(nested)
        self._expect(",")
        return {"key": key, "value": self._type(nested)}
