"""`Residents`: the subscriptions of a node's clients with what their tolerances remember, asked all at once.

Those that ask for a topic alone are asked once for each topic, and apart from the others, which are asked of
every event that may have the attributes they need.

Few are evaluated one by one, which costs less than an index does. From more than `interests.FEW` on, and as
soon as the process may call kernels (`kernel_use`), they are in a `Matcher`, and what tolerances remember
moves there, also that of subscriptions which come later with values that they were given elsewhere: an event
costs what it matches, however many ask. Until then many are looked up by what their topics begin with: of
thousands of devices with a topic each, not all are asked of every event.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from distributary.errors import UnknownSubscriptionError
from distributary.filters.change import ChangeFilter
from distributary.filters.filter import Filter
from distributary.filters.kinds import parse_filters
from distributary.filters.topic import Levels, TopicFilter
from distributary.filters.where.filter import WhereFilter
from distributary.model import Event, Subscription, SubscriptionKey, Value, bare_topic
from distributary.overlay.broker import ValuesByTopic
from distributary.overlay.packed_events import PackedEvents, topics_of
from distributary.systems.interests import FEW
from distributary.systems.kernel_use import KERNELS

if TYPE_CHECKING:
    from distributary.matching.matcher import Matcher


Wanted = tuple[tuple[str, tuple[str, ...]], ...]
"""Who wants an event, sorted: subscribers, each with the ids of their subscriptions that do, sorted."""

MOST_TOPICS = 10_000
"""Topics of which it is remembered who wants them; then the memory starts anew."""

FEW_EVENTS = 8
"""So many events are asked about one by one where there are many subscriptions: a batch costs more."""


class Resident:
    """A subscription with its parsed filters and the values last delivered to it, by topic."""

    __slots__ = ("_change", "_needs", "filters", "last", "subscription")

    def __init__(self, subscription: Subscription, last: ValuesByTopic | None = None) -> None:
        self.subscription = subscription
        self.filters: dict[str, Filter] = parse_filters(subscription)
        change = self.filters.get("change")
        self._change = change if isinstance(change, ChangeFilter) else None
        self._needs: tuple[tuple[str, ...], ...] | None = None
        """Of the condition's alternatives, the attributes that each needs; found when it is asked for."""
        self.last = {topic: dict(values) for topic, values in (last or {}).items()}
        """What is remembered here, as long as residents are few."""

    @property
    def needs(self) -> tuple[tuple[str, ...], ...]:
        """Of the alternatives that it has, the attributes that each needs."""
        if self._needs is None:
            where = self.filters.get("where")
            self._needs = needed_attributes(where) if isinstance(where, WhereFilter) else ((),)
        return self._needs

    @property
    def start(self) -> Levels:
        """The levels that every topic begins with which it wants, bare of a leading slash."""
        topic = self.filters.get("topic")
        return topic.fixed if isinstance(topic, TopicFilter) else ()

    def may_want(self, events: PackedEvents) -> bool:
        """Whether one of these events may pass; False only if that is certain."""
        origin = events.origin
        if origin is None:
            return True
        for names in self.needs:
            for name in names:
                if not origin.may_have(name):
                    break
            else:
                return True
        return False

    def common(self, events: PackedEvents) -> dict[str, Value] | None:
        """Of events that all have alike what it asks for beside a topic, just that; None of others."""
        if not self.filters.keys() <= {"topic", "where"}:
            return None
        where = self.filters.get("where")
        if not isinstance(where, WhereFilter) or where.looks_at_clock:
            return None
        values = {name: events.common(name) for name in where.names}
        return None if None in values.values() else values

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


def needed_attributes(where: WhereFilter) -> tuple[tuple[str, ...], ...]:
    """Of each alternative of a condition, the attributes without which it is not true.

    >>> tuple(sorted(needed_attributes(WhereFilter.parse("a = 1 and b > 2 or c = 3"))))
    (('a', 'b'), ('c',))
    """
    conjunctions = where.conjunctions
    if conjunctions is None:
        return ((),)
    return tuple([tuple([name for name, domain in each.domains if not domain.null]) for each in conjunctions])


