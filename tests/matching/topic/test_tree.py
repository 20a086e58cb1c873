"""The tree algorithm: edges, reference counts and pruning."""

from __future__ import annotations

from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.matching.topic.tree import TopicTree
from distributary.model import MAX_TOPIC_LEVELS, Event


def tree(*patterns: str) -> TopicTree:
    index = TopicTree()
    index.add_many(range(len(patterns)), map(TopicFilter.parse, patterns))
    return index


def test_equal_beginnings_share_edges() -> None:
    index = tree("Streams/Sensors/*/Pressure", "Streams/Sensors/Fluid", "Streams/Sensors/*/Density")
    assert (index.nodes, index.edges) == (4, 6)


def test_a_filter_adds_a_node_less_than_edges() -> None:
    index = tree("A/B/C/D", "E/F/G/H")
    assert index.edges == 8
    assert index.nodes == 1 + 2 * 3


def test_references_count_the_destinations_below() -> None:
    index = tree("A/B", "A/B/C", "A/B/C", "A/*")
    edge = index._root["A"]
    assert edge.references == 4
    assert edge.node is not None
    assert {level: below.references for level, below in edge.node.items()} == {"B": 3, WILDCARD: 1}


def test_removal_prunes_exactly_what_nobody_needs() -> None:
    index = tree("A/B/C/D", "A/B", "A/E")
    sizes = [(index.nodes, index.edges)]
    for slot in range(3):
        index.remove(slot)
        sizes.append((index.nodes, index.edges))
    assert sizes == [(4, 5), (2, 3), (2, 2), (1, 0)]
    assert index._root == {}


def test_pruning_stops_at_a_destination_above() -> None:
    index = tree("A/B", "A/B/C")
    index.remove(1)
    assert (index.nodes, index.edges) == (2, 2)
    assert index.match(Event("e", topic="A/B/C")) == [0]


def test_removal_leaves_siblings_alone() -> None:
    index = tree("A/B/C", "A/B/D", "A/B/*", "A/B/C/#", "A/B/C")
    index.remove(0)
    assert index.match(Event("e", topic="A/B/C")) == [2, 3, 4]
    index.remove(3)
    assert index.match(Event("e", topic="A/B/C")) == [2, 4]
    assert index.match(Event("e", topic="A/B/D")) == [1, 2]


def test_a_very_deep_topic_exhausts_nothing() -> None:
    deep = "/".join(["A", *["*"] * 1_000])
    index = tree(deep)
    assert index.match(Event("e", topic="/".join(["A"] * MAX_TOPIC_LEVELS))) == [0]
    index.remove(0)
    assert index.edges == 0
