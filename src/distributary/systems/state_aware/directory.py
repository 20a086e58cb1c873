"""The directory of one item at one rendezvous, ordered by thresholds.

Every subscription waits for its attribute to rise to one threshold or to fall to another
(`filters.change.quiet_between`). Heaps of the nearest thresholds, for each topic and attribute, find those
that a value reaches; `TrackedSubscription.takes` then decides. Between the nearest thresholds of all
subscriptions lies the *quiet* range, in which none takes a value; reporting it saves messages.

`matching.change.thresholds` uses the same idea for batches of rows in Arrow's form, which take 0.2 ms to
prepare for a single value; here a value takes a look at two heaps.

Rules:

- A subscription that remembers nothing of a topic is *fresh* for it: it is checked with every value, and
  there is no quiet range.
- A threshold in a heap is valid only while it is the latest of its subscription; others are dropped when they
  come to the top, or when they are more than half: behind a value that only rises, few come to the top.

Cost: O(k log n) for a value that k of n subscriptions are checked with; the quiet range is O(1) amortised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count
from math import inf

from distributary.filters.change import number_of, quiet_between
from distributary.model import Event, SubscriptionKey
from distributary.systems.state_aware.broker import TrackedSubscription
from distributary.systems.state_aware.order import ValueStamp

Bounds = tuple[float, float]
"""Lower and upper bound of a quiet range, both excluded."""
Quiet = Mapping[str, Bounds]
"""The quiet range of each attribute with a tolerance; other attributes do not matter."""

SPARE = 16
"""So many thresholds that are no longer valid are not worth dropping."""


def is_quiet(quiet: Quiet, event: Event) -> bool:
    """Whether no subscription can take an event.

    >>> is_quiet({"price": (8.0, 9.0)}, Event("e", attributes={"price": 8.5, "volume": 900}))
    True
    """
    for attribute, (low, high) in quiet.items():
        number = number_of(event.attributes.get(attribute))
        if number is not None and not low < number < high:
            return False
    return True


def narrowed(one: Quiet, other: Quiet) -> dict[str, Bounds]:
    """The range in which both are quiet.

    >>> narrowed({"price": (1, 5)}, {"price": (2, 9), "high": (0, 1)})
    {'price': (2, 5), 'high': (0, 1)}
    """
    both = dict(one)
    for attribute, (low, high) in other.items():
        least, most = both.get(attribute, (-inf, inf))
        both[attribute] = (max(low, least), min(high, most))
    return both


@dataclass(slots=True)
class _AttributeThresholds:
    """The thresholds on one attribute for one topic."""

    rises: list[tuple[float, int, SubscriptionKey]] = field(default_factory=list)
    falls: list[tuple[float, int, SubscriptionKey]] = field(default_factory=list)
    latest: dict[SubscriptionKey, int] = field(default_factory=dict)

    def enter(self, name: SubscriptionKey, low: float, high: float, serial: int) -> None:
        self.latest[name] = serial
        for heap, threshold in ((self.rises, high), (self.falls, -low)):
            heappush(heap, (threshold, serial, name))
            if len(heap) > 2 * len(self.latest) + SPARE:
                heap[:] = [each for each in heap if self.latest.get(each[2]) == each[1]]
                heapify(heap)

    def reached(self, number: float) -> Iterator[SubscriptionKey]:
        """Remove and yield the subscriptions whose threshold is reached; the caller enters them again."""
        for heap, reach in ((self.rises, number), (self.falls, -number)):
            while heap and heap[0][0] <= reach:
                _, serial, name = heappop(heap)
                if self.latest.get(name) == serial:
                    del self.latest[name]
                    yield name

    def bounds(self) -> Bounds | None:
        """The quiet range; None when there are no subscriptions."""
        for heap in (self.rises, self.falls):
            while heap and self.latest.get(heap[0][2]) != heap[0][1]:
                heappop(heap)
        return (-self.falls[0][0], self.rises[0][0]) if self.rises else None


class Directory:
    """The subscriptions of one item that are kept at a node."""

    def __init__(self) -> None:
        self._subscriptions: dict[SubscriptionKey, TrackedSubscription] = {}
        self._thresholds: dict[str, dict[str, _AttributeThresholds]] = {}
        """By topic and attribute."""
        self._fresh: dict[str, dict[SubscriptionKey, None]] = {}
        """By topic, the subscriptions that remember nothing of it."""
        self._serials = count(1)
        self.taken = 0
        """How often a subscription took a value."""

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __iter__(self) -> Iterator[TrackedSubscription]:
        return iter(self._subscriptions.values())

    def put(self, tracked: TrackedSubscription) -> None:
        """Add a subscription, or update it after the values it remembers have changed."""
        self.remove(tracked.name)
        self._subscriptions[tracked.name] = tracked
        for topic in {**dict.fromkeys(self._thresholds), **dict.fromkeys(tracked.delivered)}:
            self._enter(topic, tracked)

    def remove(self, name: SubscriptionKey) -> None:
        """Remove a subscription, if it is there."""
        if self._subscriptions.pop(name, None) is None:
            return
        for topic, by_attribute in self._thresholds.items():
            self._fresh[topic].pop(name, None)
            for thresholds in by_attribute.values():
                thresholds.latest.pop(name, None)

    def fire(self, event: Event, stamp: ValueStamp) -> list[TrackedSubscription]:
        """The subscriptions that take the event; its values are remembered as delivered."""
        topic = event.topic
        assert topic is not None
        self._open(topic)
        looking = dict.fromkeys(self._fresh[topic])
        for attribute, thresholds in self._thresholds[topic].items():
            number = number_of(event.attributes.get(attribute))
            if number is not None:
                looking.update(dict.fromkeys(thresholds.reached(number)))
        fired = []
        for name in looking:
            tracked = self._subscriptions[name]
            if tracked.takes(event, stamp):
                fired.append(tracked)
            self._enter(topic, tracked)
        self.taken += len(fired)
        return fired

    def quiet(self, topic: str) -> Quiet | None:
        """The quiet range of a topic; None when a subscription is fresh for it or it was never seen."""
        if topic not in self._thresholds or self._fresh[topic]:
            return None
        bounds = {attribute: thresholds.bounds() for attribute, thresholds in self._thresholds[topic].items()}
        return {attribute: each for attribute, each in bounds.items() if each is not None}

    def topics(self) -> list[str]:
        """The topics of which values were seen."""
        return list(self._thresholds)

    def _open(self, topic: str) -> None:
        """Make the heaps of a topic, with all subscriptions entered."""
        if topic not in self._thresholds:
            self._thresholds[topic] = {}
            self._fresh[topic] = {}
            for tracked in self._subscriptions.values():
                self._enter(topic, tracked)

    def _enter(self, topic: str, tracked: TrackedSubscription) -> None:
        """Enter the thresholds of a subscription that follow from the values it remembers."""
        self._open(topic)
        delivered = tracked.delivered.get(topic)
        if delivered is None:
            self._fresh[topic][tracked.name] = None
            return
        self._fresh[topic].pop(tracked.name, None)
        last = dict(delivered.values)
        for attribute, tolerance in tracked.change.tolerances:
            bounds = quiet_between(last[attribute], tolerance) if attribute in last else (inf, -inf)
            thresholds = self._thresholds[topic].setdefault(attribute, _AttributeThresholds())
            thresholds.enter(tracked.name, *bounds, next(self._serials))
