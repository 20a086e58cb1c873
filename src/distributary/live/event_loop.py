"""How the process of a node is set up: its event loop, its memory and its garbage collector.

- uvloop where it is installed (`pip install 'distributary[live]'`): one message at a time takes some two
  thirds of the time that it takes with asyncio's own loop.
- glibc keeps memory that was given back up to a bound, in place of asking the system for every large block.
- Python's collector looks at young objects less often: a broker makes hundreds of thousands of events a
  second, which are no garbage until the log forgets them, and hardly anything in circles.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
from collections.abc import Coroutine
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from typing import Any, TypeVar

T = TypeVar("T")

KEPT_BLOCK = 64 << 20
"""Blocks of so many bytes are kept, and as much at the end of the heap."""
YOUNG, MIDDLE, OLD = 50_000, 20, 50
"""New objects after which the youngest are looked at, and how many such rounds before the older ones are."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""The parameters of mallopt(3)."""


def run_node(main: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine of a process that is a node, to its end."""
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    _keep_memory()
    quick = find_spec("uvloop") is not None
    with asyncio.Runner(loop_factory=import_module("uvloop").new_event_loop if quick else None) as runner:
        return runner.run(main)


def _keep_memory() -> None:
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library has no such function
            library = ctypes.CDLL(None)
            library.mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK)
            library.mallopt(M_TRIM_THRESHOLD, KEPT_BLOCK)
