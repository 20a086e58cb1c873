"""A trial of a network's promise: nothing acknowledged is lost or comes twice, whatever single node fails.

Publishers send an event again, at another broker if need be, until it is acknowledged. Subscribers carry
their session (`overlay.broker.SessionState`) from broker to broker. Meanwhile one node after another is
killed, stopped for a while, cut off, or lost with its disk, or its clock is put forward, the root and its
standby more often than others.

Rules:

- An event is owed to a subscriber if it is acknowledged, matches, and was first published after the
  subscriber's subscriptions were acknowledged. What is owed comes once, and before the trial ends.
- Nothing comes that does not match, and nothing twice, owed or not. What a client is given again after a
  change of broker it knows by the offset, or after a change of epoch by the event's key, as
  `distributary.client` does.
- The events of a publisher come in the order in which they were published.
- Faults follow one another: the next begins when the network has had time to heal.
- A trial in which next to nothing was owed shows nothing, and fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from random import Random
from typing import NamedTuple

from distributary.errors import SettingError
from distributary.model import Delivery, Event, EventKey, Offset, Subscription, SubscriptionKey
from distributary.overlay.broker import Broker, LogGap, SessionState
from distributary.overlay.kinds import BY_MODULE
from distributary.overlay.node import Address
from distributary.sim.evaluation import PlainEvaluation
from distributary.sim.latency import UniformLatency
from distributary.sim.population import Population
from distributary.sim.simulator import DeliveredItem, Observer, Simulator
from distributary.sim.trials.run import LEAST, Progress, repeat_command, run_with_progress
from distributary.systems.assembly import Settings
from distributary.systems.table import system

CLOCK_SKEW = "clock skew"
KINDS = ("kill", "kill and wipe", "kill and cut off", "lose", "pause", "cut off", CLOCK_SKEW)
"""What can happen to a node: its process ends and starts again with its disk or without, or soon, but where
it reaches nobody for a while, or never; it is stopped for a while; no message reaches or leaves it; its clock
is put forward, for good."""
LEAVE = "leave"
"""What a user may have happen besides: the node leaves in good order, and comes back with its disk."""
LOSE_ON_RETURN = "lose on return"
"""Another such thing: its process ends, starts again with its disk, and is lost for good soon after."""
FAREWELL = 5.0
"""Seconds that a node has to leave."""
BORNE_BY_TWO = ("kill", "pause", CLOCK_SKEW)
"""What one or two nodes bear: with fewer than three there is nobody to take over."""
SKEWS = (5.0, 500.0)
"""The least and most seconds by which a clock is put forward."""
FIRST_FAULT = 15.0
HEALING = 70.0
"""Seconds between the end of a fault and the next: an election, and all that follows from it."""
LAST = 150.0
"""Seconds after the last fault in which all that is owed must come."""
LATE = 2.0
"""Seconds by which messages of a class come late that is to."""
PATIENCE = 6.0
"""Seconds after which a publisher without an acknowledgement goes to another broker."""


@dataclass(frozen=True)
class PromiseTrial:
    """What is tried: how many nodes, clients and faults, from which seed."""

    seed: int
    nodes: int = 7
    faults: int = 4
    publishers: int = 3
    subscribers: int = 6
    rate: float = 1.0
    """Events a second of each publisher."""
    kinds: tuple[str, ...] = KINDS
    """What can happen to nodes, of `KINDS`."""
    late: str = ""
    """A class of messages that come late, so that others overtake them; none if empty."""
    system: str = "tree"
    refused: bool = False
    """Whether nodes are told that the process of another is gone, as a refused connection tells."""

    def __post_init__(self) -> None:
        known = (*KINDS, LEAVE, LOSE_ON_RETURN)
        unknown = [kind for kind in self.kinds if kind not in known]
        if unknown or not self.kinds:
            raise SettingError(f"kinds of faults are {', '.join(known)}, not {', '.join(unknown) or 'none'}")
        unbearable = [kind for kind in self.kinds if kind not in (*BORNE_BY_TWO, LEAVE)]
        if self.nodes < 3 and unbearable:
            raise SettingError(f"{self.nodes} nodes cannot bear {', '.join(unbearable)}: give three or more")
        if self.late and all(self.late not in names for names in BY_MODULE.values()):
            raise SettingError(f"there is no class of messages {self.late!r}")
        if {"lose", LOSE_ON_RETURN} & {*self.kinds} and self.faults >= self.nodes:
            raise SettingError(f"{self.faults} faults may lose all {self.nodes} nodes: give fewer")

    @property
    def command(self) -> str:
        """The command that runs it again."""
        names = ("nodes", "faults", "publishers", "subscribers", "rate", "late", "refused")
        options = {name: name for name in names}
        words = ["distributary", "sim", "promise", "--seed", str(self.seed)]
        if self.kinds != KINDS:
            words += ["--kinds", ",".join(self.kinds)]
        return repeat_command(words, self, options)


class PromiseOutcome(NamedTuple):
    """What came of it."""

    acknowledged: int
    owed: int
    """Deliveries that had to come."""
    received: int
    repeated: int
    """Deliveries that clients dropped, as they had the event."""
    fired: dict[str, int]
    problems: tuple[str, ...]


class _CutOff:
    """A network from which one node at a time may be cut off.

    Of a hundred messages one is lost, and two are late by up to a second, so that others overtake them. All
    messages of one class may be later still.
    """

    def __init__(self, seed: int, late: str) -> None:
        self._late = late
        self._latency = UniformLatency(0.005, 0.05, seed=seed)
        self._random = Random(f"{seed}/loss")
        self.alone: Address | None = None
        self.dropped = 0

    def delays(self, now: float, sender: Address, to: Address, message: object) -> list[float]:
        """The delay of a message; none if it is lost."""
        if sender != to and self.alone in (sender, to):
            self.dropped += 1
            return []
        luck = self._random.random()
        late = self._random.random() if luck > 0.98 else 0.0
        carried = getattr(message, "message", message)  # in a packet of a courier
        late += LATE * (type(carried).__name__ == self._late)
        return [late + each for each in self._latency.delays(now, sender, to, message)] if luck > 0.01 else []


@dataclass
class _Publisher:
    """A client that publishes, one event after the other, until each is acknowledged."""

    name: str
    at: Address
    published: dict[EventKey, float] = field(default_factory=dict)
    """When each event was first published, in order."""
    events: dict[EventKey, Event] = field(default_factory=dict)
    waiting: dict[EventKey, float] = field(default_factory=dict)
    """Events without an acknowledgement, in order, and when each was last sent."""
    connected: bool = True


@dataclass
class _Subscriber:
    """A client that subscribes, and keeps its place."""

    name: str
    at: Address
    subscriptions: tuple[Subscription, ...]
    offset: Offset | None = None
    seen: dict[EventKey, float] = field(default_factory=dict)
    """The events received, in order, and when."""
    unanswered: set[SubscriptionKey] = field(default_factory=set)
    registered: float | None = None
    """When all subscriptions were first acknowledged."""
    connected: bool = False
    repeated: int = 0


class _Clients(Observer):
    """Hands what nodes give their clients to the trial."""

    def __init__(self, trial: _Running) -> None:
        self._trial = trial

    def delivered(self, delivered: DeliveredItem) -> None:
        self._trial.receive(delivered)

    def acknowledged(self, now: float, address: Address, what: EventKey | SubscriptionKey) -> None:
        self._trial.answer(address, what)


def try_promise(
    trial: PromiseTrial, observers: Iterable[Observer] = (), progress: Progress | None = None
) -> PromiseOutcome:
    """Run a trial before observers; `progress` is told the virtual time that has passed and the whole."""
    return _Running(trial, observers).outcome(progress)


class _Running:
    """A running trial."""

    def __init__(self, trial: PromiseTrial, observers: Iterable[Observer]) -> None:
        self.trial = trial
        self.random = Random(f"{trial.seed}/promise")
        self.network = _CutOff(trial.seed, trial.late)
        self.world = Simulator(trial.seed, self.network, observers)
        founders = list(range(1, trial.nodes + 1))
        settings = Settings.robust(trial.nodes)
        assembly = system(trial.system).assemble(settings, founders, lambda one: self.brokers.contact(one))
        self.brokers: Population[Broker] = Population(self.world, assembly)
        self.brokers.add_settled(founders, assembly.settle)
        self.world.observe(_Clients(self))
        self.leaving: Address | None = None
        """The node that leaves, or has left and is to come back."""
        self.publishers = [_Publisher(f"p{number}", self._any()) for number in range(trial.publishers)]
        self.subscribers = [self._subscriber(number) for number in range(trial.subscribers)]
        self.acknowledged: dict[EventKey, float] = {}
        self.fired: Counter[str] = Counter()
        self.problems: list[str] = []

    def outcome(self, progress: Progress | None) -> PromiseOutcome:
        for subscriber in self.subscribers:
            self._connect(subscriber)
        end = self._plan_faults()
        for publisher in self.publishers:
            self._every(1 / self.trial.rate, end, partial(self._publish, publisher))
        self._every(1.0, end + LAST, self._look_after)
        run_with_progress(self.world, end + LAST, end + LAST, progress)
        owed = self._check()
        if owed < LEAST:
            self.problems.append(f"only {owed} deliveries were owed, which shows nothing ({LEAST} at least)")
        received = sum(len(one.seen) for one in self.subscribers)
        repeated = sum(one.repeated for one in self.subscribers)
        self.fired["messages cut off"] = self.network.dropped
        counts = (len(self.acknowledged), owed, received, repeated)
        return PromiseOutcome(*counts, dict(self.fired), tuple(self.problems))

    # Clients.

    def _subscriber(self, number: int) -> _Subscriber:
        name = f"c{number}"
        wanted = self.random.sample("ABCD", 2)
        subscriptions = (
            Subscription("s1", name, topic=wanted[0]),
            Subscription("s2", name, topic=wanted[1], where=f"a > {self.random.randint(0, 5)}"),
        )
        return _Subscriber(name, self._any(), subscriptions)

    def _connect(self, subscriber: _Subscriber) -> None:
        """Present the session at a broker."""
        subscriber.connected = self._serves(subscriber.at)
        subscriber.unanswered = {each.key for each in subscriber.subscriptions}
        session = SessionState(subscriber.subscriptions, subscriber.offset)
        self._call(subscriber.at, lambda: self.brokers.members[subscriber.at].resume(session))

    def _publish(self, publisher: _Publisher) -> None:
        number = len(publisher.published)
        value = self.random.randint(0, 9)
        event = Event(f"e{number}", self.random.choice("ABCD"), {"source": publisher.name, "a": value})
        publisher.published[event.key] = self.world.now
        publisher.events[event.key] = event
        publisher.waiting[event.key] = self.world.now
        if publisher.connected:
            self._send(publisher, event)

    def _send(self, publisher: _Publisher, event: Event) -> None:
        publisher.waiting[event.key] = self.world.now
        self._call(publisher.at, lambda: self.brokers.members[publisher.at].publish(event))

    def _look_after(self) -> None:
        """Clients whose broker is gone, or does not answer, go elsewhere."""
        now = self.world.now
        for publisher in self.publishers:
            oldest = min(publisher.waiting.values(), default=now)
            if now - oldest > PATIENCE or not publisher.connected or not self._serves(publisher.at):
                publisher.at = self._any()
                publisher.connected = self._serves(publisher.at)
                for key in list(publisher.waiting):
                    self._send(publisher, publisher.events[key])
        for subscriber in self.subscribers:
            if not subscriber.connected or not self._serves(subscriber.at):
                subscriber.at = self._any()
                self._connect(subscriber)
            elif self.random.random() < 0.01 and not self.world.is_paused(subscriber.at):
                self._move(subscriber)

    def _move(self, subscriber: _Subscriber) -> None:
        """A client goes to another broker of its own accord, or connects again to its own."""
        before = subscriber.at
        for each in subscriber.subscriptions:
            self._call(before, partial(self._withdraw, before, each.key))
        subscriber.at = self._any()
        self._connect(subscriber)

    def _withdraw(self, at: Address, key: SubscriptionKey) -> None:
        try:
            self.brokers.members[at].unsubscribe(key)
        except KeyError:
            self.problems.append(f"node {at} does not know subscription {key}")

    def receive(self, delivered: DeliveredItem) -> None:
        """A node gives something to its clients."""
        time, address, item, _, _ = delivered
        if isinstance(item, LogGap):
            self.problems.append(f"{item.subscriber} was told of a gap at {time:.1f} s")
            return
        assert isinstance(item, Delivery)
        subscriber = next(one for one in self.subscribers if one.name == item.subscriber)
        if address != subscriber.at:
            return
        offset, before, key = item.offset, subscriber.offset, item.event.key
        assert offset is not None
        if before is not None and offset.epoch == before.epoch and offset.number <= before.number:
            subscriber.repeated += 1
            return
        subscriber.offset = offset
        if key in subscriber.seen:
            subscriber.repeated += 1
            return
        subscriber.seen[key] = time
        if not any(PlainEvaluation(each).passes(item.event) for each in subscriber.subscriptions):
            self.problems.append(f"{subscriber.name} got {key}, which it did not ask for")

    def answer(self, address: Address, what: EventKey | SubscriptionKey) -> None:
        """A node tells its client that something is done."""
        if isinstance(what, EventKey):
            for publisher in self.publishers:
                if publisher.at == address and publisher.waiting.pop(what, None) is not None:
                    self.acknowledged.setdefault(what, self.world.now)
            return
        for subscriber in self.subscribers:
            if subscriber.at == address and what in subscriber.unanswered:
                subscriber.unanswered.discard(what)
                if not subscriber.unanswered and subscriber.registered is None:
                    subscriber.registered = self.world.now
                if not subscriber.unanswered and subscriber.offset is None:
                    subscriber.offset = self.brokers.members[address].reached(subscriber.name)

    # Faults.

    def _plan_faults(self) -> float:
        """Plan all faults; returns when the last is over."""
        time = FIRST_FAULT
        for _ in range(self.trial.faults):
            kind = self.random.choice(self.trial.kinds)
            lasts = self.random.choice((0.5, 3.0, 10.0, 30.0, 45.0)) * self.random.uniform(0.8, 1.2)
            self.world.at(time, partial(self._fault, kind, lasts))
            time += lasts + HEALING
        return time

    def _fault(self, kind: str, lasts: float) -> None:
        node = self._victim()
        self.fired[kind] += 1
        until = self.world.now + lasts
        self.world.say(node, f"fault: {kind} for {lasts:.1f} s")
        if kind == "pause":
            self.brokers.pause(node)
            self.world.at(until, lambda: self.brokers.resume(node))
        elif kind == "cut off":
            self.network.alone = node
            self.world.at(until, self._join_again)
        elif kind == CLOCK_SKEW:
            self.world.set_clock(node, forward=self.random.uniform(*SKEWS))
        elif kind == LEAVE:
            self._send_clients_away(node)
            self.leaving = node
            self._leave(node, self.world.now + FAREWELL)
            self.world.at(until + FAREWELL, lambda: self._come_back(node))
        else:
            self.brokers.crash(node)
            self._send_clients_away(node)
            if kind == "kill and cut off":
                self.network.alone = node
                self.world.at(until, self._join_again)
                until = self.world.now + min(1.0, lasts / 2)
            elif self.trial.refused:
                self._refuse(node)
            if kind == LOSE_ON_RETURN:
                until = self.world.now + self.random.uniform(0.1, 1.0)
                self.world.at(until + self.random.uniform(0.01, 1.5), lambda: self.brokers.crash(node))
            if kind != "lose":
                keep = kind != "kill and wipe"
                self.world.at(until, lambda: self.brokers.restart(node, keep_state=keep))

    def _send_clients_away(self, node: Address) -> None:
        clients: list[_Subscriber | _Publisher] = [*self.subscribers, *self.publishers]
        for client in clients:
            client.connected = client.connected and client.at != node

    def _refuse(self, node: Address) -> None:
        """Tell the others, each a little later than before, that a node is gone, until it is back."""
        if node in self.brokers.up():
            return
        for other in self.brokers.up():
            if not self.world.is_paused(other) and self.random.random() < 0.8:
                self.world.call(other, partial(self.brokers.members[other].suspect, node))
        self.world.at(self.world.now + self.random.uniform(0.1, 1.5), lambda: self._refuse(node))

    def _leave(self, node: Address, end: float) -> None:
        """Have a node leave, as `live.broker` does: it is asked until it has left, or the time is up."""
        broker = self.brokers.members[node]
        self.world.call(node, broker.leave)
        if broker.left or self.world.now > end:
            self.brokers.crash(node)
            self.fired["left in good order"] += broker.left
        else:
            self.world.at(self.world.now + 0.05, lambda: self._leave(node, end))

    def _come_back(self, node: Address) -> None:
        self.leaving = None
        self.brokers.restart(node, keep_state=True)

    def _join_again(self) -> None:
        self.network.alone = None

    def _victim(self) -> Address:
        """The root or its standby as often as any other."""
        up = self.brokers.up()
        trees = [getattr(self.brokers.members[one], "tree", None) for one in up]
        chosen = [one for one, tree in zip(up, trees, strict=True) if tree is not None and tree.is_root]
        chosen += [tree.standby for tree in trees if tree is not None and tree.is_root and tree.standby in up]
        return self.random.choice(chosen if chosen and self.random.random() < 0.6 else up)

    # What is due.

    def _check(self) -> int:
        """Find what is owed and did not come, and what came out of order; returns how much was owed."""
        owed = 0
        for publisher in self.publishers:
            if publisher.waiting:
                self.problems.append(f"{len(publisher.waiting)} events of {publisher.name} not acknowledged")
        for subscriber in self.subscribers:
            registered = subscriber.registered
            if registered is None:
                self.problems.append(f"the subscriptions of {subscriber.name} were never acknowledged")
                continue
            evaluations = [PlainEvaluation(each) for each in subscriber.subscriptions]
            for publisher in self.publishers:
                for key, time in publisher.published.items():
                    due = time > registered and key in self.acknowledged
                    if due and any(each.passes(publisher.events[key]) for each in evaluations):
                        owed += 1
                        if key not in subscriber.seen:
                            told = f"published at {time:.1f} s, acknowledged at {self.acknowledged[key]:.1f}"
                            self.problems.append(f"{subscriber.name} did not get {key}, {told}")
                numbers = [int(key.id[1:]) for key in subscriber.seen if key.source == publisher.name]
                for one, other in pairwise(numbers):
                    if other < one:
                        told = f"e{other} of {publisher.name} after e{one}"
                        self.problems.append(f"{subscriber.name} got {told}")
        return owed

    # Means.

    def _any(self) -> Address:
        """A broker that answers; when there is none, any that may later."""
        up = [one for one in self.brokers.up() if one != self.leaving]
        answering = [one for one in up if not self.world.is_paused(one)]
        return self.random.choice(answering or up or sorted(self.brokers.members))

    def _serves(self, at: Address) -> bool:
        return at in self.brokers.up() and at != self.leaving

    def _call(self, at: Address, action: Callable[[], None]) -> None:
        if self._serves(at):
            self.world.call(at, action)

    def _every(self, seconds: float, end: float, action: Callable[[], None]) -> None:
        """Do something every so many seconds, until a time."""

        def again() -> None:
            action()
            if self.world.now + seconds < end:
                self.world.at(self.world.now + seconds, again)

        self.world.at(self.world.now + self.random.uniform(0, seconds), again)
