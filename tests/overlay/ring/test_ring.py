"""Routing and multicast on a ring at rest, against owners found by looking at all identifiers."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.overlay.node import Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import BOTH_WAYS, ONE_WAY, Rule
from distributary.overlay.ring.ring import Ring
from distributary.sim.metrics import Metrics
from overlay.ring.rings import Hello, RestingRing

RULES = st.sampled_from([ONE_WAY, BOTH_WAYS])


@st.composite
def resting_rings(draw: st.DrawFn) -> tuple[RestingRing, int]:
    bits = draw(st.integers(3, 10))
    identifiers = draw(st.sets(st.integers(0, 2**bits - 1), min_size=1, max_size=min(30, 2**bits)))
    return RestingRing(sorted(identifiers), bits, rule=draw(RULES)), bits


@given(resting_rings(), st.data())
def test_a_payload_reaches_the_owner_of_its_key_alone(built: tuple[RestingRing, int], data: Any) -> None:
    ring, bits = built
    key = data.draw(st.integers(0, 2**bits - 1))
    sender = data.draw(st.sampled_from(ring.members))
    ring.world.call(sender, lambda: ring.rings[sender].route(key, Hello(1)))
    ring.world.run(most=10_000)
    assert [(one.address, one.item) for one in ring.world.delivered] == [(ring.owner(key), (1, (key,)))]


@given(resting_rings(), st.data())
def test_a_multicast_to_nodes_takes_one_delivery_each(built: tuple[RestingRing, int], data: Any) -> None:
    ring, _ = built
    targets = data.draw(st.lists(st.sampled_from(ring.members), min_size=1))
    sender = data.draw(st.sampled_from(ring.members))
    ring.world.call(sender, lambda: ring.rings[sender].multicast(targets, Hello(1)))
    ring.world.run(most=10_000)
    assert ring.reached() == sorted(set(targets))


@given(resting_rings(), st.data())
def test_a_multicast_to_keys_hands_every_key_to_its_owner_once(
    built: tuple[RestingRing, int], data: Any
) -> None:
    ring, bits = built
    keys = data.draw(st.sets(st.integers(0, 2**bits - 1), min_size=1, max_size=20))
    sender = data.draw(st.sampled_from(ring.members))
    ring.world.call(sender, lambda: ring.rings[sender].multicast(keys, Hello(1)))
    ring.world.run(most=10_000)
    handed = [(key, one.address) for one in ring.world.delivered for key in one.item[1]]
    assert sorted(handed) == sorted((key, ring.owner(key)) for key in keys)


@given(resting_rings(), st.data())
def test_payloads_that_go_together_reach_the_owners_of_their_own_keys_once(
    built: tuple[RestingRing, int], data: Any
) -> None:
    ring, bits = built
    several = st.lists(st.sets(st.integers(0, 2**bits - 1), min_size=1, max_size=8), min_size=1, max_size=5)
    sent = dict(enumerate(data.draw(several)))
    sender = data.draw(st.sampled_from(ring.members))
    payloads = [(keys, Hello(number)) for number, keys in sent.items()]
    metrics = Metrics()
    ring.world.observe(metrics)
    ring.world.call(sender, lambda: ring.rings[sender].multicast_all(payloads))
    assert all(count.messages == 1 for count in metrics.by_link().values())
    ring.world.run(most=10_000)
    handed = [(one.item[0], key, one.address) for one in ring.world.delivered for key in one.item[1]]
    assert sorted(handed) == sorted(
        (number, key, ring.owner(key)) for number, keys in sent.items() for key in keys
    )


@given(resting_rings(), st.data())
def test_a_segment_multicast_reaches_each_of_its_owners_once(
    built: tuple[RestingRing, int], data: Any
) -> None:
    ring, bits = built
    start, length = data.draw(st.integers(0, 2**bits - 1)), data.draw(st.integers(1, 2**bits))
    sender = data.draw(st.sampled_from(ring.members))
    ring.world.call(sender, lambda: ring.rings[sender].multicast_segment(start, length, Hello(1)))
    ring.world.run(most=10_000)
    assert ring.reached() == ring.owners(start, length, 2**bits)


@pytest.mark.parametrize("rule", [ONE_WAY, BOTH_WAYS])
def test_a_broadcast_costs_one_message_a_node_and_a_logarithmic_time(rule: Rule) -> None:
    identifiers = [37 * place % 1024 for place in range(256)]
    ring = RestingRing(identifiers, 10, rule=rule)
    ring.world.call(0, lambda: ring.rings[0].multicast_segment(5, 1024, Hello(1)))
    before = ring.world.steps
    ring.world.run()
    assert ring.reached() == sorted(identifiers)
    assert ring.world.steps - before <= 2 * len(identifiers)
    assert ring.world.now <= 0.1 * 2 * math.log2(256)


def test_the_table_that_goes_both_ways_is_no_larger() -> None:
    for bits in range(1, 161):
        circle = Circle(bits)
        assert len(BOTH_WAYS.fingers(circle, 0)) <= len(ONE_WAY.fingers(circle, 0)) == bits


def test_a_message_that_goes_in_circles_is_dropped_and_counted() -> None:
    ring = RestingRing([1, 5, 9], 4)
    for identifier, other in ((1, 5), (5, 1)):
        broken = ring.rings[identifier]
        broken.predecessor, broken.successors, broken.fingers = None, [other], []
        broken.forget_known()
    ring.world.call(1, lambda: ring.rings[1].route(9, Hello(1)))
    ring.world.run(most=1000)
    assert ring.world.idle
    assert sum((each.dropped for each in ring.rings.values()), start=Counter()) == {"circles": 1}


def test_payloads_that_came_together_and_cannot_be_placed_now_wait_together() -> None:
    ring = RestingRing([1, 5, 9], 4)
    waiting, held = ring.rings[1], []
    waiting.carried_by(waiting.node.send, held.append)
    waiting.member = False
    payloads = [((number,), Hello(number)) for number in (5, 9)]
    ring.world.call(1, lambda: waiting.multicast_all(payloads))
    (bundle,) = held
    assert [(each.payload, each.waits) for each in bundle.messages] == [(Hello(5), 1), (Hello(9), 1)]
    waiting.member = True
    ring.world.call(1, lambda: waiting.node.dispatch(bundle, 1))
    ring.world.run(most=1000)
    assert ring.reached() == [5, 9]


def test_a_class_of_payloads_has_one_listener() -> None:
    ring = Ring(Node(1), Circle(4))
    ring.listen(Hello, lambda payload, arrival: None)
    with pytest.raises(ValueError, match="Hello has a listener already"):
        ring.listen(Hello, lambda payload, arrival: None)
