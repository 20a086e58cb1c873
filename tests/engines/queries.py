"""Every engine that runs queries, each as a function of a catalogue and events.

An engine gives the items of every stream that it can show, in the order of the stream. `events` come in an
order in which none is late; `late` come after all others, too late for engines that know lateness (which is
every one that takes events as they arrive: `KNOW_LATENESS`).
"""

from __future__ import annotations

import json
import os
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.flow import END, Catalogue, Item, RunningGraph, Source, SourceIntake, answer
from distributary.model import Event
from distributary.spark.queries.run import QueryStreams, run_queries
from engines.sessions import CLUSTER, CONNECT, LOCAL, Sessions
from flow import functions
from systems.queries.worlds import World

Answers = dict[str, list[Item]]
"""Items by the name of their stream, in stream order."""


@dataclass(frozen=True)
class Feed:
    """What an engine is given, and where it may write."""

    catalogue: Catalogue
    events: Sequence[Event]
    place: Path
    late: Sequence[Event] = ()


Engine = Callable[[Feed, Sessions], Answers]


def in_order(found: Mapping[str, Iterable[Item]], catalogue: Catalogue) -> Answers:
    """The streams of a catalogue's queries with their items in stream order."""
    return {
        name: sorted(found.get(name, ()), key=lambda item: item.order)
        for operator in catalogue.operators
        for name in operator.streams
        if catalogue.streams[name].published
    }


# Without Spark


def interpreter(feed: Feed, sessions: Sessions | None = None) -> Answers:
    """What queries mean."""
    return in_order(answer(feed.catalogue, feed.events).streams, feed.catalogue)


def incremental(feed: Feed, sessions: Sessions) -> Answers:
    """Running operators, an event at a time, with the watermarks of their sources."""
    graph = RunningGraph.of(feed.catalogue)
    intakes = [SourceIntake(source) for source in feed.catalogue.sources.values()]
    given: dict[str, list[Item]] = defaultdict(list)
    for event in [*feed.events, *feed.late]:
        for intake in intakes:
            item = intake.admit(event)
            if item is not None:
                name = intake.source.name
                results = graph.receive(name, item) + graph.advance(name, intake.watermark)
                for operator, result in results:
                    given[operator].append(result)
    for intake in intakes:
        for operator, result in graph.advance(intake.source.name, END):
            given[operator].append(result)
    # What queries have in common runs once, under the name of the first operator that is so.
    shared = feed.catalogue.shared()
    makers = {stream: each.name for each in shared.operators for stream in each.streams}
    streams = [stream for operator in feed.catalogue.operators for stream in operator.streams]
    found = {stream: given[makers[shared.streams[stream]]] for stream in streams}
    return in_order(found, feed.catalogue)


def network(feed: Feed, sessions: Sessions) -> Answers:
    """Five simulated brokers; clients are given only what comes out of a query."""
    world = World(5, seed=len(feed.events))
    world.register(feed.catalogue)
    for event in [*feed.events, *feed.late]:
        for source in feed.catalogue.sources.values():
            if source.accepts(event):
                world.publish(source.name, event)
        world.run(0.05)
    for name in feed.catalogue.sources:
        world.end(name)
    world.run(400)
    outputs = {name for query in feed.catalogue.queries for name in feed.catalogue.outputs(query)}
    found = in_order(world.results(), feed.catalogue)
    return {name: items for name, items in found.items() if name in outputs}


# Spark

SPARK_TYPES = {"text": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}


def columns_of(catalogue: Catalogue) -> dict[str, str]:
    """The columns that events of all sources need, with their types."""
    columns = {"id": "string", "topic": "string"}
    for source in catalogue.sources.values():
        if source.derived:
            continue
        for name, type in source.schema.attributes.items():
            assert columns.setdefault(name, SPARK_TYPES[type]) == SPARK_TYPES[type]
    return columns


def ddl(catalogue: Catalogue) -> str:
    return ", ".join(f"`{name}` {type}" for name, type in columns_of(catalogue).items())


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


def spark_batch(spark: SparkSession, feed: Feed) -> Answers:
    """All queries in one job over one DataFrame of the events."""
    ship_functions(spark)
    columns = columns_of(feed.catalogue)
    rows = [
        tuple({"id": event.id, "topic": event.topic, **event.attributes}.get(name) for name in columns)
        for event in feed.events
    ]
    events = spark.createDataFrame(rows, ddl(feed.catalogue)).repartition(2)
    streams = run_queries(feed.catalogue, events)
    return items_of(streams, streams.tagged().collect())


FAR = 1_000_000
"""So much later than all others, in milliseconds, are the last items of every source."""


