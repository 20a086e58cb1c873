"""What a running pipeline shows of itself: rates, lag, totals and the version of the subscriptions.

The numbers come from the records of finished batches (see `commits`), so their path must be visible
from here; how far behind a source is, Spark's own report says where the source knows.

Rates are what was finished within the last seconds, so they fall to zero when nothing comes in.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.table import Table

from distributary.spark.pipeline.commits import BatchRecord

WINDOW = timedelta(seconds=10)
COUNTED = ("events", "matches", "deliveries", "rejected", "derived", "late")
"""What is added up over the records of batches."""
LATEST = 30
"""Finished batches that are told one by one."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a pipeline at a moment."""

    batches: int = 0
    batch: int | None = None
    events: int = 0
    matches: int = 0
    deliveries: int = 0
    rejected: int = 0
    derived: int = 0
    late: int = 0
    events_per_second: float = 0.0
    matches_per_second: float = 0.0
    lag: str = "-"
    version: int | None = None
    uptime: timedelta = timedelta()
    last_seconds: float | None = None
    """How long the last batch took; the next two are of the batches within the last seconds."""
    mean_seconds: float | None = None
    most_seconds: float | None = None
    offsets_behind: int | None = None
    """How many offsets are still to be read, where the source knows."""
    seconds_behind: float | None = None
    """How far behind now the greatest time in the order column is, if that holds times."""
    latest: tuple[BatchRecord, ...] = ()
    """The batches that finished last, the last of them at the end."""

    def rows(self) -> dict[str, str]:
        """What there is to tell, as texts by name."""
        return {
            "batch": "-" if self.batch is None else f"{self.batch:,}",
            "events": f"{self.events:,}",
            "events/s": f"{self.events_per_second:,.0f}",
            "matches": f"{self.matches:,}",
            "matches/s": f"{self.matches_per_second:,.0f}",
            "deliveries": f"{self.deliveries:,}",
            "rejected": f"{self.rejected:,}",
            "lag": self.lag,
            "subscriptions": "-" if self.version is None else f"version {self.version:,}",
            "uptime": str(timedelta(seconds=int(self.uptime.total_seconds()))),
        }

    def line(self) -> str:
        """All of it in one line.

        >>> print(Snapshot(batches=1, batch=7, events=1200, events_per_second=120.0, lag="0.4 s").line())
        batch 7 | events 1,200 (120/s) | matches 0 (0/s) | deliveries 0 | rejected 0 | lag 0.4 s | \
subscriptions - | uptime 0:00:00
        """
        texts = self.rows()
        for name in ("events", "matches"):
            texts[name] += f" ({texts.pop(name + '/s')}/s)"
        return " | ".join(f"{name} {text}" for name, text in texts.items())

    def table(self, title: str) -> Table:
        """All of it as a table for a terminal."""
        table = Table(title=title, title_justify="left", show_header=False)
        table.add_column()
        table.add_column(justify="right", min_width=16)
        for name, text in self.rows().items():
            table.add_row(name, text)
        return table


@dataclass
class Progress:
    """Takes in what batches and Spark report, and tells where the pipeline stands."""

    started: datetime
    version: int | None = None
    counts_offsets: bool = False
    """Whether lag is told in offsets alone, as the source has them: it is unknown until Spark tells."""
    _records: deque[BatchRecord] = field(default_factory=deque)
    _latest: deque[BatchRecord] = field(default_factory=lambda: deque(maxlen=LATEST))
    _totals: Counter[str] = field(default_factory=Counter)
    _report: dict[str, Any] | None = None

    def report(self, report: dict[str, Any] | None) -> None:
        """Take in Spark's report of its last batch."""
        self._report = report

    def record(self, record: BatchRecord) -> None:
        """Take in the record of a finished batch."""
        self.version = record.version if record.version is not None else self.version
        self._records.append(record)
        self._latest.append(record)
        self._totals.update(batches=1, **{name: getattr(record, name) for name in COUNTED})

    def snapshot(self, now: datetime) -> Snapshot:
        """Where the pipeline stands at a moment."""
        uptime = now - self.started
        recent = self._recent(now)
        window = min(uptime, self._window()).total_seconds() or 1.0
        return Snapshot(
            **self._totals,
            batch=self._records[-1].batch if self._records else None,
            events_per_second=sum(one.events for one in recent) / window,
            matches_per_second=sum(one.matches for one in recent) / window,
            lag=self._lag(now),
            version=self.version,
            uptime=uptime,
            **self._times(recent, now),
            offsets_behind=self._offsets_behind(),
            latest=tuple(self._latest),
        )

    def _times(self, recent: list[BatchRecord], now: datetime) -> dict[str, Any]:
        if not self._records:
            return {}
        last = self._records[-1]
        taken = [one.seconds for one in recent] or [last.seconds]
        behind = None if last.latest is None else (now - last.latest).total_seconds()
        return {
            "last_seconds": last.seconds,
            "mean_seconds": sum(taken) / len(taken),
            "most_seconds": max(taken),
            "seconds_behind": behind,
        }

    def _window(self) -> timedelta:
        """Twice the last batch at least, or slow batches would fall out of it one by one."""
        last = self._records[-1].seconds if self._records else 0.0
        return max(WINDOW, timedelta(seconds=2 * last))

    def _recent(self, now: datetime) -> list[BatchRecord]:
        since = now - self._window()
        while len(self._records) > 1 and self._records[0].finished < since:
            self._records.popleft()
        return [one for one in self._records if one.finished >= since]

    def _lag(self, now: datetime) -> str:
        """Offsets behind for a source that knows; else the age of the newest event, or of the last batch."""
        offsets = self._offsets_behind()
        if offsets is not None:
            return f"{offsets:,} offsets"
        if not self._records or self.counts_offsets:
            return "-"
        last = self._records[-1]
        if last.latest is not None:
            return f"{_age(now - last.latest)} behind the newest event"
        return f"{_age(now - last.finished)} since the last batch"

    def _offsets_behind(self) -> int | None:
        sources = (self._report or {}).get("sources") or []
        behind = [(one.get("metrics") or {}).get("maxOffsetsBehindLatest") for one in sources]
        return max((int(one) for one in behind if one is not None), default=None)


def utc_now() -> datetime:
    """The time, in UTC."""
    return datetime.now(UTC)


def _age(age: timedelta) -> str:
    seconds = age.total_seconds()
    return f"{seconds:.1f} s" if seconds < 60 else str(timedelta(seconds=int(seconds)))
