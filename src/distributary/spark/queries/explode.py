"""From the rows of a frame to the rows that tasks and outputs ask of them.

Rows for many tasks often differ in nothing but the task's number, so their fields are computed once: a row of
the frame is first exploded into rows by their fields, each with the list of the numbers that ask for it, and
these then by number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from distributary.spark.columns import quoted
from distributary.spark.queries.packed import struct

NOBODY = -(2**31) + 1
"""A number that no task and no stream has."""


@dataclass(frozen=True)
class RowRequest:
    """A row that is asked of each row of a frame for which `present` is true."""

    present: str
    number: str
    """Who asks: SQL for the number of a task or of a stream."""
    fields: tuple[tuple[str, str], ...]
    """The names of the columns of the row, with their SQL."""
    within: tuple[str, str] | None = None
    """The same as `present` in two parts: what is true of the stream that was filtered, and the test."""


def exploded(frame: DataFrame, number: str, requests: Iterable[RowRequest]) -> DataFrame | None:
    """The rows that are asked of a frame, with the numbers in a column; None when no row is asked for.

    Of a plain `explode` Spark infers that only rows with something to explode are needed, and sees to that
    first of all: all columns of the sheet are written out in that one condition, which may take forever, and
    rows that no query takes do not move the watermark. Of `explode_outer` it infers nothing.
    """
    alike: dict[tuple[tuple[str, str], ...], list[RowRequest]] = {}
    for request in requests:
        alike.setdefault(request.fields, []).append(request)
    if not alike:
        return None
    lists = [f"{_numbers(asking)} as takers{at}" for at, asking in enumerate(alike.values())]
    rows = [
        f"if(size(takers{at}) > 0, {struct(takers=f'takers{at}', **dict(fields))}, null)"
        for at, fields in enumerate(alike)
    ]
    found = (
        frame.selectExpr("*", *lists)
        .selectExpr(f"array_compact(array({', '.join(rows)})) as rows")
        .selectExpr("explode_outer(rows) as row")
        .where("row is not null")
        .select("row.*")
    )
    if "slide" in found.columns:
        found = _in_windows(found)
    names = [quoted(name) for name in found.columns if name != "takers"]
    return found.selectExpr(f"explode_outer(takers) as {number}", *names)


def _numbers(requests: Sequence[RowRequest]) -> str:
    """The numbers that ask for a row, as SQL: filters of one stream are asked only of its items."""
    streams: dict[str | None, list[RowRequest]] = {}
    for request in requests:
        streams.setdefault(request.within and request.within[0], []).append(request)
    parts = []
    for stream, alike in streams.items():
        nested = stream is not None and len(alike) > 1
        tests = [each.within[1] if nested and each.within else each.present for each in alike]
        pairs = zip(tests, alike, strict=True)
        numbers = ", ".join(f"if({test}, {each.number}, {NOBODY})" for test, each in pairs)
        found = f"array_remove(array({numbers}), {NOBODY})"
        parts.append(f"if({stream}, {found}, cast(array() as array<int>))" if nested else found)
    return parts[0] if len(parts) == 1 else f"concat({', '.join(parts)})"


def _in_windows(rows: DataFrame) -> DataFrame:
    """A row for each window that an item is in, with the window's end as time."""
    starts = rows.withColumn("start", F.explode_outer(F.expr("sequence(start, stop, slide)")))
    return starts.withColumns(
        {
            "time": F.expr("if(own, start + size - 1L, time)"),
            "closes": F.expr("if(own, start + size + closes, closes)"),
        }
    ).drop("stop", "slide", "size")
