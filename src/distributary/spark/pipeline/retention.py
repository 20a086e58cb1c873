"""What a pipeline has written and nobody needs any more: old batches removed, subscribers forgotten.

Rules:

- A batch is as old as its record says it finished. Batches without a record are never touched, nor is the
  record: replay, metrics and the planner go on counting from batch 0.
- Batches that were put together (see `compaction`) are removed when all of them are old.
- The mark that makes a batch count goes first and its files after it, so that readers that look at marks
  (`read_deliveries` and so on) see all of a batch or nothing. Whoever reads such a batch meanwhile fails.
- What retention removed is noted in the output, so that a replay that needs it says so.
- What only the means of a sink's own can do (old rows of a table, messages of Kafka) is refused, and nothing
  else is done then.
- Purging a subscriber deletes their rows of a table by its own library. Files it writes anew without their
  rows, and puts each in the place of the old one in one step. What was done is noted in the audit log,
  without the name.

A pipeline may run while old batches are removed. It must be stopped for a purge.
"""

from __future__ import annotations

import getpass
import json
import re
import socket
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from distributary.errors import DistributaryError
from distributary.quarantine import Rejection
from distributary.spark import storage
from distributary.spark.pipeline.commits import read_records
from distributary.spark.pipeline.compacted import compacted_batches, remove_compacted
from distributary.spark.pipeline.config import FILE_FORMATS, Pipeline, derived_in
from distributary.spark.pipeline.directories import own_directory
from distributary.spark.pipeline.followed.follow import REJECTED_ROWS
from distributary.spark.pipeline.followed.readers import reader_of
from distributary.spark.pipeline.outputs import MANIFEST
from distributary.spark.pipeline.tables.sink import delivery_table
from distributary.store.purge import purge_subscriber

OUTPUTS = ("deliveries", "archive", "quarantine", "metrics")
"""What retention can be different for."""
METRICS = ("topics", "subscriptions", "operators")
REMOVED = "_removed.json"
"""The file in an output that tells up to which batch retention has removed what was there."""


def places_of(pipeline: Pipeline) -> dict[str, list[str]]:
    """Where the batches of each output are; an output that there is not has no place."""
    sink = pipeline.sink
    places = {
        "deliveries": [sink.path] if sink.path and sink.format in FILE_FORMATS else [],
        "archive": [pipeline.archive, derived_in(pipeline.archive)] if pipeline.archive else [],
        "quarantine": [pipeline.quarantine],
        "metrics": [f"{pipeline.metrics}/{table}" for table in METRICS] if pipeline.metrics else [],
    }
    return {name: places[name] for name in OUTPUTS}


def remove_old(pipeline: Pipeline, ages: Mapping[str, timedelta], now: datetime) -> dict[str, int]:
    """Remove the batches that finished longer ago than the age of their output; gives how many of each."""
    unknown = sorted(set(ages) - set(OUTPUTS))
    if unknown:
        raise DistributaryError(f"there is no output {unknown[0]!r}; known are {', '.join(OUTPUTS)}")
    if "deliveries" in ages and not places_of(pipeline)["deliveries"]:
        raise DistributaryError(
            f'[sink] format = "{pipeline.sink.format}": its deliveries are no files of the pipeline, so '
            "their batches are removed by means of the sink's own, not here"
        )
    finished = {record.batch: record.finished for record in read_records(pipeline.commits)}
    removed = {}
    for name, age in ages.items():
        old = {batch for batch, at in finished.items() if at < now - age}
        gone: set[int] = set()
        for place in places_of(pipeline)[name]:
            gone |= _remove_batches(place, old, now)
        removed[name] = len(gone)
    note(pipeline, "retention", {f"batches of {name}": count for name, count in removed.items()})
    return removed


