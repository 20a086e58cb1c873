"""What checks do with rows: pick some, average a column, group by others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean

from distributary.errors import DistributaryError
from distributary.lab.experiment import Row, Rows, Value


def select(rows: Rows, **values: Value) -> list[Row]:
    """The rows with these values.

    >>> select([{"nodes": 1, "hops": 3}, {"nodes": 2, "hops": 4}], nodes=2)
    [{'nodes': 2, 'hops': 4}]
    """
    return [row for row in rows if all(row.get(name) == value for name, value in values.items())]


def mean(rows: Rows, column: str, **values: Value) -> float:
    """The mean of a column over the rows with these values; an error when there are none.

    >>> mean([{"nodes": 1, "hops": 3}, {"nodes": 1, "hops": 4}], "hops", nodes=1)
    3.5
    """
    found = [number(row, column) for row in select(rows, **values) if column in row]
    if not found:
        raise DistributaryError(f"no row has {column!r} with {values or 'any values'}")
    return fmean(found)


def means(rows: Rows, column: str, by: str) -> Mapping[Value, float]:
    """The mean of a column for each value of another, in the order of those values.

    >>> means([{"nodes": 2, "hops": 3}, {"nodes": 1, "hops": 4}], "hops", by="nodes")
    {1: 4.0, 2: 3.0}
    """
    groups: defaultdict[Value, list[float]] = defaultdict(list)
    for row in rows:
        if column in row and by in row:
            groups[row[by]].append(number(row, column))
    return {value: fmean(groups[value]) for value in sorted(groups, key=_order)}


def number(row: Row, column: str) -> float:
    """A value that must be a number."""
    value = row[column]
    if isinstance(value, str):
        raise DistributaryError(f"{column!r} is to be a number, not {value!r}")
    return float(value)


def _order(value: Value) -> tuple[bool, float, str]:
    return (True, 0.0, value) if isinstance(value, str) else (False, float(value), "")
