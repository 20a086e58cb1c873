"""The data pipeline on Spark: match events against subscriptions and deliver them, in batches and streams.

    from distributary.spark import match, deliver
    deliver(match(events, subscriptions))

What runs on Spark is here; nothing else in the package imports Spark but the demonstration, which shows it.
"""

from distributary.spark.columns import EventColumns
from distributary.spark.deliver import deliver
from distributary.spark.match import match, rejected
from distributary.spark.pipeline.archive import read_archive, read_derived
from distributary.spark.pipeline.config import load_pipeline
from distributary.spark.pipeline.deliveries import read_deliveries
from distributary.spark.pipeline.metrics import read_metrics
from distributary.spark.pipeline.pipeline import start
from distributary.spark.queries.run import QueryStreams, run_queries
from distributary.spark.replay.replay import as_if_subscribed, catch_up, replay

__all__ = [
    "EventColumns",
    "QueryStreams",
    "as_if_subscribed",
    "catch_up",
    "deliver",
    "load_pipeline",
    "match",
    "read_archive",
    "read_deliveries",
    "read_derived",
    "read_metrics",
    "rejected",
    "replay",
    "run_queries",
    "start",
]
