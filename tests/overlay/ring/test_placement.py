"""Placements: what is looked up is where it was stored, and balanced arcs are balanced."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.placement import (
    ArcPlacement,
    AttributeAxis,
    AttributePlacement,
    CellWeight,
    OrderedPlacement,
    ScatteredPlacement,
    divide,
)

CIRCLE = Circle(32)


def balanced(random: Random, axis: AttributeAxis, nodes: int, weights: dict[int, CellWeight]) -> ArcPlacement:
    identifiers = random.sample(range(CIRCLE.size), nodes)
    return ArcPlacement.balanced(CIRCLE, axis, identifiers, weights, version=(1, 0))


def some_placement(random: Random) -> tuple[AttributePlacement, AttributeAxis]:
    axis = AttributeAxis("a", random.choice([1, 2, 9, 100, 5000]))
    nodes = random.choice([1, 3, 20, 300])
    weights = {
        random.randrange(axis.grains): CellWeight(random.randrange(50), random.randrange(50))
        for _ in range(random.choice([0, 1, 30]))
    }
    placements: list[AttributePlacement] = [
        ScatteredPlacement(CIRCLE, axis),
        OrderedPlacement(CIRCLE, axis),
        ArcPlacement.evenly(CIRCLE, axis),
        balanced(random, axis, nodes, weights),
    ]
    return random.choice(placements), axis


@pytest.mark.parametrize("seed", range(60))
def test_every_cell_of_a_run_is_looked_up_at_a_key_that_stores_it(seed: int) -> None:
    random = Random(seed)
    placement, axis = some_placement(random)
    first = random.randrange(axis.cells)
    last = min(axis.cells - 1, first + random.randrange(200))
    stored = {
        (each.key, cell)
        for each in placement.stored(first, last)
        for cell in range(each.first, each.last + 1)
    }
    for cell in range(first, last + 1):
        assert {(placement.key(cell, choice), cell) for choice in range(10)} <= stored


@pytest.mark.parametrize("seed", range(20))
def test_ordered_and_arcs_keep_the_order_of_cells(seed: int) -> None:
    random = Random(seed)
    axis = AttributeAxis("a", random.choice([2, 9, 100]))
    arcs = balanced(random, axis, 30, {random.randrange(axis.cells): CellWeight(9, 2) for _ in range(20)})
    for placement in (OrderedPlacement(CIRCLE, axis), ArcPlacement.evenly(CIRCLE, axis), arcs):
        start = placement.key(0, 0)
        ways = [CIRCLE.clockwise(start, placement.key(cell, 0)) for cell in range(axis.cells - 1)]
        assert ways == sorted(ways)


def test_arcs_of_a_small_domain_lie_on_nodes_that_follow_one_another() -> None:
    random = Random(4)
    nodes = sorted(random.sample(range(CIRCLE.size), 1000))
    weights = {cell: CellWeight(1, 1) for cell in range(10)}
    arcs = ArcPlacement.balanced(
        CIRCLE, AttributeAxis("a", 10), nodes, weights, version=(1, 0), most_copies=1
    )
    places = [nodes.index(arcs.key(cell, 0)) for cell in range(10)]
    assert places == [(places[0] + step) % 1000 for step in range(10)]


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0])
def test_arcs_weigh_alike_however_skewed_the_lookups_are(exponent: float) -> None:
    nodes, axis = 64, AttributeAxis("a", 2000)
    weights = {
        cell: CellWeight(int(100_000 / (1 + abs(cell - 700)) ** exponent)) for cell in range(axis.cells)
    }
    arcs = balanced(Random(1), axis, nodes, weights)
    load: Counter[int] = Counter()
    for cell, weight in weights.items():
        for choice in range(8):
            load[arcs.key(cell, choice)] += weight.lookups / 8  # type: ignore[assignment]
    mean = sum(load.values()) / nodes
    evenly: Counter[int] = Counter()
    for cell, weight in weights.items():
        evenly[OrderedPlacement(CIRCLE, axis).key(cell, 0) * nodes // CIRCLE.size] += weight.lookups
    assert max(load.values()) < 2.5 * mean
    if exponent:
        assert max(load.values()) < max(evenly.values()) / 1.5


def test_a_cell_that_outweighs_an_arc_gets_several_keys_up_to_a_limit() -> None:
    divided = divide(
        AttributeAxis("a", 100), 50, {7: CellWeight(lookups=900), 50: CellWeight(lookups=100)}, most_copies=8
    )
    assert divided[7] == 8
    assert divided[50] == 5
    assert divided[51] == divided[8] == 1


def test_grains_partition_the_cells_of_a_large_domain() -> None:
    axis = AttributeAxis("a", 1_000_003)
    for grain in (0, 1, 17, 4095):
        first = axis.first_of(grain)
        assert axis.grain_of(first) == grain
        assert first == 0 or axis.grain_of(first - 1) == grain - 1
