"""What could not be read from Kafka, or written to it: kept in a file with its place, and told.

Each is a line of JSON (`quarantine.Rejection`), written and on the disk before the record's offset is
committed. A record that is read again, after a crash, may be there twice: its place tells. The first few are
told one by one, then only how many there are.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from distributary.errors import DistributaryError, InputError
from distributary.quarantine import Rejection, rejection

TOLD = 10
"""So many are told one by one; then one in as many as there are already."""


class RecordQuarantine:
    """Where malformed records go: a file, or nowhere beyond being told."""

    def __init__(self, path: Path | None, note: Callable[[str], None]) -> None:
        self._path, self._note = path, note
        self.count = 0

    async def keep(self, rejected: Sequence[Rejection]) -> None:
        """Keep these; DistributaryError when the file cannot be written."""
        if not rejected:
            return
        if self._path is not None:
            await asyncio.to_thread(self._append, self._path, rejected)
        for each in rejected:
            self.count += 1
            if self.count <= TOLD:
                self._note(f"set aside: {each}")
            elif self.count & (self.count - 1) == 0:
                self._note(f"set aside: {self.count:,} so far, the last: {each}")

    def _append(self, path: Path, rejected: Sequence[Rejection]) -> None:
        try:
            with path.open("a", encoding="utf-8") as file:
                file.writelines(json.dumps(each.to_record()) + "\n" for each in rejected)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise DistributaryError(f"{path} cannot be written: {error.strerror}") from None


def rejected_at(place: str, error: InputError, value: bytes | None) -> Rejection:
    """The rejection of what stands at a place; bytes that are not UTF-8 are shown as such.

    >>> rejected_at("quotes[0]@7", InputError("is no JSON"), b"\\xff").record
    '\\\\xff'
    """
    return rejection(place, error, (value or b"").decode(errors="backslashreplace"))
