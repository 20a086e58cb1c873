"""What every running operator has: items and watermarks in, items and a watermark out, and a state.

Rules of all modules here:

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
from collections.abc import Sequence
from typing import Any

from distributary.flow.language.schema import MAX_TIME, Item, Schema

BEGINNING = -4 * MAX_TIME
"""The watermark before anything is known."""
END = 4 * MAX_TIME
"""The watermark of a stream that has ended."""

State = dict[str, Any]
Schemas = Sequence[Schema]
"""Those of an operator's inputs."""
Group = tuple[Any, ...]
"""The values of the attributes by which items are grouped."""


def item_state(item: Item) -> list[Any]:
    """An item as plain data; `Item(*state)` makes it again."""
    return [item.id, item.time, dict(item.attributes), item.rank]


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

    # What each kind of operator does: with an item that is not late, when its watermark has moved, and how
    # it saves and takes up what it remembers.

    @abstractmethod
    def _receive(self, input: int, item: Item) -> list[Item]: ...

    def _advance(self) -> list[Item]:
        return []

    def _state(self) -> State:
        return {}

    def _restore(self, state: State) -> None:
        return
