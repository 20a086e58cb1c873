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
from distributary.kernel import Floats, Ints, Words, kernel, with_room
from distributary.matching.batch import EventBatch
from distributary.matching.index import NO_SLOTS, Arrays, Pairs
from distributary.matching.layers import CompiledIndex, CompiledSegment
from distributary.matching.path import bounds, candidates, evaluate, follow
from distributary.matching.path.bounds import ALL, NONE, STAMP
from distributary.matching.path.evaluate import Evaluated, ExpressionTable, check_pairs
from distributary.matching.path.expressions import Expressions
from distributary.matching.path.follow import SummaryWalk
from distributary.matching.path.forest import Forest, LabelCodes, grove, labels_of
from distributary.matching.path.routes import route_of
from distributary.matching.path.summaries import Summaries
from distributary.matching.path.trie import Trie, TrieBuilder
from distributary.matching.path.verifier import passes_rest, rests
from distributary.matching.single import SingleEvent

NOT_COMPILED = -1
"""In place of an expression for filters that are only ever in doubt because a document is very deep."""
DOCUMENT = np.uint64(1)
"""The bit of the document's own path."""


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
        arrays = segment.readable
        trees = grove(batch, bool(arrays["text_asked"][0]))
        if not len(trees.rows):
            return Pairs.none()
        codes, summaries = trees.codes(labels_of(segment)), trees.summaries(self.share)
        table = ExpressionTable.of(arrays)
        exact, structural = arrays["exact"], int(arrays["structural"][0])
        of_entry, entries = _match(
            table, Trie.of(arrays), trees.forest, summaries, trees.numbers, codes, len(exact), structural
        )
        positions = entries >> 1
        passed = entries & 1 == 0
        doubtful = np.flatnonzero(~passed)
        if len(doubtful):
            wanted = exact[positions[doubtful]]
            compiled = wanted != NOT_COMPILED
            checked = doubtful[compiled]
            passed[checked] = check_pairs(
                of_entry[checked], wanted[compiled], table, trees.forest, trees.numbers, codes
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
    filters: int,
    structural: int,
) -> tuple[Ints, Ints]:
    """What every tree finds, summary by summary: for each entry found, its tree and the entry.

    `filters` counts the filters, `structural` the expressions without values, which come first in the table.
    """
    # Kept over all trees, and told apart by the numbers of trees and summaries.
    trees, keys = len(forest.first) - 1, len(trie.key_code)
    hits = candidates.KeyHits(np.full(keys, -1, np.int32), np.zeros(keys, np.int32))
    evaluated = evaluate.nothing_evaluated(len(table.rows), codes.size)
    bound_masks, reach = np.zeros((structural, 5), np.uint64), np.zeros((len(trie.states), 3), np.uint64)
    masks = np.empty(1 << 14, np.uint64)
    seen, entries, used = np.full(filters, -1, np.int64), np.empty(64, np.int32), np.zeros(1, np.int64)
    low = np.zeros(trees + 1, np.int64)  # by turn: its first entry
    held = np.empty(1 << 10, np.int32)
    longest = 0  # string that values are compared with
    for string in range(len(table.string_offsets) - 1):
        longest = max(longest, table.string_offsets[string + 1] - table.string_offsets[string])
    zero: Any = np.int64(0)
    held_count, current = zero, zero - 1
    turns = np.argsort(summaries.of_tree).astype(np.int32)
    for turn in range(trees):
        tree = zero + turns[turn]
        if summaries.of_tree[tree] != current:
            # Trees of one summary follow one another, and share what does not depend on values.
            current = zero + summaries.of_tree[tree]
            walk = _begin_walk(current, summaries, codes, bound_masks, reach, evaluated)
            masks, held, held_count = _find_plain(table, trie, walk, masks, held)
        # A tree finds a position at most twice, so this is room enough for all it can find.
        entries = with_room(entries, used[0], 2 * filters)
        found = follow.FoundFilters(seen, entries, used)
        for at in range(held_count):
            follow.emit(held[at], turn, found)
        begin, stop = forest.first[tree], forest.first[tree + 1]
        label, of_node = forest.label[begin:stop], summaries.of_node[begin:stop]
        values = evaluate.values_of(forest, numbers, begin, stop)
        members = candidates.gather_members(of_node, len(walk.classes), values)
        asked = candidates.find_equalities(
            tree, longest, table, trie, codes, label, of_node, walk.classes, values, hits
        )
        masks = follow.follow(turn, asked, table, trie.states, walk, members, masks, found)
        asked = candidates.find_tests(trie, walk.subject, members, walk.classes, walk.bounds.paths.size)
        masks = follow.follow(turn, asked, table, trie.states, walk, members, masks, found)
        # Leave out what was in doubt before it was found for certain.
        kept = low[turn]
        for at in range(low[turn], used[0]):
            if not entries[at] & 1 or seen[entries[at] >> 1] == 2 * turn:
                entries[kept] = entries[at]
                kept += 1
        used[0] = low[turn + 1] = kept
    return np.repeat(turns, np.diff(low)), entries[: used[0]].copy()


