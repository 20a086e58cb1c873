"""A map-reduce job on Spark whose stages are streams of topics: each publishes, and the next one subscribes.

    job/lines/<file>            the input, line by line
    job/words/<word>            what the map stage makes of it
    job/counts/<word>           what the first reduce stage makes of that
    job/lengths/<length>        what the second one makes of the counts: the job goes on from its own results

No stage names another: each reads a topic pattern, so a stage can be added, or a subscriber listen to any of
them, without a change to the rest. Run it with `python examples/map_reduce.py`.
"""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from distributary.flow import Catalogue, Item, QueryBuilder, Source
from distributary.spark import deliver, match, run_queries

LINES = [
    ("l1", "job/lines/one", "the stream of the river"),
    ("l2", "job/lines/one", "meets the sea"),
    ("l3", "job/lines/two", "a stream of events"),
]
SUBSCRIPTIONS = [
    ("s1", "ann", "job/counts/stream"),  # one result of the first reduce stage
    ("s2", "bob", "job/lengths"),  # all results of the second
    ("s3", "eve", "job/words/sea"),  # what a map stage gave on the way
]


def words(item: Item) -> list[dict[str, str]]:
    """The map function: the words of a line."""
    return [{"word": word} for word in item.attributes["line"].split()]


def job() -> Catalogue:
    """The three stages, and the topics between them."""
    lines = Source("lines", {"line": "text", "at": "integer"}, time="at", topic="job/lines")
    mapped = Source("mapped", {"word": "text", "at": "integer"}, time="at", topic="job/words", derived=True)
    counts = {"word": "text", "count": "integer", "at": "integer"}
    counted = Source("counted", counts, time="at", topic="job/counts", derived=True)

    mapping = QueryBuilder("mapping")
    mapping.function("words", lines, use="map_reduce:words", gives={"word": "text"})
    mapping.publish("words", "job/words/{word}")

    reducing = QueryBuilder("reducing")
    reducing.count("counts", mapped, window="1 hour", group_by=["word"])
    reducing.publish("counts", "job/counts/{word}")

    again = QueryBuilder("again")
    lengths = again.map("lengths", counted, {"length": "length(word)"})
    total = {"words": "count()", "uses": "sum(count)"}
    again.aggregate("by_length", lengths, window="1 hour", values=total, group_by=["length"])
    again.publish("by_length", "job/lengths/{length}")

    catalogue = Catalogue([lines, mapped, counted], [mapping.query(), reducing.query(), again.query()])
    catalogue.check()
    return catalogue


def main() -> None:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = SparkSession.builder.master("local[2]").config("spark.sql.shuffle.partitions", 2).getOrCreate()
    spark.addArtifact(str(Path(__file__)), pyfile=True)  # workers call `words`
    rows = [(id, topic, line, at) for at, (id, topic, line) in enumerate(LINES)]
    events = spark.createDataFrame(rows, "id string, topic string, line string, at bigint")
    subscriptions = spark.createDataFrame(SUBSCRIPTIONS, "id string, subscriber string, topic string")

    streams = run_queries(job(), events)
    for name in ("mapping.words", "reducing.counts", "again.by_length"):
        stream = streams[name].cache()
        items = {row.id: row.asDict() for row in stream.collect()}
        found = deliver(match(stream, subscriptions)).collect()
        for item in sorted(items.values(), key=lambda item: item["topic"]):
            print(*(value for name, value in item.items() if name not in ("id", "at")))
        for topic, subscriber in sorted((items[row.event_id]["topic"], row.subscriber) for row in found):
            print(f"{subscriber} gets {topic}")
    spark.stop()


if __name__ == "__main__":
    main()
