"""Running a pipeline to its end: `distributary run` without the command line.

Rules: SIGTERM and SIGINT ask for a stop; the micro-batch under way may finish within the grace period, then
the query is stopped, and that is a good end. A second signal ends the grace. A query that fails is an error
whose first line says why; the whole text is in the log, as is all that Spark prints. Whatever way it ends,
a start with the same checkpoint goes on where it was.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.live import Live

from distributary.errors import DistributaryError
from distributary.spark.index.routing import routed
from distributary.spark.pipeline.commits import exists, last_record, read_record
from distributary.spark.pipeline.config import Pipeline
from distributary.spark.pipeline.pipeline import Route, start, subscription_store
from distributary.spark.pipeline.progress import Progress, Snapshot, utc_now
from distributary.spark.pipeline.source import first_line
from distributary.spark.pipeline.upkeep import upkeep
from distributary.spark.session import logging_to, open_session

GRACE = 60.0
POLL = 0.25
PATIENCE = 30.0
"""Seconds that the engine has to stop."""
LINE_EVERY = 2.0
"""Seconds between lines where there is no terminal."""

EngineError = (PySparkException, Py4JError, ConnectionError, OSError)
"""What Spark's client raises when something is wrong with the query, the engine or the way to it."""


def run_pipeline(
    pipeline: Pipeline,
    console: Console,
    log: Path,
    *,
    master: str | None = None,
    remote: str | None = None,
    grace: float = GRACE,
    route: Route = routed,
) -> Snapshot:
    """Run until the source is exhausted (`available_now`), a signal comes or the query fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with logging_to(log), _Stop().listening() as stop:
        console.print(f"starting Spark; what it says goes to {log}", highlight=False, soft_wrap=True)
        try:
            spark = open_session(pipeline.name, pipeline.spark, log, master=master, remote=remote)
        except EngineError as error:
            raise failure(error, log) from None
        try:
            # Spark has installed a handler of its own for SIGINT meanwhile.
            stop.listen()
            return _run(spark, pipeline, console, log, stop, grace, route)
        finally:
            _within(PATIENCE, spark.stop)


def _run(
    spark: SparkSession,
    pipeline: Pipeline,
    console: Console,
    log: Path,
    stop: _Stop,
    grace: float,
    route: Route,
) -> Snapshot:
    _tell_what_is_left_out(pipeline, console)
    progress = _Watch(pipeline)
    try:
        query = start(spark, pipeline, route)
    except EngineError as error:
        raise failure(error, log) from None
    try:
        with progress.shown(console), _upkeep(spark, pipeline):
            while not stop.asked.wait(POLL) and query.isActive:
                progress.look(query.lastProgress)
            if stop.asked.is_set():
                console.print("stopping: the batch under way may finish", highlight=False)
                _finish_batch(query, stop, grace)
                if not _within(PATIENCE, query.stop):
                    return progress.summary(console)
            progress.look(query.lastProgress)
        problem = query.exception()
    except EngineError as error:
        if not stop.asked.is_set():
            raise failure(error, log) from None
        # A stop that was sent to all processes has ended the engine as well; the checkpoint knows the rest.
        progress.look(None)
        problem = None
    if problem is not None and not stop.asked.is_set():
        raise failure(problem, log)
    return progress.summary(console)


def _finish_batch(query: StreamingQuery, stop: _Stop, grace: float) -> None:
    """Wait until the micro-batch that is under way, if any, is done."""
    deadline = time.monotonic() + grace
    before = _batch_of(query.lastProgress)
    while time.monotonic() < deadline and not stop.insisted.wait(POLL):
        if not query.isActive or not query.status["isTriggerActive"]:
            return
        if _batch_of(query.lastProgress) != before:
            return


@contextmanager
def _upkeep(spark: SparkSession, pipeline: Pipeline) -> Iterator[None]:
    store = subscription_store(pipeline)
    with ExitStack() as kept:
        tolerances = pipeline.events.order is not None
        kept.enter_context(upkeep(spark, store, pipeline.subscriptions.strategy, tolerances))
        if pipeline.queries is not None:  # derived items are matched with an index of their own
            kept.enter_context(upkeep(spark, store, "index", False))
        yield


def _within(seconds: float, call: Callable[[], object]) -> bool:
    """Call something of the engine's; whether it came back in time. A remote one may be gone for good."""

    def calling() -> None:
        with suppress(*EngineError):
            call()

    caller = threading.Thread(target=calling, daemon=True)
    caller.start()
    caller.join(seconds)
    return not caller.is_alive()


