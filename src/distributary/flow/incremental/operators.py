"""Operators that run piece by piece: items and watermarks in, items and a watermark out.

Rules of this module, of `running_aggregates` and of `running_windows`:

- `receive(input, item)` takes one item of one input; `advance(input, watermark)` says that no item with an
  earlier time will come by that input any more. Both return the items that are certain now, in stream order.
- An operator's own watermark is the least of its inputs' (a join's, less what its left items wait for): every
  result still to come is at or after it.
- Over all calls, the items returned are those of the interpreter for all the items received, whatever order
  they came in. An item behind its input's watermark is late: it is kept in `late`, and nothing else is done
  with it.
- `state` is all that an operator remembers, as plain data that JSON can hold. An operator that is started
  anew and given that state goes on where the other stopped; that is how operators move.
- Memory is bounded by what is between the watermark and the latest item: an item is dropped as soon as no
  result can need it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from distributary.filters.where.filter import WhereFilter
from distributary.flow.language.expression import evaluate
from distributary.flow.language.function import CallError, Function, call_item
from distributary.flow.language.identifiers import union_id
from distributary.flow.language.operators import Copy, FilterOperation, Map, Operation, Rename, Split, Union
from distributary.flow.language.schema import MAX_TIME, Item, Schema
from distributary.flow.splitting import Gather, UnionBranch
from distributary.model import Event

BEGINNING = -4 * MAX_TIME
"""The watermark before anything is known."""
END = 4 * MAX_TIME
"""The watermark of a stream that has ended."""

State = dict[str, Any]
Group = tuple[Any, ...]
"""The values of the attributes by which items are grouped."""


def frozen(item: Item) -> list[Any]:
    """An item as plain data."""
    return [item.id, item.time, dict(item.attributes), item.rank]


def thawed(given: Sequence[Any]) -> Item:
    id, time, attributes, rank = given
    return Item(id, time, attributes, rank)


class RunningOperator(ABC):
    """An operator at work; made by `start`."""

    def __init__(self, inputs: int) -> None:
        self.watermarks = [BEGINNING] * inputs
        self.late: list[tuple[int, Item]] = []
        """Items that came behind the watermark of their input, with its number; for the host to tell of."""
        self.rejected: list[tuple[str, str]] = []
        """What a user's function could not do: an id and the reason; for the host to tell of."""

    @property
    def watermark(self) -> int:
        """No item with an earlier time will be returned any more."""
        return min(self.watermarks)

    def receive(self, input: int, item: Item) -> list[Item]:
        """Take an item of an input; returns the items that are certain now."""
        if item.time < self.watermarks[input]:
            self.late.append((input, item))
            return []
        return self._receive(input, item)

    def advance(self, input: int, watermark: int) -> list[Item]:
        """No item with an earlier time will come by this input; returns the items that are certain now."""
        if watermark <= self.watermarks[input]:
            return []
        self.watermarks[input] = watermark
        return sorted(self._advance(), key=lambda item: item.order)

    def state(self) -> State:
        """All that it remembers, as plain data."""
        return {"watermarks": list(self.watermarks), **self._state()}

    def restore(self, state: State) -> None:
        """Go on from a state, in place of whatever was remembered."""
        self.watermarks = list(state["watermarks"])
        self._restore(state)

    @abstractmethod
    def _receive(self, input: int, item: Item) -> list[Item]: ...

    def _advance(self) -> list[Item]:
        return []

    def _state(self) -> State:
        return {}

    def _restore(self, state: State) -> None:
        return


class StatelessOperator(RunningOperator):
    """An operator that looks at one item at a time."""

    def __init__(self, inputs: int, each: Callable[[int, Item], list[Item]]) -> None:
        super().__init__(inputs)
        self._each = each

    def _receive(self, input: int, item: Item) -> list[Item]:
        return self._each(input, item)


def running_filter(filter: FilterOperation, schemas: Sequence[Schema]) -> RunningOperator:
    condition = WhereFilter.parse(filter.where if filter.where is not None else filter.block)
    keeps = filter.where is not None

    def each(input: int, item: Item) -> list[Item]:
        return [item] if condition.matches(Event("", attributes=item.attributes)) is keeps else []

    return StatelessOperator(1, each)


