"""PathClasses, the default index of path filters: exact, and priced by a document's kinds of nodes.

A document is folded into its summary (see `summaries`), on which everything but values is decided. Values
come first, for they rule out most: a document's distinct values find the equalities through a hash table,
its least and greatest values find the ranges, and its labels find the filters without a value. Each filter
found with a value stands at a state of the trie of all routes (see `routes` and `trie`), and its
route is followed along the line from the document down to a class that has the value. What hangs off the
route, and filters without a value, are shared expressions: decided for whole paths of the summary where
that can be (see `bounds`), else worked out over its classes once (see `expressions`). What a filter
with two or more values needs beyond that is checked on the document's nodes, by shared expressions as well;
and what a filter says beyond a tree pattern by evaluating it (see `verifier`).

Cost of a document: its nodes once, for the summary and the values; then each filter that its labels and
values ask about, mostly a few steps; and the matches. Documents of a batch with one summary share what does
not depend on values; `share = False` switches that off.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby, product
from typing import Any, ClassVar

import numpy as np

from distributary.filters.path.filter import PathFilter
from distributary.kernel import Floats, Ints, Longs, Words, kernel, uncounted, with_room
from distributary.matching.batch import EventBatch
from distributary.matching.index import NO_SLOTS, Arrays, Pairs
from distributary.matching.layers import CompiledIndex, CompiledSegment
from distributary.matching.memory import prefetch
from distributary.matching.path import bounds, evaluate, follow
from distributary.matching.path import expressions as kinds
from distributary.matching.path.bounds import ALL, NONE, STAMP
from distributary.matching.path.checks import (
    NOT_COMPILED,
    TakenPairs,
    check_exactly,
    check_joints,
    no_pairs,
    room_for,
    take_certain,
    taken,
)
from distributary.matching.path.expressions import Expressions
from distributary.matching.path.follow import Posted
from distributary.matching.path.forest import Forest, grove, planted
from distributary.matching.path.keys import find_keys
from distributary.matching.path.labels import LabelCodes, codes_of
from distributary.matching.path.postings import LayoutPostings
from distributary.matching.path.ranges import gather_values
from distributary.matching.path.routes import route_of
from distributary.matching.path.summaries import Summaries
from distributary.matching.path.trie import TrieBuilder
from distributary.matching.path.verifier import passes_rest, rests
from distributary.matching.path.walk import DOCUMENT, OPEN, REACH_STAMP, SURE, SummaryWalk
from distributary.matching.path.workspace import (
    HELD,
    OPEN_STILL,
    UNKNOWN,
    KeptSearches,
    Layouts,
    SegmentSearch,
    SpareWorkspaces,
    find_layout,
)
from distributary.matching.single import SingleEvent


class PathClasses(CompiledIndex[PathFilter]):
    """Path filters in one trie over the classes of a document's nodes.

    >>> index = PathClasses()
    >>> index.add(0, PathFilter.parse("/bib/book[@year > 1990]/title"))
    >>> from distributary.model import Event
    >>> index.match(Event("e", document="<bib><book year='1994'><title>TCP/IP</title></book></bib>"))
    [0]
    """

    kind: ClassVar[str] = "path"
    name: ClassVar[str] = "classes"
    filter_class: ClassVar[type[PathFilter]] = PathFilter
    share: bool = True
    """Whether documents of a batch that fold into the same summary share the walk."""

    def compile(self, filters: Sequence[PathFilter]) -> Arrays:
        expressions = Expressions()
        trie = TrieBuilder(expressions)
        # In the order of their texts, filters on the same labels get neighbouring states and expressions.
        texts = [filter.text for filter in filters]
        doubtful = []
        for _, alike in groupby(sorted(range(len(filters)), key=texts.__getitem__), key=texts.__getitem__):
            positions = list(alike)
            routes = [route_of(branch, expressions) for branch in filters[positions[0]].branches]
            for position, route in product(positions, routes):
                # A filter of several branches may hold by another than the one that is checked.
                trie.add(position, route if len(routes) == 1 else route._replace(second=None))
            if not all(route.exact for route in routes):
                doubtful.append(positions)
        structural = np.array([len(expressions)])
        exact = np.full(len(filters), NOT_COMPILED, np.int32)
        for positions in doubtful:
            exact[positions] = expressions.of_filter(filters[positions[0]])
        checks = {"exact": exact, "rest": rests(filters), "structural": structural}
        return {**trie.joints(len(filters)), **trie.compiled(), **checks}

    def find_in(self, number: int, segment: CompiledSegment, single: SingleEvent) -> Ints:
        """Search for a document that was read from its bytes as it is; others are a batch of one."""
        if single.event.document is None:
            return NO_SLOTS
        tree = planted(single, bool(segment.readable["text_asked"][0]))
        if tree is None:
            return super().find_in(number, segment, single)
        with SpareWorkspaces.of(segment).lent() as workspace:
            positions, opened = _match_alone(workspace.search, tree, workspace.serial)
            workspace.serial += 1
        if len(opened):
            passed = passes_rest(segment.readable, single.batch, [0] * len(opened), opened.tolist())
            positions = np.concatenate([positions, opened[passed]])
        return self.living(number, segment, positions)

    def search(self, segment: CompiledSegment, batch: EventBatch) -> Pairs:
        trees = grove(batch, bool(segment.readable["text_asked"][0]))
        if not len(trees.rows):
            return Pairs.none()
        with SpareWorkspaces.of(segment).lent() as workspace:
            rows, positions, open_rows, open_positions = _match_batch(
                workspace.search,
                trees.rows,
                trees.forest,
                trees.summaries(self.share),
                trees.numbers,
                trees.codes(workspace.labels),
                workspace.serial,
            )
            workspace.serial += len(trees.rows)
        if len(open_rows):
            passed = passes_rest(segment.readable, batch, open_rows.tolist(), open_positions.tolist())
            rows = np.concatenate([rows, open_rows[passed]])
            positions = np.concatenate([positions, open_positions[passed]])
        return Pairs(rows, positions)


@kernel
def _match_alone(search: Any, tree: Any, serial: int) -> tuple[Ints, Ints]:
    """The positions that a tree finds, given a `SegmentSearch` and a `PlantedTree`, both held.

    And those which are to be evaluated in full.
    """
    planted_tree = tree.tables
    codes = codes_of(planted_tree.letters, planted_tree.label_low, search.tables.labels)
    rows = np.zeros(1, np.int32)
    certain, opened = _match(
        search.tables, rows, planted_tree.forest, planted_tree.summaries, planted_tree.numbers, codes, serial
    )
    return certain.positions, opened.positions


@kernel
def _match_batch(
    search: Any,
    rows: Ints,
    forest: Forest,
    summaries: Summaries,
    numbers: Floats,
    codes: LabelCodes,
    serial: int,
) -> tuple[Ints, Ints, Ints, Ints]:
    """The rows and positions of what all trees find, given a held `SegmentSearch`.

    And the rows and positions of what is to be evaluated in full.
    """
    certain, opened = _match(search.tables, rows, forest, summaries, numbers, codes, serial)
    return certain.rows, certain.positions, opened.rows, opened.positions


@kernel
def _match(
    search: SegmentSearch,
    rows: Ints,
    forest: Forest,
    summaries: Summaries,
    numbers: Floats,
    codes: LabelCodes,
    serial: int,
) -> tuple[TakenPairs, TakenPairs]:
    """What every tree finds, summary by summary; and apart from that what is to be evaluated in full.

    Trees and summaries have serial numbers from `serial` on, by which what is kept of them is told apart.
    """
    posted, kept, checks, longest = search.posted, search.kept, search.checks, search.longest
    masks, node_masks = np.empty(1 << 14, np.uint64), np.empty(1 << 12, np.uint64)
    out, opened = no_pairs(1 << 12), no_pairs(1 << 6)
    held = np.empty(1 << 10, np.int32)
    zero: Any = np.int64(0)
    held_count, current = zero, zero - 1
    found = follow.FoundFilters(kept.seen, kept.entries, np.zeros(1, np.int64), kept.held)
    for turn, tree in enumerate(np.argsort(summaries.of_tree)):
        if summaries.of_tree[tree] != current:
            # Trees of one summary follow one another, and share what does not depend on values.
            current = zero + summaries.of_tree[tree]
            walk = _begin_walk(current, serial, summaries, codes, kept, posted.lists)
            masks, held, held_count = _find_plain(posted, walk, kept.layouts, masks, held)
        found.used[0] = 0
        _emit_held(held, held_count, serial + turn, found)
        begin, stop = forest.first[tree], forest.first[tree + 1]
        label, of_node = forest.label[begin:stop], summaries.of_node[begin:stop]
        nodes = evaluate.values_of(forest, numbers, begin, stop)
        hits = find_keys(
            serial + tree, longest, posted.table, posted.keys, codes, label, of_node, walk.classes, nodes
        )
        values = gather_values(of_node, walk.classes, nodes, longest)
        masks = follow.follow_keys(serial + turn, hits, posted, walk, values, masks, found)
        masks = follow.follow_tests(serial + turn, posted, walk, values, masks, found)
        out, opened = room_for(out, found.used[0]), room_for(opened, found.used[0])
        doubtful = take_certain(found, serial + turn, rows[tree], out)
        if doubtful:
            order, low = evaluate.order_by_code(label, codes)
            subject = evaluate.Subject(serial + tree, forest.parent[begin:stop], order, low, nodes)
            masks, doubtful = check_joints(
                doubtful, found, checks, posted, hits, subject, walk, values, longest, masks, rows[tree], out
            )
            node_masks = check_exactly(
                doubtful,
                found,
                checks,
                posted.table,
                subject,
                kept.checked,
                node_masks,
                rows[tree],
                out,
                opened,
            )
    return taken(out), taken(opened)


@uncounted
def _emit_held(held: Ints, count: int, turn: int, found: follow.FoundFilters) -> None:
    for at in range(count):
        follow.emit(held[at], turn, found)


@kernel
def _begin_walk(
    number: int,
    serial: int,
    summaries: Summaries,
    codes: LabelCodes,
    kept: KeptSearches,
    lists: LayoutPostings,
) -> SummaryWalk:
    """A summary in the segment's codes, with what is known of its layout."""
    low, high = summaries.first[number], summaries.first[number + 1]
    label, parent = summaries.label[low:high], summaries.parent[low:high]
    order, code_low = evaluate.order_by_code(label, codes)
    subject = evaluate.Subject(serial + number, parent, order, code_low, evaluate.no_values())
    classes, paths = bounds.lay_out(label, parent, codes)
    layout = find_layout(paths, codes, kept.layouts, lists) if paths.size else 0
    evaluated = kept.evaluated
    evaluated.used[0] = 0
    lacking = ~np.uint64(0)
    for code in range(codes.size):
        if code_low[code] < code_low[code + 1]:
            lacking &= ~(np.uint64(1) << np.uint64(code & 63))
    stamp = kept.layouts.stamp[layout]
    table = layout % len(kept.reach)
    reach = kept.reach[table]
    known = bounds.Bounds(kept.masks[table], evaluated.stack, paths, stamp)
    # The route of the document's own state leads to the document.
    reach[0, REACH_STAMP], reach[0, SURE], reach[0, OPEN] = stamp, DOCUMENT, DOCUMENT
    return SummaryWalk(classes, subject, known, reach, evaluated, lacking, kept.chain, kept.line, layout)


