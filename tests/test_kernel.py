"""Kernels are compiled with or without a place to keep them, and take arrays of one type."""

from __future__ import annotations

import fcntl
import os
import runpy
import sys
import time
from pathlib import Path
from subprocess import PIPE, Popen, run
from types import SimpleNamespace
from typing import Any

import numba
import numpy as np
import pytest

from distributary.kernel import CACHE_LINE, compiling_told, empty_in_line, kernel, sealed

TOP = Path(__file__).parent.parent


def test_a_kernel_runs_where_nothing_can_be_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[bool] = []

    def refuse_to_cache(*, cache: bool = False, **options: Any) -> Any:
        tried.append(cache)
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return numba.njit(**options)

    monkeypatch.setattr("distributary.kernel.numba", SimpleNamespace(njit=refuse_to_cache))

    @kernel
    def double(number: int) -> int:
        return 2 * number

    assert double(21) == 42
    assert tried == [True, False]


MODULE = """
from distributary.kernel import kernel

@kernel
def inner(number):
    return 2 * number

@kernel
def outer(number):
    return inner(number) + 1
"""
USE = """
import sys
from distributary.kernel import compiling_told
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


WITH_TABLE = """
from typing import NamedTuple
from distributary.kernel import kernel

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
    monkeypatch.setattr("distributary.kernel.LONGEST_WAIT", wait)
    names = runpy.run_path(str(tmp_path / "own_kernels.py"))
    waited: list[float] = []
    with open(tmp_path / "own_kernels.py") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def give_way(seconds: float) -> None:
            waited.append(seconds)
            fcntl.flock(other, fcntl.LOCK_UN)

        # In place of the module's name: other threads of the process sleep, too.
        clock = SimpleNamespace(monotonic=time.monotonic, sleep=give_way)
        monkeypatch.setattr("distributary.kernel.time", clock)
        assert names["outer"](20) == 41
        assert bool(waited) == bool(wait)
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)  # it was given back


def test_compiling_is_told_once_before_and_once_after_it() -> None:
    @numba.njit
    def inner(number: int) -> int:
        return 2 * number

    @numba.njit
    def outer(number: int) -> int:
        return inner(number) + 1

    told: list[str] = []
    with compiling_told(told.append):
        outer(1)
        assert [text.split()[0] for text in told] == ["compiling"]
        outer(1.5)
        assert len(told) == 1
    assert told[1].startswith("compiled 2 kernels")
    with compiling_told(told.append):
        outer(2)
    assert len(told) == 2


def test_sealed_arrays_are_plain_contiguous_and_read_only(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.arange(6))
    mapped = np.load(tmp_path / "a.npy", mmap_mode="r")
    for array in (np.arange(6), np.arange(12)[::2] // 2, mapped):
        view = sealed(array)
        assert type(view) is np.ndarray
        assert view.flags.c_contiguous
        assert not view.flags.writeable
        assert view.tolist() == [0, 1, 2, 3, 4, 5]
        assert sealed(view) is view


def test_sealing_leaves_the_array_itself_writable() -> None:
    array = np.zeros(3)
    sealed(array)
    array[0] = 1
    assert array.tolist() == [1, 0, 0]


@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.float64])
def test_an_array_can_begin_where_a_line_of_the_cache_does(kind: type[np.generic]) -> None:
    arrays = [empty_in_line(count, kind) for count in range(20)]
    assert [array.ctypes.data % CACHE_LINE for array in arrays[1:]] == [0] * 19
    assert [(array.dtype, array.shape) for array in arrays] == [(kind, (count,)) for count in range(20)]
