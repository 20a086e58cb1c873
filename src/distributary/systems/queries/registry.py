"""The registry (the seed's bootstrap node): sources, queries, trees of sources, and where each stream is.

Rules:

- `source_registry` has the sources and their trees.
- A query is checked together with all before it. What an operator elsewhere computes already is not computed
  again; the rest begins at the node of its client.
- A query that publishes under topics of a source is registered before those that read the source: operators
  that run are not given other inputs.
- The location of a stream changes with every move of its operator; the highest version counts.
- A query that is withdrawn leaves behind what others still read: its operators whose streams other queries or
  subscriptions read, and all before those. All others are withdrawn, and every node is told. An operator that
  begins again gets a name in the network that was never used, so that no late message about an earlier one
  can be mistaken for one about it.

- What clients of a node asked for that is removed is withdrawn.

Cost: a withdrawal costs a message to each broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

from distributary.flow import Catalogue, Query, Source
from distributary.flow.catalogue import BoundOperator, Sharing
from distributary.model import Subscription, SubscriptionKey
from distributary.overlay.node import Address, Message, Node
from distributary.systems.queries import messages
from distributary.systems.queries.links import LinkEstimate, LinkReport
from distributary.systems.queries.listing import registry_listing
from distributary.systems.queries.messages import OperatorSpec, StreamLocation, network_name, whole_operator
from distributary.systems.queries.own_metrics import OwnMetricsReport
from distributary.systems.queries.reader_names import client_name, subscriber_name, subscription_name
from distributary.systems.queries.retention import discard
from distributary.systems.queries.settings import Regrouping, Surroundings
from distributary.systems.queries.source_registry import MergeCheck, RestructuringCheck, Send, SourceRegistry
from distributary.systems.queries.source_trees import SourceFeed, SourceTree

K = TypeVar("K")
V = TypeVar("V")
Pairs = tuple[tuple[K, V], ...]
"""The contents of a dictionary."""


class RegistryTables(NamedTuple):
    """The contents of a registry's dictionaries, which a standby is given as they are."""

    runs: Pairs[str, str]
    specs: Pairs[str, OperatorSpec]
    sources: Pairs[str, Source]
    queries: Pairs[str, Query]
    clients: Pairs[str, Address]
    locations: Pairs[str, StreamLocation]
    spent: Pairs[Address, float]
    feeds: Pairs[str, SourceFeed]
    remnants: Pairs[str, Query]
    generations: Pairs[str, int]
    subscriptions: Pairs[SubscriptionKey, tuple[Subscription, Address]]
    links: Pairs[tuple[Address, Address], LinkEstimate]
    speeds: Pairs[Address, float]
    own_metrics: Pairs[Address, OwnMetricsReport]
    utilities: Pairs[str, float]


class RegistryState(NamedTuple):
    """All that a registry knows, as a message can hold it."""

    tables: RegistryTables
    trees: tuple[tuple[Address, Pairs[Address, Address], tuple[Address, ...], tuple[Address, ...]], ...]
    """The root of each, its members' parents, and which members are idle and unsettled."""
    offered: tuple[tuple[SubscriptionKey, tuple[tuple[str, str], ...]], ...]
    divisions: tuple[messages.DivisionReport, ...]
    removed: tuple[Address, ...]
    nodes: tuple[Address, ...]


