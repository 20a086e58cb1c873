"""The command `distributary match`: matches events against subscriptions, files of both, in this process."""

from __future__ import annotations

import argparse
import json
import time
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from distributary.cli.arguments import engine, whole
from distributary.cli.event_batches import event_batches
from distributary.cli.terminal import (
    add_quarantine,
    describe,
    progress_shown,
    say,
    say_rejected,
)
from distributary.errors import InputError, RegisteredAlreadyError, quoted
from distributary.files import opened_for_tables, read_subscriptions
from distributary.filters.kinds import added_kinds
from distributary.model import Subscription
from distributary.output import STANDARD, require_distinct, require_one_standard_input
from distributary.quarantine import Quarantine, Rejection, rejection

if TYPE_CHECKING:
    from rich.progress import Progress

    from distributary.matching.matcher import Matcher

CHUNK = 4096
"""Events matched at a time, where so many are there."""

SHOWN = 1000
"""Subscriptions between two steps of the progress."""

TEXT = pa.string()
MATCHES = pa.schema({"event": TEXT, "subscription": TEXT})
DELIVERIES = pa.schema({"event": TEXT, "subscriber": TEXT, "subscriptions": pa.list_(TEXT)})
"""The columns of what is written, when it is a table."""


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command and add its arguments."""
    describe(
        command,
        """Writes one JSON object a match, {"event": id, "subscription": id}, in the order of the events, then
