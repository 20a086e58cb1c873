"""What the tests of the state-aware systems share: rings in the simulator, random runs, the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any

from distributary.matching.matcher import Matcher
from distributary.model import Event, Subscription
from distributary.overlay.node import Address, Node
from distributary.overlay.ring.circle import Circle
from distributary.overlay.ring.ring import Ring, settle
from distributary.sim.deployment import Deployment
from distributary.sim.latency import ConstantLatency
from distributary.sim.simulator import Network, Simulator
from distributary.systems.state_aware.broker import StateAwareBroker
from distributary.systems.state_aware.segments import Segments

CIRCLE = Circle(16)
MakeBroker = Callable[[Ring, Segments], StateAwareBroker]

ITEMS = ("quotes/NYSE/AAA", "quotes/NYSE/BBB", "room/3")
CONDITIONS = (None, None, None, "volume > 4", "volume <= 4")


def settled_world(
    make: Callable[..., StateAwareBroker],
    nodes: int,
    seed: int,
    *,
    network: Network | None = None,
    span: float = 6,
    **options: Any,
) -> tuple[Deployment, list[Address]]:
    """A ring at rest, with a broker at every node."""
    simulator = Simulator(seed, network or ConstantLatency(0.05))
    segments = Segments.spanning(CIRCLE, nodes=span, of=nodes)

    def broker(address: Address) -> StateAwareBroker:
        return make(Ring(Node(address), CIRCLE), segments, **options)

    deployment = Deployment(simulator, broker)
    addresses = sorted(Random(f"addresses {seed}").sample(range(CIRCLE.size), nodes))
    for address in addresses:
        deployment.add(address)
    settle([member.ring for member in deployment.members.values()])
    return deployment, addresses


TOLERANCES = (0, 0.5, *range(1, 70))


def random_subscription(
    random: Random, name: str, *, attributes: int = 1, tolerances: Sequence[float] = TOLERANCES
) -> Subscription:
    item = random.choice(ITEMS)
    topic = item + random.choice(["", "/#", "/close"]) if item.count("/") == 2 else item + "/#"
    watched = random.sample(["price", "size"], random.randint(1, attributes))
    change = {each: float(random.choice(tolerances)) for each in watched}
    where = random.choice(CONDITIONS)
    return Subscription(name, f"subscriber {random.randrange(8)}", topic=topic, where=where, change=change)


class Walks:
    """Values that walk at random, for each item and each topic below it."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.number = 0
        self.prices: dict[str, int] = {}

    def event(self) -> Event:
        random = self.random
        topic = random.choice(ITEMS)
        if topic.count("/") == 2 and random.random() < 0.2:
            topic += "/close"
        self.prices[topic] = self.prices.get(topic, 100) + random.randint(-12, 12)
        attributes: dict[str, Any] = {"price": self.prices[topic], "volume": random.randint(0, 9)}
        if random.random() < 0.5:
            attributes["size"] = random.randint(0, 60)
        if random.random() < 0.05:
            attributes["price"] = random.choice(["high", None, True])
        self.number += 1
        return Event(f"e{self.number}", topic, attributes)


def run_against_oracle(
    deployment: Deployment,
    addresses: list[Address],
    seed: int,
    *,
    engine: str,
    steps: int = 60,
    attributes: int = 1,
    gap: float = 10.0,
    tolerances: Sequence[float] = TOLERANCES,
) -> None:
    """Subscribe, unsubscribe and publish at random; what is delivered is what the matcher says, at once.

    A new subscription gets the latest value of each topic, unless its subscriber has it by another.
    """
    random = Random(f"run {seed}")
    walks = Walks(random)
    matcher = Matcher(engines={"change": engine})
    homes = {f"subscriber {number}": random.choice(addresses) for number in range(8)}
    count = 0
    latest: dict[str, Event] = {}
    reached: set[tuple[str, str]] = set()

    def check(events: Iterable[Event], first: int) -> None:
        wanted = {
            (event.id, matcher.subscriber(name)) for event in events for name in matcher.match(event)
        } - reached
        reached.update(wanted)
        deployment.simulator.run(until=deployment.simulator.now + gap)
        got = [(each.delivery.event.id, each.delivery.subscriber) for each in deployment.deliveries[first:]]
        assert sorted(got) == sorted(wanted), f"seed {seed}"

    for _ in range(steps):
        here = len(deployment.deliveries)
        choice = random.random()
        if choice < 0.25 or not count:
            count += 1
            subscription = random_subscription(
                random, f"s{count}", attributes=attributes, tolerances=tolerances
            )
            deployment.subscribe(subscription, at=homes[subscription.subscriber])
            matcher.add(subscription)
            check(latest.values(), here)
        elif choice < 0.32 and deployment.subscriptions:
            key = random.choice(sorted(deployment.subscriptions))
            deployment.unsubscribe(key)
            matcher.remove(key.id)
        else:
            event = walks.event()
            publishers = [addresses[0], addresses[1]]
            deployment.publish(event, at=random.choice(publishers))
            assert event.topic is not None
            latest[event.topic] = event
            check([event], here)
        deployment.simulator.run(until=deployment.simulator.now + gap)


def delivered(deployment: Deployment, names: Iterable[str]) -> list[tuple[str, str]]:
    """The events and subscribers of all deliveries to these subscribers."""
    wanted = set(names)
    return [
        (each.delivery.event.id, each.delivery.subscriber)
        for each in deployment.deliveries
        if each.delivery.subscriber in wanted
    ]
