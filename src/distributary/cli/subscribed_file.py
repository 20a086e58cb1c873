"""What `distributary subscribe` writes, and how far it has come, so that a restart goes on where it was.

Beside the file of events stands that of the session, in JSON: the client's place in the network's log, and
how long the file of events was then. It is written now and then, after the events it speaks of are on the
disk, and takes its name when it is complete. What a process that was killed has written since is found in the
file itself: a line without its end is cut off, and the events of the lines before it are not written again
when they come again. So are those of the last `REMEMBERED` lines, which come again if the log has a new
epoch.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributary.errors import DistributaryError
from distributary.model import Event, EventKey
from distributary.output import STANDARD_OUTPUT

if TYPE_CHECKING:
    from distributary.overlay.broker import SessionState

REMEMBERED = 10_000
"""Lines whose events are known again."""
BLOCK = 1 << 16
SUFFIX = ".session"


class SubscribedFile:
    """A file of events, and the session that belongs to it."""

    def __init__(self, name: str, state: Path | None) -> None:
        standard = name in STANDARD_OUTPUT
        self._stream = os.fdopen(os.dup(1), "wb") if standard else _opened(name)
        self._is_file = not standard and Path(name).is_file()
        self._state = state if state is not None or not self._is_file else Path(f"{name}{SUFFIX}")
        self._known: set[EventKey] = set()
        self._noted: dict[str, Any] | None = None
        self.session: SessionState | None = None
        """Where an earlier process has come to; None if there was none."""
        try:
            self._restore()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def write(self, event: Event) -> bool:
        """Add a line for an event, at once; whether it was not there yet."""
        if event.key in self._known:
            return False
        self._stream.write(json.dumps(event.to_record(), ensure_ascii=False).encode() + b"\n")
        self._stream.flush()
        return True

    def note(self, session: SessionState | None) -> None:
        """Write down how far the client has come, if that has changed and there is a place for it."""
        from distributary.client import session_record

        if self._state is None:
            return
        record = {"session": None if session is None else session_record(session)}
        if record == self._noted:
            return
        length = 0
        if self._is_file:
            os.fsync(self._stream.fileno())
            length = os.fstat(self._stream.fileno()).st_size
        _write_whole(self._state, json.dumps(record | {"written": length}))
        self._noted = record

    def _restore(self) -> None:
        """Go on with what an earlier process has left."""
        if self._state is None:
            return
        written = self._read_state()
        if written is None:
            self.note(None)
        elif self._is_file:
            self._cut_torn_line()
            self._known = set(self._keys(written))

    def _read_state(self) -> int | None:
        """Read the session; how long the file was then, None if there was no session."""
        from distributary.client import read_session

        assert self._state is not None
        try:
            record = json.loads(self._state.read_bytes())
            written = int(record["written"])
            if record["session"] is not None:
                self.session = read_session(record["session"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError, DistributaryError) as error:
            raise DistributaryError(
                f"{self._state} is no session of distributary subscribe: {error}; remove it to begin anew"
            ) from error
        return written

    def _cut_torn_line(self) -> None:
        with open(self._stream.name, "r+b") as file:
            end = file.seek(0, os.SEEK_END)
            for start, block in _blocks_backwards(file, end):
                if (place := block.rfind(b"\n")) >= 0:
                    file.truncate(start + place + 1)
                    return
            file.truncate(0)

    def _keys(self, written: int) -> Iterator[EventKey]:
        """The events of the last lines, and of all that was written after a length."""
        with open(self._stream.name, "rb") as file:
            end = file.seek(0, os.SEEK_END)
            lines, first = 0, 0
            for start, block in _blocks_backwards(file, end):
                lines += block.count(b"\n")
                first = start
                if lines > REMEMBERED and start <= written:
                    break
            file.seek(first)
            if first:
                file.readline()  # the rest of a line
            for line in file:
                try:
                    yield Event.from_record(json.loads(line)).key
                except (ValueError, DistributaryError):
                    continue  # somebody else's line


def _opened(name: str) -> Any:
    try:
        return open(name, "ab")
    except OSError as error:
        raise DistributaryError(f"{name} cannot be written: {error.strerror}") from error


def _blocks_backwards(file: Any, end: int) -> Iterator[tuple[int, bytes]]:
    """The blocks of a file from its end to its beginning, each with its place."""
    while end > 0:
        start = max(0, end - BLOCK)
        file.seek(start)
        yield start, file.read(end - start)
        end = start


def _write_whole(path: Path, text: str) -> None:
    """Write a file that is there whole or not at all."""
    unfinished = path.with_name(f"{path.name}.partial")
    with open(unfinished, "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    unfinished.replace(path)
