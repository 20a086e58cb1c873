"""Starts brokers on loopback, one or a tree of three, and reads how much processor time they have used."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryDirectory

PROGRAMS = Path("build/peers/programs")
NATS_SERVER = "github.com/nats-io/nats-server/v2@v2.10.22"
PATIENCE = 60.0


class MissingError(Exception):
    """A broker is not installed here; the text says why."""


@dataclass(frozen=True)
class Running:
    """Brokers that are up: where publishers and subscribers connect, and their processes."""

    publish: int
    subscribe: int
    processes: tuple[int, ...]

    def seconds(self) -> float:
        """Processor time that all of them have used."""
        return sum(map(processor_seconds, self.processes))


def processor_seconds(process: int) -> float:
    """Processor time of all threads of a process, as `/proc/PID/stat` has it in ticks.

    >>> processor_seconds(os.getpid()) > 0
    True
    """
    return time.clock_gettime(~process << 3 | 2)  # as clock_getcpuclockid(3) makes it on Linux


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def started(stack: ExitStack, command: Sequence[str], folder: Path) -> int:
    """Start a program, and have it stopped when the stack is left; returns its process."""
    log = stack.enter_context((folder / "output.log").open("ab"))
    process = subprocess.Popen(command, stdout=log, stderr=log)

    def stop() -> None:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    stack.callback(stop)
    return process.pid


# mosquitto.


@contextmanager
def mosquitto(count: int) -> Iterator[Running]:
    """One, or three of which the two outer ones are bridged to the one in the middle."""
    command = shutil.which("mosquitto") or shutil.which("mosquitto", path="/usr/sbin")
    if command is None:
        raise MissingError("mosquitto is not installed")
    with TemporaryDirectory() as name, ExitStack() as stack:
        ports = [free_port() for _ in range(count)]
        processes = []
        for place, port in enumerate(ports):
            config = Path(name) / f"{place}.conf"
            config.write_text(mosquitto_config(place, port, ports[0]))
            processes.append(started(stack, [command, "-c", str(config)], Path(name)))
        if count > 1:
            time.sleep(2.0)  # bridges tell nobody when they are up
        yield Running(ports[1 if count > 1 else 0], ports[-1], tuple(processes))


def mosquitto_config(place: int, port: int, middle: int) -> str:
    """The settings of a broker: nothing is dropped, kept or limited."""
    lines = [
        f"listener {port} 127.0.0.1",
        "allow_anonymous true",
        "max_inflight_messages 0",
        "max_queued_messages 0",
        "persistence false",
        "log_type error",
        "set_tcp_nodelay true",
    ]
    if place:
        direction = "out" if place == 1 else "in"
        lines += [
            f"connection outer-{place}",
            f"address 127.0.0.1:{middle}",
            f"topic bench/# {direction} 1",
            "notifications false",
            "restart_timeout 1",
        ]
    return "\n".join(lines) + "\n"


# NATS.


@contextmanager
def nats(count: int) -> Iterator[Running]:
    """One server, or three with routes to each other."""
    command = nats_server()
    with TemporaryDirectory() as name, ExitStack() as stack:
        ports, routes = [[free_port() for _ in range(count)] for _ in range(2)]
        processes = []
        for port, route in zip(ports, routes, strict=True):
            arguments = [str(command), "-a", "127.0.0.1", "-p", str(port)]
            if count > 1:
                known = ",".join(f"nats://127.0.0.1:{other}" for other in routes if other != route)
                arguments += [
                    "-cluster_name",
                    "bench",
                    "-cluster",
                    f"nats://127.0.0.1:{route}",
                    "-routes",
                    known,
                ]
            processes.append(started(stack, arguments, Path(name)))
        if count > 1:
            time.sleep(2.0)
        yield Running(ports[1 if count > 1 else 0], ports[-1], tuple(processes))


def nats_server() -> Path:
    """The server, built from the Go module proxy where it is not there yet."""
    found = shutil.which("nats-server")
    if found is not None:
        return Path(found)
    place = PROGRAMS.absolute() / "nats-server"
    if not place.exists():
        if shutil.which("go") is None:
            raise MissingError("nats-server is not installed, and there is no Go to build it")
        built = subprocess.run(
            ["go", "install", NATS_SERVER],
            env={**os.environ, "GOBIN": str(place.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode:
            raise MissingError(f"nats-server cannot be built: {built.stderr.strip().splitlines()[-1]}")
    return place


# Ours.


@contextmanager
def ours(count: int, *, disk: bool = False) -> Iterator[Running]:
    """One node of a tree, or three: the root, and its two children with the clients."""
    with TemporaryDirectory() as name, ExitStack() as stack:
        ports, statuses = [[free_port() for _ in range(count)] for _ in range(2)]
        processes = []
        for place, (port, status) in enumerate(zip(ports, statuses, strict=True)):
            config = Path(name) / f"node-{place}.toml"
            config.write_text(node_config(place, port, status, ports[0], disk=disk))
            processes.append(
                started(stack, [sys.executable, "-m", "distributary.cli", "node", str(config)], Path(name))
            )
            wait_until_joined(status, Path(name))
        yield Running(ports[1 if count > 1 else 0], ports[-1], tuple(processes))


@contextmanager
def ours_by_mqtt(count: int, *, disk: bool = False) -> Iterator[Running]:
    """One node that serves MQTT, as `distributary serve` starts it."""
    assert count == 1
    with TemporaryDirectory() as name, ExitStack() as stack:
        port = free_port()
        command = [sys.executable, "-m", "distributary.cli", "serve", "--mqtt", str(port), "--web", "0"]
        command += ["--data", str(Path(name) / "data")] if disk else []
        process = started(stack, [*command, "--no-console"], Path(name))
        yield Running(port, port, (process,))


def node_config(place: int, port: int, status: int, root: int, *, disk: bool) -> str:
    """The file of a node; all but the first join it."""
    lines = [
        'network = "bench"',
        f'name = "node-{place}"',
        'system = "tree"',
        f'listen = "127.0.0.1:{port}"',
        f'status = "127.0.0.1:{status}"',
        "nodes = 3",
    ]
    if place:
        lines.append(f'contacts = ["127.0.0.1:{root}"]')
    if disk:
        lines.append(f'data = "node-{place}.data"')
    return "\n".join(lines) + "\n"


def wait_until_joined(status: int, folder: Path) -> None:
    """Wait for a node to have its place."""
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        connection = HTTPConnection("127.0.0.1", status, timeout=5)
        try:
            connection.request("GET", "/health")
            if json.loads(connection.getresponse().read())["joined"]:
                return
        except (OSError, HTTPException, ValueError):
            pass
        finally:
            connection.close()
        time.sleep(0.05)
    raise MissingError("a node did not join: " + (folder / "output.log").read_text()[-500:])
