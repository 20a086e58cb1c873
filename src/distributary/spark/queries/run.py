"""Stream queries on Spark: a DataFrame of events in, batch or stream, and DataFrames of derived streams out.

    from distributary.spark import run_queries
    streams = run_queries(read_query_file("queries.toml"), events)
    streams["busy.per_minute"].show()

All queries are one job: what they have in common is computed once (see `plan`), and `tagged` has the
items of all streams in one DataFrame, which as a stream is one streaming query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from distributary.errors import DistributaryError
from distributary.flow.catalogue import Catalogue
from distributary.flow.language.function import Function
from distributary.flow.language.schema import listed
from distributary.flow.language.topics import TOPIC, TopicTemplate
from distributary.spark.columns import EventColumns
from distributary.spark.queries.frames import item_rows, rejecting_streams
from distributary.spark.queries.packed import item_values
from distributary.spark.queries.sql import published_topic_sql


def run_queries(
    catalogue: Catalogue,
    events: DataFrame,
    *,
    id: str = "id",
    topic: str = "topic",
    document: str = "document",
) -> QueryStreams:
    """The streams that the queries of a catalogue derive from events, batch or stream.

        streams = run_queries(read_query_file("queries.toml"), events)
        match(streams["busy.per_minute"], subscriptions).show()

    `id`, `topic` and `document` name columns as `match` takes them. Nothing is computed before one of the
    DataFrames is used. Columns that are missing or of a wrong type raise `DistributaryError`.
    """
    columns = EventColumns(id, topic, document)
    columns.check(events.schema)
    return QueryStreams(catalogue, events, columns)


@dataclass(frozen=True)
class QueryStreams(Mapping[str, DataFrame]):
    """The published streams of a catalogue by name (`query.operator`), as DataFrames.

    Each has `id`, `topic` (which an item is published under) and the attributes with their types, which is
    what `match` takes. A DataFrame of one stream computes what that stream needs; to have many, take
    `tagged`: there they are computed together.
    """

    catalogue: Catalogue
    events: DataFrame
    columns: EventColumns

    def __getitem__(self, name: str) -> DataFrame:
        return self.stream(self.tagged([name]), name)

    def __iter__(self) -> Iterator[str]:
        operators = (name for each in self.catalogue.operators for name in each.streams)
        return iter([name for name in operators if self.catalogue.streams[name].published])

    def __len__(self) -> int:
        return len(list(iter(self)))

    def tagged(self, streams: Sequence[str] | None = None) -> DataFrame:
        """The items of many streams (all that are published) in one DataFrame, computed as one job.

        `streams` has the names of the streams a row belongs to, for equal streams are computed once; the
        values are packed in arrays by type, from which `stream` takes them.
        """
        names = list(self) if streams is None else list(streams)
        for name in names:
            if name not in self.catalogue.streams:
                there = listed(list(self))
                raise DistributaryError(f"there is no stream {name!r}; there are {there}")
        plan, rows = item_rows(self.catalogue, self.events, self.columns, names, rejections=False)
        called = F.element_at(F.lit(plan.names(names)), F.col("stream") + 1)
        return rows.withColumn("streams", called).drop("stream", "field", "reason")

    def stream(self, tagged: DataFrame, name: str) -> DataFrame:
        """One stream of tagged rows, with typed columns."""
        stream = self.catalogue.streams[name]
        chosen = tagged.where(F.array_contains("streams", name))
        values = item_values(stream.schema)
        topic = "cast(null as string)"
        if name not in self.catalogue.sources:
            topic = published_topic_sql(TopicTemplate.parse(stream.topic), values)
        named = [name for name in stream.schema.attributes if name != TOPIC]
        attributes = (F.expr(values[name][0]).alias(name) for name in named)
        return chosen.select("id", F.expr(topic).alias("topic"), *attributes)

    def set_aside(self) -> DataFrame:
        """What could not be used: stream, id, field, reason.

        That is events that belong to a source and do not fit it, and items or windows for which a function
        of the user's failed.
        """
        functions = [
            stream
            for each in self.catalogue.operators
            if isinstance(each.operation, Function)
            for stream in each.streams
        ]
        plan, rows = item_rows(self.catalogue, self.events, self.columns, functions)
        names = F.lit(rejecting_streams(plan, self.catalogue.sources))
        stream = F.element_at(names, -F.col("stream"))
        return rows.where("reason is not null").select(stream.alias("stream"), "id", "field", "reason")
