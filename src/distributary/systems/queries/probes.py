"""Probes: what a node asks its neighbourhood before it weighs changes of its operators (003, 5.4.5).

Rules:

- Probed are the nodes that operators could move to: neighbours in the trees, hosts of the operators that they
  read and that read them, and better nodes that were heard of (`statistics`). No others are, but for the
  nodes between these and the roots of the trees whose sources the operators read: those are probed next.
- Each replies with its totals, what it publishes of the streams asked for, and which nodes read those how
  much; and for each of the trees which nodes are above it, and how much of each source is asked for on the
  link to it.
- A probe about a round is answered when the round is over where it comes to.
- At most so many streams that operators here exchange with others are asked about in a period: those of some
  operators now, of others next time, so that probes do not grow with the number of queries.
- A node that does not reply within the window is no destination in this period.

Cost: two messages for each node probed; their size depends on the sources and streams asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from distributary.overlay.node import Address
from distributary.systems.queries.links import LinkEstimate
from distributary.systems.queries.node_model import ReaderInfo
from distributary.systems.queries.statistics import StatisticsManager


class ProbeRequest(NamedTuple):
    """To a node that operators could move to, or one between it and a root."""

    period: int
    sources: tuple[tuple[int, tuple[str, ...]], ...]
    """By tree, those that the operators read."""
    published: tuple[str, ...]
    """Streams that they read from there."""
    readers: tuple[str, ...]
    """Operators there that read their streams, where it matters of how many queries these are."""
    links: tuple[Address, ...]
    """Nodes to which the latencies are asked for, where they matter."""


class StreamUsage(NamedTuple):
    """A stream, as its publisher tells of it."""

    stream: str
    items: float
    bytes: float
    read_at: tuple[tuple[Address, int], ...]
    """By node, how much of it is asked for there; without the asking node, which knows that."""


class Uplink(NamedTuple):
    """Where a node is in a tree."""

    above: tuple[Address, ...]
    """The nodes between it and the root, which comes last."""
    shares: tuple[int, ...]
    """How much of each source is asked for at the node and below."""
    hops: tuple[float, ...]
    """Seconds that a message takes on each link from the node up to the root, where they matter."""


class ProbeReply(NamedTuple):
    """The reply to a probe."""

    period: int
    totals: tuple[float, ...]
    uplinks: tuple[Uplink | None, ...]
    """In each tree asked about; None where that is not known now."""
    published: tuple[StreamUsage, ...]
    readers: tuple[ReaderInfo, ...]
    speed: float
    """Cycles a second of its processor."""
    links: tuple[tuple[Address, LinkEstimate], ...]


PROBE_MESSAGES = (ProbeRequest, ProbeReply)


@dataclass
class ProbeResults:
    """The replies of a period so far.

    With `by_path`, only the nodes above each are asked for, and not what passes there.
    """

    destinations: tuple[Address, ...]
    """The nodes that operators could move to."""
    requests: dict[Address, ProbeRequest]
    by_path: bool
    replies: dict[Address, ProbeReply] = field(default_factory=dict)

    def paths(self) -> list[tuple[Address, ...]]:
        """For each reply and tree, the nodes above."""
        uplinks = [uplink for reply in self.replies.values() for uplink in reply.uplinks]
        return [uplink.above for uplink in uplinks if uplink is not None]

    def unprobed(self) -> list[Address]:
        """Nodes above others that have not been probed yet, where it matters what passes there."""
        above = dict.fromkeys(site for path in self.paths() for site in path)
        return [] if self.by_path else [site for site in above if site not in self.requests]

    def is_complete(self, site: Address) -> bool:
        """Whether all is known of a node, and of those above it."""
        reply = self.replies.get(site)
        return reply is not None and all(
            uplink is not None and (self.by_path or all(above in self.replies for above in uplink.above))
            for uplink in reply.uplinks
        )

    @property
    def all_replied(self) -> bool:
        """Whether every node probed has replied."""
        return len(self.replies) == len(self.requests)


class Prober:
    """Probes of a node, and replies to those of others; `weigh` is called with the results of a period."""

    def __init__(self, statistics: StatisticsManager, weigh: Callable[[ProbeResults], None]) -> None:
        self.node = node = statistics.node
        self._model = statistics.model
        self._settings = statistics.model.settings
        self._statistics = statistics
        self._weigh = weigh
        self._results: ProbeResults | None = None
        self._period = 0
        self._turn = 0
        """The operator to begin with, where not all can be asked about."""
        self._deferred: list[tuple[ProbeRequest, Address]] = []
        """Probes that came before the round they are about was over here."""
        node.handle(ProbeRequest, self._request)
        node.handle(ProbeReply, self._reply)
        node.at_alarm("flow answers", self._finish)

    # Probing

    def begin(self, destinations: Iterable[Address], near: bool = True) -> None:
        """Probe these nodes about the streams that operators here read and publish.

        `near` says whether operators may also move to the nodes they exchange streams with.
        """
        self._period = self._statistics.period
        exchanged = self._exchanged_streams()
        sources = self._sources()
        allowed = dict.fromkeys((self.node.address, *destinations, *(exchanged if near else ())))
        requests = {}
        sites = dict.fromkeys((*allowed, *exchanged))
        links = tuple(sites) if self._model.by_path else ()
        for site in sites:
            published, readers = exchanged.get(site, ((), ()))
            requests[site] = ProbeRequest(self._period, sources, tuple(published), tuple(readers), links)
        by_path = self._model.by_path and not self._model.total_names
        self._results = ProbeResults(tuple(allowed), requests, by_path)
        self.node.wake_after(self._settings.window, "flow answers", self._period)
        for site, request in list(requests.items()):
            self._model.offer(site, request)

    def _sources(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """By tree the sources that operators here read."""
        found: dict[int, set[str]] = {}
        for stream in {stream for unit in self._model.units() for stream in unit.inputs}:
            tree = self._model.location(stream).tree
            if tree is not None:
                found.setdefault(tree, set()).add(stream)
        return tuple((tree, tuple(sorted(streams))) for tree, streams in sorted(found.items()))

    def _exchanged_streams(self) -> dict[Address, tuple[list[str], list[str]]]:
        """By host: the streams that operators here read from there, and the readers there to ask about."""
        model, here = self._model, self.node.address
        units = model.units()
        own = {unit.name for unit in units}
        first = self._turn = self._turn % max(1, len(units))
        found: dict[Address, tuple[list[str], list[str]]] = {}
        count = 0
        for done, unit in enumerate((*units[first:], *units[:first])):
            read = [(model.location(stream), stream) for stream in unit.inputs if stream not in own]
            published = [(location.host, stream) for location, stream in read if location.tree is None]
            readers = [(at, name) for name, at, _ in model.readers_of(unit.name) if at != here]
            asked = len(published) + (len(readers) if model.by_path else 0)
            if count and count + asked > self._settings.most_streams:
                self._turn = first + done if self._turn == first else self._turn
                continue
            count += asked
            for host, stream in published:
                streams = found.setdefault(host, ([], []))[0]
                streams += [stream] if stream not in streams else []
            for at, name in readers:
                found.setdefault(at, ([], []))[1].extend([name] if model.by_path else [])
        return found

    def _reply(self, message: ProbeReply, sender: Address) -> None:
        results = self._results
        if results is None or message.period != self._period or sender not in results.requests:
            return
        results.replies[sender] = message
        if results.all_replied:
            request = results.requests[self.node.address]._replace(published=(), readers=())
            further = dict.fromkeys(results.unprobed(), request)
            results.requests.update(further)
            for site in further:
                self._model.offer(site, request)
            if results.all_replied:
                self._finish(self._period)

    def _finish(self, period: int) -> None:
        results = self._results
        if results is not None and period == self._period:
            self._results = None
            self._weigh(results)

    # Replying

    def _request(self, message: ProbeRequest, sender: Address) -> None:
        if not self._statistics.is_over(message.period):
            self._deferred.append((message, sender))
            return
        model, statistics = self._model, self._statistics
        known = {unit.name: unit for unit in model.units()} if message.published else {}
        published = []
        for unit in [known[stream] for stream in message.published if stream in known]:
            if unit.measured or model.by_path:
                shares = sorted(model.shares_by_node(unit.name).items())
                read_at = tuple(each for each in shares if each[0] != sender)
                published.append(StreamUsage(unit.name, unit.rates.items, unit.rates.bytes, read_at))
        reply = ProbeReply(
            message.period,
            model.told_totals(statistics.flows(), statistics.period),
            tuple(self._uplink(tree, sources) for tree, sources in message.sources),
            tuple(published),
            tuple(model.reader_infos(message.readers)),
            model.speed,
            model.links().of(self.node.address, message.links),
        )
        self._model.offer(sender, reply)

    def answer_deferred(self) -> None:
        """A round is over here: answer the probes that came before."""
        deferred, self._deferred = self._deferred, []
        for message, sender in deferred:
            self._request(message, sender)

    def _uplink(self, tree: int, sources: tuple[str, ...]) -> Uplink | None:
        above = self._statistics.above(tree)
        shares = self._statistics.shares.get(tree, {})
        if above is None:
            return None
        asked = tuple(shares.get(source, 0) for source in sources)
        return Uplink(above, asked, self._statistics.hops(tree))
