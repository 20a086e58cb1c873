"""One point to run, and its outcome: rows, or an error. Both are sent between processes."""

from __future__ import annotations

import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from distributary_lab.experiment import Experiment, Point, Row, Run, point_random
from distributary_lab.kept import keep, place, recall, sources


@dataclass(frozen=True)
class PointTask:
    """One point of one experiment, with everything that another process needs to run it."""

    experiment: str
    index: int
    point: Point
    run: Run
    seed: int
    kept: Path | None = None
    """Where what it gives is kept until the whole experiment is done; None: nowhere."""
    sources: str = ""
    """What its rows are made by, as `kept.sources` tells."""


@dataclass(frozen=True)
class PointFailure:
    """A point that could not be run, and why."""

    experiment: str
    index: int
    point: Point
    reason: str
    trace: str = ""


@dataclass(frozen=True)
class PointOutcome:
    """The rows of a point, or why there are none."""

    experiment: str
    index: int
    rows: tuple[Row, ...] = ()
    seconds: float = 0.0
    failure: PointFailure | None = None


def tasks_of(
    experiment: Experiment, *, quick: bool, seed: int, keep_in: Path | None = None
) -> list[PointTask]:
    """A task for each point of the grid; those that have run are kept in a directory of results, if told."""
    made_by = sources() if keep_in else ""
    return [
        PointTask(
            experiment.name,
            index,
            dict(point),
            experiment.run,
            seed,
            place(keep_in.absolute(), experiment.name, index) if keep_in else None,
            made_by,
        )
        for index, point in enumerate(experiment.points(quick))
    ]


def kept_outcome(task: PointTask) -> PointOutcome | None:
    """The outcome of a point that an earlier run finished and kept; None where there is none that fits."""
    found = recall(task.kept, task.point, task.seed, task.sources) if task.kept else None
    return None if found is None else PointOutcome(task.experiment, task.index, *found)


def perform(task: PointTask) -> PointOutcome:
    """Run a point. An exception becomes the failure of its outcome, so that other points still run."""
    start = time.perf_counter()
    try:
        measured = task.run(task.point, point_random(task.seed, task.experiment, task.index))
        rows = tuple(_plain({**task.point, **row}) for row in measured)
    except Exception as error:
        return failed(task, f"{type(error).__name__}: {error}", traceback.format_exc())
    seconds = time.perf_counter() - start
    if task.kept:
        keep(task.kept, task.point, task.seed, task.sources, rows, seconds)
    return PointOutcome(task.experiment, task.index, rows, seconds)


def failed(task: PointTask, reason: str, trace: str = "") -> PointOutcome:
    """The outcome of a point that could not be run."""
    failure = PointFailure(task.experiment, task.index, task.point, reason, trace)
    return PointOutcome(task.experiment, task.index, failure=failure)


def _plain(row: Row) -> Row:
    """Numbers of NumPy become Python's; anything but a plain value is refused."""
    plain: Row = {}
    for name, value in row.items():
        found = value.item() if hasattr(value, "item") else value
        if not isinstance(found, (bool, int, float, str)):
            raise TypeError(f"{name!r} is to be a number, a string or a boolean, not {found!r}")
        plain[name] = found
    return plain
