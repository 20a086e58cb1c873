"""Connects to whatever an endpoint names: a node of a network, or a broker's web server."""

from __future__ import annotations

from typing import Any

from distributary.client.connection import Client
from distributary.client.connection import connect as connect_node
from distributary.client.web import WebClient, connect_web, is_web_address
from distributary.errors import DistributaryError
from distributary.live.greeting import Endpoint


def connect(*endpoints: str | Endpoint, **options: Any) -> Client | WebClient:
    """A client of these brokers, the first that answers; use it with `async with`.

    HOST:PORT is a node of a network (`connection.connect` has the options: name, network, tls, lasting,
    session); ws://HOST:PORT or wss://HOST is a broker's web server (`web.connect_web`: name, token, user,
    password, context, lasting, expiry). Either has `publish`, `subscribe`, `subscribed` and `close`.
    """
    addresses = [each for each in endpoints if isinstance(each, str) and is_web_address(each)]
    if not addresses:
        return connect_node(*endpoints, **options)
    if len(addresses) < len(endpoints):
        raise DistributaryError("name endpoints of one kind: either HOST:PORT, or ws://HOST:PORT")
    return connect_web(*addresses, **options)
