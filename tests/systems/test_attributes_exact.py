"""The attribute system delivers exactly what the filters say, whatever the schema, placement and matching."""

from __future__ import annotations

from random import Random

import pytest

from systems.attribute_worlds import (
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
