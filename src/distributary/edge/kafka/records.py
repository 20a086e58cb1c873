"""Records of Kafka's as events, and events as records. No I/O.

Rules:

- A record with CloudEvents' headers (`ce_id`, `ce_source` and so on) is a CloudEvent, and known by their id
  and source; so is one whose content type is `application/cloudevents+json`. Any other is known by its place:
  its id is `topic-partition-offset`, its source the name in the settings. So a record that is read again is
  the same event.
- A value that is a JSON object gives attributes, one that is an XML document the document; its bytes come out
  again as they were (`payloads`). What is neither is malformed, unless the source takes any value. A record
  without a value, a tombstone, is set aside, unless the source makes events of tombstones.
- Where values are Avro or Protobuf (`kafka_values`), the event has the JSON of their records in their place.
  Of JSON with a schema's id before it, as registries' serialisers write it, the event has the JSON alone.
- The event's topic is made of the record by a template; a CloudEvent with the extension `topic` has that.
- Attributes `kafka.topic`, `kafka.partition`, `kafka.offset`, `kafka.time` (milliseconds since 1970),
  `kafka.key` and `kafka.header.NAME` tell where it was; keys and headers that are not UTF-8 are not told.
- An event is written in CloudEvents' binary form: its bytes are the value, its identity and topic headers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from distributary.cloud_events import (
    CONTEXT,
    EXTENSIONS,
    NO_SOURCE,
    TYPE,
    read_binary_cloud_event,
    read_cloud_event,
)
from distributary.edge.kafka.settings import PLACEHOLDER, KafkaSource
from distributary.edge.payloads import BASE64, OURS, TEXT, event_of, payload_of
from distributary.errors import InputError
from distributary.json_text import read_object
from distributary.kafka_transactions import KafkaMessage
from distributary.kafka_values.decoder import ValueDecoder
from distributary.kafka_values.headers import text_of, texts_of
from distributary.kafka_values.wire import without_schema_id
from distributary.live.codec import require_sendable
from distributary.model import Event, Value

Headers = Sequence[tuple[str, bytes | None]]
PREFIX, CONTENT_TYPE = "ce_", "content-type"
SPACE = b" \t\r\n"
STRUCTURED, JSON = "application/cloudevents+json", "application/json"
PER_HEADER = "kafka.header."
TOMBSTONE = "is a tombstone: it has no value"


class KafkaRecord(NamedTuple):
    """A record that was read."""

    topic: str
    partition: int
    offset: int
    value: bytes | None = None
    key: bytes | None = None
    headers: Headers = ()
    time: int | None = None
    """In milliseconds since 1970."""

    @property
    def place(self) -> str:
        """Where it stands.

        >>> KafkaRecord("quotes", 2, 17).place
        'quotes[2]@17'
        """
        return f"{self.topic}[{self.partition}]@{self.offset}"


class RecordReader:
    """Makes events of the records of one source.

    >>> reader = RecordReader(KafkaSource(("quotes",), topic="{topic}/{key}"), "kafka")
    >>> event = reader.event(KafkaRecord("quotes", 0, 7, b'{"price": 8.4}', b"OTE"))
    >>> event.id, event.source, event.topic, event.attributes["price"]
    ('quotes-0-7', 'kafka', 'quotes/OTE', 8.4)
    """

    def __init__(self, source: KafkaSource, name: str) -> None:
        self._source, self._name = source, name
        format = source.value_format
        self._decoder = None if format is None else ValueDecoder(format)

    @property
    def asks_registry(self) -> bool:
        """Whether making an event may wait for a schema."""
        return self._decoder is not None

    def event(self, record: KafkaRecord) -> Event:
        """The event of a record; InputError when it is malformed, a tombstone, or too long.

        RegistryError when the schema that it was written with cannot be asked for.
        """
        texts = texts_of(record.headers)
        own = _own_attributes(record, texts)
        context = {name.removeprefix(PREFIX): text for name, text in texts.items() if name.startswith(PREFIX)}
        content_type = texts.get(CONTENT_TYPE, "")
        structured = content_type.lower().startswith(STRUCTURED)
        if self._decoder is not None and record.value is not None and not structured:
            record, content_type = record._replace(value=self._decoder.json(record.value)), JSON
        elif record.value is not None and self._source.values in ("auto", "json"):
            record = record._replace(value=without_schema_id(record.value))
        if "id" in context or "specversion" in context:
            event = self._of_cloud_event(record, own, context, content_type)
        elif structured and record.value is not None:
            event = read_cloud_event(read_object(record.value), ())
            topic = event.topic if event.topic is not None else self._topic(record, event.attributes)
            event = replace(event, topic=topic, attributes={**event.attributes, **own})
        else:
            event = self._of_value(record, own)
        require_sendable(event)
        return event

    def _of_cloud_event(
        self, record: KafkaRecord, own: Mapping[str, Value], context: dict[str, str], content_type: str
    ) -> Event:
        if content_type:
            context["datacontenttype"] = content_type
        body = record.value or b""
        event = read_binary_cloud_event(context, body, ())
        attributes = {**event.attributes, **own}
        if "data_base64" in attributes:
            attributes[BASE64] = attributes["data_base64"]
        elif event.document is None and body:
            attributes[TEXT] = body.decode()
        topic = event.topic if event.topic is not None else self._topic(record, context)
        return replace(event, topic=topic, attributes=attributes)

    def _of_value(self, record: KafkaRecord, own: Mapping[str, Value]) -> Event:
        id = f"{record.topic}-{record.partition}-{record.offset}"
        own = {**own, "source": self._name}
        topic, value = self._topic(record, {}), record.value
        if value is None:
            if not self._source.tombstones:
                raise InputError(TOMBSTONE)
            return Event(id, topic, {**own, "kafka.tombstone": True})
        event = event_of(id, topic, value, own)
        self._require_kind(event, value, len(own))
        return event

    def _require_kind(self, event: Event, value: bytes, own: int) -> None:
        """InputError for a value that is not what the source has; it has so many attributes of ours."""
        asked = self._source.values
        if asked == "any":
            return
        if event.document is not None:
            if asked == "json":
                raise InputError("the value is an XML document, and no JSON object")
            return
        if asked == "xml":
            raise InputError("the value is no XML document")
        if not value.lstrip(SPACE).startswith(b"{"):
            wanted = "JSON object and no XML document" if asked == "auto" else "JSON object"
            raise InputError(f"the value is no {wanted}")
        if len(event.attributes) == own + 1:  # its bytes alone: it is empty, or could not be read
            record = read_object(value)
            if not all(name.startswith(OURS) for name in record):
                Event.from_record({**record, "id": event.id})  # says what is wrong, if it is that
                raise InputError("the value has more levels, or longer names, than an event may have")

    def _topic(self, record: KafkaRecord, context: Mapping[str, Value]) -> str:
        """The topic of a record's event; InputError when something is missing that it is made of."""
        separator = self._source.separator
        name = record.topic if separator is None else record.topic.replace(separator, "/")
        parts: dict[str, Value] = {"topic": name, "partition": record.partition}
        parts |= {part: context.get(part) for part in ("type", "subject")}
        if record.key is not None:
            parts["key"] = text_of(record.key)

        def filled(part: str) -> str:
            if parts.get(part) is None:
                given = (
                    "and that is not UTF-8" if part == "key" and record.key is not None else "and it has none"
                )
                raise InputError(f"its topic is made of the {part}, {given}")
            return str(parts[part])

        return PLACEHOLDER.sub(lambda found: filled(found[1]), self._source.topic)


