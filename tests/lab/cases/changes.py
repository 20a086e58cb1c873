"""Changes that several cases share."""

from __future__ import annotations

from collections.abc import Mapping

from lab.disturbances import Change, made


def by(label: str, column: str, values: Mapping[object, float]) -> Change:
    """A column by the values of a label."""
    return made(column, lambda row: values.get(row[label], float(row[column])))
