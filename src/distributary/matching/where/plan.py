"""How a segment of conditions is laid out: which conjunction is found by a key, which through bitsets.

Nothing is known about the events to come, so the conditions speak for them: values that many conditions
name are taken to be frequent, and the bounds of an attribute's ranges are cut into *buckets* that hold
about equally many bounds each. From that every constraint gets an estimate of how often it holds.

- A conjunction with an equality (or IN) that rarely holds is found by that value: its *key*.
- All others are found through bitsets over buckets. Those that share their most selective attributes form
  a *group*; a group too small to be worth its own tables gives up its least selective attribute and joins
  a larger one, and what it gave up is left to the final check. A group is sorted by the bucket of its most
  selective attribute, its *lead*, so that neighbours want the same events.
- A conjunction with no constraint at all is a candidate for every event.

Estimates decide only how fast the answer comes. Cost: a few sorts, O(n log n) for n pieces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import Bytes, Flags, Floats, Ints, Longs, inlined, kernel, sealed, sealed_table
from distributary.matching.columns import BOOLEAN, DURATION, INSTANT, NULL, NUMBER, OTHER, STRING, TIME
from distributary.matching.growing import HUGE, return_free_memory
from distributary.matching.where.constraints import FlatConditions, runs, starts_of

NUMBER_CUTS = 64
TEXT_CUTS = 112
INSTANT_CUTS = 56
"""At most this many cuts in the numbers, the texts and the instants of an attribute. With those of the other
values an attribute has at most 1 + 65 + 113 + 57 + 4 buckets, so that a byte can number them."""
LINES = 3
"""Lines of an attribute: its numbers, its texts and its instants."""
SPECIAL = 4
"""Buckets beside those of the lines: false, true, null and all other values."""
MOST_CUTS = (NUMBER_CUTS, TEXT_CUTS, INSTANT_CUTS)
SAMPLE = 1 << 15
"""Bounds of one attribute that are looked at to place the cuts."""
KEYED_BELOW = 1 / 1024
"""A key must hold as rarely as this: then looking at its few conjunctions one by one beats any bitset."""
UNKNOWN = 100
"""Constraints added to an attribute's count, so that a value named by its only one is not called certain."""
GROUPED_BY = 8
"""At most this many attributes of a group have bitsets."""
ALWAYS_GROUPED_BY = 4
WEAK = 0.9
"""Beyond the first four, an attribute that holds more often than this gets no bitsets."""
WORTH_A_GROUP = 0.1
"""Candidates per event that giving up an attribute may cost before a group keeps it."""
DENSE = 4
"""Codes that are less than so many times their number are ranked by a table, larger ones by sorting them."""
NOTHING = 0
"""The bucket of values for which no constraint on the attribute holds."""


class Buckets(NamedTuple):
    """Where each attribute's values are cut.

    Attribute a has three lines, numbers at 3a, texts at 3a + 1 and instants at 3a + 2; a value of line l lies
    in the bucket `base[l]` plus the number of its `cuts[first[l]:first[l + 1]]` at or below it. False, true,
    null and all other values have the buckets `special[a]`; the attribute has `size[a]` buckets in all. A
    kind of value that no constraint accepts is in NOTHING.
    """

    first: Ints
    cuts: Floats
    base: Bytes
    special: Bytes
    size: Ints


@dataclass(frozen=True, slots=True)
class SegmentPlan:
    """The conjunctions in their new order, first the keyed, then the grouped, then the rest.

    A keyed conjunction's first constraint is the one it is found by. `group` numbers the groups of the
    grouped ones; `grouped_by` holds each group's attributes, the lead first, padded with -1; `lead_often`
    estimates how often a group's constraint on its lead holds.
    """

    flat: FlatConditions
    buckets: Buckets
    keyed: int
    grouped: int
    group: Longs
    grouped_by: Ints
    lead_often: Floats


