"""Many subscriptions with a topic and a condition, beside plain topics of the same clients."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import closing
from functools import partial
from random import Random

from bench.network import brokers
from bench.network.load import PATIENCE, Load, Receiver, delays, median_and_worst
from bench.network.protocols import Ours, Silent, payload
from bench.report import Result
from distributary import Event, Matcher, Subscription

CHECKED = "Matcher's matches of every event, once and in order at each subscriber"
CLIENTS = 50
TOPICS = 1_000
SIZE = 100
TOGETHER = 200
WARMING = 2
"""Requests before the clock runs."""
END = "bench/end"


def conditional(count: int) -> list[Subscription]:
    """For each a topic, and a range of prices into which one event of fifty falls."""
    random = Random("network conditions")
    return [_conditional(random, number) for number in range(count)]


def _conditional(random: Random, number: int) -> Subscription:
    low = random.uniform(0, 98)
    where = f"price >= {low:.3f} and price < {low + 2:.3f}"
    topic = f"bench/{random.randrange(TOPICS)}"
    return Subscription(f"s{number}", f"client-{number % CLIENTS}", topic=topic, where=where)


def plain() -> list[Subscription]:
    """For every topic somebody who wants all of it."""
    return [Subscription(f"s{n}", f"client-{n % CLIENTS}", topic=f"bench/{n}") for n in range(TOPICS)]


def events(first: int, count: int) -> Iterator[Event]:
    """Events with a topic and a price."""
    random = Random(f"network events {first}")
    for number in range(first, first + count):
        topic, price = f"bench/{random.randrange(TOPICS)}", round(random.uniform(0, 100), 3)
        yield Event(f"e{number:010}", topic, {"price": price, "payload": payload(number, SIZE).decode()})


def measured(quick: bool) -> list[Result]:
    """What an event costs with so many subscriptions, and how much longer it takes than with plain topics."""
    many = conditional(2_000 if quick else 100_000)
    titles = (f"{TOPICS:,} plain topics", f"{len(many):,} subscriptions with a topic and a condition")
    results: list[Result] = []
    for title, asked in zip(titles, (plain(), many), strict=True):
        print(f"  conditions: {title}", file=sys.stderr, flush=True)
        with brokers.ours(1) as running:
            results += _measured(running, title, asked, quick)
    before, after = (each for each in results if each.measure.endswith("p50"))
    more = after.value - before.value
    results.append(
        Result(titles[1], "ours", "p50 above that of plain topics", more, "ms", CHECKED, "<= 0.2 ms")
    )
    return results


def _measured(
    running: brokers.Running, title: str, asked: Sequence[Subscription], quick: bool
) -> Iterator[Result]:
    speaker = Ours(TOGETHER)
    count, slow = (2_000, 200) if quick else (100_000, 3_000)
    flooded = list(events(1, count))
    receivers = _receivers(speaker, running, asked)
    load = Load(
        speaker.publisher(running.publish),
        speaker.acknowledgements(),
        list(receivers.values()),
        acknowledged=True,
        everything=False,
        beat=speaker.beat,
    )
    with closing(load):
        parts = [
            (first + TOGETHER, speaker.requests(flooded[first : first + TOGETHER], first + 1))
            for first in range(0, count, TOGETHER)
        ]
        load.publish_last(_end(speaker, 0), 0)
        before, _ = load.flood(
            parts[:WARMING], TOGETHER, PATIENCE
        )  # the first batch has all built and loaded
        used = running.seconds()
        last, seconds = load.flood(parts[WARMING:], 20 * TOGETHER, 2.0 if quick else 6.0)
        load.publish_last(_end(speaker, last + 1), last + 1)
        used = running.seconds() - used
        measured = last - before
        rate = min(measured / seconds / 10, 1_000.0)
        first = last + 2
        paced = list(events(first, slow))
        requests = [speaker.requests([each], number) for number, each in enumerate(paced, first)]
        sent = load.paced(first, requests, rate)
        load.publish_last(_end(speaker, first + slow), first + slow)
    published = dict(enumerate(flooded[:last], 1)) | dict(enumerate(paced, first))
    took = _check(receivers, asked, published, {0, last + 1, first + slow})
    middle, worst = median_and_worst(delays(took, sent))
    given = partial(Result, title, "ours", checked=CHECKED)
    yield given("events", measured / seconds, "a second")
    yield given("processor time a message", used / measured * 1e6, "µs", target="<= 10 µs")
    yield given("delay at a tenth of the load, p50", middle * 1e3, "ms")
    yield given("delay at a tenth of the load, p99", worst * 1e3, "ms")


def _receivers(speaker: Ours, running: brokers.Running, asked: Sequence[Subscription]) -> dict[str, Receiver]:
    of_client: dict[str, list[Subscription]] = defaultdict(list)
    for one in asked:
        of_client[one.subscriber].append(one)
    for name, wanted in of_client.items():
        wanted.append(Subscription("end", name, topic=END))
    receivers: dict[str, Receiver] = {}
    for name, wanted in of_client.items():
        receivers[name] = Receiver(speaker.subscribed(running.subscribe, wanted), Silent())
        for each in receivers.values():
            each.connection.sendall(speaker.beat)
    return receivers


def _end(speaker: Ours, number: int) -> bytes:
    """A message for everybody."""
    return speaker.requests([Event(f"end{number}", END, {"payload": payload(number, SIZE).decode()})], number)


def _check(
    receivers: dict[str, Receiver],
    asked: Sequence[Subscription],
    published: dict[int, Event],
    for_all: set[int],
) -> list[tuple[int, float]]:
    """See that everybody has what is owed, and the messages for all; gives when each came."""
    subscriber = {one.id: one.subscriber for one in asked}
    matcher = Matcher(asked)
    numbers = {event.id: number for number, event in published.items()}
    owed: dict[str, set[int]] = {name: set(for_all) for name in receivers}
    events = list(published.values())
    for first in range(0, len(events), 10_000):
        matches = matcher.match_batch(events[first : first + 10_000])
        for event, name in zip(*(column.to_pylist() for column in matches.columns), strict=True):
            owed[subscriber[name]].add(numbers[event])
    return [each for name, receiver in receivers.items() for each in receiver.check(sorted(owed[name]))]
