"""Checkpoints of operators at a backup host, which continues them when their node is removed.

Rules:

- The backup host of a node is the next broker, by address, that is not removed. Every few seconds a node
  sends its backup host the state of all its operators, as of one moment. Only what the backup host has stored
  is acknowledged to the publishers of their inputs, so whatever came after a checkpoint can be read again.
- An operator that moves goes by way of the backup host of its new host, which knows of it before the host
  does. Its former host keeps it until there is a receipt, in case that backup host is removed, and includes
  it in its own checkpoints.
- When a node is removed (`registry_failover`), its backup host continues its operators from what it has
  stored.
- An operator that continues from a checkpoint gives out some items a second time, perhaps in another order.
  Ids and times do not depend on the order, so a reader recognises them: it has seen the id, or the item is
  before the watermark, up to which it has had everything. New numbers are beyond all that were used before.
- A checkpoint may know less than there was: a reader that came after it, or that the operator was moved on.
  So what a continued operator gives out is kept for a while. Readers that have not subscribed again by then
  are forgotten. Of two nodes that continue an operator, the one with the higher version counts, and the other
  gives up.

The copies of an operator that nodes keep besides the one that runs:

| copy      | kept by                     | from               | until                                      |
|-----------|-----------------------------|--------------------|--------------------------------------------|
| sent      | the former host             | `hand_over`        | `TransferReceipt`, or it has moved on      |
| forwarded | backup host of the new host | `OperatorTransfer` | a `Checkpoint` of the new host has it      |
| stored    | backup host                 | `Checkpoint`       | the next `Checkpoint`                      |

What is survived: one node after the other, with time for a checkpoint in between, root brokers of sources and
the registry among them; not proxies of sources, nor what a node's own clients were still to get. What was
under way from a node that stops, or about it, must arrive before it is removed: `silence` must be longer than
it takes to send again what was lost.

Cost: a message for each node and checkpoint, of the size of its operators' states.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from distributary.overlay.node import Address
from distributary.systems.queries import messages
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.engine import Engine
from distributary.systems.queries.messages import OperatorHandover, StreamLocation, StreamReader
from distributary.systems.queries.registry_failover import FAILOVER_MESSAGES, NodeRemoval, next_broker
from distributary.systems.queries.retention import Outbox, discard
from distributary.systems.queries.settings import Addresses, CheckpointSettings

RECOVERY = 1 << 40
"""Added to the numbers, epochs and versions of what continues from a checkpoint: beyond all used before."""
PATIENCE = 3.0
"""How many times `silence` the readers of a continued operator are waited for: their node may be removed,
too."""
UNKNOWN = StreamReader("unknown", 0, 0)
"""Stands for readers of a continued operator that its checkpoint did not know of."""


class Checkpoint(NamedTuple):
    """The state of all operators of a node, to its backup host."""

    serial: int
    operators: tuple[OperatorHandover, ...]


class CheckpointReceipt(NamedTuple):
    """All checkpoints up to this one are stored."""

    serial: int


class OperatorTransfer(NamedTuple):
    """An operator on its way to its new host, by way of that one's backup host."""

    to: Address
    operator: OperatorHandover


class TransferReceipt(NamedTuple):
    """An operator is at its new host, in this version of its location."""

    operator: str
    version: int


CHECKPOINT_MESSAGES = (Checkpoint, CheckpointReceipt, OperatorTransfer, TransferReceipt, *FAILOVER_MESSAGES)


