"""Rows of the connectors as events: the JSON object in each gives the attributes."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import StringType, StructType

from distributary.errors import SettingError
from distributary.json_text import MAXIMUM_DEPTH, MAXIMUM_DIGITS
from distributary.spark.columns import quoted
from distributary.spark.places import UNREADABLE

PLACE = "_place"
"""The column that says where in its log a row stands that could not be read."""
READING = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": UNREADABLE,
    "maxNestingDepth": str(MAXIMUM_DEPTH),
    "maxNumLen": str(MAXIMUM_DIGITS),
    "allowNonNumericNumbers": "false",
}
"""How Spark reads JSON, so that it takes what all our commands take."""


def mqtt_events(messages: DataFrame, attributes: StructType | str) -> DataFrame:
    """Messages as rows of `id`, `topic`, `arrival` and the attributes: events that `match` takes.

        events = mqtt_events(spark.readStream.format("mqtt").options(...).load(), "price DOUBLE, unit STRING")

    The id is the offset in the log, the topic is MQTT's, and the payload is a JSON object. One that is not,
    or whose values are not of these types, has no id, its text in the column `_unreadable` and its place,
    topic@offset, in `_place`: `match` passes over it, and `rejected(events)` gives it.
    """
    numbered = messages.withColumn("id", F.col("offset").cast(StringType()))
    return _with_attributes(numbered, "payload", ("id", "topic", "arrival"), attributes)


def network_events(events: DataFrame, attributes: StructType | str) -> DataFrame:
    """Events of a network as rows of `id`, `source`, `topic`, `document`, `arrival` and the attributes.

        events = network_events(spark.readStream.format("distributary").options(...).load(), "price DOUBLE")

    An attribute with a dotted name is a column of that name: "`wind.speed` DOUBLE". What cannot be read as
    these types is treated as `mqtt_events` does.
    """
    return _with_attributes(
        events, "attributes", ("id", "source", "topic", "document", "arrival"), attributes
    )


def _with_attributes(
    rows: DataFrame, json: str, own: Sequence[str], attributes: StructType | str
) -> DataFrame:
    """Columns of every row, the id first, and the members of its JSON object as columns of these types."""
    schema = attributes
    if isinstance(schema, str):
        schema = rows.sparkSession.createDataFrame([], schema).schema
    for name in schema.names:
        if name.lower() in own:
            raise SettingError(f'"{name}" cannot be an attribute: every row has that column; leave it out')
    text = F.col(json).cast(StringType())
    valid = F.is_valid_utf8(text)  # Spark would put other characters in the place of what is not
    read = F.from_json(
        F.when(valid, text), StructType([*schema.fields]).add(UNREADABLE, StringType()), READING
    )
    # An empty text is null to Spark, without a word that it is no JSON.
    unreadable = F.when(~valid | (F.trim(text) == ""), text).otherwise(F.col(f"event.{UNREADABLE}"))
    return rows.withColumn("event", read).select(
        F.when(unreadable.isNull(), F.col("id")).alias("id"),
        *own[1:],
        *[F.col(f"event.{quoted(name)}") for name in schema.names],
        unreadable.alias(UNREADABLE),
        F.when(unreadable.isNotNull(), _place()).alias(PLACE),
    )


def _place() -> Column:
    return F.format_string("%s@%d", F.coalesce(F.col("topic"), F.lit("")), F.col("offset"))