def _remove_batches(place: str, old: set[int], now: datetime) -> set[int]:
    found: dict[int, list[str]] = {}
    for directory in _batch_directories(place):
        name, _, number = PurePosixPath(directory).name.partition("=")
        if name == "batch" and number.isdigit() and int(number) in old:
            found.setdefault(int(number), []).append(directory)
    together: dict[str, list[int]] = {}
    for batch, directory in compacted_batches(place).items():
        together.setdefault(directory, []).append(batch)
    gone = {directory: batches for directory, batches in together.items() if set(batches) <= old}
    for batches in gone.values():
        found |= {batch: [] for batch in batches}
    if found:
        noted = {"upto": max(found), "at": now.isoformat(timespec="seconds")}
        storage.write_atomically(f"{place}/{REMOVED}", json.dumps(noted))
    for directory in gone:
        remove_compacted(directory)
    for batch, directories in sorted(found.items()):
        for mark in (f"{place}/_complete/{batch}", *(f"{one}/{MANIFEST}" for one in directories)):
            with suppress(FileNotFoundError):
                storage.remove_file(mark)
        for directory in directories:
            storage.remove_directory(directory)
    return set(found)


def removed_upto(place: str) -> tuple[int, str] | None:
    """Up to which batch retention has removed what was in an output, and when; None if nothing."""
    try:
        noted = json.loads(storage.read_text(f"{place}/{REMOVED}"))
    except (FileNotFoundError, ValueError):
        return None
    return int(noted["upto"]), str(noted["at"])


def _batch_directories(place: str) -> Iterator[str]:
    """The directories of batches in an output, also below those of subscribers, one or many batches each."""
    for together in dict.fromkeys(compacted_batches(place).values()):
        yield together
        yield from storage.spread_directories(together)
    for directory in storage.directories(place):
        name = PurePosixPath(directory).name
        below = f"{place}/{name}"
        if name.startswith("batch="):
            yield below
        elif name.startswith("each="):
            yield from (f"{below}/{PurePosixPath(one).name}" for one in storage.directories(below))


def purge(pipeline: Pipeline, subscriber: str) -> dict[str, int]:
    """Remove a subscriber from deliveries, metrics and the store; gives how much of each there was.

    Of the quarantine, malformed rows of a followed table are removed where they name the subscriber. Archive
    and quarantine otherwise hold events, which say nothing of who asked for them. Raises `DistributaryError`,
    with nothing removed, where the deliveries cannot be purged from here, or where a table is followed that
    has the subscriber still.
    """
    sink = pipeline.sink
    if sink.path and sink.format in FILE_FORMATS and sink.format != "parquet":
        raise DistributaryError(
            f'deliveries in the format "{sink.format}" cannot be purged here, only Parquet can: remove the '
            "rows in them by other means, and leave [sink] format out in a copy of the file for the rest"
        )
    if not sink.is_table and not (sink.path and sink.format in FILE_FORMATS):
        raise DistributaryError(
            f'deliveries in the format "{sink.format}" cannot be purged here: remove theirs by means of the '
            "sink's own, and give a copy of the file with an empty directory as [sink] path for the rest"
        )
    pipeline.store.version()  # without a store nothing is touched
    _require_not_followed(pipeline, subscriber)
    counts = {"deliveries": 0, "rows of metrics": 0}
    if sink.is_table:
        counts["deliveries"] = delivery_table(sink).remove_subscriber(subscriber)
    if sink.path and sink.format in FILE_FORMATS:
        together = dict.fromkeys(compacted_batches(sink.path).values())
        for place in (sink.path, *together):
            own = f"{place}/{own_directory(subscriber)}"
            counts["deliveries"] += _rows_below(own)
            storage.remove_directory(own)
        counts["deliveries"] += _without_subscriber(sink.path, subscriber)
    if pipeline.metrics:
        counts["rows of metrics"] = _without_subscriber(f"{pipeline.metrics}/subscriptions", subscriber)
    counts["rejected rows"] = _without_rejected_rows(pipeline.quarantine, subscriber)
    counts["registrations"] = purge_subscriber(pipeline.store, subscriber)
    who = sha256(subscriber.encode()).hexdigest()
    note(pipeline, "purge", {"subscriber, as SHA-256": who, **counts})
    return counts