def plan(
    flat: FlatConditions, keyed_below: float = KEYED_BELOW, worth_a_group: float = WORTH_A_GROUP
) -> SegmentPlan:
    """Choose how each conjunction is found, and put those that are found alike next to each other."""
    if flat.low.nbytes >= HUGE:
        return_free_memory()  # of what took the conditions apart
    buckets = _buckets(flat)
    first, last = piece_buckets(flat, buckets)
    estimated = _estimate(flat, buckets, first, last)
    often = estimated.constraint
    sizes = np.diff(flat.start)
    of_constraint = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    key = _key_constraints(flat, estimated.equality, often, keyed_below)
    key_of = np.full(len(sizes), -1, np.int32)
    key_of[of_constraint[key]] = estimated.value[flat.piece_start[:-1][key]]
    del estimated  # as large as the segment, as are those that are given up below
    keyed, grouped = np.flatnonzero(key_of >= 0), np.flatnonzero((key_of < 0) & (sizes > 0))

    leading = _leading(grouped, flat.start, _rarest_first(key, often, of_constraint), often)
    group, grouped_by = _groups(flat.attribute, leading, often, worth_a_group)
    del leading
    grouped_by, lead_often, lead = _lead(flat, grouped, group, grouped_by, often)
    covered = _covered(flat, of_constraint, grouped, group, grouped_by)
    order = np.lexsort(
        (np.where(key, -1.0, np.where(covered, 1.0 + flat.attribute, often)), of_constraint)
    ).astype(np.int32)
    by_group = np.lexsort((first[flat.piece_start[:-1][lead]], group))
    keyed = keyed[np.argsort(key_of[keyed], kind="stable")]
    moved = np.concatenate([keyed, grouped[by_group], np.flatnonzero((key_of < 0) & (sizes == 0))])
    group = group[by_group]
    counts = len(keyed), len(grouped)
    del of_constraint, often, key, lead, covered, first, last, key_of, keyed, grouped, by_group
    constraints = order[runs(flat.start[:-1][moved], sizes[moved])]
    del order, sizes
    if flat.low.nbytes >= HUGE:
        return_free_memory()
    return SegmentPlan(flat.reordered(moved, constraints), buckets, *counts, group, grouped_by, lead_often)


def _buckets(flat: FlatConditions) -> Buckets:
    """Cut each line at some of its bounds, with about the same number of bounds between any two cuts."""
    attributes = len(flat.names)
    lines, ranged = piece_lines(flat)
    order = np.flatnonzero(ranged)
    order = order[np.argsort(lines[order], kind="stable")]
    starts = starts_of(np.bincount(lines[order], minlength=LINES * attributes))
    cuts = [
        _cuts(flat, order[starts[line] : starts[line + 1]], MOST_CUTS[line % LINES])
        for line in range(LINES * attributes)
    ]
    counts = np.array([len(of_line) for of_line in cuts], np.int64).reshape(-1, LINES)
    used = np.zeros((attributes, DURATION + 1), np.bool_)
    used[flat.piece_attribute(), flat.tag] = True
    others = used[:, OTHER] | used[:, TIME] | used[:, DURATION]
    special = np.stack([used[:, BOOLEAN], used[:, BOOLEAN], used[:, NULL], others], axis=1)
    on_lines = np.where(used[:, [NUMBER, STRING, INSTANT]], counts + 1, 0)
    sizes = np.concatenate([on_lines, special.astype(np.int64)], axis=1)
    ends = 1 + np.cumsum(sizes, axis=1)
    base = np.where(sizes > 0, ends - sizes, NOTHING).astype(np.uint8)
    return Buckets(
        starts_of(counts.reshape(-1)),
        np.concatenate([*cuts, np.empty(0)]),
        np.ascontiguousarray(base[:, :LINES]).reshape(-1),
        np.ascontiguousarray(base[:, LINES:]),
        ends[:, -1].astype(np.int32),
    )


def piece_lines(flat: FlatConditions) -> tuple[Ints, Flags]:
    """The line of each piece, and which pieces have one."""
    texts, instants = flat.tag == STRING, flat.tag == INSTANT
    lines: Ints = flat.piece_attribute() * np.int32(LINES)
    lines += texts
    lines += np.int32(2) * instants
    return lines, (flat.tag == NUMBER) | texts | instants


