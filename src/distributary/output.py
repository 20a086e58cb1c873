"""Files that are written so that nothing is harmed, and that say in one sentence what went wrong.

Rules:

- A new file, or one that replaces another, is written beside its place as `<name>.partial` and takes its name
  when it is complete. It gets the permissions of the file it replaces. What breaks off stays as `.partial`.
- A device or a pipe is written into and never replaced; a symbolic link stays, and its target is written.
- A log, such as a quarantine, is written in place, line by line, so that whatever ends the process leaves
  all of it. What an earlier run has left there is kept: `<name>.1`, `<name>.2` and so on, the oldest first;
  also when this run has nothing to write, so that nobody takes the earlier log for that of this run.
- A full disk, a directory, a place that must not be written: `DistributaryError`. A pipe that nobody reads
  any more stays a `BrokenPipeError`: that is how `| head` ends a command.
"""

from __future__ import annotations

import errno
import io
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import IO, Any, cast

from distributary.errors import DistributaryError, UsageError

STANDARD = "-"
"""The name that means standard input or output."""

PARTIAL = ".partial"
"""What is added to the name of a file while it is being written."""

STANDARD_OUTPUT = (STANDARD, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


@contextmanager
def opened_for_writing(name: str) -> Iterator[IO[str]]:
    """A text file in UTF-8, or standard output for `-`. A file appears under its name when it is complete."""
    if name in STANDARD_OUTPUT:
        yield sys.stdout
        sys.stdout.flush()
        return
    with opened_for_bytes(name) as stream, io.TextIOWrapper(stream, encoding="utf-8") as text:
        yield text


@contextmanager
def opened_for_bytes(name: str) -> Iterator[io.BufferedWriter]:
    """A file of bytes, likewise; standard output cannot be one."""
    with _telling(name):
        target = _replaced_file(name)
    if target is None:
        with _in_place(name) as stream:
            yield stream
        return
    partial = Path(f"{target}{PARTIAL}")
    stream = _created(partial, name, like=target)
    try:
        with stream:
            yield stream
    except BaseException:
        with suppress(OSError):
            if not partial.stat().st_size:
                partial.unlink()
        raise
    with _telling(name):
        partial.rename(target)


def opened_log(name: str) -> tuple[IO[str], Path | None]:
    """A text file that is written in place, line by line, and where an earlier one of its name is kept."""
    with _telling(name):
        target = _replaced_file(name)
        if target is None:
            return _text_by_line(_in_place(name)), None
        kept = _moved_away(target)
    return _text_by_line(_created(target, name)), kept


def moved_log(name: str) -> Path | None:
    """Where the log of an earlier run is kept now, for a run that writes none; None when there was none.

    One that cannot be moved stays: nothing depends on it.
    """
    with suppress(OSError, DistributaryError):
        target = _replaced_file(name)
        return None if target is None else _moved_away(target)
    return None


def require_distinct(read: Mapping[str, str], written: Mapping[str, str]) -> None:
    """Refuse a file that is to be written while it is read, or written twice, whatever its names.

    The names are given by what they are for, such as `{"--events": "events.jsonl"}`. Terminals, sockets and
    devices such as /dev/null may serve several purposes.
    """
    purposes: dict[object, str] = {}
    for purpose, name in read.items():
        purposes.setdefault(_identity(name, sys.stdin), purpose)
    purposes.pop(None, None)
    for purpose, name in written.items():
        own = _identity(name, sys.stdout)
        for found in (own, _identity(f"{os.path.realpath(name)}{PARTIAL}", sys.stdout)):
            if found in purposes:
                raise UsageError(
                    f"{purpose} and {purposes[found]} are the same file, {name}, which would be overwritten: "
                    "name another one"
                )
        if own is not None:
            purposes[own] = purpose


def require_one_standard_input(subscriptions: str | None, events: str | None) -> None:
    """Refuse to read both from standard input."""
    if subscriptions == STANDARD and events == STANDARD:
        raise UsageError("subscriptions and events cannot both come from standard input")


def cannot_write(name: str, error: OSError) -> DistributaryError:
    """What is said when a place cannot be written."""
    return DistributaryError(f"cannot write {name}: {error.strerror or error}")


class _OutputFile(io.BufferedWriter):
    """A file that says its name when it cannot be written.

    Said here, not where bytes go to the system: there a signal could come between their being written and
    their being struck out of the buffer, and they would be written again.
    """

    def __init__(self, descriptor: int, shown: str) -> None:
        super().__init__(io.FileIO(descriptor, "wb"))
        self._shown = shown

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            raise self._told(error) from None

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise self._told(error) from None

    def _told(self, error: OSError) -> Exception:
        return error if isinstance(error, BrokenPipeError) else cannot_write(self._shown, error)


@contextmanager
def _telling(name: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise cannot_write(name, error) from None


def _replaced_file(name: str) -> Path | None:
    """The regular file that a name stands for, there or not; None for a device, a pipe or the like."""
    try:
        found = os.stat(name)
    except FileNotFoundError:
        if name.endswith("/"):
            raise _is_directory(name) from None
        return Path(os.path.realpath(name))
    if stat.S_ISDIR(found.st_mode):
        raise _is_directory(name)
    if not stat.S_ISREG(found.st_mode) or name.startswith(("/dev/", "/proc/")):
        return None
    if not os.access(name, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    return Path(os.path.realpath(name))


def _is_directory(name: str) -> DistributaryError:
    return DistributaryError(f"cannot write {name}: it is a directory; name a file in it")


def _in_place(name: str) -> io.BufferedWriter:
    with _telling(name):
        return _OutputFile(os.open(name, os.O_WRONLY | os.O_APPEND), name)


def _created(path: Path, name: str, *, like: Path | None = None) -> io.BufferedWriter:
    """A file made anew, with the owner and the permissions of another one if that is there."""
    with _telling(name):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Removed rather than truncated: it may be a link to something else.
        path.unlink(missing_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        if like is not None and like.exists():
            before = like.stat()
            with suppress(OSError):
                os.fchown(descriptor, before.st_uid, before.st_gid)
            os.fchmod(descriptor, stat.S_IMODE(before.st_mode))
    return _OutputFile(descriptor, name)


def _text_by_line(stream: io.BufferedWriter) -> IO[str]:
    return cast(IO[str], io.TextIOWrapper(stream, encoding="utf-8", line_buffering=True))


def _moved_away(path: Path) -> Path | None:
    """Keep what a file holds under the first free number; None when there is nothing to keep."""
    if not path.exists() or not path.stat().st_size:
        return None
    for number in count(1):
        kept = Path(f"{path}.{number}")
        if not os.path.lexists(kept):
            path.rename(kept)
            return kept
    raise AssertionError("numbers do not end")


def _identity(name: str, standard: IO[str]) -> object:
    """What two names of one file or named pipe have in common; None for all else."""
    try:
        found = os.fstat(standard.fileno()) if name == STANDARD else os.stat(name)
    except FileNotFoundError:
        return os.path.realpath(name)
    except (OSError, ValueError, AttributeError):
        return None
    kinds = (stat.S_ISREG, stat.S_ISFIFO, stat.S_ISBLK)
    return (found.st_dev, found.st_ino) if any(each(found.st_mode) for each in kinds) else None
