"""The log of a store in a directory: one file for each commit, each sealed and chained to the one before.

A file's seal (see `checked`) says which version of which store it is, when it was committed, and the
checksum of the seal before it. So a flipped bit, a lost end, a file of another version or store, and a
history that was put together from two are all found by whoever reads that version. What was removed is found
by its number: versions leave no gaps.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa

from distributary.errors import DamagedError
from distributary.store.checked import Seal, read_checked, read_seal, write_checked
from distributary.store.columns import read_table, write_table
from distributary.store.durable import publish


class CommitLog:
    """The files of the commits of one store. Reading one that is not there is a `FileNotFoundError`."""

    def __init__(self, directory: Path, store: str) -> None:
        self.directory = directory
        self.store = store

    def path(self, version: int) -> Path:
        """The file of a version."""
        return self.directory / f"{version:020d}.arrow"

    def exists(self, version: int) -> bool:
        """Whether there is a file of a version."""
        return self.path(version).exists()

    def append(self, version: int, changes: pa.Table, committed: int, temporary: Path) -> bool:
        """Make a version durable; False when there is one."""
        before = self.checksum(version - 1)
        label = {**self._label(version), "committed": committed, "before": before}
        return publish(
            self.path(version),
            temporary,
            lambda stream: write_checked(stream, label, lambda inner: write_table(changes, inner)),
        )

    def committed(self, version: int) -> int:
        """When a version was committed, in microseconds since 1970; reads no change of it."""
        return int(read_seal(self.path(version), self._label(version)).label["committed"])

    def checksum(self, version: int) -> int | None:
        """The checksum of a version, for the next to name; None when it cannot be told."""
        try:
            return read_seal(self.path(version), self._label(version)).checksum
        except (FileNotFoundError, DamagedError):
            return None

    def read(
        self, version: int, before: int | None, columns: list[str] | None = None
    ) -> tuple[pa.Table, int]:
        """The changes of a version, which must continue that of the checksum `before`, and its checksum."""
        content, seal = read_checked(self.path(version), self._label(version))
        self._require_continuation(version, seal, before)
        return read_table(content, columns), seal.checksum

    def _require_continuation(self, version: int, seal: Seal, before: int | None) -> None:
        named = seal.label.get("before")
        if before is not None and named is not None and named != before:
            raise DamagedError(
                f"{self.path(version)} does not continue version {version - 1}: it was committed upon another"
            )

    def _label(self, version: int) -> dict[str, Any]:
        return {"store": self.store, "version": version}


def numbers_in(directory: Path) -> list[int]:
    """The numbers that are names of files in a directory, ascending; none when there is no directory."""
    try:
        names = os.listdir(directory)
    except (FileNotFoundError, NotADirectoryError):
        return []
    stems = (name.partition(".")[0] for name in names)
    return sorted(int(stem) for stem in stems if stem.isdecimal())
