"""`Residents`: the subscriptions of a node's clients with what their tolerances remember, asked all at once.

Few are evaluated one by one, which costs less than an index does. From more than `interests.FEW` on they are
in a `Matcher`, and what tolerances remember moves there: an event costs what it matches, however many ask.
Subscriptions that come later with values that they were given elsewhere stay outside and cost a look each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from distributary.errors import UnknownSubscriptionError
from distributary.filters.change import ChangeFilter
from distributary.filters.filter import Filter
from distributary.filters.kinds import parse_filters
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.systems.interests import FEW

if TYPE_CHECKING:
    from distributary.matching.matcher import Matcher


ValuesByTopic = Mapping[str | None, Mapping[str, float]]
"""The values last delivered to a subscription, by topic and attribute."""


class Resident:
    """A subscription with its parsed filters and the values last delivered to it, by topic."""

    __slots__ = ("_change", "filters", "last", "subscription")

    def __init__(self, subscription: Subscription, last: ValuesByTopic | None = None) -> None:
        self.subscription = subscription
        self.filters: dict[str, Filter] = parse_filters(subscription)
        change = self.filters.get("change")
        self._change = change if isinstance(change, ChangeFilter) else None
        self.last = {topic: dict(values) for topic, values in (last or {}).items()}
        """What is remembered here, as long as residents are few."""

    def passes(self, event: Event) -> bool:
        """Whether the event matches every filter; of a change filter, the part that needs no memory."""
        return all(filter.matches(event) for filter in self.filters.values())

    def fires(self, event: Event) -> bool:
        """Whether the event is to be delivered; if so its values become the last delivered ones."""
        if not self.passes(event):
            return False
        if self._change is None:
            return True
        last = self.last.get(event.topic, {})
        numbers = self._change.numbers(event)
        moved = self._change.moved(numbers, last)
        if moved:
            self.last[event.topic] = {**last, **numbers}
        return moved


class Residents:
    """The subscriptions of one node's clients.

    >>> residents = Residents()
    >>> residents.put(Subscription("s1", "ann", where="price > 8", change={"price": 1}))
    >>> [residents.firing(Event("e1", attributes={"price": price})) for price in (8.4, 8.9, 9.5)]
    [[SubscriptionKey(subscriber='ann', id='s1')], [], [SubscriptionKey(subscriber='ann', id='s1')]]
    """

    def __init__(self) -> None:
        self._residents: dict[SubscriptionKey, Resident] = {}
        self._crowd: _Crowd | None = None
        self._apart: dict[SubscriptionKey, Resident] = {}
        """Those that came with values of their own when there was a crowd."""

    def __len__(self) -> int:
        return len(self._residents)

    def __contains__(self, key: SubscriptionKey) -> bool:
        return key in self._residents

    def __iter__(self) -> Iterator[Resident]:
        return iter(self._residents.values())

    def __getitem__(self, key: SubscriptionKey) -> Resident:
        if key not in self._residents:
            raise UnknownSubscriptionError(key.id, key.subscriber)
        return self._residents[key]

    def put(self, subscription: Subscription, last: ValuesByTopic | None = None) -> None:
        """Add a subscription, or replace the one with its key; an equal one keeps what it remembers.

        A new one begins with the values given as `last`.
        """
        key = subscription.key
        known = self._residents.get(key)
        if known is not None and known.subscription == subscription:
            return
        resident = Resident(subscription, last)
        if known is not None:
            self.remove(key)
        self._residents[key] = resident
        if self._crowd is not None:
            if resident.last:
                self._apart[key] = resident
            else:
                self._crowd.add(subscription)
        elif len(self._residents) > FEW:
            self._crowd = _Crowd(self._residents)

    def remove(self, key: SubscriptionKey) -> Subscription:
        """Remove a subscription and return it; UnknownSubscriptionError when it is not here."""
        resident = self[key]
        del self._residents[key]
        if self._apart.pop(key, None) is None and self._crowd is not None:
            self._crowd.remove(key)
        return resident.subscription

    def firing(self, event: Event) -> list[SubscriptionKey]:
        """Those to which the event is to be delivered; its values become the last delivered ones there."""
        if self._crowd is not None:
            firing = self._crowd.firing(event)
            if self._apart:
                firing += [key for key, resident in self._apart.items() if resident.fires(event)]
            return firing
        return [key for key, resident in self._residents.items() if resident.fires(event)]


class _Crowd:
    """Many residents, in a matcher that knows them by serial: ids are each subscriber's own."""

    def __init__(self, residents: dict[SubscriptionKey, Resident]) -> None:
        from distributary.matching.matcher import Matcher

        self._matcher: Matcher = Matcher()
        self._keys: list[SubscriptionKey] = []
        """By the matcher's number; what stands there for numbers that are not in use is never read."""
        self._serials: dict[SubscriptionKey, int] = {}
        self._added = 0
        for resident in residents.values():
            self.add(resident.subscription)
        self._remember(residents)

    def _remember(self, residents: dict[SubscriptionKey, Resident]) -> None:
        """Take over what the tolerances of residents remember."""
        from distributary.matching.change import memory

        by_topic: dict[str | None, list[tuple[int, str, float]]] = {}
        for key, resident in residents.items():
            serial = self._serials[key]
            for topic, values in resident.last.items():
                by_topic.setdefault(topic, []).extend((serial, name, value) for name, value in values.items())
            resident.last.clear()
        self._matcher.restore(list(by_topic), memory.written(by_topic.values()))

    def add(self, subscription: Subscription) -> None:
        self._added += 1
        key, serial = subscription.key, self._added
        self._matcher.add(replace(subscription, id=str(serial)), serial=serial)
        self._serials[key] = serial
        number = self._matcher.number(str(serial))
        self._keys.extend([key] * (number + 1 - len(self._keys)))
        self._keys[number] = key

    def remove(self, key: SubscriptionKey) -> None:
        self._matcher.remove(str(self._serials.pop(key)))

    def firing(self, event: Event) -> list[SubscriptionKey]:
        keys = self._keys
        return [keys[number] for number in self._matcher.match_numbers(event)]
