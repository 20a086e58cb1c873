"""What a run tells OpenTelemetry, into exporters in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    InMemoryMetricReader,
    MetricExporter,
    MetricExportResult,
    MetricsData,
)
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from rich.console import Console

from distributary.spark.pipeline import telemetry as module
from distributary.spark.pipeline.commits import BatchRecord, write_record
from distributary.spark.pipeline.config import Pipeline, parse_pipeline
from distributary.spark.pipeline.progress import Progress
from distributary.spark.pipeline.run import BatchWatch
from distributary.spark.pipeline.status import PipelineStatus
from distributary.spark.pipeline.telemetry import OpenTelemetry, telemetry

PIPELINE = """
checkpoint = "checkpoint"
[source]
format = "json"
path = "in"
schema = "id STRING"
[subscriptions]
store = "subscriptions"
[sink]
path = "deliveries"
"""
START = datetime(2026, 11, 18, 12, 0, 0, 250_000, UTC)
RECORDS = [
    BatchRecord(0, 4, 100, 30, 20, 1, START, START + timedelta(seconds=1)),
    BatchRecord(1, None, 50, 10, 5, 0, START, START + timedelta(seconds=3)),
]


class Memory:
    """Providers in memory."""

    def __init__(self) -> None:
        self.spans, self.reader = InMemorySpanExporter(), InMemoryMetricReader()
        self.traces, self.meters = TracerProvider(), MeterProvider([self.reader])
        self.traces.add_span_processor(SimpleSpanProcessor(self.spans))

    def points(self) -> dict[str, Any]:
        """The data point of each metric, by its name."""
        data = self.reader.get_metrics_data()
        assert data is not None
        [[scope]] = [resource.scope_metrics for resource in data.resource_metrics]
        return {metric.name: point for metric in scope.metrics for point in metric.data.data_points}


@pytest.fixture
def memory() -> Iterator[Memory]:
    made = Memory()
    yield made
    made.traces.shutdown()
    made.meters.shutdown()


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The environment, in which nobody asks for anything yet."""
    for name in ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER", module.ENDPOINT, module.PROTOCOL):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return parse_pipeline(PIPELINE, str(tmp_path / "quotes.toml"))


def told(span: ReadableSpan) -> dict[str, Any]:
    return {name.removeprefix("distributary."): value for name, value in (span.attributes or {}).items()}


def test_each_batch_is_a_span_with_its_counts_and_its_time_in_the_histogram(memory: Memory) -> None:
    found = OpenTelemetry("quotes", memory.traces.get_tracer("t"), memory.meters.get_meter("t"))
    for record in RECORDS:
        found.batch(record)
    first, second = memory.spans.get_finished_spans()
    counts = {"events": 100, "matches": 30, "deliveries": 20, "rejected": 1, "derived": 0, "late": 0}
    assert told(first) == {"pipeline": "quotes", "batch": 0, "version": 4, **counts}
    assert "version" not in told(second)
    assert (first.name, first.start_time) == ("distributary.batch", 1_795_003_200_250_000_000)
    assert first.end_time == 1_795_003_201_250_000_000
    seconds = memory.points()["distributary.batch.duration"]
    assert (seconds.count, seconds.sum, seconds.attributes) == (2, 4.0, {"pipeline": "quotes"})


def test_counters_and_gauges_are_those_of_the_status(memory: Memory, pipeline: Pipeline) -> None:
    progress = Progress(START, version=3)
    status = PipelineStatus(pipeline, lambda: progress.snapshot(START + timedelta(seconds=4)))
    OpenTelemetry("quotes", memory.traces.get_tracer("t"), memory.meters.get_meter("t")).observe(status)
    assert "distributary.batch_seconds_last" not in memory.points()
    for record in RECORDS:
        progress.record(record)
    points = memory.points()
    counters, gauges = status.numbers()
    known = {name: value for name, value in (counters | gauges).items() if value is not None}
    assert known.pop("uptime_seconds") >= 0  # that goes on
    assert {name: points[f"distributary.{name}"].value for name in known} == known
    assert set(points) == {f"distributary.{name}" for name in (*known, "uptime_seconds")}
    assert points["distributary.events"].attributes == {"pipeline": "quotes"}


class Numbers(MetricExporter):
    """An exporter that keeps the names of all metrics that it has been given."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def export(
        self, metrics_data: MetricsData, timeout_millis: float = 0, **others: Any
    ) -> MetricExportResult:
        scopes = [scope for resource in metrics_data.resource_metrics for scope in resource.scope_metrics]
        self.names |= {metric.name for scope in scopes for metric in scope.metrics}
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 0) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 0, **others: Any) -> None:
        pass


@dataclass(frozen=True)
class Registered:
    """What a package says that it has."""

    made: object

    def load(self) -> Callable[[], object]:
        return lambda: self.made


def test_exporters_that_the_environment_names_have_everything_at_the_end(
    asked: pytest.MonkeyPatch, memory: Memory
) -> None:
    numbers = Numbers()
    registered = {
        ("opentelemetry_traces_exporter", "mine"): memory.spans,
        ("opentelemetry_metrics_exporter", "otlp_proto_http"): numbers,
    }
    asked.setattr(module, "entry_points", lambda group, name: [Registered(registered[group, name])])
    asked.setenv("OTEL_TRACES_EXPORTER", "mine")
    asked.setenv(module.ENDPOINT, "http://localhost:4318")
    lines: list[str] = []
    with telemetry("quotes", lines.append) as found:
        found.batch(RECORDS[0])
    [span] = memory.spans.get_finished_spans()
    assert (span.name, span.resource.attributes["service.name"]) == ("distributary.batch", "distributary")
    assert numbers.names == {"distributary.batch.duration"}
    assert lines == []


def test_what_is_missing_is_told_and_the_run_goes_on(asked: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    asked.setenv("OTEL_METRICS_EXPORTER", "none")
    with telemetry("quotes", lines.append) as found:
        found.batch(RECORDS[0])
    assert lines == []
    asked.setenv("OTEL_TRACES_EXPORTER", "nobody's")
    with telemetry("quotes", lines.append) as found:
        found.batch(RECORDS[0])
    assert lines.pop().startswith("OpenTelemetry is asked for and is not told: no package has the exporter")
    asked.setitem(sys.modules, "opentelemetry", None)
    with telemetry("quotes", lines.append) as found:
        found.batch(RECORDS[0])
    assert lines == [
        "OpenTelemetry is asked for and is not told: it is not installed: pip install 'distributary[otel]'"
    ]
    asked.delenv("OTEL_TRACES_EXPORTER")
    with telemetry("quotes", lines.append) as found:
        found.batch(RECORDS[0])
    assert len(lines) == 1


def test_whoever_follows_the_batches_of_a_run_tells_of_each_once(pipeline: Pipeline) -> None:
    pipeline.store.create()
    told_of: list[BatchRecord] = []
    watch = BatchWatch(pipeline, Console(file=StringIO()), "quotes", told_of.append)
    for upto in (1, 2, 2):
        for record in RECORDS[:upto]:
            write_record(pipeline.commits, record)
        watch.look(None)
    assert told_of == RECORDS
