"""Several filters that must all hold, as one thing: match, cover, merge. What trees and brokers exchange.

A profile of no filters lets everything pass. A filter that lets every event pass (`where: "true"`) says
nothing, and is left out of a profile. Covering is decided filter by filter, with one exception: a
change filter depends on which events reach it, so a profile with one covers another only if both select
the events before it alike (the topic may be wider, because tolerances are kept for each topic apart).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from distributary.filters.filter import EVERY_EVENT, Filter
from distributary.filters.kinds import parse_filters
from distributary.model import Event, Subscription


@dataclass(frozen=True)
class Profile:
    """The conjunction of filters, at most one of a kind.

    >>> wide = Profile.of(Subscription("s1", "ann", topic="quotes"))
    >>> narrow = Profile.of(Subscription("s2", "bob", topic="quotes/NYSE", where="price > 8"))
    >>> wide.covers(narrow), narrow.covers(wide)
    (True, False)
    >>> wide.merge(narrow)
    Profile(topic='quotes')
    >>> Profile.of(Subscription("s3", "carol", topic="quotes", where="1 = 1"))
    Profile(topic='quotes')
    """

    filters: Mapping[str, Filter] = field(default_factory=dict)

    def __post_init__(self) -> None:
        needless = [kind for kind, filter in self.filters.items() if filter.asks_for_all == EVERY_EVENT]
        if needless:
            telling = {kind: filter for kind, filter in self.filters.items() if kind not in needless}
            object.__setattr__(self, "filters", telling)

    @classmethod
    def of(cls, subscription: Subscription) -> Profile:
        """The profile of a subscription; `FilterError` when one of its filters is wrong."""
        return cls(parse_filters(subscription))

    def matches(self, event: Event) -> bool:
        """Whether every filter lets the event pass (of a change filter, its stateless part)."""
        return all(filter.matches(event) for filter in self.filters.values())

    def covers(self, other: Profile) -> bool:
        """True only when it is certain that everything `other` lets pass, this one lets pass too."""
        for kind, filter in self.filters.items():
            counterpart = other.filters.get(kind)
            if counterpart is None or not filter.covers(counterpart):
                return False
        return "change" not in self.filters or self._selects_before_change_like(other)

    def merge(self, other: Profile) -> Profile:
        """A profile that lets pass at least what either does."""
        if self.covers(other):
            return self
        if other.covers(self):
            return other
        merged: dict[str, Filter] = {}
        for kind in self.filters.keys() & other.filters.keys():
            union = self.filters[kind].merge(other.filters[kind])
            if union is not None:
                merged[kind] = union
        if "change" in merged and not self._selects_before_change_like(other):
            del merged["change"]
        return Profile(merged)

    def widened(self) -> Profile:
        """A profile that lets pass at least as much, in few words: of each filter only the outline."""
        wide = {kind: filter.widened() for kind, filter in self.filters.items() if kind != "change"}
        return Profile({kind: filter for kind, filter in wide.items() if filter is not None})

    def _selects_before_change_like(self, other: Profile) -> bool:
        ignored = ("topic", "change")
        return {kind: filter for kind, filter in self.filters.items() if kind not in ignored} == {
            kind: filter for kind, filter in other.filters.items() if kind not in ignored
        }

    def __hash__(self) -> int:
        return hash(frozenset(self.filters.items()))

    def __repr__(self) -> str:
        inside = ", ".join(f"{kind}={filter.text!r}" for kind, filter in sorted(self.filters.items()))
        return f"Profile({inside})"
