"""Plain topics: what a message costs each broker, and how long it takes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from functools import partial

from bench.network import brokers
from bench.network.load import Load, LostError, Receiver, delays, median_and_worst
from bench.network.protocols import Mqtt, Nats, Ours, Speaker
from bench.report import Result, ratio

CHECKED = "every message at every subscriber, once and in order"
DISK = "ours-disk"
SINGLE = "ours-single"
KEPT = 256 << 20
"""Bytes that subscribers may receive in a run: they are kept until they are checked."""


@dataclass(frozen=True)
class Engine:
    """A broker, and how its clients speak."""

    shown: str
    start: Callable[[int], AbstractContextManager[brokers.Running]]
    speaker: Speaker
    acknowledges: bool = True


BROKERS: dict[str, Engine] = {
    "mosquitto": Engine("mosquitto", brokers.mosquitto, Mqtt()),
    "nats": Engine("nats-server", brokers.nats, Nats(), acknowledges=False),
    "ours": Engine("ours", brokers.ours, Ours()),
    SINGLE: Engine("ours, one event a request", brokers.ours, Ours(together=1)),
    "ours-mqtt": Engine("ours, by MQTT", brokers.ours_by_mqtt, Mqtt()),
    DISK: Engine("ours, on disk first", partial(brokers.ours, disk=True), Ours()),
}


@dataclass(frozen=True)
class Case:
    """A workload: how many brokers and subscribers, of what size messages are."""

    brokers: int
    subscribers: int
    size: int
    acknowledged: bool
    alone: bool = False
    """Whether a message is published when the one before has arrived."""

    @property
    def name(self) -> str:
        """What it is called.

        >>> Case(3, 100, 10_000, False).name
        '3-brokers-100-subscribers-10000-bytes'
        """
        many = f"{self.brokers}-broker{'s' * (self.brokers > 1)}"
        many += f"-{self.subscribers}-subscriber{'s' * (self.subscribers > 1)}"
        return f"{many}-{self.size}-bytes" + "-acknowledged" * self.acknowledged + "-alone" * self.alone


def cases(quick: bool) -> Iterator[Case]:
    """All workloads."""
    if quick:
        yield Case(1, 1, 100, acknowledged=True)
        yield Case(1, 2, 100, acknowledged=False)
        yield Case(1, 1, 100, acknowledged=False, alone=True)
        return
    for number in (1, 3):
        for subscribers in (1, 100):
            for size in (100, 10_000):
                for acknowledged in (False, True):
                    yield Case(number, subscribers, size, acknowledged)
    yield Case(1, 1, 100, acknowledged=False, alone=True)
    yield Case(1, 1, 100, acknowledged=True, alone=True)


def measured(case: Case, names: Collection[str], quick: bool) -> list[Result]:
    """All brokers on one workload, and ours as multiples of theirs where there is a target."""
    results: list[Result] = []
    for name in names:
        engine = BROKERS[name]
        if (case.acknowledged and not engine.acknowledges) or (name == DISK and not case.acknowledged):
            continue
        if name == SINGLE and (case.alone or case.brokers > 1):
            continue
        if name == "ours-mqtt" and case.brokers > 1:
            continue
        try:
            results += _one(case, engine, quick)
        except brokers.MissingError as missing:
            print(f"  {engine.shown} is skipped: {missing}", file=sys.stderr)
        except LostError as lost:
            if name.startswith("ours"):
                raise
            print(f"  {engine.shown} is skipped: {lost}", file=sys.stderr)
    return results + list(_compared(case, results))


def _one(case: Case, engine: Engine, quick: bool) -> list[Result]:
    with engine.start(case.brokers) as running, closing(_load(case, engine, running)) as load:
        given = partial(Result, case.name, engine.shown, checked=CHECKED)
        if case.alone:
            count = 201 if quick else 5_001
            messages = [
                engine.speaker.written(number, 1, case.size, case.acknowledged) for number in range(count)
            ]
            return list(one_at_a_time(messages, running, load, given))
        return list(_flooded(case, engine, running, load, given, quick))


def _load(case: Case, engine: Engine, running: brokers.Running) -> Load:
    speaker = engine.speaker
    receivers = []
    for number in range(case.subscribers):
        connection = speaker.subscriber(running.subscribe, f"subscriber-{number}", case.acknowledged)
        receivers.append(Receiver(connection, speaker.listener(case.size, case.acknowledged)))
    publisher = speaker.publisher(running.publish)
    return Load(
        publisher,
        speaker.acknowledgements(),
        receivers,
        acknowledged=case.acknowledged,
        beat=speaker.beat,
    )


def _flooded(
    case: Case,
    engine: Engine,
    running: brokers.Running,
    load: Load,
    given: Callable[..., Result],
    quick: bool,
) -> Iterator[Result]:
    most = min(KEPT // (case.size + 60) // case.subscribers, 5_000 if quick else 300_000)
    together = max(1, min(200, 65_536 // case.size, most // 20))
    window = max(2 * together, min(10_000, (4 << 20) // case.size))
    parts = [
        (first + together - 1, engine.speaker.written(first, together, case.size, case.acknowledged))
        for first in range(1, most, together)
    ]
    load.publish_last(engine.speaker.written(0, 1, case.size, case.acknowledged), 0)  # all is loaded by it
    used = running.seconds()
    last, seconds = load.flood(parts, window, 1.0 if quick else 4.0)
    used = running.seconds() - used
    count = last + 1
    rate = min(last / seconds / 10, 2_000.0)
    messages = [
        engine.speaker.written(number, 1, case.size, case.acknowledged)
        for number in range(count, count + max(100, int(rate * (0.5 if quick else 3.0))))
    ]
    sent = load.paced(count, messages, rate)
    came = [receiver.check(range(count + len(messages))) for receiver in load.receivers]
    yield given("events", last / seconds, "a second")
    yield given("processor time a message", used / last * 1e6, "µs")
    if case.subscribers > 1:
        yield given("processor time a delivery", used / last / case.subscribers * 1e6, "µs")
    middle, worst = median_and_worst([delay for each in came for delay in delays(each, sent)])
    yield given("delay at a tenth of the load, p50", middle * 1e3, "ms", target=_delay_target(case, engine))
    yield given("delay at a tenth of the load, p99", worst * 1e3, "ms")


def one_at_a_time(
    messages: Sequence[bytes], running: brokers.Running, load: Load, given: Callable[..., Result]
) -> Iterator[Result]:
    """What messages cost and how long they take, each sent when the one before it has come."""
    load.publish_last(messages[0], 0)  # all is loaded by it
    used = running.seconds()
    trips = load.one_by_one(1, messages[1:])
    used = running.seconds() - used
    for receiver in load.receivers:
        receiver.check(range(len(messages)))
    middle, worst = median_and_worst(trips)
    yield given("processor time a message", used / len(trips) * 1e6, "µs")
    yield given("round trip, p50", middle * 1e3, "ms")
    yield given("round trip, p99", worst * 1e3, "ms")


def _delay_target(case: Case, engine: Engine) -> str:
    if not engine.shown.startswith("ours") or case.brokers > 1 or case.subscribers > 1 or case.size > 100:
        return ""
    return "< 2 ms" if engine is BROKERS[DISK] else "< 0.3 ms"


def _compared(case: Case, results: Collection[Result]) -> Iterator[Result]:
    """Ours as multiples of the others' processor time, judged by the targets."""
    measure = "processor time a delivery" if case.subscribers > 1 else "processor time a message"
    found = {each.engine: each for each in results if each.measure == measure}
    targets = {"mosquitto": _target(case), "nats-server": "<= 1 times" if case.size == 100 else ""}
    for name in ("ours", "ours, one event a request", "ours, by MQTT"):
        for peer, target in targets.items():
            if name in found and peer in found:
                compared = ratio(found[name], found[peer], target if name == "ours" else "")
                yield replace(compared, measure=f"{measure}, ratio")


def _target(case: Case) -> str:
    if case.brokers > 1:
        return ""
    if case.alone:
        return "<= 1.25 times"
    if case.size > 100:
        return "<= 0.5 times"
    if case.subscribers > 1:
        return "<= 0.05 times"
    return "<= 0.333 times" if case.acknowledged else "<= 0.2 times"
