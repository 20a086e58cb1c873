"""What searching a segment keeps from one batch to the next: its tables bound once, room, and known layouts.

What can be told about whole paths of a summary (see `bounds`, and `follow` for routes) depends on the
segment and on the *layout* of the paths alone: their labels, what is above what, which are everywhere, which
have a single class. Documents of one type differ in their summaries and hardly ever in that. So it is kept
for the layouts that were met last, and a document of a known layout finds most of it worked out.

Rules:

- Whatever is kept is stamped: with the serial number of a tree or summary, which never comes again, or with
  the stamp of a layout. A new layout takes the place of the one that was not used for longest, with a new
  stamp, so nothing is ever cleared.
- A workspace serves one search at a time. `PathClasses` takes it out of the segment's memo meanwhile.
- `MOST_BYTES` bounds the lists of postings of all layouts together, again what else is kept of each layout,
  and again what layouts share. Pages that no document touches take no memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Ints, Longs, Words, sealed, uncounted
from distributary.matching.held import hold
from distributary.matching.layers import CompiledSegment
from distributary.matching.memory import WORD
from distributary.matching.path.bounds import SummaryPaths
from distributary.matching.path.checks import CheckedFilters
from distributary.matching.path.evaluate import Evaluated, ExpressionTable, nothing_evaluated
from distributary.matching.path.follow import Posted
from distributary.matching.path.joints import KNOWN_WORDS, joint_filters
from distributary.matching.path.keys import pack_keys
from distributary.matching.path.labels import LabelCodes, SegmentLabels, labels_of
from distributary.matching.path.postings import LayoutPostings, no_lists, pack_postings, stamp_lists
from distributary.matching.path.trie import Trie
from distributary.matching.path.walk import LONGEST_CHAIN, MAX_LINE

MOST_BYTES = 64 << 20
MOST_LAYOUTS = 64
MOST_REACHED = 16
LAST_SERIAL = 1 << 30
"""Serial numbers stay well below what the stamps can hold; then a workspace is made anew."""

ROW_BYTES = 32
"""The bytes of a listed posting with its literal."""

MOST_PATHS = 64
OWN, WILDCARD, PARENT, EVERYWHERE = range(4)
"""The columns of the paths of a layout."""
HELD, OPEN_STILL = range(2)
"""The columns of `plain_count`."""
UNKNOWN = -1


class Layouts(NamedTuple):
    """By layout: how to tell it, and what is known about it."""

    size: Ints
    """How many paths; 0 for none yet."""
    hashed: Words
    single: Words
    paths: Ints
    """By path: OWN, WILDCARD, PARENT and EVERYWHERE."""
    stamp: Words
    used: Words
    """When it was used last, by `clock`, which has a single place."""
    clock: Words
    plain: Ints
    """Packed entries without a value that hold, from the front; places of those still open, from the back."""
    plain_count: Ints
    """How many HELD and OPEN_STILL there are; UNKNOWN when that was not asked yet."""


class KeptSearches(NamedTuple):
    """What the kernels of a search keep."""

    layouts: Layouts
    reach: Words
    """By state: see `walk`. Layouts share a few such tables, and `masks`, each by its own stamp: they are
    asked only when a value is met for the first time in a layout."""
    masks: Words
    """By expression: see `bounds`."""
    evaluated: Evaluated
    checked: Evaluated
    """The same for expressions that are evaluated on a document's nodes."""
    seen: Longs
    """By position: see `follow`."""
    entries: Ints
    """Room for all that one tree can find, each position twice; in `held` for each position once."""
    held: Ints
    chain: Ints
    line: Ints


class SegmentSearch(NamedTuple):
    """All that the kernels of a search need of a segment."""

    posted: Posted
    kept: KeptSearches
    checks: CheckedFilters
    labels: SegmentLabels
    longest: int
    """The length of the longest string that values are compared with."""


