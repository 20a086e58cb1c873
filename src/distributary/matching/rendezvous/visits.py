"""The visits of a batch put together: which rows go to which parts, from what each class of parts found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import kernel, sealed
from distributary.matching.index import Pairs

Visits = tuple[NDArray[np.int32], NDArray[np.int32]]
"""Rows and the parts that they visit, in any order; a pair may come twice."""


def joined(found: Sequence[Visits], sound: NDArray[np.bool_], everywhere: tuple[int, int]) -> Pairs:
    """All visits of the sound rows, each once, ascending; all of them visit the parts of `everywhere` too.

    These parts, the first and their number, come after all others. Linear in the number of visits, as long
    as a row visits few parts besides.
    """
    rows = np.concatenate([rows for rows, _ in found]) if found else np.empty(0, np.int32)
    parts = np.concatenate([parts for _, parts in found]) if found else np.empty(0, np.int32)
    return Pairs(*_joined(sealed(rows), sealed(parts), sealed(sound), *everywhere))


@kernel
def _joined(
    rows: NDArray[np.int32], parts: NDArray[np.int32], sound: NDArray[np.bool_], first: int, size: int
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    starts = np.zeros(len(sound) + 1, np.int64)
    for row in rows:
        starts[row + 1] += 1
    starts = np.cumsum(starts)
    following = starts[:-1].copy()
    grouped = np.empty(len(rows), np.int32)
    for visit in range(len(rows)):
        grouped[following[rows[visit]]] = parts[visit]
        following[rows[visit]] += 1
    joined_rows = np.empty(len(rows) + size * len(sound), np.int32)
    joined_parts = np.empty(len(joined_rows), np.int32)
    end = 0
    for row in range(len(sound)):
        if not sound[row]:
            continue
        begin = end
        for visit in range(starts[row], starts[row + 1]):
            part = grouped[visit]
            place = end
            while place > begin and joined_parts[place - 1] > part:
                place -= 1
            if place > begin and joined_parts[place - 1] == part:
                continue
            for at in range(end, place, -1):
                joined_parts[at] = joined_parts[at - 1]
            joined_parts[place] = part
            end += 1
        for part in range(first, first + size):
            joined_parts[end] = part
            end += 1
        joined_rows[begin:end] = row
    return joined_rows[:end], joined_parts[:end]
