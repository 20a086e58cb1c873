"""Keeps the contents of keys on the owner of each key and on the r nodes that follow it, its *siblings*.

The maintenance protocol of 001 section 5.5, made to converge:

1. A new predecessor: what it now owns is handed over to it, and kept here as a replica.
2. The predecessor is gone: what it owned is hosted here from the replicas.
3. After either, after every change of an entry, and when a sibling is new: the siblings get replicas.
4. Whoever receives a replica keeps the newer of the two, and answers with its own where that is the newer.

Rules:

- An entry has a version: the time of the change, later than any version that its writer has seen, and who
  made it. The greater wins everywhere, so the order of messages does not matter and repeating one changes
  nothing. A clock that is behind does no harm once its node has heard of others' changes.
- Entries of a class that was named to `dated` say when something was; they are sent with their age, and each
  node has them by its own clock.
- A dropped entry leaves a tombstone, an item without an entry, for `TOMBSTONES` seconds; a replica that was
  out of reach for longer may bring the entry back. Clocks need not agree for that, and one that is put
  forward does not hurry it: each node counts its periods, and a tombstone is sent with its age. Handing it on
  never makes it younger than it is at the sender, so all replicas have buried it in the end.
- Every `period` seconds an owner tells its siblings a digest of what it hosts; where theirs differs, both
  sides give each other what is newer. Nothing else is needed to heal: lost messages only cost a period.
- Replicas that no owner has asked after for three periods are *strays*: they are routed to the owner of
  their key, and forgotten when it says that it has them. None is ever forgotten for being in the wrong place.
- Invariant, at every step: `contents` shows an entry only if this node takes itself for the owner of its key.
  At rest: the owner alone shows it, and exactly its r siblings hold replicas.
- With no copies there are no messages at all: a node forgets what it no longer owns.

Cost: r messages for a change; a digest to each sibling a period; memory r + 1 times that of the contents.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, NamedTuple

from distributary.errors import DistributaryError
from distributary.overlay.key_routing import KeyRouting
from distributary.overlay.node import Address, SendMessage
from distributary.overlay.periodic import staggered
from distributary.overlay.ring.ring import Arrival

Name = Hashable
Handler = Callable[[int, Name, Any], None]
NOTHING: Mapping[Name, Any] = MappingProxyType({})

TOMBSTONES = 600.0
"""Seconds for which it is remembered that an entry was dropped."""


class Version(NamedTuple):
    """When an entry was changed, and by whom: versions are ordered, and no two changes have the same."""

    time: float
    writer: Address


class Dropped(NamedTuple):
    """Sent in the place of an entry that was dropped: how many seconds ago, as far as nodes have counted."""

    seconds: float


class ReplicaItem(NamedTuple):
    """An entry as it is kept and sent; without an entry (sent: with `Dropped`), the entry was dropped."""

    key: int
    name: Name
    version: Version
    entry: Any


class Mark(NamedTuple):
    """An item without its entry: enough to tell which of two is newer."""

    key: int
    name: Name
    version: Version


class Replicas(NamedTuple):
    """Items for another node to keep, where they are newer than its own."""

    items: tuple[ReplicaItem, ...]


class DigestCheck(NamedTuple):
    """An owner's question to a sibling: does what you keep of (after, last] have this digest?"""

    after: int
    last: int
    digest: int


class DigestMismatch(NamedTuple):
    """A sibling's answer if not: this is what I have."""

    after: int
    last: int
    marks: tuple[Mark, ...]


class ReplicaRequest(NamedTuple):
    """An owner's request for items that a sibling has in newer versions."""

    marks: tuple[Mark, ...]


class StrayItems(NamedTuple):
    """Replicas that no owner has asked their keeper about, on their way to the owner of their key."""

    items: tuple[ReplicaItem, ...]
    keeper: Address


class StrayReceipt(NamedTuple):
    """The owner has these, or newer ones: their keeper may forget them."""

    marks: tuple[Mark, ...]


