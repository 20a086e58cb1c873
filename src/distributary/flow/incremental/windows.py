"""Running joins, arrangements and functions of windows (see `running` for the rules).

What each remembers: a join, the items that a later one may still pair with; sort, truncate, unique and
windowed functions, the items of open windows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from distributary.flow.incremental.operators import item_function
from distributary.flow.incremental.running import END, Group, RunningOperator, Schemas, State, item_state
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


class RunningJoin(RunningOperator):
    """Each new item meets the items of the other side with its key that are near in time."""

    def __init__(self, join: Join, schemas: Schemas) -> None:
        super().__init__(2)
        self._within = join.within
        self._keys = tuple(join.on), tuple(join.on.values())
        self._from_right = list(join.from_right(schemas[1]).items())
        self._time_name = join.schema(*schemas).time
        self._kept: tuple[dict[Group, list[Item]], dict[Group, list[Item]]] = ({}, {})

    @property
    def watermark(self) -> int:
        """A left item may still meet a right one that is `within` later, unless the right has ended."""
        left, right = self.watermarks
        return min(left, right if right == END else right - self._within)

    def _receive(self, input: int, item: Item) -> list[Item]:
        key = group_of(item.attributes, self._keys[input])
        if None in key:
            return []
        if item.time + self._within >= self.watermarks[1 - input]:  # else nobody can come to meet it
            self._kept[input].setdefault(key, []).append(item)
        near = [
            other
            for other in self._kept[1 - input].get(key, ())
            if abs(other.time - item.time) <= self._within
        ]
        pairs = [self._pair(item, other) if input == 0 else self._pair(other, item) for other in near]
        return sorted(pairs, key=lambda pair: pair.order)

    def _pair(self, left: Item, right: Item) -> Item:
        attributes = dict(left.attributes)
        for name, original in self._from_right:
            attributes[name] = right.attributes[original]
        attributes[self._time_name] = left.time
        return Item(join_id(left.id, right.id), left.time, attributes)

    def _advance(self) -> list[Item]:
        for side in (0, 1):
            oldest = self.watermarks[1 - side] - self._within
            for key, items in list(self._kept[side].items()):
                items[:] = [item for item in items if item.time >= oldest]
                if not items:
                    del self._kept[side][key]
        return []

    def _state(self) -> State:
        sides = [[item_state(item) for items in side.values() for item in items] for side in self._kept]
        return {"kept": sides}

    def _restore(self, state: State) -> None:
        self._kept = ({}, {})
        for side, items in enumerate(state["kept"]):
            for item in (Item(*each) for each in items):
                key = group_of(item.attributes, self._keys[side])
                self._kept[side].setdefault(key, []).append(item)


class WindowBuffer(RunningOperator):
    """Keeps the items of each open window, and does something with them when it closes."""

    def __init__(self, window: TimeWindow, conclude: Callable[[int, list[Item]], list[Item]]) -> None:
        super().__init__(1)
        self._window = window
        self._conclude = conclude
        self._open: dict[int, list[Item]] = {}

    def _receive(self, input: int, item: Item) -> list[Item]:
        for start in self._window.starts(item.time):
            self._open.setdefault(start, []).append(item)
        return []

    def _advance(self) -> list[Item]:
        closed = [start for start in self._open if start + self._window.size <= self.watermark]
        return [result for start in sorted(closed) for result in self._conclude(start, self._open.pop(start))]

    def _state(self) -> State:
        return {"open": [[start, list(map(item_state, items))] for start, items in self._open.items()]}

    def _restore(self, state: State) -> None:
        self._open = {start: [Item(*item) for item in items] for start, items in state["open"]}


Place = tuple[Sequence[Any], tuple[int, int, str]]
"""The values that decide what is kept and where, and the item's place in the input stream."""
Placed = tuple[Place, Item]


