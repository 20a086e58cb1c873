"""Of subscriptions with one id the first that is well-formed is kept, as everywhere; the others are rejected.

Rules:

- First means first in the order in which `collect` would give the rows: that of the file or the list that
  the DataFrame was made from, or of the sort it ends with.
- Rows that were shuffled and not sorted since (a join, a grouping, `repartition`) come in another order each
  time. Of these the one whose JSON text sorts first is the first, so that it is always the same.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import redirect_stdout

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, StructField, StructType

from distributary.errors import InputError
from distributary.files import subscriptions_from_table
from distributary.filters.kinds import added_kinds, parse_filters
from distributary.model import Subscription
from distributary.quarantine import Rejection, rejection
from distributary.spark.places import RESERVED
from distributary.spark.rows import Batches
from distributary.spark.workers import map_in_arrow
from distributary.store.columns import to_subscriptions

POSITION, WRONG, RANK = RESERVED + "position", RESERVED + "wrong", RESERVED + "rank"
"""Where a subscription stands, whether it is malformed, and which of its id it is."""

MOVED = re.compile(r"(?<!Broadcast)Exchange (?!rangepartitioning)")
SORTED = re.compile(r"\bSort \[.*\], true|TakeOrderedAndProject|Exchange rangepartitioning")
"""Steps of a plan after which rows come in no order, or in one."""


def table_in_order(subscriptions: DataFrame) -> pa.Table:
    """The subscriptions as a table, so that the first of each id is the one to keep."""
    table = subscriptions.toArrow()
    ids = table["id"].drop_null()
    if pc.count_distinct(ids).as_py() < len(ids) and not has_order(subscriptions):
        return _by_text(subscriptions).toArrow()
    return table


def without_repeated(subscriptions: DataFrame, rejected: list[Rejection]) -> DataFrame:
    """The first well-formed subscription of each id, and all that are malformed; the others are rejected."""
    repeated = subscriptions.groupBy("id").count().where("count > 1 and id is not null")
    if repeated.isEmpty():
        return subscriptions
    ordered = subscriptions if has_order(subscriptions) else _by_text(subscriptions)
    numbered = ordered.withColumn(POSITION, F.monotonically_increasing_id())
    marked = map_in_arrow(numbered, _mark, StructType([*numbered.schema, StructField(WRONG, BooleanType())]))
    rank = F.row_number().over(Window.partitionBy("id", WRONG).orderBy(POSITION))
    ranked = marked.withColumn(RANK, rank)
    kept = (F.col(RANK) == 1) | F.col("id").isNull() | F.col(WRONG)
    for row in ranked.where(~kept).select("id", _text(subscriptions).alias("record")).collect():
        error = InputError("is registered already, by one before it; ids must differ", field="id")
        rejected.append(rejection(f"subscription {row.id}", error, row.record))
    return ranked.where(kept).drop(POSITION, WRONG, RANK)


def has_order(frame: DataFrame) -> bool:
    """Whether the rows come in the same order each time: they were not shuffled, or sorted since."""
    plan = io.StringIO()
    with redirect_stdout(plan):
        frame.explain()
    for step in plan.getvalue().splitlines():
        if SORTED.search(step):
            return True
        if MOVED.search(step):
            return False
    return True


def read_subscriptions(table: pa.Table) -> Iterator[Subscription | Rejection]:
    """The subscriptions of a table that a user or a store has made."""
    if "serial" not in table.schema.names:
        for one in subscriptions_from_table(table, more_kinds=added_kinds()):
            yield one if isinstance(one, Rejection) else one[1]
        return
    for stored in to_subscriptions(table):
        assert stored is not None, "a live subscription has a subscriber"
        yield stored


def _by_text(subscriptions: DataFrame) -> DataFrame:
    return subscriptions.orderBy(_text(subscriptions))


def _text(subscriptions: DataFrame) -> Column:
    return F.to_json(F.struct(*subscriptions.columns))


def _mark(batches: Batches) -> Batches:
    """The rows, each with whether it is a malformed subscription."""
    for batch in batches:
        bare = pa.table(batch).drop_columns([POSITION])
        wrong = [_is_wrong(read) for read in read_subscriptions(bare)]
        yield batch.append_column(WRONG, pa.array(wrong, pa.bool_()))


def _is_wrong(read: Subscription | Rejection) -> bool:
    try:
        return isinstance(read, Rejection) or not parse_filters(read)
    except InputError:
        return True
