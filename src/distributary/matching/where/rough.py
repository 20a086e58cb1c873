"""Rough bounds: two words decide nearly every candidate among conjunctions of up to four ranges.

When one event is matched, checking a candidate reads its bounds, a line of the cache that only it needs. (In
a batch many rows share it.) For most, much less will do. A value is *rough* when nothing but its bucket is
known, and which 64th of the bucket it lies in: 15 bits, that never decrease along a line of values (see
`plan.Buckets`). So where a rough value is greater than the rough lower bound of a constraint and less than
its upper one, the constraint holds; where it is less than the lower one or greater than the upper one, it
does not; only where it equals one of them must the bounds be read.

The four rough values, the four lower and the four upper bounds of a conjunction are *lanes* of 16 bits of a
word each, all four of which are compared by one subtraction. The highest bit of a lane is kept free for that.
A value of another kind than a constraint is about is in a bucket before or behind all of that constraint's.

A block has rough bounds if its conjunctions have up to four constraints alike (see `BitsetBlocks`), nearly
all of which are wide enough to tell values inside from their bounds. They take 16 bytes a conjunction.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Bytes, Floats, Ints, Words, inlined, kernel, sealed, sealed_table
from distributary.matching.columns import INSTANT, NUMBER, STRING
from distributary.matching.where.constraints import FlatConditions
from distributary.matching.where.plan import Buckets, line_of

LANES = 4
LANE_BITS = 16
ROUGH_BITS = 7
"""Bits of a rough value below its bucket. The lowest is always set."""
PARTS = 64
"""Parts of a bucket that rough values tell apart."""
EACH = np.uint64(0x0001_0001_0001_0001)
"""Rough values of no constraint: of a lane that is not used. They are above 0 and below MOST."""
FREE = np.uint64(0x8000_8000_8000_8000)
"""The highest bit of each lane."""
MOST = 0x7FFF
NOT_ROUGH = -1
"""The place of the rough bounds of a block that has none."""
RARELY_NARROW = 8
"""A block has none if more than one conjunction in so many has a range that is as narrow as a part."""


@inlined
def is_on_line(tag: Any) -> Any:
    """Whether values with this tag are on a line."""
    return tag in (NUMBER, STRING, INSTANT)


@inlined
def rough_value(buckets: Buckets, attribute: Any, tag: Any, value: Any, bucket: Any) -> Any:
    """The rough value of a value in that bucket."""
    rough = np.int64(bucket) << ROUGH_BITS | 1
    if is_on_line(tag):
        line = line_of(np.int64(attribute), tag)
        above = buckets.first[line] + np.int64(bucket) - np.int64(buckets.base[line])
        if buckets.first[line] < above < buckets.first[line + 1]:
            cut = buckets.cuts[above - 1]
            width = buckets.cuts[above] - cut
            if width < np.inf:  # each step of this never decreases when the value grows
                part: Any = min(np.int64((value - cut) / width * PARTS), np.int64(PARTS - 1))
                rough |= part << 1
    return rough


@inlined
def lane(rough: Any, place: Any) -> Any:
    """A rough value in the lane at that place."""
    return np.uint64(rough) << np.uint64(LANE_BITS * place)


@inlined
def surely_holds(lower: Any, upper: Any, lanes: Any) -> Any:
    """Whether all rough values are between the bounds, so that the values themselves are."""
    return ((lanes | FREE) - lower - EACH) & ((upper | FREE) - lanes - EACH) & FREE == FREE


@inlined
def may_hold(lower: Any, upper: Any, lanes: Any) -> Any:
    """Whether no rough value is outside of the bounds, so that the values themselves may be within."""
    return ((lanes | FREE) - lower) & ((upper | FREE) - lanes) & FREE == FREE


class _Pieces(NamedTuple):
    """The constraints of `FlatConditions`, and the first and the last bucket of each of their pieces."""

    start: Ints
    attribute: Ints
    piece_start: Ints
    tag: Bytes
    low: Floats
    high: Floats
    first_bucket: Bytes
    last_bucket: Bytes


def build_rough(
    flat: FlatConditions,
    buckets: Buckets,
    piece_buckets: tuple[Bytes, Bytes],
    first: Ints,
    alike: Ints,
    attributes: Ints,
) -> tuple[Ints, Words]:
    """Where the rough bounds of each block begin, or NOT_ROUGH, and those bounds: of each conjunction the
    lower ones in one word, the upper ones in the next.

    `piece_buckets` are the first and the last bucket of each piece; `first`, `alike` and `attributes` are
    those of `BitsetBlocks`.
    """
    pieces = _Pieces(
        flat.start, flat.attribute, flat.piece_start, flat.tag, flat.low, flat.high, *piece_buckets
    )
    return _build(
        sealed(first), sealed(alike), sealed(attributes), sealed_table(buckets), sealed_table(pieces)
    )


@kernel
def _build(
    first: Ints, alike: Ints, attributes: Ints, buckets: Buckets, pieces: _Pieces
) -> tuple[Ints, Words]:
    rough: Ints = np.full(len(alike), NOT_ROUGH, np.int32)
    count = 0
    for block in range(len(alike)):
        if _is_rough(first[block], first[block + 1], alike[block], attributes[block], buckets, pieces):
            rough[block] = count
            count += 2 * (first[block + 1] - first[block])
    words = np.empty(count, np.uint64)
    for block in range(len(alike)):
        if rough[block] != NOT_ROUGH:
            for number, conjunction in enumerate(range(first[block], first[block + 1])):
                lower, upper = np.uint64(0), np.uint64(0)
                for place in range(LANES):
                    low, high = 0, MOST
                    if place < alike[block]:
                        low, high = _rough_bounds(buckets, pieces, pieces.start[conjunction] + place)
                    lower |= lane(low, place)
                    upper |= lane(high, place)
                words[rough[block] + 2 * number] = lower
                words[rough[block] + 2 * number + 1] = upper
    return rough, words


@inlined
def _is_rough(first: Any, last: Any, alike: Any, attributes: Ints, buckets: Buckets, pieces: _Pieces) -> Any:
    """Whether the block of the conjunctions from `first` to `last` has rough bounds."""
    if not 0 < alike <= LANES:
        return False
    narrow = 0
    for conjunction in range(first, last):
        wide = True
        for constraint in range(pieces.start[conjunction], pieces.start[conjunction + 1]):
            tag = pieces.tag[pieces.piece_start[constraint]]
            if not (is_on_line(tag) and (attributes == pieces.attribute[constraint]).any()):
                return False
            low, high = _rough_bounds(buckets, pieces, constraint)
            wide &= low < high
        narrow += not wide
    return narrow * RARELY_NARROW <= last - first


@inlined
def _rough_bounds(buckets: Buckets, pieces: _Pieces, constraint: Any) -> tuple[Any, Any]:
    """The rough bounds of a constraint of one piece."""
    attribute, piece = pieces.attribute[constraint], pieces.piece_start[constraint]
    tag = pieces.tag[piece]
    return (
        rough_value(buckets, attribute, tag, pieces.low[piece], pieces.first_bucket[piece]),
        rough_value(buckets, attribute, tag, pieces.high[piece], pieces.last_bucket[piece]),
    )
