"""Topics as MQTT and as our own patterns see them, in every system of the simulator that looks at topics."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from distributary.errors import FilterError
from distributary.model import Event, Subscription
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Simulator
from distributary.systems.assembly import MakeBroker, Settings
from distributary.systems.attributes.broker import AttributeBroker
from distributary.systems.attributes.schema import AttributeSchema
from distributary.systems.hope.kbpp import Kbpp
from distributary.systems.hope.kbsp import Kbsp
from distributary.systems.state_aware.broker import StateAwareBroker
from distributary.systems.state_aware.mfd import MFDBroker
from distributary.systems.state_aware.segments import Segments
from distributary.systems.state_aware.sf import SFBroker
from distributary.systems.state_aware.thresholds import ThresholdsBroker
from distributary.systems.table import hope
from properties import oracle_topic
from systems.healing import deployed
from systems.test_baselines import central, flooding
from systems.tree.worlds import World

NODES = 8
BY_TOPIC = AttributeSchema((), topic=True)


def state_aware(kind: Callable[..., StateAwareBroker]) -> MakeBroker:
    """Items are named by the first level, so that nearly every pattern names one."""
    return lambda parts: kind(
        parts.ring, Segments.spanning(parts.ring.circle, of=NODES, depth=1), **parts.options
    )


ON_RING: dict[str, MakeBroker] = {
    "flooding": flooding,
    "central": central,
    "attributes": lambda parts: AttributeBroker(parts.ring, BY_TOPIC, **parts.options),
    "hope-kbpp": hope(Kbpp),
    "hope-kbsp": hope(Kbsp),
    "state-aware-sf": state_aware(SFBroker),
    "state-aware-mfd": state_aware(MFDBroker),
    "state-aware-thresholds": state_aware(ThresholdsBroker),
}


def deployment_of(system: str, seed: int) -> Deployment:
    if system == "tree":
        return World(NODES, seed).deployment
    return deployed(ON_RING[system], seed, Settings(NODES), Simulator(seed, ConstantLatency(0.05)))


@pytest.mark.parametrize("system", [*ON_RING, "tree"])
@settings(max_examples=12, deadline=None)
@given(
    some.integers(0, 10**6),
    some.lists(oracle_topic.near_patterns, min_size=4, max_size=12),
    some.lists(oracle_topic.near_topics, min_size=4, max_size=12),
)
def test_who_gets_an_event_is_what_the_oracle_says(
    system: str, seed: int, patterns: list[str], topics: list[str]
) -> None:
    deployment, random = deployment_of(system, seed), Random(seed)
    tolerance = {"price": 0.0} if system.startswith("state-aware") else None
    path = "//a" if system.startswith("hope") else None
    accepted = []
    for number, pattern in enumerate(patterns):
        one = Subscription(f"s{number}", f"client {number}", topic=pattern, change=tolerance, path=path)
        try:
            deployment.subscribe(one, at=random.choice(deployment.up()))
        except FilterError:
            assert system not in ("flooding", "central", "tree")  # the others need something to file it by
        else:
            accepted.append(one)
    deployment.simulator.run()
    for number, topic in enumerate(topics):
        # Every price is another, so that no tolerance keeps an event back.
        event = Event(f"e{number}", topic, {"price": 100.0 * number}, "<a/>")
        deployment.publish(event, at=random.choice(deployment.up()))
        deployment.simulator.run()
    found = [
        (received.delivery.event.id, one)
        for received in deployment.deliveries
        for one in received.delivery.subscriptions
    ]
    wanted = [
        (f"e{number}", one.id)
        for number, topic in enumerate(topics)
        for one in accepted
        if oracle_topic.matches(str(one.topic), topic)
    ]
    assert sorted(found) == sorted(wanted)
