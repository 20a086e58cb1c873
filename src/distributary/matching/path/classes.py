"""PathClasses, the default index of path filters: exact, and priced by a document's kinds of nodes.

A document is folded into its summary (see `path_forest`), on which everything but values is decided. Values
come first, for they rule out most: a document's distinct values find the equalities through a hash table,
its least and greatest values find the ranges, and its labels find the filters without a value. Each filter
found with a value stands at a state of the trie of all routes (see `path_routes` and `path_trie`), and its
route is followed along the line from the document down to a class that has the value. What hangs off the
route, and filters without a value, are shared expressions: decided for whole paths of the summary where
that can be (see `path_bounds`), else worked out over its classes once (see `path_expressions`). What a filter
with two or more values needs beyond that is checked on the document's nodes, by shared expressions as well.

Cost of a document: its nodes once, for the summary and the values; then each filter that its labels and
values ask about, mostly a few steps; and the matches. Documents of a batch with one summary share what does
not depend on values; `share = False` switches that off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.filters.path.filter import PathFilter, selects
from distributary.kernel import kernel
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.index import Arrays, Pairs
from distributary.matching.layers import CompiledIndex
from distributary.matching.path.bounds import ALL, NONE, STAMP, Bounds, Paths, lay_out, work_out_bounds
from distributary.matching.path.expressions import (
    AT_LEAST,
    AT_MOST,
    GREATER,
    LESS,
    STRING_UNEQUAL,
    TRUE,
    UNEQUAL,
    Expressions,
    Memory,
    Table,
    Tree,
    Values,
    check_pairs,
    holds_at,
    label_codes,
    label_groups,
    no_values,
    planted,
    remembered,
    work_out,
)
from distributary.matching.path.forest import Forest, Summaries, grove
from distributary.matching.path.routes import route_of
from distributary.matching.path.trie import (
    RELATIONS,
    Trie,
    TrieBuilder,
    hash_bytes,
    key_place,
    with_key_table,
)

EQUALITY = RELATIONS
"""How a run of equalities is marked: its classes are known to have the value."""
NOT_COMPILED = -1
"""In place of an expression for filters that are only ever in doubt because a document is very deep."""
MAX_LINE = 64
"""Classes this deep are left to the check: a route is followed in the bits of one word."""


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
        states = trie.compiled()
        return with_key_table({**expressions.compiled(), **states, "exact": exact, "structural": structural})

    def search(self, arrays: Arrays, batch: EventBatch) -> Pairs:
        trees = grove(batch, bool(arrays["text_asked"][0]))
        if not len(trees.rows):
            return Pairs.none()
        codes = label_codes(arrays)
        table, trie = Table.of(arrays), Trie.of(arrays)
        recode, groups = trees.recode(codes), label_groups(list(trees.labels))
        numbers = trees.numbers()
        found, positions, doubtful, doubtful_positions = _match(
            table,
            trie,
            trees.forest,
            trees.summaries(self.share),
            numbers,
            numbers.view(np.uint64),
            recode,
            groups,
            len(codes),
            len(arrays["exact"]),
            int(arrays["structural"][0]),
        )
        if len(doubtful):
            wanted = arrays["exact"][doubtful_positions]
            passed = np.zeros(len(doubtful), np.bool_)
            compiled = wanted != NOT_COMPILED
            passed[compiled] = check_pairs(
                doubtful[compiled],
                wanted[compiled],
                table,
                trees.forest,
                numbers,
                recode,
                groups,
                len(codes),
            )
            for pair in np.flatnonzero(~compiled).tolist():
                text = frozen.unpack_text(frozen.within(arrays, "texts"), doubtful_positions[pair])
                document = batch.document(int(trees.rows[doubtful[pair]]))
                passed[pair] = document is not None and selects(PathFilter.parse(text), document)
            found = np.concatenate([found, doubtful[passed]])
            positions = np.concatenate([positions, doubtful_positions[passed]])
        return Pairs(trees.rows[found], positions)


@kernel
def _room(array: NDArray[np.int32], used: int, more: int) -> NDArray[np.int32]:
    """The array, or a larger copy of it, with space for `more` after the first `used`."""
    if used + more <= len(array):
        return array
    larger = np.empty(2 * len(array) + more, np.int32)
    for at in range(used):
        larger[at] = array[at]
    return larger


class Finds(NamedTuple):
    """Where the positions found are written, each once per tree: `seen` remembers which tree last did.

    It holds twice the turn at which the tree was taken, plus one when the position was found for certain.
    """

    seen: NDArray[np.int64]
    certain: NDArray[np.int32]
    doubtful: NDArray[np.int32]
    counts: NDArray[np.int64]
    """How many are certain, and how many doubtful."""


@kernel
def _emit(entry: int, turn: int, finds: Finds) -> None:
    position = entry >> 1
    if entry & 1:
        if finds.seen[position] < 2 * turn:
            finds.seen[position] = 2 * turn
            finds.doubtful[finds.counts[1]] = position
            finds.counts[1] += 1
    elif finds.seen[position] != 2 * turn + 1:
        finds.seen[position] = 2 * turn + 1
        finds.certain[finds.counts[0]] = position
        finds.counts[0] += 1


class Summary(NamedTuple):
    """One summary in a segment's codes, and what has been worked out about it."""

    number: int
    classes: NDArray[np.int32]
    """By class: its label's code, its wildcard's, its parent, its depth and its path."""
    tree: Tree
    bounds: Bounds
    reach: NDArray[np.uint64]
    memory: Memory


