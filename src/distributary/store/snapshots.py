"""Snapshots: the live set at some versions, so that nobody must read the whole log.

A snapshot is derived from the log and changes no answer. One is due when reading the log since the last
would cost about as much as half of the last: so writing them costs a constant factor of what was
committed, and whoever needs a version reads at most about one and a half times what is live at it.
A commit counts for more than its rows, for it is a file (or a query) of its own. The newest few are kept.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from distributary.store.columns import LIVE, read_table, write_table
from distributary.store.durable import make_directory, publish, sweep

KEPT = 3
ROWS_OF_A_COMMIT = 64
SMALLEST_LOG = 8192


def snapshot_due(rows: int, commits: int, live: int) -> bool:
    """Whether the log since a snapshot of `live` rows has grown enough for the next."""
    return rows + ROWS_OF_A_COMMIT * commits >= SMALLEST_LOG + live // 2


class Snapshots:
    """The snapshots in a directory; any number of processes may read and write them."""

    def __init__(self, directory: Path, temporary: Path) -> None:
        self.directory = directory
        self.temporary = temporary

    def versions(self) -> list[int]:
        """The versions there are snapshots of, in order."""
        return sorted(int(path.stem) for path in self.directory.glob("*.arrow"))

    def newest(self, upto: int, columns: list[str] | None = None) -> tuple[int, pa.Table]:
        """The newest snapshot at or below a version, with that version; 0 and nothing when there is none."""
        while candidates := [version for version in self.versions() if version <= upto]:
            try:
                return candidates[-1], read_table(self._path(candidates[-1]), columns)
            except FileNotFoundError:
                continue  # thinned out since it was listed, so there are newer ones
        empty = LIVE.empty_table()
        return 0, empty if columns is None else empty.select(columns)

    def write(self, version: int, live: pa.Table) -> None:
        """Write the snapshot of a version, and remove all but the newest few."""
        make_directory(self.directory)
        make_directory(self.temporary)
        publish(self._path(version), self.temporary, lambda stream: write_table(live, stream))
        for old in self.versions()[:-KEPT]:
            self._path(old).unlink(missing_ok=True)
        sweep(self.temporary)

    def _path(self, version: int) -> Path:
        return self.directory / f"{version:020d}.arrow"
