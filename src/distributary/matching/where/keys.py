"""Rare values as keys: a hash table leads from an attribute's value to the conjunctions that ask for it.

A conjunction with an equality (or IN) that rarely holds is found by that value alone; its other constraints
are checked. Cost of an event: O(keyed attributes + conjunctions that ask for one of its values).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Ints, Longs, kernel, sealed
from distributary.matching.columns import INSTANT, NUMBER, STRING
from distributary.matching.where.constraints import (
    Constraints,
    FlatConditions,
    Found,
    Rows,
    grown,
    holds,
    runs,
)
from distributary.matching.where.plan import LINES, line_of, piece_lines

SCRAMBLE = np.uint64(0x9E3779B97F4A7C15)
FOLD = np.uint64(32)
FREE = -1


class KeyTable(NamedTuple):
    """The keys: key i is the value `bits[i]` of line `line[i]`.

    A line is the numbers, the texts or the instants of an attribute (see `plan.Buckets`).
    """

    attributes: Ints
    """The attributes that have keys."""
    line: Ints
    bits: Longs
    """The value, or the rank of the text (see `texts`): a float's bits."""
    start: Ints
    """Key i leads to the conjunctions `postings[start[i]:start[i + 1]]`."""
    postings: Ints
    slots: Ints
    """The hash table of key numbers, FREE where there is none; its size is a power of two."""


def build_keys(flat: FlatConditions, keyed: int) -> KeyTable:
    """The keys of the first `keyed` conjunctions, each found by its first constraint."""
    constraint = flat.start[:keyed]
    sizes = np.diff(flat.piece_start)[constraint]
    pieces = runs(flat.piece_start[:-1][constraint], sizes)
    conjunction = np.repeat(np.arange(keyed, dtype=np.int32), sizes)
    line = piece_lines(flat)[0][pieces]
    value = flat.low[pieces]
    order = np.lexsort((conjunction, value, line))
    line, value, conjunction = line[order].astype(np.int32), value[order], conjunction[order]
    new = np.concatenate([np.ones(min(1, keyed), np.bool_), (np.diff(line) != 0) | (np.diff(value) != 0)])
    begins = np.flatnonzero(new)
    size = 1 << max(1, (2 * len(begins)).bit_length())
    keys = KeyTable(
        np.unique(line // LINES).astype(np.int32),
        line[begins],
        value[begins].view(np.int64),
        np.append(begins, len(line)).astype(np.int32),
        conjunction,
        np.full(size, FREE, np.int32),
    )
    _fill_slots(sealed(keys.line), sealed(keys.bits), keys.slots)
    return keys


@kernel
def _key_hash(line: int, bits: int) -> Any:
    value = (np.uint64(bits) ^ (np.uint64(line) * SCRAMBLE)) * SCRAMBLE
    value = (value ^ (value >> FOLD)) * SCRAMBLE
    return value ^ (value >> FOLD)


@kernel
def _fill_slots(line: Ints, bits: Longs, slots: Ints) -> None:
    mask = np.uint64(len(slots) - 1)
    for key in range(len(line)):
        at = _key_hash(line[key], bits[key]) & mask
        while slots[at] != FREE:
            at = (at + np.uint64(1)) & mask
        slots[at] = key


@kernel
def find_keyed(
    constraints: Constraints,
    keys: KeyTable,
    rows: Rows,
    bits: Longs,
    base: int,
    out_rows: Ints,
    out_conjunctions: Ints,
    count: int,
) -> Found:
    """Add the keyed conjunctions that hold to what was found.

    `bits` are the values of the rows as whole numbers; `base` is what the first row is called in the answer.
    """
    mask = np.uint64(len(keys.slots) - 1)
    for attribute in keys.attributes:
        column = rows.where[attribute]
        if column == 0:
            continue
        for row in range(len(rows.tags)):
            tag = rows.tags[row, column]
            if tag != NUMBER and tag != STRING and tag != INSTANT:
                continue
            line = line_of(attribute, tag)
            at = _key_hash(line, bits[row, column]) & mask
            key = keys.slots[at]
            while key != FREE and (keys.line[key] != line or keys.bits[key] != bits[row, column]):
                at = (at + np.uint64(1)) & mask
                key = keys.slots[at]
            if key == FREE:
                continue
            for place in range(keys.start[key], keys.start[key + 1]):
                conjunction = np.uint64(keys.postings[np.uint64(place)])
                # The first constraint is the key itself.
                first = constraints.start[conjunction] + 1
                if holds(constraints, rows, first, constraints.start[conjunction + np.uint64(1)], row):
                    if count == len(out_rows):
                        out_rows, out_conjunctions = grown(out_rows), grown(out_conjunctions)
                    out_rows[count] = base + row
                    out_conjunctions[count] = conjunction
                    count += 1
    return out_rows, out_conjunctions, count
