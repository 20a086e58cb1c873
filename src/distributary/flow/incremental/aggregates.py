"""Running aggregates (see `running` for the rules).

Over time windows an aggregate remembers, for each open window and group, the partial results; over count
windows also the items whose place in the stream is not certain yet, and how many each group has had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from distributary.flow.aggregates import Accumulator, Partial
from distributary.flow.incremental.running import Group, RunningOperator, Schemas, State, item_state
from distributary.flow.language.identifiers import group_of, ordinal_id, window_id
from distributary.flow.language.schema import Item, Schema
from distributary.flow.language.window import TimeWindow
from distributary.flow.language.windowed import Aggregate
from distributary.flow.splitting import PARTIAL, MergeOperation, PartialOperation


class RunningAggregate(RunningOperator):
    """Time windows: from items or from partial results of replicas, to results or to partial results."""

    def __init__(
        self,
        operation: Aggregate | PartialOperation[Aggregate] | MergeOperation[Aggregate],
        schemas: Schemas,
    ) -> None:
        super().__init__(1)
        aggregate = operation if isinstance(operation, Aggregate) else operation.whole
        assert isinstance(aggregate.span, TimeWindow)
        self._window = aggregate.span
        self._group_by = aggregate.group_by
        self._merging = isinstance(operation, MergeOperation)
        given = operation.input_schema if isinstance(operation, MergeOperation) else schemas[0]
        accumulators = aggregate.accumulators(given)
        self._accumulators = list(accumulators.values())
        time_name = operation.schema(*schemas).time
        conclude = handing_on if isinstance(operation, PartialOperation) else concluding
        self._conclude = conclude(aggregate, accumulators, time_name)
        self._open: dict[int, dict[Group, list[Partial]]] = {}

    def _receive(self, input: int, item: Item) -> list[Item]:
        group = group_of(item.attributes, self._group_by)
        if self._merging:
            partials = self._partials(item.time - self._window.size + 1, group)
            for place, accumulator in enumerate(self._accumulators):
                partials[place] = accumulator.merge(partials[place], tuple(item.attributes[PARTIAL][place]))
            return []
        for start in self._window.starts(item.time):
            partials = self._partials(start, group)
            for place, accumulator in enumerate(self._accumulators):
                partials[place] = accumulator.add(partials[place], item.attributes)
        return []

    def _partials(self, start: int, group: Group) -> list[Partial]:
        groups = self._open.setdefault(start, {})
        if group not in groups:
            groups[group] = [accumulator.start for accumulator in self._accumulators]
        return groups[group]

    def _advance(self) -> list[Item]:
        size = self._window.size
        closed = [start for start in self._open if start + size <= self.watermark]
        return [
            Item(window_id(start, group), start + size - 1, self._conclude(group, start + size - 1, partials))
            for start in closed
            for group, partials in self._open.pop(start).items()
        ]

    def _state(self) -> State:
        return {
            "open": [
                [
                    start,
                    [[list(group), [list(each) for each in partials]] for group, partials in groups.items()],
                ]
                for start, groups in self._open.items()
            ]
        }

    def _restore(self, state: State) -> None:
        self._open = {
            start: {tuple(group): [tuple(each) for each in partials] for group, partials in groups}
            for start, groups in state["open"]
        }


def aggregation(operation: Aggregate, schemas: Schemas) -> RunningOperator:
    """Gives a result for each window and group when the window has passed, or is full."""
    timed = isinstance(operation.span, TimeWindow)
    return RunningAggregate(operation, schemas) if timed else RunningCountWindows(operation, schemas[0])


Conclude = Callable[[Group, int, list[Partial]], dict[str, Any]]
"""From a group, the time of a window's result and what is known of its items to the result's attributes."""


def handing_on(aggregate: Aggregate, accumulators: dict[str, Accumulator], time_name: str) -> Conclude:
    """How a replica hands the partial results of a window on."""

    def conclude(group: Group, time: int, partials: list[Partial]) -> dict[str, Any]:
        groups = dict(zip(aggregate.group_by, group, strict=True))
        return {**groups, time_name: time, PARTIAL: tuple(partials)}

    return conclude


def concluding(aggregate: Aggregate, accumulators: dict[str, Accumulator], time_name: str) -> Conclude:
    """How a window's partial results become the attributes of its result."""
    finishes = [(name, accumulator.finish) for name, accumulator in accumulators.items()]

    def conclude(group: Group, time: int, partials: list[Partial]) -> dict[str, Any]:
        attributes = dict(zip(aggregate.group_by, group, strict=True))
        for (name, finish), partial in zip(finishes, partials, strict=True):
            attributes[name] = finish(partial)
        attributes[time_name] = time
        return attributes

    return conclude


class RunningCountWindows(RunningOperator):
    """Count windows: each group's items are numbered once their order is certain."""

    def __init__(self, aggregate: Aggregate, schema: Schema) -> None:
        super().__init__(1)
        self._window = aggregate.span
        self._group_by = aggregate.group_by
        accumulators = aggregate.accumulators(schema)
        self._accumulators = list(accumulators.values())
        self._conclude = concluding(aggregate, accumulators, aggregate.schema(schema).time)
        self._waiting: list[tuple[tuple[int, int, str], Item]] = []
        """A heap of the items whose place in the stream is not certain yet."""
        self._seen: dict[Group, int] = defaultdict(int)
        self._open: dict[Group, dict[int, list[Partial]]] = defaultdict(dict)
        """Of each group, the partial results of windows that are not full, by their ordinals."""

    def _receive(self, input: int, item: Item) -> list[Item]:
        heappush(self._waiting, (item.order, item))
        return []

    def _advance(self) -> list[Item]:
        results: list[Item] = []
        while self._waiting and self._waiting[0][1].time < self.watermark:
            results += self._number(heappop(self._waiting)[1])
        return results

    def _number(self, item: Item) -> list[Item]:
        """Give an item its number in its group; returns the result of the window that it fills."""
        size, slide = self._window.size, self._window.slide
        group = group_of(item.attributes, self._group_by)
        number = self._seen[group]
        self._seen[group] += 1
        windows = self._open[group]
        if number % slide == 0:
            windows[number // slide] = [accumulator.start for accumulator in self._accumulators]
        for partials in windows.values():
            for place, accumulator in enumerate(self._accumulators):
                partials[place] = accumulator.add(partials[place], item.attributes)
        ordinal, rest = divmod(number + 1 - size, slide)
        if rest or ordinal < 0:
            return []
        attributes = self._conclude(group, item.time, windows.pop(ordinal))
        return [Item(ordinal_id(ordinal, group), item.time, attributes)]

    def _state(self) -> State:
        return {
            "waiting": [item_state(item) for _, item in self._waiting],
            "groups": [
                [
                    list(group),
                    seen,
                    [[n, [list(p) for p in partials]] for n, partials in self._open[group].items()],
                ]
                for group, seen in self._seen.items()
            ],
        }

    def _restore(self, state: State) -> None:
        self._waiting = []
        for item in state["waiting"]:
            self._receive(0, Item(*item))
        self._seen.clear()
        self._open.clear()
        for group, seen, windows in state["groups"]:
            self._seen[tuple(group)] = seen
            self._open[tuple(group)] = {n: [tuple(p) for p in partials] for n, partials in windows}
