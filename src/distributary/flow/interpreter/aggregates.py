"""What aggregates mean: whole ones, those of replicas, and the merging of what replicas found."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from distributary.flow.aggregates import Accumulator, Partial
from distributary.flow.interpreter.operators import Inputs
from distributary.flow.interpreter.windows import items_by_group, items_by_window
from distributary.flow.language.identifiers import ordinal_id, window_id
from distributary.flow.language.schema import Item
from distributary.flow.language.window import TimeWindow
from distributary.flow.language.windowed import Aggregate
from distributary.flow.splitting import PARTIAL, MergeOperation, PartialOperation


def aggregation(operation: Aggregate, given: Inputs) -> list[Item]:
    """One item for each window and group."""
    window = operation.span
    accumulators = operation.accumulators(given.schemas[0])
    time_name = operation.schema(*given.schemas).time
    results = []

    def conclude(id: str, time: int, group: tuple[Any, ...], members: list[Item]) -> None:
        values = {name: each.finish(_accumulated(each, members)) for name, each in accumulators.items()}
        groups = dict(zip(operation.group_by, group, strict=True))
        results.append(Item(id, time, {**groups, **values, time_name: time}))

    for group, members in items_by_group(given.items, operation.group_by).items():
        if isinstance(window, TimeWindow):
            for start, inside in items_by_window(members, window).items():
                conclude(window_id(start, group), start + window.size - 1, group, inside)
        else:
            for ordinal in range((len(members) - window.size) // window.slide + 1):
                inside = members[ordinal * window.slide :][: window.size]
                conclude(ordinal_id(ordinal, group), inside[-1].time, group, inside)
    return results


def partial_aggregation(operation: PartialOperation[Aggregate], given: Inputs) -> list[Item]:
    """The partial results of each window and group."""
    aggregate = operation.whole
    window = aggregate.span
    assert isinstance(window, TimeWindow)
    accumulators = aggregate.accumulators(given.schemas[0]).values()
    time_name = operation.schema(*given.schemas).time
    results = []
    for group, members in items_by_group(given.items, aggregate.group_by).items():
        for start, inside in items_by_window(members, window).items():
            time = start + window.size - 1
            groups = dict(zip(aggregate.group_by, group, strict=True))
            partials = tuple(_accumulated(each, inside) for each in accumulators)
            results.append(
                Item(window_id(start, group), time, {**groups, time_name: time, PARTIAL: partials})
            )
    return results


def merged_aggregation(operation: MergeOperation[Aggregate], given: Inputs) -> list[Item]:
    """The results of each window and group from the partial ones, which have the same id."""
    accumulators = operation.whole.accumulators(operation.input_schema)
    by_id: dict[str, list[Item]] = defaultdict(list)
    for item in given.items:
        by_id[item.id].append(item)
    results = []
    for id, alike in by_id.items():
        attributes = {name: value for name, value in alike[0].attributes.items() if name != PARTIAL}
        for place, (name, accumulator) in enumerate(accumulators.items()):
            so_far = accumulator.start
            for item in alike:
                so_far = accumulator.merge(so_far, item.attributes[PARTIAL][place])
            attributes[name] = accumulator.finish(so_far)
        results.append(Item(id, alike[0].time, attributes))
    return results


def _accumulated(accumulator: Accumulator, members: list[Item]) -> Partial:
    """The partial result of an aggregate's value over these items."""
    so_far = accumulator.start
    for item in members:
        so_far = accumulator.add(so_far, item.attributes)
    return so_far
