"""The where index for batches: rare values lead straight to their conjunctions, bitsets find all others.

`plan` sorts a segment's conjunctions into three lots, each searched by its own kernel:

- *keyed*: a hash table leads from an attribute's value to the conjunctions that ask for it.
- *grouped*: conjunctions that constrain the same attributes stand in blocks of up to BLOCK. For each of
  its attributes and each bucket of that attribute's values, a block has a bitset of the conjunctions that
  may hold there. The AND of the bitsets of the event's buckets leaves few candidates. All rows meet one
  block before the next, so that its tables stay in the processor's nearest cache; and as rows are sorted
  by the bucket of the block's lead, those it cannot want are never looked at.
- the rest have no constraint and are candidates for every row.

Candidates are checked against their constraints, so what is found is exact; a pair found only through an
uncertain conjunction is decided by evaluating the filter (see `constraints`).

Cost of an event, for g grouped conjunctions of k constraints: about k * g / 64 word operations, plus the
candidates; for keyed ones O(keyed attributes + candidates). Space: 21 bytes a constraint, and up to
TEXT_CUTS / 8 bytes more if it is grouped, 4 if it is a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from distributary.filters.where.filter import WhereFilter
from distributary.kernel import Bytes, Flags, Floats, Ints, Longs, Words, kernel, sealed
from distributary.matching.batch import NULL, NUMBER, STRING, EventBatch
from distributary.matching.index import Arrays, Pairs
from distributary.matching.layers import CompiledIndex
from distributary.matching.where.constraints import (
    SHARED,
    UNCERTAIN,
    Constraints,
    Flat,
    Rows,
    columns_of,
    encode,
    evaluate_pairs,
    flatten,
    holds,
    runs,
)
from distributary.matching.where.plan import (
    GROUPED_BY,
    KEYED_BELOW,
    NOTHING,
    WORTH_A_GROUP,
    Buckets,
    SegmentPlan,
    bucket_of,
    piece_buckets,
    plan,
)

WIDTHS = (1, 2, 4, 8)
"""Words that a block's bitset may have; eight make one line of a processor's cache."""
BLOCK = 64 * WIDTHS[-1]
VISIT = 5.0
"""What it costs a row to meet a block, in words that could be ANDed instead."""
ROWS = 8192
"""Rows that meet a block before the next one."""
BUCKETED = 1 << 24
"""Bytes that the buckets of these rows may take, which lowers ROWS when there are very many attributes."""
SCRAMBLE = np.uint64(0x9E3779B97F4A7C15)
FOLD = np.uint64(32)


class KeyTable(NamedTuple):
    """Key i is the value `bits[i]` of line `line[i]` (2 * attribute, + 1 for texts), and leads to the
    conjunctions `postings[start[i]:start[i + 1]]`. `slots` is the hash table, -1 where free."""

    attributes: Ints
    line: Ints
    bits: Longs
    start: Ints
    postings: Ints
    slots: Ints

    @classmethod
    def of(cls, arrays: Arrays) -> KeyTable:
        return cls(*(sealed(arrays[f"key_{field}"]) for field in cls._fields))

    def arrays(self) -> Arrays:
        return {f"key_{field}": array for field, array in self._asdict().items()}


class BitsetBlocks(NamedTuple):
    """Block i holds the conjunctions from `first[i]` to `first[i + 1]`, in bitsets of `width[i]` words.

    The bitset of attribute `attributes[i, j]` and bucket b starts at `words[tables[i, j] + b * width[i]]`.
    A block of fewer attributes repeats its last one. `wide[i]` says whether there are more than four. Only
    rows whose bucket of the first attribute lies between `from_bucket[i]` and `to_bucket[i]` are of interest.
    `used` lists the attributes of all blocks.
    """

    first: Ints
    width: Ints
    wide: Flags
    from_bucket: Ints
    to_bucket: Ints
    attributes: Ints
    tables: Longs
    used: Ints
    words: Words

    @classmethod
    def of(cls, arrays: Arrays) -> BitsetBlocks:
        return cls(*(sealed(arrays[f"block_{field}"]) for field in cls._fields))

    def arrays(self) -> Arrays:
        return {f"block_{field}": array for field, array in self._asdict().items()}


class RowBuckets(NamedTuple):
    """The rows by bucket: row i is in `number[a, i]` of attribute a; the rows of bucket b are
    `order[a, begin[a, b]:begin[a, b + 1]]`. Where not `wanted[a]`, no constraint on a holds for any row."""

    number: Bytes
    order: NDArray[np.uint16]
    begin: NDArray[np.uint16]
    wanted: Flags


class WhereBitsets(CompiledIndex[WhereFilter]):
    """The default index for conditions."""

    kind: ClassVar[str] = "where"
    name: ClassVar[str] = "bitsets"
    filter_class: ClassVar[type[Any]] = WhereFilter
    keyed_below: ClassVar[float] = KEYED_BELOW
    worth_a_group: ClassVar[float] = WORTH_A_GROUP

    def compile(self, filters: Sequence[WhereFilter]) -> Arrays:
        planned = plan(flatten(filters), self.keyed_below, self.worth_a_group)
        return {
            **planned.flat.arrays(filters),
            **planned.buckets.arrays(),
            **_keys(planned.flat, planned.keyed).arrays(),
            **_blocks(planned).arrays(),
        }

    def search(self, arrays: Arrays, batch: EventBatch) -> Pairs:
        found = _Search(arrays, batch)
        block = max(64, min(ROWS, BUCKETED // max(1, len(found.buckets.size))))
        for start in range(0, batch.rows, block):
            found.look_at(start, min(start + block, batch.rows))
        return _decided(arrays, batch, found.rows[: found.count], found.conjunctions[: found.count])


class _Search:
    """One question to one segment: the candidates found so far, checked, as rows and conjunctions."""

    def __init__(self, arrays: Arrays, batch: EventBatch) -> None:
        self.arrays = arrays
        self.columns = columns_of(arrays, batch)
        self.constraints = Constraints.of(arrays)
        self.buckets = Buckets.of(arrays)
        self.keys = KeyTable.of(arrays)
        self.blocks = BitsetBlocks.of(arrays)
        self.rows = np.empty(max(1024, 4 * batch.rows), np.int32)
        self.conjunctions = np.empty(len(self.rows), np.int32)
        self.count = 0
        self.candidates = np.empty(BLOCK * min(batch.rows, ROWS), np.int32)

    def look_at(self, start: int, end: int) -> None:
        rows = encode(self.arrays, self.columns, slice(start, end), end - start)
        if len(self.keys.postings):
            self.rows, self.conjunctions, self.count = _find_keyed(
                self.constraints,
                self.keys,
                rows,
                sealed(rows.values.view(np.int64)),
                start,
                self.rows,
                self.conjunctions,
                self.count,
            )
        if len(self.blocks.width):
            buckets = _row_buckets(self.buckets, self.blocks.used, rows)
            self.rows, self.conjunctions, self.count = _find_grouped(
                self.constraints,
                self.blocks,
                rows,
                buckets,
                self.candidates,
                start,
                self.rows,
                self.conjunctions,
                self.count,
            )
        free = np.arange(self.blocks.first[-1], len(self.constraints.start) - 1, dtype=np.int32)
        if len(free):
            self._append(
                np.repeat(np.arange(start, end, dtype=np.int32), len(free)), np.tile(free, end - start)
            )

    def _append(self, rows: Ints, conjunctions: Ints) -> None:
        self.rows = np.concatenate([self.rows[: self.count], rows])
        self.conjunctions = np.concatenate([self.conjunctions[: self.count], conjunctions])
        self.count += len(rows)


def _decided(arrays: Arrays, batch: EventBatch, rows: Ints, conjunctions: Ints) -> Pairs:
    """The pairs of rows and filters, each once, after evaluating those that are uncertain."""
    positions = arrays["owner"][conjunctions]
    flags = arrays["flags"][conjunctions]
    plain = flags == 0
    if plain.all():
        return Pairs(rows, positions)
    filters = int(arrays["owner"].max()) + 1
    pair = rows.astype(np.int64) * filters + positions
    certain = np.unique(pair[(flags & SHARED != 0) & (flags & UNCERTAIN == 0)])
    uncertain = np.setdiff1d(pair[flags & UNCERTAIN != 0], certain)
    more_rows, more_positions = _split(uncertain, filters)
    passed = evaluate_pairs(arrays, batch, more_rows, more_positions)
    return Pairs.joined(
        [
            Pairs(rows[plain], positions[plain]),
            Pairs(*_split(certain, filters)),
            Pairs(more_rows[passed], more_positions[passed]),
        ]
    )


def _split(pairs: Longs, filters: int) -> tuple[Ints, Ints]:
    rows, positions = np.divmod(pairs, filters)
    return rows.astype(np.int32), positions.astype(np.int32)


def _keys(flat: Flat, keyed: int) -> KeyTable:
    """The keys of the first `keyed` conjunctions, each found by its first constraint."""
    constraint = flat.start[:keyed]
    sizes = np.diff(flat.piece_start)[constraint]
    pieces = runs(flat.piece_start[:-1][constraint], sizes)
    conjunction = np.repeat(np.arange(keyed, dtype=np.int32), sizes)
    line = np.repeat(flat.attribute[constraint] * 2, sizes) + (flat.tag[pieces] == STRING)
    value = flat.low[pieces]
    order = np.lexsort((conjunction, value, line))
    line, value, conjunction = line[order].astype(np.int32), value[order], conjunction[order]
    new = np.concatenate([np.ones(min(1, keyed), np.bool_), (np.diff(line) != 0) | (np.diff(value) != 0)])
    begins = np.flatnonzero(new)
    size = 1 << max(1, (2 * len(begins)).bit_length())
    keys = KeyTable(
        np.unique(line >> 1).astype(np.int32),
        line[begins],
        value[begins].view(np.int64),
        np.append(begins, len(line)).astype(np.int32),
        conjunction,
        np.full(size, -1, np.int32),
    )
    _fill_keys(sealed(keys.line), sealed(keys.bits), keys.slots)
    return keys


def _blocks(planned: SegmentPlan) -> BitsetBlocks:
    """The blocks of every group and their bitsets."""
    sizes = np.bincount(planned.group, minlength=len(planned.grouped_by))
    counts = -(-sizes // (64 * _widths(sizes, planned.lead_often)))
    group = np.repeat(np.arange(len(sizes)), counts)
    number = runs(np.zeros(len(sizes), np.int64), counts)
    begins = np.cumsum(sizes) - sizes
    first = begins[group] + number * sizes[group] // np.maximum(counts[group], 1)
    first = (planned.keyed + np.append(first, planned.grouped)).astype(np.int32)
    width = -(-np.diff(first) // 64)
    named = (planned.grouped_by >= 0).sum(axis=1)
    place = np.minimum(np.arange(GROUPED_BY), np.maximum(named[:, None] - 1, 0))
    attributes = np.take_along_axis(planned.grouped_by, place, axis=1)[group]
    rows = np.where(np.arange(GROUPED_BY) < named[group][:, None], planned.buckets.size[attributes], 0)
    table_sizes = rows * width[:, None]
    ends = np.cumsum(table_sizes.reshape(-1), dtype=np.int64).reshape(table_sizes.shape)
    tables = np.take_along_axis(ends - table_sizes, place[group], axis=1)
    total = int(ends[-1, -1]) if len(ends) else 0
    blocks = BitsetBlocks(
        first,
        width,
        named[group] > 4,
        np.full(len(width), np.iinfo(np.int32).max, np.int32),
        np.zeros(len(width), np.int32),
        attributes.astype(np.int32),
        tables,
        np.unique(attributes).astype(np.int32),
        np.zeros(total, np.uint64),
    )
    first_bucket, last_bucket = piece_buckets(planned.flat, planned.buckets)
    _fill_blocks(
        sealed(blocks.first),
        sealed(blocks.width),
        sealed(blocks.attributes),
        sealed(blocks.tables),
        sealed(named[group]),
        sealed(planned.flat.start),
        sealed(planned.flat.attribute),
        sealed(planned.flat.piece_start),
        sealed(first_bucket),
        sealed(last_bucket),
        blocks.from_bucket,
        blocks.to_bucket,
        blocks.words,
    )
    return blocks


def _widths(sizes: Longs, lead_often: Floats) -> Longs:
    """The width that suits each group best: narrow blocks are met by fewer rows, wide ones save meetings."""
    widths = np.array(WIDTHS)
    blocks = np.maximum(sizes[:, None] / (64 * widths), 1)
    cost = (1 + blocks * lead_often[:, None]) * (VISIT + np.minimum(widths, sizes[:, None] / 64))
    best: Longs = widths[np.argmin(cost, axis=1)]
    return best


def _count_trailing_zeros(context: Any, word: Any) -> Any:
    """The code of `_lowest_bit`: one machine instruction that Numba has no function for."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], context.get_constant(types.boolean, True))

    return types.uint64(types.uint64), generate


