"""The attribute system: the paper's worked examples, what changes cost, and what is refused."""

from __future__ import annotations

from random import Random
from typing import ClassVar

import pytest

from distributary.errors import DistributaryError, FilterError, UnknownSubscriptionError
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.node import Address
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import ONE_WAY
from distributary.overlay.ring.placement import (
    ArcPlacement,
    AttributeAxis,
    OrderedPlacement,
    ScatteredPlacement,
    Spread,
)
from distributary.systems.attributes.identifier import Identifier, IdentifierLayout
from distributary.systems.attributes.messages import ListRequest
from distributary.systems.attributes.schema import AttributeSchema, NumberAttribute, TextAttribute
from systems.attributes.worlds import MATCHINGS, PLACEMENTS, World, random_addresses

STOCKS = AttributeSchema(
    (
        TextAttribute("Exchange"),
        TextAttribute("Symbol"),
        NumberAttribute("Price", 0.0, 20.0, 0.01),
        NumberAttribute("High", 0.0, 20.0, 0.01),
        NumberAttribute("Low", 0.0, 20.0, 0.01),
    )
)
"""Figure 1."""

EVENT = Event(
    "event 1", attributes={"Exchange": "NYSE", "Symbol": "OTE", "Price": 8.40, "High": 8.80, "Low": 8.22}
)
FIRST = Subscription(
    "1", "ann", where="Exchange = 'NYSE' and Symbol = 'OTE' and Price < 8.70 and Price > 8.30"
)
SECOND = Subscription("2", "bob", where="Symbol = 'OTE' and Price = 8.20 and Low < 8.05")
"""Figure 2."""


class Table(ScatteredPlacement):
    """A hash of which the example says what it gives."""

    KEYS: ClassVar = {1: 6, 2: 2, 3: 4}

    def key(self, cell: int, choice: int) -> int:
        return self.KEYS[cell]


class Five(OrderedPlacement):
    """The order-preserving hash for a name that hashes to 5."""

    def key(self, cell: int, choice: int) -> int:
        return self.circle.add(super().key(cell, choice), 5 - self.circle.hash(self.axis.name))


EIGHT = AttributeSchema((NumberAttribute("a", 0, 8),))


def test_figure_3_a_subscription_id_in_nine_bits() -> None:
    layout = IdentifierLayout(Circle(3), outstanding=8, attributes=7)
    identifier = Identifier(node=4, number=3, attributes=5)
    assert (layout.circle.bits, layout.number_bits, layout.attribute_bits) == (3, 3, 3)
    assert layout.pack(identifier) == 0b100_011_101
    assert layout.unpack(0b100_011_101) == identifier
    assert IdentifierLayout(Circle(3), 1_000_000, 7).number_bits == 20
    with pytest.raises(DistributaryError, match="does not fit"):
        layout.pack(Identifier(node=4, number=8, attributes=5))


def test_figure_6_a_range_of_three_values_takes_six_hops_with_chord() -> None:
    world = World(list(range(8)), EIGHT, bits=3, rule=ONE_WAY, placement=Table, match="counting")
    world.subscribe(Subscription("s", "ann", where="a > 0 and a < 4"), at=3)
    world.run()
    assert world.stored_at() == {2: 1, 4: 1, 6: 1}
    assert world.messages("subscribe", "s") == 6


def test_figure_7_the_same_range_takes_four_hops_with_opchord() -> None:
    world = World(list(range(8)), EIGHT, bits=3, rule=ONE_WAY, placement=Five, match="counting")
    world.subscribe(Subscription("s", "ann", where="a > 0 and a < 4"), at=3)
    world.run()
    assert world.stored_at() == {6: 1, 7: 1, 0: 1}
    assert world.messages("subscribe", "s") == 2 + 2
    assert world.brokers[0].placements.current("a").spread is Spread.WALK


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_figures_1_2_and_5_the_lists_and_who_is_told(placement: str) -> None:
    random = Random(placement)
    addresses = random_addresses(random, 64)
    world = World(addresses, STOCKS, match="counting", placement=PLACEMENTS[placement])
    for subscription in (FIRST, SECOND):
        world.subscribe(subscription, at=random.choice(addresses))
    world.run()
    assert lists_of(world, EVENT) == {
        "Exchange": ["1"],
        "Symbol": ["1", "2"],
        "Price": ["1"],
        "High": [],
        "Low": [],  # Figure 1 has Low = 8.22, so section 3.2 errs when it finds subscription 2 here.
    }
    world.publish(EVENT, at=addresses[0])
    world.run()
    world.check()
    assert [(event, subscriber) for _, event, subscriber, _ in world.delivered()] == [("event 1", "ann")]


