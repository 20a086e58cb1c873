"""The web application: which request does what. `docs/web.md` shows each in use.

A handler is given the service, the request and who it comes from. Whatever it raises of ours becomes an
answer with a status and, in JSON, `{"error": why}`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack, aclosing, contextmanager
from typing import Any
from uuid import uuid4

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Mount, Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from distributary.edge.access import AccessError, Identity
from distributary.edge.mailbox import MailboxBounds
from distributary.edge.mqtt.filters import read_change
from distributary.edge.sessions import Session
from distributary.edge.web import managing
from distributary.edge.web.admission import (
    CLOSE,
    LOG_IN,
    certificate_of,
    identity_of,
    require_one_length,
    require_own_page,
)
from distributary.edge.web.bodies import read_events
from distributary.edge.web.explaining import explain
from distributary.edge.web.faults import WebError
from distributary.edge.web.openapi import description, page
from distributary.edge.web.publishing import publish, wait_for_room
from distributary.edge.web.pulling import Puller
from distributary.edge.web.records import (
    session_summary,
    subscription_record,
    subscription_records,
    to_json,
)
from distributary.edge.web.server_sent import server_sent
from distributary.edge.web.service import WebService
from distributary.edge.web.sockets import SUBPROTOCOL, SocketClient
from distributary.edge.web.tickets import LASTS
from distributary.edge.web.webhooks import MARK as WEBHOOK
from distributary.errors import DistributaryError, InputError
from distributary.json_text import read_object, read_value
from distributary.live.security import is_loopback

Handler = Callable[[WebService, Request, Identity], Awaitable[Response]]
ASKED = ("topic", "where", "path", "change", "from")
STREAM_BOUNDS = MailboxBounds(events=100_000)
"""Of a session that ends with its connection: a replay may be long."""
MQTT = "mqtt"
"""The subprotocol of MQTT over WebSocket."""
NEVER_GIVEN = 1 << 62
"""A place that no mailbox has given."""


def application(service: WebService, mounted: Mapping[str, ASGIApp] | None = None) -> Starlette:
    """The application of a service, with other applications below paths of their own."""
    routes: list[BaseRoute] = [
        *(_route(service, path, methods) for path, methods in HANDLERS.items()),
        WebSocketRoute("/ws", _forgetting(service, _socket_handler(service))),
        WebSocketRoute("/mqtt", _forgetting(service, _mqtt_handler(service))),
        *(Mount(path, application) for path, application in (mounted or {}).items()),
    ]
    middleware = []
    if service.origins:
        everything = ["*"]
        middleware.append(
            Middleware(
                CORSMiddleware,
                allow_origins=service.origins,
                allow_methods=everything,
                allow_headers=everything,
            )
        )
    return Starlette(
        routes=routes, middleware=middleware, exception_handlers={HTTPException: _not_found, 500: _failed}
    )


# Requests.


async def post_events(service: WebService, request: Request, identity: Identity) -> Response:
    """Publish events; answered when they are safe."""
    body = await _body(service, request)
    events, rejected = read_events(request.headers, body, service.limits.events)
    await wait_for_room(service)
    outcome = await publish(service, identity, events, rejected, len(body))
    return answer(outcome.record(), outcome.status)


async def get_events(service: WebService, request: Request, identity: Identity) -> Response:
    """Server-sent events of a subscription that is made for this connection and ends with it."""
    asked = _asked_filters(request)
    puller = Puller()
    subscriber = managing.subscriber_of(identity, f"stream-{uuid4().hex}")
    with _counted(service, identity) as stays:
        session, _ = managing.attached(service, identity, subscriber, puller, STREAM_BOUNDS, 0)
        try:
            await managing.put_subscription(service, identity, session, asked, "s1")
        except BaseException:
            session.detach(puller)
            raise
        last = NEVER_GIVEN if request.headers.get("last-event-id") else None
        return _stream(stays, server_sent(session, puller, last, _allowed(service, identity)))


async def get_session(service: WebService, request: Request, identity: Identity) -> Response:
    """What there is of a session."""
    client = request.path_params["session"]
    return answer(session_summary(managing.session_of(service, identity, client), client))


async def put_session(service: WebService, request: Request, identity: Identity) -> Response:
    """Make a session, or give it other bounds."""
    client = request.path_params["session"]
    session, new = managing.put_session(service, identity, client, await _object(service, request))
    return answer(session_summary(session, client), 201 if new else 200)


async def delete_session(service: WebService, request: Request, identity: Identity) -> Response:
    """End a session: its subscriptions and its mailbox are gone."""
    managing.session_of(service, identity, request.path_params["session"]).close("its owner has ended it")
    return Response(status_code=204)


async def get_subscriptions(service: WebService, request: Request, identity: Identity) -> Response:
    """The subscriptions of a session."""
    session = managing.session_of(service, identity, request.path_params["session"])
    return answer(subscription_records(session))


async def get_subscription(service: WebService, request: Request, identity: Identity) -> Response:
    """One subscription of a session."""
    session = managing.session_of(service, identity, request.path_params["session"])
    found = session.subscriptions.get(request.path_params["subscription"])
    if found is None:
        raise WebError(404, "there is no such subscription")
    return answer(subscription_record(session, found))


async def put_subscription(service: WebService, request: Request, identity: Identity) -> Response:
    """Register or change a subscription; answered when it is in force."""
    record = await _object(service, request)
    session = managing.session_of(service, identity, request.path_params["session"])
    id = request.path_params["subscription"]
    subscription, new = await managing.put_subscription(service, identity, session, record, id)
    return answer(subscription_record(session, subscription), 201 if new else 200)


async def delete_subscription(service: WebService, request: Request, identity: Identity) -> Response:
    """End a subscription."""
    session = managing.session_of(service, identity, request.path_params["session"])
    await managing.remove_subscription(service, session, request.path_params["subscription"])
    return Response(status_code=204)


async def get_session_events(service: WebService, request: Request, identity: Identity) -> Response:
    """Server-sent events of a session, after `Last-Event-ID`."""
    session = managing.session_of(service, identity, request.path_params["session"])
    given = request.headers.get("last-event-id") or request.query_params.get("after")
    last = None
    if given is not None:
        if not (given.isascii() and given.isdecimal() and len(given) < 19):
            raise WebError(400, "Last-Event-ID is the id of the last event that came, a whole number")
        last = int(given)
    puller = Puller()
    with _counted(service, identity) as stays:
        if last is not None and last <= session.mailbox.last:
            session.acknowledge_through(last)
        bounds, expiry = session.mailbox.bounds, session.expiry
        managing.attached(service, identity, session.subscriber, puller, bounds, expiry)
        return _stream(stays, server_sent(session, puller, last, _allowed(service, identity)))


async def post_acknowledgement(service: WebService, request: Request, identity: Identity) -> Response:
    """Acknowledge everything up to a place."""
    record = await _object(service, request)
    session = managing.session_of(service, identity, request.path_params["session"])
    place = record.get("place")
    if not isinstance(place, int) or isinstance(place, bool) or place < 0:
        raise InputError("must be the place of an event, a whole number", field="place")
    if place > session.mailbox.last:
        raise InputError(f"no event has had it here: the last one's is {session.mailbox.last}", field="place")
    session.acknowledge_through(place)
    return Response(status_code=204)


async def post_ticket(service: WebService, request: Request, identity: Identity) -> Response:
    """A ticket for an address, where a script cannot send headers."""
    return answer({"ticket": service.tickets.issue(identity), "seconds": LASTS}, 201)


async def get_webhook(service: WebService, request: Request, identity: Identity) -> Response:
    """What becomes of a session's webhook."""
    return answer(service.webhooks.state(_with_webhook(service, request, identity)))


