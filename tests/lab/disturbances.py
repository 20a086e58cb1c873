"""Changes to measured rows, for tests that a verdict changes with them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from distributary_lab.experiment import Row, Value

Change = Callable[[list[Row]], list[Row]]


def _is_at(row: Row, where: dict[str, Any]) -> bool:
    """Whether a row has these values, any of these, or such that a function says so."""
    return all(
        name in row
        and (
            wanted(row[name])
            if callable(wanted)
            else row[name] in (wanted if isinstance(wanted, tuple) else (wanted,))
        )
        for name, wanted in where.items()
    )


def made(column: str, value: Callable[[Row], Value] | Value, **where: Any) -> Change:
    """A column set, or worked out from the row, where it is."""

    def change(rows: list[Row]) -> list[Row]:
        return [
            {**row, column: value(row) if callable(value) else value}
            if column in row and _is_at(row, where)
            else row
            for row in rows
        ]

    return change


def scaled(column: str, times: float, **where: Any) -> Change:
    """A column so many times as large: halved at one end, say."""
    return made(column, lambda row: times * float(row[column]), **where)


def constant(*columns: str, **where: Any) -> Change:
    """Columns that have their mean everywhere."""

    def change(rows: list[Row]) -> list[Row]:
        for column in columns:
            found = [float(row[column]) for row in rows if column in row and _is_at(row, where)]
            rows = made(column, fmean(found), **where)(rows)
        return rows

    return change


def relabelled(label: str, new: dict[Any, Any]) -> Change:
    """Labels exchanged for others: one system's rows for another's."""
    return made(label, lambda row: new.get(row[label], row[label]))


def swapped(label: str, one: Value, other: Value) -> Change:
    """The rows of two series exchanged."""
    return relabelled(label, {one: other, other: one})


def reversed_by(label: str) -> Change:
    """The series backwards: what was measured at the least is what was measured at the most."""

    def change(rows: list[Row]) -> list[Row]:
        values = sorted({row[label] for row in rows if label in row})
        return relabelled(label, dict(zip(values, reversed(values), strict=True)))(rows)

    return change


def exchanged(one: str, other: str) -> Change:
    """Two columns exchanged."""

    def change(rows: list[Row]) -> list[Row]:
        return [
            {**row, one: row[other], other: row[one]} if {one, other} <= row.keys() else row for row in rows
        ]

    return change


@dataclass(frozen=True)
class Case:
    """How a check is tried."""

    fails: dict[str, Change]
    """By name: disturbances after which the claim does not hold."""
    holds: Sequence[Change] = field(default_factory=tuple)
    """What makes the recorded rows show what the claim says; nothing, where they do."""
