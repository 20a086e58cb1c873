"""From the bytes of JSON lines to matches, as `distributary match` goes, beside an object for each line.

Processor time, because the machine may have neighbours. pyarrow.json, and orjson where it is installed, read
the same lines, but not what we check: a key given twice, numbers that a double cannot hold, the bounds.
"""

from __future__ import annotations

import io
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any

from pyarrow import json as arrow_json

from bench.report import Result
from distributary.cli.event_batches import event_batches
from distributary.files import read_events, read_subscriptions, write_records
from distributary.matching.answers import matches_table
from distributary.matching.matcher import Matcher
from distributary.model import Event
from distributary.quarantine import Quarantine
from distributary.table_lines import table_lines
from distributary.workloads import market

SEED = 1
CHUNK = 4096
ROUNDS = 5


def run(quick: bool) -> list[Result]:
    count, events = (2_000, 1_000) if quick else (100_000, 20_000)
    with tempfile.TemporaryDirectory() as directory:
        wanted, lines = Path(directory, "subscriptions.jsonl"), Path(directory, "events.jsonl")
        for path, things in (
            (wanted, market.subscriptions(count, seed=SEED)),
            (lines, market.events(events, seed=SEED)),
        ):
            with path.open("w") as stream:
                write_records(stream, (thing.to_record() for thing in things))
        return [*_reading(str(lines), events), *_command(str(wanted), str(lines), count, events)]


def _reading(lines: str, events: int) -> list[Result]:
    """The lines as batches with all their columns, and as what other readers give."""
    one_by_one = [event.id for event in _one_by_one(lines)]
    if [id for batch in _batches(lines) for id in batch.ids.to_pylist()] != one_by_one:
        raise AssertionError("the batches have other events than the lines read one by one")
    data = Path(lines).read_bytes()
    ways: dict[str, Callable[[], Any]] = {
        "batches": lambda: [batch.column(name) for batch in _batches(lines) for name in batch.attributes],
        "one by one": lambda: list(_one_by_one(lines)),
        "pyarrow.json": lambda: arrow_json.read_json(io.BytesIO(data)),
    }
    if find_spec("orjson"):
        import orjson

        ways["orjson"] = lambda: [orjson.loads(line) for line in data.splitlines()]
    seconds = _alternating(ways)
    return [
        Result(
            "market events from JSON lines",
            way,
            "reading an event",
            1e6 * each / events,
            "us",
            "lines one by one",
        )
        for way, each in seconds.items()
    ]


def _command(wanted: str, lines: str, count: int, events: int) -> list[Result]:
    """What the command does but for starting: registering, then events to lines of matches."""
    start = time.process_time()
    matcher = Matcher(subscription for _, subscription in Quarantine().accept(read_subscriptions(wanted)))
    registering = time.process_time() - start
    if _matched(matcher, lines) != _matched_one_by_one(matcher, lines):
        raise AssertionError("the batches match otherwise than the lines read one by one")
    ways = {
        "batches": lambda: _matched(matcher, lines),
        "one by one": lambda: _matched_one_by_one(matcher, lines),
    }
    seconds = _alternating(ways)
    workload, checked = f"market, {count:,} subscriptions", "lines one by one, byte for byte"
    ratio = seconds["one by one"] / seconds["batches"]
    return [
        *(
            Result(workload, way, "events a second", events / each, "events/s", checked)
            for way, each in seconds.items()
        ),
        Result(workload, "batches / one by one", "how much faster", ratio, "x", checked),
        Result(workload, "Matcher", "registering from a file", registering, "s", checked),
    ]


def _matched(matcher: Matcher, lines: str) -> str:
    matcher.forget()
    return "".join(table_lines(matches_table(batch, matcher.matches(batch))) for batch in _batches(lines))


def _matched_one_by_one(matcher: Matcher, lines: str) -> str:
    """An object for each event and each match."""
    matcher.forget()
    out = io.StringIO()
    events = _one_by_one(lines)
    while chunk := list(islice(events, CHUNK)):
        found = matcher.match_batch(chunk)
        pairs = zip(found["event_id"].to_pylist(), found["subscription_id"].to_pylist(), strict=True)
        write_records(out, ({"event": event, "subscription": wanted} for event, wanted in pairs))
    return out.getvalue()


def _one_by_one(lines: str) -> Iterator[Event]:
    return (event for _, event in Quarantine(strict=True).accept(read_events(lines)))


def _batches(lines: str) -> Iterator[Any]:
    return (batch for batch, _ in event_batches(lines, CHUNK, Quarantine(strict=True)))


def _alternating(ways: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """The median processor time of each, all in turn, so that neighbours disturb them alike."""
    taken: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, action in ways.items():
            start = time.process_time()
            action()
            taken[way].append(time.process_time() - start)
    return {way: median(times) for way, times in taken.items()}
