"""The data pipeline on Spark: match events against subscriptions and deliver them, in batches and streams.

    from distributary.spark import match, deliver
    deliver(match(events, subscriptions))

Spark is imported here and nowhere else in the package.
"""

from distributary.spark.columns import EventColumns
from distributary.spark.deliver import deliver
from distributary.spark.match import match, rejected

__all__ = ["EventColumns", "deliver", "match", "rejected"]
