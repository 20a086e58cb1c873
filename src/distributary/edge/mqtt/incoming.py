"""Takes the messages of a client: makes events of them, has them published, acknowledges when they are safe.

Rules:

- What came in one turn is published together, in its order. QoS 1 and 2 are acknowledged when the broker says
  that the events are safe.
- A message of QoS 2 gets the id of its event before it is published, and the session keeps it until PUBREL.
  So a message that is sent again is the same event, also after a crash: it is not published again, or the
  network knows it already.
- A message that is not allowed is not published. A client of version 5 is told the reason; one of 3.1.1
  cannot be told and gets its acknowledgement, as the specification has it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import repeat

from distributary.edge.access import AccessError, Identity
from distributary.edge.mqtt.codec import write_packet, write_told
from distributary.edge.mqtt.memory import SessionMemory
from distributary.edge.mqtt.message_run import MessageRun
from distributary.edge.mqtt.messages import event_of_message
from distributary.edge.mqtt.packets import (
    VERSION_5,
    AckPacket,
    ConnectPacket,
    MqttError,
    PacketKind,
    PublishPacket,
    ReasonCode,
    protocol_error,
)
from distributary.edge.mqtt.room import MqttRoom
from distributary.edge.sessions import Session
from distributary.errors import DistributaryError
from distributary.live.codec import READING
from distributary.model import Event, EventKey
from distributary.overlay.packed_events import PackedEvents

_new_key = tuple.__new__
"""Makes a key in half the time of calling its class."""
_ANSWERS = {1: PacketKind.PUBACK, 2: PacketKind.PUBREC}


@dataclass
class _Batch:
    """What is published together."""

    parts: list[Sequence[Event]] = field(default_factory=list)
    """Events as they came, in order: runs, and lists of those that came one by one."""
    acknowledged: list[tuple[int, int]] = field(default_factory=list)
    """The QoS and packet identifier of each message that wants an acknowledgement."""
    count: int = 0
    size: int = 0
    marked: bool = False
    """Whether the session's marks must be kept first."""
    refused: bool = False
    """Whether the broker has refused a part of it."""

    def add(self, event: Event) -> None:
        """Take one event more."""
        if not self.parts or type(self.parts[-1]) is not list:
            self.parts.append([])
        last = self.parts[-1]
        assert type(last) is list
        last.append(event)
        self.count += 1