def spark_stream(spark: SparkSession, feed: Feed, files: int = 2) -> Answers:
    """All queries as one streaming query over files, a micro-batch for each.

    After the events comes one far ahead for every source, so that all windows are complete; its own results
    are left out. What is late comes after two of those: Spark calls late what is before the watermark of the
    batch before.
    """
    ship_functions(spark)
    sources = feed.catalogue.sources.values()
    latest = max(int(event.attributes.get(one.time) or 0) for one in sources for event in feed.events)
    size = -(-len(feed.events) // files)
    chunks = [feed.events[at : at + size] for at in range(0, len(feed.events), size)]
    fed = [source for source in sources if not source.derived]
    chunks.append([_last(source, latest + FAR) for source in fed])
    if feed.late:
        chunks += [[_last(source, latest + FAR + 1) for source in fed], feed.late]
    place = Path(tempfile.mkdtemp(dir=feed.place))
    write_files(place / "in", chunks)
    reader = spark.readStream.schema(ddl(feed.catalogue)).option("maxFilesPerTrigger", 1)
    streams = run_queries(feed.catalogue, reader.json(str(place / "in")))
    rows = drained(streams.tagged(), place)
    return items_of(streams, [row for row in rows if row.time < latest + FAR // 2])


def _last(source: Source, time: int) -> Event:
    """An event that passes the condition of its source."""
    attributes = {name: 1 for name, type in source.schema.attributes.items() if type == "integer"}
    levels = TopicFilter.parse(source.topic).levels
    topic = "/".join("any" if level == WILDCARD else level for level in levels)
    return Event(f"end{time}", topic, {**attributes, source.time: time})


def write_files(place: Path, chunks: Sequence[Sequence[Event]]) -> None:
    """Write events as files of JSON lines, which a stream takes in the order of their times."""
    place.mkdir(parents=True)
    for number, chunk in enumerate(chunks):
        lines = [json.dumps({"id": event.id, "topic": event.topic, **event.attributes}) for event in chunk]
        path = place / f"{number:03d}.json"
        path.write_text("\n".join(lines) + "\n")
        os.utime(path, (1_700_000_000 + number,) * 2)


def drained(tagged: DataFrame, place: Path) -> list[Row]:
    """What a stream gives until its source is exhausted."""
    writer = tagged.writeStream.format("parquet").option("path", str(place / "out"))
    query = writer.option("checkpointLocation", str(place / "state")).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(600)
    finally:
        query.stop()
    return tagged.sparkSession.read.schema(tagged.schema).parquet(str(place / "out")).collect()


def items_of(streams: QueryStreams, tagged: Iterable[Row]) -> Answers:
    """The items that Spark gives, from rows of `QueryStreams.tagged`."""
    found: dict[str, list[Item]] = {name: [] for name in streams}
    arrays = {"text": "texts", "integer": "integers", "number": "numbers", "boolean": "booleans"}
    for row in tagged:
        for name in row.streams:
            schema = streams.catalogue.streams[name].schema
            held = {type: iter(row[array]) for type, array in arrays.items()}
            attributes: dict[str, Any] = {
                attribute: row.time if attribute == schema.time else next(held[type])
                for attribute, type in schema.attributes.items()
            }
            found[name].append(Item(row.id, row.time, attributes, row["rank"]))
    return {name: sorted(items, key=lambda item: item.order) for name, items in found.items()}


def on_spark(where: str, run: Callable[[SparkSession, Feed], Answers]) -> Engine:
    """An engine that runs in a session of Spark's."""
    return lambda feed, sessions: sessions.run(where, run, feed)


ENGINES: dict[str, Engine] = {
    "interpreter": interpreter,
    "incremental": incremental,
    "network": network,
    "spark-batch": on_spark(LOCAL, spark_batch),
    "spark-stream": on_spark(LOCAL, spark_stream),
    "spark-connect": on_spark(CONNECT, spark_batch),
    "spark-connect-stream": on_spark(CONNECT, spark_stream),
    "spark-cluster": on_spark(CLUSTER, spark_batch),
    "spark-cluster-stream": on_spark(CLUSTER, spark_stream),
}
KNOW_LATENESS = ("incremental", "network", "spark-stream", "spark-connect-stream", "spark-cluster-stream")


def typed(items: Iterable[Item]) -> list[tuple[Any, ...]]:
    """Items to be compared, in which 1, 1.0 and true differ."""
    return [
        (
            item.id,
            item.time,
            item.rank,
            sorted((name, repr(value)) for name, value in item.attributes.items()),
        )
        for item in items
    ]


def differences(catalogue: Catalogue, found: Answers, wanted: Answers) -> list[tuple[Any, ...]]:
    """The streams that differ: name, operation, what is missing and what is too much."""
    operations = {name: each.operation for each in catalogue.operators for name in each.streams}
    rows = {name: (typed(items), typed(wanted[name])) for name, items in found.items()}
    return [
        (
            name,
            operations[name],
            [item for item in want if item not in have],
            [item for item in have if item not in want],
        )
        for name, (have, want) in rows.items()
        if have != want
    ]
