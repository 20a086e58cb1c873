"""Ids of derived items: made of the inputs' alone, never of names of operators or queries, nor of arrival.

So equal operators of two queries give equal items, and so do the replicas of one. Each form is injective: two
items of one stream never get the same id. All of them are plain concatenations, as any engine can make them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def union_id(index: int, item_id: str) -> str:
    """The id of an item that came by the union's input of this index."""
    return f"{index}:{item_id}"


def join_id(left: str, right: str) -> str:
    """The id of a pair; `%` and `&` of the left id are written as in a URL, so the first & is the separator.

    >>> join_id("a", "b&c"), join_id("a&b", "c")
    ('a&b&c', 'a%26b&c')
    """
    if "%" in left or "&" in left:
        left = left.replace("%", "%25").replace("&", "%26")
    return f"{left}&{right}"


def item_in_window_id(item_id: str, start: int) -> str:
    """The id of an item as one of the window that begins at `start`; windows may overlap."""
    return f"{item_id}@{start}"


def window_id(start: int, values: Iterable[Any]) -> str:
    """The id of a group's result in the time window that begins at `start`.

    >>> window_id(60_000, ["OTE", None, 7, True])
    '60000|3:OTE||7|true'
    """
    return str(start) + group_text(values)


def ordinal_id(ordinal: int, values: Iterable[Any]) -> str:
    """The id of a group's result in its count window of this ordinal, from 0 on."""
    return f"#{ordinal}{group_text(values)}"


def function_id(of: str, ordinal: int) -> str:
    """The id of a row that a user's function gave for `of`; the rows of a call are numbered from 0."""
    return f"{of}/{ordinal}"


def group_text(values: Iterable[Any]) -> str:
    """The values of a group: texts with their length before them, nothing for null."""
    return "".join("|" + _value_text(value) for value in values)


def group_of(attributes: Mapping[str, Any], names: Sequence[str]) -> tuple[Any, ...]:
    """The values by which an item is grouped."""
    return tuple([attributes[name] for name in names])


def _value_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return f"{len(value)}:{value}"
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
