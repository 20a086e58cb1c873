"""Where points run: one Spark job, a pool of processes, or this process.

- All engines give the same rows: what a point does depends on its values and its seed alone.
- Points start from the last to the first: grids grow towards their end, so the long points start early.
- When a process of the pool dies, the points that the pool lost run again, each in a process of its own; one
  whose process dies again is a failure. When a Spark job fails as a whole (each point was tried several times
  by then), its points run in processes instead, and the user is told.
- An interrupt ends the processes of the pool with the points that they run.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from functools import partial
from multiprocessing import active_children, get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from distributary.cli.engine import require_engine
from distributary.errors import DistributaryError
from distributary_lab.tasks import PointOutcome, PointTask, failed, perform

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AUTO, SPARK, PROCESSES, HERE = "auto", "spark", "processes", "here"

POLL = 0.2
"""Seconds between looks at a Spark job."""

GROUP = "distributary lab"
COLUMNS = "done binary"

Finished = Callable[[int], None]
"""Told how many points have finished so far."""


def choose(engine: str, count: int) -> str:
    """The engine for that many points: `auto` is Spark where it is installed and worth its start."""
    if engine != AUTO:
        return engine
    if count < 2:
        return PROCESSES
    try:
        require_engine()
    except DistributaryError:
        return PROCESSES
    return SPARK


def run(
    engine: str,
    tasks: Sequence[PointTask],
    jobs: int | None,
    log: Path,
    finished: Finished,
    say: Callable[[str], None],
) -> list[PointOutcome]:
    """Run points on one of the engines, `jobs` at a time (one a core when not told).

    Spark writes to `log`; `say` hears when its job failed and the points run in processes instead.
    """
    if not tasks:
        return []
    if engine == SPARK:
        return run_on_spark(tasks, jobs, log, finished, say)
    return run_here(tasks, finished) if engine == HERE else run_in_processes(tasks, jobs, finished)


def run_here(tasks: Sequence[PointTask], finished: Finished) -> list[PointOutcome]:
    """One after the other, in this process."""
    outcomes = []
    for task in tasks:
        outcomes.append(perform(task))
        finished(len(outcomes))
    return outcomes


def run_in_processes(tasks: Sequence[PointTask], jobs: int | None, finished: Finished) -> list[PointOutcome]:
    """In a pool of processes, as many as there are cores unless told."""
    outcomes: list[PointOutcome] = []
    lost: list[PointTask] = []
    with _pool(min(jobs or os.cpu_count() or 1, len(tasks))) as pool:
        running = {pool.submit(perform, task): task for task in reversed(tasks)}
        for future in as_completed(running):
            try:
                outcomes.append(future.result())
                finished(len(outcomes))
            except BrokenProcessPool:
                lost.append(running[future])
    for task in sorted(lost, key=lambda task: task.index):
        outcomes.append(_run_apart(task))
        finished(len(outcomes))
    return outcomes


def run_on_spark(
    tasks: Sequence[PointTask], jobs: int | None, log: Path, finished: Finished, say: Callable[[str], None]
) -> list[PointOutcome]:
    """As one Spark job with a task for each point."""
    from distributary.spark.pipeline.failures import reason_of
    from distributary.spark.pipeline.run import EngineError
    from distributary.spark.session import logging_to, open_session

    log.parent.mkdir(parents=True, exist_ok=True)
    try:
        with logging_to(log):
            spark = open_session("lab", {}, log, master=None if jobs is None else f"local[{jobs},4]")
            try:
                return run_in_session(spark, tasks, finished)
            finally:
                with suppress(*EngineError):
                    spark.stop()
    except EngineError as error:
        say(f"the Spark job failed ({reason_of(str(error))}; see {log}); running its points in processes")
        return run_in_processes(tasks, jobs, finished)


def run_in_session(spark: SparkSession, tasks: Sequence[PointTask], finished: Finished) -> list[PointOutcome]:
    """The points as one job of a session that is there already."""
    late_first = list(reversed(tasks))
    points = spark.range(0, len(tasks), 1, len(tasks))
    outcomes = points.mapInArrow(partial(_run_batches, late_first), COLUMNS)
    collected: list[Any] = []
    problems: list[BaseException] = []

    def collect() -> None:
        try:
            with suppress(AttributeError):  # Spark Connect has no context, and no way to count its tasks
                spark.sparkContext.setJobGroup(GROUP, "points of experiments", interruptOnCancel=True)
            collected.extend(outcomes.collect())
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    while thread.is_alive():
        thread.join(POLL)
        finished(_tasks_completed(spark))
    if problems:
        raise problems[0]
    finished(len(collected))
    return [pickle.loads(row["done"]) for row in collected]


def _run_batches(tasks: Sequence[PointTask], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What Spark's Python workers do with the numbers of tasks."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield pa.record_batch({"done": [pickle.dumps(perform(tasks[number]))]})


def _tasks_completed(spark: SparkSession) -> int:
    try:
        tracker = spark.sparkContext.statusTracker()
    except AttributeError:  # Spark Connect
        return 0
    stages = {
        stage
        for job in tracker.getJobIdsForGroup(GROUP)
        if (found := tracker.getJobInfo(job)) is not None
        for stage in found.stageIds
    }
    known = (tracker.getStageInfo(stage) for stage in stages)
    return sum(stage.numCompletedTasks for stage in known if stage is not None)


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the context: at once when it is left by an error or an interrupt."""
    others = active_children()
    # Spawned, not forked: this process may have threads, and a JVM's sockets.
    with ProcessPoolExecutor(workers, get_context("spawn"), _leave_interrupts) as pool:
        try:
            yield pool
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in [each for each in active_children() if each not in others]:
                process.terminate()
                process.join()
            raise


def _leave_interrupts() -> None:
    """Ctrl-C reaches all processes of a terminal: the one that started the pool ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run_apart(task: PointTask) -> PointOutcome:
    with _pool(1) as pool:
        try:
            return pool.submit(perform, task).result()
        except BrokenProcessPool:
            return failed(task, "the process that ran it died, perhaps for want of memory")