_lowest_bit: Any = intrinsic(_count_trailing_zeros)
"""The number of the lowest bit that is set in a word that is not zero."""


@kernel
def _key_hash(line: int, bits: int) -> Any:
    value = (np.uint64(bits) ^ (np.uint64(line) * SCRAMBLE)) * SCRAMBLE
    value = (value ^ (value >> FOLD)) * SCRAMBLE
    return value ^ (value >> FOLD)


@kernel
def _fill_keys(line: Ints, bits: Longs, slots: Ints) -> None:
    mask = np.uint64(len(slots) - 1)
    for key in range(len(line)):
        at = _key_hash(line[key], bits[key]) & mask
        while slots[at] >= 0:
            at = (at + np.uint64(1)) & mask
        slots[at] = key


@kernel
def _fill_blocks(
    first: Ints,
    width: Ints,
    attributes: Ints,
    tables: Longs,
    named: Longs,
    start: Ints,
    attribute: Ints,
    piece_start: Ints,
    first_bucket: Bytes,
    last_bucket: Bytes,
    from_bucket: Ints,
    to_bucket: Ints,
    words: Words,
) -> None:
    for block in range(len(width)):
        for conjunction in range(first[block], first[block + 1]):
            bit = conjunction - first[block]
            mask = np.uint64(1) << np.uint64(bit & 63)
            for constraint in range(start[conjunction], start[conjunction + 1]):
                for j in range(named[block]):
                    if attributes[block, j] != attribute[constraint]:
                        continue
                    table = tables[block, j] + (bit >> 6)
                    for piece in range(piece_start[constraint], piece_start[constraint + 1]):
                        if j == 0:
                            from_bucket[block] = min(from_bucket[block], first_bucket[piece])
                            to_bucket[block] = max(to_bucket[block], last_bucket[piece])
                        for bucket in range(first_bucket[piece], np.int64(last_bucket[piece]) + 1):
                            words[table + bucket * width[block]] |= mask


