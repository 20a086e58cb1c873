"""The shares of the queries whose clients are at a node: what is delivered of the answers, and what is told.

Rules:

- A client is told its query's share when that changes, and from which time of items on it is in force
  (`QueryShare`). It is delivered exactly those true answers whose unit survives at the least share in force
  in all the time that they come of (`flow.thinning`).
- A change comes into force after all answers that were decided before, and at the beginning of a unit. The
  node promises a smaller share to the registry before any operator leaves anything out for it; a larger one
  comes into force after the last item that any node has left out.
- When a query has its whole share again, and no item of its streams can come any more that lacks anything,
  the registry is told: then others may read these streams, too.

Cost: a hash for each answer while the share is below 1; a message to the registry for each change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from distributary.flow import BEGINNING, Item
from distributary.flow.thinning import ShareSchedule, ThinningUnit, survives
from distributary.overlay.node import Address, Message, Node


@dataclass(frozen=True)
class QueryShare:
    """What part of its answers a query's client gets, from a time of items on; delivered when it changes."""

    query: str
    share: float
    since: int
    """In milliseconds, as the items' times."""
    refused: str | None = None
    """Why it is not thinned out, where others are."""


class ShareOrder(NamedTuple):
    """To the node of a query's client: give the query another share."""

    serial: int
    query: str
    share: float
    after: int
    """The time of the latest item that any node has left out."""
    unit: ThinningUnit
    """With the names that streams have in the network."""


class ShareAgreement(NamedTuple):
    """To the registry: an order is in force from a time on."""

    serial: int
    since: int


class WholeAgain(NamedTuple):
    """To the registry: from here on nothing is missing in the streams of a query that was thinned out."""

    serial: int


class SheddingRefusal(NamedTuple):
    """To the node of a query's client: there is too much to do, and the query cannot be thinned out."""

    query: str
    reason: str


@dataclass
class ClientShare:
    """A query with a client at this node."""

    readers: tuple[str, ...]
    """As whom the client reads the query's outputs."""
    latest: int = BEGINNING
    """The latest time of an answer that has come, delivered or not."""
    unit: ThinningUnit | None = None
    """Known once the query is thinned out."""
    schedule: ShareSchedule = field(default_factory=ShareSchedule)
    whole: tuple[int, int] | None = None
    """The order that gave back the whole share, and the time from which on nothing can be missing."""


class ClientShares:
    """What the clients of one node get of their queries' answers."""

    def __init__(
        self,
        node: Node,
        tell_registry: Callable[[Message], None],
        watermark_of: Callable[[str], int],
        seed: int,
    ) -> None:
        self._node = node
        self._tell_registry = tell_registry
        self._watermark_of = watermark_of
        """How far a reader at this node has come."""
        self._seed = seed
        self.queries: dict[str, ClientShare] = {}
        """Those with a client here, by name."""
        node.handle(ShareOrder, self._order)
        node.handle(SheddingRefusal, self._refusal)

    def begin(self, query: str, readers: Iterable[str]) -> None:
        """A query has been deployed for a client here."""
        self.queries[query] = ClientShare(tuple(readers))

    def end(self, query: str) -> None:
        """A query has been withdrawn."""
        self.queries.pop(query, None)

    def delivers(self, query: str, stream: str, item: Item) -> bool:
        """Whether an answer is delivered that has come by a stream."""
        known = self.queries.get(query)
        if known is None:
            return True
        known.latest = max(known.latest, item.time)
        if known.unit is None:
            return True
        share = known.schedule.least(*known.unit.reach(item.time))
        return share >= 1 or survives(known.unit.text(stream, item), share, self._seed)

    def check_whole(self) -> None:
        """Tell the registry of queries that have come so far that nothing is missing any more."""
        for known in self.queries.values():
            if known.whole is not None and self._watermark(known) >= known.whole[1]:
                self._tell_registry(WholeAgain(known.whole[0]))
                known.whole = None

    def _watermark(self, known: ClientShare) -> int:
        return min(map(self._watermark_of, known.readers), default=BEGINNING)

    def _order(self, order: ShareOrder, sender: Address) -> None:
        known, unit = self.queries.get(order.query), order.unit
        if known is None:
            return  # withdrawn meanwhile
        known.unit = unit
        known.schedule.forget_before(unit.reach(self._watermark(known))[0])
        since = max(order.after + 1, unit.reach(known.latest)[1] + 1, known.schedule.since)
        if unit.piece is not None:
            since = -(-since // unit.piece) * unit.piece
        known.schedule.change(since, order.share)
        # Results that come of items on both sides of the change are not complete.
        complete = since + unit.back + unit.ahead
        known.whole = (order.serial, complete) if order.share >= 1 else None
        self._node.deliver(QueryShare(order.query, order.share, since))
        self._tell_registry(ShareAgreement(order.serial, since))

    def _refusal(self, message: SheddingRefusal, sender: Address) -> None:
        if message.query in self.queries:
            share = QueryShare(message.query, 1.0, BEGINNING, message.reason)
            self._node.deliver(share)
