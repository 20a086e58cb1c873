"""What a pipeline should have written, by brute force, and how that differs from what it has written.

The files are taken one a batch and in order. Each batch is matched against the version of the subscriptions
that its record names; between two batches the oracle makes the changes of the store, so that its tolerances
remember what a subscriber would. Every output is compared as a bag of rows: a row too many is one that was
doubled, or one that should not be there; a row too few is lost.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, fields
from typing import Any

from pyspark.sql import SparkSession

from chaos.supply import REASONS, Supply, good_events
from distributary.spark.pipeline.commits import BatchRecord, read_records
from distributary.spark.pipeline.config import Pipeline
from distributary.spark.pipeline.deliveries import read_deliveries
from distributary.spark.pipeline.metrics import read_metrics
from distributary.spark.pipeline.outputs import read_archive, read_batches
from distributary.store import SubscriptionStore
from properties.oracle import MatcherOracle
from spark.world import matched

Rows = list[tuple[Any, ...]]
SHOWN = 3


@dataclass
class Outputs:
    """All rows of all outputs; each begins with its batch."""

    deliveries: Rows = field(default_factory=list)
    """event id, subscriber, subscriptions, topic"""
    archive: Rows = field(default_factory=list)
    """event id, order, topic"""
    quarantine: Rows = field(default_factory=list)
    """field, reason, what tells it from others"""
    topics: Rows = field(default_factory=list)
    """topic, events, matches"""
    subscriptions: Rows = field(default_factory=list)
    """subscription, subscriber, events, matches"""
    records: Rows = field(default_factory=list)
    """version, events, matches, deliveries, rejected"""


def written(spark: SparkSession, pipeline: Pipeline) -> Outputs:
    """What a pipeline has written, through the readers that users have."""
    assert pipeline.sink.path is not None
    assert pipeline.archive is not None
    assert pipeline.metrics is not None
    delivered = read_deliveries(spark, pipeline.sink.path).select(
        "batch", "event_id", "subscriber", "subscriptions", "topic"
    )
    topics = read_metrics(spark, pipeline.metrics, "topics")
    counts = read_metrics(spark, pipeline.metrics, "subscriptions")
    rejected = read_batches(spark, pipeline.quarantine).select("batch", "field", "reason", "record")
    return Outputs(
        deliveries=[(row[0], row[1], row[2], tuple(row[3]), row[4]) for row in delivered.collect()],
        archive=_rows(read_archive(spark, pipeline.archive).select("batch", "id", "at", "topic")),
        quarantine=[(row[0], row[1], _known(row[2]), _key(row[3])) for row in rejected.collect()],
        topics=_rows(topics.select("batch", "topic", "events", "matches")),
        subscriptions=_rows(counts.select("batch", "subscription_id", "subscriber", "events", "matches")),
        records=[_record(one) for one in read_records(pipeline.commits) if one.events or one.rejected],
    )


def expected(
    supply: Supply, files: int, store: SubscriptionStore, versions: list[tuple[int, int]]
) -> Outputs:
    """What should have been written of so many files, given the batch and the version of each."""
    outputs = Outputs()
    oracle = MatcherOracle()
    at = 0
    for number, (batch, version) in zip(range(files), versions, strict=True):
        for change in store.changes(at, version):
            if change.subscription is None:
                oracle.remove(change.id)
            else:
                oracle.add(change.subscription)
        at = version
        _expect_batch(outputs, supply, number, batch, version, oracle)
    return outputs


def _expect_batch(
    outputs: Outputs, supply: Supply, number: int, batch: int, version: int, oracle: MatcherOracle
) -> None:
    lines = supply.lines(number)
    events = list(good_events(lines))
    topics = {event["id"]: event["topic"] for event in events}
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    wanted: Counter[tuple[str, str]] = Counter()
    matches = Counter(dict.fromkeys(topics.values(), 0))
    for event_id, one in matched(events, (), oracle):
        subscriber = oracle.held[one].subscriber
        found[event_id, subscriber].append(one)
        wanted[one, subscriber] += 1
        matches[topics[event_id]] += 1
    rejected = [(batch, line.field, line.reason, line.key) for line in lines if line.event is None]
    outputs.deliveries += [(batch, *key, tuple(sorted(ids)), topics[key[0]]) for key, ids in found.items()]
    outputs.archive += [(batch, event["id"], event["at"], event["topic"]) for event in events]
    outputs.quarantine += rejected
    taken = Counter(topics.values())
    outputs.topics += [(batch, topic, taken[topic], matches[topic]) for topic in taken]
    outputs.subscriptions += [(batch, *key, len(events), count) for key, count in wanted.items()]
    outputs.records.append((batch, version, len(events), sum(wanted.values()), len(found), len(rejected)))


def versions_used(records: Rows) -> list[tuple[int, int]]:
    """The batch and the version of each batch that had anything in it."""
    return [(row[0], row[1]) for row in records if row[2] or row[5]]


def differences(found: Outputs, wanted: Outputs) -> list[str]:
    """What is wrong with the outputs; nothing when all is well."""
    return [
        problem
        for one in fields(Outputs)
        for problem in _compared(one.name, getattr(found, one.name), getattr(wanted, one.name))
    ]


def _compared(name: str, found: Iterable[Hashable], wanted: Iterable[Hashable]) -> list[str]:
    there, due = Counter(found), Counter(wanted)
    more, less = there - due, due - there
    kinds = {
        "lost": list(less),
        "doubled": [row for row in more if row in due],
        "wrong": [row for row in more if row not in due],
    }
    return [
        f"{name}: {len(rows)} rows {kind}, such as {sorted(map(repr, rows))[:SHOWN]}"
        for kind, rows in kinds.items()
        if rows
    ]


def _rows(frame: Any) -> Rows:
    return [tuple(row) for row in frame.collect()]


def _record(one: BatchRecord) -> tuple[Any, ...]:
    return (one.batch, one.version, one.events, one.matches, one.deliveries, one.rejected)


def _known(reason: str) -> str:
    return next((known for known in REASONS if known in reason), reason)


def _key(record: str) -> str:
    """The id of a malformed event, or its `c` when it has no id; what cannot be read stands for itself."""
    try:
        read = json.loads(record)
    except ValueError:
        return record
    if read.get("b") == "many":
        return record
    return str(read.get("id", read.get("c")))
