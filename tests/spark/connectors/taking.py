"""Takes messages from a broker into a log in a process of its own, which may be killed: `taking.py OPTIONS`.

OPTIONS is JSON: those of the format, and `halt`: ["append", n] ends the process before the n-th message would
be written, ["ack", n] when it is on the disk and has not been acknowledged.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from distributary.spark.connectors.message_log import MessageLog
from distributary.spark.connectors.mqtt.intake import MqttIntake
from distributary.spark.connectors.mqtt.message import LoggedMessage
from distributary.spark.connectors.mqtt.source import reading_options, topic_filters


def main() -> None:
    given = json.loads(sys.argv[1])
    moment, count = given.pop("halt", ("", 0))
    options = reading_options(given)
    log = MessageLog(given["log"], LoggedMessage)
    intake = MqttIntake(options, topic_filters(given["topic"]), log)
    append, acknowledge = log.append, intake._client.ack
    end = log.end + count

    def append_or_end(messages: Any) -> None:
        if moment == "append" and log.end + len(messages) >= end:
            os._exit(9)
        append(messages)

    def acknowledge_or_end(mid: int, qos: int) -> Any:
        if moment == "ack" and log.end >= end:
            os._exit(9)
        return acknowledge(mid, qos)

    log.append, intake._client.ack = append_or_end, acknowledge_or_end  # type: ignore[method-assign]
    intake.start()
    print("taking", flush=True)
    threading.Event().wait()


if __name__ == "__main__":
    main()
