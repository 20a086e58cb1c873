"""Random events and subscriptions with columns of every type, and what brute force delivers of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from distributary.files import subscriptions_to_table
from distributary.model import Event, Record, Subscription
from properties.oracle import MatcherOracle
from properties.test_matcher import DOCUMENTS, PATHS, TOPICS

CONDITIONS = [
    "a > 1",
    "b <= 2 or a = 1",
    "a between 1 and 3 and c = 'x'",
    "c in ('x', 'yy', 'z') and not b = 2",
    "c like 'y%'",
    "a < b",
    "not (a > 1 and b > 1)",
    "a is null",
    "d",
    "not d or b >= 9007199254740993",
    "n.x > 2",
    "n.y = 'x' or n.x is null",
    "a >= 2 and a < 2.5",
]
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("topic", pa.string()),
        ("document", pa.string()),
        ("at", pa.int64()),
        ("a", pa.float64()),
        ("b", pa.int64()),
        ("c", pa.string()),
        ("d", pa.bool_()),
        ("n", pa.struct([("x", pa.float64()), ("y", pa.string())])),
    ]
)
EVENT_DDL = (
    "id string, topic string, document string, at bigint, a double, b bigint, c string, d boolean, "
    "n struct<x: double, y: string>"
)


QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.streaming.stateStore.providerClass": "org.apache.spark.sql.execution.streaming.state."
    "RocksDBStateStoreProvider",
}
"""How every session of the tests is configured."""


@dataclass(frozen=True)
class World:
    """Records of events in the order of `at`, some of them malformed, and subscriptions."""

    events: list[Record]
    subscriptions: list[Subscription]

    def table(self) -> pa.Table:
        return pa.Table.from_pylist(self.events, SCHEMA)

    def frame(self, spark: SparkSession, slices: int = 3) -> DataFrame:
        return spark.createDataFrame(self.table()).repartition(slices)

    def matches(self) -> set[tuple[str, str]]:
        return {(event, found) for event, found in matched(self.events, self.subscriptions)}

    def subscribers(self) -> dict[str, str]:
        return {one.id: one.subscriber for one in self.subscriptions}


def make_world(seed: int, events: int = 120, subscriptions: int = 40, *, malformed: bool = True) -> World:
    random = Random(f"world {seed}")
    made = [make_subscription(random, f"s{number}") for number in range(subscriptions)]
    records = [make_event(random, number) for number in range(events)]
    if malformed:
        for number in range(5, events, 17):
            records[number].update(random.choice([{"topic": ""}, {"document": "<a>"}, {"at": None}]))
    return World(records, made)


def make_subscription(random: Random, subscription_id: str) -> Subscription:
    given: dict[str, Any] = {
        "topic": random.choice(TOPICS),
        "where": random.choice(CONDITIONS),
        "path": random.choice(PATHS),
        "change": {random.choice("ab"): random.choice([0, 0.5, 1, 3]) for _ in range(random.randint(1, 2))},
    }
    kinds = [kind for kind in given if random.random() < 0.4] or [random.choice(list(given))]
    return Subscription(
        subscription_id, f"person-{random.randrange(9)}", **{kind: given[kind] for kind in kinds}
    )


def make_event(random: Random, number: int) -> Record:
    nested = random.choice([None, {"x": random.choice([None, 1.0, 3.0]), "y": random.choice([None, "x"])}])
    return {
        "id": f"e{number:05d}",
        "topic": random.choice(
            ["A", "/A", "B", "A/B", "A/B/C", "B/B", "A/C", "/A/B", "A//C", "A/", "//B", None]
        ),
        "document": random.choice([None, None, None, *DOCUMENTS]),
        "at": number // 2,
        "a": random.choice([None, 0.0, 1.0, 2.0, 2.5, 3.0, 4.5, 9.0]),
        "b": random.choice([None, 0, 1, 2, 3, 5, 9007199254740993]),
        "c": random.choice([None, "x", "yy", "z"]),
        "d": random.choice([None, True, False]),
        "n": nested,
    }


def is_malformed(record: Record) -> bool:
    return record["topic"] == "" or record["document"] == "<a>" or record["at"] is None


def as_event(record: Record) -> Event:
    """The event as the oracle sees it: nulls are absent."""
    present = {name: value for name, value in record.items() if value is not None}
    if isinstance(present.get("n"), dict):
        present["n"] = {name: value for name, value in present["n"].items() if value is not None}
    return Event.from_record(present)


def matched(
    records: Iterable[Record], subscriptions: Iterable[Subscription], oracle: MatcherOracle | None = None
) -> list[tuple[str, str]]:
    """Event and subscription ids by brute force, for events in the order of `at`, then id."""
    if oracle is None:
        oracle = MatcherOracle()
        for subscription in subscriptions:
            oracle.add(subscription)
    good = sorted(
        (record for record in records if not is_malformed(record)), key=lambda one: (one["at"], one["id"])
    )
    return [(record["id"], found) for record in good for found in oracle.match(as_event(record))]


def subscription_frame(spark: SparkSession, subscriptions: Sequence[Subscription]) -> DataFrame:
    return spark.createDataFrame(subscriptions_to_table(subscriptions)).repartition(2)


def pairs(matches: DataFrame) -> list[tuple[str, str]]:
    return sorted((row.event_id, row.subscription_id) for row in matches.collect())