def running_map(map: Map, schemas: Sequence[Schema]) -> RunningOperator:
    kept = map.kept(schemas[0])
    values = [(name, typed.expression) for name, typed in map.values(schemas[0]).items()]

    def each(input: int, item: Item) -> list[Item]:
        given = item.attributes
        attributes = {name: given[name] for name in kept}
        for name, expression in values:
            attributes[name] = evaluate(expression, given)
        return [replace(item, attributes=attributes)]

    return StatelessOperator(1, each)


def running_rename(rename: Rename, schemas: Sequence[Schema]) -> RunningOperator:
    pairs = [(name, rename.names.get(name, name)) for name in schemas[0].attributes]

    def each(input: int, item: Item) -> list[Item]:
        return [replace(item, attributes={new: item.attributes[name] for name, new in pairs})]

    return StatelessOperator(1, each)


def running_copy(copy: Copy, schemas: Sequence[Schema]) -> RunningOperator:
    pairs = list(copy.names.items())

    def each(input: int, item: Item) -> list[Item]:
        attributes = dict(item.attributes)
        for name, new in pairs:
            attributes[new] = attributes[name]
        return [replace(item, attributes=attributes)]

    return StatelessOperator(1, each)


def running_union(union: Union, schemas: Sequence[Schema]) -> RunningOperator:
    return StatelessOperator(len(schemas), lambda input, item: [replace(item, id=union_id(input, item.id))])


def running_split(split: Split, schemas: Sequence[Schema]) -> RunningOperator:
    return StatelessOperator(1, lambda input, item: [item])


class RunningFunction(RunningOperator):
    """A user's function without a window."""

    def __init__(self, function: Function, schemas: Sequence[Schema]) -> None:
        super().__init__(1)
        self._function = function
        self._schema = function.schema(*schemas)

    def _receive(self, input: int, item: Item) -> list[Item]:
        try:
            return call_item(self._function, self._schema, item)
        except CallError as error:
            self.rejected.append((item.id, str(error)))
            return []


class PipedOperator(RunningOperator):
    """Several inputs as one stream, each item changed by the way, and then another operator."""

    def __init__(self, inputs: int, change: Callable[[Item], Item], then: RunningOperator | None) -> None:
        super().__init__(inputs)
        self._change = change
        self._then = then
        if then is not None:
            self.rejected = then.rejected

    def _receive(self, input: int, item: Item) -> list[Item]:
        changed = self._change(item)
        return [changed] if self._then is None else self._then.receive(0, changed)

    def _advance(self) -> list[Item]:
        return [] if self._then is None else self._then.advance(0, self.watermark)

    def _state(self) -> State:
        return {} if self._then is None else {"then": self._then.state()}

    def _restore(self, state: State) -> None:
        if self._then is not None:
            self._then.restore(state["then"])


def start(operation: Operation, *schemas: Schema) -> RunningOperator:
    """An operator over inputs of these schemas that has seen nothing yet.

    >>> from distributary.flow import Count
    >>> running = start(Count("10 ms"), Schema({"at": "integer"}, "at"))
    >>> running.receive(0, Item("a", 3, {"at": 3})), running.receive(0, Item("b", 12, {"at": 12}))
    ([], [])
    >>> running.advance(0, 11)
    [Item(id='0', time=9, attributes={'count': 1, 'at': 9}, rank=0)]
    """
    from distributary.flow.incremental.windows import WINDOWED  # which builds on this module

    match operation:
        case Gather(then):
            return PipedOperator(len(schemas), lambda item: item, start(then, schemas[0]) if then else None)
        case UnionBranch(index, then):
            inner = start(then, schemas[0]) if then else None
            return PipedOperator(1, lambda item: replace(item, id=union_id(index, item.id)), inner)
        case Function() if operation.span is None:
            return RunningFunction(operation, schemas)
    made = STATELESS.get(type(operation))
    return made(operation, schemas) if made else WINDOWED[type(operation)](operation, schemas)


STATELESS: dict[type[Operation], Callable[[Any, Sequence[Schema]], RunningOperator]] = {
    FilterOperation: running_filter,
    Map: running_map,
    Rename: running_rename,
    Copy: running_copy,
    Union: running_union,
    Split: running_split,
}
