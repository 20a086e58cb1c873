"""Tickets: what a script in a browser shows in an address, where it can send no headers.

Neither EventSource nor WebSocket lets a script set `Authorization`. So it asks for a ticket with a request of
its own, and shows that once, within `LASTS` seconds. A ticket in a log or a history is of no use to anybody.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable

from distributary.edge.access import Identity

LASTS = 30.0
"""Seconds for which a ticket is good."""
MOST = 10_000
"""Tickets that are good at a time; beyond that the oldest is not."""


class Tickets:
    """The tickets that are good.

    >>> tickets = Tickets(now=lambda: 0.0)
    >>> ticket = tickets.issue(Identity("ann"))
    >>> tickets.redeem(ticket), tickets.redeem(ticket)
    (Identity(user='ann', groups=(), expires=None), None)
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._issued: dict[str, tuple[float, Identity]] = {}

    def issue(self, identity: Identity) -> str:
        """A ticket by which somebody is known."""
        now = self._now()
        for ticket in [each for each, (until, _) in self._issued.items() if until < now]:
            del self._issued[ticket]
        if len(self._issued) >= MOST:
            del self._issued[next(iter(self._issued))]
        ticket = secrets.token_urlsafe(24)
        self._issued[ticket] = (now + LASTS, identity)
        return ticket

    def redeem(self, ticket: str) -> Identity | None:
        """Whose ticket it is; None for one that is not good, or not any more."""
        until, identity = self._issued.pop(ticket, (0.0, None))
        return identity if until >= self._now() else None
