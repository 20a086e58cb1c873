"""Tests that run in an event loop."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from inspect import signature
from typing import Any

LONGEST = 60
"""Seconds that a test may take."""


def alone(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own, for `LONGEST` seconds at most."""

    def run(**fixtures: Any) -> None:
        asyncio.run(asyncio.wait_for(test(**fixtures), LONGEST))
        gc.collect()  # what a test left open is its own fault, not that of the test that runs later

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    run.__signature__ = signature(test)  # type: ignore[attr-defined]
    return run


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; the test's own timeout is the end of patience."""
    while not holds():
        await asyncio.sleep(0.005)
