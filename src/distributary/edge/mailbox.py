"""A mailbox: what a subscriber has been sent and has not acknowledged, within bounds of their choosing.

Rules:

- Every delivery that is put in gets the next *place*: 1, 2, 3. A place is never used again, so it is what a
  subscriber acknowledges, resumes after (`Last-Event-ID`) and is told by.
- Items leave when they are acknowledged, in any order, when they are too old, when they may be seen no
  longer, or when the policy gives them up. What leaves otherwise than acknowledged is not silent: where it
  was, there stands a gap, which says how many and why. Gaps with no item between them are one. A gap leaves
  when it is taken; an acknowledgement that comes after an item was given up changes nothing.
- Policies, once there are too many events or bytes:
  `keep` keeps what is there and gives up what comes; `drop-oldest` gives up the oldest; `latest` keeps only
  the latest event of each topic, at any time, and beyond that the latest topics; `disconnect` keeps what
  fits, and says that the connection is to be let go (`overrun`).
- One connection at a time takes what there is, in order, each entry once (`take`); the next one begins at the
  front again (`begin`).
- A mailbox does no I/O and knows no clock: it is told the time, and tells what has changed (`changes`).

Cost: constant for each item that comes or goes, whatever else is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from distributary.model import Delivery, Event

ITEM_BYTES = 200
"""What an item counts beside its texts."""
END = 0
"""Stands before the first place and behind the last."""


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


MailboxEntry = MailboxItem | MailboxGap


class Mailbox:
    """The mailbox of one subscriber.

    >>> from distributary.model import Event
    >>> mailbox = Mailbox(MailboxBounds(MailboxPolicy.DROP_OLDEST, events=2))
    >>> for number in (1, 2, 3):
    ...     mailbox.put(Delivery(Event(f"e{number}"), "ann", ("s1",)), now=0)
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
        """Whether more has come than the bounds allow, where the policy is to let the connection go."""
        self._entries: dict[int, MailboxEntry] = {}
        self._next: dict[int, int] = {END: END}
        self._previous: dict[int, int] = {END: END}
        self._items = 0
        self._topics: dict[str | None, int] = {}
        """With the policy `latest`: the place of each topic's item."""
        self._cursor = END
        """The first place that was not taken; END when all were."""
        self._untaken = 0
        self._changed: dict[int, None] = {}

    def __len__(self) -> int:
        """How many items there are."""
        return self._items

    @property
    def untaken(self) -> int:
        """How many entries the connection has not taken."""
        return self._untaken

    # What comes.

    def put(self, delivery: Delivery, now: float) -> None:
        """Put a delivery in; items leave for it, or it leaves itself, as the policy says."""
        self.last += 1
        item = MailboxItem(self.last, delivery, size_of(delivery), now)
        self._append(item)
        if self.bounds.policy is MailboxPolicy.LATEST:
            self._supersede(item)
        self._shrink()

    def put_gap(self, reason: str) -> None:
        """Say that something is missing here, nobody knows how much."""
        self.last += 1
        self._append(MailboxGap(self.last, 0, reason))
        self._join(self.last)

    def restore(self, entries: list[MailboxEntry]) -> None:
        """Begin with what was kept, in the order of places. What stands within a later gap is part of it."""
        covered = END
        kept: list[MailboxEntry] = []
        dropped: list[int] = []
        for entry in reversed(entries):
            if not covered or entry.place < covered:
                kept.append(entry)
            else:
                dropped.append(entry.place)
            if isinstance(entry, MailboxGap):
                covered = min(covered or entry.begin, entry.begin)
        for entry in reversed(kept):
            self._append(entry)
            self.last = max(self.last, entry.place)
        self._changed = dict.fromkeys(dropped)
        self.rebound(self.bounds)

    def rebound(self, bounds: MailboxBounds) -> None:
        """Have other bounds from now on: what does not fit into them is given up at once."""
        self.bounds = bounds
        self._topics.clear()
        if bounds.policy is MailboxPolicy.LATEST:
            for entry in list(self.after(END)):
                self._topics_of(entry)
        self._shrink()

    # What is taken.

    def after(self, place: int) -> Iterator[MailboxEntry]:
        """Items and gaps beyond a place, in order. The mailbox must not change meanwhile."""
        if place in self._entries or place == END:
            here = self._next[place]
        else:
            here = self._next[END]
            while here != END and here <= place:
                here = self._next[here]
        while here != END:
            yield self._entries[here]
            here = self._next[here]

    def get(self, place: int) -> MailboxEntry | None:
        """What stands at a place; None when nothing does any more."""
        return self._entries.get(place)

    def begin(self) -> None:
        """Another connection takes what there is, from the front."""
        self._cursor, self._untaken = self._next[END], len(self._entries)

    def take(self, most: int, through: int) -> list[MailboxEntry]:
        """What comes next for the connection, up to a place; gaps among it leave."""
        taken: list[MailboxEntry] = []
        while self._cursor != END and self._cursor <= through and len(taken) < most:
            entry = self._entries[self._cursor]
            taken.append(entry)
            if isinstance(entry, MailboxGap):
                self._remove(entry)
            else:
                self._cursor = self._next[self._cursor]
                self._untaken -= 1
        return taken

    def skip(self, place: int) -> None:
        """The connection has what stands up to a place."""
        while self._cursor != END and self._cursor <= place:
            self._cursor = self._next[self._cursor]
            self._untaken -= 1

    def acknowledge(self, place: int) -> bool:
        """An item has been taken for good; whether it was there."""
        entry = self._entries.get(place)
        if isinstance(entry, MailboxItem):
            self._remove(entry)
        return isinstance(entry, MailboxItem)

    def acknowledge_through(self, place: int) -> None:
        """All up to a place has been taken for good, gaps too."""
        while (first := self._next[END]) != END and first <= place:
            self._remove(self._entries[first])

    def changes(self) -> list[tuple[int, MailboxEntry | None]]:
        """What has changed since it was asked last: places, and what stands there now."""
        changed = [(place, self._entries.get(place)) for place in self._changed]
        self._changed.clear()
        return changed

    # What is given up.

    def expire(self, now: float) -> None:
        """Give up what is too old."""
        if self.bounds.seconds is None:
            return
        before, here = now - self.bounds.seconds, self._next[END]
        while here != END:
            entry, following = self._entries[here], self._next[here]
            if isinstance(entry, MailboxItem):
                if entry.kept_at >= before:
                    return
                self._give_up(entry, "too old")
            here = following

    def withdraw(self, may_see: Callable[[Event], bool]) -> None:
        """Give up what the subscriber may see no longer."""
        for entry in list(self.after(END)):
            if isinstance(entry, MailboxItem) and not may_see(entry.delivery.event):
                self._give_up(entry, "you may see it no longer")

    def _supersede(self, item: MailboxItem) -> None:
        """Give up an earlier event of the same topic."""
        topic = item.delivery.event.topic
        earlier = self._entries.get(self._topics.get(topic, END))
        if isinstance(earlier, MailboxItem):
            self._give_up(earlier, "a later event of its topic came")
        self._topics[topic] = item.place

    def _topics_of(self, entry: MailboxEntry) -> None:
        """Count an item that was there before among those of which each topic has one."""
        if self.bounds.policy is MailboxPolicy.LATEST and isinstance(entry, MailboxItem):
            self._supersede(entry)

    def _shrink(self) -> None:
        """Give items up until the rest is within the bounds."""
        while self._items > self.bounds.events or self.bytes > self.bounds.bytes:
            keeps = self.bounds.policy in (MailboxPolicy.KEEP, MailboxPolicy.DISCONNECT)
            self.overrun |= self.bounds.policy is MailboxPolicy.DISCONNECT
            links = self._previous if keeps else self._next
            here = links[END]
            # Gaps beside each other are one, but for those of which nobody knows how many: few are passed.
            while not isinstance(entry := self._entries[here], MailboxItem):
                here = links[here]
            self._give_up(entry, "the mailbox was full")

    def _give_up(self, item: MailboxItem, reason: str) -> None:
        """Put a gap in the place of an item, together with the gaps beside it."""
        self._count_out(item)
        self.dropped += 1
        self._set(MailboxGap(item.place, 1, reason))
        self._join(item.place)
        following = self._next.get(item.place, END)
        if following != END:
            self._join(following)

    def _join(self, place: int) -> None:
        """Make one gap of those at a place and right before it, where both say how many, or neither."""
        gap, before = self._entries[place], self._entries.get(self._previous[place])
        if not isinstance(gap, MailboxGap) or not isinstance(before, MailboxGap):
            return
        if (gap.events == 0) == (before.events == 0):
            self._unlink(before.place)
            self._set(MailboxGap(place, before.events + gap.events, gap.reason, before.begin))

    # The row of entries.

    def _append(self, entry: MailboxEntry) -> None:
        place, last = entry.place, self._previous[END]
        self._next[last], self._previous[place] = place, last
        self._next[place], self._previous[END] = END, place
        self._set(entry)
        self._untaken += 1
        if self._cursor == END:
            self._cursor = place
        if isinstance(entry, MailboxItem):
            self._items += 1
            self.bytes += entry.size

    def _set(self, entry: MailboxEntry) -> None:
        self._entries[entry.place] = entry
        self._changed[entry.place] = None

    def _remove(self, entry: MailboxEntry) -> None:
        """Take an entry out; gaps that are beside each other then become one."""
        following = self._next[entry.place]
        if isinstance(entry, MailboxItem):
            self._count_out(entry)
        self._unlink(entry.place)
        if following != END:
            self._join(following)

    def _unlink(self, place: int) -> None:
        before, following = self._previous.pop(place), self._next.pop(place)
        self._next[before], self._previous[following] = following, before
        if self._cursor != END and place >= self._cursor:
            self._untaken -= 1
            if place == self._cursor:
                self._cursor = following
        del self._entries[place]
        self._changed[place] = None

    def _count_out(self, item: MailboxItem) -> None:
        self._items -= 1
        self.bytes -= item.size
        topic = item.delivery.event.topic
        if self._topics.get(topic) == item.place:
            del self._topics[topic]


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
