"""Simulated networks of queries for tests: made, fed, changed at random, compared with the interpreter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import pairwise
from random import Random

from distributary.flow import Catalogue, Item, RejectedItem, interpret
from distributary.model import Delivery, Event
from distributary.overlay.node import Address, Message, Node
from distributary.plan.queries.spreading import ParentPreference
from distributary.sim.latency import Latency
from distributary.sim.metrics import Metrics
from distributary.sim.population import Population
from distributary.sim.simulator import Simulator
from distributary.systems.queries.broker import FlowBroker, QueryResult
from distributary.systems.queries.engine import HostedReader
from distributary.systems.queries.links import LinkEstimate, LinkTable
from distributary.systems.queries.messages import Element
from distributary.systems.queries.processing import INSTANT, Processor
from distributary.systems.queries.settings import (
    CheckpointSettings,
    QueryOptimiserSettings,
    Regrouping,
    SheddingSettings,
    Surroundings,
)
from flow.random_queries import random_arrivals

REGISTRY = 1
VOLUME = 100.0
"""Bytes a second of every source: brokers with less bandwidth are no root brokers while there are others."""


class LineLatency(Latency):
    """Nodes in a row: 20 ms between neighbours, and up to `jitter` seconds more for each message."""

    def __init__(self, seed: int, jitter: float = 0.02) -> None:
        super().__init__()
        self._random = Random(f"{seed}/line")
        self._jitter = jitter

    def delay(self, now: float, sender: Address, to: Address, message: Message) -> float:
        return 0.02 * abs(sender - to) + self._random.uniform(0, self._jitter)


class World:
    """Brokers 1, 2, ... of which the first has the registry."""

    def __init__(
        self,
        nodes: int,
        seed: int,
        *,
        network: Latency | None = None,
        fanout: int = 2,
        optimising: QueryOptimiserSettings | None = None,
        checkpoints: CheckpointSettings | None = None,
        bandwidth: Mapping[Address, float] | None = None,
        regrouping: Regrouping | None = None,
        restructuring: float | None = None,
        prefer: ParentPreference | None = None,
        probing: float = 30.0,
        processors: Mapping[Address, Processor] | None = None,
        shedding: SheddingSettings | None = None,
    ) -> None:
        self.random = Random(f"{seed}/world")
        self.taken: dict[tuple[str, int, str], list[int]] = {}
        """The numbers of the items that each reader was given of each stream, in order."""
        self.metrics = Metrics()
        self.simulator = Simulator(seed, network or LineLatency(seed), [self.metrics])
        self.nodes = list(range(1, nodes + 1))
        surroundings = Surroundings(
            self.nodes,
            bandwidth or {},
            most_trees=2,
            fanout=fanout,
            restructuring=restructuring,
            prefer=prefer,
            probing=probing,
        )
        self.population: Population[FlowBroker] = Population(
            self.simulator,
            lambda address: FlowBroker(
                Node(address),
                REGISTRY,
                surroundings,
                optimising=optimising,
                checkpoints=checkpoints,
                regrouping=regrouping,
                processor=(processors or {}).get(address, INSTANT),
                shedding=shedding,
            ),
        )
        for address in self.nodes:
            self.population.add(address)
            self._watch(self.broker(address))
        self.run(2)  # links are measured
        self.changed = {"move": 0, "partition": 0, "replicate": 0}
        self._proxies: dict[str, Address] = {}

    def broker(self, address: Address) -> FlowBroker:
        return self.population.members[address]

    @property
    def brokers(self) -> list[FlowBroker]:
        return [self.broker(address) for address in self.nodes]

    def run(self, seconds: float) -> None:
        self.simulator.run(until=self.simulator.now + seconds)

    def _watch(self, broker: FlowBroker) -> None:
        """See that every reader gets the elements of a stream once and in order, wherever it is."""
        process = broker.engine._process

        def watched(hosted: HostedReader, number: int, elements: Sequence[Element], **rest: bool) -> None:
            taken = self.taken.setdefault((hosted.name, number, hosted.cursors[number].stream), [])
            taken += [element.number for element in elements if element.item is not None]
            process(hosted, number, elements, **rest)

        broker.engine._process = watched  # type: ignore[method-assign]

    def disorder(self) -> list[tuple[str, int, str]]:
        """Readers that got an element twice, or after a later one."""
        return [
            reader
            for reader, taken in self.taken.items()
            if any(one >= other for one, other in pairwise(taken))
        ]

    # What clients do

    def register(self, catalogue: Catalogue, at: Mapping[str, Address] | None = None) -> None:
        """Register all sources and queries, each where it is said or at some node, one after the other."""
        given = at or {}
        for source in catalogue.sources.values():
            self._proxies[source.name] = node = given.get(source.name) or self.random.choice(self.nodes)
            self.simulator.call(node, partial(self.broker(node).register_source, source, VOLUME))
        self.run(4)
        self.register_queries(catalogue, given)

    def register_queries(self, catalogue: Catalogue, at: Mapping[str, Address] | None = None) -> None:
        """Register the queries of a catalogue whose sources are registered."""
        given = at or {}
        for query in catalogue.queries.values():
            node = given.get(query.name) or self.random.choice(self.nodes)
            self.simulator.call(node, partial(self.broker(node).register_query, query))
            self.run(4)
        assert not any(broker.refused for broker in self.brokers)

    def feed(self, source: str, item: Item) -> None:
        self.publish(source, Event(item.id, source, dict(item.attributes)))

    def publish(self, source: str, event: Event) -> None:
        at = self._proxy(source)
        self.simulator.call(at, lambda: self.broker(at).publish(event))

    def end(self, source: str) -> None:
        at = self._proxy(source)
        self.simulator.call(at, lambda: self.broker(at).end(source))

    def _proxy(self, source: str) -> Address:
        """Where a source's proxy is, as soon as it is up."""
        while not self.simulator.is_up(self._proxies[source]):
            self.run(0.1)
        return self._proxies[source]

    # What goes on in between

    def operators(self) -> list[tuple[str, Address]]:
        """Which operators are where."""
        return sorted(
            (name, broker.node.address) for broker in self.brokers for name in broker.engine.operators
        )

    def operators_up(self) -> list[tuple[str, Address]]:
        """Which operators are at nodes that are up."""
        return [(name, at) for name, at in self.operators() if self.simulator.is_up(at)]

    def change(self) -> None:
        """Move, partition or replicate some operator."""
        there = [(name, at) for name, at in self.operators() if not self.simulator.is_paused(at)]
        there = [(name, at) for name, at in there if self.simulator.is_up(at)]
        if not there:
            return
        name, at = self.random.choice(there)
        broker = self.broker(at)
        match self.random.choice(["move", "move", "partition", "replicate"]):
            case "partition" if broker.reconfiguration.can_partition(name):
                parts = self.random.randint(2, 3)
                self._change("partition", at, lambda: broker.partition(name, parts))
            case "replicate" if broker.reconfiguration.can_replicate(name):
                self._change("replicate", at, lambda: broker.replicate(name))
            case _:
                to = self.random.choice(self.nodes)
                self._change("move", at, lambda: broker.move(name, to))

    def _change(self, what: str, at: Address, action: object) -> None:
        self.changed[what] += 1
        self.simulator.call(at, action, (what, self.changed[what]))  # type: ignore[arg-type]

    # What came of it

    def results(self) -> dict[str, list[Item]]:
        """What clients got, by the streams' names, in the order in which they got it."""
        found: dict[str, list[Item]] = defaultdict(list)
        for _, _, item, _, _ in self.simulator.delivered:
            if isinstance(item, QueryResult):
                found[item.stream].append(item.item)
        return found

    def deliveries(self) -> list[Delivery]:
        return [one.item for one in self.simulator.delivered if isinstance(one.item, Delivery)]

    def rejected(self) -> list[RejectedItem]:
        return [one.item for one in self.simulator.delivered if isinstance(one.item, RejectedItem)]


