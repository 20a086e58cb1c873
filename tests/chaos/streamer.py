"""A streaming query of the connectors in a process of its own: `streamer.py SETTINGS`, which is JSON.

With `"end": true` it reads what is available now, writes what is in the files as JSON lines, and ends.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from distributary.spark.connectors import network_events, register
from spark.world import QUIET


def frame(spark: SparkSession, options: dict[str, str], format: str) -> DataFrame:
    stream = spark.readStream.format(format).options(**options).load()
    if format == "mqtt":
        return stream.selectExpr("offset", "string(payload) AS payload")
    events = network_events(stream, "number BIGINT")
    return events.selectExpr("id", "'spark' AS source", "'out' AS topic", "number")


def main(given: dict[str, Any]) -> None:
    builder = SparkSession.builder.master("local[1]").appName("streamer")
    for key, value in QUIET.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    register(spark)
    place = Path(given["place"])
    writer = frame(spark, given["options"], given["format"]).writeStream
    if given["format"] == "mqtt":
        writer = writer.format("parquet").option("path", str(place / "out"))
    else:
        writer = writer.format("distributary").option("at", given["to"])
    writer = writer.option("checkpointLocation", str(place / "checkpoint"))
    if not given.get("end"):
        writer.trigger(processingTime="0 seconds").start().awaitTermination()
        return
    writer.trigger(availableNow=True).start().awaitTermination()
    if given["format"] == "mqtt":
        rows = spark.read.parquet(str(place / "out")).orderBy("offset").collect()
        (place / "rows.json").write_text(json.dumps([row["payload"] for row in rows]))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
