"""How far a pipeline's process has come in a micro-batch, told from what it has left on disk.

A micro-batch leaves its traces in this order: its offsets, the version it is bound to, what tasks have
staged, the state of the tolerances, then one output after the other, its record, and Spark's commit. A batch
that is done again finds the traces of the first attempt, so only those count that are not older than the
process.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

OUTPUTS = ("deliveries", "archive", "quarantine", "metrics/topics", "metrics/subscriptions")

PHASES = (
    "starting",
    "planned",
    "matching",
    "staged",
    "remembered",
    *(f"{when} {output}" for output in OUTPUTS for when in ("in", "after")),
    "recorded",
    "between batches",
)
"""What may be seen, in the order of a batch's life: `in` an output's writing, `after` it is complete."""
COMMITTING = PHASES[PHASES.index(f"in {OUTPUTS[0]}") : PHASES.index("recorded") + 1]
"""Those in which the driver commits a batch."""


@dataclass(frozen=True)
class Traces:
    """What a process that was started at a time (of the files' clock) has left below a directory."""

    place: Path
    since: int

    def planned(self) -> int:
        """The last micro-batch whose offsets are written; -1 before the first."""
        return last_number(self.place / "checkpoint" / "offsets")

    def committed(self) -> int:
        """The last micro-batch that Spark holds for done; -1 before the first."""
        return last_number(self.place / "checkpoint" / "commits")

    def phase(self) -> str:
        """One of `PHASES`, for the batch that is planned and not committed, if there is one."""
        batch = self.planned()
        if batch == self.committed():
            done = self.place / "checkpoint" / "commits" / str(batch)
            return "between batches" if self._fresh(done) else "starting"
        if self._fresh(self.place / "metrics" / "batches" / f"{batch}.json"):
            return "recorded"
        for output in reversed(OUTPUTS):
            begun, complete = self._written(self.place / output, batch)
            if begun:
                return f"after {output}" if complete else f"in {output}"
        in_files = self.place.glob(f"checkpoint/tolerances/*/*/{batch}.parquet")
        in_store = self.place.glob(f"checkpoint/state/0/*/{batch + 1}.*")
        if any(map(self._fresh, [*in_files, *in_store])):
            return "remembered"
        if any(map(self._fresh, self.place.glob("deliveries/_staged/*/*"))):
            return "staged"
        if self.bound(batch) or self._shuffled(batch):
            return "matching"
        offsets = self.place / "checkpoint" / "offsets" / str(batch)
        return "planned" if self._fresh(offsets) else "starting"

    def _written(self, output: Path, batch: int) -> tuple[bool, bool]:
        """Whether an output of a batch has been begun, and whether it is complete, in either layout."""
        if self._fresh(output / "_complete" / str(batch)) or self._fresh(output / f"batch={batch}/_SUCCESS"):
            return True, True
        begun = [output / f"batch={batch}", *output.glob(f"each=*/batch={batch}")]
        return any(map(self._fresh, begun)), False

    def bound(self, batch: int) -> bool:
        """Whether a task of this process has decided which version the batch uses."""
        return any(map(self._fresh, self.place.glob(f"subscriptions/bound/*/{batch:020d}")))

    def _shuffled(self, batch: int) -> bool:
        """Whether there are shuffled rows that are not those of the batch before."""
        before = self.place / "checkpoint" / "commits" / str(batch - 1)
        since = max(self.since, before.stat().st_mtime_ns) if before.exists() else self.since
        own = Traces(self.place, since)
        return any(map(own._fresh, (self.place / "local").rglob("shuffle_*")))

    def _fresh(self, path: Path) -> bool:
        try:
            return path.stat().st_mtime_ns >= self.since
        except OSError:
            return False


def last_number(directory: Path) -> int:
    """The greatest number that names a file of a directory; -1 when there is none."""
    try:
        return max((int(path.name) for path in directory.iterdir() if path.name.isdigit()), default=-1)
    except FileNotFoundError:
        return -1


def stream_of(place: Path) -> str | None:
    """The id of the query, under which the store binds its micro-batches, once there is one."""
    try:
        return str(json.loads((place / "checkpoint" / "metadata").read_text())["id"])
    except FileNotFoundError:
        return None