def _cuts(flat: FlatConditions, pieces: Longs, most: int) -> Floats:
    """The cuts of one line: where ranges begin, and just after where they end."""
    pieces = pieces[:: max(1, len(pieces) // SAMPLE)]
    low, high = flat.low[pieces], flat.high[pieces]
    ends = high[(low < high) & (high < np.finfo(np.float64).max)]
    bounds = np.concatenate([low, np.nextafter(ends, np.inf)])
    bounds = np.sort(bounds[np.isfinite(bounds)])
    distinct = np.unique(bounds)
    if len(distinct) > most:
        distinct = np.unique(bounds[np.linspace(0, len(bounds) - 1, most).astype(np.int64)])
    return distinct


@inlined
def line_of(attribute: Any, tag: Any) -> Any:
    """The line of an attribute that values with this tag are on."""
    return LINES * attribute + (1 if tag == STRING else 2 if tag == INSTANT else 0)


@inlined
def bucket_of(buckets: Buckets, attribute: Any, tag: Any, value: Any) -> Any:
    """The bucket of one value."""
    if tag == BOOLEAN:
        return int(buckets.special[attribute, 1 if value != 0.0 else 0])
    if tag != NUMBER and tag != STRING and tag != INSTANT:
        return int(buckets.special[attribute, 2 if tag == NULL else 3])
    line = np.uint64(line_of(attribute, tag))
    base = np.int64(buckets.base[line])
    if base == NOTHING:
        return NOTHING
    # All cuts are compared, many at once: the jumps of a binary search, each a coin toss, take far longer.
    below = np.int64(0)
    for cut in range(buckets.first[line], buckets.first[line + np.uint64(1)]):
        below += np.int64(buckets.cuts[np.uint64(cut)] <= value)
    return int(base + below)


def piece_buckets(flat: FlatConditions, buckets: Buckets) -> tuple[Bytes, Bytes]:
    """The first and the last bucket that each piece reaches into."""
    attribute = sealed(flat.piece_attribute())
    tag = sealed(flat.tag)
    read = sealed_table(buckets)
    return (
        _buckets_of(read, attribute, tag, sealed(flat.low)),
        _buckets_of(read, attribute, tag, sealed(flat.high)),
    )


@kernel
def _buckets_of(buckets: Buckets, attribute: Ints, tag: Bytes, value: Floats) -> Bytes:
    found = np.empty(len(tag), np.uint8)
    for piece in range(len(tag)):
        found[piece] = bucket_of(buckets, attribute[piece], tag[piece], value[piece])
    return found


class _Estimate(NamedTuple):
    """How often each constraint holds, which are equalities (or IN), and the number of each value."""

    constraint: Floats
    equality: Flags
    value: Ints


def _estimate(flat: FlatConditions, buckets: Buckets, first: Bytes, last: Bytes) -> _Estimate:
    attribute = flat.piece_attribute()
    lines, ranged = piece_lines(flat)
    share = last.astype(np.float64)
    share -= first
    share += 1
    share /= np.where(ranged, np.diff(buckets.first)[lines] + np.int32(1), np.int32(2))
    equal = ranged & (flat.low == flat.high)
    value = np.full(len(share), -1, np.int32)
    if equal.any():
        pieces = np.flatnonzero(equal)
        pieces = pieces[np.lexsort((flat.low[pieces], lines[pieces]))]
        changes = (np.diff(lines[pieces]) != 0) | (np.diff(flat.low[pieces]) != 0)
        value[pieces] = np.concatenate([[0], np.cumsum(changes)])
        named = np.bincount(value[pieces])
        constraints = np.bincount(flat.attribute, minlength=len(flat.names))
        share[pieces] = named[value[pieces]] / (constraints[attribute[pieces]] + UNKNOWN)
    if not len(flat.attribute):
        return _Estimate(np.empty(0), np.empty(0, np.bool_), value)
    begins = flat.piece_start[:-1]
    return _Estimate(
        np.minimum(np.add.reduceat(share, begins), 1.0), np.logical_and.reduceat(equal, begins), value
    )


def _key_constraints(flat: FlatConditions, equality: Flags, often: Floats, keyed_below: float) -> Flags:
    """Which constraints are keys: in each conjunction the rarest equality, if it is rare enough."""
    key = np.zeros(len(often), np.bool_)
    candidates = np.flatnonzero(equality & (often <= keyed_below)).astype(np.int32)
    if len(candidates):
        of_candidate = np.searchsorted(flat.start, candidates, side="right")
        begins = np.flatnonzero(np.diff(of_candidate, prepend=-1))
        rarest = np.minimum.reduceat(often[candidates], begins)
        sizes = np.diff(begins, append=len(candidates))
        tied = np.flatnonzero(often[candidates] == np.repeat(rarest, sizes))
        _, firsts = np.unique(of_candidate[tied], return_index=True)
        key[candidates[tied[firsts]]] = True
    return key


def _rarest_first(key: Flags, often: Floats, of_constraint: Ints) -> Ints:
    """The constraints by conjunction, in each first the key, then those that hold more and more often."""
    rank = np.where(key, -1.0, often)
    rank *= 0.25
    rank += of_constraint
    order: Ints = np.argsort(rank, kind="stable").astype(np.int32)
    return order


def _leading(conjunctions: Longs, start: Ints, order: Ints, often: Floats) -> Ints:
    """The most selective constraints of each conjunction, padded with -1."""
    sizes = np.diff(start)[conjunctions]
    # As wide as it must be: a few bytes a conjunction are much of what planning takes.
    leading = np.full((len(conjunctions), min(GROUPED_BY, int(sizes.max(initial=1)))), -1, np.int32)
    for rank in range(leading.shape[1]):
        has = np.flatnonzero(sizes > rank)
        constraint = order[start[:-1][conjunctions[has]] + rank]
        if rank >= ALWAYS_GROUPED_BY:
            useful = often[constraint] < WEAK
            has, constraint = has[useful], constraint[useful]
        leading[has, rank] = constraint
    return leading


def _groups(attribute: Ints, leading: Ints, often: Floats, worth: float) -> tuple[Longs, Ints]:
    """Number the sets of attributes, giving up the last of those sets that too few conjunctions share.

    Conjunctions that lead with the same attributes in the same order, a *list*, stay together. There are few
    lists, so that little is done and kept for each conjunction.
    """
    if not len(leading):
        return np.empty(0, np.int64), np.empty((0, GROUPED_BY), np.int32)
    width = leading.shape[1]
    attributes = np.where(leading < 0, np.int32(-1), attribute[leading])
    list_of = _numbered(attributes)
    lists = np.empty((int(list_of.max()) + 1, width), np.int32)
    lists[list_of] = attributes
    del attributes
    size = (lists >= 0).sum(axis=1)
    without_last = np.empty(lists.shape)
    product = np.ones(len(leading))
    for rank in range(width):
        without_last[:, rank] = np.bincount(list_of, product)
        product *= np.where(leading[:, rank] < 0, 1.0, often[leading[:, rank]])
    group = _numbered(np.sort(lists, axis=1))
    for _ in range(GROUPED_BY):
        candidates = np.bincount(group, without_last[np.arange(len(size)), size - 1])
        given_up = np.flatnonzero((candidates[group] < worth) & (size > 1))
        if not len(given_up):
            break
        size[given_up] -= 1
        lists[given_up, size[given_up]] = -1
        group = _numbered(np.sort(lists, axis=1))
    grouped_by = np.full((int(group.max()) + 1, GROUPED_BY), -1, np.int32)
    grouped_by[group, :width] = lists
    return group[list_of], grouped_by


def _covered(
    flat: FlatConditions, of_constraint: Ints, grouped: Longs, group: Longs, grouped_by: Ints
) -> Flags:
    """Which constraints the bitsets of their group see.

    They come last in a conjunction, by attribute: what is left to check is checked first, and the
    conjunctions of most blocks are alike (see `blocks`).
    """
    group_of = np.full(len(flat.owner), len(grouped_by), np.int64)
    group_of[grouped] = group
    attributes = np.concatenate([grouped_by, np.full((1, GROUPED_BY), -1, np.int32)])
    covered = np.zeros(len(of_constraint), np.bool_)
    for rank in range(GROUPED_BY):
        covered |= flat.attribute == attributes[group_of[of_constraint], rank]
    return covered


def _numbered(rows: Ints) -> Longs:
    """The number of each row; rows that hold the same, of values from -1 on, have the same."""
    number = np.zeros(len(rows), np.int64)
    values = int(rows.max()) + 2
    for column in rows.T:
        number *= values
        number += column + 1
        number = _ranked(number)
    return number


def _ranked(codes: Longs) -> Longs:
    """The place of each code, none of which is negative, among the distinct ones."""
    most = int(codes.max()) + 1
    if most > DENSE * len(codes):
        return np.unique(codes, return_inverse=True)[1]
    used = np.zeros(most, np.bool_)
    used[codes] = True
    ranks: Longs = (np.cumsum(used) - 1)[codes]
    return ranks


def _lead(
    flat: FlatConditions, conjunctions: Longs, group: Longs, grouped_by: Ints, often: Floats
) -> tuple[Ints, Floats, NDArray[Any]]:
    """Move each group's lead to the front; how often it holds, and each conjunction's constraint on it."""
    sizes = np.diff(flat.start)[conjunctions]
    constraints = runs(flat.start[:-1][conjunctions], sizes)
    attribute = flat.attribute[constraints]
    group_of = np.repeat(group.astype(np.int32), sizes)  # of each constraint; there are fewer groups
    members = np.maximum(np.bincount(group, minlength=len(grouped_by)), 1)
    mean = np.full(grouped_by.shape, np.inf)
    for rank in range(GROUPED_BY):
        wanted = attribute == grouped_by[group_of, rank]
        total = np.bincount(group_of[wanted], often[constraints[wanted]], len(grouped_by))
        mean[:, rank] = np.where(grouped_by[:, rank] >= 0, total / members, np.inf)
    front = np.argsort(mean, axis=1, kind="stable")
    grouped_by = np.take_along_axis(grouped_by, front, axis=1)
    wanted = attribute == grouped_by[group_of, 0]
    return grouped_by, mean.min(axis=1, initial=1.0), constraints[wanted]
