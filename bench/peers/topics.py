"""Topics: patterns with one wildcard, every event a hit; and a few topics that repeat."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

import pyarrow as pa

from bench.peers.workload import Asked, Workload
from distributary.model import Subscription
from distributary.workloads import topics

SEED = 1
LEVELS = 7
VALUES = 50


def workload(count: int, rows: int, rounds: int) -> Workload:
    """Each event hits a pattern of its own, with any value where the wildcard is."""
    patterns = patterns_of(count)
    random = Random(SEED + 1)
    tables = [_table([hit(random.choice(patterns), random) for _ in range(rows)]) for _ in range(rounds + 1)]
    title = f"{count:,} topics, every event a hit"
    return _workload(f"topics-{count}", title, patterns, tables, ("", "gsl"))


def repeating(count: int, rows: int, rounds: int) -> Workload:
    """A thousand topics that come again and again."""
    patterns = patterns_of(count)
    random = Random(SEED + 1)
    hits = [hit(pattern, random) for pattern in random.sample(patterns, 1_000)]
    tables = [_table(random.choices(hits, k=rows)) for _ in range(rounds + 1)]
    title = f"{count:,} topics, events of 1,000 topics that repeat"
    return _workload("topics-repeating", title, patterns, tables, ("", "cache"))


def _workload(
    name: str, title: str, patterns: list[str], tables: list[pa.Table], variants: tuple[str, ...]
) -> Workload:
    # Ours is closed by '#', since NATS's patterns match topics of just their own depth.
    subscriptions = [
        Subscription(f"r{number}", f"u{number}", topic=f"{pattern}/#")
        for number, pattern in enumerate(patterns)
    ]
    shown = {"": "sublist", "gsl": "gsl", "cache": "sublist with its cache"}
    peers = [
        Asked(
            "nats",
            lambda: map(_subject, patterns),
            _subjects,
            "subjects",
            (variant,),
            shown[variant],
            judged=variant != "cache",  # it answers from memory what it was asked before
        )
        for variant in variants
    ]
    return Workload(name, title, "topic", subscriptions, tables, peers)


def patterns_of(count: int) -> list[str]:
    """Patterns of seven levels, one of them a wildcard."""
    given = topics.subscriptions(count, seed=SEED, levels=LEVELS, values=VALUES)
    return [one.topic for one in given if one.topic]


def hit(pattern: str, random: Random) -> str:
    """A topic that the pattern matches."""
    level = pattern.split("/").index("*")
    return pattern.replace("*", f"{chr(ord('a') + level)}{random.randrange(VALUES)}")


def _table(found: list[str]) -> pa.Table:
    return pa.table({"id": [f"e{number}" for number in range(len(found))], "topic": found})


def _subject(pattern: str) -> str:
    return pattern.replace("/", ".")


def _subjects(table: pa.Table) -> Iterable[str]:
    return map(_subject, table["topic"].to_pylist())
