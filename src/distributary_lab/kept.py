"""Points that have finished are kept on disk, so that a run that was stopped goes on where it was.

    build/lab/points/<experiment>/<number>.json    the rows of a point, what it took, and what made them

- Whoever runs a point writes its file, whole or not at all, as soon as the point is done: a killed run
  loses only the points that were under way. Points that failed are not kept: they run again.
- A kept point is used again only for the same experiment, number, values, seed, and sources of both packages:
  rows of other code are never mixed into a result. Files that do not fit, or cannot be read, count as absent.
- An experiment's points are removed once its result is written.
"""

from __future__ import annotations

import json
import os
import shutil
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from distributary_lab.experiment import Point, Row

DIRECTORY = "points"
PACKAGES = ("distributary", "distributary_lab")


@cache
def sources() -> str:
    """A digest of the Python files of both packages: it changes with anything that could change a row."""
    digest = sha256()
    for package in PACKAGES:
        root = Path(str(files(package)))
        for file in sorted(root.rglob("*.py")):
            digest.update(f"{package}/{file.relative_to(root)}\0".encode())
            digest.update(sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def place(out: Path, experiment: str, index: int) -> Path:
    """The file of a point."""
    return out / DIRECTORY / experiment / f"{index}.json"


def keep(path: Path, point: Point, seed: int, made_by: str, rows: tuple[Row, ...], seconds: float) -> None:
    """Write what a point gave; a reader sees all of it or no file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"point": dict(point), "seed": seed, "sources": made_by, "seconds": seconds, "rows": rows}
    written = path.with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps(record), encoding="utf-8")
    written.replace(path)


def recall(path: Path, point: Point, seed: int, made_by: str) -> tuple[tuple[Row, ...], float] | None:
    """The rows and seconds of a kept point; None where there is none that fits."""
    try:
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        if (record["point"], record["seed"], record["sources"]) != (dict(point), seed, made_by):
            return None
        return tuple(record["rows"]), float(record["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def forget(out: Path, experiment: str) -> None:
    """Remove the kept points of an experiment."""
    shutil.rmtree(out / DIRECTORY / experiment, ignore_errors=True)
