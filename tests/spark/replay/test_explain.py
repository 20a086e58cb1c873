"""Explanations from an archive, made here without Spark: what every subscription was given, and why."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from random import Random
from shutil import rmtree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from distributary import Event, Subscription
from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.spark.pipeline.commits import BatchRecord, write_record
from distributary.spark.pipeline.config import Pipeline, load_pipeline
from distributary.spark.replay.explain import explain_archived
from distributary.store import open_store
from properties.oracle import MatcherOracle

PIPELINE = """
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "id STRING, topic STRING, at BIGINT, a DOUBLE"
{order}
[subscriptions]
store = "subscriptions"
[sink]
path = "deliveries"
[archive]
path = "archive"
"""
INSTANT = datetime(2026, 6, 1, 12, 30, tzinfo=UTC)
Rows = list[dict[str, object]]


def write_batch(place: Path, number: int, version: int, rows: Rows) -> None:
    """What a pipeline leaves of a batch: its rows, shuffled, and its record."""
    directory = place / "archive" / f"batch={number}"
    directory.mkdir(parents=True)
    types = {"id": pa.string(), "topic": pa.string(), "at": pa.int64(), "a": pa.float64()}
    pq.write_table(pa.Table.from_pylist(rows, pa.schema(types)), directory / "part-0.parquet")
    (directory / "_SUCCESS").touch()
    now = datetime.now(UTC)
    record = BatchRecord(number, version, len(rows), 0, 0, 0, now, now, instant=INSTANT)
    write_record(str(place / "checkpoint" / "batches"), record)


def made(place: Path, order: str = '[events]\norder = "at"') -> Pipeline:
    (place / "pipeline.toml").write_text(PIPELINE.format(order=order))
    return load_pipeline(place / "pipeline.toml")


def wishes(random: Random, count: int) -> list[Subscription]:
    return [
        Subscription(
            f"s{number}",
            random.choice(["ann", "bob"]),
            topic=random.choice([None, "A", "A/*"]),
            where=f"a > {random.randrange(4)}",
            change=random.choice([None, {"a": float(random.randrange(3))}]),
        )
        for number in random.sample(range(9), count)
    ]


@pytest.mark.parametrize("seed", range(3))
def test_every_event_is_explained_as_brute_force_delivers_it(tmp_path: Path, seed: int) -> None:
    """Subscriptions come, go and come back as others; events of one topic are spread over batches."""
    random = Random(seed)
    pipeline = made(tmp_path)
    store = open_store(tmp_path / "subscriptions")
    oracle, live = MatcherOracle(), set()
    expected: dict[tuple[int, str], set[str]] = {}
    for batch in range(5):
        added = [one for one in wishes(random, 4) if one.id not in live]
        removed = random.sample(sorted(live), min(2, len(live)))
        for one in removed:
            oracle.remove(one)
        for one in added:
            oracle.add(one)
        live = (live - set(removed)) | {one.id for one in added}
        version = store.commit(added, removed)
        rows: Rows = [
            {
                "id": f"e{batch}-{n}",
                "topic": random.choice([None, "A", "A/B", "C"]),
                "at": random.randrange(5),
            }
            | {"a": random.choice([None, *map(float, range(8))])}
            for n in range(8)
        ]
        for row in sorted(rows, key=lambda row: (row["at"], row["id"])):
            expected[batch, str(row["id"])] = set(oracle.match(Event.from_record(row)))
        write_batch(tmp_path, batch, version, rows)
    assert sum(map(len, expected.values())) > 20
    for (batch, event), ids in expected.items():
        told = list(explain_archived(pipeline, event))
        assert {one.batch for one in told} <= {batch}
        assert {one.explanation.subscription for one in told if one.explanation.matches} == ids


def test_what_was_not_there_and_what_is_lacking_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pipeline = made(tmp_path)
    store = open_store(tmp_path / "subscriptions")
    tolerant = Subscription("s1", "ann", change={"a": 1.0})
    early = Subscription("s2", "ann", where="now() < timestamp '2026-06-02'")
    for batch, (add, remove) in enumerate([([tolerant, early], []), ([], ["s2"]), ([early], [])]):
        version = store.commit(add, remove) if add or remove else store.version()
        rows: Rows = [{"id": f"e{batch}", "topic": "A", "at": batch, "a": float(batch)}, {"id": "e", "at": 9}]
        write_batch(tmp_path, batch, version, rows)
    command = ["explain", "--pipeline", str(tmp_path / "pipeline.toml")]
    assert main([*command, "--event", "e1", "--subscriber", "ann"]) == 0
    out = capsys.readouterr().out
    assert "batch 1, version 2 of the subscriptions: event 'e1' does not match subscription 's1'" in out
    assert "a is 1, which is 1 from the last delivered 0: not more than 1" in out
    assert "registration versions from 1 up to before 2: it was not registered: batch 1 used version 2" in out
    assert "registration versions from 3 on: it was not registered" in out
    assert main([*command, "--event", "e"]) == 0
    assert "batch 2, version 3" in capsys.readouterr().out
    (one,) = explain_archived(pipeline, "e0", subscription="s2")
    assert one.explanation.matches, "now() is when the batch came, not when it is explained"
    rmtree(tmp_path / "archive" / "batch=0")
    with pytest.raises(DistributaryError, match="lacks batch 0"):
        list(explain_archived(pipeline, "e1"))
    with pytest.raises(DistributaryError, match="has no event 'e0' of a finished batch"):
        list(explain_archived(pipeline, "e0"))


def test_without_an_order_tolerances_are_left_out_and_that_is_the_reason(tmp_path: Path) -> None:
    pipeline = made(tmp_path, order="")
    given = [Subscription("s1", "ann", change={"a": 1.0}), Subscription("s2", "ann", where="a = 1")]
    version = open_store(tmp_path / "subscriptions").commit(given)
    write_batch(tmp_path, 0, version, [{"id": "e", "topic": "A", "at": 1, "a": 1.0}])
    told = {one.explanation.subscription: one.explanation for one in explain_archived(pipeline, "e")}
    assert told["s2"].matches
    assert "names no order column" in str(told["s1"])
    assert not told["s1"].matches


def test_options_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    made(tmp_path)
    place = str(tmp_path / "pipeline.toml")
    for options in (
        ["--pipeline", place, "--events", "events.jsonl"],
        ["--store", "subs"],
        ["--store", "subs", "--events", "events.jsonl", "--batch", "1"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(["explain", *options, "--event", "e"])
        assert ended.value.code == 2
