"""Traces: everything that happens in a run as lines of text, byte for byte the same for the same seed.

Rules:

- A line is written for everything an observer is told: time, what, where, and the message or item in full,
  as `overlay.trace_text` writes them.
- A trace goes to a file (compressed when its name ends in `.gz`), or only into a digest.

A line looks like this:

    12.05 sent 17 > 93 Routed(keys=(88,), payload=Store(name='s1'), origin=17) | publish e4 depth 2

Cost: about ten microseconds a line.
"""

from __future__ import annotations

import gzip
import hashlib
import io
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import IO, Self, cast

from distributary.errors import DistributaryError
from distributary.output import opened_for_bytes
from distributary.overlay.node import Address, Message, Token
from distributary.overlay.trace_text import text_of
from distributary.sim.simulator import Cause, DeliveredItem, Observer

CONTEXT = 5
"""Lines shown before the first difference."""


class Trace(Observer):
    """Writes a trace to a file, or only computes its digest.

    >>> from distributary.overlay.node import Node
    >>> from distributary.sim.latency import ConstantLatency
    >>> from distributary.sim.simulator import Simulator
    >>> trace = Trace()
    >>> world = Simulator(1, ConstantLatency(0.05), [trace])
    >>> world.add(Node(7))
    >>> trace.lines, trace.digest()[:12]
    (1, '6e23f2d4ee97')
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.lines = 0
        self._digest = hashlib.sha256()
        self._files = ExitStack()
        self._stream = None if path is None else open_trace(Path(path), self._files)

    def digest(self) -> str:
        """The SHA-256 of all lines so far."""
        return self._digest.hexdigest()

    def close(self) -> None:
        """Close the file; later lines only enter the digest."""
        self._files.close()
        self._stream = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # What the simulator calls.

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None:
        self._write(f"{now!r} sent {sender} > {to} {text_of(message)} | {_cause_text(cause)} depth {depth}")

    def received(self, now: float, sender: Address, to: Address, message: Message) -> None:
        self._write(f"{now!r} received {sender} > {to} {text_of(message)}")

    def missed(self, now: float, sender: Address, to: Address, message: Message) -> None:
        self._write(f"{now!r} missed {sender} > {to} {text_of(message)}")

    def woken(self, now: float, address: Address, token: Token) -> None:
        self._write(f"{now!r} woken {address} {token.alarm} {text_of(token.about)}")

    def delivered(self, delivered: DeliveredItem) -> None:
        time, address, item, cause, depth = delivered
        self._write(f"{time!r} delivered {address} {text_of(item)} | {_cause_text(cause)} depth {depth}")

    def happened(self, now: float, address: Address | None, what: str) -> None:
        self._write(f"{now!r} happened {'everywhere' if address is None else address} {what}")

    def _write(self, line: str) -> None:
        line += "\n"
        self.lines += 1
        self._digest.update(line.encode())
        if self._stream is not None:
            self._stream.write(line)


def _cause_text(cause: Cause) -> str:
    if cause is None:
        return "upkeep"
    return " ".join(map(str, cause)) if type(cause) is tuple else text_of(cause)


@dataclass(frozen=True)
class Difference:
    """The first difference of two traces: line number, lines before, both lines (None at the end)."""

    number: int
    before: tuple[str, ...]
    first: str | None
    second: str | None

    def __str__(self) -> str:
        context = [f"  {line}" for line in self.before]
        ended = "(ends here)"
        return "\n".join(
            [
                f"the traces part at line {self.number:,}:",
                *context,
                f"< {self.first if self.first is not None else ended}",
                f"> {self.second if self.second is not None else ended}",
            ]
        )


def compare(first: str | Path, second: str | Path, *, context: int = CONTEXT) -> Difference | None:
    """The first difference of two traces; None when they are the same."""
    before: deque[str] = deque(maxlen=context)
    both = zip_longest(read_trace(Path(first)), read_trace(Path(second)))
    for number, (one, other) in enumerate(both, start=1):
        if one != other:
            return Difference(number, tuple(before), one, other)
        before.append(one)
    return None


def read_trace(path: Path) -> Iterator[str]:
    """The lines of a trace; DistributaryError when it cannot be read."""
    try:
        with (
            gzip.open(path, "rt", encoding="utf-8")
            if _is_compressed(path)
            else path.open(encoding="utf-8", newline="\n") as stream
        ):
            for line in stream:
                yield line.rstrip("\n")
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise DistributaryError(f"cannot read the trace {path}: {error}") from None


def open_trace(path: Path, files: ExitStack) -> IO[str]:
    """A file for the lines of a trace, compressed if its name says so, open as long as `files` are."""
    raw: IO[bytes] = files.enter_context(opened_for_bytes(str(path)))
    if _is_compressed(path):
        # Neither name nor time goes into the file, so that equal traces are equal files.
        packed = gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=5, mtime=0)
        raw = cast(IO[bytes], files.enter_context(packed))
    return files.enter_context(io.TextIOWrapper(raw, encoding="utf-8", newline="\n"))


def _is_compressed(path: Path) -> bool:
    return path.suffix == ".gz"
