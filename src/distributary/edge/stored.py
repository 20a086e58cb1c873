"""What the edge keeps on the disk: sessions, how far they have come, their mailboxes; retained messages, and
how far the network's log had come when.
"""

from __future__ import annotations

from typing import NamedTuple

from distributary.model import Event, Offset, Subscription
from distributary.overlay.broker import RememberedValues


class StoredSession(NamedTuple):
    """A session on the disk, without its place and its items."""

    subscriptions: tuple[Subscription, ...]
    """As they were asked for."""
    registered: tuple[Subscription, ...]
    """What grants left of them."""
    policy: str
    events: int
    bytes: int
    seconds: float | None
    expiry: float | None
    marks: tuple[tuple[str, str], ...]
    """What a protocol keeps with the session, by name."""
    left_at: float | None
    """When its last connection ended; None while there was one."""
    user: str | None
    """Whose it is; None where nobody asks."""
    groups: tuple[str, ...]
    """Those that the user's token named."""
    expires: float | None
    """When the user's token ends."""


class StoredPlace(NamedTuple):
    """How far a session had come when it was written."""

    offset: Offset | None
    """Of the network's log."""
    last: tuple[RememberedValues, ...]
    """What its tolerances start from."""
    place: int
    """The last place of its mailbox that was given."""


class StoredItem(NamedTuple):
    """An item of a mailbox on the disk."""

    event: Event
    subscriptions: tuple[str, ...]
    offset: Offset | None
    kept_at: float


class StoredGap(NamedTuple):
    """A gap of a mailbox on the disk."""

    events: int
    reason: str
    first: int


class StoredRetained(NamedTuple):
    """The last event of a topic that was published to be retained."""

    event: Event
    offset: Offset | None


class StoredReach(NamedTuple):
    """How far the network's log had come at a time."""

    time: float
    offset: Offset
