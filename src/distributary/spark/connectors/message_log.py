"""Messages on a disk, by offset: what a broker has been told is safe, until Spark has committed its batch.

Theory of operation. One process writes: the reader of a streaming query, on the driver. Tasks read ranges of
offsets that are on the disk already. A directory holds

- `log.json`: the id of the log, the name of its client, what is subscribed to, and how far it is committed;
- `<first offset>.log`: segments, of records one after the other: length and CRC-32 of four bytes each, body;
- `lock`: held by the process that writes. It ends with the process, however that ends.

Rules: `append` returns when all records are on the disk. Offsets count from 0 and are never used again. What
follows the last whole record of the last segment is the remains of a write that a crash has torn: nobody was
told that it is safe, so it is cut off when the log is opened. Anything else that cannot be read is damage,
and so is an end before that which `log.json` has last noted. A segment is removed when all its records are
committed and none is among the last `KEPT`, which are kept so that a message that a broker sends again is
recognised after a restart too.

Cost: an `append` is one write and one `fsync`, however many records; opening reads what is retained.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, Generic, NamedTuple, TypeVar
from uuid import uuid4

import msgspec

from distributary.errors import DamagedError, DistributaryError

KEPT = 10_000
"""The last records that stay, committed or not."""
SEGMENT = 8 << 20
"""Bytes after which a new segment is begun."""
EVERY = 256
"""One record of so many is found without reading those before it."""
PATIENCE = 30.0
"""Seconds to wait for the process that has the log: that of a query which has just ended goes soon."""
HEADER = struct.Struct("<II")
INFORMATION = "log.json"
FORMAT = 1

T = TypeVar("T", bound=msgspec.Struct)


class LogRange(NamedTuple):
    """Records for a task: a segment, where in it to begin, and which offsets to take from there."""

    path: str
    position: int
    offset: int
    """That of the record at the position."""
    start: int
    end: int


class LogState(msgspec.Struct):
    """What is remembered beside the messages."""

    id: str
    client: str
    committed: int = 0
    reached: int = 0
    """How far the log had come when this was written."""
    subscribed: list[str] = []
    place: dict[str, Any] | None = None
    """Where its client goes on, if that is known otherwise than by the messages from `placed` on."""
    placed: int = 0
    format: int = FORMAT


class _Segment:
    """One file, and where some of its records begin."""

    def __init__(self, path: Path, first: int) -> None:
        self.path, self.first, self.end, self.size = path, first, first, 0
        self.marks: list[tuple[int, int]] = []

    def note(self, length: int) -> None:
        """One more record, of so many bytes, is at the end."""
        if (self.end - self.first) % EVERY == 0:
            self.marks.append((self.end, self.size))
        self.end += 1
        self.size += length

    def range(self, start: int, end: int) -> LogRange:
        """Where a task finds the records from `start` to before `end`."""
        offset, position = self.marks[(start - self.first) // EVERY]
        return LogRange(str(self.path), position, offset, start, end)

    def bytes_from(self, offset: int) -> int:
        """The bytes of the records from an offset on, and of at most `EVERY` records before it."""
        if offset >= self.end:
            return 0
        return self.size - (self.marks[(offset - self.first) // EVERY][1] if offset > self.first else 0)


class MessageLog(Generic[T]):
    """The log, opened by the one process that writes it; its records are of one kind."""

    def __init__(
        self, directory: str, kind: type[T], client: str | None = None, *, segment: int = SEGMENT
    ) -> None:
        self._directory, self._kind, self._segment_size = Path(directory).absolute(), kind, segment
        self._file: IO[bytes] | None = None
        self._segments: list[_Segment] = []
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock = self._directory.joinpath("lock").open("a+")
        except OSError as error:
            raise DistributaryError(f"cannot write the log {directory}: {error.strerror}") from None
        try:
            self._wait_for_lock()
            self.state = self._read_state(client)
            self._open_segments()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Let another process have the log."""
        self._close_file()
        self._lock.close()

    @property
    def begin(self) -> int:
        """The first offset that can be read."""
        return self._segments[0].first

    @property
    def end(self) -> int:
        """The offset of the next message: all before it are on the disk."""
        return self._segments[-1].end

    def bytes_from(self, offset: int) -> int:
        """About how many bytes there are from an offset on; 0 at the end."""
        return sum(segment.bytes_from(offset) for segment in self._segments)

    def append(self, messages: Sequence[T]) -> None:
        """Add messages; when this returns they are safe."""
        if self._segments[-1].size >= self._segment_size:
            self._begin_segment(self.end)
        bodies = [msgspec.msgpack.encode(message) for message in messages]
        data = b"".join(HEADER.pack(len(body), zlib.crc32(body)) + body for body in bodies)
        last = self._segments[-1]
        try:
            if self._file is None:
                self._file = last.path.open("r+b", buffering=0)
                self._file.seek(last.size)
            rest = memoryview(data)
            while rest:
                rest = rest[self._file.write(rest) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            self._close_file()  # so that whoever tries again begins at the right place
            raise DistributaryError(f"cannot write {last.path}: {error.strerror}: make room there") from None
        for body in bodies:
            last.note(HEADER.size + len(body))

    def ranges(self, start: int, end: int, rows: int) -> list[LogRange]:
        """What tasks read to have these offsets, each at most so many; the same whenever it is asked."""
        if start < self.begin or end > self.end:
            raise DamagedError(
                f"the log {self._directory} has offsets {self.begin} to {self.end}, the checkpoint asks for "
                f"{start} to {end}: bring the log of this checkpoint back, or begin with a new checkpoint"
            )
        found = []
        for segment in self._segments:
            first, last = max(start, segment.first), min(end, segment.end)
            for place in range(first, last, rows):
                found.append(segment.range(place, min(place + rows, last)))
        return found

    def commit(self, end: int) -> None:
        """Nobody will ask for anything before this offset: remove what is not needed any more."""
        if end <= self.state.committed:
            return
        self.state.committed = end
        self.write_state()
        needed = min(end, self.end - KEPT)
        while len(self._segments) > 1 and self._segments[0].end <= needed:
            with suppress(FileNotFoundError):
                self._segments[0].path.unlink()
            del self._segments[0]

    def last(self, count: int) -> Iterator[T]:
        """The last messages, so many if there are."""
        start = max(self.begin, self.end - count)
        return (each for one in self.ranges(start, self.end, SEGMENT) for each in read_range(one, self._kind))

    def write_state(self) -> None:
        """Bring what is remembered to the disk, whole or not at all."""
        if self._segments:
            self.state.reached = self.end
        partial = self._directory / f".{INFORMATION}.partial"
        try:
            with partial.open("wb") as stream:
                stream.write(msgspec.json.encode(self.state))
                stream.flush()
                os.fsync(stream.fileno())
            partial.rename(self._directory / INFORMATION)
            _bring_to_disk(self._directory)
        except OSError as error:
            raise DistributaryError(f"cannot write {partial}: {error.strerror}: make room there") from None

    def _read_state(self, client: str | None) -> LogState:
        """What is remembered; of a new log, with the name that is given or a new one."""
        path = self._directory / INFORMATION
        if not path.exists():
            self.state = LogState(uuid4().hex, client or f"distributary-{uuid4().hex[:12]}")
            self.write_state()
            return self.state
        try:
            state = msgspec.json.decode(path.read_bytes(), type=LogState)
        except msgspec.MsgspecError as error:
            raise DamagedError(
                f"{path} cannot be read: {error}: bring it back, or choose another log"
            ) from None
        if state.format != FORMAT:
            raise DistributaryError(f"{path} was written by a later release; use that, or choose another log")
        if client is not None and client != state.client:
            raise DistributaryError(
                f"the log {self._directory} belongs to the client {state.client}, not to {client}: choose "
                "another log, or leave the client's name out"
            )
        return state

    def _open_segments(self) -> None:
        """Read what is there; `DamagedError` when something is missing."""
        self._segments = [_opened(path, last) for path, last in _with_last(self._directory)]
        for before, after in pairwise(self._segments):
            if before.end != after.first:
                raise DamagedError(
                    f"the log {self._directory} has nothing from {before.end} to {after.first}: bring it back"
                )
        if not self._segments:
            self._begin_segment(self.state.reached)
        if self.end < self.state.reached or self.begin > self.state.committed:
            raise DamagedError(
                f"the log {self._directory} has offsets {self.begin} to {self.end}, and had "
                f"{self.state.committed} to {self.state.reached}: bring it back as it was"
            )

    def _begin_segment(self, first: int) -> None:
        self._close_file()
        path = self._directory / f"{first:020}.log"
        self._file = path.open("w+b", buffering=0)
        _bring_to_disk(self._directory)
        self._segments.append(_Segment(path, first))

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _wait_for_lock(self) -> None:
        given_up = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > given_up:
                    raise DistributaryError(
                        f"another query writes the log {self._directory}: stop it, or choose another log"
                    ) from None
            time.sleep(0.1)


def read_range(wanted: LogRange, kind: type[T]) -> Iterator[T]:
    """The messages of a range, in order; what a task does, on whatever machine it runs."""
    decoder = msgspec.msgpack.Decoder(kind)
    try:
        with open(wanted.path, "rb") as stream:
            stream.seek(wanted.position)
            for offset, body in enumerate(_bodies(stream), wanted.offset):
                if offset >= wanted.start:
                    yield decoder.decode(body)
                if offset == wanted.end - 1:
                    return
    except OSError as error:
        raise DistributaryError(
            f"cannot read {wanted.path}: {error.strerror}: the log must be at a path that all machines see"
        ) from None
    raise DamagedError(f"{wanted.path} ends before the offset {wanted.end}: bring the log back as it was")


def _bodies(stream: IO[bytes]) -> Iterator[bytes]:
    """The whole records from here on, up to the first that is not whole."""
    while len(header := stream.read(HEADER.size)) == HEADER.size:
        length, checksum = HEADER.unpack(header)
        body = stream.read(length)
        # No record is empty: where a crash has left zeros, they would else be records without end.
        if not body or len(body) < length or zlib.crc32(body) != checksum:
            return
        yield body


def _opened(path: Path, last: bool) -> _Segment:
    """A segment that is there; the last is cut off behind its last whole record."""
    segment = _Segment(path, int(path.stem))
    with path.open("rb") as stream:
        for body in _bodies(stream):
            segment.note(HEADER.size + len(body))
    if segment.size < path.stat().st_size:
        if not last:
            raise DamagedError(f"{path} is damaged behind offset {segment.end}: bring the log back as it was")
        os.truncate(path, segment.size)
    return segment


def _with_last(directory: Path) -> Iterator[tuple[Path, bool]]:
    paths = sorted(directory.glob("*.log"))
    return ((path, path == paths[-1]) for path in paths)


def _bring_to_disk(directory: Path) -> None:
    """Have the names in a directory survive a crash of the machine."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
