"""What a compiled topic index has found for topics it has seen before, for streams that repeat their topics.

- What a segment finds for a topic never changes, because a segment is compiled once and which of its filters
  are still alive is looked at afterwards. So nothing here is ever taken back.
- Each topic has one *line* by its hash, which holds some more bits of the hash and the place of the topic's
  *record*: how many filters were found and the length of the topic, the filters, and the topic itself. The
  bytes of the topic decide. A topic takes the line of another; when the room for records is used up, all is
  forgotten.
- Topics for which many filters were found (`MOST`) are not kept: there the search is not what costs.
- Where topics hardly ever come back, asking would be in vain, so for a while nobody asks (`PAUSE`).

Cost: two cache lines a topic, fetched ahead. Memory: `LINES` words, and `ROOM` bytes as far as they are used.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Bytes, Flags, Ints, Longs, Words, kernel, sealed_arrays
from distributary.matching.columns import Strings
from distributary.matching.index import Pairs
from distributary.matching.memory import WORD, hash_words, load_word, prefetch, store_word
from distributary.matching.topic.text import same_bytes

LINES = 1 << 19
ROOM = 1 << 24
MOST = 8
BLOCK = 512
"""Topics that are looked up at a time, step by step."""

TRIED = 1 << 15
WORTHWHILE = 4
PAUSE = 1 << 19
"""Of so many topics, one in so many must have been seen before, or the next so many are not looked up."""

U32 = np.uint64(32)
LOW = np.uint64(0xFFFFFFFF)


class MemoAnswer(NamedTuple):
    """What is known of the topics of a batch."""

    unknown: Flags
    """The rows whose topics have to be searched."""
    pairs: Pairs
    """What was found for the other rows; a position for a slot."""
    hashes: Words


class MemoTable(NamedTuple):
    """The memory itself, which kernels write to."""

    lines: Words
    """By the lower bits of a topic's hash: its upper half, and the place of its record in words."""
    records: Bytes
    """Words: the number of positions (upper half) and the topic's length, the positions, and the topic."""
    used: Longs
    """One number: the bytes of `records` in use."""


class TopicMemo:
    """The memory of one segment."""

    def __init__(self, lines: int = LINES, room: int = ROOM) -> None:
        used = np.full(1, WORD, np.int64)  # a place of zero stands for no record
        self._table = MemoTable(np.zeros(lines, np.uint64), np.empty(room, np.uint8), used)
        self._asked = self._known = self._pause = 0
        self.free = Lock()
        """Held from asking to learning. Who does not get it at once, in another thread, does without."""

    def memory(self) -> int:
        """The bytes in use."""
        return self._table.lines.nbytes + int(self._table.used[0])

    def recall(self, topics: Strings) -> MemoAnswer | None:
        """What is known of these topics; None when it is not worth while to ask."""
        rows = len(topics.starts)
        if self._pause > 0:
            self._pause -= rows
            return None
        hashes = np.empty(rows, np.uint64)
        unknown = np.empty(rows, np.bool_)
        found = np.empty((2, MOST * rows), np.int32)
        known, count = _recall(hashes, unknown, *found, *sealed_arrays(topics), *self._table)
        self._asked += rows
        self._known += known
        if self._asked >= TRIED:
            self._pause = PAUSE if self._known * WORTHWHILE < self._asked else 0
            self._asked = self._known = 0
        return MemoAnswer(unknown, Pairs(found[0, :count], found[1, :count]), hashes)

    def learn(self, topics: Strings, recalled: MemoAnswer, found: Pairs) -> None:
        """Keep what was found for the unknown rows, in the order of rows."""
        _learn(recalled.hashes, recalled.unknown, *sealed_arrays((*found, *topics)), *self._table)


@kernel
def _place(lines: Words, state: np.uint64) -> np.int64:
    """Where the record of a topic with this hash may be, 0 for nowhere."""
    line = lines[state & np.uint64(len(lines) - 1)]
    return np.int64(line & LOW) * WORD if line >> U32 == state >> U32 else np.int64(0)


@kernel
def _recall(hashes: Words, unknown: Flags, found_rows: Ints, found: Ints, *arrays: Any) -> tuple[int, int]:
    """Fill in the first four arrays; how many rows are known, and how many pairs were found for them.

    The other arrays are those of the topics and of the table, one after another: a kernel that is given
    tables takes microseconds longer to be called, which one event alone would notice.
    """
    data, starts, ends, valid = arrays[0:4]
    lines, records, _ = arrays[4:7]
    known = count = 0
    for first in range(0, len(starts), BLOCK):
        last = min(first + BLOCK, len(starts))
        for row in range(first, last):
            hashes[row] = hash_words(data, starts[row], ends[row])
            prefetch(lines, hashes[row] & np.uint64(len(lines) - 1))
        for row in range(first, last):
            prefetch(records, _place(lines, hashes[row]))
        for row in range(first, last):
            unknown[row] = valid[row]
            place = _place(lines, hashes[row])
            if not place or not valid[row]:
                continue
            header = load_word(records, place)
            hits, length = np.int64(header >> U32), np.int64(header & LOW)
            text = place + WORD * (1 + hits)
            if length != ends[row] - starts[row]:
                continue
            if same_bytes(records, text, text + length, data, starts[row], ends[row]) != length:
                continue
            unknown[row] = False
            known += 1
            for hit in range(hits):
                found_rows[count] = row
                found[count] = np.int32(load_word(records, place + WORD * (1 + hit)))
                count += 1
    return known, count


@kernel
def _learn(hashes: Words, unknown: Flags, found_rows: Ints, found: Ints, *arrays: Any) -> None:
    """Write a record for each unknown row; the pairs are what was found for those rows."""
    data, starts, ends, _ = arrays[0:4]
    lines, records, used = arrays[4:7]
    after = 0
    for row in range(len(starts)):
        first = after
        while after < len(found_rows) and found_rows[after] == row:
            after += 1
        state = hashes[row]
        length = ends[row] - starts[row]
        size = WORD * (1 + after - first) + (length + WORD - 1) // WORD * WORD
        if not unknown[row] or after - first > MOST or size + WORD > len(records):
            continue
        if _place(lines, state):
            continue  # the same topic came before in this batch; or, if ever, another of the same hash
        if used[0] + size > len(records):
            lines[:] = 0
            used[0] = WORD
        place = used[0]
        store_word(records, place, (np.uint64(after - first) << U32) | np.uint64(length))
        for hit in range(after - first):
            store_word(records, place + WORD * (1 + hit), np.uint64(found[first + hit]))
        text = place + WORD * (1 + after - first)
        for at in range(length):
            records[text + at] = data[starts[row] + at]
        lines[state & np.uint64(len(lines) - 1)] = (state >> U32 << U32) | np.uint64(place // WORD)
        used[0] += size
