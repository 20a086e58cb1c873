"""Simulated trees for tests: made, watched for loops after every step, and compared with brute force."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from random import Random
from typing import Any

from distributary.filters.profile import Profile
from distributary.model import Event, Subscription
from distributary.overlay.node import Address, Message, Token
from distributary.overlay.tree.node import TreeNode
from distributary.overlay.tree.state import TreeSettings
from distributary.overlay.tree.topology import Parents, loops, random_parents
from distributary.plan.goal.expression import Goal
from distributary.plan.trees.optimiser import HYBRID
from distributary.plan.trees.tree import NO_PARENT, Sites, Tree
from distributary.sim.deployment import Deployment
from distributary.sim.latency import Latency, MatrixLatency, UniformLatency
from distributary.sim.simulator import Observer, Simulator
from distributary.systems.assembly import Settings
from distributary.systems.tree.broker import TreeAssembly, TreeBroker
from distributary.systems.tree.optimiser import TreeOptimiser
from distributary.systems.tree.settings import Gauges, OptimisationSettings

FANOUT = 3
TOPICS = "ABCDEFGH"


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


def random_sites(nodes: int, random: Random) -> Sites:
    """Sites whose measurements come out in the simulation to the last digit, and are added without rounding.

    So of rewrites that are worth the same, all take the same.
    """

    def matrix(low: int, high: int) -> list[list[float]]:
        rows = [[0.0] * nodes for _ in range(nodes)]
        for one in range(nodes):
            for other in range(one):
                rows[one][other] = rows[other][one] = float(random.randint(low, high))
        return rows

    latency, bandwidth = matrix(5, 200), matrix(1, 100)
    interest = [random.randrange(1, 1 << len(TOPICS)) & random.randrange(1 << 8) for _ in range(nodes)]
    return Sites(
        latency=latency,
        bandwidth=bandwidth,
        clients=[each.bit_count() for each in interest],
        processing=[random.randint(1, 30) for _ in range(nodes)],
        interest=interest,
        rates=[random.randint(1, 5) for _ in TOPICS],
    )


class LiveWorld(World):
    """A live tree over sites: node 1 stands at site 0, and so on. Clients ask for topics."""

    def __init__(
        self,
        goal: Goal,
        sites: Sites,
        start: Tree,
        *,
        rules: Any = HYBRID,
        fanout: int | None = None,
        everywhere: Sites | None = None,
        robust: bool = False,
        heartbeat: float | None = None,
        tree: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        self.sites = sites
        everywhere = everywhere or sites
        count = everywhere.count
        gauges = Gauges.of_sites(everywhere, {site + 1: site for site in range(count)}, window=None)
        given = {"statistics": 1.0, "period": 25.0, "window": 6.0, "most_heard": None, **more}
        self.period = float(given["period"])
        names = [str(site) for site in range(count)]
        places = {site + 1: name for site, name in enumerate(names)}
        super().__init__(
            sites.count,
            1,
            network=MatrixLatency(names, everywhere.latency, seed=1, places=places),  # type: ignore[arg-type]
            parents={site + 1: start.parents[site] + 1 for site in start.order[1:]},
            optimising=OptimisationSettings(goal, rules=rules, gauges=gauges, **given),
            fanout=fanout,
            heartbeat=heartbeat,
            robust=robust,
            watch=False,
            **(tree or {}),
        )
        for site, interest in enumerate(sites.interest):
            for number, topic in enumerate(TOPICS):
                if interest >> number & 1:
                    name = f"s{site}{topic}"
                    self.deployment.subscribe(Subscription(name, name, topic=topic), at=site + 1)
        self.run(3)
        for topic, rate in zip(TOPICS, sites.rates, strict=True):
            for number in range(int(rate)):
                self.publish(Event(f"{topic}{number}", topic))

    def converge(self, *, traffic: bool = True) -> Tree:
        """Run until two periods have passed in which nobody had anything to name."""
        root = self.optimisers()[0]
        self.shapes = [self.shape()]
        for period in range(300):
            for number in range(5):
                if traffic:
                    self.publish(Event(f"{period}.{number}", self.random.choice(TOPICS)))
                self.run(self.period / 5)
            self.shapes.append(self.shape())
            if root.quiet >= 2:
                return self.shape()
        raise AssertionError("it goes on and on")

    def shape(self) -> Tree:
        return Tree(tuple(NO_PARENT if tree.is_root else (tree.parent or 0) - 1 for tree in self.trees()))


def random_subscription(random: Random, name: str) -> Subscription:
    where = f"a {random.choice('<>')} {random.randint(0, 9)}"
    topic = random.choice([None, "A", "A/B/#", "C"])
    return Subscription(name, f"client {random.randrange(5)}", topic=topic, where=where)


def random_event(random: Random, name: str) -> Event:
    return Event(name, random.choice(["A", "A/B", "C/D"]), {"a": random.randint(0, 9)})
