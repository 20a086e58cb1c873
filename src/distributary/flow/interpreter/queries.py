"""Answering whole queries: every operation of a catalogue applied to the whole streams that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distributary.flow.catalogue import Catalogue
from distributary.flow.interpreter import aggregates, operators, windows
from distributary.flow.interpreter.operators import Inputs, Reject
from distributary.flow.language.operators import Operation
from distributary.flow.language.schema import Item, Schema
from distributary.flow.language.source import RejectedItem, read_events
from distributary.model import Event


@dataclass(frozen=True)
class QueryAnswer:
    """What queries give for a set of events."""

    streams: dict[str, list[Item]]
    """Every stream of the sources and of the operators that queries are written with, in stream order."""
    rejected: list[RejectedItem]


def answer(catalogue: Catalogue, events: Iterable[Event]) -> QueryAnswer:
    """Every stream of the catalogue for these events, in whatever order they come."""
    items, rejected = read_events(catalogue.sources.values(), events)
    answered = interpret(catalogue, items)
    return QueryAnswer(answered.streams, rejected + answered.rejected)


def interpret(catalogue: Catalogue, sources: Mapping[str, Iterable[Item]]) -> QueryAnswer:
    """Every stream of the catalogue for these items of its sources; a source that is not there is empty."""
    streams = {name: _in_order(sources.get(name, ())) for name in catalogue.sources}
    rejected: list[RejectedItem] = []
    for bound in catalogue.operators:
        inputs = [streams[name] for name in bound.inputs]

        def reject(id: str, reason: str, name: str = bound.name) -> None:
            rejected.append(RejectedItem(name, id, reason))

        output = apply(bound.operation, bound.input_schemas, inputs, reject)
        streams.update(dict.fromkeys(bound.streams, output))
    inner = {name for bound in catalogue.operators if bound.operation.internal for name in bound.streams}
    return QueryAnswer({name: one for name, one in streams.items() if name not in inner}, rejected)


def apply(
    operation: Operation,
    schemas: Sequence[Schema],
    inputs: Sequence[Iterable[Item]],
    reject: Reject = lambda id, reason: None,
) -> list[Item]:
    """The output of one operation over whole streams; `reject` is told what a user's function could not do.

    It takes the operations of queries, not those that they are divided into (see `splitting`).

    >>> from distributary.flow import FilterOperation
    >>> schema = Schema({"size": "integer", "at": "integer"}, "at")
    >>> items = [Item(f"e{size}", size, {"size": size, "at": size}) for size in (1, 5)]
    >>> apply(FilterOperation(where="size > 3"), [schema], [items])
    [Item(id='e5', time=5, attributes={'size': 5, 'at': 5}, rank=0)]
    """
    streams = [_in_order(stream) for stream in inputs]
    canonical = operation.canonical
    return _in_order(MEANINGS[canonical.kind](canonical, Inputs(schemas, streams, reject)))


def _in_order(items: Iterable[Item]) -> list[Item]:
    """The items in the order of their stream."""
    return sorted(items, key=lambda item: item.order)


MEANINGS: dict[str, Callable[[Any, Inputs], list[Item]]] = {
    "filter": operators.filtering,
    "map": operators.mapping,
    "rename": operators.renaming,
    "copy": operators.copying,
    "union": operators.union,
    "split": operators.split,
    "entry": operators.entry,
    "gather": operators.gather,
    "aggregate": aggregates.aggregation,
    "join": windows.join,
    "sort": windows.arrangement,
    "truncate": windows.arrangement,
    "unique": windows.arrangement,
    "function": windows.function,
}
"""What each kind of operation means."""
