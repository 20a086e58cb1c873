"""A census of subscriptions: what a rendezvous plan is made from.

A census keeps the keys of a random sample and counts the rest, so that it stays small however many
subscriptions it sees. Two of them, gathered in different places, merge into the census of both together.

Every subscription draws a number between 0 and 1 and is kept when that is below `share`. When more than
`2 * KEPT` are kept, those with the higher half of the numbers are dropped and `share` falls; a merge
takes the lower share of the two. So what is kept is at all times a sample in which each subscription is as
likely as any other. The numbers come from a seed: the same additions give the same census.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from random import Random

from distributary.errors import InputError
from distributary.filters.filter import Filter
from distributary.matching.rendezvous.keys import SubscriptionKeys

KEPT = 25_000
"""At least so many are kept of those that were seen."""


class SubscriptionCensus:
    """The keys of a sample of subscriptions, and how many there were.

    >>> from distributary.filters.topic import TopicFilter
    >>> census = SubscriptionCensus()
    >>> census.add({"topic": TopicFilter.parse("quotes/NYSE/*")})
    >>> census.seen
    1
    """

    def __init__(self, seed: int = 0) -> None:
        self.seen = 0
        """How many subscriptions were added."""
        self.share = 1.0
        """How likely a subscription was to be kept."""
        self._kept: list[tuple[float, SubscriptionKeys]] = []
        self._random = Random(seed)

    def add(self, filters: Mapping[str, Filter]) -> None:
        """Count a subscription, given by its parsed filters."""
        self.seen += 1
        drawn = self._random.random()
        if drawn < self.share:
            self._kept.append((drawn, SubscriptionKeys(filters)))
            self._thin()

    def merge(self, other: SubscriptionCensus) -> None:
        """Count what the other has counted, too."""
        self.seen += other.seen
        self.share = min(self.share, other.share)
        self._kept = [one for one in (*self._kept, *other._kept) if one[0] < self.share]
        self._thin()

    @property
    def kept(self) -> list[SubscriptionKeys]:
        """The keys of those that were kept."""
        return [keys for _, keys in self._kept]

    @property
    def weight(self) -> float:
        """How many of those that were seen each kept one stands for."""
        return self.seen / len(self._kept) if self._kept else 1.0

    def to_bytes(self) -> bytes:
        """The census, to be read by `from_bytes` elsewhere."""
        record = [self.seen, self.share, [[drawn, *keys.to_record()] for drawn, keys in self._kept]]
        return zlib.compress(json.dumps(record).encode(), 1)

    @classmethod
    def from_bytes(cls, given: bytes) -> SubscriptionCensus:
        """The census that `to_bytes` wrote; it may be merged and added to."""
        try:
            seen, share, kept = json.loads(zlib.decompress(given))
        except (zlib.error, ValueError) as error:
            raise InputError(f"not the bytes of a census ({error})", field="census") from None
        # A number already drawn must not be drawn again for another subscription of this census.
        census = cls(seed=seen + 1)
        census.seen, census.share = seen, share
        census._kept = [(drawn, SubscriptionKeys.from_record(record)) for drawn, *record in kept]
        return census

    def _thin(self) -> None:
        if len(self._kept) > 2 * KEPT:
            self._kept.sort(key=lambda one: one[0])
            self.share = self._kept[KEPT][0]
            self._kept = [one for one in self._kept if one[0] < self.share]
