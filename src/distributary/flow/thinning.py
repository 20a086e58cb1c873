"""Thinning a query out: which of its answers can be left out together, so that all others stay as they are.

    unit = thinning_unit(catalogue.shared(), catalogue.outputs("busy"))
    survives(unit.text("busy.per_minute", item), share=0.4, seed=1)

To leave out single events would make wrong counts and sums. So the items of all streams of a query are dealt
into *units*, so that an item comes only of items of its own unit: a unit can be left out as a whole.

Rules:

- Operators without memory keep an item's time; windows that do not overlap keep it within the window. So a
  piece of time that holds whole windows of every operator is a unit: the least common multiple of the
  windows, or a millisecond where there are none.
- An attribute of the answer that comes unchanged from the events, by which every aggregate groups and every
  join compares, divides units further: items that differ in it never meet.
- Windows that overlap and joins reach over any border in time. There units are groups alone, by the values of
  such attributes; without one the query cannot be thinned out. A group may be left out for a while: then the
  answers are left out whose items reach into that time (`reach`).
- Windows by number cannot be thinned out: what belongs to one depends on all items before. Nor can a query
  that reads what others publish into a source.
- Which units survive is decided by a hash of what identifies the unit (`survives`): everybody who knows the
  seed decides alike, and what survives at a share survives at every larger one.

Cost: a unit is found in about the operators times the attributes of the answer; a decision is a hash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from math import lcm

from distributary.errors import DistributaryError
from distributary.flow.catalogue import SharedOperator, Sharing
from distributary.flow.incremental.running import BEGINNING, END
from distributary.flow.language.function import Function
from distributary.flow.language.identifiers import group_of, group_text
from distributary.flow.language.operators import Copy, FilterOperation, Map, Operation, Rename, Split, Union
from distributary.flow.language.schema import Item, Schema
from distributary.flow.language.window import CountWindow, TimeWindow, Window
from distributary.flow.language.windowed import GROUPABLE, Aggregate, Count, Join, WindowOperation

Trace = dict[str, str]
"""By source or operator, the attribute of its stream that has the value of one attribute of the answer."""


class UnthinnableError(DistributaryError):
    """Why a query cannot be thinned out."""


@dataclass(frozen=True)
class ThinningUnit:
    """How items of a query's streams are dealt into units."""

    piece: int | None
    """Milliseconds of a piece of time; None where units are groups alone."""
    back: int
    """How much earlier than an answer the items may be that it comes of, in milliseconds."""
    ahead: int
    """How much later they may be."""
    keys: Mapping[str, tuple[str, ...]]
    """By source or operator, the attributes of its stream whose values tell units apart."""

    def text(self, stream: str, item: Item) -> str:
        """What identifies the unit of an item of a stream.

        >>> unit = ThinningUnit(1000, 0, 0, {"trades": ("symbol",)})
        >>> unit.text("trades", Item("e1", 2500, {"symbol": "OTE"}))
        '2|3:OTE'
        """
        piece = "" if self.piece is None else str(item.time // self.piece)
        return piece + group_text(group_of(item.attributes, self.keys[stream]))

    def reach(self, time: int) -> tuple[int, int]:
        """The first and the last millisecond that an answer of this time may come of, as whole pieces."""
        first, last = time - self.back, time + self.ahead
        if self.piece is None:
            return first, last
        return first // self.piece * self.piece, last // self.piece * self.piece + self.piece - 1


def survives(text: str, share: float, seed: int) -> bool:
    """Whether a unit is among the share that is kept.

    >>> survives("2|3:OTE", 1.0, seed=1), survives("2|3:OTE", 0.0, seed=1)
    (True, False)
    """
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8, key=str(seed).encode())
    return (int.from_bytes(digest.digest()) >> 11) / 2**53 < share


class ShareSchedule:
    """The share that a query is given, as it changes with the time of items.

    >>> schedule = ShareSchedule()
    >>> schedule.change(1000, 0.5)
    >>> schedule.change(3000, 1.0)
    >>> schedule.least(0, 999), schedule.least(500, 5000), schedule.least(3000, 5000)
    (1.0, 0.5, 1.0)
    """

    def __init__(self) -> None:
        self._changes = [(BEGINNING, 1.0)]
        """From when on which share is in force, in order."""

    @property
    def share(self) -> float:
        """The share in force from the last change on."""
        return self._changes[-1][1]

    @property
    def changed(self) -> bool:
        """Whether another share than the whole was ever in force."""
        return self._changes != [(BEGINNING, 1.0)]

    @property
    def since(self) -> int:
        """The time of the last change."""
        return self._changes[-1][0]

    def change(self, since: int, share: float) -> None:
        """Have another share in force from a time on, which is not before the last change."""
        assert since >= self.since, (since, self._changes)
        if since == self.since:
            del self._changes[-1]
        self._changes.append((since, share))

    def least(self, first: int, last: int) -> float:
        """The least share in force between two times, both included."""
        ends = [since - 1 for since, _ in self._changes[1:]] + [END]
        both = zip(self._changes, ends, strict=True)
        return min(share for (since, share), end in both if since <= last and end >= first)

    def forget_before(self, time: int) -> None:
        """Forget what was in force only before a time that nobody asks about any more."""
        while len(self._changes) > 1 and self._changes[1][0] <= time:
            del self._changes[0]


