"""Routing by digits, as in Pastry: every key has one owner, the nearest node, and every message finds it."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.overlay.node import Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.prefix import Prefixes, PrefixRing
from distributary.overlay.ring.ring import settle
from overlay.ring.rings import Hello, RestingRing


def network(members: set[int], bits: int, digit: int = 2) -> dict[int, PrefixRing]:
    rings = [PrefixRing(Node(member), Circle(bits), rule=Prefixes(digit)) for member in sorted(members)]
    settle(rings)
    return {ring.identifier: ring for ring in rings}


def path(rings: dict[int, PrefixRing], start: int, key: int) -> list[int]:
    """The nodes that a message for a key comes to."""
    found = [start]
    while (hop := rings[found[-1]].next_hop(key)) is not None:
        assert len(found) <= len(rings), "no message goes in circles"
        found.append(hop)
    return found


@settings(deadline=None)
@given(st.integers(5, 7), st.integers(1, 3), st.data())
def test_every_key_belongs_to_the_nearest_node_and_is_found_from_everywhere(
    bits: int, digit: int, data: st.DataObject
) -> None:
    members = data.draw(st.sets(st.integers(0, (1 << bits) - 1), min_size=1, max_size=14))
    rings = network(members, bits, digit)
    circle = Circle(bits)
    for key in range(1 << bits):
        (owner,) = (member for member in members if rings[member].owns(key))
        assert circle.distance(owner, key) == min(circle.distance(member, key) for member in members)
        for start in members:
            assert path(rings, start, key)[-1] == owner


@pytest.mark.parametrize("digit", [1, 2, 4])
def test_paths_have_about_as_many_hops_as_the_number_of_nodes_has_digits(digit: int) -> None:
    random = Random(digit)
    rings = network(set(random.sample(range(1 << 24), 512)), 24, digit)
    hops = [len(path(rings, random.choice(list(rings)), random.randrange(1 << 24))) - 1 for _ in range(300)]
    assert sum(hops) / len(hops) <= math.log2(512) / digit + 1


@settings(deadline=None)
@given(st.integers(2, 7), st.integers(1, 3), st.booleans(), st.data())
def test_a_segment_multicast_reaches_each_of_its_owners_once(
    bits: int, digit: int, couriers: bool, data: st.DataObject
) -> None:
    size = 1 << bits
    members = data.draw(st.sets(st.integers(0, size - 1), min_size=1, max_size=14))
    ring = RestingRing(sorted(members), bits, routing=PrefixRing, rule=Prefixes(digit), couriers=couriers)
    start, length = data.draw(st.integers(0, size - 1)), data.draw(st.integers(1, size))
    sender = data.draw(st.sampled_from(ring.members))
    ring.world.call(sender, lambda: ring.rings[sender].multicast_segment(start, length, Hello(1)))
    ring.world.run(until=5.0, most=10_000)
    assert ring.reached() == ring.owners(start, length, size)
