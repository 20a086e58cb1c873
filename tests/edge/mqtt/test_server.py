"""A server on real sockets: when it ends nobody is left."""

from __future__ import annotations

import gc
import socket

import pytest

from distributary.edge.mqtt import server
from distributary.edge.mqtt.codec import write_packet
from distributary.edge.mqtt.packets import (
    VERSION_5,
    ConnectPacket,
    FilterRequest,
    MqttPacket,
    PublishPacket,
    SubscribePacket,
)
from edge.mqtt.serving import serving


def test_who_does_not_read_is_let_go_when_the_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "CLOSING", 0.05)
    with socket.socket() as client:
        with serving() as mqtt:
            client.connect(("127.0.0.1", mqtt.port))
            packets: list[MqttPacket] = [
                ConnectPacket(VERSION_5, "ann", True),
                SubscribePacket(1, (FilterRequest("a", 0),)),
                *[PublishPacket("a", b"x" * 60_000)] * 200,
                SubscribePacket(2, (FilterRequest("b", 0),)),
            ]
            client.sendall(b"".join(write_packet(each, VERSION_5) for each in packets))
            while not [each for each in mqtt._there if each.buffered]:
                pass
        assert not mqtt._there
    gc.collect()  # a connection that is still open would be told as a warning
