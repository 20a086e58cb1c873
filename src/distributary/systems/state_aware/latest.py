"""The latest values of items, for new subscriptions, also where a node has just taken over from another.

Rules:

- A node keeps the latest value of each topic that it receives (`order.LatestValues`).
- With replication, the owner of an item's first key keeps them among its replicas as well, so that whoever
  takes over from it has them.
- A node may have come to own a part of the segment just now. When a subscription is registered with it, it
  asks the owner of the first key for what it may have missed: once, and again after the ring has changed.
  What it receives meanwhile is newer than the answer.

Cost: a message for each copy and value of an item; a question and an answer for each item and change of the
ring. Without replication nothing is sent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from distributary.model import Event
from distributary.overlay.node import Address, Message
from distributary.overlay.replication import Replication
from distributary.overlay.ring.ring import Arrival, Ring
from distributary.systems.state_aware.order import LatestValue, LatestValues, ValueStamp
from distributary.systems.state_aware.segments import Segments


class LatestName(NamedTuple):
    """Names the latest value of a topic among the replicas; the entry is a `LatestEntry`."""

    topic: str


class LatestEntry(NamedTuple):
    """The latest value of a topic of an item."""

    item: str
    value: LatestValue


class LatestRequest(NamedTuple):
    """To the owner of an item's first key: tell me its latest values."""

    item: str
    asker: Address


class LatestReply(NamedTuple):
    """The latest values of an item."""

    item: str
    values: tuple[LatestValue, ...]


class LatestExchange:
    """The latest values that a node has, and how it gets those that it has missed."""

    def __init__(
        self,
        ring: Ring,
        segments: Segments,
        replication: Replication,
        tell: Callable[[Address, Message], None],
        learnt: Callable[[str], None],
    ) -> None:
        """`learnt` is called with an item of which there are other values than before, from another node."""
        self._ring = ring
        self._segments = segments
        self._replication = replication
        self._tell = tell
        self._learnt = learnt
        self._values = LatestValues()
        self._asked: dict[str, set[str]] = {}
        """The items that were asked about since the ring changed, with the topics received since then."""
        ring.watch(self._asked.clear)
        ring.listen(LatestRequest, self._answer)
        ring.node.handle(LatestReply, self._take)
        replication.on_change(self._hosted)

    def keep(self, item: str, event: Event, stamp: ValueStamp) -> None:
        """Keep a value that was received, unless a newer one of its topic is there already."""
        assert event.topic is not None
        if not self._values.admits(item, event.topic, stamp):
            return
        forgotten = self._values.keep(item, event, stamp)
        if item in self._asked:
            self._asked[item].add(event.topic)
        start = self._segments.start(item)
        if self._replication.copies and self._ring.owns(start):
            kept = LatestEntry(item, LatestValue(event, stamp))
            self._replication.put(start, LatestName(event.topic), kept)
        if forgotten is not None:
            its_item, topic = forgotten
            self._drop(self._segments.start(its_item), LatestName(topic))

    def of(self, item: str) -> list[LatestValue]:
        """The latest value of each topic of an item, as far as this node knows."""
        return self._values.of(item)

    def forget(self, item: str) -> None:
        """Forget the values of an item; replicas stay with whoever owns them now."""
        self._values.forget(item)

    def need(self, item: str) -> None:
        """Ask for what this node may have missed of an item, unless it has asked already."""
        start = self._segments.start(item)
        if self._replication.copies and item not in self._asked and not self._ring.owns(start):
            self._asked[item] = set()
            self._ring.route(start, LatestRequest(item, self._ring.node.address))

    def _answer(self, message: LatestRequest, arrival: Arrival) -> None:
        self._tell(message.asker, LatestReply(message.item, tuple(self.of(message.item))))

    def _take(self, message: LatestReply, sender: Address) -> None:
        item = message.item
        if item not in self._asked:  # the ring has changed since: what was received meanwhile is not known
            self.need(item)
            return
        missed = [each for each in message.values if each.event.topic not in self._asked[item]]
        for event, stamp in missed:
            self._values.keep(item, event, stamp)
        if missed:
            self._learnt(item)

    def _hosted(self, key: int, name: object, entry: LatestEntry | None) -> None:
        if isinstance(name, LatestName) and entry is not None:
            self._values.keep(entry.item, *entry.value)

    def _drop(self, key: int, name: LatestName) -> None:
        if name in self._replication.contents(key):
            self._replication.drop(key, name)
