"""Upkeep: a base near the newest version of a store, built in the background while a stream follows it.

Workers apply the changes since the base they opened. That is cheap for thousands of them, so a base is built
anew only when they have become many (see `bases.refresh`); workers take it up when they next need a version
at or above it. No answer depends on this, so a failure is told to the log and tried again.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from distributary.spark.index.bases import CAPACITY, Strategy, live_parts
from distributary.store import SubscriptionStore

EVERY = 10.0
"""Seconds between looks at the store."""

_log = logging.getLogger("distributary")


@contextmanager
def upkeep(
    spark: SparkSession,
    store: SubscriptionStore,
    strategy: Strategy,
    tolerances: bool,
    *,
    capacity: int = CAPACITY,
    every: float = EVERY,
) -> Iterator[None]:
    """Keep a base near the newest version as long as the context lasts."""
    done = threading.Event()

    def keep() -> None:
        seen = store.version()
        while not done.wait(every):
            try:
                version = store.version()
                if version != seen:
                    live_parts(spark, store, strategy, version, capacity, tolerances)
                    seen = version
            except Exception as error:
                _log.warning("the upkeep of %r failed and will be tried again: %s", store, error)

    keeper = threading.Thread(target=keep, name="upkeep", daemon=True)
    keeper.start()
    try:
        yield
    finally:
        done.set()
