"""What a node knows of itself, in the planner's terms: its operators, what they ask for, give out and cost.

Rules:

- A placement unit is what moves as one: an operator, or what is here of a super-operator. Its stream is that
  of its last operator.
- Rates of units and of sources are measured here, over about a period. The rates of an operator go with it
  when it moves.
- What a node does in all is told as totals, as the planner would count them: work a second, operators, bytes
  that come in, are forwarded, and are sent to readers elsewhere. Only those that the goal names are told.
- An operator's stream counts as sent by its host to the node of each reader, as the planner counts it without
  `spreading`, though one with many readers goes by way of some of these (`stream_trees`).
- Of a stream that passes, the planner counts all that is asked for: so bytes that come in are those that the
  publisher gives out, as far as somebody here or below asked for them. A filter asks for what passes it: its
  host measures that and, where the stream is another operator's, tells that one's host.

Cost: linear in the operators here, once a period.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np

from distributary.flow import splitting_of
from distributary.overlay.node import Address
from distributary.plan.goal.expression import SystemCost
from distributary.plan.queries.evaluation import evaluated
from distributary.plan.queries.graph import FILTER, FINALS, WHOLE
from distributary.systems.queries import messages
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.engine import Engine, HostedClient, HostedOperator
from distributary.systems.queries.link_meter import LinkMeter
from distributary.systems.queries.links import LinkTable
from distributary.systems.queries.local_goals import path_cost_of, totals_of, value_of
from distributary.systems.queries.messages import PART, OperatorSpec, SourceRate, StreamLocation
from distributary.systems.queries.proposals import ChangeOrder
from distributary.systems.queries.registry_failover import RegistryLink
from distributary.systems.queries.retention import discard
from distributary.systems.queries.settings import QueryOptimiserSettings
from distributary.systems.queries.snapshot import RateEstimates, TrafficRates

NOTHING = TrafficRates(0.0, 0.0, 0.0)
SUPER = "super"
"""The kind of a placement unit that is a super-operator."""
CHANGED = 0.05
"""By what share the items that pass a filter change before the host of the stream is told."""
CLIENTS = "client:"
"""The prefix of the names of queries' clients (`registry.client_name`)."""


def requested_share(passing: float, items: float | None) -> int:
    """How much of a stream of so many items a filter asks for that lets so many pass, in parts of `WHOLE`.

    As the planner has it.
    """
    share = passing / items if items else 1.0
    return max(1, min(WHOLE, ceil(round(WHOLE * share, 6))))


def query_of(client: str) -> str:
    """The query whose client a name is.

    >>> query_of("client:busy.large")
    'client:busy'
    """
    return client.partition(".")[0]


class MeasurementReport(NamedTuple):
    """What a node has counted since its last report."""

    operators: tuple[messages.TrafficCounts, ...]
    sources: tuple[messages.TrafficCounts, ...]


class Site(NamedTuple):
    """The parts of a node that its optimiser works with."""

    connections: Connections
    link_meter: LinkMeter
    engine: Engine
    registry_link: RegistryLink
    measure: Callable[[], MeasurementReport]
    """Gives what was counted since the last call."""
    carry_out: Callable[[ChangeOrder], None]


class ReaderInfo(NamedTuple):
    """An operator or a query's client that reads streams, as its host tells of it."""

    name: str
    whole: str
    """What it is part of, if that has another name: a super-operator, or a client of several streams."""
    queries: int
    """The number of queries it is of."""
    inputs: int
    """The number of inputs it has."""


class PlacementUnit(NamedTuple):
    """An operator, or what is here of a super-operator."""

    name: str
    """Of its last operator, and of its stream."""
    kind: str
    inputs: tuple[str, ...]
    share: int
    final: str
    by_input: bool
    rates: TrafficRates
    measured: bool
    stays: bool
    """Whether it cannot move: it has just arrived, or others read streams inside it."""
    members: frozenset[str]
    """Its operators."""
    passing: tuple[tuple[str, float | None], ...]
    """For each stream that one of these reads from outside: the items that pass, if that one is a filter."""

    def wanted_share(self, rates: Mapping[str, tuple[float, float]]) -> float | None:
        """The share of what it reads that is sent to it, from items and bytes of its inputs.

        None where nothing is known of the inputs.
        """
        found: dict[str, float] = {}
        for stream, items in self.passing:
            if stream in rates:
                offered = rates[stream][0]
                share = items / offered if items is not None and offered else 1
                found[stream] = found.get(stream, 0.0) + share
        total = sum(rates[stream][1] for stream in found)
        if not total:
            return None
        return sum(min(1.0, share) * rates[stream][1] for stream, share in found.items()) / total