def thinning_unit(sharing: Sharing, outputs: Iterable[str]) -> ThinningUnit:
    """The finest units of a query with these outputs; `UnthinnableError` where there are none."""
    graph = _Graph(sharing, [sharing.streams[output] for output in outputs])
    operations = [one.operation for one in graph.upstream]
    for one in graph.upstream:
        if one.operation.internal:
            raise UnthinnableError("it reads what other queries publish into a source")
        if isinstance(_window(one.operation), CountWindow):
            raise UnthinnableError(f"{one.name} has windows by number, which depend on all items before")
    keys = graph.keys()
    if not any(map(_spans_pieces, operations)):
        sizes = [window.size for operation in operations if (window := _window(operation)) is not None]
        return ThinningUnit(lcm(*sizes), 0, 0, keys)
    if not all(keys.values()):
        culprit = next(one.name for one in graph.upstream if _spans_pieces(one.operation))
        raise UnthinnableError(
            f"{culprit} joins or has windows that overlap, and no attribute of the answer comes unchanged "
            "from the events through all groups and join keys"
        )
    back, ahead = zip(*(graph.reach(end) for end in graph.ends), strict=True)
    return ThinningUnit(None, max(back), max(ahead), keys)


def _window(operation: Operation) -> Window | None:
    """The window of an operation, if it has one."""
    return operation.span if isinstance(operation, WindowOperation | Function) else None


def _spans_pieces(operation: Operation) -> bool:
    """Whether results come of items on both sides of any border in time."""
    window = _window(operation)
    return isinstance(operation, Join) or (window is not None and not window.tumbling)


class _Graph:
    """What the answer of a query comes of: sources and operators by name."""

    def __init__(self, sharing: Sharing, outputs: Iterable[str]) -> None:
        makers = {stream: one for one in sharing.operators for stream in one.streams}
        self._makers = makers
        self.ends = tuple(dict.fromkeys(makers[output].name for output in outputs))
        """The operators whose streams are the answer."""
        self._operators = {one.name: one for one in sharing.operators}
        self.upstream: list[SharedOperator] = []
        """The operators, each before those it reads or beside them."""
        self.names: dict[str, None] = dict.fromkeys(self.ends)
        """All sources and operators."""
        self.reach = cache(self._reach)
        self._trace = cache(self._trace_anew)
        waiting = list(self.ends)
        while waiting:
            one = self._operators.get(waiting.pop())
            if one is not None:
                self.upstream.append(one)
                found = [name for name in self.inputs(one) if name not in self.names]
                self.names.update(dict.fromkeys(found))
                waiting += dict.fromkeys(found)

    def inputs(self, one: SharedOperator) -> list[str]:
        """The sources and operators that an operator reads."""
        return [self._makers[stream].name if stream in self._makers else stream for stream in one.inputs]

    def _reach(self, name: str) -> tuple[int, int]:
        """How much earlier and later than an item of a stream the events may be that it comes of."""
        one = self._operators.get(name)
        if one is None:
            return 0, 0
        before, after = zip(*map(self.reach, self.inputs(one)), strict=True)
        window = _window(one.operation)
        if isinstance(one.operation, Join):
            apart = one.operation.within
            return max(before[0], before[1] + apart), max(after[0], after[1] + apart)
        return max(before) + (window.size - 1 if isinstance(window, TimeWindow) else 0), max(after)

    def keys(self) -> dict[str, tuple[str, ...]]:
        """By source or operator, the attributes that tell units apart in the streams of all outputs."""
        first, *rest = [self._traces(end) for end in self.ends]
        common: dict[frozenset[tuple[str, str]], Trace] = {}
        for trace in first:
            joined: Trace | None = trace
            for others in rest:
                both = (_merged([joined, other]) for other in others) if joined is not None else ()
                joined = next((one for one in both if one is not None), None)
            if joined is not None:
                common[frozenset(joined.items())] = joined
        return {name: tuple(trace[name] for trace in common.values()) for name in self.names}

    def _traces(self, end: str) -> list[Trace]:
        """Where each attribute of a stream comes from, of those that do unchanged."""
        attributes = self._operators[end].schema.attributes
        groupable = [name for name, type in attributes.items() if type in GROUPABLE]
        return [trace for name in groupable if (trace := self._trace(end, name)) is not None]

    def _trace_anew(self, name: str, attribute: str) -> Trace | None:
        """Where an attribute comes from unchanged, through every way; None if there is a way where not."""
        one = self._operators.get(name)
        if one is None:
            return {name: attribute}
        before = _origins(one.operation, attribute, one.input_schemas)
        if before is None:
            return None
        ways = [self._trace(*each) for each in zip(self.inputs(one), before, strict=True)]
        found = [way for way in ways if way is not None]
        return _merged([{name: attribute}, *found]) if len(found) == len(ways) else None


def _merged(traces: Iterable[Trace]) -> Trace | None:
    """Several traces as one; None if an item's unit would not be the same by all of them."""
    merged: Trace = {}
    for trace in traces:
        for name, attribute in trace.items():
            if merged.setdefault(name, attribute) != attribute:
                return None
    return merged


def _origins(operation: Operation, attribute: str, schemas: tuple[Schema, ...]) -> tuple[str, ...] | None:
    """The attribute of each input that an attribute of the output is, if items that differ in it never meet.

    >>> _origins(Rename({"size": "lots"}), "lots", ())
    ('size',)
    """
    match operation:
        case FilterOperation() | Split():
            return (attribute,)
        case Union():
            return (attribute,) * len(schemas)
        case Map():
            return (attribute,) if attribute in operation.kept(schemas[0]) else None
        case Rename() | Copy():
            return (next((old for old, new in operation.names.items() if new == attribute), attribute),)
        case Aggregate() | Count():
            return (attribute,) if attribute in operation.group_by else None
        case Join():
            return (attribute, operation.on[attribute]) if attribute in operation.on else None
    return None
