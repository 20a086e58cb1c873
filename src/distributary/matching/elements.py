"""Whether arrays contain a value, for a column of arrays at once: `array_contains(tags, 'urgent')`.

The elements of all rows are one column, in which the value is looked for; the outcomes of a row's elements
are then put together. What is neither a text nor a number that a double holds is left to be computed row by
row.
"""

from __future__ import annotations

import numpy as np

from distributary.kernel import Bytes, Flags, Longs, kernel, same_text, sealed, sealed_table
from distributary.matching.columns import (
    BOOLEAN,
    EXACT_INTEGER,
    NULL,
    NUMBER,
    STRING,
    AttributeColumn,
    Elements,
    Strings,
)
from distributary.matching.truths import FALSE, TRUE, UNKNOWN


def _flags_of(*tags: int) -> Flags:
    """By tag whether it is one of these."""
    flags = np.zeros(256, np.bool_)
    flags[list(tags)] = True
    return flags


_NO_TEXTS, _NO_NUMBERS = _flags_of(NULL, NUMBER, BOOLEAN), _flags_of(NULL, STRING, BOOLEAN)
"""Tags of elements that never compare with a text, and with a number."""


def containing(elements: Elements, wanted: object) -> tuple[Bytes, Flags] | None:
    """The truth for each row, and the rows that are left open; None when the value is not for this way."""
    column = elements.column()
    found = _equal(column, wanted)
    if found is None:
        return None
    truths, is_open = found
    return _any_of(sealed(elements.starts), sealed(elements.ends), sealed(truths), sealed(is_open))


def _equal(column: AttributeColumn, wanted: object) -> tuple[Bytes, Flags] | None:
    """How each element compares with the value for equality, and which are left open."""
    truths = np.full(len(column.tags), UNKNOWN, np.uint8)
    if type(wanted) is str:
        texts = column.tags == STRING
        if column.strings is not None:
            text = np.frombuffer(wanted.encode(), np.uint8)
            _put_equal_texts(sealed_table(column.strings), sealed(texts), sealed(text), truths)
        # A text is read as a time where it meets one.
        return truths, ~(texts | _NO_TEXTS[column.tags])
    if type(wanted) is int and abs(wanted) < EXACT_INTEGER:
        numbers = column.plain_numbers()
        truths[numbers] = np.where(column.numbers[numbers] == wanted, np.uint8(TRUE), np.uint8(FALSE))
        return truths, ~(numbers | _NO_NUMBERS[column.tags])
    return None


@kernel
def _put_equal_texts(strings: Strings, texts: Flags, wanted: Bytes, truths: Bytes) -> None:
    for at in range(len(texts)):
        if texts[at]:
            start, end = strings.starts[at], strings.ends[at]
            is_equal = same_text(strings.data, start, end, wanted, 0, len(wanted))
            truths[at] = TRUE if is_equal else FALSE


@kernel
def _any_of(starts: Longs, ends: Longs, truths: Bytes, is_open: Flags) -> tuple[Bytes, Flags]:
    """For each row the greatest truth of its elements, FALSE for none; and whether one of them is open."""
    outcomes, left = np.zeros(len(starts), np.uint8), np.zeros(len(starts), np.bool_)
    for row in range(len(starts)):
        for at in range(starts[row], ends[row]):
            outcomes[row] = max(outcomes[row], truths[at])
            left[row] |= is_open[at]
    return outcomes, left
