"""The router of a node: streams that are published here or pass through, and who gets which of their items.

Rules:

- Whoever publishes a stream numbers its elements. A reader knows the number of the last element it took; that
  position goes with it wherever it goes.
- A reader's subscription goes up, hop by hop, to the publisher. The publisher answers with what the reader
  has missed, and from that moment sends it what comes. The answer takes the same hops down; each sends on to
  the reader from the moment the answer passes. As connections keep the order, the reader gets every element
  after its position once and in order, whatever else changes meanwhile.
- An element goes over a connection once, if anybody behind it can use it: each hop knows their selections.
- The publisher keeps elements until every reader has acknowledged them. A reader that stops at one node to go
  on at another is still waited for. One that begins goes on from where the publisher knows it to be, if it
  does: an earlier answer may have been lost with the way it took.
- What is said of an earlier subscription of a reader than the one that counts is void.
- A subscription to a stream whose way is not known yet waits here.
- Streams and readers that were withdrawn are over: nothing is kept of them but their names, which are never
  used again, so that whatever is still said of them is known to be void.
- The way up a tree of sources leads from parent to parent to its root broker, and from there to the proxy of
  the source, which publishes it. When the way changes, all that was passed on is void, and every reader whose
  way it was subscribes anew. When a source changes trees, each node tells those below it, and a subscription
  that still goes the old way is sent back: nobody passes on what is older than what it knows.
- A node that nothing of a tree of sources passes any more leaves it.

Cost: an element costs one message for each connection it must take, batches of elements one together; state
is one route for each reader at every hop on its way, and the name of each that is over.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from distributary.flow import Item
from distributary.overlay.node import Address, Node
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.messages import (
    Element,
    JoinTree,
    LeaveTree,
    ReadAcknowledgement,
    Selection,
    StreamElements,
    StreamLocation,
    StreamMove,
    StreamReader,
    Subscribe,
    SubscriptionGrant,
    SubscriptionRedirect,
    TreeParent,
    Unsubscribe,
    whole,
)
from distributary.systems.queries.publications import EVERYTHING as EVERYTHING
from distributary.systems.queries.publications import StreamPublication as StreamPublication
from distributary.systems.queries.publications import fit
from distributary.systems.queries.publications import selects as selects

LATELY = 64
"""How many readers that were to be forgotten are told of again when the way up a tree changes."""


class ReaderRoute(NamedTuple):
    """The next hop to a reader, which may be this node, and what the reader can use."""

    hop: Address
    selection: Selection


class PendingSubscription(NamedTuple):
    """A subscription that is not granted yet, and who it came from."""

    hop: Address
    message: Subscribe


class Router:
    """Subscriptions, routes and publications of one node."""

    def __init__(
        self,
        node: Node,
        connections: Connections,
        registry: Address,
        take: Callable[[str, StreamReader, Sequence[Element]], None],
        moved: Callable[[str], None],
        wanted: Callable[[str], None],
    ) -> None:
        self.node = node
        self.send = connections.send
        self.tell_registry: Callable[[object], None] = lambda message: connections.send(registry, message)
        self.publications: dict[str, StreamPublication] = {}
        self.places: dict[str, StreamLocation] = {}
        """Where streams are, as far as this node has heard."""
        self.parents: dict[int, Address] = {}
        """The parent in each tree of sources that this node has joined."""
        self.proxies: dict[str, Address] = {}
        """Of the sources whose root broker this is."""
        self.routes: dict[str, dict[StreamReader, ReaderRoute]] = {}
        self.passed = 0
        """Elements sent on to other nodes."""
        self.on_void: Callable[[str], None] = lambda stream: None
        """Told of a stream that was published here, and that somebody has gone on with from a checkpoint."""
        self._take = take
        self._moved = moved
        self._wanted = wanted
        self._asked: dict[tuple[str, StreamReader], PendingSubscription] = {}
        """Subscriptions that were passed on and are not granted yet."""
        self._waiting: dict[str, list[tuple[Subscribe | Unsubscribe | ReadAcknowledgement, Address]]] = {}
        self._forgets: deque[Unsubscribe] = deque(maxlen=LATELY)
        """Readers here that were to be forgotten lately: that may be lost with a node on the way."""
        self._joining: set[int] = set()
        self._over: set[str] = set()
        for kind, handler in (
            (Subscribe, self._subscribe),
            (SubscriptionGrant, self._granted),
            (Unsubscribe, self._unsubscribe),
            (ReadAcknowledgement, self._acknowledged),
            (StreamElements, self._elements),
            (StreamMove, self._stream_moved),
            (SubscriptionRedirect, self._bounced),
        ):
            node.handle(kind, self._unless_over(handler))
        node.handle(TreeParent, self._parent)
        node.at_alarm("flow idle tree", self._leave_if_idle)

    # Publishing

    def publish(self, stream: str, items: Sequence[Item], watermark: int) -> None:
        """Send new items, and how far time has come, to all who asked."""
        elements = self.publications[stream].number_all(items, watermark)
        if elements:
            self._send_on(stream, elements)

    def install(self, stream: str, publication: StreamPublication, place: StreamLocation) -> None:
        """Publish a stream here from now on; those who waited for it are served."""
        self.publications[stream] = publication
        self.places[stream] = place
        self._begin_again(stream)
        self._serve(stream)

    def root(self, source: str, place: StreamLocation, proxy: Address) -> None:
        """Be the root broker of a source from now on: what it gives comes from its proxy."""
        assert place.tree is not None
        known = self.places.get(source)
        if proxy != self.node.address:
            self.proxies[source] = proxy
        self.parents.pop(place.tree, None)
        self._joining.discard(place.tree)
        if known is not None and place.moves != known.moves:
            self.learn([(source, place)])
        else:
            self.places[source] = place
            if known is not None and source not in self.publications:
                self._by_another_way(source, passing=True)
        self._serve(source)

    def withdraw(self, stream: str, host: Address) -> tuple[StreamPublication, StreamLocation]:
        """Publish a stream no more; whoever reads it finds it at another host."""
        publication = self.publications.pop(stream)
        place = StreamLocation(host, None, self.places[stream].moves + 1)
        hops = dict.fromkeys(route.hop for route in self.routes.get(stream, {}).values())
        for hop in hops:
            if hop != self.node.address:
                self.send(hop, StreamMove(stream, place))
        self.learn([(stream, place)])
        return publication, place

    def dismiss(self, stream: str) -> None:
        """Wait for nobody who reads a stream that is published here."""
        publication = self.publications[stream]
        publication.acknowledged.clear()
        publication.turns.clear()
        publication.kept.clear()
        self.routes.pop(stream, None)

    # Withdrawing

    def over(self, name: str) -> bool:
        """Whether an operator, or the one it is a replica of, or a client was withdrawn."""
        return name in self._over or whole(name) in self._over

    def withdraw_all(self, names: Iterable[str]) -> list[str]:
        """Keep nothing of streams and readers that are over; returns streams that nobody reads any more."""
        self._over.update(names)
        for known in (self.publications, self.places, self.routes, self._waiting):
            for stream in [stream for stream in known if self.over(stream)]:
                del known[stream]
        for stream, routes in list(self.routes.items()):
            self.routes[stream] = {reader: to for reader, to in routes.items() if not self.over(reader.name)}
        self.routes = {stream: routes for stream, routes in self.routes.items() if routes}
        for stream, reader in list(self._asked):
            if self.over(stream) or self.over(reader.name):
                del self._asked[stream, reader]
        for stream, waiting in self._waiting.items():
            self._waiting[stream] = [each for each in waiting if not self.over(each[0].reader.name)]
        self._waiting = {stream: waiting for stream, waiting in self._waiting.items() if waiting}
        for tree in list(self.parents):
            self._leave_if_idle(tree)
        return [name for name, one in self.publications.items() if one.forget_those(self.over)]

    def _unless_over(self, handler: Callable[[Any, Address], None]) -> Callable[[Any, Address], None]:
        def handle(message: Any, sender: Address) -> None:
            reader = getattr(message, "reader", None)
            if not self.over(message.stream) and not (reader is not None and self.over(reader.name)):
                handler(message, sender)

        return handle

    def _leave_if_idle(self, tree: int) -> None:
        """Leave a tree of sources that nothing passes here."""
        served = [stream for stream, routes in self.routes.items() if routes]
        busy = (*served, *self._waiting, *(stream for stream, _ in self._asked))
        if tree in self.parents and not any(self._on_tree(stream, tree) for stream in busy):
            del self.parents[tree]
            self._joining.discard(tree)
            self.tell_registry(LeaveTree(tree))

    # Reading

    def subscribe(
        self, stream: str, reader: StreamReader, selection: Selection, position: int | None
    ) -> None:
        """Have a reader of this node sent a stream from its position on."""
        here = self.node.address
        self._subscribe(Subscribe(stream, reader, selection, position, self.places[stream]), here)

    def unsubscribe(self, stream: str, reader: StreamReader, *, forget: bool) -> None:
        """Send a reader of this node nothing more."""
        if not self.over(stream) and not self.over(reader.name):
            message = Unsubscribe(stream, reader, forget)
            if forget and stream not in self.publications:
                self._forgets.append(message)
            self._unsubscribe(message, self.node.address)

    def acknowledge(self, stream: str, reader: StreamReader, position: int) -> None:
        """Say that a reader of this node needs nothing up to its position any more."""
        if not self.over(stream) and not self.over(reader.name):
            self._acknowledged(ReadAcknowledgement(stream, reader, position), self.node.address)

    def learn(self, places: Iterable[tuple[str, StreamLocation]]) -> None:
        """Hear where streams are; what is older than what is known is no news."""
        for stream, place in places:
            known = self.places.get(stream)
            if known is None or place.moves > known.moves:
                self.places[stream] = place
                if stream in self.publications and place.tree is None and place.host != self.node.address:
                    del self.publications[stream]
                    self.on_void(stream)
                if known is not None and known.tree is not None:
                    self._tell_below(stream, place)
                    self.node.wake_after(0.0, "flow idle tree", known.tree)
                if known is not None:
                    self._begin_again(stream)
                if stream in self._waiting and (stream in self.publications or self._hop(stream) is not None):
                    self._serve(stream)

    def _tell_below(self, stream: str, place: StreamLocation) -> None:
        """Tell all who get a source by this node, or want to, that it is on another tree."""
        hops = [route.hop for route in self.routes.get(stream, {}).values()]
        hops += [asked.hop for (name, _), asked in self._asked.items() if name == stream]
        hops += [sender for _, sender in self._waiting.get(stream, ())]
        for hop in dict.fromkeys(hops):
            if hop != self.node.address:
                self.send(hop, StreamMove(stream, place))

    def drop(self, node: Address) -> None:
        """Forget everybody who was served by way of a node that is gone."""
        for routes in self.routes.values():
            for reader in [reader for reader, route in routes.items() if route.hop == node]:
                del routes[reader]
        for key in [key for key, asked in self._asked.items() if asked.hop == node]:
            del self._asked[key]
        for stream, waiting in self._waiting.items():
            self._waiting[stream] = [each for each in waiting if each[1] != node]

    def absent(self) -> list[tuple[str, StreamReader]]:
        """Readers of streams published here that are waited for, and that no route leads to now."""
        found = []
        for stream, publication in self.publications.items():
            served = {(reader.name, reader.input) for reader in self.routes.get(stream, ())}
            found += [
                (stream, StreamReader(*key, publication.turns.get(key, 0)))
                for key in publication.acknowledged
                if key not in served
            ]
        return found

    def _begin_again(self, stream: str) -> None:
        """All routes of a stream are void, for it has moved; the readers here subscribe anew."""
        self.routes.pop(stream, None)
        for asked in [asked for asked in self._asked if asked[0] == stream]:
            del self._asked[asked]
        here = self.node.address
        others = [each for each in self._waiting.pop(stream, ()) if each[1] != here]
        if others:
            self._waiting[stream] = others
        self._moved(stream)

    # What comes from below

    def _subscribe(self, message: Subscribe, sender: Address) -> None:
        stream, reader, _, _, place = message
        self.hear([(stream, place)])
        publication, known = self.publications.get(stream), self.places[stream]
        if sender != self.node.address and place.moves > known.moves:
            self._waiting.setdefault(stream, []).append((message, sender))  # this node will hear of it
        elif sender != self.node.address and self._has_left(stream, place):
            self.send(sender, SubscriptionRedirect(stream, reader, known))
        elif publication is not None:
            self._grant(publication, message, sender)
        else:
            self._asked[stream, reader] = PendingSubscription(sender, message)
            self._up(message, sender)

    def _is_news(self, stream: str, place: StreamLocation) -> bool:
        """Whether to believe a reader: not that the stream is here, which this node will hear first hand."""
        return place.host != self.node.address or stream not in self.places

    def _has_left(self, stream: str, believed: StreamLocation) -> bool:
        """Whether the stream is elsewhere, without a tree that leads there, or has changed trees since."""
        place = self.places[stream]
        if place.tree is not None:
            return believed.moves < place.moves
        return place.host != self.node.address and stream not in self.publications

    def _grant(self, publication: StreamPublication, message: Subscribe, sender: Address) -> None:
        stream, reader, selection, position, _ = message
        start = publication.welcome(reader, position)
        if start is None:
            return  # overtaken by a later subscription
        self._asked[stream, reader] = PendingSubscription(sender, message)
        self._granted(
            SubscriptionGrant(stream, reader, publication.since(start, selection)), self.node.address
        )
        self._wanted(stream)

    def _unsubscribe(self, message: Unsubscribe, sender: Address) -> None:
        stream, reader, forget = message
        self._asked.pop((stream, reader), None)
        self.routes.get(stream, {}).pop(reader, None)
        publication = self.publications.get(stream)
        if publication is None:
            self._up(message, sender)
        elif forget:
            publication.forget(reader)

    def _acknowledged(self, message: ReadAcknowledgement, sender: Address) -> None:
        stream, reader, position = message
        publication = self.publications.get(stream)
        if publication is None:
            self._up(message, sender)
        elif (reader.name, reader.input) in publication.acknowledged:
            publication.acknowledge(reader.name, reader.input, position)

    def _up(self, message: Subscribe | Unsubscribe | ReadAcknowledgement, sender: Address) -> None:
        """Pass a message on towards the publisher, or keep it until the way is known."""
        hop = self._hop(message.stream)
        if hop is None:
            self._waiting.setdefault(message.stream, []).append((message, sender))
        else:
            self.send(hop, message)

    def _hop(self, stream: str) -> Address | None:
        place = self.places.get(stream)
        if place is None:
            return None
        if place.tree is None:
            return place.host if place.host != self.node.address else None
        if place.host == self.node.address:
            return self.proxies.get(stream)
        parent = self.parents.get(place.tree)
        if parent is None and place.tree not in self._joining:
            self._joining.add(place.tree)
            self.tell_registry(JoinTree(place.tree))
            parent = self.parents.get(place.tree)  # known at once where the registry is
        return parent

    # What comes from above

    def _granted(self, message: SubscriptionGrant, sender: Address) -> None:
        stream, reader, elements = message
        asked = self._asked.pop((stream, reader), None)
        if asked is None:
            return  # given up meanwhile
        route = ReaderRoute(asked.hop, asked.message.selection)
        routes = self.routes.setdefault(stream, {})
        for other in [other for other in routes if other[:2] == reader[:2]]:
            del routes[other]
        routes[reader] = route
        if route.hop == self.node.address:
            self._take(stream, reader, elements)
        else:
            self.send(route.hop, message)

    def _elements(self, message: StreamElements, sender: Address) -> None:
        if not self.routes.get(message.stream):
            return  # nobody here wants it any more
        if sender == self._hop(message.stream):  # else it was sent before the stream moved: see `_grant`
            self._send_on(message.stream, message.elements)

    def _send_on(self, stream: str, elements: Sequence[Element]) -> None:
        hops: dict[Address, list[Selection]] = {}
        for reader, route in list(self.routes.get(stream, {}).items()):
            if route.hop == self.node.address:
                usable = fit(elements, [route.selection])
                if usable:
                    self._take(stream, reader, usable)
            else:
                hops.setdefault(route.hop, []).append(route.selection)
        for hop, selections in hops.items():
            usable = fit(elements, selections)
            if usable:
                self.passed += len(usable)
                self.send(hop, StreamElements(stream, usable))

    def hear(self, places: Iterable[tuple[str, StreamLocation]]) -> None:
        """Hear from others where streams are; of what is here, this node knows best."""
        self.learn([(stream, place) for stream, place in places if self._is_news(stream, place)])

    def _stream_moved(self, message: StreamMove, sender: Address) -> None:
        self.hear([message])

    def _bounced(self, message: SubscriptionRedirect, sender: Address) -> None:
        stream, reader, place = message
        self.hear([(stream, place)])
        asked = self._asked.pop((stream, reader), None)
        if asked is not None:
            self._subscribe(asked.message._replace(place=self.places[stream]), asked.hop)

    def _parent(self, message: TreeParent, sender: Address) -> None:
        tree, parent = message
        before = self.parents.get(tree)
        self.parents[tree] = parent
        if before is not None:
            for stream in [name for name in self.places if self._on_tree(name, tree)]:
                if stream not in self.publications:
                    self._by_another_way(stream, before != parent)
        for stream in [name for name in self._waiting if self._on_tree(name, tree)]:
            self._serve(stream)
        # Not at once: who asked for the parent may be about to use it.
        self.node.wake_after(0.0, "flow idle tree", tree)

    def _by_another_way(self, stream: str, passing: bool) -> None:
        """The way up has changed: readers here subscribe anew, and what was passed on is passed on again.

        Those below are sent nothing until they have subscribed anew: they may have missed something.
        """
        here = self.node.address
        self.routes.pop(stream, None)
        for key, asked in list(self._asked.items()):
            if key[0] == stream and asked.hop == here:
                del self._asked[key]
            elif key[0] == stream and passing:
                self._up(asked.message, asked.hop)
        for message in self._forgets:
            if message.stream == stream:
                self._up(message, here)
        self._moved(stream)

    def _on_tree(self, stream: str, tree: int) -> bool:
        place = self.places.get(stream)
        return place is not None and place.tree == tree

    def _serve(self, stream: str) -> None:
        """What waited for a stream goes its way."""
        for message, sender in self._waiting.pop(stream, ()):
            if isinstance(message, Subscribe):
                self._subscribe(message, sender)
            elif isinstance(message, Unsubscribe):
                self._unsubscribe(message, sender)
            else:
                self._acknowledged(message, sender)
