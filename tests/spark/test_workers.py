"""Tasks find their Python, this package and added filter kinds wherever they run, or say what is missing."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

from distributary.errors import DistributaryError
from distributary.filters import kinds
from distributary.model import Subscription
from distributary.spark import explain, match
from distributary.spark.workers import for_workers, packed_task

EVENTS = "id string, topic string, price double"
PREFIX_FILTER = """
from dataclasses import dataclass
from typing import ClassVar
from distributary.filters.filter import Filter
from distributary.filters.kinds import register

def begins(text, with_text):
    return text is not None and text.startswith(with_text)

@register
@dataclass(frozen=True, eq=False, repr=False)
class PrefixFilter(Filter):
    kind: ClassVar[str] = "prefix"
    given: str
    @classmethod
    def parse(cls, given):
        return cls(given)
    @property
    def text(self):
        return self.given
    def matches(self, event):
        return begins(event.topic, self.given)
    def covers(self, other):
        return other.given.startswith(self.given)
    def merge(self, other):
        return PrefixFilter("")
"""
SCRIPT = """
import sys
{kind}
from pyspark.sql import SparkSession
from distributary import Subscription
from distributary.spark import deliver, match
from distributary.store import open_store
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
rows = [("e1", "quotes/NYSE", 8.5, 1), ("e2", "quotes/NYSE", 8.6, 2), ("e3", "news", 9.5, 3)]
events = spark.createDataFrame(rows, "id string, topic string, price double, time long")
wishes = [Subscription("s1", "ann", more={{"prefix": "quo"}}, change={{"price": 0.5}}),
          Subscription("s2", "bob", topic="news")]
found = match(events, wishes, order="time").collect()
print("batch", sorted((row.event_id, row.subscription_id) for row in found))
events.write.parquet("incoming")
open_store("subscriptions-store", create=True).commit(wishes)
schema = events.schema
stream = spark.readStream.schema(schema).parquet("incoming")
query = deliver(match(stream, "subscriptions-store", order="time", carry=["topic", "price"])) \\
    .writeStream.format("parquet").option("path", "out").option("checkpointLocation", "checkpoint").start()
query.processAllAvailable()
query.stop()
found = spark.read.parquet("out").collect()
print("stream", sorted((row.event_id, row.subscriber, row.price) for row in found))
"""


@pytest.fixture
def prefix_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A filter kind of a module that this process alone can import."""
    (tmp_path / "prefixes_of_a_test.py").write_text(PREFIX_FILTER)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.import_module("prefixes_of_a_test")
    yield
    kinds._added.pop("prefix")
    del sys.modules["prefixes_of_a_test"]


