"""What a run tells OpenTelemetry: a span for each batch, how long batches take, the numbers of its status.

    OTEL_TRACES_EXPORTER=otlp OTEL_METRICS_EXPORTER=otlp distributary run pipeline.toml

Rules: without `opentelemetry`, or where nobody asks for it, nothing is told. Who asks is whoever has set the
process's providers (as `opentelemetry-instrument` does), or OpenTelemetry's own environment variables: then
providers are made for the run, which have `PATIENCE` to send the rest at its end. What is wrong with any of
this is told in a line, and stops no pipeline.

Names: the span `distributary.batch`, the histogram `distributary.batch.duration`, and `distributary.` before
the counters and gauges of `status`.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from distributary import __version__
from distributary.spark.pipeline.commits import BatchRecord
from distributary.spark.pipeline.progress import COUNTED
from distributary.spark.pipeline.status import PipelineStatus

if TYPE_CHECKING:
    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation
    from opentelemetry.trace import Tracer, TracerProvider

SIGNALS = ("traces", "metrics")
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
PROTOCOL = "OTEL_EXPORTER_OTLP_PROTOCOL"
PATIENCE = 5.0
"""Seconds that exporters have at the end of a run, together: a collector may be gone."""
INSTALL = "pip install 'distributary[otel]'"


class Telemetry:
    """Whom a run tells what it does; this one is nobody."""

    def batch(self, record: BatchRecord) -> None:
        """Tell of a finished batch."""

    def observe(self, status: PipelineStatus) -> None:
        """Have the numbers of the run looked at from now on."""


class OpenTelemetry(Telemetry):
    """Tells a tracer and a meter."""

    def __init__(self, pipeline: str, tracer: Tracer, meter: Meter) -> None:
        self._name = {"pipeline": pipeline}
        self._tracer, self._meter = tracer, meter
        self._seconds = meter.create_histogram(
            "distributary.batch.duration", unit="s", description="how long a micro-batch took"
        )

    def batch(self, record: BatchRecord) -> None:
        attributes: dict[str, Any] = {"pipeline": self._name["pipeline"], "batch": record.batch}
        attributes |= {name: getattr(record, name) for name in COUNTED}
        if record.version is not None:
            attributes["version"] = record.version
        told = {f"distributary.{name}": value for name, value in attributes.items()}
        span = self._tracer.start_span(
            "distributary.batch", attributes=told, start_time=_nanoseconds(record.started)
        )
        span.end(_nanoseconds(record.finished))
        self._seconds.record(record.seconds, self._name)

    def observe(self, status: PipelineStatus) -> None:
        counters, gauges = status.numbers()
        for name in counters:
            look = self._observed(lambda: status.numbers()[0], name)
            self._meter.create_observable_counter(f"distributary.{name}", [look])
        for name in gauges:
            look = self._observed(lambda: status.numbers()[1], name)
            self._meter.create_observable_gauge(f"distributary.{name}", [look])

    def _observed(
        self, numbers: Callable[[], Mapping[str, float | None]], name: str
    ) -> Callable[[CallbackOptions], Iterable[Observation]]:
        from opentelemetry.metrics import Observation

        def look(options: CallbackOptions) -> Iterable[Observation]:
            value = numbers()[name]
            return [] if value is None else [Observation(value, self._name)]

        return look


@contextmanager
def telemetry(pipeline: str, tell: Callable[[str], object]) -> Iterator[Telemetry]:
    """Whom a run of a pipeline tells, for as long as the context lasts; `tell` is told what is missing."""
    with ExitStack() as at_end:
        try:
            found = _asked_for(pipeline, at_end)
        except Exception as problem:  # exporters are others', and so is what they raise at their settings
            tell(f"OpenTelemetry is asked for and is not told: {problem}")
            found = Telemetry()
        yield found


def _asked_for(pipeline: str, at_end: ExitStack) -> Telemetry:
    exporters = {signal: _exporters(signal) for signal in SIGNALS}
    try:
        from opentelemetry import metrics, trace
    except ModuleNotFoundError:
        if any(exporters.values()):
            raise ModuleNotFoundError(f"it is not installed: {INSTALL}") from None
        return Telemetry()
    traces, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    if any(exporters.values()) and isinstance(traces, trace.ProxyTracerProvider):
        traces, meters = _providers(exporters, at_end)
    tracer = traces.get_tracer("distributary", __version__)
    return OpenTelemetry(pipeline, tracer, meters.get_meter("distributary", __version__))


def _exporters(signal: str) -> list[str]:
    """The names of the exporters that the environment asks for."""
    default = "otlp" if os.environ.get(ENDPOINT) else "none"
    names = os.environ.get(f"OTEL_{signal.upper()}_EXPORTER") or default
    return [name.strip() for name in names.split(",") if name.strip() != "none"]


def _providers(exporters: dict[str, list[str]], at_end: ExitStack) -> tuple[TracerProvider, MeterProvider]:
    """Providers with these exporters, which are shut down at the end."""
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    spans, numbers = ([_exporter(signal, name) for name in exporters[signal]] for signal in SIGNALS)
    readers = [
        each if isinstance(each, MetricReader) else PeriodicExportingMetricReader(each) for each in numbers
    ]
    resource = Resource({"service.name": "distributary"})
    if "service.name" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "") or "OTEL_SERVICE_NAME" in os.environ:
        resource = Resource.get_empty()
    resource = Resource.create().merge(resource)
    traces = TracerProvider(resource=resource)
    for exporter in spans:
        traces.add_span_processor(BatchSpanProcessor(exporter))
    meters = MeterProvider(readers, resource)
    at_end.callback(_shut_down, traces.shutdown, meters.shutdown)
    return traces, meters


def _exporter(signal: str, name: str) -> Any:
    """The exporter of a name, as packages register it; LookupError when none does."""
    if name == "otlp":
        name = "otlp_proto_grpc" if os.environ.get(PROTOCOL) == "grpc" else "otlp_proto_http"
    for found in entry_points(group=f"opentelemetry_{signal}_exporter", name=name):
        return found.load()()
    raise LookupError(f"no package has the exporter {name} for {signal}: {INSTALL}")


def _shut_down(*shutdowns: Callable[[], object]) -> None:
    """Have exporters send what they have left, for a while."""
    threads = [threading.Thread(target=shutdown, daemon=True) for shutdown in shutdowns]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))


def _nanoseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1e6) * 1_000
