"""Payloads of messages as events, and events as payloads: what conditions and paths see of bytes.

Rules:

- A payload that is a JSON object becomes attributes, as in an event's record: nested objects get dotted
  names. A payload that is an XML document becomes the document. Any other is opaque: conditions see its topic
  and who sent it, no more.
- The bytes come out again exactly as they came in. They travel in the event: the document of XML, the
  attribute `payload.text` of what is UTF-8, `payload.base64` of what is not.
- The message's own words do not name the event: keys `id`, `source`, `topic` and `document` of a JSON object
  become attributes `payload.id` and so on; identity is given by whoever received the message. Keys that begin
  with `payload.`, `mqtt.` or `kafka.` are nobody's but ours, so no condition sees them from a JSON object.
- An event that did not come as a payload has one all the same: its document if it has nothing else to say, or
  its attributes as a JSON object, with `id`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from distributary.errors import DistributaryError
from distributary.filters.path.document import parse_document
from distributary.model import Event, Value

TEXT, BASE64 = "payload.text", "payload.base64"
"""The attributes that carry the bytes of a payload."""
DEEPEST = 64
"""Levels of objects and arrays in a JSON object; one that is deeper is opaque."""
OURS = ("payload.", "mqtt.", "kafka.")
"""Names of attributes that begin like this are given by the edge alone."""
_MOVED = {"id": "payload.id", "source": "payload.source", "topic": "payload.topic"}
_MOVED["document"] = "payload.document"
_SCALARS = frozenset((str, int, float, bool, type(None)))
_XML = re.compile(r"[ \t\r\n]*<[?!A-Za-z_:\u0080-\U0010ffff]")
_decoder = msgspec.json.Decoder(dict[str, Any])


def event_of(id: str, topic: str | None, payload: bytes, own: Mapping[str, Value]) -> Event:
    """The event of a payload; `own` are the attributes that the receiver gives it, `source` among them.

    InputError for a topic that no event can have.

    >>> event_of("e1", "A", b'{"price": 8.4, "id": 7}', {"source": "ann"}).attributes
    {'price': 8.4, 'payload.id': 7, 'payload.text': '{"price": 8.4, "id": 7}', 'source': 'ann'}
    """
    try:
        text = str(payload, "utf-8")
    except UnicodeDecodeError:
        return Event(id, topic, {BASE64: base64.b64encode(payload).decode(), **own})
    first = text[:1]
    if first == "{" or (first.isspace() and text.lstrip(" \t\r\n")[:1] == "{"):
        attributes = _attributes(payload)
        if attributes is not None:
            try:
                return Event(id, topic, {**attributes, TEXT: text, **own})
            except DistributaryError:
                pass  # A name or text in it that no event can hold: it is opaque, or its topic is wrong.
    elif _XML.match(text) and _is_document(text):
        return Event(id, topic, own, text)
    return Event(id, topic, {TEXT: text, **own})


def _attributes(payload: bytes) -> dict[str, Value] | None:
    """The attributes of a JSON object; None when it is none, or cannot be an event's."""
    try:
        record = {
            name: value for name, value in _decoder.decode(payload).items() if not name.startswith(OURS)
        }
        if not _SCALARS.issuperset(map(type, record.values())):
            return _flat(record)
    except (msgspec.DecodeError, DistributaryError, RecursionError, ValueError):
        return None
    return {_MOVED.get(name, name): value for name, value in record.items()}


def _flat(record: dict[str, Any]) -> dict[str, Value] | None:
    """The attributes of an object with objects or arrays in it; None for one that is too deep."""
    try:
        given = {_MOVED.get(name, name): _sendable(value, DEEPEST) for name, value in record.items()}
    except RecursionError:
        return None
    flat = Event.from_record({**given, "id": "e"}).attributes
    moved = _MOVED.values()
    return {name: value for name, value in flat.items() if name in moved or not name.startswith(OURS)}


def _sendable(value: Any, levels: int) -> Any:
    """A value as events carry it: arrays are tuples; RecursionError when it has more levels."""
    if not isinstance(value, dict | list):
        return value
    if not levels:
        raise RecursionError
    if isinstance(value, list):
        return tuple(_sendable(each, levels - 1) for each in value)
    return {name: _sendable(each, levels - 1) for name, each in value.items()}


def _is_document(text: str) -> bool:
    try:
        parse_document(text)
    except DistributaryError:
        return False
    return True


def payload_of(event: Event) -> bytes:
    """The bytes of an event: those that it came as, or its record without what is said elsewhere.

    >>> payload_of(Event("e1", "A", {"price": 8.4, "source": "ann"}))
    b'{"id":"e1","price":8.4,"source":"ann"}'
    """
    attributes = event.attributes
    text = attributes.get(TEXT)
    if isinstance(text, str):
        return text.encode()
    coded = attributes.get(BASE64)
    if isinstance(coded, str):
        try:
            return base64.b64decode(coded, validate=True)
        except binascii.Error:
            pass  # Somebody else's attribute of that name.
    if event.document is not None:
        rest = (name for name in attributes if name != "source" and not name.startswith(OURS))
        if next(rest, None) is None:
            return event.document.encode()
    record = event.to_record()
    record.pop("topic", None)
    return msgspec.json.encode({name: record[name] for name in record if not name.startswith(OURS)})
