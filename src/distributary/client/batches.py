"""Events of a subscription taken together, for programs that make them safe before they go on.

    async with connect("ws://localhost:8080", name="ann", place=saved) as client:
        async with client.batches(id="s1", topic="quotes/*") as batches:
            async for taken in batches:
                save(taken.events, taken.place)

A batch counts as taken when the next one is asked for. Its place, saved together with it, lets another
process go on behind it: nothing is lost or given twice, whenever the process ends.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple, TypeVar

from distributary.model import Event

MOST_TAKEN = 1000
"""Events of one batch, at most."""

T = TypeVar("T")


class TakenEvents(NamedTuple):
    """Events that came one after the other."""

    events: list[Event]
    place: dict[str, Any]
    """Where they end, for `connect`; JSON can hold it."""


async def waiting_items(queue: asyncio.Queue[T | Exception]) -> list[T]:
    """What waits in a queue, at least one; raises the exception that stands first in it."""
    first = await queue.get()
    if isinstance(first, Exception):
        raise first
    items = [first]
    while len(items) < MOST_TAKEN and not queue.empty():
        item = queue.get_nowait()
        if isinstance(item, Exception):
            queue.put_nowait(item)  # nothing comes after it, so that it is the first the next time
            break
        items.append(item)
    return items
