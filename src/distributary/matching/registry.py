"""Who is subscribed: ids, subscribers and slots of subscriptions, by number.

A subscription has a number, which arrays can hold; a slot is one distinct combination of filters, and all
subscriptions of a slot form a list (`first`, `following`, `preceding`), so that an event that passes the
slot's filters is expanded to its subscriptions by following links. Subscriptions with a tolerance form a
list of their own (`first_changing`). Numbers and slots are used again.

What was frozen stays in Arrow and NumPy buffers, over which changes are layered (see `names`); of the
arrays by number and slot, an opened registry copies the pages that it writes to.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from distributary.errors import InputError, UnknownSubscriptionError
from distributary.kernel import Ints, Longs, kernel
from distributary.matching import frozen
from distributary.matching.index import Arrays, Pairs
from distributary.matching.names import NameTable
from distributary.matching.serials import Serials

A = TypeVar("A", bound=np.generic)

NONE = -1

BY_NUMBER = ("serial_of", "subscriber_of", "slot_of", "following", "preceding", "changing")
BY_SLOT = ("first", "first_changing")


class SubscriptionRegistry:
    """The table of subscriptions."""

    def __init__(self) -> None:
        self.names = NameTable()
        self.subscribers = NameTable()
        self._free: list[int] = []
        self._serials = Serials()
        self._next_serial = 0
        self.serial_of = np.full(64, NONE, np.int64)
        self.subscriber_of = np.zeros(64, np.int32)
        self.slot_of = np.full(64, NONE, np.int32)
        self.following = np.full(64, NONE, np.int32)
        self.preceding = np.full(64, NONE, np.int32)
        self.changing = np.zeros(64, np.int32)
        self.first = np.full(64, NONE, np.int32)
        self.first_changing = np.full(64, NONE, np.int32)

    def __len__(self) -> int:
        return len(self.names) - len(self._free)

    def __contains__(self, subscription_id: str) -> bool:
        return self.names.find(subscription_id) is not None

    def number(self, subscription_id: str) -> int:
        number = self.names.find(subscription_id)
        if number is None:
            raise UnknownSubscriptionError(subscription_id)
        return number

    def require_new(self, subscription_id: str) -> None:
        """Refuse an id that is registered already."""
        if subscription_id in self:
            raise InputError(f"{subscription_id!r} is registered already; remove it first", field="id")

    def add(
        self, subscription_id: str, subscriber: str, slot: int, *, serial: int | None, changing: bool
    ) -> int:
        """Enter a subscription under a new id, with or without a tolerance; its number."""
        serial = self._next_serial if serial is None else serial
        self._next_serial = max(self._next_serial, serial + 1)
        number = self._free.pop() if self._free else len(self.names)
        self._reserve(number, slot)
        self.names.put(number, subscription_id)
        self.subscriber_of[number] = self._code(subscriber)
        self.slot_of[number] = slot
        self.serial_of[number] = serial
        self.changing[number] = changing
        if changing:
            self._serials.add(serial, number)
        self._link(number, self.first_changing if changing else self.first, slot)
        return number

    def remove(self, subscription_id: str) -> tuple[int, int, bool]:
        """Strike a subscription out; its number, its slot, and whether it has a tolerance."""
        number = self.number(subscription_id)
        slot = int(self.slot_of[number])
        before, after = int(self.preceding[number]), int(self.following[number])
        if before != NONE:
            self.following[before] = after
        elif self.changing[number]:
            self.first_changing[slot] = after
        else:
            self.first[slot] = after
        if after != NONE:
            self.preceding[after] = before
        self.following[number] = self.preceding[number] = self.slot_of[number] = NONE
        self.names.put(number, None)
        self._free.append(number)
        return number, slot, bool(self.changing[number])

    def find_changing(self, serials: Longs) -> Ints:
        """For each serial the number of the subscription with a tolerance that has it, or NONE."""
        numbers = self._serials.find(serials)
        current = (self.serial_of[numbers] == serials) & (self.slot_of[numbers] != NONE)
        return np.where(current, numbers, np.int32(NONE))

    def subscriber(self, number: int) -> str:
        name = self.subscribers.text(int(self.subscriber_of[number]))
        assert name is not None, "subscribers are never struck out"
        return name

    def subscribers_of(self, numbers: Ints) -> pa.Array:
        """The subscribers of these subscriptions, as an Arrow array of large strings."""
        return self.subscribers.take(self.subscriber_of[numbers])

    def expand(self, pairs: Pairs, *, changing: bool = False) -> Pairs:
        """From pairs of row and slot to pairs of row and number, for those with or without a tolerance."""
        if not len(pairs.rows):
            return pairs
        first = self.first_changing if changing else self.first
        return Pairs(*_expand(pairs.rows, pairs.slots, first, self.following))

    def ids(self) -> list[str]:
        return self.names.texts()

    def settle(self) -> None:
        """Reorganise after many changes."""
        self.names.settle()
        self.subscribers.settle()

    def freeze(self) -> Arrays:
        count = len(self.names)
        slots = int(self.slot_of[:count].max(initial=NONE)) + 1
        return {
            **frozen.under("ids", self.names.freeze()),
            **frozen.under("subscribers", self.subscribers.freeze()),
            **{name: frozen.with_room(getattr(self, name)[:count], NONE) for name in BY_NUMBER},
            **{name: frozen.with_room(getattr(self, name)[:slots], NONE) for name in BY_SLOT},
            "free": np.array(self._free, np.int32),
            "next_serial": np.array([self._next_serial], np.int64),
            **frozen.under("serials", self._frozen_serials()),
        }

    @classmethod
    def open(cls, arrays: Mapping[str, NDArray[Any]]) -> SubscriptionRegistry:
        registry = cls()
        registry.names = NameTable.open(frozen.within(arrays, "ids"))
        registry.subscribers = NameTable.open(frozen.within(arrays, "subscribers"))
        registry._free = arrays["free"].tolist()
        registry._next_serial = int(arrays["next_serial"][0])
        registry._serials = Serials.open(frozen.within(arrays, "serials"))
        for name in BY_NUMBER + BY_SLOT:
            setattr(registry, name, arrays[name])
        return registry

    def _frozen_serials(self) -> Arrays:
        held = slice(len(self.names))
        changing = np.flatnonzero((self.changing[held] == 1) & (self.slot_of[held] != NONE))
        return Serials.freeze(self.serial_of[changing], changing.astype(np.int32))

    def memory(self) -> int:
        arrays = sum(int(getattr(self, name).nbytes) for name in BY_NUMBER + BY_SLOT)
        return arrays + self.names.memory() + self.subscribers.memory() + self._serials.memory()

    def _code(self, subscriber: str) -> int:
        code = self.subscribers.find(subscriber)
        if code is None:
            code = len(self.subscribers)
            self.subscribers.put(code, subscriber)
        return code

    def _link(self, number: int, first: Ints, slot: int) -> None:
        after = int(first[slot])
        first[slot] = number
        self.following[number] = after
        self.preceding[number] = NONE
        if after != NONE:
            self.preceding[after] = number

    def _reserve(self, number: int, slot: int) -> None:
        if number >= len(self.slot_of):
            for name in BY_NUMBER:
                setattr(self, name, grown(getattr(self, name), number))
        if slot >= len(self.first):
            for name in BY_SLOT:
                setattr(self, name, grown(getattr(self, name), slot))


def grown(array: NDArray[A], position: int) -> NDArray[A]:
    """A copy that has this position; new entries are NONE."""
    more = np.full(max(len(array), position + 1 - len(array)), NONE, array.dtype)
    return np.concatenate([array, more])


@kernel
def _expand(rows: Ints, slots: Ints, first: Ints, following: Ints) -> tuple[Ints, Ints]:
    total = 0
    for at in range(len(rows)):
        number = first[slots[at]]
        while number != NONE:
            total += 1
            number = following[number]
    out_rows = np.empty(total, np.int32)
    out_numbers = np.empty(total, np.int32)
    filled = 0
    for at in range(len(rows)):
        number = first[slots[at]]
        while number != NONE:
            out_rows[filled] = rows[at]
            out_numbers[filled] = number
            filled += 1
            number = following[number]
    return out_rows, out_numbers