class IncomingMessages:
    """The messages of one connection. `say` sends bytes, `fail` ends the connection."""

    def __init__(
        self,
        room: MqttRoom,
        session: Session,
        memory: SessionMemory,
        identity: Identity,
        asked: ConnectPacket,
        say: Callable[[bytes], None],
        fail: Callable[[MqttError], None],
    ) -> None:
        self._room, self._session, self._memory, self._identity = room, session, memory, identity
        self._version, self._say, self._fail = asked.version, say, fail
        self._tells = asked.properties.get("request_problem_information", 1) == 1
        self._longest: int | None = asked.properties.get("maximum_packet_size")
        self._aliases: dict[int, str] = {}
        self._batch = _Batch()
        self._queue: deque[_Batch] = deque()
        self.waits = False
        """Whether messages wait for the disk, and those after them in the queue."""
        self.unanswered = 0
        """Messages of QoS 1 that are not acknowledged."""
        self._in_progress: set[int] = set()
        """Packet identifiers of QoS 2 that are being published for this connection."""
        self._released: list[int] = []

    def take_run(self, run: MessageRun) -> None:
        """Plain messages have come; MqttError when that is against the protocol."""
        qos, count = run.qos, len(run)
        open_to_all = self._room.access.may_publish_all(self._identity)
        if qos == 2 or not open_to_all or (qos and self._too_many(count)):
            for packet in run.packets():
                self.take(packet)
            return
        batch, source = self._batch, self._session.subscriber
        identities = [_new_key(EventKey, (source, id)) for id in self._room.new_ids(count)]
        batch.parts.append(PackedEvents(None, identities, run.topics, False, READING, None, run))
        batch.count += count
        batch.size += run.edges[-1] - run.edges[0]
        if qos:
            self.unanswered += count
            batch.acknowledged += zip(repeat(1), run.packet_ids)

    def _too_many(self, count: int) -> bool:
        """Whether so many messages of QoS 1 are more than a client of version 5 may send now."""
        waiting = self.unanswered + len(self._memory.received) + count
        return self._version == VERSION_5 and waiting > self._room.settings.receive_maximum

    def take(self, packet: PublishPacket) -> None:
        """PUBLISH has come; MqttError when it is against the protocol."""
        topic = packet.topic
        if packet.properties:
            if "subscription_identifier" in packet.properties:
                raise protocol_error("a client's message has no subscription identifier")
            topic = self._resolved(packet)
        qos, packet_id = packet.qos, packet.packet_id
        if qos:
            self._count(packet)
        if qos == 2 and packet_id in self._memory.received:
            self._take_again(packet_id)
            if packet_id in self._in_progress or packet_id in self._memory.published:
                return
        known = self._memory.received.get(packet_id) if qos == 2 else None
        id = known or self._room.new_id()
        try:
            event = event_of_message(packet, topic, id, self._session.subscriber, self._room.now())
        except DistributaryError as error:
            self._refuse(qos, packet_id, ReasonCode.TOPIC_NAME_INVALID, str(error))
            return
        reason = self._room.allowed(self._identity, event)
        if reason is not None:
            self._refuse(qos, packet_id, ReasonCode.NOT_AUTHORIZED, reason)
            return
        batch = self._batch
        batch.add(event)
        batch.size += len(packet.payload)
        if qos:
            batch.acknowledged.append((qos, packet_id))
        if qos == 2:
            self._in_progress.add(packet_id)
            self._memory.received[packet_id] = id
            batch.marked = True

    def _resolved(self, packet: PublishPacket) -> str:
        """The topic of a message, by its alias if need be."""
        alias = packet.properties.get("topic_alias")
        if alias is None:
            return packet.topic
        if alias > self._room.settings.topic_aliases:
            raise MqttError(ReasonCode.TOPIC_ALIAS_INVALID, f"topic alias {alias} is above the maximum")
        if packet.topic:
            self._aliases[alias] = packet.topic
        elif alias not in self._aliases:
            raise protocol_error(f"topic alias {alias} stands for nothing")
        return self._aliases[alias]

    def _count(self, packet: PublishPacket) -> None:
        """Refuse more messages of QoS 1 and 2 than were allowed at a time."""
        again = packet.packet_id in self._memory.received
        waiting = self.unanswered + len(self._memory.received) + (packet.qos == 1 or not again)
        if self._version == VERSION_5 and waiting > self._room.settings.receive_maximum:
            raise MqttError(ReasonCode.RECEIVE_MAXIMUM_EXCEEDED, "more messages at a time than allowed")
        if packet.qos == 1:
            self.unanswered += 1

    def _take_again(self, packet_id: int) -> None:
        """A message of QoS 2 has come again: if it is safe, say so."""
        if packet_id in self._memory.published:
            self._say(self._ack(PacketKind.PUBREC, packet_id))

    def _refuse(self, qos: int, packet_id: int, reason: ReasonCode, text: str) -> None:
        """A message is not published."""
        if qos:
            if qos == 1:
                self.unanswered -= 1
            answer = AckPacket(_ANSWERS[qos], packet_id, reason)
            told = text if self._tells else None
            self._say(write_told(answer, self._version, told, self._longest))
            if qos == 2 and self._version != VERSION_5:  # It goes on with PUBREL, as if it were published.
                self._memory.received[packet_id] = "refused"
                self._memory.published.add(packet_id)

    def release(self, packet_id: int) -> None:
        """PUBREL has come."""
        if self._memory.received.pop(packet_id, None) is None:
            self._say(self._ack(PacketKind.PUBCOMP, packet_id, ReasonCode.PACKET_ID_NOT_FOUND))
        else:
            self._memory.published.discard(packet_id)
            self._released.append(packet_id)

    def finish(self) -> None:
        """All that came in this turn has been taken: publish it."""
        if self._released:
            released, self._released = self._released, []
            self._memory.mark_received()
            self._session.keep_marks(partial(self._complete, released))
        batch = self._batch
        if not batch.count:
            return
        self._batch = _Batch()
        try:
            self._room.access.publish(self._identity, batch.count, batch.size)
        except AccessError as error:
            self._refuse_batch(batch, str(error))
            return
        if self._queue or self.waits or batch.marked:
            self._queue.append(batch)
            self._advance()
        else:
            self._publish(batch)

    def _refuse_batch(self, batch: _Batch, text: str) -> None:
        for qos, packet_id in batch.acknowledged:
            if qos == 2:
                self._memory.received.pop(packet_id, None)
                self._in_progress.discard(packet_id)
            self._refuse(qos, packet_id, ReasonCode.QUOTA_EXCEEDED, text)

    def _complete(self, packet_ids: list[int]) -> None:
        for packet_id in packet_ids:
            self._say(self._ack(PacketKind.PUBCOMP, packet_id))

    def _advance(self) -> None:
        """Publish what waits, in order."""
        while self._queue and not self.waits:
            batch = self._queue.popleft()
            if batch.marked:
                self.waits = True
                self._memory.mark_received()
                self._session.keep_marks(partial(self._kept, batch))
            else:
                self._publish(batch)

    def _publish(self, batch: _Batch) -> None:
        for part in batch.parts[:-1]:
            self._room.publish(part, partial(self._settled_part, batch), self)
        self._room.publish(batch.parts[-1], partial(self._settled, batch), self)

    def _settled_part(self, batch: _Batch, reason: str | None) -> None:
        """The broker has answered about a part that is not the last of its batch."""
        if reason is not None:
            batch.refused = True
            self._fail_published(reason)

    def _kept(self, batch: _Batch) -> None:
        self.waits = False
        self._publish(batch)
        self._advance()

    def _settled(self, batch: _Batch, reason: str | None) -> None:
        """The broker has answered."""
        if reason is not None:
            self._fail_published(reason)
        if reason is not None or batch.refused:
            return
        said = []
        for qos, packet_id in batch.acknowledged:
            if qos == 1:
                self.unanswered -= 1
            else:
                self._in_progress.discard(packet_id)
                if packet_id in self._memory.received:
                    self._memory.published.add(packet_id)
            said.append(b"%c\2%c%c" % (_ANSWERS[qos] << 4, packet_id >> 8, packet_id & 255))
        if said:
            self._say(b"".join(said))

    def _fail_published(self, reason: str) -> None:
        self._fail(MqttError(ReasonCode.IMPLEMENTATION_SPECIFIC, f"not published: {reason}"))

    def _ack(self, kind: PacketKind, packet_id: int, reason: int = 0) -> bytes:
        return write_packet(AckPacket(kind, packet_id, reason), self._version)