def kept(operation: Arrangement, placed: Iterable[Placed]) -> list[Placed]:
    """What an operation keeps of a window, in order.

    It is sorted from the last key to the first, for sorting leaves equals in their order.
    """
    ordered = sorted(placed, key=lambda each: each[0][1])
    for number, (_, downwards) in reversed(list(enumerate(operation.keys))):

        def key(each: Placed, number: int = number, last: bool = not downwards) -> tuple[Any, ...]:
            value = each[0][0][number]
            return (last,) if value is None else (not last, value)

        ordered.sort(key=key, reverse=downwards)
    match operation:
        case Truncate():
            return ordered[: operation.items]
        case Unique():
            first: dict[tuple[Any, ...], Placed] = {}
            for each in ordered:
                first.setdefault(tuple(each[0][0]), each)
            return list(first.values())
    return ordered


def arrangement(
    operation: Arrangement | PartialOperation[Arrangement] | MergeOperation[Arrangement], schemas: Schemas
) -> RunningOperator:
    """Gives what is kept of a window, ranked, when the window has passed.

    A replica hands on with each item what decided its place; the final operator places items by that.
    """
    whole = operation if isinstance(operation, Arrangement) else operation.whole
    time_name = operation.schema(*schemas).time

    def place(item: Item) -> Place:
        if isinstance(operation, MergeOperation):
            values, order = item.attributes[PARTIAL]
            return values, tuple(order)
        return group_of(item.attributes, whole.decided_by), item.order

    def conclude(start: int, items: list[Item]) -> list[Item]:
        time = start + whole.span.size - 1
        results = []
        for rank, (decided, item) in enumerate(kept(whole, [(place(item), item) for item in items]), 1):
            attributes = {name: value for name, value in item.attributes.items() if name != PARTIAL}
            attributes[time_name] = time
            if isinstance(operation, PartialOperation):
                attributes[PARTIAL] = decided
            results.append(Item(item.id, time, attributes, rank))
        return results

    return WindowBuffer(whole.span, conclude)


def function(operation: Function, schemas: Schemas) -> RunningOperator:
    """Calls a user's function for each window and group, or for each item if it has no window."""
    make = item_function if operation.window is None else RunningWindowFunction
    return make(operation, schemas)


class RunningWindowFunction(WindowBuffer):
    """A user's function over the items of each window, in its groups or, as a replica, as a partial state."""

    def __init__(self, operation: Function | PartialOperation[Function], schemas: Schemas) -> None:
        self._partial = isinstance(operation, PartialOperation)
        self._user = operation.whole if isinstance(operation, PartialOperation) else operation
        self._schema = operation.schema(*schemas)
        super().__init__(self._user.time_window, self._called)

    def _called(self, start: int, items: list[Item]) -> list[Item]:
        groups: dict[Group, list[Item]] = defaultdict(list)
        for item in sorted(items, key=lambda each: each.order):
            groups[group_of(item.attributes, self._user.by)].append(item)
        if self._partial:
            return [self._part(start, groups[()])]
        results: list[Item] = []
        for group, members in groups.items():
            try:
                results += call_window(self._user, self._schema, start, group, members)
            except CallError as error:
                self.rejected.append((window_id(start, group), str(error)))
        return results

    def _part(self, start: int, items: list[Item]) -> Item:
        time = start + self._window.size - 1
        attributes = {self._schema.time: time, PARTIAL: call_partial(self._user, items)}
        return Item(window_id(start, ()), time, attributes)


class RunningMergeFunction(RunningOperator):
    """The final operator of a user's function: the states of each window, merged as they come."""

    def __init__(self, operation: MergeOperation[Function], schemas: Schemas) -> None:
        super().__init__(1)
        self._user = operation.whole
        self._size = operation.whole.time_window.size
        self._schema = operation.schema(*schemas)
        self._open: dict[int, Any] = {}

    def _receive(self, input: int, item: Item) -> list[Item]:
        start = item.time - self._size + 1
        state = item.attributes[PARTIAL]
        self._open[start] = call_merge(self._user, self._open[start], state) if start in self._open else state
        return []

    def _advance(self) -> list[Item]:
        results: list[Item] = []
        for start in [start for start in self._open if start + self._size <= self.watermark]:
            try:
                results += call_finish(self._user, self._schema, start, self._open.pop(start))
            except CallError as error:
                self.rejected.append((window_id(start, ()), str(error)))
        return results

    def _state(self) -> State:
        return {"open": [[start, state] for start, state in self._open.items()]}

    def _restore(self, state: State) -> None:
        self._open = dict(state["open"])
