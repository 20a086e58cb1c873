"""Micro-batches whose process dies at any step of staging and committing, in this process and without Spark.

What tasks do and what the driver does runs here as it does there; every operation on files is one at which
all ends. Done again, a batch leaves what it leaves when nothing happens, and at no moment is anything half
there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import StructType

from distributary.matching.matcher import Matcher
from distributary.model import Record, Subscription
from distributary.spark import storage
from distributary.spark.columns import EventColumns
from distributary.spark.grouped import grouped_table
from distributary.spark.index.find import SparkIndex
from distributary.spark.pipeline import job, tolerance_memory
from distributary.spark.pipeline.commits import read_record
from distributary.spark.pipeline.config import parse_pipeline
from distributary.spark.pipeline.job import MatchAndStage
from distributary.spark.pipeline.outputs import complete_batches
from distributary.spark.pipeline.receipts import RECEIPT
from distributary.spark.pipeline.sink import BatchWriter
from distributary.spark.pipeline.start import batch_writer
from distributary.spark.rows import TaggedRows
from distributary.spark.tasks import MatchTasks
from spark.pipeline.test_sink import plan

PIPELINE = """
checkpoint = "checkpoint"
source = {{ format = "rate" }}
events = {{ order = "at" }}
subscriptions = {{ store = "subscriptions" }}
sink = {{ path = "out", columns = ["price"], each = {each} }}
quarantine = {{ path = "bad" }}
archive = {{ path = "archive" }}
metrics = {{ path = "metrics" }}
"""
OUTPUTS = ("out", "archive", "bad", "metrics/topics", "metrics/subscriptions")
OPERATIONS = ("new_file", "make_directory", "move", "replace", "remove_directory", "write_atomically")
SUBSCRIPTIONS = [
    Subscription("s1", "ann", topic="A"),
    Subscription("s2", "ann", topic="A/*", change={"price": 1.0}),
    Subscription("s3", "bob", topic="B", change={"price": 3.0}),
    Subscription("s4", "cleo", where="price > 3"),
]
COLUMNS = ["id", "topic", "at", "price"]
DIVISIONS = 2


class Killed(BaseException):
    """What ends everything."""


@dataclass(frozen=True)
class OneIndex(SparkIndex):
    """An index that is here."""

    matchers: tuple[Matcher, ...]

    def version(self) -> int:
        return 1

    def matcher(self, part: int, version: int) -> Matcher:
        self.matchers[0].forget()
        return self.matchers[0]


@cache
def index() -> OneIndex:
    return OneIndex(None, True, (Matcher(SUBSCRIPTIONS),))


def events_of(batch: int, count: int = 8) -> list[Record]:
    random = Random(batch)
    return [
        {"id": f"e{batch}-{row}", "topic": random.choice(["A", "A/x", "B", None]), "at": row, "price": price}
        for row, price in enumerate(random.choice([0.5, 2.0, 4.5, 9.0]) for _ in range(count))
    ]


def tables_of(batch: int) -> list[pa.Table]:
    """The events of a batch as two tasks read them, one of them malformed."""
    records = [*events_of(batch), {"id": None, "topic": "A", "at": 99, "price": 1.0}]
    types = pa.schema(
        [("id", pa.string()), ("topic", pa.string()), ("at", pa.int64()), ("price", pa.float64())]
    )
    return [pa.Table.from_pylist(records[:5], types), pa.Table.from_pylist(records[5:], types)]


def start(place: Path, each: bool) -> Callable[[int], None]:
    """A run of the pipeline: what does a micro-batch."""
    pipeline = parse_pipeline(PIPELINE.format(each=str(each).lower()), str(place / "pipeline.toml"))
    plan(place)
    event = StructType().add("id", "string").add("topic", "string").add("at", "long").add("price", "double")
    writer = batch_writer(pipeline, event, divisions=DIVISIONS)
    tagged = TaggedRows.of(COLUMNS, "id", ["topic", "price"], COLUMNS, flows=False)
    task = MatchAndStage(MatchTasks(index(), EventColumns(order="at"), tagged), writer.staging)
    return lambda batch: do_batch(writer, task, batch)


def do_batch(writer: BatchWriter, task: MatchAndStage, batch: int) -> None:
    def collect() -> list[tuple[str]]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(job, "running_micro_batch", lambda: ("query", batch))
            packed = [one for table in tables_of(batch) for one in task.packed(iter(table.to_batches()))]
            rows = pa.Table.from_batches(packed).to_batches()
            return [(text,) for one in task.remembered(iter(rows)) for text in one[RECEIPT].to_pylist()]

    receipts: Any = SimpleNamespace(collect=collect, sparkSession=None)
    writer(receipts, batch)


def rows_of(place: Path, output: str, batch: int) -> list[str]:
    """All rows of a batch of an output, whichever files they are in."""
    found = [*(place / output).glob(f"batch={batch}/*.parquet")]
    found += (place / output).glob(f"each=*/batch={batch}/*.parquet")
    tables = [pq.ParquetFile(path).read() for path in found]
    return sorted(json.dumps(row, sort_keys=True) for table in tables for row in table.to_pylist())


def outcome(place: Path, batches: range) -> dict[str, Any]:
    found: dict[str, Any] = {
        f"{output} {batch}": rows_of(place, output, batch) for output in OUTPUTS for batch in batches
    }
    for batch in batches:
        record = read_record(str(place / "metrics/batches"), batch)
        found[f"record {batch}"] = (record.events, record.matches, record.deliveries, record.rejected)
    return found


def dying(patch: pytest.MonkeyPatch, most: int) -> list[int]:
    """Let everything end after so many operations on files, which are counted in the list."""
    done = [0]

    def wrap(name: str) -> None:
        operation = getattr(storage, name)

        def dies(*given: Any) -> Any:
            if done[0] >= most:
                raise Killed
            done[0] += 1
            return operation(*given)

        patch.setattr(storage, name, dies)

    for name in OPERATIONS:
        wrap(name)
    return done


@pytest.mark.parametrize(
    ("each", "every"),
    [
        (False, 6),
        (True, 9),
        pytest.param(False, 1, marks=pytest.mark.chaos),
        pytest.param(True, 1, marks=pytest.mark.chaos),
    ],
    ids=["together", "each", "together, everywhere", "each, everywhere"],
)
def test_a_batch_that_dies_at_an_operation_is_done_again_with_the_same_outcome(
    tmp_path: Path, each: bool, every: int
) -> None:
    first, clean = tmp_path / "first", tmp_path / "clean"
    first.mkdir()
    start(first, each)(0)
    shutil.copytree(first, clean)
    operations = operations_of_batch_1(clean, each)
    start(clean, each)(2)
    wanted = outcome(clean, range(3))
    assert all(wanted[f"{output} {batch}"] for output in OUTPUTS for batch in (1, 2))
    for at in range(every - 1, operations, every):
        place = tmp_path / str(at)
        shutil.copytree(first, place)
        assert operations_of_batch_1(place, each, at) == at
        whole = [output for output in OUTPUTS if 1 in complete_batches(str(place / output))]
        assert all(rows_of(place, output, 1) == wanted[f"{output} 1"] for output in whole)
        assert len(whole) == len(OUTPUTS) or not (place / "metrics/batches/1.json").exists()
        again = start(place, each)
        again(1)
        again(2)
        assert outcome(place, range(3)) == wanted, at
        assert not [*place.rglob("_staged")]
        shutil.rmtree(place)


def operations_of_batch_1(place: Path, each: bool, most: int = 10**6) -> int:
    """Do batch 1, which dies after so many operations on files; returns how many there were."""
    with pytest.MonkeyPatch.context() as patch:
        done = dying(patch, most)
        try:
            start(place, each)(1)
        except Killed:
            assert done[0] == most
    return done[0]


def test_deliveries_and_tolerances_are_those_of_one_matcher(tmp_path: Path) -> None:
    run, matcher = start(tmp_path, False), Matcher(SUBSCRIPTIONS)
    subscribers = {one.id: one.subscriber for one in SUBSCRIPTIONS}
    for batch in range(6):
        run(batch)
        wanted: dict[tuple[str, str], list[str]] = {}
        matches = matcher.match_batch(pa.Table.from_pylist(events_of(batch)))
        for row in matches.to_pylist():
            key = row["event_id"], subscribers[row["subscription_id"]]
            wanted.setdefault(key, []).append(row["subscription_id"])
        found = map(json.loads, rows_of(tmp_path, "out", batch))
        assert {(row["event_id"], row["subscriber"]): row["subscriptions"] for row in found} == wanted


def test_a_batch_that_has_its_record_is_not_written_again(tmp_path: Path) -> None:
    start(tmp_path, False)(0)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")}
    start(tmp_path, False)(0)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} == before
    # A record of another run's batch of that number does not count.
    record = tmp_path / "metrics/batches/0.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | {"instant": "2001-01-01T00:00:00+00:00"}))
    start(tmp_path, False)(0)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.parquet")} != before


@pytest.mark.parametrize(("workers", "most"), [([0, 1, 1, 2, 0], 2)])
def test_what_is_remembered_is_the_same_from_files_as_from_a_worker(
    tmp_path: Path, workers: list[int], most: int
) -> None:
    """Worker 2 is a new one whenever it comes, as after a restart."""
    place, wanted = tmp_path / "run", tmp_path / "wanted"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(job, "MOST_CHANGES", most)
        one, other = start(place, False), start(wanted, False)
        kept: list[dict[Any, Any]] = [{}, {}, {}, {}]
        for batch, worker in enumerate(workers):
            kept[2] = {}
            patch.setattr(tolerance_memory, "_kept", kept[worker])
            one(batch)
            patch.setattr(tolerance_memory, "_kept", kept[3])
            other(batch)
            assert rows_of(place, "out", batch) == rows_of(wanted, "out", batch)
    files = [*(place / "checkpoint" / "tolerances").glob("*/changes/*")]
    assert len(files) <= DIVISIONS * (2 * most + 1)


def test_a_batch_begins_with_what_was_remembered_before_it_whatever_came_after(tmp_path: Path) -> None:
    run = start(tmp_path, False)
    run(0)
    run(1)
    place = str(tmp_path / "checkpoint" / "tolerances")
    for division in range(DIVISIONS):
        memory = tolerance_memory.memory_before(place, "another run", division, 1)
        first = tolerance_memory.DivisionMemory()
        file = tmp_path / "checkpoint" / "tolerances" / str(division) / "changes" / "0.parquet"
        if file.exists():
            first.take(pq.ParquetFile(file).read())
        assert memory.topics == first.topics


def remembering(place: Path, file: str, topics: dict[str, bytes | None]) -> None:
    path = place / "0" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{"topic": topic, "memory": memory} for topic, memory in topics.items()]
    pq.write_table(pa.Table.from_pylist(rows, tolerance_memory.COLUMNS), path)


def test_a_worker_that_was_away_goes_on_from_the_whole_file_that_came_meanwhile(tmp_path: Path) -> None:
    remembering(tmp_path, "changes/0.parquet", {"a": b"a0", "b": b"b0"})
    old = tolerance_memory.memory_before(str(tmp_path), "run", 0, 1)
    assert (old.topics, old.changes) == ({"a": b"a0", "b": b"b0"}, 1)
    old.batch = 0
    tolerance_memory.keep("run", 0, old)
    (tmp_path / "0/changes/0.parquet").unlink()  # with the changes that gave a its later memory
    remembering(tmp_path, "whole/5.parquet", {"a": b"a5", "c": b"c5"})
    remembering(tmp_path, "changes/6.parquet", {"c": None, "d": b"d6"})
    remembering(tmp_path, "changes/7.parquet", {"d": b"d7"})
    found = tolerance_memory.memory_before(str(tmp_path), "run", 0, 7)
    assert (found.topics, found.changes) == ({"a": b"a5", "d": b"d6"}, 1)
    found.batch = 7
    tolerance_memory.keep("run", 0, found)
    # Batch 7 is done again: what it left in this worker does not count.
    assert tolerance_memory.memory_before(str(tmp_path), "run", 0, 7).topics == {"a": b"a5", "d": b"d6"}


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from(["x", "y"]), st.sampled_from("qponm")), min_size=1
    )
)
def test_deliveries_are_matches_grouped_by_event_and_subscriber(matches: list[tuple[str, str, str]]) -> None:
    table = pa.table(
        {
            "event_id": [one[0] for one in matches],
            "subscriber": [one[1] for one in matches],
            "subscription_id": [one[2] for one in matches],
            "price": [ord(one[0]) for one in matches],
        }
    )
    wanted: dict[tuple[str, str], set[str]] = {}
    for event, subscriber, subscription in matches:
        wanted.setdefault((event, subscriber), set()).add(subscription)
    found = grouped_table(table, ["price"]).to_pylist()
    assert {(row["event_id"], row["subscriber"]): row["subscriptions"] for row in found} == {
        key: sorted(ids) for key, ids in wanted.items()
    }
    assert len(found) == len(wanted)
    assert all(row["price"] == ord(row["event_id"]) for row in found)
