"""A vertex finds the homes that an event concerns, as comparing every filter with it does."""

from __future__ import annotations

from random import Random

import pytest

from distributary.model import SubscriptionKey
from distributary.systems.hope.broker import Vertex
from distributary.systems.hope.messages import RegistrationName

BITS = 6


@pytest.mark.parametrize("seed", range(30))
def test_homes_are_those_of_all_filters_that_an_event_covers(seed: int) -> None:
    random = Random(seed)
    vertex, registered = Vertex(), dict[RegistrationName, int]()
    for _ in range(60):
        home, number = random.randrange(1 + seed % 5), random.randrange(8)
        name = RegistrationName(SubscriptionKey("ann", f"s{number}"), home)
        filter = None if random.random() < 0.3 else random.getrandbits(BITS) & random.getrandbits(BITS)
        vertex.update(name, filter)
        registered.pop(name, None)
        if filter is not None:
            registered[name] = filter
        event = random.getrandbits(BITS)
        elsewhere = {home for home in range(6) if random.random() < 0.3}
        found = set(elsewhere)
        vertex.find_homes(event, found)
        assert found == elsewhere | {name.home for name, asked in registered.items() if not asked & ~event}
