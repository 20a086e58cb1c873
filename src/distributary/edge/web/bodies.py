"""The events in the body of a request: one or many, each well-formed or with what is wrong with it.

Forms, by the content type:

- `application/json`: an event's record, or an array of them.
- `application/x-ndjson` (also `application/jsonl`): a record a line.
- `application/cloudevents+json`, `application/cloudevents-batch+json`: one CloudEvent, or an array of them.
- anything with a header `ce-specversion`: a CloudEvent whose attributes are headers.

A record without an id is given one, which the answer tells. What is wrong with one event is told with its
place, counted from 0, and disturbs no other; a body that is no list of events at all is refused as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import unquote
from uuid import uuid4

import msgspec

from distributary.cloud_events import read_binary_cloud_event, read_cloud_event
from distributary.edge.web.faults import WebError
from distributary.errors import InputError
from distributary.json_text import read_object
from distributary.model import Event

JSON, CLOUD_EVENT, CLOUD_EVENTS = (
    "application/json",
    "application/cloudevents+json",
    "application/cloudevents-batch+json",
)
LINES = ("application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-lines")
PREFIX = "ce-"


class RejectedEvent(NamedTuple):
    """An event that is not published."""

    place: int
    """Which of the request it is, from 0."""
    reason: str
    forbidden: bool = False
    """Whether it is well-formed, and its publisher may not publish it."""


def read_events(
    headers: Mapping[str, str], body: bytes, most: int
) -> tuple[list[tuple[int, Event]], list[RejectedEvent]]:
    """The events of a request with their places, and those that are rejected; WebError for no events.

    >>> read_events({"content-type": "application/json"}, b'[{"id": "e1", "price": 3}, {"id": 7.5}]', 10)[1]
    [RejectedEvent(place=1, reason='id: every event needs one, a non-empty string; got 7.5', forbidden=False)]
    """
    kind = headers.get("content-type", "").partition(";")[0].strip().lower()
    if PREFIX + "specversion" in headers:
        return _each([body], lambda data: read_binary_cloud_event(_context(headers), data))
    if kind == CLOUD_EVENT:
        return _each([body], lambda data: read_cloud_event(read_object(data)))
    if kind == CLOUD_EVENTS:
        return _each(_elements(body, most), lambda data: read_cloud_event(read_object(data)))
    if kind in LINES:
        lines = [line for line in body.split(b"\n") if line.strip()]
        _require_at_most(len(lines), most)
        return _each(lines, _own_event)
    if kind == JSON:
        return _each(_elements(body, most) if body.lstrip()[:1] == b"[" else [body], _own_event)
    known = ", ".join((JSON, LINES[0], CLOUD_EVENT, CLOUD_EVENTS))
    raise WebError(415, f"events come as one of {known}; say which in the header Content-Type")


def read_record(record: Mapping[str, Any]) -> Event:
    """The event of a record; one without an id is given one."""
    return Event.from_record(record if record.get("id") is not None else {**record, "id": uuid4().hex})


def _own_event(data: bytes) -> Event:
    return read_record(read_object(data))


def _elements(body: bytes, most: int) -> list[bytes]:
    """The elements of an array, each in its own bytes."""
    try:
        elements = msgspec.json.decode(body, type=list[msgspec.Raw])
    except (msgspec.DecodeError, RecursionError) as error:
        raise WebError(400, f"the body is no JSON array: {error}") from None
    _require_at_most(len(elements), most)
    return [bytes(each) for each in elements]


def _require_at_most(count: int, most: int) -> None:
    if count > most:
        raise WebError(413, f"{count:,} events are in one request, where {most:,} may be; send several")


def _each(
    parts: Sequence[bytes], read: Callable[[bytes], Event]
) -> tuple[list[tuple[int, Event]], list[RejectedEvent]]:
    events: list[tuple[int, Event]] = []
    rejected: list[RejectedEvent] = []
    for place, part in enumerate(parts):
        try:
            events.append((place, read(part)))
        except InputError as error:
            rejected.append(RejectedEvent(place, str(error)))
    return events, rejected


def _context(headers: Mapping[str, str]) -> dict[str, str]:
    """The attributes of a CloudEvent in headers; values are percent-encoded UTF-8."""
    context = {
        name.removeprefix(PREFIX): unquote(value)
        for name, value in headers.items()
        if name.startswith(PREFIX)
    }
    if headers.get("content-type"):
        context["datacontenttype"] = headers["content-type"]
    return context
