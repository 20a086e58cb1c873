"""Sources and sinks for Spark that are written in Python: nothing but packages of PyPI is needed.

    from distributary.spark.connectors import register

    register(spark)
    spark.readStream.format("mqtt").option("topic", "sensors/#").option("log", "mqtt-log").load()

Modules, in reading order:

- `registration`: `register`, which makes the formats known to a session;
- `options`: what the options of a format may say, checked with the nearest right name;
- `message_log`: messages on a disk, by offset, until Spark has committed the micro-batch that read them;
- `intake`: what every way of messages into a log has in common;
- `log_source`: a stream whose rows are the messages of a log;
- `mqtt`: the format `mqtt`; `network`: the format `distributary`;
- `json_events`: rows of either as events.

What a session of Spark needs to know of a data source travels by its name, so that this package must be
installed where Python workers run.
"""

from __future__ import annotations

from distributary.spark.connectors.json_events import mqtt_events, network_events
from distributary.spark.connectors.registration import register

__all__ = ["mqtt_events", "network_events", "register"]
