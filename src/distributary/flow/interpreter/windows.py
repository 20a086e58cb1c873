"""What the operations mean that look at several items: join, sort, truncate, unique, functions of windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cmp_to_key
from typing import Any

from distributary.flow.interpreter.operators import Inputs, item_function
from distributary.flow.language.function import CallError, Function, call_window
from distributary.flow.language.identifiers import group_of, join_id, window_id
from distributary.flow.language.schema import Item
from distributary.flow.language.window import TimeWindow
from distributary.flow.language.windowed import Arrangement, Join, Truncate, Unique


def items_by_window(items: Sequence[Item], window: TimeWindow) -> dict[int, list[Item]]:
    """The items of each window that has any, by the window's start."""
    starts = {start for item in items for start in window.starts(item.time)}
    return {start: [item for item in items if start <= item.time < start + window.size] for start in starts}


def items_by_group(items: Iterable[Item], names: Sequence[str]) -> dict[tuple[Any, ...], list[Item]]:
    """The items of each group, by the values of the attributes named."""
    groups: dict[tuple[Any, ...], list[Item]] = defaultdict(list)
    for item in items:
        groups[group_of(item.attributes, names)].append(item)
    return groups


def join(operation: Join, given: Inputs) -> list[Item]:
    """Every pair of a left and a right item that are near in time and have equal keys."""
    time_name = operation.schema(*given.schemas).time
    from_right = operation.from_right(given.schemas[1])
    pairs = []
    for left in given.streams[0]:
        for right in given.streams[1]:
            near = abs(left.time - right.time) <= operation.within
            keys = [(left.attributes[one], right.attributes[other]) for one, other in operation.on.items()]
            if near and all(one is not None and one == other for one, other in keys):
                taken = {name: right.attributes[original] for name, original in from_right.items()}
                attributes = {**left.attributes, **taken, time_name: left.time}
                pairs.append(Item(join_id(left.id, right.id), left.time, attributes))
    return pairs


def arrangement(operation: Arrangement, given: Inputs) -> list[Item]:
    """What is kept of each window, ranked."""
    time_name = operation.schema(*given.schemas).time
    results = []
    for start, members in items_by_window(given.items, operation.span).items():
        time = start + operation.span.size - 1
        results += [
            Item(item.id, time, {**item.attributes, time_name: time}, rank)
            for rank, item in enumerate(_kept(operation, members), 1)
        ]
    return results


def _kept(operation: Arrangement, items: Sequence[Item]) -> list[Item]:
    """What is kept of the items of a window, in order."""

    def compared(one: Item, other: Item) -> int:
        """Below 0 when one comes before the other."""
        for name, downwards in operation.keys:
            left, right = one.attributes[name], other.attributes[name]
            if left is None or right is None:
                if left is not right:
                    return 1 if left is None else -1
            elif left != right:
                return 1 if (left > right) != downwards else -1
        return -1 if one.order < other.order else 1

    ordered = sorted(items, key=cmp_to_key(compared))
    if isinstance(operation, Truncate):
        return ordered[: operation.items]
    if isinstance(operation, Unique):
        values = [group_of(item.attributes, operation.by) for item in ordered]
        return [item for number, item in enumerate(ordered) if values[number] not in values[:number]]
    return ordered


def function(operation: Function, given: Inputs) -> list[Item]:
    """What a user's function gives for each window and group, or for each item if it has no window."""
    if operation.window is None:
        return item_function(operation, given)
    schema = operation.schema(*given.schemas)
    results: list[Item] = []
    for group, members in items_by_group(given.items, operation.by).items():
        for start, inside in items_by_window(members, operation.time_window).items():
            try:
                results += call_window(operation, schema, start, group, inside)
            except CallError as error:
                given.reject(window_id(start, group), str(error))
    return results
