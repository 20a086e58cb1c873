"""All sessions of a broker: who connects to which, what is read from the disk, and what ends by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

from distributary.edge.access import Access, AccessError, Identity
from distributary.edge.broker import EdgeBroker
from distributary.edge.mailbox import MailboxBounds, MailboxPolicy
from distributary.edge.session import MOST_TAKEN, Session
from distributary.edge.session_disk import SessionDisk
from distributary.edge.session_room import Receiver
from distributary.live.runner import Disk
from distributary.model import Subscription
from distributary.overlay.node import Message

__all__ = ["MOST_TAKEN", "Receiver", "Session", "Sessions"]


class Sessions:
    """All sessions of a broker.

    `disk` keeps what must survive the process; without one, sessions last as long as the process. `access`
    says what those who log in may have.
    """

    def __init__(
        self,
        broker: EdgeBroker,
        now: Callable[[], float],
        disk: Disk | None = None,
        access: Access | None = None,
    ) -> None:
        self.broker, self.now, self.access = broker, now, access
        self.disk = SessionDisk(disk)
        self._sessions: dict[str, Session] = {}
        if access is not None:
            access.changed.append(self._review)

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
        identity: Identity | None = None,
    ) -> tuple[Session, bool]:
        """Connect to a subscriber's session; whether it was there before, with what is in its mailbox.

        With `fresh` one that was there is closed first; so is one of another user. AccessError when the user
        has too many.
        """
        session = self._sessions.get(subscriber)
        if session is not None and (fresh or not _same_user(session.identity, identity)):
            session.close(f"another connection began the session of {subscriber!r} anew")
            session = None
        present = session is not None
        if session is None:
            self._require_room(identity)
            session = self._make(subscriber, bounds or MailboxBounds(), expiry)
        else:
            session.rebound(bounds or session.mailbox.bounds, expiry)
        changed = present and identity is not None and session.identity != identity
        if identity is not None:
            session.identity = identity
        session.attach(receiver)
        self.keep(session)
        if changed:
            session.review()
        session.tell()
        return session, present

    def _require_room(self, identity: Identity | None) -> None:
        if identity is not None and self.access is not None:
            with suppress(AccessError):
                self.access.keep_sessions(identity, len(self) + 1)
                return  # All sessions together are not too many for one user.
            user = identity.user
            count = sum(1 for each in self if each.identity is not None and each.identity.user == user)
            self.access.keep_sessions(identity, count + 1)

    def restore(self, stored: Mapping[str, Message]) -> None:
        """Before anybody connects: take up what was kept, and register it with the broker again."""
        for subscriber, records in self.disk.read(stored).items():
            kept = records.session
            bounds = MailboxBounds(MailboxPolicy(kept.policy), kept.events, kept.bytes, kept.seconds)
            self._make(subscriber, bounds, kept.expiry).restore(records)

    def _make(self, subscriber: str, bounds: MailboxBounds, expiry: float | None) -> Session:
        session = self._sessions[subscriber] = Session(self, subscriber, bounds, expiry)
        self.broker.admit(subscriber, session)
        return session

    def expire(self) -> None:
        """Give up what is too old, and end sessions that nobody came back to. To be called now and then."""
        now = self.now()
        for session in self:
            session.expire(now)

    def _review(self) -> None:
        for session in self:
            session.review()

    # What sessions ask.

    def parts(self, session: Session, subscription: Subscription) -> tuple[Subscription, ...]:
        """What may be registered of a subscription; AccessError when nothing may."""
        if session.identity is None or self.access is None:
            return (subscription,)
        return self.access.parts(session.identity, subscription)

    def keep(self, session: Session, then: Callable[[], None] = lambda: None) -> None:
        """Have a session kept, where it lasts, without its items, and `then` called when it is."""
        if session.lasts:
            self.disk.keep(session.subscriber, session.stored(), then=then)
        else:
            then()

    def remove(self, session: Session) -> None:
        """A session has ended."""
        if self._sessions.get(session.subscriber) is not session:
            return
        del self._sessions[session.subscriber]
        for part in [each for id in session.subscriptions for each in session.in_force(id)]:
            self.broker.withdraw(part.key)
        self.broker.dismiss(session.subscriber, session)
        if session.lasts:
            self.disk.forget(session.subscriber, [entry.place for entry in session.mailbox.after(0)])


def _same_user(one: Identity | None, other: Identity | None) -> bool:
    return one is None or other is None or one.user == other.user