def _batch_of(report: Any) -> int:
    return -1 if report is None else int(report["batchId"])


class _Stop:
    """Whether somebody has asked for an end, and whether they insist."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.insisted = threading.Event()

    def listen(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)

    @contextmanager
    def listening(self) -> Iterator[_Stop]:
        before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
        self.listen()
        try:
            yield self
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        if self.asked.is_set():
            self.insisted.set()
        self.asked.set()


class _Watch:
    """Follows the records of a pipeline's batches and shows them: a table on a terminal, lines elsewhere."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline
        last = last_record(pipeline.commits)
        self._next = 0 if last is None else last + 1
        self._progress = Progress(utc_now(), subscription_store(pipeline).version())
        self._live: Live | None = None
        self._console: Console | None = None
        self._told = -1
        self._told_at = 0.0

    @contextmanager
    def shown(self, console: Console) -> Iterator[None]:
        if not console.is_terminal:
            self._console = console
            yield
            return
        with Live(self._table(), console=console, auto_refresh=False) as self._live:
            yield

    def look(self, report: Any) -> None:
        """Take in what is new and show it."""
        self._progress.report(report)
        while exists(f"{self._pipeline.commits}/{self._next}.json"):
            self._progress.record(read_record(self._pipeline.commits, self._next))
            self._next += 1
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        elif self._console is not None and self._next - 1 > self._told:
            self._line(self._console)

    def summary(self, console: Console) -> Snapshot:
        """Tell what was done and where it is."""
        total = self._progress.snapshot(utc_now())
        seconds = total.uptime.total_seconds() or 1.0
        lines = [
            f"{total.batches:,} batches: {total.events:,} events ({total.events / seconds:,.0f}/s), "
            f"{total.matches:,} matches, {total.deliveries:,} deliveries, {total.rejected:,} rejected"
        ]
        if self._pipeline.queries is not None:
            lines.append(f"queries: {total.derived:,} items derived, {total.late:,} events late")
        pipeline = self._pipeline
        places = {
            "deliveries": pipeline.sink.path,
            "archive": pipeline.archive,
            "metrics": pipeline.metrics,
            "quarantine": pipeline.quarantine if total.rejected else None,
        }
        lines += [f"{name}: {place}" for name, place in places.items() if place]
        for line in lines:
            console.print(line, highlight=False, soft_wrap=True)
        return total

    def _line(self, console: Console) -> None:
        now = time.monotonic()
        if now - self._told_at >= LINE_EVERY:
            self._told, self._told_at = self._next - 1, now
            console.print(self._progress.snapshot(utc_now()).line(), highlight=False, soft_wrap=True)

    def _table(self) -> Any:
        return self._progress.snapshot(utc_now()).table(self._pipeline.name)


def _tell_what_is_left_out(pipeline: Pipeline, console: Console) -> None:
    """Without an order no tolerance can be kept; who asked for one must hear of it."""
    if pipeline.events.order is not None:
        return
    changes = subscription_store(pipeline).table()["change"]
    count = len(changes) - changes.null_count
    if count:
        console.print(
            f"{count:,} subscriptions with a tolerance are left out: name the column that orders the events "
            "with order under [events]",
            highlight=False,
            soft_wrap=True,
        )


def failure(error: BaseException, log: Path) -> DistributaryError:
    """An error with the reason in one line; all of it goes to the log."""
    with log.open("a", encoding="utf-8") as stream:
        stream.write(f"{error}\n")
    return DistributaryError(f"the pipeline failed: {reason_of(str(error))} (all of it is in {log})")


def reason_of(text: str) -> str:
    """The line of Spark's many that says what went wrong.

    >>> reason_of("Job aborted.\\nTraceback (most recent call last):\\n  in x\\nValueError: no\\n\\nmore")
    'ValueError: no'
    """
    lines = [line.rstrip() for line in text.splitlines()]
    traces = [at for at, line in enumerate(lines) if line.endswith("Traceback (most recent call last):")]
    if traces:
        after = (line for line in lines[traces[-1] + 1 :] if line and not line[0].isspace())
        found = next(after, None)
        if found:
            return found
    return first_line(text) if text.strip() else "for no reason that Spark tells"