class CheckpointManager:
    """What a node does for its own operators, and as the backup host of another node."""

    def __init__(
        self, connections: Connections, engine: Engine, settings: CheckpointSettings, brokers: Addresses
    ) -> None:
        self.recovered = 0
        """How many operators of removed nodes this one has continued."""
        self._node = node = connections.node
        self._connections = connections
        self._engine = engine
        self._router = engine.router
        self._settings = settings
        self._brokers = tuple(sorted(brokers))
        self._after: Outbox[list[Callable[[], None]]] = Outbox()
        """By the number of a checkpoint, actions to be done when it is stored."""
        self._stored: dict[Address, dict[str, OperatorHandover]] = {}
        """The last checkpoint of each node whose backup host this is."""
        self._forwarded: dict[Address, dict[str, OperatorHandover]] = {}
        """Operators on their way to a node, until a checkpoint of its own has them."""
        self._sent: dict[str, tuple[Address, OperatorTransfer]] = {}
        """Operators that have left here without a receipt, and the backup host by way of which they went."""
        self._acknowledged: dict[tuple[str, int, str], int] = {}
        """How far publishers know each reader to be."""
        self._awaited: dict[str, tuple[tuple[str, StreamReader], ...]] = {}
        """For continued operators, the readers that are forgotten after a while unless they subscribe again:
        those that the checkpoint knew, unknown ones, and readers of before a division of the operator."""
        self._unreachable: dict[tuple[str, StreamReader], float] = {}
        """Readers of streams published here that no route leads to, and since when."""
        node.handle(Checkpoint, self._checkpoint)
        node.handle(CheckpointReceipt, self._checkpoint_receipt)
        node.handle(OperatorTransfer, self._transfer)
        node.handle(TransferReceipt, self._transfer_receipt)
        node.handle(NodeRemoval, self._removal)
        node.at_alarm("flow checkpoint", self._tick)
        node.at_alarm("flow unknown", self._forget_awaited)
        node.at_start(self._start)

    def _backup_host(self, of: Address) -> Address:
        """The backup host of a node; the node itself if there is no other."""
        return next_broker(self._brokers, of, self._connections.removed) or of

    def _start(self) -> None:
        self._node.wake_after(self._settings.checkpoint, "flow checkpoint")
        for name in self._awaited:
            self._node.wake_after(PATIENCE * self._settings.silence, "flow unknown", name)

    def withdraw(self) -> None:
        """Keep nothing of operators that are withdrawn."""
        withdrawn = self._router.is_withdrawn
        copies: list[dict[str, Any]] = [*self._stored.values(), *self._forwarded.values()]
        for known in (*copies, self._sent, self._awaited):
            discard(known, withdrawn)
        discard(self._acknowledged, lambda key: withdrawn(key[0], key[2]))

    # Checkpoints of this node

    def _tick(self, about: object) -> None:
        self._node.wake_after(self._settings.checkpoint, "flow checkpoint")
        self._forget_unreachable()
        self.checkpoint()

    def _forget_unreachable(self) -> None:
        """After nodes were removed, forget readers that nobody continues.

        Such are replicas of a division that no other node had heard of.
        """
        now, removed = self._node.now, self._connections.removed
        readers = self._router.unreachable_readers() if removed else []
        self._unreachable = {each: self._unreachable.get(each, now) for each in readers if each[1] != UNKNOWN}
        for (stream, reader), since in self._unreachable.items():
            if now - since > PATIENCE * self._settings.silence:
                self._router.unsubscribe(stream, reader, forget=True)

    def checkpoint(self, *after: Callable[[], None]) -> None:
        """Send the state of the operators here to the backup host; `after` is done when it is stored."""
        actions = list(after)
        here = self._engine.snapshot()
        for operator in here:
            for number, cursor in enumerate(operator.cursors):
                name, position = operator.spec.name, cursor.position
                if position is not None and position != self._acknowledged.get((name, number, cursor.stream)):
                    reader = StreamReader(name, number, cursor.epoch)
                    actions.append(partial(self._acknowledge, cursor.stream, reader, position))
        # Drop operators that have left and are known to have moved on since: another node has them.
        discard(self._sent, lambda name: self._is_older(self._sent[name][1].operator))
        sent = tuple(transfer.operator for _, transfer in self._sent.values())
        to = self._backup_host(self._node.address)
        self._connections.send(to, Checkpoint(self._after.add(actions), (*here, *sent)))

    def _is_older(self, operator: OperatorHandover) -> bool:
        """Whether an operator is known to have moved on since it was handed over."""
        known = self._router.locations.get(operator.spec.name)
        return known is not None and known.version > operator.location.version

    def _acknowledge(self, stream: str, reader: StreamReader, position: int) -> None:
        if not self._router.is_withdrawn(reader.name):
            self._acknowledged[(*reader.key, stream)] = position
        self._router.acknowledge(stream, reader, position)

    def _checkpoint_receipt(self, message: CheckpointReceipt, sender: Address) -> None:
        for actions in self._after.acknowledge(message.serial):
            for action in actions:
                action()

    # Operators that move

    def hand_over(self, to: Address, operator: OperatorHandover) -> None:
        """Send an operator to its new host by way of that one's backup host; keep it until the receipt."""
        transfer = OperatorTransfer(to, replace(operator, sender=self._node.address))
        self._sent[operator.spec.name] = self._backup_host(to), transfer
        self._connections.send(self._backup_host(to), transfer)

    def confirm(self, operator: OperatorHandover) -> None:
        """Send a receipt for an operator that is here, to the node that keeps it until then."""
        if any(reader == UNKNOWN for reader, _ in operator.acknowledged):
            self._await(operator.spec.name, [(operator.spec.name, UNKNOWN)])
        if operator.sender is not None:
            receipt = TransferReceipt(operator.spec.name, operator.location.version)
            self._connections.send(operator.sender, receipt)

    def _transfer_receipt(self, message: TransferReceipt, sender: Address) -> None:
        sent = self._sent.get(message.operator)
        if sent is not None and sent[1].operator.location.version <= message.version:
            del self._sent[message.operator]

    # As the backup host of another node

    def _checkpoint(self, message: Checkpoint, sender: Address) -> None:
        operators = {operator.spec.name: operator for operator in message.operators}
        discard(operators, self._router.is_withdrawn)
        self._stored[sender] = operators
        discard(self._forwarded.get(sender, {}), lambda name: name in operators)
        self._connections.send(sender, CheckpointReceipt(message.serial))

    def _transfer(self, message: OperatorTransfer, sender: Address) -> None:
        to, operator = message
        if self._router.is_withdrawn(operator.spec.name):
            return
        if to not in self._connections.removed:
            self._forwarded.setdefault(to, {})[operator.spec.name] = operator
            self._connections.send(to, operator)
        elif self._is_older(operator):
            self.confirm(operator)  # another node has continued it
        else:
            self._continue(operator)

    def _removal(self, message: NodeRemoval, sender: Address) -> None:
        node, locations = message
        if node in self._connections.removed:
            return
        was_backup_of_it = self._backup_host(node) == self._node.address
        was_backed_up_by_it = self._backup_host(self._node.address) == node
        self._connections.remove(node)
        self._router.remove_node(node)
        for by, (to, operator) in list(self._sent.values()):
            if by == node:
                self.hand_over(to, operator)
        # What has left the node before may be news here: the node's own notice can have been lost with it, as
        # can that of a source which has changed trees. Trees whose root it was get another.
        news = [each for each in locations if each[1].tree is not None or each[1].host != node]
        self._router.learn_from_others(news)
        if was_backup_of_it:
            self._take_over(node, dict(locations))
        if was_backed_up_by_it:
            self.checkpoint()

    def _take_over(self, node: Address, locations: dict[str, StreamLocation]) -> None:
        """Continue the operators of a removed node."""
        operators = self._stored.pop(node, {})
        for name, operator in self._forwarded.pop(node, {}).items():
            if name not in operators or operator.location.version > operators[name].location.version:
                operators[name] = operator
        for name, operator in operators.items():
            known = locations.get(name)
            if known is None or known.host == node or known.version < operator.location.version:
                self._continue(operator)

    def _continue(self, operator: OperatorHandover) -> None:
        """Continue an operator here from what is stored of it; everybody is told."""
        name = operator.spec.name
        self.confirm(operator)
        if name in self._router.publications:
            return  # it has come here by another way already
        self.recovered += 1
        location = StreamLocation(self._node.address, None, operator.location.version + RECOVERY)
        cursors = tuple(cursor._replace(epoch=cursor.epoch + RECOVERY) for cursor in operator.cursors)
        number = operator.number + RECOVERY
        known = [each for each in operator.acknowledged if each[0] != UNKNOWN]
        readers = (*known, (UNKNOWN, number))
        resumed = replace(operator, location=location, cursors=cursors, number=number, acknowledged=readers)
        self._engine.take_over(resumed)
        self._await(name, [*((name, reader) for reader, _ in readers), *operator.replaced])
        self._router.tell_registry(messages.LocationReport(name, location))
        for one in self._brokers:
            if one != self._node.address:
                self._connections.send(one, messages.StreamMove(name, location))
        self.checkpoint()

    def _await(self, name: str, readers: Iterable[tuple[str, StreamReader]]) -> None:
        self._awaited[name] = (*self._awaited.get(name, ()), *readers)
        self._node.wake_after(PATIENCE * self._settings.silence, "flow unknown", name)

    def _forget_awaited(self, name: str) -> None:
        # Readers that have subscribed again meanwhile have a higher epoch, and are not forgotten.
        for stream, reader in self._awaited.pop(name, ()):
            if stream in self._router.locations:
                self._router.unsubscribe(stream, reader, forget=True)
