"""The pub/sub manager and router of a node: streams that are published here or pass through.

Rules:

- The publisher of a stream numbers its elements. A reader knows the number of the last element it took; that
  position goes with it wherever it goes.
- A reader's subscription goes up, hop by hop, to the publisher. The publisher answers with a grant: what the
  reader has missed, and from that moment it sends what comes. The grant takes the same hops down; each hop
  serves the reader from the moment the grant passes. As connections keep the order, the reader gets every
  element after its position once and in order, whatever else changes meanwhile.
- An element goes over a connection once, if any reader behind it can use it: each hop knows their selections.
- The publisher keeps elements until every reader has acknowledged them. A reader that stops at one node to
  continue at another is still waited for. A reader without a position continues from where the publisher
  knows it to be, if it does: an earlier grant may have been lost on its way.
- Messages about an earlier subscription of a reader than the latest are ignored.
- A subscription that is passed on again because the way up has changed may meet itself further up, and which
  copy comes last says nothing. So all from whom it came are served: a node that gets something by another way
  than its own ignores it, and prunes that way.
- A subscription to a stream whose next hop is not known yet is deferred.
- Of withdrawn streams and readers only the names are kept. Names are never used again, so whatever is still
  said of them can be ignored.
- The way up a tree of sources leads from parent to parent to its root broker, and from there to the proxy of
  the source, which publishes it. When the way changes, all routes are void, and every reader whose way it was
  subscribes again. When a source changes trees, each node tells those below it, and a subscription that still
  goes the old way is redirected: no node forwards what is older than what it knows.
- A node leaves a tree of sources when nothing of it passes the node any more.

Cost: an element costs one message for each connection it must take, batches of elements one together; state
is one route for each reader at every hop on its way, and the name of each that was withdrawn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from distributary.flow import Item
from distributary.overlay.node import Address
from distributary.systems.queries import messages
from distributary.systems.queries.links import LinkTable
from distributary.systems.queries.messages import Element, Selection, StreamLocation, StreamReader
from distributary.systems.queries.publications import StreamPublication, usable
from distributary.systems.queries.registry_failover import RegistryLink
from distributary.systems.queries.retention import discard
from distributary.systems.queries.routes import (
    LocalReaders,
    PendingSubscription,
    ReaderRoute,
    Upward,
    remove_hop,
    with_hops,
)
from distributary.systems.queries.stream_trees import (
    JoinInvitation,
    JoinStream,
    LeaveStream,
    StreamParent,
    StreamParentConfirmation,
    StreamTrees,
    StreamTreeSettings,
)
from distributary.systems.queries.ways import StreamWays

STREAM_MESSAGES = (
    *(messages.StreamElements, messages.StreamMove, messages.Prune),
    *(JoinInvitation, JoinStream, StreamParent),
)
"""Messages about a stream; others are about one reader of it."""
MOST_FORGETS = 64
"""How many of the last requests to forget a reader are repeated when the way up a tree changes."""


class Router(StreamWays):
    """Subscriptions, routes and publications of one node."""

    def __init__(
        self,
        registry: RegistryLink,
        readers: LocalReaders,
        trees: StreamTreeSettings | None = None,
        links: Callable[[], LinkTable] = LinkTable,
    ) -> None:
        super().__init__(registry)
        node = self.node
        self.publications: dict[str, StreamPublication] = {}
        self.routes: dict[str, dict[StreamReader, ReaderRoute]] = {}
        self._send = registry.connections.send
        self._readers = readers
        self._pending: dict[tuple[str, StreamReader], PendingSubscription] = {}
        """Subscriptions that were passed on and are not granted yet."""
        self._deferred: dict[str, list[tuple[Upward, Address]]] = {}
        """By stream, messages that wait until the next hop is known, and their senders."""
        self._forgets: deque[messages.Unsubscribe] = deque(maxlen=MOST_FORGETS)
        """The last requests to forget readers of this node: they may be lost with a node on the way."""
        self._withdrawn: set[str] = set()
        settings = trees or StreamTreeSettings()
        self.stream_trees = StreamTrees(node, self._send, settings, self._version_of, links)
        self._handlers: dict[type, Callable[[Any, Address], None]] = {
            messages.Subscribe: self._subscribe,
            messages.SubscriptionGrant: self._granted,
            messages.Unsubscribe: self._unsubscribe,
            messages.ReadAcknowledgement: self._acknowledged,
            messages.StreamElements: self._elements,
            messages.StreamMove: lambda message, sender: self.learn_from_others([message]),
            messages.SubscriptionRedirect: self._redirected,
            messages.Prune: self._prune,
            JoinInvitation: self._invited,
            JoinStream: self._join_stream,
            StreamParent: self._stream_parent,
        }
        for kind in self._handlers:
            node.handle(kind, self._unless_withdrawn)
        node.handle(messages.TreeParent, self._parent)
        node.at_alarm("flow idle tree", self._leave_if_idle)

    def _unless_withdrawn(self, message: Any, sender: Address) -> None:
        reader = () if isinstance(message, STREAM_MESSAGES) else (message.reader.name,)
        if not self.is_withdrawn(message.stream, *reader):
            self._handlers[type(message)](message, sender)

    # Publishing

    def publish(self, stream: str, items: Sequence[Item], watermark: int) -> None:
        """Send new items, and the watermark after them, to all readers."""
        elements = self.publications[stream].append(items, watermark)
        if elements:
            self._forward(stream, elements)

    def install(self, stream: str, publication: StreamPublication, location: StreamLocation) -> None:
        """Publish a stream here from now on; deferred subscriptions are served."""
        self.publications[stream] = publication
        self.locations[stream] = location
        self.stream_parents.pop(stream, None)
        self._announce_below(stream, location)
        self._void_routes(stream)
        self._resume(stream)

    def become_root(self, source: str, location: StreamLocation, proxy: Address) -> None:
        """Be the root broker of a source from now on: its stream comes from its proxy."""
        assert location.tree is not None
        known = self.locations.get(source)
        if proxy != self.node.address:
            self._proxies[source] = proxy
        self.parents.pop(location.tree, None)
        self._joining.discard(location.tree)
        if known is not None and location.version != known.version:
            self.learn([(source, location)])
        else:
            self.locations[source] = location
            if known is not None and source not in self.publications:
                self._reroute(source, pass_on=True)
        self._resume(source)

    def hand_over(self, stream: str, host: Address) -> tuple[StreamPublication, StreamLocation]:
        """Publish a stream no more; its readers are told to find it at another host."""
        publication = self.publications.pop(stream)
        self.stream_trees.forget([stream])
        location = StreamLocation(host, None, self.locations[stream].version + 1)
        self._announce(stream, location, self._served_hops(stream))
        self.learn([(stream, location)])
        return publication, location

    def drop_readers(self, stream: str) -> None:
        """Wait for no reader of a stream that is published here."""
        before = self.publications[stream]
        self.publications[stream] = StreamPublication(before.number, before.watermark)
        self.routes.pop(stream, None)

    # Withdrawing

    def is_withdrawn(self, *names: str) -> bool:
        """Whether an operator, or the one it is a replica of, or a client among these was withdrawn."""
        known = self._withdrawn
        return any(name in known or messages.whole_operator(name) in known for name in names)

    def withdraw(self, names: Iterable[str]) -> list[str]:
        """Free all state of withdrawn streams and readers; returns streams that have no reader any more."""
        self._withdrawn.update(names)
        tables = (self.publications, self.locations, self.routes, self._deferred, self.stream_parents)
        for known in (*tables, self.stream_trees.trees):
            discard(known, self.is_withdrawn)
        for routes in self.routes.values():
            discard(routes, lambda reader: self.is_withdrawn(reader.name))
        discard(self.routes, lambda stream: not self.routes[stream])
        discard(self._pending, lambda key: self.is_withdrawn(key[0], key[1].name))
        for deferred in self._deferred.values():
            deferred[:] = [each for each in deferred if not self.is_withdrawn(each[0].reader.name)]
        discard(self._deferred, lambda stream: not self._deferred[stream])
        for tree in list(self.parents):
            self._leave_if_idle(tree)
        for stream in list(self.stream_parents):
            self._leave_stream_if_idle(stream)
        for stream in self.stream_trees.trees:
            for child in self.stream_trees.children(stream):
                self._retire_child(stream, child)
        return [name for name, one in self.publications.items() if one.forget_all(self.is_withdrawn)]

    def remove_node(self, node: Address) -> None:
        """Forget all readers that were served by way of a node that has been removed."""
        for routes in self.routes.values():
            remove_hop(routes, node)
        remove_hop(self._pending, node)
        for deferred in self._deferred.values():
            deferred[:] = [each for each in deferred if each[1] != node]
        self.stream_trees.remove_node(node)

    def _leave_if_idle(self, tree: int) -> None:
        """Leave a tree of sources if nothing of it passes here."""
        served = [stream for stream, routes in self.routes.items() if routes]
        busy = (*served, *self._deferred, *(stream for stream, _ in self._pending))
        if tree in self.parents and not any(self._on_tree(stream, tree) for stream in busy):
            del self.parents[tree]
            self._joining.discard(tree)
            self.tell_registry(messages.LeaveTree(tree))

    def _leave_stream_if_idle(self, stream: str) -> None:
        """Leave the tree of an operator's stream if nothing of it passes here."""
        if stream in self.stream_parents and not self._passes(stream):
            del self.stream_parents[stream]
            self._send(self.locations[stream].host, LeaveStream(stream))

    def _passes(self, stream: str) -> bool:
        """Whether anything of a stream passes here, or is to."""
        waiting = stream in self._deferred or any(name == stream for name, _ in self._pending)
        return waiting or bool(self.routes.get(stream))

    def _retire_child(self, stream: str, child: Address) -> None:
        """Take a node out of the tree of a stream that is published here if no reader is served by it."""
        if child not in self._served_hops(stream):
            self.stream_trees.leave_root(stream, child)

    # Reading

    def subscribe(self, stream: str, reader: StreamReader, selection: Selection, after: int | None) -> None:
        """Have a reader of this node sent the elements of a stream after its position."""
        location, here = self.locations[stream], self.node.address
        self._subscribe(messages.Subscribe(stream, reader, selection, after, location, here), here)

    def unsubscribe(self, stream: str, reader: StreamReader, *, forget: bool) -> None:
        """Send a reader of this node nothing more; with `forget`, the publisher waits for it no more."""
        if not self.is_withdrawn(stream, reader.name):
            message = messages.Unsubscribe(stream, reader, forget)
            if forget and stream not in self.publications:
                self._forgets.append(message)
            self._unsubscribe(message, self.node.address)

    def acknowledge(self, stream: str, reader: StreamReader, position: int) -> None:
        """Tell the publisher that a reader of this node needs nothing up to its position any more."""
        self._unless_withdrawn(messages.ReadAcknowledgement(stream, reader, position), self.node.address)

    def unreachable_readers(self) -> list[tuple[str, StreamReader]]:
        """Readers of streams published here that are waited for, and that no route leads to now."""
        found = []
        for stream, publication in self.publications.items():
            served = {reader.key for reader in self.routes.get(stream, ())}
            waited_for = [key for key in publication.acknowledged if key not in served]
            found += [(stream, StreamReader(*key, publication.epochs.get(key, 0))) for key in waited_for]
        return found

    # Locations

    def learn(self, locations: Iterable[tuple[str, StreamLocation]]) -> None:
        """Take in where streams are, where that is newer than what is known; readers follow."""
        for stream, location in locations:
            known = self.locations.get(stream)
            if known is not None and location.version <= known.version:
                continue
            self.locations[stream] = location
            self.stream_parents.pop(stream, None)
            if stream in self.publications and location.tree is None and location.host != self.node.address:
                del self.publications[stream]
                self.stream_trees.forget([stream])
                self._readers.give_up(stream)
            if known is not None:
                self._announce_below(stream, location)
            if known is not None and known.tree is not None:
                self.node.wake_after(0.0, "flow idle tree", known.tree)
            if known is not None:
                self._void_routes(stream)
            published = stream in self.publications
            if stream in self._deferred and (published or self._next_hop(stream) is not None):
                self._resume(stream)

    def learn_from_others(self, locations: Iterable[tuple[str, StreamLocation]]) -> None:
        """Take in what others believe, unless it is that a known stream is here: this node knows better."""
        here = self.node.address
        self.learn([each for each in locations if each[1].host != here or each[0] not in self.locations])

    def _announce_below(self, stream: str, location: StreamLocation) -> None:
        """Tell all who get a stream by way of this node, or want to, that it is elsewhere."""
        asking = [hop for (name, _), one in self._pending.items() if name == stream for hop in one.hops]
        deferred = [sender for _, sender in self._deferred.get(stream, ())]
        self._announce(stream, location, [*self._served_hops(stream), *asking, *deferred])

    def _served_hops(self, stream: str) -> list[Address]:
        """The nodes that a stream is sent to from here."""
        return [hop for route in self.routes.get(stream, {}).values() for hop in route.hops]

    def _announce(self, stream: str, location: StreamLocation, hops: Iterable[Address]) -> None:
        for hop in dict.fromkeys(hops):
            if hop != self.node.address:
                self._send(hop, messages.StreamMove(stream, location))

    def _void_routes(self, stream: str) -> None:
        """A stream has moved: all routes are void, and the readers here subscribe again."""
        self.routes.pop(stream, None)
        discard(self._pending, lambda key: key[0] == stream)
        others = [each for each in self._deferred.pop(stream, ()) if each[1] != self.node.address]
        if others:
            self._deferred[stream] = others
        self._readers.resubscribe(stream)

    # What comes from below

    def _subscribe(self, message: messages.Subscribe, sender: Address) -> None:
        stream, reader, location = message.stream, message.reader, message.location
        self.learn_from_others([(stream, location)])
        publication, known = self.publications.get(stream), self.locations[stream]
        if sender != self.node.address and location.version > known.version:
            self._deferred.setdefault(stream, []).append((message, sender))  # this node will hear of it
        elif sender != self.node.address and self._has_left(stream, location):
            self._send(sender, messages.SubscriptionRedirect(stream, reader, known))
        elif publication is not None:
            direct = sender != self.node.address and known.tree is None
            if not direct or self.stream_trees.admits(stream, sender):
                self._grant(publication, message, sender)
        else:
            self._await_grant(message, sender)
            self._send_up(message, sender)

    def _grant(self, publication: StreamPublication, message: messages.Subscribe, sender: Address) -> None:
        stream, reader = message.stream, message.reader
        start = publication.add_reader(reader, message.position)
        if start is None:
            return  # overtaken by a later subscription
        self._await_grant(message, sender)
        missed = publication.since(start, message.selection)
        self._granted(messages.SubscriptionGrant(stream, reader, missed), self.node.address)
        self._readers.wake(stream)

    def _await_grant(self, message: messages.Subscribe, sender: Address) -> None:
        key = message.stream, message.reader
        self._pending[key] = PendingSubscription(with_hops(self._pending.get(key), [sender]), message)

    def _unsubscribe(self, message: messages.Unsubscribe, sender: Address) -> None:
        stream, reader, forget = message
        self._pending.pop((stream, reader), None)
        self.routes.get(stream, {}).pop(reader, None)
        publication = self.publications.get(stream)
        if publication is None:
            self._send_up(message, sender)
            self._leave_stream_if_idle(stream)
            return
        if forget:
            publication.forget(reader)
        self._retire_child(stream, sender)

    def _acknowledged(self, message: messages.ReadAcknowledgement, sender: Address) -> None:
        publication, key = self.publications.get(message.stream), message.reader.key
        if publication is None:
            self._send_up(message, sender)
        elif key in publication.acknowledged:
            publication.acknowledge(key, message.position)

    def _send_up(self, message: Upward, sender: Address) -> None:
        """Pass a message on towards the publisher, or defer it until the next hop is known."""
        hop = self._next_hop(message.stream)
        if hop is None:
            self._deferred.setdefault(message.stream, []).append((message, sender))
        else:
            self._send(hop, message)

    def _resume(self, stream: str) -> None:
        """Handle the messages that were deferred until the way to a stream's publisher is known."""
        for message, sender in self._deferred.pop(stream, ()):
            self._handlers[type(message)](message, sender)

    # What comes from above

    def _granted(self, message: messages.SubscriptionGrant, sender: Address) -> None:
        stream, reader, elements = message
        if sender not in (self.node.address, self._known_hop(stream)):
            return  # it took a way that has changed meanwhile; another grant will come
        pending = self._pending.pop((stream, reader), None)
        if pending is None:
            return  # given up meanwhile
        routes = self.routes.setdefault(stream, {})
        hops = with_hops(routes.get(reader), pending.hops)
        discard(routes, lambda other: other.key == reader.key)
        asked = pending.message
        routes[reader] = ReaderRoute(hops, asked.selection, hops[-1] if asked.at is None else asked.at)
        for hop in pending.hops:
            if hop == self.node.address:
                self._readers.take(stream, reader, elements)
            else:
                self._send(hop, message)

    def _elements(self, message: messages.StreamElements, sender: Address) -> None:
        # From another node it was sent before the way changed: the grant has all that is missed.
        on_the_way = sender == self._known_hop(message.stream)
        if on_the_way and self.routes.get(message.stream):
            self._forward(message.stream, message.elements)
        elif not on_the_way or not self._passes(message.stream):
            self._send(sender, messages.Prune(message.stream))

    def _forward(self, stream: str, elements: Sequence[Element]) -> None:
        """Give elements to readers here, and once to each next hop, as far as somebody there can use them."""
        hops: dict[Address, list[Selection]] = {}
        for reader, route in list(self.routes.get(stream, {}).items()):
            for hop in route.hops:
                if hop != self.node.address:
                    hops.setdefault(hop, []).append(route.selection)
                elif fitting := usable(elements, [route.selection]):
                    self._readers.take(stream, reader, fitting)
        for hop, selections in hops.items():
            if fitting := usable(elements, selections):
                self._send(hop, messages.StreamElements(stream, fitting))

    def _redirected(self, message: messages.SubscriptionRedirect, sender: Address) -> None:
        stream, reader, location = message
        self.learn_from_others([(stream, location)])
        pending = self._pending.pop((stream, reader), None)
        if pending is not None:
            for hop in pending.hops:
                self._subscribe(pending.message._replace(location=self.locations[stream]), hop)
        elif reader in self.routes.get(stream, {}) and sender == self._known_hop(stream):
            self._reroute(stream, pass_on=False)

    def _parent(self, message: messages.TreeParent, sender: Address) -> None:
        tree, parent = message
        before = self.parents.get(tree)
        self.tell_registry(messages.TreeParentConfirmation(tree))
        if before is None and tree not in self._joining:
            return  # it has left the tree
        self.parents[tree] = parent
        if before is not None:
            for stream in [name for name in self.locations if self._on_tree(name, tree)]:
                if stream not in self.publications:
                    self._reroute(stream, pass_on=before != parent)
        for stream in [name for name in self._deferred if self._on_tree(name, tree)]:
            self._resume(stream)
        # Not at once: whoever asked for the parent may be about to use it.
        self.node.wake_after(0.0, "flow idle tree", tree)

    def _invited(self, message: JoinInvitation, sender: Address) -> None:
        """Ask the host of a stream for a parent in its tree, and tell it the links to its members."""
        if self._passes(message.stream) and self.locations[message.stream].host == sender:
            links = self.stream_trees.links_to((sender, *message.members))
            self._send(sender, JoinStream(message.stream, links))

    def _join_stream(self, message: JoinStream, sender: Address) -> None:
        if message.stream in self.publications:
            self.stream_trees.join(message, sender)
        elif message.stream in self.locations:  # it has left, and the sender may not have been told
            self._announce(message.stream, self.locations[message.stream], [sender])

    def _stream_parent(self, message: StreamParent, sender: Address) -> None:
        stream, version, parent, changed = message
        location = StreamLocation(sender, None, version)
        self.learn([(stream, location)])
        if self.locations[stream] != location:
            return  # the stream has moved since
        before = self._known_hop(stream)
        self.stream_parents[stream] = parent
        self._send(sender, StreamParentConfirmation(stream))
        if changed or before != parent:
            self._reroute(stream, pass_on=before != parent)
        self._leave_stream_if_idle(stream)

    def _prune(self, message: messages.Prune, sender: Address) -> None:
        remove_hop(self.routes.get(message.stream, {}), sender)

    def _version_of(self, stream: str) -> int | None:
        return self.locations[stream].version if stream in self.publications else None

    def _reroute(self, stream: str, pass_on: bool) -> None:
        """The way up has changed: readers here subscribe again, pending subscriptions are passed on again.

        Readers below are sent nothing until they have subscribed again: they may have missed something. They
        are told so here, as what the tree tells them may have come before the way changed here.
        """
        here, location = self.node.address, self.locations[stream]
        for reader, route in self.routes.pop(stream, {}).items():
            for hop in route.hops:
                if hop != here:
                    self._send(hop, messages.SubscriptionRedirect(stream, reader, location))
        for key, pending in list(self._pending.items()):
            if key[0] == stream and here in pending.hops:
                del self._pending[key]
            elif key[0] == stream and pass_on:
                self._send_up(pending.message, pending.hops[0])
        for message in self._forgets:
            if message.stream == stream:
                self._send_up(message, here)
        self._readers.resubscribe(stream)
