"""Failures of seeded tests name the command that repeats them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def replayed_by(command: str) -> Iterator[None]:
    """Add to any exception raised inside the command that runs it again."""
    try:
        yield
    except Exception as error:
        error.add_note(f"run it again with: {command}")
        raise
