"""`distributary run` in a session of its own, so that it can be killed with all its children."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from chaos.halting import HALTED

POLL = 0.01
DEADLINE = 1200.0


class Victim:
    """A running pipeline. Its Python workers have a process group, but not a session, of their own.

    It may be told to stand still in a phase of a batch's commit (see `halting`).
    """

    def __init__(self, place: Path, master: str, halt: tuple[str, int] | None = None) -> None:
        self.place = place
        self._said = _size(place / "output.txt")
        program = ["-m", "distributary"]
        if halt is not None:
            program = [str(Path(__file__).with_name("halting.py")), halt[0], str(halt[1])]
        command = [sys.executable, *program, "run", str(place / "pipeline.toml")]
        with (place / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(
                [*command, "--master", master],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable},
            )

    @property
    def halted(self) -> bool:
        """Whether it stands still where it was told to."""
        said = (self.place / "output.txt").read_bytes()[self._said :]
        return HALTED.encode() in said

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds while the process lives."""
        deadline = time.monotonic() + DEADLINE
        while not holds():
            if not self.alive:
                raise AssertionError(f"it ended by itself before {what}:\n{self.told()}")
            if time.monotonic() > deadline:
                raise AssertionError(f"{what} did not come in {DEADLINE:.0f} s:\n{self.told()}")
            time.sleep(POLL)

    def finish(self) -> int:
        """Wait for its end; returns the exit code."""
        return self._process.wait(DEADLINE)

    def kill(self) -> bool:
        """SIGKILL the process and all its children; whether it was alive until then."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        code = self._process.wait(DEADLINE)
        deadline = time.monotonic() + DEADLINE
        while members := [*self.members()]:
            if time.monotonic() > deadline:
                raise AssertionError(f"these survive SIGKILL: {members}")
            for pid in members:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(POLL)
        return code == -signal.SIGKILL

    def members(self) -> Iterator[int]:
        """The live processes of its session."""
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit():
                with suppress(OSError):
                    # Behind the command's name, which may hold anything: state, parent, group, session.
                    after = (entry / "stat").read_text().rpartition(")")[2].split()
                    if int(after[3]) == self._process.pid and after[0] not in "ZX":
                        yield int(entry.name)

    def workers(self) -> list[int]:
        """The Python workers that run tasks: children of the daemon, which is itself no child of ours."""
        parents = {}
        for pid in self.members():
            with suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                if b"pyspark.daemon" in command:
                    after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    parents[pid] = int(after[1])
        return sorted(pid for pid, parent in parents.items() if parent in parents)

    def told(self) -> str:
        """The end of what it has said."""
        files = [self.place / "output.txt", self.place / "pipeline.log"]
        return "\n".join(path.read_text(errors="replace")[-4000:] for path in files if path.exists())


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
