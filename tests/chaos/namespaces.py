"""A live trial in which every node has a network namespace of its own, so that a cut is a cut of its cable.

Needs root and `ip`. Every namespace is linked to a bridge in the namespace of the tests, where the clients
are; nodes and clients talk with TLS, as they must beyond loopback. `cut` takes the cable of a node away from
the bridge: its clients lose it, too. `part` moves the cables of some nodes to another bridge. Where the
kernel has netem, all cables are 5 ms long and lose a packet in 200.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import trustme

from chaos.live_trial import LiveTrial
from distributary.live.security import TlsFiles

HEALTH = """import sys, http.client
connection = http.client.HTTPConnection('127.0.0.1', 7100, timeout=5)
connection.request('GET', '/health')
sys.stdout.write(connection.getresponse().read().decode())
"""


def why_not() -> str | None:
    """Why there can be no namespaces here; None if there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None:
        return "network namespaces need the command ip"
    probe = f"probe{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", probe], capture_output=True, text=True)
    if made.returncode != 0:
        return f"no network namespace can be made: {made.stderr.strip()}"
    _ip("netns", "del", probe)
    bridge = subprocess.run(["ip", "link", "add", probe, "type", "bridge"], capture_output=True, text=True)
    if bridge.returncode != 0:
        return f"no bridge can be made: {bridge.stderr.strip()}"
    _ip("link", "del", probe)
    return None


