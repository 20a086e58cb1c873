"""Deliveries in a Delta table, by delta-rs (the package deltalake).

A commit of a Delta table may carry the version of an application's transaction (the action `txn` of its log).
Ours has the number of the batch there, under the name of the pipeline; a checkpoint of the log keeps it. A
commit upon a state of the table that another commit with the same name has overtaken is refused, so the
number that was read before the rows were written is still the last one when they are committed.

Rows are passed on a piece at a time. A writer that was killed leaves files that no version of the table
names: `DeltaTable.vacuum` removes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError, TableNotFoundError

from distributary.errors import DistributaryError
from distributary.spark.pipeline.tables.table import TRIES, BatchRows, DeliveryTable, require_fit


class DeltaDeliveries(DeliveryTable):
    """The Delta table at a path or URL; the options are those of its storage."""

    def __init__(self, location: str, options: Mapping[str, str]) -> None:
        self.name = f"the Delta table {location}"
        # The names that Hadoop and everybody else have for S3 differ.
        self._location = location.replace("s3a://", "s3://", 1)
        self._options = dict(options) or None

    def columns(self) -> pa.Schema | None:
        table = self._open()
        return None if table is None else _schema_of(table)

    def write_once(self, rows: BatchRows, mark: str) -> bool:
        for attempt in range(1, TRIES + 1):
            with self._told("written"):
                table = self._open() or self._create(rows.schema)
                written = table.transaction_version(mark)
                if written is not None and written >= rows.batch:
                    return False
                columns = _schema_of(table)
                require_fit(self.name, columns, rows.schema)
                properties = CommitProperties(app_transactions=[Transaction(mark, rows.batch)])
                try:
                    write_deltalake(table, rows.fitted(columns), mode="append", commit_properties=properties)
                    return True
                except CommitFailedError:
                    if attempt == TRIES:
                        raise
        raise AssertionError("the last attempt returns or raises")

    def remove_subscriber(self, subscriber: str) -> int:
        table = self._open()
        if table is None:
            return 0
        with self._told("written"):
            quoted = subscriber.replace("'", "''")
            return int(table.delete(f"subscriber = '{quoted}'")["num_deleted_rows"])

    def _open(self) -> DeltaTable | None:
        with self._told("read"):
            try:
                return DeltaTable(self._location, storage_options=self._options)
            except TableNotFoundError:
                return None

    def _create(self, schema: pa.Schema) -> DeltaTable:
        # Whoever has made it meanwhile has made the same, or the rows do not fit.
        DeltaTable.create(self._location, schema=schema, mode="ignore", storage_options=self._options)
        return DeltaTable(self._location, storage_options=self._options)

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        """Tell in one line what delta-rs has to say; not all that it raises are its own errors."""
        try:
            yield
        except DistributaryError:
            raise
        except Exception as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise DistributaryError(f"{self.name} cannot be {done}: {reason[0]}") from None


def _schema_of(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())
