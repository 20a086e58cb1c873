"""What checks do with rows: pick some, average a column, group by others."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from statistics import fmean
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from distributary.errors import DistributaryError
from distributary_lab.experiment import Row, Rows, Value

T = TypeVar("T")


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
    """The mean of a column for each value of another: numbers in their order, strings as they come.

    >>> means([{"nodes": 2, "hops": 3}, {"nodes": 1, "hops": 4}], "hops", by="nodes")
    {1: 4.0, 2: 3.0}
    """
    groups: defaultdict[Value, list[float]] = defaultdict(list)
    for row in rows:
        if column in row and by in row:
            groups[row[by]].append(number(row, column))
    return {value: fmean(numbers) for value, numbers in in_order(groups)}


def number(row: Row, column: str) -> float:
    """A value that must be a number."""
    value = row[column]
    if isinstance(value, str):
        raise DistributaryError(f"{column!r} is to be a number, not {value!r}")
    return float(value)


def gini(loads: NDArray[np.int64]) -> float:
    """How unevenly loads are spread: 0 when all are the same, near 1 when one has everything.

    >>> gini(np.array([1, 1, 1, 1])), gini(np.array([8, 0, 0, 0]))
    (0.0, 0.75)
    """
    count, total = len(loads), loads.sum()
    if not total:
        return 0.0
    return float(2 * (np.arange(1, count + 1) * np.sort(loads)).sum() / (count * total) - (count + 1) / count)


def shown(value: str | float) -> str:
    """A value as text, with no more figures than it deserves.

    >>> shown(1234567.0), shown(0.01234), shown("12 us")
    ('1,234,567', '0.0123', '12 us')
    """
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def in_order(groups: Mapping[Value, T]) -> list[tuple[Value, T]]:
    """What a mapping holds, numbers in their order, then strings as they came.

    >>> in_order({"tree": 1, 10: 2, 9: 3})
    [(9, 3), (10, 2), ('tree', 1)]
    """
    return sorted(groups.items(), key=lambda item: _rank(item[0]))


def _rank(value: Value) -> tuple[bool, float]:
    return (True, 0.0) if isinstance(value, str) else (False, float(value))
