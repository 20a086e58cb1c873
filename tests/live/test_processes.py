"""Nodes as processes: their files, what they say of themselves, networks that are started and stopped."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.live.local_network import LocalNetwork
from distributary.live.settings import NodeSettings


def written(directory: Path, text: str) -> Path:
    path = directory / "node.toml"
    path.write_text(text)
    return path


def test_a_file_says_all_that_a_node_needs(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        'name = "hall-2"\nnetwork = "plant"\nlisten = "127.0.0.1:7001"\ncontacts = ["127.0.0.1:7000"]\n'
        'status = "127.0.0.1:7101"\ndata = "disk"\n[settings]\nfanout = 4\n'
        '[tls]\ncertificate = "a.crt"\nkey = "a.key"\nauthority = "ca.crt"\n',
    )
    settings = NodeSettings(path)
    assert settings.table.system == "tree"
    assert [str(each) for each in (settings.listen, *settings.contacts)] == [
        "127.0.0.1:7001",
        "127.0.0.1:7000",
    ]
    assert settings.table.settings == {"fanout": 4}
    assert settings.data == tmp_path / "disk"
    assert settings.tls is not None
    assert settings.tls.key == tmp_path / "a.key"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "name: is missing"),
        ('name = "a"\nlisen = "127.0.0.1:1"', "lisen: there is no such key; did you mean listen?"),
        ('name = "a"\nlisten = "7000"', "an endpoint is HOST:PORT, such as 127.0.0.1:7000, not '7000'"),
        ('name = "a"\nnodes = 0', "nodes: is 0"),
        ('name = "a"\nstatus = "0.0.0.0:7000"', "status: 0.0.0.0 is not loopback"),
        ('name = "a"\n[delays]\nb = -1', "[delays] b: is -1 (a whole number); it must be milliseconds"),
        ("name =", "node.toml"),
        ('name = "a"\nsystem = "guessing"', "no system 'guessing'; there are"),
        ('name = "a"\n[settings]\nfanot = 3', "has no setting 'fanot'"),
        ('name = "a"\nlisten = "0.0.0.0:0"', "cannot listen at 0.0.0.0 without TLS"),
        (
            'name = "a"\ncontacts = ["127.0.0.1:1"]',
            "no contact lets this node in: cannot connect to 127.0.0.1:1",
        ),
        (
            'name = "a"\n[tls]\ncertificate = "a"\nkey = "b"\nauthority = "c"',
            "TLS: there is no file",
        ),
    ],
)
def test_a_node_that_cannot_start_says_why_and_ends(
    text: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["node", str(written(tmp_path, text))]) == 1
    told = capsys.readouterr().err
    assert reason in told
    assert "Traceback" not in told


def run(*arguments: str, given: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), input=given, capture_output=True, text=True, timeout=60)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "distributary.cli", *arguments]


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[LocalNetwork, dict[str, Any]]]:
    network = LocalNetwork(tmp_path_factory.mktemp("plant") / "new")
    described = network.up(4, "tree")
    try:
        yield network, described
    finally:
        stop(network)


def stop(network: LocalNetwork) -> None:
    network.down()
    for process in network._started.values():
        process.wait(10)


def lines_of(path: Path, count: int) -> list[str]:
    """The ids of the events written to a file, as soon as there are so many."""
    end = time.monotonic() + 30
    while time.monotonic() < end:
        found = path.read_text().splitlines() if path.exists() else []
        if len(found) >= count:
            return [json.loads(line)["id"] for line in found]
        time.sleep(0.05)
    raise AssertionError(f"{path.read_text() if path.exists() else 'nothing'} after 30 seconds")


def test_what_is_published_at_one_process_is_written_at_another(
    plant: tuple[LocalNetwork, dict[str, Any]], tmp_path: Path
) -> None:
    _, described = plant
    first, *_, last = (node["client"] for node in described["nodes"])
    out = tmp_path / "out.jsonl"
    asked = command(
        "subscribe", "--at", last, "--topic", "quotes/*", "--where", "price > 3", "--out", str(out)
    )
    subscriber = subprocess.Popen(asked, stderr=subprocess.PIPE, text=True)
    try:
        assert subscriber.stderr is not None
        assert subscriber.stderr.readline().startswith("subscribed as ")
        ran = run(
            "publish", "--to", first, "--events", "-", given=json.dumps({"id": "early", "topic": "quotes/A"})
        )
        assert ran.returncode == 0
        time.sleep(1.0)
        records = [{"id": f"e{number}", "topic": "quotes/A", "price": number} for number in range(8)]
        given = "\n".join(map(json.dumps, records)) + "\nnot JSON\n"
        ran = run("publish", "--to", first, "--events", "-", given=given)
        assert ran.returncode == 3
        assert "8 events published, 1 not" in ran.stderr
        assert lines_of(out, 4) == ["e4", "e5", "e6", "e7"]
        subscriber.send_signal(signal.SIGTERM)
        assert subscriber.wait(10) == 0
        assert "4 events written" in subscriber.stderr.read()
    finally:
        subscriber.kill()
        subscriber.communicate()


def test_status_shows_every_node(
    plant: tuple[LocalNetwork, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    network, described = plant
    assert main(["network", "status", "--dir", str(network.directory), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["nodes"]
    assert [node["name"] for node in told] == ["node-1", "node-2", "node-3", "node-4"]
    assert all(node["joined"] for node in told)
    assert main(["network", "status", "--dir", str(network.directory)]) == 0
    assert "node-4" in capsys.readouterr().out
    host, _, port = described["nodes"][0]["status"].rpartition(":")
    pages = {}
    for method, path in (("GET", "/health"), ("GET", "/metrics"), ("GET", "/"), ("POST", "/health")):
        connection = HTTPConnection(host, int(port), timeout=10)
        connection.request(method, path)
        answer = connection.getresponse()
        pages[method, path] = (answer.status, answer.read().decode())
        connection.close()
    assert [status for status, _ in pages.values()] == [200, 200, 404, 405]
    assert "distributary_joined 1" in pages["GET", "/metrics"][1]


def test_a_node_that_is_killed_is_missing_and_comes_back_with_its_file(
    plant: tuple[LocalNetwork, dict[str, Any]],
) -> None:
    network, described = plant
    lost = described["nodes"][2]
    os.kill(lost["pid"], signal.SIGKILL)
    network._started["node-3"].wait(10)
    assert until(lambda: [node["name"] for node in network.status() if node.get("missing")] == ["node-3"])
    with open(network.directory / "again.log", "wb") as log:
        network._started["node-3"] = subprocess.Popen(command("node", lost["config"]), stdout=log, stderr=log)
    assert until(lambda: all(node.get("joined") for node in network.status()))
    assert network.status()[2]["linked"], "it has found the others"


def test_a_node_that_has_left_is_told_from_one_that_is_gone(
    plant: tuple[LocalNetwork, dict[str, Any]], capsys: pytest.CaptureFixture[str]
) -> None:
    network, described = plant
    leaving = described["nodes"][1]
    os.kill(network.status()[1]["pid"], signal.SIGTERM)
    assert network._started["node-2"].wait(20) == 0
    assert until(lambda: network.view()["left"] == network.view()["missing"] == ["node-2"])
    assert main(["network", "status", "--dir", str(network.directory)]) == 1
    told = capsys.readouterr().out
    assert "node-2 has left" in told
    assert "node-2 does not answer" not in told
    for code in (signal.SIGKILL, None):  # it comes back, and is killed; and comes back
        with open(network.directory / "again.log", "wb") as log:
            again = subprocess.Popen(command("node", leaving["config"]), stdout=log, stderr=log)
        network._started["node-2"] = again
        assert until(lambda: all(node.get("joined") for node in network.status()))
        assert network.view()["left"] == []
        if code is not None:
            again.send_signal(code)
            again.wait(10)
            assert until(lambda: network.view()["missing"] == ["node-2"])
            assert network.view()["left"] == []


def until(holds: Any) -> bool:
    end = time.monotonic() + 90
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.1)
    return False


def test_a_network_that_was_stopped_starts_again_with_its_data(tmp_path: Path) -> None:
    network = LocalNetwork(tmp_path)
    first = network.up(2, "tree")
    out = tmp_path / "out.jsonl"
    asked = ("subscribe", "--topic", "A", "--out", str(out), "--count", "1")
    subscriber = subprocess.Popen(
        command(*asked, "--at", first["nodes"][1]["client"]), stderr=subprocess.PIPE, text=True
    )
    assert subscriber.stderr is not None
    subscriber.stderr.readline()
    publish = ("publish", "--events", "-", "--to", first["nodes"][0]["client"])
    assert run(*publish, given='{"id": "e1", "topic": "A"}\n').returncode == 0
    assert subscriber.wait(30) == 0
    subscriber.stderr.close()
    assert run(*publish, given='{"id": "e2", "topic": "A"}\n').returncode == 0
    stop(network)
    with pytest.raises(DistributaryError, match="has the data of another network"):
        network.up(3, "tree")
    again = network.up(2, "tree")
    try:
        assert [node["client"] for node in again["nodes"]] == [node["client"] for node in first["nodes"]]
        assert run(*asked, "--at", again["nodes"][1]["client"]).returncode == 0
        assert lines_of(out, 2) == ["e1", "e2"]
    finally:
        stop(network)


def test_a_node_whose_disk_is_full_or_damaged_says_so_and_ends(tmp_path: Path) -> None:
    config = written(tmp_path, 'name = "a"\ndata = "data"\n')
    ready = tmp_path / "ready.json"
    node = subprocess.Popen(
        command("node", str(config), "--ready", str(ready)), stderr=subprocess.PIPE, text=True
    )
    assert until(ready.exists)
    resource.prlimit(node.pid, resource.RLIMIT_FSIZE, (400_000, 400_000))
    publisher = subprocess.Popen(
        command("publish", "--to", json.loads(ready.read_text())["client"], "--events", "-"),
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert publisher.stdin is not None
        with suppress(BrokenPipeError):
            for number in range(1_000):
                publisher.stdin.write(json.dumps({"id": f"e{number}", "text": "x" * 3_000}) + "\n")
            publisher.stdin.flush()
        _, told = node.communicate(timeout=60)
        assert node.returncode == 1
        assert told.count("data/journal.sqlite cannot be written: ") == 1
        assert "Traceback" not in told
        assert publisher.poll() is None, "it waits for a broker that acknowledges"
    finally:
        publisher.kill()
        publisher.communicate()
        node.kill()
    file = tmp_path / "data" / "journal.sqlite"
    file.write_bytes(file.read_bytes()[:5_000])
    ran = run("node", str(config))
    assert ran.returncode == 1
    assert "data/journal.sqlite is damaged: " in ran.stderr
    assert "Start the node again" in ran.stderr
    assert len(ran.stderr.splitlines()) == 1


def test_a_network_that_is_up_is_not_started_again(plant: tuple[LocalNetwork, dict[str, Any]]) -> None:
    network, _ = plant
    with pytest.raises(DistributaryError, match="has a network: distributary network down first"):
        LocalNetwork(network.directory).up(2, "tree")


def test_a_network_that_cannot_start_leaves_nothing_running(tmp_path: Path) -> None:
    network = LocalNetwork(tmp_path)
    with pytest.raises(DistributaryError, match="no system 'guessing'"):
        network.up(2, "guessing")
    with pytest.raises(DistributaryError, match=r"node-1 stopped: .*authority: is missing"):
        network.up(2, "tree", tables={"node-1": {"tls": {"key": "a"}}})
    assert [process.wait(10) for process in network._started.values()] == [1]
    with pytest.raises(DistributaryError, match="has no network"):
        network.status()


@pytest.mark.parametrize(
    "arguments", [["subscribe", "--at", "127.0.0.1:1"], ["publish", "--to", "127.0.0.1:1"], ["network", "up"]]
)
def test_arguments_that_are_missing_are_told(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2


def test_no_broker_there_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    events = tmp_path / "events.jsonl"
    events.write_text('{"id": "e1"}\n')
    assert main(["publish", "--to", "127.0.0.1:1", "--events", str(events)]) == 1
    assert main(["subscribe", "--at", "127.0.0.1:1", "--topic", "a"]) == 1
    told = capsys.readouterr().err
    assert told.count("cannot connect to 127.0.0.1:1") == 2
