"""The console as a part of the web server: who a page is for, and how its library is started and stopped.

NiceGUI keeps its pages in a register of the process, so there is one console in a process at a time.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

from fastapi import FastAPI
from nicegui import ui
from starlette.requests import HTTPConnection

from distributary.edge.console.pages import Console, NamedByOperator
from distributary.edge.web.admission import require_own_page
from distributary.edge.web.faults import WebError
from distributary.edge.web.service import WebService
from distributary.live.broker import LiveBroker

PATH = "/console"


class ConsoleApplication:
    """Serves the pages below `PATH`: an ASGI application for the web server to mount."""

    def __init__(
        self, service: WebService, broker: LiveBroker, now: Callable[[], float], named: NamedByOperator
    ) -> None:
        self._service = service
        self._pages = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        self._open = AsyncExitStack()
        self.console = Console(service, broker, now, named)
        self.console.register()
        ui.run_with(
            self._pages,
            title="Distributary",
            dark=None,
            storage_secret=secrets.token_urlsafe(32),
            show_welcome_message=False,
        )

    async def start(self) -> None:
        """Begin to serve; to be called in the event loop of the server."""
        await self._open.enter_async_context(self._pages.router.lifespan_context(self._pages))
        self.console.start()

    async def stop(self) -> None:
        """End all pages."""
        self.console.stop()
        await self._open.aclose()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Serve a request, or a page's connection; pages of other origins get nothing."""
        if scope["type"] in ("http", "websocket"):
            try:
                require_own_page(self._service, HTTPConnection(scope))
            except WebError as error:
                await _refuse(scope, receive, send, error)
                return
        await self._pages(scope, receive, send)


async def _refuse(scope: Any, receive: Any, send: Any, error: WebError) -> None:
    """Answer a request with an error; close a connection before it is opened."""
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008, "reason": str(error)[:120]})
        return
    headers = [(b"content-type", b"text/plain; charset=utf-8")]
    await send({"type": "http.response.start", "status": error.status, "headers": headers})
    await send({"type": "http.response.body", "body": str(error).encode()})
