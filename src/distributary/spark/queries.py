"""Stream queries on Spark: a DataFrame of events in, batch or stream, and DataFrames of derived streams out.

    from distributary.spark import run_queries
    streams = run_queries(read_query_file("queries.toml"), events)
    streams["busy.per_minute"].show()

All queries are one job: what they have in common is computed once (see `queries_plan`), and `tagged` has the
items of all streams in one DataFrame, which as a stream is one streaming query.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from distributary.errors import DistributaryError
from distributary.flow.catalogue import Catalogue
from distributary.flow.schema import listed
from distributary.spark.columns import EventColumns
from distributary.spark.queries_frames import tagged_rows, unpacked
from distributary.spark.queries_intake import take_in
from distributary.spark.queries_plan import make_plan


def run_queries(
    catalogue: Catalogue,
    events: DataFrame,
    *,
    id: str = "id",
    topic: str = "topic",
    document: str = "document",
) -> QueryStreams:
    """The streams that the queries of a catalogue derive from events; the columns are those `match` takes."""
    columns = EventColumns(id, topic, document)
    columns.check(events.schema)
    return QueryStreams(catalogue, events, columns)


@dataclass(frozen=True)
class QueryStreams(Mapping[str, DataFrame]):
    """The published streams of a catalogue by name (`query.operator`), as DataFrames.

    Each has `id`, `topic` and the attributes with their types, which is what `match` takes. A DataFrame of
    one stream computes what that stream needs; to have many, take `tagged`: there they are computed together.
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
        intake = take_in(self.events, self.columns, self.catalogue.sources.values())
        plan = make_plan(self.catalogue, intake.sources, intake.sheet, names)
        rows = (
            tagged_rows(plan, intake, self.catalogue.sources).where("reason is null").drop("field", "reason")
        )
        called = [[name for name in names if plan.computed[name] == stream] for stream in plan.wanted]
        return rows.withColumn("streams", F.element_at(F.lit(called), F.col("stream") + 1)).drop("stream")

    def stream(self, tagged: DataFrame, name: str) -> DataFrame:
        """One stream of tagged rows, with typed columns."""
        stream = self.catalogue.streams[name]
        topic = F.lit(stream.topic if name not in self.catalogue.sources else None).cast("string")
        chosen = tagged.where(F.array_contains("streams", name))
        return chosen.select("id", topic.alias("topic"), *map(F.expr, unpacked(stream.schema)))

    def set_aside(self) -> DataFrame:
        """The events that belong to a source and do not fit it: source, event_id, field, reason."""
        intake = take_in(self.events, self.columns, self.catalogue.sources.values())
        plan = make_plan(self.catalogue, intake.sources, intake.sheet, [])
        rows = tagged_rows(plan, intake, self.catalogue.sources)
        names = F.lit(list(self.catalogue.sources))
        source = F.element_at(names, -F.col("stream"))
        return rows.select(source.alias("source"), F.col("id").alias("event_id"), "field", "reason")
