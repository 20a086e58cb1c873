"""Thousands of MQTT clients of one broker at rest: what each costs in memory and processor time.

Every client has a subscription of its own and says every minute that it is there. Before a number is given,
all of these were answered, and a message to each client's topic has reached that client and nobody else.
"""

from __future__ import annotations

import re
import resource
import selectors
import socket
import sys
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.edge.clients import mqtt_client, publish_packet, subscribe_packet
from bench.edge.traffic import BROKERS, DISK
from bench.network import brokers
from bench.network.load import LostError
from bench.network.protocols import received
from bench.report import Result

NAME = "crowd"
CLIENTS, QUICK = 5_000, 200
KEEP_ALIVE = 60
"""Seconds between two signs of life of a client."""
PINGREQ, PINGRESP = b"\xc0\x00", b"\xd0\x00"
CHECKED = "every sign of life is answered, and a message to each client reaches that one alone"


def measured(names: Collection[str], quick: bool) -> Iterator[Result]:
    """Each broker with its clients."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    for name in names:
        if name == DISK:
            continue
        try:
            yield from _one(name, QUICK if quick else CLIENTS, 3 if quick else 20)
        except brokers.MissingError as missing:
            print(f"  {BROKERS[name].shown} is skipped: {missing}", file=sys.stderr)


def _one(name: str, count: int, seconds: int) -> Iterator[Result]:
    engine = BROKERS[name]
    with engine.start(1) as running, ExitStack() as stack:
        (process,) = running.processes
        publisher = stack.enter_context(mqtt_client(running.publish, "publisher"))
        before, used = resident_bytes(process), running.seconds()
        clients = []
        for number in range(count):
            client = stack.enter_context(mqtt_client(running.subscribe, f"device-{number}", KEEP_ALIVE * 3))
            client.sendall(subscribe_packet(f"devices/{number}", 1))
            if received(client, 5)[4] != 1:
                raise ConnectionError("the broker refuses a subscription")
            clients.append(client)
        connecting = running.seconds() - used
        memory = (resident_bytes(process) - before) / count
        used = running.seconds()
        _keep_alive(clients, seconds)
        at_rest = (running.seconds() - used) / seconds
        _one_message_each(publisher, clients)
    given = partial(Result, f"{NAME}-{count}-clients", engine.shown, checked=CHECKED)
    yield given("memory a client", memory / 1000, "KB")
    yield given("processor time to connect and subscribe, a client", connecting / count * 1e6, "µs")
    yield given("processor time a second, all at rest", at_rest * 1e3, "ms")


def resident_bytes(process: int) -> int:
    """How much memory a process has now."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


def _keep_alive(clients: list[socket.socket], seconds: int) -> None:
    """Have so many clients say that they are there as do so in that time, and wait for the answers."""
    began = time.monotonic()
    said = [client for place, client in enumerate(clients) if place % KEEP_ALIVE < seconds]
    for place, client in enumerate(said):
        due = began + seconds * place / len(said)
        time.sleep(max(0.0, due - time.monotonic()))
        client.sendall(PINGREQ)
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    for client in said:
        if received(client, 2) != PINGRESP:
            raise LostError("a sign of life was not answered")


def _one_message_each(publisher: socket.socket, clients: list[socket.socket]) -> None:
    for number in range(len(clients)):
        publisher.sendall(publish_packet(f"devices/{number}", b"for %d" % number))
    with selectors.DefaultSelector() as selector:
        for number, client in enumerate(clients):
            expected = publish_packet(f"devices/{number}", b"for %d" % number)
            if received(client, len(expected)) != expected:
                raise LostError(f"client {number} was given another message")
            client.setblocking(False)
            selector.register(client, selectors.EVENT_READ)
        if selector.select(0.5):
            raise LostError("a client was given more than its message")
