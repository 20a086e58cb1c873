"""What a session has, as server-sent events (https://html.spec.whatwg.org/multipage/server-sent-events.html).

Rules:

- The id of each is its place in the mailbox; a browser that reconnects sends the last as `Last-Event-ID`, by
  which everything up to there is acknowledged. A gap comes as an event of the type `gap`.
- Of what was sent and not acknowledged, the last `KEPT` entries stay in the mailbox for the next connection.
  Those before count as arrived: whoever comes back with an older place is told how many are missing.
- A comment now and then keeps the connection from being taken for dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable

from distributary.edge.mailbox import MailboxGap, MailboxItem
from distributary.edge.sessions import Session
from distributary.edge.web.pulling import EXPIRED, Puller, SessionEndedError
from distributary.edge.web.records import entry_record, to_json

KEPT = 1_000
"""Entries that were sent and stay for the next connection, until it says what it has."""
AT_ONCE = 100
"""Entries that are written together."""
SILENCE = 15.0
"""Seconds without an event after which a comment is sent."""
RELEASED = "sent-through"
"""The mark of the place up to which a session's entries count as arrived, because they were sent long ago."""


async def server_sent(
    session: Session, puller: Puller, last: int | None, allowed: Callable[[], bool]
) -> AsyncGenerator[bytes]:
    """What comes for a session that was attached to, after a place.

    Ends when the session does, or when its owner is not `allowed` any more, whose log-in has expired say.
    """
    try:
        yield b": connected\n\n"
        if last is not None and (gap := missed(session, last)) is not None:
            yield sent(gap)
        while True:
            try:
                async with asyncio.timeout(SILENCE):
                    taken = await puller.take(session, AT_ONCE)
            except TimeoutError:
                yield b": nothing came\n\n"
                continue
            if not allowed():
                raise SessionEndedError(EXPIRED)
            yield b"".join(map(sent, taken))
            release(session, taken[-1].place - KEPT)
    except SessionEndedError as error:
        yield b"event: end\ndata: " + to_json({"type": "end", "reason": str(error)}) + b"\n\n"
    finally:
        session.detach(puller)


def missed(session: Session, last: int) -> MailboxGap | None:
    """What lies between the last place that a subscriber has and those that are kept, if that is anything.

    A place that was never given is another session's, of which nothing is known.
    """
    released = int(session.marks.get(RELEASED, "0"))
    if last > session.mailbox.last:
        return MailboxGap(0, 0, "the session is a new one, and has nothing of before")
    if last < released:
        return MailboxGap(released, 0, "it was sent long ago, and is not kept any more")
    return None


def release(session: Session, place: int) -> None:
    """Let what was sent long ago count as arrived, some hundred entries at a time."""
    released = int(session.marks.get(RELEASED, "0"))
    if place >= released + KEPT // 10:
        session.marks[RELEASED] = str(place)
        session.acknowledge_through(place)
        session.keep_marks(lambda: None)


def sent(entry: MailboxItem | MailboxGap) -> bytes:
    """An entry as a server-sent event.

    >>> sent(MailboxGap(7, 3, "full"))
    b'event: gap\\nid: 7\\ndata: {"type":"gap","place":7,"events":3,"reason":"full"}\\n\\n'
    """
    kind = b"event: gap\n" if isinstance(entry, MailboxGap) else b""
    return kind + b"id: %d\ndata: " % entry.place + to_json(entry_record(entry)) + b"\n\n"
