"""What an event costs alone, in batches of 64 and in large ones: processor time, all three in each round."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import pyarrow as pa

from bench.report import Result, ratio
from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matcher, Matches
from distributary.matching.where.bitsets import WhereBitsets
from distributary.model import Event

ROUNDS = 5
SMALL = 64
COMPARED = 200
"""Events whose answers alone and in a batch are compared before anything is timed."""


@dataclass(frozen=True, slots=True)
class Contender:
    """Something that matches events one by one and in batches.

    `piece(first, last)` makes a batch of these events, in whatever form; that is not timed. `answers` says
    what a batch's answer is for each of its events, as `one` would give it.
    """

    workload: str
    engine: str
    events: Sequence[Event]
    one: Callable[[Event], list[Any]]
    piece: Callable[[int, int], Any]
    batch: Callable[[Any], Any]
    answers: Callable[[Any, int], list[list[Any]]]
    forget: Callable[[], None] = lambda: None
    """What makes it answer as if it had seen no event before."""


def costs(contender: Contender, checked: str, target: str = "") -> list[Result]:
    """Microseconds an event alone, in batches of 64 and in one of all events, and what the first two add.

    Each round takes other events, for what was seen before may be remembered.
    """
    size = len(contender.events) // ROUNDS
    few = min(size, COMPARED)
    contender.forget()
    expected = contender.answers(contender.batch(contender.piece(0, few)), few)
    contender.forget()
    if [contender.one(event) for event in contender.events[:few]] != expected:
        raise AssertionError(f"{contender.engine} answers an event alone otherwise than in a batch")
    measured = [_round(contender, turn * size, (turn + 1) * size) for turn in range(ROUNDS)]
    alone, small, large = (median(each) for each in zip(*measured, strict=True))
    said = (contender.workload, contender.engine)
    return [
        Result(*said, "one event at a time", alone, "µs/event", checked, target),
        Result(*said, f"{SMALL} events at a time", small, "µs/event", checked),
        Result(*said, f"{size:,} events at a time", large, "µs/event", checked),
        Result(*said, f"{SMALL} / {size:,} at a time", small / large, "times", checked, "<= 1.5 times"),
    ]


def index_and_matcher(
    workload: str, index: WhereBitsets, matcher: Matcher, events: list[Event], table: pa.Table, checked: str
) -> list[Result]:
    """An index of conditions and a matcher of the same ones, one event at a time and in batches."""

    def piece(first: int, last: int) -> EventBatch:
        return EventBatch.from_table(table.slice(first, last - first))

    index_costs = costs(
        Contender(workload, "bitsets", events, index.match, piece, index.match_batch, index_answers),
        checked,
        "<= 25",
    )

    def named(batch: EventBatch) -> Matches:
        found = matcher.matches(batch)
        _ = found.subscriptions, found.subscribers  # texts are made when they are asked for
        return found

    matcher_costs = costs(
        Contender(workload, "Matcher", events, matcher.match, piece, named, matcher_answers),
        "the index",
    )
    return [*index_costs, *matcher_costs, ratio(matcher_costs[0], index_costs[0], "<= 1.3 times")]


def _round(contender: Contender, first: int, last: int) -> tuple[float, float, float]:
    """Microseconds an event in each of the three ways."""
    events = contender.events[first:last]
    contender.forget()
    start = time.process_time()
    for event in events:
        contender.one(event)
    alone = time.process_time() - start
    pieces = [contender.piece(at, min(at + SMALL, last)) for at in range(first, last, SMALL)]
    contender.forget()
    start = time.process_time()
    for piece in pieces:
        contender.batch(piece)
    small = time.process_time() - start
    piece = contender.piece(first, last)
    contender.forget()
    start = time.process_time()
    contender.batch(piece)
    large = time.process_time() - start
    return alone / len(events) * 1e6, small / len(events) * 1e6, large / len(events) * 1e6


def index_answers(pairs: Any, rows: int) -> list[list[int]]:
    """The slots that an index gives for each row of a batch, ascending."""
    found: list[list[int]] = [[] for _ in range(rows)]
    for row, slot in zip(pairs.rows.tolist(), pairs.slots.tolist(), strict=True):
        found[row].append(slot)
    return [sorted(slots) for slots in found]


def matcher_answers(matches: Any, rows: int) -> list[list[str]]:
    """The ids that `Matcher.matches` gives for each row of a batch."""
    found: list[list[str]] = [[] for _ in range(rows)]
    for row, name in zip(matches.rows.tolist(), matches.subscriptions.to_pylist(), strict=True):
        found[row].append(name)
    return found
