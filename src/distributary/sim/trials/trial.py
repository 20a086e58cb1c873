"""A trial: one system, one scenario, one workload in the simulator, checked against brute force.

Rules:

- Everything comes from the seed: addresses, who subscribes where, faults, delays, who publishes what.
- Clients subscribe first. While faults are active, a third of the events is published, unchecked. After the
  last fault and `REST` seconds for repairs, the rest is published one by one, and every delivery is compared
  with the oracle's.
- A trial fails when a delivery is missing or not wanted, when the overlay is not stable in the end, or when a
  fault that the scenario promised never fired.
- Without faults nodes are bare, unless asked otherwise, and the costs are those of the system alone. With
  faults they are robust.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from random import Random

from distributary.errors import DistributaryError, FilterError
from distributary.model import Event, EventKey, Subscription, SubscriptionKey
from distributary.overlay.node import Address
from distributary.sim.deployment import Costs, Deployment
from distributary.sim.metrics import Traffic
from distributary.sim.oracle import ClientSubscription, Oracle
from distributary.sim.scenario import SCENARIOS, Scenario, random_scenario
from distributary.sim.simulator import Observer
from distributary.sim.trials.run import Progress, TrialRun, repeat_command
from distributary.sim.underlay import Underlay, UnderlayCost, UnderlayLoad
from distributary.systems.assembly import Settings
from distributary.systems.table import System, system
from distributary.workloads import WORKLOADS, workload

SUBSCRIBING = 10.0
"""Seconds within which all clients subscribe; faults begin after twice as many."""
REST = 60.0
"""Seconds after the last fault that a system has for repairs."""
SPARES = 3
"""How many nodes there are that may join."""


@dataclass(frozen=True)
class Trial:
    """What to run. DistributaryError when a name is unknown or there are too few nodes."""

    system: str
    scenario: str = "calm"
    nodes: int = 64
    seed: int = 1
    subscriptions: int = 200
    events: int = 100
    workload: str = ""
    """The name of a workload; empty for the system's own."""
    latency: str = "uniform"
    """A latency model as named in `sim.networks`."""
    robust: bool = False
    """Whether nodes have couriers, upkeep, copies and refresh even without faults."""
    gap: float = 5.0
    """Seconds between checked events."""

    def __post_init__(self) -> None:
        system(self.system)
        if self.scenario not in (*SCENARIOS, "random"):
            raise DistributaryError(
                f"no scenario {self.scenario!r}; there are {', '.join(SCENARIOS)}, random"
            )
        if self.workload and self.workload not in WORKLOADS:
            raise DistributaryError(f"no workload {self.workload!r}; there are {', '.join(WORKLOADS)}")
        if self.nodes < 1 or (self.faulty and self.nodes < 8):
            raise DistributaryError(f"{self.nodes} nodes are too few: 1, or 8 where there are faults")

    @property
    def faulty(self) -> bool:
        """Whether there are faults."""
        return self.scenario != "calm"

    @property
    def command(self) -> str:
        """The command that runs this trial."""
        words = ["distributary", "sim", "run", self.scenario]
        words += ["--system", self.system, "--seed", str(self.seed)]
        names = ("nodes", "subscriptions", "events", "workload", "latency", "gap", "robust")
        return repeat_command(words, self, {name: name for name in names})


@dataclass(frozen=True)
class TrialOutcome:
    """The result of a trial."""

    trial: Trial
    refused: int
    """Subscriptions that the system refused."""
    checked: int
    """Events whose deliveries were compared with the oracle's."""
    deliveries: int
    problems: tuple[str, ...]
    """What went wrong; empty when the trial succeeded."""
    promised: tuple[str, ...]
    fired: Mapping[str, int]
    costs: Mapping[str, Costs]
    kinds: Mapping[str, Traffic]
    upkeep: Mapping[str, Traffic]
    loads: Mapping[Address, int] = field(repr=False)
    """Messages sent by each node."""
    underlay: UnderlayCost | None
    steps: int
    virtual_seconds: float
    seconds: float


def run_trial(
    trial: Trial, observers: Iterable[Observer] = (), progress: Progress | None = None
) -> TrialOutcome:
    """Run a trial; BrokenPromiseError when a promised fault never fired."""
    return _Run(trial, observers, progress).outcome()


