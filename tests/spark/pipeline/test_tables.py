"""Deliveries in Delta and Iceberg tables: each batch once, wherever the one who writes it dies.

Batches are done as in `test_commit`, in this process and without Spark. A Delta table is read back by its log
and the Parquet files that this names, an Iceberg table by pyiceberg's scan.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    MapType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.matching.matcher import Matcher
from distributary.spark import storage
from distributary.spark.columns import EventColumns
from distributary.spark.pipeline import run
from distributary.spark.pipeline.config import Pipeline, parse_pipeline
from distributary.spark.pipeline.deliveries import delivery_schema
from distributary.spark.pipeline.job import MatchAndStage
from distributary.spark.pipeline.start import batch_writer
from distributary.spark.pipeline.tables import delta, iceberg
from distributary.spark.pipeline.tables.delta import DeltaDeliveries
from distributary.spark.pipeline.tables.iceberg import IcebergDeliveries
from distributary.spark.pipeline.tables.sink import delivery_columns, require_table
from distributary.spark.pipeline.tables.table import BatchRows, DeliveryTable
from distributary.spark.rows import TaggedRows
from distributary.spark.tasks import MatchTasks
from spark.pipeline.test_commit import (
    COLUMNS,
    DIVISIONS,
    OPERATIONS,
    SUBSCRIPTIONS,
    Killed,
    do_batch,
    events_of,
    index,
)
from spark.pipeline.test_sink import plan

PIPELINE = """
checkpoint = "checkpoint"
source = {{ format = "rate" }}
events = {{ order = "at" }}
subscriptions = {{ store = "subscriptions" }}
[sink]
columns = ["price"]
{sink}
"""
FORMATS = ("delta", "iceberg")
EVENT = StructType().add("id", "string").add("topic", "string").add("at", "long").add("price", "double")
SCHEMA = pa.schema(
    [
        ("event_id", pa.string()),
        ("subscriber", pa.string()),
        ("subscriptions", pa.list_(pa.string())),
        ("price", pa.float64()),
        ("batch", pa.int64()),
    ]
)


def options_of(place: Path) -> dict[str, str]:
    """A catalog of Iceberg that is a file."""
    return {"type": "sql", "uri": f"sqlite:///{place}/catalog.db", "warehouse": f"file://{place}/warehouse"}


def pipeline_in(place: Path, format: str) -> Pipeline:
    sink = 'format = "delta"\npath = "table"'
    if format == "iceberg":
        options = "\n".join(f'{name} = "{value}"' for name, value in options_of(place).items())
        sink = f'format = "iceberg"\ntable = "alerts.deliveries"\n[sink.options]\n{options}'
    return parse_pipeline(PIPELINE.format(sink=sink), str(place / "pipeline.toml"))


def start(place: Path, format: str) -> Callable[[int], None]:
    """A run of a pipeline whose sink is a table: what does a micro-batch."""
    pipeline = pipeline_in(place, format)
    plan(place)
    (place / "checkpoint" / "metadata").write_text(json.dumps({"id": "q1"}))
    writer = batch_writer(pipeline, EVENT, divisions=DIVISIONS)
    tagged = TaggedRows.of(COLUMNS, "id", ["topic", "price"], COLUMNS, flows=False)
    task = MatchAndStage(MatchTasks(index(), EventColumns(order="at"), tagged), writer.staging)
    return lambda batch: do_batch(writer, task, batch)


def rows_of(place: Path, format: str) -> list[dict[str, Any]]:
    """What is in the table, as readers of others see it; nothing when there is no table."""
    if format == "delta":
        if not (place / "table" / "_delta_log").exists():
            return []
        # The log itself, and the files that it names.
        named: dict[str, None] = {}
        for file in sorted((place / "table" / "_delta_log").glob("*.json")):
            actions = [json.loads(line) for line in file.read_text().splitlines()]
            named |= dict.fromkeys(each["add"]["path"] for each in actions if "add" in each)
        rows = [pq.read_table(place / "table" / name).to_pylist() for name in named]
        return [row for each in rows for row in each]
    found = load_catalog("default", **options_of(place))
    try:
        if not found.table_exists("alerts.deliveries"):
            return []
        rows = found.load_table("alerts.deliveries").scan().to_arrow().to_pylist()
        return [row for row in rows if isinstance(row, dict)]
    finally:
        found.close()


def deliveries(place: Path, format: str) -> list[tuple[int, str, str, tuple[str, ...], float]]:
    return sorted(
        (row["batch"], row["event_id"], row["subscriber"], tuple(row["subscriptions"]), row["price"])
        for row in rows_of(place, format)
    )


def expected(batches: range) -> list[tuple[int, str, str, tuple[str, ...], float]]:
    """What one matcher delivers, event by event."""
    matcher, found = Matcher(SUBSCRIPTIONS), []
    subscribers = {one.id: one.subscriber for one in SUBSCRIPTIONS}
    for batch in batches:
        events = events_of(batch)
        prices = {event["id"]: event["price"] for event in events}
        groups: dict[tuple[str, str], list[str]] = {}
        for row in matcher.match_batch(pa.Table.from_pylist(events)).to_pylist():
            key = row["event_id"], subscribers[row["subscription_id"]]
            groups.setdefault(key, []).append(row["subscription_id"])
        found += [(batch, *key, tuple(sorted(ids)), prices[key[0]]) for key, ids in groups.items()]
    return sorted(found)


STEPS: dict[str, list[tuple[Any, str]]] = {
    "delta": [(delta, "write_deltalake"), (DeltaTable, "create")],
    "iceberg": [(SqlCatalog, "create_namespace"), (SqlCatalog, "create_table"), (SqlCatalog, "commit_table")],
}
"""What changes a table; whoever calls it may die before and after it."""


def dying(patch: pytest.MonkeyPatch, format: str, most: int) -> list[int]:
    """Let everything end after so many steps: operations on files, and before and after a table's changes."""
    done = [0]

    def step() -> None:
        if done[0] >= most:
            raise Killed
        done[0] += 1

    def wrap(owner: Any, name: str, *, after: bool) -> None:
        operation = getattr(owner, name)

        def dies(*given: Any, **named: Any) -> Any:
            step()
            result = operation(*given, **named)
            if after:
                step()
            return result

        patch.setattr(owner, name, dies)

    for name in OPERATIONS:
        wrap(storage, name, after=False)
    for owner, name in STEPS[format]:
        wrap(owner, name, after=True)
    return done


