"""Faults of every kind: once they are over there is one ring again, and messages and entries are where they
belong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from distributary.overlay.ring.fingers import BOTH_WAYS, ONE_WAY
from distributary.overlay.ring.invariants import cycles
from distributary.overlay.ring.prefix import Prefixes, PrefixRing
from distributary.sim.faults import Crash, Fault, Partition, Pause
from distributary.sim.scenario import SCENARIOS, Scenario, random_scenario
from overlay import contents
from overlay.ring.churn import BITS, RingWorld, founders
from overlay.ring.rings import Hello
from overlay.ring.safety import is_in_order
from overlay.ring.seeds import seeds

SIZE = 1 << BITS


def a_ring(seed: int, count: int, copies: int = 0) -> RingWorld:
    rule = (ONE_WAY, BOTH_WAYS)[seed % 2]
    return RingWorld(seed, founders(seed, count), rule=rule, couriers=True, copies=copies)


def routed_by_digits(seed: int, count: int, copies: int = 0) -> RingWorld:
    members = founders(seed, count)
    return RingWorld(seed, members, routing=PrefixRing, rule=Prefixes(), couriers=True, copies=copies)


def require_traffic_arrives(ring: RingWorld, random: Random) -> None:
    """Whatever is sent now reaches exactly those it is meant for, once."""
    ring.world.delivered.clear()
    order = sorted(ring.members)
    expected: list[tuple[int, int]] = []
    for number in range(12):
        sender = random.choice(order)
        layer, key, length = ring.members[sender].ring, random.randrange(SIZE), random.randrange(1, SIZE)
        keys = random.sample(order, 3)
        if number % 3 == 0:
            ring.world.call(sender, lambda r=layer, k=key, n=number: r.route(k, Hello(n)))
            expected.append((number, ring.owner(key)))
        elif number % 3 == 1:
            ring.world.call(sender, lambda r=layer, k=keys, n=number: r.multicast(k, Hello(n)))
            expected += [(number, one) for one in keys]
        else:
            ring.world.call(
                sender, lambda r=layer, k=key, m=length, n=number: r.multicast_segment(k, m, Hello(n))
            )
            expected += [(number, one) for one in {ring.owner((key + step) % SIZE) for step in range(length)}]
    ring.world.run(until=ring.world.now + 10.0)
    assert sorted((one.item[0], one.address) for one in ring.world.delivered) == sorted(expected)


KINDS = [name for name, kinds in SCENARIOS.items() if len(kinds) == 1 or name == "churn"]


@seeds(25)
def test_after_faults_of_a_kind_all_is_as_before(seed: int) -> None:
    require_healing(a_ring(seed, 12, copies=2), seed)


@seeds(25)
def test_after_faults_of_a_kind_a_network_that_routes_by_digits_is_as_before(seed: int) -> None:
    require_healing(routed_by_digits(seed, 12, copies=2), seed)


def require_healing(ring: RingWorld, seed: int) -> None:
    """Have faults of one kind happen: once they are over, neighbours, traffic and entries are in order."""
    random = Random(f"{seed}/healing")
    ring.world.run(until=1.0)
    entries = {(key, "name"): f"entry {key}" for key in random.sample(range(SIZE), 12)}
    for (key, name), entry in entries.items():
        contents.put(ring, key, name, entry)
    spares = [one for one in founders(seed + 1_000_000, 4) if one not in ring.members]
    scenario = random_scenario(
        seed,
        sorted(ring.members),
        kinds=SCENARIOS[KINDS[seed % len(KINDS)]],
        spares=spares,
        start=4.0,
        duration=32.0,
        gap=7.0,
        largest_side=4,
    )
    injection = scenario.inject(ring.population)
    ring.world.run(until=scenario.healed)
    scenario.require_fired(injection)
    ring.rest(90.0)
    require_traffic_arrives(ring, random)
    contents.rest(ring, entries, 60.0)


@seeds(4)
def test_after_all_faults_together_there_is_one_ring_that_carries_messages(seed: int) -> None:
    ring = a_ring(seed, 24)
    spares = [one for one in founders(seed + 1_000_000, 6) if one not in ring.members]
    scenario = random_scenario(
        seed,
        sorted(ring.members),
        spares=spares,
        start=2.0,
        duration=40.0,
        at_once=3,
        gap=1.0,
        largest_side=3,
    )
    injection = scenario.inject(ring.population)
    ring.world.run(until=scenario.healed)
    scenario.require_fired(injection)
    ring.rest(90.0)
    require_traffic_arrives(ring, Random(f"{seed}/healing"))


def rings_there_are(ring: RingWorld) -> int:
    members = ring.members
    following = {
        address: next((one for one in member.ring.successors if one in members), address)
        for address, member in members.items()
    }
    return len(cycles(following))


def halves(random: Random, identifiers: list[int]) -> list[Fault]:
    return [Partition(start=3, end=30, side=tuple(random.sample(identifiers, len(identifiers) // 2)))]


def arcs(random: Random, identifiers: list[int]) -> list[Fault]:
    return [Partition(start=3, end=30, side=tuple(sorted(identifiers)[: len(identifiers) // 2]))]


def deaf_half(random: Random, identifiers: list[int]) -> list[Fault]:
    side = tuple(random.sample(identifiers, len(identifiers) // 2))
    return [Partition(start=3, end=30, side=side, one_way=True)]


def eighths(random: Random, identifiers: list[int]) -> list[Fault]:
    return [
        Partition(start=start, end=30, side=tuple(random.sample(identifiers, len(identifiers) // 2)))
        for start in (3, 4, 5)
    ]


Split = Callable[[Random, list[int]], list[Fault]]


@pytest.mark.parametrize("split", [halves, arcs, deaf_half, eighths])
@pytest.mark.parametrize("make", [a_ring, routed_by_digits])
@seeds(3)
def test_rings_that_a_long_partition_made_become_one_again(
    split: Split, make: Callable[[int, int], RingWorld], seed: int
) -> None:
    ring = make(seed, 16)
    faults = split(Random(f"{seed}/split"), sorted(ring.members))
    scenario = Scenario.of(split.__name__, faults)
    injection = scenario.inject(ring.population)
    ring.world.run(until=scenario.healed)
    scenario.require_fired(injection)
    assert rings_there_are(ring) > 1
    assert all(is_in_order(one) for one in ring.rings())
    ring.rest(90.0)
    require_traffic_arrives(ring, Random(f"{seed}/healing"))


@seeds(5)
def test_a_newcomer_among_digits_is_handed_its_keys_at_once_whichever_side_they_come_from(seed: int) -> None:
    ring = routed_by_digits(seed, 6, copies=1)
    ring.world.run(until=1.0)
    entries = {(key, "name"): f"entry {key}" for key in range(0, SIZE, 8)}
    for (key, name), entry in entries.items():
        contents.put(ring, key, name, entry)
    (newcomer,) = [one for one in founders(seed + 1_000_000, 7) if one not in ring.members][:1]
    ring.population.add(newcomer)
    ring.world.run(until=4.0)
    ring.rest(3.0, fingers=False)
    ring.world.run(until=ring.world.now + 0.5)
    hosted = set(ring.members[newcomer].replication.hosted())
    assert hosted == {key for key, _ in entries if ring.owner(key) == newcomer}


@seeds(3)
def test_a_ring_comes_back_when_every_node_crashed_and_kept_its_state(seed: int) -> None:
    random = Random(f"{seed}/crash")
    ring = a_ring(seed, 12)
    faults = [Crash(start=3, end=random.uniform(5, 20), node=one) for one in sorted(ring.members)]
    Scenario.of("all crash", faults).inject(ring.population)
    ring.world.run(until=20.0)
    ring.rest(60.0)
    require_traffic_arrives(ring, random)


@seeds(3)
def test_a_ring_comes_back_when_half_of_it_slept(seed: int) -> None:
    random = Random(f"{seed}/pause")
    ring = a_ring(seed, 12)
    sleepers = random.sample(sorted(ring.members), 6)
    faults = [Pause(start=3, end=random.uniform(5, 25), node=one) for one in sleepers]
    Scenario.of("half sleeps", faults).inject(ring.population)
    ring.world.run(until=25.0)
    ring.rest(60.0)
    require_traffic_arrives(ring, random)


@seeds(5)
def test_what_is_sent_under_faults_is_handed_over_once_for_each_key_at_a_node(seed: int) -> None:
    random = Random(f"{seed}/traffic")
    ring = a_ring(seed, 12)
    scenario = random_scenario(
        seed, sorted(ring.members), kinds=SCENARIOS["messages"], start=2.0, duration=20.0
    )
    injection = scenario.inject(ring.population)
    for number in range(40):
        sender = random.choice(sorted(ring.members))
        layer, key = ring.members[sender].ring, random.randrange(SIZE)
        ring.world.at(
            2.0 + number / 2,
            lambda s=sender, r=layer, k=key, n=number: ring.world.call(s, lambda: r.route(k, Hello(n))),
        )
    ring.world.run(until=80.0)
    scenario.require_fired(injection)
    handed = Counter((one.address, one.item) for one in ring.world.delivered)
    assert set(handed.values()) == {1}
    assert {number for _, (number, _) in handed} == set(range(40))
