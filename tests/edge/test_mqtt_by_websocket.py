"""paho-mqtt over WebSocket at the real `distributary serve`: log-in by password, and grants."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from distributary.edge.access.passwords import hash_password
from edge.test_serve import PATIENCE, Served, served

RULES = """
[users.ann]
password = "{hashed}"
subscribe = [{{topic = "mqtt:plants/#", where = "tenant = 'acme'"}}]

[users.bob]
password = "{hashed}"
publish = [{{topic = "mqtt:plants/#"}}]
"""
PASSWORD = "a long password"


class Connected:
    """A client of paho-mqtt over WebSocket, and what it was told."""

    def __init__(self, endpoint: str, user: str, version: Any, password: str = PASSWORD) -> None:
        self.told: queue.Queue[Any] = queue.Queue()
        self.messages: queue.Queue[paho.MQTTMessage] = queue.Queue()
        self.client = client = paho.Client(
            CallbackAPIVersion.VERSION2, f"{user}-phone", protocol=version, transport="websockets"
        )
        client.ws_set_options(path="/mqtt")
        client.username_pw_set(user, password)
        client.on_connect = lambda client, data, flags, code, more: self.told.put(code)
        client.on_subscribe = lambda client, data, number, codes, more: self.told.put(codes)
        client.on_publish = lambda client, data, number, code, more: self.told.put(code)
        client.on_message = lambda client, data, message: self.messages.put(message)
        host, _, port = endpoint.rpartition(":")
        client.connect(host, int(port))
        client.loop_start()
        self.refused: bool = self.told.get(timeout=PATIENCE).is_failure

    def asked(self) -> Any:
        return self.told.get(timeout=PATIENCE)

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()
        self.client._reset_sockets()  # it leaves some open when it was refused


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    directory = tmp_path_factory.mktemp("served")
    rules = directory / "access.toml"
    rules.write_text(RULES.format(hashed=hash_password(PASSWORD.encode())))
    with served(directory, "--access", str(rules)) as process:
        yield process


@pytest.mark.parametrize("version", [MQTTProtocolVersion.MQTTv311, MQTTProtocolVersion.MQTTv5])
def test_paho_logs_in_by_websocket_and_is_given_what_its_grants_let_pass(
    server: Served, version: Any
) -> None:
    wrong = Connected(server.where["web"], "ann", version, "another password")
    assert wrong.refused
    wrong.leave()
    ann, bob = (Connected(server.where["web"], user, version) for user in ("ann", "bob"))
    assert not ann.refused
    assert not bob.refused
    ann.client.subscribe([("#", 1), ("other/#", 1)])
    first, second = ann.asked()
    assert (first.value, second.is_failure) == (1, True)
    for number, tenant in enumerate(("acme", "other", "acme")):
        payload = f'{{"tenant": "{tenant}", "n": {number}, "text": "{"x" * 100_000}"}}'
        bob.client.publish("plants/oven", payload, 1)
        assert not bob.asked().is_failure
    given = [json.loads(ann.messages.get(timeout=PATIENCE).payload) for _ in range(2)]
    assert [each["n"] for each in given] == [0, 2]
    assert ann.messages.empty()
    ann.leave()
    bob.leave()
