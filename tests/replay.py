"""Seeds of tests: those of `make chaos` are there when it asks; a failure names the command to repeat it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest


def chaos_seeds(first: int, count: int) -> list[Any]:
    """So many seeds for `make chaos` alone, as parameters of a test; none where nobody asks for chaos."""
    asked = os.environ.get("DISTRIBUTARY_CHAOS")
    return [pytest.param(first + number, marks=pytest.mark.chaos) for number in range(count if asked else 0)]


@contextmanager
def replayed_by(command: str) -> Iterator[None]:
    """Add to any exception raised inside the command that runs it again."""
    try:
        yield
    except Exception as error:
        error.add_note(f"run it again with: {command}")
        raise
