"""Every engine that matches events with subscriptions, each as a function of a world.

An engine gives pairs of event and subscription, each as often as it found it. Events count in the order of
`at`, then id; one without `at`, or whose topic or document is malformed, is rejected.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from distributary import Event, InputError, Matcher
from distributary.matching.matcher import RejectedInput
from distributary.model import Record
from distributary.spark import deliver, match
from distributary.store import open_store
from distributary.systems.assembly import Settings
from engines.sessions import CLUSTER, CONNECT, LOCAL, Sessions
from spark.micro_batches import Feed, chunks, run
from spark.world import World, is_malformed, subscription_frame
from systems.test_baselines import baseline

Pairs = list[tuple[str, str]]
"""Event and subscription ids."""

Engine = Callable[[World, Path, Sessions], Pairs]


# Without Spark


def ordered(world: World) -> pa.Table:
    """The events that have a place in the order, in that order."""
    table = world.table()
    return table.filter(pc.is_valid(table["at"])).sort_by([("at", "ascending"), ("id", "ascending")])


def event_of(record: Record) -> Event:
    """A row as an event: nulls are absent, also inside."""
    return Event.from_record(_present(record))


def _present(record: Record) -> Record:
    return {
        name: _present(value) if isinstance(value, dict) else value
        for name, value in record.items()
        if value is not None
    }


def one_by_one(matcher: Matcher, events: Iterable[Record]) -> Pairs:
    found: Pairs = []
    for record in events:
        try:
            event = event_of(record)
            found += [(event.id, one) for one in matcher.match(event)]
        except InputError:
            assert is_malformed(record)
    return found


def in_batch(matcher: Matcher, events: pa.Table) -> Pairs:
    rejected: list[RejectedInput] = []
    rows = matcher.match_batch(events, rejected=rejected).to_pylist()
    assert {one.id for one in rejected} == {row["id"] for row in events.to_pylist() if is_malformed(row)}
    return [(row["event_id"], row["subscription_id"]) for row in rows]


def match_single(world: World, place: Path, sessions: Sessions) -> Pairs:
    """`Matcher.match`, event by event."""
    return one_by_one(Matcher(world.subscriptions), ordered(world).to_pylist())


def match_batch(world: World, place: Path, sessions: Sessions) -> Pairs:
    """`Matcher.match_batch`, all at once."""
    return in_batch(Matcher(world.subscriptions), ordered(world))


def frozen(world: World, place: Path, sessions: Sessions) -> Pairs:
    """Frozen between two batches and once more before single events, with what tolerances remember."""
    table = ordered(world)
    third = table.num_rows // 3
    matcher = Matcher(world.subscriptions)
    found = in_batch(matcher, table.slice(0, third))
    matcher.freeze(place / "first")
    matcher = Matcher.open(place / "first")
    found += in_batch(matcher, table.slice(third, third))
    matcher.freeze(place / "second")
    return found + one_by_one(Matcher.open(place / "second"), table.slice(2 * third).to_pylist())


def network(system: str, world: World, place: Path, sessions: Sessions) -> Pairs:
    """Six simulated nodes; an event is published when the one before has reached everybody.

    What is rejected does not come so far: whoever reads events rejects it before it is published.
    """
    deployment = baseline(system, 1, Settings(6))
    nodes = deployment.up()
    for number, subscription in enumerate(world.subscriptions):
        deployment.subscribe(subscription, at=nodes[number % len(nodes)])
    deployment.simulator.run()
    for number, record in enumerate(ordered(world).to_pylist()):
        if not is_malformed(record):
            deployment.publish(event_of(record), at=nodes[number % len(nodes)])
            deployment.simulator.run()
    delivered = [received.delivery for received in deployment.deliveries]
    return [(one.event.id, found) for one in delivered for found in one.subscriptions]


# Spark


def spark_batch(spark: SparkSession, world: World, place: Path, strategy: str) -> Pairs:
    """All events in one DataFrame."""
    subscriptions = subscription_frame(spark, world.subscriptions)
    # A server need not see the directories of its client: what it shares is said.
    workspace = {"workspace": str(place / "parts")} if strategy == "rendezvous" else {}
    how = {"strategy": strategy, "capacity": 15, **workspace}
    rows = match(world.frame(spark), subscriptions, order="at", **how).collect()  # type: ignore[arg-type]
    subscribers = world.subscribers()
    assert all(row.subscriber == subscribers[row.subscription_id] for row in rows)
    return [(row.event_id, row.subscription_id) for row in rows]


def spark_stream(spark: SparkSession, world: World, place: Path, strategy: str) -> Pairs:
    """Micro-batches of any size, matched with a store and delivered."""
    place = Path(tempfile.mkdtemp(dir=place))
    store = open_store(place / "store", create=True)
    store.commit(world.subscriptions)
    feed = Feed(spark, place / "in")
    for start, end in chunks(Random(strategy), len(world.events), 2):
        feed.write(world, start, end)
    run(deliver(match(feed.stream(), store, order="at", strategy=strategy, capacity=15)), place)
    rows = spark.read.parquet(str(place / "out")).collect()
    assert len(rows) == len({(row.event_id, row.subscriber) for row in rows})
    return [(row.event_id, found) for row in rows for found in row.subscriptions]


def on_spark(where: str, engine: Callable[[SparkSession, World, Path, str], Pairs], strategy: str) -> Engine:
    """An engine that runs in a session of Spark's."""
    return lambda world, place, sessions: sessions.run(where, engine, world, place, strategy)


ENGINES: dict[str, Engine] = {
    "match": match_single,
    "match-batch": match_batch,
    "frozen": frozen,
    "network-central": partial(network, "central"),
    "network-flooding": partial(network, "flooding"),
    "spark-index": on_spark(LOCAL, spark_batch, "index"),
    "spark-rendezvous": on_spark(LOCAL, spark_batch, "rendezvous"),
    "spark-stream": on_spark(LOCAL, spark_stream, "index"),
    "spark-stream-rendezvous": on_spark(LOCAL, spark_stream, "rendezvous"),
    "spark-connect": on_spark(CONNECT, spark_batch, "index"),
    "spark-connect-rendezvous": on_spark(CONNECT, spark_batch, "rendezvous"),
    "spark-connect-stream": on_spark(CONNECT, spark_stream, "index"),
    "spark-cluster": on_spark(CLUSTER, spark_batch, "index"),
    "spark-cluster-rendezvous": on_spark(CLUSTER, spark_batch, "rendezvous"),
}