by subscription id. Files are JSON lines, or Parquet or Arrow tables when they end in .parquet, .arrow or
.feather; - is standard input or output.""",
        """  distributary match --subscriptions subs.jsonl --events events.jsonl --out matches.jsonl
  tail -f feed.jsonl | distributary match --subscriptions subs.jsonl --events -
  distributary match --subscriptions subs.jsonl --events events.jsonl --deliveries""",
    )
    command.add_argument("--subscriptions", required=True, metavar="FILE", help="the standing subscriptions")
    command.add_argument("--events", required=True, metavar="FILE", help="the events")
    command.add_argument(
        "--out", default=STANDARD, metavar="FILE", help="the matches, a table by its ending (default: -)"
    )
    command.add_argument(
        "--deliveries",
        action="store_true",
        help='one object for each event and subscriber instead: {"event", "subscriber", "subscriptions"}',
    )
    add_quarantine(command, "malformed input goes here (default: quarantine.jsonl beside --out)")
    command.add_argument("--strict", action="store_true", help="stop at the first malformed input")
    command.add_argument(
        "--engine",
        action="append",
        type=engine,
        default=[],
        metavar="KIND=NAME",
        help="the algorithm for a filter kind, such as topic=tree (default: the fastest)",
    )
    command.add_argument(
        "--chunk",
        type=whole(1),
        default=CHUNK,
        metavar="N",
        help=f"events matched at once, at most ({CHUNK})",
    )
    command.set_defaults(run=_match)


def _match(parsed: argparse.Namespace) -> int:
    from distributary.kernel.progress import compiling_told

    require_one_standard_input(parsed.subscriptions, parsed.events)
    place = _quarantine_path(parsed)
    require_distinct(
        {"--subscriptions": parsed.subscriptions, "--events": parsed.events},
        {"--out": parsed.out, "--quarantine": str(place)},
    )
    with (
        Quarantine(place, strict=parsed.strict) as quarantine,
        progress_shown() as progress,
        compiling_told(say),
    ):
        matcher = _built(dict(parsed.engine), parsed.subscriptions, quarantine, progress)
        with opened_for_tables(parsed.out, DELIVERIES if parsed.deliveries else MATCHES) as write:
            done = _match_events(matcher, parsed, write, quarantine, progress)
    what = "deliveries" if parsed.deliveries else "matches"
    told = f"{done.events:,} events against {len(matcher):,} subscriptions: {done.written:,} {what}"
    say(told + done.rate())
    _say_slow(matcher)
    return say_rejected(quarantine)


def _built(engines: dict[str, str], name: str, quarantine: Quarantine, progress: Progress) -> Matcher:
    """The matcher of the subscriptions of a file; those that are refused are set aside."""
    from distributary.matching.matcher import Matcher

    task = progress.add_task("subscriptions", total=None)
    reading = _SubscriptionReading(quarantine, lambda count: progress.update(task, completed=count))
    try:
        matcher = Matcher(reading.read(name), engines=engines, refused=reading.refused)
    finally:
        reading.reject_waiting()
    progress.update(task, total=len(matcher), completed=len(matcher))
    return matcher


class _SubscriptionReading:
    """Reads a file of subscriptions for a matcher; what is malformed is rejected in the order of the lines.

    The matcher registers some thousands at a time, and only then refuses. So what cannot be read waits until
    the subscriptions before it are registered: until one that stands behind it is refused, or so many are
    read that the matcher has taken all before them.
    """

    def __init__(self, quarantine: Quarantine, show: Callable[[int], None]) -> None:
        self._quarantine = quarantine
        self._show = show
        self._places: list[str] = []
        self._waiting: deque[tuple[int, Rejection]] = deque()
        """What could not be read, and how many subscriptions stand before it."""
        self._accepted_before: list[int] = []
        """For each subscription that was refused, how many were registered before it."""

    def read(self, name: str) -> Iterator[Subscription]:
        """The subscriptions that can be read."""
        from distributary.matching.bulk import LOT

        for one in read_subscriptions(name, added_kinds()):
            read = len(self._places)
            if isinstance(one, Rejection):
                self._waiting.append((read, one))
                if self._quarantine.strict:
                    self.reject_waiting()
                continue
            if read % LOT == 0:
                self.reject_waiting()
            if read % SHOWN == 0:
                self._show(read)
            place, subscription = one
            self._places.append(place)
            yield subscription

    def refused(self, position: int, subscription: Subscription, error: InputError) -> None:
        """Reject a subscription that the matcher does not take; of a repeated id, say where it stands."""
        self.reject_waiting(position)
        record = json.dumps(subscription.to_record(), default=str)
        if isinstance(error, RegisteredAlreadyError):
            # Of those refused so far, these stand before the one that is kept.
            before = bisect_right(self._accepted_before, error.kept)
            place = self._places[error.kept + before]
            reason = f"{quoted(subscription.id)} is registered already, by {place}, which is kept"
            error = InputError(reason, field=error.field)
        self._accepted_before.append(position - len(self._accepted_before))
        self._quarantine.add(rejection(self._places[position], error, record))

    def reject_waiting(self, position: int | None = None) -> None:
        """Reject what waits, up to the subscription at a position."""
        while self._waiting and (position is None or self._waiting[0][0] <= position):
            self._quarantine.add(self._waiting.popleft()[1])


def _match_events(
    matcher: Matcher,
    parsed: argparse.Namespace,
    write: Callable[[pa.Table], None],
    quarantine: Quarantine,
    progress: Progress,
) -> _Done:
    """Match all events and write what is found."""
    from distributary.matching.answers import deliveries_table, matches_table

    answer = deliveries_table if parsed.deliveries else matches_table
    task = progress.add_task("events", total=None)
    done = _Done()
    for batch, place_of in event_batches(parsed.events, parsed.chunk, quarantine):
        for row, error in sorted(batch.rejected.items()):
            place, record = place_of(row)
            quarantine.add(rejection(place, error, json.dumps(record, default=str)))
        answers = answer(batch, matcher.matches(batch))
        write(answers)
        done.take(batch.rows - len(batch.rejected), len(answers))
        progress.advance(task, batch.rows)
    progress.update(task, total=done.events)
    return done


class _Done:
    """How much has been matched, and how fast once everything was loaded: from the second batch on."""

    def __init__(self) -> None:
        self.events = self.written = 0
        self._first: tuple[int, float] | None = None
        """The events of the first batch, and when it was done."""

    def take(self, events: int, written: int) -> None:
        """A batch is done."""
        self.events += events
        self.written += written
        if self._first is None:
            self._first = events, time.perf_counter()

    def rate(self) -> str:
        """Events a second, for the summary; nothing when there was but one batch."""
        if self._first is None or self.events == self._first[0]:
            return ""
        events, since = self._first
        return f" ({(self.events - events) / (time.perf_counter() - since):,.0f} events/s)"


def _quarantine_path(parsed: argparse.Namespace) -> Path:
    if parsed.quarantine:
        return Path(parsed.quarantine)
    out = Path(parsed.out)
    beside = out.parent if parsed.out != STANDARD and (out.is_file() or not out.exists()) else Path()
    return beside / "quarantine.jsonl"


def _say_slow(matcher: Matcher) -> None:
    for subscription_id, reason in islice(matcher.slow.items(), 5):
        say(f"slow: subscription {subscription_id!r} is evaluated event by event: {reason}")
    if len(matcher.slow) > 5:
        say(f"slow: and {len(matcher.slow) - 5:,} more")
