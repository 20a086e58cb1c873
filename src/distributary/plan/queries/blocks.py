"""What is placed as one: a computation that queries share, or a super-operator with all its members.

Rules:

- Every block has one last member, whose stream alone others read. The others' never travel.
- In a catalogue (`blocks_of`), what queries compute alike is one block, as `Catalogue.shared` has it, but a
  super-operator is shared only as a whole: what is inside publishes nothing that others could read.
- A running network shares inside of super-operators as well, for example with a query that was there before:
  it says itself what runs as part of which unit (`running_blocks`). Where that lets an inner stream leave its
  unit, the unit cannot be taken as one: its members are blocks of their own, and are to stay where they are.
- What a block does with an item follows from what its members do with what reaches them (`block_profile`).

Cost: linear in the operators and their inputs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from distributary.flow.catalogue import BoundOperator, Catalogue, SharedOperator
from distributary.flow.language.operators import FilterOperation
from distributary.plan.goal.expression import Number

SUPER = "super-operator"
"""The kind of operator that stands for a unit."""


@dataclass(frozen=True)
class Block:
    """Operators that are placed as one, each after those it reads."""

    name: str
    members: tuple[SharedOperator, ...]
    unit: bool = False
    """Whether it is a super-operator or of one: then it is never split."""
    open: bool = False
    """Whether it is of one whose inner streams leave: then it cannot move without the rest."""

    @property
    def last(self) -> SharedOperator:
        """The member whose stream others read."""
        return self.members[-1]

    @property
    def stands_for(self) -> tuple[str, ...]:
        """The operators it computes, as `query.operator`."""
        return tuple(name for member in self.members for name in member.stands_for)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The streams that come from outside."""
        inside = {stream for member in self.members for stream in member.streams}
        read = [stream for member in self.members for stream in member.inputs if stream not in inside]
        return tuple(dict.fromkeys(read))


@dataclass(frozen=True)
class PlacementBlocks:
    """All that is placed, each block after those it reads."""

    blocks: tuple[Block, ...]
    streams: Mapping[str, str]
    """From every stream of the catalogue to the one that is computed in its place."""


def blocks_of(catalogue: Catalogue) -> PlacementBlocks:
    """The blocks of a catalogue's queries; super-operators have the name `query.unit`.

    >>> from distributary.flow import QueryBuilder, Source
    >>> build = QueryBuilder("busy")
    >>> large = build.filter("large", "trades", where="size > 1000")
    >>> _ = build.count("many", large, "1 minute")
    >>> build.unit("both", "large", "many")
    >>> trades = Source("trades", {"size": "integer", "at": "integer"}, time="at", topic="trades")
    >>> [(block.name, block.inputs) for block in blocks_of(Catalogue([trades], [build.query()])).blocks]
    [('busy.both', ('trades',))]
    """
    streams = {name: name for name in catalogue.sources}
    alike: dict[Hashable, list[list[BoundOperator]]] = defaultdict(list)
    for group in _groups(catalogue):
        inside = {
            stream: (at, port) for at, one in enumerate(group) for port, stream in enumerate(one.streams)
        }
        key = tuple(
            (one.operation.canonical, tuple(inside.get(read) or streams[read] for read in one.inputs))
            for one in group
        )
        same = alike[key]
        same.append(group)
        for one, first in zip(group, same[0], strict=True):
            streams.update(zip(one.streams, first.streams, strict=True))
    return PlacementBlocks(tuple(_block(groups, streams) for groups in alike.values()), streams)


def _groups(catalogue: Catalogue) -> Iterator[list[BoundOperator]]:
    """Units and other operators. The last of a unit comes after the rest, and before all that read it."""
    units: dict[str, list[BoundOperator]] = defaultdict(list)
    for bound in catalogue.operators:
        if bound.unit is not None:
            units[bound.unit].append(bound)
    for bound in catalogue.operators:
        if bound.unit is None:
            yield [bound]
        elif bound is units[bound.unit][-1]:
            yield units[bound.unit]


