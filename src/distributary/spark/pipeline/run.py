"""Running a pipeline to its end: `distributary run` without the command line.

Rules: one run a checkpoint (see `owner`). SIGTERM and SIGINT ask for a stop; the micro-batch under way may
finish within the grace period, then the query is stopped, and that is a good end, as it is when the signal
reached the engine as well. A second signal ends the grace; before the query has started, the first one ends
the run at once. A query that fails is an error whose first line says why (see `failures`); the whole text is
in the log, as is all that Spark prints. Whatever way it ends, a start with the same checkpoint goes on where
it was.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.live import Live
from rich.table import Table

from distributary.errors import DistributaryError
from distributary.kernel import compiling_told
from distributary.spark.index.build import live_index
from distributary.spark.pipeline.checkpoint_format import require_known_format
from distributary.spark.pipeline.commits import BatchRecord, last_record, records_from
from distributary.spark.pipeline.config import Pipeline
from distributary.spark.pipeline.failures import failure, require_format
from distributary.spark.pipeline.followed.follow import following
from distributary.spark.pipeline.owner import owning
from distributary.spark.pipeline.progress import Progress, Snapshot, utc_now
from distributary.spark.pipeline.start import start
from distributary.spark.pipeline.status import PipelineStatus, keep_error, serving
from distributary.spark.pipeline.telemetry import Telemetry, telemetry
from distributary.spark.pipeline.tolerance_memory import tolerances_unkept
from distributary.spark.pipeline.writable import require_writable
from distributary.spark.session import logging_to, open_session

GRACE = 60.0
POLL = 0.25
PATIENCE = 30.0
"""Seconds that the engine has to stop."""
LINE_EVERY = 2.0
"""Seconds between lines where there is no terminal."""
UPKEEP_EVERY = 10.0
"""Seconds between looks at the store."""

EngineError = (PySparkException, Py4JError, ConnectionError, OSError)
"""What Spark's client raises when something is wrong with the query, the engine or the way to it."""

_log = logging.getLogger("distributary")


def run_pipeline(
    pipeline: Pipeline,
    console: Console,
    log: Path,
    *,
    master: str | None = None,
    remote: str | None = None,
    grace: float = GRACE,
) -> Snapshot:
    """Run until the source is exhausted (`available_now`), a signal comes or the query fails.

    Progress and a summary go to the console, all that Spark prints to the log. Returns the last state.
    Raises `DistributaryError` with the reason in one line when the engine or the query fails.
    """
    require_writable(pipeline)
    with _StopSignals().listening() as stop, owning(pipeline.checkpoint):
        try:
            require_known_format(pipeline.checkpoint)
            say(console, f"starting Spark; what it says goes to {log}")
            with session_for(pipeline, log, master=master, remote=remote) as spark:
                # Spark has installed a handler of its own for SIGINT meanwhile.
                stop.listen()
                say(console, f"Spark {spark.version} is there; preparing the index of the subscriptions")
                return _run(spark, pipeline, console, stop, grace)
        except KeyboardInterrupt:
            say(console, "stopped before the first batch")
            return Snapshot()
        except DistributaryError as error:
            keep_error(pipeline.checkpoint, str(error))
            raise


