"""Vectorised routing against the message-level ring, hop for hop, and against shortest paths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import BOTH_WAYS, DOUBLE_TABLE, ONE_WAY, Rule
from distributary.overlay.ring.static import StaticRing
from overlay.ring.rings import Hello, RestingRing

RULES = [ONE_WAY, BOTH_WAYS, DOUBLE_TABLE]


@given(st.sampled_from(RULES), st.integers(3, 12), st.data())
def test_a_query_takes_the_hops_that_the_message_takes(rule: Rule, bits: int, data: Any) -> None:
    identifiers = data.draw(st.sets(st.integers(0, 2**bits - 1), min_size=1, max_size=min(60, 2**bits)))
    ring = RestingRing(sorted(identifiers), bits, rule=rule)
    static = StaticRing.of(ring.members, Circle(bits), rule)
    rank = data.draw(st.integers(0, len(identifiers) - 1))
    keys = data.draw(st.lists(st.integers(0, 2**bits - 1), min_size=1, max_size=20))
    for key in keys:
        sender = ring.members[rank]
        ring.world.call(sender, lambda s=sender, k=key: ring.rings[s].route(k, Hello(k)))
    ring.world.run()
    depths = {one.item: one.depth for one in ring.world.delivered}
    hops = static.hops(np.full(len(keys), rank), np.array(keys))
    assert hops.tolist() == [depths[key, (key,)] for key in keys]


@pytest.mark.parametrize("rule", RULES)
def test_a_thousand_nodes_take_the_same_hops_too(rule: Rule) -> None:
    generator = np.random.default_rng(7)
    static = StaticRing.random(1000, Circle(32), rule, generator)
    ring = RestingRing(static.members.tolist(), 32, rule=rule)
    sources = generator.integers(1000, size=300)
    keys = generator.integers(2**32, size=300)
    for number, (source, key) in enumerate(zip(sources.tolist(), keys.tolist(), strict=True)):
        sender = ring.members[source]
        ring.world.call(sender, lambda s=sender, k=key, n=number: ring.rings[s].route(k, Hello(n)))
    ring.world.run()
    depths = {one.item[0]: one.depth for one in ring.world.delivered}
    assert static.hops(sources, keys).tolist() == [depths[number] for number in range(300)]


@pytest.mark.parametrize("rule", RULES)
def test_no_route_is_shorter_than_the_shortest_path(rule: Rule) -> None:
    generator = np.random.default_rng(3)
    static = StaticRing.random(200, Circle(20), rule, generator)
    for source in range(0, 200, 20):
        distance = static.shortest(source)
        hops = static.hops(np.full(200, source), static.members)
        assert (distance >= 0).all()
        assert (hops >= distance).all()
        assert (distance <= 1).sum() == 1 + len(known_to(static, source))


def known_to(static: StaticRing, source: int) -> tuple[int, ...]:
    ring = RestingRing(static.members.tolist(), static.circle.bits, rule=static.rule)
    return ring.rings[ring.members[source]].known()


def test_a_full_ring_has_shortest_paths_of_a_third_of_its_bits() -> None:
    bits = 12
    static = StaticRing.of(np.arange(1 << bits), Circle(bits), DOUBLE_TABLE, successor_count=1)
    fewest = [fewest_signed_powers(distance, bits) for distance in range(1 << bits)]
    assert static.shortest(0).tolist() == fewest
    assert abs(np.mean(fewest) - bits / 3) < 0.5


def fewest_signed_powers(distance: int, bits: int) -> int:
    """How many powers of two, added or subtracted, give a distance on a circle: the nonadjacent form."""

    def weight(number: int) -> int:
        return (number ^ (3 * number)).bit_count()

    return min(weight(distance), weight((1 << bits) - distance))


def test_a_ring_of_one_answers_all_itself() -> None:
    static = StaticRing.of([5], Circle(4), BOTH_WAYS)
    assert static.hops(np.zeros(3, dtype=int), np.array([0, 5, 9])).tolist() == [0, 0, 0]
    assert static.shortest(0).tolist() == [0]


@pytest.mark.parametrize("identifiers", [[], [16], [-1]])
def test_identifiers_outside_the_circle_are_refused(identifiers: list[int]) -> None:
    with pytest.raises(DistributaryError, match="lie from 0 to 15"):
        StaticRing.of(identifiers, Circle(4), ONE_WAY)


def test_identifiers_too_long_for_an_array_are_refused() -> None:
    with pytest.raises(DistributaryError, match="at most 62"):
        StaticRing.of([1], Circle(63), ONE_WAY)
