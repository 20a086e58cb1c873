"""Super-operators: connected operators of a query that are placed, moved and published as one unit.

A unit has one *last* operator, which no other of its members reads. Only that one's stream leaves the unit:
the others publish nothing, so neither other queries nor other operators of the query may read them, and none
of them is an output. It follows that a path that leaves a unit never comes back to it.
"""

from __future__ import annotations

from collections.abc import Iterator

from distributary.errors import InputError
from distributary.flow.language.query import Query
from distributary.flow.language.schema import NAME, listed


def unit_of(query: Query, operator: str) -> str | None:
    """The unit that an operator of the query is part of."""
    return next((name for name, members in query.units.items() if operator in members), None)


def unpublished(query: Query) -> frozenset[str]:
    """The operators inside units, whose streams nobody else can read."""
    return frozenset(
        member
        for members in query.units.values()
        for member in members
        if member not in _last(query, members)
    )


def unit_faults(query: Query) -> Iterator[InputError]:
    """What is wrong with the units of a query."""
    names = {operator.name for operator in query.operators}
    taken: dict[str, str] = {}
    for unit, members in query.units.items():
        field = f"super.{unit}"
        if not isinstance(unit, str) or not NAME.fullmatch(unit) or unit in names:
            yield InputError("must be a name that no operator has", field=field)
        unknown = [member for member in members if member not in names]
        if unknown or len(members) < 2:
            reason = f"must name two or more operators of {listed(sorted(names))}, not {listed(members)}"
            yield InputError(reason, field=field)
            continue
        for member in members:
            if member in taken:
                reason = f"{member!r} is named twice, here and in super.{taken[member]}"
                yield InputError(reason, field=field)
            taken[member] = unit
        yield from _shape_faults(query, members, field)


def _shape_faults(query: Query, members: tuple[str, ...], field: str) -> Iterator[InputError]:
    last = _last(query, members)
    if len(last) != 1:
        reason = f"must have one last operator, which no other of them reads, and has {listed(sorted(last))}"
        yield InputError(reason, field=field)
        return
    if _reached(query, members) != set(members):
        yield InputError("must be connected: each must read another, or be read by it", field=field)
    inner = set(members) - last
    for operator in query.operators:
        if operator.publish is not None and operator.name in inner:
            reason = f"{operator.name!r} is inside the unit, so it publishes nothing"
            yield InputError(reason, field=field)
    for operator in query.operators:
        for read in operator.inputs:
            if _bare(read) in inner and operator.name not in members:
                reason = f"{operator.name!r} reads {read!r}, which is inside the unit"
                yield InputError(f"{reason}; only {next(iter(last))!r} can be read outside", field=field)
    for output in query.outputs:
        if _bare(output) in inner:
            yield InputError(f"{output!r} is an output of the query but inside the unit", field=field)


def _bare(stream: str) -> str:
    """The operator of a stream of the same query."""
    return stream.partition(".")[0] if stream.endswith((".1", ".2")) else stream


def _edges(query: Query, members: tuple[str, ...]) -> list[tuple[str, str]]:
    return [
        (_bare(read), operator.name)
        for operator in query.operators
        if operator.name in members
        for read in operator.inputs
        if _bare(read) in members
    ]


def _last(query: Query, members: tuple[str, ...]) -> set[str]:
    return set(members) - {read for read, _ in _edges(query, members)}


def _reached(query: Query, members: tuple[str, ...]) -> set[str]:
    """The members that are connected with the first."""
    edges = _edges(query, members)
    reached = {members[0]}
    while True:
        more = {end for edge in edges if reached & set(edge) for end in edge}
        if more <= reached:
            return reached
        reached |= more
