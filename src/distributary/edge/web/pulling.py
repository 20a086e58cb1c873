"""Pulls what a session has, for a connection that sends it: waits until something is there."""

from __future__ import annotations

import asyncio

from distributary.edge.mailbox import MailboxGap, MailboxItem
from distributary.edge.sessions import Session
from distributary.errors import DistributaryError
from distributary.model import DeliveryBatch

EXPIRED = "your log-in has expired: log in again"


class SessionEndedError(DistributaryError):
    """The session is not this connection's any more, and why."""


class Puller:
    """The receiver of a session, for whoever awaits what comes."""

    def __init__(self) -> None:
        self._woken = asyncio.Event()
        self.ended: str | None = None
        """Why the session is not this connection's any more; None while it is."""

    def ready(self) -> None:
        """There is something to take."""
        self._woken.set()

    def pass_on(self, batch: DeliveryBatch, first: int) -> bool:
        """Nothing: whoever awaits it takes it from the mailbox."""
        return False

    def end(self, reason: str) -> None:
        """The session is not this connection's any more."""
        self.ended = self.ended or reason
        self._woken.set()

    async def wait(self) -> None:
        """Wait until something is there, or something was said to `wake`; SessionEndedError at the end."""
        await self._woken.wait()
        self._woken.clear()
        if self.ended is not None:
            raise SessionEndedError(self.ended)

    def wake(self) -> None:
        """Have `wait` look again."""
        self._woken.set()

    async def take(self, session: Session, most: int) -> list[MailboxItem | MailboxGap]:
        """What comes next, at least one entry; SessionEndedError when nothing will."""
        while True:
            if self.ended is not None:
                raise SessionEndedError(self.ended)
            if taken := session.take(most):
                return taken
            await self.wait()
