"""A mailbox: what a subscriber has been sent and has not acknowledged, within bounds of their choosing.

Rules:

- Every delivery that is put in gets the next *place*: 1, 2, 3. A place is never used again, so it is what a
  subscriber acknowledges, resumes after (`Last-Event-ID`) and is told by.
- Items leave when they are acknowledged, in any order, when they are too old, when they may be seen no
  longer, or when the policy gives them up. What leaves otherwise than acknowledged is not silent: where it
  was, there stands a gap, which says how many and why. An acknowledgement that comes after an item was given
  up changes nothing.
- A gap leaves when it is acknowledged, as an item does; until then every connection is told of it again. Gaps
  with no item between them become one until they are taken. A gap that was taken keeps its place and its
  number, so that an acknowledgement is of exactly what was told: each event that was given up is in one gap
  that leaves. (Of more than `MOST_TOLD` such gaps, those beside each other become one, to be told anew.)
- Policies, once there are too many events or bytes:
  `keep` keeps what is there and gives up what comes; `drop-oldest` gives up the oldest; `latest` keeps only
  the latest event of each topic, at any time, and beyond that the latest topics; `disconnect` keeps what
  fits, and says that the connection is to be let go (`overrun`).
- One connection at a time takes what there is, in order, each entry once (`take`); the next one begins at the
  front again (`begin`).
- A mailbox does no I/O and knows no clock: it is told the time, and tells what has changed (`changes`).

- Deliveries that come together stay together (`put_run`), as one entry, until a part of them is taken,
  acknowledged or given up. Nobody can tell from outside: all but `take_runs` show items one by one.

Cost: constant for each item or run that comes or goes, whatever else is there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from distributary.edge.mailbox_entries import (
    KeptEntry,
    MailboxBounds,
    MailboxEntry,
    MailboxGap,
    MailboxItem,
    MailboxPolicy,
    MailboxRun,
    count_of,
    each_size,
    size_of,
)
from distributary.model import Delivery, DeliveryBatch, Event

__all__ = [
    "Mailbox",
    "MailboxBounds",
    "MailboxEntry",
    "MailboxGap",
    "MailboxItem",
    "MailboxPolicy",
    "MailboxRun",
    "size_of",
]

END = 0
"""Stands before the first place and behind the last."""
MOST_TOLD = 1_000
"""Gaps that were taken and not acknowledged, beyond one for each item, after which they are made fewer."""


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
        self._entries: dict[int, KeptEntry] = {}
        """By place, runs by their last one."""
        self._next: dict[int, int] = {END: END}
        self._previous: dict[int, int] = {END: END}
        self._items = 0
        self._topics: dict[str | None, int] = {}
        """With the policy `latest`: the place of each topic's item."""
        self._cursor = END
        """The first place that was not taken; END when all were."""
        self.untaken = 0
        """How many entries the connection has not taken."""
        self._told: set[int] = set()
        """The places of gaps that some connection has taken."""
        self._ends: list[int] = []
        """The last places of runs of several items, in order."""
        self._changed: dict[int, None] = {}
        self._changed_runs: list[tuple[int, int]] = []

    def __len__(self) -> int:
        """How many items there are."""
        return self._items

    # What comes.

    def put(self, delivery: Delivery, now: float) -> None:
        """Put a delivery in; items leave for it, or it leaves itself, as the policy says."""
        self.last += 1
        item = MailboxItem(self.last, delivery, size_of(delivery), now)
        self._append(item)
        if self.bounds.policy is MailboxPolicy.LATEST:
            self._supersede(item)
        self._shrink()

    def put_run(self, batch: DeliveryBatch, now: float) -> None:
        """Put deliveries in that came together, for the same subscriptions all; as `put` one by one."""
        count, each, bounds = len(batch.events), each_size(batch), self.bounds
        fits = self._items + count <= bounds.events and self.bytes + count * each <= bounds.bytes
        if fits and bounds.policy is not MailboxPolicy.LATEST:
            first = self.last + 1
            self.last += count
            self._append(MailboxRun(first, self.last, batch, 0, each, now))
            return
        for delivery in batch.deliveries:
            self.last += 1
            item = MailboxItem(self.last, delivery, each, now)
            self._append(item)
            if bounds.policy is MailboxPolicy.LATEST:
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
            if isinstance(entry, MailboxGap):
                self._told.add(entry.place)  # nobody knows whether it was
        self._changed = dict.fromkeys(dropped)
        self.rebound(self.bounds)

    def rebound(self, bounds: MailboxBounds) -> None:
        """Have other bounds from now on: what does not fit into them is given up at once."""
        self.bounds = bounds
        self._topics.clear()
        if bounds.policy is MailboxPolicy.LATEST:
            self._divide_all()
            for entry in list(self.after(END)):
                self._topics_of(entry)
        self._shrink()

    # What is taken.

    def after(self, place: int) -> Iterator[MailboxEntry]:
        """Items and gaps beyond a place, in order. The mailbox must not change meanwhile."""
        here = END if place == END else self._locate(place)
        if here is None:
            here = self._next[END]
            while here != END and here <= place:
                here = self._next[here]
        elif here in (END, place):
            here = self._next[here]
        while here != END:
            entry = self._entries[here]
            if type(entry) is MailboxRun:
                yield from entry.part(max(entry.first, place + 1), here).items()
            else:
                yield entry  # type: ignore[misc]
            here = self._next[here]

    def get(self, place: int) -> MailboxEntry | None:
        """What stands at a place; None when nothing does any more."""
        here = self._locate(place)
        entry = None if here is None else self._entries[here]
        return entry.item(place) if type(entry) is MailboxRun else entry  # type: ignore[return-value]

    def begin(self) -> None:
        """Another connection takes what there is, from the front."""
        self._cursor, self.untaken = self._next[END], sum(map(count_of, self._entries.values()))

    def take(self, most: int, through: int) -> list[MailboxEntry]:
        """What comes next for the connection, up to a place."""
        taken: list[MailboxEntry] = []
        for entry in self.take_runs(most, through):
            if type(entry) is MailboxRun:
                taken += entry.items()
            else:
                taken.append(entry)  # type: ignore[arg-type]
        return taken

    def take_runs(self, most: int, through: int) -> list[KeptEntry]:
        """As `take`, with runs where there are some."""
        taken: list[KeptEntry] = []
        while self._cursor != END and most > 0:
            entry = self._entries[self._cursor]
            if type(entry) is MailboxRun:
                stop = min(entry.place, through, entry.first + most - 1)
                if stop < entry.first:
                    break
                entry = self._divide(entry, stop)
            elif entry.place > through:
                break
            taken.append(entry)
            most -= count_of(entry)
            if isinstance(entry, MailboxGap):
                self._told.add(entry.place)
            self._cursor = self._next[entry.place]
            self.untaken -= count_of(entry)
        if len(self._told) > self._items + MOST_TOLD:
            self._join_told()
        return taken

    def can_take(self, through: int) -> bool:
        """Whether something is to be taken, up to a place."""
        if self._cursor == END:
            return False
        entry = self._entries[self._cursor]
        return (entry.first if type(entry) is MailboxRun else entry.place) <= through

    def skip(self, place: int) -> None:
        """The connection has what stands up to a place."""
        while self._cursor != END:
            entry = self._entries[self._cursor]
            if (entry.first if type(entry) is MailboxRun else entry.place) > place:
                return
            if type(entry) is MailboxRun and entry.place > place:
                entry = self._divide(entry, place)
            self._cursor = self._next[entry.place]
            self.untaken -= count_of(entry)

    def acknowledge(self, place: int) -> bool:
        """An item, or a gap that was told, has been taken for good; whether it was there."""
        before = self._items + len(self._told)
        self.acknowledge_range(place, place)
        return self._items + len(self._told) < before

    def acknowledge_range(self, first: int, last: int) -> None:
        """All from one place to another, those that are there, have been taken for good."""
        place = first
        while place <= last:
            here = self._locate(place)
            entry = None if here is None else self._entries[here]
            if type(entry) is MailboxRun:
                if entry.first < place:
                    self._divide(entry, place - 1)
                    entry = entry.part(place, entry.place)
                entry = self._divide(entry, min(last, entry.place))
                place = entry.place
            if isinstance(entry, MailboxItem | MailboxRun) or place in self._told:
                assert entry is not None
                self._remove(entry)
            place += 1

    def acknowledge_through(self, place: int) -> None:
        """All up to a place has been taken for good, gaps too."""
        while (first := self._next[END]) != END:
            entry = self._entries[first]
            if type(entry) is MailboxRun and entry.first <= place < entry.place:
                entry = self._divide(entry, place)
            if entry.place > place:
                return
            self._remove(entry)

    def changes(self) -> list[tuple[int, MailboxEntry | None]]:
        """What has changed since it was asked last: places, and what stands there now."""
        for first, last in self._changed_runs:
            self._changed.update(dict.fromkeys(range(first, last + 1)))
        changed = [(place, self.get(place)) for place in self._changed]
        self.forget_changes()
        return changed

    def forget_changes(self) -> None:
        """What has changed so far is of no interest to anybody."""
        self._changed.clear()
        self._changed_runs.clear()

    # What is given up.

    def expire(self, now: float) -> None:
        """Give up what is too old."""
        if self.bounds.seconds is None:
            return
        before, here = now - self.bounds.seconds, self._next[END]
        while here != END:
            entry = self._entries[here]
            if type(entry) is MailboxRun and entry.kept_at < before:
                entry = self._single(entry.first)
            following = self._next[entry.place]
            if isinstance(entry, MailboxItem | MailboxRun):
                if entry.kept_at >= before:
                    return
                assert isinstance(entry, MailboxItem)
                self._give_up(entry, "too old")
            here = following

    def withdraw(self, may_see: Callable[[Event], bool]) -> None:
        """Give up what the subscriber may see no longer."""
        self._divide_all()
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
            while isinstance(entry := self._entries[here], MailboxGap):
                here = links[here]
            if type(entry) is MailboxRun:
                here = entry.place if keeps else entry.first
            self._give_up(self._single(here), "the mailbox was full")

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
        if not _are_alike(before, gap) or place in self._told or self._previous[place] in self._told:
            return
        assert isinstance(gap, MailboxGap)
        assert isinstance(before, MailboxGap)
        self._unlink(before.place)
        self._set(MailboxGap(place, before.events + gap.events, gap.reason, before.begin))

    def _join_told(self) -> None:
        """Make one gap of those beside each other that were taken, as if they had never been told."""
        here = self._next[END]
        while here != self._cursor:
            before = self._previous[here]
            if _are_alike(self._entries.get(before), self._entries[here]):
                self._told -= {before, here}
                self._join(here)
            here = self._next[here]

    # The row of entries.

    def _locate(self, place: int) -> int | None:
        """The key of the entry that stands at a place; None when there is none."""
        if place in self._entries:
            return place
        ends = self._ends
        at = bisect_left(ends, place)
        if at == len(ends):
            return None
        run = self._entries[ends[at]]
        return ends[at] if type(run) is MailboxRun and run.first <= place else None

    def _divide(self, run: MailboxRun, last: int) -> MailboxRun:
        """Make two entries of a run, where it has more than up to a place; gives the first of them."""
        end = run.place
        if last == end:
            return run
        left, right = run.part(run.first, last), run.part(last + 1, end)
        before = self._previous[end]
        self._next[before], self._previous[last] = last, before
        self._next[last], self._previous[end] = end, last
        self._entries[last], self._entries[end] = left, right
        at = bisect_left(self._ends, end)
        self._ends[at : at + 1] = [each.place for each in (left, right) if each.length > 1]
        if self._cursor == end:
            self._cursor = last
        return left

    def _single(self, place: int) -> MailboxItem:
        """The item at a place, where there is one, as an entry of its own."""
        here = self._locate(place)
        assert here is not None
        entry = self._entries[here]
        if type(entry) is MailboxRun:
            if entry.first < place:
                self._divide(entry, place - 1)
                entry = entry.part(place, here)
            entry = self._entries[place] = self._divide(entry, place).item(place)
        assert isinstance(entry, MailboxItem)
        return entry

    def _divide_all(self) -> None:
        """Have all items as entries of their own."""
        for run in [entry for entry in self._entries.values() if type(entry) is MailboxRun]:
            for place in range(run.first, run.place + 1):
                self._single(place)

    def _append(self, entry: KeptEntry) -> None:
        place, last = entry.place, self._previous[END]
        self._next[last], self._previous[place] = place, last
        self._next[place], self._previous[END] = END, place
        if self._cursor == END:
            self._cursor = place
        if type(entry) is MailboxRun:
            count = entry.length
            self._entries[place] = entry
            self._changed_runs.append((entry.first, place))
            if count > 1:
                self._ends.append(place)
            self.untaken += count
            self._items += count
            self.bytes += count * entry.each
            return
        self._set(entry)
        self.untaken += 1
        if isinstance(entry, MailboxItem):
            self._items += 1
            self.bytes += entry.size

    def _set(self, entry: KeptEntry) -> None:
        self._entries[entry.place] = entry
        self._changed[entry.place] = None

    def _remove(self, entry: KeptEntry) -> None:
        """Take an entry out; gaps that are beside each other then become one."""
        following = self._next[entry.place]
        if isinstance(entry, MailboxItem):
            self._count_out(entry)
        elif type(entry) is MailboxRun:
            self._items -= entry.length
            self.bytes -= entry.length * entry.each
        self._unlink(entry.place)
        if following != END:
            self._join(following)

    def _unlink(self, place: int) -> None:
        before, following = self._previous.pop(place), self._next.pop(place)
        self._next[before], self._previous[following] = following, before
        entry = self._entries.pop(place)
        self._told.discard(place)
        if self._cursor != END and place >= self._cursor:
            self.untaken -= count_of(entry)
            if place == self._cursor:
                self._cursor = following
        if type(entry) is not MailboxRun:
            self._changed[place] = None
            return
        self._changed_runs.append((entry.first, place))
        if entry.first < place:
            del self._ends[bisect_left(self._ends, place)]

    def _count_out(self, item: MailboxItem) -> None:
        self._items -= 1
        self.bytes -= item.size
        topic = item.delivery.event.topic
        if self._topics.get(topic) == item.place:
            del self._topics[topic]


def _are_alike(one: KeptEntry | None, other: KeptEntry) -> bool:
    """Whether both are gaps that say how many, or both gaps that do not."""
    if not isinstance(one, MailboxGap) or not isinstance(other, MailboxGap):
        return False
    return (one.events == 0) == (other.events == 0)