def run_through(
    world: World,
    catalogue: Catalogue,
    items: dict[str, list[Item]],
    changes: float,
    rest: float = 400,
    pace: float = 1.0,
) -> None:
    """Feed items in a random order within their lateness, with changes in between; then let all come to rest.

    `changes` says how many there are for an element that is fed, `pace` how much time passes in between.
    """
    for source, step in random_arrivals(world.random, items):
        if isinstance(step, Item):
            world.feed(source, step)
        elif step >= 2**53:
            world.end(source)
        while world.random.random() < changes / (1 + changes):
            world.change()
            world.run(world.random.choice([0.0, 0.01, 0.05, 0.3]))
        world.run(world.random.choice([0.0, 0.02, 0.2]) * pace)
    world.run(rest)


def expect_equal(
    world: World,
    catalogue: Catalogue,
    items: dict[str, list[Item]],
    in_order: bool = True,
    queries: Sequence[str] | None = None,
) -> None:
    """Every client, or those of some queries, got exactly what the interpreter gives, each item once.

    Those who asked for the order of the stream got it in that order.
    """
    expected = interpret(catalogue, items)
    found = world.results()
    for query in catalogue.queries if queries is None else queries:
        for output in catalogue.outputs(query):
            got = found[output]
            if not catalogue.queries[query].ordered:
                got = sorted(got, key=lambda item: item.order)
            assert got == expected.streams[output], output
    assert not in_order or world.disorder() == []
    assert not [one for one in world.rejected() if "late" in one.reason]


def row_of_nodes(count: int) -> LinkTable:
    """The links between nodes 1, 2, ... in a row, one second from each to the next."""
    nodes = range(1, count + 1)
    return LinkTable(
        {(one, other): LinkEstimate(float(other - one)) for one in nodes for other in nodes if one < other}
    )
