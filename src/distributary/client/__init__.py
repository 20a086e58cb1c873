"""Publish to brokers of a network, and subscribe at them.

    async with connect("127.0.0.1:7000", name="ann") as client:
        await client.publish(Event("e1", "quotes/OTE", {"price": 8.4}))
        async for event in client.subscribe(topic="quotes/*", where="price > 8"):
            print(event)

Modules, in reading order:

- `session`: what a client has received, and what it presents to go on where it was.
- `running_queries`: the stream queries of a client.
- `batches`: events that are taken together, with the place to go on from.
- `connection`: the client of a node.
- `web`: the client of a broker's web server, by WebSocket.
- `endpoints`: `connect`, which gives either; `connect_node`, `connect_web`.
- `plain`: either, for programs without an event loop.
"""

from __future__ import annotations

from distributary.client.batches import TakenEvents
from distributary.client.connection import NETWORK, Client
from distributary.client.endpoints import connect
from distributary.client.plain import PlainClient, connect_plain
from distributary.client.running_queries import RefusedError
from distributary.client.session import read_session, session_record
from distributary.client.web import WebClient
from distributary.live.security import TlsFiles

__all__ = [
    "NETWORK",
    "Client",
    "PlainClient",
    "RefusedError",
    "TakenEvents",
    "TlsFiles",
    "WebClient",
    "connect",
    "connect_plain",
    "read_session",
    "session_record",
]
