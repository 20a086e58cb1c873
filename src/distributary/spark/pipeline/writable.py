"""Whether a pipeline can write where it is to write, seen before Spark is started.

Only places on this machine are looked at, and nothing is made: a directory that is not there can be made if
the nearest one above it that is there can be written. What other file systems allow, the first write tells.
The table of a sink is looked at wherever it is.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from distributary.errors import DistributaryError
from distributary.spark.pipeline.config import FILE_FORMATS, Pipeline
from distributary.spark.pipeline.tables.sink import require_named_columns


def local_path(location: str) -> Path | None:
    """The path of a location on this machine; None for one elsewhere.

    >>> local_path("/data/out"), local_path("file:///data/out"), local_path("s3://bucket/out")
    (PosixPath('/data/out'), PosixPath('/data/out'), None)
    """
    if ":" not in location.partition("/")[0]:
        return Path(location)
    scheme, _, rest = location.partition(":")
    return Path("/" + rest.lstrip("/")) if scheme == "file" else None


def require_writable(pipeline: Pipeline) -> None:
    """Raise an error that names every place of the pipeline that cannot be written, and why."""
    faults = [f"{key}: cannot write to {place}: {why}" for key, place, why in _unwritable(pipeline)]
    if pipeline.sink.is_table and not faults:
        require_named_columns(pipeline.sink)
    if faults:
        raise DistributaryError("\n  ".join([f"{pipeline.name}:", *faults] if len(faults) > 1 else faults))


def _unwritable(pipeline: Pipeline) -> Iterator[tuple[str, str, str]]:
    places = {
        "checkpoint": pipeline.checkpoint,
        "[sink] path": pipeline.sink.path if pipeline.sink.format in (*FILE_FORMATS, "delta") else None,
        "[archive] path": pipeline.archive,
        "[quarantine] path": pipeline.quarantine,
        "[metrics] path": pipeline.metrics,
    }
    for key, place in places.items():
        path = None if place is None else local_path(place)
        why = None if path is None else hindrance(path)
        if place is not None and why is not None:
            yield key, place, why


def hindrance(directory: Path) -> str | None:
    """Why a directory cannot be written or made; None if it can."""
    for path in (directory, *directory.parents):
        try:
            there = path.exists()
        except OSError as error:
            return f"{path}: {error.strerror}"
        if not there:
            continue
        if not path.is_dir():
            return f"{path} is a file"
        if not os.access(path, os.W_OK | os.X_OK):
            return f"{path} may not be written by user {os.getuid()}"
        if os.statvfs(path).f_flag & os.ST_RDONLY:
            return f"{path} is on a file system that is read only"
        return None
    return f"there is no {directory.anchor}"
