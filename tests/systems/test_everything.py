"""Subscriptions that ask for everything, in every system of the simulator."""

from __future__ import annotations

from random import Random

import pytest

from distributary.errors import FilterError
from distributary.filters.kinds import parse_filters
from distributary.filters.where.filter import WhereFilter
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Simulator
from distributary.systems.assembly import MakeBroker, Settings
from distributary.systems.attributes.broker import AttributeBroker
from distributary.systems.attributes.matching import Matching
from distributary.systems.attributes.parts import parts_of
from distributary.systems.attributes.schema import EVERYTHING, AttributeSchema, NumberAttribute
from distributary.systems.hope.kbpp import Kbpp
from distributary.systems.hope.kbsp import Kbsp
from distributary.systems.table import hope
from systems.healing import deployed
from systems.test_baselines import central, flooding
from systems.tree.worlds import World

NODES = 8
PRICES = (NumberAttribute("price", 0.0, 9.0, 1.0),)


def attributes(match: Matching, **schema: bool) -> MakeBroker:
    return lambda parts: AttributeBroker(
        parts.ring, AttributeSchema(PRICES, **schema), match=match, **parts.options
    )


ON_RING: dict[str, MakeBroker] = {
    "flooding": flooding,
    "central": central,
    "attributes": attributes(Matching.NARROWEST, everything=True),
    "attributes-counting": attributes(Matching.COUNTING, everything=True, topic=True),
    "hope-kbpp": hope(Kbpp),
    "hope-kbsp": hope(Kbsp),
}

WANTED = {
    "true": {"where": "true"},
    "always": {"where": "price is null or price is not null"},
    "never": {"where": "false"},
    "itself": {"where": "price = price"},
    "missing": {"where": "price is null"},
    "missing or dear": {"where": "price is null or price > 5"},
    "dear": {"where": "price > 5"},
    "topics": {"topic": "mqtt:#"},
    "A": {"topic": "A/#"},
    "true A": {"where": "1 = 1", "topic": "A"},
    "documents": {"path": "//*"},
    "b": {"path": "/b"},
    "all": {"where": "true", "topic": "mqtt:+/#", "path": "/"},
}


def deployment_of(system: str, seed: int) -> Deployment:
    if system == "tree":
        return World(NODES, seed).deployment
    return deployed(ON_RING[system], seed, Settings(NODES), Simulator(seed, ConstantLatency(0.05)))


def events(random: Random) -> list[Event]:
    """Some with a topic, a price and a document, and some without."""
    return [
        Event(
            f"e{number}",
            random.choice([None, "A", "/A", "A/B", "$SYS/A", "/"]),
            random.choice([{}, {"price": random.choice([1, 5.5, 20, -3, "much", True])}]),
            random.choice([None, "<a/>", "<b>x</b>"]),
        )
        for number in range(40)
    ]


@pytest.mark.parametrize("system", [*ON_RING, "tree"])
@pytest.mark.parametrize("seed", range(2))
def test_what_asks_for_everything_gets_exactly_what_it_lets_pass(system: str, seed: int) -> None:
    deployment, random = deployment_of(system, seed), Random(seed)
    subscriptions = [Subscription(name, f"{name} client", **filters) for name, filters in WANTED.items()]
    for one in random.sample(subscriptions, len(subscriptions)):
        deployment.subscribe(one, at=random.choice(deployment.up()))
    deployment.simulator.run()
    published = events(random)
    for event in published:
        deployment.publish(event, at=random.choice(deployment.up()))
        deployment.simulator.run()
    found = [
        (received.delivery.event.id, one)
        for received in deployment.deliveries
        for one in received.delivery.subscriptions
    ]
    wanted = [
        (event.id, one.id)
        for event in published
        for one in subscriptions
        if all(filter.matches(event) for filter in parse_filters(one).values())
    ]
    assert sorted(found) == sorted(wanted)
    deployment.unsubscribe(SubscriptionKey("true client", "true"))
    deployment.simulator.run()
    before = len(deployment.deliveries)
    deployment.publish(Event("last"), at=random.choice(deployment.up()))
    deployment.simulator.run()
    last = [one for received in deployment.deliveries[before:] for one in received.delivery.subscriptions]
    assert sorted(last) == ["always", "missing", "missing or dear"]


def test_only_what_has_no_condition_that_is_looked_up_is_filed_for_every_event() -> None:
    schema = AttributeSchema(PRICES, everything=True)
    for where, names in (("price > 5", ["price"]), ("true", [EVERYTHING]), ("size > 5", [EVERYTHING])):
        (part,) = parts_of({"where": WhereFilter.parse(where)}, schema)
        assert [name for name, _ in part.reaches] == names


def test_a_ring_that_looks_up_values_alone_says_what_it_needs() -> None:
    deployment = deployed(
        attributes(Matching.NARROWEST), 0, Settings(NODES), Simulator(0, ConstantLatency(0.05))
    )
    with pytest.raises(FilterError, match=r"condition on the values of price; with `everything = true`"):
        deployment.subscribe(Subscription("s", "ann", where="true"), at=deployment.up()[0])
