"""Rows as events of a network: what the tasks of a writer do.

An event is known by its source and id, which its row gives. A task that fails is run again, and so is a
micro-batch, and then publishes its events again: the network knows them, and gives them to nobody a second
time as long as it remembers them (docs/connectors.md says how long that is).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice

from pyspark.sql import Row
from pyspark.sql.datasource import DataSourceStreamWriter, DataSourceWriter, WriterCommitMessage
from pyspark.sql.types import LongType, StringType, StructType

from distributary.client import PlainClient
from distributary.errors import DistributaryError, InputError, SettingError
from distributary.model import Event
from distributary.spark.connectors.network.broker import CONNECTION, FORMAT, check_connection, client_of
from distributary.spark.connectors.network.event import event_of_row
from distributary.spark.connectors.options import Option, Value, checked_options

WRITING = (*CONNECTION, Option("source"))
AT_ONCE = 5_000
"""Events that are published together, before the next rows are read."""


def writing_options(given: Mapping[str, str], schema: StructType) -> dict[str, Value]:
    """The options for writing; `SettingError` if they, or the columns, are wrong."""
    options = checked_options(FORMAT, given, WRITING)
    check_connection(options)
    types = {field.name: field.dataType for field in schema.fields}
    if not isinstance(types.get("id"), StringType | LongType):
        raise SettingError(
            f'the format "{FORMAT}" needs a column "id" of strings or whole numbers, by which an event is '
            "known: the same for the same event, whenever it is written"
        )
    for name in ("topic", "document", "source"):
        if name in types and not isinstance(types[name], StringType):
            raise SettingError(f'the column "{name}" must be a string')
    return options


class EventWriter(DataSourceWriter):
    """Publishes rows as events."""

    def __init__(self, options: Mapping[str, Value]) -> None:
        self._options = options

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Publish the rows of a partition; returns when the network has acknowledged all."""
        publish_rows(iterator, self._options)
        return WriterCommitMessage()


class EventStreamWriter(DataSourceStreamWriter):
    """The same for a stream."""

    def __init__(self, options: Mapping[str, Value]) -> None:
        self._options = options

    def write(self, iterator: Iterator[Row]) -> WriterCommitMessage:
        """Publish the rows of a partition; returns when the network has acknowledged all."""
        publish_rows(iterator, self._options)
        return WriterCommitMessage()


def publish_rows(rows: Iterator[Row], options: Mapping[str, Value]) -> None:
    """Publish rows in their order; `DistributaryError` says which are refused, when all others are safe."""
    source = None if options["source"] is None else str(options["source"])
    some = list(islice(rows, AT_ONCE))
    if not some:
        return
    with PlainClient(lambda: client_of(options, None)) as client:
        while some:
            client.publish(*[_event(row, source) for row in some])
            some = list(islice(rows, AT_ONCE))


def _event(row: Row, source: str | None) -> Event:
    try:
        return event_of_row(row, source)
    except InputError as error:
        raise DistributaryError(f"a row is no event: {error}: {str(row)[:200]}") from None
