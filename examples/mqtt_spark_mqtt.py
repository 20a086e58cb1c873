"""From MQTT through a stream of Spark that matches, and back to MQTT: who wants which reading of a sensor?

A broker of ours serves both ends here; any MQTT broker does. It needs
`pip install 'distributary[spark,edge,mqtt]'` and a Java.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import paho.mqtt.client as paho
from pyspark.sql import DataFrame, SparkSession

from distributary import Subscription
from distributary.spark import deliver, match
from distributary.spark.connectors import mqtt_events, register

WANTED = [
    Subscription("s1", "ann", topic="sensors/hall-1", where="celsius > 30"),
    Subscription("s2", "bob", topic="sensors"),
]


def serve(place: Path) -> tuple[subprocess.Popen[bytes], int]:
    """Start a broker; gives its process, and its port for MQTT."""
    ready = place / "ready.json"
    command = [sys.executable, "-m", "distributary", "serve", "--no-console", "--mqtt", "0", "--web", "0"]
    broker = subprocess.Popen([*command, "--ready", str(ready)], stdout=subprocess.DEVNULL)
    while not ready.exists() and broker.poll() is None:
        time.sleep(0.1)
    return broker, int(json.loads(ready.read_text())["mqtt"].rpartition(":")[2])


def run(spark: SparkSession, place: Path, options: dict[str, str]) -> None:
    """Process what is available now: readings in, deliveries out, a topic for each subscriber."""
    readings = spark.readStream.format("mqtt").options(**options).option("topic", "sensors/#")
    events = mqtt_events(readings.option("log", str(place / "log")).load(), "celsius DOUBLE")
    matches = match(events, WANTED, carry=["celsius"])

    def publish(batch: DataFrame, _: int) -> None:
        rows = deliver(batch).selectExpr(
            "concat('for/', subscriber) AS topic", "to_json(struct(event_id, celsius)) AS payload"
        )
        rows.write.format("mqtt").options(**options).mode("append").save()

    stream = matches.writeStream.foreachBatch(publish).option("checkpointLocation", str(place / "checkpoint"))
    stream.trigger(availableNow=True).start().awaitTermination()


def main() -> None:
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
    register(spark)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        broker, port = serve(place)
        options = {"port": str(port)}
        came: list[str] = []
        enough = threading.Event()

        def take(_: object, __: object, message: paho.MQTTMessage) -> None:
            came.append(f"{message.topic} {message.payload.decode()}")
            if len(came) == 4:
                enough.set()

        client = paho.Client(paho.CallbackAPIVersion.VERSION2)
        client.on_message = take
        client.connect("127.0.0.1", port)
        client.subscribe("for/#", 1)
        client.loop_start()
        run(spark, place, options)  # subscribes: the broker keeps what comes from now on
        for hall, celsius in (("hall-1", 31.5), ("hall-2", 32.0), ("hall-1", 20.0)):
            client.publish(f"sensors/{hall}", json.dumps({"celsius": celsius}), 1).wait_for_publish()
        run(spark, place, options)
        enough.wait(60)
        print(*sorted(came), sep="\n")
        client.disconnect()
        client.loop_stop()
        broker.terminate()
        broker.wait()
    spark.stop()


if __name__ == "__main__":
    main()
