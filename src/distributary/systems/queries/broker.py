"""A node of the query network: XFlow's node architecture (003, Figure 5.3) and what its clients call.

Parts: `connections` (connection manager), `router` (pub/sub manager and router), `engine`
(operator engine and what is measured there), this module and `reconfiguration` (query manager), `registry`
(on one node), `statistics` (statistics manager), `optimiser` (optimiser), `checkpoints` and
`registry_failover` (what survives a node that is gone).

Rules:

- An external source has a proxy at some node, which judges what is late and publishes the rest, once somebody
  reads it. The root broker of the source is where its stream enters the tree: what readers missed when a root
  broker is gone is still to be had at the proxy.
- A query's operators begin at its client's node, each as the publisher of a stream of its own. They may be
  moved, divided, and moved again while items flow (`reconfiguration`).
- Queries and subscriptions are withdrawn where they were made. The registry says what is over with them, and
  every node frees what it has of that; what others read goes on as if nothing had happened.
- A node that stops and starts again with its state loses nothing: what was sent to it meanwhile is sent
  again. What a node that is gone for good had in memory is lost, unless its operators are guarded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from distributary.errors import DistributaryError
from distributary.flow import Item, Query, RejectedItem, Source, SourceIntake
from distributary.flow.incremental.running import END
from distributary.model import Delivery, Event, Subscription
from distributary.overlay.node import Address, Node
from distributary.systems.queries.checkpoints import CheckpointManager, CheckpointSettings, removal_notice
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.engine import Engine, TrafficCounter, inlets_of
from distributary.systems.queries.messages import (
    InputCursor,
    QueryDeployment,
    RegisterQuery,
    RegisterSource,
    RegisterSubscription,
    RegistrationRefusal,
    Selection,
    SourceRoot,
    StreamLocation,
    SubscriptionStreams,
    TrafficCounts,
    UnregisterQuery,
    UnregisterSubscription,
    WithdrawalConfirmation,
    WithdrawalNotice,
)
from distributary.systems.queries.optimiser import MeasurementReport, QueryOptimiser, QueryOptimiserSettings
from distributary.systems.queries.reconfiguration import Reconfiguration
from distributary.systems.queries.registry import QueryRegistry, client_name, subscriber_name
from distributary.systems.queries.registry_failover import RegistryClient, RegistryReplica
from distributary.systems.queries.router import Router, StreamPublication
from distributary.systems.queries.source_trees import Regrouping, Surroundings


@dataclass(frozen=True)
class QueryResult:
    """An item of a query's answer, for its client."""

    stream: str
    """As the query's author knows it: `query.operator`."""
    item: Item


@dataclass(frozen=True)
class Withdrawal:
    """A query or subscription is withdrawn: nothing of it is delivered any more."""

    name: str
    """Of the query, or the subscription's id."""


