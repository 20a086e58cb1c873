"""Rates from a pipeline's metrics: counted over finished batches, made streams, or refused with reasons."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from distributary.errors import DistributaryError
from distributary.plan.trees.rates import SubscriptionRate, TopicRate, read_rates
from distributary.plan.trees.sites_file import read_plan

TOPICS = pa.schema([("topic", pa.string()), ("events", pa.int64()), ("matches", pa.int64())])
SUBSCRIPTIONS = pa.schema(
    [("subscription_id", pa.string()), ("subscriber", pa.string()), ("matches", pa.int64())]
)


def write_batch(
    metrics: Path,
    batch: int,
    seconds: tuple[int, int],
    topics: Sequence[tuple[str | None, int, int]],
    subscriptions: Sequence[tuple[str, str, int]] = (),
) -> None:
    write_table(metrics / "topics", batch, TOPICS, topics)
    write_table(metrics / "subscriptions", batch, SUBSCRIPTIONS, subscriptions)
    (metrics / "batches").mkdir(exist_ok=True)
    started, finished = (f"2026-01-01T00:00:{second:02d}+00:00" for second in seconds)
    record = {
        "batch": batch,
        "events": sum(row[1] for row in topics),
        "started": started,
        "finished": finished,
    }
    (metrics / "batches" / f"{batch}.json").write_text(json.dumps(record))


def write_table(directory: Path, batch: int, schema: pa.Schema, rows: Sequence[tuple[Any, ...]]) -> None:
    place = directory / f"batch={batch}"
    place.mkdir(parents=True)
    table = pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)
    parquet.write_table(table, place / "part-0.parquet")


@pytest.fixture
def metrics(tmp_path: Path) -> Path:
    place = tmp_path / "metrics"
    write_batch(place, 0, (0, 5), [("A/B", 10, 4), ("A/C", 6, 0), (None, 4, 4)], [("s1", "ann", 6)])
    write_batch(place, 1, (10, 20), [("A/B", 30, 6)], [("s1", "ann", 4), ("s2", "ann", 2), ("s3", "bob", 6)])
    write_batch(place, 2, (20, 20), [])
    return place


def test_counts_of_all_batches_become_rates(metrics: Path) -> None:
    rates = read_rates(metrics)
    assert (rates.events, rates.seconds) == (50, 20.0)
    assert rates.topics == {"A/B": TopicRate(40, 10, 2.0), "A/C": TopicRate(6, 0, 0.3)}
    assert rates.subscriptions["s1"] == SubscriptionRate("ann", 10, 0.5, 0.2)
    assert rates.subscriptions_of("ann") == ["s1", "s2"]
    assert rates.topics_of("A/*") == ["A/B", "A/C"]
    assert read_rates(metrics, seconds=10).topics["A/B"].rate == 4.0


def test_a_batch_without_a_record_is_not_finished_and_does_not_count(metrics: Path) -> None:
    before = read_rates(metrics)
    write_table(metrics / "topics", 3, TOPICS, [("A/B", 1000, 0)])
    assert read_rates(metrics) == before


def write_plan(metrics: Path, rates: dict[str, Any] | str, *rows: dict[str, Any]) -> Path:
    """A plan with these sites and one more, beside the metrics."""
    path = metrics.parent / "sites.toml"
    sites = [*rows, {"name": "last"}]
    given = {
        "goal": "minimise aggregate(SUM, incoming rate, BROKERS)",
        "latency": [[0] * len(sites)] * len(sites),
        "rates": rates,
        "streams": {"extra": 7},
        "site": sites,
    }
    path.write_text("\n".join(f"{key} = {toml_text(value)}" for key, value in given.items()))
    return path


def toml_text(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {toml_text(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_text, value)) + "]"
    return json.dumps(value)


def test_patterns_and_subscribers_become_streams(metrics: Path) -> None:
    rows = [
        {"name": "a", "wants": ["A/*", "A/B", "extra"]},
        {"name": "b", "subscribers": ["ann", "bob"], "clients": 2},
        {"name": "c", "subscribers": "bob", "wants": ["A/C/#"]},
    ]
    sites = read_plan(write_plan(metrics, {"metrics": "metrics", "weight": 2}, *rows)).sites
    # extra; A/B and A/C; the subscriptions s1, s2 and s3
    assert sites.rates == pytest.approx([7, 4.0, 0.6, 1.0, 0.2, 0.6])
    assert sites.interest == [0b111, 0b111000, 0b100100, 0]
    assert sites.clients == [0, 2, 0, 0]


METRICS = {"metrics": "metrics"}


@pytest.mark.parametrize(
    ("table", "row", "reason"),
    [
        ("metrics", {}, r'\[rates\]: is "metrics"; it must be a table'),
        ({"path": "metrics"}, {}, r"\[rates\] metrics: is missing; it must be .* a pipeline's metrics"),
        ({**METRICS, "second": 5}, {}, r"\[rates\] second: there is no such key; did you mean seconds"),
        ({**METRICS, "zzz": 5}, {}, r"\[rates\] zzz: .*; known are metrics, seconds, weight"),
        ({**METRICS, "seconds": 0}, {}, r"\[rates\] seconds: is 0 .*; it must be a number above 0"),
        ({**METRICS, "weight": "much"}, {}, r'\[rates\] weight: is "much"; it must be a number above 0'),
        ({"metrics": "elsewhere"}, {}, "elsewhere: no finished batch"),
        (METRICS, {"wants": ["B"]}, "site 'x' wants 'B', of which the metrics have no topic"),
        (METRICS, {"wants": ["A//B"]}, "site 'x' wants 'A//B': topic: an empty level"),
        (METRICS, {"wants": [3]}, r"\[site 1\] wants: is \[3\] .*; it must be a list of strings"),
        (METRICS, {"wants": "A"}, r'\[site 1\] wants: is "A"; it must be a list of strings'),
        (METRICS, {"subscribers": ["eve"]}, "has the subscriber 'eve', who matched nothing"),
    ],
)
def test_what_cannot_be_is_told(metrics: Path, table: Any, row: dict[str, Any], reason: str) -> None:
    with pytest.raises(DistributaryError, match=reason):
        read_plan(write_plan(metrics, table, {"name": "x", **row}))


def test_tables_that_lack_something_are_told(metrics: Path) -> None:
    old = pa.schema([("topic", pa.string()), ("count", pa.int64())])
    write_table(metrics / "topics", 5, old, [("A", 3)])
    (metrics / "batches" / "5.json").write_text(
        (metrics / "batches" / "1.json").read_text().replace(" 1", " 5")
    )
    with pytest.raises(DistributaryError, match=r"part-0.parquet: no column 'events'; it has topic, count"):
        read_rates(metrics)
    (metrics / "topics" / "batch=5" / "part-0.parquet").write_text("nothing of the kind")
    with pytest.raises(DistributaryError, match=r"part-0.parquet: "):
        read_rates(metrics)
    (metrics / "batches" / "5.json").write_text('{"batch": 5, "events": 3, "started": "2026-01-01"}')
    with pytest.raises(DistributaryError, match=r"5.json: no 'finished'; expected the record of a batch"):
        read_rates(metrics)
    (metrics / "batches" / "5.json").write_text("{")
    with pytest.raises(DistributaryError, match=r"5.json: "):
        read_rates(metrics)


def test_batches_of_one_moment_have_no_rate(tmp_path: Path) -> None:
    write_batch(tmp_path, 0, (3, 3), [("A", 1, 1)])
    with pytest.raises(DistributaryError, match=r"from 0.0 seconds; give `seconds` above 0"):
        read_rates(tmp_path)
    assert read_rates(tmp_path, seconds=2).topics["A"].rate == 0.5


def test_a_plan_takes_rates_and_refuses_subscribers_without_them(metrics: Path) -> None:
    latency = "latency = [[0, 1], [1, 0]]\ngoal = 'minimise aggregate(SUM, incoming rate, BROKERS)'\n"
    sites = "[[site]]\nname = 'a'\n[[site]]\nname = 'b'\nsubscribers = ['ann']\n"
    path = metrics.parent / "sites.toml"
    path.write_text(latency + "rates = {metrics = 'metrics'}\n" + sites)
    plan = read_plan(path)
    assert plan.sites.rate_of(plan.sites.interest[1]) == pytest.approx(0.6)
    path.write_text(latency + sites)
    with pytest.raises(DistributaryError, match=r"there is no \[rates\] to say what these want"):
        read_plan(path)
