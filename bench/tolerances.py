"""Tolerances: SF, MFD and thresholds on one much-watched item, and thresholds on very many small groups.

One item with all subscriptions on it is where the engines differ most. The tolerances are scaled so that an
event makes anything from almost nobody to everybody fire: the cost of SF should stay the same throughout,
that of thresholds should follow the number that fire.
"""

from __future__ import annotations

import time
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from bench.report import Result
from distributary.filters.change import ChangeFilter
from distributary.matching.batch import EventBatch
from distributary.matching.change.index import ChangeIndex
from distributary.matching.change.mfd import ChangeMFD
from distributary.matching.change.sf import ChangeSF
from distributary.matching.change.thresholds import ChangeThresholds
from distributary.matching.index import Pairs
from distributary.model import Event
from distributary.workloads import quotes

CENT = 0.01
BATCHES = 5
LIVELY = 9
"""The stock that moves most, by up to 40 cents a minute."""


def run(quick: bool) -> list[Result]:
    size = 5_000 if quick else 100_000
    results = []
    for maximum, events in ((10_000, 1000), (1_000, 1000), (100, 1000), (10, 300), (1, 50), (0.01, 50)):
        results += one_item(size, maximum, events // 10 if quick else events)
    return results + singletons(size, 1_000 if quick else 10_000, 20 if quick else 100)


def one_item(size: int, maximum: float, events: int) -> list[Result]:
    """All subscriptions on one item, with tolerances spread evenly up to `maximum`."""
    given = quotes.subscriptions(size, seed=1, stock_count=1, maximum=maximum)
    filters = [ChangeFilter.parse(subscription.change) for subscription in given]
    batches = [EventBatch.from_events(part) for part in parts_of(item_events(BATCHES * events), events)]
    exact, sf, mfd = ChangeThresholds(), ChangeSF(), ChangeMFD(unit=CENT)
    workload = f"{size:,} subscriptions on one item, tolerances up to {maximum:g}"
    results = []
    times = {}
    fired = {}
    for index in (sf, exact, mfd):
        index.add_many(range(size), filters)
        index.match_batch(batches[0])
        times[index.name], fired[index.name] = timed(index, batches[1:])
    assert same(fired["sf"], fired["thresholds"]), "thresholds and SF disagree"
    check_bound(mfd, filters, batches[-1])
    for index in (sf, exact, mfd):
        checked = "the tolerance of each subscription" if index is mfd else "SF and thresholds alike"
        fires = sum(len(pairs.rows) for pairs in fired[index.name]) / (len(batches) - 1) / events
        results += [
            Result(workload, index.name, "fires", fires, "per event", checked),
            Result(workload, index.name, "time", times[index.name] / events * 1e6, "µs/event", checked),
        ]
    compared = mfd.evaluated / events / BATCHES
    results.append(
        Result(workload, "mfd", "sub-filters evaluated", compared, "per event", "by its own count")
    )
    ratio = times["sf"] / times["thresholds"]
    target = "> 10" if maximum >= 1_000 else ""
    both = "SF and thresholds alike"
    results.append(Result(workload, "thresholds", "SF time / time", ratio, "x", both, target))
    return results


def singletons(groups: int, events: int, each: int) -> list[Result]:
    """Every subscription in a group of its own; each event is shown to some of them."""
    filters = [ChangeFilter.parse(s.change) for s in quotes.subscriptions(groups, seed=2)]
    random = np.random.default_rng(3)
    batch = EventBatch.from_events(list(quotes.events(events, seed=4)))
    rows = np.repeat(np.arange(events, dtype=np.int32), each)
    shown = np.concatenate([random.choice(groups, each, replace=False) for _ in range(events)]).astype(
        np.int32
    )
    index, reference = ChangeThresholds(), ChangeSF()
    start = time.perf_counter()
    index.add_many(range(groups), filters, range(groups))
    index.fire(batch, rows[:1], shown[:1])
    built = time.perf_counter() - start
    index.forget()
    reference.add_many(range(groups), filters, range(groups))
    sample = min(len(rows), 20_000)
    first = index.fire(batch, rows[:sample], shown[:sample])
    assert same([first], [reference.fire(batch, rows[:sample], shown[:sample])]), "thresholds and SF disagree"
    workload = f"{groups:,} groups of one, {len(rows):,} pairs of event and group"
    results = [Result(workload, "thresholds", "add all", built, "s", "SF on a sample")]
    for measure in ("time, most of them first values", "time, most of them known"):
        start = time.perf_counter()
        index.fire(batch, rows, shown)
        seconds = time.perf_counter() - start
        results.append(Result(workload, "thresholds", measure, seconds, "s", "SF on a sample", "< 2"))
    per_cell = index.memory() / groups
    return [*results, Result(workload, "thresholds", "memory", per_cell, "bytes/group", "by its own count")]


def some_groups(random: np.random.Generator, groups: int, count: int) -> NDArray[np.int32]:
    """Different groups, at equal distances from a random one."""
    return ((random.integers(groups) + np.arange(count) * (groups // count)) % groups).astype(np.int32)


def item_events(count: int) -> list[Event]:
    topic = quotes.stocks(LIVELY + 1, seed=5)[LIVELY].topic
    every = quotes.events((LIVELY + 1) * count, seed=5, stock_count=LIVELY + 1)
    return [event for event in every if event.topic == topic]


def parts_of(events: list[Event], size: int) -> list[list[Event]]:
    remaining = iter(events)
    return [part for _ in range(len(events) // size) if (part := list(islice(remaining, size)))]


def timed(index: ChangeIndex, batches: list[EventBatch]) -> tuple[float, list[Pairs]]:
    """The shortest time that a batch took, and what each answered. Each goes on where the last stopped."""
    shortest = float("inf")
    answers = []
    for batch in batches:
        start = time.perf_counter()
        answers.append(index.match_batch(batch))
        shortest = min(shortest, time.perf_counter() - start)
    return shortest, answers


def same(some: list[Pairs], others: list[Pairs]) -> bool:
    return all(
        np.array_equal(np.sort(keys(one)), np.sort(keys(other)))
        for one, other in zip(some, others, strict=True)
    )


def keys(pairs: Pairs) -> NDArray[np.int64]:
    return pairs.rows.astype(np.int64) << 32 | pairs.slots


def check_bound(index: ChangeMFD, filters: list[ChangeFilter], batch: EventBatch) -> None:
    """No subscriber of a sample is further from the last event than its tolerance."""
    event = batch.event(batch.rows - 1)
    for slot in range(0, len(filters), max(1, len(filters) // 1_000)):
        price, last = event.attributes["price"], index.last(slot, event.topic)["price"]
        assert abs(float(price) - last) <= dict(filters[slot].tolerances)["price"], "MFD drifted"  # type: ignore[arg-type]
