"""The rows of a followed table, in one state of it, each with its place or the reason why it is malformed.

Delta: one version of the table. Files: what there is when nothing changes while it is read; a directory into
which Spark is writing, or without files, is not read. A database: what one query gives, by Spark's reader.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from distributary.errors import DistributaryError
from distributary.files import subscriptions_from_csv, subscriptions_from_table
from distributary.filters.kinds import added_kinds
from distributary.model import BUILT_IN_FILTERS, Subscription
from distributary.quarantine import Rejection
from distributary.spark import storage
from distributary.spark.pipeline.followed.settings import FollowedTable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Row = tuple[str, Subscription] | Rejection
"""A subscription with its place, or why there is none."""

UNDER_WAY = "_temporary"
"""The directory that Spark has in one to which it is writing."""


class TableReader(ABC):
    """Reads a followed table. Its methods raise `DistributaryError` when the table cannot be read."""

    name: str
    """What the table is called in messages."""
    is_ordered = False
    """Whether rows come in the order that the table gives them."""

    def __init__(self, table: FollowedTable) -> None:
        self._table = table

    @abstractmethod
    def state(self) -> str | None:
        """A text that changes when the table does; None where only reading it tells."""

    @abstractmethod
    def rows(self) -> Iterator[Row]:
        """The rows. An error at the end means that those before belong to no one state of the table."""

    def _subscriptions(self, rows: pa.Table, name: str) -> Iterator[Row]:
        """The subscriptions of a table that was read."""
        fields = self._fields(rows.column_names, name)
        kept = [at for at, field in enumerate(fields) if field]
        chosen = rows.select(kept).rename_columns([fields[at] for at in kept])
        return subscriptions_from_table(chosen, name=name, more_kinds=added_kinds())

    def _fields(self, names: list[str], table: str) -> list[str]:
        """The fields that columns of these names hold; "" for those that hold none."""
        columns = self._table.columns
        if not columns:
            columns = {name: name for name in names}
        known = ("id", "subscriber", *BUILT_IN_FILTERS, *added_kinds())
        for field, column in columns.items():
            if field not in known:
                raise DistributaryError(
                    f"{table} has a column {column!r}, which is no field of a subscription; "
                    "say with columns which columns are"
                )
            if column not in names:
                raise DistributaryError(
                    f"{table} has no column {column!r} for {field}; it has {', '.join(names)}"
                )
        fields = {column: field for field, column in columns.items()}
        return [fields.get(each, "") for each in names]


class FileRows(TableReader):
    """A file of Parquet or CSV, or the files of a directory, one after the other by name."""

    is_ordered = True

    def __init__(self, table: FollowedTable) -> None:
        super().__init__(table)
        self.name = str(table.path)

    def state(self) -> str:
        return repr(self._files())

    def rows(self) -> Iterator[Row]:
        before = self._files()
        for path in before:
            try:
                yield from self._rows_of(path)
            except (OSError, pa.ArrowException) as error:
                raise DistributaryError(f"cannot read {path}: {str(error).splitlines()[0]}") from None
        if self._files() != before:
            raise DistributaryError(f"{self.name} changed while it was read")

    def _rows_of(self, path: str) -> Iterator[Row]:
        if self._table.format == "parquet":
            yield from self._subscriptions(storage.read_table(path), path)
            return
        with storage.opened(path) as stream:
            yield from subscriptions_from_csv(
                stream, path, added_kinds(), lambda names: self._fields(names, path)
            )

    def _files(self) -> dict[str, str]:
        """The files, each with what changes when it does."""
        try:
            if storage.exists(f"{self.name}/{UNDER_WAY}"):
                raise DistributaryError(f"somebody is writing to {self.name}")
            found = storage.file_states(self.name)
        except OSError as error:
            raise DistributaryError(f"cannot read {self.name}: {error}") from None
        if not found:
            raise DistributaryError(f"cannot read {self.name}: there is no file")
        return found


class DeltaRows(TableReader):
    """A Delta table, by delta-rs."""

    def __init__(self, table: FollowedTable) -> None:
        super().__init__(table)
        self.name = str(table.path)
        self._location = self.name.replace("s3a://", "s3://", 1)

    def state(self) -> str:
        return str(self._read(lambda table: f"{table.metadata().id} {table.version()}"))

    def rows(self) -> Iterator[Row]:
        rows, version = self._read(lambda table: (table.to_pyarrow_table(), table.version()))
        return self._subscriptions(rows, f"{self.name} version {version}")

    def _read(self, what: Any) -> Any:
        try:
            from deltalake import DeltaTable
        except ModuleNotFoundError:
            raise DistributaryError(
                "[follow] format: \"delta\" needs deltalake: pip install 'distributary[tables]'"
            ) from None
        try:
            return what(DeltaTable(self._location, storage_options=dict(self._table.options) or None))
        except Exception as error:  # not all that it raises are its own errors
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise DistributaryError(f"cannot read the Delta table {self.name}: {reason[0]}") from None


class DatabaseRows(TableReader):
    """A table or a query of a database, by Spark's JDBC reader."""

    def __init__(self, table: FollowedTable, spark: SparkSession) -> None:
        super().__init__(table)
        given = {name.lower(): value for name, value in table.options.items()}
        # Without the address, which may have a password in it.
        self.name = given.get("dbtable", "the query")
        self._spark = spark

    def state(self) -> None:
        return None

    def rows(self) -> Iterator[Row]:
        from py4j.protocol import Py4JError  # type: ignore[import-untyped]
        from pyspark.errors import PySparkException

        from distributary.spark.pipeline.failures import reason_of

        reader = self._spark.read.format("jdbc").options(**dict(self._table.options))
        try:
            found = reader.load().toArrow()
        except (PySparkException, Py4JError) as error:
            raise DistributaryError(f"cannot read {self.name} by JDBC: {reason_of(str(error))}") from None
        if not self._table.columns:  # databases have names of their own case
            found = found.rename_columns([each.lower() for each in found.column_names])
        return self._subscriptions(found, self.name)


def reader_of(table: FollowedTable, spark: SparkSession | None) -> TableReader:
    """What reads a followed table; without a session, those that need none."""
    if table.format == "delta":
        return DeltaRows(table)
    if table.format == "jdbc":
        assert spark is not None, "JDBC is read by Spark"
        return DatabaseRows(table, spark)
    return FileRows(table)


def require_readable(table: FollowedTable | None) -> None:
    """Raise an error if a followed table cannot be read, as far as that can be told without Spark."""
    if table is None or table.format == "jdbc":
        return
    try:
        next(iter(reader_of(table, None).rows()), None)
    except DistributaryError as error:
        told = str(error)
        raise DistributaryError(told if told.startswith("[follow]") else f"[follow]: {told}") from None
