"""Serials: which registration is meant, also by those who only kept a number of it.

A serial is an int64 that belongs to one registration for good, where the small numbers of subscriptions are
used again. What is kept outside a matcher (the memory of tolerances) is therefore keyed by serial, and
`Serials` leads back to the numbers: a base of sorted arrays, which may be memory-mapped, and a dictionary
of what was registered since. Removal needs no note here, because the caller compares what was found with
the serial that the number has now.

Cost: a registration is O(1); a look-up of n serials is O(n log registered), all in arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import Ints, Longs
from distributary.matching.index import Arrays
from distributary.matching.names import places_of

NONE = -1


class Serials:
    """From serials to the numbers of the subscriptions that were registered under them last."""

    def __init__(self) -> None:
        self._serials: Longs = np.empty(0, np.int64)
        self._numbers: Ints = np.empty(0, np.int32)
        self._recent: dict[int, int] = {}
        self._sorted_recent: tuple[Longs, Ints] | None = None

    def add(self, serial: int, number: int) -> None:
        """Note that the registration with this serial has this number."""
        self._recent[serial] = number
        self._sorted_recent = None

    def find(self, serials: Longs) -> Ints:
        """For each serial the number it was registered for, or NONE; the subscription may be gone since."""
        if self._sorted_recent is None:
            count = len(self._recent)
            keys = np.fromiter(self._recent, np.int64, count)
            numbers = np.fromiter(self._recent.values(), np.int32, count)
            order = np.argsort(keys)
            self._sorted_recent = keys[order], numbers[order]
        found = _looked_up(serials, self._serials, self._numbers)
        recent = _looked_up(serials, *self._sorted_recent)
        return np.where(recent == NONE, found, recent)

    @staticmethod
    def freeze(serials: Longs, numbers: Ints) -> Arrays:
        """The arrays of a base that leads from these serials to these numbers."""
        if np.all(serials[1:] > serials[:-1]):  # as they are unless they were given
            return {"serials": serials, "numbers": numbers}
        order = np.argsort(serials)
        return {"serials": serials[order], "numbers": numbers[order]}

    @classmethod
    def open(cls, arrays: Mapping[str, NDArray[Any]]) -> Serials:
        """The serials that `freeze` wrote."""
        opened = cls()
        opened._serials, opened._numbers = arrays["serials"], arrays["numbers"]
        return opened

    def memory(self) -> int:
        """The bytes it occupies, roughly."""
        return self._serials.nbytes + self._numbers.nbytes + 150 * len(self._recent)


def _looked_up(serials: Longs, keys: Longs, numbers: Ints) -> Ints:
    """For each serial the number beside it among the ascending keys, or NONE."""
    if not len(keys):
        return np.full(len(serials), NONE, np.int32)
    places, known = places_of(serials, keys)
    return np.where(known, numbers[places], np.int32(NONE))
