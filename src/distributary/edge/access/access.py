"""What connections and sessions ask: may they come in, may they see this, may they do that?

Rules:

- Without an access file (`Access.open`), whoever connects on loopback is nobody in particular and may do
  everything, and nobody else is let in.
"""

from __future__ import annotations

from collections.abc import Callable

from distributary.edge.access.identity import NOBODY, AccessError, Identity
from distributary.model import Event, Subscription

NOT_HERE = "log in: without an access file only connections on loopback are let in"


class Access:
    """Decides for a broker. `changed` is called whenever grants have changed."""

    def __init__(self) -> None:
        self.changed: list[Callable[[], None]] = []

    @classmethod
    def open(cls) -> Access:
        """Everything for everybody on loopback, nothing for anybody else."""
        return cls()

    @property
    def configured(self) -> bool:
        """Whether there is an access file: without one nothing beyond loopback may be listened on."""
        return False

    def log_in(
        self,
        *,
        user: str | None = None,
        password: bytes | None = None,
        token: str | None = None,
        certificate: str | None = None,
        loopback: bool = False,
    ) -> Identity:
        """Who a connection belongs to; AccessError when it is not let in.

        A password takes some 50 ms of a core to check: call it in a thread (`asyncio.to_thread`).
        """
        if not loopback:
            raise AccessError(NOT_HERE)
        return NOBODY

    def narrowed(self, identity: Identity, subscription: Subscription) -> Subscription:
        """What may be registered for a subscription: itself, or narrowed; AccessError if nothing is left."""
        return subscription

    def may_publish(self, identity: Identity, event: Event) -> str | None:
        """Why an event may not be published; None when it may."""
        return None

    def may_see(self, identity: Identity, event: Event) -> bool:
        """Whether somebody may be shown an event: delivered, retained, replayed or explained."""
        return True

    def connect(self, identity: Identity) -> None:
        """Count a connection; AccessError when there are too many. `release` it when it ends."""

    def release(self, identity: Identity) -> None:
        """A connection that was counted has ended."""

    def subscribe(self, identity: Identity, count: int) -> None:
        """AccessError when a session may not have so many subscriptions."""

    def publish(self, identity: Identity, events: int, size: int) -> None:
        """Count events and their bytes; AccessError when they come too fast: they are not published then."""

    def audit(self, identity: Identity, action: str, detail: str = "", *, refused: bool = False) -> None:
        """Write down who did what, or was refused it."""
