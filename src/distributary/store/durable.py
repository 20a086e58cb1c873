"""Files that appear whole, at most once under a name, and stay: what the directory store rests on.

A file is written under a name of its own, brought to disk, and then linked to its final name. The link
either succeeds or finds the name taken, in one step for everybody on this machine or a shared POSIX file
system; there is no lock that a killed process could leave behind. What such a process does leave, a file in
the temporary directory, harms nobody and is swept away after a day.
"""

from __future__ import annotations

import errno
import os
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import IO

from distributary.errors import DistributaryError

STALE = 24 * 60 * 60
"""After so many seconds a temporary file is a leftover of a killed process."""

NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EMLINK})


def publish(path: Path, temporary: Path, write: Callable[[IO[bytes]], object]) -> bool:
    """Make a file durable under `path`; False, and nothing changed, when that name is taken."""
    make_directory(temporary)  # which a copy of the store may lack, for it is empty
    partial = temporary / f"{uuid.uuid4().hex}.partial"
    try:
        with partial.open("xb") as stream:
            write(stream)
            stream.flush()
            os.fsync(stream.fileno())
        linked = _link(partial, path)
    finally:
        partial.unlink(missing_ok=True)
    synchronise(path.parent)
    return linked


def _link(partial: Path, path: Path) -> bool:
    try:
        os.link(partial, path)
    except FileExistsError:
        # A network file system may repeat a request whose reply was lost; then the name taken is our own.
        return partial.stat().st_nlink > 1
    except OSError as error:
        if error.errno in NO_HARD_LINKS:
            raise DistributaryError(
                f"{path.parent} is on a file system without hard links, which a store in a directory needs; "
                "choose another path, or a database"
            ) from None
        raise
    return True


def synchronise(directory: Path) -> None:
    """Bring the names in a directory to disk."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory, and those above it, durably; one that is there already is left alone."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    synchronise(path.parent)


def sweep(temporary: Path) -> None:
    """Remove what killed processes left."""
    oldest = time.time() - STALE
    for left in temporary.glob("*.partial"):
        try:
            if left.stat().st_mtime < oldest:
                left.unlink()
        except FileNotFoundError:
            continue
