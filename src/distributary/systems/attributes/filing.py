"""How a home files its subscriptions on the ring, and updates them when they or the placements change.

Rules:

- What a part asks of an attribute is stored as an entry under every key to which the placement maps one of
  its cells. A home remembers all that it filed. Subscribing, updating, unsubscribing and moving to another
  placement are one operation: compare what should be filed with what is, and send the difference. So an
  update touches only the values that its old and new ranges do not share (004 section 3.1.2).
- The placement determines how a change travels: one route for each key, a walk along the ring, or one
  multicast. With `together`, what would take a route for each key takes one multicast too: as many messages
  arrive, but fewer are sent, and each that is lost costs a repetition.
- `refresh` stores everything again unchanged, by one message to each next node whatever the placement.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from typing import NamedTuple

from distributary.errors import FilterError
from distributary.model import SubscriptionKey
from distributary.overlay.ring.placement import AttributePlacement, Spread, point_key
from distributary.overlay.ring.ring import Ring
from distributary.systems.attributes.messages import EntryChange, EntryDrop, EntryName, EntryStore, ListEntry
from distributary.systems.attributes.parts import PartCondition
from distributary.systems.attributes.schema import CellRange, ValueSet

MOST_KEYS = 100_000
"""The most keys under which a subscription may be stored."""


class KeyShare(NamedTuple):
    """The cells or the point of one key that a part asks for."""

    cells: tuple[CellRange, ...]
    point: str | None
    wanted: PartCondition | None


Place = tuple[EntryName, int]
"""An entry's name and one of its keys."""

Filed = dict[Place, KeyShare]

Change = EntryStore | EntryDrop


class FiledEntry(NamedTuple):
    """An entry that a home stores under every key of a set of values."""

    name: EntryName
    reach: ValueSet
    wanted: PartCondition | None
    placement: AttributePlacement | None
    """None for an attribute that has points only."""


def shares_of(entry: FiledEntry, ring: Ring) -> Filed:
    """What an entry puts on the ring, by key; FilterError when it takes more than `MOST_KEYS` keys."""
    filed: dict[int, list[CellRange]] = {}
    count = 0
    for first, last in entry.reach.runs:
        assert entry.placement is not None, "runs have cells, and cells have a placement"
        for key, start, end in entry.placement.stored(first, last):
            filed.setdefault(key, []).append(CellRange(max(start, first), min(end, last)))
            count += 1
            if count > MOST_KEYS:
                raise FilterError(
                    f"asks for so many values of {entry.name.attribute!r} that it would be stored more than "
                    f"{MOST_KEYS:,} times; ask for fewer, or declare a coarser precision",
                    field="where",
                )
    shares: Filed = {
        (entry.name, key): KeyShare(tuple(runs), None, entry.wanted) for key, runs in filed.items()
    }
    for point in entry.reach.points:
        key = point_key(ring.circle, entry.name.attribute, point)
        shares[entry.name, key] = KeyShare((), point, entry.wanted)
    return shares


class Filing:
    """The entries that one home has filed; `together` as above."""

    def __init__(self, ring: Ring, *, together: bool = False) -> None:
        self.ring = ring
        self._together = together
        self._filed: dict[SubscriptionKey, Filed] = {}
        self._entries: dict[SubscriptionKey, dict[EntryName, tuple[FiledEntry, int]]] = {}
        """For each subscription, its entries, each with the serial number of its last change."""
        self._serial = 0

    def file(self, key: SubscriptionKey, entries: Iterable[FiledEntry]) -> None:
        """Store these entries of a subscription and remove its others; FilterError when they are too many.

        Nothing is changed when an error is raised.
        """
        entries = list(entries)
        should = {place: share for entry in entries for place, share in shares_of(entry, self.ring).items()}
        filed = self._filed.get(key, {})
        known = self._entries.get(key, {})
        self._serial = max(self._serial + 1, int(self.ring.node.now * 1000))
        removed = _keys_by_name(place for place in filed if place not in should)
        changed = _keys_by_name(place for place, share in should.items() if filed.get(place) != share)
        self._filed[key] = should
        self._entries[key] = {
            entry.name: (entry, self._serial if entry.name in changed else known[entry.name][1])
            for entry in entries
            if entry.name in changed or entry.name in known
        }
        for name, keys in changed.items():
            entry, serial = self._entries[key][name]
            self._send(entry.placement, keys, should, _store(entry, serial))
        for name, keys in removed.items():
            self._send(known[name][0].placement, keys, filed, EntryDrop(name, self._serial))

    def forget(self, key: SubscriptionKey) -> None:
        """Remove everything of a subscription from the ring."""
        self.file(key, ())
        del self._filed[key], self._entries[key]

    def refresh(self) -> None:
        """Store everything again."""
        self.ring.multicast_all(
            (keys, _store(*self._entries[key][name]))
            for key, filed in self._filed.items()
            for name, keys in _keys_by_name(filed).items()
        )

    def _send(
        self, placement: AttributePlacement | None, keys: list[int], filed: Filed, change: Change
    ) -> None:
        spread = Spread.EACH if placement is None else placement.spread
        if spread is Spread.JUMP or (spread is Spread.EACH and self._together):
            self.ring.multicast(keys, change)
        elif spread is Spread.EACH:
            for key in keys:
                self.ring.route(key, change)
        else:
            for stretch in _stretches(keys, [filed[change.name, key] for key in keys]):
                along = EntryChange(tuple(stretch), change)
                self.ring.route(stretch[0], along if len(stretch) > 1 else change)


def _store(entry: FiledEntry, serial: int) -> EntryStore:
    return EntryStore(entry.name, ListEntry(serial, entry.reach, entry.wanted))


def _keys_by_name(places: Iterable[Place]) -> dict[EntryName, list[int]]:
    """The keys of each entry; the places of an entry follow one another."""
    return {name: [key for _, key in each] for name, each in groupby(places, key=itemgetter(0))}


def _stretches(keys: list[int], shares: list[KeyShare]) -> list[list[int]]:
    """Keys grouped so that the cells within a group are consecutive."""
    stretches: list[list[int]] = []
    expected: int | None = None
    for key, share in zip(keys, shares, strict=True):
        if share.cells and share.cells[0].first == expected:
            stretches[-1].append(key)
        else:
            stretches.append([key])
        expected = share.cells[0].last + 1 if share.cells else None
    return stretches
