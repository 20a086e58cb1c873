"""A trial of a query network: queries at nodes of the simulator, under faults and changes, checked.

Rules:

- Everything comes from the seed: where sources and clients are, delays, faults, what is changed when.
- Sources and queries are registered first. Then all events are published over `seconds` of virtual time,
  while faults come and go and operators are moved and divided at random, or the network pursues a goal.
- In the end every client's items are compared with the interpreter's. A trial fails when one is missing, is
  not wanted, or came twice, and when a fault that the scenario promised never fired. Where load is shed,
  those count that are due by the shares that the client was told.
- Every other generated query asks for the order of its stream, and gets exactly that. The others get items in
  the order that their operators keep (`query_answers.kept_order`; not where nodes are gone).
- Where processors take time, the end is when nothing waits for them. What is not done in an hour is told.
- Some queries may be withdrawn amid all this. What their clients got is the beginning of the answer, and
  nothing comes after they were told that the query has ended; all are told before the trial ends.
- Faults are those of messages, and of nodes that keep their state. Nodes that stop for good (`gone`) have
  neither sources nor clients, and operators are checkpointed. No other node stops in such a trial, because
  one that is silent for long is taken for gone.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from itertools import pairwise
from random import Random
from typing import Literal

from distributary.errors import DistributaryError, UsageError
from distributary.files import read_events
from distributary.flow import Catalogue, Item, SourceIntake, read_query_file
from distributary.model import Event
from distributary.overlay.node import Address, Node
from distributary.plan.queries.goals import NAMED_GOALS, parse_query_goal
from distributary.plan.queries.rules import MIGRATIONS, PARTITION, REPLICATION
from distributary.quarantine import Quarantine
from distributary.sim.metrics import Metrics, Traffic
from distributary.sim.population import Population
from distributary.sim.processor import SimulatedProcessor
from distributary.sim.scenario import SCENARIOS, Scenario, random_scenario
from distributary.sim.simulator import Observer
from distributary.sim.trials.query_answers import (
    answers_due,
    differences,
    nothing_due,
    out_of_order,
    promised_order,
    until_withdrawn,
)
from distributary.sim.trials.query_traffic import traffic_by_purpose
from distributary.sim.trials.query_workload import feed_catalogue, feed_events, random_events, rush_time
from distributary.sim.trials.run import Progress, TrialRun, repeat_command
from distributary.systems import queries as query_network
from distributary.systems.queries import FlowBroker, QueryOptimiserSettings, QueryResult, QueryShare
from distributary.systems.queries.broker import Withdrawal

REGISTRY = 1
SETTLING = 5.0
"""Seconds between registering sources, registering queries, and publishing."""
REST = 120.0
"""Seconds after the last event and the last fault in which all messages arrive."""
PATIENCE = 3600.0
"""Seconds after that in which slow nodes may process what still waits for them."""
LENIENT = ("calm", "loss", "duplication")
"""The scenarios in which nodes may also stop for good."""
GUARDING_SILENCE = 15.0
"""Seconds after which a silent node is taken for gone, in trials where nodes stop for good."""
ENOUGH = 10
"""If so many nodes have sources or clients, faults happen to these only."""
BEARABLE = (
    *("loss", "duplication", "reordering", "delay spike", "partition", "one-way partition"),
    *("restart with state", "pause", "clock skew", "clock drift"),
)
"""The kinds of faults under which answers stay exact."""
SCENARIO_NAMES = [
    *(name for name, kinds in SCENARIOS.items() if set(kinds) <= set(BEARABLE)),
    "everything",
]


@dataclass(frozen=True)
class QueryTrial:
    """What to run. UsageError when names or numbers do not fit together."""

    file: str = ""
    """A file of queries; empty for generated queries over generated feeds."""
    events_file: str = ""
    """A file of events for these queries; empty for events generated from their schemas."""
    scenario: str = "calm"
    nodes: int = 16
    seed: int = 1
    queries: int = 20
    feeds: int = 12
    events: int = 1200
    seconds: float = 120.0
    """The virtual time in which all events are published."""
    goal: str = ""
    """What the network optimises: a name of `NAMED_GOALS`, or a goal's text; empty for nothing."""
    period: float = 15.0
    told: Literal["neighbourhood", "whole"] = "neighbourhood"
    """How much of the network nodes know for that (`systems.queries.optimiser`)."""
    changes: int = 0
    """How many operators are moved, divided or replicated at random."""
    withdrawals: int = 0
    """How many queries are withdrawn at random."""
    gone: int = 0
    """How many nodes stop for good, one after another."""
    latency: str = "uniform"
    speed: float = 0.0
    """Cycles a second of every node's processor, of which an item costs an operator one; 0 for no limit."""
    rush: float = 1.0
    """How many times as many events come in the middle third of the time as in the others."""
    shed: bool = False
    """Whether queries are thinned out while nodes have more to do than their processors can."""

    def __post_init__(self) -> None:
        if self.scenario not in SCENARIO_NAMES:
            without = [name for name in SCENARIOS if name not in SCENARIO_NAMES]
            hint = f" ({', '.join(without)}: memories are lost, and nothing promised)" if without else ""
            raise UsageError(
                f"no scenario {self.scenario!r} for queries; there are {', '.join(SCENARIO_NAMES)}{hint}"
            )
        if self.nodes < 1 or (self.scenario != "calm" and self.nodes < 4):
            needed = "4 or more where there are faults" if self.nodes >= 1 else "1 or more"
            raise UsageError(f"nodes: {self.nodes} are too few; give {needed}")
        if self.gone and self.gone > self.nodes - 2:
            raise UsageError(f"of {self.nodes} nodes {self.gone} cannot be gone: two must stay")
        if self.gone and self.scenario not in LENIENT:
            raise UsageError(f"with nodes that are gone, scenarios are {', '.join(LENIENT)}")
        if self.gone and self.seconds / (self.gone + 1) < 2 * GUARDING_SILENCE:
            least = 2 * GUARDING_SILENCE * (self.gone + 1)
            raise UsageError(f"{self.gone} nodes one after the other take {least:g} seconds at least")
        if self.withdrawals and self.shed:
            raise UsageError("queries are not withdrawn where load is shed: their shares end with them")
        if self.speed < 0 or self.rush <= 0:
            raise UsageError("a speed is at least 0, and a rush above 0")
        if self.shed and (self.gone or not self.speed):
            reason = "nodes that are gone" if self.gone else "processors that take no time: give a speed"
            raise UsageError(f"load is not shed with {reason}")
        if self.events_file and not self.file:
            raise UsageError("events are for the queries of a file: name it too")

    @property
    def command(self) -> str:
        """The command that runs this trial."""
        file = [self.file] if self.file else []
        words = ["distributary", "sim", "queries", *file, "--seed", str(self.seed)]
        options = {each.name: each.name for each in fields(self) if each.name not in ("file", "seed")}
        return repeat_command(words, self, {**options, "events_file": "events", "events": "count"})

    @cached_property
    def catalogue(self) -> Catalogue:
        """The sources and queries of the file, or generated ones over feeds; checked."""
        if not self.file:
            return feed_catalogue(self.queries, self.feeds, self.seed, ordered=0.5)
        catalogue = read_query_file(self.file)
        catalogue.check()
        return catalogue

    @cached_property
    def given(self) -> tuple[Event, ...]:
        """All events, in the order in which they are published."""
        known = (self.events, self.seconds, self.seed, self.rush)
        if not self.file:
            return tuple(feed_events(self.catalogue, *known))
        if not self.events_file:
            return tuple(random_events(self.catalogue, *known))
        with Quarantine() as quarantine:
            return tuple(event for _, event in quarantine.accept(read_events(self.events_file)))

    @property
    def optimising(self) -> QueryOptimiserSettings | None:
        """The settings by which the network pursues the goal; None without one."""
        if not self.goal:
            return None
        goal = parse_query_goal(NAMED_GOALS.get(self.goal, self.goal))
        rules = (*MIGRATIONS, REPLICATION, PARTITION)
        return QueryOptimiserSettings(goal, period=self.period, rules=rules, told=self.told, seed=self.seed)

    @property
    def checkpoints(self) -> query_network.CheckpointSettings | None:
        """How checkpoints are made; None where no node stops for good."""
        return query_network.CheckpointSettings(silence=GUARDING_SILENCE) if self.gone else None

    @property
    def shedding(self) -> query_network.SheddingSettings | None:
        """How load is shed, if it is."""
        return query_network.SheddingSettings(seed=self.seed) if self.shed else None


