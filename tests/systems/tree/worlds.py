"""Simulated trees for tests: made, watched for loops after every step, and compared with brute force."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

from distributary.filters.profile import Profile
from distributary.model import Event, Subscription
from distributary.overlay.node import Address, Message, Token
from distributary.overlay.tree.node import TreeNode
from distributary.overlay.tree.state import TreeSettings
from distributary.overlay.tree.topology import Parents, loops, random_parents
from distributary.sim.deployment import Deployment
from distributary.sim.latency import Latency, UniformLatency
from distributary.sim.simulator import Observer, Simulator
from distributary.systems.assembly import Settings
from distributary.systems.tree.broker import TreeAssembly, TreeBroker
from distributary.systems.tree.optimiser import TreeOptimiser
from distributary.systems.tree.settings import OptimisationSettings

FANOUT = 3


class World:
    """A tree with its clients; node 1 is the root."""

    def __init__(
        self,
        nodes: int,
        seed: int,
        *,
        robust: bool = False,
        watch: bool = True,
        network: Latency | None = None,
        parents: Parents | None = None,
        optimising: OptimisationSettings | None = None,
        **shape: Any,
    ) -> None:
        self.random = Random(f"{seed}/world")
        self.simulator = Simulator(seed, network or UniformLatency(0.01, 0.1, seed=seed))
        settings = Settings.robust(nodes) if robust else Settings(nodes)
        self.assembly = TreeAssembly(
            settings,
            range(1, nodes + 1),
            lambda one: self.deployment.contact(one),
            tree=TreeSettings(**{"fanout": FANOUT, "heartbeat": 1.0 if robust else None, **shape}),
            parents=lambda nodes: (
                parents
                or random_parents(nodes, self.assembly.tree_settings.fanout, Random(f"{seed}/parents"))
            ),
            optimising=optimising,
            seed=seed,
        )
        self.deployment = Deployment(self.simulator, self.assembly, sizes=False)  # type: ignore[arg-type]
        self.deployment.add_settled(range(1, nodes + 1), self.assembly.settle)  # type: ignore[arg-type]
        self.expected: dict[str, Counter[tuple[Address, str]]] = {}
        if watch:
            self.simulator.observe(Watch(self))

    def broker(self, address: Address) -> TreeBroker:
        broker = self.deployment.members[address]
        assert isinstance(broker, TreeBroker)
        return broker

    def optimisers(self) -> list[TreeOptimiser]:
        found = [self.broker(address).optimiser for address in sorted(self.deployment.members)]
        return [one for one in found if one is not None]

    def trees(self, *, up: bool = False) -> list[TreeNode]:
        chosen = self.deployment.up() if up else sorted(self.deployment.members)
        return [self.broker(address).tree for address in chosen]

    def anybody(self) -> Address:
        able = [one for one in self.deployment.up() if not self.simulator.is_paused(one)]
        return self.random.choice(able)

    def subscribe(self, name: str, at: Address | None = None) -> None:
        at = self.anybody() if at is None else at
        self.deployment.subscribe(random_subscription(self.random, name), at=at)

    def publish(self, event: Event | None = None) -> None:
        """Publish an event that must reach whoever is subscribed now."""
        event = event or random_event(self.random, f"e{len(self.expected)}")
        self.expected[event.id] = Counter(
            {
                (at, subscription.subscriber): 1
                for subscription, at in self.deployment.subscriptions.values()
                if Profile.of(subscription).matches(event)
            }
        )
        self.deployment.publish(event, at=self.anybody())

    def reorganise(self) -> None:
        """Have some node ask for some other parent."""
        node, new = self.anybody(), self.anybody()
        broker = self.broker(node)
        if node != new and not broker.tree.is_root and not broker.tree.leaving:
            self.simulator.call(node, lambda: broker.change_parent(new), ("change", f"{node} to {new}"))

    def run(self, seconds: float) -> None:
        self.simulator.run(until=self.simulator.now + seconds)

    def got(self) -> dict[str, Counter[tuple[Address, str]]]:
        found: dict[str, Counter[tuple[Address, str]]] = {event: Counter() for event in self.expected}
        for _, address, delivery, _ in self.deployment.deliveries:
            found[delivery.event.id][address, delivery.subscriber] += 1
        return found


class Watch(Observer):
    """Looks for loops whenever a node is about to do something."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.parents: dict[Address, Address | None] = {}

    def received(self, now: float, sender: Address, to: Address, message: Message) -> None:
        self._look()

    def woken(self, now: float, address: Address, token: Token) -> None:
        self._look()

    def _look(self) -> None:
        members: Any = self._world.deployment.members
        parents = {address: broker.tree.link.parent for address, broker in members.items()}
        if parents != self.parents:
            self.parents = parents
            assert loops(self._world.trees()) == []


def random_subscription(random: Random, name: str) -> Subscription:
    where = f"a {random.choice('<>')} {random.randint(0, 9)}"
    topic = random.choice([None, "A", "A/B/#", "C"])
    return Subscription(name, f"client {random.randrange(5)}", topic=topic, where=where)


def random_event(random: Random, name: str) -> Event:
    return Event(name, random.choice(["A", "A/B", "C/D"]), {"a": random.randint(0, 9)})