class Workspace:
    """All that one search at a time needs of a segment."""

    def __init__(self, segment: CompiledSegment) -> None:
        self.arrays = arrays = segment.readable
        table, trie = ExpressionTable.of(arrays), Trie.of(arrays)
        self.labels = labels_of(segment)
        self.serial = 0
        """The serial number of the next tree, and of the next summary."""
        filters, structural = len(arrays["exact"]), int(arrays["structural"][0])
        shared = max(1, min(MOST_REACHED, MOST_BYTES // (WORD * (3 * len(trie.states) + 5 * structural))))
        codes = len(self.labels.low) - 1
        layouts = _no_layouts(trie, len(arrays["joints.legs"]))
        joints = joint_filters(arrays, table, len(layouts.size))
        self.checks = CheckedFilters(sealed(arrays["exact"]), sealed(arrays["rest"]), joints)
        lists = no_lists(len(layouts.size), trie, MOST_BYTES // ROW_BYTES)
        self.posted = Posted(table, trie, pack_keys(table, trie), pack_postings(trie, filters), lists)
        self.kept = KeptSearches(
            layouts,
            np.zeros((shared, len(trie.states), 3), np.uint64),
            np.zeros((shared, structural, 5), np.uint64),
            nothing_evaluated(len(table.rows), codes, len(trie.states)),
            nothing_evaluated(len(table.rows), codes, 0),
            np.full(filters, -1, np.int64),
            np.empty(2 * filters, np.int32),
            np.empty(filters, np.int32),
            np.empty(LONGEST_CHAIN, np.int32),
            np.empty(MAX_LINE, np.int32),
        )
        search = SegmentSearch(self.posted, self.kept, self.checks, self.labels, table.longest)
        self.search = hold(search)
        """What kernels are given of all this, a `SegmentSearch`."""

    def memory(self) -> int:
        """The bytes it takes at most; pages that no document has touched take none."""
        kept, lists = self.kept, self.posted.lists
        used = int(np.count_nonzero(kept.layouts.size))
        known = (kept.layouts.plain, lists.keys, lists.tests, self.checks.joints.paths)
        others = (
            *self.posted.keys,
            *self.posted.packed,
            *kept.evaluated,
            *kept.checked,
            *kept[1:3],
            *kept[5:],
        )
        total = sum(array.nbytes for array in others) + int(lists.used[0]) * ROW_BYTES
        return total + sum(array.nbytes // len(array) for array in known) * used


class SpareWorkspaces:
    """The workspaces of a segment that no search is using: as many as there were searches at a time."""

    def __init__(self, segment: CompiledSegment) -> None:
        self._segment = segment
        self._spare: list[Workspace] = []

    def __iter__(self) -> Iterator[Workspace]:
        return iter(list(self._spare))

    @classmethod
    def of(cls, segment: CompiledSegment) -> SpareWorkspaces:
        """Those that are kept in the memo of a segment."""
        if segment.memo is None:
            segment.memo = cls(segment)
        spare: SpareWorkspaces = segment.memo
        return spare

    @contextmanager
    def lent(self) -> Iterator[Workspace]:
        """Lend one of them, or a new one, to a search, which has it for itself.

        It is kept for the next search unless this one fails or its serial numbers run out.
        """
        try:
            workspace = self._spare.pop()
        except IndexError:
            workspace = Workspace(self._segment)
        yield workspace
        if workspace.serial < LAST_SERIAL:
            self._spare.append(workspace)

    def memory(self) -> int:
        """The bytes that they take."""
        return sum(each.memory() for each in self)


def _no_layouts(trie: Trie, joints: int) -> Layouts:
    """Room for as many layouts as there may be."""
    plain = len(trie.plain_entry)
    size = 12 * (len(trie.key_code) + len(trie.test_low)) + 4 * plain + WORD * KNOWN_WORDS * joints
    count = max(1, min(MOST_LAYOUTS, MOST_BYTES // size))
    return Layouts(
        np.zeros(count, np.int32),
        np.zeros(count, np.uint64),
        np.zeros(count, np.uint64),
        np.zeros((count, MOST_PATHS, 4), np.int32),
        np.zeros(count, np.uint64),
        np.zeros(count, np.uint64),
        np.zeros(1, np.uint64),
        np.empty((count, plain), np.int32),
        np.full((count, 2), UNKNOWN, np.int32),
    )


@uncounted
def find_layout(paths: SummaryPaths, codes: LabelCodes, layouts: Layouts, lists: LayoutPostings) -> int:
    """The number of the layout of these paths, of which there are at least one and at most `MOST_PATHS`."""
    hashed = np.uint64(paths.size)
    for path in range(paths.size):
        own, wildcard = codes.own[paths.label[path]], codes.wildcard[paths.label[path]]
        for part in (own, wildcard, paths.parent[path], np.int32(paths.everywhere[path])):
            hashed = (hashed ^ np.uint64(part + 2)) * np.uint64(0xBF58476D1CE4E5B9)
            hashed ^= hashed >> np.uint64(29)
    layouts.clock[0] += np.uint64(1)
    oldest: Any = np.int64(0)
    for layout in range(len(layouts.size)):
        if layouts.hashed[layout] == hashed and _is_layout(layout, paths, codes, layouts):
            layouts.used[layout] = layouts.clock[0]
            return layout
        if layouts.used[layout] < layouts.used[oldest]:
            oldest = np.int64(layout)
    layouts.size[oldest], layouts.hashed[oldest], layouts.single[oldest] = paths.size, hashed, paths.single
    for path in range(paths.size):
        label = paths.label[path]
        layouts.paths[oldest, path, OWN] = codes.own[label]
        layouts.paths[oldest, path, WILDCARD] = codes.wildcard[label]
        layouts.paths[oldest, path, PARENT] = paths.parent[path]
        layouts.paths[oldest, path, EVERYWHERE] = paths.everywhere[path]
    layouts.stamp[oldest] = layouts.used[oldest] = layouts.clock[0]
    layouts.plain_count[oldest, HELD] = UNKNOWN
    stamp_lists(oldest, lists)
    return oldest  # type: ignore[no-any-return]


@uncounted
def _is_layout(layout: int, paths: SummaryPaths, codes: LabelCodes, layouts: Layouts) -> bool:
    """Whether these are the paths of a layout."""
    if layouts.size[layout] != paths.size or layouts.single[layout] != paths.single:
        return False
    for path in range(paths.size):
        label = paths.label[path]
        if (
            layouts.paths[layout, path, OWN] != codes.own[label]
            or layouts.paths[layout, path, WILDCARD] != codes.wildcard[label]
            or layouts.paths[layout, path, PARENT] != paths.parent[path]
            or layouts.paths[layout, path, EVERYWHERE] != np.int32(paths.everywhere[path])
        ):
            return False
    return True