@kernel
def _find_plain(
    posted: Posted, walk: SummaryWalk, layouts: Layouts, masks: Words, held: Ints
) -> tuple[Words, Ints, int]:
    """List the entries without a value that hold for a summary; gives the masks, the list and its length."""
    plain, counts = layouts.plain[walk.layout], layouts.plain_count[walk.layout]
    if not walk.bounds.paths.size:
        # No layout: every entry is open.
        plain, counts = np.empty(len(plain), np.int32), np.full(2, UNKNOWN, np.int32)
    if counts[HELD] == UNKNOWN:
        _decide_plain(posted, walk, plain, counts)
    held = with_room(held, 0, counts[HELD] + counts[OPEN_STILL])
    _fetch_open(plain[len(plain) - counts[OPEN_STILL] :], posted, walk.evaluated)
    state = np.zeros(2, np.int64)
    while not _hold_plain(state, posted, walk, plain, counts, masks, held):
        masks = evaluate.with_words(masks, walk.evaluated, walk.subject)
    return masks, held, state[1]


@uncounted
def _decide_plain(posted: Posted, walk: SummaryWalk, plain: Ints, counts: Ints) -> None:
    """Tell by the paths alone which entries without a value hold, and which remain open."""
    low, known, trie = walk.subject.low, walk.bounds, posted.trie
    held, opened = 0, 0
    for code in range(len(trie.plain_low) - 1):
        if low[code] == low[code + 1]:
            continue
        for at in range(trie.plain_low[code], trie.plain_low[code + 1]):
            if trie.plain_needs[at] & walk.lacking:
                continue
            if known.paths.size:
                expression = trie.plain_expression[at]
                if known.masks[expression, STAMP] != known.stamp:
                    bounds.work_out_bounds(expression, known, posted.table.rows)
                if known.masks[expression, NONE] & DOCUMENT:
                    continue
                if known.masks[expression, ALL] & DOCUMENT:
                    plain[held] = posted.packed.plain[at]
                    held += 1
                    continue
            opened += 1
            plain[len(plain) - opened] = at
    counts[HELD], counts[OPEN_STILL] = held, opened