def lists_of(world: World, event: Event) -> dict[str, list[str]]:
    """For each attribute the subscriptions in the list of the event's value, wherever it is kept."""
    names = {number: name for broker in world.brokers.values() for name, number in numbers_of(broker)}
    publisher = next(iter(world.brokers.values()))
    found: dict[str, list[str]] = {}
    for attribute in STOCKS.names:
        [spot] = STOCKS[attribute].spots(event.attributes[attribute])
        lookup = publisher._matcher.lookup(attribute, spot, event.key)
        [owner] = [broker for broker in world.brokers.values() if broker.ring.owns(lookup.key)]
        found[attribute] = sorted(names[entry.part] for entry, _ in owner.rendezvous.find(lookup))
    return found


def numbers_of(broker: object) -> list[tuple[str, int]]:
    layout, parts = broker.layout, broker._parts  # type: ignore[attr-defined]
    address = broker.node.address  # type: ignore[attr-defined]
    return [
        (key.id, layout.pack(Identifier(address, number, len(attributes))))
        for key, planned in parts.items()
        for number, _, attributes in planned
    ]


def test_section_3_1_1_the_first_subscription_is_stored_for_39_prices() -> None:
    world = World([5], STOCKS, match="counting", placement=ScatteredPlacement)
    world.subscribe(FIRST, at=5)
    keys = {
        attribute: sum(
            1
            for key in world.brokers[5].replication.hosted()
            for name in world.brokers[5].replication.contents(key)
            if name.attribute == attribute  # type: ignore[attr-defined]
        )
        for attribute in ("Exchange", "Symbol", "Price")
    }
    assert keys == {"Exchange": 1, "Symbol": 1, "Price": 39}


@pytest.mark.parametrize("match", MATCHINGS)
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_an_update_leaves_alone_what_both_ranges_share(placement: str, match: str) -> None:
    random = Random(3)
    addresses = random_addresses(random, 48)
    schema = AttributeSchema((NumberAttribute("a", 0, 99),))
    world = World(addresses, schema, match=match, placement=PLACEMENTS[placement])
    world.subscribe(Subscription("s", "ann", where="a between 20 and 49"), at=addresses[7])
    world.run()
    written: list[tuple[Address, int]] = []
    for address, broker in world.brokers.items():
        broker.replication.on_change(lambda key, name, entry, at=address: written.append((at, key)))
    world.subscribe(Subscription("s", "ann", where="a between 25 and 51"), at=addresses[7])
    world.run()
    placed = world.brokers[addresses[0]].placements.current("a")
    touched = {placed.key(cell, 0) for cell in [*range(20, 25), 50, 51]}
    assert {key for _, key in written} == touched
    for number in range(100):
        world.publish(Event(f"e{number}", attributes={"a": number}), at=random.choice(addresses))
    world.run()
    world.check()
    assert len(world.promised) == 27


def test_an_equality_moves_from_its_old_value_to_its_new_one() -> None:
    world = World([100, 200, 300, 400], EIGHT, bits=9, match="counting", placement=ScatteredPlacement)
    world.subscribe(Subscription("s", "ann", where="a = 3"), at=100)
    world.run()
    world.subscribe(Subscription("s", "ann", where="a = 5"), at=100)
    world.run()
    hosted = [key for broker in world.brokers.values() for key in broker.replication.hosted()]
    assert hosted == [ScatteredPlacement(Circle(9), AttributeAxis("a", 9)).key(5, 0)]


def test_alternatives_are_parts_with_ids_of_their_own_and_delivered_once() -> None:
    world = World([100, 200, 300, 400], STOCKS, bits=9)
    world.subscribe(Subscription("s", "ann", where="Price > 8 or Symbol = 'OTE' or High < 1"), at=200)
    world.publish(EVENT, at=400)
    world.run()
    world.check()
    assert len(world.delivered()) == 1
    assert len({number for number, _, _ in world.brokers[200]._parts[SubscriptionKey("ann", "s")]}) == 3


def test_numbers_of_subscriptions_are_used_again_when_none_is_left() -> None:
    world = World([100], EIGHT, bits=9, outstanding=2)
    for round_ in range(5):
        world.subscribe(Subscription(f"s{round_}", "ann", where="a = 3 or b > 1 and a = 4"), at=100)
        with pytest.raises(DistributaryError, match="outstanding"):
            world.subscribe(Subscription("more", "ann", where="a = 3"), at=100)
        world.unsubscribe(f"s{round_}")
    assert not world.stored_at()


