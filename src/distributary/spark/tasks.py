"""What the tasks do with the Arrow batches that Spark hands them.

Each task is a small description that travels to the Python workers, and a `run` for mapInArrow. An event
that depends on tolerances is left to the second branch of the dataflow with all its matches (see
`tolerances`), so whatever an event matches is found in one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matcher
from distributary.spark.columns import HOME, PART, EventColumns
from distributary.spark.index.parts import Parts
from distributary.spark.rows import Shape

Batches = Iterator[pa.RecordBatch]

MOST_ROWS = 1 << 16
ROOM = 1 << 20
"""Matches that are made at a time, about: where events have very many takers, fewer events are taken."""


@dataclass(frozen=True)
class RouteTask:
    """Sends every event to the parts it visits; the first visit is its home.

    What visits no part at all, and what is malformed, goes to part 0 if all events have to be told of.
    """

    parts: Parts
    columns: EventColumns
    all_events: bool

    def run(self, batches: Batches) -> Batches:
        plan = self.parts.rendezvous()
        assert plan is not None
        unvisited = list(self.parts.unvisited())
        for batch in batches:
            events = self.columns.batch(batch)
            visits = plan.route(events)
            rows, parts = visits.rows, visits.slots
            if events.rejected or unvisited:
                kept = ~np.isin(rows, list(events.rejected)) & ~np.isin(parts, unvisited)
                rows, parts = rows[kept], parts[kept]
            if self.all_events:
                alone = np.ones(events.rows, np.bool_)
                alone[rows] = False
                rows = np.concatenate([rows, np.flatnonzero(alone).astype(np.int32)])
                parts = np.concatenate([parts, np.zeros(alone.sum(), np.int32)])
            order = np.lexsort((rows, parts))
            rows, parts = rows[order], parts[order]
            home = np.zeros(len(rows), np.bool_)
            home[np.unique(rows, return_index=True)[1]] = True
            yield _with(batch.take(pa.array(rows)), {PART: pa.array(parts), HOME: pa.array(home)})


@dataclass(frozen=True)
class MatchTask:
    """Matches the events that do not depend on tolerances."""

    parts: Parts
    columns: EventColumns
    shape: Shape

    def run(self, batches: Batches) -> Batches:
        version = self.parts.version()
        matchers: dict[int, Matcher] = {}
        for batch in batches:
            for part, table, home in by_part(batch):
                if part not in matchers:
                    matchers = {part: self.parts.matcher(part, version)}
                yield from self._match(matchers[part], table, home, version)

    def _match(self, matcher: Matcher, table: pa.Table, home: NDArray[np.bool_], version: int) -> Batches:
        size = MOST_ROWS
        at = 0
        while at < table.num_rows:
            piece = table.slice(at, size)
            events = self.columns.batch(piece)
            matches = matcher.matches(events, tolerances="leave")
            yield from self.shape.rows(piece, events, matches, version)
            yield from self.shape.others(piece, events, home[at : at + size], version)
            at += size
            size = next_size(size, piece.num_rows, len(matches.rows))


@dataclass(frozen=True)
class TolerantTask:
    """Picks the events that depend on tolerances, each with its part."""

    parts: Parts
    columns: EventColumns

    def run(self, batches: Batches) -> Batches:
        for part, table in self.tolerant(batches, self.parts.version()):
            parts = pa.repeat(pa.scalar(part, pa.int32()), table.num_rows)
            yield from _with(table, {PART: parts}).to_batches()

    def tolerant(self, batches: Batches, version: int) -> Iterator[tuple[int, pa.Table]]:
        matchers: dict[int, Matcher] = {}
        for batch in batches:
            for part, table, _ in by_part(batch):
                if part not in matchers:
                    matchers = {part: self.parts.matcher(part, version)}
                if matchers[part].has_tolerances:
                    mask = matchers[part].tolerant_rows(self.columns.batch(table))
                    if mask.any():
                        yield part, table.filter(pa.array(mask))


@dataclass(frozen=True)
class OrderedMatchTask:
    """Matches events that arrive by part and in order, with tolerances that remember from the first on."""

    parts: Parts
    columns: EventColumns
    shape: Shape

    def run(self, batches: Batches) -> Batches:
        version = self.parts.version()
        current: int | None = None
        matcher = Matcher()
        for batch in batches:
            for part, table, _ in by_part(batch):
                if part != current:
                    current, matcher = part, self.parts.matcher(part, version)
                yield from match_in_order(matcher, table, self.columns, self.shape, version)


def match_in_order(
    matcher: Matcher, table: pa.Table, columns: EventColumns, shape: Shape, version: int
) -> Batches:
    """Match ordered events, tolerances included, as many at a time as there is room for."""
    size = MOST_ROWS
    at = 0
    while at < table.num_rows:
        piece = table.slice(at, size)
        events: EventBatch = columns.batch(piece)
        matches = matcher.matches(events)
        yield from shape.rows(piece, events, matches, version)
        at += size
        size = next_size(size, piece.num_rows, len(matches.rows))


def next_size(size: int, rows: int, matches: int) -> int:
    """How many events to take next, so that their matches fit the room."""
    if matches > ROOM:
        return max(1, rows * ROOM // (2 * matches))
    return min(MOST_ROWS, 2 * size)


def by_part(batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Table, NDArray[np.bool_]]]:
    """The rows of each part, with which of them are at home, and without the columns that say so."""
    table = pa.Table.from_batches([batch])
    if PART not in table.schema.names:
        yield 0, table, np.ones(table.num_rows, np.bool_)
        return
    parts = table.column(PART).to_numpy()
    home = (
        table.column(HOME).to_numpy().astype(np.bool_)
        if HOME in table.schema.names
        else np.ones(table.num_rows, np.bool_)
    )
    bare = table.select([name for name in table.schema.names if name not in (PART, HOME)])
    for part in np.unique(parts).tolist():
        rows = np.flatnonzero(parts == part)
        yield part, bare if len(rows) == len(parts) else bare.take(pa.array(rows)), home[rows]


def _with(batch: pa.RecordBatch | pa.Table, columns: dict[str, pa.Array]) -> pa.RecordBatch | pa.Table:
    kind = type(batch)
    return kind.from_arrays([*batch.columns, *columns.values()], names=[*batch.schema.names, *columns])
