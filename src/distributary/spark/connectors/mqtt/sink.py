"""Rows as messages of MQTT: what the tasks of a writer do.

At least once: a task that fails is run again, and so is a micro-batch, and then publishes its rows again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from itertools import chain
from typing import Any
from uuid import uuid4

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from distributary.errors import DistributaryError, SettingError
from distributary.spark.connectors.mqtt.client import (
    CONNECTION,
    FORMAT,
    address,
    check_connection,
    connect,
    new_client,
    paho_client,
)
from distributary.spark.connectors.options import Option, Value, checked_options

WRITING = (
    *CONNECTION,
    Option("topic"),
    Option("qos", default="1", choices=("0", "1")),
    Option("retain", "truth", False),
    Option("timeout", "seconds", 60.0),
)
WAITING = 10_000
"""Messages that may wait for their acknowledgement in a task."""


def writing_options(given: Mapping[str, str], schema: StructType) -> dict[str, Value]:
    """The options for writing; `SettingError` if they, or the columns, are wrong."""
    options = checked_options(FORMAT, given, WRITING)
    check_connection(options)
    paho_client()
    types = {field.name: field.dataType for field in schema.fields}
    kinds = {name: each.simpleString() for name, each in types.items()}
    if options["topic"] is None and not isinstance(types.get("topic"), StringType):
        raise SettingError('the format "mqtt" needs a column "topic" of strings, or the option "topic"')
    if kinds.get("payload") not in ("string", "binary"):
        raise SettingError(
            'the format "mqtt" needs a column "payload" of strings or bytes, such as to_json(...)'
        )
    for name in kinds:
        if name not in ("topic", "payload", "retained"):
            raise SettingError(
                f'the format "mqtt" writes topic, payload and retained; drop the column "{name}"'
            )
    if "retained" in kinds and kinds["retained"] != "boolean":
        raise SettingError('the column "retained" must be a boolean')
    return options


class MqttWriter(DataSourceWriter):
    """Publishes rows: at least once, because a task that fails is run again."""

    def __init__(self, options: Mapping[str, Value]) -> None:
        self._options = options

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Publish the rows of a partition; returns when the broker has acknowledged all."""
        publish_rows(iterator, self._options)
        return WriterCommitMessage()


class MqttStreamWriter(DataSourceStreamWriter):
    """The same for a stream; a micro-batch that is done again publishes again."""

    def __init__(self, options: Mapping[str, Value]) -> None:
        self._options = options

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Publish the rows of a partition; returns when the broker has acknowledged all."""
        publish_rows(iterator, self._options)
        return WriterCommitMessage()


class _Publisher:
    """A connection that publishes, and knows how many messages have not been acknowledged."""

    def __init__(self, options: Mapping[str, Value]) -> None:
        self._patience = float(options["timeout"] or 0)
        self._broker = "the MQTT broker at {}:{}".format(*address(options))
        self._changed = threading.Condition()
        self._connected, self._open = False, 0
        self._refused: str | None = None
        self._client = new_client(options, f"distributary-{uuid4().hex[:12]}", lasting=False)
        self._client.on_connect = lambda _, __, ___, reason, ____: self._told("the client", reason, 0)
        self._client.on_publish = lambda _, __, ___, reason, ____: self._told("a message", reason, 1)
        connect(self._client, options)
        self._client.loop_start()
        self._wait_for(lambda: self._connected)

    def _told(self, what: str, reason: Any, answered: int) -> None:
        """The broker has answered; called in the thread of paho-mqtt."""
        with self._changed:
            if reason.is_failure:
                self._refused = self._refused or f"{self._broker} refuses {what}: {reason}"
            self._connected = True
            self._open -= answered
            self._changed.notify_all()

    def _wait_for(self, holds: Callable[[], bool]) -> None:
        with self._changed:
            in_time = self._changed.wait_for(lambda: self._refused is not None or holds(), self._patience)
            if self._refused is not None:
                raise DistributaryError(self._refused)
            if not in_time:
                raise DistributaryError(
                    f"{self._broker} has not answered in {self._patience:.0f} s, {self._open} messages wait: "
                    'see whether it is well, or set the option "timeout" higher'
                )

    def publish(self, topic: Any, payload: Any, qos: int, retain: bool) -> None:
        """Publish a message, once there is room for it."""
        if not topic:
            raise DistributaryError('a row has no topic: fill the column "topic", or set the option "topic"')
        self._wait_for(lambda: self._open < WAITING)
        with self._changed:
            self._open += 1
        try:
            self._client.publish(str(topic), b"" if payload is None else payload, qos, retain)
        except ValueError as error:
            raise DistributaryError(f"cannot publish to the topic {topic!r}: {error}") from None

    def finish(self) -> None:
        """Wait until all is acknowledged."""
        self._wait_for(lambda: self._open == 0)

    def close(self) -> None:
        """End the connection."""
        self._client.disconnect()
        self._client.loop_stop()


def publish_rows(rows: Iterator[Row], options: Mapping[str, Value]) -> None:
    """Publish rows in their order, and wait until all are acknowledged; `DistributaryError` if one is not."""
    first = next(rows, None)
    if first is None:
        return
    publisher = _Publisher(options)
    try:
        for row in chain([first], rows):
            record = row.asDict()
            retain = bool(record.get("retained", options["retain"]))
            topic = record.get("topic") or options["topic"]
            publisher.publish(topic, record["payload"], int(str(options["qos"])), retain)
        publisher.finish()
    finally:
        publisher.close()
