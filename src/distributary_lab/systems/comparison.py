"""All systems on one workload, side by side: what a publication costs, who carries the load, how it heals.

The workload (`workloads.watches`) gives every system something to go by: exact topics, ranges of an
attribute, the structure of a document, tolerances. What each delivers is checked against brute force, event
by event.

Two experiments. In the first nodes are bare and nothing fails: costs are those of the systems alone. In the
second nodes are robust, and a tenth of them crashes for good at one moment while the others go on publishing:
the recovery time ends with the last event that did not reach everybody in time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from itertools import islice
from random import Random

import numpy as np

from distributary.overlay.node import Address, Message
from distributary.sim.deployment import Deployment
from distributary.sim.networks import latency_of
from distributary.sim.oracle import ClientSubscription, Oracle
from distributary.sim.simulator import Cause, DeliveredItem, Observer, Simulator
from distributary.sim.trials.trial import Trial, run_trial
from distributary.systems.assembly import Settings
from distributary.systems.table import SYSTEMS, system
from distributary.workloads import watches
from distributary_lab.experiment import (
    Experiment,
    Plot,
    Point,
    Row,
    Rows,
    Runs,
    Verdict,
    answer,
    grid,
    seed_from,
)
from distributary_lab.rows import gini, largest, listed, means, named, numbers

WORKLOAD = "watches"
COMPARED = tuple(name for name, each in SYSTEMS.items() if each.promise != "once")
BASELINE = "flooding"
LATENCY = "wide-area"

CRASHED = 0.1
"""The share of the nodes that crash."""
BEFORE, AFTER = 20, 70
"""Seconds before and after the crash."""
CLAIMED_SECONDS = 60
"""In which all is well again."""
STEP = 2
"""Seconds in which an event must have arrived everywhere; wide-area paths of several hops take one."""
RATE = 10
"""Events in each step, each of another topic."""


class ReachedInVain(Observer):
    """Counts the nodes that a publication reached in vain: that neither delivered it nor sent anything."""

    def __init__(self) -> None:
        self._receivers: defaultdict[Cause, set[Address]] = defaultdict(set)
        self._useful: defaultdict[Cause, set[Address]] = defaultdict(set)

    def sent(
        self, now: float, sender: Address, to: Address, message: Message, cause: Cause, depth: int
    ) -> None:
        """Note who sent a message of a publication, and who gets it."""
        if isinstance(cause, tuple) and cause[0] == "publish":
            self._useful[cause].add(sender)
            self._receivers[cause].add(to)

    def delivered(self, delivered: DeliveredItem) -> None:
        """Note that a node delivered something to its clients."""
        self._useful[delivered.cause].add(delivered.address)

    def share_in_vain(self) -> float:
        """Of all nodes that publications reached, the share that had no use for them."""
        reached = sum(len(nodes) for nodes in self._receivers.values())
        vain = sum(len(nodes - self._useful[cause]) for cause, nodes in self._receivers.items())
        return vain / reached if reached else 0.0


def _costs(point: Point, random: np.random.Generator) -> Iterator[Row]:
    reached = ReachedInVain()
    nodes, wishes, events = (int(point[each]) for each in ("nodes", "subscriptions", "events"))
    name, seed = str(point["system"]), seed_from(random)
    trial = Trial(name, "calm", nodes, seed, wishes, events, workload=WORKLOAD, latency=LATENCY)
    outcome = run_trial(trial, [reached])
    publish, subscribe = outcome.costs["publish"], outcome.costs["subscribe"]
    sent = np.array([*outcome.loads.values(), *[0] * (nodes - len(outcome.loads))])
    yield {
        "messages": publish.messages,
        "bytes": publish.bytes,
        "hops": publish.delivery_hops,
        "delay": publish.delay,
        "in vain": reached.share_in_vain(),
        "subscribing": subscribe.messages,
        "deliveries": publish.deliveries,
        "largest load": float(sent.max() / max(sent.mean(), 1e-9)),
        "gini": gini(sent),
        "refused": outcome.refused,
        "wrong": len(outcome.problems),
    }


def _recovery(point: Point, random: np.random.Generator) -> Iterator[Row]:
    """Publish in steps, before and after the crash, and see what did not arrive within its step."""
    late = _Crashing(str(point["system"]), int(point["nodes"]), seed_from(random)).run()
    after = [second for second in late if second >= 0]
    recovery = float(max(after) + STEP) if after else 0.0
    yield {"recovery": recovery, "late steps": len(after), "late before": len(late) - len(after)}


class _Crashing:
    """A system that loses a tenth of its nodes."""

    def __init__(self, name: str, nodes: int, seed: int) -> None:
        self.random = Random(f"{seed}/crashing")
        self.world = Simulator(seed, latency_of(LATENCY, seed))
        shared = Settings.robust(nodes)
        founders = sorted(self.random.sample(range(shared.circle.size), nodes))
        assembly = system(name).assemble(shared, founders, lambda one: self.deployment.contact(one))
        self.deployment = Deployment(self.world, assembly, sizes=False)
        self.deployment.add_settled(founders, assembly.settle)
        self.events = watches.events(RATE * (BEFORE + AFTER) // STEP, seed=seed)
        self.oracle = Oracle()
        for subscription in watches.subscriptions(4 * nodes, seed=seed):
            self.deployment.subscribe(subscription, at=self.random.choice(founders))
        self.world.run(until=30.0)

    def run(self) -> list[int]:
        """When steps began, in seconds from the crash, in which an event was late somewhere."""
        late = [second - BEFORE for second in range(0, BEFORE, STEP) if self._is_late()]
        up = self.deployment.up()
        for address in self.random.sample(up, max(1, round(CRASHED * len(up)))):
            self.deployment.crash(address)
        return late + [second for second in range(0, AFTER, STEP) if self._is_late()]

    def _is_late(self) -> bool:
        """Publish some events, wait a little, and see whether all that must have arrived have."""
        standings = {
            key: ClientSubscription(subscription, at)
            for key, (subscription, at) in self.deployment.subscriptions.items()
            if self.world.is_up(at)
        }
        events = {event.id: event for event in islice(self.events, RATE)}
        wanted = {
            (event.id, *who)
            for event in events.values()
            for who in self.oracle.wanted(event, standings.values())
        }
        first = len(self.deployment.deliveries)
        up = self.deployment.up()
        for event in events.values():
            self.deployment.publish(event, at=self.random.choice(up))
        self.world.run(until=self.world.now + STEP)
        for one in self.deployment.deliveries[first:]:
            delivery = one.delivery
            if delivery.event.id in events:
                wanted.discard((delivery.event.id, one.address, delivery.subscriber))
                noted = [standings[key] for key in delivery.keys if key in standings]
                self.oracle.note(delivery.event, noted, one.time)
        return bool(wanted)


# What the rows say.


def _check_costs(rows: Rows) -> Verdict:
    messages = means(rows, "messages", by="system", nodes=largest(rows, "nodes"))
    wrong = int(sum(numbers(rows, "wrong") + numbers(rows, "refused")))
    cheaper = [name for name in messages if name != BASELINE and messages[name] < messages[BASELINE]]
    best = min(messages, key=messages.__getitem__)
    return Verdict.of(
        not wrong and len(cheaper) == len(messages) - 1,
        ours=f"{best} {messages[best]:.1f}, {BASELINE} {messages[BASELINE]:.0f} messages a publication",
        ratio=messages[best] / messages[BASELINE],
        reason=f"{wrong} deliveries or subscriptions were wrong or refused; cheaper than {BASELINE}: "
        f"{listed(cheaper)}",
    )


def _check_recovery(rows: Rows) -> Verdict:
    times = means(rows, "recovery", by="system")
    healed = max(numbers(rows, "recovery")) < CLAIMED_SECONDS
    calm = not any(numbers(rows, "late before"))
    return Verdict.of(
        healed and calm,
        ours=named(times, "{:.0f} s", separator="; "),
        reason=f"the slowest is {max(times, key=times.__getitem__)}"
        + ("" if healed else f", and not all had healed {CLAIMED_SECONDS} s after the crash")
        + ("" if calm else ", and some events were late before the crash"),
    )


by_nodes = partial(Plot, x="nodes", series="system", log_x=True)
COSTS = (
    by_nodes("Messages a publication", y="messages", log_y=True),
    by_nodes("Bytes a publication", y="bytes", log_y=True),
    by_nodes("Messages from publisher to subscriber", y="hops", y_label="messages in a chain"),
    by_nodes("Delay of a delivery", y="delay", y_label="seconds", about="Wide-area delays."),
    by_nodes(
        "Reached in vain",
        y="in vain",
        y_label="share of the nodes reached",
        about="Nodes that got a message of a publication and neither delivered nor sent on.",
    ),
    by_nodes("Messages a subscription", y="subscribing", y_label="messages", log_y=True),
    by_nodes("The busiest node", y="largest load", y_label="messages sent, by the mean", log_y=True),
    by_nodes("Inequality of load", y="gini", y_label="Gini coefficient of messages sent"),
)
RECOVERY = (
    by_nodes("Recovery", y="recovery", y_label="seconds after the crash"),
    by_nodes("Late steps", y="late steps", y_label=f"of the {AFTER // STEP} after the crash"),
)

EXPERIMENTS = (
    Experiment(
        name="systems-side-by-side",
        title="All systems on one workload",
        grid=grid(nodes=[64, 256, 1024, 4096], system=COMPARED, subscriptions=[2000], events=[300]),
        quick=grid(nodes=[32, 128], system=COMPARED, subscriptions=[200], events=[90]),
        run=_costs,
        measured=(
            *("messages", "bytes", "hops", "delay", "in vain", "subscribing", "deliveries", "largest load"),
            *("gini", "refused", "wrong"),
        ),
        runs=Runs.NODES,
        answers={"beyond-side-by-side": answer(_check_costs, *COSTS)},
    ),
    Experiment(
        name="systems-recovery",
        title="A tenth of the nodes crashes for good",
        grid=grid(nodes=[32, 64, 128], system=COMPARED, repetition=[1, 2, 3]),
        quick=grid(nodes=[32], system=COMPARED),
        run=_recovery,
        measured=("recovery", "late steps", "late before"),
        runs=Runs.NODES,
        answers={"beyond-recovery": answer(_check_recovery, *RECOVERY)},
    ),
)
