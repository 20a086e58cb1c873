"""What the tests of the attribute system share: rings at rest, random subscriptions, the oracle."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from distributary.errors import FilterError
from distributary.filters.profile import Profile
from distributary.model import Delivery, Event, Subscription
from distributary.overlay.courier import Courier
from distributary.overlay.node import Address, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.fingers import BOTH_WAYS, Rule
from distributary.overlay.ring.placement import (
    ArcPlacement,
    OrderedPlacement,
    PlacementFactory,
    ScatteredPlacement,
)
from distributary.overlay.ring.ring import Ring, settle
from distributary.sim.latency import ConstantLatency
from distributary.sim.metrics import Metrics
from distributary.sim.simulator import Network, Simulator
from distributary.systems.attributes.broker import AttributeBroker
from distributary.systems.attributes.schema import (
    AttributeSchema,
    BooleanAttribute,
    NumberAttribute,
    TextAttribute,
)

PLACEMENTS: dict[str, PlacementFactory] = {
    "scattered": ScatteredPlacement,
    "ordered": OrderedPlacement,
    "arcs": ArcPlacement.evenly,
}
MATCHINGS = ("counting", "narrowest")


class World:
    """A ring at rest with a broker at every node, and what its clients were promised."""

    def __init__(
        self,
        addresses: list[Address],
        schema: AttributeSchema,
        *,
        bits: int = 16,
        rule: Rule = BOTH_WAYS,
        network: Network | None = None,
        couriers: bool = False,
        seed: int = 0,
        **options: Any,
    ) -> None:
        self.schema = schema
        self.simulator = Simulator(seed, network or ConstantLatency(0.05))
        self.metrics = Metrics(sizes=False)
        self.simulator.observe(self.metrics)
        self.brokers: dict[Address, AttributeBroker] = {}
        for address in sorted(addresses):
            ring = Ring(Node(address), Circle(bits), rule=rule)
            courier = Courier(ring.node) if couriers else None
            if courier is not None:
                courier.carry(ring)
            self.brokers[address] = AttributeBroker(ring, schema, courier=courier, **options)
        settle([broker.ring for broker in self.brokers.values()])
        for broker in self.brokers.values():
            self.simulator.add(broker.node)
        self.subscriptions: dict[str, tuple[Subscription, Address]] = {}
        self.profiles: dict[str, Profile] = {}
        self.promised: list[tuple[Address, str, str, tuple[str, ...]]] = []

    @property
    def addresses(self) -> list[Address]:
        return list(self.brokers)

    def subscribe(self, subscription: Subscription, at: Address) -> None:
        broker = self.brokers[at]
        self.simulator.call(at, lambda: broker.subscribe(subscription), ("subscribe", subscription.id))
        self.subscriptions[subscription.id] = (subscription, at)
        self.profiles[subscription.id] = Profile.of(subscription)

    def unsubscribe(self, subscription_id: str) -> None:
        subscription, at = self.subscriptions.pop(subscription_id)
        broker = self.brokers[at]
        self.simulator.call(
            at, lambda: broker.unsubscribe(subscription.key), ("unsubscribe", subscription_id)
        )

    def publish(self, event: Event, at: Address) -> None:
        """Publish, and note who must get it: whoever is subscribed now."""
        broker = self.brokers[at]
        self.simulator.call(at, lambda: broker.publish(event), ("publish", event.id))
        wanted: dict[tuple[Address, str], list[str]] = {}
        for name, (subscription, home) in self.subscriptions.items():
            if self.profiles[name].matches(event):
                wanted.setdefault((home, subscription.subscriber), []).append(name)
        for (home, subscriber), names in wanted.items():
            self.promised.append((home, event.id, subscriber, tuple(sorted(names))))

    def run(self, seconds: float | None = None) -> None:
        self.simulator.run(until=None if seconds is None else self.simulator.now + seconds)

    def delivered(self) -> list[tuple[Address, str, str, tuple[str, ...]]]:
        found = []
        for delivered in self.simulator.delivered:
            assert isinstance(delivered.item, Delivery)
            found.append((delivered.address, *_fields(delivered.item)))
        return found

    def check(self) -> None:
        """Everything promised has been delivered, once, and nothing else has."""
        assert sorted(self.delivered()) == sorted(self.promised)

    def messages(self, operation: str, name: str) -> int:
        return self.metrics.cost((operation, name)).messages

    def stored_at(self) -> dict[Address, int]:
        return {address: broker.entries for address, broker in self.brokers.items() if broker.entries}


def _fields(delivery: Delivery) -> tuple[str, str, tuple[str, ...]]:
    return delivery.event.id, delivery.subscriber, delivery.subscriptions


def random_addresses(random: Random, nodes: int, bits: int = 16) -> list[Address]:
    return sorted(random.sample(range(1 << bits), nodes))


# Random schemas, subscriptions and events.


def random_schema(random: Random) -> AttributeSchema:
    attributes: list[Any] = []
    for name in ("a", "b", "c", "d")[: random.randint(1, 4)]:
        kind = random.random()
        if kind < 0.5:
            low = random.choice([0, -5, 2.5])
            precision = random.choice([1, 0.5, 0.1, 3])
            attributes.append(NumberAttribute(name, low, low + random.choice([4, 10, 20]), precision))
        elif kind < 0.7:
            attributes.append(TextAttribute(name, ("f", "k", "p", "u")))
        elif kind < 0.9:
            attributes.append(TextAttribute(name))
        else:
            attributes.append(BooleanAttribute(name))
    return AttributeSchema(tuple(attributes), topic=random.random() < 0.5)


def random_value(random: Random, schema: AttributeSchema, name: str) -> Any:
    """A value of the attribute's type, on the grid, beside it or beyond it; now and then of another type."""
    attribute = schema[name] if name in schema else TextAttribute(name)
    if random.random() < 0.15:
        return random.choice([3, 2.5, "k", True, None, float("nan"), float("inf"), (1, 2), "", 10**20])
    if isinstance(attribute, NumberAttribute):
        if random.random() < 0.3:
            return random.uniform(attribute.minimum - 3, attribute.maximum + 3)
        return round(attribute.minimum + attribute.precision * random.randrange(-3, attribute.cells + 3), 6)
    return random.choice("fgkpu") if isinstance(attribute, TextAttribute) else random.random() < 0.5


