"""Segment lengths that follow the work of their items: ours, beyond 002, which leaves it for later.

Items of unlike popularity on a ring of the state-aware system, with segments of the common length and with
lengths of their own (`systems.state_aware.lengths`). Compared is how evenly subscriptions and messages spread
over the nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np

from distributary.model import Event, Subscription
from distributary.sim.deployment import Deployment
from distributary.systems.state_aware.lengths.target import WorkTarget
from distributary.systems.state_aware.lengths.thresholds import BalancedThresholds
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
from distributary_lab.rows import gini, mean, select
from distributary_lab.state_aware.stock_application import CIRCLE, deploy


def run_balance(point: Point, random: np.random.Generator) -> list[Row]:
    """Items of unlike popularity, with segments of the common length and with lengths of their own."""
    seed = seed_from(random)
    return [
        {"lengths": lengths, **_work(point, np.random.default_rng(seed), period)}
        for lengths, period in (("common", inf), ("own", 120.0))
    ]


def _work(point: Point, random: np.random.Generator, period: float) -> Row:
    """How the work of the second half of a run spreads over the nodes."""
    nodes, items, minutes = (int(point[name]) for name in ("nodes", "items", "minutes"))
    balance = WorkTarget(spacing=CIRCLE.size // nodes, period=period)
    deployment = deploy("lengths", nodes, seed_from(random), balance=balance)
    addresses = deployment.addresses
    for address in addresses:
        deployment.add(address)
    _subscribe_by_popularity(deployment, addresses, random, int(point["subscriptions"]), items)
    publishers = [addresses[int(random.integers(nodes))] for _ in range(items)]
    walks = 1000 + np.cumsum(random.integers(-12, 13, size=(2 * minutes, items)), axis=0)
    half: dict[int, int] = {}
    for minute, prices in enumerate(walks.tolist()):
        if minute == minutes:
            half = _handled(deployment)
        for item, price in enumerate(prices):
            event = Event(f"{item}.{minute}", f"quotes/item/{item}", {"price": price})
            deployment.publish(event, at=publishers[item])
            deployment.simulator.run(until=deployment.simulator.now + 60 / items)
    whole = _handled(deployment)
    work = [whole.get(address, 0) - half.get(address, 0) for address in addresses]
    changes = sum(broker.changes for broker in _brokers(deployment))
    kept = [len(broker.directory) for broker in _brokers(deployment)]
    return {"changes": changes, **_balance_of("work", work), **_balance_of("kept", kept)}


def _subscribe_by_popularity(
    deployment: Deployment, addresses: Sequence[int], random: np.random.Generator, count: int, items: int
) -> None:
    """So many subscriptions, most of them to few items."""
    popular = np.minimum(random.zipf(1.6, size=count), items) - 1
    for name, item in enumerate(popular.tolist()):
        wish = {"price": int(random.integers(1, 65))}
        subscription = Subscription(f"s{name}", f"s{name}", topic=f"quotes/item/{item}/#", change=wish)
        deployment.subscribe(subscription, at=addresses[int(random.integers(len(addresses)))])
    deployment.simulator.run(until=60)


def _brokers(deployment: Deployment) -> list[BalancedThresholds]:
    return [each for each in deployment.members.values() if isinstance(each, BalancedThresholds)]


def _handled(deployment: Deployment) -> dict[int, int]:
    """Messages that each node sent: what it had to do for values and homes, and for others on the way."""
    return {address: traffic.messages for address, traffic in deployment.metrics.by_sender().items()}


def _balance_of(name: str, loads: Sequence[int]) -> Row:
    each = np.array(loads)
    most, average = float(each.max()), float(each.mean())
    return {
        f"{name}_most": most,
        f"{name}_mean": average,
        f"{name}_ratio": most / average if average else 0.0,
        f"{name}_gini": gini(each),
    }


def check_balance(rows: Rows) -> Verdict:
    """The node that keeps most subscriptions keeps fewer."""
    common, own = select(rows, lengths="common"), select(rows, lengths="own")
    told = []
    for name, what in (("kept", "subscriptions kept"), ("work", "messages sent")):
        most, ratio, uneven = (
            [mean(half, f"{name}_{figure}") for half in (common, own)] for figure in ("most", "ratio", "gini")
        )
        told.append(
            f"{what}: most {most[0]:.0f} to {most[1]:.0f}, most by mean {ratio[0]:.1f} to {ratio[1]:.1f}, "
            f"Gini {uneven[0]:.2f} to {uneven[1]:.2f}"
        )
    return Verdict.of(
        mean(own, "kept_ratio") < mean(common, "kept_ratio"),
        ours="; ".join(told),
        reason="Means of several rings. How far a longer segment helps depends on whether its nodes own "
        "stretches of like length, which on a ring they do not; and most messages are passed on for others, "
        "wherever subscriptions are kept.",
    )


MOST, LABEL = ("work_most", "kept_most"), "messages sent, subscriptions kept"
BUSIEST = Plot("The busiest node", x="lengths", y=MOST, kind="bars", y_label=LABEL)

EXPERIMENTS = (
    Experiment(
        name="state-aware-balance",
        title="Lengths of segments that follow the work of their items",
        grid=grid(nodes=[400], items=[60], subscriptions=[2000], minutes=[60], repetition=list(range(8))),
        quick=grid(nodes=[200], items=[30], subscriptions=[1000], minutes=[10], repetition=list(range(4))),
        run=run_balance,
        measured=tuple(
            f"{name}_{of}" for name in ("work", "kept") for of in ("most", "mean", "ratio", "gini")
        ),
        labels=("lengths",),
        runs=Runs.NODES,
        deviation="Random walks of even liveliness; items are chosen by Zipf's law, tolerances evenly.",
        answers={"beyond-segment-lengths": answer(check_balance, BUSIEST)},
    ),
)
