"""Aggregates piece by piece (see `running` for the rules).

Over time windows an aggregate remembers, for each open window and group, the partial results; over count
windows also the items whose place in the stream is not certain yet, and how many each group has had.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

from distributary.flow.aggregates import Accumulator, Partial
from distributary.flow.incremental.operators import Group, RunningOperator, State, frozen, thawed
from distributary.flow.language.identifiers import group_of, ordinal_id, window_id
from distributary.flow.language.schema import Item, Schema
from distributary.flow.language.window import TimeWindow
from distributary.flow.language.windowed import Aggregate, Count
from distributary.flow.splitting import PARTIAL, MergeAggregate, PartialAggregate


class RunningAggregate(RunningOperator):
    """Time windows: from items or from partial results of replicas, to results or to partial results."""

    def __init__(
        self,
        aggregate: Aggregate,
        accumulators: Iterable[Accumulator],
        merging: bool,
        conclude: Callable[[Group, int, list[Partial]], dict[str, Any]],
    ) -> None:
        super().__init__(1)
        window = aggregate.span
        assert isinstance(window, TimeWindow)
        self._window = window
        self._group_by = aggregate.group_by
        self._accumulators = list(accumulators)
        self._merging = merging
        self._conclude = conclude
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


def running_aggregate(operation: Aggregate | Count, schemas: Sequence[Schema]) -> RunningOperator:
    aggregate = operation.canonical
    assert isinstance(aggregate, Aggregate)
    if not isinstance(aggregate.span, TimeWindow):
        return RunningCountWindows(aggregate, schemas[0])
    accumulators = aggregate.accumulators(schemas[0])
    conclude = concluding(aggregate, accumulators, aggregate.schema(*schemas).time)
    return RunningAggregate(aggregate, accumulators.values(), False, conclude)


def running_partial_aggregate(replica: PartialAggregate, schemas: Sequence[Schema]) -> RunningOperator:
    aggregate = replica.aggregate
    time_name = replica.schema(*schemas).time

    def conclude(group: Group, time: int, partials: list[Partial]) -> dict[str, Any]:
        groups = dict(zip(aggregate.group_by, group, strict=True))
        return {**groups, time_name: time, PARTIAL: tuple(partials)}

    accumulators = aggregate.accumulators(schemas[0]).values()
    return RunningAggregate(aggregate, accumulators, False, conclude)


def running_merge_aggregate(final: MergeAggregate, schemas: Sequence[Schema]) -> RunningOperator:
    accumulators = final.aggregate.accumulators(final.input_schema)
    conclude = concluding(final.aggregate, accumulators, final.schema(*schemas).time)
    return RunningAggregate(final.aggregate, accumulators.values(), True, conclude)


def concluding(
    aggregate: Aggregate, accumulators: dict[str, Accumulator], time_name: str
) -> Callable[[Group, int, list[Partial]], dict[str, Any]]:
    """How a window's partial results become the attributes of its result."""
    finishes = [(name, accumulator.finish) for name, accumulator in accumulators.items()]

    def conclude(group: Group, time: int, partials: list[Partial]) -> dict[str, Any]:
        attributes = dict(zip(aggregate.group_by, group, strict=True))
        for (name, finish), partial in zip(finishes, partials, strict=True):
            attributes[name] = finish(partial)
        attributes[time_name] = time
        return attributes

    return conclude


class Ordered:
    """Items that wait until the watermark has passed them, and come out in stream order."""

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, int, str], Item]] = []

    def add(self, item: Item) -> None:
        heappush(self._heap, (item.order, item))

    def passed(self, watermark: int) -> Iterable[Item]:
        """Take out the items before the watermark, in order."""
        while self._heap and self._heap[0][0][0] < watermark:
            yield heappop(self._heap)[1]

    def state(self) -> list[Any]:
        return [frozen(item) for _, item in self._heap]

    def restore(self, items: Iterable[Any]) -> None:
        self._heap = []
        for item in items:
            self.add(thawed(item))


class RunningCountWindows(RunningOperator):
    """Count windows: each group's items are numbered once their order is certain."""

    def __init__(self, aggregate: Aggregate, schema: Schema) -> None:
        super().__init__(1)
        self._window = aggregate.span
        self._group_by = aggregate.group_by
        accumulators = aggregate.accumulators(schema)
        self._accumulators = list(accumulators.values())
        self._conclude = concluding(aggregate, accumulators, aggregate.schema(schema).time)
        self._waiting = Ordered()
        self._seen: dict[Group, int] = defaultdict(int)
        self._open: dict[Group, dict[int, list[Partial]]] = defaultdict(dict)
        """Of each group, the partial results of windows that are not full, by their ordinals."""

    def _receive(self, input: int, item: Item) -> list[Item]:
        self._waiting.add(item)
        return []

    def _advance(self) -> list[Item]:
        return [result for item in self._waiting.passed(self.watermark) for result in self._number(item)]

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
        full = [ordinal for ordinal in windows if ordinal * slide + size == number + 1]
        return [
            Item(
                ordinal_id(ordinal, group), item.time, self._conclude(group, item.time, windows.pop(ordinal))
            )
            for ordinal in full
        ]

    def _state(self) -> State:
        return {
            "waiting": self._waiting.state(),
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
        self._waiting.restore(state["waiting"])
        self._seen.clear()
        self._open.clear()
        for group, seen, windows in state["groups"]:
            self._seen[tuple(group)] = seen
            self._open[tuple(group)] = {n: [tuple(p) for p in partials] for n, partials in windows}
