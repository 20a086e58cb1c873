"""Tells what is wrong with subscriptions that can be read: names that the events do not have, comparisons of
values that do not compare, conditions that are never or always true, what asks for everything, what no index
can narrow, and what another subscription of the same subscriber makes needless. Each finding has its place,
its severity (error, warning or note), and what to write instead. Nothing is changed.

What the events have is told by --schema, or found in the first events of --events; without either, only what
needs no schema is found. Subscriptions that cannot be read are findings too. Ends with 3 when there are
errors or warnings.

examples:
  distributary check --subscriptions subs.jsonl --schema 'price double, at timestamp, tags array<string>'
  distributary check --subscriptions subs.jsonl --schema events.parquet --json
  distributary check --store subs --events events.jsonl
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distributary.cli import terminal
from distributary.files import is_table, read_events, read_schema, read_subscriptions
from distributary.filters.kinds import added_kinds
from distributary.filters.lint.findings import Finding, Severity
from distributary.filters.lint.lint import lint_covered, lint_subscription
from distributary.filters.lint.schema import EventSchema
from distributary.model import Event, Subscription
from distributary.output import require_one_standard_input
from distributary.quarantine import Rejection

if TYPE_CHECKING:
    from rich.progress import Progress

COVERING = "covering"


def configure(command: argparse.ArgumentParser) -> None:
    """Describe the command by the docstring of this module, and add its arguments."""
    terminal.describe(command, __doc__)
    add_subscriptions(command)
    terminal.add_options(
        command.add_mutually_exclusive_group(),
        ("--schema SCHEMA", str, "a Parquet or Arrow file, or a text such as 'price double, at timestamp'"),
        ("--events FILE", str, "events, of which the first 10,000 show what events have"),
    )
    terminal.add_options(command, ("--json", False, "JSON lines, one a finding"))
    command.set_defaults(run=_check)


def add_subscriptions(command: argparse.ArgumentParser, *others: tuple[str, Any, str]) -> None:
    """Add the options that say where subscriptions are, of which one is needed."""
    terminal.add_options(
        command.add_mutually_exclusive_group(required=True),
        ("--subscriptions FILE", str, "the subscriptions: JSON lines or a table; - is standard input"),
        ("--store LOCATION", str, "a store of subscriptions: a directory or the URL of a database"),
        *others,
    )


def _check(parsed: argparse.Namespace) -> int:
    require_one_standard_input(parsed.subscriptions, parsed.events)
    counts: Counter[Severity] = Counter()
    with terminal.progress_shown() as progress:
        for found in _findings(parsed, _schema(parsed), progress):
            counts[found.severity] += 1
            print(json.dumps(found.to_record(), ensure_ascii=False) if parsed.json else found)
    told = ", ".join(f"{counts[severity]:,} {severity.value}s" for severity in Severity)
    terminal.say(told)
    return terminal.SET_ASIDE if counts[Severity.ERROR] or counts[Severity.WARNING] else terminal.WELL


def _schema(parsed: argparse.Namespace) -> EventSchema | None:
    if parsed.events is not None:
        if is_table(parsed.events):
            return EventSchema.of_arrow(read_schema(parsed.events))
        return EventSchema.of_events(well_formed_events(parsed.events))
    if parsed.schema is None:
        return None
    if is_table(parsed.schema) or Path(parsed.schema).is_dir():
        return EventSchema.of_arrow(read_schema(parsed.schema))
    return EventSchema.of_ddl(parsed.schema)


def well_formed_events(name: str) -> Iterator[Event]:
    """The events of a file; those that are malformed are for `distributary match` to tell."""
    for read in read_events(name):
        if not isinstance(read, Rejection):
            yield read[1]


def _findings(
    parsed: argparse.Namespace, schema: EventSchema | None, progress: Progress
) -> Iterator[Finding]:
    places: dict[tuple[str, str], str] = {}
    by_subscriber: dict[str, list[Subscription]] = {}
    task = progress.add_task("subscriptions", total=None)
    for read in subscriptions_of(parsed):
        progress.advance(task)
        if isinstance(read, Rejection):
            yield _rejected_line(read)
            continue
        place, subscription = read
        yield from lint_subscription(subscription, schema, place)
        places[subscription.subscriber, subscription.id] = place
        by_subscriber.setdefault(subscription.subscriber, []).append(subscription)
    task = progress.add_task(COVERING, total=len(places))
    for theirs in by_subscriber.values():
        for found in lint_covered(theirs):
            yield replace(found, place=places[found.subscriber, found.subscription])
        progress.advance(task, len(theirs))


def _rejected_line(read: Rejection) -> Finding:
    """A subscription that cannot be read, with its id and subscriber where its record still tells them."""
    try:
        record = json.loads(read.record)
    except (ValueError, RecursionError):
        record = None
    told = record if isinstance(record, dict) else {}
    id, subscriber = (name if isinstance(name, str) else "" for name in map(told.get, ("id", "subscriber")))
    return Finding(id, subscriber, read.place, read.field or "", Severity.ERROR, "malformed", read.reason)


def subscriptions_of(parsed: argparse.Namespace) -> Iterator[tuple[str, Subscription] | Rejection]:
    """The subscriptions of the file or the store that was given, each with its place."""
    if parsed.subscriptions is not None:
        yield from read_subscriptions(parsed.subscriptions, added_kinds())
        return
    from distributary.store import open_store

    store = open_store(parsed.store)
    for _, subscription in store.subscriptions(store.version()):
        yield f"{parsed.store}", subscription
