"""The registry's office: one broker has it, another stands by and takes over when the first is silent.

Rules:

- What the registry is told is an entry of a list. The broker in office tells its standby, the next broker, of
  each entry before it acts on it; the standby does the same with its own registry, in the same order, and
  says nothing to anybody. So both know the same, and would give the same answers.
- A node numbers what it says to the registry, and keeps it until it is noted; a registry acts on each number
  once. The registry numbers its answers to each node, and keeps them until they are heard; a node acts on
  each number once, in order.
- A standby that has not heard of the one in office for long takes over: it tells everybody, gives all answers
  again that may not have been heard, and is told again whatever was not noted. Then it declares the other
  gone. Its own standby is the next broker, which is given a copy of all that is known.

As elsewhere, a node that is silent for long is taken to be gone for good, and is not listened to any more.

Cost: for what the registry is told a message to the standby and its receipt, a note to who told it, and for
each answer a word that it was heard, which the standby is told of too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from distributary.overlay.node import Address, Message, Node
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.registry import QueryRegistry, RegistryState


class RegistryRequest(NamedTuple):
    """Something for the registry, whoever is in office."""

    serial: int
    message: Message


class RequestReceipt(NamedTuple):
    """All up to this number is known to the standby, too."""

    serial: int


class RegistryReply(NamedTuple):
    """What the registry has to say."""

    number: int
    message: Message


class ReplyReceipt(NamedTuple):
    """All answers up to this number have been acted on."""

    number: int


class RegistryLogEntry(NamedTuple):
    """What the registry was told, for its standby."""

    order: int
    sender: Address
    serial: int
    """0 for what the one in office found out itself."""
    message: Message


class LogReceipt(NamedTuple):
    """The standby has all entries up to this one."""

    order: int


class RegistrySnapshot(NamedTuple):
    """All that is known, for a new standby."""

    state: RegistryState
    order: int
    acted_on: tuple[tuple[Address, int], ...]
    answers: tuple[tuple[Address, int], ...]
    unheard: tuple[tuple[Address, int, Message], ...]


class PrimaryAnnouncement(NamedTuple):
    """Who has the registry from now on."""

    address: Address


class NodeFailure(NamedTuple):
    """A node is gone: an entry that the one in office makes."""

    node: Address


FAILOVER_MESSAGES = (
    RegistryRequest,
    RequestReceipt,
    RegistryReply,
    ReplyReceipt,
    RegistryLogEntry,
    LogReceipt,
    RegistrySnapshot,
    PrimaryAnnouncement,
)


class RegistryClient:
    """How a node talks to the registry, whoever is in office."""

    def __init__(self, node: Node, connections: Connections, at: Address) -> None:
        self.at = at
        """The node in office."""
        self.on_change: Callable[[Address], None] = lambda address: None
        self._node = node
        self._send = connections.send
        self._serial = 0
        self._pending: dict[int, Message] = {}
        self._heard = 0
        node.handle(RequestReceipt, self._noted)
        node.handle(RegistryReply, self._answer)
        node.handle(PrimaryAnnouncement, self._in_office)

    def send(self, message: Message) -> None:
        """Tell the registry something, and see that it is not forgotten."""
        self._serial += 1
        self._pending[self._serial] = message
        self._send(self.at, RegistryRequest(self._serial, message))

    def _noted(self, message: RequestReceipt, sender: Address) -> None:
        for serial in [serial for serial in self._pending if serial <= message.serial]:
            del self._pending[serial]

    def _answer(self, message: RegistryReply, sender: Address) -> None:
        if message.number == self._heard + 1:
            self._heard += 1
            self._node.dispatch(message.message, sender)
        self._send(self.at, ReplyReceipt(min(self._heard, message.number)))

    def _in_office(self, message: PrimaryAnnouncement, sender: Address) -> None:
        self.at = message.address
        self.on_change(self.at)
        for serial, pending in list(self._pending.items()):
            self._send(self.at, RegistryRequest(serial, pending))


class RegistryReplica:
    """The registry of a broker, in office or standing by; most brokers' is neither, and knows nothing."""

    def __init__(
        self,
        node: Node,
        connections: Connections,
        registry: QueryRegistry,
        brokers: Iterable[Address],
        gone: Callable[[QueryRegistry, Address], Message],
    ) -> None:
        self.registry = registry
        self.in_office = False
        self.standby: Address | None = None
        """Who stands by, if this broker is in office."""
        self.leader: Address | None = None
        """For whom this broker stands by, if it does."""
        self.on_take: Callable[[], None] = lambda: None
        """Told when this broker comes into office."""
        self._node = node
        self._connections = connections
        self._brokers = tuple(sorted(brokers))
        self._gone = gone
        """What to tell everybody of a node that is gone."""
        self._order = 0
        self._open: dict[int, RegistryLogEntry] = {}
        """Entries that are not acted on yet, in order."""
        self._taken: dict[Address, int] = {}
        """How far each node's numbers have become entries."""
        self._acted_on: dict[Address, int] = {}
        self._answers: dict[Address, int] = {}
        self._unheard: dict[Address, dict[int, Message]] = {}
        registry.send = self._answer
        registry.tell = self._enter_own
        for kind, handler in (
            (RegistryRequest, self._request),
            (ReplyReceipt, self._heard),
            (RegistryLogEntry, self._entry),
            (LogReceipt, self._kept),
            (RegistrySnapshot, self._copied),
        ):
            node.handle(kind, handler)  # type: ignore[arg-type]

    # In office

    def begin(self, standby: Address | None) -> None:
        """Be in office from the start."""
        self.in_office = True
        self.standby = standby

    def take(self, former: Address, standby: Address | None) -> None:
        """Take over from one that is silent."""
        self.in_office = True
        self.leader = None
        self.on_take()
        for to, unheard in list(self._unheard.items()):
            for number, message in list(unheard.items()):
                self._connections.send(to, RegistryReply(number, message))
        self.stand_by(standby)
        # After the answers, so that nothing that is asked again is answered before them.
        for one in self._brokers:
            self._connections.send(one, PrimaryAnnouncement(self._node.address))
        self._enter_own(NodeFailure(former))

    def stand_by(self, standby: Address | None) -> None:
        """Have another standby, which is given all that is known."""
        self.standby = standby
        if standby is None:
            self._act_on_all(self._order)
            return
        copied = RegistrySnapshot(
            self.registry.state(),
            self._order - len(self._open),
            tuple(self._acted_on.items()),
            tuple(self._answers.items()),
            tuple((to, number, one) for to, ones in self._unheard.items() for number, one in ones.items()),
        )
        self._connections.send(standby, copied)
        for entry in list(self._open.values()):
            self._connections.send(standby, entry)

    def lost(self, node: Address, standby: Address | None) -> None:
        """A node is gone; here is who stands by from now on."""
        if node == self.standby:
            self.stand_by(standby)
        self._enter_own(NodeFailure(node))

    def _request(self, message: RegistryRequest, sender: Address) -> None:
        if not self.in_office:
            return  # it is said again to who is
        serial, inner = message
        if serial == self._taken.get(sender, 0) + 1:
            self._taken[sender] = serial
            self._enter(sender, serial, inner)
        elif serial <= self._acted_on.get(sender, 0):
            self._connections.send(sender, RequestReceipt(serial))

    def _heard(self, message: ReplyReceipt, sender: Address) -> None:
        if self.in_office:
            self._enter(sender, 0, message)

    def _enter_own(self, message: Message) -> None:
        if self.in_office:
            self._enter(self._node.address, 0, message)

    def _enter(self, sender: Address, serial: int, message: Message) -> None:
        self._order += 1
        self._open[self._order] = entry = RegistryLogEntry(self._order, sender, serial, message)
        if self.standby is None:
            self._act_on_all(self._order)
        else:
            self._connections.send(self.standby, entry)

    def _kept(self, message: LogReceipt, sender: Address) -> None:
        if sender == self.standby:
            self._act_on_all(message.order)

    def _act_on_all(self, order: int) -> None:
        while self._open and next(iter(self._open)) <= order:
            self._act_on(self._open.pop(next(iter(self._open))))

    def _act_on(self, entry: RegistryLogEntry) -> None:
        _, sender, serial, message = entry
        if isinstance(message, ReplyReceipt):
            unheard = self._unheard.get(sender, {})
            for number in [number for number in unheard if number <= message.number]:
                del unheard[number]
        elif isinstance(message, NodeFailure):
            self._act_on_loss(message.node)
        else:
            self.registry.handle(message, sender)
        if serial:
            self._acted_on[sender] = serial
            if self.in_office:
                self._connections.send(sender, RequestReceipt(serial))

    def _act_on_loss(self, node: Address) -> None:
        if node in self.registry.gone:
            return
        message = self._gone(self.registry, node)
        self.registry.gone.add(node)
        self._unheard.pop(node, None)
        for one in self._brokers:
            self._answer(one, message)
        self.registry.mend(node)

    def _answer(self, to: Address, message: Message) -> None:
        if to in self.registry.gone:
            return
        self._answers[to] = number = self._answers.get(to, 0) + 1
        self._unheard.setdefault(to, {})[number] = message
        if self.in_office:
            self._connections.send(to, RegistryReply(number, message))

    # Standing by

    def _entry(self, entry: RegistryLogEntry, sender: Address) -> None:
        if sender != self.leader:
            return  # one that was taken to be gone, or a former standby's
        self._order = entry.order
        self._taken[entry.sender] = max(entry.serial, self._taken.get(entry.sender, 0))
        self._act_on(entry)
        self._connections.send(sender, LogReceipt(entry.order))

    def _copied(self, message: RegistrySnapshot, sender: Address) -> None:
        self.leader = sender
        self.registry.restore(message.state)
        self._order = message.order
        self._acted_on, self._answers = dict(message.acted_on), dict(message.answers)
        self._taken = dict(message.acted_on)
        self._unheard = {}
        for to, number, unheard in message.unheard:
            self._unheard.setdefault(to, {})[number] = unheard
