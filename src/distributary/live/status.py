"""The status of a node over HTTP, on loopback: `/health` in JSON and `/metrics` for Prometheus.

`/trace` sends a line for all that the node is given and wants, for as long as the connection lasts.

Only GET of these is answered, and where the node's file allows faults `/faults`: GET shows those that are
wanted and how often each fired, POST wants others (`link_faults`). Head and body of a request have at most
`MOST` bytes each and must come within `PATIENCE` seconds.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any

from msgspec import to_builtins

from distributary.errors import DistributaryError
from distributary.live.broker import LiveBroker
from distributary.live.greeting import Endpoint, reason_of
from distributary.live.kernel_process import KERNEL_PROCESS
from distributary.live.link_faults import LinkFaults
from distributary.live.rates import RateMeter
from distributary.metrics_text import CONTENT_TYPE, metrics_text

MOST = 8_192
MOST_UNREAD = 64 << 20
"""Bytes of a trace that whoever asked for it has not taken."""
TRACE = [b"GET", b"/trace"]
PATIENCE = 5.0


def health(broker: LiveBroker, rates: Mapping[str, float]) -> dict[str, Any]:
    """What a node says of itself; with how many events, messages and bytes a second there were lately."""
    return {
        "name": broker.name,
        "pid": os.getpid(),
        "network": broker.network,
        "system": broker.system_name,
        "address": broker.address,
        "endpoint": str(broker.endpoint),
        "joined": broker.joined,
        "kernels": KERNEL_PROCESS.state,
        "linked": broker.links.linked,
        "clients": broker.clients.names,
        "congested": broker.congested,
        "waiting": broker.clients.waiting,
        "place": broker.place,
        "links": [
            {
                "node": link.address,
                "linked": link.linked,
                "round_trip_ms": None if link.round_trip is None else round(1000 * link.round_trip, 3),
                "unsent": link.unsent,
                "version": link.version,
            }
            for link in broker.links.states
        ],
        "rates": rates,
        "counts": dict(sorted(broker.counts.items())),
    }


def metrics(broker: LiveBroker, more: Mapping[str, int] = MappingProxyType({})) -> str:
    """The same as Prometheus reads it, with gauges of whoever runs the node.

    Counts become counters `distributary_..._total`, of which the names are the counts' with underscores.
    """
    gauges = {
        "joined": int(broker.joined),
        "kernels_ready": int(KERNEL_PROCESS.state == "ready"),
        "links": len(broker.links.linked),
        "clients": len(broker.clients.names),
        "congested": int(broker.congested),
        "waiting_publishers": broker.clients.waiting,
        "unsent_bytes": sum(link.unsent for link in broker.links.states),
        **more,
    }
    return metrics_text(dict(sorted(broker.counts.items())), gauges)


class StatusServer:
    """Answers for one broker; `more` gives what else there is to tell, by names for Prometheus."""

    def __init__(self, broker: LiveBroker, more: Callable[[], Mapping[str, int]] = dict) -> None:
        self._broker, self._more = broker, more
        self._meter = RateMeter(lambda: broker.counts)
        self._server: asyncio.Server | None = None

    async def start(self, place: Endpoint) -> Endpoint:
        """Listen; returns where. DistributaryError when the port is taken."""
        try:
            self._server = await asyncio.start_server(self._answer, place.host, place.port, limit=MOST)
        except OSError as error:
            raise DistributaryError(f"cannot listen at {place} for status: {reason_of(error)}") from error
        self._meter.start()
        return Endpoint(place.host, self._server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        """Listen no more."""
        self._meter.stop()
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(TimeoutError, OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
                async with asyncio.timeout(PATIENCE):
                    head = await reader.readuntil(b"\r\n\r\n")
                    body = await reader.readexactly(_length(head))
                    line = head.split(b"\r\n", 1)[0].split()
                    if line[:2] != TRACE:
                        writer.write(self._response(line, body))
                        await writer.drain()
                if line[:2] == TRACE:
                    await self._record(reader, writer)
        finally:
            writer.close()

    async def _record(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Send a line for all that the node is given and wants, until whoever asked for it has gone."""
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n")
        end = self._broker.record(lambda line: _send_line(writer, line))
        try:
            await reader.read()
        finally:
            end()

    def _response(self, line: list[bytes], body: bytes) -> bytes:
        faults = self._broker.links.lines.faults
        if line[1:2] == [b"/faults"] and faults is not None:
            return _fault_page(faults, body if line[0] == b"POST" else None)
        if line[:1] != [b"GET"]:
            return _page("405 Method Not Allowed", "only GET\n")
        match line[1:2]:
            case [b"/health"]:
                code = "200 OK" if self._broker.joined else "503 Service Unavailable"
                told = health(self._broker, self._meter.rates()) | dict(self._more())
                return _page(code, json.dumps(told) + "\n", "application/json")
            case [b"/metrics"]:
                return _page("200 OK", metrics(self._broker, self._more()), CONTENT_TYPE)
        return _page("404 Not Found", "there are /health, /metrics and /trace\n")


def _send_line(writer: asyncio.StreamWriter, line: str) -> None:
    """Send a line, or end the connection of a reader that is too slow: none is left out in silence."""
    if writer.transport.get_write_buffer_size() > MOST_UNREAD:
        writer.transport.abort()
    else:
        writer.write(f"{line}\n".encode())


def _fault_page(faults: LinkFaults, asked: bytes | None) -> bytes:
    """Have the faults that are asked for, if any, and show them."""
    try:
        if asked is not None:
            faults.ask(asked)
    except DistributaryError as error:
        return _page("400 Bad Request", f"{error}\n")
    shown = {"wanted": to_builtins(faults.asked), "fired": dict(faults.fired)}
    return _page("200 OK", json.dumps(shown) + "\n", "application/json")


def _length(head: bytes) -> int:
    """How long the body is, at most `MOST`; 0 where the head does not say."""
    for line in head.split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"content-length" and value.strip().isdigit():
            return min(int(value), MOST)
    return 0


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
