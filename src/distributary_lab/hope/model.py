"""HOPE on a full cube, every vertex a node, as arrays: what the nodes would send, without running them.

On a ring at rest, what an event costs under KBSP follows from the keys and filters of all subscriptions: it
takes the ways, in one spanning tree, from its own vertex to those of the subscriptions whose filters it
covers. So 3,600 documents and 4,096 nodes take seconds. The tests run the nodes themselves on small cubes and
find the same numbers.

A `PublishedCollection` gives documents and paths their addresses, and `count_deliveries` follows all events.
`FilterAggregate` says what a vertex knows of each neighbour below: a set of filters (as `systems.hope.kbsp`
has it by default), the bits that all of them ask for (sound, one filter a neighbour), or the bits of all of
them (what the thesis writes; an event must then cover every filter at once, and deliveries are lost).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.filters.kinds import parse_filters
from distributary.filters.path.document import Document, parse_document
from distributary.filters.path.filter import PathFilter, selects
from distributary.matching.path.signature import Item, document_items
from distributary.model import Event
from distributary.systems.hope.addressing import Addressing
from distributary.workloads import xml_collection
from distributary_lab.experiment import seed_from

Bits = NDArray[np.uint64]
Keys = NDArray[np.int64]
Flags = NDArray[np.bool_]

WORD = 64
subscriptions = partial(xml_collection.subscriptions, depth=3, branching=0.2)
"""Those of 001, section 4.6: paths have three steps on average, as in Table 4.1."""
CHUNK = 256
"""Events that are compared with all subscriptions at a time, so that memory stays small."""


class FilterAggregate(StrEnum):
    """What is known of a neighbour."""

    SET = "set"
    AND = "and"
    OR = "or"


def packed(filters: Sequence[int], length: int) -> Bits:
    """Filters as rows of machine words; one word of zeros when there are no filters."""
    words = max(1, -(-length // WORD))
    written = b"".join(filter.to_bytes(words * 8, "little") for filter in filters)
    return np.frombuffer(written, np.uint64).reshape(len(filters), words)


@dataclass(frozen=True)
class Addresses:
    """Keys and filters of some events or subscriptions."""

    keys: Keys
    filters: Bits

    @classmethod
    def of(cls, addressed: Iterable[tuple[int, int]], length: int) -> Addresses:
        """From pairs of a key and a filter of so many bits; a length of 0 leaves the filters out."""
        both = list(addressed)
        keys = np.array([key for key, _ in both], np.int64)
        return cls(keys, packed([filter if length else 0 for _, filter in both], length))

    def __getitem__(self, rows: slice | NDArray[np.integer]) -> Addresses:
        return Addresses(self.keys[rows], self.filters[rows])

    def __len__(self) -> int:
        return len(self.keys)


def covering(events: Addresses, asked: Addresses) -> Flags:
    """By event and subscription: whether the event covers key and filter."""
    found = np.empty((len(events), len(asked)), bool)
    for start in range(0, len(events), CHUNK):
        rows = slice(start, start + CHUNK)
        covered = (asked.keys[None, :] & ~events.keys[rows, None]) == 0
        lacking = ~events.filters[rows]
        for word in range(asked.filters.shape[1]):
            wanted = asked.filters[:, word]
            if wanted.any():
                covered &= (wanted[None, :] & lacking[:, word, None]) == 0
        found[rows] = covered
    return found


def visited(root: int, targets: Keys, dimension: int) -> Flags:
    """The vertices on the ways from a root to some vertices that it covers, both ends included.

    >>> np.flatnonzero(visited(0b111, np.array([0b100]), 3)).tolist()  # clears the lowest bit first
    [4, 6, 7]
    """
    found = np.zeros(1 << dimension, bool)
    here = np.unique(targets)
    while len(here):
        found[here] = True
        lacking = root & ~here
        here = here[lacking != 0]
        lacking = lacking[lacking != 0]
        highest = np.left_shift(1, np.frexp(lacking.astype(float))[1] - 1)
        here = np.unique(here | highest)
    return found


class AggregatedTree:
    """The one filter that each vertex keeps for each neighbour below, and where an event goes by them."""

    def __init__(self, asked: Addresses, dimension: int, aggregate: FilterAggregate) -> None:
        self.dimension = dimension
        join = np.bitwise_and if aggregate is FilterAggregate.AND else np.bitwise_or
        size, words = 1 << dimension, asked.filters.shape[1]
        nothing = ~np.uint64(0) if aggregate is FilterAggregate.AND else np.uint64(0)
        level = np.full((size, words), nothing)
        join.at(level, asked.keys, asked.filters)
        some = np.zeros(size, bool)
        some[asked.keys] = True
        # filters[i] joins what is registered at a vertex and those below it that differ in bits i and above.
        self.filters, self.some = [level], [some]
        vertices = np.arange(size)
        for bit in reversed(range(dimension)):
            has = (vertices >> bit & 1).astype(bool)
            level, some = level.copy(), some.copy()
            below = vertices[has] ^ (1 << bit)
            level[has] = join(level[has], self.filters[0][below])
            some[has] |= self.some[0][below]
            self.filters.insert(0, level)
            self.some.insert(0, some)

    def visited(self, root: int, filter: Bits) -> Flags:
        """The vertices that an event comes to."""
        found = np.zeros(1 << self.dimension, bool)
        found[root] = True
        here = np.array([root])
        lacking = ~filter
        for bit in range(self.dimension):
            # Ways clear bits from the lowest: whoever is here has come across a lower bit.
            below = here[(here >> bit & 1).astype(bool)] ^ (1 << bit)
            wanted = self.some[bit + 1][below] & ~(self.filters[bit + 1][below] & lacking).any(axis=1)
            found[below[wanted]] = True
            here = np.concatenate([here, below[wanted]])
        return found


def subscription_messages(asked: Addresses, dimension: int, suppress: bool) -> NDArray[np.int64]:
    """By subscription, in the order of their coming: how many vertices above it is told to.

    With `suppress`, it goes no further where a less demanding filter was told before.
    """
    free = dimension - np.bitwise_count(asked.keys.astype(np.uint64)).astype(np.int64)
    if not suppress:
        return (1 << free) - 1
    sent = np.zeros(len(asked), np.int64)
    known: dict[tuple[int, bytes], int] = {}
    for number in range(len(asked)):
        key, filter = int(asked.keys[number]), asked.filters[number]
        if (key, filter.tobytes()) in known:
            continue
        before = np.fromiter(known.values(), np.int64, len(known))
        less = before[~(asked.filters[before] & ~filter).any(axis=1)]
        known[key, filter.tobytes()] = number
        sent[number] = len(_climb(key, np.unique(asked.keys[less]), dimension)) - 1
    return sent


def _climb(key: int, quieting: Keys, dimension: int) -> Keys:
    """The vertices that a subscription is told to, when less demanding ones have come to these keys."""
    reached = np.array([key], np.int64)
    for bit in reversed(range(dimension)):
        below = reached[(reached >> bit & 1) == 0]
        low = (1 << bit) - 1
        outside = quieting[None, :] & ~below[:, None]
        open_bits = below[:, None] & low & ~quieting[None, :]
        quiet = ((outside == 0) & (open_bits == 0)).any(axis=1)
        reached = np.concatenate([reached, below[~quiet] | 1 << bit])
    return reached


# A whole collection


@dataclass(frozen=True)
class PublishedCollection:
    """Documents, parsed, and one path for every node."""

    events: list[Event]
    documents: list[Document]
    items: list[set[Item]]
    """What the documents are made of."""
    paths: list[PathFilter]

    @classmethod
    def of(cls, documents: int, nodes: int, random: np.random.Generator) -> PublishedCollection:
        """Draw so many documents, and a path for each of so many nodes."""
        events = list(xml_collection.events(documents, seed=seed_from(random)))
        paths = [parse_filters(each)["path"] for each in subscriptions(nodes, seed=seed_from(random))]
        parsed = [parse_document(event.document) for event in events if event.document is not None]
        items = [document_items(document) for document in parsed]
        return cls(events, parsed, items, [path for path in paths if isinstance(path, PathFilter)])

    def addresses(self, dimension: int, length: int) -> tuple[Addresses, Addresses]:
        """Of the events and of the subscriptions."""
        addressing = Addressing(dimension, length, value_bits=0)
        asked = (addressing.of_filters({"path": path}) for path in self.paths)
        return Addresses.of(map(addressing.of_items, self.items), length), Addresses.of(asked, length)

    def matches(self, possible: Flags) -> Flags:
        """By event and subscription: whether the path selects something, where that is possible."""
        texts = {path.text: path for path in self.paths}
        columns = {text: np.array([path.text == text for path in self.paths]) for text in texts}
        found = np.zeros_like(possible)
        for text, path in texts.items():
            some = int(np.flatnonzero(columns[text])[0])
            for event in np.flatnonzero(possible[:, some]):
                if selects(path, self.documents[event]):
                    found[event, columns[text]] = True
        return found


@dataclass(frozen=True)
class DeliveryCounts:
    """What all events together did, with each way of keeping filters."""

    covered: Flags
    exact: Flags
    edges: dict[FilterAggregate, NDArray[np.int64]]
    """Messages between vertices, by event."""
    lost: float
    """The share of wanted deliveries that OR loses."""
    handled: NDArray[np.int64]
    """Publications that each node receives for its vertex."""
    used: int
    """Links between vertices that some event used."""


def count_deliveries(published: Addresses, asked: Addresses, dimension: int, exact: Flags) -> DeliveryCounts:
    """Follow every event through the cube; those of the same address are followed once."""
    covered = covering(published, asked)
    trees = {
        kind: AggregatedTree(asked, dimension, kind) for kind in (FilterAggregate.AND, FilterAggregate.OR)
    }
    edges = {kind: np.zeros(len(published), np.int64) for kind in FilterAggregate}
    handled = np.zeros(1 << dimension, np.int64)
    used: set[tuple[int, int]] = set()
    wanted = lost = 0
    known: dict[bytes, Ways] = {}
    for place in range(len(published)):
        root, filter = int(published.keys[place]), published.filters[place]
        structure = root.to_bytes(8, "little") + filter.tobytes()
        if structure not in known:
            known[structure] = _ways(root, filter, asked.keys[covered[place]], trees, dimension)
        ways = known[structure]
        handled += ways.reached[FilterAggregate.AND]
        used |= ways.links
        for kind, reached in ways.reached.items():
            edges[kind][place] = int(reached.sum()) - 1
        wanted += int(exact[place].sum())
        lost += int((exact[place] & ~ways.reached[FilterAggregate.OR][asked.keys]).sum())
    return DeliveryCounts(covered, exact, edges, lost / max(1, wanted), handled, len(used))


class Ways(NamedTuple):
    """The vertices that an event comes to, by way of keeping filters, and the links it takes with AND."""

    reached: dict[FilterAggregate, Flags]
    links: set[tuple[int, int]]


def _ways(
    root: int, filter: Bits, targets: Keys, trees: dict[FilterAggregate, AggregatedTree], dimension: int
) -> Ways:
    reached = {kind: tree.visited(root, filter) for kind, tree in trees.items()}
    reached[FilterAggregate.SET] = visited(root, np.append(targets, root), dimension)
    below = np.flatnonzero(reached[FilterAggregate.AND])
    below = below[below != root]
    lacking = root & ~below
    above = below | np.left_shift(1, np.frexp(lacking.astype(float))[1] - 1)
    return Ways(reached, set(zip(above.tolist(), below.tolist(), strict=True)))
