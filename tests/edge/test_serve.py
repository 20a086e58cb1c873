"""`distributary serve` as a process: started, killed, joined, stopped; and what it says when it cannot."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from distributary.client import connect_plain
from distributary.errors import UsageError
from distributary.model import Event
from live.loops import alone

PATIENCE = 60.0


class Served:
    """A process."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.ready = directory / f"ready-{len(list(directory.iterdir()))}.json"
        self.log = self.ready.with_suffix(".log")
        command = [sys.executable, "-m", "distributary.cli", "serve", "--no-console", *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen([*command, "--ready", str(self.ready)], stderr=log, stdout=log)
        end = time.monotonic() + PATIENCE
        while not self.ready.exists():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < end, self.log.read_text()
            time.sleep(0.02)
        self.where: dict[str, Any] = json.loads(self.ready.read_text())

    def ask(self, method: str, path: str, body: Any = None, at: str = "web") -> tuple[int, Any]:
        connection = HTTPConnection(self.where[at], timeout=PATIENCE)
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body) if body is not None else None, headers)
        reply = connection.getresponse()
        data = reply.read()
        connection.close()
        return reply.status, json.loads(data) if data else None

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


@contextmanager
def served(directory: Path, *options: str) -> Iterator[Served]:
    process = Served(directory, "--mqtt", "0", "--web", "0", *options)
    try:
        yield process
    finally:
        if process.process.poll() is None:
            process.process.kill()
            process.process.wait()


def run(*options: str) -> tuple[int, str]:
    command = [sys.executable, "-m", "distributary.cli", "serve", "--no-console", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return done.returncode, done.stderr


def test_what_a_session_was_given_is_there_after_a_kill(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with served(tmp_path, "--data", data, "--status", "0") as first:
        assert first.ask("PUT", "/sessions/ann", {})[0] == 201
        assert first.ask("PUT", "/sessions/ann/subscriptions/s1", {"topic": "a"})[0] == 201
        assert first.ask("POST", "/events", [{"id": f"e{n}", "topic": "a"} for n in range(3)])[0] == 200
        status, told = first.ask("GET", "/health", at="status")
        assert (status, told["joined"], told["sessions"], told["mailbox_entries"]) == (200, True, 1, 3)
        with urlopen(f"http://{first.where['status']}/metrics", timeout=PATIENCE) as answer:
            assert b"\ndistributary_mailbox_entries 3\n" in answer.read()
        os.kill(first.process.pid, signal.SIGKILL)
        first.process.wait()
    with served(tmp_path, "--data", data) as second:
        assert second.where["name"] == first.where["name"]
        assert second.ask("POST", "/events", {"id": "e3", "topic": "a"})[0] == 200
        with connect_plain(f"ws://{second.where['web']}", name="ann") as client:  # noqa: SIM117
            with client.subscribed(id="s1", topic="a") as events:
                assert [next(events).id for _ in range(4)] == ["e0", "e1", "e2", "e3"]
        assert second.stop() == 0
    refused, said = run("--mqtt", "0", "--web", "0", "--data", data, "--name", "other")
    name = first.where["name"]
    assert refused == 1
    assert f"holds what the node {name!r} keeps, and this one is called 'other': start it as {name!r}" in said


def test_a_client_goes_on_through_a_kill_of_the_broker_without_loss_or_doubles(tmp_path: Path) -> None:
    options = ["--data", str(tmp_path / "data")]
    with served(tmp_path, *options) as first:
        address = f"ws://{first.where['web']}"
        with connect_plain(address) as seller, connect_plain(address, name="ann") as buyer:  # noqa: SIM117
            with buyer.subscribed(id="s1", topic="a") as events:
                seller.publish(*(Event(f"e{number}", "a") for number in range(50)))
                got = [next(events).id for _ in range(20)]
                os.kill(first.process.pid, signal.SIGKILL)
                first.process.wait()
                port = first.where["web"].rpartition(":")[2]
                with served(tmp_path, *options, "--web", port) as second:
                    seller.publish(*(Event(f"e{number}", "a") for number in range(50, 100)))
                    got += [next(events).id for _ in range(80)]
                    assert second.stop() == 0
                assert got == [f"e{number}" for number in range(100)]
                assert buyer.client.gaps == 0


def test_one_joins_the_network_of_another_and_passes_events_on(tmp_path: Path) -> None:
    with served(tmp_path) as first, served(tmp_path, "--join", first.where["client"]) as second:
        addresses = [f"ws://{each.where['web']}" for each in (first, second)]
        with connect_plain(addresses[0]) as seller, connect_plain(addresses[1]) as buyer:  # noqa: SIM117
            with buyer.subscribed(topic="a") as events:
                seller.publish(Event("e1", "a/b"))
                assert next(events).id == "e1"
        assert second.stop() == 0
        assert first.stop() == 0


def test_a_demonstration_publishes_events_and_what_to_type_is_told(tmp_path: Path) -> None:
    with served(tmp_path, "--demo") as demo:
        with connect_plain(f"ws://{demo.where['web']}") as client:
            assert next(client.subscribe(topic="sensors")).topic.startswith("sensors/")  # type: ignore[union-attr]
        told = demo.log.read_text()
        port = demo.where["mqtt"].rpartition(":")[2]
        assert f"mosquitto_sub -p {port} -v -t 'sensors/#'" in told
        assert f"curl -N 'http://{demo.where['web']}/events?topic=sensors'" in told


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (("--host", "0.0.0.0"), 1, "access file"),
        (("--certificate", "a.crt"), 2, "--certificate and --key go together"),
        (("--mailbox", "most"), 2, "--mailbox: a policy is one of keep, latest, drop-oldest, disconnect"),
        (("--web", "70000"), 2, "--web: a port is at most 65535"),
        (("--access", "absent.toml"), 1, "absent.toml"),
        (("--join", "here"), 1, "an endpoint is HOST:PORT"),
        (("--join", "127.0.0.1:1"), 1, "no contact lets this node in"),
        (("--data", "/dev/null/x"), 1, "/dev/null/x"),
    ],
)
def test_what_cannot_be_is_told_in_one_sentence(options: tuple[str, ...], code: int, sentence: str) -> None:
    given = ("--mqtt", "0", *(options if "--web" in options else ("--web", "0", *options)))
    found, told = run(*given)
    assert found == code
    assert sentence in told.splitlines()[-1]
    assert "Traceback" not in told


