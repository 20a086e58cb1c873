"""Topics as small numbers: what the memory of the tolerance engines is keyed by.

Number 0 stands for events without a topic. The rows of a batch are first brought down to its distinct
topics by a kernel that hashes the bytes and then compares them, so that only the distinct ones become
Python strings; those are looked up in a dictionary that lasts as long as the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import kernel
from distributary.matching.batch import EventBatch

WITHOUT_TOPIC = 0


class TopicNumbers:
    """Gives every topic it meets a number of its own, from 1 upwards."""

    def __init__(self, topics: Iterable[str] = ()) -> None:
        self._numbers: dict[str | None, int] = {None: WITHOUT_TOPIC}
        for topic in topics:
            self._numbers[topic] = len(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    def find(self, topic: str | None) -> int | None:
        """The number of a topic, or None when it was never met."""
        return self._numbers.get(topic)

    def topics(self) -> list[str]:
        """The topics from number 1 on."""
        return [topic for topic in self._numbers if topic is not None]

    def of(self, topics: Sequence[str | None]) -> NDArray[np.int32]:
        """The numbers of these topics; new topics get new numbers."""
        found = [self._numbers.setdefault(topic, len(self._numbers)) for topic in topics]
        return np.array(found, np.int32)

    def of_rows(self, batch: EventBatch, rows: NDArray[np.int32]) -> NDArray[np.int32]:
        """The number of each row's topic, filled in for the given rows; new topics get new numbers."""
        numbers = np.zeros(batch.rows, np.int32)
        topics = batch.topics
        if topics is None or not len(rows):
            return numbers
        codes, firsts = _distinct(topics.data, topics.starts, topics.ends, topics.valid)
        of_code = np.zeros(len(firsts) + 1, np.int32)
        wanted = np.zeros(len(firsts) + 1, np.bool_)
        wanted[codes[rows]] = True
        for code in np.flatnonzero(wanted[:-1]).tolist():
            topic = topics[int(firsts[code])]
            of_code[code] = self._numbers.setdefault(topic, len(self._numbers))
        np.take(of_code, codes, out=numbers)
        return numbers


@kernel
def _distinct(
    data: NDArray[np.uint8], starts: NDArray[np.int64], ends: NDArray[np.int64], valid: NDArray[np.bool_]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """A code for each row, equal for equal texts (-1 for null), and the first row that has each code."""
    rows = len(starts)
    size = 16
    while size < 2 * rows:
        size *= 2
    table = np.full(size, -1, np.int32)
    codes = np.full(rows, -1, np.int32)
    firsts = np.empty(rows, np.int32)
    count = 0
    for row in range(rows):
        if not valid[row]:
            continue
        start, length = starts[row], ends[row] - starts[row]
        hashed = np.uint64(14695981039346656037)
        for at in range(start, start + length):
            hashed = (hashed ^ np.uint64(data[at])) * np.uint64(1099511628211)
        place = np.int64((hashed ^ (hashed >> np.uint64(32))) & np.uint64(size - 1))
        while table[place] >= 0:
            first = firsts[table[place]]
            if ends[first] - starts[first] == length:
                same = True
                for offset in range(length):
                    if data[starts[first] + offset] != data[start + offset]:
                        same = False
                        break
                if same:
                    break
            place = (place + 1) & (size - 1)
        if table[place] < 0:
            table[place] = count
            firsts[count] = row
            count += 1
        codes[row] = table[place]
    return codes, firsts[:count]
