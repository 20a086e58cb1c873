"""The registry (the seed's bootstrap node): which sources, queries and trees there are, and where streams
are.

Rules:

- A source gets a root broker: of those with bandwidth left for its volume, the one that is nearest to its
  proxy, where volume on little bandwidth counts as distance. All sources of one root broker share a tree, and
  there are at most `most_trees` trees.
- A node that wants a stream of a tree joins it once. Its parent is the nearest member that has room.
- A query is checked together with all before it. What an operator elsewhere computes already is not computed
  again; the rest is the business of the node where its client is.
- Where a stream is changes with every move of its operator; news of more moves counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from distributary.filters.topic import TopicFilter
from distributary.flow import Catalogue, Query, Source
from distributary.flow.catalogue import Sharing
from distributary.model import Event, Subscription
from distributary.overlay.node import Address, Node
from distributary.systems.flow_connections import Connections
from distributary.systems.flow_messages import (
    JoinTree,
    Located,
    Parent,
    Parted,
    Place,
    Planned,
    Refused,
    RegisterQuery,
    RegisterSource,
    RegisterSubscription,
    Rooted,
    Spec,
    Streams,
)

BANDWIDTH = 1e6
"""Bytes a second of a broker of which nothing else is said."""


@dataclass(frozen=True)
class Surroundings:
    """What is known of the network below."""

    latency: Callable[[Address, Address], float] = lambda one, other: 1.0
    """Seconds from one node to another."""
    bandwidth: Mapping[Address, float] = field(default_factory=dict)
    """Bytes a second that a broker can send."""
    brokers: Sequence[Address] = ()
    """Who can be a root broker."""
    most_trees: int = 4
    fanout: int = 4


@dataclass
class SourceTree:
    """A tree of sources: its root and the members' parents."""

    root: Address
    parents: dict[Address, Address] = field(default_factory=dict)

    def join(self, node: Address, surroundings: Surroundings) -> Address:
        """The parent of a node, which is a member from now on."""
        if node not in self.parents:
            taken = list(self.parents.values())
            able = [one for one in (self.root, *self.parents) if taken.count(one) < surroundings.fanout]
            self.parents[node] = min(able, key=lambda one: (surroundings.latency(one, node), one))
        return self.parents[node]

    def leave(self, gone: Address, surroundings: Surroundings) -> list[Address]:
        """Take a member out; returns those that were below it, whose way to the root is another now."""
        if self.parents.pop(gone, None) is None:
            return []
        below = [gone]
        for one in below:
            below += [node for node, parent in self.parents.items() if parent == one]
        for orphan in [node for node, parent in self.parents.items() if parent == gone]:
            taken = list(self.parents.values())
            able = [
                one
                for one in (self.root, *self.parents)
                if one not in below and taken.count(one) < surroundings.fanout
            ]
            self.parents[orphan] = min(
                able or [self.root], key=lambda one: (surroundings.latency(one, orphan), one)
            )
        return below[1:]