class NamespaceTrial(LiveTrial):
    """One run; the faults are `kill`, `lose`, `gone`, `pause`, `cut` and `part`."""

    def __init__(self, directory: Path, seed: int, **options: Any) -> None:
        super().__init__(directory, seed, **options)
        self._prefix = f"d{os.getpid() % 10_000}"
        self._subnet = f"10.{64 + os.getpid() % 64}.{os.getpid() // 64 % 250}"
        self.netem = False
        """Whether cables are long and lose packets: what they have lost is counted in `fired`."""

    def run(self) -> None:
        """Lay the cables, run, and take all of it away."""
        try:
            super().run()
        finally:
            if self.netem:
                lost = sum(map(self._dropped, range(1, len(self._names) + 1)))
                self.fired["loss of a packet"] = lost
                if not lost:
                    self.problems.append("cables were to lose packets, and lost none")
            for number in range(1, len(self._names) + 1):
                # A cable goes with its namespace some time later, and the next trial has one of that name.
                subprocess.run(["ip", "link", "del", f"{self._prefix}v{number}"], capture_output=True)
                subprocess.run(["ip", "netns", "del", f"{self._prefix}n{number}"], capture_output=True)
            for bridge in ("br", "b2"):
                subprocess.run(["ip", "link", "del", f"{self._prefix}{bridge}"], capture_output=True)

    def _dropped(self, number: int) -> int:
        """How many packets the cable to a node has lost."""
        shown = ["tc", "-s", "-j", "qdisc", "show", "dev", f"{self._prefix}v{number}"]
        told = subprocess.run(shown, capture_output=True, text=True)
        queues = json.loads(told.stdout or "[]") if told.returncode == 0 else []
        return sum(int(each["drops"]) for each in queues if each["kind"] == "netem")

    def _bring_up(self) -> None:
        bridge = f"{self._prefix}br"
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{self._subnet}.254/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        _ip("link", "add", f"{self._prefix}b2", "type", "bridge")
        _ip("link", "set", f"{self._prefix}b2", "up")
        authority = trustme.CA()
        self._connecting = {"tls": self._certificate(authority, "clients", f"{self._subnet}.254")}
        for number, name in enumerate(self._names, 1):
            self._lay_cable(number)
            contacts = [f"{self._subnet}.{each}:7000" for each in (1, 2, 3) if each != number and number > 1]
            self._write(name, number, contacts[:1], authority)
            self._start(name)
            self._wait_for(name)
        for number, name in enumerate(self._names, 1):  # who comes back asks several
            contacts = [f"{self._subnet}.{each}:7000" for each in (1, 2, 3, 4) if each != number]
            self._write(name, number, contacts, authority)

    def _lay_cable(self, number: int) -> None:
        space, outside = f"{self._prefix}n{number}", f"{self._prefix}v{number}"
        _ip("netns", "add", space)
        _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
        _ip("link", "set", outside, "master", f"{self._prefix}br")
        _ip("link", "set", outside, "up")
        for command in (
            ["ip", "link", "set", "lo", "up"],
            ["ip", "addr", "add", f"{self._subnet}.{number}/24", "dev", "eth0"],
            ["ip", "link", "set", "eth0", "up"],
        ):
            _ip("netns", "exec", space, *command)
        netem = ["tc", "qdisc", "add", "dev", outside, "root", "netem", "delay", "5ms", "loss", "0.5%"]
        self.netem = (
            shutil.which("tc") is not None and subprocess.run(netem, capture_output=True).returncode == 0
        )

    def _write(self, name: str, number: int, contacts: list[str], authority: trustme.CA) -> None:
        files = self._certificate(authority, name, f"{self._subnet}.{number}")
        tls = zip(("certificate", "key", "authority"), map(str, files), strict=True)
        lines = [
            f'name = "{name}"',
            f'system = "{self._system}"',
            f'listen = "{self._subnet}.{number}:7000"',
            'status = "127.0.0.1:7100"',
            f"contacts = {json.dumps(contacts)}",
            f"nodes = {len(self._names)}",
            *self._lasting(name),
            "[tls]",
            *(f"{key} = {json.dumps(value)}" for key, value in tls),
        ]
        config = self._directory / f"{name}.toml"
        config.write_text("\n".join(lines) + "\n")
        self._entries[name] = {
            "name": name,
            "client": f"{self._subnet}.{number}:7000",
            "config": str(config),
            "log": str(self._directory / f"{name}.log"),
            "number": number,
        }

    def _lasting(self, name: str) -> list[str]:
        """The keys of what a node keeps."""
        from distributary.live.settings import NodeTable

        return [f'data = "{name}.data"'] if "data" in NodeTable.__dataclass_fields__ else []

    def _certificate(self, authority: trustme.CA, name: str, host: str) -> TlsFiles:
        files = TlsFiles(*(self._directory / f"{name}.{end}" for end in ("crt", "key", "ca")))
        if not files.key.exists():
            issued = authority.issue_cert(host)
            issued.cert_chain_pems[0].write_to_path(str(files.certificate))
            issued.private_key_pem.write_to_path(str(files.key))
            authority.cert_pem.write_to_path(str(files.authority))
        return files

    def _start(self, name: str) -> None:
        entry = self._entries[name]
        inside = ["ip", "netns", "exec", f"{self._prefix}n{entry['number']}"]
        with open(entry["log"], "ab") as log:
            self._processes[name] = subprocess.Popen(
                [*inside, sys.executable, "-m", "distributary.cli", "node", entry["config"]],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _wait_for(self, name: str) -> None:
        end = time.monotonic() + 60
        while not (self._health(name) or {}).get("joined"):
            assert time.monotonic() < end, (
                f"{name} has not joined: {Path(self._entries[name]['log']).read_text()}"
            )
            time.sleep(0.2)

    def _health(self, name: str) -> dict[str, Any] | None:
        """What a node says of itself; None when it does not answer."""
        inside = ["ip", "netns", "exec", f"{self._prefix}n{self._entries[name]['number']}"]
        asked = subprocess.run([*inside, sys.executable, "-S", "-c", HEALTH], capture_output=True, text=True)
        if asked.returncode != 0:
            return None
        told: dict[str, Any] = json.loads(asked.stdout)
        return told

    def _view(self) -> dict[str, Any]:
        found = {name: self._health(name) for name in self._names if name not in self._gone}
        nodes = [{**told, **told["place"], "name": name} for name, told in found.items() if told is not None]
        return {"nodes": nodes}

    async def _cut(self, victim: str, seconds: float) -> bool:
        outside = f"{self._prefix}v{self._entries[victim]['number']}"
        _ip("link", "set", outside, "down")
        await asyncio.sleep(seconds)
        state = Path(f"/sys/class/net/{outside}/operstate").read_text().strip()
        _ip("link", "set", outside, "up")
        return state == "down"

    async def _part(self, victim: str, seconds: float) -> bool:
        cables = [f"{self._prefix}v{self._entries[name]['number']}" for name in self._side_of(victim)]
        for cable in cables:
            _ip("link", "set", cable, "master", f"{self._prefix}b2")
        await asyncio.sleep(seconds)
        moved = [Path(f"/sys/class/net/{cable}/master").resolve().name for cable in cables]
        for cable in cables:
            _ip("link", "set", cable, "master", f"{self._prefix}br")
        return set(moved) == {f"{self._prefix}b2"}


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
