"""What the operations mean that look at several items: join, sort, truncate, unique, functions of windows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cmp_to_key, reduce
from typing import Any

from distributary.flow.interpreter.operators import Inputs, item_function
from distributary.flow.language.function import (
    CallError,
    Function,
    call_finish,
    call_merge,
    call_partial,
    call_window,
)
from distributary.flow.language.identifiers import group_of, join_id, window_id
from distributary.flow.language.schema import Item
from distributary.flow.language.window import TimeWindow
from distributary.flow.language.windowed import Arrangement, Join, Truncate, Unique
from distributary.flow.splitting import PARTIAL, MergeOperation, PartialOperation

Place = tuple[Sequence[Any], tuple[int, int, str]]
"""The values that decide what is kept and where, and the item's place in the input stream."""
Placed = tuple[Place, Item]


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
    return [item for _, item in _arranged(operation, given)]


def partial_arrangement(operation: PartialOperation[Arrangement], given: Inputs) -> list[Item]:
    """What a replica keeps of each window, with what decided the place of each item."""
    return [
        replace(item, attributes={**item.attributes, PARTIAL: place})
        for place, item in _arranged(operation.whole, given)
    ]


def merged_arrangement(operation: MergeOperation[Arrangement], given: Inputs) -> list[Item]:
    """What is kept of what all replicas kept, ranked."""
    by_window: dict[int, list[Placed]] = defaultdict(list)
    for item in given.items:
        by_window[item.time].append((item.attributes[PARTIAL], item))
    results = []
    for members in by_window.values():
        for rank, (_, item) in enumerate(_kept(operation.whole, members), 1):
            attributes = {name: value for name, value in item.attributes.items() if name != PARTIAL}
            results.append(Item(item.id, item.time, attributes, rank))
    return results


def _arranged(operation: Arrangement, given: Inputs) -> list[Placed]:
    """What an operation keeps of each window, with what decided the place of each item."""
    time_name = operation.schema(*given.schemas).time
    results = []
    for start, members in items_by_window(given.items, operation.span).items():
        time = start + operation.span.size - 1
        places = [((group_of(item.attributes, operation.decided_by), item.order), item) for item in members]
        for rank, (place, item) in enumerate(_kept(operation, places), 1):
            results.append((place, Item(item.id, time, {**item.attributes, time_name: time}, rank)))
    return results


def _kept(operation: Arrangement, items: Sequence[Placed]) -> list[Placed]:
    """What is kept of the items of a window, in order."""

    def compared(one: Placed, other: Placed) -> int:
        """Below 0 when one comes before the other."""
        for number, (_, downwards) in enumerate(operation.keys):
            left, right = one[0][0][number], other[0][0][number]
            if left is None or right is None:
                if left is not right:
                    return 1 if left is None else -1
            elif left != right:
                return 1 if (left > right) != downwards else -1
        return -1 if one[0][1] < other[0][1] else 1

    ordered = sorted(items, key=cmp_to_key(compared))
    if isinstance(operation, Truncate):
        return ordered[: operation.items]
    if isinstance(operation, Unique):
        values = [place[0] for place, _ in ordered]
        return [each for number, each in enumerate(ordered) if each[0][0] not in values[:number]]
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


def partial_function(operation: PartialOperation[Function], given: Inputs) -> list[Item]:
    """The state of a user's function for what a replica has of each window."""
    user = operation.whole
    time_name = operation.schema(*given.schemas).time
    results = []
    for start, inside in items_by_window(given.items, user.time_window).items():
        time = start + user.time_window.size - 1
        attributes = {time_name: time, PARTIAL: call_partial(user, inside)}
        results.append(Item(window_id(start, ()), time, attributes))
    return results


def merged_function(operation: MergeOperation[Function], given: Inputs) -> list[Item]:
    """What a user's function gives for the merged states of each window."""
    user = operation.whole
    schema = user.schema(operation.input_schema)
    states: dict[int, list[Any]] = defaultdict(list)
    for item in given.items:
        states[item.time - user.time_window.size + 1].append(item.attributes[PARTIAL])
    results: list[Item] = []
    for start, parts in states.items():
        try:
            merged = reduce(lambda one, other: call_merge(user, one, other), parts)
            results += call_finish(user, schema, start, merged)
        except CallError as error:
            given.reject(window_id(start, ()), str(error))
    return results
