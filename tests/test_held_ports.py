"""Ports that tests hold for servers that are killed and started again."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from held_ports import HeldPorts


def test_while_a_server_is_down_no_connection_begins_at_its_port_and_the_server_can_listen_again() -> None:
    held = HeldPorts()
    place = ("127.0.0.1", held.numbers[0])
    with closing(socket.create_server(("127.0.0.1", 0))) as elsewhere:
        for _ in range(2):
            server = socket.create_server(place)  # sets SO_REUSEADDR
            socket.create_connection(place).close()
            server.close()
            with pytest.raises(OSError, match="in use"):
                socket.create_connection(elsewhere.getsockname(), source_address=place)
