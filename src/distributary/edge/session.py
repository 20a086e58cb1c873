"""One subscriber's place at a broker: their subscriptions and their mailbox, with or without a connection.

Rules:

- A session belongs to a subscriber and outlives its connections by `expiry` seconds (None: for good; 0: not
  at all). One that expires, or is closed, is withdrawn with its subscriptions and its mailbox.
- One connection at a time: another one takes the place of the one before, which is told.
- A connection pulls: it is told that something is there (`Receiver.ready`), takes as much as it can send
  (`Session.take`), and acknowledges what has arrived. So a slow one costs others nothing but the room in its
  own mailbox, which is bounded. What was taken and not acknowledged is there again for the next connection.
- What nothing waits before, and need not be kept for a later connection, may be sent at once
  (`Receiver.pass_on`): it has its place, and never lies in the mailbox.
- What outlives a connection is kept on the disk before it is given to anybody (`session_disk`): the
  subscription before it is answered, the item before it is taken. So an item has the same place after a
  crash. Sessions that end with their connection keep nothing on the disk.
- With its items a session keeps how far the network's log had come, and what its tolerances start from. After
  a crash it is registered again from there, as often as it takes: the log gives the rest, once.
- A session of somebody (`identity`) has what their grants leave of its subscriptions, and is given nothing
  else. When grants change, that is worked out anew from what was asked for, and what may be seen no longer
  leaves the mailbox.
- Nothing here waits, and nothing knows a socket. The broker, the disk and the clock are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from distributary.client.session import ClientSession
from distributary.edge.access import AccessError, Identity
from distributary.edge.access.narrowing import PART, part_of
from distributary.edge.broker import Answer
from distributary.edge.mailbox import Mailbox, MailboxBounds, MailboxEntry
from distributary.edge.mailbox_entries import KeptEntry, ranges_of
from distributary.edge.session_disk import SessionRecords
from distributary.edge.session_room import Receiver, SessionRoom
from distributary.edge.stored import StoredPlace, StoredSession
from distributary.model import Delivery, DeliveryBatch, Event, Offset, Subscription, SubscriptionKey
from distributary.overlay.broker import LogGap, SessionState

MOST_TAKEN = 1_000
"""Entries that are taken at a time, unless said otherwise."""
NO_LONGER = "you may be here no longer"
"""Why a session ends whose user was removed."""


class Session:
    """One subscriber's place. Made by `Sessions.attach`."""

    def __init__(
        self, room: SessionRoom, subscriber: str, bounds: MailboxBounds, expiry: float | None
    ) -> None:
        self.subscriber = subscriber
        self.mailbox = Mailbox(bounds)
        self.identity: Identity | None = None
        """Whose it is: their grants decide; None where nobody asks."""
        self.marks: dict[str, str] = {}
        """What a protocol keeps with the session, by name; kept on the disk by `keep_marks`."""
        self.left_at: float | None = None
        """When the last connection ended; None while there is one."""
        self.trouble: str | None = None
        """Why its subscriptions are not registered again after a restart; that is tried until it works."""
        self._room = room
        self._expiry = expiry
        self._asked: dict[str, Subscription] = {}
        self._state = ClientSession()
        self._receiver: Receiver | None = None
        self._safe = self._given = 0
        """The place up to which all may be given; how many were given before the broker delivers them."""
        self._over = self._displaced = False
        self._held: list[Callable[[], None]] | None = None
        """What waits until all is registered again: it would move the place from which the log is read."""

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """The subscriptions, by id, as they were asked for."""
        return self._asked

    def in_force(self, id: str) -> tuple[Subscription, ...]:
        """What is registered for a subscription: itself, or what grants leave of it."""
        return tuple(each for each in self._state.subscriptions.values() if part_of(each.id) == id)

    @property
    def connected(self) -> bool:
        """Whether somebody is there."""
        return self._receiver is not None

    @property
    def expiry(self) -> float | None:
        """Seconds that it outlives its connection; None for good. May be changed."""
        return self._expiry

    @expiry.setter
    def expiry(self, seconds: float | None) -> None:
        """Have it last otherwise: one that no longer outlives its connection leaves the disk."""
        lasted, self._expiry = self.lasts, seconds
        if lasted and not self.lasts:
            self._room.disk.forget(self.subscriber, [entry.place for entry in self.mailbox.after(0)])
        elif self.lasts and not lasted:
            entries = [(entry.place, entry) for entry in self.mailbox.after(0)]
            self._room.disk.keep(self.subscriber, self.stored(), entries, self.stored_place())

    @property
    def lasts(self) -> bool:
        """Whether the session outlives its connection."""
        return self._expiry is None or self._expiry > 0

    @property
    def takes(self) -> bool:
        """Whether there is something to take now."""
        return self.mailbox.can_take(self._safe)

    @property
    def _writes(self) -> bool:
        """Whether it is kept on a disk."""
        return self._room.disk.is_there and self.lasts

    @property
    def waiting(self) -> int:
        """How many items and gaps the connection has not taken."""
        return self.mailbox.untaken

    # What its connection asks.

    def subscribe(self, subscription: Subscription, done: Answer, after: Offset | None = None) -> None:
        """Have a subscription, in place of one with the same id; answered when it is in force and kept.

        With an offset, which is for the first of a session, what came after it is given too.
        """
        reason = None
        if subscription.subscriber != self.subscriber:
            reason = f"{self.subscriber!r} cannot subscribe for {subscription.subscriber!r}"
        elif PART in subscription.id:
            reason = "the id of a subscription has no character U+001F"
        if reason is None:
            try:
                parts = self._room.parts(self, subscription)
            except AccessError as error:
                reason = str(error)
        if reason is not None:
            done(reason)
            return
        if self._held is None:
            self._register(subscription, parts, done, after)
        else:
            self._held.append(partial(self.subscribe, subscription, done, after))

    def _register(
        self, asked: Subscription, parts: tuple[Subscription, ...], done: Answer, after: Offset | None = None
    ) -> None:
        for part in parts:
            self._state.expect(part)
        answer = partial(self._subscribed, asked, parts, done)
        self._room.broker.register(SessionState(parts, after, ()), answer)

    def _subscribed(
        self, asked: Subscription, parts: tuple[Subscription, ...], done: Answer, reason: str | None
    ) -> None:
        if reason is None and not self._over:
            reached = self._room.broker.reached(self.subscriber)
            self._room.broker.in_turn(partial(self._begin, asked, parts, reached, done))
            return
        before = self._state.subscriptions
        for part in parts:
            if self._over or part.id not in before:
                self._room.broker.withdraw(part.key)
                self._state.end(part.id)
            else:
                self._state.begin(before[part.id])
        done(reason or "the session has ended")

    def _begin(
        self, asked: Subscription, parts: tuple[Subscription, ...], reached: Offset | None, done: Answer
    ) -> None:
        """Keep a subscription that is in force, and from where the log is read after a crash; then answer."""
        if self._over:
            self._subscribed(asked, parts, done, "the session has ended")
            return
        kept = {part.id for part in parts}
        for part in self.in_force(asked.id):
            if part.id not in kept:
                self._end(part.id)
        for part in parts:
            self._state.begin(part)
        self._asked[asked.id] = asked
        if self.lasts:
            if reached is not None:
                self._state.reach(reached)
            place, answer = self.stored_place(), partial(done, None)
            self._room.disk.keep(self.subscriber, self.stored(), (), place, then=answer)
        else:
            done(None)

    def last(self, part: str) -> dict[str | None, dict[str, float]]:
        """The values that what is in force with a tolerance was last given, by topic."""
        return self._state.last(part)

    def unsubscribe(self, id: str, done: Answer) -> None:
        """End a subscription; what is in the mailbox for it stays."""
        if id not in self._asked:
            done(f"there is no subscription {id!r}")
            return
        self._forget(id)
        self._room.keep(self, then=partial(done, None))

    def _forget(self, id: str) -> None:
        for part in self.in_force(id):
            self._end(part.id)
        del self._asked[id]

    def _end(self, id: str) -> None:
        self._state.end(id)
        self._room.broker.withdraw(SubscriptionKey(self.subscriber, id))

    def take(self, most: int = MOST_TAKEN) -> list[MailboxEntry]:
        """What comes next for this connection, in order."""
        taken = self.mailbox.take(most, self._safe)
        self._keep_changes()
        return taken

    def take_runs(self, most: int) -> list[KeptEntry]:
        """As `take`, with runs where there are some."""
        taken = self.mailbox.take_runs(most, self._safe)
        self._keep_changes()
        return taken

    def acknowledge(self, place: int) -> bool:
        """An item or a gap has arrived for good; whether it was there."""
        there = place <= self._safe and self.mailbox.acknowledge(place)
        self._keep_changes()
        return there

    def acknowledge_each(self, places: Iterable[int], then: Callable[[], None] = lambda: None) -> None:
        """Items and gaps have arrived for good; `then` is called when that is kept: they never come again."""
        self.acknowledge_ranges(ranges_of(places), then)

    def acknowledge_ranges(
        self, ranges: Iterable[tuple[int, int]], then: Callable[[], None] = lambda: None
    ) -> None:
        """As `acknowledge_each`, of all from one place to another."""
        for first, last in ranges:
            self.mailbox.acknowledge_range(first, min(last, self._safe))
        self._keep_changes(then)

    def acknowledge_through(self, place: int) -> None:
        """All up to a place has arrived for good."""
        self.mailbox.acknowledge_through(min(place, self._safe))
        self._keep_changes()

    def keep_marks(self, then: Callable[[], None]) -> None:
        """Have `marks` kept, and `then` called when they are."""
        self._room.keep(self, then=then)

    def detach(self, receiver: Receiver) -> None:
        """A connection has ended: the session waits for the next one, as long as it lasts."""
        if self._receiver is receiver:
            self._receiver = None
            self.left_at = self._room.now()
            if self.lasts:
                self._room.keep(self)
            else:
                self.close("its connection has ended")

    def close(self, reason: str) -> None:
        """End the session: its subscriptions are withdrawn, its mailbox is gone."""
        if self._over:
            return
        self._over = True
        receiver, self._receiver = self._receiver, None
        self._room.remove(self)
        if receiver is not None:
            receiver.end(reason)

    def rebound(self, bounds: MailboxBounds, expiry: float | None) -> None:
        """Have other bounds from now on."""
        self.mailbox.rebound(bounds)
        self.expiry = expiry
        self._keep_changes()

    # What its room does.

    def attach(self, receiver: Receiver) -> None:
        """Let another connection have it."""
        before, self._receiver = self._receiver, receiver
        self.left_at = None
        if self._displaced:
            self._displaced = False
            self._room.broker.admit(self.subscriber, self)
            self.register_again()
        self.mailbox.begin()
        if before is not None:
            before.end(f"another connection took over the session of {self.subscriber!r}")

    def tell(self) -> None:
        """Tell the connection that something is there, or let it go because it was too slow."""
        receiver, overrun, self.mailbox.overrun = self._receiver, self.mailbox.overrun, False
        if receiver is None:
            return
        if overrun:
            self.detach(receiver)
            receiver.end("the mailbox was full, and its policy is to disconnect then")
        elif self.mailbox.untaken:
            receiver.ready()

    def review(self) -> None:
        """Grants have changed: have what they leave of what was asked for, and nothing else."""
        identity, access = self.identity, self._room.access
        if identity is None or access is None:
            return
        if not access.may_return(identity):
            self.close(NO_LONGER)
            return
        for id, asked in list(self._asked.items()):
            try:
                parts = access.parts(identity, asked)
            except AccessError as error:
                access.audit(identity, "keep a subscription", str(error), refused=True)
                self._forget(id)
                continue
            if parts != self.in_force(id):
                self.subscribe(asked, partial(self._reviewed, id))
        self.mailbox.withdraw(self._may_see)
        self._room.keep(self)
        self._keep_changes()

    def _reviewed(self, id: str, reason: str | None) -> None:
        if reason is not None and id in self._asked:
            self._forget(id)
            self._room.keep(self)

    @property
    def sees_all(self) -> bool:
        """Whether its user may be shown whatever there is."""
        access = self._room.access
        return self.identity is None or access is None or access.may_see_all(self.identity)

    def _may_see(self, event: Event) -> bool:
        access = self._room.access
        return self.identity is None or access is None or access.may_see(self.identity, event)

    def stored(self) -> StoredSession:
        """What is kept of it on the disk, and seldom changes."""
        bounds, identity = self.mailbox.bounds, self.identity
        limits = bounds.policy.value, bounds.events, bounds.bytes, bounds.seconds
        return StoredSession(
            tuple(self._asked.values()),
            tuple(self._state.subscriptions.values()),
            *limits,
            self._expiry,
            tuple(sorted(self.marks.items())),
            self.left_at,
            *((None, (), None) if identity is None else identity),
        )

    def stored_place(self) -> StoredPlace:
        """How far it has come, for the disk."""
        state = self._state.received
        return StoredPlace(state.offset, state.last, self.mailbox.last)

    def restore(self, records: SessionRecords) -> None:
        """Begin with what was kept, and register it with the broker again."""
        stored, reached, entries = records
        self._asked = {each.id: each for each in stored.subscriptions}
        self._state = ClientSession(SessionState(stored.registered, reached.offset, reached.last))
        self.marks = dict(stored.marks)
        if stored.user is not None:
            self.identity = Identity(stored.user, stored.groups, stored.expires)
        self.left_at = self._room.now() if stored.left_at is None else stored.left_at
        self.mailbox.restore(entries)
        self._safe = self.mailbox.last = max(self.mailbox.last, reached.place)
        self._keep_changes()
        self.register_again()
        self.review()

    def register_again(self) -> None:
        """Register what was in force; what came meanwhile is given by the log."""
        state = self._state.received
        self.trouble = None
        if state.subscriptions and not self._over:
            self._held = self._held or []
            self._room.broker.register(state, self._registered_again)

    def _registered_again(self, reason: str | None) -> None:
        self.trouble = reason
        if reason is None:
            held, self._held = self._held or [], None
            for ask in held:
                ask()

    # As a client of the broker.

    @property
    def paused(self) -> bool:
        """Sessions do not publish."""
        return False

    def give(self, delivery: Delivery | DeliveryBatch) -> None:
        """Put deliveries into the mailbox, those that are new and may be seen."""
        if self._given and isinstance(delivery, DeliveryBatch):  # the connection has them
            self._given -= len(delivery.events)
            self._state.receive_all(delivery)
            return
        if isinstance(delivery, DeliveryBatch) and self.sees_all and self._state.receive_run(delivery):
            names = delivery.names[0]
            parts = tuple(dict.fromkeys(map(part_of, names)))
            batch = delivery if parts == names else delivery._replace(names=(parts,))
            if not self._pass_on(batch):
                self.mailbox.put_run(batch, self._room.now())
                self._settle()
            return
        now = self._room.now()
        for each in delivery.deliveries if isinstance(delivery, DeliveryBatch) else (delivery,):
            new, item = self._state.receive(each.event, each.subscriptions, each.offset)
            for _ in new:
                self._state.take(item)
            if new and self._may_see(each.event):
                names = tuple(dict.fromkeys(map(part_of, new)))
                self.mailbox.put(each._replace(subscriptions=names), now)
        self._settle()

    def count_given(self) -> int:
        """The connection is given an event before the broker delivers it; gives the place that it has."""
        self._given += 1
        self._safe = self.mailbox.last = self.mailbox.last + 1
        return self._safe

    def _pass_on(self, batch: DeliveryBatch) -> bool:
        """Have the connection send deliveries at once, if it can and nothing need be kept for another one."""
        mailbox, receiver = self.mailbox, self._receiver
        if receiver is None or mailbox.untaken or self.lasts or not receiver.pass_on(batch, mailbox.last + 1):
            return False
        self._safe = mailbox.last = mailbox.last + len(batch.events)
        return True

    def _settle(self) -> None:
        """Keep what has come, then let it be taken."""
        through = self.mailbox.last
        if not self._writes:
            self.mailbox.forget_changes()
            self._kept(through)
            return
        changes = self.mailbox.changes()
        if changes:
            kept = partial(self._kept, through)
            self._room.disk.keep(self.subscriber, None, changes, self.stored_place(), then=kept)

    def _kept(self, through: int) -> None:
        self._safe = max(self._safe, through)
        self.tell()

    def _keep_changes(self, then: Callable[[], None] = lambda: None) -> None:
        """Keep what has left the mailbox."""
        if self._writes:
            self._room.disk.keep(self.subscriber, None, self.mailbox.changes(), then=then)
        else:
            self.mailbox.forget_changes()
            then()

    def miss(self, gap: LogGap) -> None:
        """The network's log has no longer what came after an offset: a gap in the mailbox says so."""
        self.mailbox.put_gap("the network's log no longer has what came while the broker was away")
        self._state.reach(gap.through)
        self._settle()

    def tell_progress(self) -> None:
        """Keep how far the network has come, when nothing was delivered for a while."""
        reached = self._room.broker.reached(self.subscriber)
        moved = reached is not None and self.lasts and self._state.received.offset != reached
        if reached is not None and moved and self._held is None:
            self._room.broker.in_turn(partial(self._progress, reached))

    def _progress(self, reached: Offset) -> None:
        if not self._over and self.lasts:
            self._state.reach(reached)
            self._room.disk.keep(self.subscriber, None, (), self.stored_place())

    def let_go(self, reason: str, *, final: bool = False) -> None:
        """The broker ends, or a client of the network has taken the name, until a connection comes back."""
        self._displaced = final
        receiver, self._receiver = self._receiver, None
        self.left_at = self._room.now()
        if receiver is not None:
            receiver.end(reason)

    def expire(self, now: float) -> None:
        """Give up what is too old; end the session if it has waited too long, or its user's time is over."""
        if self.left_at is not None and self.expiry is not None and now >= self.left_at + self.expiry:
            self.close("it has expired")
            return
        receiver, identity, access = self._receiver, self.identity, self._room.access
        ended = identity is not None and access is not None and not access.known(identity)
        if receiver is not None and ended:
            self.detach(receiver)
            receiver.end("the log-in has expired")
        if self.trouble is not None:
            self.register_again()
        if self.mailbox.bounds.seconds is not None:
            self.mailbox.expire(now)
            self._keep_changes()
