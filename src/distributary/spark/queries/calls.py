"""The operations of queries that run in Python workers: functions of the user's, and windows by count.

They get items as rows of Arrow and give packed rows (see `packed`). A call that fails gives a row that is
tagged with `failed(task)` in place of the task and has the reason as its only text.

In a stream, windows by count need the items of a group in stream order, however late they come. So items
wait, in Spark's state store, until the watermark has passed them; then they are taken in order. What waits
is kept by buckets of groups, because Spark charges by key, as one blob each.
"""

from __future__ import annotations

import pickle
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from distributary import flow
from distributary.flow.language.function import CallError, Function, call_item, call_window
from distributary.flow.language.identifiers import group_of, ordinal_id, window_id
from distributary.spark.queries.packed import ARRAY_OF, ARRAYS, PACKED_SCHEMA, failed, places, without_time
from distributary.spark.rows import Batches
from distributary.spark.tolerances import from_bytes, to_bytes

BUCKETS = 16
"""Keys of the state operator."""
BUCKET_SCHEMA = pa.schema([("bucket", pa.int32()), ("closes", pa.int64()), ("payload", pa.binary())])


@dataclass(frozen=True)
class PythonCall:
    """A task that runs in Python: the operation, and the schemas of what it gets and gives."""

    number: int
    operation: flow.Operation
    given: flow.Schema
    gives: flow.Schema

    def item(self, packed: Mapping[str, Any]) -> flow.Item:
        """An item as it was handed over."""
        found = places(list(self.given.attributes), self.given)
        attributes = {name: packed[array][place] for name, (array, place) in found.items()}
        return flow.Item(packed["id"], packed["time"], attributes, packed["rank"])

    def row(self, item: flow.Item, closes: int) -> dict[str, Any]:
        """A result as a packed row."""
        arrays: dict[str, list[Any]] = {array: [] for array in ARRAYS}
        for name in without_time(self.gives):
            arrays[ARRAY_OF[self.gives.attributes[name]]].append(item.attributes[name])
        known = {"task": self.number, "closes": closes, "time": item.time, "rank": item.rank, "id": item.id}
        return {**known, **arrays}

    def failure(self, id: str, time: int, closes: int, error: CallError) -> dict[str, Any]:
        """The packed row for an item or a window with which the call failed."""
        known = {"task": failed(self.number), "closes": closes, "time": time, "rank": 0, "id": id}
        return {**known, "texts": [str(error)], "integers": [], "numbers": [], "booleans": []}


