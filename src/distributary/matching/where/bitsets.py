"""The where index for batches: rare values lead straight to their conjunctions, bitsets find all others.

`plan` sorts a segment's conjunctions into three lots, each searched in its own way:

- *keyed*: a hash table leads from an attribute's value to the conjunctions that ask for it (`keys`).
- *grouped*: bitsets over buckets of values leave few candidates (`blocks`).
- the rest have no constraint; their filters are evaluated for every row, as are those that were seen to hold
  often (`everywhere`).

Candidates are checked against their constraints, so what is found is exact; a pair found only through an
uncertain conjunction is decided by evaluating its predicates, or the filter (see `constraints`).

Cost of an event: see `keys` and `blocks`. Space: 21 bytes a constraint, and up to TEXT_CUTS / 8 bytes more if
it is grouped, 4 if it is a key; 16 bytes a conjunction with rough bounds (see `rough`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from distributary.filters.where.filter import WhereFilter
from distributary.filters.where.lookup import attribute_of
from distributary.filters.where.values import Instant
from distributary.kernel import Bytes, Flags, Ints, Words, kernel, read_table, sealed, table_arrays
from distributary.matching.batch import EventBatch
from distributary.matching.columns import AttributeColumn
from distributary.matching.index import AnyArrays, Arrays, Pairs
from distributary.matching.layers import CompiledIndex, CompiledSegment
from distributary.matching.order import at_places, grouped
from distributary.matching.single import SingleEvent
from distributary.matching.where import constraints as conditions
from distributary.matching.where import evaluation
from distributary.matching.where.blocks import (
    BLOCK,
    BitsetBlocks,
    build_blocks,
    find_grouped,
    row_buckets,
    wanted_bits,
)
from distributary.matching.where.collecting import ConditionGatherer
from distributary.matching.where.column import ConditionColumn
from distributary.matching.where.constraints import PREDICATED, SHARED, UNCERTAIN, Constraints, Found
from distributary.matching.where.everywhere import SMALL, SOME, ChosenConditions, EverywhereConditions
from distributary.matching.where.few_rows import FoundInFew, find_in_few_rows, find_in_plain_rows
from distributary.matching.where.find import ALL_ALIVE, bind_searched, find_conditions
from distributary.matching.where.keys import KeyTable, build_keys, find_keyed
from distributary.matching.where.plan import KEYED_BELOW, WORTH_A_GROUP, Buckets, plan
from distributary.matching.where.single import SegmentConditions

SAMPLE = 256
"""The first rows of a batch, which show what holds often."""
LARGE = 8 * SAMPLE
"""Batches of so many rows are looked at in this way."""
FEW = 512
"""How many filters of one event are made room for at first."""
FEW_OPEN = 4
"""Of so many filters that an event leaves open, each is evaluated by itself."""
FEW_ROWS = 128
"""Up to so many rows are searched in one kernel (see `find_in_few_rows`), which spares fixed costs."""
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
    few_rows: ClassVar[int] = FEW_ROWS

    def gatherer(self) -> ConditionGatherer:
        """Takes conditions apart as they come."""
        return ConditionGatherer()

    def column(self, texts: AnyArrays, first: int, last: int) -> ConditionColumn:
        """Conditions read by the column."""
        return ConditionColumn.of_texts(texts, first, last)

    def compile_gathered(self, gathered: ConditionGatherer) -> Arrays:  # type: ignore[override]
        """Plan the conjunctions and build the tables of keys and blocks."""
        planned = plan(gathered.flat(), self.keyed_below, self.worth_a_group)
        return {
            **planned.flat.arrays(gathered.texts()),
            **table_arrays(planned.buckets, "bucket_"),
            **table_arrays(build_keys(planned.flat, planned.keyed), "key_"),
            **table_arrays(build_blocks(planned), "block_"),
        }

    def searched(self, segment: CompiledSegment) -> Iterable[tuple[NDArray[Any], DTypeLike]]:
        """What `find_conditions` reads."""
        return bind_searched(segment.readable, segment.slots)

    def find_in(self, number: int, segment: CompiledSegment, single: SingleEvent) -> Ints:
        """Evaluate all conditions if all are chosen for that; else encode the event and search."""
        everywhere = _everywhere(segment)
        chosen = everywhere.chosen
        if chosen.are_all and everywhere.is_hard and chosen.count >= SOME:
            held = chosen.holding(*_values_of(single))
            if held is not None:
                alive = self.live(number, segment, held)
                slots: Ints = segment.slots[held if alive is None else held[alive]]
                return slots
        found = self._find(number, segment, single, chosen)
        everywhere.learn_of_few(len(found), 1)
        return found

    def _find(
        self, number: int, segment: CompiledSegment, single: SingleEvent, chosen: ChosenConditions
    ) -> Ints:
        """Search, and evaluate the filters that the kernel leaves open."""
        known = _known(segment)
        encoded = known.encode(single)
        if encoded is None:
            return super().find_in(number, segment, single)
        words = self.bound(segment).words
        alive = number if segment.dead else ALL_ALIVE
        found: Ints = np.empty(FEW, np.int32)
        count, undecided = find_conditions(alive, words, *encoded, found)
        while count + undecided > len(found):
            found = np.empty(count + undecided, np.int32)
            count, undecided = find_conditions(alive, words, *encoded, found)
        if not undecided:
            return found[:count]
        conjunctions = found[len(found) - undecided :]
        held = chosen.holding(*_values_of(single)) if undecided > FEW_OPEN and chosen.count else None
        passed: list[int] = []
        if held is not None:
            positions = segment.readable["owner"][conjunctions]
            passed = np.intersect1d(positions, held).tolist()
            conjunctions = conjunctions[~chosen.flags[positions]]
        passed += known.passing(conjunctions, single)
        return np.concatenate((found[:count], segment.slots[passed]))

    def search(self, segment: CompiledSegment, batch: EventBatch) -> Pairs:
        """Evaluate the conditions that are chosen for that, and search for the others."""
        everywhere = _everywhere(segment)
        chosen = everywhere.chosen
        if chosen.are_all:
            return everywhere.pairs(chosen, batch)
        chosen, searched = self._search(segment, batch, everywhere, chosen)
        pairs = Pairs.joined([searched, everywhere.pairs(chosen, batch)]) if chosen.count else searched
        if batch.rows < SMALL:
            everywhere.learn_of_few(len(pairs.rows), batch.rows)
        elif batch.rows < LARGE and everywhere.hold_often(searched, batch.rows):
            everywhere.learn(searched.slots, batch.rows)  # for the batches to come
        return pairs

    def _search(
        self,
        segment: CompiledSegment,
        batch: EventBatch,
        everywhere: EverywhereConditions,
        chosen: ChosenConditions,
    ) -> tuple[ChosenConditions, Pairs]:
        """Find what is keyed and what is grouped, but the chosen; in one kernel where rows are few.

        The first rows may show that more are to be chosen; these are returned, with the pairs of the others.
        """
        arrays = segment.readable
        if batch.rows <= self.few_rows:
            plain = _known(segment).plain_columns(batch)
            if plain is not None:
                found = find_in_plain_rows(self.bound(segment).words, plain, batch.rows)
                return chosen, _decided_of_few(arrays, batch, found, chosen)
        columns = conditions.columns_of(arrays, batch)
        if batch.rows <= self.few_rows:
            rows = conditions.encode(arrays, columns, slice(0, batch.rows), batch.rows)
            found = find_in_few_rows(self.bound(segment).words, *rows)
            pairs = _decided_of_few(arrays, batch, found, chosen)
        else:
            chosen, (row_of, conjunctions, count) = _find_in_many_rows(
                arrays, columns, batch.rows, everywhere, chosen
            )
            if chosen.are_all:
                return chosen, Pairs.none()
            pairs = _decided(arrays, batch, row_of[:count], conjunctions[:count], chosen)
        undecidable = evaluation.undecidable_rows(arrays, columns, batch.rows)
        if undecidable is None:
            return chosen, pairs
        sound = ~undecidable[pairs.rows]
        others = np.flatnonzero(~chosen.flags).astype(np.int32)
        evaluated = evaluation.evaluate_rows(
            arrays, batch, np.flatnonzero(undecidable).astype(np.int32), others
        )
        return chosen, Pairs.joined([Pairs(pairs.rows[sound], pairs.slots[sound]), evaluated])


def _values_of(single: SingleEvent) -> tuple[Callable[[Sequence[str]], list[Any]], Callable[[], Any]]:
    """From names to the values of an event's attributes, and when it arrived."""
    event = single.event
    given = event.attributes

    def values(names: Sequence[str]) -> list[Any]:
        return [attribute_of(event, name) if (found := given.get(name)) is None else found for name in names]

    return values, lambda: Instant(single.arrival)