@kernel
def _begin_walk(
    number: int, summaries: Summaries, codes: LabelCodes, masks: Words, reach: Words, evaluated: Evaluated
) -> SummaryWalk:
    """A summary in the segment's codes, with nothing worked out about it; `masks` are those of `bounds`."""
    low, high = summaries.first[number], summaries.first[number + 1]
    label, parent = summaries.label[low:high], summaries.parent[low:high]
    order, code_low = evaluate.order_by_code(label, codes)
    subject = evaluate.Subject(number, parent, order, code_low, evaluate.no_values())
    classes, paths = bounds.lay_out(label, parent, codes)
    stamp = np.uint64(number + 1)
    reach[0, follow.REACH_STAMP], reach[0, follow.SURE], reach[0, follow.OPEN] = stamp, DOCUMENT, DOCUMENT
    evaluated.used[0] = 0
    lacking = ~np.uint64(0)
    for code in range(codes.size):
        if code_low[code] < code_low[code + 1]:
            lacking &= ~(np.uint64(1) << np.uint64(code & 63))
    own_bounds = bounds.Bounds(masks, evaluated.stack, paths, stamp)
    chain, line = np.empty(1 << 12, np.int32), np.empty(follow.MAX_LINE, np.int32)
    return SummaryWalk(classes, subject, own_bounds, reach, evaluated, lacking, chain, line)


@kernel
def _find_plain(
    table: ExpressionTable, trie: Trie, walk: SummaryWalk, masks: Words, held: Ints
) -> tuple[Words, Ints, int]:
    """List the entries without a value that hold for a summary; gives the masks, the list and its length."""
    subject, known, evaluated = walk.subject, walk.bounds, walk.evaluated
    count: Any = np.int64(0)
    for code in range(len(trie.plain_low) - 1):
        if subject.low[code] == subject.low[code + 1]:
            continue
        for at in range(trie.plain_low[code], trie.plain_low[code + 1]):
            if trie.plain_needs[at] & walk.lacking:
                continue
            expression = trie.plain_expression[at]
            holds = False
            if known.paths.size:
                if known.masks[expression, STAMP] != known.stamp:
                    bounds.work_out_bounds(expression, known, table.rows)
                if known.masks[expression, NONE] & DOCUMENT:
                    continue
                holds = known.masks[expression, ALL] & DOCUMENT != 0
            if not holds:
                if evaluated.stamp[expression] != subject.number:
                    masks = evaluate.work_out(expression, table, subject, evaluated, masks)
                if not evaluate.holds_at(masks, evaluated.place[expression], 0):
                    continue
            held = with_room(held, count, 1)
            held[count] = trie.plain_entry[at]
            count += 1
    return masks, held, count
