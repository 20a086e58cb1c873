"""Webhooks: what a session has is sent to an address of its owner's, as CloudEvents.

Rules:

- Each event is sent until the answer is 2xx, then it is acknowledged; the next ones wait, so they arrive in
  order. After a failure the same is sent again, after a pause that doubles, with some chance in it.
- After so many failures in a row, the answer 410 (gone), or the end of its owner's log-in, the webhook is
  *parked*: nothing is sent, the mailbox keeps what comes within its bounds. That is noted, and told with the
  session. Setting the webhook again lets it go on.
- A request is signed as https://www.standardwebhooks.com has it: `webhook-signature` is the HMAC-SHA256 of
  `webhook-id.webhook-timestamp.body` by the secret. The id is the same each time an event is sent.
- Gaps are told as events of the type `GAP_TYPE`.
- Webhooks go on after a restart. A client that connects to the session by WebSocket takes its place.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, NamedTuple

from distributary.cloud_events import cloud_event
from distributary.edge.access import Identity
from distributary.edge.mailbox import MailboxGap, MailboxItem
from distributary.edge.sessions import Session, Sessions
from distributary.edge.web.outgoing import OutgoingError, checked_address, post, resolved
from distributary.edge.web.pulling import Puller, SessionEndedError
from distributary.edge.web.records import to_json
from distributary.errors import InputError

MARK, PARKED = "webhook", "webhook-parked"
"""The marks of a session: its webhook, and why it is parked."""
PREFIX = "whsec_"
SECRET_BYTES = (24, 64)
"""How short and how long a secret may be."""
MOST_TOGETHER = 100
GONE = 410
GAP_TYPE = "distributary.gap"


@dataclass(frozen=True)
class WebhookRules:
    """How patiently webhooks are tried."""

    failures: int = 12
    """In a row, after which one is parked."""
    first_pause: float = 0.5
    longest_pause: float = 300.0
    patience: float = 10.0
    """Seconds that one request may take."""
    private: bool = False
    """Whether they may be at addresses of this machine and of private networks."""


class Webhook(NamedTuple):
    """Where a session's events are sent."""

    url: str
    secret: str
    together: int
    """How many events one request may have: above 1 they come as a batch."""

    def signature(self, id: str, timestamp: str, body: bytes) -> str:
        """What proves that a request comes from whoever has the secret.

        >>> Webhook("", "whsec_" + "A" * 32, 1).signature("m1", "7", b"{}")
        'v1,bNbuaN2gbIIaJ9dRK0moGwau5vF19nI8rZp19O8Gf9A='
        """
        key = base64.b64decode(self.secret.removeprefix(PREFIX))
        signed = hmac.digest(key, f"{id}.{timestamp}.".encode() + body, "sha256")
        return f"v1,{base64.b64encode(signed).decode()}"


