"""Underlays: shortest ways, and the stress and stretch that an overlay brings about."""

from __future__ import annotations

from itertools import pairwise, permutations
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as some

from distributary.errors import DistributaryError
from distributary.overlay.courier import Ack
from distributary.overlay.node import Node
from distributary.sim.simulator import Simulator
from distributary.sim.underlay import Edge, Underlay, UnderlayLoad


class Copy(NamedTuple):
    left: tuple[int, ...]


def chain_of(underlay: Underlay, count: int) -> tuple[Simulator, list[Node]]:
    """Nodes that hand a copy on to the first of those left, and deliver it."""
    world = Simulator(1, underlay)
    nodes = [Node(address) for address in range(count)]
    for node in nodes:

        def take(copy: Copy, sender: int, node: Node = node) -> None:
            node.deliver("copy")
            node.send(sender, Ack(0.0, 0))
            if copy.left:
                node.send(copy.left[0], Copy(copy.left[1:]))

        node.handle(Copy, take)
        node.handle(Ack, lambda ack, sender: None)
        world.add(node)
    return world, nodes


LINE: list[Edge] = [("a", "b", 10), ("b", "c", 10), ("c", "d", 10)]
AT = {0: "a", 1: "b", 2: "c", 3: "d"}


@given(
    some.lists(
        some.tuples(some.sampled_from("abcdef"), some.sampled_from("abcdef"), some.integers(1, 9)), min_size=1
    )
)
def test_ways_are_the_shortest_there_are(edges: list[tuple[str, str, int]]) -> None:
    links = {**dict.fromkeys(zip("abcde", "bcdef", strict=True), 40.0)}
    for one, other, milliseconds in edges:
        if one != other:
            pair = (min(one, other), max(one, other))
            links[pair] = min(links.get(pair, 99.0), float(milliseconds))
    below = Underlay(
        [(one, other, milliseconds) for (one, other), milliseconds in links.items()],
        seed=1,
        places=dict(enumerate("abcdef")),
    )

    def cost(way: tuple[str, ...]) -> float:
        pairs = [(min(pair), max(pair)) for pair in pairwise(way)]
        return sum(links.get(pair, float("inf")) for pair in pairs)

    for one, other in [(0, 5), (3, 1)]:
        start, end = "abcdef"[one], "abcdef"[other]
        between = [router for router in "abcdef" if router not in (start, end)]
        ways = [(start, *middle, end) for size in range(5) for middle in permutations(between, size)]
        shortest = min(cost(way) for way in ways)
        assert below.length(one, other) == pytest.approx((shortest + 2) / 1000)
        inner = below.path(one, other)[1:-1]
        assert sum(links[link] for link in inner) == pytest.approx(shortest)
        assert below.length(one, other) == pytest.approx(below.length(other, one))


def test_a_node_has_a_line_of_its_own() -> None:
    below = Underlay(LINE, seed=1, places={0: "a", 1: "a"})
    assert below.path(0, 1) == (("a", "node 0"), ("a", "node 1"))
    assert below.length(0, 1) == 0.002
    assert below.path(0, 0) == ()
    assert below.length(0, 0) == 0


def test_stress_counts_the_copies_that_cross_a_link() -> None:
    below = Underlay(LINE, seed=1, places=AT)
    world, nodes = chain_of(below, 4)
    load = UnderlayLoad(below)
    world.observe(load)
    for to in (1, 2, 3):
        world.call(0, lambda to=to: nodes[0].send(to, Copy(())), cause=("publish", "star"))  # type: ignore[misc]
    world.run()
    assert load.stress(("publish", "star")) == {
        ("a", "node 0"): 3,
        ("a", "b"): 3,
        ("b", "c"): 2,
        ("c", "d"): 1,
        ("b", "node 1"): 1,
        ("c", "node 2"): 1,
        ("d", "node 3"): 1,
    }
    summary = load.summary()
    assert (summary.operations, summary.largest_stress) == (1, 3)
    assert summary.stress == pytest.approx(12 / 7)
    assert (summary.stretch, summary.largest_stretch) == (1, 1), "each took the direct way"


def test_stretch_is_the_way_taken_over_the_direct_way() -> None:
    below = Underlay(LINE, seed=1, places=AT)
    world, nodes = chain_of(below, 4)
    load = UnderlayLoad(below)
    world.observe(load)
    world.call(0, lambda: nodes[0].send(3, Copy((1, 2))), cause=("publish", "zigzag"))
    world.run()
    there, back, again = 32, 22, 12
    assert load.stretches == pytest.approx([1, (there + back) / 12, (there + back + again) / 22])
    assert load.stress(("publish", "zigzag"))["a", "b"] == 1
    assert load.stress(("publish", "zigzag"))["b", "c"] == 3


def test_other_operations_and_acknowledgements_are_not_counted() -> None:
    below = Underlay(LINE, seed=1, places=AT)
    world, nodes = chain_of(below, 4)
    load = UnderlayLoad(below)
    world.observe(load)
    world.call(0, lambda: nodes[0].send(1, Copy(())), cause=("subscribe", "s"))
    world.call(0, lambda: nodes[0].send(1, Copy(())))
    world.run()
    summary = load.summary()
    assert (summary.operations, summary.stress, summary.stretch) == (0, 0, 0)
    assert load.stress(("publish", "e")) == {}


def test_a_seed_is_an_internetwork() -> None:
    one, same, other = (Underlay.transit_stub(seed=seed) for seed in (1, 1, 2))
    assert len(one.routers) == 4 * 4 * (1 + 3 * 8)
    nodes = range(60)
    lengths = [[below.length(0, node) for node in nodes] for below in (one, same, other)]
    assert lengths[0] == lengths[1] != lengths[2]
    assert all(one.router(node).startswith("stub") for node in nodes)
    assert any(link[1].startswith("transit") for node in nodes for link in one.path(0, node))
    assert 0.02 < sum(lengths[0]) / 60 < 0.3


def test_links_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "links.txt"
    path.write_text("# two links\nathens,patras,4.5\n\npatras  corfu 3 # by sea\npatras corfu 9\n")
    below = Underlay.read(path, seed=1, places={1: "athens", 2: "corfu"})
    assert below.routers == ("athens", "corfu", "patras")
    assert below.length(1, 2) == pytest.approx(0.0095)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "has no link"),
        ("a b 1\na b\n", ":2: two routers and milliseconds are expected, not 2 things"),
        ("a b 1\n\nb c far\n", ":3: 'far' is no time"),
        ("a b 0\n", ":1: '0' is no time"),
        ("a a 1\n", ":1: a link leads from a to itself"),
        ("a b 1\nc d 1\n", "no way leads from a to c"),
    ],
)
def test_a_bad_file_is_told_with_its_line(tmp_path: Path, text: str, complaint: str) -> None:
    path = tmp_path / "links.txt"
    path.write_text(text)
    with pytest.raises(DistributaryError) as caught:
        Underlay.read(path, seed=1)
    assert complaint in str(caught.value)


def test_bad_settings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DistributaryError, match="cannot read"):
        Underlay.read(tmp_path / "nothing", seed=1)
    with pytest.raises(DistributaryError, match="'z', which has no link"):
        Underlay(LINE, seed=1, places={1: "z"})
    with pytest.raises(DistributaryError, match="more than 0 ms"):
        Underlay([("a", "b", -1)], seed=1)
    with pytest.raises(DistributaryError, match="to itself"):
        Underlay([("a", "a", 1)], seed=1)
    with pytest.raises(DistributaryError, match="at least one link"):
        Underlay([], seed=1)
