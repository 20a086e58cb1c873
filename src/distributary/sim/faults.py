"""Faults of messages and of nodes: plain data, injected into a simulated system from a seed, and counted.

Rules:

- A fault is active from `start` to `end` and changes nothing outside that window.
- Faults of messages are decided message by message. Each fault has a random generator of its own, so removing
  one fault leaves the draws of the others unchanged. Messages from a node to itself are never affected.
- The order of messages on a link is kept, even through a delay spike; only `Reordering` and the second copies
  of `Duplication` break it.
- Every fault counts how often it fired: messages lost, duplicated, delayed or blocked, messages that were
  overtaken, nodes stopped, clocks set. A fault of a node that does not exist or is already down does not
  fire.
- A clock that was wrong once stays wrong: after a skew or a drift it runs at the right rate again, but keeps
  the difference, as no clock goes back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import inf
from random import Random
from typing import Any, ClassVar

from distributary.errors import DistributaryError
from distributary.overlay.node import Address, Message
from distributary.sim.latency import Latency, LinkOrder
from distributary.sim.population import Population
from distributary.sim.simulator import Simulator


@dataclass(frozen=True, kw_only=True)
class _TimedFault:
    """A fault that is active from one time to another."""

    start: float
    end: float


@dataclass(frozen=True, kw_only=True)
class _RandomFault(_TimedFault):
    """Affects each message with a probability; only those from or to one of `nodes`, if any are named."""

    probability: float
    nodes: tuple[Address, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Loss(_RandomFault):
    """Messages are lost."""

    kind: ClassVar = "loss"


@dataclass(frozen=True, kw_only=True)
class Duplication(_RandomFault):
    """Messages arrive twice; the second copy comes up to `within` seconds later."""

    kind: ClassVar = "duplication"
    within: float = 1.0


@dataclass(frozen=True, kw_only=True)
class Reordering(_RandomFault):
    """Messages are held back by up to `by` seconds, so that later ones may overtake them."""

    kind: ClassVar = "reordering"
    by: float = 1.0


@dataclass(frozen=True, kw_only=True)
class DelaySpike(_TimedFault):
    """All messages take `extra` seconds longer; what is sent after the spike stays behind them in order."""

    kind: ClassVar = "delay spike"
    extra: float
    nodes: tuple[Address, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Partition(_TimedFault):
    """The nodes of one side and all others cannot reach each other; if `one_way`, the side still receives."""

    kind: ClassVar = "partition"
    side: tuple[Address, ...]
    one_way: bool = False


@dataclass(frozen=True, kw_only=True)
class Crash:
    """A node stops, and restarts at `end` with or without its state; it stays down if `end` is infinite."""

    kind: ClassVar = "crash"
    start: float
    node: Address
    end: float = inf
    keep_state: bool = True


@dataclass(frozen=True, kw_only=True)
class Pause(_TimedFault):
    """A node does nothing until `end`, then gets all that arrived for it meanwhile."""

    kind: ClassVar = "pause"
    node: Address


@dataclass(frozen=True, kw_only=True)
class _MembershipChange:
    start: float
    node: Address

    @property
    def end(self) -> float:
        """The same as `start`: the change takes no time."""
        return self.start


@dataclass(frozen=True, kw_only=True)
class NodeJoin(_MembershipChange):
    """A new node joins."""

    kind: ClassVar = "join"


@dataclass(frozen=True, kw_only=True)
class NodeLeave(_MembershipChange):
    """A node leaves in good order."""

    kind: ClassVar = "leave"


@dataclass(frozen=True, kw_only=True)
class ClockSkew:
    """The clocks of some nodes are put forward by `ahead` seconds, so that those of all others are behind."""

    kind: ClassVar = "clock skew"
    start: float
    nodes: tuple[Address, ...]
    ahead: float

    @property
    def end(self) -> float:
        """The same as `start`: the change takes no time, and lasts."""
        return self.start


@dataclass(frozen=True, kw_only=True)
class ClockDrift(_TimedFault):
    """The clocks of some nodes run at `rate` times the speed of others."""

    kind: ClassVar = "clock drift"
    nodes: tuple[Address, ...]
    rate: float


MessageFault = Loss | Duplication | Reordering | DelaySpike | Partition
NodeFault = Crash | Pause | NodeJoin | NodeLeave
ClockFault = ClockSkew | ClockDrift
Fault = MessageFault | NodeFault | ClockFault

KINDS = (
    *("loss", "duplication", "reordering", "delay spike", "partition", "one-way partition"),
    *("crash", "restart with state", "restart without state", "pause", "join", "leave"),
    *("clock skew", "clock drift"),
)
"""The names under which faults are required and counted. A crash that ends counts as a restart too."""


def kinds_of(fault: Fault) -> tuple[str, ...]:
    """The names under which a fault is counted.

    >>> kinds_of(Crash(start=1, end=2, node=7, keep_state=False))
    ('crash', 'restart without state')
    """
    match fault:
        case Partition(one_way=True):
            return ("one-way partition",)
        case Crash(end=end, keep_state=keep_state) if end < inf:
            return ("crash", "restart with state" if keep_state else "restart without state")
        case _:
            return (fault.kind,)


def check(fault: Fault) -> None:
    """Raise DistributaryError if a fault's times, probability or nodes make no sense."""
    if not 0 <= fault.start <= fault.end:
        raise DistributaryError(f"{fault}: a fault ends after its start, which is 0 or later")
    if not isinstance(fault, Crash) and fault.end == inf:
        raise DistributaryError(f"{fault}: only a crash may last for ever")
    probability = getattr(fault, "probability", 1.0)
    if not 0 < probability <= 1:
        raise DistributaryError(f"{fault}: a probability lies above 0 and is at most 1, not {probability:g}")
    for span in ("within", "by", "extra", "ahead"):
        if getattr(fault, span, 1.0) <= 0:
            raise DistributaryError(f"{fault}: {span!r} is a number of seconds above 0")
    if isinstance(fault, Partition) and not fault.side:
        raise DistributaryError(f"{fault}: nobody is on the side that is cut off")
    if isinstance(fault, ClockFault) and not fault.nodes:
        raise DistributaryError(f"{fault}: it is nobody's clock")
    if isinstance(fault, ClockDrift) and (fault.rate <= 0 or fault.rate == 1):
        raise DistributaryError(f"{fault}: a clock that drifts runs at a rate above 0 and other than 1")


