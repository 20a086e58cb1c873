"""Networks of processes with slow links, faults and traces, as commands start, show and record them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from distributary.cli.main import main
from distributary.live.local_network import LocalNetwork


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A network of three, whose links are slow, may be disturbed, and whose nodes record themselves."""
    directory = tmp_path_factory.mktemp("slow")
    pairs = directory / "pairs.jsonl"
    pairs.write_text('{"from": 1, "to": 2, "ms": 60}\n{"from": 1, "to": 3, "ms": 100, "mbit": 8}\n')
    options = ["--latency", str(pairs), "--faults", "--trace"]
    subprocess.run(command("up", "--nodes", "3", "--dir", str(directory), *options), check=True, timeout=120)
    try:
        yield directory
    finally:
        subprocess.run(command("down", "--dir", str(directory)), check=True, timeout=60)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "distributary.cli", "network", *arguments]


def until(holds: Any) -> Any:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        found = holds()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("not within 60 seconds")


def ask(directory: Path, name: str, method: str, path: str, body: str = "") -> tuple[int, str]:
    described = json.loads((directory / "network.json").read_text())
    entry = next(entry for entry in described["nodes"] if entry["name"] == name)
    host, _, port = entry["status"].rpartition(":")
    connection = HTTPConnection(host, int(port), timeout=10)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_status_shows_the_tree_and_the_round_trips_that_were_set(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def measured() -> dict[str, float]:
        node = LocalNetwork(place).view()["nodes"][0]
        return {link["node"]: link["round_trip_ms"] for link in node["links"] if link["round_trip_ms"]}

    until(lambda: {"node-2", "node-3"} <= set(measured()))
    until(lambda: 60 <= measured()["node-2"] < 80 and 100 <= measured()["node-3"] < 130)
    assert main(["network", "status", "--dir", str(place), "--json"]) == 0
    view = json.loads(capsys.readouterr().out)
    assert view["tree"]["roots"] == ["node-1"]
    assert {node["parent"] for node in view["nodes"]} <= {None, "node-1", "node-2", "node-3"}
    assert main(["network", "status", "--dir", str(place)]) == 0
    text = capsys.readouterr().out
    assert "network 'distributary' of tree: 3 of 3 nodes" in text
    assert "node-1 (epoch" in text


def test_faults_are_asked_for_and_counted_where_status_is_told(place: Path) -> None:
    assert ask(place, "node-2", "GET", "/faults") == (
        200,
        '{"wanted": {"cut": [], "cut_to": [], "cut_from": [], "drop": 0.0, "duplicate": 0.0, "delay": 0.0,'
        ' "delay_ms": 100.0}, "fired": {}}\n',
    )
    code, told = ask(place, "node-2", "POST", "/faults", '{"drop": 3}')
    assert (code, told[:19]) == (400, "these are no faults")
    assert ask(place, "node-2", "POST", "/faults", '{"duplicate": 1}')[0] == 200
    until(lambda: "distributary_fault_duplicate_total" in ask(place, "node-2", "GET", "/metrics")[1])
    counts = LocalNetwork(place).view()["nodes"][1]["counts"]
    assert counts["fault duplicate"] > 0
    assert ask(place, "node-2", "POST", "/faults", "{}")[0] == 200


def test_a_network_is_recorded_and_done_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for_a_while, all_ = place / "while.trace", place / "all.trace.gz"
    assert main(["network", "trace", "--dir", str(place), "--seconds", "2.5", "--out", str(for_a_while)]) == 0
    assert " received " in for_a_while.read_text()
    assert main(["sim", "replay", str(for_a_while)]) == 1
    assert "3 nodes were not recorded from their start" in capsys.readouterr().out
    assert main(["network", "trace", "--dir", str(place), "--out", str(all_)]) == 0
    assert main(["sim", "replay", str(all_)]) == 0
    assert "are the same" in capsys.readouterr().out