@dataclass(frozen=True)
class CallTask:
    """Calls what is to be called with the items of a row; other rows stay as they are."""

    calls: Mapping[int, PythonCall]

    def run(self, batches: Batches) -> Batches:
        """Packed rows, from packed rows with a column `items` that is null where nothing is to be called."""
        for batch in batches:
            table = pa.Table.from_batches([batch])
            whole = table.filter(pc.is_null(table["items"])).select(PACKED_SCHEMA.names)
            yield from whole.cast(PACKED_SCHEMA).to_batches()
            asked = table.filter(pc.is_valid(table["items"])).select(["task", "closes", "time", "items"])
            results = [result for row in asked.to_pylist() for result in self._called(row)]
            yield from pa.Table.from_pylist(results, PACKED_SCHEMA).to_batches()

    def _called(self, row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        call = self.calls[row["task"]]
        items = [call.item(packed) for packed in row["items"]]
        operation = call.operation
        if isinstance(operation, flow.Aggregate):
            found, _ = count_windows(operation, call.given, CountWindowState(), items)
            yield from (call.row(item, row["closes"]) for item in found)
            return
        assert isinstance(operation, Function)
        try:
            if operation.span is None:
                of = items[0].id
                results = call_item(operation, call.gives, items[0])
            else:
                start = row["time"] - operation.span.size + 1
                group = group_of(items[0].attributes, operation.by)
                of = window_id(start, group)
                results = call_window(operation, call.gives, start, group, items)
        except CallError as error:
            yield call.failure(of, row["time"], row["closes"], error)
            return
        yield from (call.row(item, row["closes"]) for item in results)


@dataclass(frozen=True)
class CountWindowState:
    """How far the windows of a group have come: the next one, and its items so far."""

    ordinal: int = 0
    items: tuple[flow.Item, ...] = ()


def count_windows(
    aggregate: flow.Aggregate, schema: flow.Schema, before: CountWindowState, items: Iterable[flow.Item]
) -> tuple[list[flow.Item], CountWindowState]:
    """The results of the windows that become full with further items, which come in stream order."""
    window = aggregate.span
    assert isinstance(window, flow.CountWindow)
    accumulators = aggregate.accumulators(schema)
    time_name = aggregate.schema(schema).time
    ordinal, inside = before.ordinal, list(before.items)
    results = []
    for item in items:
        inside.append(item)
        if len(inside) < window.size:
            continue
        group = group_of(item.attributes, aggregate.group_by)
        values = dict(zip(aggregate.group_by, group, strict=True))
        for name, each in accumulators.items():
            so_far = each.start
            for member in inside:
                so_far = each.add(so_far, member.attributes)
            values[name] = each.finish(so_far)
        results.append(flow.Item(ordinal_id(ordinal, group), item.time, {**values, time_name: item.time}))
        ordinal += 1
        del inside[: window.slide]
    return results, CountWindowState(ordinal, tuple(inside))


# Windows by count in a stream


def pack_by_group(batches: Batches) -> Batches:
    """Rows as one row of bytes for each bucket of groups."""
    for batch in batches:
        table = pa.Table.from_batches([batch])
        keys = zip(table["task"].to_pylist(), table["key"].to_pylist(), strict=True)
        buckets = np.array([zlib.crc32(f"{task} {key}".encode()) % BUCKETS for task, key in keys], np.int32)
        rows = []
        for bucket in np.unique(buckets).tolist():
            part = table.filter(pa.array(buckets == bucket))
            # Spark drops what is older than the watermark; one row that is not keeps the others.
            closes = pc.max(part["closes"]).as_py()
            rows.append({"bucket": bucket, "closes": closes, "payload": to_bytes(part)})
        yield pa.RecordBatch.from_pylist(rows, BUCKET_SCHEMA)


PendingItems = list[tuple[int, flow.Item]]
"""Items that wait, each with the moment of event time at which its place is certain."""


@dataclass
class WaitingItems:
    """What a bucket keeps: where each group stands, what waits, and the watermark that was reached."""

    reached: int = -(2**62)
    groups: dict[tuple[int, str], tuple[CountWindowState, PendingItems]] = field(default_factory=dict)


class _StateUnpickler(pickle.Unpickler):
    """Reads what a bucket keeps, also as earlier releases wrote it, under other names."""

    def find_class(self, module: str, name: str) -> Any:
        known = {"Waiting": WaitingItems, "Counted": CountWindowState, "Item": flow.Item}
        return known[name] if name in known else super().find_class(module, name)


class CountingState(StatefulProcessor):
    """Takes the items of each group in stream order when the watermark has passed them."""

    def __init__(self, calls: Mapping[int, PythonCall]) -> None:
        self._calls = dict(calls)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Open the state; Spark calls this once for each partition and micro-batch."""
        self._handle = handle
        self._waiting = handle.getValueState("waiting", "blob binary")

    def handleInputRows(self, key: Any, rows: Iterator[Row], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Take in the rows of a bucket, and give out what the watermark has passed."""
        waiting = self._restored()
        for row in rows:
            table = from_bytes(row.payload)
            own = table.filter(table["own"])
            yield from _given_out(_passed_on(table.filter(pc.invert(table["own"]))))
            for given in own.to_pylist():
                if given["closes"] > waiting.reached:
                    group = waiting.groups.setdefault((given["task"], given["key"]), (CountWindowState(), []))
                    group[1].append((given["closes"], self._calls[given["task"]].item(given["item"])))
        yield from self._advanced(waiting, timerValues)

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802, N803
        """Give out what the watermark has passed, though no new row has come."""
        yield from self._advanced(self._restored(), timerValues)

    def close(self) -> None:
        """Nothing to close; Spark requires the method."""

    def _restored(self) -> WaitingItems:
        found = self._waiting.get()
        return WaitingItems() if found is None else _StateUnpickler(BytesIO(bytes(found[0]))).load()

    def _advanced(self, waiting: WaitingItems, timers: Any) -> Iterator[Row]:
        """Take what the watermark has passed; keep the rest, and come back when the next of it is due."""
        waiting.reached = max(waiting.reached, timers.getCurrentWatermarkInMs())
        results = []
        for key, (counted, pending) in waiting.groups.items():
            due = [each for each in pending if each[0] <= waiting.reached]
            if not due:
                continue
            call = self._calls[key[0]]
            assert isinstance(call.operation, flow.Aggregate)
            closes = {item.id: moment for moment, item in due}
            ordered = sorted((item for _, item in due), key=lambda item: item.order)
            rest = [each for each in pending if each[0] > waiting.reached]
            for item in ordered:
                found, counted = count_windows(call.operation, call.given, counted, [item])
                results += [call.row(result, closes[item.id]) for result in found]
            waiting.groups[key] = counted, rest
        self._waiting.update((pickle.dumps(waiting),))
        pending_moments = [moment for _, pending in waiting.groups.values() for moment, _ in pending]
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        if pending_moments:
            self._handle.registerTimer(min(pending_moments))
        yield from _given_out(pa.Table.from_pylist(results, PACKED_SCHEMA))


def _passed_on(table: pa.Table) -> pa.Table:
    """Results of earlier tasks as packed rows."""
    rows = [{**row["item"], "task": row["task"], "closes": row["closes"]} for row in table.to_pylist()]
    return pa.Table.from_pylist(rows, PACKED_SCHEMA)


def _given_out(table: pa.Table) -> Iterator[Row]:
    if table.num_rows:
        first = pc.min(table["closes"]).as_py()
        yield Row(moment=datetime.fromtimestamp(first / 1000, UTC), payload=to_bytes(table))
