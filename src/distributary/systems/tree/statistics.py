"""What a broker of a live tree measures and hears: its own cost, what is below it, what matters elsewhere.

Rules:

- In every maintenance period a node tells its parent what is below it, and its children its own values. The
  answer returns the time of the question: so a link's latency is measured without further messages. Where no
  cost follows from the path or from links, nodes tell their parents only what has changed.
- Whoever is not heard of (a child that has just come) makes a neighbourhood incomplete, and what is
  incomplete is not optimised.
- Latency is the round trip in milliseconds. Bandwidth comes from a gauge that the application gives.

Cost: two messages a node and period, of constant size for sums and extremes (Table 4.6).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, TypeVar

from distributary.model import Event
from distributary.overlay.node import Address
from distributary.overlay.tree.node import TreeNode
from distributary.overlay.tree.probing import ProbeResult, ProbeResults
from distributary.plan.goal.expression import GoalAggregate, Place, parts
from distributary.plan.trees.cost import local_value
from distributary.plan.trees.metrics import Reads
from distributary.plan.trees.tree import NO_PARENT, Sites
from distributary.plan.trees.tree import Tree as Plan
from distributary.systems.tree import messages
from distributary.systems.tree.cost_model import CostEntry, CostModel, Entries, Values
from distributary.systems.tree.messages import BrokerFacts, LinkMeasurement, Streams, SubtreeReport
from distributary.systems.tree.settings import Gauges

SiteLinks = Mapping[tuple[int, int], LinkMeasurement]
"""What was measured of links, by the numbers of parent and child."""


class LocalClients(NamedTuple):
    """What is asked of the clients of a broker."""

    want: Callable[[Event], bool]
    """Whether one of them wants an event."""
    number: Callable[[], int]


class StreamRates:
    """Which streams come in at a broker, how fast, and which of them its own clients want."""

    def __init__(self, gauges: Gauges, wants: Callable[[Event], bool]) -> None:
        self._gauges, self._wants = gauges, wants
        self._latest: deque[tuple[float, str]] = deque()
        self._counts: dict[str, int] = {}
        self._wanted: dict[str, float] = {}
        """When each stream last had something for the clients here."""

    def note(self, event: Event, now: float) -> None:
        """Count an event that came in."""
        stream = self._gauges.stream(event)
        self._counts[stream] = self._counts.get(stream, 0) + 1
        if self._gauges.window is not None:
            self._latest.append((now, stream))
        if self._wants(event):
            self._wanted[stream] = now

    def own(self, now: float) -> Streams:
        """What the clients here want, as far as it came in lately."""
        window = self._gauges.window
        if window is None:
            return tuple(sorted((stream, float(self._counts[stream])) for stream in self._wanted))
        while self._latest and self._latest[0][0] < now - window:
            _, stream = self._latest.popleft()
            self._counts[stream] -= 1
        recent = (stream for stream, when in self._wanted.items() if when >= now - window)
        return tuple(sorted((stream, self._counts[stream] / window) for stream in recent))


def merged(*rows: Streams) -> Streams:
    """Streams of several, each once, at the highest rate that one of them told."""
    rates: dict[str, float] = {}
    for row in rows:
        for stream, rate in row:
            rates[stream] = max(rate, rates.get(stream, 0.0))
    return tuple(sorted(rates.items()))


@lru_cache(1 << 12)
def local_values(
    model: CostModel, link: LinkMeasurement | None, facts: BrokerFacts, fanout: int, streams: Streams
) -> Values:
    """A node's part in its own values, under a parent at the end of a link; as the root, without one."""
    found, alone = [], _alone(link, facts, fanout, streams)
    for path in model.paths:
        value = local_value(path.value, *alone)
        found.append(path.function.identity if value is None else float(value))
    return tuple(found)


@lru_cache(1 << 12)
def local_cost(
    model: CostModel, link: LinkMeasurement | None, facts: BrokerFacts, fanout: int, streams: Streams
) -> float | None:
    """A node's cost, where that is a local metric or made of such."""
    node = model.goal.cost.value
    if any(isinstance(part, GoalAggregate) for part in parts(node)):
        return None
    value = local_value(node, *_alone(link, facts, fanout, streams))
    return None if value is None else float(value)


def _alone(
    link: LinkMeasurement | None, facts: BrokerFacts, fanout: int, streams: Streams
) -> tuple[Sites, Plan, int]:
    """A node, its parent if it has a link, and its children, the first of which wants those streams."""
    links = {} if link is None else {(0, 1): link}
    me = len(links)
    below: list[Streams] = [streams, *[()] * (fanout - 1)] if fanout else []
    wanted: list[Streams] = [*[()] * me, facts.streams, *below]
    sites = known_sites(links, [facts._replace(streams=row) for row in wanted], unknown=0.0)
    return sites, Plan((NO_PARENT, *[0] * me, *[me] * fanout)), me