@dataclass(frozen=True)
class QueryOutcome:
    """The result of a trial."""

    trial: QueryTrial
    results: int
    """How many items clients got."""
    problems: tuple[str, ...]
    """What went wrong; empty when the trial succeeded."""
    told: tuple[QueryShare, ...]
    """The shares that clients were told, in order."""
    late: int
    """Events that were rejected, because they came too late for their source or did not fit its schema."""
    rejection: str
    """The first of these, and why; empty if there is none."""
    fired: Mapping[str, int]
    changed: Mapping[str, int]
    """How often operators were moved, divided, replicated and recovered."""
    hosts: Mapping[str, Address] = field(repr=False)
    """The node of each operator in the end."""
    traffic: Mapping[str, Traffic]
    """Messages by purpose (`PURPOSES`)."""
    data: tuple[float, ...]
    """Bytes of streams a second, in each tenth of the time in which events were published."""
    steps: int
    virtual_seconds: float
    seconds: float


def run_query_trial(
    trial: QueryTrial, observers: Iterable[Observer] = (), progress: Progress | None = None
) -> QueryOutcome:
    """Run a trial; BrokenPromiseError when a promised fault never fired.

    >>> outcome = run_query_trial(QueryTrial(nodes=4, queries=3, feeds=2, events=40, seconds=20, changes=5))
    >>> outcome.problems, outcome.results > 0, outcome.changed["moves in all"] > 0
    ((), True, True)
    """
    return _Run(trial, observers, progress).outcome()


