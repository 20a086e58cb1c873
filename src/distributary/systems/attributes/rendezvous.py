"""The lists that a node of the attribute system keeps for others: entries under the keys that it owns.

Rules:

- Only its home changes an entry, and every change has a greater serial number than the one before. A change
  that arrives after a later one is ignored, so stores and drops may overtake one another; the serials of
  drops are remembered for that.
- Entries are soft state: with a refresh period, one that its home has not stored again for `PATIENCE` periods
  is dropped. A node that takes over an entry from another waits as long.
- `replication` decides which node hosts what, and keeps the copies.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator

from distributary.overlay.node import Address
from distributary.overlay.replication import Replication
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.attributes.messages import (
    EntryChange,
    EntryDrop,
    EntryName,
    EntryStore,
    ListEntry,
    ValueLookup,
)

PATIENCE = 3
"""After how many refresh periods an entry that was not stored again is dropped."""

REMEMBERED = 10_000
"""How many drops are remembered, for stores that they have overtaken."""


class EntryLists:
    """The lists of one node."""

    def __init__(
        self, ring: Ring, replication: Replication, on_store: Callable[[EntryName, Address], None]
    ) -> None:
        self.ring = ring
        self._on_store = on_store
        """Called with the entry and the home that stored it."""
        self.replication = replication
        self._dropped: OrderedDict[tuple[int, EntryName], int] = OrderedDict()
        ring.listen(EntryStore, self._stored)
        ring.listen(EntryDrop, lambda message, arrival: self._apply(message, arrival.keys))
        ring.listen(EntryChange, self._start_walk)
        ring.node.handle(EntryChange, lambda message, sender: self._walk(message))

    def find(self, lookup: ValueLookup) -> Iterator[tuple[EntryName, ListEntry]]:
        """The entries in the list of a value."""
        for name, entry in self.replication.contents(lookup.key).items():
            if name.attribute == lookup.attribute and entry.reach.holds(lookup.spot):  # type: ignore[attr-defined]
                yield name, entry  # type: ignore[misc]

    @property
    def entries(self) -> int:
        """How many entries this node has in its lists: a part counts once for each attribute."""
        names = {name for key in self.replication.hosted() for name in self.replication.contents(key)}
        return len(names)

    # Changes.

    def _stored(self, message: EntryStore, arrival: Arrival) -> None:
        self._on_store(message.name, arrival.origin)
        self._apply(message, arrival.keys)

    def _apply(self, change: EntryStore | EntryDrop, keys: Iterable[int]) -> None:
        if isinstance(change, EntryStore):
            changed = [key for key in keys if self._is_newer(key, change.name, change.entry)]
            self.replication.put_all(changed, change.name, change.entry)
        else:
            removed = [key for key in keys if self._is_removed(key, change.name, change.serial)]
            self.replication.put_all(removed, change.name, None)

    def _is_newer(self, key: int, name: EntryName, entry: ListEntry) -> bool:
        """Whether an entry that was stored is a change of the list; if it is there already, renew it."""
        if self._dropped.get((key, name), -1) >= entry.serial:
            return False
        known = self.replication.contents(key).get(name)
        if known is None or known.serial < entry.serial:
            return True
        self.replication.renew(key, name)
        return False

    def _is_removed(self, key: int, name: EntryName, serial: int) -> bool:
        """Whether an entry is in the list and is to be dropped; the drop is remembered either way."""
        known = self.replication.contents(key).get(name)
        if known is not None and known.serial > serial:
            return False
        self._dropped[key, name] = max(serial, self._dropped.pop((key, name), -1))
        if len(self._dropped) > REMEMBERED:
            self._dropped.popitem(last=False)
        return known is not None

    # Along the ring.

    def _start_walk(self, message: EntryChange, arrival: Arrival) -> None:
        self._on_store(message.change.name, arrival.origin)
        self._walk(message)

    def _walk(self, message: EntryChange) -> None:
        """Apply a change to the keys owned here, and forward it to the successor for the others."""
        self._apply(message.change, [key for key in message.keys if self.ring.owns(key)])
        left = tuple(key for key in message.keys if not self.ring.owns(key))
        if left:
            self.ring.forward(self.ring.successor, message._replace(keys=left))
