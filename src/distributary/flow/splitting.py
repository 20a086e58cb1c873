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

from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar
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
    """The items of all inputs as one stream, with their ids as they are; then another operation on it.

    >>> Gather(Count("1 minute").canonical).schema(*[Schema({"at": "integer"}, "at")] * 2).attributes
    {'count': <Type.INTEGER: 'integer'>, 'at': <Type.INTEGER: 'integer'>}
    """

    kind: ClassVar[str] = "gather"
    arity: ClassVar[tuple[int, int | None]] = (1, None)
    internal: ClassVar[bool] = True

    then: Operation | None = None

    @property
    def ports(self) -> tuple[str, ...]:  # type: ignore[override]
        """The output streams: those of the operation that follows, or one."""
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


W = TypeVar("W", bound=Aggregate | Arrangement | Function)
"""What is divided into replicas that hand partial results to a final operator."""


@dataclass(frozen=True)
class PartialOperation(Operation, Generic[W]):
    """What a replica does: of each window, it hands on what it knows from the items that it has.

    For an aggregate that is the partial results of each group; for an arrangement the items it keeps, each
    with what decides its place; for a user's function the state that its `partial` gives.

    >>> count = Count("1 minute").canonical
    >>> PartialOperation(count).schema(Schema({"at": "integer"}, "at")).attributes
    {'at': <Type.INTEGER: 'integer'>, '#partial': <Type.PARTIAL: 'partial'>}
    """

    whole: W

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The kind of operation whose share it computes, marked as partial."""
        return f"partial {_kind(self.whole)}"

    def schema(self, *inputs: Schema) -> Schema:
        whole = self.whole.schema(*inputs)
        names: Iterable[str] = whole.attributes if isinstance(self.whole, Arrangement) else ()
        if isinstance(self.whole, Aggregate):
            names = self.whole.group_by
        kept = {name: whole.attributes[name] for name in names}
        return Schema({**kept, whole.time: Type.INTEGER, PARTIAL: Type.PARTIAL}, whole.time)


@dataclass(frozen=True)
class MergeOperation(Operation, Generic[W]):
    """What the final operator does: the results of the whole operation from what its replicas handed on."""

    whole: W
    input_schema: Schema
    """Of the whole operation."""

    @property
    def kind(self) -> str:  # type: ignore[override]
        """The kind of operation whose shares it puts together, marked as final."""
        return f"merge {_kind(self.whole)}"

    def schema(self, *inputs: Schema) -> Schema:
        return self.whole.schema(self.input_schema)


def _kind(whole: Operation) -> str:
    return "arrangement" if isinstance(whole, Arrangement) else whole.kind


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
        case Count():
            return splitting_of(operation.canonical, *inputs)
        case Aggregate() if not isinstance(operation.span, TimeWindow):
            keys = (tuple(operation.group_by),)
            return Splitting(operation, Gather(), keys) if operation.group_by else None
        case Join():
            return Splitting(operation, Gather(), (tuple(operation.on), tuple(operation.on.values())))
        case Function(replicas="union"):
            return Splitting(operation, Gather(), None)
        case Function(replicas="keyed"):
            return Splitting(operation, Gather(), (tuple(operation.by),))
        case Aggregate() | Arrangement() | Function(replicas="merge"):
            final = Gather(MergeOperation(operation, inputs[0]))
            return Splitting(PartialOperation(operation), final, None)
    return None
