"""Replication on a ring whose neighbours are set by hand: placement, versions, tombstones, strays."""

from __future__ import annotations

from bisect import bisect_left
from random import Random
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import DistributaryError
from distributary.overlay.node import Address, Node, Send, Token
from distributary.overlay.replication import (
    TOMBSTONES,
    DigestCheck,
    Dropped,
    ReplicaItem,
    Replicas,
    Replication,
    StrayReceipt,
    Version,
)
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.ring import Ring, RoutedBundle, settle
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Simulator
from overlay.contents import replicas

BITS = 8


class Shelf:
    """A ring with contents whose membership is changed by hand, as upkeep would in the end."""

    def __init__(self, members: list[Address], copies: int) -> None:
        self.world = Simulator(1, ConstantLatency(0.05))
        self.copies = copies
        self.rings: dict[Address, Ring] = {}
        self.shelves: dict[Address, Replication] = {}
        self.changes: list[tuple[Address, int, Any, Any]] = []
        for member in members:
            self.make(member)
        settle(list(self.rings.values()))
        for ring in self.rings.values():
            self.world.add(ring.node)

    def make(self, member: Address) -> None:
        ring = self.rings[member] = Ring(Node(member), Circle(BITS))
        shelf = self.shelves[member] = Replication(ring, self.copies)
        shelf.on_change(lambda key, name, entry: self.changes.append((member, key, name, entry)))

    def join(self, member: Address) -> None:
        self.make(member)
        self.world.add(self.rings[member].node)
        self.resettle()

    def crash(self, member: Address) -> None:
        self.world.remove(member)
        del self.rings[member], self.shelves[member]
        self.resettle()

    def resettle(self) -> None:
        members = sorted(self.rings)
        for place, member in enumerate(members):
            ring = self.rings[member]
            following = (members[place + 1 :] + members[:place])[: ring.successor_count]

            def change(
                ring: Ring = ring, before: Address = members[place - 1], after: Any = following
            ) -> None:
                ring.set_predecessor(before)
                ring.set_successors(after)

            self.world.call(member, change)

    def owner(self, key: int) -> Address:
        members = sorted(self.rings)
        return members[bisect_left(members, key) % len(members)]

    def put(self, key: int, name: str, entry: Any) -> None:
        owner = self.owner(key)
        self.world.call(owner, lambda: self.shelves[owner].put(key, name, entry))

    def drop(self, key: int, name: str) -> None:
        owner = self.owner(key)
        self.world.call(owner, lambda: self.shelves[owner].drop(key, name))

    def rest(self, seconds: float = 40.0) -> None:
        self.world.run(until=self.world.now + seconds)

    def hosts(self, key: int) -> list[Address]:
        return sorted(member for member, shelf in self.shelves.items() if shelf.contents(key))

    def keepers(self, key: int) -> list[Address]:
        return sorted(
            member
            for member, shelf in self.shelves.items()
            if any(item.key == key for item in replicas(shelf))
        )


def test_an_entry_is_hosted_by_its_owner_and_kept_by_those_that_follow() -> None:
    shelf = Shelf([10, 50, 90, 130, 170], copies=2)
    shelf.put(60, "a", "entry")
    shelf.rest(1.0)
    assert shelf.hosts(60) == [90]
    assert shelf.keepers(60) == [130, 170]
    assert dict(shelf.shelves[90].contents(60)) == {"a": "entry"}
    assert list(shelf.shelves[90].hosted()) == [60]


def test_siblings_are_told_of_entries_that_change_together_by_one_message_each() -> None:
    shelf = Shelf([10, 50, 90, 200], copies=2)
    owner, node = shelf.shelves[50], shelf.rings[50].node
    effects = node.call(lambda: owner.put_all([20, 30, 40], "a", 1), now=0.0)
    sent = [effect for effect in effects if isinstance(effect, Send)]
    assert [(one.to, [item.key for item in one.message.items]) for one in sent] == [
        (90, [20, 30, 40]),
        (200, [20, 30, 40]),
    ]
    assert [dict(owner.contents(key)) for key in (20, 30, 40)] == [{"a": 1}] * 3


