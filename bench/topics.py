"""Topics: the paper's three algorithms and ours on the paper's workload, a larger one, and many shapes.

Figures 5 to 8 of the topic paper order its algorithms: matching tree < hash << regex; memory hash and regex
alike < tree; adding and removing regex < hash < tree. The orderings are reported as ratios within this run.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence
from typing import Any

from bench.alone import Contender, costs, index_answers, matcher_answers
from bench.report import Result, best_of, ratio
from distributary.filters.topic import WILDCARD, TopicFilter
from distributary.matching.batch import EventBatch
from distributary.matching.index import Index
from distributary.matching.layers import CompiledIndex
from distributary.matching.matcher import Matcher
from distributary.matching.topic.hash import TopicHash
from distributary.matching.topic.regex import TopicRegex
from distributary.matching.topic.shapes import TopicShapes
from distributary.matching.topic.tree import TopicTree
from distributary.model import Event, Subscription
from distributary.workloads import topics

CHANGED = 1_000
"""How many subscriptions are added to a full index, and removed again, to learn what one costs."""

CHECKED_ALONE = 3

Filters = list[TopicFilter]


def run(quick: bool) -> list[Result]:
    sizes = (1_000, 5_000) if quick else (10_000, 100_000)
    results = [result for size in sizes for result in paper_workload(size, quick)]
    results += large(20_000 if quick else 1_000_000, quick)
    for size, levels in ((5_000, 7),) if quick else ((100_000, 7), (1_000_000, 10)):
        results += by_size(size, levels, quick)
    results += many_shapes(*((5_000, 500) if quick else (100_000, 5_000)), quick)
    results += tree_size(2_000 if quick else 100_000)
    return results


def paper_workload(size: int, quick: bool) -> list[Result]:
    """Figures 5, 7 and 8, and the memory of section IV.B.2."""
    filters = filters_of(size + CHANGED, levels=7)
    events = list(topics.events(20_000 if quick else 100_000, seed=2, levels=7))
    checked_events = events[:10] + hits(filters[:40])
    workload = f"{size:,} subscriptions x 7 levels"
    results: list[Result] = []
    numbers: dict[str, dict[str, float]] = {}
    reference: list[list[int]] | None = None
    for engine in (TopicRegex, TopicTree, TopicHash, TopicShapes):
        index: Index[Any] = engine()
        index.add_many(range(size), filters[:size])
        answers = [index.match(event) for event in checked_events]
        reference = answers if reference is None else reference
        assert answers == reference, f"{engine.name} disagrees with regex"
        measured = {
            "match": match_time(index, events, quick),
            "memory": index.memory() / size,
            **change_times(index, filters[size:], size),
        }
        numbers[engine.name] = measured
        units = {"match": "µs/event", "memory": "bytes/subscription", "add": "µs", "remove": "µs"}
        for measure, value in measured.items():
            target = "<= 0.5" if engine is TopicShapes and measure == "match" else ""
            results.append(
                Result(workload, engine.name, measure, value, units[measure], "regex, 50 events", target)
            )
        if isinstance(index, TopicShapes):
            beside = compiled_bytes(index) / size
            results.append(
                Result(
                    workload,
                    "shapes",
                    "memory beside texts and slots",
                    beside,
                    "bytes/subscription",
                    "regex, 50 events",
                )
            )
    return results + orderings(workload, numbers)


def orderings(workload: str, numbers: dict[str, dict[str, float]]) -> list[Result]:
    """The paper's comparisons: how many times more the first costs than the second."""
    compared = [
        ("match", "hash", "tree", "> 1, small (Figure 5)"),
        ("match", "regex", "hash", ">> 1 (Figure 5)"),
        ("memory", "tree", "hash", "> 1 (section IV.B.2)"),
        ("memory", "regex", "hash", "about 1 (section IV.B.2)"),
        ("add", "hash", "regex", "> 1, close (Figure 7)"),
        ("add", "tree", "hash", "> 1 (Figure 7)"),
        ("remove", "hash", "regex", "> 1, close (Figure 8)"),
        ("remove", "tree", "hash", "> 1 (Figure 8)"),
        ("match", "tree", "shapes", ""),
        ("memory", "tree", "shapes", ""),
    ]
    return [
        Result(
            workload,
            f"{more} / {less}",
            measure,
            numbers[more][measure] / numbers[less][measure],
            "times",
            "regex, 50 events",
            target,
        )
        for measure, more, less, target in compared
    ]