async def put_webhook(service: WebService, request: Request, identity: Identity) -> Response:
    """Have what a session has sent to an address; one that was parked goes on."""
    record = await _object(service, request)
    session = managing.session_of(service, identity, request.path_params["session"])
    return answer(await service.webhooks.put(session, record, identity))


async def delete_webhook(service: WebService, request: Request, identity: Identity) -> Response:
    """Send nothing any more."""
    service.webhooks.remove(_with_webhook(service, request, identity))
    return Response(status_code=204)


async def post_explanation(service: WebService, request: Request, identity: Identity) -> Response:
    """Why an event would match a subscription, or would not."""
    return answer(await explain(service, identity, await _object(service, request)))


async def get_description(service: WebService, request: Request, identity: Identity) -> Response:
    """What can be asked for, as OpenAPI describes it."""
    return answer(description())


async def get_page(service: WebService, request: Request, identity: Identity) -> Response:
    """What can be asked for, as a page to read."""
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}
    return Response(page(), headers=headers, media_type="text/html")


HANDLERS: dict[str, dict[str, Handler]] = {
    "/events": {"POST": post_events, "GET": get_events},
    "/sessions/{session}": {"GET": get_session, "PUT": put_session, "DELETE": delete_session},
    "/sessions/{session}/subscriptions": {"GET": get_subscriptions},
    "/sessions/{session}/subscriptions/{subscription}": {
        "GET": get_subscription,
        "PUT": put_subscription,
        "DELETE": delete_subscription,
    },
    "/sessions/{session}/events": {"GET": get_session_events},
    "/sessions/{session}/acknowledgements": {"POST": post_acknowledgement},
    "/sessions/{session}/webhook": {"GET": get_webhook, "PUT": put_webhook, "DELETE": delete_webhook},
    "/explanations": {"POST": post_explanation},
    "/tickets": {"POST": post_ticket},
    "/openapi.json": {"GET": get_description},
    "/": {"GET": get_page},
}
"""What is done for which path and method."""