LEADS, ASTRAY = -1, -2
"""Whether a route leads to a class; any other answer is a condition that has to be worked out first."""


SURE, OPEN, REACH_STAMP = range(3)
"""By state, when its stamp is the summary's: the paths of which its route leads to every class, and those of
which it may lead to some."""


@kernel
def _reach_paths(
    state: int,
    chain: NDArray[np.int32],
    states: NDArray[np.int32],
    rows: NDArray[np.int32],
    bounds: Bounds,
    reach: NDArray[np.uint64],
) -> None:
    """Work out which paths a state's route leads to, and first for the states before it."""
    paths = bounds.paths.row
    links = 0
    while reach[state, REACH_STAMP] != bounds.stamp:
        chain[links] = state
        links += 1
        state = states[state, 0]
    sure, open_to = reach[state, SURE], reach[state, OPEN]
    for link in range(links - 1, -1, -1):
        state = chain[link]
        deep, code, condition = states[state, 1], states[state, 2], states[state, 3]
        holds, fails = ~np.uint64(0), np.uint64(0)
        if condition != TRUE:
            if bounds.masks[condition, STAMP] != bounds.stamp:
                work_out_bounds(condition, bounds, rows)
            holds = bounds.masks[condition, ALL]
            fails = bounds.masks[condition, NONE]
        sure_here, open_here = np.uint64(0), np.uint64(0)
        if open_to:
            for at in range(bounds.paths.low[code], bounds.paths.low[code + 1]):
                path = bounds.paths.order[at]
                bit = np.uint64(1) << np.uint64(path)
                if fails & bit:
                    continue
                above = paths[path, 2]
                sure_above, open_above = False, False
                while above >= 0:
                    sure_above |= (sure >> np.uint64(above)) & np.uint64(1) != 0
                    open_above |= (open_to >> np.uint64(above)) & np.uint64(1) != 0
                    above = paths[above, 2] if deep else -1
                if open_above:
                    open_here |= bit
                if sure_above:
                    sure_here |= holds & bit
        sure, open_to = sure_here, open_here
        reach[state, REACH_STAMP], reach[state, SURE], reach[state, OPEN] = bounds.stamp, sure, open_to


