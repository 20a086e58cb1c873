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
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery
from rich.console import Console

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
from distributary.spark.pipeline.commits import BatchRecord
from distributary.spark.pipeline.config import Pipeline, load_pipeline
from distributary.spark.pipeline.failures import failure
from distributary.spark.pipeline.run import BatchWatch, EngineError, say, session_for
from distributary.spark.pipeline.start import start
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

DIRECTORIES = ("checkpoint", "events", "subscriptions", "deliveries", "archive", "quarantine", "metrics")
FILES = ("refused.jsonl", "pipeline.log", "pipeline.toml")
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
        watch = _DemoWatch(pipeline, query, console, out / "pipeline.log")
        with watch.shown(transient=True):
            for number, each in enumerate(script.rounds):
                _play(number, each, out / "events", store, watch)
        console.print("all of it is delivered: stopping the pipeline", highlight=False)
    outcome = DemoOutcome(out, script, watch.records, refused, time.perf_counter() - began)
    report(console, outcome)
    return outcome


def clear(out: Path) -> None:
    """Remove what an earlier demonstration left, and nothing of anybody else's."""
    out.mkdir(parents=True, exist_ok=True)
    found = [out / name for name in (*DIRECTORIES, *FILES) if (out / name).exists()]
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
        version = store.commit(script.subscriptions)
        for record in BROKEN_SUBSCRIPTIONS:
            try:
                store.commit([Subscription.from_record(record)])
            except InputError as error:
                refused.add(rejection(f"subscription {record['id']}", error, json.dumps(record)))
    say(
        console,
        f"{len(script.subscriptions):,} subscriptions registered as version {version} of the store, "
        f"{refused.count} malformed ones refused",
    )
    return store, refused


@contextmanager
def _running(pipeline: Pipeline, log: Path, master: str, console: Console) -> Iterator[StreamingQuery]:
    """The pipeline as a running query, in a session of its own that says nothing on the screen."""
    with compiling(log) as compilers:
        say(console, f"starting Spark; what it says goes to {log}")
        with session_for(pipeline, log, master=master) as spark:
            with _telling("compiling the kernels (up to a minute, once on a machine)", console):
                for process in compilers:
                    # One that fails leaves the work to the workers.
                    process.wait()
            query = start(spark, pipeline)
            say(console, "the pipeline runs; its first batch also starts the Python workers")
            try:
                yield query
            finally:
                with suppress(*EngineError):
                    query.stop()


@contextmanager
def _telling(what: str, console: Console) -> Iterator[None]:
    """Say what takes a while: beside a moving sign on a terminal, in a line elsewhere."""
    if console.is_terminal:
        with console.status(what):
            yield
    else:
        say(console, what)
        yield


class _DemoWatch(BatchWatch):
    """Follows the batches of the demonstration, tells of each, and waits for what was published."""

    def __init__(self, pipeline: Pipeline, query: StreamingQuery, console: Console, log: Path) -> None:
        super().__init__(pipeline, console, "the pipeline, live")
        self.records: list[BatchRecord] = []
        self.expected = 0
        """Lines published so far."""
        self.announced: tuple[int, str] | None = None
        """The version of which the first batch is to be told, and what it brought."""
        self._query = query
        self._log = log

    def wait(self) -> None:
        """Until all that was published has been taken in."""
        while sum(one.events + one.rejected for one in self.records) < self.expected:
            active = self._query.isActive
            self.look(None)
            if not active:
                raise failure(self._query.exception() or DistributaryError("it has ended"), self._log)
            time.sleep(POLL)

    def _take(self, record: BatchRecord) -> None:
        self.records.append(record)
        if self.announced is not None and record.version is not None and record.version >= self.announced[0]:
            say(self.console, f"{self.announced[1]}, in use from batch {record.batch} on")
            self.announced = None
        if self._live is None and record.events:
            say(
                self.console,
                f"batch {record.batch}: {record.events:,} events, {record.matches:,} matches, "
                f"{record.deliveries:,} deliveries, {record.rejected:,} set aside, {record.seconds:.1f} s",
            )

    def _show_line(self) -> None:
        """Nothing: every batch has been told of."""


def _play(number: int, each: DemoRound, source: Path, store: SubscriptionStore, watch: _DemoWatch) -> None:
    """One round: people come and go, events are published and all of them delivered."""
    if each.added or each.removed:
        version = store.commit(each.added, remove=each.removed)
        names = f" ({each.names})" if each.names else ""
        told = f"version {version}: {len(each.added)} added, {len(each.removed)} removed{names}"
        watch.announced = (version, told)
    for position, file in enumerate(each.files):
        last = position == len(each.files) - 1
        name = f"{number}-{position}.json"
        watch.expected += publish(source / name, file, each.broken and last)
    watch.wait()
