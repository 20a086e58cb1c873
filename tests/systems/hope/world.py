"""A HOPE system at rest in the simulator, and what it should deliver."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random
from typing import Any

from distributary.filters.kinds import parse_filters
from distributary.model import Event, Subscription
from distributary.overlay.node import Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import ONE_WAY
from distributary.overlay.ring.prefix import PrefixRing
from distributary.overlay.ring.ring import Ring, settle
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Simulator
from distributary.systems.hope.addressing import Addressing
from distributary.systems.hope.broker import HopeBroker
from distributary.systems.hope.kbpp import Kbpp
from distributary.systems.hope.kbsp import Kbsp

CHORD = partial(Ring, rule=ONE_WAY)
Routing = Callable[[Node, Circle], Ring]
ROUTINGS: list[Routing] = [CHORD, PrefixRing]
"""The layers for key-based routing that HOPE runs on."""
KINDS: list[type[HopeBroker]] = [Kbpp, Kbsp]
LABELS = "abcdef"
CONDITIONS = ["{} > 4", "{}", "not({})", "{} or {}", "{}/{}", ".//{} = 3", "{} = '5'", "not({} = 5)", ". = 7"]


def settled(
    kind: type[HopeBroker],
    identifiers: Iterable[int],
    bits: int,
    addressing: Addressing,
    seed: int = 1,
    routing: Routing = CHORD,
    **options: Any,
) -> Deployment:
    """Nodes that know their places; nothing fails and nothing is kept up."""
    circle = Circle(bits)

    def make(address: int) -> HopeBroker:
        return kind(routing(Node(address), circle), addressing, **options)

    deployment = Deployment(Simulator(seed, ConstantLatency(0.05)), make)
    for identifier in sorted(set(identifiers)):
        deployment.add(identifier)
    settle([member.ring for member in deployment.members.values()])  # type: ignore[attr-defined]
    return deployment


def random_document(random: Random, depth: int = 4) -> str:
    """A small tree of few labels, so that structures often meet."""
    label = random.choice(LABELS)
    inside = "".join(random_document(random, depth - 1) for _ in range(random.randint(0, 2))) if depth else ""
    text = str(random.randint(0, 9)) if not inside else ""
    return f"<{label}>{inside}{text}</{label}>"


def random_path(random: Random) -> str:
    """A path with any of what makes routing by structure hard."""
    steps = ""
    for _ in range(random.randint(1, 3)):
        steps += random.choice(["/", "/", "//"]) + random.choice([*LABELS, "*"])
        if random.random() < 0.3:
            condition = random.choice(CONDITIONS)
            steps += f"[{condition.format(random.choice(LABELS), random.choice(LABELS))}]"
    return steps if set(steps) - set("/*") else steps + "/a"


def expected(
    subscriptions: Sequence[Subscription], events: Sequence[Event]
) -> dict[tuple[str, str], tuple[str, ...]]:
    """Who gets which event, and for which subscriptions, by the filters themselves."""
    wanted: dict[tuple[str, str], list[str]] = {}
    for subscription in subscriptions:
        filters = parse_filters(subscription).values()
        for event in events:
            if all(filter.matches(event) for filter in filters):
                wanted.setdefault((event.id, subscription.subscriber), []).append(subscription.id)
    return {pair: tuple(sorted(names)) for pair, names in wanted.items()}


def delivered(deployment: Deployment) -> dict[tuple[str, str], tuple[str, ...]]:
    """Who got which event; each pair once."""
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for _, _, delivery, _ in deployment.deliveries:
        pair = (delivery.event.id, delivery.subscriber)
        assert pair not in found, f"{pair} delivered twice"
        found[pair] = delivery.subscriptions
    return found
