"""Subscriptions from a table: what the store holds is what the table says, whatever happens to the table."""

from __future__ import annotations

import csv
import json
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from rich.console import Console

from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.model import Subscription
from distributary.spark.pipeline.config import Pipeline, parse_pipeline
from distributary.spark.pipeline.followed.follow import TableFollower, follow_once, following
from distributary.spark.pipeline.followed.readers import FileRows
from distributary.spark.pipeline.run import say
from distributary.store import SubscriptionStore

PIPELINE = """
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "id STRING, topic STRING, price DOUBLE"
[subscriptions]
store = "subscriptions"
[follow]
{follow}
[sink]
path = "out"
[quarantine]
path = "bad"
[trigger]
available_now = true
"""
DEADLINE = 60.0
Row = dict[str, str | None]
COLUMNS = ("id", "subscriber", "topic", "where", "change")
BAD: list[Row] = [
    {"id": "b1", "subscriber": "ann", "where": "price >"},
    {"id": "b2", "subscriber": "ann"},
    {"id": "b3", "subscriber": None, "topic": "A"},
    {"id": "s1", "subscriber": "ann", "topic": "A//B"},
    {"id": "s2", "subscriber": "ann", "change": '{"price": -1}'},
]
"""Malformed rows, of which two have the ids of others."""


def pipeline_in(place: Path, follow: str) -> Pipeline:
    return parse_pipeline(PIPELINE.format(follow=follow), str(place / "pipeline.toml"))


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def table_of(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema([(name, pa.string()) for name in COLUMNS]))


