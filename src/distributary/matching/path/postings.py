"""The postings of a segment that a document of some layout can satisfy, listed once for each layout.

A posting is a filter that is entered by a value: the state at which it stands, and its entry. Most of
those that a value finds need labels that the document lacks, or have a route that leads to none of its paths.
Both depend on the layout alone (see `workspace`). So when a value is first met in a document of a layout,
what is left of its postings is listed with the paths to which their routes lead, side by side; later
documents of the layout read that list from front to back and nothing else.

The lists of all layouts share one array of bounded room. When it is full, all lists are forgotten.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from distributary.kernel import Flags, Floats, Ints, Longs, Words, kernel, uncounted
from distributary.matching.path.trie import Trie
from distributary.matching.path.walk import OPEN, REACH_STAMP, SURE, SummaryWalk, reach_paths

DOUBT, SEVERAL = 1, 2
"""Bits of a packed entry below the filter's position, which is `entry >> POSITION`: what it finds has to be
checked; the filter has several routes, and so may be found by one after another."""
POSITION = 2

STANDS, NEEDS = range(2)
"""The columns of packed postings: its state (in the upper half) with its entry, and the labels it needs."""

LISTED, LISTED_COLUMNS = 2, 3
"""The column of listed postings after SURE and OPEN of `walk`: what packed postings have under STANDS."""

LIST_STAMP, LIST_LOW, LIST_HIGH = range(3)
LIST_COLUMNS = 3
"""The columns of what is known of a list: it is `rows[low:high]` when its stamp is that of the layout."""


class PackedPostings(NamedTuple):
    """All postings of a segment, as they are read."""

    plain: Ints
    """The packed entries of routes that end in no value."""
    keys: Words
    """By posting of an equality: STANDS and NEEDS; and in `tests` of a range or inequality."""
    tests: Words


class LayoutPostings(NamedTuple):
    """What is left of the postings for each layout."""

    stamps: Ints
    """By layout: the stamp of its lists. The last place has the last stamp that was given."""
    keys: Ints
    """By layout and key: LIST_STAMP, LIST_LOW and LIST_HIGH."""
    tests: Ints
    """The same by layout, and by code and relation."""
    rows: Words
    """SURE, OPEN and LISTED of a posting; its literal, if it has one, is in `literals`."""
    literals: Floats
    used: Longs
    """How many rows are in use, in its only place."""


def no_lists(layouts: int, trie: Trie, room: int) -> LayoutPostings:
    """Room for the lists of so many layouts, with so many rows in all and at least those of one list."""
    longest = max(np.diff(trie.key_low).max(initial=0), np.diff(trie.test_low).max(initial=0), room)
    return LayoutPostings(
        np.zeros(layouts + 1, np.int32),
        np.zeros((layouts, len(trie.key_code), LIST_COLUMNS), np.int32),
        np.zeros((layouts, len(trie.test_low) - 1, LIST_COLUMNS), np.int32),
        np.empty((longest, LISTED_COLUMNS), np.uint64),
        np.empty(longest, np.float64),
        np.zeros(1, np.int64),
    )


def pack_postings(trie: Trie, filters: int) -> PackedPostings:
    """The postings of a trie of so many filters."""
    entries = (trie.plain_entry, trie.key_entry, trie.test_entry)
    several = np.bincount(np.concatenate(entries) >> 1, minlength=filters) > 1
    plain, keys, tests = (_pack_entries(each, several) for each in entries)
    return PackedPostings(
        plain,
        _pack(trie.key_state, keys, trie.key_needs),
        _pack(trie.test_state, tests, trie.test_needs),
    )


@kernel
def _pack_entries(entries: Ints, several: Flags) -> Ints:
    packed = np.empty(len(entries), np.int32)
    for at in range(len(entries)):
        position = entries[at] >> 1
        packed[at] = (position << POSITION) | (SEVERAL if several[position] else 0) | (entries[at] & 1)
    return packed


@kernel
def _pack(state: Ints, entry: Ints, needs: Words) -> Words:
    packed = np.empty((len(state), 2), np.uint64)
    for at in range(len(state)):
        packed[at, STANDS] = (np.uint64(state[at]) << np.uint64(32)) | np.uint64(entry[at])
        packed[at, NEEDS] = needs[at]
    return packed


@uncounted
def stamp_lists(layout: int, lists: LayoutPostings) -> None:
    """Forget the lists of a layout."""
    last = len(lists.stamps) - 1
    lists.stamps[last] += 1
    lists.stamps[layout] = lists.stamps[last]


@uncounted
def list_postings(
    known: Ints,
    first: int,
    last: int,
    packed: Words,
    literals: Floats,
    expressions: Ints,
    states: Ints,
    walk: SummaryWalk,
    lists: LayoutPostings,
) -> None:
    """List what is left of the postings from `first` up to `last` for a walk, and say in `known` where.

    A walk without paths has no layout: its list is good until the next one is made. `literals` may be empty.
    """
    if lists.used[0] + last - first > len(lists.rows):
        lists.used[0] = 0
        for layout in range(len(lists.stamps) - 1):
            stamp_lists(layout, lists)
    size, reach = walk.bounds.paths.size, walk.reach
    to: Any = np.int64(lists.used[0])
    known[LIST_LOW] = to
    for at in range(first, last):
        if packed[at, NEEDS] & walk.lacking:
            continue
        sure, open_to = np.uint64(0), ~np.uint64(0)
        if size:
            state: Any = np.int64(packed[at, STANDS] >> np.uint64(32))
            if reach[state, REACH_STAMP] != walk.bounds.stamp:
                reach_paths(state, expressions, states, walk)
            sure, open_to = reach[state, SURE], reach[state, OPEN]
            if not open_to:
                continue
        lists.rows[to, SURE], lists.rows[to, OPEN], lists.rows[to, LISTED] = sure, open_to, packed[at, STANDS]
        if len(literals):
            lists.literals[to] = literals[at]
        to += 1
    known[LIST_HIGH] = to
    known[LIST_STAMP] = 0
    if size:
        lists.used[0] = to
        known[LIST_STAMP] = lists.stamps[walk.layout]
