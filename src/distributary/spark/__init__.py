"""The data pipeline on Spark: match events against subscriptions and deliver them, in batches and streams.

    from distributary.spark import match, deliver
    deliver(match(events, subscriptions))

In reading order:

- `match`, `deliver`: the two functions that users call first; `columns` says which columns mean what, `rows`
  which rows come out, `grouped` makes matches deliveries;
- `index`: the index of the subscriptions, found or built by the driver and opened by tasks;
- `tasks`, `tolerances`: what tasks do with Arrow batches, and the branch for matches that depend on the past;
- `lint`: the subscriptions held against the events' schema before they are matched; `explain`:
  why events match subscriptions or do not;
- `queries`: stream queries as DataFrames, and their items as events;
- `pipeline`: a stream with sinks, archive, quarantine and metrics, from a TOML file (`distributary run`);
- `connectors`: the formats `mqtt` and `distributary`, for readers and writers;
- `replay`: subscriptions over the archive of a pipeline (`distributary replay`);
- `workers`, `session`: what Python workers need, and the commands' session; `micro_batch`, `storage`: what
  Spark knows of a micro-batch, small files;
  `places`: where in a file a line stands that cannot be read.

What is exported here is the room's interface, and importing it loads Spark. Of the other rooms only `cli` and
`distributary_lab` import this one.
"""

from distributary.spark.columns import EventColumns
from distributary.spark.deliver import deliver
from distributary.spark.explain import explain
from distributary.spark.match import match, rejected
from distributary.spark.pipeline.config import load_pipeline
from distributary.spark.pipeline.deliveries import read_deliveries
from distributary.spark.pipeline.metrics import read_metrics
from distributary.spark.pipeline.outputs import read_archive, read_derived
from distributary.spark.pipeline.start import start
from distributary.spark.queries.run import QueryStreams, run_queries
from distributary.spark.replay.matching import EventTimes
from distributary.spark.replay.replay import as_if_subscribed, catch_up, replay

__all__ = [
    "EventColumns",
    "EventTimes",
    "QueryStreams",
    "as_if_subscribed",
    "catch_up",
    "deliver",
    "explain",
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