class Webhooks:
    """All webhooks of a broker."""

    def __init__(self, sessions: Sessions, note: Callable[[str], None], rules: WebhookRules) -> None:
        self._sessions, self._note, self._rules = sessions, note, rules
        self._random = Random()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Go on with those of sessions that were kept."""
        for session in self._sessions:
            if MARK in session.marks and PARKED not in session.marks:
                self._begin(session, session.identity)

    async def stop(self) -> None:
        """End all of them."""
        tasks, self._tasks = self._tasks, {}
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)

    async def put(self, session: Session, record: Mapping[str, Any], identity: Identity) -> dict[str, Any]:
        """Send what a session has to an address, for its owner, from now on; InputError if that cannot be."""
        hook = read_webhook(record)
        try:
            await resolved(checked_address(hook.url), self._rules.private)
        except OutgoingError as error:
            raise InputError(str(error), field="url") from None
        session.marks[MARK] = json.dumps(hook._asdict())
        session.marks.pop(PARKED, None)
        session.keep_marks(lambda: None)
        self._begin(session, identity)
        return {**self.state(session), "secret": hook.secret}

    def remove(self, session: Session) -> bool:
        """Send nothing any more; whether something was."""
        there = session.marks.pop(MARK, None) is not None
        session.marks.pop(PARKED, None)
        session.keep_marks(lambda: None)
        self._end(session.subscriber)
        return there

    def state(self, session: Session) -> dict[str, Any]:
        """What becomes of a session's webhook, for its owner; without the secret."""
        hook = json.loads(session.marks[MARK])
        parked = session.marks.get(PARKED)
        running = session.subscriber in self._tasks
        state = "parked" if parked is not None else "running" if running else "displaced"
        about = {"url": hook["url"], "together": hook["together"], "state": state}
        return about | ({"reason": parked} if parked is not None else {})

    # Inside.

    def _begin(self, session: Session, identity: Identity | None) -> None:
        self._end(session.subscriber)
        hook = Webhook(**json.loads(session.marks[MARK]))
        puller = Puller()
        bounds, expiry = session.mailbox.bounds, session.expiry
        self._sessions.attach(session.subscriber, puller, bounds, expiry, identity=identity)
        self._tasks[session.subscriber] = asyncio.create_task(self._run(session, puller, hook))

    def _end(self, subscriber: str) -> None:
        task = self._tasks.pop(subscriber, None)
        if task is not None:
            task.cancel()

    async def _run(self, session: Session, puller: Puller, hook: Webhook) -> None:
        """Send what the session has, until the webhook is parked or the session is not its own any more."""
        try:
            while True:
                entries = await puller.take(session, hook.together)
                reason = await self._send(session, puller, hook, entries)
                if reason is not None:
                    self._park(session, reason)
                    return
                session.acknowledge_through(entries[-1].place)
        except SessionEndedError as error:
            access, identity = self._sessions.access, session.identity
            if access is not None and identity is not None and not access.known(identity):
                self._park(session, f"{error}: log in, and set it again")
        except Exception as error:  # A fault of ours: it is told, and nothing is sent in silence.
            self._park(session, f"it failed: {type(error).__name__}: {error}")
        finally:
            session.detach(puller)
            if self._tasks.get(session.subscriber) is asyncio.current_task():
                del self._tasks[session.subscriber]

    async def _send(
        self, session: Session, puller: Puller, hook: Webhook, entries: list[MailboxItem | MailboxGap]
    ) -> str | None:
        """Send entries until they arrive; why the webhook is to be parked, or None when they have arrived."""
        rules, reason = self._rules, ""
        for failures in range(rules.failures):
            if failures:
                pause = min(rules.first_pause * 2 ** (failures - 1), rules.longest_pause)
                await asyncio.sleep(pause * (0.5 + self._random.random()))
            if puller.ended is not None:
                raise SessionEndedError(puller.ended)
            try:
                status = await self._post(session, hook, entries)
            except OutgoingError as error:
                reason = str(error)
                continue
            if 200 <= status < 300:
                return None
            reason = f"the answer was {status}"
            if status == GONE:
                return reason
        return f"{rules.failures} failures in a row, the last: {reason}"

    async def _post(self, session: Session, hook: Webhook, entries: list[MailboxItem | MailboxGap]) -> int:
        told = [_told(session, entry) for entry in entries]
        kind = "application/cloudevents-batch+json" if hook.together > 1 else "application/cloudevents+json"
        body = to_json(told if hook.together > 1 else told[0])
        id, timestamp = f"{session.subscriber}/{entries[-1].place}", str(int(time.time()))
        id = base64.urlsafe_b64encode(id.encode()).decode().rstrip("=")
        headers = {
            "content-type": f"{kind}; charset=utf-8",
            "webhook-id": id,
            "webhook-timestamp": timestamp,
            "webhook-signature": hook.signature(id, timestamp, body),
        }
        rules = self._rules
        return await post(hook.url, body, headers, private=rules.private, patience=rules.patience)

    def _park(self, session: Session, reason: str) -> None:
        session.marks[PARKED] = reason
        session.keep_marks(lambda: None)
        self._note(f"the webhook of {session.subscriber!r} is parked: {reason}")


def read_webhook(record: Mapping[str, Any]) -> Webhook:
    """The webhook of a record; a secret is made up where there is none. InputError when it is none."""
    unknown = set(record) - {"url", "secret", "together"}
    if unknown:
        raise InputError("is no setting of a webhook", field=sorted(unknown)[0][:60])
    try:
        url = checked_address(record.get("url")).geturl()
    except OutgoingError as error:
        raise InputError(str(error), field="url") from None
    together = record.get("together", 1)
    if not isinstance(together, int) or isinstance(together, bool) or not 1 <= together <= MOST_TOGETHER:
        raise InputError(f"must be a whole number of 1 to {MOST_TOGETHER}", field="together")
    secret = record.get("secret") or PREFIX + base64.b64encode(secrets.token_bytes(SECRET_BYTES[0])).decode()
    try:
        size = len(base64.b64decode(str(secret).removeprefix(PREFIX), validate=True))
    except (ValueError, binascii.Error):
        size = 0
    if not isinstance(secret, str) or not SECRET_BYTES[0] <= size <= SECRET_BYTES[1]:
        shortest, longest = SECRET_BYTES
        raise InputError(f"must be {shortest} to {longest} bytes in Base64, after {PREFIX!r}", field="secret")
    return Webhook(url, secret, together)


def _told(session: Session, entry: MailboxItem | MailboxGap) -> dict[str, Any]:
    """An entry as a CloudEvent."""
    if isinstance(entry, MailboxItem):
        return cloud_event(entry.delivery.event)
    about = {"place": entry.place, "events": entry.events, "reason": entry.reason}
    source = f"/sessions/{session.subscriber}"
    return {
        "specversion": "1.0",
        "id": f"gap-{entry.place}",
        "source": source,
        "type": GAP_TYPE,
        "data": about,
    }
