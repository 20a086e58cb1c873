"""What a pipeline runs with is opened once, whatever asks for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from rich.console import Console

from distributary import toml_files
from distributary.errors import DistributaryError
from distributary.flow import read_query_file
from distributary.model import Subscription
from distributary.spark.pipeline import run
from distributary.spark.pipeline.config import Pipeline, parse_pipeline
from distributary.spark.pipeline.start import queries_digest
from distributary.spark.replay.replay import catch_up, require_past
from distributary.store import open_store, store

QUERIES = """
[sources.trades]
topic = "trades"
time = "at"
schema = { size = "integer", at = "integer" }

[[queries.busy.operators]]
name = "large"
filter = { from = "trades", where = "size > 10" }
"""
PIPELINE = """
checkpoint = "checkpoint"
queries = "queries.toml"
source = { format = "json", path = "in", schema = "id STRING, topic STRING, size BIGINT, at BIGINT" }
subscriptions = { store = "subscriptions" }
sink = { path = "deliveries" }
archive = { path = "archive" }
trigger = { available_now = true }
"""


def pipeline_in(place: Path) -> Pipeline:
    (place / "queries.toml").write_text(QUERIES)
    (place / "in").mkdir()
    (place / "in" / "one.json").write_text('{"id": "e1", "topic": "trades", "size": 20, "at": 5}\n')
    open_store(place / "subscriptions").commit([Subscription("s1", "ann", topic="busy/large")])
    return parse_pipeline(PIPELINE, str(place / "pipeline.toml"))


def counting(counts: Counter[str], name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def counted(*given: Any, **named: Any) -> Any:
        counts[name] += 1
        return function(*given, **named)

    return counted


def test_a_run_and_a_replay_open_the_store_once_and_read_the_queries_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts: Counter[str] = Counter()
    monkeypatch.setattr(toml_files, "read_toml", counting(counts, "queries", toml_files.read_toml))
    pipeline = pipeline_in(tmp_path)
    monkeypatch.setattr(store, "_store_at", counting(counts, "stores", store._store_at))
    console = Console(file=StringIO())
    total = run._run(spark, pipeline, console, run._StopSignals(), 1.0)
    assert (total.events, total.deliveries, total.derived) == (1, 1, 1)
    assert counts == {"stores": 1, "queries": 1}

    counts.clear()
    past = replace(pipeline)
    require_past(past, "ann")
    assert [row.event_id for row in catch_up(spark, past, "ann").deliveries.collect()] == ["busy/large#e1"]
    assert counts == {"stores": 1}


def test_a_replay_makes_no_store_where_there_is_none(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path)
    (tmp_path / "subscriptions").rename(tmp_path / "elsewhere")
    with pytest.raises(DistributaryError):
        pipeline.store.version()
    assert not (tmp_path / "subscriptions").exists()


EVERY_KIND = """
[sources.trades]
topic = "trades"
time = "at"
lateness = "10 ms"
schema = { symbol = "text", size = "integer", at = "integer" }
[[queries.b.operators]]
name = "large"
filter = { from = "trades", where = "size > 10" }
[[queries.b.operators]]
name = "volume"
aggregate = { from = "large", window = "20 ms", group_by = ["symbol"], values = { total = "sum(size)" } }
[[queries.b.operators]]
name = "cnt"
aggregate = { from = "large", window = "3 items", group_by = ["symbol"], values = { total = "sum(size)" } }
[[queries.b.operators]]
name = "twice"
map = { from = "volume", set = { total = "total * 2" } }
[[queries.b.operators]]
name = "srt"
sort = { from = "large", by = ["size desc"], window = "20 ms" }
[[queries.b.operators]]
name = "u"
unique = { from = "large", by = ["symbol"], window = "20 ms" }
"""


def test_a_checkpoint_of_the_first_release_still_belongs_to_its_queries(tmp_path: Path) -> None:
    (tmp_path / "queries.toml").write_text(EVERY_KIND)
    written = "af0fc518d331133804337db3522803f49eaab6be98d22b642eeeb984e71f2a0a"
    assert queries_digest(read_query_file(tmp_path / "queries.toml")) == written
