"""The sub-filters of MFD at the node that keeps them: their names, and what they remember."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from distributary.filters.change import number_of
from distributary.filters.filter import Filter
from distributary.filters.kinds import parse_filter
from distributary.matching.change.decomposition import Key, LogicalNode, SubFilter, logical_node
from distributary.model import Event, SubscriptionKey
from distributary.systems.state_aware.broker import Rule, TrackedSubscription
from distributary.systems.state_aware.order import ValueStamp


def logical_of(key: Key) -> LogicalNode:
    """The logical node that keeps the sub-filters of this key; those of no unit are with the lowest."""
    units = key[0]
    return logical_node(units) if units else LogicalNode(1, 1)


class SubFilterName(NamedTuple):
    """Identifies a sub-filter of an item."""

    rule: Rule
    attribute: str
    key: Key

    @property
    def logical(self) -> LogicalNode:
        """The logical node of 002's Figure 5 that keeps this sub-filter."""
        return logical_of(self.key)

    @property
    def level(self) -> int:
        """Its level, counted from 1."""
        return self.logical.level


class SubFilterStart(NamedTuple):
    """A sub-filter that takes the next value as its first; if `anew`, it forgets its earlier state."""

    name: SubFilterName
    anew: bool = False


class HostedSubFilter(SubFilter[SubscriptionKey, str]):
    """A sub-filter that is kept here."""

    __slots__ = ("begins", "below", "children", "fed", "level", "name", "passed", "shown", "subscriptions")

    def __init__(self, name: SubFilterName, below: tuple[Key, ...]) -> None:
        super().__init__(name.key)
        self.name = name
        self.level = name.level
        self.below = below
        self.children: dict[SubFilterName, float] = {}
        """The sub-filters that it feeds, and when they last asked for it."""
        self.subscriptions: dict[SubscriptionKey, TrackedSubscription] = {}
        self.shown: dict[str, ValueStamp] = {}
        self.fed: dict[str, ValueStamp] = {}
        self.passed: dict[str, tuple[ValueStamp, float]] = {}
        """By topic, the latest values: that it was shown, that passed the one below, and that passed here and
        when, by the clock here."""
        self.begins: dict[str, set[SubFilterStart]] = {}
        """On the lowest level, by topic: the sub-filters above that the next value begins."""

    @property
    def parent(self) -> SubFilterName | None:
        """The sub-filter below, which feeds it; None on the lowest level."""
        return self.name._replace(key=self.below[0]) if self.below else None

    def matches(self, event: Event) -> bool:
        """Whether an event matches the filters other than the tolerance."""
        return all(each.matches(event) for each in _filters(self.name.rule))

    def number(self, event: Event) -> float | None:
        """The value of its attribute in an event; None if that is no number."""
        return number_of(event.attributes.get(self.name.attribute))

    def has_passed(self, topic: str, fed: ValueStamp) -> bool:
        """Whether a value that the sub-filter above was fed, or a later one, has passed here."""
        passed, _ = self.passed.get(topic, (None, 0.0))
        return passed is not None and not fed.is_newer(passed)

    def seen(self) -> tuple[tuple[str, ValueStamp, ValueStamp | None], ...]:
        """By topic, the stamps of the last value shown and fed, for the sub-filter below."""
        return tuple((topic, stamp, self.fed.get(topic)) for topic, stamp in self.shown.items())


@lru_cache(maxsize=4096)
def _filters(rule: Rule) -> tuple[Filter, ...]:
    return tuple(parse_filter(kind, text) for kind, text in rule)
