"""MQTT over WebSocket, by a WebSocket in memory: what waits is sent though the client says nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from distributary.edge.mqtt.codec import write_packet
from distributary.edge.mqtt.packets import (
    VERSION_5,
    ConnectPacket,
    FilterRequest,
    MqttPacket,
    PublishPacket,
    SubscribePacket,
)
from distributary.edge.mqtt.room import MqttPeer
from distributary.edge.web.mqtt_sockets import serve_mqtt
from edge.mqtt.world import World, joined
from live.loops import alone


class MemorySocket:
    """A WebSocket whose client takes what is sent, a message at a time."""

    def __init__(self) -> None:
        self.sent = 0
        """Bytes."""
        self._said: asyncio.Queue[dict[str, Any]] = asyncio.Queue()

    def say(self, packet: MqttPacket) -> None:
        self._said.put_nowait({"type": "websocket.receive", "bytes": write_packet(packet, VERSION_5)})

    def leave(self) -> None:
        self._said.put_nowait({"type": "websocket.disconnect"})

    async def receive(self) -> dict[str, Any]:
        return await self._said.get()

    async def send_bytes(self, data: bytes) -> None:
        await asyncio.sleep(0)
        self.sent += len(data)

    async def close(self, code: int) -> None:
        """Nobody looks at it."""


async def idle(world: World) -> None:
    """Go on until nothing happens any more, in the world and in the loop."""
    quiet = 0
    while quiet < 20:
        quiet = 0 if world.step() else quiet + 1
        await asyncio.sleep(0)


@alone
async def test_a_backlog_over_a_websocket_is_sent_to_a_client_that_says_nothing() -> None:
    world, socket = World(), MemorySocket()
    serving = asyncio.create_task(serve_mqtt(world.room, socket, MqttPeer(loopback=True)))  # type: ignore[arg-type]
    for packet in (ConnectPacket(VERSION_5, "ann"), SubscribePacket(1, (FilterRequest("#", 0),))):
        socket.say(packet)
        await idle(world)
    before, payload, count = socket.sent, b"x" * 2_000, 3_000
    joined(world, "bob").send(*[PublishPacket("a", payload)] * count)
    await idle(world)
    assert socket.sent - before == count * len(write_packet(PublishPacket("a", payload), VERSION_5))
    socket.leave()
    await serving
    assert not world.room.connected("ann")
