"""The attribute system delivers exactly what the filters say, whatever the schema, placement and matching."""

from __future__ import annotations

from random import Random

import pytest

from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.placement import ArcPlacement, AttributeAxis, CellWeight
from systems.attributes.worlds import (
    MATCHINGS,
    PLACEMENTS,
    World,
    random_addresses,
    random_run,
    random_schema,
)


@pytest.mark.parametrize("match", MATCHINGS)
@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("seed", range(6))
def test_deliveries_are_those_of_the_filters_one_by_one(seed: int, placement: str, match: str) -> None:
    random = Random(f"{seed} {placement} {match}")
    addresses = random_addresses(random, random.choice([1, 2, 3, 8, 24]))
    world = World(addresses, random_schema(random), placement=PLACEMENTS[placement], match=match)
    random_run(world, random, 80)
    world.check()
    for name in list(world.subscriptions):
        world.unsubscribe(name)
    world.run()
    assert not world.stored_at()


@pytest.mark.parametrize("match", MATCHINGS)
@pytest.mark.parametrize("seed", range(4))
def test_values_on_several_nodes_are_found_on_each(seed: int, match: str) -> None:
    random = Random(f"{seed} {match}")
    addresses = random_addresses(random, 16)

    def unequal(circle: Circle, axis: AttributeAxis) -> ArcPlacement:
        lookups = Random(f"{seed} {axis}")
        weights = {cell: CellWeight(2 ** lookups.randrange(8)) for cell in range(axis.cells)}
        return ArcPlacement.balanced(circle, axis, addresses, weights, version=(0, 0))

    world = World(addresses, random_schema(random), placement=unequal, match=match)
    random_run(world, random, 80)
    world.check()
