"""Who is subscribed: ids, subscribers and slots of subscriptions, by number.

A subscription has a number, which arrays can hold; a slot is one distinct combination of filters, and all
subscriptions of a slot form a list (`first`, `following`, `preceding`), so that an event that passes the
slot's filters is expanded to its subscriptions by following links. Subscriptions with a tolerance form a
list of their own (`first_changing`). Numbers and slots are used again.

What was frozen stays in Arrow and NumPy buffers; Python objects for it are made only when somebody adds,
removes or asks for one subscription by id.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Mapping
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from distributary.errors import InputError, UnknownSubscriptionError
from distributary.matching import frozen
from distributary.matching.index import Arrays, Pairs
from distributary.matching.kernel import kernel
from distributary.matching.serials import Serials

A = TypeVar("A", bound=np.generic)

NONE = -1
FEW = 4096
"""Up to this many changed ids are ranked one by one; beyond it, all ids are sorted again."""


BY_NUMBER = ("serial_of", "subscriber_of", "slot_of", "following", "preceding", "changing")
BY_SLOT = ("first", "first_changing")


class Names:
    """Texts by number, with their order: a base in Arrow buffers and the changes since.

    `_changed` holds the numbers of the base that have another text now; numbers beyond the base are new.
    """

    def __init__(self, base: pa.Array | None = None) -> None:
        self._base = pa.array([], pa.large_string()) if base is None else base
        self._texts: list[str | None] | None = None
        self._changed: set[int] = set()
        self._ranks: NDArray[np.float64] | None = None
        self._order: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self._base) if self._texts is None else len(self._texts)

    def texts(self) -> list[str | None]:
        """All texts as Python strings, for reading; None where a number is not in use."""
        if self._texts is None:
            self._texts = self._base.to_pylist()
        return self._texts

    def put(self, number: int, text: str | None) -> None:
        texts = self.texts()
        self._ranks = None
        if number == len(texts):
            texts.append(text)
            return
        texts[number] = text
        if number < len(self._base):
            self._changed.add(number)

    def take(self, numbers: NDArray[np.int32]) -> pa.Array:
        """The texts of these numbers, as an Arrow array."""
        recent = self._recent()
        if not recent or not len(numbers):
            return self._base.take(pa.array(numbers))
        texts = self.texts()
        is_recent = np.isin(numbers, np.array(recent))
        patches = pa.array([texts[number] for number in numbers[is_recent].tolist()], pa.large_string())
        if not len(self._base):
            return patches
        taken = self._base.take(pa.array(np.where(is_recent, 0, numbers)))
        return pc.replace_with_mask(taken, pa.array(is_recent), patches)

    def ranks(self) -> NDArray[np.float64]:
        """For each number a value that is ordered as the texts are."""
        recent = self._recent()
        if self._order is None:
            self._order = _order_of(self._base)
        if self._ranks is None:
            ranks = np.empty(len(self), np.float64)
            ranks[self._order] = np.arange(len(self._order))
            texts = self.texts() if recent else []
            named = sorted((text, number) for number in recent if (text := texts[number]) is not None)
            for position, (text, number) in enumerate(named):
                below = bisect_left(self._order, text, key=lambda at: self._base[int(at)].as_py())
                ranks[number] = below - 1 + (position + 1) / (len(named) + 2)
            self._ranks = ranks
        return self._ranks

    def settled(self) -> pa.Array:
        """All texts as one Arrow array."""
        if self._changed or len(self) > len(self._base):
            self._base = pa.array(self.texts(), pa.large_string())
            self._changed = set()
            self._order = None
        return self._base

    def memory(self) -> int:
        total: int = self._base.nbytes
        if self._texts is not None:
            total += sys.getsizeof(self._texts) + sum(map(sys.getsizeof, self._texts))
        return total

    def _recent(self) -> list[int]:
        """The numbers whose text is not that of the base; when they are many, a new base is made first."""
        if len(self._changed) + len(self) - len(self._base) > FEW:
            self.settled()
        return [*self._changed, *range(len(self._base), len(self))]


class Registry:
    """The table of subscriptions."""

    def __init__(self) -> None:
        self.names = Names()
        self._numbers: dict[str, int] | None = {}
        self._free: list[int] = []
        self._subscribers: list[str] = []
        self._subscriber_codes: dict[str, int] = {}
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
        return subscription_id in self._by_id()

    def number(self, subscription_id: str) -> int:
        try:
            return self._by_id()[subscription_id]
        except KeyError:
            raise UnknownSubscriptionError(subscription_id) from None

    def require_new(self, subscription_id: str) -> None:
        """Refuse an id that is registered already."""
        if subscription_id in self._by_id():
            raise InputError(f"{subscription_id!r} is registered already; remove it first", field="id")

    def add(
        self, subscription_id: str, subscriber: str, slot: int, *, serial: int | None, changing: bool
    ) -> int:
        """Enter a subscription under a new id, with or without a tolerance; its number."""
        serial = self._next_serial if serial is None else serial
        self._next_serial = max(self._next_serial, serial + 1)
        by_id = self._by_id()
        number = self._free.pop() if self._free else len(self.names)
        self._reserve(number, slot)
        self.names.put(number, subscription_id)
        by_id[subscription_id] = number
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
        self._own()
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
        del self._by_id()[subscription_id]
        self._free.append(number)
        return number, slot, bool(self.changing[number])

    def find_changing(self, serials: NDArray[np.int64]) -> NDArray[np.int32]:
        """For each serial the number of the subscription with a tolerance that has it, or NONE."""
        if not len(self):
            return np.full(len(serials), NONE, np.int32)
        numbers = self._serials.find(serials)
        current = (self.serial_of[numbers] == serials) & (self.slot_of[numbers] != NONE)
        return np.where(current, numbers, np.int32(NONE))

    def subscriber(self, number: int) -> str:
        return self._subscribers[int(self.subscriber_of[number])]

    def subscriber_names(self, codes: NDArray[np.int32]) -> pa.Array:
        """The subscribers of these codes (see `subscriber_of`), as an Arrow array."""
        return pa.array(self._subscribers, pa.large_string()).take(pa.array(codes))

    def expand(self, pairs: Pairs, *, changing: bool = False) -> Pairs:
        """From pairs of row and slot to pairs of row and number, for those with or without a tolerance."""
        if not len(pairs.rows):
            return pairs
        first = self.first_changing if changing else self.first
        return Pairs(*_expand(pairs.rows, pairs.slots, first, self.following))

    def ids(self) -> list[str]:
        return sorted(self._by_id())

    def freeze(self) -> Arrays:
        base = self.names.settled()
        texts = frozen.pack_texts([text or "" for text in self.names.texts()])
        return {
            **frozen.under("ids", texts),
            "used": np.asarray(base.is_valid().to_numpy(zero_copy_only=False), np.bool_),
            **frozen.under("subscribers", frozen.pack_texts(self._subscribers)),
            **{name: getattr(self, name)[: len(self.names)] for name in BY_NUMBER},
            **{name: getattr(self, name) for name in BY_SLOT},
            "order": _order_of(base),
            "next_serial": np.array([self._next_serial], np.int64),
            **frozen.under("serials", self._frozen_serials()),
        }

    @classmethod
    def open(cls, arrays: Mapping[str, NDArray[Any]]) -> Registry:
        registry = cls()
        used = arrays["used"]
        validity = pa.py_buffer(np.packbits(used, bitorder="little").tobytes())
        ids = frozen.within(arrays, "ids")
        base = pa.Array.from_buffers(
            pa.large_string(),
            len(used),
            [validity, pa.py_buffer(ids["offsets"]), pa.py_buffer(ids["bytes"])],
        )
        registry.names = Names(base)
        registry.names._order = arrays["order"]
        registry._numbers = None
        registry._free = np.flatnonzero(~used).tolist()
        registry._subscribers = frozen.unpack_texts(frozen.within(arrays, "subscribers"))
        registry._subscriber_codes = {name: code for code, name in enumerate(registry._subscribers)}
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
        total: int = self.names.memory()
        total += sum(getattr(self, name).nbytes for name in BY_NUMBER + BY_SLOT)
        total += sys.getsizeof(self._subscribers) + sum(map(sys.getsizeof, self._subscribers))
        return total + (sys.getsizeof(self._numbers) if self._numbers else 0)

    def _by_id(self) -> dict[str, int]:
        if self._numbers is None:
            texts = enumerate(self.names.texts())
            self._numbers = {text: number for number, text in texts if text is not None}
        return self._numbers

    def _code(self, subscriber: str) -> int:
        code = self._subscriber_codes.get(subscriber)
        if code is None:
            code = self._subscriber_codes[subscriber] = len(self._subscribers)
            self._subscribers.append(subscriber)
        return code

    def _link(self, number: int, first: NDArray[np.int32], slot: int) -> None:
        after = int(first[slot])
        first[slot] = number
        self.following[number] = after
        self.preceding[number] = NONE
        if after != NONE:
            self.preceding[after] = number

    def _own(self) -> None:
        """Before the first change after opening: copies that may be written."""
        if self.slot_of.flags.writeable:
            return
        for name in BY_NUMBER + BY_SLOT:
            setattr(self, name, getattr(self, name).copy())

    def _reserve(self, number: int, slot: int) -> None:
        self._own()
        if number >= len(self.slot_of):
            for name in BY_NUMBER:
                setattr(self, name, grown(getattr(self, name), number))
        if slot >= len(self.first):
            for name in BY_SLOT:
                setattr(self, name, grown(getattr(self, name), slot))


def _order_of(texts: pa.Array) -> NDArray[np.int64]:
    """The numbers in use, in the order of their texts."""
    indices: NDArray[np.int64] = pc.sort_indices(texts).to_numpy().astype(np.int64)
    return indices[: len(texts) - texts.null_count]


def grown(array: NDArray[A], position: int) -> NDArray[A]:
    """A copy that has this position; new entries are NONE."""
    more = np.full(max(len(array), position + 1 - len(array)), NONE, array.dtype)
    return np.concatenate([array, more])


@kernel
def _expand(
    rows: NDArray[np.int32],
    slots: NDArray[np.int32],
    first: NDArray[np.int32],
    following: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
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
