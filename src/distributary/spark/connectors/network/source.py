"""The format `distributary` of Spark: events of a network as a stream, and rows as events of a network.

    spark.readStream.format("distributary").option("at", "ws://localhost:8080").option("topic", "quotes/*") \\
        .option("log", "quotes-log").load()
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from distributary.errors import InputError, SettingError
from distributary.model import Subscription
from distributary.spark.connectors.intake import LogIntake
from distributary.spark.connectors.log_source import LOG, LogStreamReader, check_log
from distributary.spark.connectors.message_log import MessageLog
from distributary.spark.connectors.network.broker import CONNECTION, FORMAT, check_connection
from distributary.spark.connectors.network.event import COLUMNS, LoggedEvent, event_rows
from distributary.spark.connectors.network.intake import NetworkIntake
from distributary.spark.connectors.network.sink import EventStreamWriter, EventWriter, writing_options
from distributary.spark.connectors.options import Option, Value, checked_options

READING = (
    *CONNECTION,
    *LOG,
    Option("topic"),
    Option("where"),
    Option("path"),
    Option("change"),
    Option("id", default="spark"),
    Option("subscriber"),
    Option("sessionExpiry", "whole", 7 * 24 * 3600),
    Option("mailboxEvents", "whole", 100_000),
    Option("mailboxBytes", "whole", 1 << 28),
)


class EventDataSource(DataSource):
    """The format `distributary`."""

    @classmethod
    def name(cls) -> str:
        """What users call it."""
        return FORMAT

    def schema(self) -> str:
        """The columns of a stream; what is wrong with the options is told here, before a query starts."""
        reading_options(self.options)
        return COLUMNS

    def streamReader(self, schema: StructType) -> EventStreamReader:  # noqa: N802
        """What reads a stream."""
        return EventStreamReader(reading_options(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> EventStreamWriter:  # noqa: N802
        """What writes a stream."""
        return EventStreamWriter(writing_options(self.options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> EventWriter:
        """What writes a batch."""
        return EventWriter(writing_options(self.options, schema))


def reading_options(given: Mapping[str, str]) -> dict[str, Value]:
    """The options for reading; `SettingError` if they are wrong."""
    options = checked_options(FORMAT, given, READING)
    check_connection(options)
    check_log(options)
    try:
        Subscription(str(options["id"]), str(options["subscriber"] or "spark"), **filters_of(options))
    except InputError as error:
        raise SettingError(f'the subscription of the format "{FORMAT}": {error}') from None
    return options


def filters_of(options: Mapping[str, Value]) -> dict[str, Any]:
    """The filters that the options name; a change is JSON such as {"price": 0.05}."""
    filters: dict[str, Any] = {
        name: options[name] for name in ("topic", "where", "path") if options[name] is not None
    }
    if options["change"] is not None:
        try:
            filters["change"] = json.loads(str(options["change"]))
        except ValueError:
            filters["change"] = None
        if not isinstance(filters["change"], dict):
            raise SettingError(
                f'the option "change" is {options["change"]}; it must be JSON such as {{"price": 0.05}}'
            )
    return filters


class EventStreamReader(LogStreamReader):
    """Reads events by their offsets in the log."""

    kind = LoggedEvent

    def open_log(self, directory: str) -> MessageLog[LoggedEvent]:
        """The log of one subscriber."""
        subscriber = self._options["subscriber"]
        return MessageLog(directory, LoggedEvent, None if subscriber is None else str(subscriber))

    def make_intake(self, log: MessageLog[LoggedEvent]) -> LogIntake:
        """What takes events from the network."""
        return NetworkIntake(self._options, str(self._options["id"]), filters_of(self._options), log)

    def rows(self, messages: Sequence[tuple[int, Any]]) -> pa.RecordBatch:
        """Events with their offsets as rows."""
        return event_rows(messages)
