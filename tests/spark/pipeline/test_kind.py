"""A pipeline that cannot run says why, in a line, and before it starts what can be seen before."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from io import StringIO
from pathlib import Path

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from pyspark.sql import SparkSession
from rich.console import Console

from distributary.cli.main import main
from distributary.errors import DistributaryError
from distributary.filters import kinds
from distributary.model import Subscription
from distributary.spark.pipeline import run, telemetry
from distributary.spark.pipeline.config import load_pipeline
from distributary.spark.pipeline.failures import failure, reason_of
from distributary.spark.pipeline.run import run_pipeline
from distributary.store import open_store
from spark.pipeline.test_telemetry import Registered
from spark.test_workers import PREFIX_FILTER

PIPELINE = """
checkpoint = "checkpoint"
{top}
[source]
format = "{format}"
path = "in"
schema = "{schema}"
options = {{ {options} }}
[subscriptions]
store = "subscriptions"
[sink]
{sink}
[trigger]
available_now = true
[spark.conf]
{conf}
"""
RIGHT = {
    "top": "",
    "format": "json",
    "schema": "id STRING, topic STRING, price DOUBLE",
    "options": "",
    "sink": 'path = "deliveries"',
    "conf": "",
}


def written(place: Path, **changed: str) -> str:
    """The name of a pipeline's file, of which some parts are others than usual."""
    (place / "in").mkdir(exist_ok=True)
    (place / "pipeline.toml").write_text(PIPELINE.format(**{**RIGHT, **changed}))
    return str(place / "pipeline.toml")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"format": "jsno"}, '[source] format: is "jsno"; did you mean json?'),
        (
            {"schema": "id STRING, price DOUBEL"},
            "[source] schema: has no such type: 'doubel'; did you mean double?",
        ),
        ({"schema": "id STRING, tags ARRAY<STRING"}, "[source] schema: cannot be read: '>' is needed here"),
        (
            {"options": "maxFilePerTrigger = 1"},
            '[source] options.maxFilePerTrigger: is no option of "json"; did you mean maxFilesPerTrigger?',
        ),
        (
            {"options": 'maxFilesPerTrigger = "many"'},
            '[source] options.maxFilesPerTrigger: is "many"; it must be a whole number above 0',
        ),
        ({"options": 'multiLine = "yes"'}, '[source] options.multiLine: is "yes"; it must be true or false'),
        ({"sink": 'format = "parqet"\npath = "out"'}, '[sink] format: is "parqet"; did you mean parquet?'),
        (
            {"conf": 'spark.driver.memory = "2"'},
            '[spark] conf.spark.driver.memory: is "2"; it must be a size with its unit, such as "2g"',
        ),
        ({"top": 'filters = ["no_such_filters"]'}, 'filters: "no_such_filters" cannot be loaded'),
    ],
)
def test_check_tells_of_formats_schemas_options_sizes_and_modules(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], changed: dict[str, str], told: str
) -> None:
    assert main(["run", written(tmp_path, **changed), "--check"]) == 1
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"options": 'maxFilesPerTrigger = 1, multiline = true, anything = "x"'},
        {"schema": "id STRING COLLATE UNICODE_CI, at TIMESTAMP_NTZ, d DECIMAL(10, 2) NOT NULL COMMENT 'x'"},
        {"format": "com.example.Source"},
        {"format": "pulsar"},
        {"conf": 'spark.driver.memory = "2g"\nspark.executor.memory = "512M"'},
    ],
)
def test_check_lets_pass_what_may_be_right(tmp_path: Path, changed: dict[str, str]) -> None:
    assert main(["run", written(tmp_path, **changed), "--check"]) == 0


@pytest.mark.parametrize("arguments", [["--check"], []])
def test_a_sink_that_cannot_be_written_says_which_directory_and_why_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    (tmp_path / "taken").write_text("a file")
    file = written(tmp_path, sink='path = "taken/deliveries"')
    assert main(["run", file, *arguments]) == 1
    told = capsys.readouterr().err
    assert f"[sink] path: cannot write to {tmp_path}/taken/deliveries: {tmp_path}/taken is a file" in told


def test_a_place_without_the_right_to_write_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    assert main(["run", written(tmp_path), "--check"]) == 1
    assert f"{tmp_path} may not be written by user {os.getuid()}" in capsys.readouterr().err


