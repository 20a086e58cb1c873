"""A dissemination tree that optimises itself while events flow (003, sections 3.4, 4.3 and 4.5).

    goal = parse_goal("minimise aggregate(SUM, aggregate(SUM, link latency, PATH), BROKERS)")
    TreeAssembly(..., optimising=OptimisationSettings(goal))

Rules:

- Every `statistics` seconds brokers tell their neighbours what these must know (`statistics`, `broadcast`);
  every `period` seconds the root begins an optimisation period, which goes down the tree.
- In a period every node that can matter searches for its best rewrite (`rewrite_search`) and proposes it to
  the root: with local rules the owners of units with a critical node below, with directed rules the critical
  nodes themselves. Where the system's cost is a MIN or MAX those are the nodes that have it, within `slack`;
  otherwise all.
- After `window` seconds the root grants the best, or, if `concurrent` is set, all that may be carried out
  together (`independence`), and has them carried out (`rewrite_executor`).
- Nodes that come, or lose their parent, take one under which the constraints are kept (`parent_choice`): if
  `best_effort` is set the one that gives them the best cost of their own, any otherwise.

The optimisation ends by itself: when no rewrite helps none is proposed. It goes on when conditions change.
"""

from __future__ import annotations

from collections.abc import Sequence

from distributary.overlay.node import Address
from distributary.overlay.tree.node import TreeNode
from distributary.overlay.tree.probing import ProbeResults
from distributary.plan.trees.optimiser import NEGLIGIBLE
from distributary.plan.trees.rules import TreeRule
from distributary.systems.tree import messages
from distributary.systems.tree.broadcast import StatisticsBroadcast
from distributary.systems.tree.cost_model import CostModel
from distributary.systems.tree.independence import RewriteIndependence
from distributary.systems.tree.parent_choice import PlaceChoice
from distributary.systems.tree.partial_tree import LinkKey, PartialTree
from distributary.systems.tree.rewrite_executor import RewriteExecutor
from distributary.systems.tree.rewrite_search import RewriteSearch
from distributary.systems.tree.settings import OptimisationSettings
from distributary.systems.tree.statistics import BrokerStatistics, LocalClients

NOWHERE: Address = -1
"""Stands for a grandparent that does not matter to the search."""