def large(size: int, quick: bool) -> list[Result]:
    """Ours with ten times the paper's subscriptions, and deeper ones."""
    texts = texts_of(size, levels=10)
    start = time.perf_counter()
    filters = [TopicFilter.parse(text) for text in texts]
    parsed = time.perf_counter() - start
    index = TopicShapes()
    index.add_many(range(size), filters)
    start = time.perf_counter()
    index.compact()
    compiled = time.perf_counter() - start
    for event in [next(topics.events(1, seed=3, levels=10)), *hits(filters[:2])]:
        assert index.match(event) == [slot for slot, filter in enumerate(filters) if filter.matches(event)]
    sample = hits(filters[:: max(size // 1_000, 1)])
    found = index.match_batch(EventBatch.from_events(sample)).slots.tolist()
    assert set(range(0, size, max(size // 1_000, 1))) <= set(found)
    events = list(topics.events(20_000 if quick else 100_000, seed=2, levels=10))
    checked = "each filter alone, 3 events"
    workload = f"{size:,} subscriptions x 10 levels"
    return [
        Result(workload, "shapes", "match", match_time(index, events, quick), "µs/event", checked, "2"),
        Result(workload, "shapes", "memory", index.memory() / size, "bytes/subscription", checked),
        Result(
            workload,
            "shapes",
            "memory beside texts and slots",
            compiled_bytes(index) / size,
            "bytes/subscription",
            checked,
        ),
        Result(workload, "shapes", "parse", parsed, "s", checked),
        Result(workload, "shapes", "compile", compiled, "s", checked, "20"),
    ]


def by_size(size: int, levels: int, quick: bool) -> list[Result]:
    """Ours alone and in a matcher, one event at a time and in batches; every event is a hit."""
    filters = filters_of(size, levels=levels)
    index = TopicShapes()
    index.add_many(range(size), filters)
    index.compact()
    matcher = Matcher(Subscription(f"s{slot}", "u", topic=each.text) for slot, each in enumerate(filters))
    events = hits(filters[:: max(size // (1_000 if quick else 20_000), 1)])
    checked = f"each filter alone, {CHECKED_ALONE} events; then batches"
    for event in events[:CHECKED_ALONE]:
        assert index.match(event) == [slot for slot, filter in enumerate(filters) if filter.matches(event)]

    def piece(first: int, last: int) -> EventBatch:
        return EventBatch.from_events(events[first:last])

    workload = f"{size:,} subscriptions x {levels} levels, every event a hit"
    of_index = Contender(workload, "shapes", events, index.match, piece, index.match_batch, index_answers)
    of_matcher = Contender(
        workload, "Matcher", events, matcher.match, piece, matcher.matches, matcher_answers
    )
    index_costs, matcher_costs = costs(of_index, checked, "<= 5"), costs(of_matcher, checked)
    return [*index_costs, *matcher_costs, ratio(matcher_costs[0], index_costs[0], "<= 1.3 times")]


def many_shapes(size: int, shapes: int, quick: bool) -> list[Result]:
    """Random depths and wildcards: one lookup for each shape would cost a thousand times the paper's case."""
    events = list(topics.events(5_000 if quick else 50_000, seed=2, levels=12))
    few, many, tree = TopicShapes(), TopicShapes(), TopicTree()
    few.add_many(range(size), filters_of(size, levels=12))
    filters = filters_of(size, levels=12, shapes=shapes)
    many.add_many(range(size), filters)
    tree.add_many(range(size), filters)
    for event in events[:200]:
        assert many.match(event) == tree.match(event)
    times = {
        "shapes": match_time(many, events, quick),
        "tree": match_time(tree, events, quick),
        "few": match_time(few, events, quick),
    }
    workload = f"{size:,} subscriptions of {shapes:,} shapes, up to 12 levels"
    checked = "tree, 200 events"
    matches = len(many.match_batch(EventBatch.from_events(events)).rows) / len(events)
    return [
        Result(workload, "shapes", "match", times["shapes"], "µs/event", checked),
        Result(workload, "tree", "match", times["tree"], "µs/event", checked),
        Result(workload, "tree / shapes", "match", times["tree"] / times["shapes"], "times", checked),
        Result(
            workload, "many shapes / 11 shapes", "match", times["shapes"] / times["few"], "times", checked
        ),
        Result(workload, "shapes", "matches", matches, "per event", checked),
        Result(workload, "shapes", "memory", many.memory() / size, "bytes/subscription", checked),
    ]


def tree_size(size: int) -> list[Result]:
    """Figure 6's largest case: 798,188 nodes and 898,187 edges for 100,000 subscriptions of 10 levels."""
    tree = TopicTree()
    tree.add_many(range(size), filters_of(size, levels=10))
    workload = f"{size:,} subscriptions x 10 levels"
    targets = ("= 798,188 (Figure 6)", "= 898,187 (Figure 6)") if size == 100_000 else ("", "")
    return [
        Result(workload, "tree", "nodes", tree.nodes, "", "", targets[0]),
        Result(workload, "tree", "edges", tree.edges, "", "", targets[1]),
    ]


def texts_of(size: int, *, levels: int, shapes: int | None = None) -> list[str | None]:
    return [
        subscription.topic
        for subscription in topics.subscriptions(size, seed=1, levels=levels, shapes=shapes)
    ]


def filters_of(size: int, *, levels: int, shapes: int | None = None) -> Filters:
    return [TopicFilter.parse(text) for text in texts_of(size, levels=levels, shapes=shapes)]


def hits(filters: Sequence[TopicFilter]) -> list[Event]:
    """An event for each filter that it matches."""
    return [
        Event(
            f"hit{number}", topic="/".join("any" if level == WILDCARD else level for level in filter.levels)
        )
        for number, filter in enumerate(filters)
    ]


def match_time(index: Index[Any], events: list[Event], quick: bool) -> float:
    """Microseconds an event: in a batch for compiled indexes, one by one for the others."""
    if isinstance(index, CompiledIndex):
        batch = EventBatch.from_events(events)
        seconds, _ = best_of(3 if quick else 40, lambda: index.match_batch(batch))
        return seconds / len(events) * 1e6
    few = events[: 10 if isinstance(index, TopicRegex) else 2_000]
    seconds, _ = best_of(3, lambda: [index.match(event) for event in few])
    return seconds / len(few) * 1e6


def change_times(index: Index[Any], filters: Filters, first: int) -> dict[str, float]:
    """Microseconds to add one subscription and to remove one; compiled indexes are ready to match again."""
    probe = Event("probe", topic="nobody")
    slots = range(first, first + len(filters))
    added, removed = [], []
    gc.disable()
    for _ in range(3):
        start = time.perf_counter()
        for slot, filter in zip(slots, filters, strict=True):
            index.add(slot, filter)
        if isinstance(index, CompiledIndex):
            index.match(probe)
        added.append(time.perf_counter() - start)
        start = time.perf_counter()
        for slot in slots:
            index.remove(slot)
        removed.append(time.perf_counter() - start)
    gc.enable()
    return {"add": min(added) / len(filters) * 1e6, "remove": min(removed) / len(filters) * 1e6}


def compiled_bytes(index: TopicShapes) -> int:
    return sum(array.nbytes for _, segment in index.segments() for array in segment.arrays.values())
