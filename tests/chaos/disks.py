"""Disks of nodes that can be filled while the nodes run.

    disks = TrialDisks(directory)
    disks.mount("node-1")                   # before the node starts
    disks.fill("node-1", pid)               # from now on nothing more can be written there
    disks.make_room("node-1")
    disks.release()

Where this process may mount, each data directory is a file system of its own in memory, of `ROOM` bytes, and
filled by a file that takes all that is left. Elsewhere the process of the node is forbidden to write to any
file beyond a few kilobytes (`RLIMIT_FSIZE`), until it ends.
"""

from __future__ import annotations

import errno
import os
import resource
import subprocess
from pathlib import Path

ROOM = 24 << 20
BALLAST = "ballast"
PART = 1 << 16
LOG_ROOM = 1 << 14
"""Bytes that a node without room for its data may still write to its log."""


class TrialDisks:
    """The data directories of the nodes of a trial."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._mounted: list[Path] = []

    def mount(self, name: str) -> None:
        """Give a node a disk of its own, if that can be had here."""
        place = self._place(name)
        place.mkdir(parents=True, exist_ok=True)
        command = ["mount", "-t", "tmpfs", "-o", f"size={ROOM}", "tmpfs", str(place)]
        if os.geteuid() == 0 and subprocess.run(command, capture_output=True).returncode == 0:
            self._mounted.append(place)

    def stays_full(self, name: str) -> bool:
        """Whether a disk that was filled is full for the next process, too."""
        return self._place(name) in self._mounted

    def fill(self, name: str, pid: int) -> None:
        """Leave a node that runs no room; where it has ended, fill what that has set free."""
        if not self.stays_full(name):
            limit = (self._directory / f"{name}.log").stat().st_size + LOG_ROOM
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, limit))
            return
        with open(self._place(name) / BALLAST, "ab", buffering=0) as ballast:
            size = PART
            while size:
                try:
                    ballast.write(bytes(size))
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    size //= 2

    def make_room(self, name: str) -> None:
        """Take away what filled a disk."""
        (self._place(name) / BALLAST).unlink(missing_ok=True)

    def release(self) -> None:
        """Take all disks away, once no node runs; files that a failed test left open do not matter."""
        for place in self._mounted:
            subprocess.run(["umount", "--lazy", str(place)], capture_output=True)
        self._mounted.clear()

    def _place(self, name: str) -> Path:
        return self._directory / f"{name}.data"
