"""Every subscriber's place at a broker: their subscriptions and their mailbox, with or without a connection.

Rules:

- A session belongs to a subscriber and outlives its connections by `expiry` seconds (None: for good; 0: not
  at all). One that expires, or is closed, is withdrawn with its subscriptions and its mailbox.
- One connection at a time: another one takes the place of the one before, which is told.
- A connection pulls: it is told that something is there (`Receiver.ready`), takes as much as it can send
  (`Session.take`), and acknowledges what has arrived. So a slow one costs others nothing but the room in its
  own mailbox, which is bounded. What was taken and not acknowledged is there again for the next connection.
- What outlives a connection is kept on the disk before it is given to anybody: the subscription before it is
  answered, the item before it is taken. So an item has the same place after a crash. Sessions that end with
  their connection keep nothing on the disk.
- With its items a session keeps how far the network's log had come, and what its tolerances start from. After
  a crash it is registered again from there: the log gives the rest, once.
- Nothing here waits, and nothing knows a socket. The broker, the disk and the clock are given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Protocol

from distributary.client.session import ClientSession
from distributary.edge.broker import Answer, EdgeBroker
from distributary.edge.mailbox import Mailbox, MailboxBounds, MailboxGap, MailboxItem, MailboxPolicy, size_of
from distributary.edge.stored import StoredItem, StoredPlace, StoredSession
from distributary.live.runner import Disk
from distributary.model import Delivery, DeliveryBatch, Offset, Subscription, SubscriptionKey
from distributary.overlay.broker import LogGap, SessionState
from distributary.overlay.node import Message, Store

SESSION, PLACE, ITEM = "session/", "place/", "item/"
"""Names on the disk begin with these."""
MOST_TAKEN = 1_000
"""Entries that are taken at a time, unless said otherwise."""


class Receiver(Protocol):
    """A connection that hands out what a session has."""

    def ready(self) -> None:
        """There is something to take."""

    def end(self, reason: str) -> None:
        """The session is not this connection's any more: it was taken over, closed, or too slow."""