@kernel
def _class_leads(
    chain: NDArray[np.int32],
    links: int,
    states: NDArray[np.int32],
    each: int,
    classes: NDArray[np.int32],
    line: NDArray[np.int32],
    summary: int,
    stamp: NDArray[np.int32],
    places: NDArray[np.int64],
    masks: NDArray[np.uint64],
) -> int:
    """Whether a route leads to a class, decided by the classes for which its conditions hold."""
    depth = classes[each, 3]
    for place in range(depth, -1, -1):
        line[place] = each
        each = classes[each, 2]
    ways = np.uint64(1)
    for link in range(links - 1, -1, -1):
        deep, code, condition = states[chain[link], 1], states[chain[link], 2], states[chain[link], 3]
        following = _deeper(ways) if deep else ways << np.uint64(1)
        ways = np.uint64(0)
        for place in range(1 if link else depth, depth + 1):
            bit = np.uint64(1) << np.uint64(place)
            here = line[place]
            if not following & bit or (classes[here, 0] != code and classes[here, 1] != code):
                continue
            if condition != TRUE:
                if stamp[condition] != summary:
                    return int(condition)
                if not holds_at(masks, places[condition], here):
                    continue
            ways |= bit
        if not ways:
            return ASTRAY
    return LEADS


@kernel
def _deeper(ways: np.uint64) -> np.uint64:
    """All bits above the lowest that is set."""
    return ~((ways & (~ways + np.uint64(1))) * np.uint64(2) - np.uint64(1)) if ways else ways


class Candidates(NamedTuple):
    """Runs of entries at states, and the classes that have the value each run is about.

    Run r has the entries from `first[r]` up to `last[r]` of `state` and `entry`, the classes from `low[r]` to
    `high[r]`, and in `paths[r]` the bits of the paths that have the value. Unless `relation[r]` is EQUALITY,
    its classes are all of the label, and which of them have the value remains to be seen.
    """

    first: NDArray[np.int32]
    last: NDArray[np.int32]
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    paths: NDArray[np.uint64]
    classes: NDArray[np.int32]
    state: NDArray[np.int32]
    entry: NDArray[np.int32]
    needs: NDArray[np.uint64]
    literal: NDArray[np.float64]
    relation: NDArray[np.int8]


@kernel
def _follow(
    turn: int,
    lacking: np.uint64,
    candidates: Candidates,
    table: Table,
    trie: Trie,
    summary: Summary,
    members: Members,
    values: Values,
    line: NDArray[np.int32],
    masks: NDArray[np.uint64],
    used: int,
    finds: Finds,
) -> tuple[NDArray[np.uint64], int]:
    """Emit the candidates whose route leads to a class that has the value; whole paths are tried first."""
    states, classes, bounds, reach = trie.states, summary.classes, summary.bounds, summary.reach
    chain = np.empty(1 << 12, np.int32)
    for run in range(len(candidates.first)):
        low, high, relation = candidates.low[run], candidates.high[run], candidates.relation[run]
        for at in range(candidates.first[run], candidates.last[run]):
            if candidates.needs[at] & lacking:
                continue
            state, entry = candidates.state[at], candidates.entry[at]
            sure, open_to = np.uint64(0), ~np.uint64(0)
            if bounds.paths.size:
                if reach[state, REACH_STAMP] != bounds.stamp:
                    _reach_paths(state, chain, states, table.rows, bounds, reach)
                sure, open_to = reach[state, SURE], reach[state, OPEN]
                if not open_to & candidates.paths[run]:
                    continue
                if sure & candidates.paths[run] and relation > UNEQUAL:
                    _emit(entry, turn, finds)
                    continue
            for place in range(low, high):
                each: Any = np.int64(candidates.classes[place])
                bit = np.uint64(1) << np.uint64(classes[each, 4] & 63)
                if not open_to & bit:
                    continue
                if relation != EQUALITY and not _passes(
                    relation, candidates.literal[at], each, table, members, values
                ):
                    continue
                leads = LEADS
                if not sure & bit:
                    leads, masks, used = _decide(state, each, chain, table, trie, summary, line, masks, used)
                if leads == LEADS:
                    _emit(entry, turn, finds)
                    break
                if leads != ASTRAY:
                    _emit(entry | 1, turn, finds)
    return masks, used


