"""A node of the query network: XFlow's node architecture (003, Figure 5.3) and what its clients call.

Parts: `flow_connections` (connection manager), `flow_streams` (pub/sub manager and router), `flow_engine`
(operator engine and what is measured there), this module (query manager), `flow_registry` (on one node),
`flow_optimising` (optimiser and statistics manager), `flow_guarding` (what survives a node that is gone).

Rules:

- External sources have a proxy here or elsewhere, which sends their events to the root broker once somebody
  wants them. The root broker judges what is late and publishes the rest.
- A query's operators begin at its client's node, each as the publisher of a stream of its own. They may be
  moved, divided, and moved again while items flow: pause, drain, resume. An operator is taken out with its
  memory, its position in each input and what its readers have not acknowledged; the new host goes on from
  there. No element is lost, repeated or overtaken within its stream.
- A change of an operator that is still waiting for one of its inputs is made when it has it.
- Queries and subscriptions are withdrawn where they were made. The registry says what is over with them, and
  every node frees what it has of that; what others read goes on as if nothing had happened.
- A node that stops and starts again with its state loses nothing: what was sent to it meanwhile is sent
  again. What a node that is gone for good had in memory is lost, unless its operators are guarded.

Cost: a move costs the hand-over, a subscription and its answer for each input and each node that reads the
stream, a notice to each of those, and one to the registry. A division costs nothing but the registry's notice
and subscriptions; its replicas then move like any operator.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from distributary.errors import DistributaryError
from distributary.flow import Branch, Intake, Item, Query, SetAside, Source, Union, splitting_of
from distributary.flow.dividing import branched, divided
from distributary.flow.running import END, State
from distributary.flow.splitting import Splitting
from distributary.model import Delivery, Event, Subscription
from distributary.overlay.node import Address, Node
from distributary.plan.query.rules import MIGRATION, PARTITION, REPLICATION
from distributary.systems.flow_connections import Connections
from distributary.systems.flow_engine import Engine, Measures, inlets_of
from distributary.systems.flow_guarding import Guard, Guarding
from distributary.systems.flow_messages import (
    PART,
    Activate,
    Confirmed,
    Counted,
    Deactivate,
    Ended,
    Fed,
    HandOver,
    Inlet,
    Located,
    Parted,
    Place,
    Planned,
    Reader,
    Refused,
    RegisterQuery,
    RegisterSource,
    RegisterSubscription,
    Rooted,
    Selection,
    Spec,
    Streams,
    UnregisterQuery,
    UnregisterSubscription,
    Withdrawn,
)
from distributary.systems.flow_optimising import Optimiser, Optimising, Order, Report
from distributary.systems.flow_registry import Registry, Surroundings, client_name, subscriber_name
from distributary.systems.flow_streams import Publication, Router


@dataclass(frozen=True)
class Result:
    """An item of a query's answer, for its client."""

    stream: str
    """As the query's author knows it: `query.operator`."""
    item: Item


@dataclass(frozen=True)
class Withdrawal:
    """A query or subscription is withdrawn: nothing of it is delivered any more."""

    name: str
    """Of the query, or the subscription's id."""