class Injection:
    """Schedules faults in a running simulation, and counts how often each kind fired.

    Creating one replaces the simulator's network with one that applies the faults of messages.
    """

    def __init__(self, population: Population[Any], faults: Iterable[Fault]) -> None:
        self.population = population
        self.simulator: Simulator = population.simulator
        self.fired: Counter[str] = Counter()
        """How often each kind of fault has fired so far."""
        latency = self.simulator.network
        if not isinstance(latency, Latency):
            raise DistributaryError(
                f"faults need a latency model below them, not a {type(latency).__name__};"
                " a simulator takes one injection"
            )
        self._network = _FaultyNetwork(latency, self.fired)
        for number, fault in enumerate(faults):
            check(fault)
            self._plan(fault, self.simulator.random_for(f"fault/{number}"))
        self.simulator.network = self._network

    def _plan(self, fault: Fault, random: Random) -> None:
        begin: Callable[[], None]
        end: Callable[[], None]
        if isinstance(fault, NodeFault):
            begin, end = partial(self._begin, fault), partial(self._end, fault)
        elif isinstance(fault, ClockFault):
            begin, end = partial(self._set_clocks, fault), partial(self._right_clocks, fault)
        else:
            begin, end = self._network.switch(fault, random)
        self._at(fault.start, fault, "begins", begin)
        if fault.start < fault.end < inf:
            self._at(fault.end, fault, "ends", end)

    def _at(self, time: float, fault: Fault, what: str, action: Callable[[], None]) -> None:
        def happen() -> None:
            self.simulator.say(getattr(fault, "node", None), f"{kinds_of(fault)[-1]} {what}")
            action()

        self.simulator.at(time, happen)

    def _begin(self, fault: NodeFault) -> None:
        node, population, is_up = fault.node, self.population, self.simulator.is_up
        match fault:
            case Crash(end=end) if is_up(node):
                (population.lose if end == inf else population.crash)(node)
            case Pause() if is_up(node):
                population.pause(node)
            case NodeJoin() if node not in population.members:
                population.add(node)
            case NodeLeave() if node in population.up():
                population.leave(node)
            case _:
                return
        self.fired[fault.kind] += 1

    def _end(self, fault: NodeFault) -> None:
        node, population = fault.node, self.population
        if isinstance(fault, Pause):
            population.resume(node)
        elif isinstance(fault, Crash) and node in population.members and not self.simulator.is_up(node):
            population.restart(node, keep_state=fault.keep_state)
            self.fired[kinds_of(fault)[-1]] += 1

    def _set_clocks(self, fault: ClockFault) -> None:
        for node in fault.nodes:
            if node not in self.population.members:
                continue
            if isinstance(fault, ClockSkew):
                self.simulator.set_clock(node, forward=fault.ahead)
            else:
                self.simulator.set_clock(node, rate=fault.rate)
            self.fired[fault.kind] += 1

    def _right_clocks(self, fault: ClockFault) -> None:
        for node in fault.nodes:
            self.simulator.set_clock(node, rate=1.0)


