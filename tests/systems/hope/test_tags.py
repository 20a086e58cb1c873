"""HOPE for tagged events: addresses from attributes miss nothing, and route where the tags are."""

from __future__ import annotations

from decimal import Decimal
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.filters.kinds import parse_filters
from distributary.model import Event, Subscription
from distributary.overlay.hypercube import covers
from distributary.systems.hope.addressing import Addressing
from distributary.systems.hope.broker import HopeBroker
from distributary.systems.hope.tags import TagAddressing
from systems.hope.world import KINDS, delivered, expected, settled

NAMES = ["a", "b", "w", "w.x", "id", "topic"]
VALUES: list[Any] = [
    None,
    True,
    False,
    0,
    -0.0,
    1,
    1.0,
    Decimal("1.0"),
    10**400,
    Decimal("1e400"),
    0.1,
    Decimal("0.1"),
]
VALUES += ["", "1", "x", "x" * 65, "2024-01-01", float("nan"), float("inf")]
CONDITIONS = [
    "{0} = {1}",
    "{0} is not null",
    "{0} is null or {0} = {1}",
    "not ({0} = {1})",
    "{0} = {1} or b is not null",
    "{0} = {1} or {0} = 'x'",
    "{0} in ({1}, {1})",
    "{0} = {1} and b is not null",
    "{0} > {1} or topic = 'T'",
    "coalesce({0}, {1}) = {1}",
    "{0} <> {1}",
]
LITERALS = ["0", "1", "1.0", "0.1", "'x'", "''", "'1'", "true", f"'{'x' * 65}'", "date '2024-01-01'", "1e400"]
attributes = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES))


@pytest.mark.parametrize("literal", LITERALS)
@pytest.mark.parametrize("condition", CONDITIONS)
@settings(max_examples=5)
@given(given=attributes, name=st.sampled_from(["a", "w", "w.x", "id"]))
def test_an_event_covers_the_address_of_every_condition_that_it_satisfies(
    given: dict[str, Any], name: str, condition: str, literal: str
) -> None:
    where = condition.format(name, literal if literal != "1e400" else "1" + "0" * 400)
    filters = parse_filters(Subscription("s", "u", where=where))
    addressing = TagAddressing(8, 64, value_bits=4096)
    events = [Event("e", topic="T", attributes=given)]
    events += [Event("e", topic="T", attributes={**given, name: value}) for value in VALUES]
    events += [Event("e", topic="T", attributes={f"{name}.y": 1})]
    asks = addressing.of_filters(filters)
    for event in events:
        if filters["where"].matches(event):
            has = addressing.of_event(event)
            assert covers(has.key, asks.key)
            assert covers(has.filter, asks.filter)


@pytest.mark.parametrize("kind", KINDS)
def test_tagged_events_are_delivered_exactly_and_cheaper_than_without_tags(kind: type[HopeBroker]) -> None:
    tags = [f"tag{number}" for number in range(30)]
    messages = []
    for addressing in (Addressing(6, 1024), TagAddressing(6, 1024)):
        random = Random(3)
        deployment = settled(kind, range(64), 6, addressing)
        subscriptions = [
            Subscription(
                f"s{number}",
                f"u{number}",
                where=" and ".join(f"{tag} = true" for tag in random.sample(tags, random.randint(1, 3))),
            )
            for number in range(60)
        ]
        for number, subscription in enumerate(subscriptions):
            deployment.subscribe(subscription, at=number)
        deployment.simulator.run()
        events = [
            Event(f"e{number}", attributes=dict.fromkeys(random.sample(tags, random.randint(1, 6)), True))
            for number in range(60)
        ]
        for event in events:
            deployment.publish(event, at=random.randrange(64))
        deployment.simulator.run()
        assert delivered(deployment) == expected(subscriptions, events)
        assert len(delivered(deployment)) > 50
        messages.append(deployment.costs()["publish"].messages)
    assert messages[1] < messages[0] / 3
