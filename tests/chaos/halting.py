"""`distributary run` that stands still at one point of a micro-batch, for somebody to kill it there.

    python halting.py "after archive" 7 run pipeline.toml

Commits take milliseconds, so nobody who watches the disk could hit a phase of one. Of outputs that are files,
`in` an output is before its manifest is written, `after` it is after that. Of a sink that is none (`STEPS`),
`in the sink` is when it has all rows of the batch and has not committed them: an open transaction of Kafka's,
files of a table that no version names yet. It says when it stands still.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from distributary.cli.main import main
from distributary.spark import storage
from distributary.spark.pipeline import sink

STEPS = ("begun", "staged", "in the sink", "after the sink", "recorded")
"""Phases of a batch whose sink is no files: `begun` is before its job, `staged` after it."""
HALTED = "standing still"


def manifests(phase: str, batch: int) -> tuple[str, ...]:
    """How the locations end whose writing begins or ends a phase."""
    if phase == "recorded":
        return (f"/batches/{batch}.json",)
    output = phase.partition(" ")[2]
    return (f"/{output}/batch={batch}/_SUCCESS", f"/{output}/_complete/{batch}")


def halt() -> None:
    """Say so, and stand still for ever."""
    print(HALTED, flush=True)
    threading.Event().wait()


def halt_at(phase: str, batch: int) -> None:
    """Have this process stand still when it comes to a phase of a batch."""
    ends, write = manifests(phase, batch), storage.write_atomically

    def halting(location: str, text: str) -> None:
        here = location.endswith(ends)
        if not (here and phase.startswith("in ")):
            write(location, text)
        if here:
            halt()

    storage.write_atomically = halting
    if phase in STEPS and phase != "recorded":
        _halt_at_step(phase, batch)


def _halt_at_step(phase: str, batch: int) -> None:
    begin, commit, deliver = sink.BatchWriter.__call__, sink.BatchWriter._commit, sink.write_deliveries

    def begun(self: sink.BatchWriter, receipts: Any, number: int) -> None:
        if phase == "begun" and number == batch:
            halt()
        begin(self, receipts, number)

    def staged(self: sink.BatchWriter, spark: Any, receipt: Any, number: int, *more: Any) -> None:
        if phase == "staged" and number == batch:
            halt()
        commit(self, spark, receipt, number, *more)

    def delivered(spark: Any, receipt: Any, given: Any, number: int, *more: Any) -> int:
        if phase == "in the sink" and number == batch:
            _halt_in_sink(given.format)
        count = deliver(spark, receipt, given, number, *more)
        if phase == "after the sink" and number == batch:
            halt()
        return count

    sink.BatchWriter.__call__ = begun  # type: ignore[method-assign]
    sink.BatchWriter._commit = staged  # type: ignore[method-assign]
    sink.write_deliveries = delivered


def _halt_in_sink(format: str) -> None:
    """Have the sink stand still before its next commit."""
    if format == "kafka":
        from distributary.kafka_transactions import TransactionalWriter

        TransactionalWriter._try = _then_halt(TransactionalWriter._try)  # type: ignore[method-assign]
    elif format == "delta":
        from distributary.spark.pipeline.tables.table import BatchRows

        fitted = BatchRows.fitted

        def halting(self: BatchRows, table: pa.Schema) -> pa.RecordBatchReader:
            return pa.RecordBatchReader.from_batches(table, _to_the_end(fitted(self, table)))

        BatchRows.fitted = halting  # type: ignore[method-assign]
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        SqlCatalog.commit_table = lambda *given, **named: halt()  # type: ignore[method-assign]


def _then_halt(call: Callable[..., Any]) -> Callable[..., Any]:
    def halting(*given: Any) -> Any:
        call(*given)
        halt()

    return halting


def _to_the_end(rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    yield from rows
    halt()


if __name__ == "__main__":
    halt_at(sys.argv[1], int(sys.argv[2]))
    sys.argv = ["distributary", *sys.argv[3:]]
    sys.exit(main())
