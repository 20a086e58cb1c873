"""Which subscriptions are needless because another one of the same subscriber gets all that they get.

Only what can cover a subscription is compared with it: its filters are of some of the same kinds, and its
topic begins with the same levels as far as it fixes them. Of those, the widest `MAX_COMPARED` by a guess are
tried, so that the time is linear in the number of subscriptions, and `MAX_COMPARISONS` are made of all those
of one subscriber; whether all were is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

from distributary.filters.profile import Profile
from distributary.filters.topic import TopicFilter

MAX_COMPARED = 200
"""So many subscriptions of a subscriber, at most, are compared with each of theirs."""
MAX_COMPARISONS = 2_000_000
"""So many comparisons, about, are made of all subscriptions of one subscriber."""
MAX_KINDS = 6
"""Subscriptions with filters of more kinds than this are not looked at."""

Group = tuple[frozenset[str], tuple[str, ...]]
"""What subscriptions that may cover have in common: the kinds of their filters, the topic's fixed levels."""


class Coverings:
    """The subscriptions of one subscriber, and what covers what.

    >>> from distributary.model import Subscription
    >>> wide, narrow = Subscription("a", "ann", topic="A"), Subscription("b", "ann", topic="A/B")
    >>> list(Coverings({each.id: Profile.of(each) for each in (wide, narrow)}).pairs())
    [('b', 'a')]
    """

    def __init__(self, profiles: dict[str, Profile]) -> None:
        self._profiles = profiles
        self.cut_off = 0
        """How many subscriptions were not compared with all that may cover them."""
        self._compared = 0
        self._first: dict[Profile, str] = {}
        for subscription_id, profile in profiles.items():
            self._first.setdefault(profile, subscription_id)
        self._orders = {profile: number for number, profile in enumerate(self._first)}
        self._groups: dict[Group, list[tuple[Profile, str]]] = {}
        for profile, subscription_id in self._first.items():
            self._groups.setdefault(_group(profile), []).append((profile, subscription_id))
        for group in self._groups.values():
            group.sort(key=lambda one: -_selectivity(one[0]))

    def pairs(self) -> Iterator[tuple[str, str]]:
        """The id of a subscription that is covered, and the id of one that covers it.

        Of several that get the same, the first is kept.
        """
        for subscription_id, profile in self._profiles.items():
            first = self._first[profile]
            covering = first if first != subscription_id else self._covering(profile, subscription_id)
            if covering is not None:
                yield subscription_id, covering

    def _covering(self, profile: Profile, subscription_id: str) -> str | None:
        compared = 0
        for group in _groups_above(profile):
            for other, other_id in self._groups.get(group, ()):
                if other_id == subscription_id:
                    continue
                if compared == MAX_COMPARED or self._compared >= MAX_COMPARISONS:
                    self.cut_off += 1
                    return None
                compared += 1
                self._compared += 1
                # Of two that cover each other, the first one stays.
                comes_first = self._orders[profile] < self._orders[other]
                if other.covers(profile) and not (comes_first and profile.covers(other)):
                    return other_id
        return None


def _group(profile: Profile) -> Group:
    return frozenset(profile.filters), _fixed(profile)


def _fixed(profile: Profile) -> tuple[str, ...]:
    topic = profile.filters.get("topic")
    return topic.fixed if isinstance(topic, TopicFilter) else ()


def _groups_above(profile: Profile) -> Iterator[Group]:
    """The groups of all that may cover a profile, those of few filters and short topics first."""
    kinds, fixed = sorted(profile.filters), _fixed(profile)
    if len(kinds) > MAX_KINDS:
        return
    for count in range(len(kinds) + 1):
        for chosen in combinations(kinds, count):
            for length in range(len(fixed) + 1 if "topic" in chosen else 1):
                yield frozenset(chosen), fixed[:length]


def _selectivity(profile: Profile) -> float:
    product = 1.0
    for filter in profile.filters.values():
        product *= filter.selectivity
    return product
