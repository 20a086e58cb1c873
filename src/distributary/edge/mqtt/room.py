"""What the MQTT connections of a broker share: sessions, retained messages, wills, groups, turns of the loop.

Rules:

- Nothing here waits, knows a socket, or looks at a clock of its own. The transport calls `MqttRoom.connect`
  for a connection and feeds it bytes, `tick` about once a second, and gives `soon`, which calls something at
  the end of the present turn of the loop.
- What came in one turn is published as one batch, and what waits for a connection is written once a turn. A
  message that comes alone waits for no turn: it is sent on directly (`direct`), or else published at once.
- A batch that the broker refuses is published again in its parts, so that only who is to blame is refused.
- While the broker is congested, nothing is read from connections that publish.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from distributary.edge.access import NOBODY, Access, Identity
from distributary.edge.broker import Answer, EdgeBroker
from distributary.edge.mailbox import MailboxBounds, MailboxPolicy
from distributary.edge.mqtt.direct import DirectMessages
from distributary.edge.mqtt.filters import FILTER_MARK, read_filter
from distributary.edge.mqtt.memory import SessionMemories
from distributary.edge.mqtt.message_run import MessageRun
from distributary.edge.mqtt.messages import event_of_message
from distributary.edge.mqtt.outgoing import MessageBytes
from distributary.edge.mqtt.packets import ConnectPacket, MqttError, ReasonCode, WillMessage
from distributary.edge.mqtt.retained import RetainedBounds, RetainedMessages
from distributary.edge.mqtt.shared import GROUPS_HERE, GroupMember, SharedGroups, group_name
from distributary.edge.mqtt.wills import WILL_MARK, PendingWills, read_will
from distributary.edge.sessions import Session, Sessions
from distributary.errors import DistributaryError
from distributary.live.peers import PeerRoom
from distributary.live.runner import Disk
from distributary.model import Event, Subscription
from distributary.overlay.node import Message
from distributary.overlay.packed_events import PackedEvents, joined
from distributary.overlay.tree.event_log import MOST_TOGETHER

if TYPE_CHECKING:
    from distributary.edge.mqtt.connection import MqttConnection


ENOUGH = 500
"""Events that are worth a call of the broker of their own: putting more together costs more than it saves."""
ALONE = 0.001
"""Seconds after which an event is no longer expected to go together with one of somebody else."""
_DIGITS = [f"{number:03x}" for number in range(1 << 12)]
"""The last digits of ids."""


@dataclass(frozen=True)
class MqttSettings:
    """What an MQTT server allows its clients."""

    longest_packet: int = 4 << 20
    """Bytes of a packet that a client may send."""
    receive_maximum: int = 1_000
    """Messages of QoS 1 and 2 that a client may send before one is acknowledged."""
    send_maximum: int = 1_000
    """Messages of QoS 1 and 2 that are sent to a client before it acknowledges one; it may ask for less."""
    topic_aliases: int = 100
    """Topics that a client may have short names for; and is sent, if it asks for that."""
    longest_keep_alive: int = 3_600
    """Seconds; a client of version 5 that asks for longer, or for none, is told this."""
    connect_patience: float = 10.0
    """Seconds that a connection may take to say who it is."""
    longest_expiry: float | None = None
    """Seconds that a session may outlive its connection; None for as long as its client asks."""
    bounds: MailboxBounds = field(default_factory=lambda: MailboxBounds(events=100_000))
    """Of the mailboxes of sessions."""
    retained: RetainedBounds = field(default_factory=RetainedBounds)
    """Of retained messages."""

    def bounds_for(self, packet: ConnectPacket) -> MailboxBounds:
        """The bounds of a client's mailbox, with the policy that it asks for; MqttError for none there is."""
        chosen = [value for name, value in packet.properties.get("user_property", ()) if name == "mailbox"]
        if not chosen:
            return self.bounds
        if len(chosen) > 1 or chosen[0] not in list(MailboxPolicy):
            reason = f"the user property `mailbox` is one of {', '.join(MailboxPolicy)}, once"
            raise MqttError(ReasonCode.IMPLEMENTATION_SPECIFIC, reason)
        return replace(self.bounds, policy=MailboxPolicy(chosen[0]))


