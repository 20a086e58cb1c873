"""Whoever waits for kernels to be compiled is told, on the standard error and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import sys
import termios
from typing import Any

import numba
import pytest

from distributary.kernel import progress
from distributary.kernel.progress import COMPILING, ERASE, PROGRESS, CompilationLine, compiling_told

WIDTH = 80


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


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> CompilationLine:
    """The line of this process, without patience, as if it had not been shown."""
    monkeypatch.setattr(progress, "PATIENCE", 0.0)
    monkeypatch.setattr(PROGRESS, "_shown", False)
    monkeypatch.delenv("DISTRIBUTARY_PROGRESS", raising=False)
    return PROGRESS


def compile_one(module: str = "distributary.somewhere") -> None:
    def inner(number: int) -> int:
        return 2 * number

    inner.__module__ = module
    compiled: Any = numba.njit(inner)

    def outer(number: int) -> int:
        return compiled(number) + 1  # type: ignore[no-any-return]

    outer.__module__ = module
    numba.njit(outer)(1)


class Terminal:
    """A terminal of so many columns, in place of the standard error while something is run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._patch = monkeypatch

    def shows(self, module: str = "distributary.somewhere") -> str:
        """What is written to it while a kernel is compiled."""
        ours, its = pty.openpty()
        termios.tcsetwinsize(its, (24, WIDTH))
        with os.fdopen(ours, "rb", buffering=0) as reader, os.fdopen(its, "w") as stderr:
            with self._patch.context() as patch:
                patch.setattr(sys, "stderr", stderr)
                compile_one(module)
            stderr.write("END")
            stderr.flush()
            written = b""
            while not written.endswith(b"END"):
                written += reader.read(4096)
        return written.removesuffix(b"END").decode()


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in place of the standard error."""
    return Terminal(monkeypatch)


def test_a_terminal_shows_one_line_that_is_gone_when_kernels_are_compiled(
    shown: CompilationLine, terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    before, PROGRESS._before = PROGRESS.count, 0.0
    written = terminal.shows()
    first, *rest = written.split(ERASE)
    assert first == " " * (WIDTH - 1)  # to a new line, if the program has begun one
    assert rest[-1] == ""
    assert "\n" not in written
    assert len(rest) == 3  # the kernel, the one that it calls, and the end
    for line, name in zip(rest, ("outer", "inner"), strict=False):
        whole = f"distributary compiles for this machine: {before} kernels, 0 s, somewhere.compile_one"
        assert line == f"{whole}.<locals>.{name}"[: WIDTH - 1]
    assert capsys.readouterr().out == ""


def test_what_a_program_compiles_of_its_own_is_not_told(shown: CompilationLine, terminal: Terminal) -> None:
    assert terminal.shows(module="somebody.else") == ""


def test_a_terminal_shows_nothing_before_it_takes_long(
    shown: CompilationLine, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", 1e9)
    assert terminal.shows() == ""


def test_a_terminal_shows_nothing_to_those_who_want_silence_or_are_told_otherwise(
    shown: CompilationLine, terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    with compiling_told(told.append):
        assert terminal.shows() == ""
    assert told
    monkeypatch.setenv("DISTRIBUTARY_PROGRESS", "0")
    assert terminal.shows() == ""


def test_a_log_has_a_line_if_that_is_asked_for_and_only_once(
    shown: CompilationLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = io.StringIO()
    monkeypatch.setattr(sys, "stderr", log)
    compile_one()
    assert log.getvalue() == ""
    monkeypatch.setenv("DISTRIBUTARY_PROGRESS", "1")
    compile_one()
    compile_one()
    assert log.getvalue() == f"distributary: {COMPILING}\n"


def test_kernels_are_compiled_where_there_is_no_standard_error(
    shown: CompilationLine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DISTRIBUTARY_PROGRESS", "1")
    monkeypatch.setattr(sys, "stderr", None)
    before = shown.count
    compile_one()
    assert shown.count == before + 1
