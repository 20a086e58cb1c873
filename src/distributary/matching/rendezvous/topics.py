"""Where topic patterns and topics meet: at a prefix, as short as the number of subscriptions allows.

Prefixes are nodes of a trie, named by their fingerprints. A node that holds more than a part should is
*divided*: its patterns go on to the node of their next level. A pattern meets its events at the first node
on its way that is not divided, or at the divided node behind which it has a wildcard or ends (it *stays*
there). An event has one prefix of each length, so it passes the same nodes as every pattern that matches
it; it visits the places for those that stay at the divided nodes, and the one of the first node that is
not. Prefixes are those behind a leading slash, of patterns and topics alike: whichever way a pattern sees a
leading slash, it meets every topic that it matches.

Rules:

- A pattern lives in exactly one part, so an event may visit more parts than it must (because fingerprints
  collide, or small nodes share a part) without meeting any pattern twice.
- Only nodes with many patterns are in the table. All others, those that no census ever saw among them,
  share the *light* parts by their fingerprint.
- Where a divided node has no place for those that stay, a pattern that would is not filed by topic at all.

Finding the visits of an event takes time linear in the bytes of the levels that it passes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from distributary.kernel import Bytes, Flags, Ints, Longs, kernel, sealed
from distributary.matching.columns import Strings
from distributary.matching.rendezvous import keys
from distributary.matching.rendezvous.parts import (
    PROVISIONAL,
    PartAllotment,
    PartRange,
    Visits,
    append_visits,
)

SLASH = ord("/")

LIGHT = 1 / 16
"""A node with less than this part of the capacity is not in the table."""

Prefixes = tuple[int, ...]
"""The fingerprints of a topic's prefixes, the shortest first."""

DIVIDED, FIRST, SIZE = range(3)
"""The columns of the table that kernels read: whether a node is divided (-1: empty slot), and its parts."""


class TopicNode(NamedTuple):
    """A prefix in the table: the share of topics below it, and where its patterns live."""

    share: float
    divided: bool
    parts: PartRange | None
    """For a divided node, where those live that stay."""


@dataclass(frozen=True)
class TopicParts:
    """The parts for topics. `find` serves subscriptions, `visits` serves events."""

    nodes: dict[int, TopicNode]
    light: PartRange | None
    """The parts of nodes that are not in the table; None when nothing is filed by topic."""

    def find(self, topic: Prefixes) -> tuple[int | None, TopicNode | None]:
        """The node where a pattern of these prefixes meets its events: its fingerprint and table entry.

        The fingerprint is None when there is no such node.
        """
        nodes = self.nodes
        node = None
        for prefix in topic:
            node = nodes.get(prefix)
            if node is None or not node.divided:
                return prefix, node
        return (topic[-1], node) if topic and node is not None and node.parts is not None else (None, None)

    def part(self, prefix: int, node: TopicNode | None, identity: int) -> int:
        """The part of a pattern that meets its events at this node."""
        parts = self.light if node is None else node.parts
        assert parts is not None, "find gives only nodes that have parts"
        return parts.part_of(prefix if node is None else identity)

    def visits(self, topics: Strings) -> Visits:
        """The rows and the parts that they visit; a pair may come twice."""
        texts = (sealed(topics.data), sealed(topics.starts), sealed(topics.ends), sealed(topics.valid))
        return _visits(*texts, keys.CRC_TABLE, *self._table, *(self.light or (0, 0)))

    @cached_property
    def _table(self) -> tuple[NDArray[np.uint32], Ints]:
        """The nodes as a hash table with open addressing; slot `fingerprint & mask` is tried first."""
        size = 1 << (2 * len(self.nodes)).bit_length()
        prefixes = np.zeros(size, np.uint32)
        table = np.full((size, 3), -1, np.int32)
        for prefix, node in self.nodes.items():
            slot = prefix & (size - 1)
            while table[slot, DIVIDED] >= 0:
                slot = (slot + 1) & (size - 1)
            prefixes[slot] = prefix
            table[slot] = int(node.divided), *(node.parts or (0, 0))
        return sealed(prefixes), sealed(table)


