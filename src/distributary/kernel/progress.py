"""Tells people why a program waits: kernels are compiled the first time that they are needed on a machine.

A command asks to be told (`compiling_told`). A program that uses the library does not: where its standard
error is a terminal, one line there says what is compiled as soon as that takes long, and disappears when
it is done. The environment variable DISTRIBUTARY_PROGRESS decides otherwise: 0 is silence, and 1 asks
for a line where there is no terminal either, such as in a log; there it is written once.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event

COMPILING = "compiling kernels for this machine, which takes a minute or two the first time ..."
"""What is told when kernels are not in the cache."""
PATIENCE = 1.0
"""Seconds that kernels are compiled before that is told to somebody who did not ask for it."""
ERASE = "\r\x1b[K"
"""What makes a terminal forget the line that the cursor is in."""


class _Compilations(event.Listener):  # type: ignore[misc]
    """Counts the kernels that are compiled; those that others call are compiled within them."""

    def __init__(self) -> None:
        self.count = 0
        self._before = 0.0
        self._within = 0
        self._start = 0.0

    @property
    def seconds(self) -> float:
        """How long kernels were compiled until now."""
        return self._before + (time.perf_counter() - self._start if self._within else 0.0)

    def on_start(self, event: event.Event) -> None:
        if not self._within:
            self._start = time.perf_counter()
        self._within += 1

    def on_end(self, event: event.Event) -> None:
        if self._within == 1:
            self.count += 1
            self._before = self.seconds
        self._within -= 1


class _CompilationNotice(_Compilations):
    """Tells whoever asked, before the first kernel is compiled."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        super().__init__()
        self._tell = tell

    def on_start(self, event: event.Event) -> None:
        if not self.count and not self._within:
            self._tell(COMPILING)
        super().on_start(event)


class CompilationLine(_Compilations):
    """The line on the standard error, for those who did not ask."""

    def __init__(self) -> None:
        super().__init__()
        self.silenced = 0
        """How many others tell of it now."""
        self._shown = False

    def on_start(self, event: event.Event) -> None:
        """Show what is compiled, unless it is a program's own."""
        name = _name(event.data["dispatcher"])
        if self._within or name.startswith("distributary."):
            super().on_start(event)
            self._show(name.removeprefix("distributary."))

    def on_end(self, event: event.Event) -> None:
        """Take the line away before the program goes on."""
        if self._within:
            super().on_end(event)
        if self._shown and not self._within and _is_terminal():
            self._shown = False
            _write(ERASE)

    def _show(self, name: str) -> None:
        if self.silenced or self.seconds < PATIENCE or not _is_wanted():
            return
        if _is_terminal():
            # Spaces up to the end of a line lead into the next one, unless the cursor is where a line begins:
            # what a program has written there is kept.
            width = os.get_terminal_size(sys.stderr.fileno()).columns
            line = (
                f"distributary compiles for this machine: {self.count} kernels, {self.seconds:,.0f} s, {name}"
            )
            _write((ERASE if self._shown else " " * (width - 1) + ERASE) + line[: width - 1])
        elif not self._shown:
            _write(f"distributary: {COMPILING}\n")
        self._shown = True


PROGRESS = CompilationLine()
"""The one line of this process; `distributary.kernel` has Numba tell it of what is compiled."""


@contextmanager
def compiling_told(tell: Callable[[str], object]) -> Iterator[None]:
    """Tell of kernels that no cache has: before the first is compiled, and at the end how long that took."""
    listener = _CompilationNotice(tell)
    PROGRESS.silenced += 1
    try:
        with event.install_listener("numba:compile", listener):
            yield
    finally:
        PROGRESS.silenced -= 1
    if listener.count:
        tell(f"compiled {listener.count} kernels in {listener.seconds:,.0f} s; the next run finds them")


def _name(dispatcher: Any) -> str:
    function = dispatcher.py_func
    return f"{function.__module__}.{function.__qualname__}"


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty() and os.get_terminal_size(sys.stderr.fileno()).columns > 1
    except (
        AttributeError,
        OSError,
        ValueError,
    ):  # none, closed, or something else in its place
        return False


def _is_wanted() -> bool:
    asked = os.environ.get("DISTRIBUTARY_PROGRESS")
    return asked != "0" and (asked is not None or _is_terminal())


def _write(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()
