"""What a node asks its neighbourhood before it weighs changes of its operators (003, 5.4.5).

Rules:

- Asked are the places that operators could go to: neighbours in the trees, hosts of those that the operators
  read and of those that read them, and nodes that were heard of (`statistics`). Nobody else is, but for
  the nodes between these and the roots of the trees whose sources the operators read: those are asked next.
- Each answers what it does in all, what it publishes of the streams asked for, and who reads those how much;
  and for each of the trees who is above it, and how much of each source is asked for on the link to it.
- Questions about a round are answered when it is over where they come to.
- Of at most so many streams that operators here exchange with others anything is asked in a period: of those
  of some operators now, of others next time, so that the questions do not grow with the number of queries.
- Whoever does not answer within the window is no place to go to in this period.

Cost: two messages for each node asked; their size depends on the sources and streams asked about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from distributary.overlay.node import Address, Node
from distributary.systems.queries.node_model import NodeModel, ReaderInfo
from distributary.systems.queries.statistics import StatisticsManager


class ProbeRequest(NamedTuple):
    """To a place that operators could go to, or a node on the way there."""

    period: int
    sources: tuple[tuple[int, tuple[str, ...]], ...]
    """By tree, those that the operators read."""
    published: tuple[str, ...]
    """Streams that they read from there."""
    readers: tuple[str, ...]
    """Operators there that read their streams, where it matters of how many queries these are."""


class StreamUsage(NamedTuple):
    """A stream, from who publishes it."""

    stream: str
    items: float
    bytes: float
    read_at: tuple[tuple[Address, int], ...]
    """By node, how much of it is asked for there; not at the asker's, who knows that."""


class Uplink(NamedTuple):
    """Where a node is in a tree."""

    above: tuple[Address, ...]
    """Who is between it and the root, which comes last."""
    shares: tuple[int, ...]
    """How much of each source is asked for at the node and below."""


class ProbeReply(NamedTuple):
    """The answer."""

    period: int
    totals: tuple[float, ...]
    uplinks: tuple[Uplink | None, ...]
    """In each tree asked about; None where that is not known now."""
    published: tuple[StreamUsage, ...]
    readers: tuple[ReaderInfo, ...]


PROBE_MESSAGES = (ProbeRequest, ProbeReply)


class ProbeResults:
    """What has been answered so far in a period.

    `ways` says whether all is asked for only by who is above whom, and not by what passes there.
    """

    def __init__(self, places: tuple[Address, ...], asked: dict[Address, ProbeRequest], ways: bool) -> None:
        self.places = places
        """Where operators could go."""
        self.asked = asked
        self.told: dict[Address, ProbeReply] = {}
        self._ways = ways
        self.trees = [tree for tree, _ in next(iter(asked.values())).sources]

    def missing(self) -> list[Address]:
        """Nodes above others that have not been asked yet."""
        if self._ways:
            return []
        uplinks = [uplink for told in self.told.values() for uplink in told.uplinks if uplink is not None]
        found = dict.fromkeys(site for uplink in uplinks for site in uplink.above)
        return [site for site in found if site not in self.asked]

    def complete(self, site: Address) -> bool:
        """Whether all is known of a node, and of those above it."""
        told = self.told.get(site)
        return told is not None and all(
            uplink is not None and (self._ways or all(above in self.told for above in uplink.above))
            for uplink in told.uplinks
        )

    @property
    def all_told(self) -> bool:
        return len(self.told) == len(self.asked)