@kernel
def _row_buckets(buckets: Buckets, attributes: Ints, rows: Rows) -> RowBuckets:
    """Put the rows into the buckets of each attribute (of those that are asked for)."""
    count = len(rows.tags)
    number = np.empty((len(buckets.size), count), np.uint8)
    order = np.empty((len(buckets.size), count), np.uint16)
    begin = np.empty((len(buckets.size), 258), np.uint16)
    wanted = np.zeros(len(buckets.size), np.bool_)
    for attribute in attributes:
        absent = rows.where[attribute] == 0
        wanted[attribute] = not absent or bucket_of(buckets, attribute, NULL, 0.0) != NOTHING
    for at in range(count):
        row = np.uint64(at)
        for attribute in attributes:
            if wanted[attribute]:
                column = np.uint64(rows.where[attribute])
                tag, value = rows.tags[row, column], rows.values[row, column]
                number[attribute, row] = bucket_of(buckets, attribute, tag, value)
    for attribute in attributes:
        if wanted[attribute]:
            _sort_by_bucket(number[attribute], order[attribute], begin[attribute])
    return RowBuckets(number, order, begin, wanted)


@kernel
def _sort_by_bucket(number: Bytes, order: NDArray[np.uint16], begin: NDArray[np.uint16]) -> None:
    """Fill in the order of the rows, and where each bucket begins in it (a counting sort)."""
    begin[:] = 0
    for bucket in number:
        begin[np.uint64(bucket) + np.uint64(2)] += 1
    for bucket in range(2, len(begin)):
        begin[bucket] += begin[bucket - 1]
    for row in range(len(number)):
        after = np.uint64(number[row]) + np.uint64(1)
        order[begin[after]] = row
        begin[after] += 1


