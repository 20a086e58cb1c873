"""What a node knows of itself, in the planner's words: its operators, what they ask for, give out and cost.

Rules:

- A piece is what moves as one: an operator, or what is here of a super-operator. Its stream is that of its
  last operator.
- What is believed of pieces and of sources is measured here, over about a period. What was believed of an
  operator goes with it when it moves.
- What a node does in all is told as totals, as the planner would count them: work a second, operators, bytes
  that come in, are forwarded, and are sent to readers elsewhere. Only those that the goal names are told.
- Of a stream that passes, the planner counts all that is asked for: so bytes that come in are those that the
  publisher gives out, as far as somebody here or below asked for them. A filter asks for what passes it; what
  that is its host measures and, where the stream is another operator's, tells that one's host.

Cost: linear in the operators here, once a period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np

from distributary.flow import splitting_of
from distributary.overlay.node import Address, Node
from distributary.plan.goal import Goal
from distributary.plan.queries.evaluation import evaluated
from distributary.plan.queries.graph import FILTER, FINALS, WHOLE
from distributary.systems.queries.engine import Engine, HostedOperator
from distributary.systems.queries.local_goals import path_cost_of, totals_of, value_of
from distributary.systems.queries.messages import PART, OperatorSpec, StreamLocation, TrafficCounts
from distributary.systems.queries.router import Router
from distributary.systems.queries.snapshot import MeasuredRates, RateEstimates
from distributary.systems.queries.statistics import StatisticsManager
from distributary.systems.queries.statistics_messages import (
    FilterRates,
    SendRate,
    StatisticsRound,
    StreamRate,
)

NOTHING = MeasuredRates(0.0, 0.0, 0.0)
SUPER = "super"
"""The kind of a piece that is a super-operator."""
CHANGED = 0.05
"""By what share the items that pass a filter change before the host of those it reads is told."""


def requested_share(passing: float, items: float | None) -> int:
    """How much of a stream of so many items a filter asks for that lets so many pass, in parts of `WHOLE`.

    As `Network.asked` of the planner has it.
    """
    usable = passing / items if items else 1.0
    return max(1, min(WHOLE, ceil(round(WHOLE * usable, 6))))


CLIENTS = "client:"
"""What the names of queries' clients begin with (`registry.client_name`)."""


def query_of(client: str) -> str:
    """The query whose client somebody is.

    >>> query_of("client:busy.large")
    'client:busy'
    """
    return client.partition(".")[0]


class ReaderInfo(NamedTuple):
    """An operator or a query's client, from its host."""

    name: str
    whole: str
    """What it is part of, if that has another name: a super-operator, or a client of several streams."""
    queries: int
    """It is of."""
    inputs: int
    """It has."""


class PlacementUnit(NamedTuple):
    """An operator, or what is here of a super-operator."""

    name: str
    """Of its last operator, and of its stream."""
    kind: str
    inputs: tuple[str, ...]
    share: int
    final: str
    by_input: bool
    rates: MeasuredRates
    measured: bool
    stays: bool
    """Whether it cannot move: it has just come, or somebody else reads streams inside it."""
    members: frozenset[str]
    """Its operators."""
    passing: tuple[tuple[str, float | None], ...]
    """For each stream that one of these reads from outside: the items that pass, if that one is a filter."""

    def wanted(self, rates: Mapping[str, tuple[float, float]]) -> float | None:
        """Which share of what it reads is sent to it, from items and bytes of its inputs, as planners say.

        None where nothing is known of the inputs.
        """
        found: dict[str, float] = {}
        for stream, items in self.passing:
            if stream in rates:
                offered = rates[stream][0]
                found[stream] = found.get(stream, 0.0) + (
                    items / offered if items is not None and offered else 1
                )
        total = sum(rates[stream][1] for stream in found)
        if not total:
            return None
        return sum(min(1.0, share) * rates[stream][1] for stream, share in found.items()) / total