class _Run(TrialRun):
    """A running trial."""

    def __init__(self, trial: Trial, observers: Iterable[Observer], progress: Progress | None) -> None:
        super().__init__(trial.seed, trial.latency, observers, progress)
        self.trial = trial
        self.random = Random(f"{trial.seed}/trial")
        self.system: System = system(trial.system)
        self.load = UnderlayLoad(self.latency) if isinstance(self.latency, Underlay) else None
        if self.load is not None:
            self.world.observe(self.load)
        robust = trial.robust or trial.faulty
        shared = Settings.robust(trial.nodes) if robust else Settings(trial.nodes)
        drawn = Random(f"{trial.seed}/addresses").sample(range(shared.circle.size), trial.nodes + SPARES)
        self.spares, self.founders = drawn[:SPARES], sorted(drawn[SPARES:])
        self.assembly = self.system.assemble(shared, self.founders, lambda one: self.deployment.contact(one))
        self.deployment = Deployment(self.world, self.assembly)
        self.deployment.add_settled(self.founders, self.assembly.settle)
        self.upkeep = shared.upkeep
        self.scenario = self._scenario()
        self.workload = workload(trial.workload or self.system.workload)
        self.events = self.workload.events(trial.events, seed=trial.seed)
        self.oracle = Oracle()
        self.refused = 0
        self.checked = 0
        self.clients: dict[SubscriptionKey, ClientSubscription] = {}
        self._amid_faults: dict[EventKey, Event] = {}
        self._sources: dict[str | None, Address] = {}
        self.problems: list[str] = []

    def outcome(self) -> TrialOutcome:
        began = time.perf_counter()
        fired = self._live()
        up = [member for one, member in self.deployment.members.items() if self.world.is_up(one)]
        self.problems += self.assembly.disorder(up)
        metrics = self.deployment.metrics
        return TrialOutcome(
            trial=self.trial,
            refused=self.refused,
            checked=self.checked,
            deliveries=len(self.deployment.deliveries),
            problems=tuple(self.problems),
            promised=self.scenario.promises,
            fired=fired,
            costs=self.deployment.costs(),
            kinds=metrics.by_kind(),
            upkeep=metrics.upkeep(),
            loads={address: sent.messages for address, sent in metrics.by_sender().items()},
            underlay=self.load.summary() if self.load is not None else None,
            steps=self.world.steps,
            virtual_seconds=self.world.now,
            seconds=time.perf_counter() - began,
        )

    # Before.

    def _scenario(self) -> Scenario:
        name = self.trial.scenario
        kinds = None if name == "random" else SCENARIOS[name]
        return random_scenario(
            self.trial.seed,
            self.founders,
            kinds=kinds,
            spares=self.spares,
            start=2 * SUBSCRIBING,
            duration=15.0 * max(4, len(kinds or ())) if self.trial.faulty else 0.0,
            name=name,
        )

    # Life.

    def _live(self) -> dict[str, int]:
        """Run everything; returns how often each kind of fault fired."""
        trial, world = self.trial, self.world
        during = trial.events // 3 if trial.faulty else 0
        rest = REST if self.upkeep else 0.0
        begin = max(self.scenario.healed, SUBSCRIBING) + rest
        end = begin + (trial.events - during) * trial.gap
        self._plan_subscriptions()
        injection = self.scenario.inject(self.deployment)
        for number in range(during):
            span = self.scenario.healed - SUBSCRIBING
            world.at(SUBSCRIBING + span * number / during, self._publish_somewhere)
        self.run_to(begin, end)
        self.clients = {  # they do not change any more
            key: ClientSubscription(subscription, at, self.deployment.subscribed_since(key))
            for key, (subscription, at) in self.deployment.subscriptions.items()
        }
        self._note(self._amid_faults, 0)
        for event in self.events:
            self._compare(event, end)
        self.scenario.require_fired(injection)
        return dict(sorted(injection.fired.items()))

    def _plan_subscriptions(self) -> None:
        count = 0 if self.system.promise == "once" else self.trial.subscriptions
        homes: dict[str, Address] = {}
        for number, subscription in enumerate(self.workload.subscriptions(count, seed=self.trial.seed)):
            at = homes.setdefault(subscription.subscriber, self.random.choice(self.founders))
            when = SUBSCRIBING / 2 * number / count
            self.world.at(when, lambda one=subscription, at=at: self._subscribe(one, at))  # type: ignore[misc]

    def _subscribe(self, subscription: Subscription, at: Address) -> None:
        try:
            self.deployment.subscribe(subscription, at)
        except FilterError:
            self.refused += 1

    def _publish_somewhere(self) -> None:
        for event in islice(self.events, 1):
            self._amid_faults[event.key] = event
            self.deployment.publish(event, at=self._source(event))

    def _source(self, event: Event) -> Address:
        """The node that publishes an event: always the same for a topic, while it is up and not paused."""
        able = [one for one in self.deployment.up() if not self.world.is_paused(one)]
        source = self._sources.get(event.topic)
        if source not in able:
            source = self.random.choice(able)
            if event.topic is not None:
                self._sources[event.topic] = source
        return source

    # What is promised.

    def _compare(self, event: Event, end: float) -> None:
        """Publish an event, let it arrive everywhere, and compare its deliveries with the oracle's."""
        wanted = self.oracle.wanted(event, self.clients.values())
        first = len(self.deployment.deliveries)
        self.deployment.publish(event, at=self._source(event))
        self.run_to(self.world.now + self.trial.gap, end)
        got = [
            ((received.address, received.delivery.subscriber), received.delivery.subscriptions)
            for received in self.deployment.deliveries[first:]
            if received.delivery.event.key == event.key
        ]
        self._note({event.key: event}, first)
        self.checked += 1
        if self.system.promise == "once":
            if len(got) != 1:
                self.problems.append(f"event {event.key} was delivered {len(got)} times")
            return
        if self.system.promise == "exact":
            missing = [who for who in wanted if who not in dict(got)]
            self.problems += [f"event {event.key} did not reach {who} at node {at}" for at, who in missing]
        else:  # what matches when tolerances are ignored may be delivered
            wanted = Oracle().wanted(event, self.clients.values())
        for (at, who), names in got:
            if not set(names) <= set(wanted.get((at, who), ())):
                self.problems.append(f"event {event.key} reached {who} at node {at} unasked, for {names}")
        if len(dict(got)) < len(got):
            self.problems.append(f"event {event.key} reached somebody twice")

    def _note(self, events: Mapping[EventKey, Event], first: int) -> None:
        """Tell the oracle of the deliveries of these events, from delivery number `first` on."""
        clients = self.clients
        for received in self.deployment.deliveries[first:]:
            delivery = received.delivery
            event = events.get(delivery.event.key)
            if event is not None:
                self.oracle.note(
                    event, [clients[key] for key in delivery.keys if key in clients], received.time
                )
