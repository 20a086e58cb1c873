"""A network of processes on this machine: started, looked at and stopped together.

A directory has all of it: for each node its file (`NAME.toml`, for `distributary node`), where it listens
(`NAME.json`), its log (`NAME.log`) and its data (`NAME.data`), and for the network `network.json`:

    {"network": ..., "system": ..., "nodes": [{"name", "pid", "client", "status", "config", "log"}, ...]}
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from socket import create_connection
from typing import Any, NamedTuple

from distributary.errors import DistributaryError
from distributary.live.broker import keeps_log
from distributary.live.greeting import parse_endpoint
from distributary.live.network_view import network_view
from distributary.live.process import left_file
from distributary.live.settings import NodeSettings
from distributary.systems.membership import settings_for

NETWORK_FILE = "network.json"
PATIENCE = 60.0
"""Seconds in which a node must have joined, and as many more as there are nodes: all start at once."""
FAREWELL = 10.0
"""Seconds in which a node must have stopped before it is killed."""


NodeTables = Mapping[str, Mapping[str, Any]]
"""Tables of a node's file by their names."""


def node_names(nodes: int) -> list[str]:
    """What the nodes of a network are called.

    >>> node_names(2)
    ['node-1', 'node-2']
    """
    return [f"node-{number}" for number in range(1, nodes + 1)]


