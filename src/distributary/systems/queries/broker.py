"""A node of the query network: XFlow's node architecture (003, Figure 5.3) and what its clients call.

Rules:

- An external source has a proxy at some node, which rejects late events and publishes the rest, once somebody
  reads it. The root broker of the source is where its stream enters the tree: what readers missed when a root
  broker is removed can still be read from the proxy.
- A query's operators begin at its client's node, each as the publisher of a stream of its own. They may be
  moved, divided, and moved again while items flow (`reconfiguration`).
- Queries and subscriptions are withdrawn where they were made. The registry says what ends with them, and
  every node frees its state of that; other readers notice nothing.
- A node that stops and starts again with its state loses nothing: what was sent to it meanwhile is sent
  again. What a node that is removed had in memory is lost, unless the network makes checkpoints.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf

from distributary.errors import DistributaryError
from distributary.flow import Item, Query, RejectedItem, Source, SourceIntake
from distributary.flow.incremental.running import END
from distributary.model import Event, Subscription, SubscriptionKey
from distributary.overlay.node import Address, Node
from distributary.plan.queries.spreading import ParentPreference, preference_of
from distributary.systems.queries import messages, settings
from distributary.systems.queries.checkpoints import CheckpointManager
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.engine import Engine, first_cursors
from distributary.systems.queries.link_meter import LinkMeter
from distributary.systems.queries.listing import RegistryListing
from distributary.systems.queries.messages import InputCursor, Selection, StreamLocation, TrafficCounts
from distributary.systems.queries.node_model import MeasurementReport, Site
from distributary.systems.queries.optimiser import QueryOptimiser, optimiser_of
from distributary.systems.queries.own_metrics_meter import OwnMetricsMeter
from distributary.systems.queries.processing import INSTANT, Processor
from distributary.systems.queries.publications import StreamPublication
from distributary.systems.queries.reader_names import client_name
from distributary.systems.queries.reconfiguration import Reconfiguration
from distributary.systems.queries.registry import QueryRegistry
from distributary.systems.queries.registry_failover import RegistryClient, RegistryLink
from distributary.systems.queries.shedding import Shedding
from distributary.systems.queries.stream_subscriptions import StreamSubscriptions
from distributary.systems.queries.stream_trees import StreamTreeSettings
from distributary.systems.queries.thinning import NodeThinning
from distributary.systems.queries.traffic import TrafficCounter


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
    subscriber: str | None = None
    """Whose subscription it was."""


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
        surroundings: settings.Surroundings | None = None,
        *,
        optimising: settings.QueryOptimiserSettings | None = None,
        checkpoints: settings.CheckpointSettings | None = None,
        regrouping: settings.Regrouping | None = None,
        shedding: settings.SheddingSettings | None = None,
        processor: Processor = INSTANT,
    ) -> None:
        if shedding is not None and checkpoints is not None:
            raise DistributaryError("a network that makes checkpoints does not shed load: choose one of them")
        around = _surroundings(surroundings or settings.Surroundings(), regrouping, optimising)
        self.node = node
        self.connections = connections = Connections(node)
        self.refused: dict[str, str] = {}
        """Queries and subscriptions that the registry refused, and why."""
        self._intakes: dict[str, SourceIntake] = {}
        """Of the sources whose proxy this is."""
        self._source_traffic: dict[str, TrafficCounter] = {}
        """Of the sources whose proxy this is, since it was last sent."""
        self._source_counts: list[TrafficCounts] = []
        """What proxies have counted of sources whose root broker this is."""
        # The parts, each made after those that it works with.
        thinned: dict[str, str] = {}
        self.registry_link: RegistryLink
        if checkpoints is not None:
            self.registry_link = RegistryClient(connections, registry, around, checkpoints)
        else:
            here = node.address == registry
            made = QueryRegistry(node, around, connections.send, thinned=thinned) if here else None
            self.registry_link = RegistryLink(connections, registry, made)
        self.link_meter = LinkMeter(self.registry_link, around.brokers, around.probing, processor.speed)
        self.engine = Engine(
            self.registry_link,
            checkpointed=checkpoints is not None,
            on_settled=lambda reader: self._settled(reader),
            processor=processor,
            trees=StreamTreeSettings(
                around.fanout, around.prefer or ParentPreference.NEAREST, around.restructuring
            ),
            links=self.link_meter.table,
            thinning=None if shedding is None else NodeThinning(shedding.seed),
        )
        self.router = self.engine.router
        self.subscriptions = StreamSubscriptions(self.engine, node.deliver)
        self.checkpoints: CheckpointManager | None = None
        if checkpoints is not None:
            self.checkpoints = CheckpointManager(connections, self.engine, checkpoints, around.brokers)
        self.reconfiguration = Reconfiguration(connections, self.engine, self.checkpoints)
        self.optimiser = None if optimising is None else self._optimiser(optimising, around)
        self.shedding = (
            None if shedding is None else Shedding(shedding, self.registry_link, self.engine, thinned)
        )
        self._handle_messages(node)

    def _handle_messages(self, node: Node) -> None:
        node.handle(messages.SourceRoot, self._source_root)
        node.handle(messages.QueryDeployment, self._deployment)
        node.handle(messages.RegistrationRefusal, self._refusal)
        node.handle(messages.SubscriptionStreams, self._subscription_streams)
        node.handle(messages.WithdrawalNotice, self._withdrawal)
        node.handle(RegistryListing, lambda message, sender: node.deliver(message))
        node.handle(messages.WithdrawalConfirmation, self._withdrawal_confirmed)
        node.handle(TrafficCounts, lambda message, sender: self._source_counts.append(message))

    def _optimiser(
        self, optimising: settings.QueryOptimiserSettings, around: settings.Surroundings
    ) -> QueryOptimiser:
        """The part that optimises, and what it measures with."""
        gauges = (optimising.link_gauges, optimising.node_gauges)
        OwnMetricsMeter(self.registry_link, around.brokers, around.probing, *gauges)
        parts = (self.connections, self.link_meter, self.engine, self.registry_link)
        site = Site(*parts, self.measure, self.reconfiguration.carry_out)
        return optimiser_of(optimising, site)

    # What clients call: sources

    def register_source(self, source: Source, volume: float = 0.0) -> None:
        """Be the proxy of an external source of about so many bytes a second."""
        self._intakes.setdefault(source.name, SourceIntake(source))
        self.registry_link.send(messages.RegisterSource(source, self.node.address, volume))

    def publish(self, event: Event) -> None:
        """Publish an event of the external sources whose proxy this is, as far as somebody reads them."""
        for rejected in self.take_in(event, self._intakes):
            self.node.deliver(rejected)

    def take_in(self, event: Event, sources: Collection[str]) -> list[RejectedItem]:
        """The same for some of these sources; gives what was rejected, with the reasons."""
        rejected: list[RejectedItem] = []
        for name in sources:
            intake = self._intakes[name]
            if intake.source.accepts(event) and self._is_read(name):
                rejected += self._take_in(intake, event)
        return rejected

    def _is_read(self, source: str) -> bool:
        """Whether somebody reads a source whose proxy this is."""
        publication = self.router.publications.get(source)
        return publication is not None and bool(publication.acknowledged)

    def end(self, source: str) -> None:
        """A source gives nothing more: all windows over it can close."""
        if source in self.router.publications:
            self.router.publish(source, [], END)

    # What clients call: queries and subscriptions

    def register_query(self, query: Query, utility: float = 1.0) -> None:
        """Run a query; its answer is delivered here as `QueryResult`s, or its refusal is in `refused`.

        Where load is shed, `utility` is what the query is worth among others, and its share is delivered as
        `QueryShare` whenever that changes.
        """
        if not 0 < utility < inf:
            raise DistributaryError(f"a query's utility is above 0, and finite, not {utility:g}")
        self.registry_link.send(messages.RegisterQuery(query, utility))

    def unregister_query(self, name: str) -> None:
        """Withdraw a query of this node; after its `Withdrawal` is delivered no more results are.

        Its operators run as long as other queries or subscriptions read them. Why one cannot be withdrawn
        is in `refused`.
        """
        self.registry_link.send(messages.UnregisterQuery(name))

    def subscribe(self, subscription: Subscription) -> None:
        """Have items of operators' streams delivered whose topics and attributes match.

        In place of what a subscription with the same key asked for, here or at another node.
        """
        if not subscription.filters().keys() <= {"topic", "where"}:
            raise DistributaryError("a subscription to streams of queries takes topic and where only")
        self.registry_link.send(messages.RegisterSubscription(subscription))

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Withdraw a subscription of this node; after its `Withdrawal` is delivered no more items are."""
        self.registry_link.send(messages.UnregisterSubscription(key))

    # What clients call: what there is

    def list_registry(self) -> None:
        """Ask what is registered; the answer is delivered here as a `RegistryListing`."""
        self.registry_link.send(messages.ListingRequest())

    # What clients call: changes of operators

    def move(self, operator: str, to: Address) -> None:
        """Move an operator that is here, and what is here of its super-operator, to another node."""
        self.reconfiguration.move(operator, to)

    def partition(self, operator: str, parts: int = 2, to: Sequence[Address] = ()) -> None:
        """Divide an operator's input among so many replicas, which move to nodes `to`."""
        self.reconfiguration.partition(operator, parts, to)

    def replicate(self, operator: str, to: Sequence[Address] = ()) -> None:
        """Give each input of a union, or of the union before an operator, a replica."""
        self.reconfiguration.replicate(operator, to)

    # Sources

    def _source_root(self, message: messages.SourceRoot, sender: Address) -> None:
        source, location, proxy = message
        if proxy == self.node.address and source.name not in self.router.publications:
            self.router.install(source.name, StreamPublication(), location)
            self._source_traffic[source.name] = TrafficCounter(self.node.now)
        if location.host == self.node.address:
            self.router.become_root(source.name, location, proxy)
        elif proxy == self.node.address:
            self.router.learn([(source.name, location)])
            if location.version == self.router.locations[source.name].version:
                self.router.locations[source.name] = location  # another root of the same tree

    def _take_in(self, intake: SourceIntake, event: Event) -> list[RejectedItem]:
        item = intake.admit(event)
        rejected = list(intake.rejected)
        intake.rejected.clear()
        if item is not None:
            source = intake.source.name
            self._source_traffic[source].take_in(item)
            self.router.publish(source, [item], intake.watermark)
        return rejected

    def measure(self) -> MeasurementReport:
        """What was counted since the last call, of operators here and of sources rooted here."""
        now = self.node.now
        counts = []
        for name, hosted in self.engine.operators.items():
            if hosted.is_reading and now > hosted.traffic.since and hosted.traffic.is_telling:
                counts.append(hosted.traffic.counts(name, now))
                hosted.traffic = TrafficCounter(now)
        for name, traffic in self._source_traffic.items():
            if now > traffic.since:
                if self._is_read(name):  # then it is counted from the moment operators count, items or none
                    self.connections.send(self.router.locations[name].host, traffic.counts(name, now))
                self._source_traffic[name] = TrafficCounter(now)
        sources, self._source_counts = tuple(self._source_counts), []
        return MeasurementReport(tuple(counts), sources)

    # Queries and subscriptions

    def _settled(self, reader: str) -> None:
        """An operator or client here has been granted all its inputs, or waits for none."""
        self.reconfiguration.settled(reader)

    def _deployment(self, message: messages.QueryDeployment, sender: Address) -> None:
        query, specs, outputs, locations, generation, ordered = message
        self.refused.pop(query, None)
        self.router.learn(locations)
        for spec in specs:
            self.engine.install(spec, first_cursors(spec))
            self.router.install(spec.name, StreamPublication(), StreamLocation(self.node.address))
        if self.shedding is not None:
            readers = [client_name(output, generation) for output, _ in outputs]
            self.shedding.clients.begin(query, readers)
        # Readers subscribe before those they read, so that nothing is given out unseen.
        for output, stream in outputs:
            cursor = InputCursor(stream, Selection())
            sink = partial(self._deliver, query, stream, output)
            self.engine.serve(client_name(output, generation), cursor, sink, ordered)
        for spec in reversed(specs):
            self.engine.begin(spec.name)

    def _deliver(self, query: str, stream: str, output: str, number: int, item: Item) -> None:
        if self.shedding is None or self.shedding.clients.delivers(query, stream, item):
            self.node.deliver(QueryResult(output, item))

    def _refusal(self, message: messages.RegistrationRefusal, sender: Address) -> None:
        self.refused[message.name] = message.reason

    def _subscription_streams(self, message: messages.SubscriptionStreams, sender: Address) -> None:
        self.router.learn(message.locations)
        self.subscriptions.begin(message)

    def _withdrawal(self, message: messages.WithdrawalNotice, sender: Address) -> None:
        """Free all state of what is withdrawn."""
        unread = self.router.withdraw(message.names)
        parts = (self.engine, self.subscriptions, self.optimiser, self.checkpoints, self.reconfiguration)
        for part in parts:
            if part is not None:
                part.withdraw()
        for stream in unread:
            if self.engine.is_union(stream):
                # Its former readers have replicas in its place, and later ones have left.
                self.engine.retire(stream, forget=True)

    def _withdrawal_confirmed(self, message: messages.WithdrawalConfirmation, sender: Address) -> None:
        if message.subscriber is None and self.shedding is not None:
            self.shedding.clients.end(message.name)
        self.node.deliver(Withdrawal(message.name, message.subscriber))


def _surroundings(
    around: settings.Surroundings,
    regrouping: settings.Regrouping | None,
    optimising: settings.QueryOptimiserSettings | None,
) -> settings.Surroundings:
    """What is known of the network below, with what merging and the goal say of its trees."""
    if regrouping is not None:
        around = replace(around, regrouping=regrouping)
    if optimising is not None:
        prefer = around.prefer or preference_of(optimising.goal)
        period = around.restructuring or optimising.period
        around = replace(around, prefer=prefer, restructuring=period)
    return around
