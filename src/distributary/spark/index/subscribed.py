"""From subscriptions, in whatever form a user has them, to the parts that tasks open."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame

from distributary.errors import DistributaryError
from distributary.quarantine import Rejection, StrictError
from distributary.spark.columns import EventColumns
from distributary.spark.index.bases import CAPACITY, Strategy, fixed_parts, live_parts
from distributary.spark.index.parts import Parts
from distributary.store import SubscriptionStore, open_store

_log = logging.getLogger("distributary")


@dataclass(frozen=True, slots=True)
class Subscribed:
    """How the subscriptions are to be used; see `match`."""

    tolerances: bool = True
    strategy: Strategy = "auto"
    capacity: int = CAPACITY
    version: int | None = None
    workspace: str | None = None
    strict: bool = False


def parts_for(
    events: DataFrame,
    subscriptions: DataFrame | SubscriptionStore | str,
    columns: EventColumns,
    how: Subscribed,
    rejected: list[Rejection],
) -> tuple[Parts, bool]:
    """The parts of the subscriptions, and whether the dataflow needs its branch for tolerances."""
    if isinstance(subscriptions, str):
        subscriptions = open_store(subscriptions, workspace=how.workspace)
    if isinstance(subscriptions, SubscriptionStore):
        if how.tolerances and columns.order is None:
            raise DistributaryError(
                "the subscriptions of a store may have tolerances, now or later: name the column that orders "
                "the events with order=..., or leave such subscriptions out with tolerances=False"
            )
        version = how.version
        if version is None and not events.isStreaming:
            version = subscriptions.version()
        spark = events.sparkSession
        live = live_parts(spark, subscriptions, how.strategy, version, how.capacity, how.tolerances)
        return live, how.tolerances
    built = fixed_parts(subscriptions, how.strategy, how.workspace, how.capacity, how.tolerances)
    tell(built.rejected, how.strict)
    rejected.extend(built.rejected)
    if built.tolerances and columns.order is None:
        raise DistributaryError(
            "some subscriptions have tolerances: name the column that orders the events with order=..., "
            "or leave them out with tolerances=False"
        )
    return built.parts, built.tolerances


def tell(rejected: Sequence[Rejection], strict: bool) -> None:
    """Tell the log of subscriptions that are left out, or raise the first."""
    if rejected and strict:
        raise StrictError(rejected[0])
    if rejected:
        shown = "; ".join(map(str, rejected[:3]))
        _log.warning("%d malformed subscriptions are left out: %s", len(rejected), shown)
