"""The format `mqtt` of Spark: messages of a broker as a stream, and rows as messages.

spark.readStream.format("mqtt").option("topic", "sensors/#").option("log", "mqtt-log").load()
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from distributary.errors import SettingError
from distributary.spark.connectors.intake import LogIntake
from distributary.spark.connectors.log_source import LOG, LogStreamReader, check_log
from distributary.spark.connectors.message_log import MessageLog
from distributary.spark.connectors.mqtt.client import CONNECTION, FORMAT, check_connection, paho_client
from distributary.spark.connectors.mqtt.intake import MqttIntake
from distributary.spark.connectors.mqtt.message import COLUMNS, LoggedMessage, message_rows
from distributary.spark.connectors.mqtt.sink import MqttStreamWriter, MqttWriter, writing_options
from distributary.spark.connectors.options import Option, Value, checked_options

READING = (
    *CONNECTION,
    *LOG,
    Option("topic", needed="sensors/#"),
    Option("clientId"),
    Option("sessionExpiry", "whole", 7 * 24 * 3600),
)


class MqttDataSource(DataSource):
    """The format `mqtt`."""

    @classmethod
    def name(cls) -> str:
        """What users call it."""
        return FORMAT

    def schema(self) -> str:
        """The columns of a stream; what is wrong with the options is told here, before a query starts."""
        reading_options(self.options)
        paho_client()
        return COLUMNS

    def streamReader(self, schema: StructType) -> MqttStreamReader:  # noqa: N802
        """What reads a stream."""
        return MqttStreamReader(reading_options(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> MqttStreamWriter:  # noqa: N802
        """What writes a stream."""
        return MqttStreamWriter(writing_options(self.options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> MqttWriter:
        """What writes a batch."""
        return MqttWriter(writing_options(self.options, schema))


def reading_options(given: Mapping[str, str]) -> dict[str, Value]:
    """The options for reading; `SettingError` if they are wrong."""
    options = checked_options(FORMAT, given, READING)
    check_connection(options)
    check_log(options)
    topic_filters(str(options["topic"]))
    return options


def topic_filters(text: str) -> list[str]:
    """The filters that an option names: one, or a JSON list of them, because a filter may hold commas.

    >>> topic_filters("sensors/#"), topic_filters('["a/+", "b"]')
    (['sensors/#'], ['a/+', 'b'])
    """
    if not text.startswith("["):
        return [text]
    try:
        names = json.loads(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not names or not all(isinstance(each, str) and each for each in names):
        raise SettingError(f'the option "topic" is {text}; a list of filters is JSON such as ["a/#", "b/+"]')
    return list(dict.fromkeys(names))


class MqttStreamReader(LogStreamReader):
    """Reads messages by their offsets in the log."""

    kind = LoggedMessage

    def open_log(self, directory: str) -> MessageLog[LoggedMessage]:
        """The log of one client of the broker."""
        client = self._options["clientId"]
        return MessageLog(directory, LoggedMessage, None if client is None else str(client))

    def make_intake(self, log: MessageLog[LoggedMessage]) -> LogIntake:
        """What takes messages from the broker."""
        return MqttIntake(self._options, topic_filters(str(self._options["topic"])), log)

    def rows(self, messages: Sequence[tuple[int, Any]]) -> pa.RecordBatch:
        """Messages with their offsets as rows."""
        return message_rows(messages)
