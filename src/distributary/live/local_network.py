"""A network of processes on this machine: started, looked at and stopped together.

A directory has all of it: for each node its file (`NAME.toml`, for `distributary node`), where it listens
(`NAME.json`) and its log (`NAME.log`), and for the network `network.json`:

    {"network": ..., "system": ..., "nodes": [{"name", "pid", "client", "status", "config", "log"}, ...]}
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, NamedTuple

from distributary.errors import DistributaryError
from distributary.live.greeting import parse_endpoint

NETWORK_FILE = "network.json"
PATIENCE = 60.0
"""Seconds in which all nodes must have joined."""
FAREWELL = 10.0
"""Seconds in which a node must have stopped before it is killed."""


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
        say: Callable[[str], None] = lambda text: None,
    ) -> dict[str, Any]:
        """Start so many nodes, and wait until all have joined; what `network.json` holds.

        DistributaryError when there is a network already, or a node stops or does not join; then all stop.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        if (self.directory / NETWORK_FILE).exists():
            raise DistributaryError(f"{self.directory} has a network: distributary network down first")
        first, *others = names = [f"node-{number}" for number in range(1, nodes + 1)]
        about = {"network": network, "system": system, "nodes": nodes}
        files = _NodeFiles(self.directory, about, settings or {})
        try:
            self._start(first, files)
            founded = self._wait_for(first)["client"]
            say(f"{first} founds network {network!r} at {founded}")
            for name in others:
                self._start(name, files, [founded])
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
        found = []
        for entry in self._described()["nodes"]:
            health = _health(entry)
            found.append(health or {"name": entry["name"], "endpoint": entry["client"], "missing": True})
        return found

    def down(self) -> int:
        """Stop all nodes that run, and forget the network; how many were stopped."""
        entries = self._described()["nodes"]
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
        (self.directory / NETWORK_FILE).unlink()
        return len(running)

    # Inside.

    def _start(self, name: str, files: _NodeFiles, contacts: Sequence[str] = ()) -> None:
        ready = self.directory / f"{name}.json"
        ready.unlink(missing_ok=True)
        config = files.write(name, contacts=list(contacts), listen="127.0.0.1:0", status="127.0.0.1:0")
        command = [sys.executable, "-m", "distributary.cli", "node", str(config), "--ready", str(ready)]
        with open(self.directory / f"{name}.log", "wb") as log:
            self._started[name] = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def _wait_for(self, name: str) -> dict[str, Any]:
        """What a node says when it listens, and the files that it has."""
        ready = self.directory / f"{name}.json"
        end = time.monotonic() + PATIENCE
        while not ready.exists():
            self._require_running(name, end)
        told: dict[str, Any] = json.loads(ready.read_text())
        files = {"config": f"{name}.toml", "log": f"{name}.log"}
        return told | {key: str(self.directory / file) for key, file in files.items()}

    def _wait_until_joined(self, entry: Mapping[str, Any]) -> None:
        end = time.monotonic() + PATIENCE
        while not (_health(entry) or {}).get("joined"):
            self._require_running(entry["name"], end)

    def _require_running(self, name: str, end: float) -> None:
        log = self.directory / f"{name}.log"
        if self._started[name].poll() is not None:
            lines = log.read_text(errors="replace").splitlines() or ["it said nothing"]
            raise DistributaryError(f"{name} stopped: {lines[-1]}")
        if time.monotonic() > end:
            raise DistributaryError(f"{name} has not joined in {PATIENCE:g} seconds; see {log}")
        time.sleep(0.02)

    def _described(self) -> dict[str, Any]:
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


class _NodeFiles(NamedTuple):
    """Writes the files of nodes. JSON's texts, numbers, truth values and lists of texts are TOML's too."""

    directory: Path
    about: Mapping[str, Any]
    settings: Mapping[str, Any]

    def write(self, name: str, **more: Any) -> Path:
        """Write the file of a node."""
        keys = {"name": name, **self.about, **more}
        lines = [f"{key} = {json.dumps(value)}" for key, value in keys.items()]
        if self.settings:
            lines += ["", "[settings]"]
            lines += [f"{key} = {json.dumps(value)}" for key, value in self.settings.items()]
        path = self.directory / f"{name}.toml"
        path.write_text("\n".join(lines) + "\n")
        return path

    def write_to_come_back(self, entry: Mapping[str, Any], among: Sequence[Mapping[str, Any]]) -> None:
        """Write the file by which a node of a network that is up comes back: to its place, through others."""
        others = [each["client"] for each in among if each["name"] != entry["name"]]
        self.write(entry["name"], contacts=others[:3], listen=entry["client"], status=entry["status"])
