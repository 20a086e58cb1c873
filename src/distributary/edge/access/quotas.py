"""How much a user may have and send: counted connections, and rates as buckets that fill with time.

A bucket holds what may come at once: as much as a second's worth. Whoever takes more than is in it is told
how long to wait, and nothing is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from distributary.edge.access.identity import AccessError, Identity
from distributary.edge.access.settings import QuotaTable

USERS = 10_000
"""Users whose rates are remembered; of others the buckets begin full."""


class QuotaError(AccessError):
    """Somebody has or sends too much; `seconds` is when to try again, None when waiting does not help."""

    def __init__(self, reason: str, seconds: float | None = None) -> None:
        super().__init__(reason)
        self.seconds = seconds


class Bucket:
    """Fills at a rate, up to what it holds.

    >>> bucket = Bucket(rate=2, holds=2)
    >>> bucket.take(2, now=0), bucket.wait(1, now=0), bucket.wait(1, now=0.5)
    (0.0, 0.5, 0.0)
    """

    __slots__ = ("_at", "_left", "holds", "rate")

    def __init__(self, rate: float, holds: float) -> None:
        self.rate, self.holds = rate, holds
        self._left, self._at = holds, float("-inf")

    def wait(self, amount: float, now: float) -> float:
        """Seconds until so much can be taken; more than it ever holds can be taken when it is full."""
        if now > self._at:
            self._left = min(
                self.holds, self._left + (now - max(self._at, now - self.holds / self.rate)) * self.rate
            )
            self._at = now
        lacking = min(amount, self.holds) - self._left
        return max(0.0, lacking / self.rate)

    def take(self, amount: float, now: float) -> float:
        """Take so much and give 0, or take nothing and give how many seconds to wait."""
        seconds = self.wait(amount, now)
        if seconds <= 0:
            self._left -= amount
        return seconds


class Quotas:
    """What all users have and send. `quota_of` says what one may."""

    def __init__(self, quota_of: Callable[[Identity], QuotaTable], now: Callable[[], float]) -> None:
        self._quota_of, self._now = quota_of, now
        self._connections: Counter[str] = Counter()
        self._buckets: dict[tuple[str, str], Bucket] = {}

    def connect(self, identity: Identity) -> None:
        """Count a connection; QuotaError when there are too many."""
        most = self._quota_of(identity).connections
        _require("connections", self._connections[identity.user] + 1, most)
        self._connections[identity.user] += 1

    def release(self, identity: Identity) -> None:
        """A connection that was counted has ended."""
        self._connections[identity.user] -= 1
        if self._connections[identity.user] <= 0:
            del self._connections[identity.user]

    def subscribe(self, identity: Identity, count: int) -> None:
        """QuotaError when a session may not have so many subscriptions."""
        _require("subscriptions", count, self._quota_of(identity).subscriptions)

    def keep_sessions(self, identity: Identity, count: int) -> None:
        """QuotaError when a user may not have so many sessions."""
        _require("sessions", count, self._quota_of(identity).sessions)

    def measure_filters(self, identity: Identity, size: int) -> None:
        """QuotaError when the filters of a subscription are too long."""
        _require("bytes of filters", size, self._quota_of(identity).filter_bytes)

    def publish(self, identity: Identity, events: int, size: int) -> None:
        """Count events and their bytes; QuotaError when they come too fast: then neither is counted."""
        quota = self._quota_of(identity)
        if quota.events_per_second is None and quota.bytes_per_second is None:
            return
        now = self._now()
        wanted = [
            (self._bucket(identity, what, rate), amount, what)
            for what, rate, amount in (
                ("events", quota.events_per_second, events),
                ("bytes", quota.bytes_per_second, size),
            )
            if rate is not None
        ]
        for bucket, amount, what in wanted:
            seconds = bucket.wait(amount, now)
            if seconds > 0:
                raise QuotaError(f"more than {bucket.rate:g} {what} a second", seconds)
        for bucket, amount, _ in wanted:
            bucket.take(amount, now)

    def _bucket(self, identity: Identity, what: str, rate: float) -> Bucket:
        bucket = self._buckets.get((identity.user, what))
        if bucket is None or bucket.rate != rate:
            if len(self._buckets) >= 2 * USERS:
                self._buckets.clear()
            bucket = self._buckets[identity.user, what] = Bucket(rate, max(1.0, rate))
        return bucket


def _require(what: str, count: int, most: int | None) -> None:
    if most is not None and count > most:
        raise QuotaError(f"at most {most:,} {what} are allowed")
