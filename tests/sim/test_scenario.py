"""Scenarios: what they promise, what seeds draw, and how a failure is run again."""

from __future__ import annotations

from itertools import pairwise
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from distributary.errors import DistributaryError
from distributary.sim.faults import (
    ClockDrift,
    ClockSkew,
    Crash,
    DelaySpike,
    Duplication,
    Fault,
    Loss,
    NodeJoin,
    NodeLeave,
    Partition,
    Pause,
    Reordering,
)
from distributary.sim.latency import UniformLatency
from distributary.sim.scenario import SCENARIOS, BrokenPromiseError, Scenario, random_scenario
from distributary.sim.simulator import Simulator
from replay import replayed_by
from sim.chatter import chatting

NODES = range(8)
SPARES = (100, 101, 102)
OF_MANY = Loss | Duplication | Reordering | DelaySpike | ClockSkew | ClockDrift


def run(scenario: Scenario, seed: int = 1) -> None:
    population = chatting(Simulator(seed, UniformLatency(0.02, 0.1, seed=seed)), len(NODES), every=0.5)
    injection = scenario.inject(population)
    population.simulator.run(until=scenario.healed)
    scenario.require_fired(injection)


def test_a_scenario_that_injects_nothing_of_what_it_promised_fails() -> None:
    before_anybody_talks = Scenario.of("too early", [Loss(start=0.0, end=0.01, probability=1)])
    with pytest.raises(BrokenPromiseError, match=r"'too early' promised loss, but never injected: loss"):
        run(before_anybody_talks)


def test_a_broken_promise_is_told_by_its_kind() -> None:
    scenario = Scenario.of("half", [Loss(start=1, end=2, probability=1), Pause(start=1, end=2, node=99)])
    with pytest.raises(BrokenPromiseError, match=r"never injected: pause$"):
        run(scenario)


def test_promises_can_be_more_than_the_faults_there_are() -> None:
    with pytest.raises(BrokenPromiseError, match="never injected: leave"):
        run(Scenario("empty", (), ("leave",), healed=1.0))


def test_a_scenario_that_kept_its_promises_passes() -> None:
    run(Scenario.of("crash", [Crash(start=1, end=2, node=3)]))
    run(Scenario.of("calm", []))


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_named_scenario_fires(name: str) -> None:
    scenario = random_scenario(3, NODES, kinds=SCENARIOS[name], spares=SPARES, start=2, duration=40, gap=1)
    assert set(SCENARIOS[name]) <= set(scenario.promises)
    run(scenario)


@settings(max_examples=15, deadline=None)
@given(some.integers(0, 10**9))
def test_scenarios_of_any_seed_keep_their_promises(seed: int) -> None:
    run(random_scenario(seed, NODES, spares=SPARES, start=1, duration=30, gap=1), seed)


def nodes_of(fault: Fault) -> set[int]:
    return set(fault.side) if isinstance(fault, Partition) else {getattr(fault, "node", -1)} - {-1}


@given(some.integers(0, 10**9), some.integers(1, 3), some.integers(1, 3))
def test_no_more_is_out_of_order_at_once_than_asked_for(seed: int, at_once: int, side: int) -> None:
    scenario = random_scenario(
        seed,
        range(40),
        kinds=SCENARIOS["everything"],
        spares=SPARES,
        start=5,
        duration=100,
        at_once=at_once,
        gap=3,
        largest_side=side,
    )
    assert scenario.healed == 105
    of_nodes = [fault for fault in scenario.faults if nodes_of(fault)]
    for fault in scenario.faults:
        assert 5 <= fault.start <= fault.end <= 105
        assert isinstance(fault, OF_MANY) == (fault not in of_nodes)
    for moment in {fault.start for fault in of_nodes}:
        on = [fault for fault in of_nodes if fault.start <= moment < fault.end + 3 - 1e-6]
        assert len(on) <= at_once
    touched = [node for fault in of_nodes for node in nodes_of(fault)]
    assert len(touched) == len(set(touched)), "each node suffers one fault at most"
    assert all(len(nodes_of(fault)) <= side for fault in of_nodes)
    if at_once == 1:
        for one, other in pairwise(of_nodes):
            assert other.start >= one.end + 3 - 1e-6


def test_a_seed_is_a_scenario() -> None:
    assert random_scenario(5, NODES) == random_scenario(5, NODES)
    assert random_scenario(5, NODES).faults != random_scenario(6, NODES).faults
    drawn = [fault for seed in range(50) for fault in random_scenario(seed, NODES).faults]
    assert not any(isinstance(fault, NodeJoin) for fault in drawn), "for there are no spares"
    assert any(isinstance(fault, NodeLeave) for fault in drawn)


def test_what_cannot_be_drawn_is_told() -> None:
    with pytest.raises(DistributaryError, match="'fire'; there are loss, duplication"):
        random_scenario(1, NODES, kinds=["fire"])
    with pytest.raises(DistributaryError, match="no node is left for a join"):
        random_scenario(1, NODES, kinds=["join"])
    with pytest.raises(DistributaryError, match="do not fit into 10 s"):
        random_scenario(1, NODES, kinds=SCENARIOS["nodes"], spares=SPARES, duration=10)
    with pytest.raises(DistributaryError, match="no node is left"):
        random_scenario(1, range(2), kinds=SCENARIOS["nodes"], spares=SPARES)


def test_a_crash_for_ever_does_not_delay_healing_for_ever() -> None:
    scenario = Scenario.of("end", [Crash(start=1, node=2), Pause(start=1, end=2, node=0)])
    assert scenario.healed == 2
    assert scenario.faults[0].end == inf


def test_a_failure_tells_the_command_that_runs_it_again() -> None:
    with pytest.raises(ZeroDivisionError) as caught, replayed_by("distributary sim run loss --seed 7"):
        _ = 1 / 0
    assert caught.value.__notes__ == ["run it again with: distributary sim run loss --seed 7"]
