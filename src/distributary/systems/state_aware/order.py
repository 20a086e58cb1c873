"""The order of values without clocks that agree, and the latest of them.

A node numbers what it publishes, or what it puts in order for others. Numbers of one node tell which value is
newer; between nodes nothing does, so there what arrives last counts. What is remembered is bounded, and what
was heard of least lately is forgotten: of a topic or a publisher that was silent for so long, an old value
that arrives late is taken for a new one.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import NamedTuple

from distributary.model import Event
from distributary.overlay.node import Address

PUBLISHERS = 16
"""Of how many publishers of a topic the latest numbers are remembered."""
TOPICS = 100_000
"""Of how many topics the publishers, or the latest values, are remembered."""


class ValueStamp(NamedTuple):
    """The place of a value in the order of one node, its publisher or whoever puts values in order.

    The incarnation is when that node first started, by its own clock, so that stamps keep growing when it
    restarts without its state.

    >>> third = ValueStamp(7, 0.5, 3)
    >>> third.follows(ValueStamp(7, 0.5, 2)), third.follows(ValueStamp(8, 0.5, 2))
    (True, False)
    """

    node: Address
    incarnation: float
    number: int

    def follows(self, other: ValueStamp) -> bool:
        """Whether the same node gave it later than another."""
        return self.node == other.node and self[1:] > other[1:]

    def is_newer(self, known: ValueStamp | None) -> bool:
        """Whether a value that arrives now counts as newer than the latest known one.

        >>> third = ValueStamp(7, 0.5, 3)
        >>> third.is_newer(third), third.is_newer(ValueStamp(8, 0.5, 9))
        (False, True)
        """
        return known is None or not (self == known or known.follows(self))


class PublisherOrder:
    """The latest stamp of each publisher of a topic.

    >>> order = PublisherOrder()
    >>> order.admits("t", ValueStamp(1, 0.0, 5)), order.admits("t", ValueStamp(2, 0.0, 1))
    (True, True)
    >>> order.admits("t", ValueStamp(1, 0.0, 4))
    False
    """

    def __init__(self) -> None:
        self._topics: OrderedDict[str, OrderedDict[Address, ValueStamp]] = OrderedDict()

    def admits(self, topic: str, published: ValueStamp) -> bool:
        """Note the stamp of a value; False when its publisher gave it no later than the latest one."""
        known = self._topics.setdefault(topic, OrderedDict())
        is_newer = published.is_newer(known.get(published.node))
        if is_newer:
            known[published.node] = published
        known.move_to_end(published.node)
        self._topics.move_to_end(topic)
        if len(known) > PUBLISHERS:
            known.popitem(last=False)
        if len(self._topics) > TOPICS:
            self._topics.popitem(last=False)
        return is_newer


class LatestValue(NamedTuple):
    """The latest value of a topic, with its place in the order."""

    event: Event
    stamp: ValueStamp


class LatestValues:
    """The latest value of each topic, by item."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, LatestValue]] = {}
        self._topics: OrderedDict[str, str] = OrderedDict()
        """The item of each topic."""

    def admits(self, item: str, topic: str, stamp: ValueStamp) -> bool:
        """Whether a value is newer than what is known of its topic."""
        known = self._items.get(item, {}).get(topic)
        return known is None or stamp.is_newer(known.stamp)

    def keep(self, item: str, event: Event, stamp: ValueStamp) -> tuple[str, str] | None:
        """Keep a value, unless a newer one of its topic is there already.

        Returns the item and the topic that were forgotten for it, if any.
        """
        topic = event.topic
        assert topic is not None
        if self.admits(item, topic, stamp):
            self._items.setdefault(item, {})[topic] = LatestValue(event, stamp)
        self._topics[topic] = item
        self._topics.move_to_end(topic)
        if len(self._topics) <= TOPICS:
            return None
        oldest, its_item = self._topics.popitem(last=False)
        del self._items[its_item][oldest]
        if not self._items[its_item]:
            del self._items[its_item]
        return its_item, oldest

    def forget(self, item: str) -> None:
        """Forget the values of an item."""
        for topic in self._items.pop(item, ()):
            del self._topics[topic]

    def of(self, item: str) -> list[LatestValue]:
        """The latest value of each topic of an item."""
        return list(self._items.get(item, {}).values())