class Session:
    """One subscriber's place. Made by `Sessions.attach`."""

    def __init__(self, room: Sessions, subscriber: str, bounds: MailboxBounds, expiry: float | None) -> None:
        self.subscriber = subscriber
        self.mailbox = Mailbox(bounds)
        self.expiry = expiry
        self.marks: dict[str, str] = {}
        """What a protocol keeps with the session, by name; kept on the disk by `keep_marks`."""
        self.left_at: float | None = None
        """When the last connection ended; None while there is one."""
        self._room = room
        self._state = ClientSession()
        self._receiver: Receiver | None = None
        self._taken = 0
        """The place up to which this connection has taken everything."""
        self._safe = 0
        """The place up to which everything may be given."""
        self._over = False

    @property
    def subscriptions(self) -> Mapping[str, Subscription]:
        """The subscriptions, by id."""
        return self._state.subscriptions

    @property
    def connected(self) -> bool:
        """Whether somebody is there."""
        return self._receiver is not None

    @property
    def lasts(self) -> bool:
        """Whether the session outlives its connection."""
        return self.expiry is None or self.expiry > 0

    @property
    def waiting(self) -> int:
        """How many items the connection has not taken."""
        return sum(1 for _ in self.mailbox.after(self._taken))

    # What its connection asks.

    def subscribe(self, subscription: Subscription, done: Answer) -> None:
        """Have a subscription, in place of one with the same id; answered when it is in force and kept."""
        if subscription.subscriber != self.subscriber:
            done(f"{self.subscriber!r} cannot subscribe for {subscription.subscriber!r}")
            return
        self._state.expect(subscription)
        state = SessionState((subscription,), None, ())
        self._room.broker.register(state, partial(self._subscribed, subscription, done))

    def _subscribed(self, subscription: Subscription, done: Answer, reason: str | None) -> None:
        if reason is not None:
            if subscription.id not in self._state.subscriptions:
                self._state.end(subscription.id)
            done(reason)
        elif self._over:
            self._room.broker.withdraw(subscription.key)
            done("the session has ended")
        else:
            self._state.begin(subscription)
            self._room.keep(self, then=partial(done, None))

    def unsubscribe(self, id: str, done: Answer) -> None:
        """End a subscription; what is in the mailbox for it stays."""
        if id not in self._state.subscriptions:
            done(f"there is no subscription {id!r}")
            return
        self._state.end(id)
        self._room.broker.withdraw(SubscriptionKey(self.subscriber, id))
        self._room.keep(self, then=partial(done, None))

    def take(self, most: int = MOST_TAKEN) -> list[MailboxItem | MailboxGap]:
        """What comes next for this connection, in order; a gap is over once it was taken."""
        taken: list[MailboxItem | MailboxGap] = []
        for entry in self.mailbox.after(self._taken):
            if entry.place > self._safe or len(taken) >= most:
                break
            taken.append(entry)
        if taken:
            self._taken = taken[-1].place
        for entry in taken:
            if isinstance(entry, MailboxGap):
                self.mailbox.acknowledge(entry.place)
        return taken

    def acknowledge(self, place: int) -> bool:
        """An item has arrived for good; whether it was there."""
        there = self.mailbox.acknowledge(place)
        if there:
            self._room.forget_items(self, [place])
        return there

    def acknowledge_each(self, places: Iterable[int]) -> None:
        """Items have arrived for good; those that were there are removed from the disk together."""
        self._room.forget_items(self, [place for place in places if self.mailbox.acknowledge(place)])

    def acknowledge_through(self, place: int) -> None:
        """All up to a place has arrived for good."""
        self._room.forget_items(self, self.mailbox.acknowledge_through(min(place, self._safe)))
        self._taken = max(self._taken, min(place, self._safe))

    def keep_marks(self, then: Callable[[], None]) -> None:
        """Have `marks` kept, and `then` called when they are."""
        self._room.keep(self, then=then)

    def detach(self, receiver: Receiver) -> None:
        """A connection has ended: the session waits for the next one, as long as it lasts."""
        if self._receiver is receiver:
            self._receiver = None
            self.left_at = self._room.now()
            if not self.lasts:
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

    # What its room does.

    def attach(self, receiver: Receiver) -> None:
        """Let another connection have it."""
        before, self._receiver = self._receiver, receiver
        self.left_at = None
        self._taken = 0
        if before is not None:
            before.end(f"another connection took over the session of {self.subscriber!r}")

    def rebound(self, bounds: MailboxBounds, expiry: float | None) -> None:
        """Have other bounds from now on."""
        self.mailbox.bounds = bounds
        self.expiry = expiry

    def tell(self) -> None:
        """Tell the connection that something is there."""
        if self._receiver is not None:
            if self.mailbox.overrun:
                self.close("its mailbox was full, and its policy is to end then")
            elif next(self.mailbox.after(self._taken), None) is not None:
                self._receiver.ready()

    def stored(self) -> StoredSession:
        """What is kept of it on the disk, and seldom changes."""
        bounds = self.mailbox.bounds
        return StoredSession(
            tuple(self.subscriptions.values()),
            bounds.policy.value,
            bounds.events,
            bounds.bytes,
            bounds.seconds,
            self.expiry,
            tuple(sorted(self.marks.items())),
        )

    def stored_place(self) -> StoredPlace:
        """How far it has come, for the disk."""
        state = self._state.received
        return StoredPlace(state.offset, state.last, self.mailbox.last)

    def restore(
        self, stored: StoredSession, reached: StoredPlace, items: Iterable[MailboxItem]
    ) -> SessionState:
        """Begin with what was kept; gives what is to be registered again."""
        state = SessionState(stored.subscriptions, reached.offset, reached.last)
        self._state = ClientSession(state)
        self.marks = dict(stored.marks)
        self.mailbox.restore(sorted(items, key=lambda item: item.place))
        self.mailbox.last = max(self.mailbox.last, reached.place)
        self._safe = self.mailbox.last
        return state

    # As a client of the broker.

    @property
    def paused(self) -> bool:
        """Sessions do not publish."""
        return False

    def give(self, delivery: Delivery | DeliveryBatch) -> None:
        """Put deliveries into the mailbox, those that are new."""
        deliveries = delivery.deliveries if isinstance(delivery, DeliveryBatch) else [delivery]
        now, first, left = self._room.now(), self.mailbox.last + 1, list[int]()
        for each in deliveries:
            new, item = self._state.receive(each.event, each.subscriptions, each.offset)
            for _ in new:
                self._state.take(item)
            if new:
                left += self.mailbox.put(each._replace(subscriptions=new), now)
        self._settle(first, left)

    def _settle(self, first: int, left: list[int]) -> None:
        """Keep what has come since a place, then let it be taken."""
        if self.mailbox.last < first and not left:
            return
        through = self.mailbox.last
        if not self.lasts:
            self._safe = through
            self.tell()
        else:
            came = [entry for entry in self.mailbox.after(first - 1) if isinstance(entry, MailboxItem)]
            self._room.keep_items(self, came, left, then=partial(self._kept, through))

    def _kept(self, through: int) -> None:
        self._safe = max(self._safe, through)
        self.tell()

    def miss(self, gap: LogGap) -> None:
        """The network's log has no longer what came after an offset: a gap in the mailbox says so."""
        self.mailbox.put_gap("the network's log no longer has what came while the broker was away")
        self._state.reach(gap.through)
        self._settle(self.mailbox.last, [])

    def tell_progress(self) -> None:
        """Keep how far the network has come, when nothing was delivered for a while."""
        reached = self._room.broker.reached(self.subscriber)
        if reached is not None and self.lasts and self._state.received.offset != reached:
            self._room.broker.in_turn(partial(self._progress, reached))

    def _progress(self, reached: Offset) -> None:
        if not self._over:
            self._state.reach(reached)
            self._room.keep_items(self)

    def let_go(self, reason: str, *, final: bool = False) -> None:
        """The broker ends, or a client of the network has taken the name."""
        receiver, self._receiver = self._receiver, None
        self.left_at = self._room.now()
        if receiver is not None:
            receiver.end(reason)

    def expire(self, now: float) -> None:
        """Give up what is too old; end the session if it has waited too long."""
        if self.left_at is not None and self.expiry is not None and now >= self.left_at + self.expiry:
            self.close("it has expired")
            return
        self._room.forget_items(self, self.mailbox.expire(now))


