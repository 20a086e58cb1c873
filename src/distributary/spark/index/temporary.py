"""The temporary directory of a process: it lasts as long as the process, in which frames may use it any time.

Rules: a process has one, `distributary-...` among the system's temporary directories, and removes it when it
ends. A process that is killed cannot; so every directory has a file that its process keeps locked as long as
it lives, and whoever makes a directory removes those that nobody has locked. Where there are no such locks
(Windows), a killed process's directory stays.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

PREFIX = "distributary-"
LOCK = "process.lock"


def temporary_directory() -> Path:
    """The directory of this process."""
    return _directory_of(os.getpid())


@cache
def _directory_of(process: int) -> Path:
    """Made once in a process: one that was forked from another has a number, and a directory, of its own."""
    _remove_abandoned()
    directory = Path(tempfile.mkdtemp(prefix=PREFIX))
    if fcntl is not None:
        # Locked before it has its name, so that nobody takes the directory for an abandoned one.
        unnamed = directory / f"{LOCK}.new"
        fcntl.flock(os.open(unnamed, os.O_WRONLY | os.O_CREAT), fcntl.LOCK_EX)
        unnamed.rename(directory / LOCK)
    atexit.register(_remove, directory, process)
    return directory


def _remove(directory: Path, process: int) -> None:
    """Remove the directory of this process; what was forked from it is asked to as well, and must not."""
    if os.getpid() == process:
        shutil.rmtree(directory, ignore_errors=True)


def _remove_abandoned() -> None:
    """Remove the directories whose process is gone."""
    if fcntl is None:
        return
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):  # locked by its process, another user's, or removed meanwhile
            file = os.open(lock, os.O_WRONLY)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(file)
