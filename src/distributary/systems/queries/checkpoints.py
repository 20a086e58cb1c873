"""What becomes of operators when a node is gone for good: checkpoints at a guardian, which goes on with them.

Rules:

- A node's guardian is the next broker, by address, that is not gone. Every few seconds a node tells its
  guardian all that its operators know, as of one moment. Only what the guardian has stored is acknowledged to
  the publishers of their inputs, so whatever came after a checkpoint can be read again.
- An operator that moves goes by the guardian of its new host, which knows of it before the host does. Its
  former host keeps it until it has arrived, should that guardian be gone, and tells its own guardian of it.
- Nodes send heartbeats to the registry, and that to its standby (`registry_failover`). One that was silent
  for long is gone: it is ignored should it come back. Its guardian goes on with its operators
  from what it has stored.
- An operator that goes on from a checkpoint gives some items a second time, perhaps in another order. Ids
  and times do not depend on the order, so a reader knows them again: it has seen the id, or the item is
  before the watermark, up to which it has had everything. New numbers are beyond all that were given before.
- A checkpoint may know less than there was: a reader that came after it, or that the operator was moved on.
  So what an operator that goes on gives out is kept for a while, until all its readers have heard of it; who
  has not come then is no more. Of two that go on with an operator the one counts that has gone on more often,
  while the other gives up.

What is survived: one node after the other, with time for a checkpoint in between, root brokers of sources and
the registry among them; not proxies of sources, nor what a node's own clients were still to get. What was
under way from a node that stops, or about it, must arrive before it is declared gone: `silence` is longer
than it takes to send again what was lost.

Cost: a message for each node and checkpoint, of the size of its operators' memories; a sign of life a beat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

from distributary.overlay.node import Address, Node
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.messages import (
    LocationReport,
    OperatorHandover,
    StreamLocation,
    StreamMove,
    StreamReader,
)
from distributary.systems.queries.registry import QueryRegistry
from distributary.systems.queries.registry_failover import FAILOVER_MESSAGES, RegistryClient, RegistryReplica
from distributary.systems.queries.router import Router

AGAIN = 1 << 40
"""Added to the numbers, turns and moves of what goes on from a checkpoint: beyond all that were before."""


@dataclass(frozen=True)
class CheckpointSettings:
    """How often nodes tell what they know, and when they are taken for gone."""

    checkpoint: float = 2.0
    beat: float = 1.0
    silence: float = 8.0
    """Seconds."""


PATIENCE = 3.0
"""How many times `silence` readers of an operator that goes on are waited for: theirs may be gone, too."""
UNKNOWN = StreamReader("unknown", 0, 0)
"""Stands for readers of an operator that goes on which the checkpoint did not know of."""


class Checkpoint(NamedTuple):
    serial: int
    operators: tuple[OperatorHandover, ...]


class CheckpointReceipt(NamedTuple):
    serial: int


class OperatorTransfer(NamedTuple):
    """An operator on its way to its new host, by that one's guardian."""

    to: Address
    operator: OperatorHandover


class TransferReceipt(NamedTuple):
    """An operator is at its new host, after so many moves."""

    operator: str
    moves: int


class BrokerHeartbeat(NamedTuple):
    """A sign of life."""


class NodeRemoval(NamedTuple):
    """A node is gone for good; and where the registry believes all streams to be."""

    node: Address
    places: tuple[tuple[str, StreamLocation], ...]


CHECKPOINT_MESSAGES = (
    Checkpoint,
    CheckpointReceipt,
    OperatorTransfer,
    TransferReceipt,
    BrokerHeartbeat,
    NodeRemoval,
    *FAILOVER_MESSAGES,
)


def removal_notice(registry: QueryRegistry, node: Address) -> NodeRemoval:
    """What everybody is told of a node that is gone."""
    return NodeRemoval(node, tuple(registry.places.items()))


