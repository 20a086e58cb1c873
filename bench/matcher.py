"""Matcher as a whole: building a million, matching a market, live changes, freezing and opening."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from itertools import islice
from pathlib import Path

from bench.alone import Contender, costs, matcher_answers
from bench.changes import EVENTS, ChangeCosts, change_costs, fresh, warm
from bench.report import Result, best_of
from distributary.matching import frozen
from distributary.matching.batch import EventBatch
from distributary.matching.matcher import Matcher
from distributary.model import Event, Subscription
from distributary.workloads import market

SEED = 1


def run(quick: bool) -> list[Result]:
    count = 5_000 if quick else 100_000
    subscriptions = list(market.subscriptions(count, seed=SEED))
    events = list(market.events(1_000 if quick else 20_000, seed=SEED))
    checked = _check(subscriptions, events)
    return [
        *_matching(subscriptions, events, checked),
        *_changes(subscriptions, list(market.events(EVENTS, seed=SEED))),
        *_frozen(subscriptions, events, checked),
        *_opened_changes(subscriptions, events[:100]),
        *_building(20_000 if quick else 1_000_000),
    ]


def _check(subscriptions: list[Subscription], events: list[Event]) -> str:
    """Compare with evaluating every filter for every event, on a part of the data."""
    few, some = subscriptions[:1500], events[:120]
    plain = Matcher(few, engines={"topic": "scan", "where": "scan", "path": "scan", "change": "sf"})
    if not Matcher(few).match_batch(some).equals(plain.match_batch(some)):
        raise AssertionError("the matcher disagrees with evaluating every filter")
    return f"scan of {len(few):,} x {len(some):,}"


def _matching(subscriptions: list[Subscription], events: list[Event], checked: str) -> list[Result]:
    matcher = Matcher(subscriptions)
    workload = f"market, {len(subscriptions):,} subscriptions"
    matches = len(matcher.match_batch(events))

    def again() -> None:
        matcher.forget()
        for at in range(0, len(events), 8192):
            matcher.match_batch(events[at : at + 8192])

    seconds, _ = best_of(3, again)
    plain = Matcher(subscriptions, engines={"topic": "scan", "where": "scan", "path": "scan", "change": "sf"})
    slow, _ = best_of(1, lambda: plain.match_batch(events[:10]))
    rate, slow_rate = len(events) / seconds, 10 / slow
    return [
        Result(workload, "default", "events a second", rate, "events/s", checked),
        Result(workload, "default", "matches an event", matches / len(events), "matches", checked),
        Result(workload, "scan", "events a second", slow_rate, "events/s", checked),
        Result(workload, "default / scan", "how much faster", rate / slow_rate, "x", checked),
        Result(
            workload, "default", "bytes a subscription", matcher.size().total / len(matcher), "B", checked
        ),
        *_by_size(workload, matcher, events, checked),
    ]


def _by_size(workload: str, matcher: Matcher, events: list[Event], checked: str) -> list[Result]:
    """One event at a time and in batches."""
    contender = Contender(
        workload,
        "default",
        events,
        matcher.match,
        lambda first, last: EventBatch.from_events(events[first:last]),
        matcher.matches,
        matcher_answers,
        matcher.forget,
    )
    return costs(contender, checked, "<= 60")


def _changes(subscriptions: list[Subscription], events: list[Event]) -> list[Result]:
    """Additions and removals on a large matcher, and the batch that follows; kernels are loaded before."""
    warm()
    matcher = Matcher(subscriptions)
    return _change_rows(len(subscriptions), change_costs(matcher, events))


def _change_rows(count: int, costs: ChangeCosts) -> list[Result]:
    workload = f"changes among {count:,}"
    checked = "answers from before, amid changes and when all is undone"
    rows = [
        ("add one, median", costs.add * 1e6, "us"),
        ("add one, worst", costs.worst_add * 1e6, "us"),
        ("remove one, median", costs.remove * 1e6, "us"),
        ("remove one, worst", costs.worst_remove * 1e6, "us"),
        ("the very first addition", costs.first_add * 1e6, "us"),
        ("4,000 events without changes", costs.batch * 1e3, "ms"),
        ("4,000 events after 1,000 changes", costs.after_changes * 1e3, "ms"),
    ]
    ratio = costs.after_changes / costs.batch
    return [
        *(Result(workload, "default", measure, value, unit, checked) for measure, value, unit in rows),
        Result(workload, "after changes / without", "how much slower", ratio, "x", checked, "< 1.2 x"),
    ]


def _frozen(subscriptions: list[Subscription], events: list[Event], checked: str) -> list[Result]:
    matcher = Matcher(subscriptions)
    workload = f"{len(subscriptions):,} subscriptions"
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "frozen"
        write, _ = best_of(1, lambda: matcher.freeze(path))
        read, opened = best_of(3, lambda: Matcher.open(path))
        if not opened.match_batch(events[:500]).equals(matcher.match_batch(events[:500])):
            raise AssertionError("the opened matcher disagrees with the one that was frozen")
        size = sum(file.stat().st_size for file in path.iterdir())
    return [
        Result(workload, "default", "freeze", write, "s", checked),
        Result(workload, "default", "open", read * 1e3, "ms", "the matcher that was frozen"),
        Result(workload, "default", "bytes on disk a subscription", size / len(subscriptions), "B", checked),
    ]


def _opened_changes(subscriptions: list[Subscription], events: list[Event]) -> list[Result]:
    """Open a frozen matcher, remove 50, add 50 and match a batch, beside building anew what results."""
    added = fresh(50, SEED + 1)
    batch = EventBatch.from_events(events)
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "frozen"
        Matcher(subscriptions).freeze(path)

        def change() -> Matcher:
            matcher = Matcher.open(path)
            for subscription in subscriptions[:50]:
                matcher.remove(subscription.id)
            for subscription in added:
                matcher.add(subscription)
            matcher.matches(batch, tolerances="ignore")
            return matcher

        changing, changed = best_of(3, change)
        building, built = best_of(1, lambda: Matcher([*subscriptions[50:], *added]))
        if not changed.match_batch(events).equals(built.match_batch(events)):
            raise AssertionError("the changed matcher disagrees with one built anew")
        del changed
    workload = f"100 changes on an opened matcher of {len(subscriptions):,}"
    checked = "a matcher built anew"
    return [
        Result(workload, "default", "open, change and match 100 events", changing * 1e3, "ms", checked),
        Result(workload, "default / building anew", "how much faster", building / changing, "x", checked),
    ]


def _building(count: int) -> list[Result]:
    """In a process of its own, so that its peak of memory is told apart from that of the rest."""
    command = [sys.executable, "-c", f"from bench.matcher import build; build({count})"]
    here = Path(__file__).parent.parent
    told = json.loads(subprocess.run(command, cwd=here, capture_output=True, text=True, check=True).stdout)
    workload = f"build {count:,} (market)"
    unchecked = "count of subscriptions"
    large = count == 1_000_000
    rows = [
        ("processor time", told["seconds"], "s", "< 24 s" if large else ""),
        ("peak of the process", told["peak"] / 1e6, "MB", "< 515 MB" if large else ""),
        ("of that, before building", told["before"] / 1e6, "MB", ""),
        ("bytes a subscription", told["size"] / count, "B", ""),
        ("freeze", told["freeze"], "s", ""),
        ("open", told["open"] * 1e3, "ms", "< 20 ms"),
        ("open and match one event", told["open_and_match"] * 1e3, "ms", "< 20 ms" if large else ""),
        ("open and match one event again", told["open_and_match_again"] * 1e3, "ms", ""),
        ("open and check everything", told["check"] * 1e3, "ms", ""),
    ]
    return [
        *(
            Result(workload, "default", measure, value, unit, unchecked, target)
            for measure, value, unit, target in rows
        ),
        *_change_rows(count, ChangeCosts(*told["changes"])),
    ]


def build(count: int) -> None:
    """Print the seconds of the processor, the memory before and at the peak, and what follows, as JSON.

    Subscriptions are made as they are registered, so that they do not count as the matcher's memory; the
    time of making them is measured apart and taken off.
    """
    small = Matcher(market.subscriptions(2_000, seed=SEED))
    events = list(islice(market.events(4_000, seed=SEED), 4_000))
    small.match_batch(events[:64])
    for event in events[:64]:
        small.match(event)
    before = _peak()
    start = time.process_time()
    made = sum(1 for _ in market.subscriptions(count, seed=SEED))
    generating = time.process_time() - start
    start = time.process_time()
    matcher = Matcher(market.subscriptions(count, seed=SEED))
    seconds = time.process_time() - start - generating
    peak = _peak()
    if len(matcher) != made:
        raise AssertionError("not every subscription was registered")
    told = {"seconds": seconds, "before": before, "peak": peak, "size": matcher.size().total}
    told |= _freeze_and_open(matcher, events)
    warm()
    print(json.dumps({**told, "changes": change_costs(matcher, events)}))


def _freeze_and_open(matcher: Matcher, events: list[Event]) -> dict[str, float]:
    """Seconds to freeze, to open, to check everything, and to open and match one event.

    All but the first two are the processor's: what is read was just written, so no disk is waited for. The
    first event checks the arrays it needs.
    """
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "frozen"
        freeze, _ = best_of(1, lambda: matcher.freeze(path))
        # Each of these checks reads all, for what changed just now is not remembered as checked.
        check, _ = best_of(3, lambda: Matcher.open(path, check=True), time.process_time)
        time.sleep(frozen.SETTLED_SECONDS + 0.5)
        cold, opened = best_of(1, lambda: Matcher.open(path).match(events[0]), time.process_time)
        warmed, again = best_of(3, lambda: Matcher.open(path).match(events[0]), time.process_time)
        matcher.forget()
        if not opened == again == matcher.match(events[0]):
            raise AssertionError("the opened matcher disagrees with the one that was frozen")
        matcher.forget()
        read, _ = best_of(3, lambda: Matcher.open(path))
    return {
        "freeze": freeze,
        "open": read,
        "check": check,
        "open_and_match": cold,
        "open_and_match_again": warmed,
    }


def _peak() -> int:
    """The most memory this process has held, in bytes; elsewhere than on Linux, its parent's too."""
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [line for line in status.read_text().splitlines() if line.startswith("VmHWM")]
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