@kernel
def _grown(array: Ints) -> Ints:
    larger = np.empty(2 * len(array), np.int32)
    larger[: len(array)] = array
    return larger


@kernel
def _find_keyed(
    constraints: Constraints,
    keys: KeyTable,
    rows: Rows,
    bits: Longs,
    base: int,
    out_rows: Ints,
    out_conjunctions: Ints,
    count: int,
) -> tuple[Ints, Ints, int]:
    mask = np.uint64(len(keys.slots) - 1)
    for attribute in keys.attributes:
        column = rows.where[attribute]
        if column == 0:
            continue
        for row in range(len(rows.tags)):
            tag = rows.tags[row, column]
            if tag != NUMBER and tag != STRING:
                continue
            line = 2 * attribute + (1 if tag == STRING else 0)
            at = _key_hash(line, bits[row, column]) & mask
            key = keys.slots[at]
            while key >= 0 and (keys.line[key] != line or keys.bits[key] != bits[row, column]):
                at = (at + np.uint64(1)) & mask
                key = keys.slots[at]
            if key < 0:
                continue
            for place in range(keys.start[key], keys.start[key + 1]):
                conjunction = np.uint64(keys.postings[np.uint64(place)])
                first = constraints.start[conjunction] + 1
                if holds(constraints, rows, first, constraints.start[conjunction + np.uint64(1)], row):
                    if count == len(out_rows):
                        out_rows, out_conjunctions = _grown(out_rows), _grown(out_conjunctions)
                    out_rows[count] = base + row
                    out_conjunctions[count] = conjunction
                    count += 1
    return out_rows, out_conjunctions, count