@dataclass(frozen=True)
class Replica:
    """A replica that is about to begin: what it does, from where it reads, and what it remembers."""

    spec: Spec
    inlets: list[Inlet]
    state: State


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
        optimising: Optimising | None = None,
        guarding: Guarding | None = None,
        timeout: float = 1.0,
    ) -> None:
        self.node = node
        self.connections = Connections(node, timeout=timeout)
        self.engine = Engine(lambda: node.now, guarded=guarding is not None)
        self.router = Router(
            node, self.connections, registry, self.engine.take, self.engine.begin_again, self._activate
        )
        self.engine.router = self.router
        self.engine.on_rest = self._rested
        self.engine.on_set_aside = lambda name, id, reason: node.deliver(SetAside(name, id, reason))
        self.registry: Registry | None = None
        if node.address == registry:
            self.registry = Registry(node, self.connections, surroundings or Surroundings())
        self.refused: dict[str, str] = {}
        """Queries and subscriptions that could not be served, and why."""
        self.moves = 0
        """Operators that have left here for another node."""
        self.unwanted = 0
        """Events that were not sent, as nobody wants their source's stream."""
        self._registry_at = registry
        self._proxied: dict[str, tuple[Source, Place | None]] = {}
        self._active: set[str] = set()
        self._intakes: dict[str, tuple[Intake, Address]] = {}
        self._subscriptions: dict[str, Subscription] = {}
        self._later: dict[str, list[Callable[[], None]]] = {}
        """What is to be done with operators as soon as they are at rest."""
        self._successions: list[tuple[set[str], list[tuple[str, Reader]]]] = []
        """Readers that are forgotten as soon as all that took their place are at rest."""
        for kind, handler in (
            (Rooted, self._rooted),
            (Activate, self._activated),
            (Fed, self._fed),
            (Ended, self._ended),
            (Planned, self._planned),
            (Refused, self._refused),
            (Streams, self._streams),
            (HandOver, self._handed_over),
            (Deactivate, self._deactivated),
            (Withdrawn, self._withdrawn),
            (Confirmed, self._confirmed),
        ):
            node.handle(kind, handler)  # type: ignore[arg-type]
        self._fed_since: dict[str, Measures] = {}
        self.optimiser: Optimiser | None = None
        if optimising is not None:
            self.optimiser = Optimiser(
                node,
                self.connections,
                optimising,
                surroundings or Surroundings(),
                self.registry,
                registry,
                self._measure,
                self._carry_out,
                self._tree,
            )
        self.guard: Guard | None = None
        if guarding is not None:
            self.guard = Guard(
                node,
                self.connections,
                self.router,
                guarding,
                (surroundings or Surroundings()).brokers,
                self.registry,
                self.engine.snapshot,
                self.engine.take_over,
            )
        node.at_alarm("flow at rest", self._do_later)
        node.at_start(self._begin)

    def _send_registry(self, message: object) -> None:
        self.connections.send(self._registry_at, message)

    # What clients call: sources

    def register_source(self, source: Source, volume: float = 0.0) -> None:
        """Be the proxy of an external source of about so many bytes a second."""
        self._proxied[source.name] = source, None
        self._send_registry(RegisterSource(source, self.node.address, volume))

    def publish(self, event: Event) -> None:
        """An event of an external source whose proxy this is."""
        for name, (source, place) in self._proxied.items():
            if source.accepts(event):
                if place is None or name not in self._active:
                    self.unwanted += 1
                else:
                    self.connections.send(place.host, Fed(name, event))

    def end(self, source: str) -> None:
        """A source gives nothing more: all windows over it can close."""
        _, place = self._proxied[source]
        if place is not None:
            self.connections.send(place.host, Ended(source))

    # What clients call: queries and subscriptions

    def register_query(self, query: Query) -> None:
        """Run a query; its answer is delivered here as `Result`s, or its refusal is in `refused`."""
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

    def _rooted(self, message: Rooted, sender: Address) -> None:
        source, place, proxy = message
        if source.name in self._proxied:
            self._proxied[source.name] = source, place
        if place.host == self.node.address:
            self._intakes[source.name] = Intake(source), proxy
            self.router.install(source.name, Publication(), place)

    def _activate(self, stream: str) -> None:
        """Somebody wants a stream that is published here."""
        if stream in self._intakes and stream not in self._active:
            _, proxy = self._intakes[stream]
            self.connections.send(proxy, Activate(stream))

    def _activated(self, message: Activate, sender: Address) -> None:
        self._active.add(message.source)

    def _deactivated(self, message: Deactivate, sender: Address) -> None:
        self._active.discard(message.source)

    def _fed(self, message: Fed, sender: Address) -> None:
        intake, _ = self._intakes[message.source]
        item = intake.admit(message.event)
        for aside in intake.set_aside:
            self.node.deliver(aside)
        intake.set_aside.clear()
        if item is not None:
            self._fed_since.setdefault(message.source, Measures(self.node.now)).take_in(item)
            self.router.publish(message.source, [item], intake.watermark)

    def _ended(self, message: Ended, sender: Address) -> None:
        self.router.publish(message.source, [], END)

    # Queries

    def _planned(self, message: Planned, sender: Address) -> None:
        query, specs, outputs, places, time = message
        self.refused.pop(query, None)
        self.router.learn(places)
        for spec in specs:
            self.engine.install(spec, inlets_of(spec))
            self.router.install(spec.name, Publication(), Place(self.node.address))
        # Readers subscribe before those they read, so that nothing is given out unseen.
        for output, stream in outputs:
            name = client_name(output, time)
            self.engine.serve(name, [Inlet(stream, Selection())], self._result_sink(output))
        for spec in reversed(specs):
            self.engine.begin(spec.name)

    def _result_sink(self, output: str) -> Callable[[str, Item], None]:
        return lambda stream, item: self.node.deliver(Result(output, item))

    def _refused(self, message: Refused, sender: Address) -> None:
        self.refused[message.name] = message.reason

    def _streams(self, message: Streams, sender: Address) -> None:
        subscription = self._subscriptions[message.subscription]
        self.router.learn(message.places)

        def sink(stream: str, item: Item) -> None:
            self.node.deliver(Delivery(item.id, subscription.subscriber, (subscription.id,)))

        for name, stream in message.streams:
            inlet = Inlet(stream, Selection(where=subscription.where))
            self.engine.serve(subscriber_name(subscription.id, message.time, name), [inlet], sink)

    # Withdrawals

    def _withdrawn(self, message: Withdrawn, sender: Address) -> None:
        """Free all that is here of what is over."""
        unread = self.router.withdraw_all(message.names)
        self.engine.withdraw_all()
        if self.guard is not None:
            self.guard.withdraw_all()
        over = self.router.over
        self._later = {name: actions for name, actions in self._later.items() if not over(name)}
        ended = [each for each in self._successions if any(over(name) for name in each[0])]
        self._successions = [each for each in self._successions if each not in ended]
        for _, readers in ended:
            self._forget(readers)
        for stream in unread:
            if stream in self._intakes:
                self.connections.send(self._intakes[stream][1], Deactivate(stream))

    def _confirmed(self, message: Confirmed, sender: Address) -> None:
        if message.subscription:
            del self._subscriptions[message.name]
        self.node.deliver(Withdrawal(message.name))

    # Changes

    def move(self, operator: str, to: Address) -> None:
        """Have an operator that is here go on at another node, as soon as it is at rest.

        With it goes all that is here of its super-operator.
        """
        for name in self._unit(operator):
            self._when_at_rest(name, partial(self._move, name, to))

    def partition(self, operator: str, parts: int = 2, to: Sequence[Address] = ()) -> None:
        """Divide an operator's input among so many replicas (section 5.4.1).

        They begin here, and go where they are told to.
        """
        self._require(operator)
        if not self.can_partition(operator):
            raise DistributaryError(f"operator {operator!r} cannot be divided, or is part of a division")
        self._when_at_rest(operator, lambda: self._partition(operator, parts, to))

    def replicate(self, operator: str, to: Sequence[Address] = ()) -> None:
        """Give each input of a union, or of the union before an operator, a replica (section 5.4.1).

        They begin here, and go where they are told to.
        """
        self._require(operator)
        if not self.can_replicate(operator):
            raise DistributaryError(
                f"operator {operator!r} is no union, and reads none of its own that is here"
            )
        self._when_at_rest(operator, lambda: self._replicate(operator, to))

    def can_partition(self, operator: str) -> bool:
        """Whether an operator that is here can be divided any way."""
        spec = self._require(operator)
        whole = PART not in operator and spec.unit is None
        return whole and splitting_of(spec.operation, *spec.schemas) is not None

    def can_replicate(self, operator: str) -> bool:
        """Whether an operator that is here can have a replica for each input of its union."""
        return self.can_partition(operator) and self._union_of(operator) is not None

    def _union_of(self, operator: str) -> str | None:
        """The union whose inputs can have a replica each: the operator itself, or one only it reads, here."""
        spec = self._require(operator)
        if isinstance(spec.operation, Union):
            return operator
        splitting = splitting_of(spec.operation, *spec.schemas)
        above = self.engine.hosted.get(spec.inputs[0])
        if len(spec.inputs) != 1 or splitting is None or splitting.keys is not None or above is None:
            return None
        readers = set(self.router.publications[above.name].acknowledged)
        is_union = above.spec is not None and isinstance(above.spec.operation, Union)
        return above.name if is_union and above.at_rest and readers == {(operator, 0)} else None

    def _unit(self, operator: str) -> list[str]:
        """An operator, and what is here of its super-operator."""
        unit = self._require(operator).unit
        if unit is None:
            return [operator]
        hosted = self.engine.hosted.items()
        return [name for name, one in hosted if one.spec is not None and one.spec.unit == unit]

    def _require(self, operator: str) -> Spec:
        hosted = self.engine.hosted.get(operator)
        if hosted is None or hosted.spec is None:
            raise DistributaryError(f"operator {operator!r} is not at node {self.node.address}")
        return hosted.spec

    # Waiting for rest

    def _when_at_rest(self, operator: str, action: Callable[[], None]) -> None:
        self._later.setdefault(operator, []).append(action)
        if self.engine.hosted[operator].at_rest:
            self._rested(operator)

    def _begin(self) -> None:
        """Set the alarms that a node which starts again with its state has lost."""
        for operator in self._later:
            self.node.wake_after(0.0, "flow at rest", operator)

    def _rested(self, operator: str) -> None:
        for waiting, readers in self._successions:
            waiting.discard(operator)
            if not waiting and self.guard is not None:
                self.guard.after_checkpoint(partial(self._forget, readers))
            elif not waiting:
                self._forget(readers)
        self._successions = [each for each in self._successions if each[0]]
        if operator in self._later:
            # Not at once: the operator may be in the middle of handing out what it has just been given.
            self.node.wake_after(0.0, "flow at rest", operator)

    def _forget(self, readers: list[tuple[str, Reader]]) -> None:
        for stream, reader in readers:
            self.router.unsubscribe(stream, reader, forget=True)

    def _do_later(self, operator: str) -> None:
        actions = self._later.pop(operator, [])
        while actions:
            hosted = self.engine.hosted.get(operator)
            if hosted is None:
                return  # it has moved, and what else was asked of it here is void
            if not hosted.at_rest:
                self._later[operator] = actions
                return
            actions.pop(0)()

    # Moving

    def _move(self, operator: str, to: Address) -> None:
        if to == self.node.address or to in self.connections.gone:
            return
        self.moves += 1
        operator_known = self.engine.hand_over(operator, to)
        if self.guard is not None:
            self.guard.hand_over(to, operator_known)
        else:
            self.connections.send(to, operator_known)

    def _handed_over(self, message: HandOver, sender: Address) -> None:
        if self.guard is not None:
            self.guard.arrived(message)
        if self.router.over(message.spec.name):
            return
        known = self.router.places.get(message.spec.name, message.place)
        if message.spec.name in self.engine.hosted or known.moves > message.place.moves:
            return  # it has come by another way already
        self.engine.take_over(message)
        self._send_registry(Located(message.spec.name, message.place))

    # Dividing

    def _partition(self, operator: str, parts: int, to: Sequence[Address]) -> None:
        if not self.can_partition(operator):
            return  # another change came first
        spec, hosted = self._require(operator), self.engine.hosted[operator]
        splitting = splitting_of(spec.operation, *spec.schemas)
        assert splitting is not None
        assert hosted.running is not None
        states, final = divided(spec.operation, splitting, spec.schemas, hosted.running.state(), parts)
        replicas = []
        for part, state in enumerate(states):
            name = f"{operator}{PART}{part + 1}"
            inlets = [
                inlet._replace(
                    turn=0,
                    selection=inlet.selection._replace(
                        part=part,
                        parts=parts,
                        keys=None if splitting.keys is None else splitting.keys[number],
                    ),
                )
                for number, inlet in enumerate(hosted.inlets)
            ]
            replicas.append(Replica(Spec(name, splitting.replica, spec.inputs, spec.schemas), inlets, state))
        self._divide(operator, replicas, splitting, final, [operator])
        self._scatter(replicas, to)
        self._send_registry(Parted(operator, "partition", tuple(one.spec.name for one in replicas), None))

    def _replicate(self, operator: str, to: Sequence[Address]) -> None:
        union = self._union_of(operator) if self.can_partition(operator) else None
        if union is None:
            return  # another change came first
        spec, hosted, above = self._require(operator), self.engine.hosted[operator], self.engine.hosted[union]
        splitting = splitting_of(spec.operation, *spec.schemas)
        assert splitting is not None
        assert hosted.running is not None
        assert above.running is not None
        behind = None if union == operator else spec.operation
        states, final = branched(
            behind, splitting, spec.schemas, hosted.running.state(), above.running.state()
        )
        replicas = []
        for index, (inlet, state) in enumerate(zip(above.inlets, states, strict=True)):
            operation = Branch(index, None if behind is None else splitting.replica)
            made = Spec(f"{operator}{PART}{index + 1}", operation, (inlet.stream,), spec.schemas[:1])
            replicas.append(Replica(made, [inlet._replace(turn=0)], state))
        retired = [operator] if union == operator else [operator, union]
        self._divide(operator, replicas, splitting, final, retired)
        self._scatter(replicas, to)
        names = tuple(one.spec.name for one in replicas)
        self._send_registry(Parted(operator, "replication", names, None if union == operator else union))

    def _divide(
        self,
        operator: str,
        replicas: list[Replica],
        splitting: Splitting,
        final: State,
        stopped: list[str],
    ) -> None:
        """Put replicas and their final operator in the place of an operator; all begin here."""
        forgotten = []
        for name in stopped:
            old = self.engine.stop(name, forget=False)
            forgotten += [(inlet.stream, old.reader(number)) for number, inlet in enumerate(old.inlets)]
            if name != operator:
                self.router.retire(name)
        forgotten = [each for each in forgotten if each[0] not in stopped]
        given = replicas[0].spec.operation.schema(*replicas[0].spec.schemas)
        names = tuple(one.spec.name for one in replicas)
        last = Spec(operator, splitting.final, names, (given,) * len(names))
        self._begin_from(last, inlets_of(last), final)
        for replica in replicas:
            self._begin_from(replica.spec, replica.inlets, replica.state)
            self.router.install(replica.spec.name, Publication(), Place(self.node.address))
        self._successions.append((set(names), forgotten))
        for name in (operator, *names):
            self.engine.begin(name)
        if self.guard is not None:
            self.guard.checkpoint()

    def _scatter(self, replicas: list[Replica], to: Sequence[Address]) -> None:
        for replica, address in zip(replicas, to, strict=False):
            self.move(replica.spec.name, address)

    def _begin_from(self, spec: Spec, inlets: list[Inlet], state: State) -> None:
        hosted = self.engine.install(spec, inlets)
        assert hosted.running is not None
        hosted.running.restore(json.loads(json.dumps(state)))

    # What the optimiser needs

    def _tree(self) -> int | None:
        """A tree of sources that this node is a member of."""
        rooted = [self.router.places[source].tree for source in self._intakes]
        return next((tree for tree in (*rooted, *self.router.parents) if tree is not None), None)

    def _measure(self) -> Report:
        """What has been measured since this was last asked for."""
        now = self.node.now
        counted = []
        for name, hosted in self.engine.hosted.items():
            if hosted.spec is not None and now > hosted.measures.since:
                counted.append(hosted.measures.counted(name, now))
                hosted.measures = Measures(now)
        sources: list[Counted] = []
        for name, measures in self._fed_since.items():
            if now > measures.since:
                sources.append(measures.counted(name, now))
                self._fed_since[name] = Measures(now)
        return Report(tuple(counted), tuple(sources))

    def _carry_out(self, order: Order) -> None:
        """Do what the roots decided, as far as it can still be done."""
        rule, operator, moves = order
        if operator not in self.engine.hosted:
            return  # it has left meanwhile
        to = [address for _, address in moves]
        if rule == PARTITION.name:
            if self.can_partition(operator):
                self.partition(operator, len(to), to)
        elif rule == REPLICATION.name:
            self._carry_out_replication(operator, to)
        else:
            for name, address in moves:
                if name in self.engine.hosted:
                    self.move(name, address)

    def _carry_out_replication(self, operator: str, to: list[Address]) -> None:
        """Replicate an operator, or have the union before it come here first."""
        if self.can_replicate(operator):
            self.replicate(operator, to)
            return
        above = self._require(operator).inputs[0]
        place = self.router.places[above]
        if place.tree is None and place.host != self.node.address:
            here = self.node.address
            self.connections.send(place.host, Order(MIGRATION.name, above, ((above, here),)))
