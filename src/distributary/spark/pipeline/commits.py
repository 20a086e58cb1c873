"""The record of each finished micro-batch: one small JSON file a batch, written when all else of it is.

Rules: a record appears whole or not at all (it is written under another name and renamed); it is the last
thing a batch writes, so a batch that has one is complete in every output; a batch that is done again writes
the same record but for its times. Progress, metrics and replay read them.

Outputs of files have marks of their own: `_SUCCESS` in `batch=<id>` where a batch has one directory, and
`_complete/<id>` where it is spread over many (see `sink`). What has no mark is not read.

Paths are those Spark gets, reached through Arrow's file systems: local, `hdfs://`, `s3://` and the like.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import PurePosixPath

from pyarrow import fs

from distributary.errors import DistributaryError

SUCCESS = "_SUCCESS"
COMPLETE = "_complete"


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """What a micro-batch did."""

    batch: int
    version: int | None
    """The subscriptions it used; None for an empty batch."""
    events: int
    """The well-formed ones; what else came in is `rejected`."""
    matches: int
    deliveries: int
    rejected: int
    started: datetime
    finished: datetime
    latest: datetime | None = None
    """The greatest time in the order column, if that holds times."""
    derived: int = 0
    """The items that queries made of the events, in all their streams."""
    published: int = 0
    """Those of them that are in published streams, and so matched and archived; 0 in records of a release
    that did not archive them."""
    late: int = 0
    """The events that came later than their source allows; they are among those rejected."""

    @property
    def seconds(self) -> float:
        return (self.finished - self.started).total_seconds()

    def to_json(self) -> str:
        record = asdict(self)
        for name in ("started", "finished", "latest"):
            moment = record[name]
            record[name] = None if moment is None else moment.isoformat()
        return json.dumps(record)

    @classmethod
    def from_json(cls, text: str | bytes) -> BatchRecord:
        record = json.loads(text)
        for name in ("started", "finished", "latest"):
            moment = record[name]
            record[name] = None if moment is None else datetime.fromisoformat(moment)
        return cls(**record)


def write_record(commits: str, record: BatchRecord) -> None:
    """Write, or write again, the record of a batch."""
    write_whole(f"{commits}/{record.batch}.json", record.to_json())


def read_record(commits: str, batch: int) -> BatchRecord:
    """The record of a finished batch."""
    files, path = file_system(commits)
    with files.open_input_stream(f"{path}/{batch}.json") as stream:
        return BatchRecord.from_json(stream.read())


def read_records(commits: str) -> Iterator[BatchRecord]:
    """The records of all finished batches, in order."""
    for batch in sorted(_numbers(commits, ".json")):
        yield read_record(commits, batch)


def last_record(commits: str) -> int | None:
    """The id of the last finished batch."""
    return max(_numbers(commits, ".json"), default=None)


def complete_batches(path: str) -> list[int]:
    """The ids of the batches that are complete in an output of files."""
    files, root = file_system(path)
    names = (PurePosixPath(one.path).name for one in _listed(files, root))
    batches = [name.removeprefix("batch=") for name in names if name.startswith("batch=")]
    marks = files.get_file_info([f"{root}/batch={batch}/{SUCCESS}" for batch in batches])
    found = {
        int(batch)
        for batch, mark in zip(batches, marks, strict=True)
        if batch.isdigit() and mark.type == fs.FileType.File
    }
    return sorted(found | set(_numbers(f"{path}/{COMPLETE}", "")))


def directories(location: str) -> list[str]:
    """The directories in a directory."""
    files, path = file_system(location)
    return [one.path for one in _listed(files, path) if one.type == fs.FileType.Directory]


def mark_complete(path: str, batch: int) -> None:
    """Note that a batch which is spread over many directories is complete."""
    write_whole(f"{path}/{COMPLETE}/{batch}", "")


def write_whole(location: str, text: str) -> None:
    """Write a small file so that it is there whole or not at all."""
    files, path = file_system(location)
    target = PurePosixPath(path)
    partial = str(target.with_name(f".{target.name}.partial"))
    files.create_dir(str(target.parent), recursive=True)
    with files.open_output_stream(partial) as stream:
        stream.write(text.encode())
    files.move(partial, path)


def read_text(location: str) -> str:
    """What `write_whole` wrote."""
    files, path = file_system(location)
    with files.open_input_stream(path) as stream:
        return bytes(stream.read()).decode()


def query_id(checkpoint: str) -> str:
    """The id of the query that a checkpoint belongs to, as Spark has noted it there."""
    files, path = file_system(checkpoint)
    with files.open_input_stream(f"{path}/metadata") as stream:
        return str(json.loads(stream.read())["id"])


@lru_cache(maxsize=64)
def watermark_of(checkpoint: str, batch: int) -> int:
    """The event time in milliseconds that a micro-batch takes as reached; Spark notes it before it starts."""
    files, path = file_system(checkpoint)
    with files.open_input_stream(f"{path}/offsets/{batch}") as stream:
        return int(json.loads(stream.read().splitlines()[1])["batchWatermarkMs"])


def exists(location: str) -> bool:
    files, path = file_system(location)
    return bool(files.get_file_info(path).type != fs.FileType.NotFound)


def file_system(location: str) -> tuple[fs.FileSystem, str]:
    """The file system a location is on, and its path there."""
    if ":" not in location.partition("/")[0]:
        return fs.LocalFileSystem(), location
    scheme, _, rest = location.partition(":")
    if scheme == "file":
        return fs.LocalFileSystem(), "/" + rest.lstrip("/")
    # Hadoop's names for the connectors of S3 differ from everybody else's.
    uri = f"s3:{rest}" if scheme in ("s3a", "s3n") else location
    try:
        found, path = fs.FileSystem.from_uri(uri)
    except (OSError, ValueError, ImportError) as error:
        raise DistributaryError(f"cannot reach {location}: {error}") from None
    return found, path


def _numbers(directory: str, ending: str) -> Iterator[int]:
    files, path = file_system(directory)
    for one in _listed(files, path):
        name = PurePosixPath(one.path).name
        if name.endswith(ending) and name.removesuffix(ending).isdigit():
            yield int(name.removesuffix(ending))


def _listed(files: fs.FileSystem, path: str) -> list[fs.FileInfo]:
    return list(files.get_file_info(fs.FileSelector(path, allow_not_found=True)))