def steps_of(place: Path, format: str, batch: int, most: int = 10**6) -> int:
    """Do a batch, which dies after so many steps; returns how many there were."""
    with pytest.MonkeyPatch.context() as patch:
        done = dying(patch, format, most)
        try:
            start(place, format)(batch)
        except Killed:
            assert done[0] == most
    return done[0]


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize(
    "everywhere", [False, pytest.param(True, marks=pytest.mark.chaos)], ids=["at the table", "everywhere"]
)
def test_a_table_has_each_delivery_once_wherever_a_batch_dies(
    tmp_path: Path, format: str, everywhere: bool
) -> None:
    clean = tmp_path / "clean"
    clean.mkdir()
    counts = [steps_of(clean, format, batch) for batch in range(2)]
    assert deliveries(clean, format) == expected(range(2))
    # The first batch makes the table. Behind it come the files of the quarantine, and the record.
    dies_at = [(0, at) for at in range(0 if everywhere else counts[0] - 9, counts[0])]
    dies_at += [(1, at) for at in range(counts[1])] if everywhere else []
    for batch, at in dies_at:
        place = tmp_path / f"{batch}-{at}"
        place.mkdir()
        for before in range(batch):
            start(place, format)(before)
        assert steps_of(place, format, batch, at) == at
        assert deliveries(place, format) in (expected(range(batch)), expected(range(batch + 1)))
        again = start(place, format)
        for each in range(batch, 2):
            again(each)
        assert deliveries(place, format) == expected(range(2)), (batch, at)
        shutil.rmtree(place)


def table_in(place: Path, format: str) -> DeliveryTable:
    if format == "delta":
        return DeltaDeliveries(str(place / "table"), {})
    return IcebergDeliveries("alerts.deliveries", options_of(place))


