"""Which queries are thinned out while nodes have more to do than they can: what the registry decides.

Rules:

- Every period each node tells the registry what its operators would take, in cycles a second, if nothing were
  left out (`LoadReport`).
- The planner's `shed_work` says what each query keeps, by the queries' utilities. So that shares do not go to
  and fro, a share is left as it is while it is between what the nodes' limits allow and what they allow less
  `band`; and no share is below `least`, for else nobody could tell when the overload ends.
- Queries that cannot be thinned out (`flow.thinning`) stay whole; their clients are told why. So do operators
  that subscriptions read.
- `TRANSITIONS` has how the share of a query changes. A smaller share is promised by the node of the client
  first, and then the operators' nodes are told. A larger one is told to all nodes first, and comes into force
  after what these have left out.
- While a query is thinned out, none is registered that would read its operators, nor a subscription.

Cost: a report from each node and period, and when shares have changed a table to each node and its receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from math import floor
from typing import NamedTuple

import numpy as np

from distributary.flow import BEGINNING
from distributary.flow.thinning import ThinningUnit, UnthinnableError, thinning_unit
from distributary.overlay.node import Address, Message, Node
from distributary.plan.queries.shedding import QueryWork, shed_work
from distributary.systems.queries import client_shares
from distributary.systems.queries.client_shares import ShareAgreement, ShareOrder, WholeAgain
from distributary.systems.queries.messages import network_name, whole_operator
from distributary.systems.queries.registry import QueryRegistry
from distributary.systems.queries.settings import SheddingSettings
from distributary.systems.queries.thinning import ThinningReceipt, ThinningRule, ThinningTable


class LoadReport(NamedTuple):
    """What the operators of a node would take if nothing were left out; to the registry."""

    speed: float
    """Cycles a second of the node's processor."""
    loads: tuple[tuple[str, float], ...]
    """Of each operator, in cycles a second."""


SHEDDING_MESSAGES = (
    *(LoadReport, ThinningTable, ThinningReceipt, ShareOrder, ShareAgreement, WholeAgain),
    client_shares.SheddingRefusal,
)


class ShareState(Enum):
    """How far a change of a query's share has come."""

    STEADY = "steady"
    """The share is in force, and all are told."""
    PROMISING = "promising"
    """The node of the client is asked for a smaller share."""
    RAISING = "raising"
    """All nodes are told of a larger share."""
    GRANTING = "granting"
    """The node of the client is told of the larger share, and from when on it can be."""
    COMPLETING = "completing"
    """The share is whole, and items that lack something may still be under way."""


TRANSITIONS = {
    (ShareState.STEADY, "smaller share"): ShareState.PROMISING,
    (ShareState.COMPLETING, "smaller share"): ShareState.PROMISING,
    (ShareState.PROMISING, "client agrees"): ShareState.STEADY,
    (ShareState.STEADY, "larger share"): ShareState.RAISING,
    (ShareState.RAISING, "all nodes have confirmed"): ShareState.GRANTING,
    (ShareState.GRANTING, "client agrees"): ShareState.STEADY,
    (ShareState.GRANTING, "client agrees to all"): ShareState.COMPLETING,
}
"""The state of a query's share after an event; a query whose share is whole and complete has none."""


@dataclass
class ThinnedQuery:
    """A query that is thinned out, or was until lately."""

    query: str
    unit: ThinningUnit
    state: ShareState = ShareState.STEADY
    share: float = 1.0
    """What nodes are told."""
    since: int = BEGINNING
    target: float = 1.0
    serial: int = 0
    """Of the last order to the node of its client."""
    version: int = 0
    """Of the first table with a larger share."""
    unconfirmed: set[Address] = field(default_factory=set)
    """The nodes that have not confirmed a larger share."""
    dropped: int = BEGINNING
    """The time of the latest item that nodes have left out."""

    def on(self, event: str) -> None:
        """Change the state by the table."""
        self.state = TRANSITIONS[self.state, event]


