"""The audit log: who did what and when, and whether it was refused, as JSON lines in files of bounded size.

    {"at": "2026-11-18T05:07:18.123+00:00", "user": "ann", "action": "log in", "outcome": "allowed"}

Rules:

- Whoever writes gives no secrets: no password, no token. Texts are shortened, and JSON escapes control
  characters, so that nobody can forge a line.
- At most `BURST` lines at once, and as many a second, of one user and action; how many were left out is told
  in the next line that is written. So nobody can push the traces of others out of the files.
- When a file is full, it gets the ending `.1`, the one that had it `.2`, and so on; the oldest is removed.
- A log that cannot be written is told once to `on_failure`; the broker goes on.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from distributary.edge.access.quotas import Bucket

LONGEST_DETAIL = 500
"""Characters."""
BURST = 50
KINDS = 10_000
"""Users and actions whose rates are remembered."""


class AuditLog:
    """Writes to a file. May be used from several threads."""

    def __init__(
        self,
        path: Path,
        most_bytes: int,
        files: int,
        now: Callable[[], float],
        on_failure: Callable[[str], None] = lambda reason: None,
    ) -> None:
        self.path, self.most_bytes, self.files = path, most_bytes, files
        self._now, self._on_failure = now, on_failure
        self._lock = threading.Lock()
        self._rates: dict[tuple[str, str, bool], tuple[Bucket, int]] = {}
        self._failed = False

    def write(self, user: str, action: str, detail: str, refused: bool) -> None:
        """Add a line, unless there are too many like it."""
        with self._lock:
            left_out = self._counted((user, action, refused))
            if left_out is None:
                return
            at = datetime.fromtimestamp(self._now(), UTC).isoformat(timespec="milliseconds")
            record = {
                "at": at,
                "user": user,
                "action": action,
                "outcome": "refused" if refused else "allowed",
            }
            if detail:
                record["detail"] = (
                    detail if len(detail) <= LONGEST_DETAIL else detail[: LONGEST_DETAIL - 3] + "..."
                )
            line = json.dumps({**record, "left_out": left_out} if left_out else record) + "\n"
            try:
                self._append(line.encode())
                self._failed = False
            except OSError as error:
                if not self._failed:
                    self._failed = True
                    self._on_failure(f"the audit log {self.path} cannot be written: {error.strerror}")

    def _counted(self, kind: tuple[str, str, bool]) -> int | None:
        """How many lines like this one were left out before it; None if it is left out itself."""
        if kind not in self._rates and len(self._rates) >= KINDS:
            self._rates.clear()
        bucket, left_out = self._rates.get(kind) or (Bucket(BURST, BURST), 0)
        if bucket.take(1, self._now()) > 0:
            self._rates[kind] = bucket, left_out + 1
            return None
        self._rates[kind] = bucket, 0
        return left_out

    def _append(self, line: bytes) -> None:
        if self.path.exists() and self.path.stat().st_size + len(line) > self.most_bytes:
            self._rotate()
        # Only the broker's user may read it: it says who was there when.
        handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line)
        finally:
            os.close(handle)

    def _rotate(self) -> None:
        if self.files == 1:
            self.path.unlink()
            return
        for number in range(self.files - 2, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        self.path.replace(self._numbered(1))

    def _numbered(self, number: int) -> Path:
        return self.path.with_name(f"{self.path.name}.{number}")
