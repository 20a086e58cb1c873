"""Killed at any point and started again, a pipeline writes every delivery to Kafka once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import pytest

from chaos.batch_writer import values_of
from chaos.phases import last_number
from chaos.victim import Victim
from distributary.model import Subscription
from distributary.store import open_store
from kafka_server import KafkaServer
from replay import replayed_by

SEED = int(os.environ.get("DISTRIBUTARY_SEED", "1"))
KILLS, LONGEST, SOON = 30, 1.5, 0.05
"""Kills of whoever writes batches: each so many seconds, at most, after it has begun, or written a batch."""
PIPELINE_KILLS, FILES = 4, 14
PIPELINE = """
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "id STRING, topic STRING, price DOUBLE"
options = {{ maxFilesPerTrigger = 1 }}
[subscriptions]
store = "subscriptions"
[sink]
format = "kafka"
topic = "{topic}"
exactly_once = true
options = {{ "kafka.bootstrap.servers" = "{address}" }}
[trigger]
{trigger}
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
def test_a_pipeline_killed_at_any_moment_writes_each_delivery_to_kafka_once(
    kafka: KafkaServer, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    random, topic = Random(SEED), kafka.topic()
    (tmp_path / "in").mkdir()
    open_store(tmp_path / "subscriptions", create=True).commit(
        [Subscription("s1", "ann", where="price > 50"), Subscription("s2", "bob", topic="quotes")]
    )
    due: list[tuple[str, str]] = []
    for file in range(FILES):
        events = [
            {"id": f"e{file}-{number}", "topic": "quotes", "price": random.randint(0, 100)}
            for number in range(200)
        ]
        (tmp_path / "in" / f"{file}.json").write_text("\n".join(map(json.dumps, events)))
        due += [("bob", str(event["id"])) for event in events]
        due += [("ann", str(event["id"])) for event in events if int(str(event["price"])) > 50]
    config = tmp_path / "pipeline.toml"
    config.write_text(PIPELINE.format(topic=topic, address=kafka.address, trigger='every = "0 seconds"'))
    commits = tmp_path / "checkpoint" / "commits"
    with replayed_by(f"DISTRIBUTARY_SEED={SEED} pytest -m chaos tests/chaos/test_kafka_sink.py -k pipeline"):
        for _ in range(PIPELINE_KILLS):
            victim, before = Victim(tmp_path, "local[2]"), last_number(commits)
            victim.until(partial(_is_beyond, commits, before), "a batch")
            time.sleep(random.uniform(0, 1.0))
            assert victim.kill()
        config.write_text(PIPELINE.format(topic=topic, address=kafka.address, trigger="available_now = true"))
        victim = Victim(tmp_path, "local[2]")
        assert victim.finish() == 0, victim.told()
        record_property("faults", {"kill of a pipeline": PIPELINE_KILLS})
        came = [json.loads(each.value() or b"") for each in kafka.committed(topic, len(due))]
        got = sorted((each["subscriber"], each["event_id"]) for each in came)
        record_property("compared", {"deliveries": len(got)})
        assert got == sorted(due)


def _noted(directory: Path) -> int:
    """How many batches are noted."""
    return len(list(directory.glob("[0-9]*.json")))


def _is_beyond(commits: Path, batch: int) -> bool:
    return last_number(commits) > batch
