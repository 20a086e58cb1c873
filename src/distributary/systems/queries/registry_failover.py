"""Primary and standby of the registry: another broker takes over when the one that has it is silent.

Rules:

- What the registry is told is an entry of a log. The primary sends each entry to its standby, the next
  broker, before it acts on it; the standby acts on it in the same order with its own registry, and sends
  nothing to anybody. So both know the same, and would give the same replies.
- A node numbers its requests to the registry, and keeps each until there is a receipt; a registry acts on
  each number once. The registry numbers its replies to each node, and keeps each until there is a receipt; a
  node acts on each number once, in order.
- Brokers send heartbeats to the primary, and the primary to its standby. A broker that was silent for longer
  than `silence` is removed: nobody listens to it any more, even if it comes back. So is one that has started
  again without its memory. Whoever is removed and sends heartbeats is told so, and delivers that
  (`RemovalNotice`). A broker that was never heard of has not come yet, and is waited for.
- A standby whose primary was silent for so long is elected: it sends all replies again that have no receipt,
  announces itself to everybody, is sent again all requests that have no receipt, and removes the former
  primary. Its own standby is the next broker, which is sent a snapshot of all that is known.

`TRANSITIONS` has the roles of a broker, `ACCEPTED_BY` which messages each role accepts.

Cost: for each request a log entry and its receipt, and a receipt to the requester; for each reply a receipt,
which is a log entry too; a heartbeat for each broker and beat.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, NamedTuple

from distributary.overlay.node import Address, Message
from distributary.systems.queries.connections import Connections
from distributary.systems.queries.messages import Locations
from distributary.systems.queries.registry import QueryRegistry, RegistryState
from distributary.systems.queries.retention import Outbox
from distributary.systems.queries.settings import CheckpointSettings, Surroundings


class RegistryRequest(NamedTuple):
    """A message for the registry, whichever broker has it."""

    serial: int
    message: Message


class RequestReceipt(NamedTuple):
    """All requests up to this number are known to the standby, too."""

    serial: int


class RegistryReply(NamedTuple):
    """A message of the registry to a node."""

    number: int
    message: Message


class ReplyReceipt(NamedTuple):
    """All replies up to this number have been acted on."""

    number: int


class RegistryLogEntry(NamedTuple):
    """What the registry was told, for its standby."""

    order: int
    sender: Address
    serial: int
    """Of the request; 0 for what the primary found out itself, and for receipts."""
    message: Message


class LogReceipt(NamedTuple):
    """The standby has all entries up to this one."""

    order: int


class RegistrySnapshot(NamedTuple):
    """All that is known, for a new standby."""

    state: RegistryState
    order: int
    acted_on: tuple[tuple[Address, int], ...]
    replies: tuple[tuple[Address, int], ...]
    unconfirmed: tuple[tuple[Address, int, Message], ...]


class PrimaryAnnouncement(NamedTuple):
    """The broker that has the registry from now on."""

    address: Address


class NodeFailure(NamedTuple):
    """A node is silent: a log entry that the primary makes."""

    node: Address


class BrokerHeartbeat(NamedTuple):
    """The sender is up."""

    incarnation: float = 0.0
    """When it started: one that starts again without its memory is another."""


class RemovalNotice(NamedTuple):
    """The receiver has been removed: nobody listens to it any more."""


class NodeRemoval(NamedTuple):
    """A node has been removed for good; and where the registry believes all streams to be."""

    node: Address
    locations: Locations


FAILOVER_MESSAGES = (
    *(RegistryRequest, RequestReceipt, RegistryReply, ReplyReceipt, RegistryLogEntry, LogReceipt),
    *(RegistrySnapshot, PrimaryAnnouncement, BrokerHeartbeat, NodeRemoval, RemovalNotice),
)


class Role(Enum):
    """What a broker is to the registry."""

    MEMBER = "member"
    STANDBY = "standby"
    PRIMARY = "primary"


TRANSITIONS = {
    (Role.MEMBER, "snapshot received"): Role.STANDBY,
    (Role.STANDBY, "snapshot received"): Role.STANDBY,
    (Role.PRIMARY, "snapshot received"): Role.PRIMARY,
    (Role.STANDBY, "primary silent"): Role.PRIMARY,
}
"""The role of a broker after an event."""
ACCEPTED_BY = {
    RegistryRequest: {Role.PRIMARY},
    ReplyReceipt: {Role.PRIMARY},
    LogReceipt: {Role.PRIMARY},
    RegistryLogEntry: {Role.STANDBY},
    RegistrySnapshot: set(Role),
}
"""The roles in which a broker handles a message; in others it is ignored."""


def next_broker(brokers: Sequence[Address], after: Address, removed: Iterable[Address]) -> Address | None:
    """The broker that follows another one, in the circle of those that are not removed; None if it is alone.

    >>> next_broker([1, 2, 3, 4], 2, {3}), next_broker([1, 2], 2, {1})
    (4, None)
    """
    start, out = brokers.index(after), set(removed)
    return next((one for one in (*brokers[start + 1 :], *brokers[:start]) if one not in out), None)


class RegistryReplica:
    """The registry of a broker as primary or standby; most brokers are members, and their registry is empty.

    `link` knows the address of the primary.
    """

    def __init__(self, link: RegistryLink, around: Surroundings, settings: CheckpointSettings) -> None:
        self._connections = link.connections
        node = link.connections.node
        self.registry = QueryRegistry(node, around, self._reply, self._enter_own)
        self.role = Role.MEMBER
        self.peer: Address | None = None
        """The standby, if this is the primary; the primary, if this is its standby."""
        self._node = node
        self._link = link
        self._brokers = tuple(sorted(around.brokers))
        self._settings = settings
        self._log: Outbox[RegistryLogEntry] = Outbox()
        """Entries that are not acted on yet."""
        self._entered: dict[Address, int] = {}
        """The number of each node's last request that became an entry."""
        self._acted_on: dict[Address, int] = {}
        """The number of each node's last request that was acted on."""
        self._replies: dict[Address, Outbox[Message]] = {}
        """Replies to each node that have no receipt."""
        self._last_beat: dict[Address, float] = {}
        """Of the brokers that were heard of."""
        self._incarnations: dict[Address, float] = {}
        self._watched: Address | None = None
        """The primary at the last beat, if this is its standby."""
        self._handlers: dict[type, Callable[[Any, Address], None]] = {
            RegistryRequest: self._request,
            ReplyReceipt: lambda message, sender: self._enter(sender, 0, message),
            LogReceipt: self._log_receipt,
            RegistryLogEntry: self._log_entry,
            RegistrySnapshot: self._snapshot_received,
        }
        for kind in self._handlers:
            node.handle(kind, self._accept)
        node.handle(BrokerHeartbeat, self._heartbeat)
        node.handle(RemovalNotice, lambda message, sender: node.deliver(message))
        node.at_alarm("flow beat", self._beat)
        node.at_start(self._start)
        first = link.address
        if node.address == first:
            self.role, self.peer = Role.PRIMARY, self._next_standby()
        elif first in self._brokers and next_broker(self._brokers, first, ()) == node.address:
            self.role, self.peer = Role.STANDBY, first

    def _accept(self, message: Message, sender: Address) -> None:
        if self.role in ACCEPTED_BY[type(message)]:
            self._handlers[type(message)](message, sender)

    # Heartbeats

    def _start(self) -> None:
        self._node.wake_after(self._settings.beat, "flow beat")
        self._last_beat = dict.fromkeys(self._last_beat, self._node.now)
        self._incarnations.setdefault(self._node.address, self._node.now)
        self._send_beat()

    def _send_beat(self) -> None:
        # Not by the connection: a heartbeat that is sent again comes too late, and another follows soon.
        to = self.peer if self.role is Role.PRIMARY else self._link.address
        if to is not None:
            self._node.send(to, BrokerHeartbeat(self._incarnations[self._node.address]))

    def _heartbeat(self, message: BrokerHeartbeat, sender: Address) -> None:
        if sender in self._connections.removed | self.registry.removed:
            self._node.send(sender, RemovalNotice())
            return
        self._last_beat[sender] = self._node.now
        reborn = self._incarnations.setdefault(sender, message.incarnation) != message.incarnation
        if reborn and self.role is Role.PRIMARY:
            self._fail(sender)
        elif reborn and sender == self.peer:
            self._take_over(sender)

    def _beat(self, about: object) -> None:
        self._node.wake_after(self._settings.beat, "flow beat")
        self._send_beat()
        if self.role is Role.PRIMARY:
            for one in self._brokers:
                if self._is_silent(one) and one not in self._connections.removed | self.registry.removed:
                    self._fail(one)
        elif self.peer is not None:
            if self.peer != self._watched:
                self._watched = self.peer
                if self.peer in self._last_beat:
                    self._last_beat[self.peer] = self._node.now
            elif self._is_silent(self.peer):
                self._take_over(self.peer)

    def _is_silent(self, node: Address) -> bool:
        silent = self._node.now - self._last_beat.get(node, self._node.now)
        return node != self._node.address and silent > self._settings.silence

    def _next_standby(self, *failed: Address) -> Address | None:
        removed = {*self._connections.removed, *self.registry.removed, *failed}
        return next_broker(self._brokers, self._node.address, removed)

    # As primary

    def _take_over(self, former: Address) -> None:
        """Be the primary from now on, as the former one is silent, or has lost its memory."""
        self._last_beat = dict.fromkeys(self._brokers, self._node.now)
        self.role = TRANSITIONS[self.role, "primary silent"]
        for to, replies in list(self._replies.items()):
            for number, message in list(replies.pending.items()):
                self._connections.send(to, RegistryReply(number, message))
        self._have_standby(self._next_standby(former))
        # After the replies, so that no request that is sent again is answered before them.
        for one in self._brokers:
            self._connections.send(one, PrimaryAnnouncement(self._node.address))
        self._enter_own(NodeFailure(former))

    def _have_standby(self, standby: Address | None) -> None:
        """Have another standby, which is sent all that is known."""
        self.peer = standby
        if standby is None:
            self._act_on_all(self._log.last)
            return
        replies = self._replies.items()
        snapshot = RegistrySnapshot(
            self.registry.state(),
            self._log.last - len(self._log.pending),
            tuple(self._acted_on.items()),
            tuple((to, outbox.last) for to, outbox in replies),
            tuple((to, number, one) for to, outbox in replies for number, one in outbox.pending.items()),
        )
        for message in (snapshot, *self._log.pending.values()):
            self._connections.send(standby, message)

    def _fail(self, node: Address) -> None:
        """Remove a node that is silent."""
        if node == self.peer:
            self._have_standby(self._next_standby(node))
        self._enter_own(NodeFailure(node))

    def _request(self, message: RegistryRequest, sender: Address) -> None:
        serial, inner = message
        if serial == self._entered.get(sender, 0) + 1:
            self._entered[sender] = serial
            self._enter(sender, serial, inner)
        elif serial <= self._acted_on.get(sender, 0):
            self._connections.send(sender, RequestReceipt(serial))

    def _enter_own(self, message: Message) -> None:
        """Make an entry of what the primary found out itself."""
        if self.role is Role.PRIMARY:
            self._enter(self._node.address, 0, message)

    def _enter(self, sender: Address, serial: int, message: Message) -> None:
        entry = RegistryLogEntry(self._log.last + 1, sender, serial, message)
        self._log.add(entry)
        if self.peer is None:
            self._act_on_all(self._log.last)
        else:
            self._connections.send(self.peer, entry)

    def _log_receipt(self, message: LogReceipt, sender: Address) -> None:
        if sender == self.peer:
            self._act_on_all(message.order)

    def _act_on_all(self, order: int) -> None:
        while self._log.pending and (first := next(iter(self._log.pending))) <= order:
            self._act_on(self._log.pending.pop(first))

    def _act_on(self, entry: RegistryLogEntry) -> None:
        _, sender, serial, message = entry
        if isinstance(message, ReplyReceipt):
            if sender in self._replies:
                self._replies[sender].acknowledge(message.number)
        elif isinstance(message, NodeFailure):
            self._remove(message.node)
        else:
            self.registry.handle(message, sender)
        if serial:
            self._acted_on[sender] = serial
            if self.role is Role.PRIMARY:
                self._connections.send(sender, RequestReceipt(serial))

    def _remove(self, node: Address) -> None:
        if node in self.registry.removed:
            return
        message = NodeRemoval(node, tuple(self.registry.locations.items()))
        self.registry.removed.add(node)
        if node in self._replies:
            self._replies[node].pending.clear()
        for one in self._brokers:
            self._reply(one, message)
        self.registry.remove_node(node)

    def _reply(self, to: Address, message: Message) -> None:
        if to in self.registry.removed:
            return
        number = self._replies.setdefault(to, Outbox()).add(message)
        if self.role is Role.PRIMARY:
            self._connections.send(to, RegistryReply(number, message))

    # As standby

    def _log_entry(self, entry: RegistryLogEntry, sender: Address) -> None:
        if sender != self.peer:
            return  # a former primary that was removed, or one whose standby this was
        self._log.last = entry.order
        self._entered[entry.sender] = max(entry.serial, self._entered.get(entry.sender, 0))
        self._act_on(entry)
        self._connections.send(sender, LogReceipt(entry.order))

    def _snapshot_received(self, message: RegistrySnapshot, sender: Address) -> None:
        self.role, self.peer = TRANSITIONS[self.role, "snapshot received"], sender
        self.registry.restore(message.state)
        self._log.last = message.order
        self._acted_on, self._entered = dict(message.acted_on), dict(message.acted_on)
        self._replies = {to: Outbox(last) for to, last in message.replies}
        for to, number, reply in message.unconfirmed:
            self._replies[to].pending[number] = reply


