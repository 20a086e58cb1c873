"""A broker that is killed again and again, with a publisher and a subscriber that others have written.

Nothing that was acknowledged to the publisher is lost, nothing comes twice at QoS 2, and the order stays.
"""

from __future__ import annotations

import queue
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from held_ports import HeldPorts
from replay import replayed_by

EVENTS, KILLS, PATIENCE = 400, 5, 120


class KilledBroker:
    """`distributary serve` as a process with a directory of its own."""

    def __init__(self, directory: Path) -> None:
        self._held = HeldPorts()
        self.directory, self.port = directory, self._held.numbers[0]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        ready = self.directory / "ready.json"
        ready.unlink(missing_ok=True)
        command = ["serve", "--no-console", "--mqtt", str(self.port), "--web", "0", "--name", "killed"]
        command += ["--data", str(self.directory / "data"), "--ready", str(ready)]
        with (self.directory / "said.txt").open("a") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "distributary", *command], stdout=said, stderr=subprocess.STDOUT
            )
        while not ready.exists():
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(0.05)
            assert self.process.poll() is None, (self.directory / "said.txt").read_text()

    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@contextmanager
def running(directory: Path) -> Iterator[KilledBroker]:
    broker = KilledBroker(directory)
    broker.start()
    try:
        yield broker
    finally:
        broker.kill()


class Peer:
    """A client of paho-mqtt that connects again when it is told to, and says when it has.

    With every attempt to connect, paho takes a message of QoS 2 one step back until the broker has answered,
    and so forgets that it was received, and sends it anew at last. By itself it would try more than once; and
    a broker that is killed before it has answered is one attempt more.
    """

    def __init__(self, port: int, name: str) -> None:
        self.came: queue.Queue[str] = queue.Queue()
        self.answers: queue.Queue[int] = queue.Queue()
        self.client = paho.Client(
            CallbackAPIVersion.VERSION2, name, clean_session=False, reconnect_on_failure=False
        )
        self.client.on_message = lambda client, data, message: self.came.put(message.payload.decode())
        self.client.on_subscribe = lambda client, data, number, codes, more: self.answers.put(codes[0].value)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def come_back(self) -> None:
        """Connect again, once, and wait until paho has sent again what it must."""
        self.client.loop_stop()
        self.client.reconnect()
        self.client.loop_start()
        self.client.subscribe("nothing")  # answered after CONNACK, with which paho sends again
        self.answers.get(timeout=PATIENCE)

    def leave(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


@pytest.mark.chaos
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # paho leaves sockets open
@pytest.mark.parametrize("seed", range(3))
def test_kills_lose_nothing_and_give_nothing_twice(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    with replayed_by(f"pytest -m chaos tests/edge/test_killed.py -k '{seed}'"), running(tmp_path) as broker:
        subscriber = Peer(broker.port, "subscriber")
        subscriber.client.subscribe("readings/#", qos=2)
        assert subscriber.answers.get(timeout=PATIENCE) == 2
        publisher = Peer(broker.port, "publisher")
        sent = [publisher.client.publish("readings/1", f"r{number}", qos=2) for number in range(EVENTS)]
        kills, came = sorted(random.sample(range(1, EVENTS - 20), KILLS)), list[str]()
        while len(came) < EVENTS:
            came.append(subscriber.came.get(timeout=PATIENCE))
            if kills and len(came) >= kills[0]:
                kills.pop(0)
                broker.kill()
                broker.start()
                publisher.come_back()
                subscriber.come_back()
        for each in sent:
            each.wait_for_publish(PATIENCE)
            assert each.is_published()
        publisher.leave()
        subscriber.leave()
        assert came == [f"r{number}" for number in range(EVENTS)]
        assert subscriber.came.empty()
