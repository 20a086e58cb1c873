"""Where in its file a line stands that could not be read: found by reading the file again up to there.

Spark's readers tell the file of a row and not its line. Lines that cannot be read are few, and a task meets
them in their order, so it reads on from where it found the last one.

Cost: a worker reads no file more than `READINGS` times over. Where that does not find a line (the file is
compressed, gone, or not of lines), the file alone is told.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from typing import IO
from urllib.parse import unquote

from distributary.errors import DistributaryError
from distributary.spark.storage import opened

RESERVED = "__distributary_"
"""How the names of the columns start that the dataflow adds on its way."""
UNREADABLE = "_unreadable"
"""The column in which a pipeline's reader leaves the raw text of what it could not read."""
ARRIVAL = RESERVED + "arrival"
"""When the batch or micro-batch arrived, in microseconds since 1970: what `now()` is in a condition."""
SOURCE_PLACE = RESERVED + "place"
"""Where in its source an event stands that could not be read, or has no id."""

REASON = RESERVED + "reason"
"""Why an event could not be read, where a pipeline's reader knows more than that it could not."""

READINGS = 3
"""How often a file is read at most, to find all its lines that are asked for."""
MOST_FILES = 16
"""Files that a worker remembers."""
MARK = b"\xef\xbb\xbf"


class FileLines:
    """The lines of one file, looked for one after the other."""

    def __init__(self, location: str) -> None:
        self._location = unquote(location)
        self._stream: IO[bytes] | None = None
        self._readings = 0
        self._line = 0

    def find(self, wanted: bytes) -> int | None:
        """The number of the next line that holds these bytes, going on from the beginning if need be."""
        begun = self._line
        while self._stream is not None or self._readings < READINGS:
            for line in self._rest():
                if line == wanted:
                    return self._line
            if begun == 0:
                return None
            begun = 0
        return None

    def _rest(self) -> Iterator[bytes]:
        """The lines from the present place on, without their ends."""
        with suppress(OSError, DistributaryError):
            if self._stream is None:
                self._readings += 1
                self._stream = opened(self._location)
            while line := self._stream.readline():
                self._line += 1
                bare = line.rstrip(b"\r\n")
                yield bare.removeprefix(MARK) if self._line == 1 else bare
        self.close()

    def close(self) -> None:
        """Close the file; the next search begins at its first line."""
        if self._stream is not None:
            self._stream.close()
        self._stream = None
        self._line = 0


_files: OrderedDict[str, FileLines] = OrderedDict()
"""What a Python worker remembers from one batch to the next."""


def with_line(location: str, raw: bytes | None) -> str:
    """The place of a raw line in a file: `location:line`, or the location where that is not found."""
    if raw is None or ":/" not in location:
        return location
    if location not in _files:
        _files[location] = FileLines(location)
        if len(_files) > MOST_FILES:
            _files.popitem(last=False)[1].close()
    number = _files[location].find(raw)
    return location if number is None else f"{location}:{number}"