class LocalNetwork:
    """The network of one directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._started: dict[str, subprocess.Popen[bytes]] = {}

    def up(
        self,
        nodes: int,
        system: str,
        network: str = "distributary",
        settings: Mapping[str, Any] | None = None,
        tables: Mapping[str, NodeTables] | None = None,
        say: Callable[[str], None] = lambda text: None,
    ) -> dict[str, Any]:
        """Start so many nodes, and wait until all have joined; what `network.json` holds.

        In a directory with the data of a network that was stopped, the same nodes start again with it.
        `tables` has by the names of nodes (`node_names`) further tables of their files, such as `delays`.
        DistributaryError when there is a network already, or a node stops or does not join; then all stop.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        if (self.directory / NETWORK_FILE).exists():
            raise DistributaryError(f"{self.directory} has a network: distributary network down first")
        names = node_names(nodes)
        about = {"network": network, "system": system, "nodes": nodes}
        chosen = settings_for(system, settings or {}, names)
        lasts = keeps_log(system, nodes, chosen)
        files = _NodeFiles(self.directory, about, chosen, tables or {}, lasts)
        try:
            if files.come_back(names):
                say(f"network {network!r} starts again with its data")
                for name in names:
                    self._start(name)
            else:
                self._found(names, files, say)
            told = [self._wait_for(name) for name in names]
            for entry in told:
                self._wait_until_joined(entry)
                say(f"{entry['name']} has joined, at {entry['client']}")
        except BaseException:
            for process in self._started.values():
                process.kill()
            raise
        for entry in told:
            files.write_to_come_back(entry, told)
        described = {"network": network, "system": system, "nodes": told}
        (self.directory / NETWORK_FILE).write_text(json.dumps(described, indent=1) + "\n")
        return described

    def status(self) -> list[dict[str, Any]]:
        """What each node says of itself; of one that does not answer its name, and `"missing": true`."""
        nodes: list[dict[str, Any]] = self.view()["nodes"]
        return nodes

    def view(self) -> dict[str, Any]:
        """The network as its nodes tell it (`network_view`)."""
        described = self.described()
        with ThreadPoolExecutor(len(described["nodes"])) as threads:
            told = list(threads.map(_health, described["nodes"]))
        for entry, health in zip(described["nodes"], told, strict=True):
            entry["left"] = health is None and _has_left(Path(entry["config"]))
        return network_view(described, told)

    def trace(self, seconds: float) -> list[str]:
        """What all nodes are given and want for so many seconds, in lines of a trace, in the order of time.

        DistributaryError when a node does not answer.
        """
        entries = self.described()["nodes"]
        with ThreadPoolExecutor(len(entries)) as threads:
            told = threads.map(partial(_lines_of, seconds=seconds), entries)
            return merged(line for lines in told for line in lines)

    def recorded(self) -> list[str]:
        """What nodes that record themselves have written since their start, in the order of time."""
        entries = self.described()["nodes"]
        files = [self.directory / f"{entry['name']}.trace" for entry in entries]
        lines = [line for file in files if file.exists() for line in file.read_text().split("\n")[:-1]]
        if not lines:
            raise DistributaryError(
                f"the nodes of {self.directory} do not record themselves: start them with --trace, or say for"
                " how many --seconds they are to be recorded"
            )
        return merged(lines)

    def down(self) -> int:
        """Stop all nodes that run, and forget the network; how many were stopped."""
        entries = self.described()["nodes"]
        for entry in entries:
            entry["pid"] = (_health(entry) or entry)["pid"]
        running = [entry for entry in entries if self._is_ours(entry)]
        for entry in running:
            os.kill(entry["pid"], signal.SIGTERM)
        end = time.monotonic() + FAREWELL
        for entry in running:
            while self._is_ours(entry):
                if time.monotonic() > end:
                    os.kill(entry["pid"], signal.SIGKILL)
                time.sleep(0.02)
        for process in self._started.values():
            process.wait(FAREWELL)
        (self.directory / NETWORK_FILE).unlink()
        return len(running)

    # Inside.

    def _found(self, names: Sequence[str], files: _NodeFiles, say: Callable[[str], None]) -> None:
        first, *others = names
        files.write(first, contacts=[], listen="127.0.0.1:0", status="127.0.0.1:0")
        self._start(first)
        founded = self._wait_for(first)["client"]
        say(f"{first} founds network {files.about['network']!r} at {founded}")
        for name in others:
            files.write(name, contacts=[founded], listen="127.0.0.1:0", status="127.0.0.1:0")
            self._start(name)

    def _start(self, name: str) -> None:
        ready = self.directory / f"{name}.json"
        ready.unlink(missing_ok=True)
        config = self.directory / f"{name}.toml"
        command = [sys.executable, "-m", "distributary.cli", "node", str(config), "--ready", str(ready)]
        with open(self.directory / f"{name}.log", "ab") as log:
            self._started[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _wait_for(self, name: str) -> dict[str, Any]:
        """What a node says when it listens, and the files that it has."""
        ready = self.directory / f"{name}.json"
        end = time.monotonic() + PATIENCE + len(self._started)
        while not ready.exists():
            self._require_running(name, end)
        told: dict[str, Any] = json.loads(ready.read_text())
        files = {"config": f"{name}.toml", "log": f"{name}.log"}
        return told | {key: str(self.directory / file) for key, file in files.items()}

    def _wait_until_joined(self, entry: Mapping[str, Any]) -> None:
        end = time.monotonic() + PATIENCE + len(self._started)
        while not (_health(entry) or {}).get("joined"):
            self._require_running(entry["name"], end)

    def _require_running(self, name: str, end: float) -> None:
        log = self.directory / f"{name}.log"
        if self._started[name].poll() is not None:
            lines = log.read_text(errors="replace").splitlines() or ["it said nothing"]
            raise DistributaryError(f"{name} stopped: {lines[-1]}")
        if time.monotonic() > end:
            waited = PATIENCE + len(self._started)
            raise DistributaryError(f"{name} has not joined in {waited:g} seconds; see {log}")
        time.sleep(0.02)

    def described(self) -> dict[str, Any]:
        """What `network.json` holds; DistributaryError when there is no network."""
        try:
            described: dict[str, Any] = json.loads((self.directory / NETWORK_FILE).read_text())
        except FileNotFoundError:
            reason = f"{self.directory} has no network: distributary network up first"
            raise DistributaryError(reason) from None
        except ValueError as error:
            raise DistributaryError(f"{self.directory / NETWORK_FILE} cannot be read: {error}") from error
        return described

    def _is_ours(self, entry: Mapping[str, Any]) -> bool:
        """Whether the process of an entry runs, and is that node and no later process with its number."""
        started = self._started.get(entry["name"])
        if started is not None and started.poll() is not None:
            return False
        try:
            command = Path(f"/proc/{entry['pid']}/cmdline").read_bytes()
        except OSError:
            return False
        return os.fsencode(entry["config"]) in command.split(b"\0")


def _health(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a node says of itself; None when it does not answer."""
    place = parse_endpoint(entry["status"])
    with suppress(OSError, HTTPException, ValueError):
        connection = HTTPConnection(place.host, place.port, timeout=2)
        try:
            connection.request("GET", "/health")
            found: dict[str, Any] = json.loads(connection.getresponse().read())
            return found
        finally:
            connection.close()
    return None


def _has_left(config: Path) -> bool:
    """Whether a node was told to end, and left in good order: it says so beside its file."""
    return left_file(config).exists()


def merged(lines: Iterable[str]) -> list[str]:
    """Lines of several traces, in the order of time; those of one node stay in theirs."""
    return sorted(lines, key=lambda line: float(line.partition(" ")[0]))


def _lines_of(entry: Mapping[str, Any], seconds: float) -> list[str]:
    """What a node is given and wants for so many seconds."""
    end = time.monotonic() + seconds
    parts: list[bytes] = []
    try:
        with create_connection(parse_endpoint(entry["status"]), timeout=2) as line:
            line.sendall(b"GET /trace HTTP/1.1\r\n\r\n")
            while (left := end - time.monotonic()) > 0:
                line.settimeout(left)
                with suppress(TimeoutError):
                    parts.append(line.recv(1 << 16))
                    if not parts[-1]:
                        raise DistributaryError(f"{entry['name']} has stopped telling what it does")
    except OSError as error:
        raise DistributaryError(f"{entry['name']} does not answer: {error}") from error
    return b"".join(parts).partition(b"\r\n\r\n")[2].decode().split("\n")[:-1]


class _NodeFiles(NamedTuple):
    """Writes the files of nodes. JSON's texts, numbers, truth values and lists of texts are TOML's too."""

    directory: Path
    about: Mapping[str, Any]
    settings: Mapping[str, Any]
    tables: Mapping[str, NodeTables]
    lasts: bool
    """Whether nodes have something to keep in directories of their own."""

    def write(self, name: str, **more: Any) -> Path:
        """Write the file of a node."""
        data = {"data": f"{name}.data"} if self.lasts else {}
        keys = {"name": name, **self.about, **data, **more}
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        tables = {"settings": self.settings} if self.settings else {}
        for title, table in {**tables, **self.tables.get(name, {})}.items():
            lines += ["", f"[{title}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
        path = self.directory / f"{name}.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def come_back(self, names: Sequence[str]) -> bool:
        """Whether there are the data and the files of these nodes; DistributaryError for those of others."""
        found = self.directory.glob("*.data")  # directories that are empty are disks to begin with
        there = sorted(each.stem for each in found if not each.is_dir() or any(each.iterdir()))
        if not there or not self.lasts:
            return False
        for name in names:
            path = self.directory / f"{name}.toml"
            table = NodeSettings(path).table if path.exists() else None
            keys = {key: getattr(table, key, None) for key in self.about}
            if keys != dict(self.about) or table is None or table.settings != dict(self.settings):
                there = []
        if there != sorted(names):
            raise DistributaryError(
                f"{self.directory} has the data of another network: start that one again, remove it, or take"
                " another directory"
            )
        return True

    def write_to_come_back(self, entry: Mapping[str, Any], among: Sequence[Mapping[str, Any]]) -> None:
        """Write the file by which a node of a network that is up comes back: to its place, through others."""
        others = [each["client"] for each in among if each["name"] != entry["name"]]
        self.write(entry["name"], contacts=others[:3], listen=entry["client"], status=entry["status"])