@pytest.mark.parametrize(
    "subscription",
    [
        Subscription("s", "ann", where="Volume > 3"),
        Subscription("s", "ann", where="Price > 3 or Volume > 3"),
        Subscription("s", "ann", where="Symbol like '%TE'"),
        Subscription("s", "ann", where="Symbol > 'O'"),
        Subscription("s", "ann", where="Price is null"),
        Subscription("s", "ann", topic="quotes"),
        Subscription("s", "ann", change={"Price": 0.05}),
    ],
)
def test_what_the_ring_cannot_look_up_is_refused_and_leaves_nothing(subscription: Subscription) -> None:
    world = World([100, 300], STOCKS, bits=9)
    with pytest.raises(FilterError, match="nothing that the ring could look up"):
        world.subscribe(subscription, at=100)
    assert not world.stored_at()
    with pytest.raises(UnknownSubscriptionError):
        world.brokers[100].unsubscribe(SubscriptionKey("ann", "s"))


def test_what_the_ring_cannot_look_up_is_checked_at_home() -> None:
    world = World([100, 300], STOCKS, bits=9)
    where = "Price > 8 and Symbol like '%TE'"
    world.subscribe(Subscription("s1", "ann", topic="quotes/*", where=where), at=100)
    world.subscribe(Subscription("s2", "bob", where="Price > 8", change={"High": 1}), at=100)
    for number, (symbol, topic) in enumerate(
        [("OTE", "quotes/NYSE"), ("OTA", "quotes/NYSE"), ("OTE", "news")]
    ):
        values = {**EVENT.attributes, "Symbol": symbol}
        event = Event(f"e{number}", topic, values)
        world.simulator.call(300, lambda event=event: world.brokers[300].publish(event))
        world.run()
    got = [(event, subscriber) for _, event, subscriber, _ in world.delivered()]
    assert got == [("e0", "ann"), ("e0", "bob"), ("e2", "bob")]


def test_too_many_values_are_refused() -> None:
    schema = AttributeSchema((NumberAttribute("a", 0, 10**9),))
    world = World([100, 300], schema, bits=9, placement=ScatteredPlacement)
    with pytest.raises(FilterError, match="more than 100,000 times"):
        world.subscribe(Subscription("s", "ann", where="a > 5"), at=100)
    World([100, 300], schema, bits=9).subscribe(Subscription("s", "ann", where="a > 5"), at=100)


def test_the_narrowest_set_is_where_a_part_is_kept() -> None:
    world = World([100, 300], STOCKS, bits=9)
    world.subscribe(Subscription("s", "ann", where="Price between 8 and 9 and High = 9 and Low < 20"), at=100)
    [(_, _, attributes)] = world.brokers[100]._parts[SubscriptionKey("ann", "s")]
    assert attributes == ("High",)


def test_narrowest_takes_fewer_messages_than_counting() -> None:
    costs = {}
    for match in MATCHINGS:
        random = Random(1)
        world = World(random_addresses(random, 128), STOCKS, match=match)
        for number in range(20):
            where = f"Exchange = 'NYSE' and Symbol = 'S{number % 5}' and Price > {random.randrange(20)}"
            world.subscribe(Subscription(f"s{number}", "ann", where=where), at=random.choice(world.addresses))
        world.run()
        for number in range(20):
            values = {**EVENT.attributes, "Symbol": f"S{number % 7}"}
            world.publish(Event(f"e{number}", attributes=values), at=random.choice(world.addresses))
        world.run()
        world.check()
        costs[match] = [
            sum(world.messages(kind, f"{kind[0]}{number}") for number in range(20)) for kind in ("subscribe",)
        ] + [sum(world.messages("publish", f"e{number}") for number in range(20))]
    assert all(less < more for less, more in zip(costs["narrowest"], costs["counting"], strict=True))


def test_a_list_that_never_comes_keeps_nobody_from_the_event() -> None:
    world = World([100, 200, 300], STOCKS, bits=9, match="counting", couriers=True)
    world.subscribe(FIRST, at=100)
    world.run()
    lost = world.brokers[200].ring.listeners
    for broker in world.brokers.values():
        forget = broker.ring.listeners[ListRequest]
        broker.ring.listeners[ListRequest] = lambda message, arrival, keep=forget: (
            None if message.lookup.attribute == "High" else keep(message, arrival)
        )
    assert ListRequest in lost
    world.publish(EVENT, at=300)
    world.run()
    world.check()
    assert len(world.promised) == 1


def test_rebalancing_what_cannot_be_says_why() -> None:
    world = World([100], STOCKS, bits=9, placement=ArcPlacement.evenly)
    with pytest.raises(DistributaryError, match="no attribute 'Volume'"):
        world.brokers[100].rebalance("Volume")
    with pytest.raises(DistributaryError, match="does not list"):
        world.brokers[100].rebalance("Symbol")
    with pytest.raises(DistributaryError, match="in arcs"):
        World([100], STOCKS, bits=9, placement=OrderedPlacement).brokers[100].rebalance("Price")
