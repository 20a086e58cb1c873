"""What each system sends, and what its busiest node has to do, by nodes and by subscriptions: docs/scale.md.

Calm trials in the simulator on one workload (`watches`) with wide-area delays, at 100, 1,000 and 10,000
nodes, and at 1,000 nodes with ten times the subscriptions. Every delivery is compared with brute force. A
trial is a process of its own, and is stopped when it has used its processor time; then the table says so.

--only tree,attributes measures some systems; --quick has 20 and 50 nodes.
"""

from __future__ import annotations

import multiprocessing
import resource
import signal
import time
from collections import Counter
from collections.abc import Collection
from multiprocessing.connection import Connection
from typing import NamedTuple

from bench.report import Result
from distributary.overlay.node import Address, Message
from distributary.sim.simulator import Cause, Observer
from distributary.sim.trials.trial import Trial, run_trial

SYSTEMS = (
    *("flooding", "central", "tree", "attributes", "attributes-ordered", "hope-kbpp", "hope-kbsp"),
    *("state-aware-sf", "state-aware-mfd", "state-aware-thresholds"),
)
CHECKED = "every delivery with brute force"
LIMIT, QUICK_LIMIT = 300, 60
"""Seconds of processor time that a trial may take."""


class Size(NamedTuple):
    """How large a trial is."""

    nodes: int
    subscriptions: int
    events: int

    def __str__(self) -> str:
        return f"{self.nodes:,} nodes, {self.subscriptions:,} subscriptions, {self.events:,} events"


SIZES = (Size(100, 2_000, 100), Size(1_000, 2_000, 100), Size(10_000, 2_000, 100), Size(1_000, 20_000, 100))
QUICK = (Size(20, 100, 30), Size(50, 100, 30))


class HandledMessages(Observer):
    """Counts the messages that each node sends and gets, by what they are for."""

    def __init__(self) -> None:
        self.by_node: dict[str, Counter[Address]] = {"publish": Counter(), "subscribe": Counter()}

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None:
        """Count a message at both ends."""
        if isinstance(cause, tuple) and cause[0] in self.by_node:
            self.by_node[cause[0]].update((sender, to))

    def most(self, purpose: str) -> int:
        """How many messages for a purpose the busiest node had."""
        return max(self.by_node[purpose].values(), default=0)


def known(quick: bool) -> list[str]:
    """What can be asked for."""
    return list(SYSTEMS)


def run(quick: bool, only: Collection[str] = ()) -> list[Result]:
    results: list[Result] = []
    for size in QUICK if quick else SIZES:
        for name in SYSTEMS:
            if not only or name in only:
                results += results_of(name, size, QUICK_LIMIT if quick else LIMIT)
    return results


def results_of(name: str, size: Size, limit: int) -> list[Result]:
    """One system at one size."""
    there, here = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=measure, args=(here, name, size, limit))
    process.start()
    here.close()
    try:
        rows: list[tuple[str, float, str]] = there.recv()
    except EOFError:
        rows = [("stopped after", limit, "s of processor time")]
    process.join()
    if process.exitcode not in (0, -signal.SIGXCPU):
        raise RuntimeError(f"{name}, {size}: the trial ended with {process.exitcode}; its error is above")
    return [Result(str(size), name, measure, value, unit, CHECKED) for measure, value, unit in rows]


def measure(pipe: Connection, name: str, size: Size, limit: int) -> None:
    """Run the trial within a process of its own, and send what it shows: name, value and unit each."""
    resource.setrlimit(resource.RLIMIT_CPU, (limit, limit))
    handled = HandledMessages()
    nodes, subscriptions, events = size
    options = {"workload": "watches", "latency": "wide-area"}
    trial = Trial(name, nodes=nodes, subscriptions=subscriptions, events=events, **options)
    began = time.process_time()
    outcome = run_trial(trial, [handled])
    seconds = time.process_time() - began
    assert not outcome.problems, f"{trial.command} found {outcome.problems[0]}"
    publish, subscribe = outcome.costs["publish"], outcome.costs["subscribe"]
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    pipe.send(
        [
            ("messages an event", publish.messages, ""),
            ("bytes an event", publish.bytes, ""),
            ("of these at the busiest node", handled.most("publish") / outcome.events, ""),
            ("hops to a subscriber", publish.delivery_hops, ""),
            ("deliveries an event", outcome.deliveries / outcome.events, ""),
            ("messages a subscription", subscribe.messages, ""),
            ("of these at the busiest node, in all", handled.most("subscribe"), ""),
            ("subscriptions refused", outcome.refused, ""),
            ("the simulation: processor time", seconds, "s"),
            ("the simulation: memory", megabytes, "MB"),
        ]
    )