class Residents:
    """The subscriptions of one node's clients.

    >>> residents = Residents()
    >>> residents.put(Subscription("s1", "ann", where="price > 8", change={"price": 1}))
    >>> [residents.firing(Event("e1", attributes={"price": price})) for price in (8.4, 8.9, 9.5)]
    [[SubscriptionKey(subscriber='ann', id='s1')], [], [SubscriptionKey(subscriber='ann', id='s1')]]
    """

    def __init__(self) -> None:
        self._residents: dict[SubscriptionKey, Resident] = {}
        self._plain, self._others = _Group(), _Group()
        """Those that ask for a topic alone, and those that ask for more."""
        self._by_topic: dict[str | None, Wanted] = {}
        """Who wants a topic and nothing else, as far as was asked."""

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
        self._group_of(resident).add(resident)

    def start_from(self, key: SubscriptionKey, before: ValuesByTopic, values: ValuesByTopic) -> None:
        """Have the tolerance of a subscription start from values, by topic, that were delivered elsewhere.

        Topics are left as they are of which it remembers something, and something else than `before` says. A
        subscription that is not here is passed over.
        """
        resident = self._residents.get(key)
        if resident is not None and not _is_plain(resident):
            self._others.start_from(resident, before, values)

    def remove(self, key: SubscriptionKey) -> Subscription:
        """Remove a subscription and return it; UnknownSubscriptionError when it is not here."""
        resident = self[key]
        del self._residents[key]
        self._group_of(resident).remove(key)
        return resident.subscription

    def _group_of(self, resident: Resident) -> _Group:
        """Where a resident belongs, which is about to change."""
        if not _is_plain(resident):
            return self._others
        self._by_topic.clear()
        return self._plain

    def firing(self, event: Event) -> list[SubscriptionKey]:
        """Those to which the event is to be delivered; its values become the last delivered ones there."""
        return [*self._plain.firing(event), *self._others.firing(event)]

    def remembered(self) -> list[tuple[Subscription, ValuesByTopic]]:
        """Every subscription with the values last delivered to it."""
        last = self._others.remembered()
        return [(each.subscription, last.get(key, each.last)) for key, each in self._residents.items()]

    def wanted(self, events: Sequence[Event]) -> list[Wanted]:
        """Who wants each of some events, in their order; as `firing` one by one.

        Events whose topic alone decides share one answer, the same object.
        """
        topics = topics_of(events)
        known = self._by_topic.get(topics[0]) if len(topics) == 1 else None
        plain = self._wanted_topics(topics) if known is None else [known]
        if not self._others.may_fire(events):
            return plain
        more = self._others.firing_together(events)
        return [
            by_subscriber([*_keys(one), *keys]) if keys else one
            for one, keys in zip(plain, more, strict=True)
        ]

    def audience(self, topic: str, lacking: str) -> Wanted | None:
        """Who wants an event of a topic that lacks an attribute; None where more than that decides."""
        return None if self._others.may_do_without(lacking) else self._wanted_topics((topic,))[0]

    def _wanted_topics(self, topics: Sequence[str | None]) -> list[Wanted]:
        known, asked = self._by_topic, set(topics)
        if len(known) + len(asked) > MOST_TOPICS:
            known.clear()
        for topic in asked.difference(known):
            known[topic] = by_subscriber(self._plain.firing(Event("", topic)))
        return [known[topic] for topic in topics]


def _keys(wanted: Wanted) -> list[SubscriptionKey]:
    return [SubscriptionKey(subscriber, name) for subscriber, names in wanted for name in names]


