"""Clients that log in by their certificates, by MQTT, HTTP and WebSocket."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trustme

from distributary.client import RefusedError, connect
from distributary.edge.serve import ServedBroker, ServeSettings
from distributary.live.greeting import Endpoint
from distributary.model import Event
from live.loops import alone, until

FILE = """
[users.oven-7]
publish = [{topic = "heat"}]
subscribe = [{topic = "heat"}]

[certificates]
accepted = true
"""
CONNECT = bytes((0x10, 16, 0, 4)) + b"MQTT" + bytes((4, 2, 0, 60, 0, 4)) + b"oven"
"""Without user and password."""


@asynccontextmanager
async def served(directory: Path, authority: trustme.CA) -> AsyncIterator[ServedBroker]:
    names = [directory / name for name in ("access.toml", "server.crt", "server.key", "authority.crt")]
    own = authority.issue_cert("127.0.0.1")
    names[0].write_text(FILE)
    own.cert_chain_pems[0].write_to_path(str(names[1]))
    own.private_key_pem.write_to_path(str(names[2]))
    authority.cert_pem.write_to_path(str(names[3]))
    broker = ServedBroker(
        ServeSettings(mqtt=0, web=0, access=names[0], certificate=(names[1], names[2]), authority=names[3]),
        lambda note: None,
    )
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


def client(authority: trustme.CA, name: str | None) -> ssl.SSLContext:
    """What a client trusts, and the certificate that it shows."""
    context = ssl.create_default_context()
    authority.configure_trust(context)
    if name is not None:
        authority.issue_cert("client.example", common_name=name).configure_cert(context)
    return context


async def asked_by_http(where: Endpoint, context: ssl.SSLContext) -> bytes:
    reader, writer = await asyncio.open_connection(*where, ssl=context)
    writer.write(f"GET / HTTP/1.1\r\nHost: {where}\r\nConnection: close\r\n\r\n".encode())
    answer = await reader.readline()
    writer.close()
    return answer.split()[1]


async def welcomed_by_mqtt(where: Endpoint, context: ssl.SSLContext) -> int:
    reader, writer = await asyncio.open_connection(*where, ssl=context)
    writer.write(CONNECT)
    answer = await reader.readexactly(4)
    writer.close()
    return answer[3]


@alone
async def test_a_certificate_logs_in_everywhere(tmp_path: Path) -> None:
    authority = trustme.CA()
    async with served(tmp_path, authority) as broker:
        web, mqtt = broker.web_endpoint, broker.mqtt_endpoint
        oven = client(authority, "oven-7")
        async with connect(f"wss://{web}", name="pc", context=oven) as opened:  # noqa: SIM117
            async with opened.subscribed(topic="heat") as events:
                await opened.publish(Event("e1", "heat/7"))
                assert (await anext(events)).id == "e1"
        assert broker.sessions.get("oven-7/pc") is not None
        outcomes = []
        for name in ("oven-7", "eve", None):
            shown = client(authority, name)
            outcomes.append((await asked_by_http(web, shown), await welcomed_by_mqtt(mqtt, shown)))
        assert outcomes == [(b"200", 0), (b"401", 5), (b"401", 5)]
        for name in ("eve", None):
            with pytest.raises(RefusedError, match="certificate"):
                async with connect(f"wss://{web}", context=client(authority, name)):
                    pass
        await until(lambda: not broker.sessions.get("oven-7/pc").connected)  # type: ignore[union-attr]


@alone
async def test_a_certificate_of_another_authority_is_not_accepted(tmp_path: Path) -> None:
    authority = trustme.CA()
    async with served(tmp_path, authority) as broker:
        context = client(authority, None)
        trustme.CA().issue_cert("client.example", common_name="oven-7").configure_cert(context)
        with pytest.raises((ssl.SSLError, OSError, IndexError)):
            await asked_by_http(broker.web_endpoint, context)
