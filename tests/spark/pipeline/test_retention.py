"""Old batches are removed and nothing else; a purged subscriber is nowhere any more, which is noted."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable, write_deltalake
from pyarrow import parquet
from pyiceberg.catalog import load_catalog

from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.model import Subscription
from distributary.spark.pipeline.commits import BatchRecord, read_records, write_record
from distributary.spark.pipeline.config import Pipeline, load_pipeline
from distributary.spark.pipeline.directories import own_directory
from distributary.spark.pipeline.outputs import complete_batches, mark_complete, write_table
from distributary.spark.pipeline.owner import owning
from distributary.spark.pipeline.retention import purge, remove_old, removed_upto
from distributary.spark.replay.history import require_archived
from distributary.spark.storage import has_old_times
from distributary.store import open_store

PIPELINE = """
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "id STRING, topic STRING"
[subscriptions]
store = "store"
[sink]
path = "deliveries"
each = {each}
[archive]
path = "archive"
[metrics]
path = "metrics"
"""
NOW = datetime(2026, 6, 1, tzinfo=UTC)
NAMES = ("ann", "bob", "c/y")
BATCHES = 4


def deliveries(names: tuple[str, ...], batch: int) -> pa.Table:
    rows = [{"event_id": f"e{batch}", "subscriber": name, "subscriptions": [f"s {name}"]} for name in names]
    return pa.Table.from_pylist(rows)


@pytest.fixture(params=["false", "true"])
def pipeline(request: pytest.FixtureRequest, tmp_path: Path) -> Pipeline:
    """A pipeline that has written four batches, one a day."""
    (tmp_path / "pipeline.toml").write_text(PIPELINE.format(each=request.param))
    made = load_pipeline(tmp_path / "pipeline.toml")
    open_store(tmp_path / "store", create=True).commit(
        [Subscription(f"s {one}", one, topic="A") for one in NAMES]
    )
    assert made.sink.path is not None
    for batch in range(BATCHES):
        at = NOW - timedelta(days=BATCHES - batch)
        if made.sink.each:
            for name in NAMES:
                write_table(deliveries((name,), batch), f"{made.sink.path}/{own_directory(name)}", batch)
            mark_complete(made.sink.path, batch)
        else:
            write_table(deliveries(NAMES, batch), made.sink.path, batch)
        write_table(pa.table({"id": [f"e{batch}"]}), str(made.archive), batch)
        counts = {
            "subscription_id": [f"s {one}" for one in NAMES],
            "subscriber": list(NAMES),
            "matches": [1] * 3,
        }
        write_table(pa.table(counts), f"{made.metrics}/subscriptions", batch)
        write_record(made.commits, BatchRecord(batch, 1, 1, 3, 3, 0, at, at))
    write_table(deliveries(NAMES, BATCHES), f"{made.sink.path}", BATCHES)  # of a batch that is not finished
    return made


def named(place: str | None) -> list[str]:
    """The subscribers that the files below a place name."""
    table = ds.dataset(str(place), format="parquet", exclude_invalid_files=True).to_table(
        columns=["subscriber"]
    )
    return sorted(table["subscriber"].to_pylist())


def test_batches_older_than_the_age_of_their_output_are_removed_and_no_others(pipeline: Pipeline) -> None:
    ages = {"deliveries": timedelta(days=2.5), "metrics": timedelta(days=3.5)}
    assert remove_old(pipeline, ages, NOW) == {"deliveries": 2, "metrics": 1}
    assert complete_batches(str(pipeline.sink.path)) == [2, 3, BATCHES]
    assert complete_batches(str(pipeline.archive)) == [0, 1, 2, 3]
    assert complete_batches(f"{pipeline.metrics}/subscriptions") == [1, 2, 3]
    left = 2 * len(NAMES) + len(NAMES)
    assert len(named(pipeline.sink.path)) == left, "no files are left of those that do not count"
    assert [one.batch for one in read_records(pipeline.commits)] == [0, 1, 2, 3]
    assert remove_old(pipeline, ages, NOW) == {"deliveries": 0, "metrics": 0}
    assert remove_old(pipeline, {"deliveries": timedelta()}, NOW) == {"deliveries": 2}
    assert complete_batches(str(pipeline.sink.path)) == [BATCHES], "a batch without a record is never touched"


def test_a_replay_that_needs_what_was_removed_says_from_where_it_can_begin(pipeline: Pipeline) -> None:
    archive = str(pipeline.archive)
    assert removed_upto(archive) is None
    remove_old(pipeline, {"archive": timedelta(days=2.5)}, NOW)
    assert removed_upto(archive) == (1, NOW.isoformat(timespec="seconds"))
    with pytest.raises(DistributaryError, match=r"removed from .* by retention on .*: begin with batch 2"):
        require_archived(archive, complete_batches(archive), range(4), "events")
    require_archived(archive, complete_batches(archive), range(2, 4), "events")


def test_an_output_that_there_is_not_is_told(pipeline: Pipeline) -> None:
    with pytest.raises(DistributaryError, match="no output 'delivery'; known are deliveries"):
        remove_old(pipeline, {"delivery": timedelta()}, NOW)


@pytest.mark.parametrize("name", ["ann", "c/y"])
def test_a_purged_subscriber_is_nowhere_and_the_others_are(pipeline: Pipeline, name: str) -> None:
    counts = purge(pipeline, name)
    assert counts == {
        "deliveries": BATCHES + 1,
        "rows of metrics": BATCHES,
        "rejected rows": 0,
        "registrations": 1,
    }
    others = [one for one in NAMES if one != name]
    assert named(pipeline.sink.path) == sorted(others * (BATCHES + 1))
    assert named(f"{pipeline.metrics}/subscriptions") == sorted(others * BATCHES)
    assert complete_batches(f"{pipeline.metrics}/subscriptions") == list(range(BATCHES))
    manifest = json.loads(Path(f"{pipeline.metrics}/subscriptions/batch=0/_SUCCESS").read_text())
    assert list(manifest["files"].values()) == [2]
    store = open_store(pipeline.subscriptions.store)
    assert store.lives(name) == []
    assert sorted(one.subscriber for _, one in store.subscriptions()) == sorted(others)
    assert sum(purge(pipeline, name).values()) == 0


def test_what_was_done_is_noted_without_the_name(pipeline: Pipeline) -> None:
    remove_old(pipeline, {"deliveries": timedelta(days=2.5)}, NOW)
    purge(pipeline, "ann")
    text = Path(pipeline.checkpoint, "audit.jsonl").read_text()
    first, second = map(json.loads, text.splitlines())
    assert (first["what"], first["batches of deliveries"]) == ("retention", 2)
    assert (second["what"], second["registrations"]) == ("purge", 1)
    assert "@" in second["by"]
    assert "ann" not in text


def test_the_command_removes_and_purges_and_refuses_while_the_pipeline_runs(
    pipeline: Pipeline, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "pipeline.toml")
    assert main(["outputs", file, "retain", "--deliveries", "10w", "--archive", "1d"]) == 0
    assert "archive: removed 4 batches" in capsys.readouterr().out
    assert main(["outputs", file, "retain"]) == 2
    with owning(pipeline.checkpoint):
        assert main(["outputs", file, "purge", "--subscriber", "ann"]) == 1
    assert "in use by process" in capsys.readouterr().err
    assert main(["outputs", file, "purge", "--subscriber", "ann"]) == 0
    assert "registrations: removed 1" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["outputs", file, "retain", "--archive", "soon"])
    assert "takes a number and a unit, such as 90d" in capsys.readouterr().err


def test_deliveries_that_are_no_parquet_are_not_purged_in_part(tmp_path: Path) -> None:
    text = PIPELINE.format(each="false").replace('path = "deliveries"', 'path = "deliveries"\nformat = "csv"')
    (tmp_path / "pipeline.toml").write_text(text)
    with pytest.raises(DistributaryError, match='the format "csv" cannot be purged here'):
        purge(load_pipeline(tmp_path / "pipeline.toml"), "ann")


def with_settings(place: Path, sink: str, more: str = "") -> Pipeline:
    """A pipeline with another sink, and a store in which ann and bob are registered."""
    text = PIPELINE.format(each="false").replace('path = "deliveries"\neach = false', sink) + more
    (place / "pipeline.toml").write_text(text)
    made = load_pipeline(place / "pipeline.toml")
    if not (place / "store").exists():
        open_store(place / "store", create=True).commit(
            [Subscription(f"s {one}", one, topic="A") for one in ("ann", "bob")]
        )
    return made


KAFKA = 'format = "kafka"\ntopic = "out"\noptions = { "kafka.bootstrap.servers" = "127.0.0.1:1" }'
DELTA = 'format = "delta"\npath = "table"'


def test_a_sink_that_cannot_be_purged_or_shortened_from_here_is_told_and_nothing_is_done(
    tmp_path: Path,
) -> None:
    kafka = with_settings(tmp_path, KAFKA)
    with pytest.raises(DistributaryError, match='"kafka" cannot be purged here'):
        purge(kafka, "ann")
    assert kafka.store.lives("ann") != []
    for pipeline in (kafka, with_settings(tmp_path, DELTA)):
        with pytest.raises(DistributaryError, match="its deliveries are no files of the pipeline"):
            remove_old(pipeline, {"deliveries": timedelta(), "archive": timedelta()}, NOW)
    assert not Path(kafka.checkpoint, "audit.jsonl").exists()


def test_rows_of_a_delta_table_are_deleted(tmp_path: Path) -> None:
    pipeline = with_settings(tmp_path, DELTA)
    write_deltalake(tmp_path / "table", pa.table({"event_id": ["e1", "e2"], "subscriber": ["ann", "o'bob"]}))
    assert purge(pipeline, "o'bob")["deliveries"] == 1
    assert purge(pipeline, "o'bob")["deliveries"] == 0
    assert DeltaTable(tmp_path / "table").to_pyarrow_table()["subscriber"].to_pylist() == ["ann"]


def test_rows_of_an_iceberg_table_are_deleted(tmp_path: Path) -> None:
    options = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/catalog.db",
        "warehouse": f"file://{tmp_path}/warehouse",
    }
    told = "\n".join(f'{name} = "{value}"' for name, value in options.items())
    table = f'format = "iceberg"\ntable = "alerts.deliveries"\n[sink.options]\n{told}'
    pipeline = with_settings(tmp_path, table)
    assert purge(pipeline, "bob")["deliveries"] == 0, "there is no table yet"
    catalog = load_catalog("default", **options)
    try:
        catalog.create_namespace("alerts")
        rows = pa.table({"event_id": ["e1", "e2", "e3"], "subscriber": ["ann", "bob", "bob"]})
        catalog.create_table("alerts.deliveries", rows.schema).append(rows)
        assert purge(pipeline, "bob")["deliveries"] == 2
        left = catalog.load_table("alerts.deliveries").scan().to_arrow()
        assert left["subscriber"].to_pylist() == ["ann"]
    finally:
        catalog.close()


FOLLOW = '\n[quarantine]\npath = "quarantine"\n[follow]\nformat = "csv"\npath = "rules.csv"\n'


def test_malformed_rows_of_a_followed_table_that_name_the_subscriber_are_removed(tmp_path: Path) -> None:
    pipeline = with_settings(tmp_path, 'path = "deliveries"', FOLLOW)
    (tmp_path / "rules.csv").write_text("id,subscriber,topic\ns1,bob,A\n")
    aside = [
        {"place": "rules:2", "field": "topic", "reason": "is empty", "record": record}
        for record in ('{"id": "s2", "subscriber": "ann"}', "s3,ann,", '{"subscriber": "bob"}')
    ]
    place = Path(pipeline.quarantine, "_subscriptions.jsonl")
    place.parent.mkdir()
    place.write_text("".join(json.dumps(each) + "\n" for each in aside))
    assert purge(pipeline, "ann")["rejected rows"] == 2
    assert [json.loads(line) for line in place.read_text().splitlines()] == aside[2:]


@pytest.mark.parametrize("row", ["s1,ann,A", "s1,ann,A//B"])
def test_nobody_is_purged_whom_the_followed_table_would_register_again(tmp_path: Path, row: str) -> None:
    pipeline = with_settings(tmp_path, 'path = "deliveries"', FOLLOW)
    (tmp_path / "rules.csv").write_text(f"id,subscriber,topic\n{row}\n")
    with pytest.raises(DistributaryError, match="has rows of the subscriber, who would be registered again"):
        purge(pipeline, "ann")
    assert pipeline.store.lives("ann") != []
    text = FOLLOW.replace('"csv"\npath = "rules.csv"', '"jdbc"\noptions = { url = "u", dbtable = "t" }')
    with pytest.raises(DistributaryError, match="the store follows a database"):
        purge(with_settings(tmp_path, 'path = "deliveries"', text), "ann")


def test_a_file_of_spark_s_is_written_anew_with_its_times_and_without_the_old_checksum(
    tmp_path: Path,
) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE.format(each="false"))
    pipeline = load_pipeline(tmp_path / "pipeline.toml")
    open_store(tmp_path / "store", create=True)
    place = Path(str(pipeline.sink.path), "batch=0")
    place.mkdir(parents=True)
    times = pa.array([NOW, NOW], pa.timestamp("us"))
    rows = pa.table({"event_id": ["e1", "e2"], "subscriber": ["ann", "bob"], "at": times})
    parquet.write_table(rows, place / "part-0.parquet", use_deprecated_int96_timestamps=True)
    (place / ".part-0.parquet.crc").write_bytes(b"of the old bytes")
    (place / "_SUCCESS").touch()
    assert purge(pipeline, "ann")["deliveries"] == 1
    assert sorted(path.name for path in place.iterdir()) == ["_SUCCESS", "part-0.parquet"]
    assert has_old_times(str(place / "part-0.parquet"))
    kept = parquet.read_table(place / "part-0.parquet", coerce_int96_timestamp_unit="us", partitioning=None)
    assert kept.to_pylist() == rows.slice(1).to_pylist()
