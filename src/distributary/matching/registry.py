"""Who is subscribed: ids, subscribers and slots of subscriptions, by number.

A subscription has a number, which arrays can hold; a slot is one distinct combination of filters, and all
subscriptions of a slot form a list (`first`, `following`, `preceding`), so that an event that passes the
slot's filters is expanded to its subscriptions by following links. Subscriptions with a tolerance form a
list of their own (`first_changing`). Numbers and slots are used again.

What was frozen stays in Arrow and NumPy buffers, over which changes are layered (see `names`); of the
arrays by number and slot, an opened registry copies the pages that it writes to.
"""

from __future__ import annotations

from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike, NDArray

from distributary.errors import RegisteredAlreadyError, UnknownSubscriptionError
from distributary.kernel import Bytes, Flags, Ints, Longs, kernel, sealed
from distributary.matching import frozen
from distributary.matching.index import AnyArrays, Arrays, Pairs
from distributary.matching.matches import CodedTexts, Matches, WrittenTexts, coded_subscribers
from distributary.matching.names import NameTable
from distributary.matching.naming import NONE, Fire, SlotIds
from distributary.matching.order import at_places, by_row_and_rank
from distributary.matching.pair_naming import PairNames
from distributary.matching.placing import PlacedPairs, is_dense, placed_numbers, placed_slots
from distributary.matching.serials import Serials
from distributary.matching.single import SingleEvent

ROOM = 8
"""After very many were entered there is room for one more for each so many."""
LEAST_ROOM = 64
"""An array has room for so many at least."""


class ByNumber(NamedTuple):
    """What is known of a subscription, by its number; entries that are not used are NONE."""

    serial_of: Longs
    subscriber_of: Ints
    """The number of the subscriber's name."""
    slot_of: Ints
    preceding: Ints
    """The subscription of the same slot that this one follows."""
    changing: Ints
    """1 when it has a tolerance."""


class BySlot(NamedTuple):
    """Where the lists of a slot's subscriptions begin; NONE where there is none."""

    first: Ints
    """Those without a tolerance."""
    first_changing: Ints
    """Those with a tolerance."""