class _Group:
    """Residents that are asked together, one by one or in a matcher."""

    def __init__(self) -> None:
        self._residents: dict[SubscriptionKey, Resident] = {}
        self._crowd: _Crowd | None = None
        self._by_start: dict[Levels, dict[SubscriptionKey, Resident]] = {}
        """As long as there is no matcher: by the first levels that a topic must have."""
        self._longest = 0
        """As many of them as any has had."""

    def add(self, resident: Resident) -> None:
        key, start = resident.subscription.key, resident.start
        self._residents[key] = resident
        if self._crowd is not None:
            self._crowd.add(resident)
        else:
            self._by_start.setdefault(start, {})[key] = resident
            self._longest = max(self._longest, len(start))
            self._gather()

    def _gather(self) -> None:
        """Put residents that have become many into a matcher, if kernels may be called."""
        if self._crowd is None and len(self._residents) > FEW and not KERNELS.withheld:
            self._crowd = _Crowd(self._residents.values())
            self._by_start.clear()

    def remove(self, key: SubscriptionKey) -> None:
        start = self._residents.pop(key).start
        if self._crowd is not None:
            self._crowd.remove(key)
            return
        del self._by_start[start][key]
        if not self._by_start[start]:
            del self._by_start[start]

    def may_fire(self, events: Sequence[Event]) -> bool:
        """Whether one of them may want one of these events; False only if that is certain."""
        self._gather()
        if self._crowd is not None or type(events) is not PackedEvents:
            return bool(self._residents)
        return any(each.may_want(events) for each in self._residents.values())

    def may_do_without(self, name: str) -> bool:
        """Whether one of them may want an event without this attribute; False only if that is certain."""
        self._gather()
        if self._crowd is not None:
            return True
        return any(name not in names for each in self._residents.values() for names in each.needs)

    def firing(self, event: Event) -> list[SubscriptionKey]:
        self._gather()
        if self._crowd is not None:
            return self._crowd.firing(event)
        return [key for key, resident in self._nominees(event.topic) if resident.fires(event)]

    def _nominees(self, topic: str | None) -> Iterable[tuple[SubscriptionKey, Resident]]:
        """Those that may want an event of this topic, as long as they are in no matcher."""
        if len(self._residents) <= FEW:
            return self._residents.items()
        levels = [] if topic is None else bare_topic(topic).split("/")[: self._longest]
        starts = [tuple(levels[:count]) for count in range(len(levels) + 1)]
        return [pair for start in starts for pair in self._by_start.get(start, {}).items()]

    def firing_together(self, events: Sequence[Event]) -> list[list[SubscriptionKey]]:
        """As `firing`, of each of some events in their order."""
        if self._crowd is None and type(events) is PackedEvents:
            return self._firing_packed(events)
        if self._crowd is None or len(events) <= FEW_EVENTS:
            return [self.firing(event) for event in events]
        return self._crowd.firing_together(events)

    def _firing_packed(self, events: PackedEvents) -> list[list[SubscriptionKey]]:
        """As `firing`, of events of which none is made that nobody needs."""
        firing: list[list[SubscriptionKey]] = [[] for _ in events.topics]
        for key, resident in self._residents.items():
            if not resident.may_want(events):
                continue
            values = resident.common(events)
            if values is None:
                found = [resident.fires(event) for event in events]
            else:  # the topic decides
                fires = {topic: resident.passes(Event("", topic, values)) for topic in set(events.topics)}
                found = [fires[topic] for topic in events.topics]
            for place, wants in enumerate(found):
                if wants:
                    firing[place].append(key)
        return firing

    def start_from(self, resident: Resident, before: ValuesByTopic, values: ValuesByTopic) -> None:
        """Have one start from values where it remembers nothing, or what it remembered before."""
        if self._crowd is not None:
            self._crowd.start_from(resident, before, values)
            return
        for topic, numbers in values.items():
            if resident.last.get(topic, {}) in ({}, before.get(topic)):
                resident.last[topic] = dict(numbers)

    def remembered(self) -> dict[SubscriptionKey, dict[str | None, dict[str, float]]]:
        """What tolerances remember, of those that remember anything, where there is a matcher."""
        return {} if self._crowd is None else self._crowd.remembered()


def _is_plain(resident: Resident) -> bool:
    return resident.filters.keys() == {"topic"}


