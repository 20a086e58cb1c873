"""The kinds of values that keys of a pipeline's file have: places, formats, options, schemas, intervals."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from distributary import toml_files as toml
from distributary.errors import DistributaryError
from distributary.spark.pipeline.formats import flat_settings
from distributary.spark.pipeline.schema_text import check_types, schema_columns


def _from_home(given: str, info: ValidationInfo) -> str:
    """A URL as it is, a path as seen from the directory of the file."""
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", given):
        return given.rstrip("/")
    return os.path.normpath(Path((info.context or {}).get("home", ""), given))


def _format_name(given: str) -> str:
    """The name of a format in lower case; the name of a class that implements one as it is."""
    return given if "." in given else given.lower()


def _schema_text(given: str, info: ValidationInfo) -> str:
    """DDL as it stands, or the text of the file that is named; DDL always has a blank in it."""
    if " " in given.strip():
        text = given
    else:
        try:
            text = Path(_from_home(given.strip(), info)).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            reason = f'is "{given}": no file that can be read, nor a schema such as "id STRING"'
            raise toml.FaultyValueError([("", reason)]) from None
    try:
        schema_columns(text)
        check_types(text)
    except DistributaryError as error:
        raise toml.FaultyValueError([("", str(error))]) from None
    return text.strip()


Format = Annotated[toml.Text, AfterValidator(_format_name), Field(description='a string such as "json"')]
Place = Annotated[toml.Text, AfterValidator(_from_home)]
Settings = Annotated[
    Mapping[str, str],
    BeforeValidator(flat_settings),
    Field(description='a table such as { name = "value" }'),
]
SchemaText = Annotated[
    toml.Text,
    AfterValidator(_schema_text),
    Field(description='a string such as "id STRING, topic STRING, price DOUBLE"'),
]
UNITS = {"millisecond": 0.001, "second": 1.0, "minute": 60.0, "hour": 3600.0}
"""The units of an interval, in seconds."""


def seconds_of(interval: str) -> float:
    """How many seconds an interval has.

    >>> seconds_of("500 milliseconds"), seconds_of("2 minutes")
    (0.5, 120.0)
    """
    number, unit = re.fullmatch(r"\s*([\d.]+) *(\w+?)s?\s*", interval).groups()  # type: ignore[union-attr]
    return float(number) * UNITS[unit]


Interval = Annotated[
    str,
    Field(
        pattern=r"^\s*\d+(\.\d+)? *(millisecond|second|minute|hour)s?\s*$",
        description='an interval such as "500 milliseconds"',
    ),
]