@contextmanager
def session_for(
    pipeline: Pipeline,
    log: Path,
    what: str = "pipeline",
    *,
    master: str | None = None,
    remote: str | None = None,
) -> Iterator[SparkSession]:
    """A session with the settings of a pipeline, stopped at the end of the context.

    What Spark and Python's loggers say goes to the log. An error of the engine becomes a `DistributaryError`
    that says in one line why `what` failed.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    said = log.stat().st_size if log.exists() else 0
    with logging_to(log):
        try:
            spark = open_session(pipeline.name, pipeline.spark, log, master=master, remote=remote)
            try:
                yield spark
            finally:
                _within(PATIENCE, spark.stop)
        except BrokenPipeError:
            raise
        except EngineError as error:
            raise failure(error, log, what, said) from None


def _run(
    spark: SparkSession, pipeline: Pipeline, console: Console, stop: _StopSignals, grace: float
) -> Snapshot:
    pipeline.store.create()
    require_format(spark, pipeline.sink)
    with (
        telemetry(pipeline.name, partial(say, console)) as told,
        _watching(pipeline, console, told) as (watch, status),
    ):
        with compiling_told(partial(say, console)):
            query = start(spark, pipeline, tell=partial(say, console))
        _warn_of_tolerances(pipeline, console)
        stop.started()
        status.state = "running"
        say(console, "started; the first batch takes some seconds more, while workers start")
        return _watched(spark, query, pipeline, watch, stop, grace, status)


@contextmanager
def _watching(
    pipeline: Pipeline, console: Console, told: Telemetry
) -> Iterator[tuple[BatchWatch, PipelineStatus]]:
    """Follow the batches, and tell the state over HTTP as long as the context lasts, if it is said where."""
    watch = BatchWatch(pipeline, console, pipeline.name, told.batch)
    status = PipelineStatus(pipeline, watch.now)
    told.observe(status)
    if pipeline.status is None:
        yield watch, status
        return
    with serving(status, pipeline.status.host, pipeline.status.port) as address:
        say(console, f"status: {address}/status and {address}/metrics")
        yield watch, status


def _watched(
    spark: SparkSession,
    query: StreamingQuery,
    pipeline: Pipeline,
    watch: BatchWatch,
    stop: _StopSignals,
    grace: float,
    status: PipelineStatus,
) -> Snapshot:
    """Follow a query to its end, and tell what was done."""
    console, problem = watch.console, None
    try:
        tell = partial(say, console)
        with watch.shown(), _upkeep(spark, pipeline), following(spark, pipeline, tell):
            while not stop.asked.wait(POLL) and query.isActive:
                watch.look(query.lastProgress)
            if stop.asked.is_set():
                status.state = "stopping"
                console.print("stopping: the batch under way may finish", highlight=False)
                _finish_batch(query, stop, grace)
                if not _within(PATIENCE, query.stop):
                    return _summary(pipeline, watch, console)
            watch.look(query.lastProgress)
        problem = query.exception()
    except EngineError:
        if not stop.asked.is_set():
            raise
        # A stop that was sent to all processes has ended the engine as well; the checkpoint knows the rest.
        say(console, "the engine was stopped as well: the next run does the batch under way again")
        watch.look(None)
    if problem is not None and not stop.asked.is_set():
        raise problem
    return _summary(pipeline, watch, console)


@contextmanager
def _upkeep(spark: SparkSession, pipeline: Pipeline) -> Iterator[None]:
    """Keep a base near the newest version of the store as long as the context lasts.

    Tasks apply the changes since the base that they opened. That is cheap for thousands of changes, so a base
    is built anew only when there are more (see `index.build`). No answer depends on this, so a failure is
    logged and tried again.
    """
    done = threading.Event()
    store, indices = pipeline.store, [pipeline.index_options]
    if pipeline.queries is not None:  # derived items are matched with an index of one part
        indices.append(replace(pipeline.index_options, strategy="index"))

    def keep() -> None:
        seen = store.version()
        while not done.wait(UPKEEP_EVERY):
            try:
                version = store.version()
                if version != seen:
                    for options in indices:
                        live_index(spark, store, replace(options, version=version))
                    seen = version
            except Exception as error:
                _log.warning("the upkeep of %r failed and will be tried again: %s", store, error)

    threading.Thread(target=keep, name="upkeep", daemon=True).start()
    try:
        yield
    finally:
        done.set()


def _finish_batch(query: StreamingQuery, stop: _StopSignals, grace: float) -> None:
    """Wait until the micro-batch that is under way, if any, is done."""
    deadline = time.monotonic() + grace
    before = _batch_of(query.lastProgress)
    while time.monotonic() < deadline and not stop.insisted.wait(POLL):
        if not query.isActive or not query.status["isTriggerActive"]:
            return
        if _batch_of(query.lastProgress) != before:
            return


def _within(seconds: float, call: Callable[[], object]) -> bool:
    """Call a method of the engine; returns whether it came back in time. A remote engine may be gone."""

    def calling() -> None:
        with suppress(*EngineError):
            call()

    caller = threading.Thread(target=calling, daemon=True)
    caller.start()
    caller.join(seconds)
    return not caller.is_alive()


def _batch_of(report: Any) -> int:
    return -1 if report is None else int(report["batchId"])


class _StopSignals:
    """Whether a signal has asked for a stop, and whether a second one has asked for it at once."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.insisted = threading.Event()
        self._starting = True

    def started(self) -> None:
        """From now on a stop waits for the batch under way; until now there was nothing to wait for."""
        self._starting = False

    def listen(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._signalled)

    @contextmanager
    def listening(self) -> Iterator[_StopSignals]:
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
        if self._starting:
            raise KeyboardInterrupt("stopped before the first batch")