class Prober:
    """Questions of a node and answers to those of others."""

    def __init__(
        self,
        node: Node,
        send: Callable[[Address, object], None],
        local: NodeModel,
        statistics: StatisticsManager,
        window: float,
        most_streams: int,
        weigh: Callable[[ProbeResults], None],
    ) -> None:
        self.node = node
        self._send = send
        self._local = local
        self._statistics = statistics
        self._window = window
        self._most_streams = most_streams
        self._weigh = weigh
        self._answers: ProbeResults | None = None
        self._period = 0
        self._turn = 0
        """Whose turn it is, where not all operators can be asked about."""
        self._waiting: list[tuple[ProbeRequest, Address]] = []
        """Questions that came before the round they are about was over here."""
        node.handle(ProbeRequest, self._ask)
        node.handle(ProbeReply, self._told)
        node.at_alarm("flow answers", self._at_last)

    # Asking

    def begin(self, places: Iterable[Address], near: bool = True) -> None:
        """Ask all these places about what the operators here read and are read by.

        `near` says whether operators may also go to those they exchange streams with.
        """
        self._period = self._statistics.period
        exchanged = self._exchanged()
        here = self.node.address
        sources = self._sources()
        places = dict.fromkeys((here, *places, *(exchanged if near else ())))
        nothing: tuple[list[str], list[str]] = [], []
        questions = {}
        for place in dict.fromkeys((*places, *exchanged)):
            published, readers = exchanged.get(place, nothing)
            questions[place] = ProbeRequest(self._period, sources, tuple(published), tuple(readers))
        ways = self._local.of_ways and not self._local.names
        self._answers = ProbeResults(tuple(places), questions, ways)
        self.node.wake_after(self._window, "flow answers", self._period)
        for place, ask in list(questions.items()):
            self._send(place, ask)

    def _sources(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        """By tree the sources that operators here read."""
        found: dict[int, set[str]] = {}
        for stream in {stream for piece in self._local.pieces() for stream in piece.inputs}:
            tree = self._local.place(stream).tree
            if tree is not None:
                found.setdefault(tree, set()).add(stream)
        return tuple((tree, tuple(sorted(streams))) for tree, streams in sorted(found.items()))

    def _exchanged(self) -> dict[Address, tuple[list[str], list[str]]]:
        """By host: the streams that operators here read from there, and the readers there to ask about."""
        local = self._local
        pieces = local.pieces()
        own = {piece.name for piece in pieces}
        first = self._turn = self._turn % max(1, len(pieces))
        found: dict[Address, tuple[list[str], list[str]]] = {}
        count = 0
        for done, piece in enumerate((*pieces[first:], *pieces[:first])):
            read = [(local.place(stream), stream) for stream in piece.inputs if stream not in own]
            published = [(place.host, stream) for place, stream in read if place.tree is None]
            hops = [(hop, name) for name, hop, _ in local.read_by(piece.name) if hop != self.node.address]
            asked = len(published) + (len(hops) if local.of_ways else 0)
            if count and count + asked > self._most_streams:
                self._turn = first + done if self._turn == first else self._turn
                continue
            count += asked
            for host, stream in published:
                streams = found.setdefault(host, ([], []))[0]
                streams += [stream] if stream not in streams else []
            for hop, name in hops:
                found.setdefault(hop, ([], []))[1].extend([name] if local.of_ways else [])
        return found

    def _told(self, message: ProbeReply, sender: Address) -> None:
        answers = self._answers
        if answers is None or message.period != self._period or sender not in answers.asked:
            return
        answers.told[sender] = message
        if answers.all_told:
            further = answers.missing()
            sources = answers.asked[self.node.address].sources
            answers.asked.update((site, ProbeRequest(self._period, sources, (), ())) for site in further)
            for site in further:
                self._send(site, answers.asked[site])
            if answers.all_told:
                self._at_last(self._period)

    def _at_last(self, period: int) -> None:
        answers = self._answers
        if answers is not None and period == self._period:
            self._answers = None
            self._weigh(answers)

    # Answering

    def _ask(self, message: ProbeRequest, sender: Address) -> None:
        if self._statistics.is_over(message.period):
            self._answer(message, sender)
        else:
            self._waiting.append((message, sender))

    def answer_waiting(self) -> None:
        """A round is over here: answer those who asked before."""
        waiting, self._waiting = self._waiting, []
        for message, sender in waiting:
            self._ask(message, sender)

    def _answer(self, message: ProbeRequest, sender: Address) -> None:
        local = self._local
        known = {piece.name: piece for piece in local.pieces()} if message.published else {}
        published = tuple(
            StreamUsage(
                stream,
                known[stream].rates.items,
                known[stream].rates.bytes,
                tuple((hop, share) for hop, share in sorted(local.read_at(stream).items()) if hop != sender),
            )
            for stream in message.published
            if stream in known and (known[stream].measured or local.of_ways)
        )
        readers = tuple(local.readings(message.readers))
        uplinks = tuple(self._uplink(tree, sources) for tree, sources in message.sources)
        self._send(sender, ProbeReply(message.period, local.totals(), uplinks, published, readers))

    def _uplink(self, tree: int, sources: tuple[str, ...]) -> Uplink | None:
        above = self._statistics.above(tree)
        shares = self._statistics.shares.get(tree, {})
        return None if above is None else Uplink(above, tuple(shares.get(source, 0) for source in sources))
