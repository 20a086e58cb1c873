"""The results of a run: a directory for each experiment, with its rows in Parquet and a JSON about the run.

    build/lab/<experiment>/rows.parquet    a row of the experiment each; `point` is the number of its point
    build/lab/<experiment>/run.json        seed, grid, version, commit, machine, duration, failed points

The JSON is written last: a directory without it is a run that did not finish, and counts as none.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from distributary import __version__
from distributary.errors import DistributaryError
from distributary_lab.experiment import Experiment, Point, Row, Value
from distributary_lab.kept import PACKAGES
from distributary_lab.tasks import PointFailure, PointOutcome

ROWS, ABOUT = "rows.parquet", "run.json"
POINT = "point"


@dataclass(frozen=True)
class Result:
    """The rows of an experiment, and how, where and when they were made."""

    experiment: str
    seed: int
    quick: bool
    points: tuple[Point, ...]
    rows: tuple[Row, ...]
    failures: tuple[PointFailure, ...]
    seconds: float
    """What the points took, added up."""
    engine: str
    version: str
    python: str
    machine: str
    finished: str
    settings: Mapping[str, Value] = field(default_factory=dict)
    """What was set for all points."""
    commit: str = ""
    """Of the sources, with a + where files differ from it; empty where it is not known."""

    def command(self, point: int | None = None, name: str | None = None) -> str:
        """The command that runs it again, or one of its points; `name` may be a claim's instead."""
        return run_command(
            name or self.experiment, seed=self.seed, quick=self.quick, point=point, settings=self.settings
        )


def run_command(
    name: str,
    *,
    seed: int,
    quick: bool,
    point: int | None = None,
    settings: Mapping[str, Value] | None = None,
) -> str:
    """The command that runs something again.

    >>> run_command("topic-tree-size", seed=1, quick=True, point=3)
    'distributary lab run topic-tree-size --quick --seed 1 --point 3'
    """
    chosen = "" if point is None else f" --point {point}"
    given = "".join(f" --set {shlex.quote(f'{each}={value}')}" for each, value in (settings or {}).items())
    return f"distributary lab run {name}{' --quick' if quick else ''} --seed {seed}{given}{chosen}"


def result_of(
    experiment: Experiment, outcomes: Sequence[PointOutcome], *, seed: int, quick: bool, engine: str
) -> Result:
    """The result of an experiment, from the outcomes of its points."""
    return Result(
        experiment=experiment.name,
        seed=seed,
        quick=quick,
        points=tuple(experiment.points(quick)),
        rows=tuple({POINT: done.index, **row} for done in outcomes for row in done.rows),
        failures=tuple(done.failure for done in outcomes if done.failure is not None),
        seconds=sum(done.seconds for done in outcomes),
        engine=engine,
        version=__version__,
        python=platform.python_version(),
        machine=f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        finished=datetime.now(UTC).isoformat(timespec="seconds"),
        settings=dict(experiment.settings),
        commit=commit_of(Path(__file__).parents[1]),
    )


@cache
def commit_of(sources: Path) -> str:
    """The last commit that changed the packages in a directory, with a + where they were changed since.

    Empty where they are not part of a Git repository, as in an installed wheel.
    """
    git = ("git", "-C", str(sources))
    last = _printed(*git, "log", "-1", "--format=%h", "--", *PACKAGES)
    changed = last and _printed(*git, "status", "--porcelain", "--untracked-files=no", "--", *PACKAGES)
    return f"{last}{'+' if changed else ''}"


def _printed(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def save(result: Result, out: Path) -> Path:
    """Write a result, replacing an earlier one of this experiment; returns its directory."""
    directory = out / result.experiment
    directory.mkdir(parents=True, exist_ok=True)
    (directory / ABOUT).unlink(missing_ok=True)
    pq.write_table(_table(result.rows), directory / ROWS)
    about = {**asdict(result), "command": result.command()}
    del about["rows"]
    (directory / ABOUT).write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
    return directory


def load(name: str, out: Path) -> Result | None:
    """The result of an experiment in a directory of results; None when it has not been run."""
    directory = out / name
    if not (directory / ABOUT).exists():
        return None
    try:
        about: dict[str, Any] = json.loads((directory / ABOUT).read_text(encoding="utf-8"))
        rows = pq.read_table(directory / ROWS).to_pylist()
        del about["command"]
        about["points"] = tuple(about["points"])
        about["failures"] = tuple(PointFailure(**failure) for failure in about["failures"])
        return Result(**about, rows=tuple(_without_gaps(row) for row in rows))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DistributaryError(
            f"{directory} holds no result that can be read ({error}); remove it and run {name} again"
        ) from error


def _table(rows: Sequence[Row]) -> pa.Table:
    """Columns are all the names that any row has, in order of first appearance."""
    names = list(dict.fromkeys(name for row in rows for name in row)) or [POINT]
    return pa.table({name: _column(name, [row.get(name) for row in rows]) for name in names})


def _column(name: str, values: list[Any]) -> pa.Array:
    if any(isinstance(value, float) for value in values):
        values = [float(value) if isinstance(value, int) else value for value in values]
    try:
        return pa.array(values)
    except pa.ArrowInvalid as error:
        raise DistributaryError(f"column {name!r} holds values of different kinds: {error}") from error


def _without_gaps(row: dict[str, Any]) -> Row:
    return {name: value for name, value in row.items() if value is not None}
