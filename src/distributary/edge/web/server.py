"""Listens for the web: uvicorn within the event loop of a node, with limits on how slowly requests may come.

uvicorn waits for the headers of a request as long as its client likes. Here a connection ends that has not
brought a whole request's headers in time, whatever it has brought until then.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from distributary.edge.access.certificates import certificate_user
from distributary.edge.web.application import application
from distributary.edge.web.service import WebLimits, WebService
from distributary.errors import DistributaryError
from distributary.live.greeting import Endpoint, reason_of
from distributary.live.security import is_loopback

FAREWELL = 2
"""Seconds that connections have to end when the server does."""


class WebServer:
    """The listener of a service."""

    def __init__(
        self,
        service: WebService,
        tls: ssl.SSLContext | None = None,
        mounted: Mapping[str, ASGIApp] | None = None,
    ) -> None:
        self._service, self._tls = service, tls
        self._mounted = mounted
        """Other applications that are served, by the paths below which they are."""
        self._server: _Server | None = None
        self._task: asyncio.Task[None] | None = None
        self.endpoint: Endpoint | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> Endpoint:
        """Listen; gives where. DistributaryError when that cannot be, or would be for anybody."""
        require_safe(host, self._tls is not None, self._service.access.configured)
        listening = listen(host, port)
        limits = self._service.limits
        config = uvicorn.Config(
            application(self._service, self._mounted),
            http=_protocol_within(limits, self._service.certificates),
            ws="websockets-sansio",
            ws_max_size=limits.body,
            ws_per_message_deflate=False,
            h11_max_incomplete_event_size=limits.headers,
            limit_concurrency=limits.connections,
            timeout_graceful_shutdown=FAREWELL,
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        config.load()
        config.ssl = self._tls
        self._server = _Server(config)
        self._task = asyncio.create_task(self._server.serve(sockets=[listening]))
        while not self._server.started and not self._task.done():
            await asyncio.sleep(0)
        if self._task.done():
            await self._task
        self._service.start()
        self.endpoint = Endpoint(host, listening.getsockname()[1])
        return self.endpoint

    async def stop(self) -> None:
        """Stop listening, and end all connections."""
        if self._server is not None and self._task is not None:
            await self._service.webhooks.stop()
            self._service.end()
            self._server.should_exit = True
            await self._task


def require_safe(host: str, tls: bool, log_in: bool) -> None:
    """Refuse to listen beyond this machine without TLS and log-in."""
    if is_loopback(host):
        return
    lacks = [what for what, there in (("TLS", tls), ("an access file", log_in)) if not there]
    if lacks:
        raise DistributaryError(
            f"listening on {host}, beyond this machine, needs {' and '.join(lacks)}; or listen on 127.0.0.1"
        )


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens; DistributaryError when the port is taken, say."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
        listening.listen(1024)
        listening.setblocking(False)
    except OSError as error:
        listening.close()
        raise DistributaryError(f"cannot listen on {Endpoint(host, port)}: {reason_of(error)}") from error
    return listening


class _Server(uvicorn.Server):
    """Leaves signals to the process that it runs in."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def _protocol_within(limits: WebLimits, certificates: dict[tuple[str, int], str]) -> type[H11Protocol]:
    """The protocol of connections whose requests come within limits, and whose certificates are noted."""

    class LimitedProtocol(H11Protocol):
        """Ends a connection whose request's headers take too long."""

        _alarm: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            name = certificate_user(transport)
            if name is not None and self.client is not None:
                certificates[self.client] = name
            self._expect_headers()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle is not None and not self.cycle.response_complete:
                self._expect_nothing()
            elif self._alarm is None:
                self._expect_headers()

        def connection_lost(self, exc: Exception | None) -> None:
            self._expect_nothing()
            if self.client is not None:
                certificates.pop(self.client, None)
            super().connection_lost(exc)

        def _expect_headers(self) -> None:
            self._alarm = self.loop.call_later(limits.patience, self._too_slow)

        def _expect_nothing(self) -> None:
            if self._alarm is not None:
                self._alarm.cancel()
                self._alarm = None

        def _too_slow(self) -> None:
            waits = self.cycle is None or self.cycle.response_complete
            if waits and not self.transport.is_closing() and self.transport.get_protocol() is self:
                self.transport.close()

    return LimitedProtocol