class SheddingRegistry:
    """What the registry decides: which queries are thinned out."""

    def __init__(
        self,
        registry: QueryRegistry,
        node: Node,
        send: Callable[[Address, Message], None],
        settings: SheddingSettings,
        thinned: dict[str, str],
    ) -> None:
        self._registry = registry
        self._send = send
        self._settings = settings
        self._operators = thinned
        """Operators of queries that are thinned out, and one such query; the registry refuses readers."""
        self.queries: dict[str, ThinnedQuery] = {}
        """By their names in the network, those that are thinned out."""
        self._reports: dict[Address, LoadReport] = {}
        self._node = node
        self._version = 0
        """Of the last table that was sent."""
        self._untold = False
        """Whether something has changed since."""
        self._serial = 0
        self._refused: set[str] = set()
        """Queries whose clients have been told why they are not thinned out."""
        node.handle(LoadReport, lambda message, sender: self._reports.update({sender: message}))
        node.handle(ThinningReceipt, self._confirmed)
        node.handle(ShareAgreement, self._agreed)
        node.handle(WholeAgain, self._whole)
        node.at_alarm("flow thinning table", self._send_table)

    # Deciding

    def decide(self) -> None:
        """Change shares as the loads demand it that nodes have reported."""
        self._send_table()  # if the alarm for it was lost, because this node has stopped
        running = {self._network_name(query) for query in self._registry.clients}
        gone = [name for name in self.queries if name not in running]
        for name in gone:
            del self.queries[name]
        self._refused &= running
        limits = {node: self._settings.limit * report.speed for node, report in self._reports.items()}
        asked = dict.fromkeys(self._reports, 0.0)
        for node, _, load in self._loads():
            asked[node] += load
        over = {node for node, load in asked.items() if load > limits[node]}
        if over or self.queries:
            self._change_shares(limits, over)
        if gone:
            self._tell_nodes()

    def _loads(self) -> Iterable[tuple[Address, str, float]]:
        """Each operator's node, name and load, as reported from where it is."""
        locations = self._registry.locations
        for node, report in self._reports.items():
            for operator, load in report.loads:
                if operator in locations and locations[operator].host == node:
                    yield node, operator, load

    def _change_shares(self, limits: Mapping[Address, float], over: set[Address]) -> None:
        """Give each query the share that fits the limits, where that is another than it has."""
        units, reasons = self._units()
        names = list(self._registry.clients)
        work, nodes = self._work(names, frozenset(reasons))
        allowed = np.array([limits[node] for node in nodes])
        most, _ = shed_work(work, allowed)
        least, _ = shed_work(work, allowed * (1 - self._settings.band))
        for number, name in enumerate(names):
            if name in units:
                high = max(self._settings.least, _rounded(float(most[number])))
                low = max(self._settings.least, _rounded(float(least[number])))
                self._set_target(name, units[name], min(low, high), high)
        busy = {
            query
            for number, query in enumerate(names)
            for at in work.operators[number]
            if nodes[work.hosts[at]] in over
        }
        for name in busy & reasons.keys():
            self._refuse(name, reasons[name])

    def _work(self, names: list[str], whole: frozenset[str]) -> tuple[QueryWork, list[Address]]:
        """The work of the queries, as the planner takes it; what else is read counts as one that stays."""
        readers = self._registry.operator_readers()
        nodes = list(self._reports)
        numbers = {name: number for number, name in enumerate(names)}
        others = len(names)
        operators: list[list[int]] = [[] for _ in range(others + 1)]
        hosts: list[int] = []
        loads: list[float] = []
        for node, operator, load in self._loads():
            for reader in readers.get(whole_operator(operator), ()):
                operators[numbers.get(reader, others)].append(len(hosts))
            hosts.append(nodes.index(node))
            loads.append(load)
        utility = [self._registry.utilities.get(name, 1.0) for name in names]
        fixed = [others, *(numbers[name] for name in whole)]
        return QueryWork([*utility, 1.0], operators, hosts, loads, fixed), nodes

    def _units(self) -> tuple[dict[str, ThinningUnit], dict[str, str]]:
        """The units of queries that can be thinned out, and why others cannot."""
        catalogue = self._registry.catalogue
        sharing = catalogue.shared()
        units: dict[str, ThinningUnit] = {}
        reasons: dict[str, str] = {}
        for query in self._registry.clients:
            try:
                unit = thinning_unit(sharing, catalogue.outputs(query))
            except UnthinnableError as error:
                reasons[query] = str(error)
            else:
                runs = self._registry.runs
                keys = {runs.get(name, name): attributes for name, attributes in unit.keys.items()}
                units[query] = ThinningUnit(unit.piece, unit.back, unit.ahead, keys)
        return units, reasons

    def _refuse(self, query: str, reason: str) -> None:
        name = self._network_name(query)
        if name not in self._refused:
            self._refused.add(name)
            self._send(self._registry.clients[query], client_shares.SheddingRefusal(query, reason))

    # Changing a share

    def _set_target(self, query: str, unit: ThinningUnit, low: float, high: float) -> None:
        """Begin to change the share of a query that is not between two others, unless one is under way."""
        name = self._network_name(query)
        known = self.queries.get(name)
        share = 1.0 if known is None else known.share
        if low <= share <= high or (known is not None and known.state not in CHANGEABLE):
            return
        if known is None:
            known = self.queries[name] = ThinnedQuery(query, unit)
        known.target = low
        if low < share:
            known.on("smaller share")
            self._note_operators()
            self._order(known, BEGINNING)
        else:
            known.on("larger share")
            known.share = low
            known.version, known.unconfirmed = self._version + 1, set(self._reports)
            self._tell_nodes()

    def _order(self, known: ThinnedQuery, after: int) -> None:
        self._serial += 1
        known.serial = self._serial
        order = ShareOrder(known.serial, known.query, known.target, after, known.unit)
        self._send(self._registry.clients[known.query], order)

    def _agreed(self, message: ShareAgreement, sender: Address) -> None:
        """The node of a client has promised a smaller share, or granted a larger one."""
        known = self._of_order(message.serial)
        if known is None:
            return
        if known.state is ShareState.PROMISING:
            known.share, known.since = known.target, message.since
            known.on("client agrees")
            self._tell_nodes()
        else:
            known.on("client agrees to all" if known.share >= 1 else "client agrees")

    def _confirmed(self, message: ThinningReceipt, sender: Address) -> None:
        """A node follows a table: what it left out for queries whose share is raised is final."""
        dropped = dict(message.dropped)
        for name, known in list(self.queries.items()):
            told = message.version >= known.version and sender in known.unconfirmed
            if known.state is ShareState.RAISING and told:
                known.unconfirmed.discard(sender)
                known.dropped = max(known.dropped, dropped.get(name, BEGINNING))
                if not known.unconfirmed:
                    known.on("all nodes have confirmed")
                    self._order(known, known.dropped)

    def _whole(self, message: WholeAgain, sender: Address) -> None:
        known = self._of_order(message.serial)
        if known is not None and known.state is ShareState.COMPLETING:
            del self.queries[self._network_name(known.query)]
            self._tell_nodes()

    def _of_order(self, serial: int) -> ThinnedQuery | None:
        return next((one for one in self.queries.values() if one.serial == serial), None)

    def _tell_nodes(self) -> None:
        """Have every node sent the table, with what else changes about now."""
        if not self._untold:
            self._untold = True
            self._node.wake_after(GATHERING, "flow thinning table")

    def _send_table(self, about: object = None) -> None:
        """Send every node the table as it is, if it has changed."""
        if not self._untold:
            return
        self._untold = False
        self._version += 1
        readers = self._note_operators()
        named = {known.query: name for name, known in self.queries.items()}
        alone = {operator: found for operator, found in readers.items() if found <= named.keys()}
        rules = tuple(
            ThinningRule(name, known.share, known.since, known.unit) for name, known in self.queries.items()
        )
        rows = tuple((operator, tuple(sorted(named[one] for one in alone[operator]))) for operator in alone)
        for node in sorted(self._reports):
            self._send(node, ThinningTable(self._version, rules, rows))

    def _note_operators(self) -> dict[str, set[str]]:
        """Note which operators queries that are thinned out read; returns the readers of all operators."""
        readers = self._registry.operator_readers()
        thinned = {known.query for known in self.queries.values()}
        self._operators.clear()
        for operator, queries in readers.items():
            if found := sorted(queries & thinned):
                self._operators[operator] = found[0]
        return readers

    def _network_name(self, query: str) -> str:
        return network_name(query, self._registry.generation(query))


GATHERING = 0.2
"""Seconds in which changes are gathered into one table."""
CHANGEABLE = frozenset({ShareState.STEADY, ShareState.COMPLETING})
"""The states in which another change can begin."""


def _rounded(share: float) -> float:
    """A share in whole hundredths, not above it."""
    return floor(100 * share + 1e-6) / 100