def test_feeds_are_polled_after_some_time_or_not_at_all(tmp_path: Path) -> None:
    feeds = tmp_path / "feeds.toml"
    feeds.write_text('"a" = "http://example.org/a.xml"')
    found, told = run("--mqtt", "0", "--web", "0", "--feeds", str(feeds), "--feeds-every", "0")
    assert (found, told.splitlines()[-1]) == (
        1,
        "distributary: feeds cannot be polled every 0 seconds; give a time above 0",
    )


@alone
async def test_a_broker_whose_work_beside_requests_ends_by_an_error_does_not_go_on_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from distributary.edge import serve

    def fail() -> bool:
        raise ZeroDivisionError("of the access file")

    monkeypatch.setattr(serve, "TICK", 0.0)
    notes: list[str] = []
    served_here = serve.ServedBroker(serve.ServeSettings(mqtt=0, web=0), notes.append)
    monkeypatch.setattr(served_here.access, "refresh", fail)
    await served_here.start()
    await served_here.failure.wait()
    await served_here.stop()
    assert notes[-1] == "the broker cannot go on: ZeroDivisionError: of the access file"


def test_an_origin_is_known_as_browsers_send_it() -> None:
    from distributary.cli.serve import _origin

    assert [_origin(text) for text in ("https://Example.org/", " http://a:8080")] == [
        "https://example.org",
        "http://a:8080",
    ]
    for text in ("example.org", "https://", "https://example.org/page", "ftp://example.org"):
        with pytest.raises(UsageError, match="an origin is such as"):
            _origin(text)


def test_a_port_that_was_asked_for_is_taken_or_refused_and_another_is_found_where_none_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributary.edge import serve
    from distributary.errors import DistributaryError

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        found, told = run("--mqtt", "0", "--web", str(port))
        assert (found, "cannot listen on 127.0.0.1" in told) == (1, True)
        found, told = run("--mqtt", str(port), "--web", "0")
        assert (found, told) == (
            1,
            f"distributary: cannot listen on 127.0.0.1:{port}: Address already in use\n",
        )
        notes: list[str] = []
        assert serve._free_port("127.0.0.1", port, 1, "the web", notes.append) == port
        other = serve._free_port("127.0.0.1", None, port, "the web", notes.append)
        assert port < other < port + serve.NEXT_PORTS
        assert notes == [f"port {port} is taken, so the web has {other}"]
        monkeypatch.setattr(serve, "NEXT_PORTS", 1)
        with pytest.raises(DistributaryError, match="name one"):
            serve._free_port("127.0.0.1", None, port, "the web", notes.append)
