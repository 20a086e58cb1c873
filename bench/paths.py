"""Path filters: matching after parsing, per document, for every engine; parsing apart.

Two mixes of distinct filters over the nine document types, documents of about 30 KB:

* `mixed`: what `workloads.documents` makes by default. 30 % have structure alone, 63 % compare one value, 7 %
  two; each step carries a branch with probability 0.35, is `*` with 0.1 and comes by `//` with 0.15.
* `structure`: the same without values.

Answers are compared with lxml's XPath on a sample first, and then among the engines on every document.

What an index and a `Matcher` cost is processor time, the median of rounds each of which has documents of its
own, for what was seen before may be remembered. Matching begins where parsing ends: documents are read, and
their trees, summaries and numbers are still to be made. A `Matcher` reads the document alone as well, and
names the subscriptions.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
from lxml import etree

from bench.report import Result, best_of, ratio
from distributary.filters.path.document import parse_document
from distributary.filters.path.filter import PathFilter
from distributary.matching.batch import EventBatch
from distributary.matching.columns import Strings
from distributary.matching.index import Pairs
from distributary.matching.matcher import Matcher
from distributary.matching.path.automaton import PathAutomaton
from distributary.matching.path.bloom import PathBloom, Preselection
from distributary.matching.path.classes import PathClasses
from distributary.matching.path.forest import Grove
from distributary.matching.path.xml.scan import scan
from distributary.model import Event, Subscription
from distributary.workloads import documents

CHECKED = "lxml on a sample; engines against each other"
SAMPLE = 400
ROUNDS = 5


def run(quick: bool) -> list[Result]:
    count, rows = (2_000, 9) if quick else (100_000, 50)
    events = list(documents.events(rows, seed=2))
    results = [*_reading(events)]
    for mix, valued in (("mixed", 0.7), ("structure", 0.0)):
        parsed, filters = best_of(
            1,
            lambda valued=valued: [
                PathFilter.parse(each.path) for each in documents.subscriptions(count, seed=1, valued=valued)
            ],
        )
        workload = f"{count} {mix} paths, {rows} documents of 30 KB"
        fresh = list(documents.events(rows * (ROUNDS + 1), seed=3))
        results.append(
            Result(workload, "filters", "making and parsing a filter", 1e6 * parsed / count, "us", "")
        )
        results += _matching(workload, filters, events, fresh, quick)
    return results


def _reading(events: Sequence[Event]) -> list[Result]:
    """What a document costs before any filter is looked at: from its bytes to trees and their summaries."""
    texts = Strings.from_texts([event.document for event in events])
    assert texts is not None
    given = [event.document or "" for event in events]
    encoded = [text.encode() for text in given]
    trees = [parse_document(text) for text in given]
    scanned = scan(texts, texts.valid)
    assert scanned is not None
    assert len(scanned.rows) == len(events)
    grove = Grove(scanned, {}, False)
    assert sum(map(len, trees)) + len(trees) == len(grove.forest.label)
    ways: dict[str, Callable[[], object]] = {
        "parsing, by scanning": lambda: scan(texts, texts.valid),
        "parsing, by Expat's callbacks": lambda: list(map(parse_document, given)),
        "parsing, by lxml": lambda: list(map(etree.fromstring, encoded)),
        "to arrays": lambda: Grove(scanned, {}, False),
        "to summaries": lambda: (grove._summaries.clear(), grove.summaries()),
    }
    workload = f"{len(events)} documents of 30 KB"
    checked = "as many nodes as by Expat"
    return [
        Result(
            workload,
            "documents",
            what,
            1e3 * best_of(5, way)[0] / len(events),
            "ms per document",
            checked,
            "<= 0.2" if "scanning" in what else "",
        )
        for what, way in ways.items()
    ]


def _matching(
    workload: str,
    filters: Sequence[PathFilter],
    events: Sequence[Event],
    fresh: Sequence[Event],
    quick: bool,
) -> list[Result]:
    batch = EventBatch.from_events(events)
    results: list[Result] = []

    def report(engine: str, measure: str, value: float, unit: str, target: str = "") -> None:
        results.append(Result(workload, engine, measure, value, unit, CHECKED, target))

    index = PathClasses()
    index.add_many(range(len(filters)), filters)
    compiling, _ = best_of(1, lambda: list(index.segments()))
    report("classes", "compiling a filter", 1e6 * compiling / len(filters), "us")
    expected = _pairs(index.match_batch(batch))
    _check_sample(filters, events, expected)
    report("classes", "matches", len(expected) / batch.rows, "filters per document")
    alone = [EventBatch.from_events([event]) for event in events]
    assert {
        (row, slot) for row, each in enumerate(alone) for _, slot in _pairs(index.match_batch(each))
    } == expected
    index.share = False
    assert _pairs(index.match_batch(EventBatch.from_events(events))) == expected
    index.share = True
    results += _costs(workload, index, filters, fresh, len(events))
    report("classes", "memory", index.memory() / len(filters), "bytes per filter")
    for length in (128, 256, 1024):
        bloom = PathBloom(length)
        bloom.add_many(range(len(filters)), filters)
        assert _pairs(bloom.match_batch(batch)) == expected
        bloom.statistics = Preselection()
        seconds, _ = best_of(1, lambda bloom=bloom: bloom.match_batch(batch))
        name = f"bloom, {length} bits"
        report(name, "matching", 1e3 * seconds / batch.rows, "ms per document")
        report(name, "candidates", bloom.statistics.candidates / batch.rows, "filters per document")
        report(name, "false positives", 100 * bloom.statistics.rate, "% of what does not match")
        report(name, "memory", bloom.memory() / len(filters), "bytes per filter")
    results += _automaton(workload, filters, batch, expected, 9 if quick else 3)
    return results


def _costs(
    workload: str, index: PathClasses, filters: Sequence[PathFilter], fresh: Sequence[Event], size: int
) -> list[Result]:
    """Reading and matching, in batches and alone, by the index and by a `Matcher` of the same paths."""
    matcher = Matcher(Subscription(f"s{at}", "ann", path=each.text) for at, each in enumerate(filters))
    first = fresh[0]
    assert sorted(f"s{slot}" for slot in index.match(first)) == matcher.match(first)
    spent: dict[tuple[str, str], list[float]] = {}

    def take(engine: str, measure: str, way: Callable[[Any], object], parts: Sequence[object]) -> None:
        start = time.process_time()
        for part in parts:
            way(part)
        spent.setdefault((engine, measure), []).append(1e3 * (time.process_time() - start) / size)

    for turn in range(ROUNDS + 1):
        events = fresh[turn * size : (turn + 1) * size]
        single = [[event] for event in events]
        take("documents", "reading, one at a time", EventBatch.from_events, single)
        for share, name in ((True, "classes"), (False, "classes, no shared summaries")):
            index.share = share
            take(name, "matching", index.match_batch, [EventBatch.from_events(events)])
        index.share = True
        take("Matcher", "matching", matcher.matches, [EventBatch.from_events(events)])
        alone = list(map(EventBatch.from_events, single))
        take("classes", "matching, one document at a time", index.match_batch, alone)
        take("classes", "reading and matching, one at a time", index.match, events)
        take("Matcher", "reading and matching, one at a time", matcher.match, events)
    targets = {
        ("classes", "matching"): "<= 1",
        ("classes", "matching, one document at a time"): "<= 1",
    }
    # The first round is where layouts are met first.
    results = {
        what: Result(workload, *what, median(times[1:]), "ms per document", CHECKED, targets.get(what, ""))
        for what, times in spent.items()
    }
    compared = ("matching", "reading and matching, one at a time")
    return [
        *results.values(),
        *(ratio(results["Matcher", each], results["classes", each], "<= 1.3 times") for each in compared),
    ]


def _automaton(
    workload: str, filters: Sequence[PathFilter], batch: EventBatch, expected: set[tuple[int, int]], rows: int
) -> list[Result]:
    """The baseline, on a few documents."""
    index = PathAutomaton()
    index.add_many(range(len(filters)), filters)
    trees = [tree for row in range(rows) if (tree := batch.document(row)) is not None]
    ask: Callable[[], list[list[int]]] = lambda: [index.match_document(tree) for tree in trees]  # noqa: E731
    seconds, found = best_of(1, ask)
    assert {(row, slot) for row, slots in enumerate(found) for slot in slots} == {
        pair for pair in expected if pair[0] < rows
    }
    return [
        Result(workload, "automaton", measure, value, unit, CHECKED)
        for measure, value, unit in (
            ("matching", 1e3 * seconds / rows, "ms per document"),
            ("memory", index.memory() / len(filters), "bytes per filter"),
        )
    ]


def _pairs(found: Pairs) -> set[tuple[int, int]]:
    return set(zip(found.rows.tolist(), found.slots.tolist(), strict=True))


def _check_sample(
    filters: Sequence[PathFilter], events: Sequence[Event], found: set[tuple[int, int]]
) -> None:
    random = np.random.default_rng(0)
    sample = random.choice(len(filters), min(SAMPLE, len(filters)), replace=False).tolist()
    sample += [slot for _, slot in sorted(found)[:: max(1, len(found) // SAMPLE)]]
    for row, event in enumerate(events[:9]):
        tree = etree.ElementTree(etree.fromstring((event.document or "").encode()))
        for slot in sample:
            assert bool(tree.xpath(filters[slot].text)) == ((row, slot) in found), (row, filters[slot])
