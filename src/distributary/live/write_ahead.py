"""Whether a write-ahead log of SQLite has a hole: frames that cannot be read before others that were safe.

SQLite reads such a log up to the first frame whose checksum is wrong, and takes what follows for the remains
of a write that a crash has torn. That is so for the last transaction, and for no other: the next is only
written when the one before is on the disk. A log in which two transactions or more end behind a wrong frame
has lost some that were safe, which SQLite does not tell.

The format is that of https://www.sqlite.org/fileformat2.html#the_write_ahead_log. Damage to the last
transaction alone cannot be told from a torn write.

Cost: about 0.1 ms a frame of 4 KB, until the first that is wrong.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import NamedTuple

HEADER, FRAME_HEADER = 32, 24
MAGIC = 0x377F0682
"""The last bit says in which order checksums take the bytes of a word."""


class _Frame(NamedTuple):
    """One frame: what its header says, and where it lies."""

    ends_transaction: bool
    salts: bytes
    checksum: tuple[int, int]
    start: int


def safe_frames_lost(path: Path) -> bool:
    """Whether SQLite would leave out transactions of this log that were safe."""
    data = path.read_bytes()
    if len(data) < HEADER + FRAME_HEADER:
        return False
    magic, _, page_size = struct.unpack_from(">III", data)
    if magic & ~1 != MAGIC or page_size < 512 or page_size & (page_size - 1) or page_size > 1 << 16:
        return True  # SQLite brings the header to the disk before any frame
    frames = list(_frames(data, page_size))
    order = ">" if magic & 1 else "<"
    running = _checksum(order, data[:24], (0, 0))
    if running != struct.unpack_from(">II", data, 24):
        return _transactions(frames, frames[0].salts if frames else b"") >= 2
    salts = data[16:24]
    for place, frame in enumerate(frames):
        body = frame.start + FRAME_HEADER
        running = _checksum(order, data[frame.start : frame.start + 8], running)
        running = _checksum(order, data[body : body + page_size], running)
        if frame.salts != salts or frame.checksum != running:
            return _transactions(frames[place:], salts) >= 2
    return False


def _frames(data: bytes, page_size: int) -> list[_Frame]:
    found = []
    for start in range(HEADER, len(data) - FRAME_HEADER - page_size + 1, FRAME_HEADER + page_size):
        _, size_after, _, _, first, second = struct.unpack_from(">IIIIII", data, start)
        found.append(_Frame(size_after != 0, data[start + 8 : start + 16], (first, second), start))
    return found


def _transactions(frames: list[_Frame], salts: bytes) -> int:
    """How many transactions end in these frames, of those that were written with these salts."""
    return sum(frame.ends_transaction for frame in frames if frame.salts == salts)


def _checksum(order: str, data: bytes, start: tuple[int, int]) -> tuple[int, int]:
    first, second = start
    for one, other in struct.iter_unpack(f"{order}II", data):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + other + first) & 0xFFFFFFFF
    return first, second
