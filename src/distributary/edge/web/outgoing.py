"""Requests that the broker sends: to addresses that users name, so only to those that they could reach too.

Rules:

- A user's address may not lead the broker to this machine or a private network, unless the operator allows
  it. The name is looked up once for each request, all of its addresses are checked, and the connection goes
  to one of those that were checked: a name that leads elsewhere a moment later gains nothing.
- Redirections are not followed. Of an answer as much is read as was asked for; a slow one is given up.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

import h11

from distributary.errors import DistributaryError

PATIENCE = 10.0
"""Seconds that a request may take, with its answer."""
LONGEST_ADDRESS = 2_000
MOST_READ = 64 << 10
"""Bytes of an answer's headers."""


class OutgoingError(DistributaryError):
    """A request that could not be sent, or was not answered."""


def checked_address(url: object) -> SplitResult:
    """The parts of an address that requests may be sent to; OutgoingError for another one.

    >>> checked_address("https://example.org/hook").hostname
    'example.org'
    """
    if not isinstance(url, str) or len(url) > LONGEST_ADDRESS or not url.isascii() or not url.isprintable():
        raise OutgoingError("an address is a text such as https://example.org/hook")
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise OutgoingError(f"this is no address: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or " " in url:
        raise OutgoingError("an address begins with http:// or https:// and names a host")
    if parts.username is not None or parts.password is not None or parts.fragment:
        raise OutgoingError("an address has no user, password or fragment")
    return parts


def is_public(address: str) -> bool:
    """Whether an IP address is one of the public internet.

    >>> [is_public(each) for each in ("93.184.216.34", "10.0.0.1", "::ffff:127.0.0.1", "169.254.169.254")]
    [True, False, False, False]
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(found, ipaddress.IPv6Address):
        inner = found.ipv4_mapped or found.sixtofour or (found.teredo[1] if found.teredo else None)
        if inner is not None and not is_public(str(inner)):
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved


async def resolved(parts: SplitResult, private: bool) -> tuple[str, int]:
    """Where an address leads: one IP address and the port; OutgoingError where that may not be."""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        found = await asyncio.get_running_loop().getaddrinfo(
            parts.hostname, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP
        )
    except (OSError, UnicodeError) as error:  # UnicodeError: a part of the name is empty or too long
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutgoingError(f"{parts.hostname} is not found: {reason or error}") from None
    addresses = [str(each[4][0]) for each in found]
    if not private and not all(map(is_public, addresses)):
        raise OutgoingError(f"{parts.hostname} is an address of this machine or a private network")
    return addresses[0], port


class WebAnswer(NamedTuple):
    """The answer to a request: its status, its headers by their names in small letters, and its body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


async def post(
    url: str, body: bytes, headers: Mapping[str, str], *, private: bool, patience: float = PATIENCE
) -> int:
    """Send a request; gives the status of the answer. OutgoingError when there is none."""
    asked = _Question("POST", checked_address(url), {"content-length": str(len(body)), **headers}, body)
    return (await _answered(asked, private, patience, most=0)).status


async def get(
    url: str, headers: Mapping[str, str], *, private: bool, most: int, patience: float = PATIENCE
) -> WebAnswer:
    """Ask for what is at an address, so many bytes at most; OutgoingError for no answer, or a longer one."""
    return await _answered(_Question("GET", checked_address(url), headers, b""), private, patience, most)


class _Question(NamedTuple):
    """A request."""

    method: str
    parts: SplitResult
    headers: Mapping[str, str]
    body: bytes

    def sent(self, line: h11.Connection) -> bytes:
        """Its bytes."""
        target = (self.parts.path or "/") + (f"?{self.parts.query}" if self.parts.query else "")
        named = {"host": self.parts.netloc, "connection": "close", **self.headers}
        request = h11.Request(method=self.method, target=target, headers=list(named.items()))
        return b"".join(
            line.send(event) or b"" for event in (request, h11.Data(data=self.body), h11.EndOfMessage())
        )


async def _answered(asked: _Question, private: bool, patience: float, most: int) -> WebAnswer:
    """The answer to a request; nothing of its body is read where `most` is 0."""
    host = asked.parts.hostname
    try:
        async with asyncio.timeout(patience):
            return await _exchanged(asked, private, most)
    except TimeoutError:
        raise OutgoingError(f"{host} has not answered within {patience:g} seconds") from None
    except (OSError, ssl.SSLError, h11.ProtocolError) as error:
        raise OutgoingError(f"{host} cannot be reached: {error}") from None


async def _exchanged(asked: _Question, private: bool, most: int) -> WebAnswer:
    address, port = await resolved(asked.parts, private)
    secure = {}
    if asked.parts.scheme == "https":
        secure = {"ssl": ssl.create_default_context(), "server_hostname": asked.parts.hostname}
    reader, writer = await asyncio.open_connection(address, port, limit=MOST_READ, **secure)  # type: ignore[arg-type]
    try:
        line = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_READ)
        writer.write(asked.sent(line))
        await writer.drain()
        while not isinstance(event := await _next(line, reader), h11.Response):
            pass
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in event.headers}
        body = await _body(line, reader, most) if most else b""
        return WebAnswer(event.status_code, headers, body)
    finally:
        writer.close()


async def _next(line: h11.Connection, reader: asyncio.StreamReader) -> object:
    """What comes next of an answer."""
    while (event := line.next_event()) is h11.NEED_DATA:
        line.receive_data(await reader.read(MOST_READ))
    return event


async def _body(line: h11.Connection, reader: asyncio.StreamReader, most: int) -> bytes:
    """The body of an answer; OutgoingError when it is longer than is wanted."""
    body = bytearray()
    while isinstance(event := await _next(line, reader), h11.Data):
        body += event.data
        if len(body) > most:
            raise OutgoingError(f"the answer has more than {most:,} bytes")
    return bytes(body)
