"""Checking what a tree found in doubt, and gathering what holds.

A filter is found in doubt when it has more than one value, says more than a tree pattern, or meets a document
that is very deep. One with two values that must hold is decided by their joint (see `joints`); what that
leaves in doubt is evaluated on the document's nodes (see `evaluate`), and what a filter says beyond a pattern
is left open: it is evaluated in full by the caller.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Flags, Ints, Longs, Words, kernel, uncounted
from distributary.matching.path import evaluate
from distributary.matching.path.follow import FoundFilters, Posted
from distributary.matching.path.joints import JointFilters, JointSearch, decide_joints, no_marks
from distributary.matching.path.keys import KeyHits
from distributary.matching.path.postings import DOUBT, POSITION, SEVERAL
from distributary.matching.path.ranges import TreeValues
from distributary.matching.path.walk import SummaryWalk

NOT_COMPILED = -1
"""In place of an expression for filters that are only ever in doubt because a document is very deep."""


class CheckedFilters(NamedTuple):
    """How filters are checked that were found in doubt."""

    exact: Ints
    """By position: the expression that is to be evaluated, or NOT_COMPILED."""
    rest: Flags
    """By position: whether the filter says more than its expression."""
    joints: JointFilters


class TakenPairs(NamedTuple):
    """Rows and positions, as many as there are."""

    rows: Ints
    positions: Ints


class PairsWithRoom(NamedTuple):
    """Pairs of a row and a position, and room for more."""

    rows: Ints
    positions: Ints
    used: Longs
    """How many there are, in its only place."""


@kernel
def no_pairs(room: int) -> PairsWithRoom:
    """No pairs, and room for so many."""
    return PairsWithRoom(np.empty(room, np.int32), np.empty(room, np.int32), np.zeros(1, np.int64))


@kernel
def room_for(pairs: PairsWithRoom, more: int) -> PairsWithRoom:
    """The pairs, or a larger copy of them, with room for more."""
    count = pairs.used[0]
    if count + more <= len(pairs.rows):
        return pairs
    larger = no_pairs(2 * len(pairs.rows) + more)
    larger.rows[:count], larger.positions[:count] = pairs.rows[:count], pairs.positions[:count]
    larger.used[0] = count
    return larger


@kernel
def taken(pairs: PairsWithRoom) -> TakenPairs:
    """The pairs alone."""
    count = pairs.used[0]
    return TakenPairs(pairs.rows[:count], pairs.positions[:count])


@uncounted
def take_certain(found: FoundFilters, turn: int, row: int, out: PairsWithRoom) -> int:
    """Take what was found for certain, and move to the front what is in doubt still; how much that is."""
    doubtful: Any = np.int64(0)
    to: Any = np.int64(out.used[0])
    for at in range(found.used[0]):
        entry = found.entries[at]
        if not entry & DOUBT:
            out.rows[to], out.positions[to] = row, entry >> POSITION
            to += 1
        elif not entry & SEVERAL or found.seen[entry >> POSITION] == 2 * turn:
            found.entries[doubtful] = entry
            doubtful += 1
    out.used[0] = to
    return doubtful  # type: ignore[no-any-return]


@kernel
def check_joints(
    doubtful: int,
    found: FoundFilters,
    checks: CheckedFilters,
    posted: Posted,
    hits: KeyHits,
    subject: evaluate.Subject,
    walk: SummaryWalk,
    values: TreeValues,
    longest: int,
    masks: Words,
    row: int,
    out: PairsWithRoom,
) -> tuple[Words, int]:
    """Decide the filters of two values; gives the masks, and how much is left in doubt, at the front."""
    marks = no_marks(subject.parent, len(walk.classes))
    search = JointSearch(checks.joints, posted, hits, subject, walk, values, longest, marks)
    progress = np.zeros(3, np.int64)
    while not decide_joints(progress, doubtful, found, search, masks):
        masks = evaluate.with_words(masks, walk.evaluated, walk.subject)
    for at in range(progress[2]):
        _take(row, found.held[at] >> POSITION, out)
    return masks, progress[1]


@kernel
def check_exactly(
    doubtful: int,
    found: FoundFilters,
    checks: CheckedFilters,
    table: evaluate.ExpressionTable,
    subject: evaluate.Subject,
    checked: evaluate.Evaluated,
    masks: Words,
    row: int,
    out: PairsWithRoom,
    opened: PairsWithRoom,
) -> Words:
    """Take of what is in doubt what holds for the tree, as opened where there is a rest; gives the masks."""
    checked.used[0] = 0
    for at in range(doubtful):
        position = found.entries[at] >> POSITION
        wanted = checks.exact[position]
        if wanted != NOT_COMPILED:
            evaluate.forget_many(checked)
            while not evaluate.work_out(wanted, table, subject, checked, masks):
                masks = evaluate.with_words(masks, checked, subject)
            if not evaluate.holds_at(masks, checked.place[wanted], 0):
                continue
        if wanted == NOT_COMPILED or checks.rest[position]:
            _take(row, position, opened)
        else:
            _take(row, position, out)
    return masks


@uncounted
def _take(row: int, position: int, pairs: PairsWithRoom) -> None:
    count = pairs.used[0]
    pairs.rows[count], pairs.positions[count] = row, position
    pairs.used[0] += 1