@uncounted
def _fetch_open(places: Ints, posted: Posted, evaluated: evaluate.Evaluated) -> None:
    """Have fetched what evaluating these entries reads first, for it lies all over large tables."""
    rows, expressions = posted.table.rows, posted.trie.plain_expression
    for at in places:
        prefetch(expressions, at)
        prefetch(posted.packed.plain, at)
    for at in places:
        prefetch(rows, 4 * expressions[at])
        prefetch(evaluated.stamp, expressions[at])
        prefetch(evaluated.place, expressions[at])
    for at in places:
        if rows[expressions[at], kinds.KIND] in (kinds.CHILD, kinds.DESCENDANT):
            below = rows[expressions[at], kinds.SECOND]
            prefetch(rows, 4 * below)
            prefetch(evaluated.stamp, below)
            prefetch(evaluated.place, below)


@uncounted
def _hold_plain(
    state: Longs,
    posted: Posted,
    walk: SummaryWalk,
    plain: Ints,
    counts: Ints,
    masks: Words,
    held: Ints,
) -> bool:
    """List what holds, and of what is open what the classes decide so; False when the masks have no room.

    `state` says how many entries were looked at and how many are listed, to go on from there.
    """
    seen, listed = state[0], state[1]
    while seen < counts[HELD]:
        held[seen] = plain[seen]
        seen += 1
        listed = seen
    while seen < counts[HELD] + counts[OPEN_STILL]:
        evaluate.forget_many(walk.evaluated)
        at = plain[len(plain) - 1 - (seen - counts[HELD])]
        expression = posted.trie.plain_expression[at]
        if walk.evaluated.stamp[expression] != walk.subject.number and not evaluate.work_out(
            expression, posted.table, walk.subject, walk.evaluated, masks
        ):
            state[0], state[1] = seen, listed
            return False
        if evaluate.holds_at(masks, walk.evaluated.place[expression], 0):
            held[listed] = posted.packed.plain[at]
            listed += 1
        seen += 1
    state[0], state[1] = seen, listed
    return True
