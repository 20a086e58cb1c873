"""A dissemination tree that optimises itself while events flow (003, sections 3.4, 4.3 and 4.5).

    goal = parse_goal("minimise aggregate(SUM, aggregate(SUM, link latency, PATH), BROKERS)")
    settings = OptimisationSettings(goal)
    TreeAssembly(..., optimising=settings)

Rules:

- Every `statistics` seconds brokers tell their neighbours what these must know (`tree_statistics`,
  `tree_spreading`); every `period` seconds the root begins an optimisation period, which goes down the tree.
- In a period every node that can matter looks for its best rewrite (`tree_inquiry`) and names it to the root:
  with local rules the owners of units with a critical node below, with directed rules the critical nodes
  themselves. Where the system's cost is a MIN or MAX those are the nodes that have it, within `slack`;
  otherwise all.
- After `window` seconds the root grants the best, or, where costs add up and `concurrent` is set, several
  that touch different nodes (Definition 5), and has them carried out (`tree_carrying`); then comes the next.
- Nodes that come, or lose their parent, choose the parent that gives them the best cost of their own, if
  `best_effort` is set; any with room otherwise.

A climb ends by itself: when no rewrite helps none is named. It begins again when conditions change.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from distributary.errors import DistributaryError
from distributary.model import Event
from distributary.overlay.node import Address
from distributary.overlay.tree.node import TreeNode
from distributary.overlay.tree.probing import ProbeResults
from distributary.plan.goal import Goal
from distributary.plan.trees.optimiser import HYBRID, NEGLIGIBLE
from distributary.plan.trees.rules import TreeRule
from distributary.systems.tree.carrying import RewriteExecutor
from distributary.systems.tree.inquiry import Found, RewriteSearch
from distributary.systems.tree.measures import CostModel
from distributary.systems.tree.messages import (
    BrokerFacts,
    ChildState,
    LinkMeasurement,
    LinksReply,
    LinksRequest,
    NeighbourhoodReply,
    NeighbourhoodRequest,
    ParentOrder,
    PathReply,
    PathRequest,
    PeriodStart,
    RewriteProposal,
    TreeNeighbourhood,
)
from distributary.systems.tree.spreading import StatisticsBroadcast
from distributary.systems.tree.statistics import BrokerStatistics, Gauges
from distributary.systems.tree.view import LinkKey, PartialTree

NOWHERE: Address = -1
"""The parent of a node whose own parent is none of the asker's business."""


@dataclass(frozen=True)
class OptimisationSettings:
    """How a tree optimises itself."""

    goal: Goal
    rules: Sequence[TreeRule] = HYBRID
    statistics: float = 1.0
    """Seconds between maintenance messages (S)."""
    period: float = 60.0
    """Seconds between optimisation periods (P); enough for statistics to reach everybody."""
    window: float = 10.0
    """Seconds from the beginning of a period until the root decides."""
    slack: float = 0.0
    """Nodes whose cost is within this share of the system's are critical too."""
    concurrent: bool = False
    approximate: float | None = None
    """The constant p of equation 4.4, where costs are broadcast; None to broadcast all in every period."""
    best_effort: bool = False
    most_heard: int | None = 8
    """Of so many better nodes a critical one considers for directed rules; None for all."""
    fresh: float = 300.0
    """Seconds for which a measured link is not measured again."""
    gauges: Gauges = field(default_factory=Gauges)

    def __post_init__(self) -> None:
        if not 0 < self.statistics < self.period or not 0 < self.window < self.period:
            raise DistributaryError(
                "an optimisation period is longer than a maintenance period, and than the window for rewrites"
            )
        if self.approximate is not None and self.approximate < 1:
            raise DistributaryError(f"the period of broadcasts is at least 1, not {self.approximate}")

    @property
    def local(self) -> list[TreeRule]:
        return [rule for rule in self.rules if not rule.directed]

    @property
    def directed(self) -> list[TreeRule]:
        return [rule for rule in self.rules if rule.directed]

    @property
    def levels(self) -> int:
        """The size of an optimisation unit."""
        return max((rule.levels for rule in self.local), default=0)