@kernel
def _find_grouped(
    constraints: Constraints,
    blocks: BitsetBlocks,
    rows: Rows,
    buckets: RowBuckets,
    candidates: Ints,
    base: int,
    out_rows: Ints,
    out_conjunctions: Ints,
    count: int,
) -> tuple[Ints, Ints, int]:
    for block in range(len(blocks.width)):
        left = _candidates(blocks, block, buckets, candidates)
        while count + left > len(out_rows):
            out_rows, out_conjunctions = _grown(out_rows), _grown(out_conjunctions)
        for place in range(left):
            row = candidates[place] // BLOCK
            conjunction = np.uint64(blocks.first[block] + candidates[place] % BLOCK)
            first, last = constraints.start[conjunction], constraints.start[conjunction + np.uint64(1)]
            out_rows[np.uint64(count)] = base + row
            out_conjunctions[np.uint64(count)] = conjunction
            if holds(constraints, rows, first, last, row):
                count += 1
    return out_rows, out_conjunctions, count


@kernel
def _candidates(blocks: BitsetBlocks, block: int, buckets: RowBuckets, found: Ints) -> int:
    """AND the bitsets of every row's buckets; what is left, as BLOCK * row + place in the block.

    Checking the candidates is left to a loop of its own, which lets this one run ahead undisturbed.
    """
    for attribute in blocks.attributes[block]:
        if not buckets.wanted[attribute]:
            return 0
    words, number, count = blocks.words, buckets.number, np.uint64(0)
    width, wide = np.uint64(blocks.width[block]), blocks.wide[block]
    attribute, table = blocks.attributes[block].astype(np.uint64), blocks.tables[block].astype(np.uint64)
    attribute0, attribute1, attribute2, attribute3 = attribute[0], attribute[1], attribute[2], attribute[3]
    table0, table1, table2, table3 = table[0], table[1], table[2], table[3]
    order, begin = buckets.order[attribute0], buckets.begin[attribute0]
    for place in range(begin[blocks.from_bucket[block]], begin[blocks.to_bucket[block] + 1]):
        row = np.uint64(order[np.uint64(place)])
        at0 = table0 + np.uint64(number[attribute0, row]) * width
        at1 = table1 + np.uint64(number[attribute1, row]) * width
        at2 = table2 + np.uint64(number[attribute2, row]) * width
        at3 = table3 + np.uint64(number[attribute3, row]) * width
        for offset in range(width):
            word = np.uint64(offset)
            left = words[at0 + word] & words[at1 + word] & words[at2 + word] & words[at3 + word]
            if wide and left != 0:
                for j in range(4, GROUPED_BY):
                    left &= words[table[j] + np.uint64(number[attribute[j], row]) * width + word]
            while left != 0:
                found[count] = row * np.uint64(BLOCK) + word * np.uint64(64) + _lowest_bit(left)
                count += np.uint64(1)
                left &= left - np.uint64(1)
    return int(count)