def _block(groups: Sequence[Sequence[BoundOperator]], streams: Mapping[str, str]) -> Block:
    first = groups[0]
    members = tuple(
        SharedOperator(
            one.name,
            one.operation,
            tuple(streams[read] for read in one.inputs),
            one.input_schemas,
            one.schema,
            tuple(group[at].name for group in groups),
        )
        for at, one in enumerate(first)
    )
    unit = first[0].unit
    return Block(members[-1].name if unit is None else unit, members, unit is not None)


def running_blocks(catalogue: Catalogue, unit_of: Callable[[SharedOperator], str | None]) -> PlacementBlocks:
    """The blocks of what runs; super-operators have the name of their last member."""
    sharing = catalogue.shared()
    outputs = {sharing.streams[name] for query in catalogue.queries for name in catalogue.outputs(query)}
    units: dict[str, list[SharedOperator]] = defaultdict(list)
    for one in sharing.operators:
        unit = unit_of(one)
        if unit is not None:
            units[unit].append(one)
    whole = {unit for unit, members in units.items() if _closed(members, sharing.operators, outputs)}
    found = []
    for one in sharing.operators:
        unit = unit_of(one)
        if unit not in whole:
            found.append(Block(one.name, (one,), unit is not None, unit is not None))
        elif one is units[unit][-1]:
            found.append(Block(one.name, tuple(units[unit]), True))
    return PlacementBlocks(tuple(found), sharing.streams)


def _closed(
    members: Sequence[SharedOperator], operators: Sequence[SharedOperator], outputs: set[str]
) -> bool:
    """Whether nothing but the last member's stream leaves."""
    inner = {stream for member in members[:-1] for stream in member.streams}
    names = {member.name for member in members}
    read = {stream for one in operators if one.name not in names for stream in one.inputs}
    return not inner & (read | outputs)


# What a block does


class OperatorProfile(NamedTuple):
    """What an operator makes of what it reads, as `PlannedOperator` has it."""

    selectivity: Number
    growth: Number
    cost: Number


class FlowRate(NamedTuple):
    """What flows in a second."""

    items: Number
    bytes: Number


def output_flow(numbers: OperatorProfile, read: FlowRate) -> FlowRate:
    """What comes out of an operator that reads so much."""
    items = numbers.selectivity * read.items
    return FlowRate(items, numbers.selectivity * numbers.growth * read.bytes)


def total_flow(rates: Iterable[FlowRate]) -> FlowRate:
    """What several streams come to."""
    each = list(rates)
    return FlowRate(sum(one.items for one in each), sum(one.bytes for one in each))


def block_profile(
    block: Block,
    numbers: Sequence[OperatorProfile],
    makers: Mapping[str, str],
    rates: Mapping[str, FlowRate],
    filtering: bool,
) -> tuple[OperatorProfile, Number]:
    """What a block's members come to, and which share of its inputs it can use.

    `makers` says which operator or source makes each stream, `rates` what each of these gives out. What an
    item costs is counted for those that reach the block: where the network filters, only what passes its
    filters. With several inputs, the share is of all of them together.
    """
    read = dict.fromkeys(makers[stream] for stream in block.inputs)
    flows = {maker: rates[maker] for maker in read}
    came = total_flow(flows.values())
    if not (came.items and came.bytes):
        # Nothing is known to flow: what would become of an item from each.
        flows = dict.fromkeys(read, FlowRate(1, 1))
        came = total_flow(flows.values())
    wanted: dict[str, Number] = dict.fromkeys(read, 0)
    load: Number = 0
    for member, own in zip(block.members, numbers, strict=True):
        usable = own.selectivity if isinstance(member.operation, FilterOperation) else 1
        inputs = dict.fromkeys(makers[stream] for stream in member.inputs)
        given = total_flow(flows[maker] for maker in inputs)
        load += own.cost * given.items * (usable if filtering else 1)
        flows[member.name] = output_flow(own, given)
        wanted |= {maker: min(1, wanted[maker] + usable) for maker in inputs if maker in wanted}
    share = sum(wanted[maker] * flows[maker].bytes for maker in read) / came.bytes
    out, reached = flows[block.last.name], came.items * (share if filtering else 1)
    growth = (out.bytes / out.items) / (came.bytes / came.items) if out.items else 1
    return OperatorProfile(out.items / came.items, growth, load / reached if reached else 0), share