class Replication:
    """The contents of the keys that a node owns, and its replicas of what others own."""

    def __init__(
        self, ring: KeyRouting, copies: int, send: SendMessage | None = None, *, period: float = 5.0
    ) -> None:
        if not 0 <= copies <= ring.successor_count:
            raise DistributaryError(
                f"a node that knows {ring.successor_count} successors can keep 0 to {ring.successor_count} "
                f"copies of its contents there, not {copies}"
            )
        self.ring = ring
        self.copies = copies
        self.period = period
        self._send = send or ring.node.send
        self._items: dict[int, dict[Name, ReplicaItem]] = {}
        self._digests: dict[int, int] = {}
        """Of each key of `_items`, the sum of the hashes of its items (see `_digest`)."""
        self._latest = -math.inf
        """The greatest time of a version seen here."""
        self._clocks: dict[type, Callable[[], float]] = {}
        """The classes of entries with a time, and the clock that it is of."""
        self._counted = 0.0
        """The seconds that this node has been up, counted by periods."""
        self._counted_at = 0.0
        """When the last of them ended, by the clock here."""
        self._tombstones: dict[tuple[int, Name], float] = {}
        """When, as counted here, the items of `_items` without an entry were dropped."""
        self._owned: set[int] = set()
        """The keys among those of `_items` that this node takes for its own."""
        self._contents: dict[int, dict[Name, Any]] = {}
        self._renewed: dict[tuple[int, Name], float] = {}
        """When each entry of `_contents` was last hosted, changed or renewed."""
        self._asked_after: dict[int, float] = {}
        self._siblings: list[Address] = []
        self._receipts: dict[Address, list[Mark]] = {}
        """By keeper, the strays that came just now, for which no receipt has been sent."""
        self._handlers: list[Handler] = []
        node = ring.node
        node.handle(Replicas, self._replicas)
        node.handle(DigestCheck, self._check)
        node.handle(DigestMismatch, self._differing)
        node.handle(ReplicaRequest, self._wanted)
        node.handle(StrayReceipt, self._kept)
        node.at_alarm("replication period", self._each_period)
        node.at_alarm("replication receipts", self._send_receipts)
        node.at_start(self._begin)
        ring.listen(StrayItems, self._strays)
        ring.watch(self._neighbours_changed)

    # For the layers above.

    def put(self, key: int, name: Name, entry: Any) -> None:
        """Set an entry of a key; to be called at the key's owner."""
        self.put_all([key], name, entry)

    def put_all(self, keys: Iterable[int], name: Name, entry: Any) -> None:
        """Set the entry of that name of several keys; siblings are told by one message each."""
        items = [self._newer(key, name, entry) for key in keys]
        for item in items:
            self._keep(item)
        self._give(self._siblings_now(), items)

    def _newer(self, key: int, name: Name, entry: Any) -> ReplicaItem:
        """An entry with a version that is newer than any seen here."""
        self._latest = max(self.ring.node.now, math.nextafter(self._latest, math.inf))
        return ReplicaItem(key, name, Version(self._latest, self.ring.identifier), entry)

    def drop(self, key: int, name: Name) -> None:
        """Remove an entry of a key for good; to be called at the key's owner."""
        self.put(key, name, None)

    def renew(self, key: int, name: Name) -> None:
        """Note that an entry hosted here, which is unchanged, was registered again just now."""
        self._renewed[key, name] = self.ring.node.now

    def drop_unrenewed(self, seconds: float) -> None:
        """Drop the entries that were neither hosted here, changed nor renewed for longer than that."""
        before = self.ring.node.now - seconds
        hosted = [(key, name) for key, names in self._contents.items() for name in names]
        for key, name in hosted:
            if self._renewed[key, name] < before:
                self.drop(key, name)

    def contents(self, key: int) -> Mapping[Name, Any]:
        """The entries of a key, if this node hosts it as its owner."""
        return self._contents.get(key, NOTHING)

    def hosted(self) -> Iterator[int]:
        """The keys that have entries here as at their owner."""
        return iter(self._contents)

    def on_change(self, handler: Handler) -> None:
        """Have this called with key, name and entry (None: gone) whenever what is hosted here changes."""
        self._handlers.append(handler)

    def dated(self, kind: type, clock: Callable[[], float]) -> None:
        """Take the field `time` of entries of this class for a time of that clock of this node."""
        self._clocks[kind] = clock

    def uptime(self) -> float:
        """Seconds by which to tell what is older, of which none pass in a clock that is put forward.

        Counted by periods while there are copies, so they stand still while the node is down.
        """
        now = self.ring.node.now
        return self._counted + min(now - self._counted_at, self.period) if self.copies else now

    def hand_over(self) -> None:
        """Send everything hosted here to the siblings; to be called before leaving the ring."""
        self._give(self._siblings_now(), self._hosted_items())

    # Items.

    def _find(self, key: int, name: Name) -> ReplicaItem | None:
        return self._items.get(key, {}).get(name)

    def _items_of(self, keys: Iterable[int]) -> list[ReplicaItem]:
        return [item for key in keys for item in self._items[key].values()]

    def _hosted_items(self) -> list[ReplicaItem]:
        """All items of the keys that are this node's own, in the order of their coming."""
        return self._items_of(key for key in self._items if key in self._owned)

    def _keep(self, item: ReplicaItem) -> bool:
        """Keep an item unless a version at least as new is here."""
        age = item.entry.seconds if isinstance(item.entry, Dropped) else 0.0
        if isinstance(item.entry, Dropped):
            item = item._replace(entry=None)
        key, name, version, entry = item
        self._latest = max(self._latest, version.time)
        items = self._items.setdefault(key, {})
        if name in items:
            if items[name].version >= version:
                return False
            self._digests[key] -= _hash(*items[name][:3])
        items[name] = item
        self._digests[key] = self._digests.get(key, 0) + _hash(key, name, version)
        self._tombstones.pop((key, name), None)
        if entry is None:
            self._tombstones[key, name] = self._counted - age
        if self.ring.owns(key):
            self._owned.add(key)
            self._show(key, name, entry)
        else:
            self._asked_after.setdefault(key, self.ring.node.now)
        if entry is None and not self.copies:
            self._forget(key, name)
        return True

    def _receive(self, item: ReplicaItem) -> bool:
        """Keep an item that another node sent."""
        return self._keep(self._by_clock(item, 1.0))

    def _forget(self, key: int, name: Name) -> None:
        self._digests[key] -= _hash(*self._items[key].pop(name)[:3])
        self._tombstones.pop((key, name), None)
        if not self._items[key]:
            del self._items[key], self._digests[key]
            self._owned.discard(key)
            self._asked_after.pop(key, None)

    def _show(self, key: int, name: Name, entry: Any) -> None:
        """Put an entry into the contents, or remove it (None), and call the handlers if that is a change."""
        contents = self._contents.setdefault(key, {})
        was = contents.get(name)
        if entry is None:
            contents.pop(name, None)
            self._renewed.pop((key, name), None)
        else:
            contents[name] = entry
            self.renew(key, name)
        if not contents:
            del self._contents[key]
        if entry is not was:
            for handler in self._handlers:
                handler(key, name, entry)

    # Placement.

    def _siblings_now(self) -> list[Address]:
        if not self.ring.member:
            return []
        return self.ring.siblings(self.copies)

    def _give(self, to: Iterable[Address], items: Iterable[ReplicaItem]) -> None:
        replicas = Replicas(self._sent(items))
        if replicas.items:
            for address in to:
                self._send(address, replicas)

    def _sent(self, items: Iterable[ReplicaItem]) -> tuple[ReplicaItem, ...]:
        """Items as they are sent: tombstones and entries with a time with their age."""
        return tuple(self._aged(item) if item.entry is None else self._by_clock(item, -1.0) for item in items)

    def _by_clock(self, item: ReplicaItem, sign: float) -> ReplicaItem:
        """An item with the time of its entry as an age (`sign` -1), or made of its age by the clock here."""
        clock = self._clocks.get(type(item.entry))
        if clock is None:
            return item
        return item._replace(entry=item.entry._replace(time=item.entry.time + sign * clock()))

    def _aged(self, tombstone: ReplicaItem) -> ReplicaItem:
        # One that a handler has replaced since is new.
        dropped = self._tombstones.get((tombstone.key, tombstone.name), self._counted)
        return tombstone._replace(entry=Dropped(self._counted - dropped))

    def _neighbours_changed(self) -> None:
        ring, owned = self.ring, self._owned
        lost: list[ReplicaItem] = []
        gained: list[ReplicaItem] = []
        for key in list(self._items):
            if key in owned and not ring.owns(key):
                lost += self._disown(key)
        for key in list(self._items):
            if key not in owned and ring.owns(key):
                gained += self._own(key)
        if self.copies:
            self._give(ring.new_owners(), lost)
        siblings = self._siblings_now()
        known, self._siblings = self._siblings, siblings
        self._give([one for one in siblings if one in known], gained)
        new = [one for one in siblings if one not in known]
        if new:
            self._give(new, self._hosted_items())

    def _own(self, key: int) -> list[ReplicaItem]:
        """Host a key from its replicas."""
        self._owned.add(key)
        self._asked_after.pop(key, None)
        items = list(self._items[key].values())
        for item in items:
            self._show(key, item.name, item.entry)
        return items

    def _disown(self, key: int) -> list[ReplicaItem]:
        """Host a key no longer, but keep its items as replicas."""
        self._owned.discard(key)
        self._asked_after[key] = self.ring.node.now
        items = list(self._items[key].values())
        for item in items:
            self._show(key, item.name, None)
            if not self.copies:
                self._forget(key, item.name)
        return items

    # Messages.

    def _replicas(self, message: Replicas, sender: Address) -> None:
        newer = [self._items[item.key][item.name] for item in message.items if not self._receive(item)]
        told = {(item.key, item.name): item.version for item in message.items}
        self._give([sender], (item for item in newer if item.version > told[item.key, item.name]))

    def _check(self, message: DigestCheck, sender: Address) -> None:
        after, last, digest = message
        keys = self._keys_within(after, last)
        self._asked_after.update(dict.fromkeys(keys, self.ring.node.now))
        if self._digest(keys) != digest:
            marks = tuple(Mark(*item[:3]) for item in self._items_of(keys))
            self._send(sender, DigestMismatch(after, last, marks))

    def _differing(self, message: DigestMismatch, sender: Address) -> None:
        """Give a sibling what it lacks, and ask for what it has newer."""
        theirs = {(mark.key, mark.name): mark.version for mark in message.marks}
        lacking = (
            item
            for item in self._items_of(self._keys_within(message.after, message.last))
            if (item.key, item.name) not in theirs or theirs[item.key, item.name] < item.version
        )
        self._give([sender], lacking)
        wanted = tuple(mark for mark in message.marks if self._lacks(mark))
        if wanted:
            self._send(sender, ReplicaRequest(wanted))

    def _lacks(self, mark: Mark) -> bool:
        item = self._find(mark.key, mark.name)
        return item is None or item.version < mark.version

    def _wanted(self, message: ReplicaRequest, sender: Address) -> None:
        found = (self._find(mark.key, mark.name) for mark in message.marks)
        self._give([sender], (item for item in found if item is not None))

    def _strays(self, message: StrayItems, arrival: Arrival) -> None:
        new = [self._find(item.key, item.name) for item in message.items if self._receive(item)]
        self._give(self._siblings_now(), [item for item in new if item is not None])
        if not self._receipts:
            self.ring.node.wake_after(0.0, "replication receipts")
        self._receipts.setdefault(message.keeper, []).extend(Mark(*item[:3]) for item in message.items)

    def _send_receipts(self, about: None) -> None:
        """Answer all strays that came together with one receipt for each keeper."""
        receipts, self._receipts = self._receipts, {}
        for keeper, marks in receipts.items():
            self._send(keeper, StrayReceipt(tuple(marks)))

    def _kept(self, message: StrayReceipt, sender: Address) -> None:
        """Forget strays that are safe, unless an owner has asked after them or they changed meanwhile."""
        for mark in message.marks:
            item = self._find(mark.key, mark.name)
            if item is not None and self._is_stray(mark.key) and item.version == mark.version:
                self._forget(mark.key, mark.name)

    # Upkeep.

    def _begin(self) -> None:
        self._siblings = self._siblings_now()
        self._counted_at = self.ring.node.now
        self._receipts.clear()  # their alarm is gone; the strays come again
        if self.copies:
            delay = self.period * (1 + staggered(self.ring.identifier))
            self.ring.node.wake_after(delay, "replication period")

    def _each_period(self, about: None) -> None:
        self.ring.node.wake_after(self.period, "replication period")
        self._counted += self.period
        self._counted_at = self.ring.node.now
        self._bury()
        arc = self.ring.arc()
        if not self.ring.member or arc is None:
            return
        after, last = arc
        digest = self._digest(self._keys_within(after, last))
        for sibling in self._siblings_now():
            self._send(sibling, DigestCheck(after, last, digest))
        here = self.ring.identifier
        strays = [
            (key, self._sent(items.values())) for key, items in self._items.items() if self._is_stray(key)
        ]
        self.ring.multicast_all(((key,), StrayItems(items, here)) for key, items in strays)

    def _is_stray(self, key: int) -> bool:
        asked = self._asked_after.get(key)
        return key not in self._owned and asked is not None and self.ring.node.now - asked > 3 * self.period

    def _bury(self) -> None:
        """Forget tombstones that are old enough."""
        before = self._counted - TOMBSTONES
        for key, name in [place for place, dropped in self._tombstones.items() if dropped < before]:
            self._forget(key, name)

    def _keys_within(self, after: int, last: int) -> list[int]:
        mask = self.ring.circle.mask  # `Circle.up_to`, written out: every key is asked in every period
        span = (last - after - 1) & mask
        return [key for key in self._items if (key - after - 1) & mask <= span]

    def _digest(self, keys: Iterable[int]) -> int:
        """A number that two nodes share only if their items of these keys agree in names and versions.

        It depends neither on the order of the items nor on the process, and changes with them in constant
        time: it is the sum of their hashes.
        """
        return sum(map(self._digests.__getitem__, keys)) % (1 << 64)


@lru_cache(maxsize=1 << 16)
def _hash(key: int, name: Name, version: Version) -> int:
    # The text names the class and its fields: nodes agree only while all of them call these the same.
    return int.from_bytes(blake2b(repr(Mark(key, name, version)).encode(), digest_size=8).digest(), "big")
