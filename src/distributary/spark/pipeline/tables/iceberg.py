"""Deliveries in an Iceberg table, by pyiceberg, through any catalog that this knows.

One commit adds the snapshot with the rows and sets a property of the table: the number of the batch, under
the name of the pipeline. A property outlives its snapshot, so `expire_snapshots` does no harm; the summary of
the snapshot has the number too, for people. The commit is refused when the table has another snapshot
than when it was read. Then the number is looked up again; pyiceberg by itself would put the same rows upon
the other snapshot, so it is told not to try again.

Memory: the deliveries of a batch, at the driver. A writer that was killed leaves files that no snapshot
names, which the table's own maintenance removes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import CommitFailedException, NamespaceAlreadyExistsError, NoSuchTableError
from pyiceberg.expressions import EqualTo
from pyiceberg.table import Table

from distributary.errors import DistributaryError
from distributary.spark.pipeline.tables.table import TRIES, BatchRows, DeliveryTable, require_fit

RETRIES = "commit.retry.num-retries"
CATALOG = "catalog"
"""The option that names the catalog, as pyiceberg's own configuration may know it; all others describe it."""


class IcebergDeliveries(DeliveryTable):
    """The table of a catalog; the options are the properties of the catalog."""

    def __init__(self, identifier: str, options: Mapping[str, str]) -> None:
        self.name = f"the Iceberg table {identifier}"
        self._identifier = identifier
        self._properties = {name: value for name, value in options.items() if name != CATALOG}
        self._catalog_name = options.get(CATALOG, "default")

    def columns(self) -> pa.Schema | None:
        with self._told("read"), self._catalog() as catalog:
            try:
                return _schema_of(catalog.load_table(self._identifier))
            except NoSuchTableError:
                return None

    def write_once(self, rows: BatchRows, mark: str) -> bool:
        with self._told("written"), self._catalog() as catalog:
            for attempt in range(1, TRIES + 1):
                table = self._opened(catalog, rows.schema)
                written = table.properties.get(mark)
                if written is not None and int(written) >= rows.batch:
                    return False
                require_fit(self.name, _schema_of(table), rows.schema)
                try:
                    _append(table, rows, mark)
                    return True
                except CommitFailedException:
                    if attempt == TRIES:
                        raise
        raise AssertionError("the last attempt returns or raises")

    def remove_subscriber(self, subscriber: str) -> int:
        # Its model declares fields that its constructor does not take.
        theirs = EqualTo("subscriber", subscriber)  # type: ignore[call-arg, arg-type]
        with self._told("written"), self._catalog() as catalog:
            try:
                table = catalog.load_table(self._identifier)
            except NoSuchTableError:
                return 0
            count = table.scan(row_filter=theirs, selected_fields=("subscriber",)).to_arrow().num_rows
            if count:
                table.delete(theirs)
            return int(count)

    def _opened(self, catalog: Catalog, schema: pa.Schema) -> Table:
        try:
            return catalog.load_table(self._identifier)
        except NoSuchTableError:
            *namespace, _ = self._identifier.split(".")
            if namespace:
                with suppress(NamespaceAlreadyExistsError):
                    catalog.create_namespace(tuple(namespace))
            return catalog.create_table_if_not_exists(self._identifier, schema)

    @contextmanager
    def _catalog(self) -> Iterator[Catalog]:
        catalog = load_catalog(self._catalog_name, **self._properties)
        try:
            yield catalog
        finally:
            catalog.close()

    @contextmanager
    def _told(self, done: str) -> Iterator[None]:
        """Tell in one line what pyiceberg and the libraries below it have to say."""
        try:
            yield
        except DistributaryError:
            raise
        except Exception as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise DistributaryError(f"{self.name} cannot be {done}: {reason[0]}") from None


def _append(table: Table, rows: BatchRows, mark: str) -> None:
    content = rows.fitted(_schema_of(table)).read_all()
    number = str(rows.batch)
    # In this object alone: the table keeps what it says of other writers.
    properties = {**table.metadata.properties, RETRIES: "0"}
    table.metadata = table.metadata.model_copy(update={"properties": properties})
    with table.transaction() as transaction:
        transaction.set_properties({mark: number})
        summary = {"distributary.pipeline": mark, "distributary.batch": number}
        transaction.append(content, snapshot_properties=summary)


def _schema_of(table: Table) -> pa.Schema:
    return table.schema().as_arrow()
