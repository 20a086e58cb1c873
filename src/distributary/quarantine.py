"""Malformed input: a `Rejection` says where it stands and what is wrong, a `Quarantine` keeps it.

Nothing malformed stops the rest, and nothing is dropped in silence: a quarantine's file is written line by
line, and one that an earlier run has left is kept under another name (see `output`), also when this run sets
nothing aside, so that nobody takes it for that of this run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self, TypeVar

from distributary.errors import DistributaryError, InputError
from distributary.output import moved_log, opened_log

T = TypeVar("T")

LONGEST_RECORD = 1000
"""Characters of the input that a rejection keeps."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """Input that was set aside."""

    place: str
    """Where it stands: `file:line`, or the table and its key."""
    field: str | None
    reason: str
    record: str
    """The input as it was read, shortened when it is long."""

    def __str__(self) -> str:
        return f"{self.place}: {self.field + ': ' if self.field else ''}{self.reason}"

    def to_record(self) -> dict[str, Any]:
        """The rejection as an object of the quarantine file."""
        return asdict(self)


def rejection(place: str, error: InputError, record: str) -> Rejection:
    """The rejection that an error means for the input at `place`."""
    shown = record if len(record) <= LONGEST_RECORD else record[: LONGEST_RECORD - 3] + "..."
    message = str(error)
    if error.field:
        message = message.removeprefix(f"{error.field}: ")
    return Rejection(place, error.field, message, shown)


class StrictError(DistributaryError):
    """The first malformed input of a strict run."""

    def __init__(self, rejected: Rejection) -> None:
        super().__init__(str(rejected))
        self.rejected = rejected


class Quarantine:
    """Where rejections go: counted, and written to a file as JSON lines; or raised, when strict.

    >>> quarantine = Quarantine()
    >>> quarantine.add(Rejection("events.jsonl:3", "id", "missing", "{}"))
    >>> quarantine.count, [str(one) for one in quarantine.samples]
    (1, ['events.jsonl:3: id: missing'])
    """

    SAMPLES = 10

    def __init__(self, path: Path | None = None, *, strict: bool = False) -> None:
        self.path = path
        self.strict = strict
        self.count = 0
        self.samples: list[Rejection] = []
        self.earlier: Path | None = None
        """Where the file that an earlier run has left is kept now, if there was one in the way."""
        self._file: IO[str] | None = None

    def add(self, rejected: Rejection) -> None:
        """Count and keep a rejection; a strict quarantine raises `StrictError` instead."""
        if self.strict:
            raise StrictError(rejected)
        self.count += 1
        if len(self.samples) < self.SAMPLES:
            self.samples.append(rejected)
        if self.path is not None:
            if self._file is None:
                self._file, self.earlier = opened_log(str(self.path))
            self._file.write(json.dumps(rejected.to_record()) + "\n")

    def accept(self, read: Iterable[T | Rejection]) -> Iterator[T]:
        """What was read, with the rejections taken out."""
        for one in read:
            if isinstance(one, Rejection):
                self.add(one)
            else:
                yield one

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._file is not None:
            self._file.close()
        elif self.path is not None and error is None:
            self.earlier = moved_log(str(self.path))