def test_a_new_owner_is_given_what_it_owns() -> None:
    shelf = Shelf([10, 50, 90, 130, 170], copies=2)
    shelf.put(60, "a", "entry")
    shelf.rest(1.0)
    shelf.join(70)
    shelf.rest()
    assert shelf.hosts(60) == [70]
    assert shelf.keepers(60) == [90, 130]
    assert shelf.changes == [(90, 60, "a", "entry"), (90, 60, "a", None), (70, 60, "a", "entry")]


def test_the_successor_hosts_what_a_dead_owner_had() -> None:
    shelf = Shelf([10, 50, 90, 130, 170, 210], copies=2)
    shelf.put(60, "a", "entry")
    shelf.rest(1.0)
    shelf.crash(90)
    shelf.rest()
    assert shelf.hosts(60) == [130]
    assert shelf.keepers(60) == [170, 210]


def test_an_entry_survives_as_many_crashes_at_once_as_there_are_copies() -> None:
    shelf = Shelf([10, 50, 90, 130, 170, 210], copies=2)
    shelf.put(60, "a", "entry")
    shelf.rest(1.0)
    for member in (90, 130):
        shelf.crash(member)
    shelf.rest()
    assert shelf.hosts(60) == [170]
    assert shelf.keepers(60) == [10, 210]


def test_a_dropped_entry_does_not_come_back_with_a_node_that_missed_it() -> None:
    shelf = Shelf([10, 50, 90, 130, 170], copies=2)
    shelf.put(60, "a", "entry")
    shelf.put(60, "b", "other")
    shelf.rest(1.0)
    shelf.world.pause(130)
    shelf.world.network = Holding(shelf.world.network, 130)
    shelf.drop(60, "a")
    shelf.rest()
    shelf.world.network = shelf.world.network.inner
    shelf.world.resume(130)
    shelf.rest()
    assert dict(shelf.shelves[90].contents(60)) == {"b": "other"}
    shelf.crash(90)
    shelf.rest()
    assert dict(shelf.shelves[130].contents(60)) == {"b": "other"}


class Holding:
    """A network that loses what is sent to one node."""

    def __init__(self, inner: Any, deaf: Address) -> None:
        self.inner = inner
        self.deaf = deaf

    def delays(self, now: float, sender: Address, to: Address, message: Any) -> Any:
        return () if to == self.deaf else self.inner.delays(now, sender, to, message)


