"""What the tasks of matching do with the Arrow batches that Spark hands them.

`MatchTasks` is a small description that travels to the Python workers; its methods are what mapInArrow calls.
An event that depends on tolerances is left to the second branch of the dataflow with all its matches (see
`tolerances`), so all matches of an event are found in one place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distributary.matching.matcher import Matcher
from distributary.spark.columns import HOME, PART, EventColumns
from distributary.spark.index.find import SparkIndex
from distributary.spark.rows import Batches, ResultRows

MOST_ROWS = 1 << 16
"""Events that are matched at a time, at most."""
MOST_MATCHES = 1 << 20
"""Matches that are made at a time, about: of events that match very much, fewer are taken."""


class PartVisit(NamedTuple):
    """Events of a task that visit one part of the index."""

    part: int
    matcher: Matcher
    events: pa.Table
    """The events without the columns that route them."""
    home: NDArray[np.bool_]
    """Which of the events are at home in this part."""


@dataclass(frozen=True)
class MatchTasks:
    """What events with these columns are matched against, and which rows are made of that."""

    index: SparkIndex
    columns: EventColumns
    rows: ResultRows

    def route(self, batches: Batches) -> Batches:
        """Send every event to the parts of the index that it visits; the first visit is its home.

        Events that visit no part, and rejected ones, go to part 0 if there are to be rows for all events.
        """
        plan = self.index.rendezvous()
        assert plan is not None
        unvisited = list(self.index.unvisited())
        for batch in batches:
            events = self.columns.batch(batch)
            visits = plan.route(events)
            rows, parts = visits.rows, visits.slots
            if events.rejected or unvisited:
                kept = ~np.isin(rows, list(events.rejected)) & ~np.isin(parts, unvisited)
                rows, parts = rows[kept], parts[kept]
            if self.rows.all_events:
                alone = np.ones(events.rows, np.bool_)
                alone[rows] = False
                rows = np.concatenate([rows, np.flatnonzero(alone).astype(np.int32)])
                parts = np.concatenate([parts, np.zeros(alone.sum(), np.int32)])
            order = np.lexsort((rows, parts))
            rows, parts = rows[order], parts[order]
            home = np.zeros(len(rows), np.bool_)
            home[np.unique(rows, return_index=True)[1]] = True
            routed = batch.take(pa.array(rows)).append_column(PART, pa.array(parts))
            yield routed.append_column(HOME, pa.array(home))

    def match(self, batches: Batches) -> Batches:
        """The rows of the events that do not depend on tolerances."""
        version = self.index.version()
        for visit in self._visits(batches, version):
            yield from self.matched(visit.matcher, visit.events, version, visit.home)

    def pick_tolerant(self, batches: Batches) -> Batches:
        """The events that depend on tolerances, each with its part."""
        for part, table in self.tolerant(batches, self.index.version()):
            parts = pa.repeat(pa.scalar(part, pa.int32()), table.num_rows)
            yield from table.append_column(PART, parts).to_batches()

    def match_ordered(self, batches: Batches) -> Batches:
        """The rows of events that come by part and in order; tolerances remember from the first on."""
        version = self.index.version()
        for visit in self._visits(batches, version):
            yield from self.matched(visit.matcher, visit.events, version)

    def tolerant(self, batches: Batches, version: int) -> Iterator[tuple[int, pa.Table]]:
        """The events that depend on tolerances, part by part."""
        for visit in self._visits(batches, version):
            if visit.matcher.has_tolerances:
                mask = visit.matcher.tolerant_rows(self.columns.batch(visit.events))
                if mask.any():
                    yield visit.part, visit.events.filter(pa.array(mask))

    def matched(
        self, matcher: Matcher, table: pa.Table, version: int, home: NDArray[np.bool_] | None = None
    ) -> Batches:
        """Match events, as many at a time as there is room for their matches.

        With `home`, the events that are at home, the rows that do not depend on matches are given too, and
        events that depend on tolerances are left out. Without it events are in order and tolerances count.
        """
        size = MOST_ROWS
        at = 0
        while at < table.num_rows:
            piece = table.slice(at, size)
            events = self.columns.batch(piece)
            matches = matcher.matches(events, tolerances="apply" if home is None else "leave")
            yield from self.rows.rows(piece, events, matches, version)
            if home is not None:
                yield from self.rows.others(piece, events, home[at : at + size], version)
            at += size
            size = min(MOST_ROWS, 2 * size)
            if len(matches.rows) > MOST_MATCHES:
                size = max(1, piece.num_rows * MOST_MATCHES // (2 * len(matches.rows)))

    def _visits(self, batches: Batches, version: int) -> Iterator[PartVisit]:
        """The events of each batch by part, with its matcher, which is opened when the part changes."""
        opened: tuple[int, Matcher] | None = None
        for batch in batches:
            table = pa.Table.from_batches([batch])
            names, count = table.schema.names, table.num_rows
            parts = table.column(PART).to_numpy() if PART in names else np.zeros(count, np.int32)
            home = table.column(HOME).to_numpy() if HOME in names else np.ones(count, np.bool_)
            bare = table.select([name for name in names if name not in (PART, HOME)])
            for part in np.unique(parts).tolist():
                rows = np.flatnonzero(parts == part)
                if opened is None or opened[0] != part:
                    opened = part, self.index.matcher(part, version)
                events = bare if len(rows) == count else bare.take(pa.array(rows))
                yield PartVisit(part, opened[1], events, home[rows].astype(np.bool_))
