"""One subscriber stops reading: others lose nothing and are not slowed, and the broker's memory is bounded.

Messages of 1 KB go to three subscribers at a steady rate, for a few seconds while two of them read, then for
a minute, in which the mailbox of the third is full. Those that read are checked every second, each message
once and in order. Then the third reads: it is given what its mailbox has kept, in order and each once.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing
from functools import partial

from bench.edge.clients import Answering, MqttLoad, Talk
from bench.edge.crowd import resident_bytes
from bench.edge.traffic import BROKERS
from bench.network import brokers
from bench.network.load import LostError, Receiver, arrivals, delays, median_and_worst
from bench.report import Result

NAME = "stalled"
TALK = Talk(qos=1, size=1_000)
RATE = 1_500
READERS = 2
SECONDS, QUICK = 60, 3
CHECKED = "each message at each subscriber that reads, once and in order; what the other is given later, too"


def measured(names: Collection[str], quick: bool) -> Iterator[Result]:
    """Our broker with a subscriber that stops."""
    if "ours" in names:
        with BROKERS["ours"].start(1) as running:
            yield from _one(running, QUICK if quick else SECONDS)


def _one(running: brokers.Running, seconds: int) -> Iterator[Result]:
    given = partial(Result, f"{NAME}-{seconds}-seconds", "ours", checked=CHECKED)
    readers = [
        Receiver(TALK.subscriber(running.subscribe, f"reader-{n}"), Answering(TALK)) for n in range(READERS)
    ]
    stopped = Receiver(TALK.subscriber(running.subscribe, "stopped"), Answering(TALK))
    with closing(MqttLoad(TALK.publisher(running.publish), readers, TALK)) as load:
        before = _rounds(load, 0, 3)
        memory = resident_bytes(running.processes[0])
        while_stopped = _rounds(load, 3, seconds)
        grown = resident_bytes(running.processes[0]) - memory
        kept = _read_all(stopped)
        total = (3 + seconds) * RATE
        if kept != sorted(set(kept)) or (kept and kept[0] != 0):
            raise LostError("what was kept came out of order, or twice")
    for name, took in (("there is room", before), ("its mailbox is filled", while_stopped)):
        middle, worst = median_and_worst(took)
        yield given(f"delay of others while {name}, p50", middle * 1e3, "ms")
        yield given(f"delay of others while {name}, p99", worst * 1e3, "ms")
    yield given("memory that the broker has more", grown / 1e6, "MB")
    yield given("messages published", total, "")
    yield given("messages that the stopped one is given later", len(kept), "")


def _rounds(load: MqttLoad, begun: int, seconds: int) -> list[float]:
    """Publish for some seconds, and check each; gives all delays."""
    found: list[float] = []
    for second in range(begun, begun + seconds):
        numbers = range(second * RATE, (second + 1) * RATE)
        sent = load.paced(numbers.start, [TALK.written(number, 1) for number in numbers], RATE)
        for receiver in load.receivers:
            found += delays(receiver.check(numbers), sent)
    return found


def _read_all(receiver: Receiver) -> list[int]:
    """Read and acknowledge until nothing comes for a while; gives the numbers of the messages."""
    receiver.connection.settimeout(2.0)
    pieces: list[tuple[float, bytes]] = []
    while True:
        try:
            data = receiver.connection.recv(1 << 20)
        except TimeoutError:
            return [number for number, _ in arrivals(pieces)]
        if not data:
            raise LostError("the broker closed the connection of the one that had stopped reading")
        pieces.append((0.0, data))
        if answer := receiver.listener.replies(data):
            receiver.connection.sendall(answer)
