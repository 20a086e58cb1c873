"""Entries under churn: each at its owner and its siblings in the end, and none that was dropped."""

from __future__ import annotations

from random import Random

from distributary.overlay.ring.fingers import BOTH_WAYS, ONE_WAY
from distributary.sim.faults import Partition
from distributary.sim.scenario import Scenario
from overlay import contents
from overlay.ring.churn import BITS, RingWorld, founders
from overlay.ring.seeds import seeds

COPIES = 2


def some_changes(ring: RingWorld, random: Random, entries: dict[tuple[int, str], str]) -> None:
    for number in range(6):
        if entries and random.random() < 0.4:
            key, name = random.choice(sorted(entries))
            contents.drop(ring, key, name)
            del entries[key, name]
        else:
            key, name = random.randrange(1 << BITS), f"name {random.randrange(4)}"
            entries[key, name] = f"entry {number}"
            contents.put(ring, key, name, entries[key, name])


@seeds(20)
def test_entries_survive_joins_leaves_and_as_many_crashes_at_once_as_there_are_copies(seed: int) -> None:
    random = Random(f"{seed}/entries")
    rule = (ONE_WAY, BOTH_WAYS)[seed % 2]
    ring = RingWorld(seed, founders(seed, 8), rule=rule, couriers=True, copies=COPIES)
    entries: dict[tuple[int, str], str] = {}
    for _ in range(3):
        some_changes(ring, random, entries)
        ring.world.run(until=ring.world.now + 1.0)
        ring.join()
        for _ in range(COPIES):
            random.choice([ring.crash, ring.crash, ring.leave, ring.come_back])()
        ring.world.run(until=ring.world.now + 6.0)
        ring.rest(30.0)
        ring.world.run(until=ring.world.now + 4.0)
    contents.rest(ring, entries, 60.0)


@seeds(8)
def test_changes_on_both_sides_of_a_partition_meet_when_it_is_over(seed: int) -> None:
    random = Random(f"{seed}/entries")
    identifiers = founders(seed, 12)
    ring = RingWorld(seed, identifiers, couriers=True, copies=COPIES)
    side = sorted(random.sample(identifiers, 6))
    Scenario.of("two sides", [Partition(start=5, end=35, side=tuple(side))]).inject(ring.population)
    entries = {}
    for number in range(6):
        entries[number * 100, "before"] = f"entry {number}"
        contents.put(ring, number * 100, "before", entries[number * 100, "before"])
    ring.world.run(until=30.0)
    for number in range(6):
        for name, members in (("this side", side), ("other side", sorted(set(identifiers) - set(side)))):
            key = number * 100
            host = min(members, key=lambda one: ring.circle.clockwise(key, one))
            entries[key, name] = f"entry of {host}"
            ring.world.call(host, lambda h=host, k=key, n=name: put_at(ring, h, k, n, entries[k, n]))
    contents_dropped = (300, "before")
    del entries[contents_dropped]
    for member in identifiers:
        ring.world.call(member, lambda m=member: drop_if_hosted(ring, m, *contents_dropped))
    ring.world.run(until=36.0)
    ring.rest(60.0)
    contents.rest(ring, entries, 60.0)


def put_at(ring: RingWorld, host: int, key: int, name: str, entry: str) -> None:
    ring.members[host].replication.put(key, name, entry)


def drop_if_hosted(ring: RingWorld, member: int, key: int, name: str) -> None:
    replication = ring.members[member].replication
    if name in replication.contents(key):
        replication.drop(key, name)
