"""What a task tells the driver of its part of a micro-batch: which files it has staged, and its counts.

A receipt is a row with one text, so that it passes through any step of Spark's. It is small whatever the size
of the task: rows are in files, and the driver reads of those only what it has to add up.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

RECEIPT = "receipt"
RECEIPT_DDL = f"{RECEIPT} string"


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file of rows that counts for nothing until the driver puts it in its place."""

    output: str
    """Which output the rows are for."""
    location: str
    rows: int
    directory: str = ""
    """Where below the output, for an output that is spread over directories."""


@dataclass(frozen=True, slots=True)
class FlowCount:
    """What a stream of queries had."""

    items: int = 0
    bytes: int = 0
    late: int = 0

    def __add__(self, other: FlowCount) -> FlowCount:
        """The sum of two parts of a batch."""
        return FlowCount(self.items + other.items, self.bytes + other.bytes, self.late + other.late)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What one task, or all of a batch, has written and counted."""

    files: tuple[StagedFile, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    """How many rows of each kind there were (see `spark.rows`)."""
    version: int | None = None
    """The version of the subscriptions that was used; None when there was nothing to match."""
    latest: int | None = None
    """The greatest time in the order column, in microseconds since 1970."""
    flows: Mapping[str, FlowCount] = field(default_factory=dict)

    @property
    def latest_time(self) -> datetime | None:
        """The greatest time in the order column."""
        return None if self.latest is None else datetime.fromtimestamp(self.latest / 1e6, UTC)

    def of(self, output: str) -> list[StagedFile]:
        """The files of an output."""
        return [one for one in self.files if one.output == output]

    def to_batch(self) -> pa.RecordBatch:
        """The receipt as a row."""
        return pa.RecordBatch.from_pydict({RECEIPT: pa.array([json.dumps(asdict(self))], pa.string())})

    @classmethod
    def from_json(cls, text: str) -> Receipt:
        """The receipt in a row that `to_batch` made."""
        told = json.loads(text)
        files = tuple(StagedFile(**one) for one in told["files"])
        flows = {name: FlowCount(**one) for name, one in told["flows"].items()}
        return cls(**{**told, "files": files, "flows": flows})


def whole_batch(receipts: Iterable[Receipt]) -> Receipt:
    """What all tasks of a batch together have written and counted."""
    found = list(receipts)
    rows: Counter[str] = Counter()
    flows: dict[str, FlowCount] = {}
    for one in found:
        rows.update(one.rows)
        for name, flow in one.flows.items():
            flows[name] = flows.get(name, FlowCount()) + flow
    return Receipt(
        tuple(file for one in found for file in one.files),
        rows,
        max((one.version for one in found if one.version is not None), default=None),
        max((one.latest for one in found if one.latest is not None), default=None),
        flows,
    )
