"""Replays: a subscription that begins in the past, at an offset of the network's log or at a time.

Events carry their offsets. For times, the broker looks now and then how far the log has come, and keeps a
table of some of these looks: a replay from a time begins at the last look before it, so that it may begin a
little early, and never late. What the log no longer has is told as a gap.

With a disk the looks that found something new are kept there: a broker knows of times before its start.

Cost: a look every few seconds, and at most `MOST_SAMPLES` in memory; they thin out towards the past. A write
of some bytes for a look that found something new.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import NamedTuple

from distributary.edge.broker import EdgeBroker
from distributary.edge.stored import StoredReach
from distributary.errors import InputError
from distributary.live.runner import Disk
from distributary.model import Delivery, DeliveryBatch, Offset, Subscription
from distributary.overlay.broker import LogGap, SessionState
from distributary.overlay.node import Message, Store

MOST_SAMPLES = 2_000
MOST = 1 << 62
"""Beyond every time and every number of an event."""
NAME = "clock/"
"""Names on the disk begin with this."""
CLOCK = "~clock"
"""The name under which the broker is asked how far it has come; no user can have it."""


class OffsetSample(NamedTuple):
    """At a time, all up to an offset had been given out."""

    time: float
    offset: Offset


class OffsetTable:
    """Which offsets there were when.

    >>> table = OffsetTable()
    >>> for moment in (10.0, 20.0, 30.0):
    ...     _ = table.add(OffsetSample(moment, Offset(1.0, int(moment))))
    >>> table.before(25.0), table.before(5.0)
    (Offset(epoch=1.0, number=20), Offset(epoch=0.0, number=0))
    """

    def __init__(self) -> None:
        self._samples: list[OffsetSample] = []

    def __len__(self) -> int:
        return len(self._samples)

    def add(self, sample: OffsetSample) -> tuple[OffsetSample | None, list[OffsetSample]]:
        """Keep a look; gives it, as it is kept, if it found something new, and those that are forgotten.

        Of the older half every other one is, when there are too many.
        """
        last = self._samples[-1] if self._samples else None
        if last is not None and sample.time < last.time:
            sample = sample._replace(time=last.time)  # the clock was set back: a replay must not be late
        if last is not None and sample.offset == last.offset:
            self._samples[-1] = sample  # nothing came: a replay may begin later
            return None, []
        self._samples.append(sample)
        forgotten: list[OffsetSample] = []
        if len(self._samples) > MOST_SAMPLES:
            half = len(self._samples) // 2
            forgotten = self._samples[1:half:2]
            self._samples = self._samples[:half:2] + self._samples[half:]
        return sample, forgotten

    def before(self, time: float) -> Offset:
        """An offset up to which everything had come by a time; that of the very beginning for before all."""
        place = bisect_right(self._samples, time, key=lambda sample: sample.time)
        return self._samples[place - 1].offset if place else Offset(0.0, 0)


class ReplayClock:
    """Looks how far the log has come, whenever the broker tells its clients so."""

    def __init__(self, broker: EdgeBroker, now: Callable[[], float], disk: Disk | None = None) -> None:
        self._broker, self._now, self._disk = broker, now, disk
        self.table = OffsetTable()

    def restore(self, stored: Mapping[str, Message]) -> None:
        """Before it starts: take up the looks that were kept."""
        found = [each for name, each in stored.items() if name.startswith(NAME)]
        for each in sorted(each for each in found if isinstance(each, StoredReach)):
            self._keep(None, self.table.add(OffsetSample(*each))[1])

    def start(self) -> None:
        """Begin to look: as a client that wants nothing."""
        self._broker.admit(CLOCK, self)
        nothing = Subscription("clock", CLOCK, where="false")
        self._broker.register(SessionState((nothing,)), lambda reason: None)

    def after(self, given: object) -> Offset:
        """Where a replay begins: an offset as events carry it, or a time; InputError when it is neither."""
        match given:
            case [int() | float() as epoch, int() as number] if abs(epoch) < MOST and 0 <= number < MOST:
                return Offset(float(epoch), number)
            case int() | float() if not isinstance(given, bool) and abs(given) < MOST:
                return self.table.before(float(given))
            case str():
                return self.table.before(_moment(given))
        raise InputError("must be an offset, as events carry it, or a time in ISO 8601", field="from")

    # As a client of the broker.

    @property
    def paused(self) -> bool:
        """It publishes nothing."""
        return False

    def give(self, delivery: Delivery | DeliveryBatch) -> None:
        """Nothing is given to it."""

    def miss(self, gap: LogGap) -> None:
        """It misses nothing."""

    def tell_progress(self) -> None:
        """Look."""
        reached = self._broker.reached(CLOCK)
        if reached is not None:
            self._keep(*self.table.add(OffsetSample(self._now(), reached)))

    def _keep(self, new: OffsetSample | None, forgotten: list[OffsetSample]) -> None:
        """Have a look kept that is new, and those forgotten that are."""
        stores = [Store(_name(each.offset), None) for each in forgotten]
        if new is not None:
            stores.append(Store(_name(new.offset), StoredReach(*new)))
        if self._disk is not None and stores:
            self._disk.write(stores, lambda: None)

    def let_go(self, reason: str, *, final: bool = False) -> None:
        """The broker ends."""


def _name(offset: Offset) -> str:
    return f"{NAME}{offset.epoch!r}/{offset.number}"


def _moment(text: str) -> float:
    """Seconds since 1970 of a time in ISO 8601; one without a zone is in UTC."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise InputError("is no time in ISO 8601, such as 2026-05-01T12:00:00Z", field="from") from None
    return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
