"""Where the entries of a ring should be, and where they are."""

from __future__ import annotations

from collections.abc import Mapping

from distributary.overlay.replication import ReplicaItem, Replication
from overlay.ring.churn import RingWorld

Entries = Mapping[tuple[int, str], str]
"""Entries by key and name."""


def replicas(replication: Replication) -> list[ReplicaItem]:
    """The entries that a node keeps for other owners."""
    kept = (items for key, items in replication._items.items() if key not in replication._owned)
    return [item for items in kept for item in items.values() if item.entry is not None]


def misplaced(ring: RingWorld, entries: Entries) -> list[str]:
    """What is not hosted by exactly its owner, not kept by exactly its siblings, or should not be at all."""
    order = sorted(ring.members)
    hosts: dict[tuple[int, str], list[tuple[int, str]]] = {}
    keepers: dict[tuple[int, str], list[tuple[int, str]]] = {}
    for address in order:
        replication = ring.members[address].replication
        for key in replication.hosted():
            for name, entry in replication.contents(key).items():
                hosts.setdefault((key, str(name)), []).append((address, entry))
        for item in replicas(replication):
            keepers.setdefault((item.key, str(item.name)), []).append((address, item.entry))
    wrong = [f"{place} is back at {hosts.get(place)}" for place in hosts | keepers if place not in entries]
    for (key, name), entry in entries.items():
        owner = ring.owner(key)
        following = ring.siblings(owner)
        if hosts.get((key, name)) != [(owner, entry)]:
            wrong.append(f"{key} {name} is hosted at {hosts.get((key, name))} rather than {owner}")
        if keepers.get((key, name), []) != sorted((address, entry) for address in following):
            wrong.append(f"{key} {name} is kept at {keepers.get((key, name))} rather than {following}")
    return wrong


def rest(ring: RingWorld, entries: Entries, longest: float) -> None:
    """Let time pass until every entry is where it should be."""
    start = ring.world.now
    while wrong := misplaced(ring, entries):
        assert ring.world.now < start + longest, "\n".join(wrong)
        ring.world.run(until=ring.world.now + 1.0)


def put(ring: RingWorld, key: int, name: str, entry: str) -> None:
    owner = ring.owner(key)
    ring.world.call(owner, lambda: ring.members[owner].replication.put(key, name, entry))


def drop(ring: RingWorld, key: int, name: str) -> None:
    owner = ring.owner(key)
    ring.world.call(owner, lambda: ring.members[owner].replication.drop(key, name))
