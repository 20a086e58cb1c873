"""Everything that goes into a pipeline, from one seed: file after file of events, commit after commit.

Nothing here knows when: a file or a commit of a given number is the same whenever it is asked for, so a run
can be repeated with its seed although no two machines are equally fast.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from distributary.model import Record, Subscription
from distributary.store import SubscriptionStore
from spark.world import make_event, make_subscription

EVENTS_A_FILE = 12
"""Even, because events come in twos of the same order, and those two must not be in different batches."""
MALFORMED_A_FILE = 2
FIRST_TIME = 1_700_000_000
"""Files are taken in the order of their times, which are seconds apart from here on."""


@dataclass(frozen=True)
class Line:
    """One line of a file: an event, or something malformed that must be set aside for a reason."""

    text: str
    event: Record | None = None
    field: str | None = None
    reason: str | None = None
    """A part of the reason, from `REASONS`."""
    key: str | None = None
    """What tells a malformed line from all others: its id, or its text when that cannot be read."""


REASONS = (
    "an empty topic",
    "no element found",
    "is null, so the event has no place in the order",
    "every event needs one",
    "cannot be read in the format of the source",
)


class Supply:
    """Files of events and changes of subscriptions."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def lines(self, number: int) -> list[Line]:
        """The lines of a file; the order column ascends from each to the next."""
        random = Random(f"{self.seed} file {number}")
        first = number * EVENTS_A_FILE
        records = [make_event(random, first + at) for at in range(EVENTS_A_FILE)]
        wrong = set(random.sample(range(EVENTS_A_FILE), MALFORMED_A_FILE))
        return [
            _malformed(random, record) if at in wrong else Line(json.dumps(record), event=record)
            for at, record in enumerate(records)
        ]

    def feed(self, directory: Path, number: int) -> None:
        """Let a file appear, whole."""
        hidden = directory / f".{number:05d}"
        hidden.write_text("".join(line.text + "\n" for line in self.lines(number)), encoding="utf-8")
        os.utime(hidden, (FIRST_TIME + number, FIRST_TIME + number))
        hidden.rename(directory / f"{number:05d}")

    def first_subscriptions(self, count: int = 40) -> list[Subscription]:
        random = Random(f"{self.seed} subscriptions")
        return [make_subscription(random, f"s{number}") for number in range(count)]

    def commit(self, store: SubscriptionStore, number: int) -> int:
        """Commit the change of that number: some go, some come, some come again under the id they had."""
        random = Random(f"{self.seed} commit {number}")
        live = sorted(subscription.id for _, subscription in store.subscriptions())
        removed = random.sample(live, min(4, len(live)))
        again = removed[: random.randint(0, 2)]
        gone = sorted({change.id for change in store.changes(0, store.version())}.difference(live))
        returning = random.sample(gone, min(1, len(gone)))
        new = [f"n{number}-{one}" for one in range(2)]
        return store.commit(
            [make_subscription(random, one) for one in [*again, *returning, *new]], remove=removed
        )


def _malformed(random: Random, record: Record) -> Line:
    """A line that must be set aside, made of an event."""
    identity = record["id"]
    kind = random.randrange(6)
    if kind == 0:
        return Line(json.dumps({**record, "topic": ""}), None, "topic", REASONS[0], identity)
    if kind == 1:
        return Line(json.dumps({**record, "document": "<a>"}), None, "document", REASONS[1], identity)
    if kind == 2:
        return Line(json.dumps({**record, "at": None}), None, "at", REASONS[2], identity)
    if kind == 3:
        named = {**record, "c": f"nameless {identity}"}
        text = json.dumps({name: value for name, value in named.items() if name != "id"})
        return Line(text, None, "id", REASONS[3], f"nameless {identity}")
    text = f"{identity} is no JSON" if kind == 4 else json.dumps({**record, "b": "many"})
    return Line(text, None, None, REASONS[4], text)


def good_events(lines: list[Line]) -> Iterator[Record]:
    return (line.event for line in lines if line.event is not None)
