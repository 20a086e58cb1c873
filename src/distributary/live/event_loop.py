"""How the process of a node is set up: its event loop, its memory and its garbage collector.

- uvloop where it is installed (`pip install 'distributary[live]'`): one message at a time takes some two
  thirds of the time that it takes with asyncio's own loop.
- glibc keeps memory that was given back up to a bound, in place of asking the system for every large block.
- Python's collector looks at young objects less often by their number: a broker makes hundreds of thousands
  of events a second, which are no garbage until the log forgets them, and hardly anything in circles. Instead
  they are looked at once, ten times a second: what has gathered by then is not much, so that nobody waits
  for long meanwhile. (50,000 objects took 40 to 200 ms on a busy machine.) All objects are looked at once an
  hour (1.4 s there, with 54,000 events of 1 KB that waited for their subscriber).
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
LOOKED_AT = 0.1
"""Seconds after which new objects are looked at."""
YOUNG, MIDDLE, OLD = 50_000, 20, 36_000
"""New objects after which they are looked at before that, and how many rounds before the older ones are."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
"""The parameters of mallopt(3)."""


def run_node(main: Coroutine[Any, Any, T]) -> T:
    """Run the coroutine of a process that is a node, to its end."""
    gc.set_threshold(YOUNG, MIDDLE, OLD)
    _keep_memory()
    quick = find_spec("uvloop") is not None
    with asyncio.Runner(loop_factory=import_module("uvloop").new_event_loop if quick else None) as runner:
        return runner.run(_collecting(main))


async def _collecting(main: Coroutine[Any, Any, T]) -> T:
    """Do what a coroutine does, and look for garbage often meanwhile, a little at a time."""
    collecting = asyncio.create_task(_collect())
    try:
        return await main
    finally:
        collecting.cancel()


async def _collect() -> None:
    while True:
        for _ in range(OLD):
            await asyncio.sleep(LOOKED_AT)
            gc.collect(1)
        gc.collect()


def _keep_memory() -> None:
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):  # another C library has no such function
            library = ctypes.CDLL(None)
            library.mallopt(M_MMAP_THRESHOLD, KEPT_BLOCK)
            library.mallopt(M_TRIM_THRESHOLD, KEPT_BLOCK)
