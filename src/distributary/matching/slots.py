"""Slots: one for each distinct combination of filters, shared by all subscriptions that ask for the same.

A combination is known by a cryptographic digest of its canonical texts. A slot remembers how many
subscriptions use it and which filter kind drives it, that is, in which index it is searched; its other
filters are verified.

What was built at once or frozen is a base of arrays with the order of its digests, in which a digest is found
by O(log n) comparisons; what changed since is kept in small tables beside it. While very many are added, a
hash table finds them (`add_many`), until `settle` makes them the base.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distributary.filters.filter import Filter
from distributary.kernel import Bytes, Flags, Ints, Longs, inlined, kernel, sealed, text_order
from distributary.matching import frozen
from distributary.matching.growing import paged, with_room
from distributary.matching.index import Arrays

FREE = -1
DIGEST = 16
"""Bytes of a digest: among 10^9 combinations, the chance that any two agree is below 10^-20."""


def digest_of(filters: Mapping[str, Filter]) -> bytes:
    """What identifies a combination of filters."""
    parts = [kind + "\0" + filters[kind].text for kind in sorted(filters)]
    return blake2b("\0".join(parts).encode(), digest_size=DIGEST).digest()


class SlotTable:
    """Which slots there are, by digest.

    `_digests` and `_order` are the base: the digest of every slot that had one, and those slots in the order
    of their digests. `_replaced` holds the digests that slots of the base have now (None: the slot is free),
    `_added` those of the slots beyond it, `_recent` leads from the digests in both to their slots.
    """

    def __init__(self) -> None:
        self._digests: Bytes = np.empty((0, DIGEST), np.uint8)
        self._order: Ints = np.empty(0, np.int32)
        self._replaced: dict[int, bytes | None] = {}
        self._added: list[bytes | None] = []
        self._recent: dict[bytes, int] = {}
        self._uses: Ints = np.zeros(64, np.int32)
        self._drivers: NDArray[np.int8] = np.zeros(64, np.int8)
        self._free: list[int] = []
        self._table: Ints | None = None
        """The hash table of slots by digest, while very many are added."""
        self._room: Bytes = np.empty(0, np.uint8)
        """What `_digests` is the beginning of meanwhile."""

    def __len__(self) -> int:
        return len(self._digests) + len(self._added) - len(self._free)

    def add_many(self, digests: Bytes, drivers: NDArray[np.int8]) -> tuple[Ints, Flags]:
        """One use more for each of these digests, of which those that are not known get new slots.

        Returns the slot of each, and whether it is new. For a table that is empty or was filled in this way
        alone; nothing else may be asked of it before `settle`.
        """
        count, most = len(self._digests), len(self._digests) + len(digests)
        if self._added or self._free or (self._table is None and count):
            raise ValueError("slots were added one by one before")
        if self._table is None or 2 * most > len(self._table):
            self._table = paged(1 << (2 * most).bit_length(), np.int32)
            self._table.fill(FREE)
            _enter(self._digests, self._table)
        self._room = with_room(self._room, count * DIGEST, most * DIGEST)
        room = self._room[: most * DIGEST].reshape(most, DIGEST)
        self._make_room(most)
        slots, new = np.empty(len(digests), np.int32), np.zeros(len(digests), np.bool_)
        count = _use(digests, drivers, room, self._table, self._uses, self._drivers, count, slots, new)
        self._digests = room[:count]
        return slots, new

    def settle(self) -> None:
        """Make what `add_many` added the base."""
        if self._table is not None:
            self._table, self._room = None, self._room[:0].copy()
            kept = slice(len(self._digests) + max(64, len(self._digests) // 8))
            self._uses, self._drivers = self._uses[kept], self._drivers[kept]
            self._order = _ordered(self._digests, np.arange(len(self._digests)))

    def find(self, digest: bytes) -> int | None:
        """The slot of the combination with this digest, if there is one."""
        slot = self._recent.get(digest)
        if slot is not None or not len(self._order):
            return slot
        at = _place(np.frombuffer(digest, np.uint8), sealed(self._order), sealed(self._digests).ravel())
        if at == len(self._order):
            return None
        slot = int(self._order[at])
        return None if slot in self._replaced or self._digests[slot].tobytes() != digest else slot

    def add(self, digest: bytes, driver: int) -> int:
        """A new slot with one use."""
        if self._free:
            slot = self._free.pop()
            self._put(slot, digest)
        else:
            slot = len(self._digests) + len(self._added)
            self._added.append(digest)
            self._make_room(slot + 1)
        self._recent[digest] = slot
        self._uses[slot] = 1
        self._drivers[slot] = driver
        return slot

    def use(self, slot: int) -> None:
        """One use more."""
        self._uses[slot] += 1

    def leave(self, slot: int) -> bool:
        """One use less; True when that was the last and the slot is free again."""
        self._uses[slot] -= 1
        if self._uses[slot]:
            return False
        if slot >= len(self._digests):
            before = self._added[slot - len(self._digests)]
        else:
            before = self._replaced.get(slot)
        if before is not None:
            del self._recent[before]
        self._put(slot, None)
        self._free.append(slot)
        return True

    def driver(self, slot: int) -> int:
        """The code of the filter kind that drives the slot, as `add` was given it."""
        return int(self._drivers[slot])

    def freeze(self) -> Arrays:
        """Everything as arrays, with the order of the digests."""
        count = len(self._digests) + len(self._added)
        digests = np.zeros((count, DIGEST), np.uint8)
        digests[: len(self._digests)] = self._digests
        changed = {**self._replaced, **dict(enumerate(self._added, len(self._digests)))}
        for slot, digest in changed.items():
            digests[slot] = np.frombuffer(digest or bytes(DIGEST), np.uint8)
        used = np.flatnonzero(self._uses[:count])
        return {
            "digests": digests,
            "order": _ordered(digests, used),
            "uses": frozen.with_room(self._uses[:count], 0),
            "drivers": frozen.with_room(self._drivers[:count], 0),
            "free": np.array(self._free, np.int32),
        }

    @classmethod
    def open(cls, arrays: Mapping[str, NDArray[Any]]) -> SlotTable:
        """The table that `freeze` wrote."""
        slots = cls()
        slots._digests, slots._order = arrays["digests"], arrays["order"]
        slots._uses, slots._drivers = arrays["uses"], arrays["drivers"]
        slots._free = arrays["free"].tolist()
        return slots

    def memory(self) -> int:
        """The bytes it occupies."""
        arrays = (self._digests, self._order, self._uses, self._drivers)
        tables = (self._replaced, self._added, self._recent, self._free)
        entry = sys.getsizeof(bytes(DIGEST)) + sys.getsizeof(1 << 20)
        return (
            sum(array.nbytes for array in arrays)
            + sum(map(sys.getsizeof, tables))
            + len(self._recent) * entry
        )

    def _make_room(self, slots: int) -> None:
        """Have room for what is known of so many slots; of new ones nothing is."""
        self._uses = with_room(self._uses, len(self._uses), slots)
        self._drivers = with_room(self._drivers, len(self._drivers), slots)

    def _put(self, slot: int, digest: bytes | None) -> None:
        if slot >= len(self._digests):
            self._added[slot - len(self._digests)] = digest
        else:
            self._replaced[slot] = digest


def _ordered(digests: Bytes, slots: Longs) -> Ints:
    """These slots in the order of their digests, which differ."""
    first, second = digests[slots].view(">u8").astype(np.uint64).reshape(-1, 2).T
    order = np.argsort(first)
    if (np.diff(first[order]) == 0).any():
        order = np.lexsort((second, first))
    return slots[order].astype(np.int32)


@kernel
def _enter(digests: Bytes, table: Ints) -> None:
    """Enter the digests, which differ, into an empty hash table."""
    for slot in range(len(digests)):
        at = _home(digests, slot, len(table))
        while table[at] != FREE:
            at = (at + 1) & (len(table) - 1)
        table[at] = slot


@inlined
def _home(digests: Bytes, row: int, size: int) -> Any:
    """Where to look first; all bits of a digest are equally good."""
    code = np.int64(0)
    for at in range(4):
        code = (code << 8) | np.int64(digests[row, at])
    return code & (size - 1)


@kernel
def _use(
    digests: Bytes,
    given_drivers: NDArray[np.int8],
    held: Bytes,
    table: Ints,
    uses: Ints,
    drivers: NDArray[np.int8],
    count: int,
    slots: Ints,
    new: Flags,
) -> int:
    """Find or make the slot of each digest; returns how many slots there are then."""
    for row in range(len(digests)):
        at = _home(digests, row, len(table))
        slot = table[at]
        while slot != FREE:
            same = True
            for byte in range(DIGEST):
                same &= held[slot, byte] == digests[row, byte]
            if same:
                break
            at = (at + 1) & (len(table) - 1)
            slot = table[at]
        if slot == FREE:
            slot = count
            table[at] = slot
            held[slot] = digests[row]
            drivers[slot] = given_drivers[row]
            new[row] = True
            count += 1
        uses[slot] += 1
        slots[row] = slot
    return count


@kernel
def _place(digest: Bytes, order: Ints, data: Bytes) -> int:
    """How many of the digests of the slots in this order are less than this one."""
    low, high = 0, len(order)
    while low < high:
        middle = (low + high) // 2
        start = order[middle] * DIGEST
        if text_order(data, start, start + DIGEST, digest, 0, DIGEST) < 0:
            low = middle + 1
        else:
            high = middle
    return low