def draft(topics: Iterable[Prefixes], capacity: float) -> TopicParts:
    """The nodes for these topics; `capacity` says how many of them fit a part. Places are provisional."""
    below: Counter[int] = Counter()
    here: Counter[int] = Counter()
    given = list(topics)
    for topic in given:
        below.update(topic)
        here[topic[-1]] += 1
    nodes: dict[int, TopicNode] = {}
    for topic in given:
        for level, prefix in enumerate(topic):
            if prefix not in nodes:
                if below[prefix] < LIGHT * capacity:
                    break
                divided = below[prefix] > max(capacity, here[prefix]) and level + 1 < keys.MAX_LEVELS
                nodes[prefix] = TopicNode(below[prefix] / len(given), divided, PROVISIONAL)
            if not nodes[prefix].divided:
                break
    return TopicParts(nodes, PROVISIONAL if given else None)


def settle(drafted: TopicParts, topics: Sequence[Prefixes], allotment: PartAllotment) -> TopicParts:
    """The same nodes with places: `topics` are those that are filed by topic after all."""
    if drafted.light is None or not topics:
        return TopicParts({}, None)
    stays: Counter[int] = Counter()
    leaves: Counter[int] = Counter()
    way: dict[int, Prefixes] = {}
    light = 0
    for topic in topics:
        prefix, node = drafted.find(topic)
        assert prefix is not None, "everything has a place in a draft"
        if node is None:
            light += 1
        elif node.divided:
            stays[prefix] += 1
        else:
            leaves[prefix] += 1
            way.setdefault(prefix, topic)
    # Neighbours in the trie share parts: an event that visits a part finds what concerns it there.
    order = sorted(leaves, key=lambda prefix: way[prefix])
    staying: dict[int, PartRange] = {}
    if not allotment.is_small(stays.total()):
        staying = allotment.pack(list(stays.items()), "short topics")
    placed = allotment.pack([(prefix, leaves[prefix]) for prefix in order], "topics")
    single = [parts.first for parts in placed.values() if parts.size == 1]
    if allotment.is_small(light) and single:
        # The packed parts are numbered in a row, but for the ranges of several parts between them.
        lightly = PartRange(min(single), max(single) - min(single) + 1)
    else:
        lightly = allotment.hashed(light, "rare topics")
    nodes = {}
    for prefix, node in drafted.nodes.items():
        parts = (staying if node.divided else placed).get(prefix)
        if parts is not None or node.divided:
            nodes[prefix] = node._replace(parts=parts)
    return TopicParts(nodes, lightly)


@kernel
def _visits(
    data: Bytes,
    starts: Longs,
    ends: Longs,
    valid: Flags,
    crc_table: NDArray[np.uint32],
    prefixes: NDArray[np.uint32],
    table: Ints,
    light_first: int,
    light_count: int,
) -> Visits:
    mask = len(prefixes) - 1
    visits = np.empty((2, 2 * len(starts) + 64), np.int32)
    count = 0
    for row in range(len(starts)):
        if not valid[row]:
            continue
        at, end = starts[row], ends[row]
        if at < end and data[at] == SLASH:
            at += 1
        state = keys.EMPTY
        passing = True
        while passing:
            # Take in one more level, and look its prefix up.
            while at < end and data[at] != SLASH:
                state = keys.extended(state, data[at], crc_table)
                at += 1
            prefix = keys.finished(state)
            slot = prefix & mask
            while table[slot, DIVIDED] >= 0 and np.int64(prefixes[slot]) != prefix:
                slot = (slot + 1) & mask
            if table[slot, DIVIDED] >= 0:
                visits, count = append_visits(visits, count, row, table[slot, FIRST], table[slot, SIZE])
                passing = table[slot, DIVIDED] == 1 and at < end
            else:
                passing = False
                if light_count > 0:
                    part = light_first + keys.spread_in_kernel(prefix, light_count)
                    visits, count = append_visits(visits, count, row, part, 1)
            if passing:
                state = keys.extended(state, SLASH, crc_table)
                at += 1
    return visits[0, :count], visits[1, :count]
