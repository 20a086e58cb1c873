"""A broker with the web in front of it, on loopback, for tests: real sockets, no real disk unless asked."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import h11
import websockets

from distributary.edge.access import Access
from distributary.edge.broker import LiveEdge
from distributary.edge.sessions import Sessions
from distributary.edge.web.server import WebServer
from distributary.edge.web.service import WebService
from distributary.live.broker import LiveBroker
from live.loops import until


class ServedWeb(NamedTuple):
    """What a test talks to."""

    broker: LiveBroker
    service: WebService
    port: int

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Reply:
        """Send a request by a connection of its own, and read the whole answer."""
        data = body if isinstance(body, bytes) else b"" if body is None else json_bytes(body)
        if body is not None and not isinstance(body, bytes):
            headers.setdefault("content_type", "application/json")
        async with self.line() as line:
            await line.send(method, path, data, **headers)
            return await line.reply()

    async def subscribed(self, client: str = "ann", id: str = "s1", **filters: Any) -> None:
        """Have a session with a subscription, made by requests."""
        assert (await self.ask("PUT", f"/sessions/{client}", {})).status in (200, 201)
        path = f"/sessions/{client}/subscriptions/{id}"
        assert (await self.ask("PUT", path, filters)).status in (200, 201)

    async def until_kept(self, client: str, count: int) -> None:
        """Wait until so many events are in a mailbox."""
        session = self.service.sessions.get(client)
        assert session is not None
        await until(lambda: len(session.mailbox) >= count)

    @asynccontextmanager
    async def line(self) -> AsyncIterator[Line]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            yield Line(reader, writer, self.address)
        finally:
            writer.close()


def json_bytes(record: Any) -> bytes:
    return json.dumps(record).encode()


class Reply(NamedTuple):
    """A whole answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Line:
    """One connection of HTTP."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str) -> None:
        self.reader, self.writer, self.address = reader, writer, address
        self.http = h11.Connection(h11.CLIENT)

    async def send(self, method: str, path: str, data: bytes = b"", **headers: str) -> None:
        named = {"host": self.address, "content-length": str(len(data))}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        request = h11.Request(method=method, target=path, headers=list(named.items()))
        for event in (request, h11.Data(data=data), h11.EndOfMessage()):
            self.writer.write(self.http.send(event) or b"")
        await self.writer.drain()

    async def event(self) -> Any:
        while (event := self.http.next_event()) is h11.NEED_DATA:
            self.http.receive_data(await self.reader.read(1 << 16))
        return event

    async def head(self) -> Reply:
        answer = await self.event()
        headers = {name.decode(): value.decode() for name, value in answer.headers}
        return Reply(answer.status_code, headers, b"")

    async def reply(self) -> Reply:
        head = await self.head()
        parts = []
        while isinstance(event := await self.event(), h11.Data):
            parts.append(bytes(event.data))
        return head._replace(body=b"".join(parts))

    async def server_sent(self) -> AsyncIterator[dict[str, str]]:
        """The server-sent events of a stream, each by its fields."""
        await self.head()
        text = ""
        while isinstance(event := await self.event(), h11.Data):
            text += bytes(event.data).decode()
            *whole, text = text.split("\n\n")
            for each in whole:
                if not each.startswith(":"):
                    yield dict(line.split(": ", 1) for line in each.split("\n"))


@asynccontextmanager
async def socket_to(web: ServedWeb, **options: Any) -> AsyncIterator[Socket]:
    """A WebSocket to the server."""
    async with websockets.connect(f"ws://{web.address}/ws", **options) as line:
        yield Socket(line)


class Socket:
    """One WebSocket: says and hears records, each kind in a queue of its own order."""

    def __init__(self, line: websockets.ClientConnection) -> None:
        self.line = line

    async def say(self, kind: str, **record: Any) -> None:
        await self.line.send(json.dumps({"type": kind, **record}))

    async def hear(self, *kinds: str) -> Any:
        """The next record, of one of these kinds if any are named; others are passed over."""
        while True:
            record = json.loads(await self.line.recv())
            if not kinds or record["type"] in kinds:
                return record


@asynccontextmanager
async def served_web(access: Access | None = None, **options: Any) -> AsyncIterator[ServedWeb]:
    """A broker of its own network with the web before it."""
    async with LiveBroker("distributary", "tree", name="serve") as broker:
        edge = LiveEdge(broker)
        access = access or Access.open()
        service = WebService(edge, Sessions(edge, time.time, None, access), access, **options)
        server = WebServer(service)
        place = await server.start()
        try:
            yield ServedWeb(broker, service, place.port)
        finally:
            await server.stop()
