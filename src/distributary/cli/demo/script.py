"""What happens in the demonstration: who subscribes and leaves when, and which events are published.

The events come in rounds. Before each round but the first some subscriptions are added and some removed, a
named person among them now and then. A few events and subscriptions are malformed on purpose. Everything
follows from the seed; only the time of an event is that of its publication.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise
from pathlib import Path
from random import Random
from typing import Any

from distributary.model import Event, Record, Subscription
from distributary.workloads import mixed

ROUNDS = 4
FILES_A_ROUND = 2
"""Each file is a micro-batch."""
ADDED, REMOVED = 50, 20
"""Most subscriptions that come and go before a round."""

SCHEMA = """\
id STRING, topic STRING, at TIMESTAMP, document STRING,
symbol STRING, exchange STRING, price DOUBLE, high DOUBLE, low DOUBLE, volume BIGINT,
site STRING, room STRING, quantity STRING, value DOUBLE, battery BIGINT,
sector STRING, urgency BIGINT"""
"""The columns of the events, in Spark's words."""

JOINING = Subscription("p-jo", "jo", topic="quotes/NASDAQ/*", where="volume > 30000", change={"price": 0.5})
JOINS_BEFORE, LEAVES_BEFORE = 2, 3
"""The rounds before which jo joins and dan leaves."""
LEAVING = "p3"

BROKEN_SUBSCRIPTIONS: tuple[Record, ...] = (
    {"id": "x1", "subscriber": "zoe", "where": "price > 10 and"},
    {"id": "x2", "subscriber": "zoe", "topic": "quotes//NYSE"},
    {"id": "x3", "subscriber": "zoe", "path": "/rss/channel/item[/title"},
)
BROKEN_EVENTS: tuple[Record, ...] = (
    {"id": "x4", "topic": "", "price": 12.5},
    {"id": "x5", "topic": "news/banks", "document": "<rss><channel><item></channel></rss>"},
    {"topic": "sensors/athens/room1/temperature", "value": 21.5},
    {"id": "x6", "topic": "quotes/NYSE/AAA", "price": "cheap"},
)
CUT_OFF = '{"id": "x7", "topic": "quotes/NYSE/AA'
"""A line that ended too early."""


@dataclass(frozen=True)
class DemoRound:
    """Who comes and goes, and what is published afterwards, by file."""

    added: tuple[Subscription, ...]
    removed: tuple[str, ...]
    files: tuple[tuple[Event, ...], ...]
    broken: bool
    """Whether malformed events are published with the last file."""

    @property
    def names(self) -> str:
        """The people with names who come or go, in words."""
        told = ["jo joins"] if JOINING in self.added else []
        return ", ".join(told + (["dan leaves"] if LEAVING in self.removed else []))


@dataclass(frozen=True)
class DemoScript:
    """The whole demonstration."""

    subscriptions: tuple[Subscription, ...]
    """Those at the start."""
    rounds: tuple[DemoRound, ...]

    def everybody(self) -> dict[str, Subscription]:
        """All subscriptions there ever are, by id."""
        later = (one for each in self.rounds for one in each.added)
        return {one.id: one for one in (*self.subscriptions, *later)}

    def events(self) -> dict[str, Event]:
        """All well-formed events, by id."""
        return {event.id: event for each in self.rounds for file in each.files for event in file}


def make_script(subscription_count: int, event_count: int, seed: int) -> DemoScript:
    """Write the script.

    >>> script = make_script(400, 100, seed=1)
    >>> [(len(each.added), len(each.removed)) for each in script.rounds]
    [(0, 0), (20, 8), (20, 8), (20, 8)]
    """
    random = Random(f"demo {seed}")
    adding = min(ADDED, subscription_count // 20)
    made = mixed.subscriptions(subscription_count + adding * (ROUNDS - 1), seed=seed)
    first = tuple(islice(made, subscription_count))
    leaving = [one.id for one in first[len(mixed.PEOPLE) :]]
    random.shuffle(leaving)
    going = iter(leaving)
    files = _divided(list(mixed.events(event_count, seed=seed)), ROUNDS * FILES_A_ROUND)
    rounds = []
    for number in range(ROUNDS):
        added = tuple(islice(made, adding)) if number else ()
        removed = tuple(islice(going, REMOVED * adding // ADDED)) if number else ()
        if number == JOINS_BEFORE and added:
            added = (JOINING, *added[1:])
        if number == LEAVES_BEFORE and removed:
            removed = (LEAVING, *removed[1:])
        rounds.append(DemoRound(added, removed, tuple(islice(files, FILES_A_ROUND)), number == 1))
    return DemoScript(first, tuple(rounds))


def publish(path: Path, events: Iterable[Event], broken: bool, now: datetime | None = None) -> int:
    """Put a file of events where the pipeline looks for them, at once as a whole; how many lines it has."""
    moment = now or datetime.now(UTC)
    records: list[dict[str, Any]] = [event.to_record() for event in events]
    records += [dict(one) for one in BROKEN_EVENTS] if broken else []
    lines = list(_stamped(records, moment)) + ([CUT_OFF] if broken else [])
    hidden = path.with_name(f".{path.name}")
    hidden.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    hidden.rename(path)
    return len(lines)


def _stamped(records: Iterable[dict[str, Any]], moment: datetime) -> Iterator[str]:
    """The records as lines, each published a microsecond after the one before."""
    for number, record in enumerate(records):
        at = (moment + timedelta(microseconds=number)).isoformat(timespec="microseconds")
        yield json.dumps({**record, "at": at})


def _divided(events: list[Event], pieces: int) -> Iterator[tuple[Event, ...]]:
    bounds = [len(events) * piece // pieces for piece in range(pieces + 1)]
    for first, end in pairwise(bounds):
        yield tuple(events[first:end])