def rows_for(batch: int, *ids: str) -> BatchRows:
    """A batch with deliveries of events to ann."""
    table = pa.table(
        {
            "event_id": list(ids),
            "subscriber": ["ann"] * len(ids),
            "subscriptions": [["s1"]] * len(ids),
            "price": [1.5] * len(ids),
        }
    )
    return BatchRows(SCHEMA, batch, lambda: iter(table.to_batches()))


def ids_in(place: Path, format: str) -> list[str]:
    return sorted(row["event_id"] for row in rows_of(place, format))


@pytest.mark.parametrize("format", FORMATS)
def test_of_two_drivers_with_one_batch_one_writes_it_and_other_writers_hinder_none(
    tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, name = (delta, "write_deltalake") if format == "delta" else (iceberg, "_append")
    append = getattr(module, name)
    one, other, foreign = (table_in(tmp_path, format) for _ in range(3))
    assert one.write_once(rows_for(0, "e0"), "q")

    def overtaken_by(table: DeliveryTable, rows: BatchRows, mark: str) -> Callable[..., None]:
        def overtaken(*given: Any, **named: Any) -> None:
            """Between looking and writing, somebody else writes."""
            monkeypatch.setattr(module, name, append)
            assert table.write_once(rows, mark)
            append(*given, **named)

        return overtaken

    monkeypatch.setattr(module, name, overtaken_by(other, rows_for(1, "e1"), "q"))
    assert not one.write_once(rows_for(1, "e1"), "q")
    assert ids_in(tmp_path, format) == ["e0", "e1"]
    monkeypatch.setattr(module, name, overtaken_by(foreign, rows_for(7, "f7"), "another pipeline"))
    assert one.write_once(rows_for(2, "e2"), "q")
    assert ids_in(tmp_path, format) == ["e0", "e1", "e2", "f7"]
    # Each knows its own batches, also those of which it had none to write.
    assert not foreign.write_once(rows_for(6, "f6"), "another pipeline")
    assert one.write_once(rows_for(5, "e5"), "q")
    assert not one.write_once(rows_for(5, "e5"), "q")
    assert ids_in(tmp_path, format) == ["e0", "e1", "e2", "e5", "f7"]


def test_the_number_of_a_batch_outlives_the_log_and_the_snapshots_that_had_it(tmp_path: Path) -> None:
    place = str(tmp_path / "table")
    settings = {"delta.checkpointInterval": "2"}
    DeltaTable.create(place, schema=SCHEMA, configuration=settings)
    for batch in range(4):
        assert table_in(tmp_path, "delta").write_once(rows_for(batch, f"e{batch}"), "q")
    kept = DeltaTable(place).version()
    for file in (tmp_path / "table" / "_delta_log").glob("*.json"):
        if int(file.stem) < kept - 1:
            file.unlink()
    assert not table_in(tmp_path, "delta").write_once(rows_for(3, "e3"), "q")
    assert DeltaTable(place).to_pyarrow_table().num_rows == 4

    assert table_in(tmp_path, "iceberg").write_once(rows_for(3, "e3"), "q")
    catalog = load_catalog("default", **options_of(tmp_path))
    table = catalog.load_table("alerts.deliveries")
    first = table.current_snapshot()
    table.append(table.scan().to_arrow().slice(0, 0))  # by somebody else
    assert first is not None
    table.maintenance.expire_snapshots().by_id(first.snapshot_id).commit()
    catalog.close()
    assert not table_in(tmp_path, "iceberg").write_once(rows_for(3, "e3"), "q")
    assert ids_in(tmp_path, "iceberg") == ["e3"]


@pytest.mark.parametrize("format", FORMATS)
def test_every_type_of_spark_that_a_table_can_have_comes_back_as_it_was(tmp_path: Path, format: str) -> None:
    values: dict[str, tuple[DataType, Any]] = {
        "a": (ByteType(), 1),
        "b": (ShortType(), -2),
        "c": (IntegerType(), 3),
        "d": (FloatType(), 0.5),
        "e": (DecimalType(20, 4), Decimal("12345678901234.5678")),
        "f": (BooleanType(), True),
        "g": (BinaryType(), b"\xff"),
        "h": (DateType(), date(2026, 2, 28)),
        "i": (TimestampType(), datetime(2026, 2, 28, 12, 0, 0, 7, tzinfo=UTC)),
        "j": (TimestampNTZType(), datetime(2026, 2, 28, 12)),
        "k": (StructType().add("x", "long").add("y", ArrayType(StringType())), {"x": 1, "y": ["z", None]}),
        "l": (MapType(StringType(), DoubleType()), [("x", 2.5)]),
        "m": (StringType(), None),
    }
    schema = delivery_schema(
        StructType([StructField(name, type) for name, (type, _) in values.items()]), [*values]
    )
    columns = delivery_columns(schema)
    row: dict[str, Any] = {"event_id": "e1", "subscriber": "ann", "subscriptions": ["s1"]}
    row |= {name: value for name, (_, value) in values.items()}
    rows = pa.Table.from_pylist([row], pa.schema(list(columns)[:-1]))
    table = table_in(tmp_path, format)
    assert table.write_once(BatchRows(columns, 4, lambda: iter(rows.to_batches())), "q")
    table.require_fit(columns)
    assert table.write_once(BatchRows(columns, 5, lambda: iter(rows.to_batches())), "q")
    found = sorted(rows_of(tmp_path, format), key=lambda each: int(each["batch"]))
    assert found == [{**row, "batch": 4}, {**row, "batch": 5}]


@pytest.mark.parametrize("format", FORMATS)
def test_a_table_with_columns_of_its_own_and_partitions_takes_deliveries(tmp_path: Path, format: str) -> None:
    there = pa.schema([("note", pa.string()), *reversed(list(SCHEMA))])
    if format == "delta":
        DeltaTable.create(str(tmp_path / "table"), schema=there, partition_by=["subscriber"])
    else:
        catalog = load_catalog("default", **options_of(tmp_path))
        catalog.create_namespace("alerts")
        made = catalog.create_table("alerts.deliveries", there)
        with made.update_spec() as change:
            change.add_identity("subscriber")
        catalog.close()
    assert table_in(tmp_path, format).write_once(rows_for(0, "e0", "e1"), "q")
    assert not table_in(tmp_path, format).write_once(rows_for(0, "e0", "e1"), "q")
    if format == "delta":
        found = DeltaTable(str(tmp_path / "table")).to_pyarrow_table().to_pylist()
    else:
        found = rows_of(tmp_path, format)
    assert sorted((row["event_id"], row["subscriber"], row["note"], row["batch"]) for row in found) == [
        ("e0", "ann", None, 0),
        ("e1", "ann", None, 0),
    ]


CHECKED = """
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "id STRING, topic STRING, price DOUBLE"
[subscriptions]
store = "subscriptions"
[sink]
columns = ["price"]
{sink}
[trigger]
available_now = true
"""


def checked(place: Path, sink: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What `--check` says of a pipeline with that sink."""
    (place / "pipeline.toml").write_text(CHECKED.format(sink=sink))
    capsys.readouterr()
    status = main(["run", str(place / "pipeline.toml"), "--check"])
    said = capsys.readouterr()
    assert (status == 0) == ("is right" in said.out)
    return said.out + said.err


def test_what_is_wrong_with_a_table_is_told_by_check(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    delta_sink = 'format = "delta"\npath = "table"'
    assert "is right" in checked(tmp_path, delta_sink, capsys)
    narrow = pa.schema([("event_id", pa.int64()), ("subscriber", pa.string()), ("batch", pa.int64())])
    DeltaTable.create(str(tmp_path / "table"), schema=narrow)
    told = checked(tmp_path, delta_sink, capsys)
    assert f"[sink] path: the Delta table {tmp_path}/table cannot hold the deliveries: " in told
    assert "its column event_id is int64 and not string; it has no column subscriptions" in told
    assert "; it has no column price; change the table, or name another one" in told
    (tmp_path / "file").write_text("")
    told = checked(tmp_path, 'format = "delta"\npath = "file"', capsys)
    assert f"[sink] path: cannot write to {tmp_path}/file: {tmp_path}/file is a file" in told
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "deltalake", None)
        patch.delitem(sys.modules, "distributary.spark.pipeline.tables.delta")
        told = checked(tmp_path, delta_sink, capsys)
        assert '"delta" needs deltalake where the driver runs' in told
        assert "pip install 'distributary[tables]'" in told
    nowhere = 'format = "iceberg"\ntable = "a.b"\noptions = { type = "sql", uri = "sqlite:////nowhere/c.db" }'
    told = checked(tmp_path, nowhere, capsys)
    assert "[sink] table: the Iceberg table a.b cannot be read: " in told
    assert "unable to open database file" in told


@pytest.mark.parametrize(
    ("sink", "told"),
    [
        ('format = "delta"', "[sink] path: is missing; a Delta table is at a path or URL"),
        ('format = "iceberg"', '[sink] table: is missing; Iceberg needs one such as "alerts.deliveries"'),
        ('format = "iceberg"\ntable = "a.b"\npath = "x"', "[sink] path: is not for Iceberg: its catalog"),
        ('path = "x"\ntable = "a.b"', '[sink] table: is for Iceberg; the format is "parquet"'),
        ('format = "delta"\npath = "x"\neach = true', "[sink] each: is for files and Kafka"),
        ('format = "delta"\npath = "x"\nexactly_once = true', "a table has each batch once in any case"),
    ],
)
def test_what_a_sink_lacks_that_is_a_table_is_told(
    tmp_path: Path, sink: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert told in checked(tmp_path, sink, capsys)


def test_a_table_with_another_type_is_refused_before_the_first_batch(tmp_path: Path) -> None:
    pipeline = pipeline_in(tmp_path, "delta")
    there = SCHEMA.set(3, pa.field("price", pa.string()))
    DeltaTable.create(str(tmp_path / "table"), schema=there)
    schema = batch_writer(pipeline, EVENT).deliveries
    with pytest.raises(DistributaryError, match="its column price is string and not double"):
        require_table(pipeline.sink, schema)


def test_a_column_that_no_table_has_is_told_with_its_type() -> None:
    event = StructType().add("id", "string").add("took", DayTimeIntervalType())
    with pytest.raises(
        DistributaryError, match="columns: took is of type interval day to second, which no table"
    ):
        delivery_columns(delivery_schema(event, ["took"]))


def test_a_pipeline_follows_a_table_of_subscriptions_and_writes_one_of_deliveries(
    tmp_path: Path, session_of_commands: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in").mkdir()
    for number, price in enumerate([1.0, 9.0]):
        # An event that comes in two files: what two tasks make of it is one delivery to each.
        lines = [{"id": "both", "topic": "A", "price": price}, {"id": f"e{number}", "topic": "B", "price": 5}]
        (tmp_path / "in" / f"{number}.json").write_text("\n".join(map(json.dumps, lines)))
    (tmp_path / "rules.csv").write_text("id,subscriber,topic,where\ns1,ann,A,\ns2,bob,,price > 4\ns3,bob,,\n")
    followed: list[str] = []

    @contextmanager
    def noted(session: object, pipeline: Pipeline, tell: object) -> Iterator[None]:
        followed.append(pipeline.name)
        yield

    monkeypatch.setattr(run, "following", noted)
    sink = 'format = "delta"\npath = "table"\n[follow]\nformat = "csv"\npath = "rules.csv"'
    (tmp_path / "pipeline.toml").write_text(CHECKED.format(sink=sink))
    assert main(["run", str(tmp_path / "pipeline.toml")]) == 0
    assert followed == ["pipeline"]  # as long as it runs; before that it was read once
    found = [(row["event_id"], row["subscriber"], row["subscriptions"]) for row in rows_of(tmp_path, "delta")]
    assert sorted(found) == [
        ("both", "ann", ["s1"]),
        ("both", "bob", ["s2"]),
        ("e0", "bob", ["s2"]),
        ("e1", "bob", ["s2"]),
    ]
