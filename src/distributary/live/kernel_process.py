"""Has the kernels that brokers need compiled by a process of its own, while brokers go on without them.

Kernels are compiled once on a machine, in some two minutes of one core (`systems.kernel_use`). A node that
did it itself would answer nobody meanwhile, and the others would take it for one that is gone.

Rules:

- The brokers of one process have one such process, and none where the cache has everything already. It ends
  with the last broker that stops, or with a process that is killed; what it has compiled until then is in the
  cache.
- Until it has ended well, and for good if it cannot, the brokers of this process call no kernels.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Callable
from threading import Lock
from typing import IO

from distributary.systems.kernel_use import KERNELS, are_compiled

REHEARSAL = "distributary.systems.rehearsal"
BEGUN = (
    "kernels are compiled for this machine by a process of its own; until then filters are evaluated one by"
    " one, which answers the same and takes longer"
)
DONE = "kernels are compiled"
NEVER = (
    "kernels cannot be compiled or kept, so filters are evaluated one by one: let Numba write its cache"
    " (NUMBA_CACHE_DIR names a directory)"
)


class KernelProcess:
    """The process that compiles, for the brokers of this one. `state` is ready, compiling or withheld."""

    def __init__(self) -> None:
        self.state = "ready"
        self._lock = Lock()
        self._brokers = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._said: IO[bytes] | None = None

    def enter(self, notice: Callable[[str], None]) -> None:
        """A broker starts: have kernels compiled if need be."""
        with self._lock:
            self._brokers += 1
            if self._brokers > 1 or are_compiled():
                return
            KERNELS.withheld, self.state = True, "compiling"
            notice(BEGUN)
            try:
                self._said = tempfile.TemporaryFile()  # noqa: SIM115 as long as the process
                self._process = subprocess.Popen(
                    [sys.executable, "-m", REHEARSAL, "--attended"],
                    stdin=subprocess.PIPE,  # closed, however this process ends
                    stdout=self._said,
                    stderr=self._said,
                )
            except OSError as error:
                self.state = "withheld"
                notice(f"{NEVER}: {error.strerror}")

    def look(self, notice: Callable[[str], None]) -> None:
        """Now and then: see whether it is done."""
        with self._lock:
            if self._process is None or self._process.poll() is None:
                return
            if self._process.returncode == 0:
                KERNELS.withheld, self.state = False, "ready"
                notice(DONE)
            else:
                self.state = "withheld"
                notice(f"{NEVER}{self._last_words()}")
            self._end()

    def leave(self) -> None:
        """A broker has stopped; with the last one the process ends."""
        with self._lock:
            self._brokers -= 1
            if not self._brokers:
                self._end()
                KERNELS.withheld, self.state = False, "ready"

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None
        if self._said is not None:
            self._said.close()
            self._said = None

    def _last_words(self) -> str:
        """What the process said at its end."""
        if self._said is None:
            return ""
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").splitlines()
        return f": {lines[-1]}" if lines else ""


KERNEL_PROCESS = KernelProcess()
"""Of this process."""
