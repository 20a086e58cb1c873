"""CloudEvents as events, and events as CloudEvents (https://github.com/cloudevents/spec, version 1.0).

Rules:

- `id` and `source` are ours. All other context attributes, and extensions, are attributes of the same name.
- The topic is the extension `topic` where there is one; else the attributes of a rule, with `/` between:
  `type/subject`, or `type` where there is no subject.
- Data that is a JSON object gives attributes too, so that `price > 8` means the same for an event however it
  was published. A member whose name is a context attribute's stands under `data.`: `data.type`. XML is the
  document. Any other data is the attribute `data`; bytes that are no text are `data_base64`.
- An event that is sent as a CloudEvent has its topic as the extension `topic`, and as data what is not a
  context attribute. Read again it is the same event. One without a type has `TYPE`, one without a source `/`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from typing import Any

from distributary.errors import InputError
from distributary.json_text import read_value
from distributary.model import Event

TYPE = "distributary.event"
"""The type of events that have none."""
NO_SOURCE = "/"
CONTEXT = ("specversion", "type", "subject", "time", "datacontenttype", "dataschema")
"""Context attributes beside `id` and `source`."""
EXTENSIONS = (
    "traceparent",
    "tracestate",
    "dataref",
    "partitionkey",
    "sequence",
    "sequencetype",
    "expirytime",
    "recordedtime",
    "severitytext",
    "severitynumber",
    "correlationid",
    "causationid",
)
"""Extensions that CloudEvents documents, which are sent on as such; unknown ones are sent on as data."""
OWN = ("id", "source", "topic", "document", "data", "data_base64")
TOPIC_RULE = ("type", "subject")
_NAME = re.compile(r"[a-z0-9]+")


def read_cloud_event(record: Mapping[str, Any], rule: tuple[str, ...] = TOPIC_RULE) -> Event:
    """The event of a CloudEvent in JSON's form; InputError when it is none.

    >>> event = read_cloud_event({"specversion": "1.0", "id": "e1", "source": "/bourse", "type": "quote",
    ...                           "subject": "OTE", "data": {"price": 8.4}})
    >>> event.topic, event.key, event.attributes["price"]
    ('quote/OTE', EventKey(source='/bourse', id='e1'), 8.4)
    """
    return Event.from_record(structured_record(record, rule))


def structured_record(record: Mapping[str, Any], rule: tuple[str, ...] = TOPIC_RULE) -> dict[str, Any]:
    """The event's record of a CloudEvent in JSON's form; InputError when it is none."""
    context = {name: value for name, value in record.items() if name not in ("data", "data_base64")}
    _check_context(context)
    content_type = str(context.get("datacontenttype") or "")
    if record.get("data") is not None and record.get("data_base64") is not None:
        raise InputError("given together with data; give one of them", field="data_base64")
    if record.get("data_base64") is not None:
        return _record(context, _decoded(record["data_base64"], content_type), rule)
    data = record.get("data")
    if data is None:
        return _record(context, {}, rule)
    if isinstance(data, str) and is_xml(content_type):
        return _record(context, {"document": data}, rule)
    return _record(context, _of_json(data, context), rule)


def read_binary_cloud_event(
    headers: Mapping[str, str], body: bytes, rule: tuple[str, ...] = TOPIC_RULE
) -> Event:
    """The event of a CloudEvent whose attributes are headers, decoded already, without `ce-`."""
    return Event.from_record(binary_record(headers, body, rule))


def binary_record(
    headers: Mapping[str, str], body: bytes, rule: tuple[str, ...] = TOPIC_RULE
) -> dict[str, Any]:
    """The event's record of a CloudEvent whose attributes are headers, without `ce-`; InputError if none.

    >>> binary_record({"specversion": "1.0", "id": "e1", "source": "/bourse", "type": "quote"}, b'{"x": 1}')
    {'specversion': '1.0', 'id': 'e1', 'source': '/bourse', 'type': 'quote', 'x': 1, 'topic': 'quote'}
    """
    context: dict[str, Any] = dict(headers)
    _check_context(context)
    if not body:
        return _record(context, {}, rule)
    return _record(context, _of_bytes(body, str(context.get("datacontenttype") or ""), context), rule)


def cloud_event(event: Event) -> dict[str, Any]:
    """An event as a CloudEvent in JSON's form.

    >>> cloud_event(Event("e1", "quotes/OTE", {"source": "/bourse", "price": 8.4}))["data"]
    {'price': 8.4}
    """
    rest = dict(event.attributes)
    rest.pop("source", None)
    rest.pop("specversion", None)
    told: dict[str, Any] = {"specversion": "1.0", "id": event.id, "source": event.source or NO_SOURCE}
    told["type"] = _text(rest, "type") or TYPE
    if event.topic is not None:
        told["topic"] = event.topic
    for name in ("subject", "time", "dataschema"):
        if text := _text(rest, name):
            told[name] = text
    for name in EXTENSIONS:
        if isinstance(rest.get(name), str | bool | int) and rest[name] != "":
            told[name] = rest.pop(name)
    content_type = _text(rest, "datacontenttype")
    if event.document is not None and not rest:
        return told | {"datacontenttype": content_type or "application/xml", "data": event.document}
    if event.document is not None:
        rest["document"] = event.document
    if content_type and not is_xml(content_type):
        told["datacontenttype"] = content_type
    if set(rest) in ({"data"}, {"data_base64"}):
        return told | rest
    if rest:
        told["data"] = {_member(name, told): value for name, value in rest.items()}
    return told


def is_xml(content_type: str) -> bool:
    """Whether a media type is that of XML.

    >>> is_xml("application/atom+xml; charset=utf-8"), is_xml("text/plain")
    (True, False)
    """
    kind = content_type.partition(";")[0].strip().lower()
    return kind in ("application/xml", "text/xml") or kind.endswith("+xml")


def is_json(content_type: str) -> bool:
    """Whether a media type is that of JSON, as data is where nothing is said."""
    kind = content_type.partition(";")[0].strip().lower()
    return kind in ("", "application/json", "text/json") or kind.endswith("+json")


def _check_context(context: Mapping[str, Any]) -> None:
    if context.get("specversion") != "1.0":
        raise InputError(f"must be '1.0', not {context.get('specversion')!r:.60}", field="specversion")
    for name in ("id", "source", "type"):
        if not isinstance(context.get(name), str) or not context[name]:
            raise InputError("missing: every CloudEvent has one, a text", field=name)
    for name, value in context.items():
        if not _NAME.fullmatch(name):
            raise InputError("an attribute of a CloudEvent has a name of a-z and 0-9", field=name[:60])
        if value is not None and not isinstance(value, str | bool | int):
            raise InputError("must be a text, a whole number or true or false", field=name)
    if context.get("topic") is not None and not isinstance(context["topic"], str):
        raise InputError("must be a text", field="topic")


def _record(context: Mapping[str, Any], data: Mapping[str, Any], rule: tuple[str, ...]) -> dict[str, Any]:
    record = {name: value for name, value in context.items() if value is not None} | dict(data)
    if record.get("topic") is None:
        parts = [str(context[name]) for name in rule if context.get(name) not in (None, "")]
        record["topic"] = "/".join(parts) or None
    return record


def _of_json(data: Any, context: Mapping[str, Any]) -> dict[str, Any]:
    """What data in JSON adds to a record."""
    if not isinstance(data, Mapping):
        return {"data": data}
    taken = {*OWN, *CONTEXT, *(name for name, value in context.items() if value is not None)}
    plain = {name: value for name, value in data.items() if name not in taken}
    aside = {name: value for name, value in data.items() if name in taken}
    if isinstance(aside.get("document"), str):
        plain["document"] = aside.pop("document")
    return plain | ({"data": aside} if aside else {})


def _of_bytes(body: bytes, content_type: str, context: Mapping[str, Any]) -> dict[str, Any]:
    """What data in bytes adds to a record."""
    if is_json(content_type):
        return _of_json(read_value(body), context)
    try:
        text = body.decode()
    except UnicodeDecodeError:
        return {"data_base64": base64.b64encode(body).decode()}
    if is_xml(content_type):
        return {"document": text}
    if content_type.lower().startswith("text/"):
        return {"data": text}
    return {"data_base64": base64.b64encode(body).decode()}


def _decoded(given: object, content_type: str) -> dict[str, Any]:
    try:
        if not isinstance(given, str):
            raise ValueError("no text")
        body = base64.b64decode(given, validate=True)
    except (ValueError, binascii.Error):
        raise InputError("must be a text in Base64", field="data_base64") from None
    if is_xml(content_type):
        return _of_bytes(body, content_type, {})
    return {"data_base64": given}


def _text(rest: dict[str, Any], name: str) -> str | None:
    """Take a text out of the attributes, where it is one."""
    if isinstance(rest.get(name), str) and rest[name]:
        return str(rest.pop(name))
    return None


def _member(name: str, told: Mapping[str, Any]) -> str:
    """What an attribute is called within data: as it was there before it had to stand aside."""
    bare = name.removeprefix("data.")
    return bare if bare != name and (bare in OWN or bare in CONTEXT or bare in told) else name