@kernel
def _decide(
    state: int,
    each: int,
    chain: NDArray[np.int32],
    table: Table,
    trie: Trie,
    summary: Summary,
    line: NDArray[np.int32],
    masks: NDArray[np.uint64],
    used: int,
) -> tuple[int, NDArray[np.uint64], int]:
    """Whether the route to a state leads to a class; neither answer when the class is too deep."""
    if summary.classes[each, 3] >= MAX_LINE:
        return 0, masks, used
    links: Any = np.int64(0)
    while state:
        chain[links] = state
        links += 1
        state = trie.states[state, 0]
    memory = summary.memory
    leads: Any = np.int64(0)
    while leads >= 0:
        leads = _class_leads(
            chain,
            links,
            trie.states,
            each,
            summary.classes,
            line,
            summary.number,
            memory.stamp,
            memory.place,
            masks,
        )
        if leads >= 0:
            wanted: Any = np.int32(leads)
            masks, used = work_out(
                wanted, summary.number, table, summary.tree, no_values(), memory, masks, used
            )
    return leads, masks, used


@kernel
def _match(
    table: Table,
    trie: Trie,
    forest: Forest,
    summaries: Summaries,
    numbers: NDArray[np.float64],
    bits: NDArray[np.uint64],
    recode: NDArray[np.int32],
    groups: NDArray[np.int8],
    codes: int,
    filters: int,
    structural: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """For every tree, what is found for certain and what must be checked, summary by summary."""
    trees = len(forest.first) - 1
    seen = np.full(filters, -1, np.int64)
    certain, doubtful = np.empty(2 * filters + 64, np.int32), np.empty(2 * filters + 64, np.int32)
    certain_low, doubtful_low = np.zeros(trees + 1, np.int64), np.zeros(trees + 1, np.int64)
    counts = np.zeros(2, np.int64)
    key_stamp, key_slot = np.full(len(trie.key_code), -1, np.int32), np.zeros(len(trie.key_code), np.int32)
    held = np.empty(1 << 10, np.int32)
    memory = remembered(len(table.rows), codes)
    bound_masks, reach = np.zeros((structural, 5), np.uint64), np.zeros((len(trie.states), 3), np.uint64)
    line = np.empty(MAX_LINE, np.int32)
    masks = np.empty(1 << 14, np.uint64)
    # A typed zero: a literal would make Numba compile what it is passed to once more.
    zero: Any = np.int64(0)
    used: Any = zero
    document = np.uint64(1)
    longest = _longest(table)
    turns = np.argsort(summaries.of_tree).astype(np.int32)
    current: Any = zero - 1
    for turn in range(trees):
        tree = zero + turns[turn]
        begin, stop = forest.first[tree], forest.first[tree + 1]
        if summaries.of_tree[tree] != current:
            current = zero + summaries.of_tree[tree]
            low, high = summaries.first[current], summaries.first[current + 1]
            label, parent = summaries.label[low:high], summaries.parent[low:high]
            shape = planted(label, parent, recode, groups, codes)
            classes, paths = lay_out(label, parent, recode, groups, codes)
            used = zero
            bounds = Bounds(bound_masks, memory.stack, paths, np.uint64(current + 1))
            reach[0, REACH_STAMP], reach[0, SURE], reach[0, OPEN] = bounds.stamp, document, document
            summary = Summary(current, classes, shape, bounds, reach, memory)
            words = (high - low + 63) >> 6
            held_count = zero
            lacking = ~np.uint64(0)
            for code in range(codes):
                if shape.low[code] < shape.low[code + 1]:
                    lacking &= ~(np.uint64(1) << np.uint64(code & 63))
            for code in range(codes):
                if shape.low[code] < shape.low[code + 1]:
                    for at in range(trie.plain_low[code], trie.plain_low[code + 1]):
                        if trie.plain_needs[at] & lacking:
                            continue
                        expression = trie.plain_expression[at]
                        if paths.size:
                            if bound_masks[expression, STAMP] != bounds.stamp:
                                work_out_bounds(zero + expression, bounds, table.rows)
                            if bound_masks[expression, NONE] & document:
                                continue
                        if not paths.size or not bound_masks[expression, ALL] & document:
                            if memory.stamp[expression] != current:
                                masks, used = work_out(
                                    expression, current, table, shape, no_values(), memory, masks, used
                                )
                            if not holds_at(masks, memory.place[expression], 0):
                                continue
                        held = _room(held, held_count, zero + 1)
                        held[held_count] = trie.plain_entry[at]
                        held_count += 1
        # A tree finds a position at most once, so this is room enough for all it can find.
        certain, doubtful = _room(certain, counts[0], filters), _room(doubtful, counts[1], filters)
        finds = Finds(seen, certain, doubtful, counts)
        for at in range(held_count):
            _emit(held[at], turn, finds)
        values = Values(numbers[begin:stop], forest.start[begin:stop], forest.end[begin:stop], forest.data)
        of_node = summaries.of_node[begin:stop]
        members = _gather(of_node, len(parent), values.numbers)
        hits, key_masks = _find_keys(
            tree,
            words,
            longest,
            table,
            trie,
            forest.label[begin:stop],
            recode,
            groups,
            of_node,
            values,
            bits[begin:stop],
            key_stamp,
            key_slot,
        )
        found = _find_postings(hits, key_masks, words, trie, classes)
        masks, used = _follow(
            turn, lacking, found, table, trie, summary, members, values, line, masks, used, finds
        )
        found = _find_tests(codes, trie, shape, members, classes, paths)
        masks, used = _follow(
            turn, lacking, found, table, trie, summary, members, values, line, masks, used, finds
        )
        kept = doubtful_low[turn]
        for at in range(doubtful_low[turn], counts[1]):
            if seen[doubtful[at]] == 2 * turn:
                doubtful[kept] = doubtful[at]
                kept += 1
        counts[1] = kept
        certain_low[turn + 1], doubtful_low[turn + 1] = counts[0], kept
    return (
        _spread(certain_low, turns),
        certain[: counts[0]].copy(),
        _spread(doubtful_low, turns),
        doubtful[: counts[1]].copy(),
    )


@kernel
def _find_postings(
    hits: NDArray[np.int32],
    key_masks: NDArray[np.uint64],
    words: int,
    trie: Trie,
    classes: NDArray[np.int32],
) -> Candidates:
    """The equalities of the keys found, a run for each key."""
    runs = len(hits)
    first, last = np.empty(runs, np.int32), np.empty(runs, np.int32)
    low, high, paths = np.empty(runs, np.int32), np.empty(runs, np.int32), np.zeros(runs, np.uint64)
    with_value = np.empty(runs * words * 64, np.int32)
    size = 0
    for run in range(runs):
        first[run], last[run], low[run] = trie.key_low[hits[run]], trie.key_low[hits[run] + 1], size
        for word in range(words):
            rest, each = key_masks[run * words + word], 64 * word
            while rest:
                if rest & np.uint64(1):
                    with_value[size] = each
                    size += 1
                    paths[run] |= np.uint64(1) << np.uint64(classes[each, 4] & 63)
                rest >>= np.uint64(1)
                each += 1
        high[run] = size
    relation = np.full(runs, EQUALITY, np.int8)
    return Candidates(
        first,
        last,
        low,
        high,
        paths,
        with_value,
        trie.key_state,
        trie.key_entry,
        trie.key_needs,
        trie.test_literal,
        relation,
    )


@kernel
def _find_tests(
    codes: int, trie: Trie, tree: Tree, members: Members, classes: NDArray[np.int32], paths: Paths
) -> Candidates:
    """The ranges and inequalities on the labels of a tree, a run for each literal that some class passes."""
    least, greatest = np.full(64, np.inf), np.full(64, -np.inf)
    for each in range(len(classes)):
        path = classes[each, 4] & 63
        least[path] = min(least[path], members.least[each])
        greatest[path] = max(greatest[path], members.greatest[each])
    one: Any = np.int64(1)
    runs: Any = one - 1
    # By run: its entries, its classes, and its relation.
    found = np.empty(1 << 12, np.int32)
    for code in range(codes):
        if tree.low[code] == tree.low[code + 1]:
            continue
        lowest, highest = np.inf, -np.inf
        for place in range(tree.low[code], tree.low[code + 1]):
            lowest = min(lowest, members.least[tree.order[place]])
            highest = max(highest, members.greatest[tree.order[place]])
        for relation in range(RELATIONS):
            at, stop = _candidates(trie, code, relation, lowest, highest)
            while at < stop:
                # Entries with the same literal form one run, as do all inequalities on a label.
                found = _room(found, 5 * runs, 5 * one)
                found[5 * runs] = at
                literal = trie.test_literal[at]
                while at < stop and (relation <= UNEQUAL or trie.test_literal[at] == literal):
                    at += 1
                found[5 * runs + 1], found[5 * runs + 2] = at, tree.low[code]
                found[5 * runs + 3], found[5 * runs + 4] = tree.low[code + 1], relation
                runs += 1
    first, last = found[0 : 5 * runs : 5].copy(), found[1 : 5 * runs : 5].copy()
    low, high = found[2 : 5 * runs : 5].copy(), found[3 : 5 * runs : 5].copy()
    relations = found[4 : 5 * runs : 5].astype(np.int8)
    masks = np.zeros(runs, np.uint64)
    for run in range(runs):
        literal = trie.test_literal[first[run]]
        bit = np.uint64(1)
        for path in range(paths.size):
            if _in_range(relations[run], literal, least[path], greatest[path]):
                masks[run] |= bit
            bit <<= np.uint64(1)
    return Candidates(
        first,
        last,
        low,
        high,
        masks,
        tree.order,
        trie.test_state,
        trie.test_entry,
        trie.test_needs,
        trie.test_literal,
        relations,
    )


@kernel
def _in_range(relation: int, literal: float, least: float, greatest: float) -> bool:
    """Whether some of the numbers between two that occur compare so; an inequality is left open."""
    if relation == LESS:
        return least < literal
    if relation == AT_MOST:
        return least <= literal
    if relation == GREATER:
        return greatest > literal
    if relation == AT_LEAST:
        return greatest >= literal
    return True


@kernel
def _spread(low: NDArray[np.int64], numbers: NDArray[np.int32]) -> NDArray[np.int32]:
    """Each number as often as its range is long."""
    spread = np.empty(low[-1], np.int32)
    for place in range(len(numbers)):
        for at in range(low[place], low[place + 1]):
            spread[at] = numbers[place]
    return spread


@kernel
def _longest(table: Table) -> int:
    """The length of the longest string that values are compared with."""
    longest = 0
    for string in range(len(table.string_offsets) - 1):
        longest = max(longest, table.string_offsets[string + 1] - table.string_offsets[string])
    return longest


class Members(NamedTuple):
    """A tree's nodes by class, and the least and greatest number among each class's values."""

    low: NDArray[np.int32]
    node: NDArray[np.int32]
    least: NDArray[np.float64]
    greatest: NDArray[np.float64]


@kernel
def _gather(of_node: NDArray[np.int32], count: int, numbers: NDArray[np.float64]) -> Members:
    low = np.zeros(count + 2, np.int32)
    least, greatest = np.full(count, np.inf), np.full(count, -np.inf)
    for node in range(len(of_node)):
        each, value = of_node[node], numbers[node]
        low[each + 2] += 1
        if value == value:
            least[each] = min(least[each], value)
            greatest[each] = max(greatest[each], value)
    for each in range(2, count + 2):
        low[each] += low[each - 1]
    nodes = np.empty(len(of_node), np.int32)
    for node in range(len(of_node)):
        nodes[low[of_node[node] + 1]] = node
        low[of_node[node] + 1] += 1
    return Members(low, nodes, least, greatest)


@kernel
def _candidates(trie: Trie, code: int, relation: int, least: float, greatest: float) -> tuple[int, int]:
    """The run of literals that some value of the label may compare with, given the least and greatest."""
    run = code * RELATIONS + relation
    first, last = trie.test_low[run], trie.test_low[run + 1]
    if first == last or relation < LESS:
        return first, last
    if least > greatest:
        return first, first
    if relation in (LESS, AT_MOST):
        return _bound(trie.test_literal, first, last, least, relation == LESS), last
    return first, _bound(trie.test_literal, first, last, greatest, relation == AT_LEAST)


@kernel
def _bound(literals: NDArray[np.float64], first: int, last: int, value: float, beyond: bool) -> int:
    """The first place whose literal is at least the value, or `beyond` it."""
    while first < last:
        middle = (first + last) >> 1
        if literals[middle] < value or (beyond and literals[middle] == value):
            first = middle + 1
        else:
            last = middle
    return first


@kernel
def _passes(relation: int, literal: float, each: int, table: Table, members: Members, values: Values) -> bool:
    """Whether a node of a class has a value that compares so with the literal."""
    if relation > UNEQUAL:
        return _in_range(relation, literal, members.least[each], members.greatest[each])
    for at in range(members.low[each], members.low[each + 1]):
        node = members.node[at]
        if relation == STRING_UNEQUAL:
            low, high = table.string_offsets[int(literal)], table.string_offsets[int(literal) + 1]
            if not _same(table.string_bytes, low, high, values.data, values.start[node], values.end[node]):
                return True
        elif values.numbers[node] != literal:
            return True
    return False


@kernel
def _same(
    one: NDArray[np.uint8], low: int, high: int, other: NDArray[np.uint8], start: int, end: int
) -> bool:
    """Whether two stretches of bytes are equal."""
    if high - low != end - start:
        return False
    same = True
    for at in range(high - low):
        same = same and one[low + at] == other[start + at]
    return same


@kernel
def _find_keys(
    tree: int,
    words: int,
    longest: int,
    table: Table,
    trie: Trie,
    label: NDArray[np.int32],
    recode: NDArray[np.int32],
    groups: NDArray[np.int8],
    of_node: NDArray[np.int32],
    values: Values,
    bits: NDArray[np.uint64],
    stamp: NDArray[np.int32],
    slot: NDArray[np.int32],
) -> tuple[NDArray[np.int32], NDArray[np.uint64]]:
    """The keys that some node's label and value are, and for each a mask of the classes of those nodes."""
    hits = np.empty(256, np.int32)
    masks = np.zeros(256 * words, np.uint64)
    used: Any = np.int64(0)
    size = len(trie.key_table)
    for node in range(1, len(label)):
        own: Any = recode[label[node]]
        group: Any = np.int32(groups[label[node]])
        start, end = values.start[node], values.end[node]
        short, numeric = end - start <= longest, values.numbers[node] == values.numbers[node]
        value = np.uint64(0)
        if short and ((own >= 0 and trie.code_has_strings[own]) or trie.code_has_strings[group]):
            value = hash_bytes(values.data, start, end)
        for attempt in range(4):
            code = own if attempt < 2 else group
            if code < 0 or (attempt >= 2 and own == group):
                continue
            as_string = attempt % 2 == 0
            if as_string:
                if not short or not trie.code_has_strings[code]:
                    continue
            elif not numeric or not trie.code_has_numbers[code]:
                continue
            wanted = value if as_string else bits[node]
            place = key_place(code, wanted, size)
            key = trie.key_table[place]
            while key >= 0:
                string = trie.key_string[key]
                if trie.key_code[key] == code and (string >= 0) == as_string:
                    if not as_string:
                        if trie.key_number[key] == wanted:
                            break
                    elif _same(
                        table.string_bytes,
                        table.string_offsets[string],
                        table.string_offsets[string + 1],
                        values.data,
                        start,
                        end,
                    ):
                        break
                place = (place + 1) & (size - 1)
                key = trie.key_table[place]
            if key < 0:
                continue
            if stamp[key] != tree:
                if used == len(hits):
                    hits = _room(hits, used, used)
                    more = np.zeros(len(hits) * words, np.uint64)
                    for word in range(len(masks)):
                        more[word] = masks[word]
                    masks = more
                stamp[key], slot[key], hits[used] = tree, used, key
                used += 1
            each = of_node[node]
            masks[slot[key] * words + (each >> 6)] |= np.uint64(1) << np.uint64(each & 63)
    return hits[:used], masks
