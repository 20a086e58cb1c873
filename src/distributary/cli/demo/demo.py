"""The demonstration: quotes, sensor readings and RSS documents through a real pipeline, and who gets what.

It does what a user would do: fills a subscription store, writes a `pipeline.toml`, runs it on all cores of
this machine, publishes events as files, and adds and removes subscriptions meanwhile. All of it stays where
`out` says, so that one can look around and go on. What happens is in `script`, what is told at the end
in `report`.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console
from rich.live import Live

from distributary.cli.demo.kernels import compiling
from distributary.cli.demo.report import DemoOutcome, report
from distributary.cli.demo.script import (
    BROKEN_SUBSCRIPTIONS,
    SCHEMA,
    DemoRound,
    DemoScript,
    make_script,
    publish,
)
from distributary.errors import DistributaryError, InputError
from distributary.model import Subscription
from distributary.quarantine import Quarantine, rejection
from distributary.spark.pipeline.commits import BatchRecord, records_from
from distributary.spark.pipeline.config import Pipeline, load_pipeline
from distributary.spark.pipeline.progress import Progress, utc_now
from distributary.spark.pipeline.run import EngineError, failure
from distributary.spark.pipeline.start import start
from distributary.spark.session import logging_to, open_session
from distributary.store import SubscriptionStore, open_store

POLL = 0.1
"""Seconds between looks at the pipeline."""

MARK = "# Made by `distributary demo`"
"""How the pipeline's file starts; a directory with such a file is ours to clear."""

PIPELINE = f'''\
{MARK}. It goes on where it stopped with `distributary run` and the name of this file.
name = "demo"
checkpoint = "checkpoint"

[source]
format = "json"
path = "events"
options = {{ maxFilesPerTrigger = 1 }}
schema = """
{SCHEMA}"""

[events]
order = "at"

[subscriptions]
store = "subscriptions"

[sink]
path = "deliveries"
columns = ["topic", "at", "price", "value"]

[archive]
path = "archive"

[quarantine]
path = "quarantine"

[metrics]
path = "metrics"

[trigger]
every = "100 milliseconds"
'''
QUICK_START = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""For a run of a minute the JVM had better not spend time on its best machine code. Not in the file."""

MADE = (
    "checkpoint",
    "events",
    "subscriptions",
    "deliveries",
    "archive",
    "quarantine",
    "metrics",
    "refused.jsonl",
    "pipeline.log",
    "pipeline.toml",
)
"""What is made below `out`."""


def run_demo(
    console: Console,
    out: Path,
    subscription_count: int,
    event_count: int,
    seed: int,
    *,
    master: str = "local[*]",
) -> DemoOutcome:
    """Make the data, run the pipeline, show what it did, and leave everything below `out`."""
    began = time.perf_counter()
    console.print("[bold]Distributary[/bold]: every event, once, to everyone who asked for it.\n")
    clear(out)
    script = make_script(subscription_count, event_count, seed)
    store, refused = _registered(out, script, console)
    (out / "events").mkdir()
    file = out / "pipeline.toml"
    file.write_text(PIPELINE, encoding="utf-8")
    pipeline = replace(load_pipeline(file), spark=QUICK_START)
    with _running(pipeline, out / "pipeline.log", master, console) as query:
        followed = _Followed(pipeline, query, console, out / "pipeline.log")
        with followed.shown():
            for number, each in enumerate(script.rounds):
                _play(number, each, out / "events", store, followed)
        console.print("all of it is delivered: stopping the pipeline", highlight=False)
    outcome = DemoOutcome(out, script, followed.records, refused, time.perf_counter() - began)
    report(console, outcome)
    return outcome


def clear(out: Path) -> None:
    """Remove what an earlier demonstration left, and nothing of anybody else's."""
    out.mkdir(parents=True, exist_ok=True)
    found = [out / name for name in MADE if (out / name).exists()]
    file = out / "pipeline.toml"
    ours = file.is_file() and file.read_text(encoding="utf-8", errors="replace").startswith(MARK)
    if found and not ours:
        raise DistributaryError(
            f"{found[0]} is in the way and not from an earlier demo: choose another directory with --out"
        )
    # The file with the mark goes last, so that an interrupted clearing can be taken up again.
    for path in found:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()
    file.write_text(MARK + "\n", encoding="utf-8")


