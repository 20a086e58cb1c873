"""What a running pipeline tells over HTTP, on loopback: `/status` in JSON and `/metrics` for Prometheus.

    [status]
    port = 9464

The numbers are those of `progress`, which come from the records of finished batches. How many files a source
of files has that no batch has taken is counted when somebody asks, at most every few seconds: the files that
are there less those in the source's log in the checkpoint.

The last failure of a run is kept in the checkpoint, so that the status of the next run tells it.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from distributary import __version__
from distributary.errors import DistributaryError
from distributary.metrics_text import CONTENT_TYPE, metrics_text
from distributary.spark import storage
from distributary.spark.pipeline.commits import BatchRecord
from distributary.spark.pipeline.config import FILE_FORMATS, Pipeline
from distributary.spark.pipeline.progress import COUNTED, Snapshot, utc_now

COUNT_EVERY = 5.0
"""Seconds for which a count of files stands."""
LOG_HEAD = "v1"
"""The first line of a file in the log of a source of files."""
GAUGES = ("events_per_second", "matches_per_second", "uptime_seconds", "batch", "subscriptions_version")


class FileLag:
    """How many files of a source no batch has taken yet."""

    def __init__(self, source: str, log: str) -> None:
        self._source, self._log = source, log
        self._taken: set[str] = set()
        self._read_upto = -1
        self._counted_at = -COUNT_EVERY
        self._count: int | None = None
        self._lock = threading.Lock()

    def count(self) -> int | None:
        """The number of files, which may be some seconds old; None if they cannot be listed."""
        with self._lock:
            now = time.monotonic()
            if now - self._counted_at >= COUNT_EVERY:
                self._counted_at, self._count = now, self._counted()
            return self._count

    def _counted(self) -> int | None:
        try:
            self._read_log()
            return sum(path not in self._taken for path in storage.visible_files(self._source))
        except (OSError, DistributaryError):
            return None

    def _read_log(self) -> None:
        """Take in what batches have taken since the last look; a compacted file holds all before it."""
        whole = max(storage.numbered_files(self._log, ".compact"), default=-1)
        plain = [
            number for number in storage.numbered_files(self._log) if number > max(whole, self._read_upto)
        ]
        names = [f"{whole}.compact"] if whole > self._read_upto else []
        for name in [*names, *map(str, sorted(plain))]:
            with suppress(FileNotFoundError):  # compacted meanwhile; the next look finds it
                head, *lines = storage.read_text(f"{self._log}/{name}").splitlines()
                if head == LOG_HEAD:
                    self._taken |= {_plain_path(json.loads(line)["path"]) for line in lines}
        self._read_upto = max([whole, self._read_upto, *plain])


def _plain_path(location: str) -> str:
    """The path of a location on its file system, as it is listed there."""
    parts = urlsplit(location)
    host = "" if parts.scheme in ("", "file", "hdfs") else parts.netloc
    return str(PurePosixPath(host + unquote(parts.path)))


class PipelineStatus:
    """Answers for one run: what it is doing, its numbers, and the last error."""

    def __init__(self, pipeline: Pipeline, look: Callable[[], Snapshot]) -> None:
        self.state = "starting"
        """What it is doing: starting, running, stopping, ended or failed."""
        self._pipeline = pipeline
        self._look = look
        self._started = utc_now()
        self._error = read_error(pipeline.checkpoint)
        of_files = pipeline.source.format in FILE_FORMATS and pipeline.source.path is not None
        log = f"{pipeline.checkpoint}/sources/0"
        self._files = FileLag(str(pipeline.source.path), log) if of_files else None

    def to_record(self) -> dict[str, Any]:
        """All of it, as JSON has it."""
        now = self._look()
        files = None if self._files is None else self._files.count()
        return {
            "pipeline": self._pipeline.name,
            "state": self.state,
            "release": __version__,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "started": self._started.isoformat(timespec="seconds"),
            "uptime_seconds": round((utc_now() - self._started).total_seconds(), 1),
            "batch": now.batch,
            "batches": now.batches,
            **{name: getattr(now, name) for name in COUNTED},
            "events_per_second": round(now.events_per_second, 3),
            "matches_per_second": round(now.matches_per_second, 3),
            "batch_seconds": {"last": now.last_seconds, "mean": now.mean_seconds, "most": now.most_seconds},
            "lag": {"files": files, "offsets": now.offsets_behind, "seconds": now.seconds_behind},
            "subscriptions_version": now.version,
            "latest_batches": [_batch(record) for record in now.latest],
            "last_error": self._error,
        }

    def numbers(self) -> tuple[dict[str, float], dict[str, float | None]]:
        """Its counters, and its gauges, of which those that are not known are None."""
        record = self.to_record()
        gauges = {name: record[name] for name in GAUGES}
        gauges |= {f"lag_{name}": value for name, value in record["lag"].items()}
        gauges |= {f"batch_seconds_{name}": value for name, value in record["batch_seconds"].items()}
        gauges["running"] = int(self.state == "running")
        return {name: record[name] for name in ("batches", *COUNTED)}, gauges

    def to_metrics(self) -> str:
        """The numbers as Prometheus reads them; what is not known is left out."""
        counters, gauges = self.numbers()
        known = {name: value for name, value in gauges.items() if value is not None}
        return metrics_text(counters, known, {"pipeline": self._pipeline.name})


def _batch(record: BatchRecord) -> dict[str, Any]:
    """A finished batch, as the status tells it."""
    return {
        "batch": record.batch,
        "finished": record.finished.isoformat(timespec="milliseconds"),
        "seconds": round(record.seconds, 3),
        **{name: getattr(record, name) for name in COUNTED},
    }


@contextmanager
def serving(status: PipelineStatus, host: str, port: int) -> Iterator[str]:
    """Answer as long as the context lasts; gives the address. An error when the port is taken."""

    class Handler(BaseHTTPRequestHandler):
        timeout = 5.0

        def do_GET(self) -> None:
            match self.path:
                case "/status":
                    self._page(json.dumps(status.to_record(), indent=1) + "\n", "application/json")
                case "/metrics":
                    self._page(status.to_metrics(), CONTENT_TYPE)
                case _:
                    self.send_error(404, "there are /status and /metrics")

        def _page(self, text: str, kind: str) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: who asks is no news."""

    try:
        server = ThreadingHTTPServer((host, port), Handler)
    except OSError as error:
        raise DistributaryError(
            f"[status] port: cannot listen at {host}:{port}: {error.strerror or error}; choose another"
        ) from None
    server.daemon_threads = True
    answering = threading.Thread(target=server.serve_forever, name="status", daemon=True)
    answering.start()
    try:
        yield f"http://{host}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        answering.join()


def keep_error(checkpoint: str, reason: str) -> None:
    """Note in the checkpoint why a run has failed, for the status of the next."""
    with suppress(OSError, DistributaryError):
        noted = {"at": utc_now().isoformat(timespec="seconds"), "reason": reason}
        storage.write_atomically(f"{checkpoint}/last_error.json", json.dumps(noted))


def read_error(checkpoint: str) -> dict[str, str] | None:
    """When and why a run has last failed; None if none has."""
    try:
        noted: dict[str, str] = json.loads(storage.read_text(f"{checkpoint}/last_error.json"))
    except (OSError, ValueError, DistributaryError):
        return None
    return noted
