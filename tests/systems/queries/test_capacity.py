"""Constraints on nodes hold live: nothing moves where there is no room, and overloaded nodes are relieved."""

from __future__ import annotations

import pytest

from distributary.flow import Catalogue, Item, QueryBuilder
from distributary.overlay.node import Address, Message
from distributary.overlay.wire import size_of
from distributary.plan.goal import Place
from distributary.plan.queries.goals import parse_query_goal
from distributary.plan.trees.metrics import measured
from distributary.sim.faults import Duplication, Injection, Loss
from distributary.sim.latency import Latency
from distributary.sim.processor import SimulatedProcessor
from distributary.systems.queries.settings import QueryOptimiserSettings
from systems.queries.test_optimiser import FAR, SOURCES, Told, finish, queries, steady, ways_of_telling
from systems.queries.worlds import LineLatency, World, expect_equal

ROOMY = "minimise aggregate(SUM, incoming rate, BROKERS)"
BOUNDED = f"{ROOMY}\nsubject to node load <= capacity"


def optimising(goal: str, told: Told) -> QueryOptimiserSettings:
    return QueryOptimiserSettings(parse_query_goal(goal), period=8.0, window=1.0, told=told)


SLOW = {1, 2}
"""The nodes at the sources."""


def hosts_over_time(goal: str, told: Told) -> tuple[World, set[Address]]:
    """All nodes that ever hosted an operator of queries whose sources are at slow nodes."""
    processors = {node: SimulatedProcessor(0.5 if node in SLOW else 1000.0) for node in range(1, 7)}
    world = World(6, 3, optimising=optimising(goal, told), processors=processors)
    world.register(queries(2), FAR)
    fed: dict[str, list[Item]] = {}
    hosted: set[Address] = set()
    run = world.run

    def watched(seconds: float) -> None:
        run(seconds)
        hosted.update(at for _, at in world.operators())

    world.run = watched  # type: ignore[method-assign]
    fed = steady(world, 60)
    if goal == BOUNDED:
        finish(world)
        expect_equal(world, queries(2), fed)
    return world, hosted


@ways_of_telling
def test_nothing_moves_to_a_node_that_has_no_room(told: Told) -> None:
    _, anywhere = hosts_over_time(ROOMY, told)
    assert SLOW & anywhere, "it would be best there, next to the sources"
    world, hosted = hosts_over_time(BOUNDED, told)
    assert not SLOW & hosted
    assert sum(broker.reconfiguration.moves for broker in world.brokers) > 0


CHEAP = 4
"""The node that all operators go to, if they may."""
RENT = "minimise aggregate(SUM, rent * operators, BROKERS)"
WIDE = "subject to aggregate(MIN, bandwidth, UPSTREAM OPERATORS) >= 30 * input rate"


class NarrowInto(Latency):
    """Another model's delays, plus the time that one node's line takes to receive a message."""

    def __init__(self, latency: Latency, node: Address, bytes_per_second: float) -> None:
        super().__init__()
        self._latency, self._node, self._rate = latency, node, bytes_per_second
        self._free = 0.0

    def delay(self, now: float, sender: Address, to: Address, message: Message) -> float:
        delay = self._latency.delay(now, sender, to, message)
        if to == self._node:
            self._free = max(now, self._free) + size_of(message) / self._rate
            delay += self._free - now
        return delay


def at_cheap(goal: str, line: float) -> set[str]:
    """The operators that end up at the cheapest node, whose line brings it so many bytes a second.

    They may all go there before anything flows, and have to leave when more flows than there is room for.
    """
    own = {"rent": measured("rent", Place.NODE)}
    settings = QueryOptimiserSettings(
        parse_query_goal(goal, own),
        period=8.0,
        window=1.0,
        node_gauges={"rent": lambda node: 1.0 if node == CHEAP else 9.0},
    )
    network = NarrowInto(LineLatency(3, jitter=0.0), CHEAP, line)
    world = World(6, 3, network=network, optimising=settings)
    world.run(240)  # bandwidths are measured
    catalogue = queries(2)
    world.register(catalogue, {"trades": 1, "quotes": 2, "q0": 5, "q1": 6})
    fed = steady(world, 60)
    found = {name for name, at in world.operators() if at == CHEAP}
    finish(world)
    expect_equal(world, catalogue, fed)
    return found


@pytest.mark.parametrize(
    ("goal", "line", "stays"),
    [(RENT, 4_000.0, True), (f"{RENT}\n{WIDE}", 4_000.0, False), (f"{RENT}\n{WIDE}", 1_000_000.0, True)],
    ids=["no limit", "narrow", "wide"],
)
def test_nothing_stays_behind_a_link_that_was_measured_to_be_too_narrow(
    goal: str, line: float, stays: bool
) -> None:
    """The unions read everything; filters, which are sent what passes them, find room on either line."""
    found = at_cheap(goal, line)
    assert ("q0.both" in found) == stays
    assert "q0.large" in found


def overloaded(told: Told, faults: bool) -> dict[str, Address]:
    """Two copies begin at their client's node, which is too slow for both; returns where they go.

    What they give out is longer than what they read, so elsewhere they cost more.
    """
    made = []
    for number in range(2):
        build = QueryBuilder(f"q{number}")
        longer = {"size": f"the_size_{number}_again", "symbol": "the_symbol_of_it_again"}
        build.copy("again", SOURCES[number].name, longer)
        made.append(build.query())
    catalogue = Catalogue(SOURCES, made)
    processors = {node: SimulatedProcessor(6.0 if node == 4 else 1000.0) for node in range(1, 6)}
    world = World(5, 9, optimising=optimising(BOUNDED, told), processors=processors)
    world.register(catalogue, {"trades": 1, "quotes": 2, "q0": 4, "q1": 4})
    fired: dict[str, int] = {}
    if faults:
        now = world.simulator.now
        told_of = [
            Loss(start=now, end=now + 60, probability=0.1),
            Duplication(start=now, end=now + 60, probability=0.1, within=0.5),
        ]
        fired = Injection(world.population, told_of).fired
    fed = steady(world, 90)
    assert not faults or (fired["loss"] and fired["duplication"])
    hosts = dict(world.operators())
    assert [broker.engine.queue.backlog for broker in world.brokers] == [0] * 5
    finish(world)
    expect_equal(world, catalogue, fed)
    return hosts


@ways_of_telling
@pytest.mark.parametrize("faults", [False, True])
def test_an_overloaded_node_has_operators_moved_off_it(told: Told, faults: bool) -> None:
    assert list(overloaded(told, faults).values()).count(4) <= 1, "there is room for one"
