"""A mailbox: what a subscriber has been sent and has not acknowledged, within bounds of their choosing.

Rules:

- Every delivery that is put in gets the next *place*: 1, 2, 3. A place is never used again, so it is what a
  subscriber acknowledges, resumes after (`Last-Event-ID`) and is told by.
- Items leave when they are acknowledged, in any order, when they are too old, or when the policy gives them
  up. What is given up is not silent: where it was, there stands a gap, which says how many and why. A gap
  joins the one right before it, and leaves when it has been taken.
- Policies, once there are too many events or bytes:
  `keep` keeps what is there and gives up what comes; `drop-oldest` gives up the oldest; `latest` keeps only
  the latest event of each topic, at any time, and beyond that the latest topics; `disconnect` keeps what
  fits, and says that the subscriber is to be let go (`overrun`).
- A mailbox does no I/O and knows no clock: it is told the time.

Cost: constant for each item that comes or goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from distributary.model import Delivery

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


class Mailbox:
    """The mailbox of one subscriber.

    >>> from distributary.model import Event
    >>> mailbox = Mailbox(MailboxBounds(MailboxPolicy.DROP_OLDEST, events=2))
    >>> for number in (1, 2, 3):
    ...     _ = mailbox.put(Delivery(Event(f"e{number}"), "ann", ("s1",)), now=0)
    >>> [type(entry).__name__ for entry in mailbox.after(0)]
    ['MailboxGap', 'MailboxItem', 'MailboxItem']
    >>> _ = mailbox.acknowledge(2); [entry.place for entry in mailbox.after(1)]
    [3]
    """

    def __init__(self, bounds: MailboxBounds, last: int = 0) -> None:
        self.bounds = bounds
        self.last = last
        """The last place that was given."""
        self.bytes = self.dropped = 0
        """What the items count together, and how many were given up so far."""
        self.overrun = False
        """Whether more has come than the bounds allow, where the policy is to let the subscriber go."""
        self._entries: dict[int, MailboxItem | MailboxGap] = {}
        self._items = 0
        self._topics: dict[str | None, int] = {}

    def __len__(self) -> int:
        """How many items there are."""
        return self._items

    def put(self, delivery: Delivery, now: float) -> list[int]:
        """Put a delivery in; gives the places of items that left for it, its own if it is given up."""
        self.last += 1
        item = MailboxItem(self.last, delivery, size_of(delivery), now)
        self._insert(item)
        left = self._supersede(item) if self.bounds.policy is MailboxPolicy.LATEST else []
        return left + self._shrink()

    def put_gap(self, reason: str) -> None:
        """Say that something is missing here, nobody knows how much."""
        self.last += 1
        self._entries[self.last] = MailboxGap(self.last, 0, reason)

    def restore(self, entries: list[MailboxItem | MailboxGap]) -> None:
        """Begin with what was kept, in the order of places."""
        for entry in entries:
            if isinstance(entry, MailboxItem):
                self._insert(entry)
            else:
                self._entries[entry.place] = entry
            self.last = max(self.last, entry.place)

    def after(self, place: int) -> Iterator[MailboxItem | MailboxGap]:
        """Items and gaps beyond a place, in order. The mailbox must not change meanwhile."""
        if not self._entries or place >= next(reversed(self._entries)):
            return iter(())
        if place < next(iter(self._entries)):
            return iter(self._entries.values())
        return (entry for entry in self._entries.values() if entry.place > place)

    def get(self, place: int) -> MailboxItem | MailboxGap | None:
        """What stands at a place; None when nothing does any more."""
        return self._entries.get(place)

    def acknowledge(self, place: int) -> bool:
        """An item, or a gap, has been taken for good; whether it was there."""
        entry = self._entries.pop(place, None)
        if isinstance(entry, MailboxItem):
            self._count_out(entry)
        return entry is not None

    def acknowledge_through(self, place: int) -> list[int]:
        """All up to a place has been taken for good; gives the places that were there."""
        taken = []
        for each in self._entries:
            if each > place:
                break
            taken.append(each)
        for each in taken:
            self.acknowledge(each)
        return taken

    def expire(self, now: float) -> list[int]:
        """Give up what is too old; gives the places."""
        if self.bounds.seconds is None:
            return []
        before, left = now - self.bounds.seconds, []
        for entry in list(self._entries.values()):
            if isinstance(entry, MailboxItem):
                if entry.kept_at >= before:
                    break
                self._give_up(entry, "too old")
                left.append(entry.place)
        return left

    def _insert(self, item: MailboxItem) -> None:
        self._entries[item.place] = item
        self._items += 1
        self.bytes += item.size
        if self.bounds.policy is MailboxPolicy.LATEST:
            self._topics.setdefault(item.delivery.event.topic, item.place)

    def _count_out(self, item: MailboxItem) -> None:
        self._items -= 1
        self.bytes -= item.size
        topic = item.delivery.event.topic
        if self._topics.get(topic) == item.place:
            del self._topics[topic]

    def _supersede(self, item: MailboxItem) -> list[int]:
        """Give up an earlier event of the same topic."""
        topic = item.delivery.event.topic
        place = self._topics[topic]
        if place == item.place:
            return []
        earlier = self._entries[place]
        assert isinstance(earlier, MailboxItem)
        self._give_up(earlier, "a later event of its topic came")
        self._topics[topic] = item.place
        return [place]

    def _shrink(self) -> list[int]:
        """Give items up until the rest is within the bounds."""
        left = []
        while self._items > self.bounds.events or self.bytes > self.bounds.bytes:
            keeps = self.bounds.policy in (MailboxPolicy.KEEP, MailboxPolicy.DISCONNECT)
            self.overrun |= self.bounds.policy is MailboxPolicy.DISCONNECT
            order = reversed(self._entries.values()) if keeps else iter(self._entries.values())
            item = next(entry for entry in order if isinstance(entry, MailboxItem))
            self._give_up(item, "the mailbox was full")
            left.append(item.place)
        return left

    def _give_up(self, item: MailboxItem, reason: str) -> None:
        """Put a gap in the place of an item, together with the gaps beside it."""
        self._count_out(item)
        self.dropped += 1
        self._entries[item.place] = MailboxGap(item.place, 1, reason)
        self._join_gaps(item.place)

    def _join_gaps(self, place: int) -> None:
        """Make one gap of those at a place and right before it."""
        gap, before = self._entries[place], self._entries.get(place - 1)
        assert isinstance(gap, MailboxGap)
        if isinstance(before, MailboxGap):
            del self._entries[before.place]
            self._entries[place] = MailboxGap(place, before.events + gap.events, gap.reason)


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