class FlowBroker:
    """A node that runs stream queries.

    >>> from distributary.flow import QueryBuilder
    >>> node = Node(1)
    >>> broker = FlowBroker(node, registry=1)
    >>> build = QueryBuilder("busy")
    >>> _ = build.filter("large", "trades", where="size > 10")
    >>> trades = Source("trades", {"size": "integer", "at": "integer"}, time="at", topic="trades")
    >>> _ = node.call(lambda: broker.register_source(trades), now=0)
    >>> _ = node.call(lambda: broker.register_query(build.query()), now=0)
    >>> event = Event("e1", "trades", {"size": 12, "at": 5})
    >>> [effect.item.item.id for effect in node.call(lambda: broker.publish(event), now=0)]
    ['e1']
    """

    def __init__(
        self,
        node: Node,
        registry: Address,
        surroundings: Surroundings | None = None,
        *,
        optimising: QueryOptimiserSettings | None = None,
        guarding: CheckpointSettings | None = None,
        regrouping: Regrouping | None = None,
        timeout: float = 1.0,
    ) -> None:
        self.node = node
        self.connections = Connections(node, timeout=timeout)
        self.engine = Engine(lambda: node.now, guarded=guarding is not None)
        self.router = Router(
            node, self.connections, registry, self.engine.take, self.engine.begin_again, self.engine.wake
        )
        self.engine.router = self.router
        self.router.on_void = self.engine.give_up
        self.engine.on_set_aside = lambda name, id, reason: node.deliver(RejectedItem(name, id, reason))
        around = surroundings or Surroundings()
        self.registry: QueryRegistry | None = None
        """If it is in office here."""
        if node.address == registry or guarding is not None:
            made = QueryRegistry(node, self.connections, around, regrouping)
            self.registry = made if node.address == registry else None
        self.refused: dict[str, str] = {}
        """Queries and subscriptions that could not be served, and why."""
        self.unwanted = 0
        """Events that were not sent, as nobody wants their source's stream."""
        self._intakes: dict[str, SourceIntake] = {}
        """Of the sources whose proxy this is."""
        self._fed_since: dict[str, TrafficCounter] = {}
        self._told: list[TrafficCounts] = []
        """What proxies elsewhere have counted of sources whose root broker this is."""
        self._subscriptions: dict[str, Subscription] = {}
        for kind, handler in (
            (SourceRoot, self._rooted),
            (QueryDeployment, self._planned),
            (RegistrationRefusal, self._refused),
            (SubscriptionStreams, self._streams),
            (WithdrawalNotice, self._withdrawn),
            (WithdrawalConfirmation, self._confirmed),
            (TrafficCounts, self._counted),
        ):
            node.handle(kind, handler)  # type: ignore[arg-type]
        self.guard: CheckpointManager | None = None
        if guarding is not None:
            desk = RegistryClient(node, self.connections, registry)
            self.router.tell_registry = desk.send
            office = RegistryReplica(node, self.connections, made, around.brokers, removal_notice)
            self.guard = CheckpointManager(
                node,
                self.connections,
                self.router,
                guarding,
                around.brokers,
                office,
                desk,
                self.engine.snapshot,
                self.engine.take_over,
            )
            if node.address == registry:
                office.begin(self.guard.standby())
            elif registry in around.brokers and self.guard.guardian(registry) == node.address:
                office.leader = registry
            desk.on_change = self._registry_moved
            office.on_take = lambda: self._take_office(office.registry)
        elif self.registry is not None:
            for asked in self.registry.handlers:
                node.handle(asked, self.registry.handle)
        self.changes = Reconfiguration(node, self.connections, self.engine, self.router, self.guard)
        self.optimiser: QueryOptimiser | None = None
        if optimising is not None:
            self.optimiser = QueryOptimiser(
                node,
                self.connections,
                optimising,
                surroundings or Surroundings(),
                self.engine,
                self.router,
                self.registry,
                registry,
                self._measure,
                self.changes.carry_out,
                self._tree,
            )

    def _send_registry(self, message: object) -> None:
        self.router.tell_registry(message)

    def _take_office(self, registry: QueryRegistry) -> None:
        self.registry = registry
        if self.optimiser is not None:
            self.optimiser.take_office(registry)

    def _registry_moved(self, address: Address) -> None:
        if self.optimiser is not None:
            self.optimiser.registry_moved(address)

    # What clients call: sources

    def register_source(self, source: Source, volume: float = 0.0) -> None:
        """Be the proxy of an external source of about so many bytes a second."""
        self._intakes.setdefault(source.name, SourceIntake(source))
        self._send_registry(RegisterSource(source, self.node.address, volume))

    def publish(self, event: Event) -> None:
        """An event of an external source whose proxy this is."""
        for name, intake in self._intakes.items():
            if intake.source.accepts(event):
                publication = self.router.publications.get(name)
                if publication is None or not publication.acknowledged:
                    self.unwanted += 1
                else:
                    self._take_in(intake, event)

    def end(self, source: str) -> None:
        """A source gives nothing more: all windows over it can close."""
        if source in self.router.publications:
            self.router.publish(source, [], END)

    # What clients call: queries and subscriptions

    def register_query(self, query: Query) -> None:
        """Run a query; its answer is delivered here as `QueryResult`s, or its refusal is in `refused`."""
        self._send_registry(RegisterQuery(query))

    def unregister_query(self, name: str) -> None:
        """Withdraw a query of this node; after its `Withdrawal` is delivered no more results are.

        Its operators go on as long as other queries or subscriptions read them. Why one cannot be withdrawn
        is in `refused`.
        """
        self._send_registry(UnregisterQuery(name))

    def subscribe(self, subscription: Subscription) -> None:
        """Have items of operators' streams delivered whose topic, `query/operator`, and attributes match."""
        if subscription.path is not None or subscription.change is not None:
            raise DistributaryError("a subscription to streams of queries takes topic and where only")
        self._subscriptions[subscription.id] = subscription
        self._send_registry(RegisterSubscription(subscription))

    def unsubscribe(self, subscription_id: str) -> None:
        """Withdraw a subscription of this node; after its `Withdrawal` is delivered no more items are."""
        self._send_registry(UnregisterSubscription(subscription_id))

    # Sources

    def _rooted(self, message: SourceRoot, sender: Address) -> None:
        source, place, proxy = message
        if proxy == self.node.address and source.name not in self.router.publications:
            self.router.install(source.name, StreamPublication(), place)
        if place.host == self.node.address:
            self.router.root(source.name, place, proxy)
        elif proxy == self.node.address:
            self.router.learn([(source.name, place)])
            if place.moves == self.router.places[source.name].moves:
                self.router.places[source.name] = place  # another root of the same tree

    def _take_in(self, intake: SourceIntake, event: Event) -> None:
        item = intake.admit(event)
        for aside in intake.rejected:
            self.node.deliver(aside)
        intake.rejected.clear()
        if item is not None:
            source = intake.source.name
            self._fed_since.setdefault(source, TrafficCounter(self.node.now)).take_in(item)
            self.router.publish(source, [item], intake.watermark)

    # Queries

    def _planned(self, message: QueryDeployment, sender: Address) -> None:
        query, specs, outputs, places, time = message
        self.refused.pop(query, None)
        self.router.learn(places)
        for spec in specs:
            self.engine.install(spec, inlets_of(spec))
            self.router.install(spec.name, StreamPublication(), StreamLocation(self.node.address))
        # Readers subscribe before those they read, so that nothing is given out unseen.
        for output, stream in outputs:
            name = client_name(output, time)
            self.engine.serve(name, [InputCursor(stream, Selection())], self._result_sink(output))
        for spec in reversed(specs):
            self.engine.begin(spec.name)

    def _result_sink(self, output: str) -> Callable[[str, Item], None]:
        return lambda stream, item: self.node.deliver(QueryResult(output, item))

    def _refused(self, message: RegistrationRefusal, sender: Address) -> None:
        self.refused[message.name] = message.reason

    def _streams(self, message: SubscriptionStreams, sender: Address) -> None:
        subscription = self._subscriptions[message.subscription]
        self.router.learn(message.places)

        def sink(stream: str, item: Item) -> None:
            self.node.deliver(Delivery(item.id, subscription.subscriber, (subscription.id,)))

        for name, stream in message.streams:
            inlet = InputCursor(stream, Selection(where=subscription.where))
            self.engine.serve(subscriber_name(subscription.id, message.time, name), [inlet], sink)

    # Withdrawals

    def _withdrawn(self, message: WithdrawalNotice, sender: Address) -> None:
        """Free all that is here of what is over."""
        unread = self.router.withdraw_all(message.names)
        self.engine.withdraw_all()
        if self.optimiser is not None:
            self.optimiser.withdraw_all()
        if self.guard is not None:
            self.guard.withdraw_all()
        self.changes.withdraw_all()
        for stream in unread:
            if self.engine.remembers_nothing(stream):
                # Those who need it have replicas in its place, and who came later has left.
                self.engine.put_to_sleep(stream, forget=True)

    def _confirmed(self, message: WithdrawalConfirmation, sender: Address) -> None:
        if message.subscription:
            del self._subscriptions[message.name]
        self.node.deliver(Withdrawal(message.name))

    # Changes

    def move(self, operator: str, to: Address) -> None:
        """Have an operator that is here go on at another node, with what is here of its super-operator."""
        self.changes.move(operator, to)

    def partition(self, operator: str, parts: int = 2, to: Sequence[Address] = ()) -> None:
        """Divide an operator's input among so many replicas, which go where they are told to."""
        self.changes.partition(operator, parts, to)

    def replicate(self, operator: str, to: Sequence[Address] = ()) -> None:
        """Give each input of a union, or of the union before an operator, a replica."""
        self.changes.replicate(operator, to)

    @property
    def moves(self) -> int:
        """How many operators have left here for another node."""
        return self.changes.moves

    def can_partition(self, operator: str) -> bool:
        """Whether an operator that is here can be divided any way."""
        return self.changes.can_partition(operator)

    def can_replicate(self, operator: str) -> bool:
        """Whether an operator that is here can have a replica for each input of its union."""
        return self.changes.can_replicate(operator)

    # What the optimiser needs

    def _tree(self) -> int | None:
        """A tree of sources that this node is a member of."""
        here = self.node.address
        rooted = [place.tree for place in self.router.places.values() if place.host == here]
        return next((tree for tree in (*rooted, *self.router.parents) if tree is not None), None)

    def _measure(self) -> MeasurementReport:
        """What was measured since this was last asked for, here and by proxies of sources rooted here."""
        now = self.node.now
        counted = []
        for name, hosted in self.engine.hosted.items():
            if hosted.spec is not None and not hosted.asleep and now > hosted.measures.since:
                counted.append(hosted.measures.counted(name, now))
                hosted.measures = TrafficCounter(now)
        for name, measures in self._fed_since.items():
            if now > measures.since:
                self.connections.send(self.router.places[name].host, measures.counted(name, now))
                self._fed_since[name] = TrafficCounter(now)
        sources, self._told = tuple(self._told), []
        return MeasurementReport(tuple(counted), sources)

    def _counted(self, message: TrafficCounts, sender: Address) -> None:
        self._told.append(message)
