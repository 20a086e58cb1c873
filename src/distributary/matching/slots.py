"""Slots: one for each distinct combination of filters, shared by all subscriptions that ask for the same.

A combination is known by a cryptographic digest of its canonical texts. A slot remembers how many
subscriptions use it and which filter kind drives it, that is, in which index it is searched; its other
filters are verified.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distributary.filters.filter import Filter
from distributary.matching.index import Arrays

DIGEST = 16
"""Bytes of a digest: among 10^9 combinations, the chance that any two agree is below 10^-20."""


def digest_of(filters: Mapping[str, Filter]) -> bytes:
    """What identifies a combination of filters."""
    parts = [kind + "\0" + filters[kind].text for kind in sorted(filters)]
    return blake2b("\0".join(parts).encode(), digest_size=DIGEST).digest()


class Slots:
    """Which slots there are, by digest. What was frozen is read into Python objects at the first change."""

    def __init__(self) -> None:
        self._by_digest: dict[bytes, int] = {}
        self._digests: list[bytes] = []
        self._uses: list[int] = []
        self._drivers: list[int] = []
        self._free: list[int] = []
        self._frozen: Arrays | None = None

    def __len__(self) -> int:
        if self._frozen is not None:
            return int(np.count_nonzero(self._frozen["uses"]))
        return len(self._by_digest)

    def find(self, digest: bytes) -> int | None:
        self._thaw()
        return self._by_digest.get(digest)

    def add(self, digest: bytes, driver: int) -> int:
        """A new slot with one use."""
        self._thaw()
        if self._free:
            slot = self._free.pop()
            self._digests[slot], self._uses[slot], self._drivers[slot] = digest, 1, driver
        else:
            slot = len(self._uses)
            self._digests.append(digest)
            self._uses.append(1)
            self._drivers.append(driver)
        self._by_digest[digest] = slot
        return slot

    def use(self, slot: int) -> None:
        self._thaw()
        self._uses[slot] += 1

    def leave(self, slot: int) -> bool:
        """One use less; True when that was the last and the slot is free again."""
        self._thaw()
        self._uses[slot] -= 1
        if self._uses[slot]:
            return False
        del self._by_digest[self._digests[slot]]
        self._free.append(slot)
        return True

    def driver(self, slot: int) -> int:
        return int(self._frozen["drivers"][slot]) if self._frozen is not None else self._drivers[slot]

    def freeze(self) -> Arrays:
        if self._frozen is not None:
            return self._frozen
        return {
            "digests": np.frombuffer(b"".join(self._digests), np.uint8),
            "uses": np.array(self._uses, np.int32),
            "drivers": np.array(self._drivers, np.int8),
        }

    @classmethod
    def open(cls, arrays: Mapping[str, NDArray[Any]]) -> Slots:
        slots = cls()
        slots._frozen = dict(arrays)
        return slots

    def memory(self) -> int:
        if self._frozen is not None:
            return sum(array.nbytes for array in self._frozen.values())
        tables = (self._by_digest, self._digests, self._uses, self._drivers, self._free)
        entry = sys.getsizeof(bytes(DIGEST)) + sys.getsizeof(1 << 20)
        return sum(map(sys.getsizeof, tables)) + len(self._by_digest) * entry

    def _thaw(self) -> None:
        if self._frozen is None:
            return
        data = self._frozen["digests"].tobytes()
        self._digests = [data[at : at + DIGEST] for at in range(0, len(data), DIGEST)]
        self._uses = self._frozen["uses"].tolist()
        self._drivers = self._frozen["drivers"].tolist()
        self._by_digest = {self._digests[slot]: slot for slot, uses in enumerate(self._uses) if uses}
        self._free = [slot for slot, uses in enumerate(self._uses) if not uses]
        self._frozen = None
