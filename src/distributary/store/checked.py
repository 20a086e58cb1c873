"""Files that say what they are and carry checksums, so that no damage is taken for content.

    content
    label
    lengths of the label and of the content, checksum of the content
    checksum of the seal so far, end mark

What follows the content is the file's *seal*. The label is a JSON object that says whose file it is, and
which; so one file in the place of another is found, although both are whole. The seal has a checksum of its
own, so that a label can be relied upon without reading the content. It stands at the end because the length
and the checksum are known only then, and Arrow files want to begin where the file does.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple
from zlib import crc32

import pyarrow as pa

from distributary.errors import DamagedError

_NUMBERS = struct.Struct("<IQI")
_END = struct.Struct("<I8s")
MARK = b"\nsealed\n"
TRAILER = _NUMBERS.size + _END.size

SMALL = 1 << 20
"""Bytes below which a file is read rather than mapped.

A process may map only so many files (65,530 on Linux, if nobody has raised it).
"""
LONGEST_SEAL = 1 << 12

Label = Mapping[str, Any]


class Seal(NamedTuple):
    """What a file says of itself; `checksum` covers the label and, through its own, the content."""

    label: Label
    content: int
    """The length of the content."""
    content_checksum: int
    checksum: int


class _CountingStream:
    """Passes on what is written, and keeps its length and checksum."""

    closed = False

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self.length = 0
        self.checksum = 0

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self._stream.write(view)
        self.length += len(view)
        self.checksum = crc32(view, self.checksum)
        return len(view)

    def flush(self) -> None:
        self._stream.flush()

    def tell(self) -> int:
        return self.length

    def close(self) -> None:
        """The stream stays open, for the seal is still to come."""


def write_checked(stream: IO[bytes], label: Label, write: Callable[[Any], object]) -> None:
    """Write what `write` puts into the stream it is given, and the seal."""
    counting = _CountingStream(stream)
    write(counting)
    text = json.dumps(label).encode()
    numbers = _NUMBERS.pack(len(text), counting.length, counting.checksum)
    stream.write(text + numbers + _END.pack(crc32(text + numbers), MARK))


def read_seal(path: Path, expected: Label) -> Seal:
    """The seal of a file whose label must say what is expected; the content is not read.

    `FileNotFoundError` when there is no file, `DamagedError` when it is not as it was written.
    """
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - LONGEST_SEAL))
        return _seal(file.read(), size, path, expected)


def read_checked(path: Path, expected: Label) -> tuple[pa.Buffer, Seal]:
    """The content of a file, all of it checked, and its seal. Large files are mapped into memory."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(0 if size < SMALL else size - LONGEST_SEAL)
        end = file.read()
    seal = _seal(end, size, path, expected)
    if size < SMALL:
        content = pa.py_buffer(end).slice(0, seal.content)
    else:
        with pa.memory_map(str(path)) as source:
            content = source.read_buffer(seal.content)
    if content.size != seal.content or crc32(content) != seal.content_checksum:
        raise DamagedError(f"{path} is not what was written: the checksum does not hold")
    return content, seal


def _seal(end: bytes, size: int, path: Path, expected: Label) -> Seal:
    """The seal at the end of a file of this size, of which `end` is all or `LONGEST_SEAL` bytes."""
    if len(end) < TRAILER or end[-len(MARK) :] != MARK:
        raise DamagedError(f"{path} is not what was written: its end is missing or something follows it")
    numbers = end[-TRAILER : -_END.size]
    length, content, content_checksum = _NUMBERS.unpack(numbers)
    text = end[-TRAILER - length : -TRAILER]
    checksum, _ = _END.unpack(end[-_END.size :])
    if content + length + TRAILER != size or crc32(text + numbers) != checksum:
        raise DamagedError(f"{path} is not what was written: the checksum at its end does not hold")
    label: dict[str, Any] = json.loads(text)
    if any(label.get(name) != value for name, value in expected.items()):
        raise DamagedError(f"{path} is another file than it should be: its label is {text.decode()}")
    return Seal(label, content, content_checksum, checksum)
