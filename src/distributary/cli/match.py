"""The command `distributary match`: matches events against subscriptions, files of both, in this process."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa

from distributary.arrow_rows import row_record
from distributary.cli.arguments import engine, whole
from distributary.cli.terminal import (
    add_quarantine,
    describe,
    progress_shown,
    say,
    say_rejected,
)
from distributary.errors import DistributaryError, InputError
from distributary.files import is_table, opened_for_records, read_batches, read_events, read_subscriptions
from distributary.filters.kinds import added_kinds
from distributary.model import Delivery, Event, Record
from distributary.output import STANDARD, require_distinct
from distributary.quarantine import Quarantine, rejection

if TYPE_CHECKING:
    from rich.progress import Progress

    from distributary.matching.matcher import Matcher, RejectedInput

T = TypeVar("T")

CHUNK = 8192
"""Events matched at a time."""

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
  tail -f feed.jsonl | distributary match --subscriptions subs.jsonl --events - --chunk 1
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
        "--chunk", type=whole(1), default=CHUNK, metavar="N", help=f"events matched at a time ({CHUNK})"
    )
    command.set_defaults(run=_match)


def _match(parsed: argparse.Namespace) -> int:
    from distributary.matching.matcher import Matcher

    if parsed.subscriptions == STANDARD and parsed.events == STANDARD:
        raise DistributaryError("subscriptions and events cannot both come from standard input")
    place = _quarantine_path(parsed)
    require_distinct(
        {"--subscriptions": parsed.subscriptions, "--events": parsed.events},
        {"--out": parsed.out, "--quarantine": str(place)},
    )
    with Quarantine(place, strict=parsed.strict) as quarantine, progress_shown() as progress:
        matcher = Matcher(engines=dict(parsed.engine))
        _register(matcher, parsed.subscriptions, quarantine, progress)
        start = time.perf_counter()
        with opened_for_records(parsed.out, DELIVERIES if parsed.deliveries else MATCHES) as write:
            events, written = _match_events(matcher, parsed, write, quarantine, progress)
        seconds = time.perf_counter() - start
    what = "deliveries" if parsed.deliveries else "matches"
    rate = f"{events / seconds:,.0f} events/s" if seconds else ""
    say(f"{events:,} events against {len(matcher):,} subscriptions: {written:,} {what} ({rate})")
    _say_slow(matcher)
    return say_rejected(quarantine)


def _register(matcher: Matcher, name: str, quarantine: Quarantine, progress: Progress) -> None:
    task = progress.add_task("subscriptions", total=None)
    for place, subscription in quarantine.accept(read_subscriptions(name, added_kinds())):
        try:
            matcher.add(subscription)
        except InputError as error:
            quarantine.add(rejection(place, error, json.dumps(subscription.to_record(), default=str)))
        progress.advance(task)
    matcher.compact()
    progress.update(task, total=len(matcher), completed=len(matcher))


def _match_events(
    matcher: Matcher,
    parsed: argparse.Namespace,
    write: Callable[[Iterable[Record]], int],
    quarantine: Quarantine,
    progress: Progress,
) -> tuple[int, int]:
    """How many events were matched, and how many objects written."""
    task = progress.add_task("events", total=None)
    matched = written = 0
    for events, place_of in _batches(parsed.events, parsed.chunk, quarantine):
        rejected: list[RejectedInput] = []
        matches = matcher.match_batch(events, rejected=rejected)
        for position, _, error in rejected:
            place, record = place_of(position)
            quarantine.add(rejection(place, error, json.dumps(record, default=str)))
        ids = zip(matches["event_id"].to_pylist(), matches["subscription_id"].to_pylist(), strict=True)
        written += write(_deliveries(matcher, ids) if parsed.deliveries else _matches(ids))
        matched += len(events) - len(rejected)
        progress.advance(task, len(events))
    progress.update(task, total=matched)
    return matched, written


Batch = tuple[Sequence[Event] | pa.RecordBatch, Callable[[int], tuple[str, Any]]]
"""Events to match together, and a function from a position among them to its place and its record."""


def _batches(name: str, size: int, quarantine: Quarantine) -> Iterator[Batch]:
    if not is_table(name):
        for chunk in _chunks(quarantine.accept(read_events(name)), size):
            yield [event for _, event in chunk], partial(_place_in_chunk, chunk)
        return
    before = 0
    for batch in read_batches(name, size):
        yield batch, partial(_place_in_table, name, before, batch)
        before += batch.num_rows


def _place_in_chunk(chunk: list[tuple[str, Event]], position: int) -> tuple[str, Any]:
    place, event = chunk[position]
    return place, event.to_record()


def _place_in_table(name: str, before: int, batch: pa.RecordBatch, position: int) -> tuple[str, Any]:
    return f"{name} row {before + position}", row_record(batch, position)


def _matches(ids: Iterable[tuple[str, str]]) -> Iterator[dict[str, str]]:
    for event_id, subscription_id in ids:
        yield {"event": event_id, "subscription": subscription_id}


def _deliveries(matcher: Matcher, ids: Iterable[tuple[str, str]]) -> Iterator[dict[str, object]]:
    """From matches in the order of events to one record for each event and subscriber."""
    for event_id, matches in groupby(ids, key=itemgetter(0)):
        wanted: dict[str, list[str]] = {}
        for _, subscription_id in matches:
            wanted.setdefault(matcher.subscriber(subscription_id), []).append(subscription_id)
        for subscriber, subscription_ids in sorted(wanted.items()):
            yield Delivery(event_id, subscriber, tuple(subscription_ids)).to_record()


def _quarantine_path(parsed: argparse.Namespace) -> Path:
    if parsed.quarantine:
        return Path(parsed.quarantine)
    out = Path(parsed.out)
    beside = out.parent if parsed.out != STANDARD and (out.is_file() or not out.exists()) else Path()
    return beside / "quarantine.jsonl"


def _chunks(things: Iterable[T], size: int) -> Iterator[list[T]]:
    iterator = iter(things)
    while chunk := list(islice(iterator, max(1, size))):
        yield chunk


def _say_slow(matcher: Matcher) -> None:
    for subscription_id, reason in islice(matcher.slow.items(), 5):
        say(f"slow: subscription {subscription_id!r} is evaluated event by event: {reason}")
    if len(matcher.slow) > 5:
        say(f"slow: and {len(matcher.slow) - 5:,} more")