class _FaultyNetwork:
    """A latency model with the active faults of messages applied to it."""

    def __init__(self, latency: Latency, fired: Counter[str]) -> None:
        self._latency = latency
        self._fired = fired
        self._order = LinkOrder()
        self._active: list[_ActiveFault] = []
        self._held_back: dict[tuple[Address, Address], float] = {}
        """By link, when a message that was held back arrives; removed once another has overtaken it."""

    def switch(self, fault: MessageFault, random: Random) -> tuple[Callable[[], None], Callable[[], None]]:
        """Two functions that turn the fault on and off."""
        active = _ActiveFault(fault, random)
        return lambda: self._active.append(active), lambda: self._active.remove(active)

    def delays(self, now: float, sender: Address, to: Address, message: Message) -> Sequence[float]:
        delay = self._latency.delay(now, sender, to, message)
        struck = [
            (each.fault, share) for each in self._active if (share := each.strikes(sender, to)) is not None
        ]
        for fault, _ in struck:
            if isinstance(fault, Loss | Partition):
                self._fired[kinds_of(fault)[0]] += 1
                return ()
        for fault, _ in struck:
            if isinstance(fault, DelaySpike):
                delay += fault.extra
                self._fired["delay spike"] += 1
        delay = self._order.kept(now, sender, to, delay)
        if self._held_back:
            self._count_overtaking(now + delay, sender, to)
        return self._out_of_order(now, sender, to, delay, struck) if struck else (delay,)

    def _out_of_order(
        self, now: float, sender: Address, to: Address, delay: float, struck: list[tuple[MessageFault, float]]
    ) -> Sequence[float]:
        copies: list[float] = []
        for fault, share in struck:
            if isinstance(fault, Reordering):
                delay += fault.by * share
                self._held_back[sender, to] = now + delay
            elif isinstance(fault, Duplication):
                copies.append(fault.within * share)
                self._fired["duplication"] += 1
        return (delay, *(delay + later for later in copies))

    def _count_overtaking(self, due: float, sender: Address, to: Address) -> None:
        if due < self._held_back.get((sender, to), -inf):
            del self._held_back[sender, to]
            self._fired["reordering"] += 1


class _ActiveFault:
    """A fault of messages with its random generator."""

    def __init__(self, fault: MessageFault, random: Random) -> None:
        self.fault = fault
        self._random = random.random
        self._probability: float = getattr(fault, "probability", 1.0)
        self._nodes = frozenset(fault.side if isinstance(fault, Partition) else fault.nodes)

    def strikes(self, sender: Address, to: Address) -> float | None:
        """None if a message is not affected, else a number from 0 to 1 that scales the effect.

        Both numbers are drawn for every message that the fault concerns, even if another fault loses it.
        """
        if not self._concerns(sender, to):
            return None
        strikes, share = self._random() < self._probability, self._random()
        return share if strikes else None

    def _concerns(self, sender: Address, to: Address) -> bool:
        if sender == to:
            return False
        if isinstance(self.fault, Partition):
            inside = sender in self._nodes
            return inside != (to in self._nodes) and (inside or not self.fault.one_way)
        return not self._nodes or sender in self._nodes or to in self._nodes
