"""Sinks of pipelines that are tables: which table a sink means, writing a batch, and checks before the start.

Nothing of the tables' packages is loaded until a pipeline has such a sink.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import types
from pyspark.sql.types import StructType

from distributary.errors import DistributaryError
from distributary.spark import storage
from distributary.spark.micro_batch import query_id
from distributary.spark.pipeline.receipts import StagedFile
from distributary.spark.pipeline.tables.table import UNKNOWN, BatchRows, DeliveryTable

if TYPE_CHECKING:
    from distributary.spark.pipeline.config import Sink

PACKAGES = {"delta": "deltalake", "iceberg": "pyiceberg"}


def delivery_table(sink: Sink) -> DeliveryTable:
    """The table that a sink means; an error when the package that writes it is not installed."""
    try:
        if sink.format == "delta":
            from distributary.spark.pipeline.tables.delta import DeltaDeliveries

            return DeltaDeliveries(str(sink.path), sink.options)
        from distributary.spark.pipeline.tables.iceberg import IcebergDeliveries

        return IcebergDeliveries(str(sink.table), sink.options)
    except ModuleNotFoundError as error:
        package = PACKAGES[sink.format]
        raise DistributaryError(
            f'[sink] format: "{sink.format}" needs {package} where the driver runs, and there is no '
            f"{error.name}: pip install 'distributary[tables]'"
        ) from None


def write_staged_once(
    sink: Sink, files: Sequence[StagedFile], schema: StructType, checkpoint: str, batch: int
) -> None:
    """Write the deliveries of a batch that tasks have staged to the table of a sink, unless it has them."""

    def read() -> Iterator[pa.RecordBatch]:
        for one in files:
            yield from storage.read_table(one.location).to_batches()

    _write(sink, BatchRows(delivery_columns(schema), batch, read), checkpoint)


def write_rows_once(sink: Sink, rows: pa.Table, schema: StructType, checkpoint: str, batch: int) -> None:
    """The same for rows that are here."""
    _write(sink, BatchRows(delivery_columns(schema), batch, lambda: iter(rows.to_batches())), checkpoint)


def _write(sink: Sink, rows: BatchRows, checkpoint: str) -> None:
    delivery_table(sink).write_once(rows, f"distributary-{query_id(checkpoint)}")


def require_table(sink: Sink, schema: StructType) -> None:
    """Raise an error if the table of a sink cannot hold such deliveries, before the first of them is made."""
    _require(sink, delivery_columns(schema))


def require_named_columns(sink: Sink) -> None:
    """The same as far as it can be told without Spark: the package, the table, and its columns by name."""
    text = pa.string()
    fixed = [("event_id", text), ("subscriber", text), ("subscriptions", pa.list_(text))]
    carried = [(name, UNKNOWN) for name in sink.columns]
    _require(sink, pa.schema([*fixed, *carried, ("batch", pa.int64())]))


def _require(sink: Sink, columns: pa.Schema) -> None:
    key = "path" if sink.format == "delta" else "table"
    table = delivery_table(sink)
    try:
        table.require_fit(columns)
    except DistributaryError as error:
        raise DistributaryError(f"[sink] {key}: {error}") from None


def delivery_columns(schema: StructType) -> pa.Schema:
    """The columns of deliveries as a table has them, with the batch; an error names one that cannot be."""
    fields = []
    for field in schema:
        try:
            fields.append(pa.field(field.name, _arrow_type(field.dataType)))
        except KeyError:
            raise DistributaryError(
                f"[sink] columns: {field.name} is of type {field.dataType.simpleString()}, "
                "which no table has; leave it out"
            ) from None
    return pa.schema([*fields, pa.field("batch", pa.int64())])


PLAIN_TYPES = {
    types.StringType: pa.string(),
    types.BinaryType: pa.binary(),
    types.BooleanType: pa.bool_(),
    types.ByteType: pa.int8(),
    types.ShortType: pa.int16(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.FloatType: pa.float32(),
    types.DoubleType: pa.float64(),
    types.DateType: pa.date32(),
    types.TimestampType: pa.timestamp("us", "UTC"),
    types.TimestampNTZType: pa.timestamp("us"),
}


def _arrow_type(type: types.DataType) -> pa.DataType:
    """The type of Arrow for one of Spark's; KeyError where tables have none."""
    if isinstance(type, types.DecimalType):
        return pa.decimal128(type.precision, type.scale)
    if isinstance(type, types.ArrayType):
        return pa.list_(_arrow_type(type.elementType))
    if isinstance(type, types.MapType):
        return pa.map_(_arrow_type(type.keyType), _arrow_type(type.valueType))
    if isinstance(type, types.StructType):
        return pa.struct([(field.name, _arrow_type(field.dataType)) for field in type])
    return PLAIN_TYPES[type.__class__]
