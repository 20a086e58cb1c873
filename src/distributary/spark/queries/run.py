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

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from distributary.errors import DistributaryError
from distributary.flow.catalogue import Catalogue
from distributary.flow.language.function import Function
from distributary.flow.language.schema import listed
from distributary.spark.columns import EventColumns
from distributary.spark.queries.frames import set_aside_streams, tagged_rows, unpacked
from distributary.spark.queries.intake import take_in
from distributary.spark.queries.plan import make_plan


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
    limit_methods(events.sparkSession)
    return QueryStreams(catalogue, events, columns)


METHODS = "spark.sql.codegen.hugeMethodLimit"


def limit_methods(spark: SparkSession) -> None:
    """Have Spark not make methods that the JVM never compiles, as it does of many queries; unless it is set.

    HotSpot interprets methods of more than 8000 bytes, however often they are called.
    """
    if spark.conf.get(METHODS) == "65535":
        spark.conf.set(METHODS, "8000")


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
        rows = tagged_rows(plan, intake, self.catalogue.sources, aside=False).drop("field", "reason")
        called = [[name for name in names if plan.computed[name] == stream] for stream in plan.wanted]
        return rows.withColumn("streams", F.element_at(F.lit(called), F.col("stream") + 1)).drop("stream")

    def stream(self, tagged: DataFrame, name: str) -> DataFrame:
        """One stream of tagged rows, with typed columns."""
        stream = self.catalogue.streams[name]
        topic = F.lit(stream.topic if name not in self.catalogue.sources else None).cast("string")
        chosen = tagged.where(F.array_contains("streams", name))
        return chosen.select("id", topic.alias("topic"), *map(F.expr, unpacked(stream.schema)))

    def set_aside(self) -> DataFrame:
        """What could not be used: stream, id, field, reason.

        That is events that belong to a source and do not fit it, and items or windows for which a function
        of the user's failed.
        """
        intake = take_in(self.events, self.columns, self.catalogue.sources.values())
        functions = [
            stream
            for each in self.catalogue.operators
            if isinstance(each.operation, Function)
            for stream in each.streams
        ]
        plan = make_plan(self.catalogue, intake.sources, intake.sheet, functions)
        rows = tagged_rows(plan, intake, self.catalogue.sources).where("reason is not null")
        names = F.lit(set_aside_streams(plan, self.catalogue.sources))
        stream = F.element_at(names, -F.col("stream"))
        return rows.select(stream.alias("stream"), "id", "field", "reason")
