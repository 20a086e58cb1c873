"""The record of each finished micro-batch: one small JSON file a batch, written after all its other outputs.

Rules: a record appears whole or not at all; it is the last thing that a batch writes, so a batch that has one
is complete in every output; a batch that is done again writes the same record but for when it started and
finished. Progress, metrics and replay read them. Their directory is `Pipeline.commits`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import datetime

from distributary.spark import storage

TIMES = ("started", "finished", "latest", "instant")


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """What a micro-batch did."""

    batch: int
    version: int | None
    """The version of the subscriptions that it used; None for an empty batch."""
    events: int
    """The well-formed events; all others that came in are counted by `rejected`."""
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
    """The events that came later than their source allows; they are counted by `rejected` too."""
    instant: datetime | None = None
    """What `now()` was in its conditions; None in records of a release that did not note it."""

    @property
    def seconds(self) -> float:
        """How long the batch took."""
        return (self.finished - self.started).total_seconds()

    def to_json(self) -> str:
        """The record as the text of its file; times are in ISO 8601."""
        return json.dumps(asdict(self), default=datetime.isoformat)

    @classmethod
    def from_json(cls, text: str) -> BatchRecord:
        """The record that `to_json` wrote, in this release or an earlier one."""
        record = json.loads(text)
        times = {name: datetime.fromisoformat(record[name]) for name in TIMES if record.get(name)}
        return cls(**(record | times))


def write_record(commits: str, record: BatchRecord) -> None:
    """Write the record of a batch, in place of an earlier one."""
    storage.write_atomically(f"{commits}/{record.batch}.json", record.to_json())


def read_record(commits: str, batch: int) -> BatchRecord:
    """The record of a finished batch; raises FileNotFoundError when the batch is not finished."""
    return BatchRecord.from_json(storage.read_text(f"{commits}/{batch}.json"))


def read_records(commits: str) -> Iterator[BatchRecord]:
    """The records of all finished batches, in the order of their ids."""
    for batch in sorted(storage.numbered_files(commits, ".json")):
        yield read_record(commits, batch)


def records_from(commits: str, first: int) -> Iterator[BatchRecord]:
    """The records of finished batches from `first` on, up to the first batch that has none yet."""
    while storage.exists(f"{commits}/{first}.json"):
        yield read_record(commits, first)
        first += 1


def last_record(commits: str) -> int | None:
    """The id of the last finished batch; None when no batch is finished."""
    return max(storage.numbered_files(commits, ".json"), default=None)
