"""Starting operators: which class or function makes the running operator of an operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from distributary.flow.incremental import aggregates, operators, windows
from distributary.flow.incremental.running import RunningOperator, Schemas
from distributary.flow.language.identifiers import union_id
from distributary.flow.language.operators import Operation
from distributary.flow.language.schema import Schema
from distributary.flow.splitting import Gather, UnionBranch


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
        case canonical:
            return OPERATORS[canonical.kind](canonical, schemas)


OPERATORS: dict[str, Callable[[Any, Schemas], RunningOperator]] = {
    "filter": operators.filtering,
    "map": operators.mapping,
    "rename": operators.renaming,
    "copy": operators.copying,
    "union": operators.union,
    "split": operators.split,
    "entry": operators.entry,
    "aggregate": aggregates.aggregation,
    "partial aggregate": aggregates.RunningAggregate,
    "merge aggregate": aggregates.RunningAggregate,
    "join": windows.RunningJoin,
    "sort": windows.arrangement,
    "truncate": windows.arrangement,
    "unique": windows.arrangement,
    "partial arrangement": windows.arrangement,
    "merge arrangement": windows.arrangement,
    "function": windows.function,
    "partial function": windows.RunningWindowFunction,
    "merge function": windows.RunningMergeFunction,
}
"""What makes the running operator of each kind of operation."""
