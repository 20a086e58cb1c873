"""The events of a pipeline as a streaming DataFrame, with nothing lost that cannot be read.

Readers of text (JSON, CSV, XML) leave the raw text of a row they cannot read, or not in full, in the column
`_unreadable`; so does `parse = "json"` for sources that give raw values. Matching rejects such rows. A
source of typed rows (Parquet, a table) has no such column: it fails as a whole when a file is broken.
"""

from __future__ import annotations

import json

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructType

from distributary.errors import DistributaryError
from distributary.spark.pipeline.config import UNREADABLE, PipelineSource

TEXT_FORMATS = ("json", "csv", "xml")
"""Formats whose readers can leave what they could not read in a column."""


def read_source(spark: SparkSession, source: PipelineSource) -> DataFrame:
    """The events as a stream; `DistributaryError` when Spark refuses the schema, format or options."""
    schema = _schema(spark, source)
    reader = spark.readStream.format(source.format).options(**dict(source.options))
    if schema is not None and source.parse is None:
        if source.format in TEXT_FORMATS:
            schema = _with_unreadable(schema)
            reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", UNREADABLE)
        reader = reader.schema(schema)
    try:
        rows = reader.load(source.path)
    except (PySparkException, Py4JError) as error:
        raise DistributaryError(f"[source]: Spark cannot read it: {first_line(error)}") from None
    if source.parse is None or schema is None:
        return rows
    if source.format != "kafka":
        # A blank line of text is no event; an empty message may be one that went wrong.
        rows = rows.where(F.trim("value") != "")
    return parsed(rows, schema)


def parsed(rows: DataFrame, schema: StructType) -> DataFrame:
    """Rows with JSON text in `value` as rows of that schema, with `_unreadable` for what is no such JSON."""
    text = F.col("value").cast(StringType())
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNREADABLE}
    event = F.from_json(text, _with_unreadable(schema), options)
    return rows.select(event.alias("event")).select("event.*")


def first_line(error: object) -> str:
    """The first line of an error's text that says something; Spark's go on for pages."""
    lines = (line.strip() for line in str(error).splitlines())
    telling = (line for line in lines if line and not line.startswith("An error occurred while calling"))
    return next(telling, type(error).__name__).removeprefix(": ")


def _schema(spark: SparkSession, source: PipelineSource) -> StructType | None:
    if source.schema is None:
        return None
    try:
        if source.schema.startswith("{"):
            return StructType.fromJson(json.loads(source.schema))
        return spark.createDataFrame([], source.schema).schema
    except (PySparkException, ValueError, KeyError) as error:
        raise DistributaryError(f"[source] schema: Spark cannot read it: {first_line(error)}") from None


def _with_unreadable(schema: StructType) -> StructType:
    return StructType([*schema.fields]).add(UNREADABLE, StringType())
