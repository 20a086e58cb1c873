"""The ids of the subscriptions whose slots one event has found, sorted, in as few steps as can be.

Most slots have one subscription, without a tolerance, whose id is in the base of the names (see `names`).
For each of these a *key* is kept: the rank of the id among all, and the subscription's number. So keys sort
as the ids do, and one read leads from a slot to what sorts and what is to be told. All other slots have no
key; those of their subscriptions are read from their lists, and where some subscription has a tolerance or an
id that is not in the base, the slot takes the longer way. The keys of many slots are made when some events
have been asked about: the first of a matcher that was opened does not wait for them.

A few slots with keys are named by one kernel, which takes longer to be called than to run; where some take
the longer way, by two. For one slot, and for very few that all take it, no kernel is worth its call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from distributary.kernel import Bytes, Ints, Longs, inlined, kernel, sealed
from distributary.matching.bound import BoundArrays, array_at
from distributary.matching.joining import EXPECTED, NUMBER, divided, join_texts
from distributary.matching.memory import prefetch
from distributary.matching.names import CHANGED, NameTable, key_of
from distributary.matching.single import SingleEvent

NONE = -1

Fire: TypeAlias = Callable[[SingleEvent, Ints], Ints]
"""Gives the numbers of the subscriptions with a tolerance, among those of some slots, that want one event."""

FEW = 3
"""So many slots and subscriptions of one event are looked up without a kernel, whose call costs more."""

SHORT = 48
"""Up to this many keys are sorted by insertion, in the kernel that reads them."""


MANY = 1 << 16
"""From so many slots on their keys are made later."""

UNKEYED = 32
"""Calls that are answered before."""


class SlotIds:
    """What one event reads of the registry: the lists of the slots' subscriptions, and the slots' keys.

    It holds while the arrays are those that it was made of, and the names have the same base: `names` and
    `bases` say which.
    """

    __slots__ = (
        *("_bound", "_is_separable", "_keys", "_ranked", "_separated"),
        *("_separator", "_texts", "_unkeyed", "_views", "bases", "names"),
    )

    def __init__(self, first: Ints, first_changing: Ints, following: Ints, names: NameTable) -> None:
        lists = (first, first_changing, following)
        self.names, self.bases = names, names.bases
        self._views: tuple[memoryview, ...] = tuple(array.data for array in lists)
        self._separated, separator = names.separated()
        self._is_separable, self._separator = separator is not None, separator or 0
        self._ranked = (*lists, names.rank)
        self._unkeyed = UNKEYED if len(first) >= MANY else 0
        self._bind(np.empty(0, np.int64) if self._unkeyed else self._made_keys())

    def _made_keys(self) -> Longs:
        first, first_changing, following, rank = self._ranked
        return _only_keys(first, first_changing, following, sealed(rank))

    def _bind(self, keys: Longs) -> None:
        """Take these keys of the slots; none for all that are not made yet."""
        self._keys = keys
        self._texts = tuple(array.data for array in (keys, *(array for array, _ in self._separated)))
        ranked = ((array, np.int32) for array in self._ranked)
        self._bound = BoundArrays([*ranked, (keys, np.int64), *self._separated])

    @property
    def words(self) -> Longs:
        """What kernels find the arrays of `BoundIds` by, while this is held; asked for with each call."""
        if self._unkeyed > 0:
            self._unkeyed -= 1
            if self._unkeyed <= 0:  # another thread may have counted, too
                self._bind(self._made_keys())
        return self._bound.words

    def change(self, slot: int) -> None:
        """Take note that the list of a slot changes: it has no key from here on."""
        if len(self._keys):
            self._keys[slot] = NONE

    def ids(self, slots: Ints, single: SingleEvent, fire: Fire) -> list[str]:
        """The ids of the subscriptions of these slots, of which there are some, sorted.

        Given slots some of which have subscriptions with a tolerance, `fire` gives the numbers of those that
        are to be told.
        """
        if len(slots) == 1 and (only := self._only_id(slots.item())) is not None:
            return [only]
        keys: Longs = np.empty(2 * len(slots) + SHORT, np.int64)
        joined: Bytes = np.empty(SHORT * EXPECTED if self._is_separable else 0, np.uint8)
        count, left, length = _name(self.words, slots, self._separator, keys, joined)
        if left:
            numbers = self.numbers(keys[-left:].astype(np.int32), single, fire)
            if isinstance(numbers, list) and not count:  # no kernel is worth its call
                return self.names.ordered(numbers)
            numbers = np.asarray(numbers, np.int32)
            length = _name_with(self._bound.words, keys, count, numbers, self._separator, joined)
            if not length:
                return self.names.ordered(numbers, keys[:count])
        return divided(joined, length, self._separator) if length else self.names.in_order(keys[:count])

    def numbers(self, slots: Ints, single: SingleEvent, fire: Fire) -> list[int] | Ints:
        """The numbers of the subscriptions of these slots, in any order; as a list where they are few.

        `fire` is asked as in `ids`.
        """
        numbers, tolerant = self._numbers_of(slots)
        if tolerant:
            fired = fire(single, slots)
            if isinstance(numbers, list) and len(fired) <= FEW:
                numbers += fired.tolist()
            else:
                numbers = np.concatenate([np.array(numbers, np.int32), fired])
        return numbers

    def _only_id(self, slot: int) -> str | None:
        """The id of a slot's only subscription, if it has no tolerance; None when there is not just that."""
        keys, offsets, texts = self._texts
        key = keys[slot] if keys else NONE
        if key != NONE:
            number = key & NUMBER
            return str(texts[offsets[number] : offsets[number + 1]], "utf-8")
        first, first_changing, following = self._views
        number = first[slot]
        if number == NONE or following[number] != NONE or first_changing[slot] != NONE:
            return None
        return self.names.text(number)

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


