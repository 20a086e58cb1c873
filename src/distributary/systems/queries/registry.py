"""The registry (the seed's bootstrap node): which sources, queries and trees there are, and where streams
are.

Rules:

- A source gets a root broker (`source_trees`). All sources of one root broker share a tree, and there are at
  most `most_trees` trees. When a root broker is gone, another is chosen in its place, and all members of the
  tree are told of their ways.
- Now and then the sources of a tree are published by another that has nearly the same members (003, 5.2). The
  registry knows the members of all trees, so it compares them as they are, and needs no Bloom filters.
- A node that wants a stream of a tree joins it once.
- A query is checked together with all before it. What an operator elsewhere computes already is not computed
  again; the rest is the business of the node where its client is.
- Where a stream is changes with every move of its operator; news of more moves counts.
- A query that is withdrawn leaves behind what others still read of it: its operators whose streams other
  queries or subscriptions read, and all before those. What nobody reads any more is over, and every node is
  told. An operator that begins anew gets a name in the network that was never used, so that nothing that is
  under way about an earlier one can be mistaken for news of it.

Cost: a withdrawal costs a message to each broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from distributary.filters.topic import TopicFilter
from distributary.flow import Catalogue, Query, Source
from distributary.flow.catalogue import Sharing
from distributary.model import Event, Subscription
from distributary.overlay.node import Address, Message, Node
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.messages import (
    DivisionReport,
    JoinTree,
    LeaveTree,
    LocationReport,
    OperatorSpec,
    QueryDeployment,
    RegisterQuery,
    RegisterSource,
    RegisterSubscription,
    RegistrationRefusal,
    SourceRoot,
    StreamLocation,
    SubscriptionStreams,
    TreeParent,
    UnregisterQuery,
    UnregisterSubscription,
    WithdrawalConfirmation,
    WithdrawalNotice,
    numbered,
    whole,
)
from distributary.systems.queries.source_trees import (
    Regrouping,
    SourceFeed,
    SourceTree,
    Surroundings,
    best_root,
    mergeable,
)


class MergeCheck(NamedTuple):
    """It is time to look for trees of which so many members are the same; the registry tells itself."""

    likeness: float


KNOWN = (
    *("runs", "specs", "sources", "queries", "clients", "places"),
    *("_spent", "_feeds", "_left", "_times", "_subscriptions"),
)
"""What of a registry's knowledge is dictionaries of plain values."""


class RegistryState(NamedTuple):
    """All that a registry knows, as a message can hold it."""

    known: tuple[tuple[tuple[Any, Any], ...], ...]
    trees: tuple[tuple[Address, tuple[tuple[Address, Address], ...], tuple[Address, ...]], ...]
    offered: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    parted: tuple[DivisionReport, ...]
    gone: tuple[Address, ...]
    nodes: tuple[Address, ...]


