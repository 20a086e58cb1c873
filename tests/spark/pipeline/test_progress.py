"""What a running pipeline shows: totals, rates that fall to zero, lag in the words of its source."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from io import StringIO

from rich.console import Console

from distributary.spark.pipeline.commits import BatchRecord
from distributary.spark.pipeline.failures import reason_of
from distributary.spark.pipeline.progress import Progress

START = datetime(2024, 5, 1, tzinfo=UTC)


def record(batch: int, at: float, *, seconds: float = 1.0, latest: datetime | None = None) -> BatchRecord:
    finished = START + timedelta(seconds=at)
    return BatchRecord(
        batch=batch,
        version=batch + 1,
        events=100,
        matches=300,
        deliveries=200,
        rejected=1,
        started=finished - timedelta(seconds=seconds),
        finished=finished,
        latest=latest,
    )


def test_totals_add_up_and_rates_are_those_of_the_last_seconds() -> None:
    progress = Progress(START)
    for batch in range(40):
        progress.record(record(batch, at=batch + 1.0))
    shown = progress.snapshot(START + timedelta(seconds=40))
    assert (shown.batches, shown.batch, shown.version) == (40, 39, 40)
    assert (shown.events, shown.matches, shown.deliveries, shown.rejected) == (4000, 12000, 8000, 40)
    assert 90 <= shown.events_per_second <= 110
    assert 270 <= shown.matches_per_second <= 330
    assert shown.uptime == timedelta(seconds=40)


def test_rates_fall_to_zero_when_nothing_comes() -> None:
    progress = Progress(START)
    progress.record(record(0, at=1.0))
    shown = progress.snapshot(START + timedelta(seconds=60))
    assert (shown.events_per_second, shown.events) == (0, 100)


def test_a_batch_that_takes_long_counts_while_the_next_one_runs() -> None:
    progress = Progress(START)
    progress.record(record(0, at=100.0, seconds=100.0))
    assert progress.snapshot(START + timedelta(seconds=190)).events_per_second > 0


def test_an_empty_batch_does_not_hide_the_version() -> None:
    progress = Progress(START, version=4)
    assert progress.snapshot(START).version == 4
    empty = BatchRecord(0, None, 0, 0, 0, 0, START, START)
    progress.record(empty)
    assert progress.snapshot(START).version == 4


def test_lag_is_what_the_source_knows() -> None:
    progress = Progress(START)
    now = START + timedelta(seconds=5)
    assert progress.snapshot(now).lag == "-"
    progress.record(record(0, at=2.0))
    assert progress.snapshot(now).lag == "3.0 s since the last batch"
    progress.record(record(1, at=4.0, latest=START + timedelta(seconds=0.5)))
    assert progress.snapshot(now).lag == "4.5 s behind the newest event"
    progress.report({"sources": [{"metrics": {"maxOffsetsBehindLatest": "1200"}}, {"metrics": None}]})
    assert progress.snapshot(now).lag == "1,200 offsets"


def test_the_table_shows_what_the_line_says() -> None:
    progress = Progress(START)
    progress.record(record(0, at=1.0))
    shown = progress.snapshot(START + timedelta(seconds=2))
    written = StringIO()
    Console(width=80, file=written).print(shown.table("quotes"))
    text = written.getvalue()
    for name, value in shown.rows().items():
        assert name in text
        assert value in text
        assert value in shown.line()


def test_the_reason_is_the_last_error_of_python_or_the_first_line() -> None:
    trace = "Reason: x\nTraceback (most recent call last):\n  File\nValueError: boo\nmore\n"
    assert reason_of(trace) == "ValueError: boo"
    assert reason_of("\n[UNABLE] no such table\n at line") == "[UNABLE] no such table"
    assert reason_of("") == "for no reason that Spark tells"


def test_lag_of_a_source_with_offsets_is_unknown_until_they_are_told() -> None:
    progress = Progress(START, counts_offsets=True)
    progress.record(record(0, at=2.0, latest=START - timedelta(days=319)))
    now = START + timedelta(seconds=5)
    assert progress.snapshot(now).lag == "-"
    progress.report({"sources": [{"metrics": {"maxOffsetsBehindLatest": "0"}}]})
    assert progress.snapshot(now).lag == "0 offsets"
