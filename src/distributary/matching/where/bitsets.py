"""The where index for batches: rare values lead straight to their conjunctions, bitsets find all others.

`plan` sorts a segment's conjunctions into three lots, each searched in its own way:

- *keyed*: a hash table leads from an attribute's value to the conjunctions that ask for it (`keys`).
- *grouped*: bitsets over buckets of values leave few candidates (`blocks`).
- the rest have no constraint and are candidates for every row.

Candidates are checked against their constraints, so what is found is exact; a pair found only through an
uncertain conjunction is decided by evaluating the filter (see `constraints`).

Cost of an event: see `keys` and `blocks`. Space: 21 bytes a constraint, and up to TEXT_CUTS / 8 bytes more if
it is grouped, 4 if it is a key.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from distributary.filters.where.filter import WhereFilter
from distributary.kernel import Ints, Longs, read_table, sealed, table_arrays
from distributary.matching.batch import EventBatch
from distributary.matching.index import Arrays, Pairs
from distributary.matching.layers import CompiledIndex
from distributary.matching.where import constraints as conditions
from distributary.matching.where import evaluation
from distributary.matching.where.blocks import BLOCK, BitsetBlocks, build_blocks, find_grouped, row_buckets
from distributary.matching.where.constraints import SHARED, UNCERTAIN, Constraints, Found
from distributary.matching.where.keys import KeyTable, build_keys, find_keyed
from distributary.matching.where.plan import KEYED_BELOW, WORTH_A_GROUP, Buckets, plan

ROWS = 8192
"""Rows that meet a block before the next one."""
BUCKETED = 1 << 24
"""Bytes that the buckets of these rows may take, which lowers ROWS when there are very many attributes."""


class WhereBitsets(CompiledIndex[WhereFilter]):
    """The default index for conditions."""

    kind: ClassVar[str] = "where"
    name: ClassVar[str] = "bitsets"
    filter_class: ClassVar[type[Any]] = WhereFilter
    keyed_below: ClassVar[float] = KEYED_BELOW
    worth_a_group: ClassVar[float] = WORTH_A_GROUP

    def compile(self, filters: Sequence[WhereFilter]) -> Arrays:
        """Plan the conjunctions and build the tables of keys and blocks."""
        planned = plan(conditions.flatten(filters), self.keyed_below, self.worth_a_group)
        return {
            **planned.flat.arrays(filters),
            **table_arrays(planned.buckets, "bucket_"),
            **table_arrays(build_keys(planned.flat, planned.keyed), "key_"),
            **table_arrays(build_blocks(planned), "block_"),
        }

    def search(self, arrays: Arrays, batch: EventBatch) -> Pairs:
        """Encode some thousand rows at a time, and find what is keyed, what is grouped, and the rest."""
        columns = conditions.columns_of(arrays, batch)
        constraints = read_table(Constraints, arrays)
        buckets = read_table(Buckets, arrays, "bucket_")
        keys = read_table(KeyTable, arrays, "key_")
        blocks = read_table(BitsetBlocks, arrays, "block_")
        free = np.arange(blocks.first[-1], len(constraints.start) - 1, dtype=np.int32)
        candidates = np.empty(BLOCK * min(batch.rows, ROWS), np.int32)
        room = max(1024, 4 * batch.rows)
        found: Found = np.empty(room, np.int32), np.empty(room, np.int32), 0
        step = max(64, min(ROWS, BUCKETED // max(1, len(buckets.size))))
        for start in range(0, batch.rows, step):
            end = min(start + step, batch.rows)
            rows = conditions.encode(arrays, columns, slice(start, end), end - start)
            if len(keys.postings):
                bits = sealed(rows.values.view(np.int64))
                found = find_keyed(constraints, keys, rows, bits, start, *found)
            if len(blocks.width):
                in_buckets = row_buckets(buckets, blocks.used, rows)
                found = find_grouped(constraints, blocks, rows, in_buckets, candidates, start, *found)
            if len(free):
                found = _with_all(found, np.arange(start, end, dtype=np.int32), free)
        found_rows, conjunctions, count = found
        pairs = _decided(arrays, batch, found_rows[:count], conjunctions[:count])
        undecidable = evaluation.undecidable_rows(arrays, columns, batch.rows)
        if undecidable is None:
            return pairs
        sound = ~undecidable[pairs.rows]
        evaluated = evaluation.evaluate_rows(arrays, batch, np.flatnonzero(undecidable).astype(np.int32))
        return Pairs.joined([Pairs(pairs.rows[sound], pairs.slots[sound]), Pairs(*evaluated)])


def _with_all(found: Found, rows: Ints, conjunctions: Ints) -> Found:
    """What was found, and each of these rows with each of these conjunctions."""
    before_rows, before, count = found
    all_rows = np.concatenate([before_rows[:count], np.repeat(rows, len(conjunctions))])
    return all_rows, np.concatenate([before[:count], np.tile(conjunctions, len(rows))]), len(all_rows)


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
    passed = evaluation.evaluate_pairs(arrays, batch, more_rows, more_positions)
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
