"""What a node asks its neighbourhood before it weighs changes of its operators (003, 5.4.5).

Rules:

- Asked are the places that operators could go to: neighbours in the trees, hosts of those that the operators
  read and of those that read them, and nodes that were heard of (`flow_statistics`). Nobody else is.
- Each answers what it does in all, what it publishes of the streams asked for, and who reads those how much.
- For each tree whose sources the operators read, the question goes on from there to the root, hop by hop.
  Each hop adds what it does in all, and how much of each source is asked for on its link; the root answers.
- Whoever does not answer within the window is no place to go to in this period.

Cost: for each place asked, two messages, and for each tree the hops to its root; their size depends on the
streams that the operators here exchange with other nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from distributary.overlay.node import Address, Node
from distributary.systems.flow_local import Local, Reading
from distributary.systems.flow_statistics import Statistics


class Ask(NamedTuple):
    """To a place that operators could go to."""

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


class Told(NamedTuple):
    """The answer."""

    period: int
    totals: tuple[float, ...]
    published: tuple[Published, ...]
    readers: tuple[Reading, ...]


class Hop(NamedTuple):
    """A node on the way to a root."""

    site: Address
    totals: tuple[float, ...]
    shares: tuple[int, ...]
    """How much of each source is asked for there and below."""


class Climb(NamedTuple):
    """A question on its way to a root."""

    period: int
    asker: Address
    place: Address
    tree: int
    sources: tuple[str, ...]
    way: tuple[Hop, ...]


class Way(NamedTuple):
    """The way from a place to the root of a tree, from the root."""

    period: int
    place: Address
    tree: int
    way: tuple[Hop, ...]


ASKING = (Ask, Told, Climb, Way)


@dataclass
class Answers:
    """What has been answered so far in a period."""

    asked: Mapping[Address, Ask]
    told: dict[Address, Told] = field(default_factory=dict)
    ways: dict[tuple[Address, int], tuple[Hop, ...]] = field(default_factory=dict)

    def complete(self, place: Address) -> bool:
        """Whether all is known of a place."""
        return place in self.told and all((place, tree) in self.ways for tree, _ in self.asked[place].sources)

    @property
    def all_complete(self) -> bool:
        return all(self.complete(place) for place in self.asked)


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
        for kind, handler in ((Ask, self._ask), (Told, self._told), (Climb, self._climb), (Way, self._way)):
            node.handle(kind, handler)  # type: ignore[arg-type]
        node.at_alarm("flow answers", self._at_last)

    # Asking

    def begin(self, places: Iterable[Address]) -> None:
        """Ask all these places about what the operators here read and are read by."""
        self._period = self._statistics.period
        questions = self._questions(list(places))
        self._answers = Answers(questions)
        self.node.wake_after(self._window, "flow answers", self._period)
        for place, ask in questions.items():
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
        if self._answers is not None and message.period == self._period:
            self._answers.told[sender] = message
            self._weigh_if_complete()

    def _way(self, message: Way, sender: Address) -> None:
        if self._answers is not None and message.period == self._period:
            self._answers.ways[message.place, message.tree] = message.way
            self._weigh_if_complete()

    def _weigh_if_complete(self) -> None:
        if self._answers is not None and self._answers.all_complete:
            self._at_last(self._period)

    def _at_last(self, period: int) -> None:
        answers = self._answers
        if answers is not None and period == self._period:
            self._answers = None
            self._weigh(answers)

    # Answering

    def _ask(self, message: Ask, sender: Address) -> None:
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
        self._send(sender, Told(message.period, local.totals(), published, readers))
        for tree, sources in message.sources:
            self._climb(Climb(message.period, sender, self.node.address, tree, sources, ()), sender)

    def _climb(self, message: Climb, sender: Address) -> None:
        """Add what is known here, and pass the question on to the root, or answer it there."""
        round, here = self._statistics.round, self.node.address
        if (
            round is None
            or message.tree >= len(round.positions)
            or any(hop.site == here for hop in message.way)
        ):
            return
        shares = self._statistics.shares.get(message.tree, {})
        hop = Hop(here, self._local.totals(), tuple(shares.get(source, 0) for source in message.sources))
        way = (*message.way, hop)
        parent = round.positions[message.tree].parent
        if parent is None:
            self._send(message.asker, Way(message.period, message.place, message.tree, way))
        else:
            self._send(parent, message._replace(way=way))