class NodeModel:
    """What a node knows of itself."""

    def __init__(self, site: Site, settings: QueryOptimiserSettings) -> None:
        self.node = node = site.connections.node
        self.settings = settings
        self.offer = site.connections.offer
        """Sends a message, unless the receiver does not answer at present."""
        self.total_names = totals_of(settings.goal)
        self.estimates = RateEstimates(settings.period)
        self.query_counts: dict[str, int] = {}
        """How many queries each operator here is of, as the registry told."""
        self._rest = settings.rest * settings.period
        """Seconds for which an operator stays at a node that it has moved to."""
        self._engine = site.engine
        self._router = site.engine.router
        self._link_meter = site.link_meter
        self._measure = site.measure
        self._path_cost = path_cost_of(settings.goal.cost)
        self.by_path = self._path_cost is not None
        """Whether a node's value is the cost of the path from a tree's root to the node."""
        self._kinds: dict[str, tuple[OperatorSpec, tuple[str, str, bool]]] = {}
        self._received: dict[Address, messages.SendRate] = {}
        """What other nodes send here."""
        self._demand: dict[int, dict[str, int]] = {}
        self._passing: dict[tuple[str, str], float] = {}
        """Items that pass filters elsewhere which read streams of operators here."""
        self._told_passing: dict[tuple[Address, str, str], float] = {}
        """What hosts of streams were told of filters here."""
        node.handle(messages.SendRate, lambda message, sender: self._received.update({sender: message}))
        node.handle(messages.FilterRates, self._filter_rates)

    # Measuring

    def begin_round(self, period: int) -> None:
        """Take in what was measured since the last round, and tell others what they need of it."""
        operators, sources = self._measure()
        for counts in operators:
            self.estimates.add_operator(counts, divided=False)
        for counts in sources:
            self.estimates.add_source(counts)
        self.forget_others()
        self._tell_passing()
        if "incoming" in self.total_names:
            for at, bytes in self._send_rates().items():
                self.offer(at, messages.SendRate(period, bytes))

    def forget_others(self) -> None:
        """Keep nothing of operators that are not here."""
        here = self._engine.hosted
        self.estimates.forget(lambda name: name not in here)
        discard(self._kinds, lambda name: name not in here)
        # An operator may come back before the registry knows that it was away.
        discard(self.query_counts, self._router.is_withdrawn)
        discard(self._passing, lambda key: key[0] not in here)
        discard(self._told_passing, lambda key: key[2] not in here)

    def _tell_passing(self) -> None:
        """Tell hosts of streams that filters here read how much passes these, where that has changed."""
        now: dict[tuple[Address, str, str], float] = {}
        for name, hosted in self._engine.operators.items():
            passing, stream = self._passing_here(name), hosted.cursors[0].stream
            if passing is not None:
                location = self.location(stream)
                if location.tree is None and location.host != self.node.address:
                    now[location.host, stream, name] = passing
        news: dict[Address, list[tuple[str, str, float]]] = {}
        for (host, stream, name), items in now.items():
            told = self._told_passing.get((host, stream, name))
            if told is not None and abs(items - told) <= CHANGED * told:
                now[host, stream, name] = told
            else:
                news.setdefault(host, []).append((stream, name, items))
        self._told_passing = now
        for host, filters in news.items():
            self.offer(host, messages.FilterRates(tuple(filters)))

    def _filter_rates(self, message: messages.FilterRates, sender: Address) -> None:
        here = self._engine.hosted
        known = [each for each in message.filters if each[0] in here]  # others have left, or were withdrawn
        self._passing.update(((stream, name), items) for stream, name, items in known)

    def source_rates(self, tree: int) -> list[SourceRate]:
        """The rates of the sources of a tree that this node is the root broker of."""
        known = self.estimates.sources.items()
        return [SourceRate(name, *rates[:2]) for name, rates in known if self.location(name).tree == tree]

    # Operators

    def units(self) -> list[PlacementUnit]:
        """All that runs here."""
        units: dict[str, list[HostedOperator]] = {}
        for name, hosted in self._engine.operators.items():
            if hosted.is_reading:
                units.setdefault(hosted.spec.unit or f"{PART}{name}", []).append(hosted)
        return [self._unit(members) for members in units.values()]

    def _unit(self, members: list[HostedOperator]) -> PlacementUnit:
        names = {hosted.name for hosted in members}
        cursors = [(hosted.name, cursor.stream) for hosted in members for cursor in hosted.cursors]
        read = [stream for _, stream in cursors]
        last = next((hosted for hosted in members if hosted.name not in read), members[-1])
        known = [self.estimates.operators.get(name) for name in names]
        out = self.estimates.operators.get(last.name, NOTHING)
        alone = len(members) == 1
        kind, final, by_input = self._kind(last) if alone else (SUPER, "", False)
        parts = last.cursors[0].selection.parts if last.cursors and alone else 1
        inside = [self._router.routes.get(name, {}) for name in names if name != last.name]
        read_elsewhere = any(reader.name not in names for routes in inside for reader in routes)
        just_arrived = any(hosted.arrived_within(self._rest, self.node.now) for hosted in members)
        return PlacementUnit(
            last.name,
            kind,
            inputs=tuple(dict.fromkeys(stream for stream in read if stream not in names)),
            share=WHOLE // parts,
            final=final,
            by_input=by_input,
            rates=out._replace(work=sum(each.work for each in known if each is not None)),
            measured=None not in known,
            stays=read_elsewhere or just_arrived,
            members=frozenset(names),
            passing=tuple(
                (stream, self._passing_here(name)) for name, stream in cursors if stream not in names
            ),
        )

    def _kind(self, hosted: HostedOperator) -> tuple[str, str, bool]:
        """An operator's kind, and how it can be divided: the planner's `final` and `by_input`."""
        spec = hosted.spec
        known = self._kinds.get(hosted.name)
        if known is None or known[0] is not spec:
            kind, final, by_input = spec.operation.kind, "", False
            splitting = splitting_of(spec.operation, *spec.schemas)
            if splitting is not None and PART not in hosted.name and spec.unit is None:
                final = FINALS.get(kind, "union" if splitting.final.then is None else "merge")
                by_input = kind != "join" and splitting.keys is None
            known = self._kinds[hosted.name] = spec, (kind, final, by_input)
        return known[1]

    def demand(self, tree: int, rates: Mapping[str, SourceRate]) -> dict[str, int]:
        """How much of each source of a tree is asked for here, given the rates of sources."""
        found: dict[str, int] = {}
        for unit in self.units():
            for stream in unit.inputs:
                if self.location(stream).tree == tree:
                    found[stream] = found.get(stream, 0) + self._demand_of(unit, rates)
        self._demand[tree] = found
        return found

    def _demand_of(self, unit: PlacementUnit, rates: Mapping[str, SourceRate]) -> int:
        """How much of its inputs travels to a unit, as far as their rates are known here."""
        if unit.kind not in (FILTER, SUPER):
            return unit.share
        known = {
            stream: (rate.items, rate.bytes)
            for stream in unit.inputs
            if (rate := rates.get(stream) or self.estimates.operators.get(stream)) is not None
        }
        wanted = unit.wanted_share(known)
        return unit.share if wanted is None else min(unit.share, requested_share(wanted, 1.0))

    def last_demand(self, tree: int, stream: str) -> int:
        """How much of a source was asked for here when that was last told."""
        return self._demand.get(tree, {}).get(stream, 0)

    def location(self, stream: str) -> StreamLocation:
        """Where a stream is, as far as this node knows."""
        return self._router.locations[stream]

    def shares_by_node(self, stream: str) -> dict[Address, int]:
        """The nodes that read an operator's stream, and how much of it each asks for."""
        found: dict[Address, int] = {}
        for _, at, share in self.readers_of(stream):
            found[at] = found.get(at, 0) + share
        return found

    def readers_of(self, stream: str) -> list[tuple[str, Address, int]]:
        """The readers of an operator's stream: names, their nodes, and how much of it they ask for."""
        found: dict[str, tuple[Address, int]] = {}
        items = self.estimates.operators.get(stream, NOTHING).items
        for reader, (_, selection, at) in self._router.routes.get(stream, {}).items():
            here, share = at == self.node.address, WHOLE // selection.parts
            passing = self._passing_here(reader.name) if here else self._passing.get((stream, reader.name))
            if passing is not None:
                share = min(share, requested_share(passing, items))
            found[reader.name] = at, share
        return [(name, at, share) for name, (at, share) in found.items()]

    def _passing_here(self, name: str) -> float | None:
        """The items that pass a filter, if one of this name is here and measured."""
        hosted, rates = self._engine.operator(name), self.estimates.operators.get(name)
        is_filter = hosted is not None and hosted.spec.operation.kind == FILTER
        return rates.items if is_filter and rates is not None else None

    def _send_rates(self) -> dict[Address, float]:
        """The bytes a second that operators here send to each other node."""
        found: dict[Address, float] = {}
        for unit in self.units():
            for at, share in self.shares_by_node(unit.name).items():
                if at != self.node.address:
                    bytes = unit.rates.bytes * min(share, WHOLE) / WHOLE
                    found[at] = found.get(at, 0.0) + bytes
        return found

    # Clients

    def read_by_clients(self, stream: str) -> bool:
        """Whether clients or subscribers here read a stream."""
        clients = [one for one in self._engine.hosted.values() if isinstance(one, HostedClient)]
        return any(cursor.stream == stream for client in clients for cursor in client.cursors)

    def _clients(self) -> dict[str, tuple[str, ...]]:
        """The streams that each query's client here reads."""
        found: dict[str, dict[str, None]] = {}
        for name, hosted in self._engine.hosted.items():
            if name.startswith(CLIENTS):
                streams = [cursor.stream for cursor in hosted.cursors]
                found.setdefault(query_of(name), {}).update(dict.fromkeys(streams))
        return {name: tuple(streams) for name, streams in found.items()}

    def reader_infos(self, names: Iterable[str]) -> list[ReaderInfo]:
        """Of how many queries those of these are that read here, if that is known, and what they read."""
        names = list(names)
        if not names:
            return []
        units = {name: unit for unit in self.units() for name in unit.members}
        clients = self._clients()
        found = []
        for name in names:
            if name in units:
                unit = units[name]
                whole = "" if name == unit.name else unit.name
                if unit.name in self.query_counts:
                    found.append(ReaderInfo(name, whole, self.query_counts[unit.name], len(unit.inputs)))
            elif name.startswith(CLIENTS) and query_of(name) in clients:
                found.append(ReaderInfo(name, query_of(name), 1, len(clients[query_of(name)])))
            elif name in self._engine.hosted:
                found.append(ReaderInfo(name, "", 0, 1))  # a subscription's
        return found

    # The node as a whole

    @property
    def busy(self) -> bool:
        """Whether anything runs or is read here."""
        return bool(self._engine.hosted)

    def totals(self, flows: tuple[float, float], since: int) -> dict[str, float]:
        """What this node does in all, by the names of `local_goals.TOTALS`.

        `flows` are the bytes of sources that come in and are forwarded; what other nodes send to operators
        here counts if they have said so since a period.
        """
        units = self.units()
        received = [rate.bytes for rate in self._received.values() if rate.period >= since]
        return {
            "load": sum(unit.rates.work for unit in units),
            "operators": float(len(units)),
            "incoming": flows[0] + sum(received),
            "forwarding": flows[1],
            "published": sum(self._send_rates().values()),
            "produced": sum(unit.rates.bytes for unit in units),
        }

    def told_totals(self, flows: tuple[float, float], since: int) -> tuple[float, ...]:
        """Those of the totals that the goal names."""
        known = self.totals(flows, since)
        return tuple(known[name] for name in self.total_names)

    def value(self, flows: tuple[float, float], since: int) -> float:
        """The goal's cost of this node; 0 if that is a path's, which depends on the tree."""
        return 0.0 if self.by_path else self._value(self.totals(flows, since))

    def _value(self, totals: Mapping[str, float]) -> float:
        return value_of(self.settings.goal.cost.value, totals, self.speed)

    def breaks_constraint(self, flows: tuple[float, float], since: int) -> bool:
        """Whether this node breaks a constraint of the goal on nodes."""
        totals = self.totals(flows, since)
        return not all(
            constraint.holds(value_of(constraint.metric, totals, self.speed))
            for constraint in self.settings.goal.constraints
            if not isinstance(constraint.metric, SystemCost)
        )

    def path_costs(self, path_cost: Callable[[int], float | None]) -> float:
        """What operators and clients here contribute to a cost of paths, given those from trees' roots."""
        units = [(unit.inputs, self.query_counts.get(unit.name, 0)) for unit in self.units()]
        clients = [(streams, 1) for streams in self._clients().values()]
        both = (*units, *clients)
        return sum(times * self._cost_of(streams, path_cost) for streams, times in both if times)

    def _cost_of(self, streams: Sequence[str], path_cost: Callable[[int], float | None]) -> float:
        """The cost of an operator here that reads these streams."""
        assert self._path_cost is not None
        paths = []
        for location in [self.location(stream) for stream in streams]:
            if location.tree is not None:
                paths.append(path_cost(location.tree) or 0.0)
            else:
                paths.append(0.0 if location.host == self.node.address else self.link_cost(location.host))
        return self._path_cost.factor * sum(paths) / max(1, len(paths)) + self._path_cost.constant

    def links(self) -> LinkTable:
        """The links to other nodes, as far as they have been measured."""
        return self._link_meter.table()

    @property
    def speed(self) -> float:
        """Cycles a second of the processor."""
        return self._engine.queue.processor.speed

    def link_cost(self, parent: Address) -> float:
        """The value of the link from another node."""
        if self._path_cost is None:
            return 0.0
        latency = 1000 * self.links().latency(parent, self.node.address)
        return float(evaluated(self._path_cost.link, lambda part: np.array(latency)))