class CheckpointManager:
    """What a node does for its own operators, and for those of the node it guards."""

    def __init__(
        self,
        node: Node,
        connections: Connections,
        router: Router,
        settings: CheckpointSettings,
        brokers: Iterable[Address],
        office: RegistryReplica,
        desk: RegistryClient,
        snapshot: Callable[[], tuple[OperatorHandover, ...]],
        revive: Callable[[OperatorHandover], None],
    ) -> None:
        self.node = node
        self.connections = connections
        self.settings = settings
        self.revived = 0
        """Operators of nodes that are gone with which this one went on."""
        self._router = router
        self._brokers = tuple(sorted(brokers))
        self._office = office
        self._desk = desk
        self._snapshot = snapshot
        self._revive = revive
        self._serial = 0
        self._then: list[tuple[int, Callable[[], None]]] = []
        """What is to be done when a checkpoint is stored."""
        self._kept: dict[Address, dict[str, OperatorHandover]] = {}
        self._entrusted: dict[Address, dict[str, OperatorHandover]] = {}
        """Operators on their way to a node, until a checkpoint of its own tells of them."""
        self._leaving: dict[str, tuple[Address, OperatorTransfer]] = {}
        """Operators that have left here and have not arrived, and by whom they went."""
        self._told: dict[tuple[str, int, str], int] = {}
        """How far publishers know each reader to be."""
        self._awaiting: dict[str, tuple[tuple[str, StreamReader], ...]] = {}
        """For operators that have gone on, whom nobody waits for any more after a while: readers that the
        checkpoint did not know of, those that it knew and that have not come again, and what the operator
        itself had read before a division."""
        self._absent: dict[tuple[str, StreamReader], float] = {}
        """Readers of streams published here that no route leads to, and since when."""
        self._heard: dict[Address, float] = {}
        self._watched: Address | None = None
        """For whom this broker stands by, since its last beat."""
        for kind, handler in (
            (Checkpoint, self._checkpoint),
            (CheckpointReceipt, self._stored),
            (OperatorTransfer, self._entrust),
            (TransferReceipt, self._arrived),
            (BrokerHeartbeat, self._alive),
            (NodeRemoval, self._gone),
        ):
            node.handle(kind, handler)  # type: ignore[arg-type]
        node.at_alarm("flow checkpoint", self._tick)
        node.at_alarm("flow beat", self._beat)
        node.at_alarm("flow unknown", self._await_no_more)
        node.at_start(self._begin)

    def guardian(self, of: Address) -> Address:
        """The next broker that is not gone; the node itself if there is no other."""
        start = self._brokers.index(of)
        after = (*self._brokers[start + 1 :], *self._brokers[:start])
        return next((one for one in after if one not in self.connections.gone), of)

    def hand_over(self, to: Address, operator: OperatorHandover) -> None:
        """Send an operator to its new host, safely."""
        entrusted = OperatorTransfer(to, replace(operator, sender=self.node.address))
        self._leaving[operator.spec.name] = self.guardian(to), entrusted
        self.connections.send(self.guardian(to), entrusted)

    def arrived(self, operator: OperatorHandover) -> None:
        """Say that an operator is here, to the one who keeps it until then."""
        if any(reader == UNKNOWN for reader, _ in operator.acknowledged):
            self._await(operator.spec.name, [(operator.spec.name, UNKNOWN)])
        if operator.sender is not None:
            self.connections.send(operator.sender, TransferReceipt(operator.spec.name, operator.place.moves))

    def after_checkpoint(self, action: Callable[[], None]) -> None:
        """Do something as soon as what is known now is stored."""
        self._then.append((self._serial + 1, action))
        self.checkpoint()

    def checkpoint(self) -> None:
        """Tell the guardian all that the operators here know."""
        self._serial += 1
        here = self._snapshot()
        for operator in here:
            for number, inlet in enumerate(operator.inlets):
                name, position = operator.spec.name, inlet.position
                if position is not None and position != self._told.get((name, number, inlet.stream)):
                    reader = StreamReader(name, number, inlet.turn)
                    action = partial(self._acknowledge, inlet.stream, reader, position)
                    self._then.append((self._serial, action))
        self._forget_who_went_on()
        leaving = tuple(entrusted.operator for _, entrusted in self._leaving.values())
        self.connections.send(self.guardian(self.node.address), Checkpoint(self._serial, (*here, *leaving)))

    def _forget_who_went_on(self) -> None:
        """Keep no operator that has left and is known to have moved on since: somebody has it."""
        places = self._router.places
        self._leaving = {
            name: (by, entrusted)
            for name, (by, entrusted) in self._leaving.items()
            if name not in places or places[name].moves <= entrusted.operator.place.moves
        }

    def _acknowledge(self, stream: str, reader: StreamReader, position: int) -> None:
        if not self._router.over(reader.name):
            self._told[reader.name, reader.input, stream] = position
        self._router.acknowledge(stream, reader, position)

    def withdraw_all(self) -> None:
        """Keep nothing of operators that are over."""
        over = self._router.over
        for stored in (*self._kept.values(), *self._entrusted.values()):
            for name in [name for name in stored if over(name)]:
                del stored[name]
        self._leaving = {name: one for name, one in self._leaving.items() if not over(name)}
        self._awaiting = {name: read for name, read in self._awaiting.items() if not over(name)}
        self._told = {key: at for key, at in self._told.items() if not (over(key[0]) or over(key[2]))}

    # Time

    def _begin(self) -> None:
        self.node.wake_after(self.settings.checkpoint, "flow checkpoint")
        self.node.wake_after(self.settings.beat, "flow beat")
        self._heard = dict.fromkeys(self._brokers, self.node.now)
        for name in self._awaiting:
            self.node.wake_after(PATIENCE * self.settings.silence, "flow unknown", name)

    def _tick(self, about: object) -> None:
        self.node.wake_after(self.settings.checkpoint, "flow checkpoint")
        self._forget_absent()
        self.checkpoint()

    def _forget_absent(self) -> None:
        """When nodes are gone, wait no more for readers that were there, and that nobody goes on with.

        Such are replicas of a division of which nobody else had heard.
        """
        now = self.node.now
        absent = (
            [each for each in self._router.absent() if each[1] != UNKNOWN] if self.connections.gone else []
        )
        self._absent = {each: self._absent.get(each, now) for each in absent}
        for (stream, reader), since in self._absent.items():
            if now - since > PATIENCE * self.settings.silence:
                self._router.unsubscribe(stream, reader, forget=True)

    def _beat(self, about: object) -> None:
        self.node.wake_after(self.settings.beat, "flow beat")
        office = self._office
        # Not by the connection: one that comes late is no sign of life, and another follows soon.
        to = office.standby if office.in_office else self._desk.at
        if to is not None:
            self.node.send(to, BrokerHeartbeat())
        if office.in_office:
            for one in self._brokers:
                if self._silent(one) and one not in self.connections.gone | office.registry.gone:
                    office.lost(one, self.standby({one}))
        elif office.leader is not None:
            if office.leader != self._watched:
                self._watched = office.leader
                self._heard[office.leader] = self.node.now
            elif self._silent(office.leader):
                self._heard = dict.fromkeys(self._brokers, self.node.now)
                office.take(office.leader, self.standby({office.leader}))

    def _silent(self, node: Address) -> bool:
        return node != self.node.address and self.node.now - self._heard[node] > self.settings.silence

    def standby(self, lost: Iterable[Address] = ()) -> Address | None:
        """Who stands by for the registry here: the next broker that is neither gone nor lost."""
        start = self._brokers.index(self.node.address)
        after = (*self._brokers[start + 1 :], *self._brokers[:start])
        gone = {*self.connections.gone, *self._office.registry.gone, *lost}
        return next((one for one in after if one not in gone), None)

    def _alive(self, message: BrokerHeartbeat, sender: Address) -> None:
        self._heard[sender] = self.node.now

    # Guarding another

    def _checkpoint(self, message: Checkpoint, sender: Address) -> None:
        over = self._router.over
        there = {operator.spec.name: operator for operator in message.operators}
        self._kept[sender] = kept = {name: one for name, one in there.items() if not over(name)}
        entrusted = self._entrusted.get(sender, {})
        for name in [name for name in entrusted if name in kept]:
            del entrusted[name]
        self.connections.send(sender, CheckpointReceipt(message.serial))

    def _stored(self, message: CheckpointReceipt, sender: Address) -> None:
        due = [action for serial, action in self._then if serial <= message.serial]
        self._then = [each for each in self._then if each[0] > message.serial]
        for action in due:
            action()

    def _entrust(self, message: OperatorTransfer, sender: Address) -> None:
        to, operator = message
        if self._router.over(operator.spec.name):
            return
        if to in self.connections.gone:
            known = self._router.places.get(operator.spec.name)
            if known is None or known.moves <= operator.place.moves:
                self._go_on_with(operator)
            else:
                self.arrived(operator)  # somebody has gone on with it
            return
        self._entrusted.setdefault(to, {})[operator.spec.name] = operator
        self.connections.send(to, operator)

    def _arrived(self, message: TransferReceipt, sender: Address) -> None:
        leaving = self._leaving.get(message.operator)
        if leaving is not None and leaving[1].operator.place.moves <= message.moves:
            del self._leaving[message.operator]

    def _gone(self, message: NodeRemoval, sender: Address) -> None:
        node, places = message
        if node in self.connections.gone:
            return
        was_guardian = self.guardian(node) == self.node.address
        had_guardian = self.guardian(self.node.address)
        self.connections.drop(node)
        self._router.drop(node)
        for by, (to, operator) in list(self._leaving.values()):
            if by == node:
                self.hand_over(to, operator)
        # What has left the node before may be news here: the node's own notice can have been lost with it, as
        # can that of a source which has changed trees. Trees whose root it was get another.
        self._router.hear([each for each in places if each[1].tree is not None or each[1].host != node])
        if was_guardian:
            self._take_over(node, dict(places))
        if had_guardian == node:
            self.checkpoint()

    def _take_over(self, node: Address, places: dict[str, StreamLocation]) -> None:
        stored = self._kept.pop(node, {})
        for name, operator in self._entrusted.pop(node, {}).items():
            if name not in stored or operator.place.moves > stored[name].place.moves:
                stored[name] = operator
        for name, operator in stored.items():
            known = places.get(name)
            if known is None or known.host == node or known.moves < operator.place.moves:
                self._go_on_with(operator)

    def _go_on_with(self, operator: OperatorHandover) -> None:
        """Go on with an operator from what was stored of it; everybody is told."""
        name = operator.spec.name
        self.arrived(operator)
        if name in self._router.publications:
            return  # it has come here by another way already
        self.revived += 1
        place = StreamLocation(self.node.address, None, operator.place.moves + AGAIN)
        inlets = tuple(inlet._replace(turn=inlet.turn + AGAIN) for inlet in operator.inlets)
        number = operator.number + AGAIN
        readers = tuple(each for each in operator.acknowledged if each[0] != UNKNOWN)
        acknowledged = (*readers, (UNKNOWN, number))
        self._revive(replace(operator, place=place, inlets=inlets, number=number, acknowledged=acknowledged))
        self._await(name, [*((name, reader) for reader, _ in acknowledged), *operator.replaces])
        self._router.tell_registry(LocationReport(name, place))
        for one in self._brokers:
            if one != self.node.address:
                self.connections.send(one, StreamMove(name, place))
        self.checkpoint()

    def _await(self, name: str, readers: Iterable[tuple[str, StreamReader]]) -> None:
        self._awaiting[name] = (*self._awaiting.get(name, ()), *readers)
        self.node.wake_after(PATIENCE * self.settings.silence, "flow unknown", name)

    def _await_no_more(self, name: str) -> None:
        # Who has subscribed again meanwhile did so for the next time, and is still waited for.
        for stream, reader in self._awaiting.pop(name, ()):
            if stream in self._router.places:
                self._router.unsubscribe(stream, reader, forget=True)
