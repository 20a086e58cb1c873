"""A process has one temporary directory, and none outlives its process for long."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from distributary.spark.index import temporary

MAKING = """
import os, runpy, sys
temporary_directory = runpy.run_path(sys.argv[2])["temporary_directory"]  # without loading Spark
print(temporary_directory(), flush=True)
if sys.argv[1] == "forks" and (child := os.fork()):
    os.waitpid(child, 0)
    print(temporary_directory().exists(), flush=True)
if sys.argv[1] == "waits":
    sys.stdin.read()
"""


def started(place: Path, how: str) -> tuple[subprocess.Popen[str], Path]:
    """A process, and the temporary directory that it has made below a place."""
    process = subprocess.Popen(
        [sys.executable, "-c", MAKING, how, temporary.__file__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={"TMPDIR": str(place)},
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_process_has_one_directory_and_removes_it_at_its_end(tmp_path: Path) -> None:
    process, directory = started(tmp_path, "ends")
    process.communicate(timeout=60)
    assert directory.parent == tmp_path
    assert list(tmp_path.iterdir()) == []
    assert temporary.temporary_directory() == temporary.temporary_directory()


def test_a_process_that_was_forked_leaves_the_directory_of_the_other(tmp_path: Path) -> None:
    process, _ = started(tmp_path, "forks")
    out, _ = process.communicate(timeout=60)
    assert out.split() == ["True"]
    assert list(tmp_path.iterdir()) == []


def test_the_directory_of_a_killed_process_is_removed_by_the_next_and_that_of_a_live_one_is_not(
    tmp_path: Path,
) -> None:
    (tmp_path / "distributary-somebody").mkdir()
    living, kept = started(tmp_path, "waits")
    killed, left = started(tmp_path, "waits")
    killed.send_signal(signal.SIGKILL)
    killed.communicate(timeout=60)
    assert left.exists()
    started(tmp_path, "ends")[0].communicate(timeout=60)
    assert sorted(tmp_path.iterdir()) == sorted([kept, tmp_path / "distributary-somebody"])
    living.communicate(timeout=60)
    assert list(tmp_path.iterdir()) == [tmp_path / "distributary-somebody"]
