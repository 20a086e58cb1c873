"""Packed rows: items of any stream in rows of one shape, so that one DataFrame holds many streams.

    task, closes, time, rank, id, texts, integers, numbers, booleans

`task` is the number of the task whose result the item is. `closes` is the moment of event time at which the
row is final. The attributes of the item are in four arrays, by type, in the order of the stream's schema. A
failure of a function has `failed(task)` as its task, and the reason as its only text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from distributary.flow.language.schema import Schema, Type
from distributary.spark.queries.sql import SQL_TYPES, Value

ARRAY_OF = {Type.TEXT: "texts", Type.INTEGER: "integers", Type.NUMBER: "numbers", Type.BOOLEAN: "booleans"}
"""In which array of a packed row the values of a type are."""
ARRAYS = {array: f"array<{SQL_TYPES[type]}>" for type, array in ARRAY_OF.items()}
NULL_ARRAYS = {array: f"cast(null as {type})" for array, type in ARRAYS.items()}
PACKED_DDL = "task int, closes bigint, time bigint, rank int, id string, " + ", ".join(
    f"{name} {type}" for name, type in ARRAYS.items()
)
PACKED_SCHEMA = pa.schema(
    [
        ("task", pa.int32()),
        ("closes", pa.int64()),
        ("time", pa.int64()),
        ("rank", pa.int32()),
        ("id", pa.string()),
        ("texts", pa.list_(pa.string())),
        ("integers", pa.list_(pa.int64())),
        ("numbers", pa.list_(pa.float64())),
        ("booleans", pa.list_(pa.bool_())),
    ]
)


def failed(task: int) -> int:
    """What the failures of a task are tagged with, in place of its number."""
    return -2 - task


def places(names: Sequence[str], schema: Schema) -> dict[str, tuple[str, int]]:
    """Where the values of these attributes are in a packed row: in which array, at which place.

    >>> places(["x", "n", "y"], Schema({"x": "text", "n": "integer", "y": "text", "at": "integer"}, "at"))
    {'x': ('texts', 0), 'n': ('integers', 0), 'y': ('texts', 1)}
    """
    found: dict[str, tuple[str, int]] = {}
    lengths = dict.fromkeys(ARRAYS, 0)
    for name in names:
        array = ARRAY_OF[schema.attributes[name]]
        found[name] = array, lengths[array]
        lengths[array] += 1
    return found


def array_lengths(names: Sequence[str], schema: Schema) -> dict[str, int]:
    """How long the arrays of a packed row with these attributes are."""
    arrays = [array for array, _ in places(names, schema).values()]
    return {array: arrays.count(array) for array in ARRAYS}


def unpacked(
    names: Sequence[str], schema: Schema, behind: Mapping[str, int] | None = None
) -> dict[str, Value]:
    """The values of these attributes as SQL over a packed row, each with its type.

    `behind` says how many other values there are before them in each array.
    """
    before = behind or dict.fromkeys(ARRAYS, 0)
    return {
        name: (f"get({array}, {before[array] + place})", schema.attributes[name])
        for name, (array, place) in places(names, schema).items()
    }


def without_time(schema: Schema) -> list[str]:
    """The attributes of a schema but that which holds the time."""
    return [name for name in schema.attributes if name != schema.time]


def item_values(schema: Schema) -> dict[str, Value]:
    """All attributes of an item as SQL over a packed row whose arrays have no time; the time comes last."""
    return {**unpacked(without_time(schema), schema), schema.time: ("time", Type.INTEGER)}


def packed(values: Sequence[Value]) -> dict[str, str]:
    """The arrays of a packed row with these values, as SQL."""
    texts: dict[str, list[str]] = {array: [] for array in ARRAYS}
    for text, type in values:
        assert type is not None
        texts[ARRAY_OF[type]].append(text)
    return {
        array: f"array({', '.join(found)})" if found else f"cast(array() as {ARRAYS[array]})"
        for array, found in texts.items()
    }


def struct(**fields: str) -> str:
    """A struct with these fields, as SQL.

    >>> struct(id="event_id", rank="0")
    "named_struct('id', event_id, 'rank', 0)"
    """
    return "named_struct(" + ", ".join(f"'{name}', {text}" for name, text in fields.items()) + ")"


def group_key(values: Sequence[Value]) -> str:
    """The values of a group in one text, as SQL; `flow.language.identifiers` writes them in the same way."""
    parts = []
    for text, type in values:
        shown = f"cast({text} as string)"
        if type is Type.TEXT:
            shown = f"concat(cast(char_length({text}) as string), ':', {text})"
        parts.append(f"coalesce(concat('|', {shown}), '|')")
    return f"concat({', '.join(parts)})" if parts else "''"
