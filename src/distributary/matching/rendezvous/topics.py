"""Where topic patterns and topics meet: at a prefix, as short as the number of subscriptions allows.

Prefixes are nodes of a trie, named by their fingerprints. A node that holds more than a part should is
*divided*: its patterns go on to the node of their next level. A pattern meets its events at the first node
on its way that is not divided, or at the divided node behind which it has a wildcard or ends (it *stays*
there). An event has one prefix of each length, so it passes the same nodes as every pattern that matches
it; it visits the places for those that stay at the divided nodes, and the one of the first node that is not.

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

from distributary.kernel import kernel, sealed
from distributary.matching.batch import SLASH, Strings
from distributary.matching.rendezvous.fingerprints import (
    CRC_TABLE,
    EMPTY,
    extended,
    finished,
    spread,
    spread_in_kernel,
)
from distributary.matching.rendezvous.keys import MAX_LEVELS
from distributary.matching.rendezvous.parts import Allotment, Place
from distributary.matching.rendezvous.visits import Visits

LIGHT = 1 / 16
"""A node with less than this part of the capacity is not in the table."""

PROVISIONAL = Place(0, 1)
"""The place of everything in a draft."""

Topic = tuple[int, ...]


class Node(NamedTuple):
    """A prefix in the table: the share of topics below it, and where its patterns live."""

    share: float
    divided: bool
    place: Place | None
    """For a divided node, where those live that stay."""


@dataclass(frozen=True)
class TopicParts:
    """The part of a plan that concerns topics."""

    nodes: dict[int, Node]
    light: Place | None
    """Where nodes that are not in the table have their parts; None when nothing is filed by topic."""

    def find(self, topic: Topic) -> tuple[int | None, Node | None]:
        """The node where a pattern of these prefixes meets its events: its fingerprint and table entry.

        The fingerprint is None when there is no such node.
        """
        nodes = self.nodes
        node = None
        for prefix in topic:
            node = nodes.get(prefix)
            if node is None or not node.divided:
                return prefix, node
        return (topic[-1], node) if topic and node is not None and node.place is not None else (None, None)

    def part(self, prefix: int, node: Node | None, identity: int) -> int:
        """The part of a pattern that meets its events there."""
        if node is None:
            assert self.light is not None
            return self.light.first + spread(prefix, self.light.size)
        assert node.place is not None
        return node.place.first + spread(identity, node.place.size)

    def visits(self, topics: Strings) -> Visits:
        """The rows and the parts that they visit; a pair may come twice."""
        light = self.light or Place(0, 0)
        keys, facts = self._table
        return _visits(
            sealed(topics.data),
            sealed(topics.starts),
            sealed(topics.ends),
            sealed(topics.valid),
            CRC_TABLE,
            keys,
            facts,
            light.first,
            light.size,
        )

    @cached_property
    def _table(self) -> tuple[NDArray[np.uint32], NDArray[np.int32]]:
        """The nodes as a hash table with open addressing; slot `fingerprint & mask` is tried first."""
        size = 1 << (2 * len(self.nodes)).bit_length()
        keys = np.zeros(size, np.uint32)
        facts = np.full((size, 3), -1, np.int32)
        for prefix, node in self.nodes.items():
            slot = prefix & (size - 1)
            while facts[slot, 0] >= 0:
                slot = (slot + 1) & (size - 1)
            keys[slot] = prefix
            place = node.place or Place(0, 0)
            facts[slot] = int(node.divided), place.first, place.size
        return sealed(keys), sealed(facts)


def draft(topics: Iterable[Topic], capacity: float) -> TopicParts:
    """The nodes for these topics; `capacity` says how many of them fit a part. Places are provisional."""
    below: Counter[int] = Counter()
    here: Counter[int] = Counter()
    total = 0
    given = list(topics)
    for topic in given:
        below.update(topic)
        here[topic[-1]] += 1
        total += 1
    nodes: dict[int, Node] = {}
    for topic in given:
        for level, prefix in enumerate(topic):
            if prefix not in nodes:
                if below[prefix] < LIGHT * capacity:
                    break
                divided = below[prefix] > max(capacity, here[prefix]) and level + 1 < MAX_LEVELS
                nodes[prefix] = Node(below[prefix] / total, divided, PROVISIONAL)
            if not nodes[prefix].divided:
                break
    return TopicParts(nodes, PROVISIONAL if total else None)


def settle(drafted: TopicParts, topics: Sequence[Topic], allotment: Allotment) -> TopicParts:
    """The same nodes with places: `topics` are those that are filed by topic after all."""
    if drafted.light is None or not topics:
        return TopicParts({}, None)
    stays: Counter[int] = Counter()
    leaves: Counter[int] = Counter()
    way: dict[int, Topic] = {}
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
    staying: dict[int, Place] = {}
    if not allotment.is_small(stays.total()):
        staying = allotment.pack(list(stays.items()), "short topics")
    placed = allotment.pack([(prefix, leaves[prefix]) for prefix in order], "topics")
    single = [place.first for place in placed.values() if place.size == 1]
    if allotment.is_small(light) and single:
        # The packed parts are numbered in a row, but for the places of several parts between them.
        lightly = Place(min(single), max(single) - min(single) + 1)
    else:
        lightly = allotment.hashed(light, "rare topics")
    nodes = {}
    for prefix, node in drafted.nodes.items():
        place = (staying if node.divided else placed).get(prefix)
        if place is not None or node.divided:
            nodes[prefix] = node._replace(place=place)
    return TopicParts(nodes, lightly)


@kernel
def _visits(
    data: NDArray[np.uint8],
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    valid: NDArray[np.bool_],
    table: NDArray[np.uint32],
    keys: NDArray[np.uint32],
    facts: NDArray[np.int32],
    light_first: int,
    light_count: int,
) -> Visits:
    mask = len(keys) - 1
    rows = np.empty(2 * len(starts) + 64, np.int32)
    parts = np.empty(len(rows), np.int32)
    found = 0
    for row in range(len(starts)):
        if not valid[row]:
            continue
        at, end = starts[row], ends[row]
        state = EMPTY
        passing = True
        while passing:
            while at < end and data[at] != SLASH:
                state = extended(state, data[at], table)
                at += 1
            prefix = finished(state)
            slot = prefix & mask
            while facts[slot, 0] >= 0 and np.int64(keys[slot]) != prefix:
                slot = (slot + 1) & mask
            if facts[slot, 0] < 0:
                first, count = light_first, light_count
                if count > 0:
                    first += spread_in_kernel(prefix, count)
                    count = 1
                passing = False
            else:
                first, count = facts[slot, 1], facts[slot, 2]
                passing = facts[slot, 0] == 1 and at < end
            if found + count > len(rows):
                rows = np.concatenate((rows, np.empty(len(rows) + count, np.int32)))
                parts = np.concatenate((parts, np.empty(len(parts) + count, np.int32)))
            for part in range(first, first + count):
                rows[found] = row
                parts[found] = part
                found += 1
            if passing:
                state = extended(state, SLASH, table)
                at += 1
    return rows[:found], parts[:found]
