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
from typing import Any, ClassVar

import numpy as np

from distributary.filters.path.filter import PathFilter
from distributary.kernel import Floats, Ints, Longs, Words, kernel, uncounted, with_room
from distributary.matching.batch import EventBatch
from distributary.matching.index import NO_SLOTS, Arrays, Pairs
from distributary.matching.layers import CompiledIndex, CompiledSegment
from distributary.matching.path import bounds, candidates, evaluate, follow
from distributary.matching.path.bounds import ALL, NONE, STAMP
from distributary.matching.path.evaluate import ExpressionTable, check_pairs
from distributary.matching.path.expressions import Expressions
from distributary.matching.path.follow import SummaryWalk
from distributary.matching.path.forest import Forest, LabelCodes, grove
from distributary.matching.path.routes import route_of
from distributary.matching.path.summaries import Summaries
from distributary.matching.path.trie import Trie, TrieBuilder
from distributary.matching.path.verifier import passes_rest, rests
from distributary.matching.path.workspace import (
    DOCUMENT,
    HELD,
    OPEN_STILL,
    UNKNOWN,
    KeptSearches,
    Layouts,
    SpareWorkspaces,
    Workspace,
    find_layout,
)
from distributary.matching.single import SingleEvent

NOT_COMPILED = -1
"""In place of an expression for filters that are only ever in doubt because a document is very deep."""


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
        order = sorted(range(len(filters)), key=lambda each: filters[each].text)
        doubtful = []
        for position in order:
            routes = [route_of(branch, expressions) for branch in filters[position].branches]
            for route in routes:
                trie.add(position, route)
            if not all(route.exact for route in routes):
                doubtful.append(position)
        structural = np.array([len(expressions)])
        exact = np.full(len(filters), NOT_COMPILED, np.int32)
        for position in doubtful:
            exact[position] = expressions.of_filter(filters[position])
        return {**trie.compiled(), "exact": exact, "rest": rests(filters), "structural": structural}

    def find_in(self, number: int, segment: CompiledSegment, single: SingleEvent) -> Ints:
        """As in a batch; without a document there is nothing to find."""
        return NO_SLOTS if single.event.document is None else super().find_in(number, segment, single)

    def search(self, segment: CompiledSegment, batch: EventBatch) -> Pairs:
        """Search with a workspace that is kept with the segment; each search at a time has its own."""
        if segment.memo is None:
            segment.memo = SpareWorkspaces()
        spare: SpareWorkspaces = segment.memo
        workspace = spare.take() or Workspace(segment)
        found = self._search(workspace, batch)
        spare.give(workspace)
        return found

    def _search(self, workspace: Workspace, batch: EventBatch) -> Pairs:
        arrays, table = workspace.arrays, workspace.table
        trees = grove(batch, bool(arrays["text_asked"][0]))
        if not len(trees.rows):
            return Pairs.none()
        codes, serial = trees.codes(workspace.codes), workspace.serial
        workspace.serial += len(trees.rows)
        of_entry, entries = _match(
            table,
            workspace.trie,
            trees.forest,
            trees.summaries(self.share),
            trees.numbers,
            codes,
            workspace.kept,
            workspace.longest,
            serial,
        )
        positions = entries >> 1
        passed = entries & 1 == 0
        doubtful = np.flatnonzero(~passed)
        if len(doubtful):
            # Those of a tree together, and neighbours in the table one after another.
            doubtful = doubtful[np.lexsort((positions[doubtful], of_entry[doubtful]))]
            wanted = arrays["exact"][positions[doubtful]]
            compiled = wanted != NOT_COMPILED
            checked = doubtful[compiled]
            passed[checked] = check_pairs(
                of_entry[checked],
                wanted[compiled],
                table,
                trees.forest,
                trees.numbers,
                codes,
                workspace.checked,
                serial,
                workspace.longest,
            )
            passed[doubtful[~compiled]] = True
            rest = doubtful[passed[doubtful] & (~compiled | arrays["rest"][positions[doubtful]])]
            rows = trees.rows[of_entry[rest]].tolist()
            passed[rest] = passes_rest(arrays, batch, rows, positions[rest].tolist())
        return Pairs(trees.rows[of_entry[passed]], positions[passed])


@kernel
def _match(
    table: ExpressionTable,
    trie: Trie,
    forest: Forest,
    summaries: Summaries,
    numbers: Floats,
    codes: LabelCodes,
    kept: KeptSearches,
    longest: int,
    serial: int,
) -> tuple[Ints, Ints]:
    """What every tree finds, summary by summary: for each entry found, its tree and the entry.

    Trees and summaries have serial numbers from `serial` on, by which what is kept of them is told apart.
    """
    trees, filters = len(forest.first) - 1, len(kept.seen)
    masks = np.empty(1 << 14, np.uint64)
    entries, used = np.empty(64, np.int32), np.zeros(1, np.int64)
    low = np.zeros(trees + 1, np.int64)  # by turn: its first entry
    held = np.empty(1 << 10, np.int32)
    zero: Any = np.int64(0)
    held_count, current = zero, zero - 1
    turns = np.argsort(summaries.of_tree).astype(np.int32)
    for turn in range(trees):
        tree = zero + turns[turn]
        if summaries.of_tree[tree] != current:
            # Trees of one summary follow one another, and share what does not depend on values.
            current = zero + summaries.of_tree[tree]
            walk, layout = _begin_walk(current, serial, summaries, codes, kept)
            masks, held, held_count = _find_plain(table, trie, walk, layout, kept.layouts, masks, held)
        # A tree finds a position at most twice, so this is room enough for all it can find.
        entries = with_room(entries, used[0], 2 * filters)
        found = follow.FoundFilters(kept.several, kept.seen, entries, used)
        _emit_held(held, held_count, serial + turn, found)
        begin, stop = forest.first[tree], forest.first[tree + 1]
        label, of_node = forest.label[begin:stop], summaries.of_node[begin:stop]
        values = evaluate.values_of(forest, numbers, begin, stop)
        members = candidates.gather_members(of_node, len(walk.classes), values)
        asked = candidates.find_equalities(
            serial + tree,
            longest,
            table,
            trie,
            kept.keys,
            codes,
            label,
            of_node,
            walk.classes,
            values,
            kept.hits,
        )
        masks = follow.follow(serial + turn, asked, table, trie.states, walk, members, masks, found)
        size = walk.bounds.paths.size
        asked = candidates.find_tests(trie, kept.keys, walk.subject, members, walk.classes, size)
        masks = follow.follow(serial + turn, asked, table, trie.states, walk, members, masks, found)
        used[0] = low[turn + 1] = _without_doubt(entries, low[turn], used[0], serial + turn, kept)
    return np.repeat(turns, np.diff(low)), entries[: used[0]].copy()


