"""Faults: each changes what it says, within its window, and counts; nothing else changes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from math import inf

import pytest

from distributary.errors import DistributaryError
from distributary.sim.faults import (
    KINDS,
    ClockDrift,
    ClockSkew,
    Crash,
    DelaySpike,
    Duplication,
    Fault,
    Injection,
    Loss,
    NodeJoin,
    NodeLeave,
    Partition,
    Pause,
    Reordering,
    kinds_of,
)
from distributary.sim.latency import ConstantLatency
from distributary.sim.population import Population
from distributary.sim.simulator import Simulator
from sim.chatter import Chatter, Word, chatting

END = 9.0
Heard = dict[int, list[tuple[float, int, int]]]


def ran(*faults: Fault, count: int = 4) -> tuple[Heard, Injection, Population[Chatter]]:
    """Four nodes talk for nine seconds, 50 ms away from each other, while this happens."""
    population = chatting(Simulator(1, ConstantLatency(0.05)), count)
    injection = Injection(population, faults)
    population.simulator.run(until=END)
    return {address: member.heard for address, member in population.members.items()}, injection, population


def links(heard: Heard) -> Counter[tuple[int, int]]:
    return Counter((sender, to) for to, words in heard.items() for _, sender, _ in words)


def said_by(sender: int, words: list[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
    return [word for word in words if word[1] == sender]


def outside(heard: Heard, start: float, end: float) -> Heard:
    return {to: [word for word in words if not start <= word[0] < end] for to, words in heard.items()}


CALM, _, _ = ran()

MESSAGE_FAULTS = [
    Loss(start=3, end=6, probability=0.3),
    Duplication(start=3, end=6, probability=0.3, within=0.5),
    Reordering(start=3, end=6, probability=0.3, by=0.5),
    DelaySpike(start=3, end=6, extra=0.4),
    Partition(start=3, end=6, side=(1,)),
    Partition(start=3, end=6, side=(0, 1), one_way=True),
]
NODE_FAULTS = [
    Crash(start=3, end=6, node=2),
    Crash(start=3, end=6, node=2, keep_state=False),
    Pause(start=3, end=6, node=2),
    NodeLeave(start=3, node=2),
]

CLOCK_FAULTS = [ClockSkew(start=3, nodes=(1, 2), ahead=5), ClockDrift(start=3, end=6, nodes=(2,), rate=1.5)]


def name(fault: Fault) -> str:
    return kinds_of(fault)[-1]


def test_there_is_calm_without_faults() -> None:
    again, injection, _ = ran()
    assert again == CALM
    assert injection.fired == {}


@pytest.mark.parametrize("fault", [*MESSAGE_FAULTS, *NODE_FAULTS, *CLOCK_FAULTS], ids=name)
def test_a_fault_fires_and_counts_as_its_kind_and_no_other(fault: Fault) -> None:
    heard, injection, _ = ran(fault)
    assert heard != CALM
    assert set(injection.fired) == set(kinds_of(fault))
    assert set(injection.fired) <= set(KINDS)


@pytest.mark.parametrize("fault", [*MESSAGE_FAULTS, *NODE_FAULTS, *CLOCK_FAULTS], ids=name)
def test_before_its_window_a_fault_changes_nothing(fault: Fault) -> None:
    heard, _, _ = ran(fault)
    for address in (0, 1, 3):  # what node 2 heard is gone where it left or lost its state
        assert outside(heard, 3, inf)[address] == outside(CALM, 3, inf)[address]


@pytest.mark.parametrize("fault", MESSAGE_FAULTS, ids=name)
def test_after_its_window_a_fault_of_messages_changes_nothing(fault: Fault) -> None:
    heard, _, _ = ran(fault)
    assert outside(heard, 0, 7) == outside(CALM, 0, 7)


@pytest.mark.parametrize("fault", [*MESSAGE_FAULTS, *NODE_FAULTS, *CLOCK_FAULTS], ids=name)
def test_the_same_seed_gives_the_same_faults(fault: Fault) -> None:
    (one, first, _), (other, second, _) = ran(fault), ran(fault)
    assert one == other
    assert first.fired == second.fired


def test_a_fault_counts_every_message_that_it_loses() -> None:
    heard, injection, _ = ran(Loss(start=3, end=6, probability=0.3))
    lost = sum(links(CALM).values()) - sum(links(heard).values())
    assert injection.fired == {"loss": lost}
    crossing = sum(3 <= time - 0.05 < 6 and sender != to for to in CALM for time, sender, _ in CALM[to])
    assert 0.2 < lost / crossing < 0.4


def test_what_a_node_sends_to_itself_is_spared() -> None:
    heard, _, _ = ran(Loss(start=0, end=END, probability=1.0))
    assert set(links(heard)) == {(address, address) for address in range(4)}


@pytest.mark.parametrize(
    "make",
    [
        lambda: Loss(start=3, end=6, probability=1, nodes=(2,)),
        lambda: DelaySpike(start=3, end=6, extra=0.4, nodes=(2,)),
        lambda: Duplication(start=3, end=6, probability=1, nodes=(2,)),
        lambda: Reordering(start=3, end=6, probability=0.5, nodes=(2,)),
    ],
    ids=["loss", "delay spike", "duplication", "reordering"],
)
def test_a_fault_of_some_nodes_concerns_messages_from_and_to_them(make: Callable[[], Fault]) -> None:
    heard, _, _ = ran(make())
    changed = {
        (sender, to)
        for to in CALM
        for sender in range(4)
        if said_by(sender, heard[to]) != said_by(sender, CALM[to])
    }
    assert changed == {(2, 0), (2, 1), (2, 3), (0, 2), (1, 2), (3, 2)}


def test_a_duplicated_message_arrives_twice_and_none_is_missing() -> None:
    heard, injection, _ = ran(Duplication(start=3, end=6, probability=0.3, within=0.5))
    for to, words in heard.items():
        assert {word[1:] for word in words} == {word[1:] for word in CALM[to]}
        assert max(Counter(word[1:] for word in words).values()) == 2
    extra = sum(links(heard).values()) - sum(links(CALM).values())
    assert injection.fired == {"duplication": extra}


def test_reordering_lets_later_messages_overtake_and_loses_none() -> None:
    heard, injection, _ = ran(Reordering(start=3, end=6, probability=0.3, by=0.5))
    assert links(heard) == links(CALM)
    inversions = sum(
        later < earlier
        for to, words in heard.items()
        for sender in range(4)
        for numbers in [[word[2] for word in words if word[1] == sender]]
        for earlier, later in pairwise(numbers)
    )
    assert inversions > 0
    assert injection.fired["reordering"] > 0


def test_held_back_by_less_than_the_pause_between_messages_is_not_reordered() -> None:
    _, injection, _ = ran(Reordering(start=3, end=6, probability=0.3, by=0.05))
    assert injection.fired == {}


def test_a_spike_delays_messages_and_keeps_their_order() -> None:
    heard, injection, _ = ran(DelaySpike(start=3, end=6, extra=0.4))
    for to, words in heard.items():
        for sender in set(range(4)) - {to}:
            said = [(time, number) for time, who, number in words if who == sender]
            assert [number for _, number in said] == list(range(1, len(said) + 1))
            late = [time for time, number in said if 3.1 < 0.1 * number < 5.9]
            expected = [0.1 * number + 0.45 for _, number in said if 3.1 < 0.1 * number < 5.9]
            assert late == pytest.approx(expected)
    crossing = sum(3 <= time - 0.05 < 6 and sender != to for to in CALM for time, sender, _ in CALM[to])
    assert injection.fired == {"delay spike": crossing}


def test_a_partition_cuts_both_ways_and_a_one_way_partition_only_from_its_side() -> None:
    during = slice(35, 55)
    for one_way in (False, True):
        heard, injection, _ = ran(Partition(start=3, end=6, side=(0, 1), one_way=one_way))
        silent = {
            (sender, to)
            for to in range(4)
            for sender in range(4)
            if not any(who == sender and number in range(100)[during] for _, who, number in heard[to])
        }
        from_side = {(0, 2), (0, 3), (1, 2), (1, 3)}
        to_side = {(to, sender) for sender, to in from_side}
        assert silent == (from_side if one_way else from_side | to_side)
        kind = "one-way partition" if one_way else "partition"
        assert injection.fired == {kind: sum(links(CALM).values()) - sum(links(heard).values())}


def test_a_crashed_node_says_and_hears_nothing_and_goes_on_with_its_state() -> None:
    heard, injection, population = ran(Crash(start=3.01, end=6.01, node=2))
    assert not any(3.01 < time < 6.01 for time, _, _ in heard[2])
    assert not any(3.07 < time < 6.01 for time, sender, _ in heard[0] if sender == 2)
    numbers = [number for _, sender, number in heard[0] if sender == 2]
    assert numbers == list(range(1, len(numbers) + 1)), "it goes on where it was"
    assert injection.fired == {"crash": 1, "restart with state": 1}
    assert population.up() == [0, 1, 2, 3]


def test_a_node_that_restarts_without_its_state_starts_anew() -> None:
    heard, injection, population = ran(Crash(start=3.01, end=6.01, node=2, keep_state=False))
    numbers = [number for _, sender, number in heard[0] if sender == 2]
    assert numbers == [*range(1, 31), *range(1, len(numbers) - 29)]
    assert all(time > 6.01 for time, _, _ in population.members[2].heard)
    assert injection.fired == {"crash": 1, "restart without state": 1}


def test_a_crash_may_be_for_ever() -> None:
    _, injection, population = ran(Crash(start=3, node=2))
    assert injection.fired == {"crash": 1}
    assert population.up() == [0, 1, 3]


def test_a_paused_node_hears_all_that_was_said_meanwhile() -> None:
    heard, injection, _ = ran(Pause(start=3, end=6, node=2))
    assert not any(3 < time < 6 for time, _, _ in heard[2])
    calm = [word[1:] for word in CALM[2] if word[1] != 2]
    assert [word[1:] for word in heard[2] if word[1] != 2] == calm
    assert injection.fired == {"pause": 1}


def test_nodes_come_and_go() -> None:
    heard, injection, population = ran(NodeJoin(start=3, node=7), NodeLeave(start=5, node=1))
    assert population.up() == [0, 2, 3, 7]
    assert min(time for time, sender, _ in heard[0] if sender == 7) == pytest.approx(3.15)
    assert max(time for time, sender, _ in heard[0] if sender == 1) < 5.1
    assert injection.fired == {"join": 1, "leave": 1}


def test_a_node_that_can_say_farewell_has_time_to() -> None:
    class Polite(Chatter):
        def leave(self) -> None:
            for address in self.everybody:
                self.node.send(address, Word(-1))

    world = Simulator(1, ConstantLatency(0.05))
    population = Population(world, lambda address: Polite(address, range(3)))
    for address in range(3):
        population.add(address)
    Injection(population, [NodeLeave(start=3, node=1)])
    population.simulator.run(until=4)
    assert population.up() == [0, 2]
    assert (pytest.approx(3.05), 1, -1) in population.members[0].heard
    population.simulator.run(until=9)
    assert sorted(population.members) == [0, 2]


def test_a_skewed_clock_is_ahead_for_good_and_changes_nothing_else() -> None:
    heard, injection, population = ran(ClockSkew(start=3, nodes=(1, 2), ahead=5))
    assert injection.fired == {"clock skew": 2}
    assert heard[0] == CALM[0]
    for address in (1, 2):
        assert heard[address] == pytest.approx(
            [(time + 5 if time >= 3 else time, sender, number) for time, sender, number in CALM[address]]
        )
    population.crash(2)
    population.restart(2, keep_state=False)
    assert population.members[2].node.now == END + 5, "the clock outlives its node's memory"


@pytest.mark.parametrize("rate", [0.5, 1.5])
def test_a_drifting_clock_wakes_its_node_sooner_or_later_and_keeps_the_difference(rate: float) -> None:
    heard, injection, population = ran(ClockDrift(start=3.01, end=6.01, nodes=(2,), rate=rate))
    assert injection.fired == {"clock drift": 1}
    in_window = [time for time, sender, _ in heard[0] if sender == 2 and 3.2 < time < 6]
    assert [later - one for one, later in pairwise(in_window)] == pytest.approx(
        [0.1 / rate] * (len(in_window) - 1)
    )
    after = [time for time, sender, _ in heard[0] if sender == 2 and time > 6.3]
    assert [later - one for one, later in pairwise(after)] == pytest.approx([0.1] * (len(after) - 1))
    assert population.simulator.local_time(2) == pytest.approx(END + 3 * (rate - 1))
    assert [time for time, _, _ in heard[2]] == sorted(time for time, _, _ in heard[2])


def test_no_clock_goes_back() -> None:
    world = Simulator(1, ConstantLatency(0.05))
    for wrong in ({"forward": -1.0}, {"rate": 0.0}, {"rate": -1.0}):
        with pytest.raises(DistributaryError, match="never goes back"):
            world.set_clock(1, **wrong)


def test_faults_of_nodes_that_are_not_there_do_not_fire() -> None:
    _, injection, _ = ran(
        ClockSkew(start=3, nodes=(9,), ahead=1),
        *(Crash(start=3, end=4, node=9), Pause(start=3, end=4, node=9), NodeLeave(start=3, node=9)),
        NodeJoin(start=3, node=2),
    )
    assert injection.fired == {}


def test_taking_a_fault_away_leaves_the_draws_of_the_others() -> None:
    spike, loss = DelaySpike(start=2, end=3, extra=0.01), Loss(start=3, end=6, probability=0.3)
    both, _, _ = ran(loss, spike)
    alone, _, _ = ran(loss)
    assert outside(both, 0, 3.1) == outside(alone, 0, 3.1)


@pytest.mark.parametrize(
    ("fault", "complaint"),
    [
        (Loss(start=3, end=2, probability=0.5), "ends after its start"),
        (Loss(start=-1, end=2, probability=0.5), "0 or later"),
        (Loss(start=1, end=inf, probability=0.5), "only a crash"),
        (Loss(start=1, end=2, probability=0), "probability"),
        (Loss(start=1, end=2, probability=1.5), "probability"),
        (Reordering(start=1, end=2, probability=0.5, by=0), "'by'"),
        (DelaySpike(start=1, end=2, extra=-1), "'extra'"),
        (Partition(start=1, end=2, side=()), "nobody"),
        (ClockSkew(start=1, nodes=(1,), ahead=0), "'ahead'"),
        (ClockSkew(start=1, nodes=(), ahead=1), "nobody's clock"),
        (ClockDrift(start=1, end=2, nodes=(1,), rate=0), "rate"),
        (ClockDrift(start=1, end=2, nodes=(1,), rate=1), "rate"),
    ],
    ids=lambda value: "" if isinstance(value, str) else None,
)
def test_a_fault_that_makes_no_sense_is_refused(fault: Fault, complaint: str) -> None:
    with pytest.raises(DistributaryError, match=complaint):
        ran(fault)


def test_a_simulator_takes_its_faults_at_once() -> None:
    population = chatting(Simulator(1, ConstantLatency(0.05)))
    Injection(population, [])
    with pytest.raises(DistributaryError, match="takes one injection"):
        Injection(population, [])