class TreeOptimiser:
    """The part of a broker that optimises the tree."""

    def __init__(
        self,
        tree: TreeNode,
        settings: OptimisationSettings,
        measures: CostModel,
        *,
        wants: Callable[[Event], bool],
        clients: Callable[[], int],
    ) -> None:
        self.tree = tree
        self.settings = settings
        self.measures = measures
        self.statistics = BrokerStatistics(tree, measures, settings.gauges, wants=wants, clients=clients)
        self.spreading = StatisticsBroadcast(
            self.statistics,
            period=settings.statistics,
            directed=bool(settings.directed),
            approximate=settings.approximate,
            is_critical=self._is_critical,
        )
        self.carrying = RewriteExecutor(tree, patience=settings.period)
        self.active = True
        """Whether this node begins periods when it is the root."""
        self.number = 0
        """Of the latest period."""
        self.quiet = 0
        """At the root: periods since somebody last named a rewrite."""
        self._named: list[RewriteProposal] = []
        self._inquiries: list[RewriteSearch] = []
        self._links: dict[LinkKey, tuple[float, LinkMeasurement]] = {}
        if settings.best_effort:
            tree.choose_parent_by(self._best_parent)
        self._listen()

    def _listen(self) -> None:
        node = self.tree.node
        node.handle(PeriodStart, self._period_begun)
        node.handle(NeighbourhoodRequest, self._neighbourhood_asked)
        node.handle(PathRequest, self._path_asked)
        node.handle(NeighbourhoodReply, self._neighbourhood_told)
        node.handle(PathReply, self._path_told)
        node.handle(LinksRequest, self._links_asked)
        node.handle(LinksReply, self._links_told)
        node.handle(RewriteProposal, self._rewrite_named)
        node.handle(ParentOrder, self._parent_ordered)
        node.at_alarm("tree statistics", self._tell)
        node.at_alarm("tree period", self._begin_period)
        node.at_alarm("tree decision", self._decide)
        node.at_start(self._begin)

    def _begin(self) -> None:
        self._inquiries = []
        self.tree.node.wake_after(self.settings.statistics * self.tree.random.random(), "tree statistics")
        self.tree.node.wake_after(self.settings.period, "tree period")

    def _tell(self, about: object) -> None:
        self.tree.node.wake_after(self.settings.statistics, "tree statistics")
        if self.tree.is_root:
            self.statistics.system = self.cost()
        self.statistics.tell()
        self.spreading.tell()
        self.carrying.check()

    def _best_parent(self, answers: ProbeResults) -> Address:
        return self.statistics.best_parent(answers)

    # Periods, at the root.

    def _begin_period(self, about: object) -> None:
        self.tree.node.wake_after(self.settings.period, "tree period")
        if not self.tree.is_root or not self.active or self.carrying.busy:
            return
        number = max(self.number + 1, int(self.tree.node.now * 1000))
        self._named = []
        self._consider(PeriodStart(number, self.cost(), self.statistics.size))
        self.tree.node.wake_after(self.settings.window, "tree decision", number)

    def cost(self) -> float:
        """At the root: the cost of the whole tree; where it adds up local metrics, 0."""
        if self.measures.holistic:
            return self.measures.system_cost(self.spreading.everybody())
        below = self.statistics.absolute(self.statistics.below)
        return self.measures.system_cost([*self.statistics.own, *below])

    def _decide(self, number: int) -> None:
        """Grant the best rewrite, or several that are independent."""
        if number != self.number or not self.tree.is_root:
            return
        self.quiet = 0 if self._named else self.quiet + 1
        several = self.settings.concurrent and self.measures.additive
        for named in sorted(self._named, key=lambda each: (-each.benefit, each.rule, each.arguments)):
            if self.carrying.begin(named) and not several:
                break
        self._named = []

    def _rewrite_named(self, message: RewriteProposal, sender: Address) -> None:
        if message.number == self.number and self.tree.is_root:
            self._named.append(message)

    # Periods, everywhere.

    def _period_begun(self, message: PeriodStart, sender: Address) -> None:
        if sender == self.tree.parent and message.number > self.number and not self.tree.is_root:
            self._consider(message)

    def _consider(self, begun: PeriodStart) -> None:
        self.number, self.statistics.system, self.spreading.nodes = begun
        for child in self.tree.children:
            self.tree.node.send(child, begun)
        self._inquiries = []
        own = self.statistics.neighbourhood()
        if own is None:
            return
        settings = self.settings
        if settings.local and own.children and self._leads_to_critical():
            levels = settings.levels - 1 + self.measures.aggregates_children
            self._inquire(self._unit(own), settings.local, (), levels=levels)
        heard = self.spreading.better()[: settings.most_heard] if settings.directed else []
        if heard and self._is_critical():
            partners = frozenset(heard)
            asked = (self.tree.address, *heard)
            view = PartialTree(self.measures, links=self._fresh_links())
            self._inquire(view, settings.directed, asked, partners=partners)

    def _is_critical(self) -> bool:
        """Whether the system's cost hangs on this node's."""
        if not self.measures.bottleneck:
            return True
        values = self.statistics.values
        return values is not None and bool(self.statistics.own) and self._decides(self.measures.cost(values))

    def _leads_to_critical(self) -> bool:
        if not self.measures.bottleneck:
            return True
        worst = self.statistics.worst()
        return worst is not None and self._decides(worst)

    def _decides(self, cost: float) -> bool:
        system = self.statistics.system
        return abs(cost - system) <= (self.settings.slack + NEGLIGIBLE) * abs(system)

    def _unit(self, own: TreeNeighbourhood) -> PartialTree:
        """What this node knows of its unit: itself, and its parent as far as it matters."""
        view = PartialTree(self.measures, links=self._fresh_links())
        view.add(own)
        above, parent, link = self.statistics.parent_values, self.tree.parent, self.statistics.link
        if not self.tree.is_root and parent is not None:
            values = self.measures.nothing if above is None else above
            children, size = own.children, self.statistics.size
            me = ChildState(own.address, link or LinkMeasurement(0.0), own.facts, len(children), size, (), ())
            view.add(TreeNeighbourhood(parent, NOWHERE, values, BrokerFacts(), (me,)))
        if self.measures.holistic:
            view.rest = self.measures.fewer(self.spreading.elsewhere())
        elif self.measures.bottleneck:
            view.rest = self.statistics.rest
        return view

    def _inquire(
        self,
        view: PartialTree,
        rules: Sequence[TreeRule],
        asked: Sequence[Address],
        *,
        levels: int = 0,
        partners: frozenset[Address] | None = None,
    ) -> None:
        number, me = self.number, self.tree.address

        def ask(address: Address) -> None:
            if partners is None:
                self._send(address, NeighbourhoodRequest(number, me))
            else:
                self._send(address, PathRequest(number, me, address, ()))

        inquiry = RewriteSearch(
            view,
            me,
            rules,
            ask=ask,
            measure=lambda child, parents: self._send(child, LinksRequest(number, parents)),
            done=lambda found: self._name(number, found),
            levels=levels,
            partners=partners,
        )
        self._inquiries.append(inquiry)
        inquiry.begin(asked)

    def _send(self, to: Address, message: object) -> None:
        """Send a message, or hear it if it is for this node."""
        if to == self.tree.address:
            self.tree.node.dispatch(message, to)
        else:
            self.tree.node.send(to, message)

    def _name(self, number: int, found: Found | None) -> None:
        if found is None or number != self.number:
            return
        changes, before = tuple(found.changes.items()), tuple(found.before.items())
        self.tree.root.send(
            RewriteProposal(number, found.benefit, found.rule, found.arguments, changes, before)
        )

    # Answering.

    def _neighbourhood_asked(self, message: NeighbourhoodRequest, sender: Address) -> None:
        self._send(message.asker, NeighbourhoodReply(message.number, self.statistics.neighbourhood()))

    def _path_asked(self, message: PathRequest, sender: Address) -> None:
        """Add one's own neighbourhood and pass the question on; the root answers."""
        own = self.statistics.neighbourhood()
        found = () if own is None else (*message.found, own)
        if own is None or self.tree.is_root or self.tree.parent is None:
            self._send(message.asker, PathReply(message.number, message.node, found))
        else:
            self.tree.node.send(self.tree.parent, message._replace(found=found))

    def _neighbourhood_told(self, message: NeighbourhoodReply, sender: Address) -> None:
        found = () if message.found is None else (message.found,)
        for inquiry in self._inquiries:
            if message.number == self.number and inquiry.partners is None:
                inquiry.told(sender, found)

    def _path_told(self, message: PathReply, sender: Address) -> None:
        for inquiry in self._inquiries:
            if message.number == self.number and inquiry.partners is not None:
                inquiry.told(message.node, message.found)

    def _links_asked(self, message: LinksRequest, sender: Address) -> None:
        """Measure the links that are not known yet, then answer."""
        known = self._fresh_links()
        me = self.tree.address
        unknown = [parent for parent in message.parents if (parent, me) not in known]

        def answer(answers: ProbeResults) -> None:
            now = self.tree.node.now
            for parent, each in answers.items():
                self._links[parent, me] = (now, self.statistics.measured(parent, each))
            mine = ((parent, self._links.get((parent, me))) for parent in message.parents)
            links = tuple((parent, each[1]) for parent, each in mine if each is not None)
            self._send(sender, LinksReply(message.number, message.parents, links))

        self.tree.prober.probe(unknown, answer, self.tree.settings.probe_wait)

    def _links_told(self, message: LinksReply, sender: Address) -> None:
        if message.number != self.number:
            return
        for parent, link in message.links:
            self._links.setdefault((parent, sender), (self.tree.node.now, link))
        for inquiry in self._inquiries:
            inquiry.linked(sender, message.parents, message.links)

    def _fresh_links(self) -> dict[LinkKey, LinkMeasurement]:
        oldest = self.tree.node.now - self.settings.fresh
        self._links = {pair: each for pair, each in self._links.items() if each[0] >= oldest}
        return {pair: link for pair, (_, link) in self._links.items()}

    def _parent_ordered(self, message: ParentOrder, sender: Address) -> None:
        if self.tree.is_root or self.tree.leaving or message.parent == self.tree.address:
            return
        if message.parent is None:
            self.tree.change_parent(None)
        else:
            self.tree.change_parent(message.parent)
