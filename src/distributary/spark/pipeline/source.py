"""The events of a pipeline as a streaming DataFrame, with nothing lost that cannot be read.

Readers of text (JSON, CSV, XML) leave the raw text of a row they cannot read, or not in full, in the column
`_unreadable`, as bytes that may not be UTF-8; so does `parse` for sources that give raw values, for
Kafka with the reason. Matching rejects such rows. A source of typed rows (Parquet, a table) has no such
column: it fails as a whole when a file is broken.
"""

from __future__ import annotations

import json

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, StringType, StructType

from distributary.errors import DistributaryError
from distributary.json_text import MAXIMUM_DEPTH, MAXIMUM_DIGITS
from distributary.kafka_values.wire import HEADER
from distributary.spark.columns import quoted
from distributary.spark.pipeline.config import FILE_FORMATS, PipelineSource
from distributary.spark.pipeline.messages import MESSAGE_COLUMNS, NO_FIT, READ_DDL, TOMBSTONE, MessageTasks
from distributary.spark.places import REASON, SOURCE_PLACE, UNREADABLE
from distributary.spark.workers import map_in_arrow

TEXT_FORMATS = ("json", "csv", "xml")
"""Formats whose readers can leave what they could not read in a column."""
JSON_BOUNDS = {
    "maxNestingDepth": str(MAXIMUM_DEPTH),
    "maxNumLen": str(MAXIMUM_DIGITS),
    "allowNonNumericNumbers": "false",
}
"""Options of Spark's reader of JSON, so that it takes what we take; the user's own go before them."""


def read_source(
    spark: SparkSession, source: PipelineSource, id: str = "id", topic: str = "topic"
) -> DataFrame:
    """The events as a stream; `DistributaryError` when Spark refuses the schema, format or options.

    With the column `SOURCE_PLACE`: where an event stands that could not be read, or has no `id`.
    """
    schema = _schema(spark, source)
    reader = spark.readStream.format(source.format)
    if source.format == "json":
        reader = reader.options(**JSON_BOUNDS)
    reader = reader.options(**dict(source.options))
    if source.reads_messages:
        reader = reader.option("includeHeaders", "true")
    if schema is not None and source.parse is None:
        if source.format in TEXT_FORMATS:
            schema = _with_unreadable(schema)
            reader = reader.option("mode", "PERMISSIVE").option("columnNameOfCorruptRecord", UNREADABLE)
        reader = reader.schema(schema)
    try:
        rows = reader.load(source.path)
    except (PySparkException, Py4JError) as error:
        raise DistributaryError(f"[source]: Spark cannot read it: {first_line(error)}") from None
    place = source_place(source)
    if source.parse is None or schema is None:
        return placed(rows, place, id)
    if source.reads_messages:
        tasks = MessageTasks(source.value_format, id, topic, source.tombstones)
        return placed(read_messages(rows, tasks, schema), F.col(SOURCE_PLACE), id)
    if source.format != "kafka":
        # A blank line of text is no event; an empty message may be one that went wrong.
        rows = rows.where(F.trim("value") != "")
    return placed(parsed(rows, schema, place), F.col(SOURCE_PLACE), id)


def parsed(rows: DataFrame, schema: StructType, place: Column | None = None) -> DataFrame:
    """Rows with JSON text in `value` as rows of that schema, with `_unreadable` for what is no such JSON.

    With a place there is a column of it.
    """
    text = _json_of_values(rows).cast(StringType())
    valid = F.is_valid_utf8(text)  # Spark would put other characters in the place of what is not
    options = {**JSON_BOUNDS, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNREADABLE}
    event = F.from_json(F.when(valid, text), _with_unreadable(schema), options)
    # Without a value there is no event: Kafka's tombstone.
    unreadable = F.when(~valid, text).otherwise(F.col(f"event.{UNREADABLE}"))
    unreadable = F.when(F.col("value").isNull(), F.lit("")).otherwise(unreadable)
    reason = F.when(F.col("value").isNull(), F.lit(TOMBSTONE))
    places = [] if place is None else [place.alias(SOURCE_PLACE)]
    read = rows.select(event.alias("event"), text.alias("value"), *places)
    names = [F.col(f"event.{quoted(name)}") for name in schema.names]
    added = [
        unreadable.alias(UNREADABLE),
        reason.alias(REASON),
        *map(F.col, [SOURCE_PLACE] if places else []),
    ]
    return read.select(*names, *added)


def _json_of_values(rows: DataFrame) -> Column:
    """The column `value`; of bytes, without the id of a schema before a JSON object (`kafka_values.wire`)."""
    value = F.col("value")
    if not isinstance(rows.schema["value"].dataType, BinaryType):
        return value
    framed = (F.substring(value, 1, 1) == F.lit(b"\0")) & (F.substring(value, HEADER + 1, 1) == F.lit(b"{"))
    return F.when(framed, F.substring(value, F.lit(HEADER + 1), F.length(value))).otherwise(value)


def read_messages(rows: DataFrame, tasks: MessageTasks, schema: StructType) -> DataFrame:
    """Kafka's messages as rows of a schema, with `_unreadable`, reason and place of those that are none."""
    messages = rows.select(*MESSAGE_COLUMNS)
    options = {**JSON_BOUNDS, "mode": "PERMISSIVE", "columnNameOfCorruptRecord": UNREADABLE}
    event = F.from_json("value", _with_unreadable(schema), options)
    read = map_in_arrow(messages, tasks.run, READ_DDL).withColumn("event", event)
    misfit = F.col(f"event.{UNREADABLE}")
    names = [F.col(f"event.{quoted(name)}") for name in schema.names]
    unreadable = F.coalesce("unreadable", misfit).alias(UNREADABLE)
    reason = F.coalesce("reason", F.when(misfit.isNotNull(), F.lit(NO_FIT))).alias(REASON)
    return read.select(*names, unreadable, reason, F.col("place").alias(SOURCE_PLACE))


def source_place(source: PipelineSource) -> Column:
    """Where in its source a row stands: the file, or topic, partition and offset; null if nothing tells."""
    if source.format == "kafka":
        return F.format_string("%s[%d]@%d", F.col("topic"), F.col("partition"), F.col("offset"))
    if source.format in (*FILE_FORMATS, "text"):
        return F.col("_metadata.file_path")
    return F.lit(None).cast(StringType())


def placed(rows: DataFrame, place: Column, id: str) -> DataFrame:
    """The rows with their places where somebody will ask for them: elsewhere that would be a waste."""
    names = rows.schema.names
    wrong = F.col(quoted(id)).isNull() if id in names else F.lit(False)
    if UNREADABLE in names:
        wrong = wrong | F.col(UNREADABLE).isNotNull()
    else:
        for field in rows.schema.fields:
            if isinstance(field.dataType, StringType):
                wrong = wrong | F.coalesce(~F.is_valid_utf8(F.col(quoted(field.name))), F.lit(False))
    bare = [F.col(quoted(name)) for name in names if name != SOURCE_PLACE]
    return rows.select(*bare, F.when(wrong, place).alias(SOURCE_PLACE))


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