@kernel
def _without_doubt(entries: Ints, start: int, end: int, turn: int, kept: KeptSearches) -> int:
    """Leave out what was in doubt before it was found for certain; where the entries end then."""
    for at in range(start, end):
        position = entries[at] >> 1
        certain = not entries[at] & 1
        if certain or not kept.several[position] or kept.seen[position] == 2 * turn:
            entries[start] = entries[at]
            start += 1
    return start


@uncounted
def _emit_held(held: Ints, count: int, turn: int, found: follow.FoundFilters) -> None:
    for at in range(count):
        follow.emit(held[at], turn, found)


@kernel
def _begin_walk(
    number: int, serial: int, summaries: Summaries, codes: LabelCodes, kept: KeptSearches
) -> tuple[SummaryWalk, int]:
    """A summary in the segment's codes, with what is known of its layout; and the layout's number."""
    low, high = summaries.first[number], summaries.first[number + 1]
    label, parent = summaries.label[low:high], summaries.parent[low:high]
    order, code_low = evaluate.order_by_code(label, codes)
    subject = evaluate.Subject(serial + number, parent, order, code_low, evaluate.no_values())
    classes, paths = bounds.lay_out(label, parent, codes)
    layout = find_layout(paths, codes, kept.layouts) if paths.size else 0
    evaluated = kept.evaluated
    evaluated.used[0] = 0
    lacking = ~np.uint64(0)
    for code in range(codes.size):
        if code_low[code] < code_low[code + 1]:
            lacking &= ~(np.uint64(1) << np.uint64(code & 63))
    known = bounds.Bounds(kept.layouts.masks[layout], evaluated.stack, paths, kept.layouts.stamp[layout])
    chain, line = np.empty(1 << 12, np.int32), np.empty(follow.MAX_LINE, np.int32)
    reach = kept.layouts.reach[layout]
    return SummaryWalk(classes, subject, known, reach, evaluated, lacking, chain, line), layout


@kernel
def _find_plain(
    table: ExpressionTable,
    trie: Trie,
    walk: SummaryWalk,
    layout: int,
    layouts: Layouts,
    masks: Words,
    held: Ints,
) -> tuple[Words, Ints, int]:
    """List the entries without a value that hold for a summary; gives the masks, the list and its length."""
    plain, counts = layouts.plain[layout], layouts.plain_count[layout]
    if not walk.bounds.paths.size:
        # No layout: every entry is open.
        plain, counts = np.empty(len(plain), np.int32), np.full(2, UNKNOWN, np.int32)
    if counts[HELD] == UNKNOWN:
        _decide_plain(table, trie, walk, plain, counts)
    held = with_room(held, 0, counts[HELD] + counts[OPEN_STILL])
    state = np.zeros(2, np.int64)
    while not _hold_plain(state, table, trie, walk, plain, counts, masks, held):
        masks = evaluate.with_words(masks, walk.evaluated, walk.subject)
    return masks, held, state[1]


@uncounted
def _decide_plain(table: ExpressionTable, trie: Trie, walk: SummaryWalk, plain: Ints, counts: Ints) -> None:
    """Tell by the paths alone which entries without a value hold, and which remain open."""
    low, known = walk.subject.low, walk.bounds
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
                    bounds.work_out_bounds(expression, known, table.rows)
                if known.masks[expression, NONE] & DOCUMENT:
                    continue
                if known.masks[expression, ALL] & DOCUMENT:
                    plain[held] = trie.plain_entry[at]
                    held += 1
                    continue
            opened += 1
            plain[len(plain) - opened] = at
    counts[HELD], counts[OPEN_STILL] = held, opened


@uncounted
def _hold_plain(
    state: Longs,
    table: ExpressionTable,
    trie: Trie,
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
        at = plain[len(plain) - 1 - (seen - counts[HELD])]
        expression = trie.plain_expression[at]
        if walk.evaluated.stamp[expression] != walk.subject.number and not evaluate.work_out(
            expression, table, walk.subject, walk.evaluated, masks
        ):
            state[0], state[1] = seen, listed
            return False
        if evaluate.holds_at(masks, walk.evaluated.place[expression], 0):
            held[listed] = trie.plain_entry[at]
            listed += 1
        seen += 1
    state[0], state[1] = seen, listed
    return True
