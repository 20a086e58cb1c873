"""Subscriptions held against the schema of the events before they are matched: what can never match is told.

The driver does this once, with the subscriptions that it has in a table anyway, or with the first of those
that it has not. Nothing that is found, and nothing that fails here, stops a match.

Cost: at most `MAX_LOOKED_AT` subscriptions, spread evenly over all, are looked at. Where those are more than
`MAX_LINTED`, one of each *shape* is linted: conditions that differ in numbers and texts alone have one shape.
So what a misspelt name or a clash of types does is found whatever the number; what depends on the numbers of
one condition (a contradiction) is found where few are. `distributary check` looks at all of them.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from distributary.filters.lint.ddl import DDL_KINDS
from distributary.filters.lint.findings import Finding, Severity
from distributary.filters.lint.lint import lint_subscription
from distributary.filters.lint.schema import EventSchema
from distributary.quarantine import Rejection
from distributary.spark.columns import EventColumns, quoted
from distributary.spark.index.build import MAX_LOOKED_AT
from distributary.spark.index.repeated import read_subscriptions
from distributary.spark.places import RESERVED

MAX_LINTED = 1_000
"""So many are linted."""
MAX_TOLD = 20
"""So many findings are told, those that many subscriptions share once."""

LITERALS = re.compile(r"'(?:[^']|'')*'|(?<![\w.])\d[\w.]*")
"""The numbers and texts in a condition."""

_log = logging.getLogger("distributary")


class SubscriptionLint:
    """Takes in the subscriptions that are to be matched, and has the lines that tell what was found."""

    def __init__(self, schema: EventSchema) -> None:
        self._schema = schema
        self.lines: list[str] = []
        """What was found, a line each, the gravest first."""

    def look(self, subscriptions: Callable[[], pa.Table]) -> None:
        """Hold the subscriptions that a call gives against the schema."""
        try:
            self.lines += _lines(subscriptions(), self._schema)
        except Exception as error:  # a lint that stops a match would be worse than none
            _log.warning("the subscriptions could not be held against the events' schema: %s", error)


def schema_of(events: StructType, columns: EventColumns) -> EventSchema:
    """What events with these columns have, as the lint sees it."""
    ours = [name for name in events.names if name.startswith(RESERVED) or name == columns.corrupt]
    types = _fields(StructType([field for field in events if field.name not in ours]))
    return EventSchema.of_ddl(types, topic=columns.topic, document=columns.document, id=columns.id)


def _fields(type: StructType) -> str:
    return ", ".join(f"{quoted(field.name)}: {_ddl(field.dataType)}" for field in type)


def _ddl(type: DataType) -> str:
    """A type as the lint reads it, with every name in quotes; one that it does not know may hold anything."""
    match type:
        case StructType():
            return f"struct<{_fields(type)}>"
        case ArrayType():
            return f"array<{_ddl(type.elementType)}>"
        case MapType():
            return f"map<{_ddl(type.keyType)}, {_ddl(type.valueType)}>"
    name = type.simpleString().partition("(")[0].partition(" ")[0]
    return name if name in DDL_KINDS else "variant"


def lint_of(events: StructType, columns: EventColumns, *others: EventSchema) -> SubscriptionLint | None:
    """A lint for events with these columns, or of other schemas; None if the columns cannot be understood."""
    try:
        schema = schema_of(events, columns)
    except Exception as error:
        _log.warning("the events' schema could not be read for a lint of the subscriptions: %s", error)
        return None
    for other in others:
        schema = schema.joined(other)
    return SubscriptionLint(schema)


def _lines(table: pa.Table, schema: EventSchema) -> Iterator[str]:
    looked_at = table
    if len(table) > MAX_LOOKED_AT:
        looked_at = table.take(np.linspace(0, len(table) - 1, MAX_LOOKED_AT).astype(np.int64))
    alike = _alike(looked_at) if len(looked_at) > MAX_LINTED else dict.fromkeys(range(len(looked_at)), 1)
    linted = list(alike)[:MAX_LINTED]
    found: dict[tuple[Any, ...], tuple[Finding, int]] = {}
    reads = read_subscriptions(looked_at.take(pa.array(linted, pa.int64())))
    for row, read in zip(linted, reads, strict=True):
        if isinstance(read, Rejection):
            continue  # what is malformed is told elsewhere
        for each in lint_subscription(read, schema):
            if each.what == "malformed":
                continue
            key = (each.severity.value, each.what, each.filter, each.message, each.advice)
            first, count = found.get(key, (each, 0))
            found[key] = first, count + alike[row]
    told = [one for one in found.values() if one[0].severity is not Severity.NOTE]
    told.sort(key=lambda one: (one[0].severity is not Severity.ERROR, -one[1]))
    yield from (_line(*one) for one in told[:MAX_TOLD])
    if len(told) > MAX_TOLD:
        yield f"{len(told) - MAX_TOLD:,} more findings in the subscriptions; distributary check tells all"
    if len(linted) < len(table) or len(table) >= MAX_LOOKED_AT:
        cut = (
            f"{len(looked_at):,} subscriptions were looked at, and {len(linted):,} of different shapes held "
            "against the events' schema; distributary check looks at all"
        )
        if told:
            yield cut
        else:
            _log.info(cut)


def _line(first: Finding, count: int) -> str:
    others = f" and {count - 1:,} like it" if count > 1 else ""
    advice = f"; {first.advice}" if first.advice else ""
    about = f"subscription {first.subscription!r} of {first.subscriber!r}{others}"
    return f"{first.severity.value}: {about}, {first.filter}: {first.message}{advice}"


def _alike(table: pa.Table) -> dict[int, int]:
    """The first row of each shape, and how many rows have that shape."""
    names = [name for name in table.schema.names if name not in ("id", "subscriber", "serial")]
    columns = [table.column(name).to_pylist() for name in names]
    rows: dict[Any, int] = {}
    alike: dict[int, int] = {}
    for row, values in enumerate(zip(*columns, strict=True)):
        shape = tuple(_shapes(names, values))
        first = rows.setdefault(shape, row)
        alike[first] = alike.get(first, 0) + 1
    return alike


def _shapes(names: Iterable[str], values: Iterable[Any]) -> Iterator[Any]:
    for name, value in zip(names, values, strict=True):
        if value is None or name in ("topic", "path"):
            yield value is not None
        elif name == "change" and not isinstance(value, str):
            yield tuple(sorted(dict(value)))
        else:
            yield LITERALS.sub("?", str(value))
