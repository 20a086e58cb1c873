"""Ours on a workload: large batches, batches of 64 and one event, by the index, `Matcher`, and from JSON.

Every round and every way has events of its own, because what is found for a topic is remembered
(`matching/topic/memo.py`): nothing is answered from memory but where the workload repeats its topics. All
ways must find the same pairs in the first table before anything is timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from statistics import median

import numpy as np
import pyarrow as pa

from bench.peers.exchange import Pairs
from bench.peers.workload import Workload
from distributary.filters.topic import TopicFilter
from distributary.filters.where.filter import WhereFilter
from distributary.json_text import read_object
from distributary.matching.batch import EventBatch
from distributary.matching.lines import EventLines
from distributary.matching.matcher import Matcher
from distributary.matching.topic.shapes import TopicShapes
from distributary.matching.where.bitsets import WhereBitsets
from distributary.model import Event

SMALL = 64
SMALL_EVENTS = 2_048

Index = TopicShapes | WhereBitsets
Found = list[tuple[np.ndarray, np.ndarray]]
"""Rows and rules of each part of a round."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to match: how a table is given to it, and how many events of the first table are compared."""

    name: str
    parts: Callable[[pa.Table], list[object]]
    match: Callable[[object], object]
    pairs: Callable[[object], tuple[np.ndarray, np.ndarray]]
    events: int
    timed: slice
    """The rows of a table that are timed: no two ways have the same."""


@dataclass(frozen=True, slots=True)
class Ours:
    """What we find for the first table, and microseconds of processor time an event of each way."""

    pairs: Pairs
    times: dict[str, float]
    build: float


def measured(workload: Workload) -> Ours:
    """Hold the workload's subscriptions, compare the ways with each other, then time them in turns."""
    start = time.process_time()
    matcher = Matcher(workload.subscriptions)
    build = time.process_time() - start
    index = _index(workload)
    ways = list(_ways(workload, index, matcher))
    reference: Pairs | None = None
    for way in ways:
        found = _found(way, workload.tables[0])
        reference = found if reference is None else reference
        if found.digest(way.events) != reference.digest(way.events):
            raise AssertionError(f"{workload.name}: ours, {way.name}, disagrees with ours, {ways[0].name}")
    assert reference is not None
    rounds: dict[str, list[float]] = {way.name: [] for way in ways}
    for table in workload.tables[1:]:
        for way in ways:
            rounds[way.name].append(_timed(way, table))
    return Ours(reference, {name: median(times) for name, times in rounds.items()}, build)


def _index(workload: Workload) -> Index:
    index: Index
    if workload.kind == "topic":
        index = TopicShapes()
        filters: list[object] = [TopicFilter.parse(one.topic) for one in workload.subscriptions]
    else:
        index = WhereBitsets()
        filters = [WhereFilter.parse(one.where) for one in workload.subscriptions]
    index.add_many(range(len(filters)), filters)  # type: ignore[arg-type]
    return index


def _ways(workload: Workload, index: Index, matcher: Matcher) -> Iterable[Way]:
    rows = workload.tables[0].num_rows
    few, fewest = SMALL_EVENTS, workload.singles
    single_rows, small_rows, others = slice(0, fewest), slice(fewest, fewest + few), slice(fewest + few, rows)

    def whole(table: pa.Table) -> list[object]:
        return [table]

    def pieces(table: pa.Table) -> list[object]:
        (batch,) = table.slice(0, few).combine_chunks().to_batches()
        return [batch.slice(at, SMALL) for at in range(0, few, SMALL)]

    def single(table: pa.Table) -> list[object]:
        return list(events_of(table.slice(0, fewest)))

    def by_index(part: object) -> object:
        return index.match_batch(EventBatch.from_table(part))

    def by_matcher(part: object) -> object:
        found = matcher.matches(EventBatch.from_table(part))
        return found, found.subscription_codes, found.subscriber_codes

    def by_matcher_in_texts(part: object) -> object:
        found = matcher.matches(EventBatch.from_table(part))
        return found, found.subscriptions, found.subscribers

    yield Way("index, batches", whole, by_index, _of_slots, rows, others)
    yield Way("Matcher, batches", whole, by_matcher, _of_ids, rows, others)
    yield Way("index, 64", pieces, by_index, _of_slots, few, small_rows)
    yield Way("Matcher, 64", pieces, by_matcher_in_texts, _of_ids, few, small_rows)
    yield Way("index, one", single, index.match, _of_list, fewest, single_rows)  # type: ignore[arg-type]
    yield Way("Matcher, one", single, matcher.match, _of_names, fewest, single_rows)  # type: ignore[arg-type]
    if workload.json:

        def text(table: pa.Table) -> list[object]:
            return ["\n".join(workload.json(table)).encode()] if workload.json else []

        def by_matcher_of_lines(part: object) -> object:
            found = matcher.matches(_read(part))
            return found, found.subscriptions, found.subscribers

        yield Way("Matcher, JSON", text, by_matcher_of_lines, _of_ids, rows, others)


def _read(lines: object) -> EventBatch:
    """Events from JSON lines as bytes, as `distributary match` reads them."""
    assert isinstance(lines, bytes)
    (read,) = EventLines().batches(lines, lines.count(b"\n") + 1, _exact)
    return read.batch


def _exact(number: int, line: bytes) -> Event:
    """The event of a line that is not plain."""
    return Event.from_record(read_object(line))


def events_of(table: pa.Table) -> Iterable[Event]:
    """The rows as single events; a null is an attribute that is not there."""
    for row in table.to_pylist():
        attributes = {name: value for name, value in row.items() if value is not None}
        yield Event(attributes.pop("id"), topic=attributes.pop("topic", None), attributes=attributes)


def _found(way: Way, table: pa.Table) -> Pairs:
    events, rules, first = [], [], 0
    for part in way.parts(table):
        rows, numbers = way.pairs(way.match(part))
        events.append(rows.astype(np.int64) + first)
        rules.append(numbers)
        first += getattr(part, "num_rows", 1)
    return Pairs(np.concatenate(events), np.concatenate(rules).astype(np.int64))


def _timed(way: Way, table: pa.Table) -> float:
    rows, match = way.timed.stop - way.timed.start, way.match
    parts = way.parts(table.slice(way.timed.start, rows))
    start = time.process_time()
    for part in parts:
        match(part)
    return (time.process_time() - start) * 1e6 / rows


def _of_slots(answer: object) -> tuple[np.ndarray, np.ndarray]:
    rows, slots = answer  # type: ignore[misc]
    return np.asarray(rows), np.asarray(slots)


def _of_ids(answer: object) -> tuple[np.ndarray, np.ndarray]:
    found, *_ = answer  # type: ignore[misc]
    return np.asarray(found.rows), _numbers(found.subscriptions)


def _of_list(answer: object) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(len(answer), np.int64), np.array(answer, np.int64)  # type: ignore[arg-type]


def _of_names(answer: object) -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(len(answer), np.int64), _numbers(pa.array(answer, pa.string()))  # type: ignore[arg-type]


def _numbers(ids: pa.Array) -> np.ndarray:
    """The numbers in ids as `r17`."""
    texts = ids.cast(pa.large_string())
    numbers: np.ndarray = pa.compute.utf8_slice_codeunits(texts, 1).cast(pa.int64()).to_numpy()
    return numbers
