"""MQTT over WebSocket: the bytes of binary messages, whatever their cut, are those of one MQTT connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

from starlette.websockets import WebSocket, WebSocketDisconnect

from distributary.edge.mqtt.room import MqttPeer, MqttRoom

SUBPROTOCOL = "mqtt"
UNSUPPORTED = 1003
"""The code a WebSocket is closed with that brings a text."""
TOLD = 1 << 16
"""Bytes from which on it is told that they have been sent, as TCP tells it: somebody may wait for that."""


class SocketLine:
    """A WebSocket, as the line of an MQTT connection."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self._unsent: list[bytes] = []
        self._woken, self._readable = asyncio.Event(), asyncio.Event()
        self._readable.set()
        self.closing = False
        """Whether the connection ends when what was written is sent."""
        self._sending = 0

    def write(self, data: bytes) -> None:
        """Have bytes sent."""
        if not self.closing:
            self._unsent.append(data)
            self._woken.set()

    def close(self) -> None:
        """End the connection when what was written has been sent."""
        self.closing = True
        self._woken.set()
        self._readable.set()

    abort = close

    def pause(self) -> None:
        """Read nothing for now."""
        self._readable.clear()

    def resume(self) -> None:
        """Read again."""
        self._readable.set()

    @property
    def buffered(self) -> int:
        """How many bytes wait to be sent."""
        return self._sending + sum(map(len, self._unsent))

    async def readable(self) -> None:
        """Wait until the connection may be read from."""
        await self._readable.wait()

    async def send_all(self, drained: Callable[[], None]) -> None:
        """Send what is written, from now to the end; returns once, when the connection is to end.

        Calls `drained` when much has been sent, as more may have waited for that.
        """
        while True:
            await self._woken.wait()
            self._woken.clear()
            data, self._unsent = b"".join(self._unsent), []
            if data:
                self._sending = len(data)
                await self._socket.send_bytes(data)
                self._sending = 0
            if self.closing and not self._unsent:
                return
            if len(data) >= TOLD:
                drained()


async def serve_mqtt(room: MqttRoom, socket: WebSocket, peer: MqttPeer) -> None:
    """Serve one connection to its end."""
    line = SocketLine(socket)
    connection = room.connect(line, peer)
    code = 1000

    async def send() -> None:
        with suppress(WebSocketDisconnect, RuntimeError):  # the other side was quicker
            await line.send_all(connection.drained)

    sending = asyncio.create_task(send())
    sending.add_done_callback(lambda task: line.resume())
    reading: asyncio.Task[object] | None = None
    try:
        while not line.closing:
            await line.readable()
            reading = asyncio.ensure_future(socket.receive())
            await asyncio.wait({reading, sending}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                break
            message = reading.result()
            assert isinstance(message, dict)
            if message["type"] == "websocket.disconnect":
                break
            if message.get("bytes") is None:
                code = UNSUPPORTED
                break
            connection.receive(message["bytes"])
    finally:
        connection.lost()
        line.close()
        await asyncio.wait({sending}, timeout=1)
        for task in (sending, reading):
            if task is not None:
                task.cancel()
        with suppress(WebSocketDisconnect, RuntimeError):
            await socket.close(code)
