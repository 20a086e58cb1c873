"""Rules of equalities and ranges over skewed values: events a second in a batch, and bytes a rule."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.alone import index_and_matcher
from bench.report import Result, best_of
from distributary.filters.where.filter import WhereFilter
from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matcher
from distributary.matching.where.bitsets import WhereBitsets
from distributary.workloads import rules

SEED = 1
CHECKED = 200
EVENTS = 10_000


def run(quick: bool) -> list[Result]:
    if quick:
        return _measured(5_000, 10_000, "")
    return _measured(100_000, 100_000, ">= 400,000 a second") + _measured(1_000_000, 20_000, "")


def _measured(count: int, rows: int, target: str) -> list[Result]:
    workload = f"{count:,} rules of 3 to 5 conditions"
    index = WhereBitsets()
    build = _fill(index, count)
    table = rules.table(rows, seed=SEED)
    checked = _check(index, count)
    seconds, pairs = best_of(5, lambda: index.match_batch(EventBatch.from_table(table)))
    texts = sum(array.nbytes for _, segment in index.segments() for array in segment.texts.values())
    size = "<= 394 bytes" if target else ""
    return [
        Result(workload, "bitsets", "events", rows / seconds, "a second", checked, target),
        Result(workload, "bitsets", "matches an event", len(pairs.rows) / rows, "rules", checked),
        Result(
            workload, "bitsets", "compiled size", (index.memory() - texts) / count, "bytes", checked, size
        ),
        Result(workload, "bitsets", "size with texts", index.memory() / count, "bytes", checked, size),
        Result(workload, "bitsets", "compile", build, "s", checked),
        *_by_size(index, count, checked),
    ]


def _by_size(index: WhereBitsets, count: int, checked: str) -> list[Result]:
    """The index and a matcher, one event at a time and in batches."""
    workload = f"{count:,} rules of 3 to 5 conditions"
    matcher = Matcher(rules.subscriptions(count, seed=SEED))
    events, table = list(rules.events(EVENTS, seed=SEED)), rules.table(EVENTS, seed=SEED)
    return index_and_matcher(workload, index, matcher, events, table, checked)


def _fill(index: WhereBitsets, count: int) -> float:
    """Hold the rules; how long it took to add and compile them, once they had been read."""
    texts = (subscription.where for subscription in rules.subscriptions(count, seed=SEED))
    filters = list(map(WhereFilter.parse, texts))
    batch = EventBatch.from_table(rules.table(1, seed=SEED))

    def fill() -> None:
        index.add_many(range(count), filters)
        index.match_batch(batch)

    return best_of(1, fill)[0]


def _check(index: WhereBitsets, count: int) -> str:
    """Compare the answers for some events with all rules evaluated by NumPy, column by column."""
    table = rules.table(CHECKED, seed=SEED)
    rows, slots = index.match_batch(EventBatch.from_table(table))
    draws = list(rules.draws(count, seed=SEED))
    values, low, high = (np.concatenate(parts) for parts in zip(*draws, strict=True))
    discrete = np.stack([_numbers(table, name) for name in rules.VALUES], axis=1)
    ranged = np.stack([table[name].to_numpy() for name in rules.RANGES], axis=1)
    for row in range(CHECKED):
        equal = (values < 0) | (values == discrete[row])
        within = np.isnan(low) | ((low <= ranged[row]) & (ranged[row] <= high))
        expected = np.flatnonzero(equal.all(axis=1) & within.all(axis=1))
        if np.sort(slots[rows == row]).tolist() != expected.tolist():
            raise AssertionError(f"{index.name} answers event {row} wrongly")
    return f"NumPy on {CHECKED} events"


def _numbers(table: object, name: str) -> NDArray[np.int64]:
    """The values of a discrete attribute as the numbers that the workload draws."""
    column = table[name].to_pylist()  # type: ignore[index]
    return np.array([value if isinstance(value, int) else int(value.rsplit("-")[-1]) for value in column])
