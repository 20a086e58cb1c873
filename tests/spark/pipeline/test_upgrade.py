"""What an earlier release has left goes on: checkpoint, tolerances, store and outputs; and so does a source
whose schema has grown.

`earlier_release.zip` holds all that a pipeline with tolerances had written in two micro-batches, when it was
run at commit 24511fa.
"""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from distributary.errors import DistributaryError
from distributary.model import Subscription
from distributary.spark import load_pipeline, read_archive, read_deliveries, read_metrics, replay, start
from distributary.spark.pipeline.checkpoint_format import require_known_format
from distributary.store import open_store

EARLIER = Path(__file__).with_name("earlier_release.zip")
OLD_PLACE = "/earlier/pipeline"
HELD = {("e00", "ann"), ("e02", "ann"), ("e11", "ann"), ("e11", "bob")}
"""What the earlier release had delivered: ann is told of moves by more than 1, bob of prices above 4."""


GROWING = """
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "{schema}"
[subscriptions]
store = "store"
[sink]
path = "deliveries"
columns = {columns}
[archive]
path = "archive"
[trigger]
available_now = true
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory with what the earlier release has left, as if it had been run there."""
    with zipfile.ZipFile(EARLIER) as pack:
        pack.extractall(tmp_path)
    noted = [*(tmp_path / "checkpoint/sources/0").iterdir(), *(tmp_path / "checkpoint/state").rglob("v2/*")]
    for file in noted:
        file.write_text(file.read_text().replace(OLD_PLACE, str(tmp_path)))
    for directory in ("newest", "temporary", "workspace"):
        (tmp_path / "store" / directory).mkdir(exist_ok=True)
    return tmp_path


def feed(place: Path, name: str, *events: dict[str, object]) -> None:
    (place / "in" / name).write_text("".join(json.dumps(event) + "\n" for event in events))


def delivered(spark: SparkSession, place: Path) -> list[tuple[str, str]]:
    return sorted(
        (row.event_id, row.subscriber) for row in read_deliveries(spark, f"{place}/deliveries").collect()
    )


def test_a_pipeline_of_an_earlier_release_goes_on_with_its_tolerances_and_is_replayed(
    spark: SparkSession, place: Path
) -> None:
    assert delivered(spark, place) == sorted(HELD)
    feed(
        place,
        "2.json",
        {"id": "e20", "topic": "A", "at": "2026-01-03T00:00:00Z", "price": 5.5},
        {"id": "e21", "topic": "A", "at": "2026-01-03T00:00:01Z", "price": 6.5},
    )
    start(spark, load_pipeline(place / "pipeline.toml")).awaitTermination()
    # Ann was last told of 5.0 by the earlier release: 5.5 is no news for her.
    assert delivered(spark, place) == sorted({*HELD, ("e20", "bob"), ("e21", "ann"), ("e21", "bob")})
    assert read_archive(spark, f"{place}/archive").count() == 7
    topics = {row.batch: row.matches for row in read_metrics(spark, f"{place}/metrics", "topics").collect()}
    assert topics == {0: 2, 1: 2, 2: 3}
    wish = Subscription("new", "dan", topic="A", change={"price": 1.0})
    again = replay(spark, load_pipeline(place / "pipeline.toml"), [wish]).collect()
    assert sorted(row.event_id for row in again) == ["e00", "e02", "e11", "e21"]


def test_a_store_of_an_earlier_release_is_read_and_takes_commits(place: Path) -> None:
    store = open_store(place / "store")
    assert store.version() == 3
    assert [one.id for _, one in store.subscriptions(1)] == ["s1", "s2"]
    assert store.commit([Subscription("s9", "eve", topic="C")], ["t0"]) == 4
    assert sorted(one.id for _, one in store.subscriptions()) == ["s1", "s2", "s9", "t1"]


def test_a_source_may_get_columns_and_grow_types(spark: SparkSession, tmp_path: Path) -> None:
    # A store of its own: workers know that of the archive above by its identity.
    store = open_store(tmp_path / "store", create=True)
    store.commit([Subscription("v", "val", where="volume > 100"), Subscription("a", "ann", topic="A")])
    (tmp_path / "in").mkdir()
    schemas = [
        "id STRING, topic STRING",
        "id STRING, topic STRING, volume INT",
        "id STRING, topic STRING, volume BIGINT",
    ]
    volumes = [None, 500, 5_000_000_000]
    for number, (schema, volume) in enumerate(zip(schemas, volumes, strict=True)):
        columns = '["topic"]' if volume is None else '["topic", "volume"]'
        (tmp_path / "pipeline.toml").write_text(GROWING.format(schema=schema, columns=columns))
        feed(tmp_path, f"{number}.json", {"id": f"e{number}", "topic": "A", "volume": volume})
        start(spark, load_pipeline(tmp_path / "pipeline.toml")).awaitTermination()
    assert delivered(spark, tmp_path) == [
        ("e0", "ann"),
        ("e1", "ann"),
        ("e1", "val"),
        ("e2", "ann"),
        ("e2", "val"),
    ]
    rows = read_archive(spark, f"{tmp_path}/archive").collect()
    assert {row.id: row.volume for row in rows} == {"e0": None, "e1": 500, "e2": 5_000_000_000}
    wish = Subscription("n", "n", where="volume > 100")
    again = replay(spark, load_pipeline(tmp_path / "pipeline.toml"), [wish])
    assert sorted(row.event_id for row in again.collect()) == ["e1", "e2"]


def test_a_checkpoint_of_a_later_release_is_refused_and_this_one_is_noted(tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"
    checkpoint.mkdir()
    require_known_format(str(checkpoint))
    require_known_format(str(checkpoint))
    noted = json.loads((checkpoint / "release.json").read_text())
    (checkpoint / "release.json").write_text(json.dumps({"format": noted["format"] + 1, "release": "9.0"}))
    with pytest.raises(
        DistributaryError, match=r"written by release 9\.0, in a format that .* does not know"
    ):
        require_known_format(str(checkpoint))
    (checkpoint / "release.json").write_text("{}")
    with pytest.raises(DistributaryError, match="not what was written"):
        require_known_format(str(checkpoint))
