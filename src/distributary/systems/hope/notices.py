"""`NoticeInterests`: which notices of events are worth asking for the document.

A notice has all of an event but its document. Of each subscription the filters that look at nothing else are
kept in an `InterestIndex`; one that has no such filter may want whatever comes.
"""

from __future__ import annotations

from collections.abc import Mapping

from distributary.filters.filter import Filter
from distributary.model import Event, SubscriptionKey
from distributary.systems.interests import InterestIndex

SEEN_WITHOUT_DOCUMENT = ("topic", "where", "change")
"""The kinds of filters that look at other parts of an event; those of an application's own may not."""


class NoticeInterests:
    """The filters at one home that need no document.

    >>> from distributary.filters.kinds import parse_filters
    >>> from distributary.model import Subscription
    >>> asked = Subscription("s1", "ann", where="price > 8", path="/a/b")
    >>> interests = NoticeInterests()
    >>> interests.put(asked.key, parse_filters(asked))
    >>> [interests.may_want(Event("e1", attributes={"price": price})) for price in (8, 9)]
    [False, True]
    """

    def __init__(self) -> None:
        self._index: InterestIndex[SubscriptionKey, None] = InterestIndex()
        self._undecided: set[SubscriptionKey] = set()
        """Subscriptions of which only the document can rule an event out."""

    def put(self, key: SubscriptionKey, filters: Mapping[str, Filter]) -> None:
        """Keep the filters of a subscription, in place of those that it had."""
        self.remove(key)
        told = {kind: each for kind, each in filters.items() if kind in SEEN_WITHOUT_DOCUMENT}
        if told:
            self._index.put(key, None, told)
        else:
            self._undecided.add(key)

    def remove(self, key: SubscriptionKey) -> None:
        """Forget a subscription; one that is not here is ignored."""
        self._undecided.discard(key)
        if key in self._index:
            self._index.remove(key)

    def may_want(self, event: Event) -> bool:
        """Whether an event, whose document is not looked at, may match anything here."""
        return bool(self._undecided) or bool(self._index.wanting(event))
