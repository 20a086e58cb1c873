"""The reference interpreter: each operation as a function of whole streams, written as plainly as can be.

It defines what queries mean; every engine is checked against it. Streams are lists of items in stream order.
Nothing is incremental and nothing is fast: an aggregate looks at every item for every window.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cmp_to_key
from typing import Any

from distributary.filters.where.expression import evaluate as condition_holds
from distributary.flow.aggregates import Accumulator
from distributary.flow.catalogue import Catalogue
from distributary.flow.language.expression import evaluate
from distributary.flow.language.function import (
    CallError,
    Function,
    call_finish,
    call_item,
    call_merge,
    call_partial,
    call_window,
)
from distributary.flow.language.identifiers import group_of, join_id, ordinal_id, union_id, window_id
from distributary.flow.language.operators import Copy, FilterOperation, Map, Operation, Rename, Split, Union
from distributary.flow.language.schema import Item, Schema
from distributary.flow.language.source import RejectedItem, read_events
from distributary.flow.language.window import TimeWindow
from distributary.flow.language.windowed import Aggregate, Arrangement, Count, Join, Sort, Truncate, Unique
from distributary.flow.splitting import (
    PARTIAL,
    Gather,
    MergeAggregate,
    MergeArrangement,
    MergeFunction,
    PartialAggregate,
    PartialArrangement,
    PartialFunction,
    UnionBranch,
)
from distributary.model import Event

Aside = Callable[[str, str], None]
"""Takes the id of what could not be used, and why."""


@dataclass(frozen=True)
class QueryAnswer:
    """What queries give for a set of events."""

    streams: dict[str, list[Item]]
    """Every stream of the catalogue, in stream order."""
    rejected: list[RejectedItem]


def answer(catalogue: Catalogue, events: Iterable[Event]) -> QueryAnswer:
    """Every stream of the catalogue for these events, in whatever order they come."""
    items, aside = read_events(catalogue.sources.values(), events)
    answered = interpret(catalogue, items)
    return QueryAnswer(answered.streams, aside + answered.rejected)


def interpret(catalogue: Catalogue, sources: Mapping[str, Iterable[Item]]) -> QueryAnswer:
    """Every stream of the catalogue for these items of its sources; a source that is not there is empty."""
    streams = {name: in_order(sources.get(name, ())) for name in catalogue.sources}
    aside: list[RejectedItem] = []
    for bound in catalogue.operators:
        inputs = [streams[name] for name in bound.inputs]

        def keep(id: str, reason: str, name: str = bound.name) -> None:
            aside.append(RejectedItem(name, id, reason))

        output = apply(bound.operation, bound.input_schemas, inputs, keep)
        streams.update(dict.fromkeys(bound.streams, output))
    return QueryAnswer(streams, aside)


def apply(
    operation: Operation,
    schemas: Sequence[Schema],
    inputs: Sequence[Iterable[Item]],
    aside: Aside = lambda id, reason: None,
) -> list[Item]:
    """The output of one operation over whole streams; `aside` is told what a user's function could not do."""
    streams = [in_order(stream) for stream in inputs]
    if isinstance(operation, Function | PartialFunction | MergeFunction):
        return in_order(FUNCTIONS[type(operation)](operation, schemas, streams, aside))
    return in_order(MEANINGS[type(operation)](operation, schemas, streams))


def in_order(items: Iterable[Item]) -> list[Item]:
    """The items in the order of their stream."""
    return sorted(items, key=lambda item: item.order)


# One item at a time


def _filter(filter: FilterOperation, schemas: Sequence[Schema], streams: Sequence[list[Item]]) -> list[Item]:
    condition = filter.condition
    keeps = filter.where is not None
    return [item for item in streams[0] if (condition_holds(condition, item.attributes) is True) == keeps]


def _map(map: Map, schemas: Sequence[Schema], streams: Sequence[list[Item]]) -> list[Item]:
    kept = map.kept(schemas[0])
    values = map.values(schemas[0])
    return [
        replace(
            item,
            attributes={
                **{name: item.attributes[name] for name in kept},
                **{name: evaluate(typed.expression, item.attributes) for name, typed in values.items()},
            },
        )
        for item in streams[0]
    ]


def _rename(rename: Rename, schemas: Sequence[Schema], streams: Sequence[list[Item]]) -> list[Item]:
    return [
        replace(item, attributes={rename.names.get(name, name): v for name, v in item.attributes.items()})
        for item in streams[0]
    ]


def _copy(copy: Copy, schemas: Sequence[Schema], streams: Sequence[list[Item]]) -> list[Item]:
    return [
        replace(
            item,
            attributes={
                **item.attributes,
                **{new: item.attributes[name] for name, new in copy.names.items()},
            },
        )
        for item in streams[0]
    ]


def _union(union: Union, schemas: Sequence[Schema], streams: Sequence[list[Item]]) -> list[Item]:
    return [
        replace(item, id=union_id(index, item.id)) for index, stream in enumerate(streams) for item in stream
    ]


def _split(split: Split, schemas: Sequence[Schema], streams: Sequence[list[Item]]) -> list[Item]:
    return streams[0]


