"""What aggregates mean."""

from __future__ import annotations

from typing import Any

from distributary.flow.aggregates import Accumulator, Partial
from distributary.flow.interpreter.operators import Inputs
from distributary.flow.interpreter.windows import items_by_group, items_by_window
from distributary.flow.language.identifiers import ordinal_id, window_id
from distributary.flow.language.schema import Item
from distributary.flow.language.window import TimeWindow
from distributary.flow.language.windowed import Aggregate


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


def _accumulated(accumulator: Accumulator, members: list[Item]) -> Partial:
    """The partial result of an aggregate over these items."""
    so_far = accumulator.start
    for item in members:
        so_far = accumulator.add(so_far, item.attributes)
    return so_far
