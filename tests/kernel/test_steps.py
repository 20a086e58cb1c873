"""Kernels that kernels call have no machine code of their own, and do what they do when Python calls them."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from subprocess import run
from typing import Any

import numpy as np
import pytest

from distributary.kernel import Ints, inlined, kernel

TOP = Path(__file__).parent.parent.parent
LARGEST = 2**31 - 1
NAMES = ("one", "two")


@kernel
def named(number: int) -> str:
    if number >= len(NAMES):
        raise IndexError("no such name")
    return NAMES[number]


@kernel
def next_after(number: int) -> int:
    return number + 1


@inlined
def twice_next(number: int) -> int:
    return 2 * next_after(number)


@kernel
def called(numbers: Ints) -> int:
    return next_after(numbers[0]) + next_after(7) + twice_next(len(numbers)) + twice_next(-3)


@kernel
def factorial(number: int) -> int:
    if number < 2:
        return 1
    return number * factorial(number - 1)


@kernel
def sum_of_factorials(numbers: Ints) -> int:
    total = 0
    for number in numbers:
        total += factorial(number)
    return total


@kernel
def letters_of(number: int) -> int:
    return len(named(number))


@pytest.fixture
def fresh(tmp_path: Path) -> dict[str, Any]:
    """The kernels above, in no cache."""
    (tmp_path / "kernels.py").write_text(Path(__file__).read_text())
    return runpy.run_path(str(tmp_path / "kernels.py"))


def test_a_kernel_that_only_kernels_call_is_not_compiled_for_python(fresh: dict[str, Any]) -> None:
    numbers = np.array([LARGEST, 1], np.int32)
    assert fresh["called"](numbers) == (LARGEST + 1) + 8 + 2 * 3 + 2 * -2  # more than 32 bits hold
    assert len(fresh["called"].signatures) == 1
    assert fresh["next_after"].signatures == []
    assert fresh["twice_next"].signatures == []


def test_a_step_is_compiled_once_for_constants_and_whole_numbers_of_any_length(fresh: dict[str, Any]) -> None:
    for kind in (np.int32, np.int64):
        assert fresh["called"](np.array([1], kind)) == 2 + 8 + 2 * 2 + 2 * -2
    step = fresh["next_after"].get_overload.__self__
    assert [[str(kind) for kind in signature] for signature in step.signatures] == [["int64"]]


def test_python_calls_a_kernel_that_kernels_call_too() -> None:
    assert sum_of_factorials(np.array([3, 4], np.int32)) == 30
    assert factorial(5) == 120


def test_a_step_has_its_constants_and_raises_what_it_raises() -> None:
    assert letters_of(1) == 3
    with pytest.raises(IndexError, match="no such name"):
        letters_of(2)


STEPS = """
from distributary.kernel import kernel

NAMES = ("one", "three")

@kernel
def named(number):
    if number >= len(NAMES):
        raise IndexError("no such name")
    return NAMES[number]
"""
CALLER = """
from distributary.kernel import kernel
from some_steps import named

@kernel
def letters_of(number):
    return len(named(number)) + {more}
"""
USE = """
import sys
from numba.core import event
from distributary.kernel import kernel

class Names(event.Listener):
    def on_start(self, told):
        print(told.data["dispatcher"].py_func.__name__)
    def on_end(self, told):
        pass

event.register("numba:compile", Names())
from {module} import letters_of
print(letters_of(1))
try:
    letters_of(2)
except IndexError as error:
    print(error)
"""


def test_a_step_is_found_in_the_cache_by_other_processes(tmp_path: Path) -> None:
    (tmp_path / "some_steps.py").write_text(STEPS)
    paths = os.pathsep.join([str(TOP / "src"), str(tmp_path)])
    place = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": paths}
    compiled = []
    for more in range(2):
        (tmp_path / f"caller{more}.py").write_text(CALLER.format(more=more))
        program = USE.format(module=f"caller{more}")
        told = run([sys.executable, "-c", program], capture_output=True, text=True, env=place, check=True)
        *names, length, error = told.stdout.split("\n")[:-1]
        assert (length, error) == (str(5 + more), "no such name")
        compiled.append([name for name in names if name in ("letters_of", "named")])
    assert compiled == [["letters_of", "named"], ["letters_of"]]