class Counting:
    """A network that counts the messages with replicas."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.replicas = 0

    def delays(self, now: float, sender: Address, to: Address, message: Any) -> Any:
        self.replicas += isinstance(message, Replicas)
        return self.inner.delays(now, sender, to, message)


def test_a_check_mends_what_a_lost_message_left_out() -> None:
    shelf = Shelf([10, 50, 90, 130, 170], copies=2)
    shelf.world.network = Holding(shelf.world.network, 130)
    shelf.put(60, "a", "entry")
    shelf.rest(1.0)
    assert shelf.keepers(60) == [170]
    shelf.world.network = shelf.world.network.inner
    shelf.rest(12.0)
    assert shelf.keepers(60) == [130, 170]


def test_an_owner_that_lost_its_state_gets_it_back_from_a_sibling() -> None:
    shelf = Shelf([10, 50, 90, 130, 170], copies=2)
    shelf.put(60, "a", "entry")
    shelf.rest(1.0)
    shelf.world.crash(90)
    shelf.make(90)
    shelf.rings[90].predecessor, shelf.rings[90].successors = 50, [130, 170, 10]
    shelf.world.restart(90, shelf.rings[90].node)
    shelf.rest(12.0)
    assert shelf.hosts(60) == [90]


def test_without_copies_nothing_is_sent() -> None:
    shelf = Shelf([10, 50, 90], copies=0)
    shelf.put(60, "a", "entry")
    shelf.put(60, "b", "entry")
    shelf.drop(60, "a")
    assert dict(shelf.shelves[90].contents(60)) == {"b": "entry"}
    shelf.join(70)
    assert shelf.hosts(60) == []
    assert shelf.world.idle


def test_the_greater_version_wins_in_whatever_order_they_come() -> None:
    old = ReplicaItem(60, "a", Version(1.0, 90), "old")
    new = ReplicaItem(60, "a", Version(2.0, 50), "new")
    for order in ((old, new), (new, old), (new, old, new)):
        shelf = Shelf([10, 50, 90], copies=1)
        node = shelf.rings[90].node
        for item in order:
            node.receive(Replicas((item,)), 10, 3.0)
        assert dict(shelf.shelves[90].contents(60)) == {"a": "new"}


def test_a_change_is_newer_than_what_its_writer_has_heard_of_though_its_clock_is_behind() -> None:
    shelf = Shelf([10, 50, 90], copies=1)
    shelf.world.set_clock(10, forward=500.0)
    node, sibling = shelf.rings[90].node, shelf.rings[10].node
    for key, name, at in ((60, "a", 501.0), (70, "b", 502.0)):
        sibling.receive(Replicas((ReplicaItem(key, name, Version(at, 10), "old"),)), 50, 510.0)
    node.receive(Replicas((ReplicaItem(70, "b", Version(502.0, 10), "old"),)), 10, 11.0)  # the other is lost
    shelf.put(60, "a", "new")
    shelf.rest(1.0)
    assert [one._items[60]["a"].entry for one in (shelf.shelves[90], shelf.shelves[10])] == ["new", "new"]


class Moment(NamedTuple):
    """An entry with a time."""

    time: float


def test_times_in_entries_are_by_the_clock_of_whoever_keeps_them() -> None:
    shelf = Shelf([10, 50, 90, 130], copies=2)
    shelf.world.set_clock(130, forward=500.0)
    for one in shelf.shelves.values():
        one.dated(Moment, lambda ring=one.ring: ring.node.now)
    shelf.rest(100.0)
    shelf.put(60, "a", Moment(shelf.rings[90].node.now - 20.0))
    shelf.rest(10.0)
    ages = {
        address: shelf.world.local_time(address) - one._items[60]["a"].entry.time
        for address, one in shelf.shelves.items()
        if 60 in one._items
    }
    assert ages == pytest.approx({90: 30.0, 130: 30.0, 10: 30.0}, abs=1.0)


def test_uptime_is_not_put_forward_with_the_clock() -> None:
    shelf = Shelf([10, 50, 90], copies=1)
    shelf.rest(100.0)
    before = shelf.shelves[90].uptime()
    shelf.world.set_clock(90, forward=500.0)
    shelf.rest(20.0)
    assert shelf.shelves[90].uptime() - before == pytest.approx(20.0, abs=shelf.shelves[90].period)


def test_whoever_sends_an_old_version_is_told_the_newer() -> None:
    shelf = Shelf([10, 50, 90], copies=1)
    node = shelf.rings[90].node
    new = ReplicaItem(60, "a", Version(2.0, 50), None)
    node.receive(Replicas((new,)), 10, 3.0)
    effects = node.receive(Replicas((ReplicaItem(60, "a", Version(1.0, 90), "old"),)), 10, 3.0)
    assert effects == [(10, Replicas((new._replace(entry=Dropped(0.0)),)))]


@pytest.mark.parametrize("ahead", [(), (90,), (10,), (50, 10)])
def test_a_tombstone_is_buried_in_time_whatever_clocks_say(ahead: tuple[Address, ...]) -> None:
    shelf = Shelf([10, 50, 90], copies=1)
    for node in ahead:
        shelf.world.set_clock(node, forward=5000.0)
    shelf.world.network = sent = Counting(shelf.world.network)
    shelf.put(60, "a", "entry")
    shelf.drop(60, "a")
    shelf.rest(TOMBSTONES - 20.0)
    assert sent.replicas == 2, "it is not handed over again and again"
    assert [bool(one._items) for one in shelf.shelves.values()] == [True, False, True]
    shelf.rest(50.0)
    assert [one._items for one in shelf.shelves.values()] == [{}, {}, {}]


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("ahead", [90, 130])
def test_a_dropped_entry_does_not_come_back_though_clocks_differ(ahead: Address, when: str) -> None:
    shelf = Shelf([10, 50, 90, 130, 170], copies=2)
    shelf.put(60, "a", "entry")
    shelf.put(60, "b", "other")
    shelf.rest(1.0)
    shelf.world.pause(170)
    shelf.world.network = Holding(shelf.world.network, 170)
    if when == "before":
        shelf.world.set_clock(ahead, forward=5000.0)
    shelf.drop(60, "a")
    shelf.rest(2.0)
    if when == "after":
        shelf.world.set_clock(ahead, forward=5000.0)
    shelf.rest()
    if ahead == 130:
        shelf.crash(90)
        shelf.rest()
    shelf.world.network = shelf.world.network.inner
    shelf.world.resume(170)
    shelf.rest()
    assert dict(shelf.shelves[shelf.owner(60)].contents(60)) == {"b": "other"}


def test_nodes_do_not_hand_a_tombstone_back_and_forth() -> None:
    shelf = Shelf([10, 50, 90, 130, 170], copies=2)
    shelf.put(60, "a", "entry")
    shelf.drop(60, "a")
    shelf.rest(100.0)
    shelf.world.pause(130)  # its time stands still, and it buries the tombstone last
    shelf.rest(300.0)
    shelf.world.resume(130)
    shelf.rest(TOMBSTONES)
    assert [one._items for one in shelf.shelves.values()] == [{}] * 5


def digest_after(items: list[ReplicaItem]) -> int:
    """What a node whose keys these are tells its sibling, when the items came in that order."""
    shelf = Shelf([10, 50, 90], copies=1)
    for item in items:
        shelf.rings[90].node.receive(Replicas((item,)), 10, 1.0)
    told = shelf.rings[90].node.wake(Token("replication period"), 6.0)
    return next(
        one.message.digest for one in told if isinstance(one, Send) and isinstance(one.message, DigestCheck)
    )


ITEMS = st.builds(
    ReplicaItem,
    st.integers(58, 60),
    st.sampled_from("ab"),
    st.builds(Version, st.integers(1, 4).map(float), st.just(50)),
    st.sampled_from([None, "entry"]),
)


@given(st.lists(ITEMS, unique_by=lambda item: item[:3]), st.randoms())
def test_a_digest_is_that_of_the_newest_versions_in_whatever_order_they_came(
    items: list[ReplicaItem], random: Random
) -> None:
    newest = {item[:2]: item for item in sorted(items, key=lambda item: item.version)}
    random.shuffle(items)
    assert digest_after(items) == digest_after(list(newest.values()))
    for item in newest.values():
        later = item._replace(version=Version(9.0, 50))
        assert digest_after([*items, later]) != digest_after(items)


def test_strays_that_come_together_are_answered_by_one_receipt() -> None:
    shelf = Shelf([10, 50, 90], copies=1)
    keys, node = range(40, 50), shelf.rings[50].node
    strays = [ReplicaItem(key, "a", Version(1.0, 90), "entry") for key in keys]
    for stray in strays:
        shelf.rings[10].node.receive(Replicas((stray,)), 90, 1.0)
    effects = shelf.rings[10].node.wake(Token("replication period"), 60.0)
    bundle = next(one for one in effects if isinstance(one, Send) and isinstance(one.message, RoutedBundle))
    assert bundle.to == 50
    node.receive(bundle.message, 10, 60.1)
    assert {key: dict(shelf.shelves[50].contents(key)) for key in keys} == {
        key: {"a": "entry"} for key in keys
    }
    (receipt,) = node.wake(Token("replication receipts"), 60.1)
    assert isinstance(receipt.message, StrayReceipt)
    shelf.rings[10].node.receive(receipt.message, 50, 60.2)
    assert shelf.shelves[10]._items == {}


def test_more_copies_than_known_successors_are_refused() -> None:
    with pytest.raises(DistributaryError, match="0 to 4 copies"):
        Replication(Ring(Node(1), Circle(4)), 5)
