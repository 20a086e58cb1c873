"""Snapshots: the live set at some versions, so that nobody must read the whole log.

A snapshot is derived from the log and changes no answer. One is due when reading the log since the last
would cost about as much as half of the last: so writing them costs a constant factor of what was
committed, and whoever needs a version reads at most about one and a half times what is live at it.
A commit counts for more than its rows, for it is a file (or a query) of its own. The newest few are kept.
One that is damaged is set aside, and whoever needed it reads an older one and more of the log.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

from distributary.errors import DamagedError
from distributary.store.checked import read_checked, write_checked
from distributary.store.columns import LIVE, read_table, write_table
from distributary.store.durable import make_directory, publish, sweep

KEPT = 3
ROWS_OF_A_COMMIT = 64
SMALLEST_LOG = 8192


ASIDE = ".damaged"

_log = logging.getLogger(__name__)


def snapshot_due(rows: int, commits: int, live: int) -> bool:
    """Whether the log since a snapshot of `live` rows has grown enough for the next."""
    return rows + ROWS_OF_A_COMMIT * commits >= SMALLEST_LOG + live // 2


class Snapshots:
    """The snapshots of a store in a directory; any number of processes may read and write them.

    Those that are not `derived` from the log cannot be made again: none of them is removed or renamed.
    """

    def __init__(self, directory: Path, temporary: Path, store: str, *, derived: bool = True) -> None:
        self.directory = directory
        self.temporary = temporary
        self.store = store
        self.derived = derived

    def versions(self) -> list[int]:
        """The versions there are snapshots of, in order."""
        return sorted(int(path.stem) for path in self.directory.glob("*.arrow") if path.stem.isdecimal())

    def newest(self, upto: int, columns: list[str] | None = None) -> tuple[int, pa.Table]:
        """The newest whole snapshot at or below a version, with that version; 0 and nothing without one."""
        while candidates := [version for version in self.versions() if version <= upto]:
            try:
                return candidates[-1], self.read(candidates[-1], columns)
            except FileNotFoundError:
                continue  # thinned out since it was listed, so there are newer ones
            except DamagedError as error:
                if not self._retire(candidates[-1], error):
                    upto = candidates[-1] - 1
        empty = LIVE.empty_table()
        return 0, empty if columns is None else empty.select(columns)

    def read(self, version: int, columns: list[str] | None = None) -> pa.Table:
        """The snapshot of a version; `FileNotFoundError` or `DamagedError` when it is not there or whole."""
        return read_table(read_checked(self.path(version), self._label(version))[0], columns)

    def damaged(self) -> Iterator[tuple[int, DamagedError]]:
        """The versions whose snapshots are damaged, and how."""
        for version in self.versions():
            try:
                self.read(version, [])
            except FileNotFoundError:
                continue
            except DamagedError as error:
                yield version, error

    def write(self, version: int, live: pa.Table) -> None:
        """Write the snapshot of a version, and remove all but the newest few."""
        make_directory(self.directory)
        label = self._label(version)
        publish(
            self.path(version),
            self.temporary,
            lambda stream: write_checked(stream, label, lambda inner: write_table(live, inner)),
        )
        for old in self.versions()[:-KEPT] if self.derived else ():
            self.path(old).unlink(missing_ok=True)
        sweep(self.temporary)

    def _retire(self, version: int, error: DamagedError) -> bool:
        """Rename a damaged snapshot, so that it is not read again and another can be written.

        One that is whole, but of another store or version, stays: it may be that store.json is the wrong one.
        """
        path = self.path(version)
        try:
            read_checked(path, {})
        except DamagedError:
            whole = False
        except OSError:
            return not path.exists()
        else:
            whole = True
        if whole or not self.derived:
            _log.warning("a snapshot is passed over: %s", error)
            return False
        _log.warning("a snapshot is set aside, and made again from the log when needed: %s", error)
        try:
            path.rename(path.with_name(path.name + ASIDE))
        except OSError:
            return not path.exists()
        return True

    def _label(self, version: int) -> dict[str, str | int]:
        return {"store": self.store, "snapshot": version}

    def path(self, version: int) -> Path:
        """The file of a version."""
        return self.directory / f"{version:020d}.arrow"
