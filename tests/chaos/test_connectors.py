"""A query that is killed at random moments, and its broker with it, loses and doubles nothing.

Messages flow from MQTT through Spark into files, and events from a network through Spark back into it.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import paho.mqtt.client as paho
import pytest

from chaos.sizes import TIMES
from chaos.victim import Victim
from distributary import Event
from distributary.client import connect, connect_plain
from replay import replayed_by
from spark.connectors.brokers import ServedBroker, served_broker

SEED = int(os.environ.get("DISTRIBUTARY_SEED", "1"))
KILLS = 5 * TIMES
FULL = bool(os.environ.get("DISTRIBUTARY_CHAOS_FULL"))
BURST = 200
"""Messages that are published while a query lives."""
LONGEST = 6.0
"""Seconds from what a kill waits for to the kill, at most: some batches."""
PATIENCE = 300


class KilledStream(Victim):
    """A streaming query in a session of its own, so that it can be killed with all its children."""

    def __init__(self, place: Path, settings: dict[str, Any]) -> None:
        self.place = place
        program = str(Path(__file__).with_name("streamer.py"))
        with (place / "output.txt").open("ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, program, json.dumps(settings)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": os.pathsep.join(sys.path)},
            )


def batches(place: Path) -> int:
    """How many micro-batches were begun."""
    return sum(1 for path in (place / "checkpoint" / "offsets").glob("[0-9]*"))


def kill_often(
    place: Path, settings: dict[str, Any], broker: ServedBroker, send: Callable[[int], None], random: Random
) -> tuple[int, int]:
    """Start a query again and again while messages flow, and kill it; how often it and the broker died."""
    fired = broken = 0
    for number in range(KILLS):
        begun = batches(place)
        victim = KilledStream(place, settings)
        if number == 0:  # so that nothing is published before it is subscribed to
            victim.until(lambda begun=begun: batches(place) > begun, "the first batch")
        sending = threading.Thread(target=send, args=(number,))
        sending.start()
        # Most kills are aimed at batches, some at the start: it is longer, and has steps of its own.
        if random.random() < 0.7:
            victim.until(lambda begun=begun: batches(place) > begun, "another batch")
        threading.Event().wait(random.uniform(0, LONGEST))
        fired += victim.kill()
        sending.join(PATIENCE)
        if random.random() < 0.5:
            broken += 1
            broker.kill()
            broker.start()
    last = KilledStream(place, {**settings, "end": True})
    assert last.finish() == 0, last.told()
    return fired, broken


@contextmanager
def reported(record: Callable[[str, object], None], test: str) -> Iterator[dict[str, int]]:
    counts: dict[str, int] = {}
    with replayed_by(f"DISTRIBUTARY_SEED={SEED} pytest -m chaos tests/chaos/test_connectors.py -k {test}"):
        yield counts
    record("faults", {"kill of a query": counts["kills"], "kill of a broker": counts["brokers"]})
    record("compared", {"messages": counts["messages"]})


@pytest.mark.chaos
@pytest.mark.parametrize("version", ["5", "3.1.1"][: 2 if FULL else 1])
def test_messages_from_mqtt_are_in_the_files_once(
    tmp_path: Path, version: str, record_property: Callable[[str, object], None]
) -> None:
    random = Random(f"{SEED}/mqtt/{version}")
    with reported(record_property, "mqtt") as counts, served_broker(tmp_path) as broker:

        def send(number: int) -> None:
            client = paho.Client(paho.CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
            client.connect("127.0.0.1", broker.mqtt)
            client.loop_start()
            for each in range(BURST):
                # One at a time: what a publisher sends again is another message to MQTT.
                client.publish("in/a", str(number * BURST + each), 1).wait_for_publish(PATIENCE)
            client.disconnect()
            client.loop_stop()

        options = {
            "port": str(broker.mqtt),
            "topic": "in/#",
            "log": str(tmp_path / "log"),
            "version": version,
            "maxRowsPerTrigger": "20",
            "quiet": "3",
        }
        settings = {"format": "mqtt", "place": str(tmp_path), "options": options}
        counts["kills"], counts["brokers"] = kill_often(tmp_path, settings, broker, send, random)
        rows = json.loads((tmp_path / "rows.json").read_text())
        assert rows == [str(each) for each in range(KILLS * BURST)]
        counts["messages"] = len(rows)
        assert counts["kills"] == KILLS


async def _all_taken(at: str, count: int) -> list[str]:
    found: list[str] = []
    async with connect(at, name="reader") as client, client.batches(id="s", topic="out") as taken:
        async with asyncio.timeout(PATIENCE):
            while len(found) < count:
                found += [event.id for event in (await anext(taken)).events]
    return found


@pytest.mark.chaos
@pytest.mark.parametrize("kind", ["web", "node"][: 2 if FULL else 1])
def test_events_go_through_spark_and_back_into_the_network_once(
    tmp_path: Path, kind: str, record_property: Callable[[str, object], None]
) -> None:
    random = Random(f"{SEED}/network/{kind}")
    with reported(record_property, "network") as counts, served_broker(tmp_path) as broker:

        def send(number: int) -> None:
            with connect_plain(broker.node) as client:
                for each in range(number * BURST, (number + 1) * BURST):
                    client.publish(Event(f"e{each}", "in", {"source": "chaos", "number": each}))

        at, to = (broker.web, broker.node) if kind == "web" else (broker.node, broker.web)
        asyncio.run(_all_taken(broker.web, 0))
        options = {"at": at, "topic": "in", "log": str(tmp_path / "log"), "quiet": "3"}
        options["maxRowsPerTrigger"] = "20"
        settings = {"format": "distributary", "place": str(tmp_path), "options": options, "to": to}
        counts["kills"], counts["brokers"] = kill_often(tmp_path, settings, broker, send, random)
        with connect_plain(broker.web) as client:
            client.publish(Event("end", "out"))
        came = asyncio.run(_all_taken(broker.web, KILLS * BURST + 1))
        assert came == [*(f"e{each}" for each in range(KILLS * BURST)), "end"]
        counts["messages"] = len(came)
        assert counts["kills"] == KILLS
