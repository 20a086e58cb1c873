"""Connects to whatever an endpoint names: a node of a network, or a broker's web server."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from ssl import SSLContext
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from distributary.client.connection import NETWORK, Client
from distributary.client.session import read_session
from distributary.client.web import WebClient
from distributary.errors import DistributaryError
from distributary.live.greeting import Endpoint, parse_endpoint
from distributary.live.security import TlsFiles, is_loopback
from distributary.overlay.broker import SessionState

SCHEMES = {"ws": "ws", "wss": "wss", "http": "ws", "https": "wss"}


def connect(*endpoints: str | Endpoint, **options: Any) -> Client | WebClient:
    """A client of these brokers, the first that answers; use it with `async with`.

    HOST:PORT is a node of a network (`connect_node` has the options: name, network, tls, lasting, session,
    place); ws://HOST:PORT or wss://HOST is a broker's web server (`connect_web`: name, token, user, password,
    context, lasting, expiry, mailbox, place). Either has `publish`, `subscribe`, `subscribed`, `batches` and
    `close`.
    """
    addresses = [each for each in endpoints if isinstance(each, str) and is_web_address(each)]
    if not addresses:
        return connect_node(*endpoints, **options)
    if len(addresses) < len(endpoints):
        raise DistributaryError("name endpoints of one kind: either HOST:PORT, or ws://HOST:PORT")
    return connect_web(*addresses, **options)


def connect_node(
    *endpoints: str | Endpoint,
    name: str | None = None,
    network: str = NETWORK,
    tls: TlsFiles | None = None,
    lasting: bool = True,
    session: SessionState | None = None,
    place: Mapping[str, Any] | None = None,
) -> Client:
    """A client of these brokers, the first that answers; use it with `async with`.

    Without a name it gets one of its own. Unless it is `lasting`, it does not connect again. With the session
    of an earlier client (`Client.session`) it goes on where that one was: it subscribes to the same, and is
    given what it has missed. Its events wait until `subscribed` is called with the id of their subscription.
    `place` is the same as a record, as `Client.batches` gives it.
    """
    if place is not None:
        session = read_session(place)
    if not endpoints:
        raise DistributaryError("name at least one endpoint of a broker, such as 127.0.0.1:7000")
    nodes = [parse_endpoint(each) if isinstance(each, str) else each for each in endpoints]
    for node in nodes:
        if tls is None and not is_loopback(node.host):
            raise DistributaryError(
                f"cannot connect to {node.host} without TLS: give certificate, key and authority"
            )
    known = {each.subscriber for each in session.subscriptions} if session is not None else set()
    if name is not None and not known <= {name}:
        raise DistributaryError(f"the session is that of {', '.join(sorted(known))}, not of {name}")
    name = name or next(iter(known), f"client-{uuid4().hex[:12]}")
    return Client(nodes, name, network, tls, lasting, session)


def is_web_address(text: str) -> bool:
    """Whether an address is that of a web server, and not HOST:PORT of a node.

    >>> is_web_address("ws://localhost:8080"), is_web_address("localhost:7000")
    (True, False)
    """
    return text.partition("://")[0] in SCHEMES and "://" in text


def connect_web(
    *addresses: str,
    name: str | None = None,
    token: str | None = None,
    user: str | None = None,
    password: str | None = None,
    context: SSLContext | None = None,
    lasting: bool = True,
    expiry: float | None = 3600.0,
    mailbox: Mapping[str, Any] | None = None,
    place: Mapping[str, Any] | None = None,
) -> WebClient:
    """A client of these web servers, such as ws://localhost:8080; use it with `async with`.

    `context` is for `wss://` where the system's own authorities do not do. `mailbox` has the bounds of the
    session's mailbox, such as {"events": 100000, "bytes": 1 << 28}. With the `place` of events that an
    earlier client has taken (`WebClient.batches`) it goes on behind them. DistributaryError for what is no
    such address, or where a secret would be sent for all to read.
    """
    places = [_socket_address(each, secret=token is not None or password is not None) for each in addresses]
    if not places:
        raise DistributaryError("name at least one address of a broker, such as ws://localhost:8080")
    headers = {}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    elif user is not None:
        pair = f"{user}:{password or ''}".encode()
        headers["Authorization"] = f"Basic {base64.b64encode(pair).decode()}"
    return WebClient(places, name, headers, context, lasting, expiry, mailbox, place)


def _socket_address(address: str, secret: bool) -> str:
    parts = urlsplit(address)
    if parts.scheme not in SCHEMES or not parts.hostname:
        raise DistributaryError(f"an address is such as ws://localhost:8080, not {address!r}")
    scheme = SCHEMES[parts.scheme]
    if secret and scheme == "ws" and not is_loopback(parts.hostname):
        raise DistributaryError(
            f"a token or a password is not sent to {parts.hostname} in the open: use wss://"
        )
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/ws"