class RegistryLink:
    """How a node sends to the registry; the registry itself, if it is at this node."""

    def __init__(self, connections: Connections, at: Address, registry: QueryRegistry | None = None) -> None:
        self.address = at
        """The node that has the registry."""
        self.connections = connections
        self._registry = registry

    @property
    def local_registry(self) -> QueryRegistry | None:
        """The registry, if it is at this node now."""
        return self._registry

    def send(self, message: Message) -> None:
        """Tell the registry something."""
        self.connections.send(self.address, message)


class RegistryClient(RegistryLink):
    """How a node sends to the registry and hears from it, whichever broker is the primary."""

    def __init__(
        self, connections: Connections, at: Address, around: Surroundings, settings: CheckpointSettings
    ) -> None:
        super().__init__(connections, at)
        self._requests: Outbox[Message] = Outbox()
        self._acted_on = 0
        """The number of the last reply that was acted on."""
        node = connections.node
        node.handle(RequestReceipt, self._receipt)
        node.handle(RegistryReply, self._reply)
        node.handle(PrimaryAnnouncement, self._announced)
        self.replica = RegistryReplica(self, around, settings)

    @property
    def local_registry(self) -> QueryRegistry | None:
        """The registry, if this node is the primary now."""
        return self.replica.registry if self.replica.role is Role.PRIMARY else None

    def send(self, message: Message) -> None:
        """Tell the registry something, and keep it until there is a receipt."""
        super().send(RegistryRequest(self._requests.add(message), message))

    def _receipt(self, message: RequestReceipt, sender: Address) -> None:
        self._requests.acknowledge(message.serial)

    def _reply(self, message: RegistryReply, sender: Address) -> None:
        if message.number == self._acted_on + 1:
            self._acted_on += 1
            self.connections.node.dispatch(message.message, sender)
        super().send(ReplyReceipt(min(self._acted_on, message.number)))

    def _announced(self, message: PrimaryAnnouncement, sender: Address) -> None:
        self.address = message.address
        for serial, pending in list(self._requests.pending.items()):
            super().send(RegistryRequest(serial, pending))