class QueryRegistry:
    """The registry; a layer of one node, whose address all know."""

    def __init__(
        self,
        node: Node,
        connections: Connections,
        surroundings: Surroundings,
        regrouping: Regrouping | None = None,
    ) -> None:
        self.send: Callable[[Address, Message], None] = connections.send
        self.tell: Callable[[Message], None] = lambda message: self.handle(message, node.address)
        """How the registry tells itself what is to be done: by way of its office, if it has one."""
        self.runs: dict[str, str] = {}
        """From operators of queries, as `query.operator`, to those that run in their place."""
        self.specs: dict[str, OperatorSpec] = {}
        """All operators that run, as they were before they were divided."""
        self.surroundings = surroundings
        self.sources: dict[str, Source] = {}
        self.queries: dict[str, Query] = {}
        """Those that are registered, and what is left of those that were withdrawn."""
        self.clients: dict[str, Address] = {}
        """Where the client of each query is that is registered."""
        self.places: dict[str, StreamLocation] = {}
        self.trees: list[SourceTree] = []
        self.parted: list[DivisionReport] = []
        """Operators that have been divided, in order."""
        self.gone: set[Address] = set()
        """Brokers that nothing is to be placed at any more."""
        self.merged = 0
        """Trees whose sources went over to another."""
        self._spent: dict[Address, float] = {}
        self._feeds: dict[str, SourceFeed] = {}
        """Where each source comes from."""
        self._left: dict[str, Query] = {}
        """Queries that were withdrawn and are still read, as they were."""
        self._times: Counter[str] = Counter()
        """How often each name of a query, an operator or (after a colon) a subscription was used."""
        self._offered: dict[str, dict[str, str]] = {}
        """The streams that subscriptions were told of, and those that are computed in their place."""
        self._nodes: set[Address] = set(surroundings.brokers) | {node.address}
        self._subscriptions: dict[str, tuple[Subscription, Address]] = {}
        self.handlers: dict[type, Callable[[Any, Address], None]] = {
            RegisterSource: self._source,
            RegisterQuery: self._query,
            RegisterSubscription: self._subscription,
            UnregisterQuery: self._unregister_query,
            UnregisterSubscription: self._unregister_subscription,
            LocationReport: self._located,
            DivisionReport: self._parted,
            JoinTree: self._join,
            LeaveTree: self._leave,
            MergeCheck: self._regroup,
        }
        if regrouping is not None:
            node.at_alarm("flow regroup", lambda about: self._time_to_regroup(node, regrouping))
            node.at_start(lambda: node.wake_after(regrouping.period, "flow regroup"))

    def handle(self, message: Message, sender: Address) -> None:
        """Do what a node asks for, or take in what it tells."""
        self._nodes.add(sender)
        self.handlers[type(message)](message, sender)

    def state(self) -> RegistryState:
        """All that is known, for another registry."""
        trees = tuple((one.root, tuple(one.parents.items()), tuple(one.idle)) for one in self.trees)
        offered = tuple((id, tuple(streams.items())) for id, streams in self._offered.items())
        known = tuple(tuple(getattr(self, name).items()) for name in KNOWN)
        return RegistryState(known, trees, offered, tuple(self.parted), tuple(self.gone), tuple(self._nodes))

    def restore(self, state: RegistryState) -> None:
        """Know what another registry knew, and nothing else."""
        for name, pairs in zip(KNOWN, state.known, strict=True):
            known = getattr(self, name)
            known.clear()
            known.update(dict(pairs))
        self.trees = [SourceTree(root, dict(parents), set(idle)) for root, parents, idle in state.trees]
        self._offered = {id: dict(streams) for id, streams in state.offered}
        self.parted, self.gone, self._nodes = list(state.parted), set(state.gone), set(state.nodes)

    @property
    def catalogue(self) -> Catalogue:
        """All that is registered."""
        return Catalogue(self.sources.values(), self.queries.values())

    # Sources

    def _source(self, message: RegisterSource, sender: Address) -> None:
        source, proxy, volume = message
        if source.name in self.sources:
            self.send(sender, RegistrationRefusal(source.name, "there is a source of this name already"))
            return
        used = [self.trees[number].root for number in self._used_trees()]
        there = [broker for broker in self.surroundings.brokers or [proxy] if broker not in self.gone]
        full = len(used) >= self.surroundings.most_trees
        self._feeds[source.name] = feed = SourceFeed(proxy, volume)
        root = self._root_for([feed], used if full else there)
        roots = [tree.root for tree in self.trees]
        if root not in roots:
            self.trees.append(SourceTree(root))
            roots.append(root)
        place = StreamLocation(root, roots.index(root))
        self.sources[source.name] = source
        self.places[source.name] = place
        self._tell_root(source.name)

    def _used_trees(self) -> list[int]:
        """The trees that have sources."""
        return sorted({tree for name in self.sources if (tree := self.places[name].tree) is not None})

    def _sources_of(self, number: int) -> list[str]:
        return [name for name in self.sources if self.places[name].tree == number]

    def _root_for(self, feeds: Sequence[SourceFeed], brokers: Iterable[Address]) -> Address:
        root = best_root(feeds, brokers, self.surroundings, self._spent)
        self._spent[root] = self._spent.get(root, 0.0) + sum(feed.volume for feed in feeds)
        return root

    def _tell_root(self, source: str) -> None:
        place, proxy = self.places[source], self._feeds[source].proxy
        for address in dict.fromkeys((place.host, proxy)):
            self.send(address, SourceRoot(self.sources[source], place, proxy))

    def _join(self, message: JoinTree, sender: Address) -> None:
        tree = self.trees[message.tree]
        if sender != tree.root:  # one that has not heard yet that it is the root
            self.send(sender, TreeParent(message.tree, tree.join(sender, self.surroundings)))

    def _leave(self, message: LeaveTree, sender: Address) -> None:
        self.trees[message.tree].retire(sender)

    def mend(self, gone: Address) -> None:
        """A node is gone: those below it in a tree get other ways to the root, or to another root."""
        self.gone.add(gone)
        for number, tree in enumerate(self.trees):
            lost = tree.root == gone
            told = self._replace_root(number) if lost else tree.leave(gone, self.surroundings)
            for node in told:
                self.send(node, TreeParent(number, tree.parents[node]))

    def _replace_root(self, number: int) -> list[Address]:
        """Choose another root broker of a tree; returns the members, whose ways are others now."""
        tree, names = self.trees[number], self._sources_of(number)
        brokers = [broker for broker in self.surroundings.brokers if broker not in self.gone]
        root = self._root_for([self._feeds[name] for name in names], tree.heirs(brokers))
        members = tree.inherit(root, self.surroundings)
        for name in names:
            self.places[name] = self.places[name]._replace(host=root)
            self._tell_root(name)
        return members

    def _time_to_regroup(self, node: Node, regrouping: Regrouping) -> None:
        node.wake_after(regrouping.period, "flow regroup")
        self.tell(MergeCheck(regrouping.likeness))

    def _regroup(self, message: MergeCheck, sender: Address) -> None:
        volumes = {
            number: sum(self._feeds[name].volume for name in self._sources_of(number))
            for number in self._used_trees()
        }
        pair = mergeable(self.trees, volumes, message.likeness, self.surroundings, self._spent)
        if pair is not None:
            self.merge(*pair)

    def merge(self, number: int, into: int) -> None:
        """Have the sources of a tree published by another; their readers hear of it from above."""
        self.merged += 1
        gone, root = self.trees[number].root, self.trees[into].root
        for name in self._sources_of(number):
            volume = self._feeds[name].volume
            self._spent[gone] = self._spent.get(gone, 0.0) - volume
            self._spent[root] = self._spent.get(root, 0.0) + volume
            self.places[name] = StreamLocation(root, into, self.places[name].moves + 1)
            self._tell_root(name)

    # Queries

    def _query(self, message: RegisterQuery, sender: Address) -> None:
        query = message.query
        refusal = self._refusal(query)
        if refusal is not None:
            self.send(sender, RegistrationRefusal(query.name, refusal))
            return
        catalogue = Catalogue(self.sources.values(), {**self.queries, query.name: query}.values())
        if catalogue.problems:
            reason = "; ".join(str(problem) for problem in catalogue.problems)
            self.send(sender, RegistrationRefusal(query.name, reason))
            return
        self.queries[query.name] = query
        self.clients[query.name] = sender
        self._left.pop(query.name, None)
        self._times[query.name] += 1
        time = self._times[query.name]
        sharing = catalogue.shared()
        specs = self._begin(sharing, catalogue, time)
        for spec in specs:
            self.specs[spec.name] = spec
            self.places[spec.name] = StreamLocation(sender)
        makers = self._makers(sharing)
        outputs = tuple((name, makers[sharing.streams[name]]) for name in catalogue.outputs(query.name))
        named = [*(stream for spec in specs for stream in spec.inputs), *(stream for _, stream in outputs)]
        self.send(sender, QueryDeployment(query.name, specs, outputs, self._places(named), time))
        for subscription, at in self._subscriptions.values():
            self._offer(subscription, at, catalogue, only=query.name)

    def _refusal(self, query: Query) -> str | None:
        """What stands against a query's name."""
        if query.name in self.clients:
            return "there is a query of this name already"
        if self._left.get(query.name, query) != query:
            return (
                "another query of this name was withdrawn, and its streams are still read; "
                "choose another name, or withdraw those that read them first"
            )
        return None

    def _begin(self, sharing: Sharing, catalogue: Catalogue, time: int) -> tuple[OperatorSpec, ...]:
        """The operators that do not run yet, each after those it reads."""
        units = {bound.name: bound.unit for bound in catalogue.operators}
        makers: dict[str, str] = {}
        specs = []
        for one in sharing.operators:
            running = next((self.runs[name] for name in one.stands_for if name in self.runs), None)
            if running is None:
                self._times[one.name] += 1
                running = numbered(one.name, self._times[one.name])
                inputs = tuple(makers.get(stream, stream) for stream in one.inputs)
                unit = units[one.name]
                unit = None if unit is None else numbered(unit, time)
                specs.append(OperatorSpec(running, one.operation, inputs, one.input_schemas, unit))
            makers.update(dict.fromkeys(one.streams, running))
            self.runs.update(dict.fromkeys(one.stands_for, running))
        return tuple(specs)

    def _makers(self, sharing: Sharing) -> dict[str, str]:
        """From the streams that are computed to the operators that make them; a split makes two."""
        return {stream: self.runs[one.name] for one in sharing.operators for stream in one.streams}

    def _places(self, streams: Sequence[str]) -> tuple[tuple[str, StreamLocation], ...]:
        return tuple((stream, self.places[stream]) for stream in dict.fromkeys(streams))

    # Subscriptions

    def _subscription(self, message: RegisterSubscription, sender: Address) -> None:
        subscription = message.subscription
        if subscription.id not in self._subscriptions:
            self._times[f":{subscription.id}"] += 1
            self._offered[subscription.id] = {}
        self._subscriptions[subscription.id] = subscription, sender
        self._offer(message.subscription, sender, self.catalogue)

    def _offer(
        self, subscription: Subscription, at: Address, catalogue: Catalogue, only: str | None = None
    ) -> None:
        """Tell of the operators' streams whose topics a subscription is for."""
        pattern = None if subscription.topic is None else TopicFilter.parse(subscription.topic)
        makers = self._makers(sharing := catalogue.shared())
        offered = self._offered[subscription.id]
        found = []
        for bound in catalogue.operators:
            for name in bound.streams if only in (None, bound.query) else ():
                stream = catalogue.streams[name]
                if name in offered and only is not None:
                    continue  # of a query that was withdrawn and comes back: it is still read
                if stream.published and (pattern is None or pattern.matches(Event("", stream.topic))):
                    found.append((name, makers[sharing.streams[name]]))
        places = self._places([stream for _, stream in found])
        offered.update(found)
        time = self._times[f":{subscription.id}"]
        self.send(at, SubscriptionStreams(subscription.id, tuple(found), places, time))

    # Withdrawals

    def _unregister_query(self, message: UnregisterQuery, sender: Address) -> None:
        name = message.name
        if self.clients.get(name) != sender:
            at = self.clients.get(name)
            reason = "no query of this name is registered" if at is None else f"its client is at node {at}"
            self.send(sender, RegistrationRefusal(name, f"cannot be withdrawn: {reason}"))
            return
        del self.clients[name]
        self._left[name] = self.queries[name]
        time = self._times[name]
        clients = [client_name(output, time) for output in self.catalogue.outputs(name)]
        self._withdraw(clients)
        self.send(sender, WithdrawalConfirmation(name, subscription=False))

    def _unregister_subscription(self, message: UnregisterSubscription, sender: Address) -> None:
        id = message.id
        known = self._subscriptions.get(id)
        if known is None or known[1] != sender:
            where = "no subscription of this id" if known is None else f"it was made at node {known[1]}"
            self.send(sender, RegistrationRefusal(id, f"cannot be withdrawn: {where}"))
            return
        del self._subscriptions[id]
        time = self._times[f":{id}"]
        self._withdraw(subscriber_name(id, time, name) for name in self._offered.pop(id))
        self.send(sender, WithdrawalConfirmation(id, subscription=True))

    def _withdraw(self, readers: Iterable[str]) -> None:
        """Clients are over, and so are operators that nobody reads any more; every node is told."""
        needed = self._needed()
        over = [name for name in self.specs if name not in needed]
        for name in over:
            del self.specs[name]
        self.runs = {name: one for name, one in self.runs.items() if one in needed}
        self.places = {name: at for name, at in self.places.items() if name in self.sources or self.has(name)}
        self.parted = [parted for parted in self.parted if parted.operator in needed]
        self._keep_what_is_read()
        message = WithdrawalNotice((*readers, *over))
        for node in sorted(self._nodes - self.gone):
            self.send(node, message)

    def has(self, stream: str) -> bool:
        """Whether an operator, or the one it is a replica of, runs."""
        return whole(stream) in self.specs

    def _keep_what_is_read(self) -> None:
        """Of queries that were withdrawn, know what still runs, as long as it is read by its name."""
        for name in list(self._left):
            rest = self._rest_of(self.queries[name])
            if rest is None:
                del self._left[name], self.queries[name]
            else:
                self.queries[name] = rest
        read = self.stand_ins()
        for name in [name for name in self._left if name not in read]:
            for operator in self.queries[name].operators:
                del self.runs[f"{name}.{operator.name}"]
            del self._left[name], self.queries[name]

    def _readers(self, query: str, catalogue: Catalogue) -> list[Address | str]:
        """Who reads streams of a query: nodes of subscriptions, and names of other queries."""
        streams = {name for bound in catalogue.operators if bound.query == query for name in bound.streams}
        subscribers = [
            at for id, (_, at) in self._subscriptions.items() if streams & self._offered[id].keys()
        ]
        queries = [
            bound.query
            for bound in catalogue.operators
            if bound.query != query and streams.intersection(bound.inputs)
        ]
        return [*subscribers, *queries]

    def _needed(self) -> set[str]:
        """The operators that somebody reads, directly or not; of super-operators all or none."""
        waiting = [one for name, one in self.runs.items() if name.partition(".")[0] in self.clients]
        waiting += [one for offered in self._offered.values() for one in offered.values()]
        needed: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in self.specs and name not in needed:
                needed.add(name)
                unit = self.specs[name].unit
                waiting += self.specs[name].inputs
                waiting += [one for one, spec in self.specs.items() if unit is not None and spec.unit == unit]
        return needed

    def _rest_of(self, query: Query) -> Query | None:
        """What still runs of a query, if anything does."""
        operators = [one for one in query.operators if f"{query.name}.{one.name}" in self.runs]
        there = {one.name for one in operators}
        units = {unit: members for unit, members in query.units.items() if there.issuperset(members)}
        return Query(query.name, operators, units=units) if operators else None

    def stand_ins(self) -> dict[str, Address]:
        """Where the client of each query is; of one that was withdrawn, the node of somebody who reads it."""
        found = dict(self.clients)
        readers = {name: self._readers(name, self.catalogue) for name in self._left}
        growing = True
        while growing:
            growing = False
            for name in [name for name in self._left if name not in found]:
                nodes = [found.get(one) if isinstance(one, str) else one for one in readers[name]]
                at = next((node for node in nodes if node is not None), None)
                if at is not None:
                    found[name] = at
                    growing = True
        return found

    # Moves

    def _located(self, message: LocationReport, sender: Address) -> None:
        stream, place = message
        if not self.has(stream):
            self.send(sender, WithdrawalNotice((whole(stream),)))
            return
        known = self.places.get(stream)
        if known is None or place.moves > known.moves:
            self.places[stream] = place

    def _parted(self, message: DivisionReport, sender: Address) -> None:
        if not self.has(message.operator):
            self.send(sender, WithdrawalNotice((message.operator,)))
            return
        self.parted.append(message)
        for replica in message.replicas:
            self.places.setdefault(replica, StreamLocation(sender))


def client_name(output: str, time: int) -> str:
    """As whom the client of a query reads one of its outputs."""
    return f"client:{numbered(output, time)}"


def subscriber_name(id: str, time: int, stream: str) -> str:
    """As whom a subscription reads a stream."""
    return f"subscription:{time}:{id}:{stream}"
