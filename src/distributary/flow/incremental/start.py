"""Starting operators: which class or function makes the running operator of an operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from distributary.flow.incremental import aggregates, operators, windows
from distributary.flow.incremental.running import RunningOperator, Schemas
from distributary.flow.language.function import Function
from distributary.flow.language.identifiers import union_id
from distributary.flow.language.operators import Copy, FilterOperation, Map, Operation, Rename, Split, Union
from distributary.flow.language.schema import Schema
from distributary.flow.language.windowed import Aggregate, Join, Sort, Truncate, Unique
from distributary.flow.splitting import Gather, MergeOperation, PartialOperation, UnionBranch


def start(operation: Operation, *schemas: Schema) -> RunningOperator:
    """An operator over inputs of these schemas that has seen nothing yet.

    >>> from distributary.flow import Count, Item
    >>> running = start(Count("10 ms"), Schema({"at": "integer"}, "at"))
    >>> running.receive(0, Item("a", 3, {"at": 3})), running.receive(0, Item("b", 12, {"at": 12}))
    ([], [])
    >>> running.advance(0, 11)
    [Item(id='0', time=9, attributes={'count': 1, 'at': 9}, rank=0)]
    """
    match operation.canonical:
        case Gather(then):
            inner = start(then, schemas[0]) if then else None
            return operators.PipedOperator(len(schemas), lambda item: item, inner)
        case UnionBranch(index, then):
            inner = start(then, schemas[0]) if then else None
            return operators.PipedOperator(1, lambda item: replace(item, id=union_id(index, item.id)), inner)
        case PartialOperation(whole):
            make = PARTIALS[type(whole)]
        case MergeOperation(whole):
            make = MERGES[type(whole)]
        case Function(window=None):
            make = operators.item_function
        case canonical:
            make = OPERATORS[type(canonical)]
    return make(operation.canonical, schemas)


Makers = dict[type[Operation], Callable[[Any, Schemas], RunningOperator]]

OPERATORS: Makers = {
    FilterOperation: operators.filtering,
    Map: operators.mapping,
    Rename: operators.renaming,
    Copy: operators.copying,
    Union: operators.union,
    Split: operators.split,
    Aggregate: aggregates.aggregation,
    Join: windows.RunningJoin,
    **dict.fromkeys((Sort, Truncate, Unique), windows.arrangement),
    Function: windows.RunningWindowFunction,
}
PARTIALS: Makers = {
    Aggregate: aggregates.partial_aggregation,
    **dict.fromkeys((Sort, Truncate, Unique), windows.partial_arrangement),
    Function: windows.RunningWindowFunction,
}
MERGES: Makers = {
    Aggregate: aggregates.merged_aggregation,
    **dict.fromkeys((Sort, Truncate, Unique), windows.merged_arrangement),
    Function: windows.RunningMergeFunction,
}
