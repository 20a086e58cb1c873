"""Pipelines on Spark as the console hears of them: while somebody looks, and checked before it is shown."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from distributary.cli.main import main
from distributary.edge.console.pipelines import (
    MOST_BYTES,
    WatchedPipeline,
    WatchedPipelines,
    batch_rows,
    read_report,
    status_address,
    texts,
)
from distributary.edge.web.outgoing import OutgoingError
from edge.listening import listening
from live.loops import alone, until

STATUS = {
    "pipeline": "quotes",
    "state": "running",
    "batch": 7,
    "events_per_second": 1234.5,
    "matches_per_second": 10.0,
    "lag": {"files": 2, "offsets": None, "seconds": None},
    "subscriptions_version": 4,
    "last_error": {"at": "2026-01-01T00:00:00+00:00", "reason": "the disk was full"},
    "latest_batches": [
        {
            "batch": batch,
            "finished": f"2026-01-02T03:04:0{batch}.500+00:00",
            "seconds": 0.25,
            "events": 2500,
            "matches": 20,
            "deliveries": 10,
            "rejected": 1,
        }
        for batch in (6, 7)
    ],
}
GOOD = b"HTTP/1.1 200 OK\r\n\r\n" + json.dumps(STATUS).encode()


class Answering:
    """A server that counts who asks, and answers all alike; it leaves them waiting without one."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.asked, self.port = answer, 0, 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        self.asked += 1
        if not self.answer:
            await reader.read()
        writer.write(self.answer)


@asynccontextmanager
async def answering(answer: bytes) -> AsyncIterator[Answering]:
    made = Answering(answer)
    async with listening(made.serve) as made.port:
        yield made


def clock(at: float) -> str:
    return f"at {at:g}"


async def heard(answer: bytes) -> WatchedPipeline:
    async with answering(answer) as server:
        pipeline = WatchedPipeline(f"http://127.0.0.1:{server.port}/status", lambda: 5.0)
        await pipeline.ask()
        return pipeline


@alone
async def test_what_a_pipeline_tells_is_shown_in_words() -> None:
    pipeline = await heard(GOOD)
    told = texts(pipeline, clock)
    assert (told.name, told.state, told.well) == ("quotes", "running", True)
    assert list(told.numbers.values()) == ["7", "1,234", "10", "0.25", "2 files", "version 4"]
    assert told.trouble == "A run failed at 2026-01-01T00:00:00+00:00: the disk was full"
    rows = batch_rows(pipeline.report)
    assert [(row["batch"], row["finished"]) for row in rows] == [
        ("7", "01-02 03:04:07"),
        ("6", "01-02 03:04:06"),
    ]


@alone
async def test_a_pipeline_that_is_silent_keeps_its_last_numbers_and_says_since_when() -> None:
    pipeline = await heard(GOOD)
    await pipeline.ask()  # its server is gone
    told = texts(pipeline, clock)
    assert (told.state, told.well, told.numbers["batch"]) == ("not heard", False, "7")
    assert told.trouble.startswith("Not heard since at 5: 127.0.0.1 cannot be reached")


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (b"HTTP/1.1 302 X\r\nlocation: http://127.0.0.1:1/\r\n\r\n", "it answers with status 302"),
        (b"HTTP/1.1 200 X\r\n\r\n<html>", "is no status of a pipeline: Invalid JSON"),
        (b"HTTP/1.1 200 X\r\n\r\n{}", "is no status of a pipeline: pipeline: Field required"),
        (GOOD.replace(b"1234.5", b"1e999"), "events_per_second: Input should be a finite number"),
        (b"HTTP/1.1 200 X\r\n\r\n" + b" " * (MOST_BYTES + 1), "the answer has more than"),
        (b"nonsense\r\n\r\n", "cannot be reached"),
    ],
)
def test_what_is_no_status_is_told_with_the_reason(answer: bytes, told: str) -> None:
    pipeline = asyncio.run(heard(answer))
    assert pipeline.report is None
    assert told in texts(pipeline, clock).trouble


