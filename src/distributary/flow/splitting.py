"""Replication and partition: an operator as replicas and a final one, with the same output (Table 5.1).

    operator            replica             final               how its input may be divided
    filter, map, rename,
      copy, union       itself              union               any way
    split               itself              union, then split   any way
    aggregate, count    partial results     their merging       any way
      with count windows  itself            union               by group; not at all without one
    sort                sort                merge of the sorted any way
    truncate            truncate            union, truncate     any way
    unique              unique              union, unique       any way
    join                itself              union               by key, both inputs
    function            as it declares (see `function`)

The table of the seed lets truncate end with a union, which passes as many items as there are replicas times
the limit; here a truncate comes after it. "Union" is `Gather`: unlike the union of a query it leaves ids
alone, for the replicas' items are items of one stream.

Replicas of an operator that reads a union may also take one input of that union each (Figure 5.6):
`UnionBranch` gives the items of one input the ids that the union would have given, and hands them to the
replica.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar
from zlib import crc32

from distributary.flow.language.function import Function
from distributary.flow.language.identifiers import group_of, group_text
from distributary.flow.language.operators import (
    Copy,
    FilterOperation,
    Map,
    Operation,
    Rename,
    Split,
    Union,
    require_alike,
)
from distributary.flow.language.schema import RESERVED, Item, Schema, Type
from distributary.flow.language.window import TimeWindow
from distributary.flow.language.windowed import Aggregate, Arrangement, Count, Join

PARTIAL = RESERVED + "partial"
"""The attribute in which a replica hands its partial result to the final operator."""


@dataclass(frozen=True)
class Gather(Operation):
    """The items of all inputs as one stream, with their ids as they are; then another operation on it."""

    kind: ClassVar[str] = "gather"
    arity: ClassVar[tuple[int, int | None]] = (1, None)

    then: Operation | None = None

    @property
    def ports(self) -> tuple[str, ...]:  # type: ignore[override]
        return ("",) if self.then is None else self.then.ports

    def schema(self, *inputs: Schema) -> Schema:
        require_alike(inputs)
        return inputs[0] if self.then is None else self.then.schema(inputs[0])


@dataclass(frozen=True)
class UnionBranch(Operation):
    """One input of a union: its items with the ids that the union gives them; then another operation."""

    kind: ClassVar[str] = "branch"

    index: int
    then: Operation | None = None

    def schema(self, *inputs: Schema) -> Schema:
        return inputs[0] if self.then is None else self.then.schema(inputs[0])


@dataclass(frozen=True)
class PartialAggregate(Operation):
    """What a replica of an aggregate knows of each window and group, as far as it has seen their items."""

    kind: ClassVar[str] = "partial aggregate"

    aggregate: Aggregate

    def schema(self, *inputs: Schema) -> Schema:
        whole = self.aggregate.schema(*inputs)
        groups = {name: whole.attributes[name] for name in self.aggregate.group_by}
        return Schema({**groups, whole.time: Type.INTEGER, PARTIAL: Type.PARTIAL}, whole.time)


@dataclass(frozen=True)
class MergeAggregate(Operation):
    """The results of an aggregate from the partial results of its replicas."""

    kind: ClassVar[str] = "merge aggregate"

    aggregate: Aggregate
    input_schema: Schema
    """Of the aggregate itself."""

    def schema(self, *inputs: Schema) -> Schema:
        return self.aggregate.schema(self.input_schema)


@dataclass(frozen=True)
class PartialArrangement(Operation):
    """What a replica keeps of the items it has of each window, each with what decides its place."""

    kind: ClassVar[str] = "partial arrangement"

    whole: Arrangement

    def schema(self, *inputs: Schema) -> Schema:
        whole = self.whole.schema(*inputs)
        return Schema({**whole.attributes, PARTIAL: Type.PARTIAL}, whole.time)


@dataclass(frozen=True)
class MergeArrangement(Operation):
    """What all replicas kept, arranged and ranked together."""

    kind: ClassVar[str] = "merge arrangement"

    whole: Arrangement
    input_schema: Schema
    """Of the whole operation."""

    def schema(self, *inputs: Schema) -> Schema:
        return self.whole.schema(self.input_schema)


@dataclass(frozen=True)
class PartialFunction(Operation):
    """The state of a user's function for the items that a replica has of each window."""

    kind: ClassVar[str] = "partial function"

    function: Function

    def schema(self, *inputs: Schema) -> Schema:
        whole = self.function.schema(*inputs)
        return Schema({whole.time: Type.INTEGER, PARTIAL: Type.PARTIAL}, whole.time)


@dataclass(frozen=True)
class MergeFunction(Operation):
    """What a user's function gives for the merged states of its replicas."""

    kind: ClassVar[str] = "merge function"

    function: Function
    input_schema: Schema
    """Of the function itself."""

    def schema(self, *inputs: Schema) -> Schema:
        return self.function.schema(self.input_schema)


@dataclass(frozen=True)
class Splitting:
    """How an operator is divided: what its replicas do, and what makes one stream of what they give."""

    replica: Operation
    final: Gather
    keys: tuple[tuple[str, ...], ...] | None
    """None when the inputs may be divided in any way; else the attributes to divide each input by."""

    def part_of(self, input: int, item: Item, parts: int) -> int:
        """Which of so many replicas gets an item, by a hash of its keys or, if any will do, of its id."""
        if self.keys is None:
            return crc32(item.id.encode()) % parts
        return crc32(group_text(group_of(item.attributes, self.keys[input])).encode()) % parts


def splitting_of(operation: Operation, *inputs: Schema) -> Splitting | None:
    """How an operation over inputs of these schemas is divided; None when it cannot be.

    >>> schema = Schema({"size": "integer", "at": "integer"}, "at")
    >>> splitting_of(Count("1 minute"), schema).final.then.kind
    'merge aggregate'
    >>> splitting_of(Count("100 items"), schema) is None
    True
    """
    match operation:
        case FilterOperation() | Map() | Rename() | Copy() | Union():
            return Splitting(operation, Gather(), None)
        case Split():
            return Splitting(operation, Gather(Split()), None)
        case Count() | Aggregate():
            return _aggregate(operation.canonical, inputs[0])
        case Arrangement():
            final = Gather(MergeArrangement(operation, inputs[0]))
            return Splitting(PartialArrangement(operation), final, None)
        case Join():
            return Splitting(operation, Gather(), (tuple(operation.on), tuple(operation.on.values())))
        case Function():
            return _function(operation, inputs[0])
    return None


def _aggregate(operation: Any, schema: Schema) -> Splitting | None:
    aggregate: Aggregate = operation
    if isinstance(aggregate.span, TimeWindow):
        return Splitting(PartialAggregate(aggregate), Gather(MergeAggregate(aggregate, schema)), None)
    return Splitting(aggregate, Gather(), (tuple(aggregate.group_by),)) if aggregate.group_by else None


def _function(function: Function, schema: Schema) -> Splitting | None:
    match function.replicas:
        case "union":
            return Splitting(function, Gather(), None)
        case "keyed":
            return Splitting(function, Gather(), (tuple(function.by),))
        case "merge":
            return Splitting(PartialFunction(function), Gather(MergeFunction(function, schema)), None)
    return None
