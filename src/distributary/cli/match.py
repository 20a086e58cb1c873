"""The command `distributary match`: matches events against subscriptions, files of both, in this process."""

from __future__ import annotations

import argparse
import json
import time
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
from distributary.errors import DistributaryError, InputError
from distributary.files import opened_for_tables, read_subscriptions
from distributary.filters.kinds import added_kinds
from distributary.model import Subscription
from distributary.output import STANDARD, require_distinct
from distributary.quarantine import Quarantine, rejection

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
    from distributary.kernel import compiling_told

    if parsed.subscriptions == STANDARD and parsed.events == STANDARD:
        raise DistributaryError("subscriptions and events cannot both come from standard input")
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
        start = time.perf_counter()
        with opened_for_tables(parsed.out, DELIVERIES if parsed.deliveries else MATCHES) as write:
            events, written = _match_events(matcher, parsed, write, quarantine, progress)
        seconds = time.perf_counter() - start
    what = "deliveries" if parsed.deliveries else "matches"
    rate = f"{events / seconds:,.0f} events/s" if seconds else ""
    say(f"{events:,} events against {len(matcher):,} subscriptions: {written:,} {what} ({rate})")
    _say_slow(matcher)
    return say_rejected(quarantine)


def _built(engines: dict[str, str], name: str, quarantine: Quarantine, progress: Progress) -> Matcher:
    """The matcher of the subscriptions of a file; those that are refused are set aside."""
    from distributary.matching.matcher import Matcher

    task = progress.add_task("subscriptions", total=None)
    places: list[str] = []

    def read() -> Iterator[Subscription]:
        for place, subscription in quarantine.accept(read_subscriptions(name, added_kinds())):
            places.append(place)
            if len(places) % SHOWN == 0:
                progress.update(task, completed=len(places))
            yield subscription

    def refused(position: int, subscription: Subscription, error: InputError) -> None:
        record = json.dumps(subscription.to_record(), default=str)
        quarantine.add(rejection(places[position], error, record))

    matcher = Matcher(read(), engines=engines, refused=refused)
    progress.update(task, total=len(matcher), completed=len(matcher))
    return matcher


def _match_events(
    matcher: Matcher,
    parsed: argparse.Namespace,
    write: Callable[[pa.Table], None],
    quarantine: Quarantine,
    progress: Progress,
) -> tuple[int, int]:
    """How many events were matched, and how many objects written."""
    from distributary.matching.answers import deliveries_table, matches_table

    answer = deliveries_table if parsed.deliveries else matches_table
    task = progress.add_task("events", total=None)
    matched = written = 0
    for batch, place_of in event_batches(parsed.events, parsed.chunk, quarantine):
        for row, error in sorted(batch.rejected.items()):
            place, record = place_of(row)
            quarantine.add(rejection(place, error, json.dumps(record, default=str)))
        answers = answer(batch, matcher.matches(batch))
        write(answers)
        written += len(answers)
        matched += batch.rows - len(batch.rejected)
        progress.advance(task, batch.rows)
    progress.update(task, total=matched)
    return matched, written


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
