"""Rates and selectivities for a plan, from the metrics tables that `distributary run` writes.

Rules:

- A topic's rate is its events a second; a subscription's is its matches a second: the rate of all events
  times its selectivity.
- Unless the time that the events are from is given, it runs from the start of the first batch to the end of
  the last, by the clock of the pipeline: right for a stream that is read as it comes, and not for an archive
  that is read at once.
- A pipeline with queries also measured every source and operator of theirs, in items and bytes.
- Only finished batches count: those that have a record. Spark is not needed.

Cost: one pass over the tables.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from distributary.errors import DistributaryError
from distributary.filters.topic import TopicFilter
from distributary.model import Event

TOPIC_COLUMNS = ("topic", "events", "matches")
SUBSCRIPTION_COLUMNS = ("subscription_id", "subscriber", "matches")
STREAM_COLUMNS = ("stream", "items", "bytes")


@dataclass(frozen=True)
class TopicRate:
    """What a topic's events come to."""

    events: int
    matches: int
    rate: float
    """Events a second."""


@dataclass(frozen=True)
class SubscriptionRate:
    """What a subscription's matches come to."""

    subscriber: str
    matches: int
    rate: float
    """Matches a second."""
    selectivity: float
    """The share of all events that matched."""


@dataclass(frozen=True)
class PipelineStreamRate:
    """What the items of a source or an operator come to, in a pipeline with queries."""

    items: int
    bytes: int
    rate: float
    """Items a second."""

    @property
    def size(self) -> float | None:
        """Bytes of an item."""
        return self.bytes / self.items if self.items else None


@dataclass(frozen=True)
class PipelineRates:
    """What a pipeline measured. Events without a topic count among all events, and in no topic."""

    events: int
    seconds: float
    topics: Mapping[str, TopicRate]
    subscriptions: Mapping[str, SubscriptionRate]
    streams: Mapping[str, PipelineStreamRate]
    """Of sources, and of operators as `query.operator`, whether or not anybody can subscribe to them."""

    def topics_of(self, pattern: str) -> list[str]:
        """The topics that match a pattern."""
        wanted = TopicFilter.parse(pattern)
        return [topic for topic in self.topics if wanted.matches(Event("topic", topic))]

    def subscriptions_of(self, subscriber: str) -> list[str]:
        """The subscriptions of a subscriber that were measured."""
        return [name for name, one in self.subscriptions.items() if one.subscriber == subscriber]


def read_rates(metrics: Path | str, seconds: float | None = None) -> PipelineRates:
    """Read the metrics below a directory; `seconds` says which time they are from, if not their own."""
    directory = Path(metrics)
    records = list(_records(directory))
    if not records:
        raise DistributaryError(
            f"{directory}: no finished batch; expected batches/<number>.json of a pipeline"
        )
    started = min(record.started for record in records)
    own = (max(record.finished for record in records) - started).total_seconds()
    span = own if seconds is None else seconds
    if not math.isfinite(span) or span <= 0:
        raise DistributaryError(f"{directory}: its events are from {span} seconds; give `seconds` above 0")
    batches = [record.batch for record in records]
    events = sum(record.events for record in records)
    topics = _sums(directory / "topics", batches, TOPIC_COLUMNS)
    matches: dict[str, tuple[str, int]] = {}
    for name, subscriber, matched in _rows(directory / "subscriptions", batches, SUBSCRIPTION_COLUMNS):
        matches[name] = subscriber, matches.get(name, ("", 0))[1] + matched
    streams = _sums(directory / "operators", batches, STREAM_COLUMNS)
    return PipelineRates(
        events,
        span,
        {name: TopicRate(came, matched, came / span) for name, (came, matched) in topics.items()},
        {
            name: SubscriptionRate(who, count, count / span, count / events if events else 0.0)
            for name, (who, count) in sorted(matches.items())
        },
        {name: PipelineStreamRate(items, size, items / span) for name, (items, size) in streams.items()},
    )


def _sums(directory: Path, batches: Sequence[int], columns: Sequence[str]) -> dict[str, tuple[int, int]]:
    """By the first column of a table, in order: the sums of the other two."""
    found: dict[str, tuple[int, int]] = {}
    for name, one, other in _rows(directory, batches, columns):
        if name is not None:
            before = found.get(name, (0, 0))
            found[name] = before[0] + one, before[1] + other
    return dict(sorted(found.items()))


class _Record(NamedTuple):
    """Of the record of a batch, what is needed here."""

    batch: int
    events: int
    started: datetime
    finished: datetime


def _records(directory: Path) -> Iterator[_Record]:
    paths = [path for path in (directory / "batches").glob("*.json") if path.stem.isdigit()]
    for path in sorted(paths, key=lambda path: int(path.stem)):
        try:
            record = json.loads(path.read_bytes())
            yield _Record(
                int(record["batch"]),
                int(record["events"]),
                datetime.fromisoformat(record["started"]),
                datetime.fromisoformat(record["finished"]),
            )
        except KeyError as error:
            raise DistributaryError(f"{path}: no {error}; expected the record of a batch") from error
        except (OSError, TypeError, ValueError) as error:
            raise DistributaryError(f"{path}: {error}") from error


def _rows(directory: Path, batches: Sequence[int], columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    """These columns of a table, of these batches; a batch without events has no directory."""
    from pyarrow import ArrowException, compute, parquet

    together = _put_together(directory)
    for batch in batches:
        home = together.get(batch, directory / f"batch={batch}")
        for path in sorted(home.glob("*.parquet")):
            try:
                file = parquet.ParquetFile(path)
                lacking = [name for name in columns if name not in file.schema_arrow.names]
                if lacking:
                    there = ", ".join(file.schema_arrow.names)
                    raise DistributaryError(f"{path}: no column {lacking[0]!r}; it has {there}")
                table = file.read(columns=[*columns, "batch"] if batch in together else list(columns))
            except (OSError, ArrowException) as error:
                raise DistributaryError(f"{path}: {error}") from error
            if batch in together:
                table = table.filter(compute.equal(table["batch"], batch))
            yield from zip(*(table[name].to_pylist() for name in columns), strict=True)


def _put_together(directory: Path) -> dict[int, Path]:
    """The batches of a table that a compaction has put together, and where each of them is."""
    found: dict[int, Path] = {}
    for listed in sorted((directory / "_compacted").glob("*.json")):
        try:
            found |= dict.fromkeys(json.loads(listed.read_bytes())["batches"], listed.with_suffix(""))
        except (OSError, KeyError, TypeError, ValueError) as error:
            raise DistributaryError(f"{listed}: {error}") from error
    return found
