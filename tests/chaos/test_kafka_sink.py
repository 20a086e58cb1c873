"""Killed at any point and started again, a pipeline writes every delivery to Kafka once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from chaos.batch_writer import values_of
from chaos.sink_kills import feed, kill_in_every_phase
from kafka_server import KafkaServer
from replay import replayed_by

SEED = int(os.environ.get("DISTRIBUTARY_SEED", "1"))
KILLS, LONGEST, SOON = 30, 1.5, 0.05
"""Kills of whoever writes batches: each so many seconds, at most, after it has begun, or written a batch."""
SINK = """
format = "kafka"
topic = "{topic}"
exactly_once = true
options = {{ "kafka.bootstrap.servers" = "{address}" }}
"""


@pytest.mark.chaos
def test_a_writer_of_batches_killed_many_times_writes_each_once(
    kafka: KafkaServer, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    random, topic = Random(SEED), kafka.topic()
    (tmp_path / "metadata").write_text(json.dumps({"id": topic}))
    command = [sys.executable, str(Path(__file__).with_name("batch_writer.py"))]
    arguments = [kafka.address, topic, str(tmp_path)]
    killed = 0
    with replayed_by(f"DISTRIBUTARY_SEED={SEED} pytest -m chaos tests/chaos/test_kafka_sink.py -k writer"):
        while killed < KILLS:
            (tmp_path / "begun").unlink(missing_ok=True)
            process = subprocess.Popen([*command, *arguments, "1000000"])
            before, again = _noted(tmp_path), killed % 3 != 2
            while not (tmp_path / "begun").exists() or (again and _noted(tmp_path) == before):
                assert process.poll() is None
                time.sleep(0.002)
            time.sleep(random.uniform(0, SOON if again else LONGEST))
            killed += process.poll() is None
            process.kill()
            process.wait()
        batches = _noted(tmp_path) + 1
        subprocess.run([*command, *arguments, str(batches)], check=True, timeout=120)
        record_property("faults", {"kill of a writer to Kafka": killed})
        due = [value for batch in range(batches) for value in values_of(batch)]
        got = [(each.value() or b"").decode() for each in kafka.committed(topic, len(due))]
        record_property("compared", {"records": len(got)})
        assert [value for value, times in Counter(got).items() if times > 1] == []
        assert got == due


@pytest.mark.chaos
def test_a_pipeline_killed_in_every_phase_writes_each_delivery_to_kafka_once(
    kafka: KafkaServer, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    random, topic = Random(SEED), kafka.topic()
    due = feed(tmp_path, random)
    with replayed_by(f"DISTRIBUTARY_SEED={SEED} pytest -m chaos tests/chaos/test_kafka_sink.py -k pipeline"):
        sink = SINK.format(topic=topic, address=kafka.address)
        record_property("faults", kill_in_every_phase(tmp_path, sink, random))
        came = [json.loads(each.value() or b"") for each in kafka.committed(topic, len(due))]
        got = [
            (each["subscriber"], each["event_id"], tuple(each["subscriptions"]), each["price"])
            for each in came
        ]
        record_property("compared", {"deliveries": len(got)})
        assert sorted(got) == due


def _noted(directory: Path) -> int:
    """How many batches are noted."""
    return len(list(directory.glob("[0-9]*.json")))
