"""Branches of the tree that one node hosts as a whole: what a walk from vertex to vertex finds, and sends."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.model import Event, Subscription
from distributary.overlay.hypercube import CubeVertex, Key, branch_below, children_below
from distributary.systems.hope.addressing import Addressing
from distributary.systems.hope.kbpp import Kbpp
from systems.hope.world import ROUTINGS, Routing, delivered, random_document, random_path, settled


class WalkingKbpp(Kbpp):
    """Goes from vertex to vertex, whoever hosts them."""

    def _hosts_branch(self, position: int, place: CubeVertex, branch: Key) -> bool:
        return False


def run(kind: type[Kbpp], routing: Routing, seed: int, nodes: int, dimension: int, facets: int) -> Any:
    """What is delivered and what is sent, from whom to whom."""
    random = Random(seed)
    addressing = Addressing(dimension, 64)
    members = random.sample(range(1 << 12), nodes)
    deployment = settled(kind, members, 12, addressing, facets=facets, routing=routing)
    for number in range(25):
        subscription = Subscription(f"s{number}", f"u{number}", path=random_path(random))
        deployment.subscribe(subscription, at=random.choice(members))
    deployment.simulator.run()
    for number in range(8):
        deployment.publish(Event(f"e{number}", document=random_document(random)), at=random.choice(members))
        deployment.simulator.run()
    return delivered(deployment), deployment.metrics.by_kind(), deployment.metrics.by_link()


@pytest.mark.parametrize("routing", ROUTINGS)
@settings(max_examples=10, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    nodes=st.sampled_from([1, 2, 3, 7, 20]),
    dimension=st.sampled_from([1, 4, 6, 9]),
    facets=st.sampled_from([1, 2, 3]),
)
def test_branches_of_one_node_are_met_as_if_by_a_walk(
    routing: Routing, seed: int, nodes: int, dimension: int, facets: int
) -> None:
    walked = run(WalkingKbpp, routing, seed, nodes, dimension, facets)
    assert run(Kbpp, routing, seed, nodes, dimension, facets) == walked


@given(st.integers(0, 255), st.integers(0, 255))
def test_a_branch_is_all_that_a_walk_reaches(vertex: Key, branch: Key) -> None:
    def reached(vertex: Key, came_from: Key | None) -> set[Key]:
        below = [reached(child, vertex) for child in children_below(vertex, came_from)]
        return {vertex}.union(*below)

    for came_from in (None, *(vertex ^ 1 << bit for bit in range(8) if branch >> bit & 1)):
        low = branch_below(vertex, came_from)
        found = {key for key in range(256) if not (key ^ vertex) & ~low}
        assert reached(vertex, came_from) == found