class NodeModel:
    """What a node knows of itself."""

    def __init__(
        self,
        node: Node,
        engine: Engine,
        router: Router,
        goal: Goal,
        latency: Callable[[Address, Address], float],
        memory: float,
        rest: float,
        measure: Callable[[], tuple[Iterable[TrafficCounts], Iterable[TrafficCounts]]],
        send: Callable[[Address, object], None],
    ) -> None:
        self.node = node
        self.goal = goal
        self.names = totals_of(goal)
        self.measurements = RateEstimates(memory)
        self._rest = rest
        """Seconds for which an operator stays where it has come to."""
        self.statistics: StatisticsManager
        """Set by the optimiser, as each needs the other."""
        self.counts: dict[str, int] = {}
        """How many queries each operator here is of, as the registry told."""
        self._engine = engine
        self._router = router
        self._latency = latency
        self._measure = measure
        self._send = send
        self._ways = path_cost_of(goal.cost)
        self.of_ways = self._ways is not None
        self._kinds: dict[str, tuple[OperatorSpec, tuple[str, str, bool]]] = {}
        self._sent: dict[Address, SendRate] = {}
        self._asked: dict[int, dict[str, int]] = {}
        self._passing: dict[tuple[str, str], float] = {}
        """Items that pass filters elsewhere which read streams of operators here."""
        self._told_passing: dict[tuple[Address, str, str], float] = {}
        node.handle(SendRate, self._hear)
        node.handle(FilterRates, self._hear_passing)

    # Measuring

    def begin(self, round: StatisticsRound) -> None:
        operators, sources = self._measure()
        for counted in operators:
            self.measurements.operator(counted, divided=False)
        for counted in sources:
            self.measurements.source(counted)
        self.forget_others()
        self._tell_passing()
        if "incoming" in self.names:
            for hop, bytes in self.sent().items():
                self._send(hop, SendRate(round.period, bytes))

    def forget_others(self) -> None:
        """Keep nothing of operators that are not here."""
        here = self._engine.hosted
        self.measurements.forget(lambda name: name in here)
        # An operator may come back before the registry knows that it was away.
        self.counts = {name: count for name, count in self.counts.items() if not self._router.over(name)}
        self._kinds = {name: kind for name, kind in self._kinds.items() if name in here}
        self._passing = {each: items for each, items in self._passing.items() if each[0] in here}
        self._told_passing = {each: told for each, told in self._told_passing.items() if each[2] in here}

    def _hear(self, message: SendRate, sender: Address) -> None:
        self._sent[sender] = message

    def _tell_passing(self) -> None:
        """Tell hosts of streams that filters here read how much passes these, where that has changed."""
        now: dict[tuple[Address, str, str], float] = {}
        for name, hosted in self._engine.hosted.items():
            passing = self._passing_here(name)
            place = self.place(hosted.inlets[0].stream) if passing is not None else None
            if place is not None and place.tree is None and place.host != self.node.address:
                now[place.host, hosted.inlets[0].stream, name] = passing or 0.0
        news: dict[Address, list[tuple[str, str, float]]] = {}
        for key, items in now.items():
            told = self._told_passing.get(key)
            if told is not None and abs(items - told) <= CHANGED * told:
                now[key] = told
            else:
                news.setdefault(key[0], []).append((key[1], key[2], items))
        self._told_passing = now
        for host, filters in news.items():
            self._send(host, FilterRates(tuple(filters)))

    def _hear_passing(self, message: FilterRates, sender: Address) -> None:
        self._passing.update(((stream, name), items) for stream, name, items in message.filters)

    def believe(self, name: str, rates: MeasuredRates) -> None:
        """Hear what an operator's former host believed of it."""
        self.measurements.operators.setdefault(name, rates)

    def source_rates(self, tree: int) -> list[StreamRate]:
        places = self._router.places
        found = self.measurements.sources.items()
        return [
            StreamRate(name, rates.items, rates.bytes) for name, rates in found if places[name].tree == tree
        ]

    # Operators

    def pieces(self) -> list[PlacementUnit]:
        """All that runs here."""
        units: dict[str, list[HostedOperator]] = {}
        for name, hosted in self._engine.hosted.items():
            if hosted.spec is not None and not hosted.asleep:
                units.setdefault(hosted.spec.unit or f"{PART}{name}", []).append(hosted)
        return [self._piece(members) for members in units.values()]

    def _piece(self, members: list[HostedOperator]) -> PlacementUnit:
        names = {hosted.name for hosted in members}
        read = [inlet.stream for hosted in members for inlet in hosted.inlets]
        last = next((hosted for hosted in members if hosted.name not in read), members[-1])
        inputs = tuple(dict.fromkeys(stream for stream in read if stream not in names))
        known = [self.measurements.operators.get(name) for name in names]
        out = self.measurements.operators.get(last.name, NOTHING)
        rates = out._replace(work=sum(each.work for each in known if each is not None))
        kind, final, by_input = (SUPER, "", False) if len(members) > 1 else self._kind(last)
        parts = last.inlets[0].selection.parts if last.inlets else 1
        share = WHOLE // parts if len(members) == 1 else WHOLE
        inside = [self._router.routes.get(name, {}) for name in names if name != last.name]
        read_elsewhere = any(reader.name not in names for routes in inside for reader in routes)
        now = self.node.now
        stays = read_elsewhere or any(hosted.has_come_within(self._rest, now) for hosted in members)
        passing = tuple(
            (inlet.stream, self._passing_here(hosted.name))
            for hosted in members
            for inlet in hosted.inlets
            if inlet.stream not in names
        )
        measured, every = None not in known, frozenset(names)
        return PlacementUnit(
            last.name, kind, inputs, share, final, by_input, rates, measured, stays, every, passing
        )

    def _kind(self, hosted: HostedOperator) -> tuple[str, str, bool]:
        """An operator's kind, and how it can be divided: the planner's `final` and `by_input`."""
        spec = hosted.spec
        assert spec is not None
        known = self._kinds.get(hosted.name)
        if known is None or known[0] is not spec:
            kind, final, by_input = spec.operation.kind, "", False
            splitting = splitting_of(spec.operation, *spec.schemas)
            if splitting is not None and PART not in hosted.name and spec.unit is None:
                final = FINALS.get(kind, "union" if splitting.final.then is None else "merge")
                by_input = kind != "join" and splitting.keys is None
            known = self._kinds[hosted.name] = spec, (kind, final, by_input)
        return known[1]

    def asked(self, tree: int) -> dict[str, int]:
        """How much of each source of a tree is asked for here."""
        found: dict[str, int] = {}
        for piece in self.pieces():
            for stream in piece.inputs:
                if self.place(stream).tree == tree:
                    found[stream] = found.get(stream, 0) + self._asked_by(piece)
        self._asked[tree] = found
        return found

    def _asked_by(self, piece: PlacementUnit) -> int:
        """How much of its inputs travels to a piece, as far as their rates are known here."""
        if piece.kind not in (FILTER, SUPER):
            return piece.share
        own = {stream: self.measurements.operators.get(stream) for stream in piece.inputs}
        known = {stream: self.statistics.rates.get(stream) or own[stream] for stream in piece.inputs}
        rates = {stream: (rate.items, rate.bytes) for stream, rate in known.items() if rate is not None}
        wanted = piece.wanted(rates)
        return piece.share if wanted is None else min(piece.share, requested_share(wanted, 1.0))

    def asked_before(self, tree: int, stream: str) -> int:
        """How much of a source was asked for here when that was last told."""
        return self._asked.get(tree, {}).get(stream, 0)

    def place(self, stream: str) -> StreamLocation:
        return self._router.places[stream]

    def read_at(self, stream: str) -> dict[Address, int]:
        """Where an operator's stream is read, and how much of it; of several inputs of a reader, one."""
        found: dict[Address, int] = {}
        for _, hop, share in self.read_by(stream):
            found[hop] = found.get(hop, 0) + share
        return found

    def read_by(self, stream: str) -> list[tuple[str, Address, int]]:
        """Who reads an operator's stream: names, where they are, and how much of it they ask for."""
        found: dict[str, tuple[Address, int]] = {}
        items = self.measurements.operators.get(stream, NOTHING).items
        for reader, (hop, selection) in self._router.routes.get(stream, {}).items():
            share = WHOLE // selection.parts
            if hop == self.node.address:
                passing = self._passing_here(reader.name)
            else:
                passing = self._passing.get((stream, reader.name))
            if passing is not None:
                share = min(share, requested_share(passing, items))
            found[reader.name] = hop, share
        return [(name, hop, share) for name, (hop, share) in found.items()]

    def _passing_here(self, name: str) -> float | None:
        """The items that pass a filter, if one of this name is here."""
        hosted = self._engine.hosted.get(name)
        filters = hosted is not None and hosted.spec is not None and hosted.spec.operation.kind == FILTER
        rates = self.measurements.operators.get(name)
        return rates.items if filters and rates is not None else None

    def sent(self) -> dict[Address, float]:
        """The bytes a second that operators here send to each other node."""
        found: dict[Address, float] = {}
        for piece in self.pieces():
            for hop, share in self.read_at(piece.name).items():
                if hop != self.node.address:
                    bytes = piece.rates.bytes * min(share, WHOLE) / WHOLE
                    found[hop] = found.get(hop, 0.0) + bytes
        return found

    def read_by_clients(self, stream: str) -> bool:
        """Whether clients or subscribers here read a stream."""
        return any(
            inlet.stream == stream
            for hosted in self._engine.hosted.values()
            if hosted.spec is None
            for inlet in hosted.inlets
        )

    def clients(self) -> dict[str, tuple[str, ...]]:
        """The streams that each query's client here reads."""
        found: dict[str, dict[str, None]] = {}
        for name, hosted in self._engine.hosted.items():
            if name.startswith(CLIENTS):
                found.setdefault(query_of(name), {}).update((inlet.stream, None) for inlet in hosted.inlets)
        return {name: tuple(streams) for name, streams in found.items()}

    def readings(self, names: Iterable[str]) -> list[ReaderInfo]:
        """Of how many queries those of these are who read here, if that is known, and what they read."""
        names = list(names)
        if not names:
            return []
        pieces = {name: piece for piece in self.pieces() for name in piece.members}
        clients = self.clients()
        found = []
        for name in names:
            if name in pieces:
                piece = pieces[name]
                whole = "" if name == piece.name else piece.name
                if piece.name in self.counts:
                    found.append(ReaderInfo(name, whole, self.counts[piece.name], len(piece.inputs)))
            elif name.startswith(CLIENTS) and query_of(name) in clients:
                found.append(ReaderInfo(name, query_of(name), 1, len(clients[query_of(name)])))
            elif name in self._engine.hosted:
                found.append(ReaderInfo(name, "", 0, 1))  # a subscription's
        return found

    # What all of it comes to

    def totals(self) -> tuple[float, ...]:
        """What this node does in all, as far as the goal names it."""
        known = self._totals(self.statistics.period)
        return tuple(known[name] for name in self.names)

    def _totals(self, since: int) -> dict[str, float]:
        """All totals, with what others said they send since a period."""
        pieces = self.pieces()
        incoming, forwarding = self.statistics.flows()
        lately = [sent for sent in self._sent.values() if sent.period >= since]
        return {
            "load": sum(piece.rates.work for piece in pieces),
            "operators": float(len(pieces)),
            "incoming": incoming + sum(sent.bytes for sent in lately),
            "forwarding": forwarding,
            "published": sum(self.sent().values()),
            "produced": sum(piece.rates.bytes for piece in pieces),
        }

    @property
    def busy(self) -> bool:
        return bool(self._engine.hosted)

    def value(self) -> float:
        if self.of_ways:
            return 0.0
        # As a round begins the others have not said yet what they send in it.
        return value_of(self.goal.cost.value, self._totals(self.statistics.period - 1))

    def part(self) -> float:
        if self._ways is None:
            return self.value()
        pieces = [(piece.inputs, self.counts.get(piece.name, 0)) for piece in self.pieces()]
        clients = [(streams, 1) for streams in self.clients().values()]
        return sum(times * self._cost_of(streams) for streams, times in (*pieces, *clients) if times)

    def _cost_of(self, streams: Sequence[str]) -> float:
        """Of an operator here that reads these streams."""
        assert self._ways is not None
        ways = [self._way_from(self.place(stream)) for stream in streams]
        return self._ways.factor * sum(ways) / max(1, len(ways)) + self._ways.constant

    def _way_from(self, place: StreamLocation) -> float:
        if place.tree is not None:
            return self.statistics.way(place.tree) or 0.0
        return 0.0 if place.host == self.node.address else self.link(place.host)

    def link(self, parent: Address) -> float:
        if self._ways is None:
            return 0.0
        latency = float(self._latency(parent, self.node.address))
        return float(evaluated(self._ways.link, lambda part: np.array(latency)))
