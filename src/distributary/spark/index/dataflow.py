"""The dataflow: how events and subscriptions are brought together, whatever is made of the matches.

    events -> [route to parts] -> match what does not depend on tolerances  -> rows
                              \\-> events that do -> by topic, in order -> match  -> rows

The first branch is a plain map. The second is taken only where there may be tolerances (see `tolerances`).
With one part there is nothing to route and nothing is moved.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, IntegerType, StructField, StructType

from distributary.spark.columns import HOME, PART, EventColumns
from distributary.spark.index.parts import Parts
from distributary.spark.rows import Shape
from distributary.spark.tasks import MatchTask, RouteTask
from distributary.spark.tolerances import matched_in_batch, matched_in_stream


def dataflow(
    events: DataFrame, parts: Parts, columns: EventColumns, shape: Shape, tolerances: bool
) -> DataFrame:
    """The rows of that shape for these events and the subscriptions in these parts."""
    schema = shape.schema(events.schema)
    routed = events
    if parts.plan is not None:
        extra = [StructField(PART, IntegerType()), StructField(HOME, BooleanType())]
        visits = events.mapInArrow(
            RouteTask(parts, columns, shape.all_events).run, StructType([*events.schema, *extra])
        )
        routed = visits.repartitionById(parts.count, F.col(PART))
    matched = routed.mapInArrow(MatchTask(parts, columns, shape).run, schema)
    if not tolerances:
        return matched
    second = matched_in_stream if events.isStreaming else matched_in_batch
    return matched.union(second(routed, parts, columns, shape))
