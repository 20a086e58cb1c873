"""The status of a node over HTTP, on loopback: `/health` in JSON and `/metrics` for Prometheus.

Only GET of these two is answered. A request has at most `MOST` bytes and must come within `PATIENCE` seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import suppress
from typing import Any

from distributary.errors import DistributaryError
from distributary.live.broker import LiveBroker
from distributary.live.greeting import Endpoint

MOST = 8_192
PATIENCE = 5.0


def health(broker: LiveBroker) -> dict[str, Any]:
    """What a node says of itself."""
    return {
        "name": broker.name,
        "pid": os.getpid(),
        "network": broker.network,
        "system": broker.system_name,
        "address": broker.address,
        "endpoint": str(broker.endpoint),
        "joined": broker.joined,
        "linked": broker.links.linked,
        "clients": broker.clients.names,
        "congested": broker.congested,
        "counts": dict(sorted(broker.counts.items())),
    }


def metrics(broker: LiveBroker) -> str:
    """The same as Prometheus reads it.

    Counts become counters `distributary_..._total`, of which the names are the counts' with underscores.
    """
    lines = []
    for name, value in sorted(broker.counts.items()):
        metric = f"distributary_{name.replace(' ', '_')}_total"
        lines += [f"# TYPE {metric} counter", f"{metric} {value}"]
    gauges = {
        "joined": int(broker.joined),
        "links": len(broker.links.linked),
        "clients": len(broker.clients.names),
        "congested": int(broker.congested),
    }
    for name, value in gauges.items():
        lines += [f"# TYPE distributary_{name} gauge", f"distributary_{name} {value}"]
    return "\n".join(lines) + "\n"


class StatusServer:
    """Answers for one broker."""

    def __init__(self, broker: LiveBroker) -> None:
        self._broker = broker
        self._server: asyncio.Server | None = None

    async def start(self, place: Endpoint) -> Endpoint:
        """Listen; returns where. DistributaryError when the port is taken."""
        try:
            self._server = await asyncio.start_server(self._answer, place.host, place.port, limit=MOST)
        except OSError as error:
            raise DistributaryError(f"cannot listen at {place} for status: {error.strerror}") from error
        return Endpoint(place.host, self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listen no more."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                asked = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), PATIENCE)
                writer.write(self._response(asked.split(b"\r\n", 1)[0].split()))
                await asyncio.wait_for(writer.drain(), PATIENCE)
        finally:
            writer.close()

    def _response(self, line: list[bytes]) -> bytes:
        if line[:1] != [b"GET"]:
            return _page("405 Method Not Allowed", "only GET\n")
        match line[1:2]:
            case [b"/health"]:
                code = "200 OK" if self._broker.joined else "503 Service Unavailable"
                return _page(code, json.dumps(health(self._broker)) + "\n", "application/json")
            case [b"/metrics"]:
                return _page("200 OK", metrics(self._broker), "text/plain; version=0.0.4")
        return _page("404 Not Found", "there are /health and /metrics\n")


def _page(status: str, text: str, kind: str = "text/plain") -> bytes:
    body = text.encode()
    head = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


def log_line(what: str) -> str:
    """A line of a node's log: the time in UTC, and what happened."""
    now = time.time()
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(now))}.{int(now % 1 * 1000):03d}Z {what}"