class QueryRegistry(SourceRegistry):
    """The registry; a layer of one node, whose address all know.

    `send` sends a message to a node. With a standby, messages come from its log by `handle`, and `submit` is
    how the registry makes an entry itself; without one, the registry handles the messages of its node.
    """

    def __init__(
        self,
        node: Node,
        around: Surroundings,
        send: Send,
        submit: Callable[[Message], None] | None = None,
        thinned: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        super().__init__(node, around, send)
        self._thinned = thinned
        """Operators of queries that are thinned out, and one such query (`shedding_registry`)."""
        self.runs: dict[str, str] = {}
        """From operators of queries, as `query.operator`, to those that run in their place."""
        self.specs: dict[str, OperatorSpec] = {}
        """All operators that run, as they were before they were divided."""
        self.queries: dict[str, Query] = {}
        """Those that are registered, and what is left of those that were withdrawn."""
        self.clients: dict[str, Address] = {}
        """The node of the client of each registered query."""
        self.utilities: dict[str, float] = {}
        """What each registered query is worth among others."""
        self.divisions: list[messages.DivisionReport] = []
        """Operators that have been divided, in order."""
        self._remnants: dict[str, Query] = {}
        """Queries that were withdrawn and are still read, as they were."""
        self._generations: Counter[str] = Counter()
        """How often each name of a query, an operator or (after a colon) a subscription was used."""
        self._subscriptions: dict[SubscriptionKey, tuple[Subscription, Address]] = {}
        self._tables: tuple[dict[Any, Any], ...] = (
            *(self.runs, self.specs, self.sources, self.queries, self.clients, self.locations),
            *(self._spent, self._feeds, self._remnants, self._generations, self._subscriptions),
            *(self.links.known, self.speeds, self.own_metrics, self.utilities),
        )
        """Those of `RegistryTables`, in its order; never assigned anew."""
        self._offered: dict[SubscriptionKey, dict[str, str]] = {}
        """The streams that subscriptions were told of, and those that are computed in their place."""
        self._submit = submit or (lambda message: self.handle(message, node.address))
        self.handlers: dict[type, Callable[[Any, Address], None]] = {
            messages.RegisterSource: self._register_source,
            messages.RegisterQuery: self._register_query,
            messages.RegisterSubscription: self._register_subscription,
            messages.UnregisterQuery: self._unregister_query,
            messages.UnregisterSubscription: self._unregister_subscription,
            messages.LocationReport: self._location_report,
            messages.DivisionReport: self._division_report,
            messages.JoinTree: self._join_tree,
            messages.LeaveTree: lambda message, sender: self.trees[message.tree].retire(sender),
            LinkReport: self._link_report,
            OwnMetricsReport: self._own_metrics_report,
            MergeCheck: self._merge_check,
            messages.ListingRequest: self._list,
            RestructuringCheck: self._restructuring_check,
            messages.TreeParentConfirmation: self._parent_confirmed,
        }
        for kind in self.handlers if submit is None else ():
            node.handle(kind, self.handle)
        self._set_alarms(node, around)

    def _set_alarms(self, node: Node, around: Surroundings) -> None:
        if (regrouping := around.regrouping) is not None:
            node.at_alarm("flow regroup", lambda about: self._time_to_merge(node, regrouping))
            node.at_start(lambda: node.wake_after(regrouping.period, "flow regroup"))
        if (period := around.restructuring) is not None:
            node.at_alarm("flow restructure sources", lambda about: self._time_to_restructure(node, period))
            node.at_start(lambda: node.wake_after(period, "flow restructure sources"))

    def handle(self, message: Message, sender: Address) -> None:
        """Do what a node asks for, or take in what it reports."""
        self._nodes.add(sender)
        self.handlers[type(message)](message, sender)

    def state(self) -> RegistryState:
        """All that is known, for another registry."""
        tables = RegistryTables._make(tuple(table.items()) for table in self._tables)
        trees = tuple(
            (one.root, tuple(one.parents.items()), tuple(one.idle), tuple(one.unsettled))
            for one in self.trees
        )
        offered = tuple((key, tuple(streams.items())) for key, streams in self._offered.items())
        divisions, removed, nodes = tuple(self.divisions), tuple(self.removed), tuple(self._nodes)
        return RegistryState(tables, trees, offered, divisions, removed, nodes)

    def restore(self, state: RegistryState) -> None:
        """Know what another registry knew, and nothing else."""
        for table, pairs in zip(self._tables, state.tables, strict=True):
            table.clear()
            table.update(dict(pairs))
        self.trees = [
            SourceTree(root, dict(row), set(idle), set(new)) for root, row, idle, new in state.trees
        ]
        self._offered = {key: dict(streams) for key, streams in state.offered}
        self.divisions = list(state.divisions)
        self.removed, self._nodes = set(state.removed), set(state.nodes)

    @property
    def catalogue(self) -> Catalogue:
        """All sources and queries."""
        return Catalogue(self.sources.values(), self.queries.values())

    def _list(self, message: messages.ListingRequest, sender: Address) -> None:
        known = (self.specs, self.runs, self.locations, self.clients)
        self._send(sender, registry_listing(self.catalogue, *known))

    def _time_to_merge(self, node: Node, regrouping: Regrouping) -> None:
        node.wake_after(regrouping.period, "flow regroup")
        self._submit(MergeCheck(regrouping.likeness))

    def _time_to_restructure(self, node: Node, period: float) -> None:
        node.wake_after(period, "flow restructure sources")
        self._submit(RestructuringCheck())

    # Queries

    def _register_query(self, message: messages.RegisterQuery, sender: Address) -> None:
        query = message.query
        catalogue = Catalogue(self.sources.values(), {**self.queries, query.name: query}.values())
        problems = "; ".join(str(problem) for problem in catalogue.problems)
        refusal = self._refusal(query) or problems or self._read_already(catalogue)
        refusal = refusal or self._reads_thinned(catalogue, query.name)
        if refusal:
            self._refuse(sender, query.name, refusal)
            return
        self.queries[query.name] = query
        self.clients[query.name] = sender
        self.utilities[query.name] = message.utility
        self._remnants.pop(query.name, None)
        self._generations[query.name] += 1
        generation = self._generations[query.name]
        sharing = catalogue.shared()
        specs = self._new_specs(sharing, catalogue, generation)
        for spec in specs:
            self.specs[spec.name] = spec
            self.locations[spec.name] = StreamLocation(sender)
        makers = self._makers(sharing)
        outputs = tuple((name, makers[sharing.streams[name]]) for name in catalogue.outputs(query.name))
        read = [*(stream for spec in specs for stream in spec.inputs), *(stream for _, stream in outputs)]
        locations = self._locations_of(read)
        deployed = query.name, specs, outputs, locations, generation, query.ordered
        deployment = messages.QueryDeployment(*deployed)
        self._send(sender, deployment)
        for subscription, at in self._subscriptions.values():
            self._send(at, self._streams_for(subscription, catalogue, only=query.name))

    def _refusal(self, query: Query) -> str | None:
        """Why the name of a query cannot be used, if it cannot."""
        if query.name in self.clients:
            return "there is a query of this name already"
        if self._remnants.get(query.name, query) != query:
            return (
                "another query of this name was withdrawn, and its streams are still read; "
                "choose another name, or withdraw those that read them first"
            )
        return None

    def _read_already(self, catalogue: Catalogue) -> str | None:
        """Why a query cannot publish into a source: operators that run read the source without it."""
        inputs = {bound.name: bound.inputs for bound in self.catalogue.operators}
        for bound in catalogue.operators:
            if inputs.get(bound.name, bound.inputs) != bound.inputs:
                return (
                    f"it would publish under topics of a source that {bound.name} reads already; "
                    "register it before the queries that read what it publishes"
                )
        return None

    def _reads_thinned(self, catalogue: Catalogue, query: str) -> str | None:
        """Why a query cannot run now: an operator that it would read leaves items out for another one."""
        wanted: set[str] = set()
        for one in reversed(catalogue.shared().operators):
            own = any(name.partition(".")[0] == query for name in one.stands_for)
            if own or not wanted.isdisjoint(one.streams):
                wanted.update(one.inputs)
                running = [self.runs[name] for name in one.stands_for if name in self.runs]
                if running and running[0] in self._thinned:
                    return self._thinned_reason(running[0])
        return None

    def _thinned_reason(self, operator: str) -> str:
        query = self._thinned[operator]
        return f"it would read {operator} of {query!r}, which is thinned out: try again when that is whole"

    def _new_specs(self, sharing: Sharing, catalogue: Catalogue, generation: int) -> tuple[OperatorSpec, ...]:
        """The operators that do not run yet, each after those it reads."""
        units = {bound.name: bound.unit for bound in catalogue.operators}
        makers: dict[str, str] = {}
        specs = []
        for one in sharing.operators:
            running = next((self.runs[name] for name in one.stands_for if name in self.runs), None)
            if running is None:
                self._generations[one.name] += 1
                running = network_name(one.name, self._generations[one.name])
                inputs = tuple(makers.get(stream, stream) for stream in one.inputs)
                unit = units[one.name]
                unit = None if unit is None else network_name(unit, generation)
                specs.append(OperatorSpec(running, one.operation, inputs, one.input_schemas, unit))
            makers.update(dict.fromkeys(one.streams, running))
            self.runs.update(dict.fromkeys(one.stands_for, running))
        return tuple(specs)

    def _makers(self, sharing: Sharing) -> dict[str, str]:
        """From the streams that are computed to the operators that make them; a split makes two."""
        return {stream: self.runs[one.name] for one in sharing.operators for stream in one.streams}

    def _locations_of(self, streams: Iterable[str]) -> messages.Locations:
        return tuple((stream, self.locations[stream]) for stream in dict.fromkeys(streams))

    # Subscriptions

    def _register_subscription(self, message: messages.RegisterSubscription, sender: Address) -> None:
        key, known = message.subscription.key, (message.subscription, sender)
        wanted = [stream for _, _, stream in self._wanted(message.subscription, self.catalogue)]
        if thinned := next((stream for stream in wanted if stream in self._thinned), None):
            self._refuse(sender, str(key), self._thinned_reason(thinned))
            return
        replaced: list[str] = []
        if self._subscriptions.get(key) != known:
            replaced = self._readers_for(key)
            self._generations[subscription_name(key)] += 1
            self._offered[key] = {}
        self._subscriptions[key] = known
        streams = self._streams_for(message.subscription, self.catalogue)
        if replaced:  # before it begins anew, so that nothing is delivered by both
            self._withdraw(replaced)
        self._send(sender, streams)

    def _readers_for(self, key: SubscriptionKey) -> list[str]:
        """The names under which a subscription reads streams."""
        generation = self._generations[subscription_name(key)]
        return [subscriber_name(key, generation, name) for name in self._offered.get(key, ())]

    def _streams_for(
        self, subscription: Subscription, catalogue: Catalogue, only: str | None = None
    ) -> messages.SubscriptionStreams:
        """What a subscription is told: the streams of operators, or of one query's, that it may be for."""
        offered = self._offered[subscription.key]
        found, topics = [], []
        for name, bound, stream in self._wanted(subscription, catalogue):
            if only in (None, bound.query) and (only is None or name not in offered):
                # Else it is of a query that was withdrawn and comes back: it is still read.
                found.append((name, stream))
                if bound.operator.publish is not None:
                    topics.append((name, bound.operator.publish))
        offered.update(found)
        locations = self._locations_of(stream for _, stream in found)
        generation = self._generations[subscription_name(subscription.key)]
        return messages.SubscriptionStreams(subscription, tuple(found), locations, generation, tuple(topics))

    def _wanted(
        self, subscription: Subscription, catalogue: Catalogue
    ) -> Iterator[tuple[str, BoundOperator, str]]:
        """The streams that a subscription is for: name, operator, and what is computed in its place."""
        makers = self._makers(sharing := catalogue.shared())
        for bound in catalogue.operators:
            for name in bound.streams:
                stream = catalogue.streams[name]
                if stream.published and stream.may_match(subscription.topic):
                    yield name, bound, makers[sharing.streams[name]]

    # Withdrawals

    def _unregister_query(self, message: messages.UnregisterQuery, sender: Address) -> None:
        name = message.name
        at = self.clients.get(name)
        if at != sender:
            reason = "no query of this name is registered" if at is None else f"its client is at node {at}"
            self._refuse(sender, name, f"cannot be withdrawn: {reason}")
            return
        self._drop_query(name)
        self._send(sender, messages.WithdrawalConfirmation(name))

    def _drop_query(self, name: str) -> None:
        del self.clients[name], self.utilities[name]
        self._remnants[name] = self.queries[name]
        generation = self._generations[name]
        self._withdraw([client_name(output, generation) for output in self.catalogue.outputs(name)])

    def _unregister_subscription(self, message: messages.UnregisterSubscription, sender: Address) -> None:
        key = message.subscription
        known = self._subscriptions.get(key)
        if known is None or known[1] != sender:
            reason = "no subscription of this id" if known is None else f"it was made at node {known[1]}"
            self._refuse(sender, str(key), f"cannot be withdrawn: {reason}")
            return
        self._drop_subscription(key)
        self._send(sender, messages.WithdrawalConfirmation(key.id, key.subscriber))

    def _drop_subscription(self, key: SubscriptionKey) -> None:
        readers = self._readers_for(key)
        del self._subscriptions[key], self._offered[key]
        self._withdraw(readers)

    def remove_node(self, removed: Address) -> None:
        """Place nothing at a node any more, and withdraw what its clients have asked for: they ask again
        elsewhere."""
        super().remove_node(removed)
        for name in [name for name, at in self.clients.items() if at == removed]:
            self._drop_query(name)
        for key in [key for key, (_, at) in self._subscriptions.items() if at == removed]:
            self._drop_subscription(key)

    def _withdraw(self, readers: Iterable[str]) -> None:
        """Withdraw clients, and operators that nobody reads any more; every node is told."""
        needed = self._needed()
        unneeded = [name for name in self.specs if name not in needed]
        discard(self.specs, lambda name: name not in needed)
        discard(self.runs, lambda name: self.runs[name] not in needed)
        discard(self.locations, lambda name: name not in self.sources and not self.has(name))
        self.divisions = [division for division in self.divisions if division.operator in needed]
        self._trim_remnants()
        message = messages.WithdrawalNotice((*readers, *unneeded))
        for node in sorted(self._nodes - self.removed):
            self._send(node, message)

    def has(self, stream: str) -> bool:
        """Whether an operator, or the one it is a replica of, runs."""
        return whole_operator(stream) in self.specs

    def _trim_remnants(self) -> None:
        """Of queries that were withdrawn, keep the operators that still run, while their streams are read."""
        for name in list(self._remnants):
            query = self.queries[name]
            operators = [one for one in query.operators if f"{name}.{one.name}" in self.runs]
            names = {one.name for one in operators}
            units = {unit: members for unit, members in query.units.items() if names.issuperset(members)}
            if operators:
                self.queries[name] = Query(name, operators, units=units)
            else:
                del self._remnants[name], self.queries[name]
        read = self.client_nodes()
        for name in [name for name in self._remnants if name not in read]:
            del self._remnants[name], self.queries[name]
        discard(self.runs, lambda name: name.partition(".")[0] not in self.queries)

    def _readers(self, query: str, catalogue: Catalogue) -> list[Address | str]:
        """The readers of a query's streams: nodes of subscriptions, and names of other queries."""
        streams = {name for bound in catalogue.operators if bound.query == query for name in bound.streams}
        others = [bound for bound in catalogue.operators if bound.query != query]
        return [
            *(at for key, (_, at) in self._subscriptions.items() if streams & self._offered[key].keys()),
            *(bound.query for bound in others if streams.intersection(bound.inputs)),
        ]

    def _needed(self) -> set[str]:
        """The operators that somebody reads, directly or not; of super-operators all or none."""
        return self._upstream([*self._read_by_queries(self.clients), *self._read_by_subscriptions()])

    def _read_by_queries(self, queries: Collection[str]) -> list[str]:
        return [one for name, one in self.runs.items() if name.partition(".")[0] in queries]

    def _read_by_subscriptions(self) -> list[str]:
        return [one for offered in self._offered.values() for one in offered.values()]

    def _upstream(self, waiting: list[str]) -> set[str]:
        """Operators and all that they read, directly or not; of super-operators all or none."""
        needed: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in self.specs and name not in needed:
                needed.add(name)
                unit = self.specs[name].unit
                waiting += self.specs[name].inputs
                waiting += [one for one, spec in self.specs.items() if unit is not None and spec.unit == unit]
        return needed

    def operator_readers(self) -> dict[str, set[str]]:
        """The registered queries that each operator works for; an empty name stands for subscriptions."""
        readers: dict[str, set[str]] = {}
        read = {query: self._read_by_queries([query]) for query in self.clients}
        for reader, operators in {**read, "": self._read_by_subscriptions()}.items():
            for operator in self._upstream(operators):
                readers.setdefault(operator, set()).add(reader)
        return readers

    def generation(self, query: str) -> int:
        """How often a query of this name has been registered."""
        return self._generations[query]

    def client_nodes(self) -> dict[str, Address]:
        """The node of each query's client; of a query that was withdrawn, the node of one of its readers."""
        found = dict(self.clients)
        readers = {name: self._readers(name, self.catalogue) for name in self._remnants}
        for _ in readers:  # each time at least one more, until no more can be found
            for name in [name for name in readers if name not in found]:
                nodes = [found.get(one) if isinstance(one, str) else one for one in readers[name]]
                at = next((node for node in nodes if node is not None), None)
                if at is not None:
                    found[name] = at
        return found

    # Moves and divisions

    def _location_report(self, message: messages.LocationReport, sender: Address) -> None:
        stream, location = message
        if not self.has(stream):
            self._send(sender, messages.WithdrawalNotice((whole_operator(stream),)))
        elif stream not in self.locations or location.version > self.locations[stream].version:
            self.locations[stream] = location

    def _division_report(self, message: messages.DivisionReport, sender: Address) -> None:
        if not self.has(message.operator):
            self._send(sender, messages.WithdrawalNotice((message.operator,)))
            return
        self.divisions.append(message)
        for replica in message.replicas:
            self.locations.setdefault(replica, StreamLocation(sender))