class MqttLine(Protocol):
    """The transport of a connection: TCP, TLS, or WebSocket."""

    def write(self, data: bytes) -> None:
        """Have bytes sent."""

    def close(self) -> None:
        """End the connection when what was written has been sent."""

    def pause(self) -> None:
        """Read nothing for now."""

    def resume(self) -> None:
        """Read again."""

    @property
    def buffered(self) -> int:
        """How many bytes wait to be sent."""


class MqttPeer(NamedTuple):
    """Who is at the other end of a transport."""

    loopback: bool
    certificate: str | None = None
    """The name in the certificate that they have proved to own."""


class _Part(NamedTuple):
    """Events to be published together, and who is told."""

    events: Sequence[Event]
    done: Answer


def _form_of(events: Sequence[Event]) -> tuple[Hashable, int]:
    """What events must have in common to be published as one run, and their size; None and 0 for any."""
    if isinstance(events, PackedEvents) and isinstance(events.origin, MessageRun):
        return (events.origin.version, events.origin.first), events.size
    return None, 0


Offload = Callable[[Callable[[], Any], Callable[[Any], None]], None]
"""Does something slow elsewhere, and then calls with what it returned or the exception that it raised."""


def at_once(work: Callable[[], Any], then: Callable[[Any], None]) -> None:
    """An `Offload` that does it here and now."""
    try:
        result = work()
    except DistributaryError as error:
        result = error
    then(result)


