"""A server of a test's own, of which no connection is left open."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def listening(serve: Serve) -> AsyncIterator[int]:
    """Has every connection served like this; gives the port. A connection ends with what serves it."""
    there: set[asyncio.StreamWriter] = set()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there.add(writer)
        try:
            await serve(reader, writer)
        finally:
            there.discard(writer)
            writer.close()

    server = await asyncio.start_server(served, "127.0.0.1", 0)
    try:
        yield int(server.sockets[0].getsockname()[1])
    finally:
        server.close()
        await asyncio.sleep(0.01)  # who is just being let in is served first
        for writer in there:
            writer.transport.abort()
