"""How documents reach the homes of a HOPE system: each of them once, and only where somebody may want it.

The thesis sends publications, documents included, along the tree of vertices and from every vertex to its
homes (001, 4.5). A home with subscriptions at several vertices, or one that hosts vertices, then gets a
document several times, and hosts of vertices get documents that nobody there wants. Here an event travels
without its document, and homes get a *notice* that names the *holders* that have it whole. A home asks for it
once.

Rules:

- The publisher is the first holder. With stored events or copies of lists, that is where failures are to be
  survived, the event goes whole to the vertex of its key, whose host is the second holder.
- A vertex notifies homes with a filter that the event's covers. A home ignores a notice of an event that it
  has had or has asked for, or that none of its subscriptions can match by topic and attributes. What filters,
  topic or attributes decide, no document is sent or parsed for.
- A holder that does not answer, or does not have the event any more, is passed over for the next one, and so
  on in turn, `TRIES` times.
- An event without a document is carried by its notices, for there is nothing to spare.

Cost: a notice from every vertex that knows the home; a request and the document for each home. The publisher
sends a copy to each home, where the tree would spread that work over the hosts of vertices.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from distributary.model import Event, EventKey
from distributary.overlay.node import Address, Message, Node
from distributary.systems.home import Home
from distributary.systems.hope.messages import DocumentReply, DocumentRequest, EventNotice, XmlPublication

HELD = 4096
"""How many events a holder keeps for homes that ask."""
PATIENCE = 3.0
"""Seconds after which another holder is asked."""
TRIES = 8
"""How often an event is asked for before it is given up."""


@dataclass
class _Awaited:
    """An event that was asked for: who may have it, and how often somebody was asked."""

    holders: list[Address]
    asked: int = 0


class DocumentExchange:
    """The part of a node that holds what it has published, and asks others for what its clients may want."""

    def __init__(
        self,
        node: Node,
        home: Home,
        tell: Callable[[Address, Message], None],
        may_want: Callable[[Event], bool],
        *,
        retries: bool,
    ) -> None:
        """`may_want` says whether an event, seen without its document, may match a subscription here."""
        self._node = node
        self._home = home
        self._tell = tell
        self._may_want = may_want
        self._retries = retries
        self._held: OrderedDict[EventKey, Event] = OrderedDict()
        self._awaited: dict[EventKey, _Awaited] = {}
        node.handle(EventNotice, self._noticed)
        node.handle(DocumentRequest, self._asked)
        node.handle(DocumentReply, self._arrived)
        node.at_alarm("hope document", self._overdue)
        node.at_start(self._ask_again)

    def hold(self, event: Event) -> None:
        """Keep an event for homes that ask, in place of the oldest beyond the limit."""
        self._held[event.key] = event
        if len(self._held) > HELD:
            self._held.popitem(last=False)

    def notify(self, homes: Iterable[Address], publication: XmlPublication) -> None:
        """Tell some homes of an event."""
        notice = EventNotice(publication.event, publication.holders)
        for home in homes:
            self._tell(home, notice)

    # At homes.

    def _noticed(self, message: EventNotice, sender: Address) -> None:
        key = message.event.key
        if self._home.was_offered(key):
            return
        if not message.holders or key in self._held:
            self._home.offer(self._held.get(key, message.event))
        elif key in self._awaited:
            holders = self._awaited[key].holders
            holders += [holder for holder in message.holders if holder not in holders]
        elif self._may_want(message.event):
            self._awaited[key] = _Awaited(list(message.holders))
            self._ask(key)

    def _ask(self, key: EventKey) -> None:
        awaited = self._awaited[key]
        if awaited.asked == TRIES:
            del self._awaited[key]
            return
        holder = awaited.holders[awaited.asked % len(awaited.holders)]
        awaited.asked += 1
        if self._retries:
            self._node.wake_after(PATIENCE, "hope document", (key, awaited.asked))
        self._tell(holder, DocumentRequest(key))

    def _overdue(self, about: tuple[EventKey, int]) -> None:
        key, asked = about
        if key in self._awaited and self._awaited[key].asked == asked:
            self._ask(key)

    def _arrived(self, message: DocumentReply, sender: Address) -> None:
        if message.event is not None:
            self._awaited.pop(message.key, None)
            self._home.offer(message.event)
        elif message.key in self._awaited:
            self._ask(message.key)

    def _ask_again(self) -> None:
        """After a restart, whose alarms are gone."""
        for key in list(self._awaited):
            self._ask(key)

    # At holders.

    def _asked(self, message: DocumentRequest, sender: Address) -> None:
        self._tell(sender, DocumentReply(message.event, self._held.get(message.event)))


def without_document(event: Event) -> Event:
    """The event as its notices carry it.

    >>> without_document(Event("e", topic="A", document="<a/>")) == Event("e", topic="A")
    True
    """
    return event if event.document is None else replace(event, document=None)
