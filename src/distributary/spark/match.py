"""Match a DataFrame of events, batch or stream, against standing subscriptions: one row a match.

    events -> [route to parts] -> match what does not depend on tolerances  -> rows
                              \\-> events that do -> by topic, in order -> match  -> rows

The first branch is a plain map over the index (see `index`). The second is taken only where there may be
tolerances (see `tolerances`); in a stream both are one, so that its source is read once. With an index of one
part there is nothing to route and nothing is moved.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BooleanType, IntegerType, StructField, StructType

from distributary.errors import SubscriptionWarning
from distributary.quarantine import Rejection
from distributary.spark.columns import HOME, PART, EventColumns
from distributary.spark.index.build import CAPACITY, IndexOptions, Strategy, Subscriptions, find_or_build
from distributary.spark.lint import lint_of
from distributary.spark.places import ARRIVAL
from distributary.spark.rows import REJECTION_COLUMNS, MatchRows
from distributary.spark.tasks import MatchTasks
from distributary.spark.tolerances import matched_in_batch, matched_in_stream
from distributary.spark.workers import map_in_arrow


def match(
    events: DataFrame,
    subscriptions: Subscriptions,
    *,
    id: str = "id",
    topic: str = "topic",
    document: str = "document",
    order: str | None = None,
    carry: Sequence[str] = (),
    tolerances: bool = True,
    strategy: Strategy = "auto",
    capacity: int = CAPACITY,
    version: int | None = None,
    workspace: str | None = None,
    rejected: list[Rejection] | None = None,
    strict: bool = False,
    lint: bool = True,
    engines: Mapping[str, str] | None = None,
) -> DataFrame:
    """Every match of events and subscriptions: event_id, subscription_id, subscriber, and `carry`.

        events = spark.createDataFrame([("e1", "quotes/NYSE", 8.5)], "id string, topic string, price double")
        wishes = spark.createDataFrame([("s1", "ann", "quotes", "price > 8")],
                                       "id string, subscriber string, topic string, where string")
        match(events, wishes).show()              # e1, s1, ann

        stream = spark.readStream.schema(events.schema).parquet("incoming")
        match(stream, "subscriptions-store", order="at", carry=["price"])

    `events` is a batch or a stream. Every column but those named by `id`, `topic` and `document` is an
    attribute; the fields of a struct have dotted names. `carry` lists columns of the events to have in the
    result. Malformed events match nothing; the function `rejected` shows them.

    `subscriptions` is a DataFrame (id, subscriber, topic, where, path, change), which is read once, a list
    of `Subscription`, or a subscription store or its location, which a stream follows: a change takes effect
    with the next micro-batch. Outside a stream `version` says which version to use (default: the newest). A
    malformed subscription is left out, told to the log and added to `rejected`; `strict` raises instead.

    Subscriptions with a tolerance (`change`) see the events of each topic in the order of the column `order`,
    which must be named if there are any; `tolerances=False` leaves these subscriptions out.

    `strategy` "index" has every worker open all subscriptions, "rendezvous" brings each event to the parts
    that hold about `capacity` of them, "auto" chooses by their number. `engines` are those of `Matcher`, not
    for stores. `workspace`, a directory that all machines see, is for what is built; else Spark ships it.

    With `lint` a `SubscriptionWarning` tells of subscriptions, or of some if they are very many, that cannot
    match such events: they name an attribute which these have not, or compare what does not compare.

    The index is built, or found, before this returns; the matching itself runs when the result is used.
    Columns that are missing or of a wrong type raise `DistributaryError` at once.
    """
    columns = EventColumns(id, topic, document, order)
    columns.check(events.schema, carry)
    options = IndexOptions(tolerances, strategy, capacity, version, workspace, strict, engines)
    linted = lint_of(events.schema, columns) if lint else None
    look = None if linted is None else linted.look
    index = find_or_build(events, subscriptions, columns, options, [] if rejected is None else rejected, look)
    for line in [] if linted is None else linted.lines:
        warnings.warn(line, SubscriptionWarning, stacklevel=2)
    return match_with(MatchTasks(index, columns, MatchRows(tuple(carry))), events)


def match_with(tasks: MatchTasks, events: DataFrame) -> DataFrame:
    """The rows that tasks make of events and the subscriptions in their index; see `with_arrival`."""
    schema = tasks.rows.schema(events.schema)
    events = with_arrival(events)
    index, routed = tasks.index, events
    if index.plan is not None:
        extra = [StructField(PART, IntegerType()), StructField(HOME, BooleanType())]
        visits = map_in_arrow(events, tasks.route, StructType([*events.schema, *extra]))
        routed = visits.repartitionById(index.parts, F.col(PART))
    if index.tolerances and events.isStreaming:
        return matched_in_stream(routed, tasks)
    matched = map_in_arrow(routed, tasks.match, schema)
    return matched.union(matched_in_batch(routed, tasks)) if index.tolerances else matched


def with_arrival(events: DataFrame) -> DataFrame:
    """The events with their arrival, unless they have it: what `now()` is in conditions.

    It is one instant for a batch. A stream has one for each micro-batch, which Spark keeps with its offsets:
    a micro-batch that is repeated after a failure repeats it. Archived events have that of their micro-batch.
    """
    if ARRIVAL in events.columns:
        return events
    return events.withColumn(ARRIVAL, F.unix_micros(F.current_timestamp()))


def rejected(
    events: DataFrame,
    *,
    id: str = "id",
    topic: str = "topic",
    document: str = "document",
    order: str | None = None,
) -> DataFrame:
    """The malformed events, which match nothing: event_id, field, reason, record.

        rejected(events, order="at").show()

    The arguments are those that `match` gets; `record` is the event as JSON.
    """
    columns = EventColumns(id, topic, document, order)
    columns.check(events.schema)
    schema = ", ".join(f"{name} string" for name in REJECTION_COLUMNS)
    return map_in_arrow(events, columns.rejections, schema)