def answer(record: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """An answer in JSON."""
    kept = {"Cache-Control": "no-store", **(headers or {})}
    return Response(to_json(record), status, headers=kept, media_type="application/json")


# Inside.


def _route(service: WebService, path: str, methods: Mapping[str, Handler]) -> Route:
    async def handle(request: Request) -> Response:
        try:
            require_one_length(request)
            require_own_page(service, request)
            identity = await identity_of(service, request)
            method = "GET" if request.method == "HEAD" else request.method
            return await methods[method](service, request, identity)
        except WebError as error:
            return answer({"error": str(error)}, error.status, {401: LOG_IN, 400: CLOSE}.get(error.status))
        except InputError as error:
            return answer({"error": str(error)}, 422)
        except DistributaryError as error:
            return answer({"error": str(error)}, 503)
        except ClientDisconnect:
            return Response(status_code=400)

    return Route(path, handle, methods=list(methods))


def _socket_handler(service: WebService) -> Callable[[WebSocket], Awaitable[None]]:
    async def handle(socket: WebSocket) -> None:
        try:
            require_own_page(service, socket)
            identity = await identity_of(service, socket)
        except WebError as error:
            refused = answer({"error": str(error)}, error.status, LOG_IN if error.status == 401 else None)
            await socket.send_denial_response(refused)
            return
        offered = socket.scope.get("subprotocols", [])
        await socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
        await SocketClient(service, identity, socket).serve()

    return handle


def _mqtt_handler(service: WebService) -> Callable[[WebSocket], Awaitable[None]]:
    async def handle(socket: WebSocket) -> None:
        try:
            require_own_page(service, socket)
            if service.mqtt is None:
                raise WebError(404, "MQTT is not served here")
            if MQTT not in socket.scope.get("subprotocols", []):
                raise WebError(400, f"ask for the subprotocol {MQTT!r}")
        except WebError as error:
            await socket.send_denial_response(answer({"error": str(error)}, error.status))
            return
        from distributary.edge.mqtt.room import MqttPeer
        from distributary.edge.web.mqtt_sockets import serve_mqtt

        await socket.accept(MQTT)
        loopback = socket.client is not None and is_loopback(socket.client.host)
        await serve_mqtt(service.mqtt, socket, MqttPeer(loopback, certificate_of(service, socket)))

    return handle


def _forgetting(
    service: WebService, handle: Callable[[WebSocket], Awaitable[None]]
) -> Callable[[WebSocket], Awaitable[None]]:
    """Serve a WebSocket, then forget the certificate of its connection, which is no longer HTTP's."""

    async def serve(socket: WebSocket) -> None:
        try:
            await handle(socket)
        finally:
            if socket.client is not None:
                service.certificates.pop((socket.client.host, socket.client.port), None)

    return serve


def _with_webhook(service: WebService, request: Request, identity: Identity) -> Session:
    session = managing.session_of(service, identity, request.path_params["session"])
    if WEBHOOK not in session.marks:
        raise WebError(404, "the session has no webhook")
    return session


async def _body(service: WebService, request: Request) -> bytes:
    """The body of a request, within the limits."""
    most = service.limits.body
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise WebError(415, "bodies are not compressed here; leave Content-Encoding out")
    too_long = WebError(413, f"a body has at most {most:,} bytes")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > most:
        raise too_long
    parts, size = [], 0
    try:
        async with asyncio.timeout(service.limits.patience):
            async for part in request.stream():
                size += len(part)
                if size > most:
                    raise too_long
                parts.append(part)
    except TimeoutError:
        raise WebError(408, f"the body has not come within {service.limits.patience:g} seconds") from None
    return b"".join(parts)


async def _object(service: WebService, request: Request) -> dict[str, Any]:
    """The JSON object in the body of a request; an empty one for no body."""
    body = await _body(service, request)
    if not body.strip():
        return {}
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise WebError(415, "the body is to be application/json; say so in the header Content-Type")
    return read_object(body)


def _asked_filters(request: Request) -> dict[str, Any]:
    """The subscription that the address of a request says; InputError for a word that none has."""
    given = request.query_params.multi_items()
    asked: dict[str, Any] = dict(given)
    asked.pop("ticket", None)
    for name in asked:
        if name not in ASKED:
            raise InputError(f"is none of {', '.join(ASKED)}", field=name[:60])
        if sum(each == name for each, _ in given) > 1:
            raise InputError("given twice; keep one of them", field=name)
    if asked.get("from", "").startswith("["):
        asked["from"] = read_value(asked["from"].encode())
    if "change" in asked:
        asked["change"] = read_change(asked["change"])
    return asked


def _allowed(service: WebService, identity: Identity) -> Callable[[], bool]:
    """Tells whether somebody who has logged in may still be here."""
    return lambda: service.access.known(identity)


@contextmanager
def _counted(service: WebService, identity: Identity) -> Iterator[ExitStack]:
    """Count a connection; what is given says by its end when the connection has ended."""
    try:
        service.access.connect(identity)
    except AccessError as error:
        raise WebError(429, str(error)) from None
    with ExitStack() as stack:
        stack.callback(service.access.release, identity)
        yield stack


def _stream(counted: ExitStack, content: AsyncGenerator[bytes]) -> Response:
    """Server-sent events, for as long as the connection lasts."""
    stays = counted.pop_all()

    async def parts() -> AsyncIterator[bytes]:
        with stays:
            async with aclosing(content):
                async for part in content:
                    yield part

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(parts(), media_type="text/event-stream", headers=headers)


async def _not_found(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reasons = {404: "there is nothing at this address; /openapi.json says what there is where"}
    return answer({"error": reasons.get(error.status_code, error.detail)}, error.status_code, error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    return answer({"error": "this failed; the server's log has more"}, 500)
