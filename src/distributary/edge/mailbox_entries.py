"""What stands in a mailbox: deliveries one by one or in runs, and gaps where some were given up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from distributary.model import Delivery, DeliveryBatch, Offset
from distributary.overlay.packed_events import PackedEvents

ITEM_BYTES = 200
"""What an item counts beside its texts."""


class MailboxPolicy(StrEnum):
    """What becomes of events once a mailbox is full."""

    KEEP = "keep"
    LATEST = "latest"
    DROP_OLDEST = "drop-oldest"
    DISCONNECT = "disconnect"


@dataclass(frozen=True)
class MailboxBounds:
    """How much a mailbox holds."""

    policy: MailboxPolicy = MailboxPolicy.KEEP
    events: int = 10_000
    bytes: int = 64 << 20
    seconds: float | None = None
    """How long an item is kept; None for as long as there is room."""


class MailboxItem(NamedTuple):
    """A delivery in a mailbox."""

    place: int
    delivery: Delivery
    size: int
    kept_at: float


class MailboxGap(NamedTuple):
    """Items that were given up, where they would have stood."""

    place: int
    """Of the last of them."""
    events: int
    """How many; 0 when nobody knows."""
    reason: str
    first: int = 0
    """Of the first of them: nothing else stands between it and the last. 0 where it is the last."""

    @property
    def begin(self) -> int:
        """The place of the first of them."""
        return self.first or self.place


class MailboxRun(NamedTuple):
    """Deliveries that came together, in successive places: as many items, of one size each."""

    first: int
    place: int
    """Of the last of them."""
    batch: DeliveryBatch
    """What they came in, for the same subscriptions all."""
    start: int
    """Where the first of them stands in the batch."""
    each: int
    """What an item counts."""
    kept_at: float

    @property
    def length(self) -> int:
        """How many there are."""
        return self.place - self.first + 1

    def part(self, first: int, place: int) -> MailboxRun:
        """Those from one place to another."""
        return MailboxRun(first, place, self.batch, self.start + first - self.first, self.each, self.kept_at)

    def item(self, place: int) -> MailboxItem:
        """The item at a place."""
        subscriber, epoch, numbers, events, (names,) = self.batch
        at = self.start + place - self.first
        delivery = Delivery(events[at], subscriber, names, Offset(epoch, numbers[at]))
        return MailboxItem(place, delivery, self.each, self.kept_at)

    def items(self) -> list[MailboxItem]:
        """The items, one by one."""
        return [self.item(place) for place in range(self.first, self.place + 1)]


MailboxEntry = MailboxItem | MailboxGap
KeptEntry = MailboxEntry | MailboxRun


def count_of(entry: KeptEntry) -> int:
    """How many entries one by one it stands for."""
    return entry.length if type(entry) is MailboxRun else 1


def each_size(batch: DeliveryBatch) -> int:
    """About how many bytes each delivery of a batch takes: all count the same."""
    events = batch.events
    if isinstance(events, PackedEvents):
        return ITEM_BYTES + -(-events.size // len(events))
    sizes = [size_of(each) for each in batch.deliveries]
    return -(-sum(sizes) // len(sizes))


def size_of(delivery: Delivery) -> int:
    """About how many bytes a delivery takes.

    >>> from distributary.model import Event
    >>> size_of(Delivery(Event("e1", "A/B", {"price": 8.4}), "ann", ("s1",)))
    226
    """
    event = delivery.event
    if event.encoded is not None:
        return ITEM_BYTES + len(event.encoded)
    size = ITEM_BYTES + len(event.id) + len(event.topic or "") + len(event.document or "")
    for name, value in event.attributes.items():
        size += len(name) + (len(value) if isinstance(value, str) else 16)
    return size


def ranges_of(places: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Places as ranges, first and last, of those that follow each other.

    >>> list(ranges_of([3, 4, 5, 9, 7, 8]))
    [(3, 5), (9, 9), (7, 8)]
    """
    places = list(places)
    if places and places == list(range(places[0], places[0] + len(places))):
        yield places[0], places[-1]  # as almost always
        return
    first = last = None
    for place in places:
        if last is None or first is None:
            first = last = place
        elif place == last + 1:
            last = place
        else:
            yield first, last
            first = last = place
    if first is not None and last is not None:
        yield first, last