# Windows


def _aggregate(
    aggregate: Aggregate | Count, schemas: Sequence[Schema], streams: Sequence[list[Item]]
) -> list[Item]:
    operation = aggregate.canonical
    assert isinstance(operation, Aggregate)
    window = operation.span
    accumulators = operation.accumulators(schemas[0])
    time_name = operation.schema(*schemas).time
    results = []

    def conclude(id: str, time: int, group: tuple[Any, ...], members: list[Item]) -> None:
        values = {name: _accumulated(each, members) for name, each in accumulators.items()}
        groups = dict(zip(operation.group_by, group, strict=True))
        results.append(Item(id, time, {**groups, **values, time_name: time}))

    for group, members in _grouped(streams[0], operation.group_by).items():
        if isinstance(window, TimeWindow):
            for start, inside in _windows(members, window).items():
                conclude(window_id(start, group), start + window.size - 1, group, inside)
        else:
            for ordinal in range((len(members) - window.size) // window.slide + 1):
                inside = members[ordinal * window.slide :][: window.size]
                conclude(ordinal_id(ordinal, group), inside[-1].time, group, inside)
    return results


def _accumulated(accumulator: Accumulator, members: list[Item]) -> Any:
    so_far = accumulator.start
    for item in members:
        so_far = accumulator.add(so_far, item.attributes)
    return accumulator.finish(so_far)


def _join(join: Join, schemas: Sequence[Schema], streams: Sequence[list[Item]]) -> list[Item]:
    time_name = join.schema(*schemas).time
    from_right = join.from_right(schemas[1])
    pairs = []
    for left in streams[0]:
        for right in streams[1]:
            near = abs(left.time - right.time) <= join.within
            keys = [(left.attributes[mine], right.attributes[theirs]) for mine, theirs in join.on.items()]
            if near and all(mine is not None and mine == theirs for mine, theirs in keys):
                taken = {name: right.attributes[original] for name, original in from_right.items()}
                attributes = {**left.attributes, **taken, time_name: left.time}
                pairs.append(Item(join_id(left.id, right.id), left.time, attributes))
    return pairs


Place = tuple[Sequence[Any], tuple[int, int, str]]
"""The values that decide what is kept and where, and the place in the input stream."""


def _arrange(operation: Arrangement, schemas: Sequence[Schema], streams: Sequence[list[Item]]) -> list[Item]:
    return [item for _, item in _arranged(operation, schemas, streams[0])]


def _arranged(
    operation: Arrangement, schemas: Sequence[Schema], stream: list[Item]
) -> list[tuple[Place, Item]]:
    """What an operation keeps of each window, with what decided the place of each item."""
    time_name = operation.schema(*schemas).time
    results = []
    for start, members in _windows(stream, operation.span).items():
        time = start + operation.span.size - 1
        places = [((group_of(item.attributes, operation.decided_by), item.order), item) for item in members]
        for rank, (place, item) in enumerate(_kept(operation, places), 1):
            results.append((place, Item(item.id, time, {**item.attributes, time_name: time}, rank)))
    return results


def _kept(operation: Arrangement, items: Sequence[tuple[Place, Item]]) -> list[tuple[Place, Item]]:
    """What is kept of the items of a window, in order."""
    ordered = _placed(operation, items)
    if isinstance(operation, Truncate):
        return ordered[: operation.items]
    if isinstance(operation, Unique):
        values = [place[0] for place, _ in ordered]
        return [each for number, each in enumerate(ordered) if each[0][0] not in values[:number]]
    return ordered


def _placed(operation: Arrangement, items: Sequence[tuple[Place, Item]]) -> list[tuple[Place, Item]]:
    def compared(one: tuple[Place, Item], other: tuple[Place, Item]) -> int:
        """Below 0 when one comes before the other."""
        for number, (_, downwards) in enumerate(operation.keys):
            left, right = one[0][0][number], other[0][0][number]
            if left is None or right is None:
                if left is not right:
                    return 1 if left is None else -1
            elif left != right:
                return 1 if (left > right) != downwards else -1
        return -1 if one[0][1] < other[0][1] else 1

    return sorted(items, key=cmp_to_key(compared))


def _windows(items: Sequence[Item], window: TimeWindow) -> dict[int, list[Item]]:
    """The items of each window that has any, by the window's start."""
    starts = {start for item in items for start in window.starts(item.time)}
    return {start: [item for item in items if start <= item.time < start + window.size] for start in starts}


def _grouped(items: Iterable[Item], names: Sequence[str]) -> dict[tuple[Any, ...], list[Item]]:
    groups: dict[tuple[Any, ...], list[Item]] = defaultdict(list)
    for item in items:
        groups[group_of(item.attributes, names)].append(item)
    return groups


# Functions of the user's


def _function(
    function: Function, schemas: Sequence[Schema], streams: Sequence[list[Item]], aside: Aside
) -> list[Item]:
    schema = function.schema(*schemas)
    results: list[Item] = []
    if function.span is None:
        for item in streams[0]:
            try:
                results += call_item(function, schema, item)
            except CallError as error:
                aside(item.id, str(error))
        return results
    for group, members in _grouped(streams[0], function.by).items():
        for start, inside in _windows(members, function.span).items():
            try:
                results += call_window(function, schema, start, group, inside)
            except CallError as error:
                aside(window_id(start, group), str(error))
    return results


# What replicas and final operators mean


def _gather(gather: Gather, schemas: Sequence[Schema], streams: Sequence[list[Item]]) -> list[Item]:
    merged = [item for stream in streams for item in stream]
    return merged if gather.then is None else apply(gather.then, schemas[:1], [merged])


def _branch(branch: UnionBranch, schemas: Sequence[Schema], streams: Sequence[list[Item]]) -> list[Item]:
    named = [replace(item, id=union_id(branch.index, item.id)) for item in streams[0]]
    return named if branch.then is None else apply(branch.then, schemas, [named])


def _partial_aggregate(
    replica: PartialAggregate, schemas: Sequence[Schema], streams: Sequence[list[Item]]
) -> list[Item]:
    aggregate = replica.aggregate
    window = aggregate.span
    assert isinstance(window, TimeWindow)
    accumulators = aggregate.accumulators(schemas[0])
    time_name = replica.schema(*schemas).time
    results = []
    for group, members in _grouped(streams[0], aggregate.group_by).items():
        for start, inside in _windows(members, window).items():
            partials = []
            for accumulator in accumulators.values():
                so_far = accumulator.start
                for item in inside:
                    so_far = accumulator.add(so_far, item.attributes)
                partials.append(so_far)
            time = start + window.size - 1
            groups = dict(zip(aggregate.group_by, group, strict=True))
            attributes = {**groups, time_name: time, PARTIAL: tuple(partials)}
            results.append(Item(window_id(start, group), time, attributes))
    return results


def _merge_aggregate(
    final: MergeAggregate, schemas: Sequence[Schema], streams: Sequence[list[Item]]
) -> list[Item]:
    accumulators = final.aggregate.accumulators(final.input_schema)
    by_id: dict[str, list[Item]] = defaultdict(list)
    for item in streams[0]:
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


def _partial_arrangement(
    replica: PartialArrangement, schemas: Sequence[Schema], streams: Sequence[list[Item]]
) -> list[Item]:
    return [
        replace(item, attributes={**item.attributes, PARTIAL: place})
        for place, item in _arranged(replica.whole, schemas, streams[0])
    ]


def _merge_arrangement(
    final: MergeArrangement, schemas: Sequence[Schema], streams: Sequence[list[Item]]
) -> list[Item]:
    by_window: dict[int, list[tuple[Place, Item]]] = defaultdict(list)
    for item in streams[0]:
        by_window[item.time].append((item.attributes[PARTIAL], item))
    results = []
    for members in by_window.values():
        for rank, (_, item) in enumerate(_kept(final.whole, members), 1):
            attributes = {name: value for name, value in item.attributes.items() if name != PARTIAL}
            results.append(Item(item.id, item.time, attributes, rank))
    return results


def _partial_function(
    replica: PartialFunction, schemas: Sequence[Schema], streams: Sequence[list[Item]], aside: Aside
) -> list[Item]:
    window = replica.function.span
    assert window is not None
    time_name = replica.schema(*schemas).time
    results = []
    for start, inside in _windows(streams[0], window).items():
        time = start + window.size - 1
        attributes = {time_name: time, PARTIAL: call_partial(replica.function, inside)}
        results.append(Item(window_id(start, ()), time, attributes))
    return results


def _merge_function(
    final: MergeFunction, schemas: Sequence[Schema], streams: Sequence[list[Item]], aside: Aside
) -> list[Item]:
    function = final.function
    assert function.span is not None
    schema = function.schema(final.input_schema)
    states: dict[int, list[Any]] = defaultdict(list)
    for item in streams[0]:
        states[item.time - function.span.size + 1].append(item.attributes[PARTIAL])
    results: list[Item] = []
    for start, (first, *others) in states.items():
        try:
            merged = first
            for state in others:
                merged = call_merge(function, merged, state)
            results += call_finish(function, schema, start, merged)
        except CallError as error:
            aside(window_id(start, ()), str(error))
    return results


FUNCTIONS: dict[type[Operation], Callable[[Any, Sequence[Schema], Sequence[list[Item]], Aside], list[Item]]]
FUNCTIONS = {Function: _function, PartialFunction: _partial_function, MergeFunction: _merge_function}

MEANINGS: dict[type[Operation], Callable[[Any, Sequence[Schema], Sequence[list[Item]]], list[Item]]] = {
    FilterOperation: _filter,
    Map: _map,
    Rename: _rename,
    Copy: _copy,
    Union: _union,
    Split: _split,
    Aggregate: _aggregate,
    Count: _aggregate,
    Join: _join,
    Sort: _arrange,
    Truncate: _arrange,
    Unique: _arrange,
    Gather: _gather,
    UnionBranch: _branch,
    PartialAggregate: _partial_aggregate,
    MergeAggregate: _merge_aggregate,
    PartialArrangement: _partial_arrangement,
    MergeArrangement: _merge_arrangement,
}
