"""Kernels are compiled with or without a place to keep them, once for all processes."""

from __future__ import annotations

import fcntl
import gc
import os
import runpy
import sys
import time
from pathlib import Path
from subprocess import PIPE, Popen, run
from types import SimpleNamespace
from typing import Any

import numba
import pytest
from numba.core import event

from distributary.kernel import kernel
from distributary.kernel.compile import SELDOM

TOP = Path(__file__).parent.parent.parent


def test_a_kernel_runs_where_nothing_can_be_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bool] = []

    def refuse_to_cache(*, cache: bool = False, **options: Any) -> Any:
        tried.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr("distributary.kernel.compile.numba", SimpleNamespace(njit=refuse_to_cache))

    @kernel
    def double(number: int) -> int:
        return 2 * number

    assert double(21) == 42
    assert tried == [True, False]


MODULE = """
from distributary.kernel import kernel
from distributary.kernel.compile import SELDOM

@kernel
def inner(number):
    return 2 * number

@kernel
def outer(number):
    return inner(number) + 1
"""
USE = """
import sys
from distributary.kernel.progress import compiling_told
import some_kernels

print("ready", flush=True)
sys.stdin.readline()
told = []
with compiling_told(told.append):
    assert some_kernels.outer(20) == 41
print(len(told), flush=True)
"""


def test_processes_that_need_a_kernel_at_the_same_time_compile_it_once(tmp_path: Path) -> None:
    (tmp_path / "some_kernels.py").write_text(MODULE)
    paths = os.pathsep.join([str(TOP / "src"), str(tmp_path)])
    place = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": paths}
    processes = [
        Popen([sys.executable, "-c", USE], stdin=PIPE, stdout=PIPE, text=True, env=place) for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    assert sorted(process.communicate()[0] for process in processes) == ["0\n", "0\n", "2\n"]


FILES = {
    "innermost": "from distributary.kernel import inlined\n"
    "@inlined\ndef inner(number):\n    return number + 1",
    "between": "from distributary.kernel import kernel\nfrom innermost import inner\n"
    "@kernel\ndef middle(number):\n    return 10 * inner(number)",
    "outermost": "from distributary.kernel import kernel\nfrom between import middle\n"
    "@kernel\ndef outer(number):\n    return 10 * middle(number)",
}


def test_a_kernel_is_compiled_anew_when_a_file_changes_whose_kernels_it_calls(tmp_path: Path) -> None:
    for name, source in FILES.items():
        (tmp_path / f"{name}.py").write_text(source)
    paths = os.pathsep.join([str(TOP / "src"), str(tmp_path)])
    place = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": paths}
    command = [sys.executable, "-B", "-c", "import outermost; print(outermost.outer(1))"]
    for more in (1, 2):
        (tmp_path / "innermost.py").write_text(FILES["innermost"].replace("+ 1", f"+ {more}"))
        told = run(command, capture_output=True, text=True, env=place, check=True)
        assert told.stdout == f"{100 * (1 + more)}\n"


WITH_TABLE = """
from typing import NamedTuple
from distributary.kernel import kernel
from distributary.kernel.compile import SELDOM

class Pair(NamedTuple):
    first: int
    second: int

@kernel
def add(pair):
    return pair.first + pair.second

def use():
    return add(Pair(20, 1))
"""


def test_a_cache_that_names_a_class_of_an_earlier_version_is_made_anew(tmp_path: Path) -> None:
    module = tmp_path / "some_kernels.py"
    paths = os.pathsep.join([str(TOP / "src"), str(tmp_path)])
    place = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": paths}
    for source in (WITH_TABLE, WITH_TABLE.replace("Pair", "Two")):
        module.write_text(source)
        command = [sys.executable, "-B", "-c", "import some_kernels; print(some_kernels.use())"]
        assert run(command, capture_output=True, text=True, env=place, check=True).stdout == "21\n"


@pytest.mark.parametrize("wait", [0.0, 60.0])
def test_a_kernel_is_compiled_when_its_turn_comes_or_does_not_come(
    wait: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_kernels.py").write_text(MODULE)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("distributary.kernel.compile.LONGEST_WAIT", wait)
    names = runpy.run_path(str(tmp_path / "own_kernels.py"))
    waited: list[float] = []
    with open(tmp_path / "own_kernels.py") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def give_way(seconds: float) -> None:
            waited.append(seconds)
            fcntl.flock(other, fcntl.LOCK_UN)

        # In place of the module's name: other threads of the process sleep, too.
        clock = SimpleNamespace(monotonic=time.monotonic, sleep=give_way)
        monkeypatch.setattr("distributary.kernel.compile.time", clock)
        assert names["outer"](20) == 41
        assert bool(waited) == bool(wait)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it was given back


class Thresholds(event.Listener):  # type: ignore[misc]
    """Sees how seldom garbage is collected while kernels are compiled."""

    def __init__(self) -> None:
        self.seen: list[tuple[int, int, int]] = []

    def on_start(self, event: event.Event) -> None:
        self.seen.append(gc.get_threshold())

    def on_end(self, event: event.Event) -> None:
        pass


def test_garbage_is_collected_as_before_after_a_kernel_was_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "own_kernels.py").write_text(MODULE)
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))
    names = runpy.run_path(str(tmp_path / "own_kernels.py"))
    usual = gc.get_threshold()
    listener = Thresholds()
    try:
        with event.install_listener("numba:compile", listener):
            for number, often in ((20, 701), (20.5, 0), (True, 2 * SELDOM)):
                gc.set_threshold(often, 11, 12)
                names["outer"](number)
                assert gc.get_threshold() == (often, 11, 12)
    finally:
        gc.set_threshold(*usual)
    assert list(dict.fromkeys(listener.seen)) == [(SELDOM, 11, 12), (0, 11, 12), (2 * SELDOM, 11, 12)]
