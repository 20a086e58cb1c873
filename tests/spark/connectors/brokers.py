"""Brokers for the tests of the connectors: ours, and mosquitto where it is installed."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest

from edge.mqtt.serving import serving

PATIENCE = 300
BROKERS = ("ours", "mosquitto")


@contextmanager
def broker(kind: str, place: Path) -> Iterator[int]:
    """A broker that is up; its port."""
    if kind == "ours":
        with serving() as server:
            yield server.port
        return
    if shutil.which("mosquitto") is None:
        pytest.skip("mosquitto is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    settings = place / "mosquitto.conf"
    settings.write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\nmax_queued_messages 0\n")
    process = subprocess.Popen(
        ["mosquitto", "-v", "-c", str(settings)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if "running" in line:
                break
        process.stderr.close()
        yield port
    finally:
        process.terminate()
        process.wait(PATIENCE)


def publish(port: int, topic: str, payloads: Sequence[bytes], **more: Any) -> None:
    """Publish messages at QoS 1; returns when all are acknowledged."""
    client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
    client.connect("127.0.0.1", port)
    client.loop_start()
    for sent in [client.publish(topic, payload, 1, **more) for payload in payloads]:
        sent.wait_for_publish(PATIENCE)
        assert sent.is_published()
    client.disconnect()
    client.loop_stop()


class ServedBroker:
    """`distributary serve` as a process that keeps its data, and can be killed and started again."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._places: dict[str, int | str] = {"mqtt": 0, "web": 0, "listen": "127.0.0.1:0"}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        ready = self._directory / "ready.json"
        ready.unlink(missing_ok=True)
        command = ["serve", "--no-console", "--name", "served", "--ready", str(ready)]
        command += ["--data", str(self._directory / "data")]
        for name, place in self._places.items():
            command += [f"--{name}", str(place)]
        with (self._directory / "said.txt").open("a") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "distributary", *command], stdout=said, stderr=subprocess.STDOUT
            )
        while not ready.exists():
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(0.05)
            assert self._process.poll() is None, (self._directory / "said.txt").read_text()
        found = json.loads(ready.read_text())
        ports = {name: int(found[name].rpartition(":")[2]) for name in ("mqtt", "web")}
        self._places = {**ports, "listen": found["client"]}

    @property
    def mqtt(self) -> int:
        """The port for MQTT."""
        return int(self._places["mqtt"])

    @property
    def web(self) -> str:
        """The address for WebSockets."""
        return f"ws://127.0.0.1:{self._places['web']}"

    @property
    def node(self) -> str:
        """The endpoint for clients of the network."""
        return str(self._places["listen"])

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def _end(self, by: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(by)
        self._process.wait(PATIENCE)


@contextmanager
def served_broker(directory: Path) -> Iterator[ServedBroker]:
    """A broker that is up, as a process."""
    served = ServedBroker(directory)
    served.start()
    try:
        yield served
    finally:
        served.stop()