class MqttRoom:
    """All MQTT connections of a broker. One that `joins` a network asks its `peers` for what they retain."""

    def __init__(
        self,
        broker: EdgeBroker,
        sessions: Sessions,
        access: Access,
        *,
        now: Callable[[], float],
        soon: Callable[[Callable[[], None]], None],
        offload: Offload = at_once,
        disk: Disk | None = None,
        settings: MqttSettings | None = None,
        notice: Callable[[str], None] = lambda text: None,
        run: str | None = None,
        peers: PeerRoom | None = None,
        joins: bool = False,
    ) -> None:
        self.broker, self.sessions, self.access = broker, sessions, access
        self.now, self.offload, self.notice = now, offload, notice
        self.settings = settings or MqttSettings()
        self._peers = peers
        self.retained = RetainedMessages(broker, now, disk, notice, self.settings.retained, peers, joins)
        self.wills = PendingWills(now, self._publish_will)
        self.memories = SessionMemories()
        self.shared = SharedGroups(sessions, self.turn_soon, lambda session: self.memories.of(session).sent)
        self.connections: dict[MqttConnection, None] = {}
        self.message_bytes = MessageBytes()
        self._by_subscriber: dict[str, MqttConnection] = {}
        self.direct = DirectMessages(broker, access, self._by_subscriber.get, self.new_ids, notice)
        self._soon = soon
        self._run = run or secrets.token_hex(6)
        """Makes ids of events that no other run of this broker has made."""
        self._count = 0
        self._gathered: list[_Part] = []
        self._dirty: dict[MqttConnection, None] = {}
        self._paused: dict[MqttConnection, None] = {}
        self._publisher: object = None
        self._published = 0.0
        """Who has last published one event, and when."""
        self.turning = False
        """Whether something waits for the end of this turn of the loop: to be published, or written."""
        self._closed = False

    def start(self, stored: Mapping[str, Message]) -> None:
        """After the sessions are restored: take up what was kept, and what sessions have of MQTT's."""
        self.retained.start(stored)
        for session in self.sessions:
            self.memories.of(session).sent = session.mailbox.last
            for mark in list(session.marks):
                if mark.startswith(FILTER_MARK):
                    self._rejoin(session, mark.removeprefix(FILTER_MARK))
            if WILL_MARK in session.marks:
                will = read_will(session.marks.pop(WILL_MARK))
                self.wills.leave(session.subscriber, will, session.expiry, session.identity or NOBODY)

    def _rejoin(self, session: Session, text: str) -> None:
        """Have a restored session take part in a group again, whose own session is restored too."""
        try:
            group = read_filter(text).group
        except DistributaryError:
            return
        name = session.marks.get(f"mqtt.group.{text}")
        if group is not None and name is not None:
            self.shared.group(name, session.identity).add(GroupMember(session, text))

    # Connections.

    def connect(self, line: MqttLine, peer: MqttPeer) -> MqttConnection:
        """A connection has been made."""
        from distributary.edge.mqtt.connection import MqttConnection

        connection = MqttConnection(self, line, peer)
        self.connections[connection] = None
        if self._closed:
            connection.shut_down()
        return connection

    def forget(self, connection: MqttConnection) -> None:
        """A connection has ended."""
        self.direct.forget()
        self.connections.pop(connection, None)
        self._paused.pop(connection, None)
        if connection.subscriber is not None and self.connected(connection.subscriber) is connection:
            del self._by_subscriber[connection.subscriber]
        self.shared.sweep()

    def connected(self, subscriber: str) -> MqttConnection | None:
        """The connection that has a subscriber's session."""
        return self._by_subscriber.get(subscriber)

    def entered(self, connection: MqttConnection, subscriber: str) -> None:
        """A connection has a subscriber's session now."""
        self.direct.forget()
        self._by_subscriber[subscriber] = connection

    def close(self) -> None:
        """Let everybody go."""
        self._closed = True
        for connection in list(self.connections):
            connection.shut_down()
        self.turn()

    # The turn of the loop.

    def turn_soon(self) -> None:
        """Have `turn` called at the end of this turn of the loop."""
        if not self.turning:
            self.turning = True
            self._soon(self.turn)

    def write_soon(self, connection: MqttConnection) -> None:
        """Have what a connection has to send written at the end of this turn."""
        self._dirty[connection] = None
        self.turn_soon()

    def publish(self, events: Sequence[Event], done: Answer, publisher: object = None) -> None:
        """Have events published with all others of this turn; answered when they are safe, or refused.

        One that comes alone is published at once.
        """
        if len(events) == 1 and not self._gathered and self._comes_alone(publisher):
            self.broker.publish(events, done)
        else:
            self._gathered.append(_Part(events, done))
            self.turn_soon()

    def _comes_alone(self, publisher: object) -> bool:
        """Whether others are not publishing at the same time, whose events it should go together with."""
        before, self._publisher = self._publisher, publisher
        since, self._published = self._published, self.now()
        return before is publisher or self._published - since > ALONE

    def turn(self) -> None:
        """Publish what was gathered, then write what is to be written."""
        self.turning = True
        while self._gathered or self._dirty:
            parts, self._gathered = self._gathered, []
            if parts:
                self._publish(parts)
            self.shared.pump()
            dirty, self._dirty = self._dirty, {}
            for connection in dirty:
                connection.flush()
        self.shared.pump()
        self.message_bytes.clear()
        self.turning = False
        if self._dirty:
            self.turn_soon()
        if self._paused and not self.broker.congested:
            self._resume()

    def _publish(self, parts: list[_Part]) -> None:
        """Publish parts in their order: those together that are of one form, up to so many bytes."""
        group: list[_Part] = []
        form: Hashable = None
        size = count = 0
        for part in parts:
            theirs, more = _form_of(part.events)
            if group and (theirs != form or size + more > MOST_TOGETHER or count >= ENOUGH):
                self._publish_together(group)
                group, size, count = [], 0, 0
            group.append(part)
            form, size, count = theirs, size + more, count + len(part.events)
        self._publish_together(group)

    def _publish_together(self, parts: list[_Part]) -> None:
        if len(parts) == 1:
            self.broker.publish(*parts[0])
            return
        events = joined([part.events for part in parts])

        def settled(reason: str | None) -> None:
            if reason is None:
                for part in parts:
                    part.done(None)
            else:
                for part in parts:
                    self.broker.publish(*part)

        self.broker.publish(events, settled)

    def pause(self, connection: MqttConnection) -> bool:
        """Whether a connection that publishes must wait; it is resumed when it need not any more."""
        if self.broker.congested:
            self._paused[connection] = None
            return True
        return False

    def _resume(self) -> None:
        paused, self._paused = self._paused, {}
        for connection in paused:
            connection.go_on()

    def tick(self) -> None:
        """About once a second: time passes for keep-alive, wills and sessions."""
        for connection in list(self.connections):
            connection.tick()
        self.direct.settle()
        self.wills.tick()
        self.retained.tick()
        self.sessions.expire()
        self.shared.sweep()
        if self._paused and not self.broker.congested:
            self._resume()
        self.turn()

    # What connections need.

    def new_ids(self, count: int) -> list[str]:
        """Ids for so many events."""
        first = self._count + 1
        self._count += count
        ids: list[str] = []
        while count:  # thousands have all but their last digits in common
            thousands, rest = divmod(first, len(_DIGITS))
            begin = f"{self._run}-{thousands:x}"
            ids += [begin + digits for digits in _DIGITS[rest : rest + count]]
            done = min(count, len(_DIGITS) - rest)
            first, count = first + done, count - done
        return ids

    def new_id(self) -> str:
        """An id for an event that nobody else has."""
        return self.new_ids(1)[0]

    def new_client(self) -> str:
        """A name for a client that has none."""
        return f"auto-{secrets.token_hex(10)}"

    def leave_will(self, identity: Identity, session: Session, will: WillMessage) -> None:
        """A client is gone without saying so."""
        self.wills.leave(session.subscriber, will, session.expiry, identity)

    def _publish_will(self, will: WillMessage, subscriber: str, identity: Identity) -> None:
        try:
            event = event_of_message(will, will.topic, self.new_id(), subscriber, self.now())
            reason = self.allowed(identity, event)
        except DistributaryError as error:
            reason = str(error)
        if reason is not None:
            self.notice(f"the will of {subscriber!r} is not published: {reason}")
            return
        self.publish([event], self._tell_will)

    def _tell_will(self, reason: str | None) -> None:
        if reason is not None:
            self.notice(f"a will is not published: {reason}")

    def join_group(
        self, session: Session, identity: Identity, group: str, subscription: Subscription, done: Answer
    ) -> None:
        """Have a session take part in a group; answered when the group's subscription is in force."""
        name = group_name(identity.user, group, subscription)
        shared = self.shared.group(name, identity)
        filters = subscription.filters()

        def joined(reason: str | None) -> None:
            if reason is None:
                session.marks[f"mqtt.group.{subscription.id}"] = name
                shared.add(GroupMember(session, subscription.id))
                session.keep_marks(lambda: done(None))
            else:
                done(reason)

        shared.subscribe(Subscription("shared", name, **filters), joined)

    @property
    def limit_of_groups(self) -> str | None:
        """What members of groups should know; None where this broker is alone in its network."""
        return GROUPS_HERE if self._peers is not None and self._peers.linked else None

    def leave_group(self, session: Session, text: str) -> None:
        """Have a session take part in the group of a filter no longer."""
        name = session.marks.pop(f"mqtt.group.{text}", None)
        if name is not None:
            self.shared.leave(name, session.subscriber)

    def allowed(self, identity: Identity, event: Event) -> str | None:
        """Why somebody may not publish an event; None when they may."""
        reason = self.access.may_publish(identity, event)
        if reason is not None:
            self.access.audit(identity, "publish", reason, refused=True)
        return reason