class BatchWatch:
    """Follows the records of a pipeline's batches and shows them: a table on a terminal, lines elsewhere."""

    def __init__(
        self,
        pipeline: Pipeline,
        console: Console,
        title: str,
        tell: Callable[[BatchRecord], object] = lambda record: None,
    ) -> None:
        self._pipeline = pipeline
        self.console = console
        """Where it is shown."""
        self._title = title
        self._tell = tell
        last = last_record(pipeline.commits)
        self._next = 0 if last is None else last + 1
        self._progress = Progress(utc_now(), pipeline.store.version(), pipeline.source.format == "kafka")
        self._live: Live | None = None
        self._shown_upto = -1
        self._shown_at = 0.0

    @contextmanager
    def shown(self, *, transient: bool = False) -> Iterator[None]:
        """Show the table as long as the context lasts, if there is a terminal."""
        if not self.console.is_terminal:
            yield
            return
        live = Live(self._table(), console=self.console, auto_refresh=False, transient=transient)
        with live as self._live:
            yield
        self._live = None

    def look(self, report: Any) -> None:
        """Take in the records that are new, and Spark's report of its last batch, and show them."""
        self._progress.report(report)
        for record in records_from(self._pipeline.commits, self._next):
            self._progress.record(record)
            self._next += 1
            self._tell(record)
            self._take(record)
        if self._live is not None:
            self._live.update(self._table(), refresh=True)
        else:
            self._show_line()

    def now(self) -> Snapshot:
        """Where the pipeline stands."""
        return self._progress.snapshot(utc_now())

    def _take(self, record: BatchRecord) -> None:
        """Called with each new record; does nothing unless a subclass does."""

    def _show_line(self) -> None:
        """Called after each look where there is no terminal."""
        now = time.monotonic()
        if self._next - 1 > self._shown_upto and now - self._shown_at >= LINE_EVERY:
            self._shown_upto, self._shown_at = self._next - 1, now
            say(self.console, self.now().line())

    def _table(self) -> Table:
        return self.now().table(self._title)


def _summary(pipeline: Pipeline, watch: BatchWatch, console: Console) -> Snapshot:
    """Tell what was done and where it is."""
    total = watch.now()
    seconds = total.uptime.total_seconds() or 1.0
    say(
        console,
        f"{total.batches:,} batches: {total.events:,} events ({total.events / seconds:,.0f}/s), "
        f"{total.matches:,} matches, {total.deliveries:,} deliveries, {total.rejected:,} rejected",
    )
    if pipeline.queries is not None:
        say(console, f"queries: {total.derived:,} items derived, {total.late:,} events late")
    places = {
        "deliveries": pipeline.sink.path,
        "archive": pipeline.archive,
        "metrics": pipeline.metrics,
        "quarantine": pipeline.quarantine if total.rejected else None,
    }
    for name, place in places.items():
        if place:
            say(console, f"{name}: {place}")
    return total


def _warn_of_tolerances(pipeline: Pipeline, console: Console) -> None:
    """Say how many subscriptions are left out because without an order no tolerance can be kept."""
    if pipeline.events.order is not None:
        return
    changes = pipeline.store.table()["change"]
    count = len(changes) - changes.null_count
    if count:
        say(console, tolerances_unkept(count))


def say(console: Console, line: str) -> None:
    """Print a line as it is, however long and whatever brackets it has."""
    console.print(line, highlight=False, markup=False, soft_wrap=True)
