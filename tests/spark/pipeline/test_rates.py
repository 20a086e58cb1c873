"""What a pipeline measured is what a tree is planned with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from distributary.cli.main import main
from distributary.model import Subscription
from distributary.plan.trees.rates import read_rates
from distributary.spark.pipeline.metrics import read_metrics
from distributary.store import open_store
from spark.pipeline.test_pipeline import feed, pipeline_in, run

SITES = """
goal = "minimise aggregate(SUM, superfluous data, BROKERS)"
latency = [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
[rates]
metrics = "metrics"
seconds = 10
[[site]]
name = "root"
[[site]]
name = "near"
subscribers = ["ann"]
parent = "root"
[[site]]
name = "far"
wants = ["news"]
subscribers = ["bob"]
parent = "near"
"""


def test_a_tree_is_planned_with_what_a_pipeline_measured(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    open_store(tmp_path / "subscriptions").commit(
        [
            Subscription("s1", "ann", topic="quotes", where="price > 3"),
            Subscription("s2", "bob", topic="quotes/b"),
            Subscription("s3", "bob", where="price = 1"),
        ]
    )
    topics = ["quotes/a", "quotes/b", "news/x", "quotes/a"]
    events = [{"id": f"e{at}", "topic": topics[at % 4], "price": at % 10} for at in range(40)]
    feed(tmp_path, 0, [json.dumps(event) for event in events])
    schema = "id STRING, topic STRING, price DOUBLE"
    source = f'format = "json"\npath = "in"\nschema = "{schema}"'
    run(spark, pipeline_in(tmp_path, source, '[metrics]\npath = "metrics"'))

    rates = read_rates(tmp_path / "metrics")
    assert {topic: one.events for topic, one in rates.topics.items()} == {
        "quotes/a": 20,
        "quotes/b": 10,
        "news/x": 10,
    }
    wanted = {"s1": "ann", "s2": "bob", "s3": "bob"}
    matches = {
        "s1": sum(event["price"] > 3 and event["topic"].startswith("quotes") for event in events),
        "s2": 10,
        "s3": sum(event["price"] == 1 for event in events),
    }
    assert {
        name: (one.subscriber, one.matches, one.selectivity) for name, one in rates.subscriptions.items()
    } == {name: (wanted[name], count, count / 40) for name, count in matches.items()}
    by_spark = read_metrics(spark, str(tmp_path / "metrics"), "subscriptions").groupBy("subscription_id")
    assert {row[0]: row[1] for row in by_spark.sum("matches").collect()} == matches
    assert rates.seconds > 0

    (tmp_path / "sites.toml").write_text(SITES)
    assert main(["plan", str(tmp_path / "sites.toml"), "--json", str(tmp_path / "tree.json")]) == 0
    found = json.loads((tmp_path / "tree.json").read_text())
    redundant = (10 + matches["s2"] + matches["s3"]) / 10
    assert found["before"] == pytest.approx(redundant)
    assert found["after"] == 0
    assert found["parents"] == {"near": "root", "far": "root"}