def _require_not_followed(pipeline: Pipeline, subscriber: str) -> None:
    """Raise an error if the table that the store follows has the subscriber, who would come back."""
    table = pipeline.follow
    if table is None:
        return
    if table.format == "jdbc":
        raise DistributaryError(
            "[follow]: the store follows a database, which is not looked into here: what it has of the "
            "subscriber would be registered again. Remove their rows there, then purge a copy of the file "
            "without [follow]"
        )
    for row in reader_of(table, None).rows():
        if isinstance(row, Rejection):
            theirs = _is_named(subscriber, row.to_record())
        else:
            theirs = row[1].subscriber == subscriber
        if theirs:
            raise DistributaryError(
                f"[follow]: {table.path} has rows of the subscriber, who would be registered again: remove "
                "them there first"
            )


def _without_rejected_rows(quarantine: str, subscriber: str) -> int:
    """Remove the rows of a followed table that were set aside and name a subscriber; gives how many."""
    place = f"{quarantine}/{REJECTED_ROWS}"
    try:
        lines = storage.read_text(place).splitlines()
    except FileNotFoundError:
        return 0
    kept = [line for line in lines if not _is_named(subscriber, json.loads(line))]
    if len(kept) < len(lines):
        storage.write_atomically(place, "".join(f"{line}\n" for line in kept))
    return len(lines) - len(kept)


def _is_named(subscriber: str, row: Mapping[str, Any]) -> bool:
    """Whether a row that was set aside has a name in it, as words of their own.

    The row may be cut short, or be no JSON, so nothing tells which of its texts is the subscriber.

    >>> _is_named("ann", {"record": "s1,ann,A"}), _is_named("ann", {"record": "s1,anna,A"})
    (True, False)
    """
    forms = {subscriber, json.dumps(subscriber)[1:-1], json.dumps(subscriber, ensure_ascii=False)[1:-1]}
    words = "|".join(map(re.escape, forms))
    return any(re.search(rf"(?<!\w)(?:{words})(?!\w)", str(each)) for each in row.values())


def _rows_below(place: str) -> int:
    files = storage.visible_files(place)
    return sum(storage.read_table(path).num_rows for path in files if path.endswith(".parquet"))


def _without_subscriber(place: str, subscriber: str) -> int:
    """Write the files of an output anew that have rows of a subscriber; gives how many rows those were."""
    count = 0
    for directory in _batch_directories(place):
        rows: dict[str, int] = {}
        for name in storage.file_names(directory):
            if not name.endswith(".parquet"):
                continue
            table = storage.read_table(f"{directory}/{name}")
            theirs = pc.fill_null(pc.equal(table["subscriber"], subscriber), False)
            found = int(pc.sum(theirs).as_py() or 0)
            rows[name] = table.num_rows - found
            if found:
                count += found
                _replace_table(f"{directory}/{name}", table.filter(pc.invert(theirs)))
        if rows and storage.exists(f"{directory}/{MANIFEST}"):
            storage.write_atomically(f"{directory}/{MANIFEST}", json.dumps({"files": rows}))
    return count


def _replace_table(location: str, table: pa.Table) -> None:
    head, _, name = location.rpartition("/")
    # Spark writes its times in an old form, which it does not take for times of this zone.
    old_times = storage.has_old_times(location)
    with storage.new_file(f"{head}/.{name}.purged") as stream:
        parquet.write_table(
            table, stream, store_schema=False, use_deprecated_int96_timestamps=old_times or None
        )
    with suppress(FileNotFoundError):  # Hadoop's checksum of the old file
        storage.remove_file(f"{head}/.{name}.crc")
    storage.move(f"{head}/.{name}.purged", location)


def note(pipeline: Pipeline, what: str, about: Mapping[str, object]) -> None:
    """Add a line to the audit log, `<checkpoint>/audit.jsonl`: when, who on which host, what, how much."""
    place = f"{pipeline.checkpoint}/audit.jsonl"
    try:
        before = storage.read_text(place)
    except FileNotFoundError:
        before = ""
    line = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "by": f"{getpass.getuser()}@{socket.gethostname()}",
        "what": what,
        **about,
    }
    storage.write_atomically(place, before + json.dumps(line) + "\n")
