"""What can be asked for by HTTP, described: as OpenAPI in JSON, and as a page to read without scripts."""

from __future__ import annotations

from functools import cache
from html import escape
from typing import Any

from distributary import __version__

TEXT = {"type": "string"}
NUMBER = {"type": "number"}
WHOLE = {"type": "integer", "minimum": 0}
SECONDS = {"type": ["number", "null"], "minimum": 0}


def _object(required: tuple[str, ...] = (), **members: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"type": "object", "properties": members}
    return made | ({"required": list(required)} if required else {})


def _array(items: Any) -> dict[str, Any]:
    return {"type": "array", "items": items}


def _reference(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/schemas/{name}"}


SCHEMAS: dict[str, Any] = {
    "Event": {
        **_object(id=TEXT, source=TEXT, topic=TEXT, document=TEXT),
        "additionalProperties": True,
        "description": "All other members are attributes. One without an id is given one.",
    },
    "Filters": {
        **_object(
            topic=TEXT, where=TEXT, path=TEXT, change={"type": "object", "additionalProperties": NUMBER}
        ),
        "description": "What must all hold of an event; at least one.",
    },
    "Subscription": {
        "allOf": [_reference("Filters"), _object(("id",), id=TEXT, in_force=_array(_reference("Filters")))],
        "description": "What is in force is told where grants leave less: an event must pass one of them.",
    },
    "Published": _object(
        ("published", "ids", "rejected"),
        published=WHOLE,
        ids=_array(TEXT),
        rejected=_array(_object(("place", "reason"), place=WHOLE, reason=TEXT)),
    ),
    "Settings": _object(
        policy={"type": "string", "enum": ["keep", "latest", "drop-oldest", "disconnect"]},
        events=WHOLE,
        bytes=WHOLE,
        seconds=SECONDS,
        expiry=SECONDS,
    ),
    "Session": {
        "allOf": [
            _reference("Settings"),
            _object(
                ("session", "connected", "subscriptions", "kept", "last", "given_up"),
                session=TEXT,
                connected={"type": "boolean"},
                kept=WHOLE,
                last=WHOLE,
                given_up=WHOLE,
                subscriptions=_array(_reference("Subscription")),
            ),
        ]
    },
    "Webhook": _object(
        ("url", "state", "together"),
        url=TEXT,
        together=WHOLE,
        state={"type": "string", "enum": ["running", "parked", "displaced"]},
        reason=TEXT,
        secret=TEXT,
    ),
    "WebhookSettings": _object(("url",), url=TEXT, secret=TEXT, together=WHOLE),
    "Question": {
        **_object(("event", "subscription"), event=_reference("Event"), session=TEXT),
        "description": "The subscription is a record of filters, or the id of one of the session.",
    },
    "Explanation": _object(
        ("matches", "filters"),
        matches={"type": "boolean"},
        filters=_array(
            _object(
                ("kind", "filter", "passes", "detail"),
                kind=TEXT,
                filter=TEXT,
                passes={"type": "boolean"},
                detail=TEXT,
            )
        ),
    ),
    "Ticket": _object(("ticket", "seconds"), ticket=TEXT, seconds=NUMBER),
    "Place": _object(("place",), place=WHOLE),
    "Fault": _object(("error",), error=TEXT),
}
"""The records that are sent and answered."""

EVENT_BODIES = {
    "application/json": {"oneOf": [_reference("Event"), _array(_reference("Event"))]},
    "application/x-ndjson": TEXT,
    "application/cloudevents+json": {"type": "object"},
    "application/cloudevents-batch+json": _array({"type": "object"}),
}
QUERY = {
    "topic": "a topic pattern, such as quotes/*",
    "where": "a condition, such as price > 8",
    "path": "an XPath",
    "change": "tolerances, such as price:0.05,volume:10",
    "from": "an offset, or a time in ISO 8601, from which to replay",
    "ticket": "from POST /tickets, in place of a header",
}

_OPERATIONS: dict[tuple[str, str], tuple[str, str | dict[str, Any] | None, dict[int, Any]]] = {
    ("/", "get"): ("This page.", None, {200: "text/html"}),
    ("/openapi.json", "get"): ("This description.", None, {200: {"type": "object"}}),
    ("/events", "post"): (
        "Publish events; answered when they are safe, or rejected one by one with place and reason.",
        EVENT_BODIES,
        {200: "Published", 207: "Published", 403: "Published", 408: None, 413: None, 415: None, 400: None}
        | {422: "Published", 429: None, 503: None},
    ),
    ("/events", "get"): (
        "Server-sent events of a subscription that ends with the connection.",
        None,
        {200: "text/event-stream", 403: None, 422: None, 429: None, 503: None},
    ),
    ("/sessions/{session}", "get"): ("A session.", None, {200: "Session", 404: None}),
    ("/sessions/{session}", "put"): (
        "Make a session, or change its settings.",
        "Settings",
        {200: "Session", 201: "Session", 413: None, 415: None, 422: None, 429: None},
    ),
    ("/sessions/{session}", "delete"): ("End a session.", None, {204: None, 404: None}),
    ("/sessions/{session}/subscriptions", "get"): (
        "The subscriptions of a session.",
        None,
        {200: _array(_reference("Subscription")), 404: None},
    ),
    ("/sessions/{session}/subscriptions/{subscription}", "get"): (
        "A subscription.",
        None,
        {200: "Subscription", 404: None},
    ),
    ("/sessions/{session}/subscriptions/{subscription}", "put"): (
        "Register or change a subscription; answered when it is in force.",
        "Filters",
        {200: "Subscription", 201: "Subscription", 403: None, 404: None, 413: None, 415: None, 422: None}
        | {503: None},
    ),
    ("/sessions/{session}/subscriptions/{subscription}", "delete"): (
        "End a subscription.",
        None,
        {204: None, 404: None, 503: None},
    ),
    ("/sessions/{session}/events", "get"): (
        "Server-sent events of a session, after the header Last-Event-ID, which acknowledges.",
        None,
        {200: "text/event-stream", 400: None, 404: None, 429: None},
    ),
    ("/sessions/{session}/acknowledgements", "post"): (
        "Acknowledge everything up to a place.",
        "Place",
        {204: None, 404: None, 413: None, 415: None, 422: None},
    ),
    ("/sessions/{session}/webhook", "get"): (
        "What becomes of a session's webhook.",
        None,
        {200: "Webhook", 404: None},
    ),
    ("/sessions/{session}/webhook", "put"): (
        "Have a session's events sent to an address as CloudEvents, signed.",
        "WebhookSettings",
        {200: "Webhook", 404: None, 413: None, 415: None, 422: None},
    ),
    ("/sessions/{session}/webhook", "delete"): ("Send nothing any more.", None, {204: None, 404: None}),
    ("/explanations", "post"): (
        "Why an event would match a subscription, or would not.",
        "Question",
        {200: "Explanation", 403: None, 404: None, 413: None, 415: None, 422: None},
    ),
    ("/tickets", "post"): (
        "A ticket, good once and for a short time, for an address where a script can send no headers.",
        None,
        {201: "Ticket"},
    ),
}
"""By path and method: what it is for, the body, and the answers by status; None for a fault or nothing."""

EVERYWHERE = (401, 403, 421, 500)
"""Any request may be answered so: not let in, a foreign page, another name, a fault of ours."""


@cache
def description() -> dict[str, Any]:
    """The description, as OpenAPI 3.1 has it."""
    paths: dict[str, Any] = {}
    for (path, method), (summary, body, answers) in _OPERATIONS.items():
        paths.setdefault(path, {})[method] = _operation(path, summary, body, answers)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Distributary", "version": __version__, "description": "A broker, by HTTP."},
        "paths": paths,
        "components": {
            "schemas": SCHEMAS,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer"},
                "password": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{"token": []}, {"password": []}, {}],
    }