def _registered(out: Path, script: DemoScript, console: Console) -> tuple[SubscriptionStore, Quarantine]:
    """The store with the subscriptions of the start; what is malformed is refused and noted."""
    store = open_store(out / "subscriptions")
    with Quarantine(out / "refused.jsonl") as refused:

        def refuse(position: int, subscription: Subscription, error: InputError) -> None:
            record = json.dumps(subscription.to_record())
            refused.add(rejection(f"subscription {subscription.id}", error, record))

        version = store.commit([*script.subscriptions, *BROKEN_SUBSCRIPTIONS], refused=refuse)
    console.print(
        f"{len(script.subscriptions):,} subscriptions registered as version {version} of the store, "
        f"{refused.count} malformed ones refused",
        highlight=False,
        soft_wrap=True,
    )
    return store, refused


@contextmanager
def _running(pipeline: Pipeline, log: Path, master: str, console: Console) -> Iterator[StreamingQuery]:
    """The pipeline as a running query, in a session of its own that says nothing on the screen."""
    with logging_to(log), compiling(log) as compilers:
        console.print(f"starting Spark; what it says goes to {log}", highlight=False, soft_wrap=True)
        try:
            spark = open_session(pipeline.name, pipeline.spark, log, master=master)
        except EngineError as error:
            raise failure(error, log) from None
        try:
            with _telling("compiling the kernels (up to a minute, once on a machine)", console):
                for process in compilers:
                    # One that fails leaves the work to the workers.
                    process.wait()
            query = _started(lambda: start(spark, pipeline), log)
            console.print(
                "the pipeline runs; its first batch also starts the Python workers", highlight=False
            )
            try:
                yield query
            finally:
                with suppress(*EngineError):
                    query.stop()
        finally:
            with suppress(*EngineError):
                spark.stop()


@contextmanager
def _telling(what: str, console: Console) -> Iterator[None]:
    """Say what takes so long: with a sign of life on a terminal, in a line elsewhere."""
    if console.is_terminal:
        with console.status(what):
            yield
    else:
        console.print(what, highlight=False)
        yield


def _started(begin: Callable[[], StreamingQuery], log: Path) -> StreamingQuery:
    try:
        return begin()
    except EngineError as error:
        raise failure(error, log) from None


@dataclass
class _Followed:
    """Follows the records of the batches, shows them, and waits."""

    pipeline: Pipeline
    query: StreamingQuery
    console: Console
    log: Path
    records: list[BatchRecord] = field(default_factory=list)
    expected: int = 0
    """Lines published so far."""
    announced: tuple[int, str] | None = None
    """The version of which the first batch is to be told, and what it brought."""

    def __post_init__(self) -> None:
        self._progress = Progress(utc_now())
        self._live: Live | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        if not self.console.is_terminal:
            yield
            return
        with Live(self._table(), console=self.console, auto_refresh=False, transient=True) as self._live:
            yield
        self._live = None

    def wait(self) -> None:
        """Until all that was published has been taken in."""
        while sum(one.events + one.rejected for one in self.records) < self.expected:
            active = self.query.isActive
            self.look()
            if not active:
                raise failure(self.query.exception() or DistributaryError("it has ended"), self.log)
            time.sleep(POLL)

    def look(self) -> None:
        for record in records_from(self.pipeline.commits, len(self.records)):
            self.records.append(record)
            self._progress.record(record)
            self._tell(record)
        if self._live is not None:
            self._live.update(self._table(), refresh=True)

    def say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)

    def _tell(self, record: BatchRecord) -> None:
        if self.announced is not None and record.version is not None and record.version >= self.announced[0]:
            self.say(f"{self.announced[1]}, in use from batch {record.batch} on")
            self.announced = None
        if self._live is None and record.events:
            self.say(
                f"batch {record.batch}: {record.events:,} events, {record.matches:,} matches, "
                f"{record.deliveries:,} deliveries, {record.rejected:,} set aside, {record.seconds:.1f} s"
            )

    def _table(self) -> Any:
        return self._progress.snapshot(utc_now()).table("the pipeline, live")


def _play(number: int, each: DemoRound, source: Path, store: SubscriptionStore, followed: _Followed) -> None:
    """One round: people come and go, events are published and all of them delivered."""
    if each.added or each.removed:
        version = store.commit(each.added, remove=each.removed)
        names = f" ({each.names})" if each.names else ""
        told = f"version {version}: {len(each.added)} added, {len(each.removed)} removed{names}"
        followed.announced = (version, told)
    for position, file in enumerate(each.files):
        last = position == len(each.files) - 1
        name = f"{number}-{position}.json"
        followed.expected += publish(source / name, file, each.broken and last)
    followed.wait()
