"""Makes the formats of the connectors known to a session of Spark."""

from __future__ import annotations

from importlib.util import find_spec

from pyspark.sql import SparkSession

from distributary.errors import DistributaryError
from distributary.spark.workers import use_this_python


def register(spark: SparkSession) -> None:
    """Make the formats `mqtt` and `distributary` known to a session; to do so again does nothing.

    Raises `DistributaryError` before PySpark 4.2, whose sources cannot limit what a batch reads.
    """
    if find_spec("pyspark.sql.streaming.datasource") is None:
        raise DistributaryError("the connectors need PySpark 4.2 or newer: pip install 'pyspark>=4.2'")
    from distributary.spark.connectors.mqtt.source import MqttDataSource
    from distributary.spark.connectors.network.source import EventDataSource

    use_this_python(spark)
    spark.dataSource.register(MqttDataSource)
    spark.dataSource.register(EventDataSource)