def random_literal(random: Random, schema: AttributeSchema, name: str) -> str:
    value = random_value(random, schema, name)
    while value is None or isinstance(value, tuple) or value in (float("inf"),) or value != value:
        value = random_value(random, schema, name)
    if isinstance(value, str):
        return f"'{value}'"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def random_condition(random: Random, schema: AttributeSchema, depth: int = 2) -> str:
    if depth and random.random() < 0.6:
        parts = [random_condition(random, schema, depth - 1) for _ in range(2)]
        return "(" + random.choice([" and ", " and ", " or "]).join(parts) + ")"
    names = [attribute.name for attribute in schema.attributes]
    name = random.choice(names) if random.random() < 0.9 else "e"
    literals = [random_literal(random, schema, name) for _ in range(3)]
    kind = random.random()
    if kind < 0.6:
        return f"{name} {random.choice(['=', '<', '<=', '>', '>=', '<>'])} {literals[0]}"
    if kind < 0.75:
        return f"{name} between {literals[0]} and {literals[1]}"
    if kind < 0.92:
        return f"{name} in ({', '.join(literals)})"
    return random.choice([f"{name} like 'f%'", f"not {name} = 3", f"{name} is not null", f"{name} < e"])


def random_subscription(random: Random, schema: AttributeSchema, name: str) -> Subscription:
    topic = random.choice([None, None, None, "A/B/#", "A", "A/*"])
    where = random_condition(random, schema) if topic != "A/B/#" or random.random() < 0.7 else None
    return Subscription(name, f"client{random.randrange(4)}", topic=topic, where=where)


def random_event(random: Random, schema: AttributeSchema, event_id: str) -> Event:
    topic = random.choice([None, "A/B", "A/C", "A/B/C"])
    names = [attribute.name for attribute in schema.attributes]
    attributes = {name: random_value(random, schema, name) for name in [*names, "e"] if random.random() < 0.9}
    return Event(event_id, topic, attributes)


def random_run(world: World, random: Random, steps: int, *, settle_each: bool = True) -> int:
    """Subscribe, update, unsubscribe and publish at random; how many subscriptions could not be filed."""
    refused = 0
    for step in range(steps):
        choice = random.random()
        if choice < 0.35:
            known = random.random() < 0.3 and sorted(world.subscriptions)
            name = random.choice(known) if known else f"s{step}"
            at = random.choice(world.addresses)
            subscription = random_subscription(random, world.schema, name)
            if known:  # the same one, changed
                before, at = world.subscriptions[name]
                subscription = replace(subscription, subscriber=before.subscriber)
            try:
                world.subscribe(subscription, at)
            except FilterError:
                refused += 1
        elif choice < 0.45 and world.subscriptions:
            world.unsubscribe(random.choice(sorted(world.subscriptions)))
        else:
            world.publish(random_event(random, world.schema, f"e{step}"), random.choice(world.addresses))
        if settle_each:
            world.run()
    return refused