def test_a_sink_that_fails_later_is_told_by_its_cause() -> None:
    text = """[FOREACH_BATCH_USER_FUNCTION_ERROR] it failed
Traceback (most recent call last):
  File "sink.py", line 1, in save
    writer.save(path)
py4j.protocol.Py4JJavaError: An error occurred while calling o212.save.
: org.apache.spark.SparkException: Job aborted.
\tat org.apache.spark.sql.Something.run(Something.scala:1)
Caused by: java.io.IOException: Mkdirs failed to create file:/data/out/batch=0
\tat org.apache.hadoop.fs.Checksum.create(Checksum.java:1)
"""
    assert reason_of(text) == "IOException: Mkdirs failed to create file:/data/out/batch=0"


def test_a_java_that_does_not_start_is_told_by_what_it_said(tmp_path: Path) -> None:
    log = tmp_path / "pipeline.log"
    log.write_text("Error: of an earlier run\n")
    before = log.stat().st_size
    log.write_text(log.read_text() + "Error occurred during initialization of VM\nToo small maximum heap\n")
    told = str(failure(RuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited."), log, since=before))
    assert "did not start: Error occurred during initialization of VM; Too small maximum heap" in told
    assert "earlier run" not in told


def test_a_format_that_spark_does_not_have_is_told_with_its_package_at_the_start(
    tmp_path: Path, session_of_commands: None, spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path, sink='format = "avro"\npath = "table"')
    assert main(["run", file]) == 1
    told = capfd.readouterr().err
    assert '[sink] format: Spark has no format "avro": add its package' in told
    assert "org.apache.spark:spark-avro_2.13" in told


@pytest.fixture
def forgotten_kinds() -> Iterator[None]:
    yield
    kinds._added.pop("prefix", None)
    sys.modules.pop("beside_the_file", None)


def test_filter_kinds_are_named_once_in_the_file_and_the_start_is_told_step_by_step(
    tmp_path: Path,
    session_of_commands: None,
    spark: SparkSession,
    forgotten_kinds: None,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    spans = InMemorySpanExporter()
    monkeypatch.setattr(telemetry, "entry_points", lambda group, name: [Registered(spans)])
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "mine")
    (tmp_path / "beside_the_file.py").write_text(PREFIX_FILTER)
    file = written(tmp_path, top='filters = ["beside_the_file"]')
    load_pipeline(file)
    open_store(tmp_path / "subscriptions").commit([Subscription("s1", "ann", more={"prefix": "quo"})])
    (tmp_path / "in" / "one.json").write_text(
        '{"id": "e1", "topic": "quotes"}\n{"id": "e2", "topic": "news"}\n'
    )
    assert main(["run", file]) == 0
    out = capfd.readouterr().out
    steps = ["starting Spark", "is there; preparing the index", "started; the first batch", "2 events"]
    places = [out.index(step) for step in steps]
    assert places == sorted(places)
    assert ", 1 matches, 1 deliveries" in out
    [span] = spans.get_finished_spans()
    assert span.attributes is not None
    assert (span.attributes["distributary.events"], span.attributes["distributary.matches"]) == (2, 1)


def test_a_signal_before_the_first_batch_ends_the_run_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*given: object, **named: object) -> None:
        signal.raise_signal(signal.SIGINT)
        pytest.fail("it went on")

    monkeypatch.setattr(run, "open_session", slow)
    shown = StringIO()
    pipeline = load_pipeline(written(tmp_path))
    ended = run_pipeline(pipeline, Console(file=shown), tmp_path / "log")
    assert (ended.batches, ended.events) == (0, 0)
    assert shown.getvalue().splitlines()[-1] == "stopped before the first batch"


def test_a_pipeline_that_is_refused_leaves_why_for_the_next_status(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*given: object, **named: object) -> None:
        raise DistributaryError("the source is gone")

    monkeypatch.setattr(run, "open_session", refuse)
    with pytest.raises(DistributaryError):
        run_pipeline(load_pipeline(written(tmp_path)), Console(file=StringIO()), tmp_path / "log")
    assert "the source is gone" in (tmp_path / "checkpoint" / "last_error.json").read_text()