def write_csv(place: Path, rows: list[Row]) -> None:
    with (place / "new").open("w", newline="") as stream:
        writer = csv.DictWriter(stream, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    (place / "new").replace(place / "rules")


def write_parquet(place: Path, rows: list[Row]) -> None:
    """Two files in a directory, where there are so many rows."""
    (place / "rules").mkdir(exist_ok=True)
    half = (len(rows) + 1) // 2
    for number, part in enumerate((rows[:half], rows[half:])):
        pq.write_table(table_of(part), place / "rules" / f"part-{number}.parquet")


def write_delta(place: Path, rows: list[Row]) -> None:
    write_deltalake(str(place / "rules"), table_of(rows), mode="overwrite")


WRITERS: dict[str, Callable[[Path, list[Row]], None]] = {
    "csv": write_csv,
    "parquet": write_parquet,
    "delta": write_delta,
}


def registered(store: SubscriptionStore) -> dict[str, tuple[Any, ...]]:
    return {
        one.id: (one.subscriber, one.topic, one.where, one.change and dict(one.change))
        for _, one in store.subscriptions()
    }


def expected(rows: list[Row]) -> dict[str, tuple[Any, ...]]:
    """The first well-formed row of each id."""
    found: dict[str, tuple[Any, ...]] = {}
    for row in rows:
        if row not in BAD:
            change = row.get("change")
            told = (
                row["subscriber"],
                row.get("topic"),
                row.get("where"),
                json.loads(change) if change else None,
            )
            found.setdefault(str(row["id"]), told)
    return found


def random_rows(random: Random) -> list[Row]:
    rows: list[Row] = [
        {
            "id": f"s{number}",
            "subscriber": random.choice(["ann", "bob"]),
            "topic": random.choice(["A", "A/B"]),
            "where": random.choice([None, "price > 3"]),
            "change": random.choice([None, '{"price": 1}']),
        }
        for number in range(6)
        if random.random() < 0.7
    ]
    rows += random.sample(BAD, random.randint(0, 2))
    random.shuffle(rows)
    return rows


@pytest.mark.parametrize("format", WRITERS)
def test_the_store_holds_what_the_table_says_after_each_change_by_one_commit(
    tmp_path: Path, format: str
) -> None:
    random = Random(format)
    pipeline = pipeline_in(tmp_path, f'format = "{format}"\npath = "rules"')
    told: list[str] = []
    follower = TableFollower(pipeline, None, told.append)
    store, rejections = pipeline.store, 0
    store.create()
    for step in range(12):
        rows = [*random_rows(random), {"id": "always", "subscriber": "cleo", "topic": f"{step % 5}"}]
        WRITERS[format](tmp_path, rows)
        before, version = registered(store), store.version()
        change = follower.look()
        assert change is not None
        assert registered(store) == expected(rows)
        assert store.version() == version + (before != expected(rows))
        wanted = expected(rows)
        assert change.added == len(wanted.keys() - before.keys())
        assert change.removed == len(before.keys() - wanted.keys())
        assert change.replaced == sum(before.get(id, wanted[id]) != wanted[id] for id in wanted)
        # Nothing is committed, or even read, when nothing has changed.
        assert follower.look() is None
        lines = (tmp_path / "bad" / "_subscriptions.jsonl").exists() and [
            json.loads(line) for line in (tmp_path / "bad/_subscriptions.jsonl").read_text().splitlines()
        ]
        assert len(lines or []) == sum(row in BAD for row in rows)
        assert all(str(tmp_path / "rules") in one["place"] and one["reason"] for one in lines or [])
        rejections += len(lines or [])
    assert rejections
    # Each malformed row is told once, however often it is there.
    aside = [line for line in told if line.startswith("set aside")]
    assert 0 < len(aside) <= len(BAD)
    WRITERS[format](tmp_path, [])
    follower.look()
    assert registered(store) == {}
    # A second pipeline's process finds all as it is.
    assert not TableFollower(pipeline, None, told.append).look()


def test_a_table_that_cannot_be_read_as_a_whole_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[Row] = [{"id": "s1", "subscriber": "ann", "topic": "A"}]
    write_parquet(tmp_path, rows)
    pipeline = pipeline_in(tmp_path, 'format = "parquet"\npath = "rules"')
    told: list[str] = []
    follow_once(None, pipeline, told.append)  # type: ignore[arg-type]
    assert told == [f"subscriptions: 1 added, 0 replaced, 0 removed, as {tmp_path}/rules says; version 1"]
    follower = TableFollower(pipeline, None, told.append)

    def told_of(spoilt: str) -> None:
        told.clear()
        follower.look_or_tell()
        follower.look_or_tell()
        assert registered(pipeline.store) == expected(rows)
        [line] = told
        assert line.startswith("subscriptions stay as they are: ")
        assert spoilt in line

    (tmp_path / "rules" / "_temporary").mkdir()
    told_of("somebody is writing to")
    (tmp_path / "rules" / "_temporary").rmdir()
    (tmp_path / "rules" / "part-2.parquet").write_bytes(b"no Parquet")
    told_of("part-2.parquet: ")
    (tmp_path / "rules" / "part-2.parquet").unlink()
    write_parquet(tmp_path, BAD[:2])
    told_of("no row of ")
    write_parquet(tmp_path, [{"id": "s9", "subscriber": "ann", "topic": "A"}])
    with monkeypatch.context() as patch:
        states = iter([{"a": "1"}, {"a": "2"}, {"a": "3"}] * 3)
        patch.setattr(FileRows, "_files", lambda self: next(states))
        patch.setattr(FileRows, "_rows_of", lambda self, path: iter(()))
        told_of("changed while it was read")
    for file in (tmp_path / "rules").iterdir():
        file.unlink()
    told_of("there is no file")
    # Started again without the table, the pipeline goes on with what it has; with nothing, it does not start.
    told.clear()
    follow_once(None, pipeline, told.append)  # type: ignore[arg-type]
    assert told[0].startswith("subscriptions stay as they are: ")
    other = pipeline_in(tmp_path / "other", f'format = "parquet"\npath = "{tmp_path}/rules"')
    other.store.create()
    with pytest.raises(DistributaryError, match="there is no file"):
        follow_once(None, other, told.append)  # type: ignore[arg-type]


def test_a_store_that_holds_something_else_is_not_emptied(tmp_path: Path) -> None:
    write_csv(tmp_path, [{"id": "s1", "subscriber": "ann", "topic": "A"}])
    pipeline = pipeline_in(tmp_path, 'format = "csv"\npath = "rules"')
    pipeline.store.commit([Subscription("mine", "bob", topic="B"), Subscription("s1", "ann", topic="C")])
    with pytest.raises(
        DistributaryError, match=r"holds 1 subscriptions that .*rules has not, such as 'mine'"
    ):
        TableFollower(pipeline, None, print).look()
    assert pipeline.store.version() == 1
    pipeline.store.commit(remove=["mine"])
    assert TableFollower(pipeline, None, print).look()
    assert registered(pipeline.store) == {"s1": ("ann", "A", None, None)}
    # From now on it is the table's.
    pipeline.store.commit([Subscription("mine", "bob", topic="B")])
    assert TableFollower(pipeline, None, print).look()
    assert set(registered(pipeline.store)) == {"s1"}


def test_columns_of_other_names_are_read_and_others_passed_over(tmp_path: Path) -> None:
    rows = [{"rule": "s1", "team": "ann", "condition": "price > 3", "note": "x", "limits": "price=0.5"}]
    columns = '{ id = "rule", subscriber = "team", where = "condition", change = "limits" }'
    (tmp_path / "rules.csv").write_text("note;rule;team;condition;limits\nx;s1;ann;price > 3;price=0.5\n")
    write_deltalake(str(tmp_path / "delta"), pa.Table.from_pylist(rows).drop_columns("limits"))
    for number, (format, path, limited) in enumerate([("csv", "rules.csv", True), ("delta", "delta", False)]):
        chosen = columns if limited else columns.replace(', change = "limits"', "")
        follow = f'format = "{format}"\npath = "{tmp_path / path}"\ncolumns = {chosen}'
        pipeline = pipeline_in(tmp_path / str(number), follow)
        TableFollower(pipeline, None, print).look()
        assert registered(pipeline.store) == {
            "s1": ("ann", None, "price > 3", {"price": 0.5} if limited else None)
        }


def test_of_rows_with_one_id_the_same_one_counts_in_whatever_order_they_come(tmp_path: Path) -> None:
    rows: list[Row] = [{"id": "s1", "subscriber": name, "topic": "A"} for name in ("cleo", "ann", "bob")]
    pipeline = pipeline_in(tmp_path, 'format = "delta"\npath = "rules"')
    told: list[str] = []
    follower = TableFollower(pipeline, None, told.append)
    for order in (rows, rows[::-1]):
        write_delta(tmp_path, order)
        follower.look()
        assert registered(pipeline.store) == {"s1": ("ann", "A", None, None)}
    assert pipeline.store.version() == 1
    assert sum("id: is there twice" in line for line in told) == 2


def test_what_a_store_does_not_take_is_set_aside_and_ends_what_its_id_had(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, 'format = "parquet"\npath = "rules"')
    told: list[str] = []
    write_parquet(tmp_path, [{"id": "s1", "subscriber": "ann", "topic": "A"}])
    follower = TableFollower(pipeline, None, told.append)
    follower.look()
    long = {"id": "s1", "subscriber": "a" * 2000, "topic": "A"}
    write_parquet(tmp_path, [long, {"id": "s2", "subscriber": "bob", "topic": "A"}])
    follower.look()
    assert set(registered(pipeline.store)) == {"s2"}
    assert any("set aside: subscription 's1': subscriber: " in line for line in told)


def test_a_table_is_followed_as_it_changes(tmp_path: Path) -> None:
    rows: list[Row] = [{"id": "s1", "subscriber": "ann", "topic": "A"}]
    write_delta(tmp_path, rows)
    pipeline = pipeline_in(tmp_path, 'format = "delta"\npath = "rules"\nevery = "100 milliseconds"')
    told: list[str] = []
    pipeline.store.create()
    with following(None, pipeline, told.append):  # type: ignore[arg-type]
        wait_until(lambda: registered(pipeline.store) == expected(rows))
        rows.append({"id": "s2", "subscriber": "bob", "where": "price > 3"})
        write_delta(tmp_path, rows)
        wait_until(lambda: registered(pipeline.store) == expected(rows))
        DeltaTable(str(tmp_path / "rules")).delete("id = 's1'")
        wait_until(lambda: registered(pipeline.store) == expected(rows[1:]))
        rows.append({"id": "s3", "subscriber": "bob", "topic": "A", "change": '{"price": 1}'})
        rows.append({"id": "b6", "subscriber": "bob", "where": "name rlike '[a-z]' and x[/y] > 3"})
        write_delta(tmp_path, rows[1:])
        wait_until(lambda: any("1 subscriptions with a tolerance are left out" in line for line in told))
    assert pipeline.store.version() == 4
    for line in told:  # with whatever brackets their rows have
        say(screen := Console(file=StringIO(), width=1_000), line)
        assert line in screen.file.getvalue()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("follow", "told"),
    [
        (
            'format = "delt"',
            '[follow] format: is "delt"; it must be one of "delta", "parquet", "csv" and "jdbc"',
        ),
        ('format = "csv"', '[follow] path: is missing; the format "csv" is read from a file or directory'),
        ('format = "jdbc"', "[follow] options: lacks url"),
        ('format = "csv"\npath = "subscriptions/x"', "overlaps with [subscriptions] store"),
        ('format = "csv"\npath = "none.csv"', "none.csv: there is no file"),
        ('format = "delta"\npath = "none"', "[follow]: cannot read the Delta table "),
        ('format = "csv"\npath = "wrong.csv"', "wrong.csv has a column 'wher', which is no field"),
        (
            'format = "csv"\npath = "wrong.csv"\ncolumns = { id = "id", subscriber = "who" }',
            "no column 'who'",
        ),
        ('format = "csv"\npath = "x"\ncolumns = { ids = "id" }', "[follow] columns.ids: is no field"),
        ('format = "csv"\npath = "x"\nevery = "often"', "[follow] every: "),
    ],
)
def test_what_is_wrong_with_a_followed_table_is_told_by_check(
    tmp_path: Path, follow: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "wrong.csv").write_text("id,subscriber,wher\ns1,ann,price > 3\n")
    (tmp_path / "pipeline.toml").write_text(PIPELINE.format(follow=follow))
    assert main(["run", str(tmp_path / "pipeline.toml"), "--check"]) == 1
    assert told in capsys.readouterr().err


