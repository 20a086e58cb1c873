"""What checks do with rows: pick some, average a column, group by others, and write the numbers out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from distributary.errors import DistributaryError
from distributary_lab.experiment import Row, Rows, Value

T = TypeVar("T")

Form = str | Callable[[Any], str]
"""How a value is written: a template such as '{:.1f} s', or a function."""


# Picking and averaging


def select(rows: Rows, **values: Value | tuple[Value, ...]) -> list[Row]:
    """The rows with these values; of a tuple, with any of them.

    >>> rows = [{"nodes": 1, "hops": 3}, {"nodes": 2, "hops": 4}, {"nodes": 3, "hops": 5}]
    >>> select(rows, nodes=2)
    [{'nodes': 2, 'hops': 4}]
    >>> len(select(rows, nodes=(1, 3)))
    2
    """
    for name, wanted in values.items():
        allowed = wanted if isinstance(wanted, tuple) else (wanted,)
        rows = [row for row in rows if row.get(name) in allowed]
    return list(rows)


def numbers(rows: Rows, column: str, **values: Value | tuple[Value, ...]) -> list[float]:
    """The numbers of a column, one for each row with these values that has the column."""
    return [number(row, column) for row in select(rows, **values) if column in row]


def mean(rows: Rows, column: str, **values: Value | tuple[Value, ...]) -> float:
    """The mean of a column over the rows with these values; an error when there are none.

    >>> mean([{"nodes": 1, "hops": 3}, {"nodes": 1, "hops": 4}], "hops", nodes=1)
    3.5
    """
    found = numbers(rows, column, **values)
    if not found:
        raise DistributaryError(f"no row has {column!r} with {values or 'any values'}")
    return fmean(found)


def means(rows: Rows, column: str, by: str, **values: Value | tuple[Value, ...]) -> dict[Any, float]:
    """The mean of a column for each value of another, over the rows with these values.

    Numbers come in their order, strings as the rows have them.

    >>> means([{"nodes": 2, "hops": 3}, {"nodes": 1, "hops": 4}], "hops", by="nodes")
    {1: 4.0, 2: 3.0}
    """
    groups: defaultdict[Value, list[float]] = defaultdict(list)
    for row in select(rows, **values):
        if column in row and by in row:
            groups[row[by]].append(number(row, column))
    return {value: fmean(found) for value, found in in_order(groups)}


def column_means(rows: Rows, *columns: str, **values: Value | tuple[Value, ...]) -> list[float]:
    """The mean of each of some columns over the rows with these values."""
    return [mean(rows, column, **values) for column in columns]


def curves(rows: Rows, column: str, by: str, **values: Any) -> dict[Any, dict[Any, float]]:
    """The means of a column by another, a mapping for each value of the first keyword, which has several.

    >>> rows = [{"nodes": 1, "way": "in", "hops": 3}, {"nodes": 1, "way": "out", "hops": 4}]
    >>> curves(rows, "hops", "nodes", way=("in", "out"))
    {'in': {1: 3.0}, 'out': {1: 4.0}}
    """
    (name, several), *others = values.items()
    return {each: means(rows, column, by, **{name: each}, **dict(others)) for each in several}


def largest(rows: Rows, column: str) -> int:
    """The largest value of a label of whole numbers, such as the most nodes that were run."""
    return int(max(labelled(rows, column)))


def labelled(rows: Rows, label: str, **values: Value | tuple[Value, ...]) -> list[Any]:
    """The different values of a label among the rows with these values, numbers in their order.

    >>> labelled([{"nodes": 4, "hops": 3}, {"nodes": 1, "hops": 4}, {"nodes": 4}], "nodes")
    [1, 4]
    """
    found = dict.fromkeys(row[label] for row in select(rows, **values) if label in row)
    return [value for value, _ in in_order(found)]


def stretched(values: Sequence[float], count: int) -> list[float]:
    """The first so many values; where there are fewer, the last one stands for the rest.

    >>> stretched([9.0, 4.0], 4), stretched([9.0, 4.0], 1)
    ([9.0, 4.0, 4.0, 4.0], [9.0])
    """
    return [*values, *[values[-1]] * count][:count]


def number(row: Row, column: str) -> float:
    """A value that must be a number, and in the rows of a check a measured one."""
    if column not in getattr(row, "measured", (column,)):
        raise DistributaryError(f"{column!r} is not measured, so no check can go by it")
    value = row[column]
    if isinstance(value, str):
        raise DistributaryError(f"{column!r} is to be a number, not {value!r}")
    return float(value)


def in_order(groups: Mapping[Value, T]) -> list[tuple[Value, T]]:
    """What a mapping holds, numbers in their order, then strings as they came.

    >>> in_order({"tree": 1, 10: 2, 9: 3})
    [(9, 3), (10, 2), ('tree', 1)]
    """
    return sorted(groups.items(), key=lambda item: _rank(item[0]))


def _rank(value: Value) -> tuple[bool, float]:
    return (True, 0.0) if isinstance(value, str) else (False, float(value))


def gini(loads: NDArray[np.int64]) -> float:
    """How unevenly loads are spread: 0 when all are the same, near 1 when one has everything.

    >>> gini(np.array([1, 1, 1, 1])), gini(np.array([8, 0, 0, 0]))
    (0.0, 0.75)
    """
    count, total = len(loads), loads.sum()
    if not total:
        return 0.0
    return float(2 * (np.arange(1, count + 1) * np.sort(loads)).sum() / (count * total) - (count + 1) / count)


# Numbers as text


def shown(value: str | float) -> str:
    """A value as text: three significant digits, and whole numbers from 100 on.

    >>> shown(1234567.0), shown(0.01234), shown("12 us")
    ('1,234,567', '0.0123', '12 us')
    """
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def listed(values: Iterable[Any] | Mapping[Any, Any], form: Form = "{}") -> str:
    """Values one after the other, those of a mapping without its keys.

    >>> listed([1.25, 3], "{:.2f}"), listed({"a": 1}, shown)
    ('1.25, 3.00', '1')
    """
    found = values.values() if isinstance(values, Mapping) else values
    return ", ".join(_write(value, form) for value in found)


def named(values: Mapping[Any, Any], form: Form = "{}", separator: str = ", ") -> str:
    """Values after their names.

    >>> named({"tree": 1.25, "hash": 3}, "{:.1f} us")
    'tree 1.2 us, hash 3.0 us'
    """
    return separator.join(f"{name} {_write(value, form)}" for name, value in values.items())


def percents(values: Iterable[float] | Mapping[Any, float], fine: bool = False) -> str:
    """Shares from the least to the most, in per cent; if `fine`, small ones with a digit after the point.

    >>> percents([0.101, 0.2, 0.148]), percents({20: 0.1}), percents([0.001, 0.0123], fine=True)
    ('10-20 %', '10 %', '0.1-1.2 %')
    """
    found = list(values.values() if isinstance(values, Mapping) else values)
    digits = 1 if fine and max(found) < 0.1 else 0
    low, high = (f"{100 * value:.{digits}f}" for value in (min(found), max(found)))
    return f"{low} %" if low == high else f"{low}-{high} %"


def _write(value: Any, form: Form) -> str:
    return form.format(value) if isinstance(form, str) else form(value)
