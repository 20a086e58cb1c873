"""Who a request comes from, and whether a web page may send it.

Rules:

- A token comes as `Authorization: Bearer`, a password as `Basic`, a certificate by TLS. Nothing
  secret stands in an address, except a ticket (`tickets`).
- A browser says which page's script sends a request (`Origin`). Pages of other origins may neither change
  anything nor open a WebSocket, unless the operator has allowed them: a browser sends what it knows of this
  server with every request, and on loopback it reaches a server that asks nobody to log in.
- A server that listens on loopback alone is only known by names of this machine: a page that has its own name
  lead to 127.0.0.1 is refused.
- What a proxy before this server may read otherwise than it is refused: two log-ins, two lengths of a body.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
from urllib.parse import urlsplit

from starlette.requests import HTTPConnection

from distributary.edge.access import AccessError, Identity
from distributary.edge.web.faults import WebError
from distributary.edge.web.service import WebService
from distributary.live.security import is_loopback

SAFE = ("GET", "HEAD", "OPTIONS")
"""Methods that change nothing."""
CLOSE = {"Connection": "close"}
LOG_IN = {"WWW-Authenticate": 'Bearer, Basic realm="distributary"'}


async def identity_of(service: WebService, request: HTTPConnection) -> Identity:
    """Who a request comes from; WebError when that is nobody who is let in."""
    ticket = request.query_params.get("ticket")
    if ticket is not None:
        identity = service.tickets.redeem(ticket)
        if identity is None or not service.access.known(identity):
            raise WebError(401, "the ticket is not good: each is good once, for a short time")
        return identity
    given = request.headers.getlist("authorization")
    if len(given) > 1:
        raise WebError(400, "Authorization stands there more than once")
    user, password, token = credentials(given[0] if given else None)
    loopback = request.client is not None and is_loopback(request.client.host)
    try:
        if password is None:
            certificate = certificate_of(service, request)
            return service.access.log_in(token=token, certificate=certificate, loopback=loopback)
        return await asyncio.to_thread(service.access.log_in, user=user, password=password, loopback=loopback)
    except AccessError as error:
        raise WebError(401, str(error)) from None


def certificate_of(service: WebService, request: HTTPConnection) -> str | None:
    """The user in the certificate of a connection, if it has shown one."""
    client = request.client
    return None if client is None else service.certificates.get((client.host, client.port))


def credentials(header: str | None) -> tuple[str | None, bytes | None, str | None]:
    """The user and password, or the token, of a header `Authorization`; WebError for one that is none.

    >>> credentials("Basic YW5uOnNlY3JldA=="), credentials("Bearer abc"), credentials(None)
    (('ann', b'secret', None), (None, None, 'abc'), (None, None, None))
    """
    if header is None:
        return None, None, None
    scheme, _, rest = header.strip().partition(" ")
    if scheme.lower() == "bearer" and rest.strip():
        return None, None, rest.strip()
    if scheme.lower() == "basic":
        try:
            user, colon, password = base64.b64decode(rest.strip(), validate=True).partition(b":")
            if colon:
                return user.decode(), password, None
        except (binascii.Error, ValueError):
            pass
    raise WebError(401, "Authorization is `Bearer TOKEN`, or `Basic` with a user and a password")


def require_one_length(request: HTTPConnection) -> None:
    """WebError when it can be read in two ways where a request ends, and so where the next one begins."""
    if "content-length" in request.headers and "transfer-encoding" in request.headers:
        raise WebError(400, "a body has Content-Length or Transfer-Encoding, not both")


def require_own_page(service: WebService, request: HTTPConnection) -> None:
    """WebError when a page of another origin sends this, or another name than this machine's leads here."""
    host = request.headers.get("host", "")
    if service.loopback_only and not is_loopback(_host_name(host)):
        raise WebError(421, f"this server is reached as localhost or 127.0.0.1, not as {host[:80]!r}")
    origin = request.headers.get("origin")
    reads = request.scope["type"] == "http" and request.scope["method"] in SAFE
    if origin is None or reads or origin in service.origins:
        return
    scheme = {"ws": "http", "wss": "https"}.get(request.url.scheme, request.url.scheme)
    if origin.lower() != f"{scheme}://{host}".lower():
        raise WebError(403, f"pages of {origin[:80]!r} may not do this here")


def _host_name(host: str) -> str:
    """The name in a header `Host`, without the port.

    >>> _host_name("localhost:8080"), _host_name("[::1]:8080"), _host_name("[")
    ('localhost', '::1', '')
    """
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""
