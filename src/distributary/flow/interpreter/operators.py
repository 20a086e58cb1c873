"""What the operations mean that look at one item at a time, over whole streams."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from distributary.filters.where.evaluate import evaluate as condition_holds
from distributary.flow.entries import SourceEntry
from distributary.flow.language.expression import evaluate
from distributary.flow.language.function import CallError, Function, call_item
from distributary.flow.language.identifiers import union_id
from distributary.flow.language.operators import Copy, FilterOperation, Map, Rename, Split, Union
from distributary.flow.language.schema import Item, Schema
from distributary.flow.splitting import Gather

Reject = Callable[[str, str], None]
"""Takes the id of what a user's function could not use, and why."""


@dataclass(frozen=True)
class Inputs:
    """What an operation is applied to."""

    schemas: Sequence[Schema]
    streams: Sequence[list[Item]]
    """All items of each input, in stream order."""
    reject: Reject

    @property
    def items(self) -> list[Item]:
        """Those of the only input, or of the first."""
        return self.streams[0]


def filtering(operation: FilterOperation, given: Inputs) -> list[Item]:
    """The items for which `where` is true, or those for which `block` is not."""
    condition = operation.condition
    keeps = operation.where is not None
    return [item for item in given.items if (condition_holds(condition, item.attributes) is True) == keeps]


def mapping(operation: Map, given: Inputs) -> list[Item]:
    """The items with the attributes that are kept, and those that are computed."""
    kept = operation.kept(given.schemas[0])
    values = operation.values(given.schemas[0])
    return [
        replace(
            item,
            attributes={
                **{name: item.attributes[name] for name in kept},
                **{name: evaluate(typed.expression, item.attributes) for name, typed in values.items()},
            },
        )
        for item in given.items
    ]


def renaming(operation: Rename, given: Inputs) -> list[Item]:
    """The items with other names of attributes."""
    names = operation.names
    return [
        replace(item, attributes={names.get(name, name): value for name, value in item.attributes.items()})
        for item in given.items
    ]


def copying(operation: Copy, given: Inputs) -> list[Item]:
    """The items with copies of attributes."""
    pairs = operation.names.items()
    return [
        replace(item, attributes={**item.attributes, **{new: item.attributes[name] for name, new in pairs}})
        for item in given.items
    ]


def union(operation: Union, given: Inputs) -> list[Item]:
    """The items of all inputs, their ids with the input's number."""
    return [
        replace(item, id=union_id(index, item.id))
        for index, stream in enumerate(given.streams)
        for item in stream
    ]


def split(operation: Split, given: Inputs) -> list[Item]:
    """The items as they are: the two outputs are alike."""
    return given.items


def entry(operation: SourceEntry, given: Inputs) -> list[Item]:
    """The items that belong to the source once they are published."""
    entered = (operation.enter(item) for item in given.items)
    return [item for item in entered if item is not None]


def gather(operation: Gather, given: Inputs) -> list[Item]:
    """The items of all inputs, as they are."""
    return [item for stream in given.streams for item in stream]


def item_function(operation: Function, given: Inputs) -> list[Item]:
    """What a user's function without a window gives for each item."""
    schema = operation.schema(*given.schemas)
    results: list[Item] = []
    for item in given.items:
        try:
            results += call_item(operation, schema, item)
        except CallError as error:
            given.reject(item.id, str(error))
    return results
