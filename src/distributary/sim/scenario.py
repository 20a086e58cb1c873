"""Scenarios: faults that belong together, and the kinds of faults that must fire.

Rules:

- A scenario promises kinds of faults. A run in which one of them never fired has tested nothing of that kind
  and fails (`require_fired`), naming it.
- A scenario drawn from a seed affects at most a given number of nodes at a time, and everything has ended at
  its end: crashed nodes are restarted, paused ones resumed, partitions closed. Only clocks, half of which a
  fault may set wrong, keep the difference that they have by then.
- The same seed, nodes and settings give the same scenario in every process.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any

from distributary.errors import DistributaryError
from distributary.overlay.node import Address
from distributary.sim.faults import (
    KINDS,
    ClockDrift,
    ClockSkew,
    Crash,
    DelaySpike,
    Duplication,
    Fault,
    Injection,
    Loss,
    NodeJoin,
    NodeLeave,
    Partition,
    Pause,
    Reordering,
    kinds_of,
)
from distributary.sim.population import Population

SCENARIOS: dict[str, tuple[str, ...]] = {
    "calm": (),
    "loss": ("loss",),
    "duplication": ("duplication",),
    "reordering": ("reordering",),
    "delay": ("delay spike",),
    "partition": ("partition",),
    "one-way": ("one-way partition",),
    "crash": ("restart with state",),
    "amnesia": ("restart without state",),
    "pause": ("pause",),
    "churn": ("join", "leave"),
    "clocks": ("clock skew", "clock drift"),
    "messages": ("loss", "duplication", "reordering", "delay spike"),
    "nodes": ("restart with state", "restart without state", "pause", "join", "leave"),
    "everything": tuple(kind for kind in KINDS if kind != "crash"),
}
"""The named scenarios and the kinds of faults that each injects."""


class BrokenPromiseError(DistributaryError):
    """A kind of fault that a scenario promised never fired."""


@dataclass(frozen=True)
class Scenario:
    """Faults, and the kinds of them that must fire."""

    name: str
    faults: tuple[Fault, ...]
    promises: tuple[str, ...]
    healed: float
    """The time at which all faults have ended."""

    @classmethod
    def of(cls, name: str, faults: Iterable[Fault], *, healed: float | None = None) -> Scenario:
        """A scenario that promises every kind of its faults.

        >>> scenario = Scenario.of("a lost second", [Loss(start=3, end=4, probability=1)])
        >>> scenario.promises, scenario.healed
        (('loss',), 4)
        """
        chosen = tuple(faults)
        kinds = {kind for fault in chosen for kind in kinds_of(fault)}
        last = max((fault.end if fault.end < inf else fault.start for fault in chosen), default=0.0)
        return cls(
            name, chosen, tuple(kind for kind in KINDS if kind in kinds), last if healed is None else healed
        )

    def inject(self, population: Population[Any]) -> Injection:
        """Schedule the faults in a simulated system."""
        return Injection(population, self.faults)

    def require_fired(self, injection: Injection) -> None:
        """Raise BrokenPromiseError unless every promised kind has fired at least once."""
        never = [kind for kind in self.promises if not injection.fired[kind]]
        if never:
            raise BrokenPromiseError(
                f"scenario {self.name!r} promised {', '.join(self.promises)}, but never injected:"
                f" {', '.join(never)}"
            )


def random_scenario(
    seed: int,
    nodes: Sequence[Address],
    *,
    kinds: Iterable[str] | None = None,
    spares: Sequence[Address] = (),
    start: float = 10.0,
    duration: float = 60.0,
    at_once: int = 1,
    gap: float = 5.0,
    largest_side: int = 1,
    strength: float = 1.0,
    gone: int = 0,
    name: str | None = None,
) -> Scenario:
    """Draw a scenario of these kinds of faults, each at least once, between `start` and `start + duration`.

    Without `kinds` the seed chooses one to four, joins only if there are spares. No more than `at_once`
    faults of nodes are active at a time (crashes, pauses, partitions, joins, leaves), and each is followed by
    `gap` seconds in which the system can recover; a partition cuts off up to `largest_side` nodes. Nodes that
    join are taken from `spares`; each node has at most one fault of its own. `strength` multiplies how likely
    messages are lost, repeated and held back, and how long a delay spike lasts. `gone` more nodes crash for
    good, `at_once` of them together. DistributaryError for an unknown kind, too few nodes or too little time.

    >>> scenario = random_scenario(7, range(0, 100, 10), kinds=["loss", "pause"])
    >>> scenario.promises, scenario.healed
    (('loss', 'pause'), 70.0)
    """
    random = Random(f"{seed}/scenario")
    possible = [kind for kind in SCENARIOS["everything"] if spares or kind != "join"]
    wanted = random.sample(possible, random.randint(1, 4)) if kinds is None else list(kinds)
    unknown = [kind for kind in wanted if kind not in KINDS or kind == "crash"]
    if unknown:
        known = ", ".join(kind for kind in KINDS if kind != "crash")
        raise DistributaryError(f"no kind of fault is called {unknown[0]!r}; there are {known}")
    draw = _Draw(random, nodes, spares, start, start + duration, strength)
    faults = [draw.message_fault(kind) for kind in wanted if kind in _OF_MESSAGES]
    faults += [draw.clock_fault(kind, nodes) for kind in wanted if kind in _OF_CLOCKS]
    outages = [kind for kind in wanted if kind not in (*_OF_MESSAGES, *_OF_CLOCKS)]
    faults += draw.outages(outages, at_once, gap, largest_side)
    faults += draw.losses_for_good(gone, at_once)
    placed = {kind for fault in faults for kind in kinds_of(fault)}
    missing = [kind for kind in wanted if kind not in placed]
    if missing:
        raise DistributaryError(f"no node is left for a {missing[0]}; give more nodes, or spares for joins")
    shown = name or ("+".join(wanted) if wanted else "calm")
    return Scenario.of(f"{shown} from seed {seed}", faults, healed=start + duration)


_OF_MESSAGES = ("loss", "duplication", "reordering", "delay spike")
_OF_CLOCKS = ("clock skew", "clock drift")


class _Draw:
    """Draws random faults between two times."""

    def __init__(
        self,
        random: Random,
        nodes: Sequence[Address],
        spares: Sequence[Address],
        start: float,
        end: float,
        strength: float,
    ) -> None:
        self.random = random
        self.strength = strength
        self.start = start
        self.end = end
        self.untouched = sorted(nodes)
        self.spares = sorted(spares)
        random.shuffle(self.untouched)
        random.shuffle(self.spares)

    def message_fault(self, kind: str) -> Fault:
        """A fault of messages; all but delay spikes last a third of the time or more."""
        uniform = self.random.uniform
        span = self.end - self.start
        length = uniform(span / 3, span)
        start = uniform(self.start, self.end - length)
        end = start + length
        match kind:
            case "loss":
                return Loss(start=start, end=end, probability=self._chance(0.02, 0.2))
            case "duplication":
                return Duplication(start=start, end=end, probability=self._chance(0.05, 0.3))
            case "reordering":
                return Reordering(
                    start=start, end=end, probability=self._chance(0.1, 0.4), by=uniform(0.5, 3)
                )
            case _:
                length = uniform(span / 10, span / 4)
                start = uniform(self.start, self.end - length)
                return DelaySpike(start=start, end=start + length, extra=self.strength * uniform(0.2, 2))

    def _chance(self, least: float, most: float) -> float:
        return min(1.0, self.strength * self.random.uniform(least, most))

    def losses_for_good(self, count: int, at_once: int) -> list[Fault]:
        """Crashes of nodes that never restart: `at_once` together, the groups evenly over the time.

        The first group is lost a third of the way, so that there is something to lose.
        """
        if count > len(self.untouched):
            raise DistributaryError(
                f"{count} nodes cannot crash for good: {len(self.untouched)} have no fault"
            )
        groups = -(-count // at_once)
        step = (self.end - self.start) * 2 / 3 / max(1, groups)
        return [
            Crash(start=self.end - step * (groups - number // at_once), node=self.untouched.pop())
            for number in range(count)
        ]

    def clock_fault(self, kind: str, nodes: Sequence[Address]) -> Fault:
        """A fault of half of the clocks: early and for good, or for a third of the time or more."""
        uniform = self.random.uniform
        span = self.end - self.start
        some = tuple(sorted(self.random.sample(sorted(nodes), (len(nodes) + 1) // 2)))
        if kind == "clock skew":
            start = uniform(self.start, self.start + span / 4)
            return ClockSkew(start=start, nodes=some, ahead=uniform(5.0, 500.0))
        length = uniform(span / 3, span)
        start = uniform(self.start, self.end - length)
        faster = uniform(1.1, 1.5)
        rate = self.random.choice([faster, 1 / faster])
        return ClockDrift(start=start, end=start + length, nodes=some, rate=rate)

    def outages(self, kinds: list[str], at_once: int, gap: float, largest_side: int) -> list[Fault]:
        """Faults of nodes, each kind at least once: `at_once` sequences in which one follows another."""
        if not kinds:
            return []
        room = (self.end - self.start) * at_once / len(kinds)
        rounds = self.random.randint(1, 2) if room > 6 * gap else 1
        rounds = max(rounds, -(-at_once // len(kinds)))  # so that as many as that are out at once
        planned = [kind for _ in range(rounds) for kind in self.random.sample(kinds, len(kinds))]
        lanes = [planned[number::at_once] for number in range(at_once)]
        faults: list[Fault] = []
        for lane in lanes:
            faults += self._one_after_another(lane, gap, largest_side)
        return sorted(faults, key=lambda fault: fault.start)

    def _one_after_another(self, kinds: list[str], gap: float, largest_side: int) -> list[Fault]:
        faults: list[Fault] = []
        share = (self.end - self.start) / max(1, len(kinds))
        if kinds and share <= gap:
            raise DistributaryError(
                f"{len(kinds)} faults of nodes, {gap:g} s apart, do not fit into {self.end - self.start:g} s;"
                " give a longer duration or more at once"
            )
        for number, kind in enumerate(kinds):
            earliest = self.start + number * share
            length = self.random.uniform(0.3, 1.0) * (share - gap)
            start = earliest + self.random.uniform(0.0, share - gap - length)
            fault = self._outage(kind, start, start + length, largest_side)
            if fault is not None:
                faults.append(fault)
        return faults

    def _outage(self, kind: str, start: float, end: float, largest_side: int) -> Fault | None:
        """A fault of a node that had none yet; None when no such node is left."""
        if kind == "join":
            return NodeJoin(start=start, node=self.spares.pop()) if self.spares else None
        if not self.untouched:
            return None
        node = self.untouched.pop()
        match kind:
            case "pause":
                return Pause(start=start, end=end, node=node)
            case "leave":
                return NodeLeave(start=start, node=node)
            case "partition" | "one-way partition":
                side = self._side(node, largest_side)
                return Partition(start=start, end=end, side=side, one_way=kind != "partition")
            case _:
                return Crash(start=start, end=end, node=node, keep_state=kind == "restart with state")

    def _side(self, node: Address, largest: int) -> tuple[Address, ...]:
        count = self.random.randint(1, largest)
        more = [self.untouched.pop() for _ in range(min(count - 1, len(self.untouched)))]
        return tuple(sorted((node, *more)))
