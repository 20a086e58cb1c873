"""A trial: one system, one scenario, one workload in the simulator, every delivery checked.

Rules:

- Everything comes from the seed: addresses, who subscribes where, faults, delays, who publishes what.
- Clients subscribe before and, a third of them, amid the faults; a sixth of all subscriptions is withdrawn
  meanwhile. A third of the events is published amid faults too. After the last fault and `REST` seconds for
  repairs, the others are published one by one; `TAIL` seconds after the last the run ends.
- All deliveries of the whole run are checked, and when all has healed what is missing too (`audit`).
- A trial fails when a delivery is missing, late, repeated or not wanted, when too little was due to mean
  anything, when the overlay is not stable in the end, or when a fault that the scenario promised never fired.
- Without faults nodes are bare, unless asked otherwise, and the costs are those of the system alone. With
  faults they are robust.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from distributary.errors import FilterError, UsageError
from distributary.model import Event, EventKey, Subscription, SubscriptionKey
from distributary.overlay.node import Address
from distributary.sim.deployment import Costs, Deployment
from distributary.sim.metrics import Traffic
from distributary.sim.scenario import SCENARIOS, Scenario, random_scenario
from distributary.sim.simulator import Observer
from distributary.sim.trials.audit import Audit
from distributary.sim.trials.clients import TrialData, events_of, made_up, read_workload, subscriptions_of
from distributary.sim.trials.run import LEAST, Progress, TrialRun, repeat_command
from distributary.sim.underlay import Underlay, UnderlayCost, UnderlayLoad
from distributary.systems.assembly import Settings
from distributary.systems.options import read_options
from distributary.systems.publishing import require_readable
from distributary.systems.table import System, system

SUBSCRIBING = 10.0
"""Seconds within which all clients subscribe; faults begin after twice as many."""
SUBSCRIPTIONS, EVENTS = 200, 100
"""How many are made up, unless a trial says otherwise."""
REST = 60.0
"""Seconds after the last fault that a system has for repairs."""
TAIL = 15.0
"""Seconds after the last event was to have arrived, in which deliveries that come late or again are seen."""
SPARES = 3
"""How many nodes there are that may join."""
AMID_FAULTS = 3
"""One in so many subscriptions is made, and one in so many events is published, while faults are active."""
WITHDRAWN = 6
"""One in so many subscriptions is withdrawn."""
SHORTEST_GAP = 1.0
"""Seconds in which an event has reached everybody, at least."""


@dataclass(frozen=True)
class Trial:
    """What to run. UsageError when a name is unknown or there are too few nodes."""

    system: str
    scenario: str = "calm"
    nodes: int = 64
    seed: int = 1
    subscriptions: int | None = None
    """How many; None for `SUBSCRIPTIONS` that are made up, or all of a file."""
    events: int | None = None
    """How many; None for `EVENTS` that are made up, or all of a file."""
    workload: str = ""
    """The name of a workload, perhaps with options of its generators; empty for the system's own."""
    subscriptions_file: str = ""
    events_file: str = ""
    """Files of the user's own, in the place of the workload's (see `clients`)."""
    latency: str = "uniform"
    """A latency model as named in `sim.networks`."""
    robust: bool = False
    """Whether nodes have couriers, upkeep, copies and refresh even without faults."""
    gap: float = 5.0
    """Seconds between checked events, in which each must have reached everybody."""
    at_once: int = 1
    """How many nodes may be out of order at a time."""
    side: int = 1
    """How many nodes a partition cuts off, at most."""
    strength: float = 1.0
    """Multiplies how likely messages are lost, repeated and held back, and the length of delays."""
    gone: int = 0
    """How many nodes crash for good, `at_once` of them together."""
    settings: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Settings of the system, by name (`systems.options`)."""
    sizes: bool = False
    """Whether bytes are measured under faults too, which takes a quarter of the time; without, they are."""
    least: int = LEAST
    """The least number of deliveries that must be due; with fewer the trial has shown nothing and fails."""

    def __post_init__(self) -> None:
        read_options(self.system, system(self.system).options, self.settings)
        if self.scenario not in (*SCENARIOS, "random"):
            raise UsageError(f"no scenario {self.scenario!r}; there are {', '.join(SCENARIOS)}, random")
        if self.workload:
            read_workload(self.workload)
        if self.nodes < 1 or (self.faulty and self.nodes < 8):
            least = "8 or more where there are faults" if self.nodes >= 1 else "1 or more"
            raise UsageError(f"nodes: {self.nodes} are too few; give {least}")
        if self.events is not None and self.events < 1:
            raise UsageError(f"{self.events} events show nothing; give 1 or more")
        if not self.gap >= SHORTEST_GAP:
            raise UsageError(
                f"{self.gap:g} s between events are too few to reach everybody; give {SHORTEST_GAP:g} or more"
            )
        if self.at_once < 1 or self.side < 1 or self.gone < 0 or not self.strength > 0:
            raise UsageError("at_once and side are 1 or more, gone is 0 or more, and strength is above 0")

    @property
    def faulty(self) -> bool:
        """Whether there are faults."""
        return self.scenario != "calm" or self.gone > 0

    @property
    def command(self) -> str:
        """The command that runs this trial."""
        words = ["distributary", "sim", "run", self.scenario]
        words += ["--system", self.system, "--seed", str(self.seed)]
        names = ["nodes", "subscriptions", "events", "workload", "latency", "gap", "robust"]
        names += [
            "subscriptions_file",
            "events_file",
            "at_once",
            "side",
            "strength",
            "gone",
            "sizes",
            "least",
        ]
        words += [word for name, value in self.settings.items() for word in ("--set", f"{name}={value}")]
        return repeat_command(words, self, {name: name.replace("_", "-") for name in names})


@dataclass(frozen=True)
class TrialOutcome:
    """The result of a trial."""

    trial: Trial
    refused: int
    """Subscriptions that the system refused."""
    refusal: str
    """The first of these, and why; empty if there is none."""
    events: int
    """Events that were published."""
    checked: int
    """Events of which all that was due was compared with the oracle's."""
    due: int
    """Deliveries of these that had to happen, by subscription."""
    deliveries: int
    """Deliveries of the whole run, all of them checked."""
    withdrawn: int
    """Subscriptions that were withdrawn."""
    borrowed: int
    """Subscriptions that the oracle evaluated by the filters of the systems (`sim.evaluation`)."""
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
    trial: Trial,
    observers: Iterable[Observer] = (),
    progress: Progress | None = None,
    *,
    data: TrialData | None = None,
) -> TrialOutcome:
    """Run a trial, with the user's own `data` if given; BrokenPromiseError when a promised fault never fired.

    DocumentError when a document of the data cannot be read.

    outcome = run_trial(Trial("hope-kbsp", "loss", settings={"hashes": 3}), data=TrialData(mine, events))
    """
    for event in () if data is None else data.events:
        require_readable(event)
    return _Run(trial, observers, progress, data).outcome()


