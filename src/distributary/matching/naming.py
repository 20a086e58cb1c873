"""The ids of the subscriptions whose slots one event has found, sorted, in as few steps as can be.

Most slots have one subscription, without a tolerance, whose id is in the base of the names (see `names`).
For each of these a *key* is kept: the rank of the id among all, and the subscription's number. So keys sort
as the ids do, and one read leads from a slot to what sorts and what is to be told. All other slots have no
key and take the longer way, over the lists of their subscriptions.

A few slots with keys are named by one kernel, which takes longer to be called than to run; for very few no
kernel is worth its call.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from distributary.kernel import Bytes, Ints, Longs, kernel, sealed
from distributary.matching.bound import BoundArrays, array_at
from distributary.matching.joining import EXPECTED, divided, join_texts
from distributary.matching.memory import prefetch
from distributary.matching.names import CHANGED, NO_KEYS, NameTable, key_of

NONE = -1

FEW = 3
"""So many slots and subscriptions of one event are looked up without a kernel, whose call costs more."""

SHORT = 32
"""Up to this many keys are sorted by insertion, in the kernel that reads them."""


class SlotIds:
    """What one event reads of the registry: the lists of the slots' subscriptions, and the slots' keys.

    It holds while the arrays are those that it was made of, and the names have the same base: `names` and
    `bases` say which.
    """

    __slots__ = ("_bound", "_keys", "_separator", "_views", "bases", "names")

    def __init__(self, first: Ints, first_changing: Ints, following: Ints, names: NameTable) -> None:
        lists = (first, first_changing, following)
        self.names, self.bases = names, names.bases
        self._keys = _only_keys(*lists, sealed(names.rank))
        self._views: tuple[memoryview, ...] = tuple(array.data for array in lists)
        texts, self._separator = names.separated()
        self._bound = BoundArrays([*((array, np.int32) for array in lists), (self._keys, np.int64), *texts])

    def change(self, slot: int) -> None:
        """Take note that the list of a slot changes: it has no key from here on."""
        self._keys[slot] = NONE

    def ids(self, slots: Ints, fire: Callable[[Ints], Ints]) -> list[str]:
        """The ids of the subscriptions of these slots, of which there are some, sorted.

        Given slots some of which have subscriptions with a tolerance, `fire` gives the numbers of those that
        are to be told.
        """
        keys, count = NO_KEYS, len(slots)
        if count == 1 and (only := self._only_id(slots.item())) is not None:
            return [only]
        if FEW < count <= SHORT and self._separator is not None:
            joined = np.empty(count * EXPECTED, np.uint8)
            length = _name_few(self._bound.words, slots, self._separator, joined)
            if length:
                return divided(joined, length, self._separator)
        if count > FEW:
            keys, slots = self._keys_of(slots)
            if not len(slots):
                return self.names.in_order(keys)
        return self.names.ordered(self.numbers(slots, fire), keys)

    def numbers(self, slots: Ints, fire: Callable[[Ints], Ints]) -> list[int] | Ints:
        """The numbers of the subscriptions of these slots, in any order; as a list where they are few.

        `fire` is asked as in `ids`.
        """
        numbers, tolerant = self._numbers_of(slots)
        if tolerant:
            fired = fire(slots)
            if isinstance(numbers, list) and len(fired) <= FEW:
                numbers += fired.tolist()
            else:
                numbers = np.concatenate([np.array(numbers, np.int32), fired])
        return numbers

    def _only_id(self, slot: int) -> str | None:
        """The id of a slot's only subscription, if it has no tolerance; None when there is not just that."""
        first, first_changing, following = self._views
        number = first[slot]
        if number == NONE or following[number] != NONE or first_changing[slot] != NONE:
            return None
        return self.names.text(number)

    def _keys_of(self, slots: Ints) -> tuple[Longs, Ints]:
        """The keys of the slots that have one, and the other slots."""
        keys: Longs = np.empty(len(slots), np.int64)
        others: Ints = np.empty(len(slots), np.int32)
        keyed = _keys_of(self._bound.words, slots, keys, others)
        return keys[:keyed], others[: len(slots) - keyed]

    def _numbers_of(self, slots: Ints) -> tuple[list[int] | Ints, bool]:
        """The subscriptions of these slots that have no tolerance, and whether there are others that do.

        They come as a list where they are few, which is the faster way then.
        """
        if len(slots) <= FEW:
            first, first_changing, following = self._views
            few: list[int] = []
            tolerant = False
            for slot in slots.tolist():
                tolerant |= first_changing[slot] != NONE
                number = first[slot]
                while number != NONE and len(few) < FEW:
                    few.append(number)
                    number = following[number]
            if len(few) < FEW:
                return few, tolerant
        numbers: Ints = np.empty(FEW + len(slots), np.int32)
        count, tolerant = _numbers_of(self._bound.words, slots, numbers)
        while count > len(numbers):
            numbers = np.empty(count, np.int32)
            count, tolerant = _numbers_of(self._bound.words, slots, numbers)
        return numbers[:count], tolerant


@kernel
def _only_keys(first: Ints, first_changing: Ints, following: Ints, rank: Ints) -> Longs:
    """For each slot the key of its only subscription; NONE where there is not just that."""
    keys = np.full(len(first), NONE, np.int64)
    for slot in range(len(first)):
        number = first[slot]
        if number == NONE or following[number] != NONE or first_changing[slot] != NONE:
            continue
        if number < len(rank) and rank[number] != CHANGED:
            keys[slot] = key_of(rank[number], number)
    return keys


@kernel
def _name_few(words: Longs, slots: Ints, separator: int, joined: Bytes) -> int:
    """Write the ids of these slots, sorted, as `join_texts` does; how long they are.

    0 when some slot has no key, or when there is not room enough.
    """
    only = array_at(words, 3, np.int64)
    for slot in slots:
        prefetch(only, slot)
    keys = np.empty(len(slots), np.int64)
    for place in range(len(slots)):
        key = only[slots[place]]
        if key == NONE:
            return 0
        to = place
        while to > 0 and keys[to - 1] > key:
            keys[to] = keys[to - 1]
            to -= 1
        keys[to] = key
    length = join_texts(array_at(words, 4, np.int64), array_at(words, 5, np.uint8), keys, separator, joined)
    return length if length <= len(joined) else 0


@kernel
def _keys_of(words: Longs, slots: Ints, keys: Longs, others: Ints) -> int:
    """Write the keys of the slots that have one, and the other slots; how many keys there are."""
    only = array_at(words, 3, np.int64)
    for slot in slots:
        prefetch(only, slot)
    keyed = 0
    for place in range(len(slots)):
        key = only[slots[place]]
        if key != NONE:
            keys[keyed] = key
            keyed += 1
        else:
            others[place - keyed] = slots[place]
    return keyed


@kernel
def _numbers_of(words: Longs, slots: Ints, numbers: Ints) -> tuple[int, bool]:
    """Write the numbers of those without a tolerance as far as they fit; how many, and are there others?"""
    first, first_changing, following = (
        array_at(words, 0, np.int32),
        array_at(words, 1, np.int32),
        array_at(words, 2, np.int32),
    )
    for slot in slots:
        prefetch(first, slot)
        prefetch(first_changing, slot)
    for slot in slots:
        prefetch(following, first[slot])
    count = 0
    tolerant = False
    for slot in slots:
        tolerant |= first_changing[slot] != NONE
        number = first[slot]
        while number != NONE:
            if count < len(numbers):
                numbers[count] = number
            count += 1
            number = following[number]
    return count, tolerant