class Sessions:
    """All sessions of a broker.

    `disk` keeps what must survive the process; without one, sessions last as long as the process.
    """

    def __init__(self, broker: EdgeBroker, now: Callable[[], float], disk: Disk | None = None) -> None:
        self.broker, self.now = broker, now
        self._disk = disk
        self._sessions: dict[str, Session] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def get(self, subscriber: str) -> Session | None:
        """The session of a subscriber, if there is one."""
        return self._sessions.get(subscriber)

    def attach(
        self,
        subscriber: str,
        receiver: Receiver,
        bounds: MailboxBounds | None = None,
        expiry: float | None = 0,
        *,
        fresh: bool = False,
    ) -> tuple[Session, bool]:
        """Connect to a subscriber's session; whether it was there before, with what is in its mailbox.

        With `fresh` one that was there is closed first.
        """
        session = self._sessions.get(subscriber)
        if session is not None and fresh:
            session.close(f"another connection began the session of {subscriber!r} anew")
            session = None
        present = session is not None
        if session is None:
            session = self._make(subscriber, bounds or MailboxBounds(), expiry)
            self.keep(session)
        else:
            session.rebound(bounds or session.mailbox.bounds, expiry)
            self.keep(session)
        session.attach(receiver)
        session.tell()
        return session, present

    def restore(self, stored: Mapping[str, Message]) -> None:
        """Before anybody connects: take up what was kept, and register it with the broker again."""
        items: dict[str, list[MailboxItem]] = {}
        reached: dict[str, StoredPlace] = {}
        for name, value in stored.items():
            if isinstance(value, StoredItem):
                subscriber, place = _item_of(name)
                delivery = Delivery(value.event, subscriber, value.subscriptions, value.offset)
                item = MailboxItem(place, delivery, size_of(delivery), value.kept_at)
                items.setdefault(subscriber, []).append(item)
            elif isinstance(value, StoredPlace):
                reached[name.removeprefix(PLACE)] = value
        for name, value in stored.items():
            if isinstance(value, StoredSession):
                subscriber = name.removeprefix(SESSION)
                place_of = reached.get(subscriber, StoredPlace(None, (), 0))
                self._restore_one(subscriber, value, place_of, items.get(subscriber, []))

    def _restore_one(
        self, subscriber: str, stored: StoredSession, reached: StoredPlace, items: list[MailboxItem]
    ) -> None:
        bounds = MailboxBounds(MailboxPolicy(stored.policy), stored.events, stored.bytes, stored.seconds)
        session = self._make(subscriber, bounds, stored.expiry)
        session.left_at = self.now()
        state = session.restore(stored, reached, items)
        if state.subscriptions:
            self.broker.register(state, lambda reason: None)

    def _make(self, subscriber: str, bounds: MailboxBounds, expiry: float | None) -> Session:
        session = self._sessions[subscriber] = Session(self, subscriber, bounds, expiry)
        self.broker.admit(subscriber, session)
        return session

    def expire(self) -> None:
        """Give up what is too old, and end sessions that nobody came back to. To be called now and then."""
        now = self.now()
        for session in self:
            session.expire(now)

    # What sessions ask.

    def keep(self, session: Session, then: Callable[[], None] = lambda: None) -> None:
        """Have a session kept, where it lasts, without its items, and `then` called when it is."""
        self._write(session, [Store(SESSION + session.subscriber, session.stored())], then)

    def keep_items(
        self,
        session: Session,
        came: Iterable[MailboxItem] = (),
        left: Iterable[int] = (),
        then: Callable[[], None] = lambda: None,
    ) -> None:
        """Have what changed in a mailbox kept, and how far it has come, and `then` called when it is."""
        stores = [
            Store(_item_name(session.subscriber, place), StoredItem(event, names, offset, kept_at))
            for place, (event, _, names, offset), _, kept_at in came
        ]
        stores += [Store(_item_name(session.subscriber, place), None) for place in left]
        stores.append(Store(PLACE + session.subscriber, session.stored_place()))
        self._write(session, stores, then)

    def _write(self, session: Session, stores: list[Store], then: Callable[[], None]) -> None:
        if self._disk is None or not session.lasts:
            then()
        else:
            self._disk.write(stores, then)

    def forget_items(self, session: Session, places: list[int]) -> None:
        """Have items that have left a mailbox removed from the disk."""
        if places and self._disk is not None and session.lasts:
            self._disk.write(
                [Store(_item_name(session.subscriber, place), None) for place in places], lambda: None
            )

    def remove(self, session: Session) -> None:
        """A session has ended."""
        if self._sessions.get(session.subscriber) is not session:
            return
        del self._sessions[session.subscriber]
        for subscription in session.subscriptions.values():
            self.broker.withdraw(subscription.key)
        self.broker.dismiss(session.subscriber, session)
        if self._disk is not None:
            names = [_item_name(session.subscriber, entry.place) for entry in session.mailbox.after(0)]
            names += [SESSION + session.subscriber, PLACE + session.subscriber]
            self._disk.write([Store(name, None) for name in names], lambda: None)


def _item_name(subscriber: str, place: int) -> str:
    return f"{ITEM}{place}/{subscriber}"


def _item_of(name: str) -> tuple[str, int]:
    place, _, subscriber = name.removeprefix(ITEM).partition("/")
    return subscriber, int(place)
