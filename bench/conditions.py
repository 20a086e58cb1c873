"""Range conditions: four of ten attributes bounded by each subscription, events matched in a batch."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bench.alone import index_and_matcher
from bench.report import Result, best_of
from distributary.filters.where.filter import WhereFilter
from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matcher
from distributary.matching.where.bitsets import WhereBitsets
from distributary.matching.where.counting import WhereCounting
from distributary.workloads import ranges

SEED = 1
CHECKED = 20
EVENTS = 10_000


def run(quick: bool) -> list[Result]:
    results = _compared(5_000 if quick else 100_000, 2_000 if quick else 20_000)
    if not quick:
        results += _large(1_000_000, 8_000)
    return results


def _compared(count: int, rows: int) -> list[Result]:
    workload = f"{count:,} conditions, 4 of 10 attributes, width 0.2"
    brute = _brute(count)
    index = WhereBitsets()
    build = _fill(index, count)
    seconds, per_event, checked = _timed(index, brute, rows)
    counting = WhereCounting()
    _fill(counting, count)
    few = max(CHECKED, rows // 100)
    counting_seconds, _, counting_checked = _timed(counting, brute, few)
    values = _values(few)
    brute_seconds, _ = best_of(2, lambda: [brute(row) for row in values])
    return [
        Result(workload, "bitsets", "time an event", 1e6 * seconds / rows, "µs", checked, "<= 30 µs"),
        Result(workload, "counting", "time an event", 1e6 * counting_seconds / few, "µs", counting_checked),
        Result(
            workload, "NumPy, one by one", "time an event", 1e6 * brute_seconds / few, "µs", "is the check"
        ),
        Result(workload, "bitsets", "matches an event", per_event, "subscriptions", checked),
        *_size(workload, index, count, build, checked),
        *_by_size(workload, index, count, checked),
    ]


def _by_size(workload: str, index: WhereBitsets, count: int, checked: str) -> list[Result]:
    """The index and a matcher, one event at a time and in batches."""
    matcher = Matcher(ranges.subscriptions(count, seed=SEED))
    events, table = list(ranges.events(EVENTS, seed=SEED)), ranges.table(EVENTS, seed=SEED)
    return index_and_matcher(workload, index, matcher, events, table, checked)


def _large(count: int, rows: int) -> list[Result]:
    workload = f"{count:,} conditions, 4 of 10 attributes, width 0.2"
    index = WhereBitsets()
    build = _fill(index, count)
    seconds, per_event, checked = _timed(index, _brute(count), rows)
    return [
        Result(workload, "bitsets", "time an event", 1e6 * seconds / rows, "µs", checked),
        Result(workload, "bitsets", "matches an event", per_event, "subscriptions", checked),
        *_size(workload, index, count, build, checked),
    ]


def _fill(index: WhereBitsets | WhereCounting, count: int) -> float:
    """Hold the conditions; how long it took to add and compile them, once they had been read."""
    texts = (subscription.where for subscription in ranges.subscriptions(count, seed=SEED))
    filters = list(map(WhereFilter.parse, texts))
    batch = EventBatch.from_table(ranges.table(1, seed=SEED))

    def fill() -> None:
        index.add_many(range(count), filters)
        index.match_batch(batch)

    return best_of(1, fill)[0]


def _timed(
    index: WhereBitsets | WhereCounting, brute: Callable[[NDArray[np.float64]], NDArray[np.int64]], rows: int
) -> tuple[float, float, str]:
    """The best time for all rows, matches an event, and against what the answers were checked."""
    table = ranges.table(rows, seed=SEED)
    found_rows, slots = index.match_batch(EventBatch.from_table(table))
    for row, values in enumerate(_values(rows)[:CHECKED]):
        if np.sort(slots[found_rows == row]).tolist() != brute(values).tolist():
            raise AssertionError(f"{index.name} answers event {row} wrongly")
    seconds, pairs = best_of(3, lambda: index.match_batch(EventBatch.from_table(table)))
    return seconds, len(pairs.rows) / rows, f"NumPy on {CHECKED} events"


def _values(rows: int) -> NDArray[np.float64]:
    table = ranges.table(rows, seed=SEED)
    return np.stack([table[f"a{number}"].to_numpy() for number in range(ranges.ATTRIBUTES)], axis=1)


def _brute(count: int) -> Callable[[NDArray[np.float64]], NDArray[np.int64]]:
    chosen, low, high = (
        np.concatenate(parts) for parts in zip(*ranges.bounds(count, seed=SEED), strict=True)
    )

    def wanted(values: NDArray[np.float64]) -> NDArray[np.int64]:
        held = values[chosen]
        return np.flatnonzero(((low <= held) & (held <= high)).all(axis=1))

    return wanted


def _size(workload: str, index: WhereBitsets, count: int, build: float, checked: str) -> list[Result]:
    """Bytes a condition, with and without the canonical texts, and the time to compile them all."""
    texts = sum(array.nbytes for _, segment in index.segments() for array in segment.texts.values())
    return [
        Result(workload, "bitsets", "compiled size", (index.memory() - texts) / count, "bytes", checked),
        Result(workload, "bitsets", "size with texts", index.memory() / count, "bytes", checked),
        Result(workload, "bitsets", "compile", build, "s", checked),
    ]