@pytest.mark.chaos
def test_a_database_is_followed_by_jdbc(spark: SparkSession, tmp_path: Path) -> None:
    jvm = spark.sparkContext._jvm
    assert jvm is not None
    jvm.java.lang.System.setProperty("derby.stream.error.file", str(tmp_path / "derby.log"))
    options = {"url": "jdbc:derby:memory:rules;create=true", "dbtable": "RULES"}
    url, table = options.values()
    follow = f'format = "jdbc"\noptions = {{ url = "{url}", dbtable = "{table}" }}'
    pipeline = pipeline_in(tmp_path, follow)
    told: list[str] = []
    follower = TableFollower(pipeline, spark, told.append)
    for rows in (
        [("s1", "ann", "A", None), ("s2", "bob", None, "price >")],
        [("s1", "ann", "A/B", None), ("s2", "bob", None, "price > 4")],
    ):
        frame = spark.createDataFrame(rows, "id string, subscriber string, topic string, `where` string")
        frame.write.format("jdbc").options(**options).mode("overwrite").save()
        follower.look()
    wanted = {"s1": ("ann", "A/B", None, None), "s2": ("bob", None, "price > 4", None)}
    assert registered(pipeline.store) == wanted
    assert any(line.startswith("set aside: RULES row ") and "price >" in line for line in told)
    broken = pipeline_in(tmp_path, follow.replace("RULES", "NOTHING"))
    with pytest.raises(DistributaryError, match=r"cannot read NOTHING by JDBC: .*NOTHING"):
        TableFollower(broken, spark, told.append).look()
    assert registered(pipeline.store) == wanted
