"""Running operators that look at one item at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from distributary.filters.where.evaluate import evaluate as condition_holds
from distributary.flow.entries import SourceEntry
from distributary.flow.incremental.running import RunningOperator, Schemas, State
from distributary.flow.language.expression import evaluate
from distributary.flow.language.function import CallError, Function, call_item
from distributary.flow.language.identifiers import union_id
from distributary.flow.language.operators import Copy, FilterOperation, Map, Rename, Split, Union
from distributary.flow.language.schema import Item


class StatelessOperator(RunningOperator):
    """An operator that looks at one item at a time."""

    def __init__(self, inputs: int, each: Callable[[int, Item], list[Item]]) -> None:
        super().__init__(inputs)
        self._each = each

    def _receive(self, input: int, item: Item) -> list[Item]:
        return self._each(input, item)


def filtering(operation: FilterOperation, schemas: Schemas) -> RunningOperator:
    """Lets items pass for which `where` is true, or `block` is not."""
    condition = operation.condition
    keeps = operation.where is not None

    def each(input: int, item: Item) -> list[Item]:
        return [item] if (condition_holds(condition, item.attributes) is True) is keeps else []

    return StatelessOperator(1, each)


def mapping(operation: Map, schemas: Schemas) -> RunningOperator:
    """Computes attributes, and keeps those of the input that stay."""
    kept = operation.kept(schemas[0])
    values = [(name, typed.expression) for name, typed in operation.values(schemas[0]).items()]

    def each(input: int, item: Item) -> list[Item]:
        given = item.attributes
        attributes = {name: given[name] for name in kept}
        for name, expression in values:
            attributes[name] = evaluate(expression, given)
        return [replace(item, attributes=attributes)]

    return StatelessOperator(1, each)


def renaming(operation: Rename, schemas: Schemas) -> RunningOperator:
    """Gives attributes other names."""
    pairs = [(name, operation.names.get(name, name)) for name in schemas[0].attributes]

    def each(input: int, item: Item) -> list[Item]:
        return [replace(item, attributes={new: item.attributes[name] for name, new in pairs})]

    return StatelessOperator(1, each)


def copying(operation: Copy, schemas: Schemas) -> RunningOperator:
    """Copies attributes."""
    pairs = list(operation.names.items())

    def each(input: int, item: Item) -> list[Item]:
        attributes = dict(item.attributes)
        for name, new in pairs:
            attributes[new] = attributes[name]
        return [replace(item, attributes=attributes)]

    return StatelessOperator(1, each)


def union(operation: Union, schemas: Schemas) -> RunningOperator:
    """Passes the items of all inputs on, their ids with the input's number."""
    return StatelessOperator(len(schemas), lambda input, item: [replace(item, id=union_id(input, item.id))])


def split(operation: Split, schemas: Schemas) -> RunningOperator:
    """Passes items on: the two outputs are alike."""
    return StatelessOperator(1, lambda input, item: [item])


def entry(operation: SourceEntry, schemas: Schemas) -> RunningOperator:
    """Passes published items on that belong to the source."""

    def each(input: int, item: Item) -> list[Item]:
        entered = operation.enter(item)
        return [] if entered is None else [entered]

    return StatelessOperator(1, each)


def item_function(operation: Function, schemas: Schemas) -> RunningOperator:
    """Calls a user's function for each item."""
    schema = operation.schema(*schemas)

    def each(input: int, item: Item) -> list[Item]:
        try:
            return call_item(operation, schema, item)
        except CallError as error:
            running.rejected.append((item.id, str(error)))
            return []

    running = StatelessOperator(1, each)
    return running


class PipedOperator(RunningOperator):
    """Several inputs as one stream, each item changed by a function and then given to another operator."""

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