class _Run(TrialRun):
    """A running trial."""

    def __init__(
        self,
        trial: Trial,
        observers: Iterable[Observer],
        progress: Progress | None,
        data: TrialData | None,
    ) -> None:
        super().__init__(trial.seed, trial.latency, observers, progress)
        self.trial = trial
        self.random = Random(f"{trial.seed}/trial")
        self.system: System = system(trial.system)
        self.load = UnderlayLoad(self.latency) if isinstance(self.latency, Underlay) else None
        if self.load is not None:
            self.world.observe(self.load)
        robust = trial.robust or trial.faulty
        chosen = read_options(trial.system, self.system.options, trial.settings)
        keeping: dict[str, Any] = {"refresh": self.system.refresh}
        keeping |= {name: chosen.pop(name) for name in ("copies", "refresh") if name in chosen}
        bare = Settings(trial.nodes, chosen=chosen)
        shared = Settings.robust(trial.nodes, **keeping, chosen=chosen) if robust else bare
        drawn = Random(f"{trial.seed}/addresses").sample(range(shared.circle.size), trial.nodes + SPARES)
        self.spares, self.founders = drawn[:SPARES], sorted(drawn[SPARES:])
        self.assembly = self.system.assemble(shared, self.founders, lambda one: self.deployment.contact(one))
        self.deployment = Deployment(self.world, self.assembly, sizes=trial.sizes or not trial.faulty)
        self.deployment.add_settled(self.founders, self.assembly.settle)
        self.upkeep = shared.upkeep
        self.scenario = self._scenario()
        self.data = data or self._data()
        self.published: dict[EventKey, Event] = {}
        self.audit = Audit(self.system, self.deployment, self.published)
        self.refused = 0
        self.refusal = ""
        self.withdrawn = 0
        self.checked = 0
        self._sources: dict[tuple[str, str | None], Address] = {}

    def outcome(self) -> TrialOutcome:
        began = time.perf_counter()
        fired = self._live()
        up = [member for one, member in self.deployment.members.items() if self.world.is_up(one)]
        problems = [*self.audit.problems, *self.assembly.disorder(up)]
        metrics = self.deployment.metrics
        return TrialOutcome(
            trial=self.trial,
            refused=self.refused,
            refusal=self.refusal,
            events=len(self.published),
            checked=self.checked,
            due=self.audit.due,
            deliveries=len(self.deployment.deliveries),
            withdrawn=self.withdrawn,
            borrowed=sum(self.audit.oracle.evaluation(one).borrowed for one in self.data.subscriptions),
            problems=tuple(problems),
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
            at_once=self.trial.at_once,
            largest_side=self.trial.side,
            strength=self.trial.strength,
            gone=self.trial.gone,
            name=name,
        )

    def _data(self) -> TrialData:
        """What clients ask for and publish: the user's own where there are files, else made up."""
        trial = self.trial
        asked = SUBSCRIPTIONS if trial.subscriptions is None else trial.subscriptions
        made = made_up(
            trial.workload or self.system.workload,
            0 if self.system.promise == "once" else asked,
            EVENTS if trial.events is None else trial.events,
            trial.seed,
        )
        subscriptions, events = made.subscriptions, made.events
        if trial.subscriptions_file:
            subscriptions = subscriptions_of(trial.subscriptions_file)[: trial.subscriptions]
        if trial.events_file:
            events = events_of(trial.events_file)[: trial.events]
        return TrialData(subscriptions, events)

    # Life.

    def _live(self) -> dict[str, int]:
        """Run everything; returns how often each kind of fault fired."""
        trial, world = self.trial, self.world
        during = len(self.data.events) // AMID_FAULTS if trial.faulty else 0
        rest = REST if self.upkeep else 0.0
        begin = max(self.scenario.healed, SUBSCRIBING) + rest
        end = begin + (len(self.data.events) - during) * trial.gap + TAIL
        self._plan_subscriptions()
        injection = self.scenario.inject(self.deployment)
        span = self.scenario.healed - SUBSCRIBING
        for number, event in enumerate(self.data.events[:during]):
            world.at(SUBSCRIBING + span * number / during, partial(self._publish, event))
        self.run_to(begin, end)
        for planned in self.data.events[during:]:
            event = self.deployment.arriving(planned)
            expected = self.audit.expect(event)
            self._publish(event)
            self.run_to(world.now + trial.gap, end)
            self.audit.settle(expected)
            self.checked += 1
        self.run_to(end, end)
        self.audit.close(trial.least, self.refusal)
        self.scenario.require_fired(injection)
        return dict(sorted(injection.fired.items()))

    def _plan_subscriptions(self) -> None:
        """Have all clients subscribe, some of them amid faults, and some withdraw later."""
        homes: dict[str, Address] = {}
        amid = (2 * SUBSCRIBING, self.scenario.healed) if self.trial.faulty else (0.0, SUBSCRIBING / 2)
        for number, subscription in enumerate(self.data.subscriptions):
            at = homes.setdefault(subscription.subscriber, self.random.choice(self.founders))
            late = number % AMID_FAULTS == AMID_FAULTS - 1
            when = self.random.uniform(*amid) if late else self.random.uniform(0, SUBSCRIBING / 2)
            self.world.at(when, partial(self._subscribe, subscription, at))
            if number % WITHDRAWN == WITHDRAWN - 2:
                last = max(amid[1], SUBSCRIBING)
                until = self.random.uniform(max(when, SUBSCRIBING / 2), last)
                self.world.at(until, partial(self._withdraw, subscription.key))

    def _subscribe(self, subscription: Subscription, at: Address) -> None:
        """Subscribe a client at its node; at the next one that is up, clockwise, if that is not."""
        up = self.deployment.up()
        try:
            self.deployment.subscribe(subscription, up[bisect_left(up, at) % len(up)])
        except FilterError as error:
            self.refused += 1
            self.refusal = self.refusal or f"subscription {subscription.key}: {error}"

    def _withdraw(self, key: SubscriptionKey) -> None:
        if key in self.deployment.subscriptions:  # it may have been refused
            self.deployment.unsubscribe(key)
            self.withdrawn += 1

    def _publish(self, event: Event) -> None:
        arriving = self.published[event.key] = self.deployment.arriving(event)
        self.deployment.publish(arriving, at=self._source(event))

    def _source(self, event: Event) -> Address:
        """The node of an event's publisher, for a topic: always the same while it is up and not paused."""
        able = [one for one in self.deployment.up() if not self.world.is_paused(one)]
        about = event.source, event.topic
        if self._sources.get(about) not in able:
            self._sources[about] = self.random.choice(able)
        return self._sources[about]