def by_subscriber(keys: Iterable[SubscriptionKey]) -> Wanted:
    """Subscriptions that want an event, by who is given it.

    >>> by_subscriber(map(SubscriptionKey, ("bob", "ann", "ann"), ("s1", "s2", "s1")))
    (('ann', ('s1', 's2')), ('bob', ('s1',)))
    """
    asked: dict[str, tuple[str, ...]] = {}
    for subscriber, name in keys:
        asked[subscriber] = (*asked[subscriber], name) if subscriber in asked else (name,)
    return tuple(
        [(each, names if len(names) == 1 else tuple(sorted(names))) for each, names in sorted(asked.items())]
    )


class _Crowd:
    """Many residents, in a matcher that knows them by serial: ids are each subscriber's own."""

    def __init__(self, residents: Iterable[Resident]) -> None:
        from distributary.matching.matcher import Matcher

        self._matcher: Matcher = Matcher()
        self._keys: list[SubscriptionKey] = []
        """By the matcher's number; what stands there for numbers that are not in use is never read."""
        self._serials: dict[SubscriptionKey, int] = {}
        self._added = 0
        self._given: dict[str | None, list[tuple[int, str, float]]] = {}
        """By topic what newcomers remember: serials, attributes and values. The matcher is told before the
        next event, of all at once."""
        for resident in residents:
            self.add(resident)

    def add(self, resident: Resident) -> None:
        """Add a resident, and take over what its tolerance remembers."""
        self._added += 1
        key, serial = resident.subscription.key, self._added
        self._matcher.add(replace(resident.subscription, id=str(serial)), serial=serial)
        self._serials[key] = serial
        number = self._matcher.number(str(serial))
        self._keys.extend([key] * (number + 1 - len(self._keys)))
        self._keys[number] = key
        for topic, values in resident.last.items():
            self._given.setdefault(topic, []).extend((serial, *value) for value in values.items())
        resident.last.clear()

    def remove(self, key: SubscriptionKey) -> None:
        self._matcher.remove(str(self._serials.pop(key)))

    def start_from(self, resident: Resident, before: ValuesByTopic, values: ValuesByTopic) -> None:
        """As `_Group.start_from`."""
        self._restore()
        key = resident.subscription.key
        id = str(self._serials[key])
        now = {topic: self._matcher.last(id, topic) for topic in values}
        held = [topic for topic in values if now[topic] in ({}, before.get(topic))]
        if any(now[topic] for topic in held):  # the matcher takes values only where it has none
            resident.last = {**self.remembered().get(key, {}), **{each: dict(values[each]) for each in held}}
            self.remove(key)
            self.add(resident)
            return
        for topic in held:
            given = ((int(id), *value) for value in values[topic].items())
            self._given.setdefault(topic, []).extend(given)

    def firing(self, event: Event) -> list[SubscriptionKey]:
        if self._given:
            self._restore()
        keys = self._keys
        return [keys[number] for number in self._matcher.match_numbers(event)]

    def firing_together(self, events: Sequence[Event]) -> list[list[SubscriptionKey]]:
        """As `firing`, of each of some events in their order."""
        if self._given:
            self._restore()
        keys = self._keys
        firing: list[list[SubscriptionKey]] = [[] for _ in events]
        rows, numbers = self._matcher.match_numbers_together(events)
        for row, number in zip(rows.tolist(), numbers.tolist(), strict=True):
            firing[row].append(keys[number])
        return firing

    def remembered(self) -> dict[SubscriptionKey, dict[str | None, dict[str, float]]]:
        """What tolerances remember, of those that remember anything."""
        from distributary.matching.change import memory

        self._restore()
        topics = self._matcher.topics
        values = memory.unpack(self._matcher.recall(topics))
        keys = {serial: key for key, serial in self._serials.items()}
        found: dict[SubscriptionKey, dict[str | None, dict[str, float]]] = {}
        for serial, attribute, topic, value in zip(*(column.tolist() for column in values[1:]), strict=True):
            found.setdefault(keys[serial], {}).setdefault(topics[topic], {})[values.names[attribute]] = value
        return found

    def _restore(self) -> None:
        from distributary.matching.change import memory

        self._matcher.restore(list(self._given), memory.written(self._given.values()))
        self._given.clear()
