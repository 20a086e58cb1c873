"""Random queries on Spark beside what the interpreter gives for them."""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from distributary.flow import Catalogue, Item
from distributary.flow.interpreter import interpret
from distributary.spark.queries.run import QueryStreams
from flow import functions
from flow.random_queries import SOURCES, events_of, random_arrivals, random_catalogue, random_items

COLUMNS = {
    "id": "string",
    "topic": "string",
    "s": "string",
    "i": "bigint",
    "x": "double",
    "b": "boolean",
    "at": "bigint",
    "k": "string",
    "v": "bigint",
    "when": "bigint",
}
"""What the events of all sources have."""
DDL = ", ".join(f"`{name}` {type}" for name, type in COLUMNS.items())

Found = tuple[str, int, int, tuple[tuple[str, str], ...]]
"""An item: its id, time, rank and attributes, in which 1, 1.0 and true differ."""


def random_items_of_all(rng: Random, count: int = 14, span: int = 60) -> dict[str, list[Item]]:
    """Items for every source, none before 1970: those are late for a stream of Spark's."""
    beginning = rng.choice([0, 1_700_000_000_000])
    return {
        source.name: random_items(rng, source.schema, count, beginning, span, rng.choice([3, 20]))
        for source in SOURCES
    }


def make_catalogue(seed: int, kinds: Sequence[str], queries: int) -> Catalogue:
    """Many queries at once, for a job of Spark's takes its time however little it does."""
    return random_catalogue(Random(f"queries {seed}"), kinds, max_operators=4, queries=queries)


def records(items: dict[str, list[Item]]) -> list[dict[str, Any]]:
    return [{"id": event.id, "topic": event.topic, **event.attributes} for event in events_of(items)]


def event_frame(spark: SparkSession, items: dict[str, list[Item]]) -> DataFrame:
    rows = [tuple(record.get(name) for name in COLUMNS) for record in records(items)]
    return spark.createDataFrame(rows, DDL).repartition(2)


def expected(catalogue: Catalogue, items: dict[str, list[Item]]) -> dict[str, list[Found]]:
    """What the interpreter gives."""
    answers = interpret(catalogue, items).streams
    return {
        name: sorted(_found(item.id, item.time, item.rank, item.attributes) for item in answers[name])
        for name in answers
        if name not in catalogue.sources
    }


def given_out(streams: QueryStreams, tagged: Iterable[Row]) -> dict[str, list[Found]]:
    """What Spark gives, from tagged rows."""
    found: dict[str, list[Found]] = {name: [] for name in streams}
    arrays = {"text": "texts", "integer": "integers", "number": "numbers", "boolean": "booleans"}
    for row in tagged:
        for name in row.streams:
            schema = streams.catalogue.streams[name].schema
            held = {type: iter(row[array]) for type, array in arrays.items()}
            attributes = {
                attribute: row.time if attribute == schema.time else next(held[type])
                for attribute, type in schema.attributes.items()
            }
            found[name].append(_found(row.id, row.time, row["rank"], attributes))
    return {name: sorted(rows) for name, rows in found.items()}


def _found(id: str, time: int, rank: int, attributes: Any) -> Found:
    return id, time, rank, tuple(sorted((name, repr(value)) for name, value in attributes.items()))


def differences(
    catalogue: Catalogue, found: dict[str, list[Found]], wanted: dict[str, list[Found]]
) -> list[tuple[Any, ...]]:
    """The streams that differ: the operation, what is missing and what is too much."""
    operations = {name: each.operation for each in catalogue.operators for name in each.streams}
    return [
        (
            name,
            operations[name],
            [item for item in wanted[name] if item not in rows],
            [item for item in rows if item not in wanted[name]],
        )
        for name, rows in found.items()
        if rows != wanted[name]
    ]


def ship_functions(spark: SparkSession) -> None:
    """Have Python workers find the functions that queries name, as they find a user's installed module."""
    if _shipped.get("to") is spark:
        return
    packed = Path(tempfile.mkdtemp()) / "query_functions.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("flow/__init__.py", "")
        archive.write(functions.__file__, "flow/functions.py")
    spark.addArtifact(str(packed), pyfile=True)
    _shipped["to"] = spark


_shipped: dict[str, SparkSession] = {}

FAR = 1_000_000
"""So much later than all others, in milliseconds, is the last item of every source."""


def feed_files(place: Path, rng: Random, items: dict[str, list[Item]], files: int) -> int:
    """Write the items as JSON files in an order in which none is late, at last one far ahead for each source.

    A stream takes files in the order of their times. Returns a time before that of the last items, and after
    that of all results of the others.
    """
    order = [(name, step) for name, step in random_arrivals(rng, items) if isinstance(step, Item)]
    latest = max(item.time for _, item in order)
    size = -(-len(order) // files)
    chunks = [order[at : at + size] for at in range(0, len(order), size)]
    ends = [
        (
            source.name,
            Item("end", latest + FAR, {**dict.fromkeys(source.schema.attributes), source.time: latest + FAR}),
        )
        for source in SOURCES
    ]
    place.mkdir(parents=True, exist_ok=True)
    for number, chunk in enumerate([*chunks, ends]):
        lines = [json.dumps(record) for name, item in chunk for record in records({name: [item]})]
        path = place / f"{number:03d}.json"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (1_700_000_000 + number,) * 2)
    return latest + FAR // 2


def stream_of(spark: SparkSession, place: Path) -> DataFrame:
    return spark.readStream.schema(DDL).option("maxFilesPerTrigger", 1).json(str(place))


def drained(tagged: DataFrame, place: Path, before: int) -> list[Row]:
    """What a stream gives until its source is exhausted, up to some time."""
    writer = tagged.writeStream.format("parquet").option("path", str(place / "out"))
    query = writer.option("checkpointLocation", str(place / "state")).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(600)
    finally:
        query.stop()
    rows = tagged.sparkSession.read.schema(tagged.schema).parquet(str(place / "out")).collect()
    return [row for row in rows if row.time < before]