def test_workers_of_a_plain_session_run_the_python_of_the_driver(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python3")
    events = spark.sql("select 'e1' as id, 'A' as topic")  # which needs no Python by itself
    found = match(events, [Subscription("s1", "ann", topic="A")]).collect()
    assert [(row.event_id, row.subscription_id, row.subscriber) for row in found] == [("e1", "s1", "ann")]


def test_a_python_that_was_chosen_stays(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/nowhere/chosen")
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/chosen")
    match(spark.createDataFrame([("e1", "A", 1.0)], EVENTS), [Subscription("s1", "ann", topic="A")])
    assert spark.sparkContext.pythonExec == "/nowhere/chosen"


def test_a_worker_without_the_package_says_which_python_it_is_and_what_to_set(tmp_path: Path) -> None:
    (tmp_path / "task").write_bytes(packed_task(for_workers(iter)))
    library = Path(pyspark.__file__).parent / "python" / "lib"
    paths = [str(library / "pyspark.zip"), *map(str, library.glob("py4j*.zip"))]
    script = f"import sys; sys.path += {paths}; from pyspark import cloudpickle; "
    script += f"cloudpickle.loads(open({str(tmp_path / 'task')!r}, 'rb').read())(())"
    ended = subprocess.run([sys.executable, "-S", "-I", "-c", script], capture_output=True, text=True)
    last = ended.stderr.splitlines()[-1]
    assert last.startswith("RuntimeError: the Python workers of Spark on "), ended.stderr
    assert sys.executable in last
    assert "distributary is not installed" in last
    assert "PYSPARK_PYTHON" in last


def test_filter_kinds_of_an_application_reach_the_workers(spark: SparkSession, prefix_kind: None) -> None:
    events = spark.createDataFrame([("e1", "quotes", 1.0), ("e2", "news", 1.0)], EVENTS)
    wishes = [Subscription("s1", "ann", more={"prefix": "quo"}), Subscription("s2", "bob", topic="news")]
    found = match(events, wishes).collect()
    assert {(row.event_id, row.subscription_id) for row in found} == {("e1", "s1"), ("e2", "s2")}
    frame = spark.createDataFrame([("s3", "cy", "ne")], "id string, subscriber string, prefix string")
    assert [row.event_id for row in match(events, frame).collect()] == ["e2"]


def test_a_package_names_its_filter_kinds_as_an_entry_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "prefixes_of_a_package.py").write_text(PREFIX_FILTER)
    about = tmp_path / "prefixes-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: prefixes\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[distributary.filters]\nprefix = prefixes_of_a_package\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    kinds._load_entry_points.cache_clear()
    try:
        assert "prefix" in kinds.added_kinds()
    finally:
        kinds._added.pop("prefix", None)
        kinds._load_entry_points.cache_clear()
        sys.modules.pop("prefixes_of_a_package", None)


def test_an_entry_point_that_cannot_be_loaded_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = tmp_path / "broken-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[distributary.filters]\nnear = no_such_module_at_all\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    kinds._load_entry_points.cache_clear()
    try:
        with pytest.raises(DistributaryError, match=r"'no_such_module_at_all' \(entry point 'near'\)"):
            kinds.kinds()
    finally:
        kinds._load_entry_points.cache_clear()


def test_a_list_of_subscriptions_is_matched_and_explained(spark: SparkSession) -> None:
    events = spark.createDataFrame([("e1", "A", 1.0), ("e2", "B", 5.0)], EVENTS)
    wishes = [
        Subscription("s1", "ann", topic="A"),
        Subscription("s1", "bob", topic="B"),
        Subscription("s2", "cy", where="price > 2"),
    ]
    rejected = []
    found = match(events, iter(wishes), rejected=rejected).collect()
    assert {(row.event_id, row.subscription_id, row.subscriber) for row in found} == {
        ("e1", "s1", "ann"),
        ("e2", "s2", "cy"),
    }
    assert [one.place for one in rejected] == ["subscription s1"]
    divided = match(events, wishes, strategy="rendezvous", capacity=1).collect()
    assert {(row.event_id, row.subscriber) for row in divided} == {("e1", "ann"), ("e2", "cy")}
    why = explain(events, [wishes[0]], event_ids=["e2"]).collect()
    assert [(row.subscription_id, row.matches) for row in why] == [("s1", False)]


def test_what_is_no_subscription_is_refused(spark: SparkSession) -> None:
    events = spark.createDataFrame([("e1", "A", 1.0)], EVENTS)
    with pytest.raises(
        DistributaryError, match="no subscription but of type dict; give a DataFrame, a store"
    ):
        match(events, [{"id": "s1"}])  # type: ignore[list-item]
    with pytest.raises(DistributaryError, match="of type int"):
        match(events, 5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ({"id": "idd"}, "no column 'idd' for id.*did you mean id"),
        ({"topic": "topc"}, "no column 'topc' for topic.*did you mean topic"),
        ({"document": "body"}, "no column 'body' for document"),
        ({"order": "Prize"}, "no column 'Prize' for order.*did you mean price"),
        ({"carry": ["prise"]}, "cannot carry 'prise'.*did you mean price"),
        ({"strategy": "rendevous"}, "no strategy 'rendevous'; did you mean rendezvous"),
        ({"strategy": "broadcast"}, "no strategy 'broadcast'; known are auto, index, rendezvous"),
    ],
)
def test_unknown_names_are_refused_at_once_with_the_nearest(
    spark: SparkSession, named: dict[str, str], told: str
) -> None:
    events = spark.createDataFrame([], EVENTS)
    with pytest.raises(DistributaryError, match=told):
        match(events, [Subscription("s1", "ann", topic="A")], **named)  # type: ignore[arg-type]


def test_an_unknown_column_of_subscriptions_is_refused_with_the_nearest(spark: SparkSession) -> None:
    wishes = spark.createDataFrame([], "id string, subscriber string, tpoic string")
    with pytest.raises(DistributaryError, match=r"column 'tpoic'.*did you mean topic"):
        match(spark.createDataFrame([], EVENTS), wishes)


@pytest.mark.chaos
@pytest.mark.spark
@pytest.mark.xdist_group("processes")
@pytest.mark.parametrize("where", ["script", "module"])
def test_a_default_session_of_an_unactivated_environment_matches_batches_and_streams(
    tmp_path: Path, where: str
) -> None:
    (tmp_path / "own_prefixes.py").write_text(PREFIX_FILTER)
    kind = PREFIX_FILTER if where == "script" else "import own_prefixes"
    (tmp_path / "script.py").write_text(SCRIPT.format(kind=kind))
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK")}
    bare["PATH"] = "/usr/bin:/bin"
    ended = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, env=bare, capture_output=True, text=True, timeout=500
    )
    told = [line for line in ended.stdout.splitlines() if line.startswith(("batch", "stream"))]
    assert told == [
        "batch [('e1', 's1'), ('e3', 's2')]",
        "stream [('e1', 'ann', 8.5), ('e3', 'bob', 9.5)]",
    ], ended.stderr[-3000:]