class SubscriptionRegistry:
    """The table of subscriptions; of one that was opened, each part is opened when it is first needed."""

    def __init__(self, opened: AnyArrays | None = None) -> None:
        self._opened = opened
        self._free: list[int] = [] if opened is None else opened["free"].tolist()
        self._next_serial = 0 if opened is None else int(opened["next_serial"][0])
        self._slot_ids: SlotIds | None = None
        """What one event reads, while the arrays are what they were."""
        self._pair_names: PairNames | None = None
        """What a small batch reads, while that is the same."""

    @cached_property
    def names(self) -> NameTable:
        """The ids of the subscriptions, by number."""
        return NameTable() if self._opened is None else NameTable.open(frozen.within(self._opened, "ids"))

    @cached_property
    def subscribers(self) -> NameTable:
        """The names of the subscribers, by numbers of their own."""
        if self._opened is None:
            return NameTable()
        return NameTable.open(frozen.within(self._opened, "subscribers"))

    @cached_property
    def _serials(self) -> Serials:
        return Serials() if self._opened is None else Serials.open(frozen.within(self._opened, "serials"))

    @cached_property
    def _of(self) -> ByNumber:
        return ByNumber(*map(self._array, ByNumber._fields))

    @cached_property
    def _following(self) -> Ints:
        """By number the next subscription of its slot that has, like this one, a tolerance or none."""
        return self._array("following")

    @cached_property
    def _slots(self) -> BySlot:
        return BySlot(*map(self._array, BySlot._fields))

    def _array(self, name: str) -> NDArray[Any]:
        """An array by number or by slot, as it was opened or as it begins."""
        if self._opened is not None:
            return self._opened[name]
        return np.full(LEAST_ROOM, NONE, np.int64 if name == "serial_of" else np.int32)

    def __len__(self) -> int:
        return len(self.names) - len(self._free)

    def __contains__(self, subscription_id: str) -> bool:
        return self.names.find(subscription_id) is not None

    def number(self, subscription_id: str) -> int:
        """The number of a subscription; `UnknownSubscriptionError` when it is not registered."""
        number = self.names.find(subscription_id)
        if number is None:
            raise UnknownSubscriptionError(subscription_id)
        return number

    def require_new(self, subscription_id: str) -> None:
        """Refuse an id that is registered already."""
        number = self.names.find(subscription_id)
        if number is not None:
            raise RegisteredAlreadyError(subscription_id, number)

    def add(
        self, subscription_id: str, subscriber: str, slot: int, *, serial: int | None, changing: bool
    ) -> int:
        """Enter a subscription under a new id, with or without a tolerance; its number."""
        serial = self._next_serial if serial is None else serial
        self._next_serial = max(self._next_serial, serial + 1)
        number = self._free.pop() if self._free else len(self.names)
        self._reserve(number, slot)
        first, following, preceding = self._first(changing), self._following, self._of.preceding
        self._of.subscriber_of[number] = self._code(subscriber)
        self._of.slot_of[number] = slot
        self._of.serial_of[number] = serial
        self._of.changing[number] = changing
        if changing:
            self._serials.add(serial, number)
        self.names.put(number, subscription_id)
        if self._slot_ids is not None:
            self._slot_ids.change(slot)
        after = int(first[slot])
        first[slot] = number
        following[number], preceding[number] = after, NONE
        if after != NONE:
            preceding[after] = number
        return number

    def fill(self, names: NameTable, subscribers: NameTable, noted: dict[str, NDArray[Any]]) -> None:
        """Enter very many subscriptions, by number, into an empty registry.

        Noted are arrays of `ByNumber`: subscriber_of, slot_of, changing, and serial_of unless each serial is
        the number. They are taken out of the dictionary, so that each is dropped when it has been copied.
        """
        self.names, self.subscribers = names, subscribers
        slot_of, changing = noted.pop("slot_of"), noted.pop("changing")
        count, slots = len(slot_of), int(slot_of.max(initial=NONE)) + 1
        room, slot_room = (max(LEAST_ROOM, used + used // ROOM + 1) for used in (count, slots))
        self._slots = BySlot(*(np.full(slot_room, NONE, np.int32) for _ in BySlot._fields))
        self._following, preceding = np.full(room, NONE, np.int32), np.full(room, NONE, np.int32)
        _link(sealed(slot_of), sealed(changing), *self._slots, self._following, preceding)
        changing = _with_room(changing, room, np.int32)
        slot_of = _with_room(slot_of, room, np.int32)
        subscriber_of = _with_room(noted.pop("subscriber_of"), room, np.int32)
        serial_of = np.arange(room, dtype=np.int64)
        serial_of[:count] = noted.pop("serial_of", serial_of[:count])
        serial_of[count:] = NONE
        self._of = ByNumber(serial_of, subscriber_of, slot_of, preceding, changing)
        self._next_serial = max(0, int(serial_of[:count].max(initial=NONE)) + 1)
        self._serials = Serials.open(self._frozen_serials())

    def remove(self, subscription_id: str) -> tuple[int, int, bool]:
        """Strike a subscription out; its number, its slot, and whether it has a tolerance."""
        number = self.number(subscription_id)
        slot, changing = self.slot(number), self.is_changing(number)
        first, following, preceding = self._first(changing), self._following, self._of.preceding
        if self._slot_ids is not None:
            self._slot_ids.change(slot)
        before, after = int(preceding[number]), int(following[number])
        if before != NONE:
            following[before] = after
        else:
            first[slot] = after
        if after != NONE:
            preceding[after] = before
        following[number] = preceding[number] = self._of.slot_of[number] = NONE
        self.names.put(number, None)
        self._free.append(number)
        return number, slot, changing

    def slot(self, number: int) -> int:
        """The slot of a subscription."""
        return int(self._of.slot_of[number])

    def is_changing(self, number: int) -> bool:
        """Whether a subscription has a tolerance."""
        return bool(self._of.changing[number])

    def serials(self, numbers: Any) -> Any:
        """The serial of a subscription, or of each of several."""
        return self._of.serial_of[numbers]

    def has_changing(self, slots: Ints) -> Flags:
        """For each slot whether some of its subscriptions have a tolerance."""
        has: Flags = self._slots.first_changing[slots] != NONE
        return has

    def find_changing(self, serials: Longs) -> Ints:
        """For each serial the number of the subscription with a tolerance that has it, or NONE."""
        numbers = self._serials.find(serials)
        current = (self._of.serial_of[numbers] == serials) & (self._of.slot_of[numbers] != NONE)
        return np.where(current, numbers, np.int32(NONE))

    def subscriber(self, number: int) -> str:
        """The name of the subscriber."""
        name = self.subscribers.text(int(self._of.subscriber_of[number]))
        assert name is not None, "subscribers are never struck out"
        return name

    def expand(self, pairs: Pairs, *, changing: bool = False) -> Pairs:
        """From pairs of row and slot to pairs of row and number, for those with or without a tolerance."""
        if not len(pairs.rows):
            return pairs
        first, following = self._first(changing), self._following
        # Made here, because NumPy asks for large pages, which are much faster to get.
        count = len(pairs.rows)
        expanded = Pairs(np.empty(count, np.int32), np.empty(count, np.int32))
        total = _expand(pairs.rows, pairs.slots, first, following, *expanded)
        if total > count:
            expanded = Pairs(np.empty(total, np.int32), np.empty(total, np.int32))
            _expand(pairs.rows, pairs.slots, first, following, *expanded)
        return Pairs(expanded.rows[:total], expanded.slots[:total])

    def coded(self, pairs: Pairs, rows: int) -> Matches | None:
        """The matches of these pairs of row and slot of a batch of so many rows, if they are dense.

        None when they are not, or some of these subscriptions have a tolerance.
        """
        if not is_dense(pairs, len(self.names), rows):
            return None
        found = placed_slots(pairs, *self._slots, self._following, self.names, rows)
        return None if found is None else self._coded(found)

    def ordered(self, pairs: Pairs, rows: int) -> Matches:
        """The matches of these pairs of row and number of a batch of so many rows."""
        if is_dense(pairs, len(self.names), rows):
            return self._coded(placed_numbers(pairs, self.names, rows))
        out_rows, numbers = by_row_and_rank(pairs, self.names.ranks, rows)
        subscriber_of = at_places(self._of.subscriber_of, numbers)
        ids = WrittenTexts(self.names.take(numbers))
        return Matches(out_rows, ids, lambda: WrittenTexts(self.subscribers.take(subscriber_of)))

    def _coded(self, found: PlacedPairs) -> Matches:
        subscriber_of = at_places(self._of.subscriber_of, found.numbers)
        return Matches(
            found.rows,
            CodedTexts(found.places, self.names.take(found.numbers)),
            partial(coded_subscribers, found.places, subscriber_of, self.subscribers),
        )

    def named(self, pairs: Pairs, rows: int) -> Matches | None:
        """The matches of these pairs of row and slot, if they are few and plain: see `PairNames.named`."""
        ids, names = self._ids(), self._pair_names
        if names is None or names.of is not ids or names.bases != self.subscribers.bases:
            names = self._pair_names = PairNames(ids, self._of.subscriber_of, self.subscribers)
        named = names.named(pairs, rows)
        if named is None:
            return None
        out_rows, ids, subscribers = named
        return Matches(out_rows, WrittenTexts(ids), lambda: WrittenTexts(subscribers))

    def ids_of(self, slots: Ints, single: SingleEvent, fire: Fire) -> list[str]:
        """The ids of the subscriptions of one event's slots: see `SlotIds.ids`."""
        return self._ids().ids(slots, single, fire)

    def numbers_of(self, slots: Ints, single: SingleEvent, fire: Fire) -> list[int] | Ints:
        """The numbers of the subscriptions of one event's slots: see `SlotIds.numbers`."""
        return self._ids().numbers(slots, single, fire)

    def _ids(self) -> SlotIds:
        ids, names = self._slot_ids, self.names
        if ids is None or ids.names is not names or ids.bases != names.bases:
            ids = self._slot_ids = SlotIds(*self._slots, self._following, names)
        return ids

    def ids(self) -> list[str]:
        """The ids of all subscriptions, sorted."""
        return self.names.texts()

    def settle(self) -> None:
        """Reorganise after many changes."""
        self.names.settle()
        self.subscribers.settle()

    def freeze(self) -> Arrays:
        """Everything as arrays, with some room for what is registered later."""
        count = len(self.names)
        slots = int(self._of.slot_of[:count].max(initial=NONE)) + 1
        return {
            **frozen.under("ids", self.names.freeze()),
            **frozen.under("subscribers", self.subscribers.freeze()),
            **{name: frozen.with_room(array[:count], NONE) for name, array in self._of._asdict().items()},
            "following": frozen.with_room(self._following[:count], NONE),
            **{name: frozen.with_room(array[:slots], NONE) for name, array in self._slots._asdict().items()},
            "free": np.array(self._free, np.int32),
            "next_serial": np.array([self._next_serial], np.int64),
            **frozen.under("serials", self._frozen_serials()),
        }

    @classmethod
    def open(cls, arrays: AnyArrays) -> SubscriptionRegistry:
        """The registry that `freeze` wrote."""
        return cls(arrays)

    def _frozen_serials(self) -> Arrays:
        held = slice(len(self.names))
        used = (self._of.changing[held] == 1) & (self._of.slot_of[held] != NONE)
        return Serials.freeze(self._of.serial_of[held][used], np.flatnonzero(used).astype(np.int32))

    def memory(self) -> int:
        """The bytes it occupies."""
        arrays = sum(array.nbytes for array in (*self._of, self._following, *self._slots))
        return arrays + self.names.memory() + self.subscribers.memory() + self._serials.memory()

    def _code(self, subscriber: str) -> int:
        code = self.subscribers.find(subscriber)
        if code is None:
            code = len(self.subscribers)
            self.subscribers.put(code, subscriber)
        return code

    def _first(self, changing: bool) -> Ints:
        """By slot the first of its subscriptions with or without a tolerance."""
        return self._slots.first_changing if changing else self._slots.first

    def _reserve(self, number: int, slot: int) -> None:
        if number >= len(self._of.slot_of):
            self._of = ByNumber(*(_grown(array, number) for array in self._of))
            self._following = _grown(self._following, number)
            self._slot_ids = None
        if slot >= len(self._slots.first):
            self._slots = BySlot(*(_grown(array, slot) for array in self._slots))
            self._slot_ids = None


def _grown(array: NDArray[Any], position: int) -> NDArray[Any]:
    """A copy that has this position; new entries are NONE."""
    return _with_room(array, max(2 * len(array), position + 1), array.dtype)


def _with_room(used: NDArray[Any], room: int, dtype: DTypeLike) -> NDArray[Any]:
    """A copy with room for so many in all; entries that are not used are NONE."""
    larger = np.full(room, NONE, dtype)
    larger[: len(used)] = used
    return larger


@kernel
def _link(
    slots: Ints, changing: Bytes, first: Ints, first_changing: Ints, following: Ints, preceding: Ints
) -> None:
    """Put each subscription, in the order of their numbers, at the head of the list of its slot."""
    for number in range(len(slots)):
        heads = first_changing if changing[number] else first
        after = heads[slots[number]]
        heads[slots[number]] = number
        following[number], preceding[number] = after, NONE
        if after != NONE:
            preceding[after] = number


@kernel
def _expand(rows: Ints, slots: Ints, first: Ints, following: Ints, out_rows: Ints, out_numbers: Ints) -> int:
    """Write a pair for each subscription of the pairs' slots, as far as they fit; how many there are."""
    filled = 0
    for at in range(len(rows)):
        number = first[slots[at]]
        while number != NONE:
            if filled < len(out_rows):
                out_rows[filled] = rows[at]
                out_numbers[filled] = number
            filled += 1
            number = following[number]
    return filled