def _known(segment: CompiledSegment) -> SegmentConditions:
    """What Python keeps of a segment's conditions."""
    known: SegmentConditions | None = segment.known
    if known is None:
        known = segment.known = SegmentConditions(segment.readable)
    return known


def _everywhere(segment: CompiledSegment) -> EverywhereConditions:
    """What is evaluated for every row: at first what has a conjunction without a constraint."""
    everywhere: EverywhereConditions | None = segment.memo
    if everywhere is None:
        arrays = segment.readable
        free = np.arange(arrays["block_first"][-1], len(arrays["start"]) - 1)
        everywhere = segment.memo = EverywhereConditions(arrays, len(segment), arrays["owner"][free])
    return everywhere


def _find_in_many_rows(
    arrays: AnyArrays,
    columns: Sequence[tuple[int, AttributeColumn]],
    count: int,
    everywhere: EverywhereConditions,
    chosen: ChosenConditions,
) -> tuple[ChosenConditions, Found]:
    """The keyed and the grouped conjunctions that hold: some thousand rows meet a block before the next one.

    The first rows of many may show that more conditions are to be chosen; these are returned too. What is
    chosen by then is not looked for any more, so that all is found only of the others.
    """
    constraints = read_table(Constraints, arrays)
    buckets = read_table(Buckets, arrays, "bucket_")
    keys = read_table(KeyTable, arrays, "key_")
    blocks = read_table(BitsetBlocks, arrays, "block_")
    candidates = np.empty(BLOCK * min(count, ROWS), np.int32)
    room = max(1024, 4 * count)
    found: Found = np.empty(room, np.int32), np.empty(room, np.int32), 0
    wanted = _wanted(arrays, blocks, chosen)
    for start, end in _steps(count, max(64, min(ROWS, BUCKETED // max(1, len(buckets.size))))):
        rows = conditions.encode(arrays, columns, slice(start, end), end - start)
        if len(keys.postings):
            bits = sealed(rows.values.view(np.int64))
            found = find_keyed(constraints, keys, rows, bits, start, *found)
        if len(blocks.width):
            in_buckets = row_buckets(buckets, blocks.used, rows)
            found = find_grouped(constraints, blocks, rows, in_buckets, wanted, candidates, start, *found)
        is_sample = end == SAMPLE and count >= LARGE
        if is_sample and everywhere.learn(arrays["owner"][found[1][: found[2]]], SAMPLE):
            chosen = everywhere.chosen
            if chosen.are_all:
                break
            wanted = _wanted(arrays, blocks, chosen)
    return chosen, found


def _steps(rows: int, step: int) -> Iterator[tuple[int, int]]:
    """The rows from start to end, some at a time; of a large batch the first few show what holds often."""
    start = 0
    if rows >= LARGE:
        yield 0, SAMPLE
        start = SAMPLE
    for begin in range(start, rows, step):
        yield begin, min(begin + step, rows)


def _wanted(arrays: AnyArrays, blocks: BitsetBlocks, chosen: ChosenConditions) -> Words:
    """The bits of the grouped conjunctions that are searched for; empty for all."""
    if not chosen.count:
        return np.empty(0, np.uint64)
    return wanted_bits(blocks, chosen.flags[arrays["owner"]])


def _decided_of_few(
    arrays: AnyArrays, batch: EventBatch, found: FoundInFew, chosen: ChosenConditions
) -> Pairs:
    """As `_decided`; mostly there is nothing to decide."""
    rows, conjunctions, positions, flags = found
    if flags or chosen.count:
        return _decided(arrays, batch, rows, conjunctions, chosen)
    return Pairs(rows, positions)


def _decided(
    arrays: AnyArrays, batch: EventBatch, rows: Ints, conjunctions: Ints, chosen: ChosenConditions
) -> Pairs:
    """The pairs of rows and filters that are not chosen, each once, after evaluating the uncertain ones."""
    positions, flags = at_places(arrays["owner"], conjunctions), arrays["flags"][conjunctions]
    if chosen.count:
        others = ~chosen.flags[positions]
        if not others.all():
            rows, conjunctions = rows[others], conjunctions[others]
            positions, flags = positions[others], flags[others]
    predicated = np.flatnonzero(flags & PREDICATED)
    if len(predicated):
        held = evaluation.predicates_hold(arrays, batch, rows[predicated], conjunctions[predicated])
        flags[predicated] &= SHARED
        kept = np.ones(len(rows), np.bool_)
        kept[predicated] = held
        rows, positions, flags = rows[kept], positions[kept], flags[kept]
    return _certain(arrays, batch, rows, positions, flags)


def _certain(arrays: AnyArrays, batch: EventBatch, rows: Ints, positions: Ints, flags: Bytes) -> Pairs:
    """The pairs, each once, after evaluating those that are uncertain."""
    plain = flags == 0
    if plain.all():
        return Pairs(rows, positions)
    flagged = np.flatnonzero(~plain)
    flagged = flagged[grouped(positions[flagged], len(arrays["texts.offsets"]))]
    certain, uncertain = _distinct(
        rows[flagged], positions[flagged], flags[flagged] & UNCERTAIN != 0, batch.rows
    )
    more_rows, more_positions = rows[flagged[uncertain]], positions[flagged[uncertain]]
    passed = evaluation.evaluate_pairs(arrays, batch, more_rows, more_positions)
    return Pairs.joined(
        [
            Pairs(rows[plain], positions[plain]),
            Pairs(rows[flagged[certain]], positions[flagged[certain]]),
            Pairs(more_rows[passed], more_positions[passed]),
        ]
    )


@kernel
def _distinct(rows: Ints, positions: Ints, uncertain: Flags, count: int) -> tuple[Flags, Flags]:
    """Which pairs are certain, and which must be evaluated: each pair once; positions are ascending.

    `last[row]` is the position for which the row was last met, so that meeting it again is noticed.
    """
    certain_kept, uncertain_kept = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    last = np.full(count, -1, np.int32)
    begin = 0
    while begin < len(rows):
        position, end = positions[begin], begin
        while end < len(rows) and positions[end] == position:
            if not uncertain[end] and last[rows[end]] != position:
                last[rows[end]] = position
                certain_kept[end] = True
            end += 1
        for at in range(begin, end):
            if uncertain[at] and last[rows[at]] != position:
                last[rows[at]] = position
                uncertain_kept[at] = True
        begin = end
    return certain_kept, uncertain_kept