def _operation(path: str, summary: str, body: Any, answers: dict[int, Any]) -> dict[str, Any]:
    parameters = [
        {"name": name, "in": "path", "required": True, "schema": TEXT}
        for name in ("session", "subscription")
        if f"{{{name}}}" in path
    ]
    if path == "/events" and body is None:
        about = QUERY.items()
        parameters += [
            {"name": name, "in": "query", "schema": TEXT, "description": text} for name, text in about
        ]
    made: dict[str, Any] = {"summary": summary, "responses": {}}
    for status, content in {**dict.fromkeys(EVERYWHERE), **answers}.items():
        made["responses"][str(status)] = _response(status, content)
    if parameters:
        made["parameters"] = parameters
    if body is not None:
        content = body if isinstance(body, dict) else {"application/json": _reference(body)}
        made["requestBody"] = {"content": {kind: {"schema": schema} for kind, schema in content.items()}}
    return made


def _response(status: int, content: Any) -> dict[str, Any]:
    if status == 204:
        return {"description": "Done."}
    if isinstance(content, str) and "/" in content:
        return {"description": "A stream or a page.", "content": {content: {"schema": TEXT}}}
    if content is None:
        schema: dict[str, Any] = _reference("Fault")
    elif isinstance(content, str) and status >= 400:
        schema = {"anyOf": [_reference(content), _reference("Fault")]}
    else:
        schema = _reference(content) if isinstance(content, str) else content
    about = "Done." if status < 300 else "Refused, and why."
    return {"description": about, "content": {"application/json": {"schema": schema}}}


@cache
def page() -> str:
    """The description as a page."""
    rows = "".join(
        f"<tr><td><code>{method.upper()}</code></td><td><code>{escape(path)}</code></td>"
        f"<td>{escape(summary)}</td></tr>"
        for (path, method), (summary, _, _) in sorted(_OPERATIONS.items())
    )
    return _PAGE.replace("ROWS", rows).replace("VERSION", escape(__version__))


_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Distributary</title>
<meta name="viewport" content="width=device-width">
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
td{padding:.2rem .8rem .2rem 0;vertical-align:top}pre{background:#8882;padding:.8rem;overflow:auto}</style>
</head><body><h1>Distributary</h1>
<p>A broker, version VERSION. What is published here reaches everybody who asked for it, here and in the
network that the broker is part of.</p>
<pre>curl -N 'http://localhost:8080/events?topic=hello'
curl http://localhost:8080/events -H 'Content-Type: application/json' \\
     -d '{"topic": "hello/world", "value": 21.5}'</pre>
<table>ROWS</table>
<p>WebSocket: <code>/ws</code>; MQTT over WebSocket: <code>/mqtt</code>. All of it for programs:
<a href="/openapi.json">openapi.json</a>.</p></body></html>
"""
