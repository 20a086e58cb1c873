"""Kafka's messages as JSON text, for values that Spark does not read by itself: Avro, Protobuf, CloudEvents.

Tasks make of each message the JSON object that its event is, which Spark then reads by the source's schema as
it reads any JSON. A message that is none is kept with its bytes and the reason.

Rules:

- A message with CloudEvents' headers (`ce_specversion`, `ce_id` and so on) or with the content type
  `application/cloudevents+json` is a CloudEvent: its context attributes, extensions and the members of its
  data are attributes, as at a broker (`cloud_events`). Where values are Avro or Protobuf, any other message
  is an event too.
- An event that has no id of its own has `topic-partition-offset`; one that has no topic has Kafka's.
- The member `kafka` tells where it was: `topic`, `partition`, `offset`, `time` (milliseconds since 1970),
  `key` and `header`, as far as they are UTF-8.
- A tombstone is set aside unless the source takes tombstones: then it is an event that has `kafka` alone,
  with `kafka.tombstone`. A CloudEvent in headers without data is no tombstone.

Cost: some microseconds a message, in the Python worker of its task; schemas are fetched once a worker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from distributary.cloud_events import binary_record, structured_record
from distributary.errors import InputError
from distributary.json_text import read_object
from distributary.kafka_values.decoder import ValueDecoder, ValueFormat, json_of
from distributary.kafka_values.headers import text_of, texts_of
from distributary.kafka_values.wire import without_schema_id

CONTEXT, CONTENT_TYPE, STRUCTURED = "ce_", "content-type", "application/cloudevents+"
MESSAGE_COLUMNS = "topic", "partition", "offset", "timestamp", "key", "value", "headers"
"""What a task needs of the source's rows."""
READ_DDL = "value STRING, unreadable STRING, reason STRING, place STRING"
"""What it makes of them: JSON, or bytes that are none as text, with why and where."""
READ = pa.schema([(name, pa.string()) for name in ("value", "unreadable", "reason", "place")])
TOMBSTONE = "is a tombstone: it has no value"
NO_CLOUD_EVENT = (
    "is no CloudEvent: it has neither the header ce_specversion nor a content type of CloudEvents"
)
NO_FIT = "does not fit the schema under [source]"


@dataclass(frozen=True)
class MessageTasks:
    """How the messages of a source become events; it travels to the workers."""

    format: ValueFormat | None
    """None where messages are CloudEvents and no schema is needed."""
    id: str
    topic: str
    tombstones: bool = False

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of `READ_DDL` for rows of `MESSAGE_COLUMNS`."""
        for batch in batches:
            columns = [batch.column(name).to_pylist() for name in MESSAGE_COLUMNS[:3]]
            columns.append(
                batch.column("timestamp").cast(pa.timestamp("ms"), safe=False).cast("int64").to_pylist()
            )
            columns += [batch.column(name).to_pylist() for name in MESSAGE_COLUMNS[4:]]
            rows = [self._row(*message) for message in zip(*columns, strict=True)]
            yield pa.RecordBatch.from_arrays(
                [pa.array(column, pa.string()) for column in zip(*rows, strict=True)]
                if rows
                else [pa.array([], pa.string())] * len(READ),
                schema=READ,
            )

    def _row(
        self,
        topic: str,
        partition: int,
        offset: int,
        time: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[dict[str, Any]] | None,
    ) -> tuple[str | None, str | None, str | None, str]:
        place = f"{topic}[{partition}]@{offset}"
        texts = texts_of((str(each["key"]), each["value"]) for each in headers or ())
        where: dict[str, Any] = {"topic": topic, "partition": partition, "offset": offset, "time": time}
        if key is not None and (text := text_of(key)) is not None:
            where["key"] = text
        if texts:
            where["header"] = {name: each for name, each in texts.items() if not name.startswith(CONTEXT)}
        try:
            record = self._record(value, texts, where)
            own = {self.id: f"{topic}-{partition}-{offset}", self.topic: topic}
            given = {name: each for name, each in record.items() if each is not None}
            text = json_of({**own, **given, "kafka": where}).decode()
        except InputError as error:
            shown = (value or b"").decode(errors="backslashreplace")
            return None, shown, str(error), place
        return text, None, None, place

    def _record(
        self, value: bytes | None, headers: Mapping[str, str], where: dict[str, Any]
    ) -> Mapping[str, Any]:
        """The record of a message; a tombstone's is empty. InputError says why there is none."""
        context = {name.removeprefix(CONTEXT): text for name, text in headers.items() if name[:3] == CONTEXT}
        kind = headers.get(CONTENT_TYPE, "")
        if "specversion" in context or "id" in context:
            return self._renamed(self._of_headers(context, kind, value))
        if value is None:
            if not self.tombstones:
                raise InputError(TOMBSTONE)
            where["tombstone"] = True
            return {}
        if kind.lower().startswith(STRUCTURED):
            if not kind.lower().startswith(f"{STRUCTURED}json"):
                raise InputError(f"is a CloudEvent as {kind}; of structured ones {STRUCTURED}json is read")
            return self._renamed(structured_record(read_object(value), ()))
        if self.format is None:
            raise InputError(NO_CLOUD_EVENT)
        return _decoder(self.format).record(value)

    def _of_headers(self, context: dict[str, str], kind: str, value: bytes | None) -> dict[str, Any]:
        body = value or b""
        if self.format is not None and body:
            body = _decoder(self.format).json(body)
        else:
            if not kind or "json" in kind.lower():
                body = without_schema_id(body)
            if kind:
                context["datacontenttype"] = kind
        return binary_record(context, body, ())

    def _renamed(self, record: dict[str, Any]) -> dict[str, Any]:
        """A CloudEvent's record with its id and topic under the names that the pipeline has for them."""
        for name, column in (("id", self.id), ("topic", self.topic)):
            if column != name and name in record:
                record[column] = record.pop(name)
        return record


@lru_cache(maxsize=16)
def _decoder(format: ValueFormat) -> ValueDecoder:
    """The decoder of a worker, which keeps schemas from one batch to the next."""
    return ValueDecoder(format)
