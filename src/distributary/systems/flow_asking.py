"""What a node asks its neighbourhood before it weighs changes of its operators (003, 5.4.5).

Rules:

- Asked are the places that operators could go to: neighbours in the trees, hosts of those that the operators
  read and of those that read them, and nodes that were heard of (`flow_statistics`). Nobody else is, but for
  the nodes between these and the roots of the trees whose sources the operators read: those are asked next.
- Each answers what it does in all, what it publishes of the streams asked for, and who reads those how much;
  and for each of the trees who is above it, and how much of each source is asked for on the link to it.
- Questions about a round are answered when it is over where they come to.
- Whoever does not answer within the window is no place to go to in this period.

Cost: two messages for each node asked; their size depends on the streams that the operators here exchange
with other nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from distributary.overlay.node import Address, Node
from distributary.systems.flow_local import Local, Reading
from distributary.systems.flow_statistics import Statistics


class Ask(NamedTuple):
    """To a place that operators could go to, or a node on the way there."""

    period: int
    sources: tuple[tuple[int, tuple[str, ...]], ...]
    """By tree, those that the operators read."""
    published: tuple[str, ...]
    """Streams that they read from there."""
    readers: tuple[str, ...]
    """Operators there that read their streams, where it matters of how many queries these are."""


class Published(NamedTuple):
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


class Told(NamedTuple):
    """The answer."""

    period: int
    totals: tuple[float, ...]
    uplinks: tuple[Uplink | None, ...]
    """In each tree asked about; None where that is not known now."""
    published: tuple[Published, ...]
    readers: tuple[Reading, ...]


ASKING = (Ask, Told)


class Answers:
    """What has been answered so far in a period.

    `ways` says whether all is asked for only by who is above whom, and not by what passes there.
    """

    def __init__(self, asked: dict[Address, Ask], ways: bool) -> None:
        self.places = tuple(asked)
        """Where operators could go."""
        self.asked = asked
        self.told: dict[Address, Told] = {}
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


class Asking:
    """Questions of a node and answers to those of others."""

    def __init__(
        self,
        node: Node,
        send: Callable[[Address, object], None],
        local: Local,
        statistics: Statistics,
        window: float,
        weigh: Callable[[Answers], None],
    ) -> None:
        self.node = node
        self._send = send
        self._local = local
        self._statistics = statistics
        self._window = window
        self._weigh = weigh
        self._answers: Answers | None = None
        self._period = 0
        self._waiting: list[tuple[Ask, Address]] = []
        """Questions that came before the round they are about was over here."""
        node.handle(Ask, self._ask)
        node.handle(Told, self._told)
        node.at_alarm("flow answers", self._at_last)

    # Asking

    def begin(self, places: Iterable[Address]) -> None:
        """Ask all these places about what the operators here read and are read by."""
        self._period = self._statistics.period
        questions = self._questions(list(places))
        ways = self._local.of_ways and not self._local.names
        self._answers = Answers(questions, ways)
        self.node.wake_after(self._window, "flow answers", self._period)
        for place, ask in list(questions.items()):
            self._send(place, ask)

    def _questions(self, places: list[Address]) -> dict[Address, Ask]:
        local, here = self._local, self.node.address
        sources: dict[int, dict[str, None]] = {}
        published: dict[Address, dict[str, None]] = {}
        readers: dict[Address, dict[str, None]] = {}
        pieces = local.pieces()
        own = {piece.name for piece in pieces}
        for piece in pieces:
            for stream in piece.inputs:
                place = local.place(stream)
                if place.tree is not None:
                    sources.setdefault(place.tree, {})[stream] = None
                elif stream not in own:
                    published.setdefault(place.host, {})[stream] = None
            for name, hop, _ in local.read_by(piece.name):
                if hop != here:
                    readers.setdefault(hop, {}).update({name: None} if local.of_ways else {})
        by_tree = tuple((tree, tuple(sorted(streams))) for tree, streams in sorted(sources.items()))
        return {
            place: Ask(self._period, by_tree, tuple(published.get(place, ())), tuple(readers.get(place, ())))
            for place in dict.fromkeys((here, *places, *published, *readers))
        }

    def _told(self, message: Told, sender: Address) -> None:
        answers = self._answers
        if answers is None or message.period != self._period or sender not in answers.asked:
            return
        answers.told[sender] = message
        if answers.all_told:
            further = answers.missing()
            sources = answers.asked[self.node.address].sources
            answers.asked.update((site, Ask(self._period, sources, (), ())) for site in further)
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

    def _ask(self, message: Ask, sender: Address) -> None:
        if self._statistics.is_over(message.period):
            self._answer(message, sender)
        else:
            self._waiting.append((message, sender))

    def answer_waiting(self) -> None:
        """A round is over here: answer those who asked before."""
        waiting, self._waiting = self._waiting, []
        for message, sender in waiting:
            self._ask(message, sender)

    def _answer(self, message: Ask, sender: Address) -> None:
        local = self._local
        known = {piece.name: piece for piece in local.pieces()}
        published = tuple(
            Published(
                stream,
                known[stream].rates.items,
                known[stream].rates.bytes,
                tuple((hop, share) for hop, share in sorted(local.read_at(stream).items()) if hop != sender),
            )
            for stream in message.published
            if stream in known and (known[stream].measured or local.of_ways)
        )
        readers = tuple(reading for reading in map(local.reading, message.readers) if reading is not None)
        uplinks = tuple(self._uplink(tree, sources) for tree, sources in message.sources)
        self._send(sender, Told(message.period, local.totals(), uplinks, published, readers))

    def _uplink(self, tree: int, sources: tuple[str, ...]) -> Uplink | None:
        above = self._statistics.above(tree)
        shares = self._statistics.shares.get(tree, {})
        return None if above is None else Uplink(above, tuple(shares.get(source, 0) for source in sources))
