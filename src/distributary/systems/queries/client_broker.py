"""A node of a query network as a broker of clients: they register, publish and subscribe, and are answered.

What `FlowBroker` does for one program that calls it, this does for clients who are elsewhere and want to know
when what they asked for is in force.

Rules:

- A source is acknowledged when every broker knows of it (`source_events`). Registered once more, as it is, it
  is acknowledged too; another source of that name is refused.
- A query is acknowledged when its client and all its operators here have been granted their inputs: every
  event that is published from then on counts for its answer. A subscription the same, for the streams that
  there are when it is made.
- An event is acknowledged when the proxies of its sources have taken it in.
- A withdrawal is acknowledged when the name is free again.
- What is refused is delivered as a `RequestRefusal`, with the reason.
- Nothing is kept on disks: a node that starts again has forgotten all, and the others no longer listen to it
  (`registry_failover`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from distributary.flow import Query, Source
from distributary.model import Event, Offset, Subscription, SubscriptionKey
from distributary.overlay.broker import Broker, RequestRefusal, SessionState
from distributary.overlay.node import Address, Message, Node, RegistrationKey, RequestKey
from distributary.systems.queries import messages, settings
from distributary.systems.queries.broker import FlowBroker
from distributary.systems.queries.processing import INSTANT, Processor
from distributary.systems.queries.reader_names import client_name, subscriber_name
from distributary.systems.queries.registry_failover import next_broker
from distributary.systems.queries.source_events import SourceEvents

NOTHING_YET = frozenset({""})
"""What is waited for before the registry has answered."""


class QueryBroker(FlowBroker, Broker):
    """A node of a query network, with clients.

    >>> node = Node(1)
    >>> broker = QueryBroker(node, 1, settings.Surroundings(brokers=[1]))
    >>> trades = Source("trades", {"size": "integer", "at": "integer"}, time="at", topic="trades")
    >>> node.call(lambda: broker.register_source(trades), now=0)[-1].what
    RegistrationKey(what='source', name='trades')
    """

    def __init__(
        self,
        node: Node,
        registry: Address,
        surroundings: settings.Surroundings,
        *,
        optimising: settings.QueryOptimiserSettings | None = None,
        checkpoints: settings.CheckpointSettings | None = None,
        processor: Processor = INSTANT,
    ) -> None:
        self._waiting: dict[RequestKey, frozenset[str]] = {}
        """What clients wait for, and the readers here that have not been granted their inputs for it."""
        super().__init__(
            node,
            registry,
            surroundings,
            optimising=optimising,
            checkpoints=checkpoints,
            processor=processor,
        )
        self._brokers = surroundings.brokers
        self._asked: dict[str, Source] = {}
        """Sources that the registry was told of, and has not answered."""
        self._contested: dict[str, Source] = {}
        """Sources that another node registers at the same time; who that is has not been heard yet."""
        self.source_events = SourceEvents(
            self.connections, surroundings.brokers, self.take_in, self._source_known
        )

    @property
    def joined(self) -> bool:
        """Whether the registry is at this node, or has been heard of."""
        registry = self.registry_link.address
        return registry == self.node.address or registry in self.link_meter.links()

    @property
    def acknowledges(self) -> bool:
        """Always: the registry and the proxies of sources answer."""
        return True

    # What clients call

    def register_source(self, source: Source, volume: float = 0.0) -> None:
        """Be the proxy of a source, unless there is one."""
        if not self._answer_source(source):
            self._asked[source.name] = source
            super().register_source(source, volume)

    def register_query(self, query: Query, utility: float = 1.0) -> None:
        """Run a query; its answer is delivered here as `QueryResult`s."""
        self._wait(RegistrationKey("query", query.name))
        super().register_query(query, utility)

    def unregister_query(self, name: str) -> None:
        """Withdraw a query of this node."""
        self._wait(RegistrationKey("withdrawal", name))
        super().unregister_query(name)

    def subscribe(self, subscription: Subscription) -> None:
        """Have items of operators' streams delivered."""
        super().subscribe(subscription)
        self._wait(subscription.key)

    def unsubscribe(self, key: SubscriptionKey) -> None:
        """Withdraw a subscription of this node."""
        self._waiting.pop(key, None)
        super().unsubscribe(key)

    def resume(self, session: SessionState) -> None:
        """Subscribe again: what was missed is not kept."""
        for subscription in session.subscriptions:
            self.subscribe(subscription)

    def reached(self, subscriber: str) -> Offset | None:
        """None: there is no log for clients."""
        return None

    def publish(self, event: Event) -> None:
        """Bring an event to its sources, wherever their proxies are; DistributaryError where it has none."""
        self.source_events.publish(event)

    def suspect(self, address: Address) -> None:
        """Nothing: the registry removes whoever is silent."""

    def leave(self) -> None:
        """Move the operators that run here to the next broker; one that is being moved stays with its way."""
        to = next_broker(sorted(self._brokers), self.node.address, self.connections.removed)
        for name in list(self.engine.operators) if to is not None else ():
            if self.engine.hosted[name].settled and to is not None:
                self.move(name, to)

    @property
    def left(self) -> bool:
        """Whether no operator runs here, and all that was sent has arrived."""
        return not self.engine.operators and self.connections.idle

    def restore(self, stored: Mapping[str, Message]) -> None:
        """Nothing is stored."""

    # Answers

    def _wait(self, key: RequestKey) -> None:
        self._waiting[key] = NOTHING_YET

    def _granted(self, key: RequestKey, readers: Iterable[str]) -> None:
        """The registry has agreed: wait for these readers, as far as they wait for anything themselves."""
        if key in self._waiting:
            hosted = self.engine.hosted
            self._waiting[key] = frozenset(
                name for name in readers if name in hosted and not hosted[name].settled
            )
            self._acknowledge(key)

    def _acknowledge(self, key: RequestKey) -> None:
        if not self._waiting[key]:
            del self._waiting[key]
            self.node.acknowledge(key)

    def _settled(self, reader: str) -> None:
        super()._settled(reader)
        for key in [key for key, readers in self._waiting.items() if reader in readers]:
            self._waiting[key] -= {reader}
            self._acknowledge(key)

    def _deployment(self, message: messages.QueryDeployment, sender: Address) -> None:
        super()._deployment(message, sender)
        outputs = (client_name(output, message.generation) for output, _ in message.outputs)
        specs = (spec.name for spec in message.specs)
        self._granted(RegistrationKey("query", message.query), (*outputs, *specs))

    def _subscription_streams(self, message: messages.SubscriptionStreams, sender: Address) -> None:
        super()._subscription_streams(message, sender)
        key = message.subscription.key
        names = (subscriber_name(key, message.generation, name) for name, _ in message.streams)
        self._granted(key, names)

    def _withdrawal_confirmed(self, message: messages.WithdrawalConfirmation, sender: Address) -> None:
        super()._withdrawal_confirmed(message, sender)
        if message.subscriber is None:
            self._granted(RegistrationKey("withdrawal", message.name), ())

    def _source_root(self, message: messages.SourceRoot, sender: Address) -> None:
        super()._source_root(message, sender)
        if message.proxy == self.node.address:
            self._asked.pop(message.source.name, None)
            self.source_events.begin(message.source)

    def _answer_source(self, source: Source) -> bool:
        """Answer whoever asks for a source that is known; whether it is."""
        known = self.source_events.known(source.name)
        key = RegistrationKey("source", source.name)
        if known is None:
            return False
        if known != source:
            reason = f"there is another source {source.name!r}, with other fields"
            self.node.deliver(RequestRefusal(key, reason))
        elif self.source_events.is_confirmed(source.name):
            self.node.acknowledge(key)
        return True

    def _source_known(self, source: Source) -> None:
        asked = self._contested.pop(source.name, None)
        if asked is not None:
            self._answer_source(asked)

    def _refusal(self, message: messages.RegistrationRefusal, sender: Address) -> None:
        super()._refusal(message, sender)
        name, reason = message
        source = self._asked.pop(name, None)
        if source is not None:
            self._intakes.pop(name, None)
            if not self._answer_source(source):
                self._contested[name] = source
            return
        for key in list(self._waiting):
            if name == (key.name if isinstance(key, RegistrationKey) else str(key)):
                del self._waiting[key]
                self.node.deliver(RequestRefusal(key, reason))
