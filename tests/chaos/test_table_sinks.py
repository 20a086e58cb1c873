"""Killed at any point and started again, a pipeline writes every delivery to a table once."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog

from chaos.sink_kills import feed, kill_in_every_phase
from chaos.table_writer import ids_of, options_of
from replay import replayed_by

SEED = int(os.environ.get("DISTRIBUTARY_SEED", "1"))
KILLS, SOON = 20, 0.06
"""Kills of whoever writes batches: each so many seconds, at most, after it has begun a batch."""
FORMATS = ("delta", "iceberg")


def rows_of(place: Path, format: str) -> list[dict[str, Any]]:
    """What is in the table."""
    if format == "delta":
        table = DeltaTable(str(place / "table")).to_pyarrow_table()
    else:
        catalog = load_catalog("default", **options_of(place))
        table = catalog.load_table("alerts.deliveries").scan().to_arrow()
        catalog.close()
    return [dict(row) for row in table.to_pylist()]


@pytest.mark.chaos
@pytest.mark.parametrize("format", FORMATS)
def test_a_writer_of_batches_killed_many_times_writes_each_once(
    tmp_path: Path, format: str, record_property: Callable[[str, object], None]
) -> None:
    random, killed = Random(f"{SEED} {format}"), 0
    command = [sys.executable, str(Path(__file__).with_name("table_writer.py")), format, str(tmp_path)]
    with replayed_by(f"DISTRIBUTARY_SEED={SEED} pytest -m chaos tests/chaos/test_table_sinks.py -k writer"):
        while killed < KILLS:
            (tmp_path / "begun").unlink(missing_ok=True)
            process = subprocess.Popen([*command, "1000000"])
            # Twice in three times amid or behind a batch, else about the first one after the start.
            before, more = _noted(tmp_path), killed % 3 != 2
            while not (tmp_path / "begun").exists() or (more and _noted(tmp_path) == before):
                assert process.poll() is None
                time.sleep(0.002)
            time.sleep(random.uniform(0, SOON))
            killed += process.poll() is None
            process.kill()
            process.wait()
        batches = _noted(tmp_path) + 2
        subprocess.run([*command, str(batches)], check=True, timeout=120)
    record_property("faults", {f"kill of a writer to {format}": killed})
    got = Counter((row["batch"], row["event_id"]) for row in rows_of(tmp_path, format))
    record_property("compared", {"deliveries": got.total()})
    assert got == Counter((batch, id) for batch in range(batches) for id in ids_of(batch))


@pytest.mark.chaos
@pytest.mark.parametrize("format", FORMATS)
def test_a_pipeline_killed_in_every_phase_has_each_delivery_once_in_its_table(
    tmp_path: Path, format: str, record_property: Callable[[str, object], None]
) -> None:
    random = Random(f"{SEED} {format}")
    due = feed(tmp_path, random)
    with replayed_by(f"DISTRIBUTARY_SEED={SEED} pytest -m chaos tests/chaos/test_table_sinks.py -k pipeline"):
        record_property("faults", kill_in_every_phase(tmp_path, sink_of(tmp_path, format), random))
    got = [
        (row["subscriber"], row["event_id"], tuple(row["subscriptions"]), row["price"])
        for row in rows_of(tmp_path, format)
    ]
    record_property("compared", {"deliveries": len(got)})
    assert sorted(got) == due


def sink_of(place: Path, format: str) -> str:
    """What stands below `[sink]` in the file of a pipeline."""
    if format == "delta":
        return 'format = "delta"\npath = "table"'
    options = "\n".join(f'{name} = "{value}"' for name, value in options_of(place).items())
    return f'format = "iceberg"\ntable = "alerts.deliveries"\n[sink.options]\n{options}'


def _noted(directory: Path) -> int:
    """How many batches are noted."""
    return len(list(directory.glob("[0-9]*.json")))