class BoundIds(NamedTuple):
    """What naming reads of the registry, in the order in which it is bound."""

    first: Ints
    """By slot the first subscription without a tolerance, or NONE."""
    first_changing: Ints
    """By slot the first subscription with a tolerance, or NONE."""
    following: Ints
    """By number the next subscription of its list, or NONE."""
    rank: Ints
    """By number the rank of its id in the base of the names, or CHANGED."""
    only: Longs
    """By slot its key, or NONE; empty until the keys are made."""
    offsets: Longs
    data: Bytes
    """The ids in the base of the names, with their offsets."""


@inlined
def bound_ids(words: Longs) -> BoundIds:
    """What `SlotIds` has bound."""
    return BoundIds(
        array_at(words, 0, np.int32),
        array_at(words, 1, np.int32),
        array_at(words, 2, np.int32),
        array_at(words, 3, np.int32),
        array_at(words, 4, np.int64),
        array_at(words, 5, np.int64),
        array_at(words, 6, np.uint8),
    )


@inlined
def fetch_keys(ids: BoundIds, slots: Ints) -> None:
    """Have the keys of these slots fetched meanwhile."""
    for slot in slots:
        prefetch(ids.only, slot)


@inlined
def put_keys(ids: BoundIds, slot: Any, keys: Longs, count: Any) -> Any:
    """Write the keys of a slot's subscriptions behind the first so many; how many there are then.

    NONE when some have a tolerance, or an id that is not in the base, or when there is not room enough.
    """
    key = ids.only[slot] if slot < len(ids.only) else NONE
    if key != NONE and count < len(keys):
        keys[count] = key
        return count + 1
    if key != NONE or ids.first_changing[slot] != NONE:
        return NONE
    number = ids.first[slot]
    while number != NONE:
        if count == len(keys) or number >= len(ids.rank) or ids.rank[number] == CHANGED:
            return NONE
        keys[count] = key_of(ids.rank[number], number)
        count += 1
        number = ids.following[number]
    return count


@kernel
def _name(words: Longs, slots: Ints, separator: int, keys: Longs, joined: Bytes) -> tuple[int, int, int]:
    """Write the keys of the slots that have some, and from the back the slots that take the longer way.

    The first two numbers are how many there are of both. If none takes that way, and they are few, their ids
    are written too, sorted, as `join_texts` does, and the last number is how long they are; else it is 0.
    """
    ids, count, left = bound_ids(words), 0, 0
    fetch_keys(ids, slots)
    room = keys[: len(keys) - len(slots)]
    for slot in slots:
        more = put_keys(ids, slot, room, count)
        if more == NONE:
            left += 1
            keys[len(keys) - left] = slot
        else:
            count = more
    return count, left, 0 if left else _joined(ids, keys[:count], separator, joined)


@kernel
def _name_with(words: Longs, keys: Longs, count: int, numbers: Ints, separator: int, joined: Bytes) -> int:
    """Write the ids of the first so many keys and of these numbers as `_name` does; how long they are.

    0 when they are many, or when some id is not in the base.
    """
    ids = bound_ids(words)
    if count + len(numbers) > min(SHORT, len(keys)):
        return 0
    for number in numbers:
        if number >= len(ids.rank) or ids.rank[number] == CHANGED:
            return 0
        keys[count] = key_of(ids.rank[number], number)
        count += 1
    return int(_joined(ids, keys[:count], separator, joined))


@inlined
def _joined(ids: BoundIds, keys: Longs, separator: Any, joined: Bytes) -> Any:
    """Sort a few keys and write their ids; how long they are, 0 when there is not room enough."""
    if len(keys) > SHORT or not len(joined):
        return 0
    for place in range(1, len(keys)):  # sorted by insertion
        key, to = keys[place], place
        while to > 0 and keys[to - 1] > key:
            keys[to] = keys[to - 1]
            to -= 1
        keys[to] = key
    length = join_texts(ids.offsets, ids.data, keys, separator, joined)
    return length if length <= len(joined) else 0


@kernel
def _numbers_of(words: Longs, slots: Ints, numbers: Ints) -> tuple[int, bool]:
    """Write the numbers of those without a tolerance as far as they fit; how many, and are there others?"""
    ids = bound_ids(words)
    first, first_changing, following = ids.first, ids.first_changing, ids.following
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