def known_sites(
    links: SiteLinks, facts: Sequence[BrokerFacts], unknown: float, counts: Sequence[int] = ()
) -> Sites:
    """The planner's sites: what is known of some brokers, and of the links between them.

    `unknown` is the latency where there is no link; `counts` says how many brokers each site stands for.
    """
    size = len(facts)
    latency, bandwidth = ([[value] * size for _ in facts] for value in (unknown, 0.0))
    for (parent, child), link in links.items():
        latency[parent][child], bandwidth[parent][child] = link
    rates = dict(merged(*(one.streams for one in facts)))
    bits = {stream: 1 << number for number, stream in enumerate(rates)}
    return Sites(
        latency=latency,
        bandwidth=bandwidth,
        clients=[one.clients for one in facts],
        processing=[one.processing for one in facts],
        interest=[sum(bits[stream] for stream, _ in one.streams) for one in facts],
        rates=list(rates.values()),
        counts=counts,
    )


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
            tree.on_event(lambda event: self._rates.note(event, tree.node.now))
        tree.node.handle(SubtreeReport, self._subtree_reported)
        tree.node.handle(messages.PathReport, self._path_reported)
        tree.prober.answer_with(lambda: self.values or ())

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
        return BrokerFacts(self._clients.number(), processing, streams)

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
        if self.tree.is_root or not self.regular:
            return self._under(None)
        above, link = self.parent_values, self.link
        if above is None or link is None:
            return None
        return self.model.joined(above, self._under(link))

    def _under(self, link: LinkMeasurement | None) -> Values:
        """This node's part in its own values, at the end of a link; as the root, without one."""
        return local_values(self.model, link, self.facts, len(self.tree.children), self.streams)

    @property
    def _present_link(self) -> LinkMeasurement | None:
        return None if self.tree.is_root else self.link or messages.UNMEASURED

    @property
    def local(self) -> Values:
        """This node's part in its own values."""
        return self._under(self._present_link)

    @_momentary
    def streams(self) -> Streams:
        """What those below this node want."""
        if not self.model.needs_streams:
            return ()
        return merged(*(told.streams for told in self.children.values()))

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
        return local_values(self.model, link, child.facts, child.fanout, child.streams)

    @_momentary
    def below(self) -> Entries:
        """What is below this node, relative to it."""
        return self.model.fewer(each for told in self.children.values() for each in self._entries(told))

    @property
    def own(self) -> list[CostEntry]:
        """This node itself, if it has a cost."""
        values = self.values
        if values is None or not self._has_cost:
            return []
        return [CostEntry(self.model.weight(self._clients.number()), values)]

    @property
    def told_values(self) -> Values | None:
        """What others are told of this node: its values, or its cost where that is measured by itself."""
        values = self.values
        if values is None or self.model.along_path:
            return values
        cost = self._local_cost()
        return (-self.model.goal.sign * math.inf if cost is None else cost,)

    @property
    def ranked(self) -> float | None:
        """This node's cost as it counts: less is better; where it cannot be known here, anything is better.

        A root without a cost has nowhere to go, and nobody is better.
        """
        values, sign = self.values, self.model.goal.sign
        if values is None or not self._has_cost:
            return None
        cost = self.model.cost(values) if self.model.along_path else self._local_cost()
        return math.inf if cost is None else sign * cost

    @property
    def _has_cost(self) -> bool:
        return self.model.root_counts or not self.tree.is_root

    def _local_cost(self) -> float | None:
        fanout = len(self.tree.children)
        known = (self.model, self._present_link, self.facts, fanout, self.streams)
        return local_cost(*known) if self._has_cost else None

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
            _, link, facts, fanout, size, below, streams = told
            if below_of is not None:
                below = below_of(child, self.model.joined(values, self._local(told)))
            known = (child, link or messages.UNMEASURED, facts, fanout, size)
            children.append(messages.ChildState(*known, below, streams))
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
        return SubtreeReport(*measured, below, merged(facts.streams, self.streams))

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
        return LinkMeasurement(latency, 0.0 if gauge is None else gauge(parent, self.tree.address))

    def best_parent(self, answers: ProbeResults) -> Address:
        """Of some parents on offer, the one under which this node's own cost is best."""
        sign = self.model.goal.sign

        def rank(parent: Address) -> tuple[bool, float, Address]:
            link = self.measured(parent, answers[parent])
            told = answers[parent].told
            if not self.model.along_path or len(told) != len(self.model.paths):
                return True, link.latency, parent
            values = self.model.joined(told, self._under(link))
            return not self.model.within(values), sign * self.model.cost(values), parent

        return min(answers, key=rank)
