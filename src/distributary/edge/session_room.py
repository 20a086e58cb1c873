"""What a session asks of the room it is in, and what it tells the connection that hands out what it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from distributary.edge.access import Access
from distributary.edge.broker import EdgeBroker
from distributary.edge.session_disk import SessionDisk
from distributary.model import DeliveryBatch, Subscription

if TYPE_CHECKING:
    from distributary.edge.session import Session


class SessionRoom(Protocol):
    """What a session asks of the room it is in (`sessions.Sessions`)."""

    broker: EdgeBroker
    disk: SessionDisk
    access: Access | None

    @property
    def now(self) -> Callable[[], float]:
        """Tells the time, in seconds since 1970."""

    def parts(self, session: Session, subscription: Subscription) -> tuple[Subscription, ...]:
        """What may be registered of a subscription; AccessError when nothing may."""

    def keep(self, session: Session, then: Callable[[], None] = lambda: None) -> None:
        """Have a session kept, where it lasts, without its items, and `then` called when it is."""

    def remove(self, session: Session) -> None:
        """A session has ended."""


class Receiver(Protocol):
    """A connection that hands out what a session has."""

    def ready(self) -> None:
        """There is something to take."""

    def pass_on(self, batch: DeliveryBatch, first: int) -> bool:
        """Send deliveries at once, whose places begin with this one; False if they must be taken instead.

        Nothing waits before them, and the session ends with the connection: nobody else will ask for them.
        """

    def end(self, reason: str) -> None:
        """The session is not this connection's any more: it was taken over, closed, or too slow."""