def _own_attributes(record: KafkaRecord, texts: Mapping[str, str]) -> dict[str, Value]:
    own: dict[str, Value] = {
        "kafka.topic": record.topic,
        "kafka.partition": record.partition,
        "kafka.offset": record.offset,
    }
    if record.time is not None:
        own["kafka.time"] = record.time
    if record.key is not None and (key := text_of(record.key)) is not None:
        own["kafka.key"] = key
    told = (name for name in texts if not name.startswith(PREFIX))
    return own | {PER_HEADER + name: texts[name] for name in told}


def message_of(event: Event, to: str, key: str = "topic") -> KafkaMessage:
    """The record of an event, for a topic of Kafka's; its key is an attribute, or the event's topic.

    >>> message = message_of(Event("e1", "quotes/OTE", {"source": "ann", "price": 8.4}), "dear")
    >>> message.value, message.key, dict(message.headers)["ce_id"]
    (b'{"id":"e1","source":"ann","price":8.4}', b'quotes/OTE', b'e1')
    """
    attributes = event.attributes
    told = {"specversion": "1.0", "id": event.id, "source": event.source or NO_SOURCE, "type": TYPE}
    for name in (*CONTEXT, *EXTENSIONS):
        text = attributes.get(name)
        if isinstance(text, str) and text and name not in ("specversion", "datacontenttype"):
            told[name] = text
    if event.topic is not None:
        told["topic"] = event.topic
    value = payload_of(event)
    headers = [(PREFIX + name, text.encode()) for name, text in told.items()]
    headers.append((CONTENT_TYPE, _content_type(event, value).encode()))
    chosen = event.topic if key == "topic" else attributes.get(key)
    return KafkaMessage(to, value, None if chosen is None else str(chosen).encode(), headers)


def _content_type(event: Event, value: bytes) -> str:
    """The media type of an event's bytes: what it came with, or what they look like."""
    given = event.attributes.get("datacontenttype")
    if isinstance(given, str) and given:
        return given
    if BASE64 in event.attributes:
        return "application/octet-stream"
    if value.lstrip(SPACE).startswith(b"{"):
        try:
            read_object(value)
            return JSON
        except InputError:
            return "text/plain"
    return "application/xml" if event.document is not None else "text/plain"
