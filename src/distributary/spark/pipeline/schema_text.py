"""The schema of a source as its file gives it: Spark's DDL, or the JSON of a Spark schema.

Columns and types are read here, without Spark, so that what is misspelt is told with the rest of the file.
"""

from __future__ import annotations

import json
import re
from difflib import get_close_matches

from distributary.errors import DistributaryError, InputError
from distributary.filters.lint.ddl import DDL_KINDS, read_ddl

SPARKS_OWN = re.compile(r"\b(collate|default|generated|geography|geometry)\b", re.IGNORECASE)
"""Words of DDL that Spark reads and we do not: such a text is Spark's to judge."""
UNKNOWN_TYPE = re.compile(r"no such type: '([^']*)'")


def check_types(schema: str) -> None:
    """Raise an error if a type of a schema is none of Spark's.

    >>> check_types("id STRING, price DOUBEL")
    Traceback (most recent call last):
        ...
    distributary.errors.DistributaryError: has no such type: 'doubel'; did you mean double?
    """
    if schema.lstrip().startswith("{"):
        from pyspark.sql.types import StructType

        try:
            StructType.fromJson(json.loads(schema))
        except Exception as error:  # of many kinds, some of them bare
            raise DistributaryError(f"is not the JSON of a Spark schema: {str(error)[:200]}") from None
        return
    if SPARKS_OWN.search(schema):
        return
    try:
        read_ddl(schema)
    except InputError as error:
        text = str(error).removeprefix("schema: ")
        unknown = UNKNOWN_TYPE.search(text)
        if unknown is None:
            raise DistributaryError(f"cannot be read: {text}") from None
        near = get_close_matches(unknown[1], [*DDL_KINDS, "array", "map", "struct"], n=1)
        advice = f"did you mean {near[0]}?" if near else "write such as STRING, DOUBLE, TIMESTAMP"
        raise DistributaryError(f"has {unknown[0]}; {advice}") from None


def schema_columns(schema: str) -> list[str]:
    """The names of a schema's columns; the types are for Spark to judge.

    >>> schema_columns("id STRING, `unit price` DOUBLE, wind STRUCT<speed: INT, from: STRING> NOT NULL")
    ['id', 'unit price', 'wind']
    """
    if schema.lstrip().startswith("{"):
        try:
            return [str(one["name"]) for one in json.loads(schema)["fields"]]
        except (ValueError, KeyError, TypeError):
            raise DistributaryError("is not the JSON of a Spark schema") from None
    names = []
    for column in _top_level_parts(schema):
        found = re.match(r"\s*(?:`((?:[^`]|``)+)`|([^\s`:,]+))(?:\s*:\s*|\s+)\S", column)
        if found is None:
            held = column.strip() or "nothing"
            raise DistributaryError(f"has {held!r} where a name and a type should be, such as 'id STRING'")
        names.append(found[1].replace("``", "`") if found[1] else found[2])
    return names


def _top_level_parts(text: str) -> list[str]:
    """The parts between commas that are outside quotes and brackets."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "`'\"":
            quote = character
        elif character in "<(":
            depth += 1
        elif character in ">)":
            depth -= 1
        if character == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += character
    return parts
