"""MQTT over TCP and TLS: an asyncio server around `MqttRoom`.

    async with MqttServer(room, "127.0.0.1", 1883) as server:
        ...

Beyond loopback TLS and an access file are required; without them it does not start.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from ipaddress import ip_address
from typing import Any, cast

from distributary.edge.access.certificates import certificate_user
from distributary.edge.mqtt.connection import MqttConnection
from distributary.edge.mqtt.room import MqttPeer, MqttRoom
from distributary.errors import DistributaryError, SettingError
from distributary.live.greeting import Endpoint, reason_of

MOST_READ = 256 << 10
"""Bytes that are read at a time."""
TICK = 1.0
"""Seconds between two looks at the clock."""
CLOSING = 5.0
"""Seconds that the other side may take to read what it is told at the end."""
ENDING_PAUSE = 0.005
"""Seconds between two looks whether everybody is gone."""
COPYING, COPYING_PAUSE = 5.0, 0.02
"""Seconds that a server waits for what others retain before it listens, and between two looks."""


class MqttProtocol(asyncio.Protocol):
    """A TCP or TLS connection, as a line of the room."""

    def __init__(self, room: MqttRoom, there: set[MqttProtocol]) -> None:
        """While there is a connection it is in `there`."""
        self._room, self._there = room, there
        self._transport: asyncio.Transport | None = None
        self._connection: MqttConnection | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The connection is there, its TLS handshake done."""
        self._there.add(self)
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by its class
        self._connection = self._room.connect(self, _peer_of(self._transport))

    def data_received(self, data: bytes) -> None:
        """Bytes have come."""
        assert self._connection is not None
        try:
            self._connection.receive(data)
        except Exception as error:  # A fault of ours ends this connection, not the server.
            self._room.notice(f"could not bear what an MQTT client sent: {type(error).__name__}: {error}")
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended."""
        self._there.discard(self)
        if self._connection is not None:
            self._connection.lost()

    def resume_writing(self) -> None:
        """Most of what was written has been sent."""
        if self._connection is not None:
            self._connection.drained()

    # As the line of a connection.

    def write(self, data: bytes) -> None:
        """Have bytes sent."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        """End the connection when what was written has been sent, or at once if that takes too long."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()
            asyncio.get_running_loop().call_later(CLOSING, self._transport.abort)

    def abort(self) -> None:
        """End the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Read nothing for now."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    @property
    def buffered(self) -> int:
        """How many bytes wait to be sent."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0


def _peer_of(transport: asyncio.Transport) -> MqttPeer:
    address = transport.get_extra_info("peername")
    loopback = isinstance(address, tuple) and ip_address(address[0].partition("%")[0]).is_loopback
    return MqttPeer(loopback, certificate_user(transport))


class MqttServer:
    """Listens for MQTT clients."""

    def __init__(
        self, room: MqttRoom, host: str = "127.0.0.1", port: int = 1883, tls: ssl.SSLContext | None = None
    ) -> None:
        self.room, self.host, self.port, self._tls = room, host, port, tls
        self._server: asyncio.Server | None = None
        self._ticking: asyncio.TimerHandle | None = None
        self._there: set[MqttProtocol] = set()

    async def start(self) -> int:
        """Listen; gives the port. DistributaryError when that is not safe or not possible."""
        if not _is_loopback(self.host) and (self._tls is None or not self.room.access.configured):
            raise SettingError(
                f"MQTT on {self.host} is beyond loopback: that needs TLS and an access file"
                " (who may log in, and what they may do)"
            )
        await self._copy_retained()
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                lambda: MqttProtocol(self.room, self._there), self.host, self.port, ssl=self._tls
            )
        except OSError as error:
            where = Endpoint(self.host, self.port)
            raise DistributaryError(f"cannot listen on {where}: {reason_of(error)}") from error
        self.port = self._server.sockets[0].getsockname()[1]
        self._tick()
        return self.port

    async def _copy_retained(self) -> None:
        """Give a broker that has just joined some time to be given what others retain: clients ask for it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(COPYING):
                while not self.room.retained.whole:
                    await asyncio.sleep(COPYING_PAUSE)
                    self.room.retained.tick()

    def _tick(self) -> None:
        self._ticking = asyncio.get_running_loop().call_later(TICK, self._tick)
        self.room.tick()

    async def stop(self) -> None:
        """Let everybody go, and listen no longer. Who does not read why in time is let go at once."""
        if self._ticking is not None:
            self._ticking.cancel()
        if self._server is not None:
            self._server.close()
            self.room.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSING):
                    while self._there:
                        await asyncio.sleep(ENDING_PAUSE)
            for each in list(self._there):
                each.abort()
            await asyncio.sleep(0)

    async def __aenter__(self) -> MqttServer:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.stop()


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


class ThreadOffload:
    """An `Offload` that works in threads and answers in the loop: for log-ins, which are slow on purpose."""

    def __init__(self, threads: int = 2) -> None:
        self._pool = ThreadPoolExecutor(threads, "log-in")

    def __call__(self, work: Callable[[], Any], then: Callable[[Any], None]) -> None:
        """Do something in a thread."""

        def told(future: asyncio.Future[Any]) -> None:
            if not future.cancelled():
                then(future.exception() or future.result())

        asyncio.get_running_loop().run_in_executor(self._pool, work).add_done_callback(told)

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(wait=False, cancel_futures=True)
