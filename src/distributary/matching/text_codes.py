"""The texts of a column, each once: what a predicate on texts is asked about, whatever the number of rows.

A predicate is evaluated for each distinct text, and the rows take its answers by their codes. Equality with
a literal needs no answers at all: it is equality with one code.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from distributary.kernel import Bytes, Flags, Ints, Longs, hash_bytes, kernel, same_text, sealed, sealed_table
from distributary.matching.columns import STRING, AttributeColumn, Strings
from distributary.matching.joining import texts_array

NO_TEXT = -1
FOLD = np.uint64(32)


class TextCodes:
    """Row i of the column holds `texts[codes[i]]`; NO_TEXT where it holds no text."""

    def __init__(self, column: AttributeColumn) -> None:
        assert column.strings is not None
        self._strings: Strings = column.strings
        strings = column.strings
        self.codes, self._first = _numbered(
            sealed(strings.data),
            sealed(strings.starts),
            sealed(strings.ends),
            sealed(column.tags == STRING),
        )

    def __len__(self) -> int:
        return len(self._first)

    @cached_property
    def texts(self) -> list[str]:
        """The distinct texts, in the order in which they are met."""
        data, starts, ends = self._strings.data, self._strings.starts, self._strings.ends
        return [data[starts[row] : ends[row]].tobytes().decode() for row in self._first.tolist()]

    @cached_property
    def array(self) -> pa.Array:
        """The distinct texts as Arrow has them."""
        return texts_array(*_joined(sealed_table(self._strings), sealed(self._first)))

    @cached_property
    def _by_text(self) -> dict[str, int]:
        return {text: code for code, text in enumerate(self.texts)}

    @cached_property
    def _sorted(self) -> list[str]:
        return sorted(self.texts)

    @cached_property
    def _ranks(self) -> Ints:
        """For each row its text's place among the sorted ones; NO_TEXT for none."""
        place = {text: at for at, text in enumerate(self._sorted)}
        ranks = np.array([*(place[text] for text in self.texts), NO_TEXT], np.int32)
        return ranks[self.codes]

    def code(self, text: str) -> int | None:
        """The code of a text, if some row holds it."""
        return self._by_text.get(text)

    def equal(self, text: str) -> Flags:
        """Which rows hold this text."""
        code = self.code(text)
        return np.zeros(len(self.codes), np.bool_) if code is None else self.codes == code

    def below(self, text: str) -> Flags:
        """Which rows hold a text that comes before this one; rows without a text count as such."""
        below: Flags = self._ranks < bisect_left(self._sorted, text)
        return below

    def taken(self, answers: list[Any] | np.ndarray[Any, Any], otherwise: int, dtype: Any) -> Any:
        """The answer for each row's text; `answers` are those of the distinct texts."""
        table = np.empty(len(self) + 1, dtype)
        table[:-1] = answers
        table[-1] = otherwise
        return table[self.codes]


@kernel
def _numbered(data: Bytes, starts: Longs, ends: Longs, chosen: Flags) -> tuple[Ints, Ints]:
    """Number the distinct texts of the chosen rows as they are met, and say in which row each is first."""
    size = 64
    slots = np.full(size, NO_TEXT, np.int32)
    first = np.empty(len(starts), np.int32)
    codes = np.full(len(starts), NO_TEXT, np.int32)
    hashes = np.empty(len(starts), np.uint64)
    count = 0
    for row in range(len(starts)):
        if not chosen[row]:
            continue
        if 2 * count >= size:
            size *= 4
            slots = np.full(size, NO_TEXT, np.int32)
            for code in range(count):
                at = np.int64(hashes[code] & np.uint64(size - 1))
                while slots[at] != NO_TEXT:
                    at = (at + 1) & (size - 1)
                slots[at] = code
        value = hash_bytes(data, starts[row], ends[row])
        value = value ^ (value >> FOLD)
        at = np.int64(value & np.uint64(size - 1))
        while True:
            code = slots[at]
            if code == NO_TEXT:
                slots[at] = count
                first[count] = row
                hashes[count] = value
                codes[row] = count
                count += 1
                break
            other = first[code]
            if hashes[code] == value and same_text(
                data, starts[row], ends[row], data, starts[other], ends[other]
            ):
                codes[row] = code
                break
            at = (at + 1) & (size - 1)
    return codes, first[:count].copy()


@kernel
def _joined(strings: Strings, rows: Ints) -> tuple[Longs, Bytes]:
    """The texts of these rows next to each other: where each begins and the last ends, and the bytes."""
    offsets = np.zeros(len(rows) + 1, np.int64)
    for place in range(len(rows)):
        offsets[place + 1] = offsets[place] + strings.ends[rows[place]] - strings.starts[rows[place]]
    data = np.empty(offsets[-1], np.uint8)
    for place in range(len(rows)):
        data[offsets[place] : offsets[place + 1]] = strings.data[
            strings.starts[rows[place]] : strings.ends[rows[place]]
        ]
    return offsets, data
