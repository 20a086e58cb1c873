"""A client by WebSocket: it publishes, subscribes, is given events and acknowledges them, in JSON.

    -> {"type": "open", "session": "phone", "expiry": 3600, "window": 1000, "after": 17}
    <- {"type": "opened", "session": "phone", "broker": "serve", "present": true, "mark": "...", ...}
    -> {"type": "subscribe", "request": 1, "id": "s1", "topic": "quotes/*", "where": "price > 8"}
    <- {"type": "done", "request": 1}
    <- {"type": "event", "place": 18, "subscriptions": ["s1"], "event": {"id": "e1", ...}}
    -> {"type": "acknowledge", "place": 18}
    -> {"type": "publish", "request": 2, "events": [{"id": "e2", ...}, ...]}
    <- {"type": "done", "request": 2, "published": 1, "ids": [...], "rejected": [{"place": 1, "reason": ...}]}
    <- {"type": "refused", "request": 3, "reason": "..."}
    <- {"type": "gap", "place": 90, "events": 5, "reason": "the mailbox was full"}
    <- {"type": "end", "reason": "another connection took over the session"}
    -> {"type": "close"}

Rules:

- `open` comes first, within the patience of the server; all that it says is optional. A session without a
  name ends with its connection. `after` is the place up to which the client has everything.
- An acknowledgement is of all up to a place. At most `window` events are under way without one; what was not
  acknowledged comes again on the next connection. `mark` is another when places begin anew.
- `close` ends the session, and with it the connection; without it the session waits for the next one.
- Requests are done in the order in which they come, and answered when they are done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping
from typing import Any
from uuid import uuid4

from starlette.websockets import WebSocket, WebSocketDisconnect

from distributary.edge.access import AccessError, Identity
from distributary.edge.mailbox import MailboxItem
from distributary.edge.sessions import Session
from distributary.edge.web.bodies import RejectedEvent, read_record
from distributary.edge.web.faults import WebError
from distributary.edge.web.managing import (
    attached,
    put_subscription,
    remove_subscription,
    subscriber_of,
)
from distributary.edge.web.publishing import publish, wait_for_room
from distributary.edge.web.pulling import EXPIRED, Puller, SessionEndedError
from distributary.edge.web.records import (
    entry_record,
    read_bounds,
    read_expiry,
    subscription_record,
    subscription_records,
    to_json,
)
from distributary.edge.web.service import WebService
from distributary.errors import DistributaryError, InputError
from distributary.json_text import read_object
from distributary.model import Event

SUBPROTOCOL = "distributary.1"
MARK = "mark"
"""The mark of a session that says whether its places are those of before."""
UNDER_WAY = 64
"""Requests of a connection that are not answered yet, at most."""
AT_ONCE = 100
LONGEST_REASON = 120
"""Bytes of the reason that a WebSocket is closed with; a message has told the whole before."""
NORMAL, GOING_AWAY, REFUSED = 1000, 1001, 1008


class SocketClient:
    """One connection."""

    def __init__(self, service: WebService, identity: Identity, socket: WebSocket) -> None:
        self._service, self._identity, self._socket = service, identity, socket
        self._puller = Puller()
        self._session: Session | None = None
        self._window = service.limits.window
        self._sent: int = 0
        """Events under way, which are not acknowledged."""
        self._places: list[int] = []
        self._room = asyncio.Semaphore(UNDER_WAY)
        self._answering: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Serve the connection to its end."""
        try:
            self._service.access.connect(self._identity)
        except AccessError as error:
            await self._close(REFUSED, str(error))
            return
        giving: asyncio.Task[None] | None = None
        try:
            session = await self._open()
            giving = asyncio.create_task(self._give(session))
            while True:
                await self._do(session, *await self._read())
        except WebSocketDisconnect:
            pass
        except DistributaryError as error:
            await self._close(REFUSED, str(error))
        finally:
            self._service.access.release(self._identity)
            for task in (giving, *self._answering):
                if task is not None:
                    task.cancel()
            if self._session is not None:
                self._session.detach(self._puller)

    # Opening.

    async def _open(self) -> Session:
        try:
            async with asyncio.timeout(self._service.limits.patience):
                record, _ = await self._read()
        except TimeoutError:
            raise WebError(408, "a connection begins with a message `open`, which has not come") from None
        if record.get("type") != "open":
            raise InputError("the first message of a connection is `open`", field="type")
        client = record.get("session")
        if client is not None and not isinstance(client, str):
            raise InputError("must be a text", field="session")
        name = client or f"socket-{uuid4().hex}"
        subscriber = subscriber_of(self._identity, name)
        expiry = read_expiry(record, 3600.0) if client else 0.0
        before = self._service.sessions.get(subscriber)
        bounds = read_bounds(record, before.mailbox.bounds if before is not None else None)
        fresh = record.get("fresh") is True
        session, present = attached(
            self._service, self._identity, subscriber, self._puller, bounds, expiry, fresh=fresh
        )
        self._session = session
        self._take_up(session, record)
        await self._say(
            {
                "type": "opened",
                "session": name,
                "broker": self._service.broker.name,
                "present": present,
                MARK: session.marks[MARK],
                "subscriptions": subscription_records(session),
            }
        )
        return session

    def _take_up(self, session: Session, record: Mapping[str, Any]) -> None:
        """Go on where the client was."""
        if MARK not in session.marks:
            session.marks[MARK] = uuid4().hex
            session.keep_marks(lambda: None)
        after, window = record.get("after", 0), record.get("window", self._window)
        for name, given in (("after", after), ("window", window)):
            if not isinstance(given, int) or isinstance(given, bool) or given < 0:
                raise InputError("must be a whole number of at least 0", field=name)
        self._window = min(max(window, 1), self._window)
        if record.get(MARK, session.marks[MARK]) == session.marks[MARK]:
            session.acknowledge_through(after)

    # What it is given.

    async def _give(self, session: Session) -> None:
        """Send what the session has, as much as the client can take."""
        try:
            while True:
                free = self._window - self._sent
                if free <= 0:
                    await self._puller.wait()
                    continue
                entries = await self._puller.take(session, min(free, AT_ONCE))
                self._require_known()
                for entry in entries:
                    if isinstance(entry, MailboxItem):
                        self._places.append(entry.place)
                        self._sent += 1
                    await self._say(entry_record(entry))
        except SessionEndedError as error:
            await self._close(GOING_AWAY, str(error))
        except (WebSocketDisconnect, RuntimeError):
            return  # whoever reads finds out

    # What it asks.

    async def _do(self, session: Session, record: Mapping[str, Any], size: int) -> None:
        self._require_known()
        match record.get("type"):
            case "acknowledge":
                self._acknowledge(session, record.get("place"))
            case "publish":
                await wait_for_room(self._service)
                await self._answer(record, self._publish(record, size))
            case "subscribe":
                await self._answer(record, self._subscribe(session, record))
            case "unsubscribe":
                await self._answer(record, self._unsubscribe(session, record))
            case "close":
                session.close("its client has ended it")
            case other:
                raise InputError(f"no message is called {other!r:.60}", field="type")

    def _require_known(self) -> None:
        """SessionEndedError when what somebody logged in with is not good any more."""
        if not self._service.access.known(self._identity):
            raise SessionEndedError(EXPIRED)

    def _acknowledge(self, session: Session, place: object) -> None:
        if not isinstance(place, int) or isinstance(place, bool):
            raise InputError("must be the place of an event", field="place")
        session.acknowledge_through(place)
        left = [each for each in self._places if each > place]
        self._sent -= len(self._places) - len(left)
        self._places = left
        self._puller.wake()

    async def _answer(self, record: Mapping[str, Any], doing: Awaitable[dict[str, Any]]) -> None:
        """Begin what is asked, and answer when it is done; others may be asked meanwhile, so many."""
        await self._room.acquire()
        task = asyncio.ensure_future(self._answered(record.get("request"), doing))
        self._answering.add(task)
        task.add_done_callback(self._done)
        await asyncio.sleep(0)  # so that it has begun before the next message is read

    async def _answered(self, request: object, doing: Awaitable[dict[str, Any]]) -> None:
        try:
            answer = {"type": "done", "request": request} | await doing
        except DistributaryError as error:
            again = isinstance(error, WebError) and error.status == 503
            answer = {"type": "refused", "request": request, "reason": str(error), "again": again}
        except Exception as error:  # A fault of ours: whoever asked does not wait for ever.
            self._service.note(f"a request by WebSocket failed: {type(error).__name__}: {error}")
            reason = "this failed; the server's log has more"
            answer = {"type": "refused", "request": request, "reason": reason, "again": False}
        try:
            await self._say(answer)
        except (WebSocketDisconnect, RuntimeError):
            return

    def _done(self, task: asyncio.Task[None]) -> None:
        self._answering.discard(task)
        self._room.release()

    async def _publish(self, record: Mapping[str, Any], size: int) -> dict[str, Any]:
        given = record.get("events")
        if not isinstance(given, list):
            raise InputError("must be an array of events", field="events")
        if len(given) > self._service.limits.events:
            raise InputError(f"has more than {self._service.limits.events:,} events", field="events")
        events: list[tuple[int, Event]] = []
        rejected: list[RejectedEvent] = []
        for place, each in enumerate(given):
            try:
                if not isinstance(each, dict):
                    raise InputError("an event is a JSON object")
                events.append((place, read_record(each)))
            except InputError as error:
                rejected.append(RejectedEvent(place, str(error)))
        return (await publish(self._service, self._identity, events, rejected, size)).record()

    async def _subscribe(self, session: Session, record: Mapping[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in record.items() if name not in ("type", "request")}
        if rest.get("id") is None:
            rest["id"] = uuid4().hex[:12]
        subscription, _ = await put_subscription(self._service, self._identity, session, rest)
        return {"subscription": subscription_record(session, subscription)}

    async def _unsubscribe(self, session: Session, record: Mapping[str, Any]) -> dict[str, Any]:
        await remove_subscription(self._service, session, str(record.get("id")))
        return {}

    # The connection.

    async def _read(self) -> tuple[dict[str, Any], int]:
        """The next message, and how many bytes it has."""
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", NORMAL))
        text = message.get("text")
        data = message["bytes"] if text is None else text.encode(errors="surrogatepass")
        return read_object(data), len(data)

    async def _say(self, record: Mapping[str, Any]) -> None:
        await self._socket.send_text(to_json(record).decode())

    async def _close(self, code: int, reason: str) -> None:
        """Say why the connection ends, and end it."""
        try:
            await self._say({"type": "end", "reason": reason})
            await self._socket.close(code, reason.encode()[:LONGEST_REASON].decode(errors="ignore"))
        except (WebSocketDisconnect, RuntimeError):
            return  # the other side was quicker
