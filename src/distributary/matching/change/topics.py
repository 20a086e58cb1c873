"""Topics as small numbers: what the memory of the tolerance engines is keyed by.

Number 0 stands for events without a topic. The rows of a batch are first brought down to its distinct
topics by a kernel that hashes the bytes and then compares them, so that only the distinct ones become
Python strings; those are looked up in a dictionary that lasts as long as the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from distributary.kernel import Bytes, Flags, Ints, Longs, hash_bytes, kernel, same_text
from distributary.matching.batch import EventBatch

WITHOUT_TOPIC = 0


class TopicNumbers:
    """Gives every topic it meets a number of its own, from 1 upwards."""

    def __init__(self, topics: Iterable[str] = ()) -> None:
        self._numbers: dict[str | None, int] = {None: WITHOUT_TOPIC}
        self.of(list(topics))

    def __len__(self) -> int:
        return len(self._numbers)

    def find(self, topic: str | None) -> int | None:
        """The number of a topic, or None when it was never met."""
        return self._numbers.get(topic)

    def topics(self) -> list[str]:
        """The topics from number 1 on."""
        return [topic for topic in self._numbers if topic is not None]

    def number(self, topic: str | None) -> int:
        """The number of a topic; a new one gets a new number."""
        return self._numbers.setdefault(topic, len(self._numbers))

    def of(self, topics: Sequence[str | None]) -> Ints:
        """The numbers of these topics; new topics get new numbers."""
        return np.array([self.number(topic) for topic in topics], np.int32)

    def of_rows(self, batch: EventBatch, rows: Ints) -> Ints:
        """The number of each row's topic, filled in for the given rows; new topics get new numbers."""
        topics = batch.topics
        if topics is None or not len(rows):
            return np.zeros(batch.rows, np.int32)
        codes, firsts = _distinct(topics.data, topics.starts, topics.ends, topics.valid)
        wanted = np.zeros(len(firsts) + 1, np.bool_)
        wanted[codes[rows]] = True
        found = np.flatnonzero(wanted[:-1])
        # Rows without a topic have code -1 and find the last entry, which stays 0.
        of_code = np.zeros(len(firsts) + 1, np.int32)
        of_code[found] = self.of([topics.text(int(firsts[code])) for code in found])
        return of_code[codes]


@kernel
def _distinct(data: Bytes, starts: Longs, ends: Longs, valid: Flags) -> tuple[Ints, Ints]:
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
        start, end = starts[row], ends[row]
        hashed = hash_bytes(data, start, end)
        place = np.int64((hashed ^ (hashed >> np.uint64(32))) & np.uint64(size - 1))
        while table[place] >= 0:
            first = firsts[table[place]]
            if same_text(data, starts[first], ends[first], data, start, end):
                break
            place = (place + 1) & (size - 1)
        if table[place] < 0:
            table[place] = count
            firsts[count] = row
            count += 1
        codes[row] = table[place]
    return codes, firsts[:count]
