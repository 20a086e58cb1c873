"""Which ids are registered, and under which serial: what a commit to a log of files must know.

The ids of a snapshot stay where they are, in a mapped file, and are searched as a column: some 10 ms for a
million of them, no matter how few are asked, no object for each and nothing to load. What changed since lies
over it in a dictionary, kept up to date from the log. Both read ids and serials alone, never a filter.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.store.columns import serial_of

NEEDED = ["id", "ended"]
"""The columns of the log that are read."""


class Registrations:
    """The registered ids at `version`: those of the snapshot `base_version`, and what changed since."""

    def __init__(self, base_version: int, base: pa.Table) -> None:
        self.base_version = base_version
        self.base_rows = len(base)
        self.version = base_version
        self.rows = 0
        self._base = base
        self._changed: dict[str, int | None] = {}

    def advance(self, log: Iterable[tuple[int, pa.Table]]) -> None:
        """Take in the commits that follow `version`."""
        for version, changes in log:
            pairs = zip(changes["id"].to_pylist(), changes["ended"].to_pylist(), strict=True)
            for row, (subscription_id, ended) in enumerate(pairs):
                self._changed[subscription_id] = serial_of(version, row) if ended is None else None
            self.rows += len(changes)
            self.version = version

    def serials(self, ids: pa.Array) -> dict[str, int]:
        """The serials of those ids that are registered."""
        found: dict[str, int] = {}
        unchanged = []
        for subscription_id in ids.to_pylist():
            if subscription_id not in self._changed:
                unchanged.append(subscription_id)
            elif (serial := self._changed[subscription_id]) is not None:
                found[subscription_id] = serial
        if unchanged and self.base_rows:
            found.update(self._in_base(pa.array(unchanged, pa.string())))
        return found

    def _in_base(self, ids: pa.Array) -> Iterable[tuple[str, int]]:
        rows = np.flatnonzero(pc.is_in(self._base["id"], value_set=ids).to_numpy())
        hits = self._base.take(pa.array(rows))
        return zip(hits["id"].to_pylist(), hits["serial"].to_pylist(), strict=True)
