"""SF, single-level filtering: every value goes to the whole segment of its item.

Section 4.3.2 of the dynamic-filter paper. A subscription is kept at h(d, c), by its tolerance c. Each value
is multicast to the item's segment; every node there compares it with all of its directory, and sends it by
one multicast to the homes of those that it has moved too far for.

A publication costs the way to the segment, one message for each node of it, and the way to the homes;
comparing takes time proportional to the directory.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from distributary.model import Event
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.state_aware.broker import (
    BEGINNING,
    DirectoryEntry,
    LastDelivered,
    StateAwareBroker,
    TrackedSubscription,
    ValueStamp,
)
from distributary.systems.state_aware.segments import Segments


class Value(NamedTuple):
    """A value for every node of an item's segment."""

    item: str
    event: Event
    stamp: ValueStamp


class SFBroker(StateAwareBroker):
    """A node of an SF network."""

    def __init__(self, ring: Ring, segments: Segments, **options: Any) -> None:
        self._directory: dict[str, TrackedSubscription] = {}
        self._items: dict[str, dict[str, TrackedSubscription]] = {}
        self._newest: dict[str, ValueStamp] = {}
        super().__init__(ring, segments, **options)
        ring.listen(Value, self._valued)

    def register_key(self, standing: TrackedSubscription) -> int:
        return self.segments.place(standing.registered.item, standing.least)

    def send_value(self, item: str, event: Event, stamp: ValueStamp) -> None:
        start = self.segments.start(item)
        self.ring.multicast_segment(start, self.segments.length, Value(item, event, stamp))

    def directory(self) -> dict[str, TrackedSubscription]:
        return self._directory

    def admit(self, registered: DirectoryEntry, held: tuple[LastDelivered, ...] | None) -> None:
        name = registered.subscription.id
        standing = self._directory.get(name)
        if standing is None or standing.registered != registered:
            if standing is not None:
                self.dismiss(name)
            standing = self._directory[name] = TrackedSubscription(registered, self.node.now)
            self._items.setdefault(registered.item, {})[name] = standing
        standing.refreshed = self.node.now
        if held is not None:
            standing.learn(held, self.settled)

    def dismiss(self, name: str, *, moved: bool = False) -> None:
        item = self._directory.pop(name).registered.item
        del self._items[item][name]
        if not self._items[item]:
            del self._items[item]

    def _valued(self, message: Value, arrival: Arrival) -> None:
        item, event, stamp = message
        assert event.topic is not None
        standings = self._items.get(item)
        if standings is None or stamp <= self._newest.get(event.topic, BEGINNING):
            return
        self._newest[event.topic] = stamp
        self.notify(item, event, stamp, [each for each in standings.values() if each.takes(event, stamp)])