class _Run(TrialRun):
    """A running trial."""

    def __init__(self, trial: QueryTrial, observers: Iterable[Observer], progress: Progress | None) -> None:
        self.metrics = Metrics()
        super().__init__(trial.seed, trial.latency, [self.metrics, *observers], progress)
        self.trial = trial
        self.catalogue = trial.catalogue
        self.random = Random(f"{trial.seed}/query trial")
        self.nodes = list(range(1, trial.nodes + 1))
        surroundings = query_network.Surroundings(brokers=self.nodes)
        self.population: Population[FlowBroker] = Population(
            self.world,
            lambda address: FlowBroker(
                Node(address),
                REGISTRY,
                surroundings,
                optimising=trial.optimising,
                checkpoints=trial.checkpoints,
                shedding=trial.shedding,
                processor=SimulatedProcessor(trial.speed) if trial.speed else query_network.INSTANT,
            ),
        )
        for address in self.nodes:
            self.population.add(address)
        self.victims = self.random.sample(self.nodes, trial.gone)
        stay = [node for node in self.nodes if node not in self.victims]
        self.proxies = {name: self.random.choice(stay) for name in self.catalogue.sources}
        self.clients = {name: self.random.choice(stay) for name in self.catalogue.queries}
        self.intakes = {name: SourceIntake(source) for name, source in self.catalogue.sources.items()}
        self.items: dict[str, list[Item]] = {name: [] for name in self.catalogue.sources}
        self.leaving = sorted(self.random.sample(sorted(self.clients), self._withdrawals()))
        """The queries that are withdrawn."""
        self.divided: set[str] = set()
        """The operators that the trial has divided or replicated."""
        self.changed: Counter[str] = Counter()
        self.data = [0]
        """Bytes of streams sent by the end of each tenth of the time."""

    def outcome(self) -> QueryOutcome:
        began = time.perf_counter()
        self._register()
        start = self.world.now
        scenario = self._scenario(start)
        injection = scenario.inject(self.population)
        self._plan(start)
        end = max(start + self.trial.seconds, scenario.healed)
        self.run_to(end, end + REST)
        for name, at in self.proxies.items():
            self.world.call(at, partial(self._broker(at).end, name))
        self.run_to(end + REST, end + REST)
        unfinished = self._finish()
        scenario.require_fired(injection)
        found, told = self._results(), self._shares()
        brokers = self.population.members.values()
        moves = sum(broker.reconfiguration.moves for broker in brokers)
        revived = sum(one.checkpoints.recovered for one in brokers if one.checkpoints is not None)
        due = self._due(told)
        rejected = [item for intake in self.intakes.values() for item in intake.rejected]
        rejection = f"{rejected[0].id} of {rejected[0].stream}: {rejected[0].reason}" if rejected else ""
        return QueryOutcome(
            trial=self.trial,
            results=sum(map(len, found.values())),
            problems=tuple(unfinished or self._problems(due, found) or nothing_due(due, rejection)),
            late=len(rejected),
            rejection=rejection,
            told=told,
            fired=dict(sorted(injection.fired.items())),
            changed={**self.changed, "moves in all": moves, "went on elsewhere": revived},
            hosts=self._hosts(),
            traffic=traffic_by_purpose(self.metrics),
            data=tuple(10 * (after - before) / self.trial.seconds for before, after in pairwise(self.data)),
            steps=self.world.steps,
            virtual_seconds=self.world.now,
            seconds=time.perf_counter() - began,
        )

    def _finish(self) -> list[str]:
        """Let nodes process what waits for them; returns what is still not done after `PATIENCE`."""
        end = self.world.now + PATIENCE
        before, waiting = 0, self._backlog()
        while (before or waiting) and self.world.now < end:  # what was done last may be under way to others
            self.run_to(min(self.world.now + REST, end), end)
            before, waiting = waiting, self._backlog()
        told = (
            f"{waiting:,} items still wait for processors {REST + PATIENCE:,.0f} seconds after the last event"
        )
        return [told] if waiting else []

    def _backlog(self) -> int:
        """How many items wait for the processors of nodes."""
        there = ((at, broker) for at, broker in self.population.members.items() if self.world.is_up(at))
        return sum(broker.engine.queue.backlog for _, broker in there)

    def _withdrawals(self) -> int:
        """How many queries are withdrawn; UsageError when there are not more."""
        wanted, there = self.trial.withdrawals, len(self.clients)
        if wanted and wanted >= there:
            raise UsageError(f"of {there} queries {wanted} cannot be withdrawn: one must stay")
        return wanted

    def _broker(self, address: Address) -> FlowBroker:
        return self.population.members[address]

    # Before

    def _register(self) -> None:
        self.world.run(until=SETTLING)  # brokers measure the links between them first
        for name, source in self.catalogue.sources.items():
            at = self.proxies[name]
            self.world.call(at, partial(self._broker(at).register_source, source))
        self.world.run(until=self.world.now + SETTLING)
        for query in self.catalogue.queries.values():
            at = self.clients[query.name]
            self.world.call(at, partial(self._broker(at).register_query, query))
            self.world.run(until=self.world.now + 1.0)
        self.world.run(until=self.world.now + SETTLING)
        for broker in self.population.members.values():
            for name, reason in broker.refused.items():
                raise DistributaryError(f"{name!r} was refused: {reason}")

    def _scenario(self, start: float) -> Scenario:
        name = self.trial.scenario
        kinds = BEARABLE if name == "everything" else SCENARIOS[name]
        busy = {*self.proxies.values(), *self.clients.values()}
        return random_scenario(
            self.trial.seed,
            # Those with sources or clients, if there are enough of them.
            sorted(busy) if len(busy) >= ENOUGH else self.nodes,
            kinds=kinds,
            start=start,
            duration=max(self.trial.seconds, 15.0 * len(kinds)) if kinds else 0.0,
            largest_side=max(1, len(self.nodes) // 8),
            name=name,
        )

    def _plan(self, start: float) -> None:
        """Schedule publications, changes, stopping nodes and measurements."""
        seconds, events = self.trial.seconds, self.trial.given
        for number, event in enumerate(events):
            due = rush_time(seconds * number / len(events), seconds, self.trial.rush)
            self.world.at(start + due, partial(self._publish, event))
        for _ in range(self.trial.changes):
            self.world.at(start + self.random.uniform(0, seconds), self._change)
        for number, victim in enumerate(self.victims, 1):
            self.world.at(
                start + seconds * number / (len(self.victims) + 1), partial(self.population.crash, victim)
            )
        for tenth in range(1, 11):
            self.world.at(start + seconds * tenth / 10, self._note_data)

        for name in self.leaving:
            self.world.at(start + self.random.uniform(0.2, 0.8) * seconds, partial(self._withdraw, name))

    # Life

    def _withdraw(self, query: str) -> None:
        """Withdraw a query at its client's node, as soon as that is there."""
        at = self.clients[query]
        if not self.world.is_up(at) or self.world.is_paused(at):
            self.world.at(self.world.now + 0.5, partial(self._withdraw, query))
            return
        self.changed["withdrawn"] += 1
        self.world.call(at, partial(self._broker(at).unregister_query, query), ("withdrawn", query))

    def _publish(self, event: Event) -> None:
        """Publish an event at the proxies of its sources; try again later while one of them is down."""
        sources = [name for name, source in self.catalogue.sources.items() if source.accepts(event)]
        nodes = dict.fromkeys(self.proxies[name] for name in sources)
        if not all(self.world.is_up(at) for at in nodes):
            self.world.at(self.world.now + 0.5, partial(self._publish, event))
            return
        for name in sources:
            item = self.intakes[name].admit(event)
            if item is not None:
                self.items[name].append(item)
        for at in nodes:
            self.world.call(at, partial(self._broker(at).publish, event), ("publish", event.id))

    def _change(self) -> None:
        """Move, divide or replicate a random operator."""
        there = [
            (name, at)
            for name, at in sorted(self._hosts().items())
            if self.world.is_up(at) and not self.world.is_paused(at)
        ]
        if not there:
            return
        name, at = self.random.choice(there)
        broker, what = self._broker(at), self.random.choice(["moved", "moved", "divided", "replicated"])
        if what == "divided" and broker.reconfiguration.can_partition(name):
            action = partial(broker.partition, name, self.random.randint(2, 3))
        elif what == "replicated" and broker.reconfiguration.can_replicate(name):
            action = partial(broker.replicate, name)
        else:
            what = "moved"
            action = partial(broker.move, name, self.random.choice(self.nodes))
        if what != "moved":
            self.divided.add(name)
        self.changed[what] += 1
        self.world.call(at, action, (what, name))

    def _note_data(self) -> None:
        self.data.append(traffic_by_purpose(self.metrics)["streams"].bytes)

    # After

    def _hosts(self) -> dict[str, Address]:
        return {
            name: address
            for address, broker in self.population.members.items()
            if address not in self.victims or self.world.is_up(address)
            for name in broker.engine.operators
        }

    def _shares(self) -> tuple[QueryShare, ...]:
        """The shares that clients were told, in order."""
        delivered = (one.item for one in self.world.delivered)
        return tuple(item for item in delivered if isinstance(item, QueryShare))

    def _due(self, told: Sequence[QueryShare]) -> Mapping[str, Sequence[Item]]:
        return answers_due(self.catalogue, self.items, told, self.trial.seed)

    def _problems(self, due: Mapping[str, Sequence[Item]], found: Mapping[str, Sequence[Item]]) -> list[str]:
        """What is wrong with what clients got."""
        ended: set[str] = set()
        problems = []
        for delivered in self.world.delivered:
            item = delivered.item
            if isinstance(item, Withdrawal):
                ended.add(item.name)
            elif isinstance(item, QueryResult) and item.stream.partition(".")[0] in ended:
                problems.append(f"{item.stream} gave {item.item.id} after it was withdrawn")
        refused = {name for broker in self.population.members.values() for name in broker.refused}
        withdrawn = [query for query in self.leaving if query not in refused]
        problems += [f"{query} was withdrawn, and did not end" for query in withdrawn if query not in ended]
        outputs = [output for query in withdrawn for output in self.catalogue.outputs(query)]
        kept = not self.trial.gone  # who read from a node that is gone reads again what it had given out
        places = promised_order(self.catalogue, self.items, self._divided(), kept=kept)
        problems += differences(until_withdrawn(due, found, places, outputs), found)
        return problems + out_of_order(places, found)

    def _divided(self) -> set[str]:
        """The operators that have replicas, or had, or may have had."""
        links = [broker.registry_link for broker in self.population.members.values()]
        registries = [link.local_registry for link in links if link.local_registry is not None]
        divisions = {one.operator for registry in registries for one in registry.divisions}
        # What the network has divided for its goal is forgotten with a query that is withdrawn.
        leaving = self.leaving if self.trial.goal else ()
        forgotten = {one.name for one in self.catalogue.operators if one.query in leaving}
        return divisions | forgotten | self.divided

    def _results(self) -> dict[str, list[Item]]:
        found: dict[str, list[Item]] = defaultdict(list)
        for delivered in self.world.delivered:
            if isinstance(delivered.item, QueryResult):
                found[delivered.item.stream].append(delivered.item.item)
        return found
