"""What can go wrong in a simulated system: plain data, injected from a seed, counted.

Rules:

- A fault has a window of time, `start` to `end`, and changes nothing outside it.
- Faults of messages are decided message by message, each fault by a generator of its own: taking one away
  leaves the draws of the others as they were. What a node sends to itself crosses no network and is spared.
- The order of messages on a link is kept, also through spikes of delay; only `Reordering` breaks it, and the
  second copies of `Duplication`.
- Every fault counts how often it fired: messages it lost, doubled, delayed or blocked, messages that were
  overtaken, nodes it stopped. A fault of a node that is not there, or down already, does not fire.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any

from distributary.errors import DistributaryError
from distributary.overlay.node import Address, Message
from distributary.sim.latency import Latency, LinkOrder
from distributary.sim.population import Population
from distributary.sim.simulator import Simulator

# Faults of messages. Where `nodes` is empty they concern all messages, else those from or to one of these.


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Messages are lost, each with this probability."""

    start: float
    end: float
    probability: float
    nodes: tuple[Address, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Duplication:
    """Messages arrive twice, each with this probability; the second copy up to `within` seconds later."""

    start: float
    end: float
    probability: float
    within: float = 1.0
    nodes: tuple[Address, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Reordering:
    """Messages are held back, each with this probability, by up to `by` seconds: later ones may overtake."""

    start: float
    end: float
    probability: float
    by: float = 1.0
    nodes: tuple[Address, ...] = ()


@dataclass(frozen=True, kw_only=True)
class DelaySpike:
    """All messages take `extra` seconds longer; what is sent after the spike waits its turn behind them."""

    start: float
    end: float
    extra: float
    nodes: tuple[Address, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Partition:
    """The nodes of one side and all others cannot reach each other; when `one_way`, the side still hears."""

    start: float
    end: float
    side: tuple[Address, ...]
    one_way: bool = False


# Faults of nodes.


@dataclass(frozen=True, kw_only=True)
class Crash:
    """A node stops, and starts again at `end` with or without its state; never when that is infinite."""

    start: float
    node: Address
    end: float = inf
    keep_state: bool = True


@dataclass(frozen=True, kw_only=True)
class Pause:
    """A node does nothing for a while, then gets all that was meant for it."""

    start: float
    end: float
    node: Address


@dataclass(frozen=True, kw_only=True)
class NodeJoin:
    """A new node comes."""

    start: float
    node: Address

    @property
    def end(self) -> float:
        """It is over as soon as it has happened."""
        return self.start


@dataclass(frozen=True, kw_only=True)
class NodeLeave:
    """A node says farewell and goes."""

    start: float
    node: Address

    @property
    def end(self) -> float:
        """It is over as soon as it has happened."""
        return self.start


MessageFault = Loss | Duplication | Reordering | DelaySpike | Partition
NodeFault = Crash | Pause | NodeJoin | NodeLeave
Fault = MessageFault | NodeFault

KINDS = (
    "loss",
    "duplication",
    "reordering",
    "delay spike",
    "partition",
    "one-way partition",
    "crash",
    "restart with state",
    "restart without state",
    "pause",
    "join",
    "leave",
)
"""The names by which faults are promised and counted. A crash that ends is a restart too."""


def kinds_of(fault: Fault) -> tuple[str, ...]:
    """The names under which a fault counts.

    >>> kinds_of(Crash(start=1, end=2, node=7, keep_state=False))
    ('crash', 'restart without state')
    """
    match fault:
        case Loss():
            return ("loss",)
        case Duplication():
            return ("duplication",)
        case Reordering():
            return ("reordering",)
        case DelaySpike():
            return ("delay spike",)
        case Partition(one_way=one_way):
            return ("one-way partition",) if one_way else ("partition",)
        case Crash(end=end, keep_state=keep_state):
            restart = "restart with state" if keep_state else "restart without state"
            return ("crash", restart) if end < inf else ("crash",)
        case Pause():
            return ("pause",)
        case NodeJoin():
            return ("join",)
        case NodeLeave():
            return ("leave",)


def check(fault: Fault) -> None:
    """See that a fault makes sense; DistributaryError says what does not."""
    if not 0 <= fault.start <= fault.end:
        raise DistributaryError(f"{fault}: a fault ends after its start, which is 0 or later")
    if not isinstance(fault, Crash) and fault.end == inf:
        raise DistributaryError(f"{fault}: only a crash may last for ever")
    probability = getattr(fault, "probability", 1.0)
    if not 0 < probability <= 1:
        raise DistributaryError(f"{fault}: a probability lies above 0 and is at most 1, not {probability:g}")
    for span in ("within", "by", "extra"):
        if getattr(fault, span, 1.0) <= 0:
            raise DistributaryError(f"{fault}: {span!r} is a number of seconds above 0")
    if isinstance(fault, Partition) and not fault.side:
        raise DistributaryError(f"{fault}: nobody is on the side that is cut off")


class Injection:
    """Faults on their way into a running system, and what has become of each.

    Making one puts it into the simulator: its network from then on is the faulty one.
    """

    def __init__(
        self, population: Population[Any], faults: Iterable[Fault], *, seed: int | None = None
    ) -> None:
        self.population = population
        self.simulator: Simulator = population.simulator
        self.faults: tuple[Fault, ...] = tuple(faults)
        self.fired: Counter[str] = Counter()
        """How often each kind of fault has fired."""
        latency = self.simulator.network
        if not isinstance(latency, Latency):
            raise DistributaryError(
                f"faults need a latency model below them, not a {type(latency).__name__};"
                " a simulator takes one injection"
            )
        seed = self.simulator.seed if seed is None else seed
        self._network = _FaultyNetwork(latency, self.fired)
        for number, fault in enumerate(self.faults):
            check(fault)
            self._plan(fault, Random(f"{seed}/fault/{number}"))
        self.simulator.network = self._network

    @property
    def healed(self) -> float:
        """When the last fault ends; crashes for ever count by their start."""
        return max((fault.end if fault.end < inf else fault.start for fault in self.faults), default=0.0)

    def _plan(self, fault: Fault, random: Random) -> None:
        begin: Callable[[], None]
        end: Callable[[], None]
        match fault:
            case Crash():
                begin, end = self._crash_of(fault)
            case Pause():
                begin, end = self._pause_of(fault)
            case NodeJoin():
                begin, end = lambda: self._join(fault), _nothing
            case NodeLeave():
                begin, end = lambda: self._leave(fault), _nothing
            case _:
                begin, end = self._network.switch(fault, random)
        self._at(fault.start, fault, "begins", begin)
        if fault.start < fault.end < inf:
            self._at(fault.end, fault, "ends", end)

    def _at(self, time: float, fault: Fault, what: str, action: Callable[[], None]) -> None:
        def happen() -> None:
            self.simulator.say(getattr(fault, "node", None), f"{kinds_of(fault)[-1]} {what}")
            action()

        self.simulator.at(time, happen)

    def _crash_of(self, fault: Crash) -> tuple[Callable[[], None], Callable[[], None]]:
        def begin() -> None:
            if self.simulator.is_up(fault.node):
                self.population.crash(fault.node)
                self.fired["crash"] += 1

        def end() -> None:
            if fault.node in self.population.members and not self.simulator.is_up(fault.node):
                self.population.restart(fault.node, keep_state=fault.keep_state)
                self.fired[kinds_of(fault)[-1]] += 1

        return begin, end

    def _pause_of(self, fault: Pause) -> tuple[Callable[[], None], Callable[[], None]]:
        def begin() -> None:
            if self.simulator.is_up(fault.node):
                self.population.pause(fault.node)
                self.fired["pause"] += 1

        return begin, lambda: self.population.resume(fault.node)

    def _join(self, fault: NodeJoin) -> None:
        if fault.node not in self.population.members:
            self.population.add(fault.node)
            self.fired["join"] += 1

    def _leave(self, fault: NodeLeave) -> None:
        if fault.node in self.population.up():
            self.population.leave(fault.node)
            self.fired["leave"] += 1


def _nothing() -> None:
    """What ends together with its beginning needs no end."""


class _FaultyNetwork:
    """A latency model whose messages are subject to the faults that are on."""

    def __init__(self, latency: Latency, fired: Counter[str]) -> None:
        self._latency = latency
        self._fired = fired
        self._order = LinkOrder()
        self._on: list[_Effect] = []
        self._held_back: dict[tuple[Address, Address], float] = {}
        """When a message arrives that was held back, by its link, until it is overtaken."""

    def switch(self, fault: MessageFault, random: Random) -> tuple[Callable[[], None], Callable[[], None]]:
        """How the fault is turned on and off."""
        effect = _Effect(fault, random)
        return lambda: self._on.append(effect), lambda: self._on.remove(effect)

    def delays(self, now: float, sender: Address, to: Address, message: Message) -> Sequence[float]:
        delay = self._latency.delay(now, sender, to, message)
        struck = [(on.fault, share) for on in self._on if (share := on.strikes(sender, to)) is not None]
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


class _Effect:
    """A fault of messages with its generator."""

    def __init__(self, fault: MessageFault, random: Random) -> None:
        self.fault = fault
        self._random = random.random
        self._probability: float = getattr(fault, "probability", 1.0)
        self._nodes = frozenset(fault.side if isinstance(fault, Partition) else fault.nodes)

    def strikes(self, sender: Address, to: Address) -> float | None:
        """Whether the fault strikes a message: a number from 0 to 1 that says how hard, or None.

        It is drawn for every message that the fault concerns, whatever becomes of the message otherwise.
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
