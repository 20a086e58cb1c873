"""The workloads of MQTT clients: what a message costs each broker, and how long it takes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import partial

from bench.edge.clients import Answering, MqttLoad, Talk
from bench.network import brokers
from bench.network.load import LostError, Receiver, delays, median_and_worst
from bench.network.plain import one_at_a_time
from bench.report import Result, ratio

CHECKED = "every message at every subscriber, once and in order"
KEPT = 256 << 20
"""Bytes that subscribers may receive in a run: they are kept until they are checked."""
WILDCARD = "bench/+/topic"
DISK = "ours-disk"


@dataclass(frozen=True)
class Engine:
    """A broker."""

    shown: str
    start: Callable[[int], AbstractContextManager[brokers.Running]]


BROKERS: dict[str, Engine] = {
    "mosquitto": Engine("mosquitto", brokers.mosquitto),
    "ours": Engine("ours", brokers.ours_by_mqtt),
    DISK: Engine("ours, on disk first", partial(brokers.ours_by_mqtt, disk=True)),
}


@dataclass(frozen=True)
class Case:
    """A workload."""

    kind: str
    talk: Talk
    subscribers: int = 1
    alone: bool = False
    """Whether a message is published when the one before has arrived."""
    mosquitto: bool = True
    """Whether mosquitto can do it."""
    target: str = ""

    @property
    def name(self) -> str:
        """What it is called.

        >>> Case("plain", Talk(qos=1, size=10_000), 100).name
        'plain-qos-1-100-subscribers-10000-bytes'
        """
        many = f"{self.subscribers}-subscriber{'s' * (self.subscribers > 1)}"
        return f"{self.kind}-qos-{self.talk.qos}-{many}-{self.talk.size}-bytes" + "-alone" * self.alone


def cases(quick: bool) -> Iterator[Case]:
    """All workloads."""
    sizes, crowds = ((100,), (1, 20)) if quick else ((100, 10_000), (1, 100))
    for qos in (0, 1, 2):
        for subscribers in crowds:
            for size in sizes:
                yield _judged(Case("plain", Talk(qos, size), subscribers))
        yield _judged(Case("plain", Talk(qos), alone=True))
    for qos in (0, 1):
        for subscribers in crowds:
            yield _judged(Case("wildcards", Talk(qos, topics=100, filter=WILDCARD), subscribers))
            yield _judged(Case("retained", Talk(qos, topics=100, filter=WILDCARD, retain=True), subscribers))
            yield _judged(Case("sessions", Talk(qos, lasting=True), subscribers))
            every = Talk(qos, topics=100, filter=WILDCARD, retain=True, lasting=True)
            yield _judged(Case("all-together", every, subscribers))
            asked = Talk(qos, topics=100, filter=f"$filter/where=price > 8/{WILDCARD}", json=True)
            yield Case("where", asked, subscribers, mosquitto=False)


def _judged(case: Case) -> Case:
    """The same, with the target of what it is beside mosquitto."""
    if case.alone:
        return replace(case, target="<= 1.25 times")
    if case.talk.size > 100:
        return replace(case, target="<= 0.5 times")
    if case.subscribers > 1:
        return replace(case, target="<= 0.05 times")
    return replace(case, target="<= 0.333 times" if case.talk.qos else "<= 0.2 times")


def measured(case: Case, names: Collection[str], quick: bool) -> list[Result]:
    """All brokers on one workload, and ours as multiples of mosquitto's processor time."""
    results: list[Result] = []
    for name in names:
        if (name == "mosquitto" and not case.mosquitto) or (name == DISK and not _kept(case)):
            continue
        engine = BROKERS[name]
        try:
            results += _one(case, engine, quick)
        except brokers.MissingError as missing:
            print(f"  {engine.shown} is skipped: {missing}", file=sys.stderr)
        except LostError as lost:
            if name.startswith("ours"):
                raise
            print(f"  {engine.shown} is skipped: {lost}", file=sys.stderr)
    return results + list(_compared(case, results))


def _kept(case: Case) -> bool:
    """Whether anything of a workload has to be on a disk before it is acknowledged."""
    return case.talk.qos > 0 and case.talk.size == 100


def _one(case: Case, engine: Engine, quick: bool) -> list[Result]:
    with engine.start(1) as running, closing(_load(case, running)) as load:
        given = partial(Result, case.name, engine.shown, checked=CHECKED)
        if case.alone:
            messages = [case.talk.written(number, 1) for number in range(201 if quick else 5_001)]
            return list(one_at_a_time(messages, running, load, given))
        return list(_flooded(case, running, load, given, quick))


def _load(case: Case, running: brokers.Running) -> MqttLoad:
    talk = case.talk
    receivers = [
        Receiver(talk.subscriber(running.subscribe, f"subscriber-{number}"), Answering(talk))
        for number in range(case.subscribers)
    ]
    return MqttLoad(talk.publisher(running.publish), receivers, talk)


def _flooded(
    case: Case, running: brokers.Running, load: MqttLoad, given: Callable[..., Result], quick: bool
) -> Iterator[Result]:
    talk = case.talk
    most = min(KEPT // (talk.size + 60) // case.subscribers, 5_000 if quick else 300_000)
    together = max(1, min(200, 65_536 // talk.size, most // 20))
    window = max(2 * together, min(10_000, (4 << 20) // talk.size))
    parts = [(first + together - 1, talk.written(first, together)) for first in range(1, most, together)]
    load.publish_last(talk.written(0, 1), 0)  # all is loaded by it
    used = running.seconds()
    last, seconds = load.flood(parts, window, 1.0 if quick else 4.0)
    used = running.seconds() - used
    count = last + 1
    rate = min(last / seconds / 10, 2_000.0)
    numbers = range(count, count + max(100, int(rate * (0.5 if quick else 2.0))))
    sent = load.paced(count, [talk.written(number, 1) for number in numbers], rate)
    came = [receiver.check(range(numbers.stop)) for receiver in load.receivers]
    yield given("messages", last / seconds, "a second")
    yield given("processor time a message", used / last * 1e6, "µs")
    if case.subscribers > 1:
        yield given("processor time a delivery", used / last / case.subscribers * 1e6, "µs")
    middle, worst = median_and_worst([delay for each in came for delay in delays(each, sent)])
    yield given("delay at a tenth of the load, p50", middle * 1e3, "ms")
    yield given("delay at a tenth of the load, p99", worst * 1e3, "ms")


def _compared(case: Case, results: Collection[Result]) -> Iterator[Result]:
    measure = "processor time a delivery" if case.subscribers > 1 else "processor time a message"
    found = {each.engine: each for each in results if each.measure == measure}
    if "ours" in found and "mosquitto" in found:
        compared = ratio(found["ours"], found["mosquitto"], case.target)
        yield replace(compared, measure=f"{measure}, ratio")
