"""Cost against size: 1,000 to 1,000,000 subscriptions of each kind, one event and batches.

python -m bench sizes                     all kinds; numbers in build/sizes.json, plots in docs/cost-*.svg
python -m bench sizes --only topic,path   some kinds; what was measured of others before stays
python -m bench sizes --quick             up to 10,000 subscriptions; the plots go to build/

A `Matcher` holds all subscriptions of one kind. Every round has events of its own. Answers for one event and
for batches are compared with each other at every size, and with plain evaluation at the smallest.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from random import Random
from statistics import median
from typing import Any

import pyarrow as pa

from bench.peers.topics import hit, patterns_of
from bench.report import Result
from distributary.errors import DistributaryError
from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matcher
from distributary.model import Event
from distributary.workloads import Workload, documents, market, quotes, ranges, rules, topics

SEED = 1
ROUNDS = 3
CHECKED = 20
NUMBERS = Path("build/sizes.json")
SCAN = {"topic": "scan", "where": "scan", "path": "scan", "change": "sf"}


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of subscription: its workload, and how many events a round has."""

    title: str
    workload: Workload
    batch: int
    single: int
    forgets: bool = True
    """Whether each round begins with tolerances that have seen no value."""


KINDS = {
    "topic": Kind("topics of 7 levels, one of them a wildcard, every event a hit", topics, 20_000, 300),
    "rules": Kind("conditions: 3 to 5 equalities and ranges", rules, 10_000, 300),
    "ranges": Kind("conditions of 4 ranges, 16 matches in 10,000", ranges, 4_000, 200),
    "path": Kind("paths over documents of 4,000 characters", documents, 400, 50),
    "change": Kind("tolerances on the quotes of 30 stocks", quotes, 1_000, 100, forgets=False),
    "mixed": Kind("market: topics, conditions, paths and tolerances", market, 4_000, 200),
}


def known(quick: bool) -> list[str]:
    """What can be asked for."""
    return list(KINDS)


def run(quick: bool, only: Collection[str] = ()) -> list[Result]:
    """Measure the kinds named in `only` (default: all), write the numbers and draw a plot of each kind."""
    sizes = (1_000, 10_000) if quick else (1_000, 10_000, 100_000, 1_000_000)
    chosen = [name for name in KINDS if not only or name in only]
    numbers = NUMBERS.with_name("sizes-quick.json") if quick else NUMBERS
    rows = []
    for name in chosen:
        for size in sizes:
            rows += _measured(name, size)
            kept = _kept(numbers, [row for row in rows if row["kind"] == name])
            _draw(name, kept, numbers.parent if quick else Path("docs"))
    return [
        Result(KINDS[row["kind"]].title, f"{row['subscriptions']:,}", what, row[what], unit, "batch and one")
        for row in rows
        for what, unit in (("microseconds", row["given"]), ("matches", "an event"))
    ]


def _kept(numbers: Path, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """All rows in the file, after these have taken the place of those of the same kind and size."""
    numbers.parent.mkdir(parents=True, exist_ok=True)
    before = json.loads(numbers.read_text()) if numbers.exists() else []
    measured = {(row["kind"], row["subscriptions"]) for row in rows}
    kept = [row for row in before if (row["kind"], row["subscriptions"]) not in measured] + rows
    numbers.write_text(json.dumps(kept, indent=1) + "\n")
    return kept


def _measured(name: str, size: int) -> Iterator[dict[str, Any]]:
    """Microseconds of processor time an event at one size: one by one, by 64, and in a large batch."""
    print(f"{time.strftime('%H:%M:%S')} {size:,} {name}", file=sys.stderr, flush=True)
    kind = KINDS[name]
    options = {"size": 4_000} if name == "path" else {}
    count = (kind.batch + kind.single) * (ROUNDS + 1)
    stream = _hits(size, count) if name == "topic" else kind.workload.events(count, seed=SEED, **options)
    matcher = Matcher(kind.workload.subscriptions(size, seed=SEED))

    def match(batch: pa.RecordBatch) -> object:
        return matcher.matches(EventBatch.from_table(batch))

    matches = _check(matcher, kind, list(islice(stream, kind.batch)), size)
    spent: dict[str, list[float]] = {"one event": [], "64 events": [], "batches": []}
    for _ in range(ROUNDS):
        single, many = list(islice(stream, kind.single)), _given(list(islice(stream, kind.batch)))
        small = [many.slice(at, 64) for at in range(0, min(many.num_rows, 1_024), 64)]
        if kind.forgets:
            matcher.forget()
        spent["one event"].append(_timed(matcher.match, single, len(single)))
        spent["64 events"].append(_timed(match, small, sum(part.num_rows for part in small)))
        spent["batches"].append(_timed(match, [many], many.num_rows))
    for given, times in spent.items():
        row = {"kind": name, "subscriptions": size, "given": given}
        yield {**row, "microseconds": median(times), "matches": matches}


def _hits(size: int, count: int) -> Iterator[Event]:
    """Events each of which hits one of the topic patterns at least; random topics would hardly ever."""
    patterns = patterns_of(size)
    random = Random(SEED)
    return (Event(f"e{number}", topic=hit(random.choice(patterns), random)) for number in range(count))


def _given(events: list[Event]) -> pa.RecordBatch:
    """The events as a batch of Arrow's."""
    rows: list[dict[str, object]] = [
        {"id": event.id, "topic": event.topic, "document": event.document, **event.attributes}
        for event in events
    ]
    names = dict.fromkeys(name for row in rows for name in row)
    return pa.RecordBatch.from_pydict({name: [row.get(name) for row in rows] for name in names})


def _timed(match: Callable[[Any], object], parts: list[Any], events: int) -> float:
    start = time.process_time()
    for part in parts:
        match(part)
    return (time.process_time() - start) * 1e6 / events


def _check(matcher: Matcher, kind: Kind, events: list[Event], size: int) -> float:
    """Compare the ways with each other, at 1,000 with plain evaluation too; how many match an event."""
    few = events[:CHECKED]
    found = matcher.matches(EventBatch.from_table(_given(events)))
    matcher.forget()
    batch = matcher.matches(EventBatch.from_table(_given(few)))
    together = list(zip(batch.rows.tolist(), batch.subscriptions.to_pylist(), strict=True))
    matcher.forget()
    one_by_one = [(row, name) for row, event in enumerate(few) for name in matcher.match(event)]
    if sorted(together) != sorted(one_by_one):
        raise AssertionError(f"{kind.title}: one event and batches disagree")
    if size <= 1_000:
        plain = Matcher(kind.workload.subscriptions(size, seed=SEED), engines=SCAN)
        if sorted(together) != sorted(
            (row, name) for row, event in enumerate(few) for name in plain.match(event)
        ):
            raise AssertionError(f"{kind.title}: plain evaluation disagrees")
    return len(found.rows) / len(events)


def _draw(name: str, rows: list[dict[str, Any]], folder: Path) -> None:
    """The plot of one kind, as an SVG file on white; nothing without matplotlib."""
    from distributary_lab.experiment import Plot
    from distributary_lab.plots import svg

    title = KINDS[name].title
    plot = Plot(
        title,
        x="subscriptions",
        y="microseconds",
        series="given",
        log_x=True,
        log_y=True,
        y_label="microseconds an event",
    )
    try:
        text = svg(plot, [row for row in rows if row["kind"] == name], f"cost-{name}")
    except DistributaryError as error:
        print(error, file=sys.stderr)
        return
    text = text.replace(">", f'><title>{title}</title><rect width="100%" height="100%" fill="#fff"/>', 1)
    (folder / f"cost-{name}.svg").write_text(text + "\n")