class TreeOptimiser:
    """The part of a broker that optimises the tree."""

    def __init__(self, tree: TreeNode, settings: OptimisationSettings, clients: LocalClients) -> None:
        self.settings = settings
        self.model = model = CostModel.with_fanout(settings.goal, tree.settings.fanout)
        self.statistics = BrokerStatistics(tree, model, settings.gauges, clients)
        self.broadcast = StatisticsBroadcast(self.statistics, settings, self._is_critical)
        self.executor = RewriteExecutor(tree, patience=settings.period)
        self.active = True
        """Whether this node begins periods when it is the root."""
        self.period = 0
        """The number of the latest period."""
        self.quiet = 0
        """At the root: periods since a rewrite was last proposed."""
        self.tree, self._node = tree, tree.node
        self._proposals: list[messages.RewriteProposal] = []
        self._searches: list[RewriteSearch] = []
        self._links: dict[LinkKey, tuple[float, messages.LinkMeasurement]] = {}
        """Links that were measured, and when."""
        self._places = PlaceChoice(self.statistics, settings)
        node = tree.node
        node.handle(messages.PeriodStart, self._period_started)
        node.handle(messages.NeighbourhoodRequest, self._neighbourhood_requested)
        node.handle(messages.PathRequest, self._path_requested)
        node.handle(messages.NeighbourhoodReply, self._neighbourhood_replied)
        node.handle(messages.PathReply, self._path_replied)
        node.handle(messages.LinksRequest, self._links_requested)
        node.handle(messages.LinksReply, self._links_replied)
        node.handle(messages.RewriteProposal, self._rewrite_proposed)
        node.handle(messages.ParentOrder, self._parent_ordered)
        node.at_alarm("tree statistics", self._tell)
        node.at_alarm("tree period", self._begin_period)
        node.at_alarm("tree decision", self._decide)
        node.at_start(self._begin)

    def _begin(self) -> None:
        self._searches = []
        self._node.wake_after(self.settings.statistics * self.tree.random.random(), "tree statistics")
        self._node.wake_after(self.settings.period, "tree period")

    def _tell(self, about: object) -> None:
        self._node.wake_after(self.settings.statistics, "tree statistics")
        if self.tree.is_root:
            self.statistics.system = self.cost()
        self.statistics.tell()
        self.broadcast.tell()
        self.executor.check()
        self._places.check()

    # Periods, at the root.

    def _begin_period(self, about: object) -> None:
        self._node.wake_after(self.settings.period, "tree period")
        if not self.tree.is_root or not self.active or self.executor.busy:
            return
        number = max(self.period + 1, int(self._node.now * 1000))
        self._proposals = []
        self._consider(messages.PeriodStart(number, self.cost(), self.statistics.size))
        self._node.wake_after(self.settings.window, "tree decision", number)

    def cost(self) -> float:
        """At the root: the cost of the whole tree."""
        if self.model.broadcasts_costs:
            return self.model.system_cost(self.broadcast.everybody())
        below = self.statistics.absolute(self.statistics.below)
        return self.model.system_cost([*self.statistics.own, *below])

    def _decide(self, period: int) -> None:
        """Grant the best rewrite, or several that are independent."""
        if period != self.period or not self.tree.is_root:
            return
        self.quiet = 0 if self._proposals else self.quiet + 1
        registry = self.tree.root.registry
        assert registry is not None
        independence = RewriteIndependence(self.model, registry.root, registry.parent)
        granted: list[messages.RewriteProposal] = []
        for proposal in sorted(self._proposals, key=lambda each: (-each.benefit, each.rule, each.arguments)):
            several = self.settings.concurrent and all(
                independence.together(proposal, other) for other in granted
            )
            if (several or not granted) and self.executor.begin(proposal):
                granted.append(proposal)
        self._proposals = []

    def _rewrite_proposed(self, message: messages.RewriteProposal, sender: Address) -> None:
        if message.period == self.period and self.tree.is_root:
            self._proposals.append(message)

    # Periods, everywhere.

    def _period_started(self, message: messages.PeriodStart, sender: Address) -> None:
        if sender == self.tree.parent and message.period > self.period and not self.tree.is_root:
            self._consider(message)

    def _consider(self, start: messages.PeriodStart) -> None:
        """Pass the start of a period on, and search for rewrites if this node can matter."""
        self.period, self.statistics.system, self.broadcast.nodes = start
        for child in self.tree.children:
            self._node.send(child, start)
        self._searches = []
        own = self._neighbourhood()
        if own is None:
            return
        settings = self.settings
        if settings.local and own.children and self._leads_to_critical():
            self._search(self._unit(own), settings.local, settings.levels - 1, frozenset())
        heard = self.broadcast.better()[: settings.most_heard] if settings.directed else []
        if heard and self._is_critical():
            known = PartialTree(self.model, links=self._fresh_links())
            self._search(known, settings.directed, 0, frozenset(heard))

    def _neighbourhood(self) -> messages.TreeNeighbourhood | None:
        below_of = self.broadcast.below if self.model.broadcasts_costs else None
        return self.statistics.neighbourhood(below_of)

    def _is_critical(self) -> bool:
        """Whether the system's cost hangs on this node's."""
        if not self.model.has_critical:
            return True
        cost = None if self.statistics.values is None else self.model.cost(self.statistics.values)
        return cost is not None and bool(self.statistics.own) and self._decides(cost)

    def _leads_to_critical(self) -> bool:
        """Whether the system's cost hangs on a node of this one's subtree."""
        if not self.model.has_critical:
            return True
        worst = self.statistics.worst()
        return worst is not None and self._decides(worst)

    def _decides(self, cost: float) -> bool:
        system = self.statistics.system
        return abs(cost - system) <= (self.settings.slack + NEGLIGIBLE) * abs(system)

    def _unit(self, own: messages.TreeNeighbourhood) -> PartialTree:
        """What this node knows of its unit: itself, and its parent as far as it matters.

        Nothing where the whole tree matters: then all is asked for, on the way to the root.
        """
        known = PartialTree(self.model, links=self._fresh_links())
        if self.model.whole:
            return known
        known.add(own)
        above, parent, link = self.statistics.parent_values, self.tree.parent, self.statistics.link
        if not self.tree.is_root and parent is not None:
            values = self.model.nothing if above is None else above
            sizes = (len(own.children), self.statistics.size)
            me = messages.ChildState(own.address, link or messages.UNMEASURED, own.facts, *sizes, (), ())
            known.add(messages.TreeNeighbourhood(parent, NOWHERE, values, messages.BrokerFacts(), (me,)))
        if self.model.holistic:
            known.rest = self.model.fewer(self.broadcast.elsewhere())
        elif self.model.bottleneck:
            known.rest = self.statistics.rest
        return known

    def _search(
        self, known: PartialTree, rules: Sequence[TreeRule], levels: int, partners: frozenset[Address]
    ) -> None:
        period, me = self.period, self.tree.address
        whole = self.model.whole or bool(partners)

        def ask(address: Address) -> None:
            if partners or (whole and address == me):
                self._send(address, messages.PathRequest(period, me, address, ()))
            else:
                self._send(address, messages.NeighbourhoodRequest(period, me))

        def measure(child: Address, parents: tuple[Address, ...]) -> None:
            self._send(child, messages.LinksRequest(period, parents))

        found = (known, me, rules, period, ask, measure, self._propose)
        search = RewriteSearch(*found, levels, whole, partners)
        self._searches.append(search)
        search.begin((me, *partners) if whole else ())

    def _propose(self, proposal: messages.RewriteProposal) -> None:
        if proposal.period == self.period:
            self.tree.root.send(proposal)

    def _send(self, to: Address, message: object) -> None:
        """Send a message, or handle it if it is for this node."""
        if to == self.tree.address:
            self._node.dispatch(message, to)
        else:
            self._node.send(to, message)

    # Answering.

    def _neighbourhood_requested(self, message: messages.NeighbourhoodRequest, sender: Address) -> None:
        self._send(message.asker, messages.NeighbourhoodReply(message.period, self._neighbourhood()))

    def _path_requested(self, message: messages.PathRequest, sender: Address) -> None:
        """Add one's own neighbourhood and pass the question on; the root answers."""
        own = self._neighbourhood()
        found = () if own is None else (*message.found, own)
        if own is None or self.tree.is_root or self.tree.parent is None:
            self._send(message.asker, messages.PathReply(message.period, message.node, found))
        else:
            self._node.send(self.tree.parent, message._replace(found=found))

    def _neighbourhood_replied(self, message: messages.NeighbourhoodReply, sender: Address) -> None:
        found = () if message.found is None else (message.found,)
        for search in self._searches:
            if message.period == self.period and not search.partners:
                search.take_neighbourhoods(sender, found)

    def _path_replied(self, message: messages.PathReply, sender: Address) -> None:
        for search in self._searches:
            if message.period == self.period and search.whole:
                search.take_neighbourhoods(message.node, message.found)

    def _links_requested(self, message: messages.LinksRequest, sender: Address) -> None:
        """Measure the links that are not known yet, then answer."""
        known, me = self._fresh_links(), self.tree.address
        unknown = [parent for parent in message.parents if (parent, me) not in known]

        def answer(results: ProbeResults) -> None:
            now = self._node.now
            for parent, each in results.items():
                self._links[parent, me] = (now, self.statistics.measured(parent, each))
            mine = ((parent, self._links.get((parent, me))) for parent in message.parents)
            links = tuple((parent, each[1]) for parent, each in mine if each is not None)
            self._send(sender, messages.LinksReply(message.period, message.parents, links))

        self.tree.prober.probe(unknown, answer, self.tree.settings.probe_wait)

    def _links_replied(self, message: messages.LinksReply, sender: Address) -> None:
        if message.period != self.period:
            return
        for parent, link in message.links:
            self._links.setdefault((parent, sender), (self._node.now, link))
        for search in self._searches:
            search.take_links(sender, message.parents, message.links)

    def _fresh_links(self) -> dict[LinkKey, messages.LinkMeasurement]:
        oldest = self._node.now - self.settings.fresh
        self._links = {pair: each for pair, each in self._links.items() if each[0] >= oldest}
        return {pair: link for pair, (_, link) in self._links.items()}

    def _parent_ordered(self, message: messages.ParentOrder, sender: Address) -> None:
        if not self.tree.is_root and message.parent != self.tree.address:
            self.tree.change_parent(message.parent)