class Registry:
    """The registry; a layer of one node, whose address all know."""

    def __init__(self, node: Node, connections: Connections, surroundings: Surroundings) -> None:
        self.send = connections.send
        self.surroundings = surroundings
        self.sources: dict[str, Source] = {}
        self.queries: dict[str, Query] = {}
        self.clients: dict[str, Address] = {}
        """Where each query's client is."""
        self.places: dict[str, Place] = {}
        self.trees: list[SourceTree] = []
        self.parted: list[Parted] = []
        """Operators that have been divided, in order."""
        self.gone: set[Address] = set()
        """Brokers that nothing is to be placed at any more."""
        self._spent: dict[Address, float] = {}
        self._known: set[str] = set()
        self._subscriptions: dict[str, tuple[Subscription, Address]] = {}
        for kind, handler in (
            (RegisterSource, self._source),
            (RegisterQuery, self._query),
            (RegisterSubscription, self._subscription),
            (Located, self._located),
            (Parted, self._parted),
            (JoinTree, self._join),
        ):
            node.handle(kind, handler)  # type: ignore[arg-type]

    @property
    def catalogue(self) -> Catalogue:
        """All that is registered."""
        return Catalogue(self.sources.values(), self.queries.values())

    # Sources

    def _source(self, message: RegisterSource, sender: Address) -> None:
        source, proxy, volume = message
        if source.name in self.sources:
            self.send(sender, Refused(source.name, "there is a source of this name already"))
            return
        root = self._root_for(proxy, volume)
        self._spent[root] = self._spent.get(root, 0.0) + volume
        roots = [tree.root for tree in self.trees]
        if root not in roots:
            self.trees.append(SourceTree(root))
            roots.append(root)
        place = Place(root, roots.index(root))
        self.sources[source.name] = source
        self.places[source.name] = place
        for address in dict.fromkeys((root, proxy)):
            self.send(address, Rooted(source, place, proxy))

    def _root_for(self, proxy: Address, volume: float) -> Address:
        given = self.surroundings
        roots = [tree.root for tree in self.trees]
        there = [broker for broker in given.brokers or [proxy] if broker not in self.gone]
        brokers = roots if len(roots) >= given.most_trees else there

        def worth(broker: Address) -> tuple[bool, float, Address]:
            left = given.bandwidth.get(broker, BANDWIDTH) - self._spent.get(broker, 0.0)
            near = 0.0 if broker == proxy else given.latency(proxy, broker)
            full = left <= volume
            return full, near if full else near + volume / left, broker

        return min(brokers, key=worth)

    def _join(self, message: JoinTree, sender: Address) -> None:
        parent = self.trees[message.tree].join(sender, self.surroundings)
        self.send(sender, Parent(message.tree, parent))

    def mend(self, gone: Address) -> None:
        """A node is gone: those below it in a tree get other ways to the root."""
        self.gone.add(gone)
        for number, tree in enumerate(self.trees):
            for node in tree.leave(gone, self.surroundings):
                self.send(node, Parent(number, tree.parents[node]))

    # Queries

    def _query(self, message: RegisterQuery, sender: Address) -> None:
        query = message.query
        if query.name in self.queries:
            self.send(sender, Refused(query.name, "there is a query of this name already"))
            return
        catalogue = Catalogue(self.sources.values(), [*self.queries.values(), query])
        if catalogue.problems:
            reason = "; ".join(str(problem) for problem in catalogue.problems)
            self.send(sender, Refused(query.name, reason))
            return
        self.queries[query.name] = query
        self.clients[query.name] = sender
        sharing = catalogue.shared()
        makers = makers_of(sharing)
        units = {bound.name: bound.unit for bound in catalogue.operators}
        specs = tuple(
            Spec(
                one.name,
                one.operation,
                tuple(makers.get(stream, stream) for stream in one.inputs),
                one.input_schemas,
                units[one.name],
            )
            for one in sharing.operators
            if one.name not in self._known
        )
        for spec in specs:
            self._known.add(spec.name)
            self.places[spec.name] = Place(sender)
        outputs = tuple((name, makers[sharing.streams[name]]) for name in catalogue.outputs(query.name))
        named = [*(stream for spec in specs for stream in spec.inputs), *(stream for _, stream in outputs)]
        self.send(sender, Planned(query.name, specs, outputs, self._places(named)))
        for subscription, at in self._subscriptions.values():
            self._offer(subscription, at, catalogue, only=query.name)

    def _places(self, streams: Sequence[str]) -> tuple[tuple[str, Place], ...]:
        return tuple((stream, self.places[stream]) for stream in dict.fromkeys(streams))

    # Subscriptions

    def _subscription(self, message: RegisterSubscription, sender: Address) -> None:
        self._subscriptions[message.subscription.id] = message.subscription, sender
        self._offer(message.subscription, sender, self.catalogue)

    def _offer(
        self, subscription: Subscription, at: Address, catalogue: Catalogue, only: str | None = None
    ) -> None:
        """Tell of the operators' streams whose topics a subscription is for."""
        pattern = None if subscription.topic is None else TopicFilter.parse(subscription.topic)
        makers = makers_of(sharing := catalogue.shared())
        found = []
        for bound in catalogue.operators:
            for name in bound.streams if only in (None, bound.query) else ():
                stream = catalogue.streams[name]
                if stream.published and (pattern is None or pattern.matches(Event("", stream.topic))):
                    found.append((name, makers[sharing.streams[name]]))
        places = self._places([stream for _, stream in found])
        self.send(at, Streams(subscription.id, tuple(found), places))

    # Moves

    def _located(self, message: Located, sender: Address) -> None:
        stream, place = message
        known = self.places.get(stream)
        if known is None or place.moves > known.moves:
            self.places[stream] = place

    def _parted(self, message: Parted, sender: Address) -> None:
        self.parted.append(message)
        for replica in message.replicas:
            self.places.setdefault(replica, Place(sender))


def makers_of(sharing: Sharing) -> dict[str, str]:
    """From the streams that are computed to the operators that make them; a split makes two."""
    return {stream: one.name for one in sharing.operators for stream in one.streams}
