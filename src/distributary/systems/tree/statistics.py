"""What a broker of a live tree measures and hears: its own cost, what is below it, what matters elsewhere.

Rules:

- In every maintenance period a node tells its parent what is below it, and its children its own values. The
  answer returns the time of the question: so a link's latency is measured without further messages. Where no
  cost follows from the path or from links, nodes tell their parents only what has changed.
- Whoever is not heard of (a child that has just come) makes a neighbourhood incomplete, and what is
  incomplete is not optimised.
- Latency is the round trip in milliseconds. Bandwidth, and metrics of the user's own, come from gauges that
  the application gives: those of a node are read there, those of a link at the child.

Cost: two messages a node and period, of constant size for sums and extremes (Table 4.6).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, TypeVar

from distributary.model import Event
from distributary.overlay.node import Address
from distributary.overlay.tree.event_log import NumberedRun
from distributary.overlay.tree.node import TreeNode
from distributary.overlay.tree.probing import ProbeResult
from distributary.plan.goal.expression import Place, fold
from distributary.plan.trees.metrics import Reads
from distributary.systems.tree import messages
from distributary.systems.tree.cost_model import CostEntry, CostModel, Entries, Values
from distributary.systems.tree.known_sites import as_child, local_values
from distributary.systems.tree.messages import BrokerFacts, LinkMeasurement, Streams, SubtreeReport
from distributary.systems.tree.settings import Gauges
from distributary.systems.tree.stream_rates import StreamRates, merged


class LocalClients(NamedTuple):
    """What is asked of the clients of a broker."""

    want: Callable[[Event], bool]
    """Whether one of them wants an event."""
    number: Callable[[], int]


R = TypeVar("R")


def _momentary(measure: Callable[[Any], R]) -> R:
    """A property that is made anew when time has passed or a message has come, and remembered until then."""

    def remembered(owner: BrokerStatistics) -> R:
        if owner.remembered_at != owner.tree.node.now:
            owner.forget()
        if measure.__name__ not in owner.remembered:
            owner.remembered[measure.__name__] = measure(owner)
        found: R = owner.remembered[measure.__name__]
        return found

    return property(remembered, doc=measure.__doc__)  # type: ignore[return-value]


class BrokerStatistics:
    """What one broker knows for a goal."""

    def __init__(self, tree: TreeNode, model: CostModel, gauges: Gauges, clients: LocalClients) -> None:
        self.tree = tree
        self.model = model
        self.gauges = gauges
        self.rest: Entries = ()
        """What is known of those who are not below this node, where extremes need it."""
        self.system = 0.0
        """The cost of the whole tree, as the root last said; where it adds up local metrics, 0."""
        self.remembered: dict[str, Any] = {}
        self.remembered_at = -1.0
        self._clients = clients
        self._rates = StreamRates(gauges, clients.want)
        self._above: tuple[int, LinkMeasurement | None, Values | None] = (-1, None, None)
        """The stamp of the link to the parent, what was measured of it, and the parent's values."""
        self._reports: dict[Address, tuple[float, SubtreeReport]] = {}
        """The latest report of each child, and when it came."""
        self._last: tuple[Address | None, SubtreeReport] | None = None
        """What the parent was last told, and who that was."""
        self.regular = bool(model.paths) or any(
            metric.place is Place.LINK and metric.reads is Reads.PARENT for metric in model.metrics
        )
        """Whether nodes tell each other in every period, and not only what has changed."""
        if model.needs_streams:
            tree.on_events(self._note_streams)
        tree.node.handle(SubtreeReport, self._subtree_reported)
        tree.node.handle(messages.PathReport, self._path_reported)

    def _note_streams(self, events: NumberedRun) -> None:
        for _, event in events:
            self._rates.note(event, self.tree.node.now)

    def forget(self) -> None:
        """Measure anew what was measured before."""
        self.remembered.clear()
        self.remembered_at = self.tree.node.now

    # What is known here.

    @_momentary
    def facts(self) -> BrokerFacts:
        """What this broker knows of itself."""
        gauge, now = self.gauges.processing, self.tree.node.now
        processing = 0.0 if gauge is None else gauge(self.tree.address)
        streams = self._rates.own(now) if self.model.needs_streams else ()
        own = tuple(float(self.gauges.nodes[name](self.tree.address)) for name in self.model.own_nodes)
        return BrokerFacts(self._clients.number(), processing, streams, own)

    @property
    def link(self) -> LinkMeasurement | None:
        """The link to the parent, once it has been measured."""
        stamp, link, _ = self._above
        return link if stamp == self.tree.link.stamp else None

    @property
    def parent_values(self) -> Values | None:
        """The parent's values, once they are known."""
        stamp, _, values = self._above
        return values if stamp == self.tree.link.stamp else None

    @_momentary
    def children(self) -> dict[Address, SubtreeReport]:
        """What the present children have reported, where their links are known."""
        present = (child for child in self.tree.children if child in self._reports)
        reports = {child: self._reports[child][1] for child in present}
        return {child: each for child, each in reports.items() if each.link is not None or not self.regular}

    @property
    def complete(self) -> bool:
        """Whether all children have told, and this node knows its own values."""
        return len(self.children) == len(self.tree.children) and self.values is not None

    @_momentary
    def values(self) -> Values | None:
        """This node's values; None while they are not known."""
        return self.values_with(len(self.tree.children))

    def values_with(self, fanout: int) -> Values | None:
        """What this node's values would be if it had so many children."""
        if self.tree.is_root or not self.regular:
            return self.under(self.present_link, fanout)
        above, link = self.parent_values, self.link
        if above is None or link is None:
            return None
        return self.model.joined(above, self.under(link, fanout))

    def under(self, link: LinkMeasurement | None, fanout: int) -> Values:
        """This node's part in its own values, at the end of a link; as the root, without one."""
        return local_values(self.model, link, self.facts, fanout, self.streams, self.over_children)

    @property
    def present_link(self) -> LinkMeasurement | None:
        """The link to the parent, or what stands for it; None for the root."""
        return None if self.tree.is_root else self.link or messages.UNMEASURED

    @property
    def local(self) -> Values:
        """This node's part in its own values."""
        return self.under(self.present_link, len(self.tree.children))

    @_momentary
    def streams(self) -> Streams:
        """What those below this node want."""
        if not self.model.needs_streams:
            return ()
        return merged(*(told.streams for told in self.children.values()))

    @_momentary
    def over_children(self) -> Values:
        """This node's aggregates over its children."""
        if not self.model.children:
            return ()
        told = [
            as_child(self.model, each.link or messages.UNMEASURED, each.facts, each.fanout, each.streams)
            for each in self.children.values()
        ]
        columns = zip(*told, strict=True) if told else [()] * len(self.model.children)
        folded = [
            fold(one.function, column, zero=True)
            for one, column in zip(self.model.children, columns, strict=True)
        ]
        return tuple(None if value is None else float(value) for value in folded)

    @property
    def size(self) -> int:
        """How many nodes this one's subtree has, itself included."""
        return 1 + sum(told.size for told in self.children.values())

    def _entries(self, child: SubtreeReport) -> list[CostEntry]:
        """A child and what is below it, relative to this node."""
        values = self._local(child)
        own = CostEntry(self.model.weight(child.facts.clients), values)
        return [own, *(CostEntry(times, self.model.joined(values, each)) for times, each in child.below)]

    def _local(self, child: SubtreeReport) -> Values:
        link = child.link or messages.UNMEASURED
        known = (child.facts, child.fanout, child.streams, child.over_children)
        return local_values(self.model, link, *known)

    @_momentary
    def below(self) -> Entries:
        """What is below this node, relative to it."""
        return self.model.fewer(each for told in self.children.values() for each in self._entries(told))

    @property
    def own(self) -> list[CostEntry]:
        """This node itself, if it has a cost."""
        values = self.values
        if values is None or self.model.cost(values) is None:
            return []
        return [CostEntry(self.model.weight(self._clients.number()), values)]

    @property
    def ranked(self) -> float | None:
        """This node's cost as it counts: less is better; if it has none, anything is better.

        A root without a cost has nowhere to go, and nobody is better.
        """
        values = self.values
        if values is None:
            return None
        cost = self.model.cost(values)
        if cost is None:
            return None if self.tree.is_root else math.inf
        return self.model.goal.sign * cost

    def absolute(self, entries: Iterable[CostEntry]) -> list[CostEntry]:
        """Entries relative to this node as they are in the tree."""
        values, join = self.values, self.model.joined
        return [] if values is None else [CostEntry(times, join(values, each)) for times, each in entries]

    def worst(self) -> float | None:
        """The extreme cost in this node's subtree, itself included."""
        worst = self.model.worst([*self.own, *self.absolute(self.below)])
        return None if worst is None else self.model.cost(worst.values)

    def neighbourhood(
        self, below_of: Callable[[Address, Values], Entries] | None = None
    ) -> messages.TreeNeighbourhood | None:
        """This node and its children; None while something of it is not known.

        Where everybody tells everybody their costs, `below_of` gives the nodes below a child, relative to its
        values; otherwise it is what the child has told.
        """
        values, tree = self.values, self.tree
        if values is None or not self.complete:
            return None
        children = []
        for child, told in sorted(self.children.items()):
            _, link, facts, fanout, size, below, streams, over_children = told
            if below_of is not None:
                below = below_of(child, self.model.joined(values, self._local(told)))
            known = (child, link or messages.UNMEASURED, facts, fanout, size)
            children.append(messages.ChildState(*known, below, streams, over_children))
        parent = None if tree.is_root else tree.parent
        return messages.TreeNeighbourhood(tree.address, parent, values, self.facts, tuple(children))

    # Telling.

    def tell(self) -> None:
        """Tell the parent, and the children where it matters to them."""
        tree = self.tree
        self.forget()
        self._reports = {child: each for child, each in self._reports.items() if child in tree.children}
        if not tree.is_root and tree.parent is not None:
            told = self._report()
            if self.regular:
                tree.node.send(tree.parent, told)
            elif self._last is None or self._last != (tree.parent, told._replace(sent=0.0)):
                self._last = (tree.parent, told._replace(sent=0.0))
                tree.post(tree.parent, told)
        values = self.values
        if self.regular and values is not None:
            for child, (came, each) in self._reports.items():
                held = tree.node.now - came
                rest = self._rest_of(child)
                tree.node.send(child, messages.PathReport(each.sent, held, values, rest, self.system))

    def _report(self) -> SubtreeReport:
        tree, facts = self.tree, self.facts
        below = () if self.model.broadcasts_costs else self.below
        measured = (tree.node.now, self.link, facts, len(tree.children), self.size)
        return SubtreeReport(*measured, below, merged(facts.streams, self.streams), self.over_children)

    def _rest_of(self, child: Address) -> Entries:
        """What a MIN or MAX must know of those who are not below a child: the worst of them."""
        if not self.model.bottleneck:
            return ()
        others = [each for at, one in self.children.items() if at != child for each in self._entries(one)]
        worst = self.model.worst([*self.rest, *self.own, *self.absolute(others)])
        return () if worst is None else (worst._replace(times=1),)

    def _subtree_reported(self, message: SubtreeReport, sender: Address) -> None:
        self.forget()
        before = self._reports.get(sender)
        if before is None or before[1].sent < message.sent:
            self._reports[sender] = (self.tree.node.now, message)

    def _path_reported(self, message: messages.PathReport, sender: Address) -> None:
        self.forget()
        if sender != self.tree.parent:
            return
        seconds = self.tree.node.now - message.echo - message.held
        link = self.measured(sender, ProbeResult(seconds, ()))
        self._above = (self.tree.link.stamp, link, message.values)
        self.rest, self.system = message.rest, message.system

    # Links to others.

    def measured(self, parent: Address, answer: ProbeResult) -> LinkMeasurement:
        """A link from a parent to this node, by the round trip of a probe."""
        gauge = self.gauges.bandwidth
        latency = round(1000 * answer.seconds, 6)  # what is left beyond is rounding of the clock
        bandwidth = 0.0 if gauge is None else gauge(parent, self.tree.address)
        links = self.gauges.links
        own = tuple(float(links[name](parent, self.tree.address)) for name in self.model.own_links)
        return LinkMeasurement(latency, bandwidth, own)
