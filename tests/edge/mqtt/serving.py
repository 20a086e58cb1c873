"""An MQTT server on a real broker and real sockets, in a thread of its own, for clients that block."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from distributary.edge.access import Access
from distributary.edge.broker import LiveEdge
from distributary.edge.mqtt.room import MqttRoom, MqttSettings
from distributary.edge.mqtt.server import MqttServer, ThreadOffload
from distributary.edge.sessions import Sessions
from distributary.live.broker import LiveBroker
from distributary.live.journal import Journal
from distributary.live.runner import LoopClock


@asynccontextmanager
async def served(
    system: str = "tree",
    *,
    data: Path | None = None,
    access: Access | None = None,
    settings: MqttSettings | None = None,
    tls: ssl.SSLContext | None = None,
    name: str = "hall",
    contacts: Any = (),
    port: int = 0,
) -> AsyncIterator[MqttServer]:
    """An MQTT server of a broker. With `data` broker and sessions are kept there."""
    loop = asyncio.get_running_loop()
    clock = LoopClock(loop)
    node_data = None if data is None else data / "node"
    failures: list[Exception] = []
    journal = None if data is None else Journal(data / "edge", failures.append)
    stored = {} if journal is None else await asyncio.to_thread(journal.open)
    offload = ThreadOffload()
    async with LiveBroker("plant", system, name=name, data=node_data, contacts=contacts) as broker:
        edge = LiveEdge(broker)
        access = access or Access.open()
        sessions = Sessions(edge, clock.now, journal, access)
        sessions.restore(stored)
        room = MqttRoom(
            edge,
            sessions,
            access,
            now=clock.now,
            soon=lambda action: loop.call_soon(action),
            offload=offload,
            disk=journal,
            settings=settings,
            peers=broker.links.peers,
            joins=bool(contacts),
        )
        room.start(stored)
        async with MqttServer(room, port=port, tls=tls) as server:
            yield server
    offload.close()
    if journal is not None:
        await journal.close()
    assert not failures


@contextmanager
def serving(**chosen: Any) -> Iterator[MqttServer]:
    """The same for a test that is no coroutine: the server has a thread and a loop of its own."""
    ready: threading.Event = threading.Event()
    found: list[Any] = []

    async def run() -> None:
        try:
            async with served(**chosen) as server:
                stop = asyncio.Event()
                found.append((server, asyncio.get_running_loop(), stop))
                ready.set()
                await stop.wait()
        finally:
            ready.set()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    ready.wait(30)
    server, loop, stop = found[0]
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(30)
        assert not thread.is_alive()
