"""Seeds of tests: those of `make chaos` are there when it asks; a failure names the command to repeat it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from chaos.sizes import TIMES


def chaos_seeds(first: int, count: int) -> list[Any]:
    """So many seeds for `make chaos` alone, as parameters of a test; none where nobody asks for chaos."""
    asked = os.environ.get("DISTRIBUTARY_CHAOS")
    return [pytest.param(first + number, marks=pytest.mark.chaos) for number in range(count if asked else 0)]


def many_seeds(first: int, count: int) -> range:
    """The seeds of a test of `make chaos` that tries many in one go: so many with FULL=1, else a tenth.

    SEED chooses which, and TIMES how many tenths.
    """
    chosen = int(os.environ.get("DISTRIBUTARY_SEED", "1"))
    tenths = 10 if os.environ.get("DISTRIBUTARY_CHAOS_FULL") else TIMES
    begin = first + 100_000 * (chosen - 1)
    return range(begin, begin + min(count, count * tenths // 10))


@contextmanager
def replayed_by(command: str) -> Iterator[None]:
    """Add to any exception raised inside the command that runs it again."""
    try:
        yield
    except Exception as error:
        error.add_note(f"run it again with: {command}")
        raise
