"""Changes while matching: what adding and removing one costs, and a batch of events right after many."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from itertools import count
from statistics import median
from typing import NamedTuple, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matcher
from distributary.model import Event, Subscription
from distributary.workloads import market

T = TypeVar("T")

CHANGES = 1_000
"""Changes between two batches, half of them additions."""
EVENTS = 4_000
ROUNDS = 5
ADDED = "new"
"""What the ids of the subscriptions begin with that are added, and no others."""


class ChangeCosts(NamedTuple):
    """Seconds of the processor: median and worst of one change, a batch with and without changes before."""

    add: float
    worst_add: float
    remove: float
    worst_remove: float
    first_add: float
    """The first after building or opening, with nothing warmed but the kernels."""
    batch: float
    after_changes: float


def fresh(number: int, seed: int) -> list[Subscription]:
    """Subscriptions under ids that are not registered, others for each seed."""
    return [
        Subscription(f"{ADDED}{seed}-{at}", one.subscriber, one.topic, one.where, one.path, one.change)
        for at, one in enumerate(market.subscriptions(number, seed=seed))
    ]


def change_costs(matcher: Matcher, events: list[Event], changes: int = CHANGES) -> ChangeCosts:
    """Change and match in turns; raises an error unless all answers are as before when all is undone.

    Amid the changes, the answers but for the subscriptions that were added must be as before too.
    Kernels must have been loaded before (see `warm`).
    """
    batch = EventBatch.from_events(events[:EVENTS])
    matcher.forget()
    before = _pairs(matcher, batch)
    seeds = count(1000)
    first, *present = fresh(changes // 2, next(seeds))
    first_add = _thread_seconds(lambda: matcher.add(first))
    present.append(first)
    for subscription in present[:-1]:
        matcher.add(subscription)
    _batch_seconds(matcher, batch)
    adds, removes, plain, after = [], [], [], []
    for _ in range(ROUNDS):
        plain.append(_batch_seconds(matcher, batch))
        following = fresh(changes // 2, next(seeds))
        adds += _each(matcher.add, following)
        removes += _each(matcher.remove, [one.id for one in present])
        present = following
        after.append(_batch_seconds(matcher, batch))
        plain.append(_batch_seconds(matcher, batch))
    among = _pairs(matcher, batch)
    if not among.filter(pc.invert(pc.starts_with(among["id"], ADDED))).equals(before):
        raise AssertionError("changes have changed the answers of subscriptions that they did not touch")
    for subscription in present:
        matcher.remove(subscription.id)
    if not _pairs(matcher, batch).equals(before):
        raise AssertionError("the answers are not those from before changes that were all undone")
    return ChangeCosts(
        median(adds), max(adds), median(removes), max(removes), first_add, median(plain), median(after)
    )


def warm() -> None:
    """Have every kernel that changing and matching needs loaded or compiled."""
    matcher = Matcher(market.subscriptions(3_000, seed=1))
    change_costs(matcher, list(market.events(EVENTS, seed=1)), 100)


def _each(action: Callable[[T], object], given: list[T]) -> list[float]:
    return [_thread_seconds(partial(action, one)) for one in given]


def _thread_seconds(action: Callable[[], object]) -> float:
    """Of this thread alone: else the worst of many would be when another process had its turn."""
    start = time.thread_time()
    action()
    return time.thread_time() - start


def _pairs(matcher: Matcher, batch: EventBatch) -> pa.Table:
    """The matches of a batch as pairs of a row and an id, with nothing remembered of earlier ones."""
    matcher.forget()
    matches = matcher.matches(batch)
    return pa.table({"row": matches.rows, "id": matches.subscriptions}).combine_chunks()


def _batch_seconds(matcher: Matcher, batch: EventBatch) -> float:
    matcher.forget()
    start = time.process_time()
    matcher.matches(batch)
    return time.process_time() - start
