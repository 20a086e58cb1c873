"""Functions of a user's, as queries of the tests name them: `flow.functions:repeat`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from distributary.flow import Item


def repeat(item: Item, times: int = 2) -> Iterator[dict[str, Any]]:
    """Without a window: an item as several rows; fails for those with an empty id."""
    if not item.id[-1:].isascii():
        raise ValueError("not ASCII")
    for number in range(times):
        yield {"of": item.id, "number": number}


def shape(items: list[Item]) -> list[dict[str, Any]]:
    """The whole window matters: how many items, and the first and last in stream order."""
    return [{"of": items[0].id, "number": len(items)}, {"of": items[-1].id, "number": None}]


def odd(items: list[Item]) -> Iterator[tuple[Item, dict[str, Any]]]:
    """Any part of a window may be looked at alone: rows for some of the items."""
    for item in items:
        if item.time % 2:
            yield item, {"of": item.id, "number": item.time}


def ids(items: list[Item]) -> list[str]:
    return [item.id for item in items]


def merged_ids(one: list[str], other: list[str]) -> list[str]:
    return one + other


def sorted_ids(ids: list[str]) -> list[dict[str, Any]]:
    """From the state of a whole window to its rows; fails when there are many."""
    if len(ids) > 12:
        raise ValueError("too many")
    return [{"of": id, "number": len(ids)} for id in sorted(ids)]
