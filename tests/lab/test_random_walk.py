"""The cost model of a random walk, held against what is measured."""

from __future__ import annotations

from collections import Counter
from math import sqrt
from random import Random
from typing import Any

import pytest

from distributary.errors import DistributaryError
from distributary.matching.change.decomposition import parts_of
from distributary.matching.matcher import Matcher
from distributary.model import Event, Subscription
from distributary.overlay.node import Address, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.ring import Ring, settle
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Simulator
from distributary.systems.state_aware.broker import StateAwareBroker
from distributary.systems.state_aware.mfd import MFDBroker
from distributary.systems.state_aware.segments import Segments
from distributary.systems.state_aware.sf import SFBroker
from distributary_lab.state_aware.random_walk import Moves, crossing, passing_rates

COIN: Moves = {-1: 0.5, 1: 0.5}
LIVELY: Moves = {-7: 0.1, -2: 0.2, 0: 0.2, 1: 0.3, 3: 0.1, 5: 0.1}


def walk(moves: Moves, values: int, seed: int) -> list[int]:
    random, at, found = Random(seed), 0, []
    for move in random.choices(list(moves), list(moves.values()), k=values):
        at += move
        found.append(at)
    return found


def near(measured: int, values: int, rate: float) -> bool:
    """Whether so many of these values are what the rate lets expect, within four standard deviations."""
    return abs(measured - values * rate) <= 4 * sqrt(values * rate) + 1


@pytest.mark.parametrize("tolerance", [0, 1, 5, 20, 63])
def test_a_tossed_coin_takes_the_square_of_the_distance(tolerance: int) -> None:
    assert crossing(COIN, tolerance).values == pytest.approx((tolerance + 1) ** 2)
    assert passing_rates(COIN, [tolerance]) == pytest.approx([(tolerance + 1) ** -2])


@pytest.mark.parametrize("moves", [COIN, LIVELY], ids=["coin", "lively"])
@pytest.mark.parametrize("engine", ["sf", "mfd"])
def test_the_matcher_delivers_as_often_as_is_computed(engine: str, moves: Moves) -> None:
    tolerances = [0, 2, 5, 10, 13]
    matcher = Matcher(
        [Subscription(str(each), str(each), topic="t", change={"d": each}) for each in tolerances],
        engines={"change": engine},
    )
    values = walk(moves, 15_000, seed=1)
    got = Counter(name for value in values for name in matcher.match(Event("e", "t", {"d": value})))
    for each in tolerances:
        widths = parts_of(each) if engine == "mfd" and each else [each]
        assert near(got[str(each)], len(values), passing_rates(moves, widths)[-1]), each


def network(make: type[StateAwareBroker], seed: int) -> tuple[Deployment, list[Address]]:
    circle, addresses = Circle(16), sorted(Random(seed).sample(range(1 << 16), 20))
    segments = Segments.spanning(circle, nodes=8, of=20)
    world = Simulator(seed, ConstantLatency(0.05))
    deployment = Deployment(world, lambda address: make(Ring(Node(address), circle), segments), sizes=False)
    deployment.add_settled(addresses, lambda members: settle([each.ring for each in members]))
    return deployment, addresses


def test_levels_of_a_network_are_reached_as_often_as_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    reached: Counter[int] = Counter()
    cast = MFDBroker._cast

    def count(self: MFDBroker, message: Any) -> None:
        reached[message.level] += 1
        cast(self, message)

    monkeypatch.setattr(MFDBroker, "_cast", count)
    values = walk(LIVELY, 1500, seed=2)
    delivered = {}
    for make in (SFBroker, MFDBroker):
        deployment, addresses = network(make, seed=2)
        deployment.subscribe(Subscription("s", "s", topic="A/B/C", change={"d": 21}), at=addresses[3])
        for number, value in enumerate(values):
            deployment.simulator.run(until=10.0 * (number + 1))
            deployment.publish(Event(f"e{number}", "A/B/C", {"d": value}), at=addresses[9])
        deployment.simulator.run()
        delivered[make] = len(deployment.deliveries)
    single, levels = passing_rates(LIVELY, [21]), passing_rates(LIVELY, [1, 4, 16])
    assert near(delivered[SFBroker], len(values), single[0])
    assert near(delivered[MFDBroker], len(values), levels[2])
    assert reached[1] == len(values)
    assert near(reached[2], len(values), levels[0])
    assert near(reached[3], len(values), levels[1])


@pytest.mark.parametrize("moves", [{0: 1.0}, {1: 0.5}, {1: 1.5, -1: -0.5}])
def test_moves_that_make_no_sense_are_refused(moves: Moves) -> None:
    with pytest.raises(DistributaryError):
        crossing(moves, 3)
