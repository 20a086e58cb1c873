"""PathClasses, the default index of path filters: exact, and priced by a document's kinds of nodes.

A document is folded into its summary (see `path_forest`), on which everything but values is decided. The
routes of all filters form one trie (see `path_routes` and `path_trie`); it is walked once per summary, a
state at a time, each with the set of classes it is reached by. Conditions off the routes are shared
expressions over the summary, worked out once each and only where a live edge asks for them. Values come
last, for the states that were reached: ranges against the least and greatest value there, equalities from
the document's distinct values through a hash table. What a filter with two or more values needs beyond that
is checked exactly on the document's nodes, by expressions that its filters share.

Cost of a document: its nodes once, for the summary and the values; then the live states of the trie, and
the matches. Documents of a batch with one summary share the walk; `share = False` switches that off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.filters.path import PathFilter
from distributary.matching.batch import EventBatch
from distributary.matching.index import Arrays, Pairs
from distributary.matching.kernel import kernel
from distributary.matching.layers import CompiledIndex
from distributary.matching.path_expressions import (
    AT_LEAST,
    AT_MOST,
    FALSE,
    LESS,
    STRING_UNEQUAL,
    TRUE,
    Expressions,
    Table,
    Values,
    check_pairs,
    holds_at,
    label_codes,
    label_groups,
    planted,
    remembered,
    work_out,
)
from distributary.matching.path_forest import Forest, Summaries, grove
from distributary.matching.path_routes import route_of
from distributary.matching.path_trie import (
    Trie,
    TrieBuilder,
    hash_bytes,
    key_place,
    with_key_table,
)


class Walks(NamedTuple):
    """What walking the trie over each summary found."""

    entry_low: NDArray[np.int64]
    """By summary: the entries that hold for its documents."""
    entry: NDArray[np.int32]
    state_low: NDArray[np.int64]
    """By summary: the states reached at which values matter."""
    state: NDArray[np.int32]
    class_low: NDArray[np.int32]
    """By such a state: the classes by which it is reached, from `class_low` up to `class_high`."""
    class_high: NDArray[np.int32]
    classes: NDArray[np.int32]


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
        exact = np.full(len(filters), FALSE, np.int32)
        for position, each in enumerate(filters):
            routes = [route_of(branch, expressions) for branch in each.branches]
            for route in routes:
                trie.add(position, route)
            if not all(route.exact for route in routes):
                exact[position] = expressions.of_filter(each)
        states = trie.compiled()
        return with_key_table({**expressions.compiled(), **states, "exact": exact})

    def search(self, arrays: Arrays, batch: EventBatch) -> Pairs:
        trees = grove(batch, bool(arrays["text_asked"][0]))
        if not len(trees.rows):
            return Pairs.none()
        codes = label_codes(arrays)
        table, trie = Table.of(arrays), Trie.of(arrays)
        recode, groups = trees.recode(codes), label_groups(list(trees.labels))
        summaries, numbers = trees.summaries(self.share), trees.numbers()
        walks = Walks(*_walk(table, trie, summaries, recode, groups, len(codes)))
        found, positions, doubtful, doubtful_positions = _collect(
            table,
            trie,
            trees.forest,
            summaries,
            walks,
            numbers,
            numbers.view(np.uint64),
            recode,
            groups,
            len(arrays["exact"]),
        )
        if len(doubtful):
            passed = check_pairs(
                doubtful,
                arrays["exact"][doubtful_positions],
                table,
                trees.forest,
                numbers,
                recode,
                groups,
                len(codes),
            )
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


@kernel
def _walk(
    table: Table,
    trie: Trie,
    summaries: Summaries,
    recode: NDArray[np.int32],
    groups: NDArray[np.int8],
    codes: int,
) -> tuple[
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int64],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
    NDArray[np.int32],
]:
    """Walk the trie over every summary."""
    count = len(summaries.first) - 1
    states = len(trie.plain_low) - 1
    memory = remembered(len(table.rows))
    masks = np.empty(1 << 14, np.uint64)
    no_values = Values(
        np.empty(0, np.float64), np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0, np.uint8)
    )
    entry_low, state_low = np.zeros(count + 1, np.int64), np.zeros(count + 1, np.int64)
    entry, classes = np.empty(1 << 12, np.int32), np.empty(1 << 14, np.int32)
    # Three numbers for each state at which values matter: itself, and where its classes begin and end.
    reached = np.empty(1 << 12, np.int32)
    # A typed zero: a literal would make Numba compile what they are passed to once more.
    zero: Any = np.int64(0)
    entries, class_count, reached_count = zero, zero, zero
    stack = np.empty((states + 1, 3), np.int64)
    largest = 0
    for summary in range(count):
        largest = max(largest, summaries.first[summary + 1] - summaries.first[summary])
    base = np.empty(largest, np.int32)
    marked = np.full(largest, -1, np.int64)
    mark = 0
    for summary in range(count):
        begin, stop = summaries.first[summary], summaries.first[summary + 1]
        tree = planted(summaries.label[begin:stop], summaries.parent[begin:stop], recode, groups, codes)
        end = summaries.end[begin:stop]
        used = zero
        classes = _room(classes, class_count, zero + 1)
        classes[class_count] = 0
        stack[0, 0], stack[0, 1], stack[0, 2] = 0, class_count, class_count + 1
        class_count += 1
        depth = 1
        while depth:
            depth -= 1
            state, low, high = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            first, last = trie.plain_low[state], trie.plain_low[state + 1]
            entry = _room(entry, entries, zero + last - first)
            for at in range(first, last):
                entry[entries] = trie.plain_entry[at]
                entries += 1
            if trie.state_has_keys[state] or trie.test_low[state] < trie.test_low[state + 1]:
                reached = _room(reached, 3 * reached_count, zero + 3)
                reached[3 * reached_count] = state
                reached[3 * reached_count + 1] = low
                reached[3 * reached_count + 2] = high
                reached_count += 1
            if trie.group_low[state] == trie.group_low[state + 1]:
                continue
            mark += 1
            for at in range(low, high):
                marked[classes[at]] = mark
            for group in range(trie.group_low[state], trie.group_low[state + 1]):
                code = trie.group_code[group]
                first, last = tree.low[code], tree.low[code + 1]
                if first == last:
                    continue
                size = zero
                if trie.group_deep[group]:
                    above = low
                    for at in range(first, last):
                        node = tree.order[at]
                        while above < high and end[classes[above]] <= node:
                            above += 1
                        if above == high:
                            break
                        if classes[above] < node:
                            base[size] = node
                            size += 1
                else:
                    for at in range(first, last):
                        node = tree.order[at]
                        if marked[tree.parent[node]] == mark:
                            base[size] = node
                            size += 1
                if not size:
                    continue
                for edge in range(trie.edge_low[group], trie.edge_low[group + 1]):
                    classes = _room(classes, class_count, size)
                    condition = trie.edge_condition[edge]
                    top = class_count
                    if condition == TRUE:
                        for at in range(size):
                            classes[top] = base[at]
                            top += 1
                    else:
                        if memory.stamp[condition] != summary:
                            masks, used = work_out(
                                condition, summary, table, tree, no_values, memory, masks, used
                            )
                        place = memory.place[condition]
                        for at in range(size):
                            if holds_at(masks, place, base[at]):
                                classes[top] = base[at]
                                top += 1
                    if top > class_count:
                        stack[depth, 0] = trie.edge_state[edge]
                        stack[depth, 1], stack[depth, 2] = class_count, top
                        depth += 1
                        class_count = top
        entry_low[summary + 1] = entries
        state_low[summary + 1] = reached_count
    triples = reached[: 3 * reached_count]
    return (
        entry_low,
        entry[:entries].copy(),
        state_low,
        triples[0::3].copy(),
        triples[1::3].copy(),
        triples[2::3].copy(),
        classes[:class_count].copy(),
    )


class Finds(NamedTuple):
    """Where the positions found are written, each once per tree: `seen` remembers the tree that last did.

    It holds twice the tree's number, plus one when the position was found for certain.
    """

    seen: NDArray[np.int64]
    certain: NDArray[np.int32]
    doubtful: NDArray[np.int32]
    counts: NDArray[np.int64]
    """How many are certain, and how many doubtful."""


@kernel
def _emit(entry: int, tree: int, finds: Finds) -> None:
    position = entry >> 1
    if entry & 1:
        if finds.seen[position] < 2 * tree:
            finds.seen[position] = 2 * tree
            finds.doubtful[finds.counts[1]] = position
            finds.counts[1] += 1
    elif finds.seen[position] != 2 * tree + 1:
        finds.seen[position] = 2 * tree + 1
        finds.certain[finds.counts[0]] = position
        finds.counts[0] += 1


@kernel
def _collect(
    table: Table,
    trie: Trie,
    forest: Forest,
    summaries: Summaries,
    walks: Walks,
    numbers: NDArray[np.float64],
    bits: NDArray[np.uint64],
    recode: NDArray[np.int32],
    groups: NDArray[np.int8],
    filters: int,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """For every tree, what its summary's walk and its values find: for certain, and what must be checked."""
    trees = len(forest.first) - 1
    seen = np.full(filters, -1, np.int64)
    certain, doubtful = np.empty(2 * filters + 64, np.int32), np.empty(2 * filters + 64, np.int32)
    certain_low, doubtful_low = np.zeros(trees + 1, np.int64), np.zeros(trees + 1, np.int64)
    counts = np.zeros(2, np.int64)
    key_stamp, key_slot = np.full(len(trie.key_code), -1, np.int32), np.zeros(len(trie.key_code), np.int32)
    state_stamp = np.full(len(trie.plain_low) - 1, -1, np.int32)
    state_slot = np.zeros(len(state_stamp), np.int32)
    for tree in range(trees):
        # A tree finds a position at most once, so this is room enough for all it can find.
        certain, doubtful = _room(certain, counts[0], filters), _room(doubtful, counts[1], filters)
        finds = Finds(seen, certain, doubtful, counts)
        summary = summaries.of_tree[tree]
        for at in range(walks.entry_low[summary], walks.entry_low[summary + 1]):
            _emit(walks.entry[at], tree, finds)
        if walks.state_low[summary] < walks.state_low[summary + 1]:
            begin, stop = forest.first[tree], forest.first[tree + 1]
            values = Values(
                numbers[begin:stop], forest.start[begin:stop], forest.end[begin:stop], forest.data
            )
            of_node = summaries.of_node[begin:stop]
            class_count = summaries.first[summary + 1] - summaries.first[summary]
            _test_values(tree, summary, class_count, table, trie, walks, of_node, values, finds)
            hits, key_masks = _find_keys(
                tree,
                class_count,
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
            if len(hits):
                state_masks = _mask_states(tree, summary, class_count, trie, walks, state_stamp, state_slot)
                for hit in hits:
                    for at in range(trie.key_low[hit], trie.key_low[hit + 1]):
                        state = trie.key_state[at]
                        if state_stamp[state] == tree and _meet(
                            state_masks[state_slot[state]], key_masks[key_slot[hit]]
                        ):
                            _emit(trie.key_entry[at], tree, finds)
        kept = doubtful_low[tree]
        for at in range(doubtful_low[tree], counts[1]):
            if seen[doubtful[at]] == 2 * tree:
                doubtful[kept] = doubtful[at]
                kept += 1
        counts[1] = kept
        certain_low[tree + 1], doubtful_low[tree + 1] = counts[0], kept
    return (
        _spread(certain_low),
        certain[: counts[0]].copy(),
        _spread(doubtful_low),
        doubtful[: counts[1]].copy(),
    )


@kernel
def _spread(low: NDArray[np.int64]) -> NDArray[np.int32]:
    """Each number as often as its range is long."""
    numbers = np.empty(low[-1], np.int32)
    for number in range(len(low) - 1):
        numbers[low[number] : low[number + 1]] = number
    return numbers


@kernel
def _meet(one: NDArray[np.uint64], other: NDArray[np.uint64]) -> bool:
    found = False
    for word in range(len(one)):
        found |= one[word] & other[word] != 0
    return found


@kernel
def _mask_states(
    tree: int,
    summary: int,
    class_count: int,
    trie: Trie,
    walks: Walks,
    stamp: NDArray[np.int32],
    slot: NDArray[np.int32],
) -> NDArray[np.uint64]:
    """The classes of each reached state that has keys, as a mask in the state's slot."""
    low, high = walks.state_low[summary], walks.state_low[summary + 1]
    masks = np.zeros((high - low, (class_count + 63) >> 6), np.uint64)
    used = 0
    for at in range(low, high):
        state = walks.state[at]
        if trie.state_has_keys[state]:
            stamp[state], slot[state] = tree, used
            for place in range(walks.class_low[at], walks.class_high[at]):
                each = walks.classes[place]
                masks[used, each >> 6] |= np.uint64(1) << np.uint64(each & 63)
            used += 1
    return masks


@kernel
def _find_keys(
    tree: int,
    class_count: int,
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
    longest = 0
    for key in range(len(table.string_offsets) - 1):
        longest = max(longest, table.string_offsets[key + 1] - table.string_offsets[key])
    hits = np.empty(16, np.int32)
    masks = np.zeros((16, (class_count + 63) >> 6), np.uint64)
    used: Any = np.int64(0)
    for node in range(1, len(label)):
        own: Any = recode[label[node]]
        group: Any = np.int32(groups[label[node]])
        for code in (own, group):
            if code < 0:
                continue
            for as_string in (True, False):
                key = -1
                if as_string:
                    if trie.code_has_strings[code] and values.end[node] - values.start[node] <= longest:
                        key = _string_key(code, table, trie, values, node)
                elif trie.code_has_numbers[code] and values.numbers[node] == values.numbers[node]:
                    key = _number_key(code, trie, bits[node])
                if key < 0:
                    continue
                if stamp[key] != tree:
                    if used == len(hits):
                        hits = _room(hits, used, used)
                        more = np.zeros((len(hits), masks.shape[1]), np.uint64)
                        for known in range(used):
                            for word in range(masks.shape[1]):
                                more[known, word] = masks[known, word]
                        masks = more
                    stamp[key], slot[key], hits[used] = tree, used, key
                    used += 1
                each = of_node[node]
                masks[slot[key], each >> 6] |= np.uint64(1) << np.uint64(each & 63)
            if own == group:
                break
    return hits[:used], masks


@kernel
def _string_key(code: int, table: Table, trie: Trie, values: Values, node: int) -> int:
    start, end = values.start[node], values.end[node]
    size = len(trie.key_table)
    place = key_place(code, hash_bytes(values.data, start, end), size)
    while trie.key_table[place] >= 0:
        key: int = trie.key_table[place]
        string = trie.key_string[key]
        if trie.key_code[key] == code and string >= 0 and _is_string(table, string, values, node):
            return key
        place = (place + 1) & (size - 1)
    return -1


@kernel
def _is_string(table: Table, string: int, values: Values, node: int) -> bool:
    start, low = values.start[node], table.string_offsets[string]
    if table.string_offsets[string + 1] - low != values.end[node] - start:
        return False
    for at in range(values.end[node] - start):
        if table.string_bytes[low + at] != values.data[start + at]:
            return False
    return True


@kernel
def _number_key(code: int, trie: Trie, wanted: np.uint64) -> int:
    size = len(trie.key_table)
    place = key_place(code, wanted, size)
    while trie.key_table[place] >= 0:
        key: int = trie.key_table[place]
        if trie.key_code[key] == code and trie.key_string[key] < 0 and trie.key_number[key] == wanted:
            return key
        place = (place + 1) & (size - 1)
    return -1


@kernel
def _test_values(
    tree: int,
    summary: int,
    class_count: int,
    table: Table,
    trie: Trie,
    walks: Walks,
    of_node: NDArray[np.int32],
    values: Values,
    finds: Finds,
) -> None:
    """Ranges, by the least and greatest number of a state's classes; inequalities, by two unlike values."""
    least, greatest = np.full(class_count, np.inf), np.full(class_count, -np.inf)
    for node in range(len(of_node)):
        number = values.numbers[node]
        if number == number:
            least[of_node[node]] = min(least[of_node[node]], number)
            greatest[of_node[node]] = max(greatest[of_node[node]], number)
    for at in range(walks.state_low[summary], walks.state_low[summary + 1]):
        state = walks.state[at]
        if trie.test_low[state] == trie.test_low[state + 1]:
            continue
        low, high = np.inf, -np.inf
        classes = walks.classes[walks.class_low[at] : walks.class_high[at]]
        for each in classes:
            low, high = min(low, least[each]), max(high, greatest[each])
        for group in range(trie.test_low[state], trie.test_low[state + 1]):
            first, last = trie.literal_low[group], trie.literal_low[group + 1]
            relation = trie.test_relation[group]
            if relation < LESS:
                _test_unlike(
                    tree, relation, first, last, class_count, classes, table, trie, of_node, values, finds
                )
                continue
            if relation in (LESS, AT_MOST):
                first = _bound(trie.literal, first, last, low, relation == LESS)
            else:
                last = _bound(trie.literal, first, last, high, relation == AT_LEAST)
            if low <= high:
                for place in range(first, last):
                    _emit(trie.literal_entry[place], tree, finds)


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
def _test_unlike(
    tree: int,
    relation: int,
    first: int,
    last: int,
    class_count: int,
    classes: NDArray[np.int32],
    table: Table,
    trie: Trie,
    of_node: NDArray[np.int32],
    values: Values,
    finds: Finds,
) -> None:
    """A literal differs from some value as soon as there are two unlike values, or one unlike the literal."""
    wanted = np.zeros(class_count, np.bool_)
    for each in classes:
        wanted[each] = True
    sample = -1
    unlike = False
    for node in range(len(of_node)):
        if not wanted[of_node[node]]:
            continue
        if sample < 0:
            sample = node
        if relation == STRING_UNEQUAL:
            unlike = not _same_text(values, sample, node)
        else:
            unlike = values.numbers[sample] != values.numbers[node]
        if unlike:
            break
    for place in range(first, last):
        literal = trie.literal[place]
        if unlike:
            differs = True
        elif relation == STRING_UNEQUAL:
            differs = not _is_string(table, int(literal), values, sample)
        else:
            differs = values.numbers[sample] != literal
        if differs:
            _emit(trie.literal_entry[place], tree, finds)


@kernel
def _same_text(values: Values, one: int, other: int) -> bool:
    length = values.end[one] - values.start[one]
    if values.end[other] - values.start[other] != length:
        return False
    for at in range(length):
        if values.data[values.start[one] + at] != values.data[values.start[other] + at]:
            return False
    return True