@alone
async def test_pipelines_are_asked_while_somebody_looks_and_none_waits_for_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("distributary.edge.console.pipelines.EVERY", 0.001)
    async with answering(b"") as silent, answering(GOOD) as good:
        watched = WatchedPipelines([f"http://127.0.0.1:{each.port}/status" for each in (silent, good)], float)
        await asyncio.sleep(0.01)
        assert silent.asked == good.asked == 0
        watched.begin()
        watched.begin()
        watched.end()
        await until(lambda: good.asked > 3)
        assert silent.asked == 1
        assert [pipeline.report is None for pipeline in watched.all] == [True, False]
        watched.end()
        await asyncio.sleep(0.01)
        asked = good.asked
        await asyncio.sleep(0.02)
        assert good.asked == asked


def test_what_a_pipeline_of_ours_tells_is_understood(tmp_path: Path) -> None:
    pytest.importorskip("pyspark")
    from distributary.spark.pipeline.commits import BatchRecord
    from distributary.spark.pipeline.config import parse_pipeline
    from distributary.spark.pipeline.progress import Progress
    from distributary.spark.pipeline.status import PipelineStatus, keep_error, serving

    file = 'checkpoint = "c"\nsource = {format = "json", path = "in", schema = "id STRING"}\n'
    file += 'subscriptions = {store = "s"}\nsink = {path = "out"}'
    pipeline = parse_pipeline(file, str(tmp_path / "quotes.toml"))
    start = datetime.now(UTC)
    progress = Progress(start)
    status = PipelineStatus(pipeline, lambda: progress.snapshot(start + timedelta(seconds=2)))

    async def report(address: str) -> WatchedPipeline:
        watched = WatchedPipeline(status_address(address), lambda: 0.0)
        await watched.ask()
        return watched

    with serving(status, "127.0.0.1", 0) as address:
        before = asyncio.run(report(address))
        progress.record(BatchRecord(3, 4, 100, 30, 20, 1, start, start + timedelta(seconds=0.5)))
        keep_error(pipeline.checkpoint, "the disk was full")
        after = asyncio.run(report(address))
    assert texts(before, clock).numbers["batch"] == "-"
    assert batch_rows(before.report) == []
    assert texts(after, clock).numbers | {"events a second": ""} == {
        "batch": "3",
        "events a second": "",
        "matches a second": "15",
        "seconds of the last": "0.50",
        "behind": "0 files",
        "subscriptions": "version 4",
    }
    assert batch_rows(after.report)[0]["deliveries"] == "20"


def test_texts_of_a_pipeline_are_bounded() -> None:
    long = STATUS | {"pipeline": "n" * 500_000, "last_error": {"at": "now", "reason": "r" * 500_000}}
    pipeline = WatchedPipeline("http://127.0.0.1:1/status", lambda: 0.0)
    pipeline.report = read_report(json.dumps(long).encode())
    assert sum(map(len, texts(pipeline, clock).numbers.values())) < 100
    assert len(texts(pipeline, clock).name) + len(texts(pipeline, clock).trouble) < 3_000


def test_an_address_is_one_of_http_without_user() -> None:
    assert status_address("http://host:1/") == "http://host:1/status"
    for wrong in ("ftp://host/status", "http://me:secret@host:1", "file:///etc/passwd", "host:1"):
        with pytest.raises(OutgoingError):
            status_address(wrong)


def test_the_command_refuses_addresses_and_directories_that_are_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for options, told in (
        (["--pipeline", "http://a:1,ftp://b"], "--pipeline: an address begins with http:// or https://"),
        (["--plans", str(tmp_path / "none")], "--plans: there is no directory"),
        (["--no-console", "--plans", str(tmp_path)], "are for the pages: without --no-console"),
    ):
        assert main(["serve", *options]) == 2
        assert told in capsys.readouterr().err
